"""Run the examples beyond the ten of test_gate.py: each checks itself on every space, and is short."""

import runpy
import sys

import pytest

from ..conformance.test_gate import EXAMPLES, KERNELS
from ..conformance.test_gate import test_an_example_is_short as check_length

MORE = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem not in KERNELS)


def test_there_are_seven_more():
    assert MORE == "bitonic compact kalman kmeans life recurrence topk".split()


@pytest.mark.parametrize("name", MORE)
def test_it_checks_itself(space, name, monkeypatch, told):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", space])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert f"{name} on {space}" in told.out


@pytest.mark.parametrize("name", MORE)
def test_it_is_short(name):
    check_length(name)
