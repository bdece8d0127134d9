"""Test adjoints of kernels that overwrite, gather and scatter elements, by differences in 60 digits."""

import mpmath
import numpy as np
import pytest

import portable as pk

from ..launching import move
from .exact import DIGITS, STEP, plain
from .tables import made

RNG = np.random.default_rng(80)
N = 5
GIVEN = {"x": RNG.random(N + 2) + 0.2, "w": RNG.random(N) + 0.2, "rows": RNG.random((N, 6))}
GIVEN |= {"y": np.zeros(N), "out": np.zeros((N, 6))}
OF = {name: RNG.normal(size=GIVEN[name].shape) for name in ("w", "y", "out")}
TABLE = """
overwritten
    y[i] = w[i] * w[i]
    w[i] = w[i] * 3.0 * x[i]

overwritten_again
    w[i] *= x[i]
    w[i] += w[i] * w[i]
    y[i] = w[i] * x[i + 1]

carried
    for k in range(rows.shape[1]):
        w[i] = w[i] * rows[i, k] + x[i]
    y[i] = w[i] * x[i]

continued
    for k in range(6):
        if rows[i, k] > 0.5:
            w[i] = w[i] * 0.5
            continue
        w[i] = w[i] + rows[i, k] * x[i]

returned_early
    if w[i] > 0.6:
        w[i] = x[i] * w[i]
        return
    y[i] = w[i] * x[i + 1]
    w[i] = 1.0

root_in_place
    k = 0
    while abs(w[i] * w[i] - x[i]) > 1e-9 and k < 50:
        w[i] = 0.5 * (w[i] + x[i] / w[i])
        k += 1

neighbours
    y[i] = x[i] * x[i + 2] - pk.sin(x[i + 1]) * w[i]

from_the_end
    y[i] = x[i] * x[4 - i] * w[i * 3 % 5]

scattered
    pk.atomic_add(y, i * 3 % 5, x[i] * w[i])
    pk.atomic_sub(out, (i, 1), rows[i, 2] * x[i])

on_a_branch
    if x[i] > 0.7:
        w[i] = 2.0 * x[i] ** 2
    y[i] = w[i] * x[i]

further
    x[i + 1] = x[i + 1] * w[i]
    y[i] = x[i + 1] ** 2 * rows[i, 1]

each_once
    for k in range(rows.shape[1] - 2):
        out[i, k + 1] = rows[i, k] * x[i] * rows[i, k + 2]

by_slices
    out[i, 1:] = rows[i, :-1] * x[i]
    y[i] = rows[i, -4:].sum() * w[i] + rows[i, -9:3].sum()

aliased
    row, again = rows[i], rows[i, 1:]
    y[i] = row[1] * again[0] + row[:] @ row[:]

unsigned
    for k in range(pk.uint32(1), pk.uint32(i + 2)):
        w[i] = w[i] * rows[i, k] + x[i]

tied
    y[i] = max(x[i], x[i]) * min(w[i], w[i])

not_a_number
    gap = x[i] - x[i]
    y[i] = pk.where(gap == 0.0, w[i] * x[i], w[i] * pk.rsqrt(gap))

copied
    v = pk.local(6, pk.float64)
    v[:] = rows[i]
    for k in range(5):
        v[k + 1] = v[k + 1] * v[k] + x[i]
    out[i, :] = v[:]

swapped
    for k in range(3):
        rows[i, k], rows[i, 5 - k] = rows[i, 5 - k] * x[i], rows[i, k]
    y[i] = rows[i, 0] * rows[i, 4]
"""


KERNELS = made(pk.kernel, TABLE, globals(), "<kernels>", "i, x, w, rows, y, out")


def wanted(kernel):
    """Return the derivatives of the sum of the results by `OF`, by differences."""

    def total(name=None, at=None, step=0):
        arrays = {n: numbers(v) for n, v in GIVEN.items()}
        if name:
            arrays[name][at] += step
        for i in range(N):
            run(i, *arrays.values())
        return sum((arrays[n] * v).sum() for n, v in OF.items())

    with mpmath.workdps(DIGITS):
        run, numbers = plain(kernel), np.vectorize(mpmath.mpf, otypes=[object])
        return [
            [
                float((total(n, at, STEP) - total(n, at, -STEP)) / (2 * STEP))
                for at in np.ndindex(GIVEN[n].shape)
            ]
            for n in GIVEN
        ]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_adjoints(kernel, space):
    args, of = [move(v, space) for v in GIVEN.values()], {n: move(v, space) for n, v in OF.items()}
    before = [v.tobytes() for v in args if isinstance(v, np.ndarray)]
    found = pk.adjoint(pk.RangePolicy(0, N, space=space), kernel, *args, wrt=tuple(GIVEN), of=of)
    assert all(v.tobytes() == b for v, b in zip(args, before))
    for here, exact in zip(found, wanted(kernel)):
        here = here if isinstance(here, np.ndarray) else here.to_numpy()
        np.testing.assert_allclose(here.ravel(), exact, rtol=1e-12, atol=1e-12)
