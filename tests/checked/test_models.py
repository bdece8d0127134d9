"""Every kernel of models/ and docs/examples under `pk.check`: several schedules, and teams of 1, 2, 7 and 32.

A model is run by its public functions, as in tests/models/test_ptx.py: a new model joins there. Each launch that differs
from earlier ones in kernel or types is checked, as it stands, before it runs.
"""

import importlib
import inspect
import pkgutil
import runpy
import sys

import numpy as np
import pytest

import models
import portable as pk
from portable import view
from portable.backends.checked import trials
from portable.kernel import Kernel
from portable.policy import kind_of

from ..conformance.test_gate import EXAMPLES, KERNELS, REDUCTIONS, example
from ..examples.test_more_examples import MORE
from ..models.test_ptx import MODELS

# Models whose public functions need no kernels of their own, with the reason.
WITHOUT_KERNELS = {}


class Checking:
    """A listener that checks the first launch of each kernel for each policy and types."""

    def __init__(self):
        self.reports, self.kernels = {}, set()

    def __call__(self, phase, what, launch):
        if phase != "begin" or not isinstance(getattr(launch, "kernel", None), Kernel):
            return
        self.kernels.add(launch.kernel)
        key = launch.kernel, kind_of(launch.policy), tuple(map(describe, launch.args)), launch.reducers
        if key in self.reports or launch.scan:  # scans are watched as they run, in the model's own tests
            return
        self.reports[key] = pk.check(launch.policy, launch.kernel, *launch.args, reducer=launch.reducers or None)

    def accused(self):
        return [str(report) for report in self.reports.values() if not report.ok]


def describe(arg):
    if isinstance(arg, tuple):
        return tuple(map(describe, arg))
    return (arg.dtype.name, len(arg.shape)) if isinstance(arg, (np.ndarray, pk.View)) else type(arg)


def kernels_of(module):
    return {kernel for _, kernel in inspect.getmembers(module, lambda member: isinstance(member, Kernel))}


def test_every_model_is_here():
    """A package of models/ that has kernels is run by tests/models/test_ptx.py, and so by this file."""
    found = {info.name for info in pkgutil.iter_modules(models.__path__) if info.ispkg}
    with_kernels = {name for name in found if importlib.util.find_spec(f"models.{name}.kernels")}
    assert with_kernels <= set(MODELS) and found - with_kernels == set(WITHOUT_KERNELS)


@pytest.mark.parametrize("model", MODELS)
def test_no_kernel_is_accused(model, monkeypatch):
    monkeypatch.setattr(trials, "MANY", 20_000)  # of a large launch, further schedules visit this many accesses
    monkeypatch.setattr(view, "mark_all", True)  # so that a read of what a model only allocates is seen
    run, module = MODELS[model]
    checking = Checking()
    with pk.listening(checking):
        run()
    assert not checking.accused(), "\n".join(checking.accused())
    never_ran = {kernel.name for kernel in kernels_of(module) - checking.kernels}
    assert not never_ran


@pytest.mark.parametrize("name", KERNELS)
def test_no_example_of_the_gate_is_accused(name):
    module = example(name)
    kernel = getattr(module, KERNELS[name][0])
    policy, args, _ = module.make(40, np.float32, np.random.default_rng(1))
    report = pk.check(policy, kernel, *args, reducer=pk.Sum if name in REDUCTIONS else None)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", MORE)
def test_no_other_example_is_accused(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "serial"])
    checking = Checking()
    monkeypatch.setattr(trials, "MANY", 20_000)
    with pk.listening(checking):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert checking.kernels and not checking.accused(), "\n".join(checking.accused())
