"""Conversions and permutation, against NumPy and plain Python."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from portable.models import resampling

import portable as pk

from . import reference

DRAWS = {
    "one": [0],
    "same": [2, 2, 2, 2],
    "own": [0, 1, 2, 3],
    "cycle": [1, 2, 3, 0],
    "mix": [3, 3, 0, 5, 5, 5, 1, 0],
    "random": default_rng(8).integers(0, 60, 60),
}


@pytest.mark.parametrize("ancestors", DRAWS.values(), ids=DRAWS)
def test_permute(space, ancestors):
    """Condition (9): o_i > 0 implies a_i = i; offspring stay; the result is plain Python's; again is idle."""
    ancestors = np.asarray(ancestors)
    n = len(ancestors)
    got = resampling.permute(ancestors, space=space)
    assert_array_equal(got, reference.permute(ancestors.tolist()))
    assert_array_equal(np.bincount(got, minlength=n), np.bincount(ancestors, minlength=n))
    kept = np.bincount(ancestors, minlength=n) > 0
    assert_array_equal(got[kept], np.flatnonzero(kept))
    assert_array_equal(resampling.permute(got, space=space), got)


def test_permute_large():
    ancestors = resampling.multinomial(default_rng(1).random(30_000), seed=0, space="serial")
    wanted = reference.permute(ancestors.tolist())
    for n_threads in (1, 2, 3):
        assert_array_equal(resampling.permute(ancestors, space=pk.Threads(n_threads)), wanted)


@pytest.mark.parametrize("ancestors", DRAWS.values(), ids=DRAWS)
def test_conversions(space, ancestors):
    ancestors = np.sort(ancestors)
    o = resampling.ancestors_to_offspring(ancestors, 70, space=space)
    assert_array_equal(o, np.bincount(ancestors, minlength=70))
    cumulative = resampling.offspring_to_cumulative(o, space=space)
    assert_array_equal(cumulative, np.cumsum(o))
    assert_array_equal(resampling.cumulative_to_offspring(cumulative, space=space), o)
    assert_array_equal(resampling.offspring_to_ancestors(o, space=space), ancestors)
    assert_array_equal(resampling.cumulative_to_ancestors(cumulative, space=space), ancestors)


def test_views_stay_on_the_space(space):
    ancestors = pk.copy_of(np.array([1, 1, 0, 2]), space)
    o = resampling.ancestors_to_offspring(ancestors, space=space)
    assert isinstance(o, pk.View) and o.to_numpy().tolist() == [1, 2, 1, 0]
    back = resampling.cumulative_to_ancestors(resampling.offspring_to_cumulative(o, space=space), space=space)
    assert back.to_numpy().tolist() == [0, 1, 1, 2]


def test_rows_are_converted_and_permuted_one_by_one(space):
    ancestors = np.array([[1, 1, 0, 3], [2, 2, 2, 2]])
    wanted = np.array([reference.permute(row.tolist()) for row in ancestors])
    assert_array_equal(resampling.permute(ancestors, space=space), wanted)
    o = resampling.ancestors_to_offspring(ancestors, space=space)
    assert_array_equal(o, [[1, 2, 0, 1], [0, 0, 4, 0]])
    cumulative = resampling.offspring_to_cumulative(o, space=space)
    assert_array_equal(cumulative, np.cumsum(o, axis=1))
    assert_array_equal(
        resampling.cumulative_to_ancestors(cumulative, space=space), np.sort(ancestors, axis=1)
    )
