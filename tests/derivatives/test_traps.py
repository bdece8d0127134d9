"""Test each trap to 1e-12 of differences in 60 digits; the value has the same bits as without derivatives."""

import math
import pickle

import numpy as np
import pytest

import portable as pk

from ..launching import launch_for
from .exact import value_and_slopes
from .tables import made
from .traps import TRAPS, X, Y


TEXT = """
values_and_slopes(i, functions, slopes, x, y, out)
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

accumulated_each(i, x, t)
    return accumulated(x[i], t)
"""
values_and_slopes, accumulated_each = made(pk.kernel, TEXT, globals(), "<traps_kernel>")
FUNCTIONS = """
smallest(a, b)
    return min(a, b)

largest_numpy(a, b)
    return np.maximum(a, b)

size(a, b)
    return abs(a) + b

power(a, b)
    return a**b

stepped(a, b)
    return pk.floor(a) * b

scaled(x, n)
    return x * n * n

accumulated(x, t)
    total = pk.float64(0.0)
    for k in range(t.shape[0]):
        total += x * t[k]
    return total

of_two(x, t)
    return x * t[0] + x * t[1]
"""
smallest, largest_numpy, size, power, stepped, scaled, accumulated, of_two = made(
    pk.function, FUNCTIONS, globals(), "<traps_function>"
)


GROUPS = [TRAPS[k : k + 10] for k in range(0, len(TRAPS), 10)]


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g[0].name)
@pytest.mark.filterwarnings("ignore:kernel .* is a step")
def test_traps(space, group):
    slopes = tuple(pk.derivative(f, ("x", "y"), value=True) for f in group)
    out = np.zeros((len(group), 4, len(X)))
    *_, found = launch_for(len(X), values_and_slopes, tuple(group), slopes, X, Y, out, space=space)
    for f, (value, again, *derived) in zip(group, found):
        assert value.tobytes() == again.tobytes(), f.name
        for i, (x, y) in enumerate(zip(X.tolist(), Y.tolist())):
            _, *exact = value_and_slopes(f, x, y)
            for d, e in zip(derived, exact):
                assert abs(d[i] - e) <= 1e-12 * max(1.0, abs(e)), (f.name, x, y)


@pytest.mark.parametrize(
    ("function", "at", "slopes"),
    [
        (smallest, (2.0, 2.0), (1.0, 0.0)),
        (largest_numpy, (2.0, 2.0), (1.0, 0.0)),
        (largest_numpy, (2.0, math.nan), (0.0, 1.0)),
        (size, (0.0, 1.0), (0.0, 1.0)),
        (size, (-0.0, 1.0), (0.0, 1.0)),
        (power, (0.0, 2.0), (0.0, 0.0)),
        (power, (3.0, 0.0), (0.0, math.log(3.0))),
    ],
)
def test_where_there_is_no_derivative_the_rules_hold(function, at, slopes):
    assert pk.derivative(function, ("a", "b"))(*at) == pytest.approx(slopes, rel=1e-15, abs=0.0)


def test_derivatives_are_as_exact_as_their_numbers():
    """Products of int32 numbers do not wrap, and sums of float64 are not in float32."""
    assert pk.derivative(scaled, "x")(2.0, np.int32(100_000)) == 1e10
    t = np.random.default_rng(3).random(999).astype(np.float32)
    total, of_first = np.sum(t, dtype=float), np.sum(t[:2], dtype=float)
    assert pk.derivative(accumulated, "x")(np.float32(2.0), t) == pytest.approx(total, rel=1e-14)
    assert pk.derivative(of_two, "x")(np.float64(2.0), t) == of_first
    policy = pk.RangePolicy(0, 1, space="serial")
    _, slope = pk.parallel_reduce(policy, accumulated_each, np.ones(1, np.float32), t, gradient="x")
    assert slope[0] == np.float32(total)


def test_second_derivatives_of_a_power_at_zero():
    second = pk.derivative(power, ("a", "b"), value=True, order=2)
    log = math.log(0.7)
    assert second(0.7, 0.0) == pytest.approx((1.0, 0.0, log, 0.0, 1.0 / 0.7, log**2), rel=1e-14)
    assert second(0.0, 0.5)[4] == -math.inf
    assert pk.derivative(pk.derivative(power, "a"), "b")(0.7, 0.0) == pytest.approx(1.0 / 0.7, rel=1e-14)


def test_a_step_warns_once():
    with pytest.warns(
        RuntimeWarning, match=r"`pk.floor\(a\)` is a step function: its derivative is 0"
    ) as told:
        assert pk.derivative(stepped, ("a", "b"))(2.5, 3.0) == (0.0, 2.0)
        assert pk.derivative(stepped, "a")(2.5, np.float32(3.0)) == 0.0
    assert len(told) == 1


ARRAYS = "array_in_a_branch", "atomics_on_its_own", "sorted_by_hand", "first_of_several"


@pytest.mark.parametrize("f", [f for f in TRAPS if f.name in ARRAYS] + TRAPS[7::30], ids=lambda f: f.name)
@pytest.mark.filterwarnings("ignore:kernel .* is a step")
def test_second_derivatives_in_one_go_are_those_of_two_applications(f):
    _, dx, dy, dxx, dyx, dyy = pk.derivative(f, ("x", "y"), value=True, order=2)(1.3, 0.9)
    slopes = pk.derivative(f, ("x", "y"))
    (again_x, again_y), (xx, yx) = slopes(1.3, 0.9), pk.derivative(slopes, "x")(1.3, 0.9)
    xy, yy = pk.derivative(slopes, "y")(1.3, 0.9)
    assert (dx, dy) == (again_x, again_y)
    assert (dxx, dyx, dyx, dyy) == pytest.approx((xx, yx, xy, yy), rel=1e-12, abs=1e-12)


def test_a_derivative_is_pickled_by_its_text():
    slope = pk.derivative(TRAPS[0], "x")
    assert pickle.loads(pickle.dumps(slope))(1.3, 0.9) == slope(1.3, 0.9)
