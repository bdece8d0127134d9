"""Step 22: scans of states of several numbers, which need not commute, compared with plain Python."""

import functools
import itertools

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.errors import CheckError, DTypeError, InputError, ShapeError

from ..launching import floats, move


SIZES = [0, 1, 8, 17, 257, 2049, 20_000]


@pk.function
def then(a, b):
    """Compose the maps a and b: x -> a[0] x + a[1], followed by b."""
    return a[0] * b[0], b[0] * a[1] + b[1]


@pk.function
def at_one(state):
    return state[0] + state[1]


MAPS = pk.Reducer("Maps", then, (1, 0))
VALUES = pk.Reducer("Values", then, (1, 0), finish=at_one)


@pk.function
def restarted(a, b):
    """Combine (True if a segment begins, its sum so far)."""
    return a[0] | b[0], b[1] if b[0] else a[1] + b[1]


@pk.function
def begins(value):
    return pk.int64(value[0] > 0), value[1]


@pk.function
def second(state):
    return state[1]


SEGMENTS = pk.Reducer("Segments", restarted, (0, 0.0), begins, second)


@pk.kernel
def affine(i, a, b):
    return a[i], b[i]


@pk.kernel
def flagged(i, starts, x):
    return starts[i], x[i]


def affordable(space):
    """Return sizes that are small enough for plain Python."""
    return [n for n in SIZES if space != "checked" or n <= 300]


def whole(n, seed=1):
    """Return maps whose compositions are exact: +-1 x + a small whole number."""
    random = default_rng(seed)
    return random.choice([-1.0, 1.0], n), random.integers(-3, 4, n).astype(float)


def composed(a, b):
    return list(
        itertools.accumulate(zip(a, b), lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), initial=(1.0, 0.0))
    )


def given(view):
    return view if isinstance(view, np.ndarray) else view.to_numpy()


@pytest.mark.parametrize("inclusive", [True, False])
def test_states_go_to_a_view_each(space, inclusive):
    for n in affordable(space):
        states_go_to_a_view_each(space, n, inclusive)


def states_go_to_a_view_each(space, n, inclusive):
    a, b = whole(n)
    outs = tuple(move(np.full(n, np.nan), space) for _ in range(2))
    total = pk.parallel_scan(
        pk.RangePolicy(0, n, space=space),
        affine,
        move(a, space),
        move(b, space),
        out=outs,
        reducer=MAPS,
        inclusive=inclusive,
    )
    wanted = composed(a, b)
    assert total == wanted[-1]
    for k, out in enumerate(outs):
        assert given(out).tolist() == [state[k] for state in (wanted[1:] if inclusive else wanted[:-1])]


@floats
def test_a_prefix_is_what_finish_makes_of_a_state(space, dtype):
    """Compute a linear recurrence, x_i = a_i x_(i-1) + b_i, starting with x = 1."""
    for n in affordable(space):
        recurrence(space, n, dtype)


def recurrence(space, n, dtype):
    a, b = (v.astype(dtype) for v in whole(n))
    out = move(np.zeros(n, dtype), space)
    total = pk.parallel_scan(
        pk.RangePolicy(0, n, space=space), affine, move(a, space), move(b, space), out=out, reducer=VALUES
    )
    wanted = [p + q for p, q in composed(a, b)]
    assert given(out).tolist() == wanted[1:] and total == wanted[-1]


def test_segments_restart(space):
    """Scan states of an integer and a float, lifted from flags and values."""
    for n in affordable(space):
        segments_restart(space, n)


def segments_restart(space, n):
    random = default_rng(2)
    starts, x = (random.random(n) < 0.05).astype(np.int32), random.integers(-8, 9, n) / 8
    out = move(np.zeros(n), space)
    pk.parallel_scan(
        pk.RangePolicy(0, n, space=space),
        flagged,
        move(starts, space),
        move(x, space),
        out=out,
        reducer=SEGMENTS,
    )
    wanted, total = [], 0.0
    for start, value in zip(starts, x):
        total = value if start else total + value
        wanted.append(total)
    assert given(out).tolist() == wanted


