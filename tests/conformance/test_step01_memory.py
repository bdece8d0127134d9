"""Step 1, memory: views are made, filled, copied and read back, whole and in parts."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk

from ..launching import launch_for


DTYPES = "bool int32 int64 uint32 uint64 float32 float64".split()


@pk.kernel
def negate_row(i, x):
    x[i] = -x[i]


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_goes_in_comes_out(space, dtype):
    host = np.arange(12).reshape(3, 4).astype(dtype)
    view = pk.empty((3, 4), dtype, space=space)
    pk.deep_copy(view, pk.asview(host, space="serial"))
    assert view.shape == (3, 4) and view.dtype == np.dtype(dtype)
    assert_array_equal(view.to_numpy(), host)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 0), (2, 3), (2, 3, 4), (2, 1, 3, 2)])
def test_zeros_of_every_rank(space, shape):
    view = pk.zeros(shape, "float64", space=space)
    assert view.shape == shape
    assert_array_equal(view.to_numpy(), np.zeros(shape))


def test_an_integer_is_a_shape(space):
    assert pk.zeros(3, "int32", space=space).shape == (3,)


def test_a_slice_is_a_view_of_the_same_memory(space):
    host = np.arange(24.0).reshape(4, 6)
    view = pk.empty((4, 6), "float64", space=space)
    pk.deep_copy(view, pk.asview(host, space="serial"))
    pk.parallel_for(3, negate_row, view[1, 1::2])
    pk.fence(space)
    host[1, 1::2] *= -1
    assert_array_equal(view.to_numpy(), host)


def test_asview_of_a_numpy_array_copies_nothing():
    host = np.zeros(4)
    view = pk.asview(host, space="serial")
    pk.parallel_for(pk.RangePolicy(0, 4, space="serial"), fill, 2.0, view)
    pk.fence("serial")
    assert_array_equal(host, np.full(4, 2.0))
    assert np.shares_memory(np.asarray(view), host)


def test_a_mirror_is_host_memory_of_the_same_shape(space):
    view = pk.zeros((2, 3), "float32", space=space)
    mirror = pk.create_mirror(view)
    assert mirror.shape == view.shape and mirror.dtype == view.dtype
    np.asarray(mirror)[...] = 7
    pk.deep_copy(view, mirror)
    assert_array_equal(view.to_numpy(), np.full((2, 3), 7, np.float32))


@pk.kernel
def count_up(i, v):
    v[i] += 1.0


def test_copies_that_nobody_waits_for(space):
    """Asynchronous copies come after launches before them, and before launches after them."""
    source, target = pk.zeros(1000, space=space), pk.zeros(1000, space=space)
    policy = pk.RangePolicy(0, 1000, space=space)
    for _ in range(20):
        pk.parallel_for(policy, count_up, source)
        pk.deep_copy(target, source, wait=False)
        pk.parallel_for(policy, count_up, source)
        pk.parallel_for(policy, count_up, target)
    assert (target.to_numpy() == 40.0).all() and (source.to_numpy() == 40.0).all()
    assert pk.queued(space) in (True, False)


@pytest.mark.parametrize("other", ["serial", "cuda:0", "cuda:1"])
def test_a_space_follows_another_one(space, other):
    """One thread launches on two spaces, and copies results from one to the other and back."""
    if reason := pk.unavailable_because(other):
        pytest.skip(reason)
    n, spaces = 1 << (8 if "checked" in (space, other) else 16), (space, other)
    views = [pk.zeros(n, space=one) for one in spaces]
    policies = [pk.RangePolicy(0, n, space=one) for one in spaces]
    for _ in range(20):
        for k in (0, 1):
            pk.parallel_for(policies[k], count_up, views[k])
            pk.follow(spaces[1 - k], spaces[k])
            pk.deep_copy(views[1 - k], views[k], wait=False)
    pk.fence(space), pk.fence(other)
    assert all((view.to_numpy() == 40.0).all() for view in views)


@pytest.mark.parametrize("other", ["serial", "cuda:0", "cuda:1"])
def test_what_is_launched_behind_a_queued_copy_leaves_it_alone(space, other):
    """Launch on the source's space, and on the target's, after a queued copy."""
    if reason := pk.unavailable_because(other):
        pytest.skip(reason)
    n = 1 << 22 if other.startswith("cuda") else 1 << 10
    source, target = pk.zeros(n, space=space), pk.zeros(n, space=other)
    for k in range(1, 5):
        pk.parallel_for(n, count_up, source)
        pk.follow(other, space)
        pk.deep_copy(target, source, wait=False)
        pk.parallel_for(n, count_up, source)
        assert (target.to_numpy() == 2 * k - 1).all()
    assert (source.to_numpy() == 8).all()


def test_deep_copy_keeps_the_source(space):
    source, target = pk.zeros(5, "int64", space=space), pk.empty(5, "int64", space=space)
    pk.deep_copy(target, source)
    pk.parallel_for(5, fill, 3, target)
    pk.fence(space)
    assert source.to_numpy().sum() == 0 and target.to_numpy().sum() == 15


def test_a_view_outlives_the_name_of_its_array(space):
    view = pk.asview(np.full(1000, 3.0), space="serial")
    noise = [np.zeros(1000) for _ in range(10)]
    assert view.to_numpy().sum() == 3000 and len(noise) == 10


@pk.kernel
def fill(i, value, x):
    x[i] = value


def test_a_transposed_array_is_accepted(space):
    host = np.arange(12.0).reshape(3, 4).T
    assert_array_equal(
        launch_for(4, negate_last_column, host, space=space)[:, -1], -np.arange(12.0).reshape(3, 4)[-1]
    )


@pk.kernel
def negate_last_column(i, x):
    x[i, x.shape[1] - 1] = -x[i, x.shape[1] - 1]


def test_reshape_shares_the_memory(space):
    flat = pk.copy_of(np.arange(12.0), space)
    table = flat.reshape(3, -1)
    assert table.shape == (3, 4) and table.pointer == flat.pointer and table.memory == flat.memory
    pk.deep_copy(table[1:], -1.0)
    assert_array_equal(flat.to_numpy(), [0, 1, 2, 3, *[-1] * 8])
    assert table.reshape((1, 12)).shape == (1, 12)


def test_reshape_refuses(space):
    table = pk.zeros((3, 4), space=space)
    with pytest.raises(pk.ShapeError, match="12 elements; they do not fill shape"):
        table.reshape(5, -1)
    with pytest.raises(pk.ShapeError, match="cannot be reshaped without a copy"):
        table[:, 1:].reshape(9)


def test_repr_shows_the_elements_that_the_host_reads(space):
    view = pk.copy_of(np.arange(3.0), space, label="b")
    shown = "[0. 1. 2.]" if view.memory == "host" else "..."
    assert repr(view) == f"View({shown}, shape=(3,), dtype=float64, space='{view.space}', label='b')"
    large = repr(pk.zeros(100_000, space=space))
    assert "..." in large and len(large) < 100


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_copied_filled_and_exported(space, dtype):
    view = pk.zeros((3, 4), dtype, space=space)
    pk.deep_copy(view, 1.5 - 2j)
    pk.deep_copy(view[1], (1j * np.arange(4)).astype(dtype))
    want = np.full((3, 4), 1.5 - 2j, dtype)
    want[1] = 1j * np.arange(4)
    assert_array_equal(view.to_numpy(), want)
    if view.memory == "host":
        assert_array_equal(np.from_dlpack(view), want)
        assert_array_equal(np.from_dlpack(view.T), want.T)
    with pytest.raises(pk.DTypeError, match="does not fit dtype float64"):
        pk.deep_copy(pk.zeros(2, space=space), 1j)
