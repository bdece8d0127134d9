"""Run each attack of the table a few times, in a separate process; `python -m tests.hostile` repeats them at
random."""

import importlib.util
import os

import pytest

from .__main__ import tried
from .attacks import ATTACKS, attack

NEEDS = {
    "joblib_after_a_launch": "joblib",
    "dask_after_a_launch": "dask",
    "pickles_of_everything": "cloudpickle",
}
SLOW = {
    *"""
exits environments values_of_static kernels_that_come_and_go launches_plans_and_graphs
processes_by_spawn processes_by_forkserver processes_of_concurrent_futures
forks_while_others_call_a_plan handler_that_calls_a_plan one_graph_in_four_threads
dask_after_a_launch
""".split()
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks and signals of POSIX")
@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in {*SLOW, "a_subinterpreter"}])
def test_attack(name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    wrong = tried(name, seed=1)
    assert wrong is None, wrong


def test_a_subinterpreter_is_refused():
    """NumPy is imported before portable, so its refusal of subinterpreters may come first."""
    assert tried("a_subinterpreter", seed=1) is None


def test_an_attack_that_does_not_hold_is_told(monkeypatch, told):
    from . import __main__ as command

    monkeypatch.setattr(command, "ATTACKS", {})

    @attack(1)
    def fails(random, times):
        raise AssertionError

    command.ATTACKS["fails"] = ATTACKS.pop("fails")
    monkeypatch.setattr(command, "tried", lambda name, seed: "exit status 1")
    assert command.main("--minutes 0.0001 --seed 3".split()) == 1
    assert "fails" in told.out
