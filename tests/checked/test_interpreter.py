"""The interpreter by itself: weak types in plain Python, members in turn, findings that name lines."""

import math
from math import exp as exponential

import numpy as np
import pytest

from portable import words
from portable.backends.checked.interpreter import run_for, run_reduce
from portable.errors import CheckError
from portable.policy import RangePolicy, TeamPolicy
from portable.reducer import MaxLoc, Sum


def types_of_results(i, x, out):
    out.extend(
        [type(math.exp(x[i])), type(exponential(x[i])), type(np.sqrt(x[i])), type(math.exp(0.5)), type(np.sqrt(2.0))]
    )


def test_functions_keep_the_dtype_and_weak_numbers_stay_weak():
    out = []
    run_for(RangePolicy(0, 1), types_of_results, (np.ones(1, np.float32), out))
    assert out == [np.float32, np.float32, np.float32, float, float]


def outside_the_domain(i, out):
    out[0] = math.log(0.0)
    out[1] = math.sqrt(-1.0)
    out[2] = exponential(1e4)
    out[3] = out[4] / 0.0


def test_numpys_error_model():
    out = np.ones(5)
    run_for(RangePolicy(0, 1), outside_the_domain, (out,))
    np.testing.assert_array_equal(out[:4], [-np.inf, np.nan, np.inf, np.inf])


def with_static(i, k, x):
    for a in range(words.static(2) + k):
        x[i] += 1


def test_marks_are_numbers():
    x = np.zeros(2)
    run_for(RangePolicy(0, 2), with_static, (words.static(3), x))
    np.testing.assert_array_equal(x, [5, 5])


def take_turns(team, log):
    log.append((team.league_rank, team.rank, "before"))
    team.barrier()
    log.append((team.league_rank, team.rank, "after"))


def test_members_run_in_the_order_of_ranks_and_wait_for_each_other():
    log = []
    run_for(TeamPolicy(2, 3), take_turns, (log,))
    assert log == [(team, rank, when) for team in range(2) for when in ("before", "after") for rank in range(3)]


def leaves_early(team, x):
    if team.rank == 1:
        return
    team.barrier()


def meets_elsewhere(team, x):
    if team.rank < 2:
        x[0] = team.reduce(1)
    else:
        team.barrier()


def asks_for_other_scratch(team, x):
    team.scratch(4 + team.rank, np.float64)


@pytest.mark.parametrize(
    "kernel, line, words_of_it",
    [
        (leaves_early, 4, ["member 0 of team 0 waits at team.barrier()", "member 1 has returned in line"]),
        (meets_elsewhere, 5, ["member 2 of team 0 waits at team.barrier()", "member 0 is at team.reduce() in line"]),
        (asks_for_other_scratch, 0, ["different scratch", "(4,)", "5"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_divergent_members_raise_instead_of_waiting(kernel, line, words_of_it):
    with pytest.raises(CheckError) as error:
        run_for(TeamPolicy(1, 3), kernel, (np.zeros(1),))
    message = str(error.value)
    assert f"kernel '{kernel.__name__}'" in message and all(word in message for word in words_of_it)
    if line:
        assert f"test_interpreter.py:{kernel.__code__.co_firstlineno + line - 1})" in message


def fails_at_two(i, x):
    x[i + 2] = 1.0


def test_an_index_outside_says_where_it_ran():
    with pytest.raises(CheckError) as error:
        run_for(RangePolicy(0, 4), fails_at_two, (np.zeros(4),))
    found, = error.value.findings
    assert (found.line, found.members, found.index, found.times) == (fails_at_two.__code__.co_firstlineno + 1, ("index 2",), (4,), 2)


def test_the_rest_of_a_launch_goes_on_where_an_index_fails():
    x = np.zeros(4)
    with pytest.raises(CheckError):
        run_for(RangePolicy(0, 4), fails_at_two, (x,))
    np.testing.assert_array_equal(x, [0, 0, 1, 1])


def reads_scratch(team, x):
    return team.scratch(2, np.float64)[team.rank], 1


def test_unwritten_scratch_is_reported():
    with pytest.raises(CheckError, match=r"uninitialised read: kernel 'reads_scratch' .* reads scratch\[0\]"):
        run_reduce(TeamPolicy(3, 2), reads_scratch, (None,), (MaxLoc, Sum))
