"""Test users' arrays on the way to a space, and back."""

import numpy as np
from numpy.testing import assert_array_equal

import portable as pk
from portable.models.shared.arrays import Together, host_array, new_array


def test_a_large_array_of_the_host_has_the_memory_of_one_that_is_gone(space):
    """A view reuses an array's memory if the host can access it."""
    n = 1 << 20
    with pk.use(space):
        view = pk.copy_of(np.arange(n, dtype=np.float64))
    first = host_array(view)
    assert_array_equal(first, np.arange(n))
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


def test_small_arrays_go_there_and_back_by_one_copy_for_each_dtype(space):
    arrays = {
        "a": np.arange(6.0).reshape(2, 3),
        "n": np.array([7, -8]),
        "none": np.empty((0, 4)),
        "b": np.array([0.5]),
    }
    heard = []
    with (
        pk.use(space) as where,
        pk.listening(lambda phase, what, it: phase == "begin" and heard.append(what), copies=True),
    ):
        together = Together(arrays)
        there = len(heard)
        found = together.to_numpy()
    if where.memory != "host":
        assert there == len(heard) - there == 2
    for name, array in arrays.items():
        assert together.views[name].shape == array.shape and together.views[name].dtype == array.dtype
        assert_array_equal(found[name], array)
    pk.deep_copy(together.views["a"], -arrays["a"])
    assert_array_equal(found["a"], arrays["a"])  # separate memory
    assert_array_equal(together.to_numpy()["a"], -arrays["a"])
    assert_array_equal(together.to_numpy()["b"], arrays["b"])
