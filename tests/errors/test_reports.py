"""Ninety-eight public reports of users of numba, Kokkos, Taichi, Warp, CuPy, JAX and CUDA.jl as programs of
this layer: right, beside plain NumPy, or refused with a remedy.

    python -m pytest tests/errors/test_reports.py -s    # prints the count
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import portable as pk
from portable.errors import PortableError

from . import report_kernels as k

X = np.array([0.25, 0.75, 1.5, -1.0, 0.5, 2.0])
GRID = np.arange(18.0).reshape(3, 6)
Z = np.exp(1j * np.arange(6.0))
A, B = np.array([7, -7, 7, -7, 0, 5]), np.array([3, 3, -3, -3, 2, -5])


def ran(kernel, *args, n=6, shape=6, dtype=float, policy=None):
    """Return an array of zeros, the kernel's last argument, after the launch."""
    out = np.zeros(shape, dtype)
    pk.parallel_for(n if policy is None else policy, kernel, *args, out)
    return out


def found(kernel, *args, n=6):
    """The kinds of what the checked space finds."""
    return {finding.kind for finding in pk.check(n, kernel, *args).findings}


def in_four_threads():
    def scan(_):
        out = np.zeros(6)
        pk.parallel_scan(pk.RangePolicy(0, 6, space="serial"), k.element, X, out=out)
        return out

    with ThreadPoolExecutor(4) as pool:
        return np.array(list(pool.map(scan, range(4))))


