"""Test duels: their order, missing peers, and disagreements."""

import io
import json
import re
import sys

import numpy as np
import pytest
from rich.console import Console

import portable as pk
from portable.roofline import compare, peers
from portable.roofline.cases.calls import kernels_alone
from portable.roofline.microkernels import copy
from portable.roofline.compare import Outcome, Row
from portable.roofline.contract import Contender, Duel
from portable.roofline.timing import Samples


def side(label, log=None, value=1.0, error=None):
    def call():
        if error:
            raise error
        if log is not None:
            log.append(label)

    return Contender(label, call, result=None if value is None else lambda: value)


def fight(*rivals, ours=None, tolerance=1e-6, absent=(), rounds=3):
    outcome = Outcome(Duel("work", ours or side("ours"), list(rivals), list(absent), tolerance))
    compare.run(outcome.duel, rounds, outcome)
    return outcome


def shown(outcome):
    text = io.StringIO()
    Console(file=text, width=200).print(outcome.table())
    return text.getvalue()


def test_ours_alternates_with_each_peer_in_turn():
    log = []
    fight(side("a", log), side("b", log), ours=side("ours", log))
    # a sample is a batch of calls
    turns = [label for k, label in enumerate(log) if k == 0 or log[k - 1] != label]
    first_b = turns.index("b")
    assert "b" not in turns[:first_b] and "a" not in turns[first_b:]
    # the last finds the number of calls in a batch, as for b
    assert turns[first_b - 7 : first_b] == ["ours", "a"] * 3 + ["ours"]
    assert turns[-6:] == ["ours", "b"] * 3


def test_each_row_has_both_times_and_their_ratio():
    outcome = fight(side("a"), side("b"))
    assert [row.peer for row in outcome.rows] == ["a", "b"]
    for row in outcome.rows:
        quotients = [p / o for p, o in zip(row.peer_seconds.values, row.ours_seconds.values, strict=True)]
        assert list(row.ratio.values) == quotients and len(quotients) == 3
        assert row.difference == 0.0
    assert not outcome.problems


def test_best_rounds_are_compared_where_a_duel_asks():
    row = Row("a", Samples((2.0, 3.0, 4.0)), Samples((1.0, 9.0, 9.0)), Samples((0.5, 3.0, 2.25)), 0.0)
    told = [shown(Outcome(Duel("work", side("ours"), [], best=best), [row])) for best in (True, False)]
    assert "best / best" in told[0] and " 0.5 " in told[0] and "best" not in told[1]
    assert row.as_dict()["best_over_best"] == 0.5


@pytest.mark.parametrize("value", [1.1, float("nan")])
def test_a_peer_that_disagrees_is_a_problem(value):
    outcome = fight(side("a", value=value))
    assert len(outcome.problems) == 1 and "a gave" in outcome.problems[0]


def test_sides_without_results_are_not_compared():
    outcome = fight(side("a", value=None))
    assert outcome.rows[0].difference is None and not outcome.problems


def test_a_peer_that_raises_is_listed_with_its_reason():
    outcome = fight(side("bad", error=RuntimeError("no device")), side("good"))
    assert outcome.absent == [("bad", "RuntimeError: no device")]
    assert [row.peer for row in outcome.rows] == ["good"]


def test_ours_is_timed_alone_where_no_peer_can_run():
    outcome = fight(absent=[("cupy", "ModuleNotFoundError: cupy")])
    assert outcome.alone.median > 0
    assert "none here" in shown(outcome)


def test_our_own_failure_is_a_problem_and_no_crash():
    outcome = fight(side("a"), ours=side("ours", error=ValueError("broken")))
    assert outcome.problems == ["ours, ours: ValueError: broken"] and not outcome.rows


def test_table_and_json_tell_the_same():
    outcome = fight(side("a"), absent=[("b", "gone")])
    document = json.loads(json.dumps(outcome.as_dict()))
    assert document["rows"][0]["peer"] == "a" and document["absent"] == [{"peer": "b", "reason": "gone"}]
    assert f"{document['rows'][0]['peer_over_ours']['median']:.3g}" in shown(outcome)


def test_bytes_become_a_rate():
    outcome = Outcome(Duel("work", side("ours"), [], bytes=1e6))
    assert outcome.rate(outcome.duel.bytes) is None  # not timed yet
    compare.run(outcome.duel, 3, outcome)
    assert outcome.rate(outcome.duel.bytes) == 1e6 / outcome.alone.median
    assert "ours moves" in shown(outcome) and outcome.as_dict()["bytes"] == 1e6
    assert "ours moves" not in shown(fight(side("a")))


def test_rows_are_told_as_they_come():
    """If a run is killed its measurements have been printed."""
    told = []
    outcome = Outcome(Duel("work", side("ours"), [side("a"), side("b")], [], 1e-6))
    compare.run(outcome.duel, 3, outcome, on_row=lambda row: told.append(outcome.told_row(row)))
    assert [line.split(",")[0].rpartition(" ours")[0] for line in told] == ["work: a:", "work: b:"]
    assert all("peer / ours" in line for line in told)


def test_a_missing_tool_is_absent_with_its_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)  # an import then fails as if it were not installed
    for name in ("launch_numba", "numba_threads"):
        monkeypatch.delitem(sys.modules, f"portable.roofline.peers.{name}", raising=False)
    found, absent = peers.gather("launch", "serial", 1, 10)
    assert not found
    assert absent[0][0] == "launch_numba" and "numba" in absent[0][1]


def test_what_a_call_s_kernels_take():
    x, policy = np.zeros(100), pk.RangePolicy(0, 100, space="serial")
    told = kernels_alone(lambda: [pk.parallel_for(policy, copy, x, x) for _ in range(3)])
    assert re.fullmatch(r"its kernels alone take [\d.]+ .?s, in 3 launches", told)
