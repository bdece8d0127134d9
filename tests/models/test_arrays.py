"""Test arrays on the host."""

import numpy as np
import pytest

from portable.errors import DTypeError
from portable.models import edm, hawkes, tmap
from portable.models.shared.arrays import new_array


def test_a_new_large_array_has_the_memory_of_one_that_is_gone():
    large = new_array((2, 10_001))
    assert large.shape == (2, 10_001) and large.dtype == np.float64
    place = large.ctypes.data
    other = new_array((2, 10_001))
    assert other.ctypes.data != place
    del large
    assert new_array((2, 10_001)).ctypes.data == place
    assert new_array(3, np.int32).flags.owndata


def test_a_mask_is_refused_where_it_would_be_lost():
    masked, flags = np.ma.masked_equal([1.0, 2.0, 1.0], 2.0), np.ma.masked_equal([True, False, True], False)
    for call, name in (
        (lambda: tmap.Runs.from_lists([masked]), "runs"),
        (lambda: tmap.Runs([1.0] * 3, [1] * 3, flags), "censored"),
        (lambda: tmap.from_frame({"run": [1] * 3, "gap": masked}), "gap"),
        (lambda: hawkes.MutualLikelihood(np.arange(3.0), masked), "types"),
        (lambda: edm.simplex(np.arange(3.0), 1, valid=flags), "valid"),
    ):
        with pytest.raises(DTypeError, match=f"{name} is a masked array"):
            call()
