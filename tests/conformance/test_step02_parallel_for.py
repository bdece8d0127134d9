"""Step 2, parallel_for over a range: each index once, every kind of argument, every stride."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk

from ..launching import launch_for

SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 64, 100]


@pk.kernel
def visit(i, count):
    count[i] += 1


@pk.kernel
def copy(i, source, target):
    target[i] = source[i]


def test_every_index_once(space):
    for n in [*SIZES, 1_000 if space == "checked" else 100_003]:
        assert_array_equal(launch_for(n, visit, np.zeros(n, np.int32), space=space), np.ones(n))


@pytest.mark.parametrize("begin, end", [(0, 0), (5, 5), (3, 4), (1, 20), (13, 100)])
def test_a_range_may_begin_anywhere(space, begin, end):
    count = launch_for(pk.RangePolicy(begin, end), visit, np.zeros(100, np.int32), space=space)
    wanted = np.zeros(100)
    wanted[begin:end] = 1
    assert_array_equal(count, wanted)


def test_negative_indices_are_indices(space):
    out = launch_for(pk.RangePolicy(-5, 5), write_shifted, np.zeros(10), space=space)
    assert_array_equal(out, np.arange(-5.0, 5.0))


@pk.kernel
def write_shifted(i, out):
    out[i + 5] = i


@pytest.mark.parametrize("dtype", "bool int32 int64 uint32 uint64 float32 float64".split())
def test_every_dtype_is_loaded_and_stored(space, dtype):
    source = np.array([0, 1, 1, 0, 3, 100, 7, 0, 1, 2, 3], np.int64).astype(dtype)
    assert_array_equal(launch_for(11, copy, source, np.zeros(11, dtype), space=space)[1], source)


@pytest.mark.parametrize("step", [2, 3, -1])
def test_strided_arrays(space, step):
    x = np.arange(30.0)[::step][:10]
    target = np.zeros(40)[::4]
    assert_array_equal(launch_for(10, copy, x, target, space=space)[1], x)


def test_read_only_arrays_can_be_read(space):
    x = np.arange(10.0)
    x.flags.writeable = False
    assert_array_equal(launch_for(10, copy, x, np.zeros(10), space=space)[1], x)


@pk.kernel
def scalars(i, an_int, a_float, a_bool, a_numpy_float, out):
    out[0, i] = an_int + i
    out[1, i] = a_float * i
    out[2, i] = 1.0 if a_bool else -1.0
    out[3, i] = a_numpy_float + i


def test_scalar_arguments(space):
    for flag in (True, False):
        out = launch_for(9, scalars, 3, 0.5, flag, np.float64(0.25), np.zeros((4, 9)), space=space)
        i = np.arange(9)
        assert_array_equal(out, [3 + i, 0.5 * i, np.full(9, 1.0 if flag else -1.0), 0.25 + i])


@pk.kernel
def spread(i, number, out):
    out[i] = number


@pytest.mark.parametrize("dtype", "bool int8 uint16 int32 uint64 int64 float16 float32 float64".split())
def test_numbers_of_numpy_keep_their_values(space, dtype):
    """Launch with the first number of a type, and with further ones, whose type is known."""
    for value in (
        1,
        0,
        np.finfo(dtype).max if dtype.startswith("float") else dtype == "bool" or np.iinfo(dtype).max,
    ):
        number = np.dtype(dtype).type(value)
        assert (launch_for(2, spread, number, np.zeros(2, dtype), space=space) == number).all()


@pk.kernel
def many_arguments(i, a, b, c, d, e, f, g, h, p, q, r, s, t, u, v, w):
    w[i] = a[i] + b[i] + c[i] + d[i] + e[i] + f[i] + g[i] + h[i] + p * q * r + s[i] + t[i] + u[i] + v[i]


def test_sixteen_arguments(space):
    x = [np.arange(9.0) + k for k in range(12)]
    out = launch_for(9, many_arguments, *x[:8], 2.0, 3.0, 4, *x[8:], np.zeros(9), space=space)[-1]
    assert_array_equal(out, sum(x) + 24.0)


@pk.kernel
def sum_of_tuple(i, arrays, out):
    a, b, c = arrays
    out[i] = a[i] + 10.0 * b[i] + 100.0 * c[i]


@pk.kernel
def sum_of_tuple_by_place(i, arrays, out):
    out[i] = arrays[0][i] + 10.0 * arrays[1][i] + 100.0 * arrays[2][i]


@pytest.mark.parametrize("kernel", [sum_of_tuple, sum_of_tuple_by_place])
def test_a_tuple_of_arrays_is_one_argument(space, kernel):
    arrays = tuple(np.arange(9.0) + k for k in range(3))
    out = launch_for(9, kernel, arrays, np.zeros(9), space=space)[-1]
    assert_array_equal(out, arrays[0] + 10 * arrays[1] + 100 * arrays[2])


def test_the_default_space_and_labels(space):
    x = pk.zeros(4, "float64", space=space)
    with pk.use(space):
        pk.parallel_for(4, visit, x, label="my visit")
        pk.fence()
    assert_array_equal(x.to_numpy(), np.ones(4))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
def test_any_number_of_threads(n_threads):
    out = np.zeros(5000, np.int32)
    pk.parallel_for(pk.RangePolicy(0, 5000, space=pk.Threads(n_threads)), visit, out)
    pk.fence()
    assert_array_equal(out, np.ones(5000))
