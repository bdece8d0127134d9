"""Test arrays on the host."""

import numpy as np

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
