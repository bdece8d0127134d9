"""Test portable.testing and the pytest plugin, as the tests of another project use them."""

import functools
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import portable as pk
from portable.testing import assert_same_on_all_spaces, watching

from .case import broken
from .gallery_of_indices import X, backward_difference, forward_difference, histogram, zeros
from .gallery_of_teams import FOUR, arrays, reverse

pytest_plugins = "pytester"


@pk.kernel
def square(i, x):
    return x[i] * x[i]


@pk.kernel
def lanes_of_this_machine(team, out):
    if team.single():
        out[team.league_rank] = team.size


def test_spaces_agree():
    x, out = arrays()
    assert_same_on_all_spaces(FOUR, reverse, x, out)
    assert_same_on_all_spaces(12, histogram, X, zeros(8, np.int64))
    assert_same_on_all_spaces(12, backward_difference, X, zeros())
    assert_same_on_all_spaces(12, functools.partial(square, x=X), reducer=pk.MaxLoc)
    assert not out.any()


class Pair(NamedTuple):
    x: object
    out: object


@pk.kernel
def doubled(i, pair):
    pair.out[i] = 2.0 * pair.x[i + 1]


def test_fields_keep_their_names():
    pair = Pair(X, zeros())
    assert_same_on_all_spaces(11, doubled, pair)
    assert not pair.out.any()
    (found,) = pk.check(12, doubled, pair).findings
    assert (found.kind, found.view, found.index) == ("out of bounds", "pair.x", (12,))


def test_spaces_that_differ_are_told():
    with pytest.raises(
        AssertionError, match=r"lanes_of_this_machine.*out\[0\] is 3 on 'checked' and 8 on 'serial'"
    ):
        assert_same_on_all_spaces(pk.TeamPolicy(2, 3), lanes_of_this_machine, np.zeros(2, np.int64))


def test_a_defect_is_told_before_spaces_are_compared():
    with pytest.raises(pk.CheckError, match="race"):
        assert_same_on_all_spaces(12, broken(histogram), X, zeros(8, np.int64))


def test_launches_that_name_a_space_of_the_host_are_watched_too():
    out = np.zeros((3, 12))
    policy = pk.TeamPolicy(3, 4, space="serial")
    pk.parallel_for(policy, broken(reverse), arrays()[0], out)
    with watching() as launches, pytest.raises(pk.CheckError, match="missing barrier"):
        pk.parallel_for(policy, broken(reverse), arrays()[0], out)
    assert launches == {"checked": 1, "elsewhere": 0}
    pk.parallel_for(policy, broken(reverse), arrays()[0], out)


def test_the_seed_is_used():
    with watching(seed=5), pytest.raises(pk.CheckError) as error:
        pk.parallel_for(12, broken(forward_difference), X, zeros())
    assert error.value.findings[0].seed == 5


PROJECT = """
import numpy as np
import portable as pk

@pk.kernel
def shift(i, x):
    x[i] = x[(i + 1) % x.shape[0]]

@pk.kernel
def double(i, x):
    x[i] *= 2.0

def test_races():
    pk.parallel_for(pk.RangePolicy(0, 8, space="threads"), shift, np.ones(8))

def test_is_right():
    pk.parallel_for(8, double, np.ones(8))
"""


def test_the_plugin(pytester, monkeypatch):
    paths = str(Path(pk.__file__).parents[1]), os.environ.get("PYTHONPATH", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    monkeypatch.setenv("PORTABLE_SPACE", "threads")
    pytester.makepyfile(PROJECT)
    pytester.runpytest_subprocess("-p", "portable_pytest").assert_outcomes(passed=2)
    watched = pytester.runpytest_subprocess("-p", "portable_pytest", "--portable-check")
    watched.assert_outcomes(passed=1, failed=1)
    watched.stdout.fnmatch_lines(["*race: kernel 'shift'*", "*portable-check: 2 launches were watched*"])
    both = pytester.runpytest_subprocess("-p", "portable_pytest", "--portable-check", "--portable-debug")
    both.stderr.fnmatch_lines(["*exclude each other*"])


def test_the_plugin_imports_nothing_that_no_option_asks_for(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(pk.__file__).parents[1]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # zarr's plugin imports NumPy
    pytester.makepyfile(
        "import sys\ndef test_it():\n    assert 'portable_pytest' in sys.modules and not {'portable',"
        " 'numpy'} & set(sys.modules)"
    )
    pytester.runpytest_subprocess("-p", "portable_pytest", "-p", "no:cacheprovider").assert_outcomes(passed=1)
