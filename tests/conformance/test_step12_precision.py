"""Step 12, precision: literals, indices and Python scalars are weak; a float32 kernel computes in float32."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..launching import floats, launch_for, launch_reduce
from ..tolerance import assert_close

N = 21


@pk.kernel
def with_literal(i, x, wide):
    wide[i] = x[i] * 1.1


@pk.kernel
def with_index(i, x, wide):
    wide[i] = x[i] + i / 3


@pk.kernel
def with_shape(i, x, wide):
    wide[i] = x[i] / x.shape[0]


@pk.kernel
def with_math(i, x, wide):
    wide[i] = math.sqrt(x[i]) + math.pi * math.exp(x[i])


@pk.kernel
def with_accumulator(i, x, wide):
    s = 0.0
    for k in range(5):
        s += x[i] * 0.3
    wide[i] = s


@pk.kernel
def with_condition(i, x, wide):
    wide[i] = x[i] * (0.1 if x[i] > 0.5 else 0.7)


@pk.function
def third_of(x):
    return x / 3.0


@pk.kernel
def with_function(i, x, wide):
    wide[i] = third_of(x[i]) + 0.1


KERNELS = [with_literal, with_index, with_shape, with_math, with_accumulator, with_condition, with_function]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_float32_stays_float32(space, kernel):
    """The result, read through a float64 array, is a float32 number, and differs from that of float64."""
    x = default_rng(1).random(N).astype(np.float32)
    out = launch_for(N, kernel, x, np.zeros(N))[1]
    assert_array_equal(out, out.astype(np.float32))
    wide = launch_for(N, kernel, x.astype(np.float64), np.zeros(N))[1]
    assert (wide != out).any()
    assert_close(out, wide, np.float32, 5)


@pk.kernel
def times_scalar(i, a, x, wide):
    wide[i] = a * x[i]


def test_python_scalars_are_weak(space):
    x = default_rng(2).random(N).astype(np.float32)
    out = launch_for(N, times_scalar, 1.1, x, np.zeros(N))[1]
    assert_array_equal(out, np.float32(1.1) * x)


@pk.kernel
def compensated(team, x, out):
    """Compute Kahan's sum: reassociation would delete the correction."""
    s, c = 0.0, 0.0
    for k in range(x.shape[0]):
        y = x[k] - c
        t = s + y
        c = (t - s) - y
        s = t
    out[team] = s


def test_a_compensated_sum_survives(space):
    x = default_rng(6).random(2000).astype(np.float32)
    out = launch_for(1, compensated, x, np.zeros(1, np.float32))[1]
    assert abs(out[0] - math.fsum(x)) <= 2 * np.finfo(np.float32).eps * math.fsum(x)


@pk.kernel
def fused(i, a, b, c, out):
    out[i] = pk.fma(a[i], b[i], c[i])


def test_fma_rounds_once(space):
    a, b, c, wanted = np.array(
        [
            (1.0 + 2.0**-30, 1.0 - 2.0**-30, -1.0, -(2.0**-60)),
            (1.0 / 3.0, 3.0, -1.0, -(2.0**-54)),
            (2.0**1023 + 2.0**971, 2.0**-53 - 2.0**-106, 2.0**1023, 2.0**1023 + 2.0**971),
            (1e200, 1e200, -1.0, np.inf),
            (1e200, 1e200, -np.inf, -np.inf),  # the product is finite
            (np.inf, -1.0, np.inf, np.nan),
        ]
    ).T
    assert_array_equal(launch_for(6, fused, a, b, c, np.zeros(6))[3], wanted)
    assert_array_equal([pk.fma(*row) for row in zip(a, b, c)], wanted)


@pk.function
def left_less_right(a, b, c, d):
    return a * b - c * d


@pk.kernel
def sums_with_products(i, x, h, out):
    a, b, c, d = x[0, i], x[1, i], x[2, i], x[3, i]
    product = a * b
    scale = h * h  # uniform: the same for all lanes
    total = d
    for k in range(3):
        total += x[k, i] * b
    out[0, i] = a * b + c * d
    out[1, i] = left_less_right(a, b, c, d)
    out[2, i] = c - product
    out[3, i] = scale + (a - b) ** 2
    out[4, i] = total
    out[5, i] = -product + c  # a negative product is no product
    out[6, i] = (a * b) * c + d


@floats
def test_a_sum_with_a_product_rounds_once_on_every_machine(space, dtype):
    """The left product is fused if there are two: the source determines the bits, not a compiler."""
    if space == "checked":
        pytest.skip("plain Python rounds products too")
    x, h = default_rng(8).normal(size=(4, N)).astype(dtype), dtype(1.0 / 3.0)

    def rounded(exact):
        return Fraction(float(np_rounded(exact, dtype)))

    def wanted(a, b, c, d):
        total = d
        for v in (a, b, c):
            total = rounded(v * b + total)
        ab, cd, square = rounded(a * b), rounded(c * d), rounded(rounded(a - b) ** 2)
        return [
            rounded(v)
            for v in (
                a * b + cd,
                a * b - cd,
                c - a * b,
                Fraction(float(h)) ** 2 + square,
                total,
                c - ab,
                ab * c + d,
            )
        ]

    out = launch_for(N, sums_with_products, x, h, np.zeros((7, N), dtype))[1]
    exact = [wanted(*map(Fraction, map(float, column))) for column in x.T]
    assert_array_equal(out, np.array([[float(v) for v in row] for row in exact], dtype).T)


def np_rounded(exact, dtype):
    """Round a fraction to a dtype; to float32 directly between neighbours, since a float64 in between would
    round twice."""
    near = dtype(float(exact))
    around = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    return min(
        around,
        key=lambda v: (
            abs(Fraction(float(v)) - exact),
            int(v.view(np.uint32 if dtype == np.float32 else np.uint64)) & 1,
        ),
    )


@pk.kernel
def entry(i, x):
    return x[i]


def test_a_reduction_keeps_the_returned_dtype(space):
    """The accumulator has the dtype that the kernel returns: 1 + 2**-30 summed in float32 is 1."""
    x = np.array([1.0, 2.0**-30], np.float32)
    assert launch_reduce(2, entry, x) == 1.0
    assert launch_reduce(2, entry, x.astype(np.float64)) == 1.0 + 2.0**-30


@pk.kernel
def wide_scalar(i, h, x, out):
    out[i] = pk.exp(x[i] / h) + pk.log(h)


def test_a_float64_scalar_among_float32_arrays_is_float64(space):
    """np.float64 is a strong dtype: elementary functions of it work in float64 although the arrays are
    float32.

    The checked space reports this, since it is seldom intended.
    """
    x = np.linspace(-30, 3, 37).astype(np.float32)
    if space == "checked":
        with pytest.raises(pk.CheckError, match="float64 in float32"):
            launch_for(len(x), wide_scalar, np.float64(0.3), x, np.zeros_like(x))
        return
    out = launch_for(len(x), wide_scalar, np.float64(0.3), x, np.zeros_like(x))[1]
    assert_allclose(out, (np.exp(x / np.float64(0.3)) + np.log(0.3)).astype(np.float32), rtol=2e-7)
