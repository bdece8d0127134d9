"""Use this layer's functions, and kernels at one index, in numba's code: every route has a launch's bits."""

import math
from collections import namedtuple

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numba import cfunc, guvectorize, njit, prange, vectorize

import portable as pk
from portable.errors import DTypeError, LanguageError, ShapeError

from ..refusals import refusals

N = 1003
X = np.random.default_rng(0).normal(size=N)


@pk.function
def density(x, mu, sigma):
    z = (x - mu) / sigma
    return pk.exp(-0.5 * z * z) / (sigma * 2.5066282746310002) + (x - 1.0) * (x + 1.0)


@pk.kernel
def densities(i, x, out):
    out[i] = density(x[i], 0.1, 1.2)


def launched():
    out = np.empty(N)
    pk.parallel_for(pk.RangePolicy(0, N, space="serial"), densities, X, out)
    return out


def _looped(**options):
    @njit(**options)
    def loop(x, out):
        for i in prange(x.size):
            out[i] = density(x[i], 0.1, 1.2)

    return loop


@njit
def kernel_in_a_loop(x, out):
    for i in range(x.size):
        densities(i, x, out)


@njit(parallel=True)
def kernel_in_prange(x, out):
    for i in prange(x.size):
        densities(i, x, out)


@njit
def given(f, x, out):
    for i in range(x.size):
        out[i] = f(x[i], 0.1, 1.2)


def as_argument(x, out):
    given(density, x, out)


def by_vectorize(x, out):
    vectorize(["float64(float64)"])(lambda v: density(v, 0.1, 1.2))(x, out)


def by_guvectorize(x, out):
    @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
    def row(x, out):
        for i in range(x.size):
            out[i] = density(x[i], 0.1, 1.2)

    row(x, out)


def by_cfunc(x, out):
    function = cfunc("float64(float64)")(lambda v: density(v, 0.1, 1.2)).ctypes
    out[:] = [function(v) for v in x]