def test_the_bits_do_not_depend_on_threads():
    random = default_rng(3)
    a, b = random.random(100_000), random.normal(size=100_000)
    found = []
    for name in ("serial", "threads:2", "threads:5"):
        out = np.zeros(len(a))
        pk.parallel_scan(pk.RangePolicy(0, len(a), space=name), affine, a, b, out=out, reducer=VALUES)
        found.append(out.tobytes())
    assert len(set(found)) == 1


@pk.kernel
def in_a_team(team, a, b, slope, offset, at):
    i = team.league_rank * team.size + team.rank
    before = team.scan((a[i], b[i]), MAPS)
    slope[i] = before[0]
    offset[i] = before[1]
    at[i] = team.scan((a[i], b[i]), VALUES)


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("n", [960 * 4, 960 * 64 + 1, 300_001])
def test_a_recurrence_through_several_windows(n, inclusive):
    """A CPU scans several blocks concurrently, one window of them after the other: the same bits with any
    number of threads and lanes, in a replay, and in numba's threads."""
    rng = default_rng(11)
    a, b = rng.random(n), rng.random(n)
    level, wanted = 1.0, np.empty(n)  # VALUES begins at one
    for i in range(n):
        before, level = level, a[i] * level + b[i]
        wanted[i] = level if inclusive else before
    found = []
    for kernel in (affine, pk.kernel(affine.fn, packed=False), pk.kernel(affine.fn, packed=4)):
        for name in ("serial", "threads:2", "threads:3"):
            out, total = np.empty(n), np.empty(1)
            policy = pk.RangePolicy(0, n, space=name)
            scan = functools.partial(pk.parallel_scan, policy, kernel, a, b, out=out, reducer=VALUES)
            assert scan(inclusive=inclusive) == pytest.approx(level, rel=1e-12)
            found.append(out.copy())
            with pk.capture(name) as graph:
                scan(inclusive=inclusive, total=total)
            out[:] = 0.0
            graph.replay()
            found.append(out)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-12)
    assert all(out.tobytes() == found[0].tobytes() for out in found)


@pytest.mark.parametrize("size", [32, 128])
def test_members_scan_states(space, size):
    size = size if space == "cuda" else 4 if space == "checked" else 8
    a, b = whole(3 * size)
    views = [move(v) for v in (a, b, np.zeros(3 * size), np.zeros(3 * size), np.zeros(3 * size))]
    pk.parallel_for(pk.TeamPolicy(3, size), in_a_team, *views)
    for row in range(3):
        part = slice(row * size, (row + 1) * size)
        wanted = composed(a[part], b[part])[:-1]
        assert given(views[2])[part].tolist() == [p for p, _ in wanted]
        assert given(views[3])[part].tolist() == [q for _, q in wanted]
        assert given(views[4])[part].tolist() == [p + q for p, q in wanted]


def test_as_many_arrays_as_numbers_are_wanted(space):
    a, b = (move(v) for v in whole(4))
    policy, out, whole_numbers = (
        pk.RangePolicy(0, 4),
        move(np.zeros(4)),
        move(np.zeros(4, np.int64)),
    )
    with pytest.raises(ShapeError, match="2 array"):
        pk.parallel_scan(policy, affine, a, b, out=out, reducer=MAPS)
    with pytest.raises(ShapeError, match="1 array"):
        pk.parallel_scan(policy, affine, a, b, out=(out, out), reducer=VALUES)
    with pytest.raises(DTypeError, match="array of floats"):
        pk.parallel_scan(policy, affine, a, b, out=(out, whole_numbers), reducer=MAPS)
    with pytest.raises(ShapeError, match="at least 4"):
        pk.parallel_scan(policy, affine, a, b, out=(out, move(np.zeros(3))), reducer=MAPS)


ORDERED = pk.Reducer("Ordered", then, (1, 0), commutes=False)
ORDERED_VALUE = pk.Reducer("OrderedValue", then, (1, 0), finish=at_one, commutes=False)


