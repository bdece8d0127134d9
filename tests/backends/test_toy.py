"""Test a backend of another package: found by its entry point, and run through the first steps of the
conformance suite.
"""

import os
import shutil
from pathlib import Path

import pytest

from ..processes import python
from ..conformance import run

TOY = Path(__file__).parent / "toy.py"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the environment of a process in which a package with the toy backend is installed."""
    site = tmp_path_factory.mktemp("site")
    shutil.copy(TOY, site / "toy_backend.py")
    about = site / "toy_backend-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-backend\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[portable.backends]\ntoy = toy_backend:TOY\n")
    return {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def test_the_toy_is_short():
    assert len(TOY.read_text().splitlines()) < 150


def test_the_toy_passes_the_first_steps(installed):
    assert run("toy", steps=(1, 2), environment=installed) == 0


PROGRAM = """
import subprocess
import sys

import numpy as np
import portable as pk
from portable.testing import assert_same_on_all_spaces

@pk.kernel
def double(i, x):
    x[i] *= 2.0

@pk.kernel
def twice(i, x):
    return 2.0 * x[i]

policy, x = pk.RangePolicy(0, 5, space="toy"), pk.copy_of(np.ones(5), "toy")
assert x.memory == "toy" and pk.unavailable_because("toy") is None and pk.concurrency("toy") == 1
assert pk.instances("toy", 2) == (pk.Space("toy", memory="toy"),) * 2
pk.plan(policy, double, x)()
with pk.capture("toy") as graph:
    pk.parallel_for(policy, double, x)
graph.replay()
assert (x.to_numpy() == 4.0).all() and pk.stamp("toy").seconds_since(pk.stamp("toy")) <= 0
pk.deep_copy(x, -1.0)
pk.deep_copy(x[1:], x[:-1])  # they overlap
pk.deep_copy(x[::2], 0.5)
assert x.to_numpy().tolist() == [0.5, -1, 0.5, -1, 0.5]
assert_same_on_all_spaces(pk.RangePolicy(0, 5), double, np.ones(5))
assert x.__dlpack_device__() == (12, 0) and not hasattr(x, "__cuda_array_interface__")
for refused in (lambda: pk.parallel_for(policy, double, np.ones(5)), lambda: np.asarray(x),
                lambda: pk.zeros(3, space="toy:1"), lambda: pk.parallel_reduce(policy, twice, x),
                lambda: pk.listing(policy, double, x), lambda: pk.count(policy, double, x)):
    try:
        refused()
    except pk.SpaceError as error:
        print(error)
    else:
        raise AssertionError("not refused")
told = subprocess.run([sys.executable, "-m", "portable", "info"], capture_output=True).stdout
assert b"as an example" in told
"""


def test_programs_use_it_by_its_name(installed, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = python(program, env=os.environ | installed, check=False)
    assert done.returncode == 0, done.stderr
    for words in (
        "launch runs on 'toy'",
        "'toy' has no reductions",
        "no machine code",
        "counted on 'serial' and 'threads' and 'numba', not on 'toy'",
    ):
        assert words in done.stdout