ROUTES = {
    "njit": _looped(),
    "fastmath": _looped(fastmath=True),
    "prange": _looped(parallel=True),
    "prange, fastmath": _looped(parallel=True, fastmath=True),
    "kernel": kernel_in_a_loop,
    "kernel in prange": kernel_in_prange,
    "argument": as_argument,
    "vectorize": by_vectorize,
    "guvectorize": by_guvectorize,
    "cfunc": by_cfunc,
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_has_the_bits_of_a_launch(route):
    out = np.empty(N)
    ROUTES[route](X, out)
    assert_array_equal(out, launched())


def test_a_call_is_inlined():
    loop = ROUTES["njit"]
    loop(X, np.empty(N))
    (code,) = loop.inspect_asm().values()
    assert "portable.density" not in "".join(line for line in code.splitlines() if "call" in line)


def test_random_numbers_and_atomics_in_prange():
    @pk.kernel
    def normals(i, seed, out):
        out[i] = pk.random.normal(seed, i, 0)

    @njit(parallel=True)
    def loop(seed, out, counts):
        for i in prange(out.size):
            out[i] = pk.random.normal(seed, i, 0)
            pk.atomic_add(counts, i % 7, 1)

    out, wanted, counts = np.empty(N), np.empty(N), np.zeros(7, np.int64)
    loop(11, out, counts)
    pk.parallel_for(pk.RangePolicy(0, N, space="serial"), normals, 11, wanted)
    assert_array_equal(out, wanted)
    assert_array_equal(counts, np.bincount(np.arange(N) % 7))


@pk.function
def row_sum(row, n):
    total = 0.0
    for k in range(n):
        total += row[k]
    return total


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("dtype", "float32 float64 int32 uint64".split())
def test_arrays_of_any_layout(order, dtype):
    @njit
    def sums(a, out):
        for i in range(a.shape[0]):
            out[i] = row_sum(a[i], 5)

    a = np.arange(60).reshape(6, 10).astype(dtype)
    a = a[:, ::2] if order == "strided" else np.asarray(a[:, :5], order=order)
    out = np.empty(6)
    sums(a, out)
    assert_array_equal(out, a.sum(1))


@pk.function
def area(box):
    return box.a * box.b, (box.a, box.b > 2)


def test_records_and_tuples_in_and_out():
    @njit
    def of_tuple(box):
        return area(box)

    @njit
    def of_element(boxes, k):
        return area(boxes[k])

    boxes = np.zeros(3, np.dtype([("c", "?"), ("a", "f8"), ("b", "i4")]))  # unaligned fields
    boxes["a"], boxes["b"] = [1.5, 2.5, 3.5], [1, 2, 3]
    assert of_tuple(namedtuple("Box", "a b")(3.5, 3)) == of_element(boxes, 2) == (10.5, (3.5, True))


def test_numbers_keep_numbas_types():
    @njit
    def call(x):
        return density(x, np.float32(0.1), np.float32(1.2))

    assert call(np.float32(0.3)) == density(np.float32(0.3), np.float32(0.1), np.float32(1.2))
    assert call.nopython_signatures[0].return_type == numba.float32


def test_defaults_of_a_function():
    @pk.function
    def scaled(x, by=2.0, times=3):
        for _ in range(times):
            x *= by
        return x

    @njit
    def call(x):
        return scaled(x), scaled(x, 0.5), scaled(x, 0.5, 1)

    assert call(3.0) == (24.0, 0.375, 1.5)


def test_division_by_zero_is_ours():
    @pk.function
    def divided(a, b):
        return a // b, a % b

    @njit
    def call(a, b):
        return divided(a, b)

    assert call(7, 0) == (0, 0) and call(-7, 2) == (-4, 1)


def test_a_view_is_an_array_there():
    @njit
    def change(v, w):
        v[1:] = 5.0
        return v[::2].sum(), w

    v, w = pk.zeros(4, space="serial"), pk.zeros((2, 3), "float32", space="serial")
    total, same = change(v, w)
    assert total == 5.0 and v[3] == 5.0
    assert isinstance(same, pk.View) and np.shares_memory(same.to_numpy(), w.to_numpy())


@pk.function
def on_some_paths(x):
    if x > 0:
        return x


@pk.function
def unknown(x):
    return nowhere + x  # noqa: F821


@pk.kernel
def narrow(i, x, k, z, out):
    out[i] = x[k] * x[i] + z[i].imag


@pytest.mark.parametrize("dtype", "int8 uint8 int16 uint16".split())
def test_arrays_of_narrow_and_of_complex_numbers(dtype):
    x, (found, wanted) = np.array([1, 99, -3]).astype(dtype), np.zeros((2, 3), dtype)
    pk.parallel_for(3, narrow, x, 1, x * 1j, wanted)
    njit(lambda x, z, out: [narrow(i, x, x[0], z, out) for i in range(3)])(x, x * 1j, found)
    assert_array_equal(found, wanted)


WRONG = [
    (
        lambda: njit(lambda v: density(v, 0.1, v))(np.float16(1)),
        DTypeError,
        "argument 'x': numba's float16 is not a kernel",
    ),
    (
        lambda: njit(lambda v: row_sum(v, 2))(np.zeros(3, np.float16)),
        DTypeError,
        r"row_sum.*test_functions.py:\d+.*float16",
    ),
    (lambda: njit(lambda v: area(v[0]))(np.zeros(1, [("a", "f8"), ("b", "U3")])), DTypeError, "unichr"),
    (
        lambda: njit(lambda v: density(v))(1.0),
        ShapeError,
        r"takes 3 argument\(s\) \(x, mu, sigma\), but 1",
    ),
    (
        lambda: njit(lambda v: density(v, mu=1.0, sigma=1.0))(1.0),
        LanguageError,
        "pass arguments by position",
    ),
    (lambda: njit(lambda v: on_some_paths(v))(1.0), LanguageError, "some paths and nothing on others"),
    (lambda: njit(lambda v: unknown(v))(1.0), LanguageError, r"test_functions.py:\d+.*nowhere"),
    (lambda: njit(lambda v: row_sum(v, "2"))(np.zeros(3)), DTypeError, "argument 'n': numba's"),
]


test_what_cannot_be_passed_is_refused_with_the_place = refusals(WRONG)


def test_threads_compile_at_once():
    """Take two locks, numba's and the layer's, from both sides."""
    import threading

    failed = []

    def inside(c):
        try:

            @pk.function
            def own(x):
                return pk.log(x) + c

            assert njit(lambda x: own(x))(2.0) == math.log(2.0) + c
            out = np.zeros(1)

            @pk.kernel
            def launch(i, out):
                out[i] = own(2.0)

            pk.parallel_for(pk.RangePolicy(0, 1, space="serial"), launch, out)
            assert out[0] == math.log(2.0) + c
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=inside, args=(float(k),)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed and not any(thread.is_alive() for thread in threads)