def test_reductions_in_the_order_of_indices(space):
    for n in affordable(space):
        reductions_in_order(space, n)


def reductions_in_order(space, n):
    a, b = whole(n, seed=5)
    views = move(a, space), move(b, space)
    wanted = composed(a, b)[-1]
    assert pk.parallel_reduce(n, affine, *views, reducer=ORDERED) == wanted
    out = move(np.zeros(1), space) if space == "cuda" else pk.View(1, np.float64, space=space)
    assert pk.parallel_reduce(n, affine, *views, reducer=ORDERED_VALUE, out=out) is None
    assert given(out)[0] == sum(wanted)


@pk.kernel
def one_map(i, j, a):
    return a[i], a[j]


def test_what_does_not_commute_is_alone_and_over_a_range(space):
    a = move(np.ones(4))
    with pytest.raises(InputError, match="does not commute"):
        pk.parallel_reduce(pk.MDRangePolicy((0, 0), (2, 2)), one_map, a, reducer=ORDERED)
    with pytest.raises(InputError, match="does not commute"):
        pk.parallel_reduce(4, affine, a, a, reducer=(ORDERED, pk.Sum))


@pk.kernel
def teams_in_order(team, a, b, slope, offset):
    i = team.league_rank * team.size + team.rank
    s, o = team.reduce((a[i], b[i]), ORDERED)
    if team.single():
        slope[team.league_rank] = s
        offset[team.league_rank] = o


def test_members_are_combined_in_the_order_of_ranks(space):
    size = 4 if space == "checked" else 32 if space == "cuda" else 8
    a, b = whole(3 * size, seed=6)
    views = [move(v) for v in (a, b, np.zeros(3), np.zeros(3))]
    pk.parallel_for(pk.TeamPolicy(3, size), teams_in_order, *views)
    wanted = [composed(a[row * size :][:size], b[row * size :][:size])[-1] for row in range(3)]
    assert list(zip(given(views[2]), given(views[3]))) == wanted


def difference(a, b):
    return a - b


BROKEN = pk.Reducer("Difference", difference, 0)


@pk.kernel
def one_value(i, x):
    return x[i]


def test_the_checked_space_tries_what_a_reducer_promises():
    x = np.arange(6.0)
    with pytest.raises(CheckError, match="combine\\(combine\\(a, b\\), c\\) is") as raised:
        pk.parallel_reduce(pk.RangePolicy(0, 6, space="checked"), one_value, x, reducer=BROKEN)
    (finding,) = raised.value.findings
    assert finding.kind == "not associative" and finding.line == difference.__code__.co_firstlineno
    promised = pk.Reducer("Maps", then, (1, 0))
    a, b = whole(9)
    with pytest.raises(CheckError, match="commutes=False") as raised:
        pk.parallel_reduce(pk.RangePolicy(0, 9, space="checked"), affine, a, b, reducer=promised)
    assert {f.kind for f in raised.value.findings} == {"does not commute"}
    # in order
    pk.parallel_scan(pk.RangePolicy(0, 9, space="checked"), affine, a, b, out=(a, b), reducer=promised)


def test_reducers_that_round_are_not_accused():
    x = default_rng(1).normal(size=60) * 10.0 ** default_rng(2).integers(-8, 9, 60)
    for reducer in (pk.Sum, pk.Prod, pk.Max, pk.MinLoc, pk.LogSumExp):
        for dtype in ("float32", "float64"):
            pk.parallel_reduce(
                pk.RangePolicy(0, 60, space="checked"), one_value, x.astype(dtype), reducer=reducer
            )


def smaller(a, b):
    return min(a, b)


def far(value):
    return value * 1e30


FAR = pk.Reducer("Far", smaller, 1e300, far)


def test_numbers_beyond_float32_are_infinite_there_without_a_warning(space):
    x = move(np.full(3, 1e10, np.float32))
    assert pk.parallel_reduce(3, one_value, x, reducer=FAR) == np.inf
