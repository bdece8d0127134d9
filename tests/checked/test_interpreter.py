"""Test the interpreter of the checked space: weak types, NumPy's error model, members in turn, findings with
lines."""

import math
from math import exp as exponential

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from portable.errors import CheckError

CHECKED = {"space": "checked"}


@pk.kernel
def types_of_results(i, x, out, wide):
    out[0] = math.exp(x[i])
    out[1] = exponential(x[i]) * math.sqrt(2.0)
    out[2] = 0.1 + 0.2 * x[i]
    wide[0] = 0.1 + 0.2
    wide[1] = np.sqrt(x[i]) * pk.float64(0.1)


def test_functions_keep_the_dtype_and_weak_numbers_take_that_of_others():
    x, out, wide = np.full(1, 3, np.float32), np.zeros(3, np.float32), np.zeros(2)
    pk.parallel_for(pk.RangePolicy(0, 1, **CHECKED), types_of_results, x, out, wide)
    e = np.exp(x[0])
    assert out.tolist() == [e, e * np.float32(math.sqrt(2.0)), np.float32(0.1) + np.float32(0.2) * x[0]]
    assert wide.tolist() == [0.1 + 0.2, float(np.sqrt(x[0])) * 0.1]


@pk.kernel
def outside_the_domain(i, out):
    out[0] = math.log(0.0)
    out[1] = math.sqrt(-1.0)
    out[2] = exponential(1e4)
    out[3] = out[4] / 0.0
    out[4] = 0.0 / out[5]


def test_numpys_error_model():
    out = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    pk.parallel_for(pk.RangePolicy(0, 1, **CHECKED), outside_the_domain, out)
    assert_array_equal(out, [-np.inf, np.nan, np.inf, np.inf, np.nan, 0.0])


@pk.kernel
def with_static(i, k, x):
    for a in range(pk.static(2) + k):
        x[i] += 1


def test_marks_are_numbers():
    x = np.zeros(2)
    pk.parallel_for(pk.RangePolicy(0, 2, **CHECKED), with_static, pk.static(3), x)
    assert_array_equal(x, [5, 5])


@pk.kernel
def take_turns(team, count, log):
    log[pk.atomic_add(count, 0, 1)] = 10 * team.league_rank + team.rank
    team.barrier()
    log[pk.atomic_add(count, 0, 1)] = 100 + 10 * team.league_rank + team.rank


def test_members_run_in_the_order_of_ranks_and_wait_for_each_other():
    log = np.zeros(12, np.int64)
    pk.parallel_for(pk.TeamPolicy(2, 3, **CHECKED), take_turns, np.zeros(1, np.int64), log)
    assert log.tolist() == [
        100 * after + 10 * team + rank for team in range(2) for after in range(2) for rank in range(3)
    ]


@pk.kernel
def leaves_early(team, x):
    if team.rank == 1:
        return
    team.barrier()


@pk.kernel
def meets_elsewhere(team, x):
    if team.rank < 2:
        x[0] = team.reduce(1)
    else:
        team.barrier()


@pytest.mark.parametrize(
    "kernel, line, words_of_it",
    [
        (leaves_early, 4, ["member 0 of team 0 waits at team.barrier()", "member 1 has returned in line"]),
        (
            meets_elsewhere,
            5,
            ["member 2 of team 0 waits at team.barrier()", "member 0 is at team.reduce() in line"],
        ),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_divergent_members_are_told_instead_of_waiting(kernel, line, words_of_it):
    (found,) = pk.check(pk.TeamPolicy(1, 3), kernel, np.zeros(1), seeds=0, team_sizes=[3]).findings
    message = str(found)
    assert f"kernel '{kernel.name}'" in message and all(word in message for word in words_of_it)
    assert f"test_interpreter.py:{kernel.portable_text.line + line - 1})" in message


@pk.kernel
def fails_at_two(i, x):
    x[i + 2] = 1.0


def test_an_index_outside_says_where_it_ran_and_the_rest_of_a_launch_goes_on():
    x = np.zeros(4)
    with pytest.raises(CheckError) as error:
        pk.parallel_for(pk.RangePolicy(0, 4, **CHECKED), fails_at_two, x)
    (found,) = error.value.findings
    assert (found.line, found.members, found.index, found.times) == (
        fails_at_two.portable_text.line + 1,
        ("index 2",),
        (4,),
        2,
    )
    assert_array_equal(x, [0, 0, 1, 1])


@pk.kernel
def reads_scratch(team, x):
    return team.scratch(2, np.float64)[team.rank], 1


def test_unwritten_scratch_is_reported():
    with pytest.raises(CheckError, match=r"uninitialised read: kernel 'reads_scratch' .* reads scratch\[0\]"):
        pk.parallel_reduce(
            pk.TeamPolicy(3, 2, **CHECKED), reads_scratch, np.zeros(1), reducer=(pk.Max, pk.Sum)
        )


@pk.kernel
def given_in_one_branch(i, x):
    if x[i] > 0.0:
        late = 1.0
    x[i] = late


def test_a_name_without_a_value_is_told():
    (found,) = pk.check(3, given_in_one_branch, np.array([1.0, -1.0, 1.0])).findings
    assert (found.kind, found.line, found.members) == (
        "exception",
        given_in_one_branch.portable_text.line + 3,
        ("index 1",),
    )
    assert "'late'" in found.message


@pk.function
def halved(x):
    assert x > 0.0, "above zero"
    if x > 2.0:
        return 0.5 * x
    return x


@pk.kernel
def halves(i, x):
    x[i] = halved(x[i])


def test_assertions_of_functions():
    (found,) = pk.check(3, halves, np.array([1.0, -1.0, 4.0])).findings
    assert (found.kind, found.line, found.members) == (
        "assertion",
        halved.portable_text.line + 1,
        ("index 1",),
    )
    assert "above zero" in found.message
    x = np.array([1.0, 4.0])
    pk.parallel_for(pk.RangePolicy(0, 2, **CHECKED), halves, x)
    assert x.tolist() == [1.0, 2.0]
