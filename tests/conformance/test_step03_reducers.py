"""Step 3, reducers whose state is not the contribution: LogSumExp, and user-defined reducers."""

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk

from ..launching import floats, launch_for, launch_reduce
from ..tolerance import assert_close

SIZES = [0, 1, 7, 8, 9, 100, 1000]


@pk.kernel
def entry(i, x):
    return x[i]


@floats
def test_log_of_a_sum_of_exponentials(space, dtype):
    for n in SIZES:
        x = (default_rng(n).normal(size=n) * 300 + 2000).astype(dtype)  # exp of each number overflows
        wanted = np.logaddexp.reduce(x.astype(np.float64)) if n else -np.inf
        assert_close(launch_reduce(n, entry, x, reducer=pk.LogSumExp), wanted, dtype, 2)


INF, NAN = np.inf, np.nan
SPECIAL = [
    ([-INF], -INF),
    ([INF], INF),
    ([INF, INF, -INF], INF),
    ([NAN, INF], NAN),
    ([-INF, NAN], NAN),
    ([1.0, -INF, 1.0], 1 + np.log(2)),
]


@pytest.mark.parametrize("special, wanted", SPECIAL)
def test_log_of_a_sum_of_infinite_exponentials(space, special, wanted):
    for at in (0, 11):
        x = np.full(at + 9, -np.inf)
        x[at : at + len(special)] = special
        assert_close(launch_reduce(len(x), entry, x, reducer=pk.LogSumExp), wanted, np.float64)


def merge(a, b):
    n = a[0] + b[0]
    if n == 0:
        return a
    d, share = b[1] - a[1], b[0] / n
    return n, a[1] + d * share, a[2] + b[2] + d * d * a[0] * share


def one_value(x):
    return 1, x, x * 0.0


def mean_and_variance(state):
    return state[1], state[2] / max(state[0] - 1, 1)


START = 0, 0.0, 0.0
Moments = pk.Reducer("Moments", merge, START, one_value, mean_and_variance)
Merged = pk.Reducer("Merged", merge, START)


@floats
def test_mean_and_variance_in_one_pass(space, dtype):
    for n in SIZES:
        x = (default_rng(n).normal(size=n) + 100).astype(dtype)
        mean, variance = launch_reduce(n, entry, x, reducer=Moments)
        wide = x.astype(np.float64)
        assert_close(mean, wide.mean() if n else 0.0, dtype, n)
        assert_close(variance, wide.var(ddof=1) if n > 1 else 0.0, dtype, n, scale=1.0)


@pk.kernel
def value_and_state(i, x):
    if x[i] < 0.0:
        return -x[i], (1, x[i], 0.0)
    return x[i], (1, x[i], 0.0)


def test_states_beside_numbers(space):
    x = default_rng(10).normal(size=50)
    log_sum, (n, mean, _) = launch_reduce(50, value_and_state, x, reducer=(pk.LogSumExp, Merged))
    assert_close(log_sum, np.logaddexp.reduce(np.abs(x)), np.float64, 2)
    assert n == 50 and isinstance(n, int)
    assert_close(mean, x.mean(), np.float64, 50, scale=1.0)


def as_complex(state):
    return complex(state[1], state[2])


def test_a_complex_result(space):
    reducer = pk.Reducer("Complex", merge, START, one_value, as_complex)
    assert launch_reduce(3, entry, np.array([1.0, 2.0, 3.0]), reducer=reducer) == 2 + 2j


def later(a, b):
    return max(a, b)


def place_if_positive(x, index):
    return index if x > 0.0 else -1


LastPositive = pk.Reducer("LastPositive", later, -1, place_if_positive)


def test_a_reducer_of_ones_own_may_use_the_index(space):
    x = np.array([-1.0] * 5 + [2.0] * 20 + [-3.0] * 6)
    assert launch_reduce(31, entry, x, reducer=LastPositive) == 24
    assert launch_reduce(31, entry, -np.abs(x), reducer=LastPositive) == -1


@pk.kernel
def row_moments(team, a, out):
    total = 0.0
    for j in team.thread_range(a.shape[1]):
        total += a[team.league_rank, j]
    mean, variance = team.reduce(total, Moments)  # of the members' sums
    log_sum = team.reduce(total, pk.LogSumExp)
    members = team.reduce(1)
    if team.single():
        out[team.league_rank, 0] = mean * members
        out[team.league_rank, 1] = variance
        out[team.league_rank, 2] = log_sum
    return mean * members


