"""Arrays of users on the way to a space, and back."""

import numpy as np

import portable as pk
from models.arrays import host_array, new_array


def test_a_large_array_of_the_host_has_the_memory_of_one_that_is_gone(space):
    """Where the host reaches a view's own memory, it is that."""
    n = 1 << 20
    with pk.use(space):
        view = pk.copy_of(np.arange(n, dtype=np.float64))
    first = host_array(view)
    np.testing.assert_array_equal(first, np.arange(n))
    if view.memory == "host":
        assert np.shares_memory(first, view.to_numpy())
    else:
        first[:], place = 7.0, first.ctypes.data
        del first
        again = host_array(view)
        assert again.ctypes.data == place and again[5] == 5.0 and again.flags.writeable


def test_a_new_large_array_has_the_memory_of_one_that_is_gone():
    large = new_array((2, 10_001))
    assert large.shape == (2, 10_001) and large.dtype == np.float64
    place = large.ctypes.data
    other = new_array((2, 10_001))
    assert other.ctypes.data != place
    del large
    assert new_array((2, 10_001)).ctypes.data == place
    assert new_array(3, np.int32).flags.owndata
