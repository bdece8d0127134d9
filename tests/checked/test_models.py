"""Run every kernel of models/ and docs/examples in the checked space, and under `pk.check` in teams of 1, 2,
7 and 32.

A model is run by its public functions, as in tests/models/test_ptx.py: add a new model there.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from portable import models
import portable as pk
from portable.watch.checked import trials
from portable.core.language.kernel import Function, Kernel
from portable.core.places.policy import kind_of
from portable.testing import watching

from ..conformance.test_gate import EXAMPLES, KERNELS, REDUCTIONS, example
from ..examples.test_more_examples import MORE
from ..launching import hardly_optimised
from ..models.test_ptx import MODELS

# Kernels that those runs do not reach: they run in the checked space in tests/models/PACKAGE only, if it is
# requested there.
ELSEWHERE = {
    "hawkes": {"background_by_cells", "chain_background", "add_probability", "bin_quantile"},
    "resampling": {
        "excess",
        "average",
        "average_tiles",
        "decide",
        "overwrite",
        "trace",
        "weigh",
        "scan_tiles",
        "meet",
        "fill_stretches",
        "deviation_sums",
        "find_quantiles",
    },
    "tmap": {"maximise"},
    "mixture": {"relabel"},
}
PACKAGES = [info.name for info in pkgutil.iter_modules(models.__path__) if info.ispkg]
NAMES, PACKAGES = (
    sorted(names, key=lambda n: (n[:4] != "tmap", n)) for names in (MODELS, PACKAGES)
)  # the quickest first


class Checking:
    """Listener that checks the first launch of each kernel for each policy and types, with its arguments at
    that time, in teams of other sizes.

    Kernels that name `team.size` are not checked: they may lay out arrays by it, for other kernels with teams
    of that size. The model's tests compare their results between spaces.
    """

    def __init__(self):
        self.reports, self.kernels = {}, set()

    def __call__(self, phase, what, launch):
        if phase != "begin" or not isinstance(getattr(launch, "kernel", None), Kernel):
            return
        self.kernels.add(launch.kernel.name)
        key = launch.kernel, kind_of(launch.policy), tuple(map(describe, launch.args)), launch.reducers
        if key not in self.reports and not launch.scan and not names_its_size(launch.kernel):
            self.reports[key] = pk.check(
                launch.policy, launch.kernel, *launch.args, reducer=launch.reducers or None
            )

    def accused(self):
        return [str(report) for report in self.reports.values() if not report.ok]


def describe(arg):
    if isinstance(arg, tuple):
        return tuple(map(describe, arg))
    return (arg.dtype.name, len(arg.shape)) if isinstance(arg, (np.ndarray, pk.View)) else type(arg)


def names_its_size(kernel):
    """Return True if a kernel, or a function that it calls, mentions the size of its team."""
    text = kernel.portable_text
    called = {
        value
        for node in ast.walk(text.tree)
        if isinstance(node, (ast.Name, ast.Attribute))
        if isinstance(value := mentioned(text, node), Function)
    }
    return "team.size" in ast.unparse(text.tree) or any(map(names_its_size, called))


def mentioned(text, node):
    if isinstance(node, ast.Attribute):
        return getattr(mentioned(text, node.value), node.attr, None)
    return text.scope.get(node.id) if isinstance(node, ast.Name) else None


@functools.cache
def checked(run):
    """Run a model's public functions in the checked space, under a seed that interleaves members at
    accesses."""
    checking, before = Checking(), trials.MANY
    trials.MANY = 10_000  # number of accesses that further schedules of a large launch visit
    try:
        with hardly_optimised(), watching(seed=1), pk.listening(checking, into_graphs=True):
            run(list)
    finally:
        trials.MANY = before
    return checking


@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_is_accused(name):
    checking = checked(MODELS[name][0])
    assert checking.reports and not checking.accused(), "\n".join(checking.accused())


@pytest.mark.parametrize("package", PACKAGES)
def test_every_kernel_of_a_model_ran(package):
    """If a kernel is missing here it is missing in tests/models/test_ptx.py, too, whose run of the model
    should reach every kernel."""
    runs = {run for name, (run, _) in MODELS.items() if name.partition(",")[0] == package}
    ran = set().union(*(checked(run).kernels for run in runs))
    wanted = set()
    for path in Path(models.__path__[0], package).glob("*.py"):
        if re.search(r"^@pk\.kernel", path.read_text(), re.MULTILINE):
            module = importlib.import_module(f"portable.models.{package}.{path.stem}")
            wanted |= {
                k.name for _, k in inspect.getmembers(module, lambda member: isinstance(member, Kernel))
            }
    assert wanted and not wanted - ran - ELSEWHERE.get(package, set())


@pytest.mark.parametrize("name", KERNELS)
def test_no_example_of_the_gate_is_accused(name):
    module = example(name)
    kernel = getattr(module, KERNELS[name][0])
    policy, args, _ = module.make(40, np.float32, np.random.default_rng(1))
    report = pk.check(policy, kernel, *args, reducer=pk.Sum if name in REDUCTIONS else None)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", MORE)
def test_no_other_example_is_accused(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "checked"])
    checking = Checking()
    monkeypatch.setattr(trials, "MANY", 10_000)
    with pk.listening(checking):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert checking.kernels and not checking.accused(), "\n".join(checking.accused())
