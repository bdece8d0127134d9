"""Step 35, products of a team's tiles: chains of fma in ascending k, the same bits everywhere."""

import itertools

import numpy as np
import pytest

import portable as pk
from portable.core.machines.cuda.space import lower_to_ptx
from portable.library.texts.product import in_order
from portable.errors import KernelError

from ..launching import floats, launch_for

ODD = [0.0, -0.0, 5e-324, -3e-310, 1e-45, 1e30, -1.0, np.inf, np.nan]


@pk.kernel
def of_views(team, m, n, how, a, b, c):
    own = team.tile((m, n), c.dtype)
    for e, i, j in team.elements(own):
        if i < m and j < n:
            own[e] = c[i, j]
    if how == 0:
        team.product(own, a, b)
    elif how == 1:
        team.product(own, a.T, b.T)
    else:
        team.product(own, a[1:, :], b[:, 1:])
    for e, i, j in team.elements(own):
        if i < m and j < n:
            c[i, j] = own[e]


@pk.kernel
def of_scratch(team, m, n, k, a, b, c):
    x, y, z = team.scratch((m, k), c.dtype), team.scratch((k, n + 4), c.dtype), team.scratch((m, n), c.dtype)
    for e in team.thread_range(m * k):
        x[e // k, e % k] = a[e // k, e % k]
    for e in team.thread_range(k * n):
        y[e // n, e % n] = b[e // n, e % n]
    for e in team.thread_range(m * n):
        z[e // n, e % n] = c[e // n, e % n]
    team.barrier()
    team.product(z, x, y[:, :n])
    team.barrier()
    for e in team.thread_range(m * n):
        c[e // n, e % n] = z[e // n, e % n]


def numbers(rng, shape, dtype, odd):
    values = rng.normal(size=shape) * 2.0 ** rng.integers(-20, 20, size=shape)
    if odd:
        values = np.where(rng.random(shape) < 0.2, rng.choice(ODD, size=shape), values)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def wanted(a, b, c):
    """Compute chains of fma, one index of k after the other."""
    with np.errstate(all="ignore"):
        c = c.copy()
        for k, i, j in itertools.product(range(a.shape[1]), *map(range, c.shape)):
            c[i, j] = pk.fma(a[i, k], b[k, j], c[i, j])
    return c


def same_bits(found, want):
    assert np.array_equal(found, want, equal_nan=True)
    assert np.array_equal(np.signbit(found[found == 0]), np.signbit(want[want == 0]))


def check(space, dtype, shape, *, team=32, odd=False, hows=(0, 1)):
    m, n, k = shape
    rng = np.random.default_rng([0, *shape])
    a, b, c = (numbers(rng, s, dtype, odd) for s in ((m, k), (k, n), (m, n)))
    want, policy = wanted(a, b, c), pk.TeamPolicy(1, team)
    for how in hows:
        given = [(a, b), (a.T.copy(), b.T.copy()), (np.vstack([a[:1], a]), np.hstack([b[:, :1], b]))][how]
        *_, found = launch_for(policy, of_views, *map(pk.static, (m, n, how)), *given, c, space=space)
        same_bits(found, want)
    *_, found = launch_for(policy, of_scratch, *map(pk.static, shape), a, b, c, space=space)
    same_bits(found, want)


@pytest.mark.parametrize(
    ("dtype", "shape", "team"),
    [
        (np.float64, (1, 1, 1), 32),
        (np.float64, (16, 8, 4), 32),
        (np.float64, (33, 31, 18), 128),
        (np.float64, (5, 33, 3), 64),
        (np.float32, (17, 9, 7), 32),
        (np.float32, (33, 33, 9), 64),
    ],
)
def test_a_product_is_a_chain_of_fma(space, dtype, shape, team):
    check(space, dtype, shape, team=4 if space == "checked" else team, odd=shape[2] < 10, hows=(0, 1, 2))


@pytest.mark.slow
@floats
@pytest.mark.parametrize("m", range(1, 34))
def test_products_of_all_small_shapes(space, dtype, m):
    if space == "checked" and m % 8 != 1:
        pytest.skip("plain Python is slow")
    for k in {1, 2, 3, 4, 5, m, 33}:
        check(space, dtype, (m, 34 - m, k), odd=True, hows=(0,))
        check(space, dtype, (m, m, k), team=96, hows=(1,))


def test_tensor_cores_are_asked_for_their_order(space):
    """A kernel that requests the order counts all of its numbers where products are certainly chains of
    fma."""
    assert launch_for(pk.TeamPolicy(1, 32), in_order, np.zeros(1, np.int64))[0] == 128


@pytest.mark.parametrize(("capability", "steps"), [((9, 0), True), ((8, 0), False)])
def test_float64_goes_to_tensor_cores_of_devices_that_have_them(capability, steps):
    for dtype in ("float64", "float32"):
        specs = *[("static", n) for n in (16, 8, 0)], *[("view", dtype, 2, True, False)] * 3
        ptx = lower_to_ptx(of_views, "team", specs, (), 32, capability)
        assert ("mma.sync" in ptx) == (steps and dtype == "float64")
        assert dtype == "float64" or ".f64" not in ptx


@pk.kernel
def unknown_sum(team, a, b, c):
    team.product(c, a, b)


@pk.kernel
def does_not_fit(team, a, b, c):
    team.product(team.tile((4, 4), a.dtype), team.scratch((5, 4), a.dtype), b)


@pk.kernel
def two_dtypes(team, a, b, c):
    team.product(team.tile((4, 4), pk.float32), a, b)


@pk.kernel
def into_a_factor(team, a, b, c):
    x = team.scratch((4, 4), a.dtype)
    team.product(x, x.T, b)


@pk.kernel
def of_a_row(team, a, b, c):
    team.product(team.tile((4, 4), a.dtype), a[0], b)


@pk.kernel
def of_some_members(team, a, b, c):
    own = team.tile((4, 4), a.dtype)
    if team.rank < 2:
        team.product(own, a, b)


@pk.kernel
def no_tile(team, a, b, c):
    for e, i, j in team.elements(a):
        c[i, j] = 0.0


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (unknown_sum, "known at compile time"),
        (does_not_fit, "extents do not match: 4 and 5"),
        (two_dtypes, "float32, float64 and float64"),
        (into_a_factor, "'team.scratch((4, 4), a.dtype)' is the result and a factor"),
        (of_a_row, "two dimensions"),
        (of_some_members, "every member must get here"),
        (no_tile, "elements takes a team.tile"),
    ],
)
def test_what_is_no_product_is_refused_with_its_line(space, kernel, words):
    with pytest.raises(KernelError, match="test_step35_products.py:") as refused:
        launch_for(pk.TeamPolicy(1, 4), kernel, *(np.zeros((4, 4)) for _ in range(3)))
    assert words in str(refused.value)


@pk.kernel
def not_waited_for(team, a, c):
    x, own = team.scratch((4, 4), a.dtype), team.tile((4, 4), a.dtype)
    for e in team.thread_range(16):
        x[e // 4, e % 4] = a[e // 4, e % 4]
    team.product(own, x, a)
    for e, i, j in team.elements(own):
        if i < 4 and j < 4:
            c[i, j] = own[e]


def test_the_checked_space_finds_a_factor_that_is_not_there_yet():
    report = pk.check(pk.TeamPolicy(1, 4), not_waited_for, np.ones((4, 4)), np.zeros((4, 4)))
    assert "missing barrier" in str(report)
