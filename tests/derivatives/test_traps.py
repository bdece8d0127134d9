"""Each trap is right, to 1e-12 of differences in 60 digits, and the value has the bits it has without."""

import warnings

import numpy as np
import pytest

import portable as pk

from ..launching import launch_for
from .exact import value_and_slopes
from .traps import TRAPS

warnings.filterwarnings("ignore", "kernel .* is a step", RuntimeWarning)
X = np.array([0.31, 0.87, 1.13, 1.42, 1.91, 2.3, 0.55, 1.7, 2.61, 1.05, 0.73])
Y = np.array([1.23, 0.61, 0.87, 1.53, 1.86, 0.43, 2.2, 1.07, 0.92, 1.31, 0.71])


@pk.kernel
def values_and_slopes(i, functions, slopes, x, y, out):
    k = 0
    for f in functions:
        out[k, 0, i] = f(x[i], y[i])
        k += 1
    k = 0
    for d in slopes:
        v, dx, dy = d(x[i], y[i])
        out[k, 1, i] = v
        out[k, 2, i] = dx
        out[k, 3, i] = dy
        k += 1


GROUPS = [TRAPS[k : k + 10] for k in range(0, len(TRAPS), 10)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g[0].name)
@pytest.mark.filterwarnings("ignore:kernel .* is a step")
def test_traps(space, group):
    slopes = tuple(pk.derivative(f, ("x", "y"), value=True) for f in group)
    out = np.zeros((len(group), 4, len(X)))
    *_, found = launch_for(space, len(X), values_and_slopes, tuple(group), slopes, X, Y, out)
    for f, (value, again, *derived) in zip(group, found):
        assert value.tobytes() == again.tobytes(), f.name
        for i, (x, y) in enumerate(zip(X.tolist(), Y.tolist())):
            _, *exact = value_and_slopes(f, x, y)
            for d, e in zip(derived, exact):
                assert abs(d[i] - e) <= 1e-12 * max(1.0, abs(e)), (f.name, x, y)