def floats_of(dtypes):
    return [[a // b if b else 0, a % b if b else 0] for a, b in zip(A.astype(dtypes), B.astype(dtypes))]


def boxed():
    z = np.exp(1j * np.arange(32.0)).reshape(2, 2, 2, 2, 2)
    got = ran(k.box, z, shape=(2,) * 4, policy=pk.MDRangePolicy((0,) * 4, (2,) * 4))
    return got, (z[..., 0] * z[..., 1]).real


def parts_written():
    table = np.zeros((6, 3))
    pk.parallel_for(6, k.part_of, table[:, 0], table[:, 2])
    return table, np.c_[np.arange(6.0), np.zeros(6), np.full(6, 10.0)]


def in_slots():
    n, out = np.zeros(1, np.int64), np.zeros((6, 2))
    pk.parallel_for(6, k.slots, X, n, out)
    return out[np.argsort(out[:3, 0])], [[1, 0.75], [2, 1.5], [5, 2.0]]


def slope():
    policy, h = pk.RangePolicy(0, 6, space="serial"), 1e-6
    value, slopes = pk.parallel_reduce(policy, k.energy, 0.5, X, gradient="h")
    by_difference = pk.parallel_reduce(policy, k.energy, 0.5 + h, X) - pk.parallel_reduce(
        policy, k.energy, 0.5 - h, X
    )
    return np.round(slopes, 4), np.round(by_difference / (2 * h), 4)


def updated():
    big = np.zeros((6, 1000))
    pk.parallel_for(6, k.small_updates, big, 3)
    return big.sum(0)[:4], [0, 6, 12, 0]


U = np.array([3, 2**63, 5, 7, 2**41, 1], np.uint64)
WORDS = [(int(u) + 1) & ~(1 << i) | (1 if u > 2**40 else 0) for i, u in enumerate(U)]
DRAWN = pk.random.normal(7, np.arange(6, dtype=np.uint64), 0) + pk.random.uniform(
    7, np.arange(6, dtype=np.uint64), 1
)
FOLLOWING = np.array([1, 2, 2, 4, 4, 3])
WRITTEN = np.array([3, 0, 1, 2, 4, 0])
T = k.TAPS

# reports; what the program gives, and what is right
RIGHT = {
    "numba#4922": lambda: (pk.parallel_reduce(6, k.counted, X), 3),
    "numba#7344": lambda: (10 + pk.parallel_reduce(6, k.counted, X), 13),
    "numba#2759": lambda: (pk.parallel_reduce(6, k.two_sums, X, reducer=(pk.Sum, pk.Sum)), (4.25, 6.0)),
    "numba#3681 numba#3522": lambda: (
        (ran(k.into_one, X)[0], found(k.racy, X, X.copy())),
        (X.sum(), {"race"}),
    ),
    "numba#4170 numba#6933": lambda: (ran(k.row_into_row, GRID, n=3, shape=(1, 6))[0], GRID.sum(0)),
    "numba#938": lambda: (ran(k.scaled_by(3.0, k.RATES), X), 3 * X + np.tile(k.RATES + T, 2)),
    "numba#3589": lambda: (ran(k.scaled_by(1.0, (1, 2, 4)), X), X + np.tile(k.RATES + T, 2)),
    "numba#897": lambda: (ran(k.of_fields), np.tile(k.FIELDS["b"], 3)),
    "numba#2189 numba#9084": lambda: (ran(k.of_a_large_array, np.arange(120_000)), np.arange(6) * 20_000),
    "numba#6549 numba#7314 numba#9340": lambda: (ran(k.of_local, pk.static(4)), 4 + 3 * np.arange(6)),
    "numba#4631 numba#10151 numba#7888": lambda: (ran(k.of_words, U, dtype=np.uint64).tolist(), WORDS),
    "numba#8652": lambda: (found(k.from_the_end, X, X.copy()), {"negative index"}),
    "numba#10261": lambda: (ran(k.of_an_enum, U, dtype=np.uint64).tolist(), [0, 0, 0, ~7 & 2**64 - 1, 0, 0]),
    "numba#2131 numba#8309 CUDA.jl#1994": lambda: (
        ran(k.complex_sum, Z, shape=2, dtype=complex),
        [Z[::2].sum() * 2j, Z[1::2].sum() * 2j],
    ),
    "numba-cuda-mlir#324 numba#7359 numba#1664": lambda: (
        ran(k.field_views, k.FIELDS["a"], k.FIELDS["b"], n=2, shape=2),
        [2, 12],
    ),
    "numba#4452 numba#5290 numba#2486": lambda: (ran(k.drawn), DRAWN),
    "numba#3705": lambda: (
        ran(k.backwards, GRID[:, :3], n=3, shape=(3, 3)),
        GRID[:, 2::-1] + GRID[0, :3][:, None],
    ),
    "numba#6481 numba#3353 numba#3314": lambda: (
        ran(k.in_other_shapes, X),
        [X.reshape(2, 3)[i % 2, 1] + X[i] + X.reshape(3, 2)[i % 3, 1] for i in range(6)],
    ),
    "numba#4917": lambda: (ran(k.column, GRID[:, 1], n=3, shape=3), GRID[:, 1] * 2),
    "numba#8010 numba#4402": lambda: (
        ran(k.halves, X.astype(np.float16), np.float32(X[::-1].copy()), dtype=bool),
        X < X[::-1],
    ),
    "numba#8785 numba#1504": lambda: (ran(k.of_a_tuple, X), X[0] + X * X[1] + 3 * X[2]),
    "codon#668": lambda: (ran(k.of_kinds), [T[i % 3] * (i, 2.5 * i, 4)[i % 3] for i in range(6)]),
    "numba#1394": lambda: (ran(k.loop_variable), np.full(6, 3.5)),
    "numba#9657 numba#2063 numba#7327 numba#7045": lambda: (
        found(k.one_branch, X, X.copy()),
        {"exception"},
    ),
    "numba#8268 numba#9647": lambda: (found(k.empty_loop, np.zeros(6, int), X.copy()), {"exception"}),
    "numba#523": lambda: (ran(k.set_later, 5), np.full(6, 11)),
    "numba#812": lambda: (ran(k.counters, WRITTEN), [m // 2 * 100 + m for m in WRITTEN]),
    "numba#9529": lambda: (ran(k.anew_each_trip, X), 3 * X),
    "numba#151 numba-cuda-mlir#184": lambda: (
        [ran(k.quotients, A.astype(t), B.astype(t), shape=(6, 2)).tolist() for t in "ilfd"],
        [np.array(floats_of(t)).tolist() for t in "ilfd"],
    ),
    "numba#7806": lambda: (
        ran(k.by_zero, np.array([0, -0.0, 2, 0, 4, 5])),
        [np.inf, -np.inf, 0.5, np.inf, 0, 0],
    ),
    "numba#7246 numba#5904": lambda: (
        ran(k.uneven),
        [sum(k.collatz(i + j + 1) for j in range(i % 5)) for i in range(6)],
    ),
    "numba#3213": lambda: (pk.parallel_reduce(100_000, k.element, np.ones(100_000)), 1e5),
    "kokkos#8103": boxed,
    "kokkos#8607": lambda: (pk.parallel_reduce(6, k.pairs, X, reducer=(pk.Sum, pk.Max)), (X.sum(), 4.0)),
    "kokkos#9291": lambda: (in_four_threads(), np.tile(np.cumsum(X), (4, 1))),
    "kokkos#1905 kokkos#5475 kokkos#796 kokkos#6921": lambda: (
        ran(k.one_after_another, np.ones(4), shape=2, policy=pk.TeamPolicy(2)),
        [1, 1],
    ),
    "kokkos#8165": parts_written,
    "taichi#4238 taichi#4324 taichi#8351": lambda: (
        ran(k.broken_off, np.array([1, 2, 7, 9], np.uint8)),
        [3, 0, 3, 0, 3, 0],
    ),
    "taichi#1471 taichi#1473": in_slots,
    "taichi#2590 taichi#1004": lambda: (
        ran(k.any_index, GRID, n=3, shape=3),
        [
            sum(GRID[i, j] * 2 * np.array([[1, 2], [3, 4]])[j % 2, i % 2] for j in range(i + 1))
            for i in range(3)
        ],
    ),
    "taichi#4257": lambda: (ran(k.walked, np.array([1, 2, 2, 4, 4, 3])), [2, 2, 2, 4, 4, 4]),
    "taichi#2100": lambda: (ran(k.stack), [1, 1, 3, 5, 9, 15]),
    "taichi#1555": lambda: (
        pk.parallel_reduce(1_000_000, k.element, np.full(1_000_000, 100, np.float32)),
        1e8,
    ),
    "taichi#5217 taichi#5932": lambda: (
        (
            pk.parallel_reduce(pk.RangePolicy(2**31 - 3, 2**31 + 3), k.place),
            pk.parallel_reduce(pk.MDRangePolicy((2**16 - 1, 2**16 - 1), (2**16 + 1, 2**16 + 1)), k.corner),
        ),
        (
            sum(i % 7 for i in range(2**31 - 3, 2**31 + 3)),
            sum((i + j) % 7 for i in (65535, 65536) for j in (65535, 65536)),
        ),
    ),
    "cupy#3095": lambda: (ran(k.column, np.broadcast_to(X[:1], 6)), np.full(6, 0.5)),
    "cupy#9750": lambda: (ran(k.real_parts, Z.real, Z.imag), Z.real + Z.imag),
    "warp#692 warp#1980 warp#331": lambda: (
        ran(k.loops),
        [18 + sum(range(2, i, 2)) + (list(range(2, i, 2)) or [i])[-1] for i in range(6)],
    ),
    "warp#977": lambda: (ran(k.whole_sum, np.full(6, 2**40), dtype=np.int64)[0], 6 * 2**40),
    "warp#818": lambda: (ran(k.window, X, 3), [X[i : i + 3].sum() + len(X[i : i + 3]) for i in range(6)]),
    "warp#1740 warp#174 warp#1293": slope,
    "jax#20056 jax#20406": lambda: (
        ran(k.shifted, GRID, n=3, shape=(3, 6)),
        np.c_[GRID[:, -3:].sum(1), GRID[:, :-1]],
    ),
    "jax#24145": lambda: (
        ran(k.scattered, np.array([[0, 1, 2, 3], [0, 2, 2, 3]]), n=2, shape=4),
        [0, 1, 3, 0],
    ),
    "jax#18897 jax#19058": lambda: (
        ran(k.recurrence, np.tile([[[1.0, 1], [0, 1]]], (2, 1, 1)), n=2, shape=(2, 2, 2)),
        [[[1, 5], [0, 1]]] * 2,
    ),
    "jax#40101": updated,
}

# reports; what is tried, and the remedy that the refusal names
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


def numbers(*tables):
    return [report for table in tables for row in table for report in row.split()]


@pytest.mark.parametrize("reports", RIGHT)
def test_what_a_report_wants_is_right(reports):
    with pk.use("serial"):
        got, wanted = RIGHT[reports]()
    if isinstance(wanted, (tuple, set)) and any(isinstance(part, set) for part in (*wanted, wanted)):
        assert got == wanted
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reports", REFUSED)
def test_what_is_refused_has_a_remedy(reports):
    launch, message = REFUSED[reports]
    with pk.use("serial"), pytest.raises(PortableError, match=message):
        launch()


def test_at_least_ninety_are_right():
    right, refused = numbers(RIGHT), numbers(REFUSED)
    print(f"\n{len(right)} of {len(right + refused)} reports right, {len(refused)} refused with a remedy")
    assert len({*right, *refused}) == len(right + refused) == 98 and len(right) >= 90
