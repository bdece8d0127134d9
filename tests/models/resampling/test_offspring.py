"""Compare permutation with plain Python."""

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
    """Condition (9): o_i > 0 implies a_i = i; offspring are preserved; the result is plain Python's; a second
    call changes nothing.
    """
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


def test_views_stay_on_the_space(space):
    permuted = resampling.permute(pk.copy_of(np.array([1, 1, 0, 2]), space), space=space)
    assert isinstance(permuted, pk.View)
    assert_array_equal(permuted.to_numpy(), reference.permute([1, 1, 0, 2]))


def test_rows_are_permuted_one_by_one(space):
    ancestors = np.array([[1, 1, 0, 3], [2, 2, 2, 2]])
    wanted = np.array([reference.permute(row.tolist()) for row in ancestors])
    assert_array_equal(resampling.permute(ancestors, space=space), wanted)
