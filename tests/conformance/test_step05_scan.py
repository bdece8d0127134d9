"""Step 5: scans, against NumPy's accumulations."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk
from portable.errors import DTypeError, InputError, LanguageError, ShapeError

from ..launching import move
from ..tolerance import assert_close

SIZES = [0, 1, 7, 8, 9, 17, 255, 256, 2047, 2048, 2049, 8193]
DTYPES = [np.float32, np.float64, np.int32, np.int64]


@pk.kernel
def value(i, x):
    return x[i]


@pk.function
def nearest_left(a, b):
    return pk.where(b != 0, b, a)


LAST = pk.Reducer("LastNonZero", nearest_left, lambda dtype: 0)  # associative, but the order matters


def numbers(n, dtype):
    return (default_rng(n).random(n) * 100).astype(dtype)


def scan(space, kernel, x, **options):
    """Return (prefixes, total) of a scan of x."""
    out = move(np.zeros_like(x), space)
    total = pk.parallel_scan(
        pk.RangePolicy(0, len(x), space=space), kernel, move(x, space), out=out, **options
    )
    return np.asarray(out if isinstance(out, np.ndarray) else out.to_numpy()), total


def affordable(space, sizes=SIZES):
    """Return sizes that are small enough for plain Python."""
    return [n for n in sizes if space != "checked" or n <= 300]


@pytest.mark.parametrize("dtype", DTYPES)
def test_prefix_sums(space, dtype):
    for n in affordable(space):
        prefix_sums(space, n, dtype)


def prefix_sums(space, n, dtype):
    x = numbers(n, dtype)
    wide = np.cumsum(x, dtype=np.float64 if x.dtype.kind == "f" else np.int64)
    got, total = scan(space, value, x)
    assert_close(got, wide.astype(dtype), dtype, max(n, 1), scale=50.0 * max(n, 1))
    assert_close(total, wide[-1] if n else 0, dtype, max(n, 1), scale=50.0 * max(n, 1))
    got, _ = scan(space, value, x, inclusive=False)
    assert_close(
        got, np.concatenate([[0], wide[:-1]])[:n].astype(dtype), dtype, max(n, 1), scale=50.0 * max(n, 1)
    )


def test_other_reducers(space):
    for n in affordable(space, [1, 9, 257, 2049, 8193]):
        other_reducers(space, n)


def other_reducers(space, n):
    x = numbers(n, np.float64)
    got, total = scan(space, value, x, reducer=pk.Max)
    assert_array_equal(got, np.maximum.accumulate(x))
    assert total == x.max()
    k = np.where(default_rng(1).random(n) < 0.2, np.arange(n) + 1, 0)
    got, _ = scan(space, value, k, reducer=LAST)
    assert_array_equal(got, np.maximum.accumulate(k))


def test_the_bits_do_not_depend_on_threads():
    x = numbers(100_000, np.float32)
    one, total = scan(pk.Threads(1), value, x)
    for n_threads in (2, 3, 4):
        many, other = scan(pk.Threads(n_threads), value, x)
        assert other == total
        assert_array_equal(many, one)


def test_in_place_and_from_a_later_begin(space):
    x = move(np.ones(20))
    assert pk.parallel_scan(pk.RangePolicy(5, 12), value, x, out=x) == 7
    got = np.asarray(x if isinstance(x, np.ndarray) else x.to_numpy())
    assert_array_equal(got, [1] * 5 + [1, 2, 3, 4, 5, 6, 7] + [1] * 8)


@pk.kernel
def nothing(i, x):
    x[i] = 0.0


def test_wrong_calls(space):
    x, small = move(np.ones(9)), move(np.ones(3))
    policy = pk.RangePolicy(0, 9)
    for call, error, word in [
        (lambda: pk.parallel_scan(policy, value, x, out=small), ShapeError, "out"),
        (lambda: pk.parallel_scan(policy, value, x, out=x, reducer=pk.MinLoc), ShapeError, "2 array"),
        (lambda: pk.parallel_scan(pk.TeamPolicy(3), value, x, out=x), InputError, "RangePolicy"),
        (
            lambda: pk.parallel_scan(policy, value, x, out=move(np.ones(9, np.int64))),
            DTypeError,
            "prefixes are float64; got int64",
        ),
        (lambda: pk.parallel_scan(policy, nothing, x, out=x), LanguageError, "returns its contribution"),
    ]:
        with pytest.raises(error, match=word):
            call()


def test_sums_begin_with_zero(space):
    """A sum starts with zero: 0 + -0.0 is 0.0, also for a single number."""
    x, out = move(np.full(3, -0.0)), move(np.ones(3))
    for inclusive in (True, False):
        total = pk.parallel_scan(3, value, x, out=out, inclusive=inclusive)
        got = np.asarray(out if isinstance(out, np.ndarray) else out.to_numpy())
        assert not np.signbit([total, *got]).any()
    assert not np.signbit(pk.parallel_reduce(1, value, x))
