"""Run public reports of users of numba, Kokkos, Taichi, Warp, CuPy and CUDA.jl as programs of this layer: the
result equals that of NumPy, or the error names a remedy. Reports whose constructs are in the conformance
suite are tested there.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk
from portable.errors import PortableError

from . import report_kernels as k

X = np.array([0.25, 0.75, 1.5, -1.0, 0.5, 2.0])
GRID = np.arange(18.0).reshape(3, 6)
Z = np.exp(1j * np.arange(6.0))
BOX = np.exp(1j * np.arange(32.0)).reshape(2, 2, 2, 2, 2)
BITS = np.array([3, 2**63, 5, 7, 2**41, 1], np.uint64)
TIMES = np.array([3, 0, 1, 2, 4, 0])
T = k.TAPS


def ran(kernel, *args, n=6, shape=6, dtype=float, policy=None):
    """Return an array of zeros, the kernel's last argument, after the launch."""
    out = np.zeros(shape, dtype)
    pk.parallel_for(n if policy is None else policy, kernel, *args, out)
    return out


# reports; the result of the program, and the right result
RIGHT = {
    "numba#4170 numba#6933": lambda: (ran(k.row_into_row, GRID, n=3, shape=(1, 6))[0], GRID.sum(0)),
    "numba#938": lambda: (ran(k.scaled_by(3.0, k.RATES), X), 3 * X + np.tile(k.RATES + T, 2)),
    "numba#897": lambda: (ran(k.of_fields), np.tile(k.FIELDS["b"], 3)),
    "numba#6549 numba#7314 numba#9340": lambda: (ran(k.of_local, pk.static(4)), 4 + 3 * np.arange(6)),
    "numba#10261": lambda: (
        ran(k.of_an_enum, BITS, dtype=np.uint64).tolist(),
        [0, 0, 0, ~7 & 2**64 - 1, 0, 0],
    ),
    "numba#2131 numba#8309 CUDA.jl#1994": lambda: (
        ran(k.complex_sum, Z, shape=2, dtype=complex),
        [Z[::2].sum() * 2j, Z[1::2].sum() * 2j],
    ),
    "numba#3705": lambda: (
        ran(k.backwards, GRID[:, :3], n=3, shape=(3, 3)),
        GRID[:, 2::-1] + GRID[0, :3][:, None],
    ),
    "numba#6481 numba#3353 numba#3314": lambda: (
        ran(k.in_other_shapes, X),
        [X.reshape(2, 3)[i % 2, 1] + X[i] + X.reshape(3, 2)[i % 3, 1] for i in range(6)],
    ),
    "codon#668": lambda: (ran(k.of_kinds), [T[i % 3] * (i, 2.5 * i, 4)[i % 3] for i in range(6)]),
    "numba#523": lambda: (ran(k.set_later, 5), np.full(6, 11)),
    "numba#812": lambda: (ran(k.counters, TIMES), [m // 2 * 100 + m for m in TIMES]),
    "numba#9529": lambda: (ran(k.anew_each_trip, X), 3 * X),
    "kokkos#8103": lambda: (
        ran(k.box, BOX, shape=(2,) * 4, policy=pk.MDRangePolicy((0,) * 4, (2,) * 4)),
        (BOX[..., 0] * BOX[..., 1]).real,
    ),
    "taichi#2590 taichi#1004": lambda: (
        ran(k.any_index, GRID, n=3, shape=3),
        [
            sum(GRID[i, j] * 2 * np.array([[1, 2], [3, 4]])[j % 2, i % 2] for j in range(i + 1))
            for i in range(3)
        ],
    ),
    "taichi#2100": lambda: (ran(k.stack), [1, 1, 3, 5, 9, 15]),
    "taichi#1555": lambda: (
        pk.parallel_reduce(1_000_000, k.element, np.full(1_000_000, 100, np.float32)),
        1e8,
    ),
    "cupy#3095": lambda: (ran(k.column, np.broadcast_to(X[:1], 6)), np.full(6, 0.5)),
    "jax#24145": lambda: (
        ran(k.scattered, np.array([[0, 1, 2, 3], [0, 2, 2, 3]]), n=2, shape=4),
        [0, 1, 3, 0],
    ),
}

# reports; the attempt, and the remedy that the error names
REFUSED = {
    "numba#7697 numba#507": (lambda: ran(k.recursive), "'factorial' calls itself.*a stack in a pk.local"),
    "numba#136": (lambda: ran(k.mutual), "calls itself.*write a loop"),
    "numba#1845": (lambda: ran(k.over_slices, X), "'sum_of' calls itself"),
    "taichi#4478": (lambda: ran(k.float_bounds, 2.5), "the bounds are integers.*int"),
    "cupy#5721": (lambda: ran(k.column, np.zeros((1,) * 7)), "6: .*reshape"),
    "kokkos#1986": (
        lambda: ran(k.scan_in_a_share, np.ones(4), policy=pk.TeamPolicy(1)),
        "every member must get here",
    ),
}


@pytest.mark.parametrize("reports", RIGHT)
def test_what_a_report_wants_is_right(reports):
    with pk.use("serial"):
        got, wanted = RIGHT[reports]()
    assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reports", REFUSED)
def test_what_is_refused_has_a_remedy(reports):
    launch, message = REFUSED[reports]
    with pk.use("serial"), pytest.raises(PortableError, match=message):
        launch()