@pytest.mark.filterwarnings("ignore:.*parallel_for drops what `return mean")
def test_members_of_a_team_lift_and_finish_too(space):
    a = default_rng(11).random((3, 8)) * 100
    policy = pk.TeamPolicy(3, 8)
    out = launch_for(policy, row_moments, a, np.zeros((3, 3)))[1]
    assert_close(out[:, 0], a.sum(1), np.float64, 8)
    members = np.zeros((3, 8)) if space != "cuda" else np.zeros((3, 32))
    members[:, :8] = a
    assert_close(out[:, 1], members.var(1, ddof=1), np.float64, 8)
    assert_close(out[:, 2], np.logaddexp.reduce(members, axis=1), np.float64, 8)
    mean, variance = launch_reduce(policy, row_moments, a, out, reducer=Moments)
    assert_close([mean, variance], [a.sum(1).mean(), a.sum(1).var(ddof=1)], np.float64, 24)


@pk.kernel
def box_entry(i, j, x):
    return x[i, j]


def test_over_a_box(space):
    x = default_rng(12).random((7, 11))
    box = pk.MDRangePolicy((0, 0), x.shape)
    mean, variance = launch_reduce(box, box_entry, x, reducer=Moments)
    assert_close([mean, variance], [x.mean(), x.var(ddof=1)], np.float64, 77)
    last = launch_reduce(box, box_entry, np.where(x > 0.5, x, -x), reducer=LastPositive)
    assert last == tuple(np.argwhere(x > 0.5)[-1])
    assert launch_reduce(box, box_entry, -x, reducer=LastPositive) == -1


@pytest.mark.parametrize("reducer", [pk.LogSumExp, Moments], ids=str)
def test_states_have_the_same_bits_for_any_number_of_threads(reducer):
    n = 100_003
    x = default_rng(5).normal(size=n)
    results = {
        pk.parallel_reduce(pk.RangePolicy(0, n, space=s), entry, x, reducer=reducer)
        for s in ("serial", pk.Threads(2), pk.Threads(3))
    }
    assert len(results) == 1


VIEW = ("view", "float32", 1, True, False)
TABLE = ("view", "float32", 2, True, False)


@pytest.mark.parametrize("reducer", [pk.LogSumExp, Moments, LastPositive], ids=str)
@pytest.mark.parametrize(
    "kernel, kind, specs",
    [(entry, "range", (VIEW,)), (box_entry, "box2", (TABLE,)), (row_moments, "team", (TABLE, TABLE))],
)
def test_they_lower_to_ptx(kernel, kind, specs, reducer):
    """Lower reducers without a GPU; from float32 data without a float64 instruction."""
    from portable.core.machines.cuda.space import lower_to_ptx

    ptx = lower_to_ptx(kernel, kind, specs, (reducer,))
    assert "shfl.sync" in ptx and ".f64" not in ptx


# ---- wrong ones
def test_a_lambda_is_no_text():
    with pytest.raises(pk.LanguageError, match="lambda"):
        pk.Reducer("Largest", lambda a, b: max(a, b), 0)


Short = pk.Reducer("Short", merge, (0, 0.0), one_value)
Narrow = pk.Reducer("Narrow", later, (0, 0.0), place_if_positive)


def narrowing(a, b):
    return a[0] + b[0]


def nested(state):
    return state[0], state[1:]


UNFIT = [
    (Merged, "kernel 'entry' .*expected 3 number.s., got 1"),
    (Short, "kernel 'entry' .*2 number.s., but a state of 3"),
    (Narrow, "kernel 'entry' .*2 number.s., but a state of 1"),
    (pk.Reducer("Narrowing", narrowing, START, one_value), "Narrowing: combine .*3 number"),
    (pk.Reducer("Nested", merge, START, one_value, nested), "Nested: finish must return numbers"),
]


@pytest.mark.parametrize("reducer, words", UNFIT)
def test_states_that_do_not_fit_together(space, reducer, words):
    with pytest.raises(pk.LanguageError, match=words):
        launch_reduce(5, entry, np.ones(5), reducer=reducer)
