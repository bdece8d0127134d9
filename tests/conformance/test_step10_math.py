"""Step 10: the elementary functions have the same bits on every compiled space, and agree with plain Python
to a few ulp."""

import functools

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.language.words import ROWS

from ..launching import floats, launch_for

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    1e-310,
    3e38,
    -104.0,
    -745.3,
    88.8,
    709.9,
    1e4,
    1e9,
]
WORDS = {row.name: row for row in ROWS if row.ulps}
ULPS = 4  # plain Python uses another library: two units of error of ours and two of theirs


@functools.cache
def kernel_of(name):
    function = getattr(pk, name)
    if name in WORDS and WORDS[name].reads[2] == 2:

        @pk.kernel
        def apply(i, x, y, out):
            out[i] = function(x[i], y[i])
    else:

        @pk.kernel
        def apply(i, x, y, out):
            out[i] = function(x[i])

    return apply


def inputs(dtype):
    rng = default_rng(7)
    with np.errstate(over="ignore"):
        x = np.concatenate(
            [SPECIAL, rng.normal(size=60), rng.normal(size=60) * 30, 10.0 ** rng.uniform(-30, 30, 60)]
        ).astype(dtype)
        return x, np.where(
            np.arange(x.size) % 3, rng.normal(size=x.size) * 3, rng.integers(-9, 9, x.size)
        ).astype(dtype)


@functools.cache
def on_serial(name, dtype):
    x, y = inputs(dtype)
    return launch_for(len(x), kernel_of(name), x, y, np.zeros_like(x), space="serial")[2]


@floats
@pytest.mark.parametrize("name", WORDS)
def test_the_same_bits_everywhere(space, name, dtype):
    x, y = inputs(dtype)
    got, wanted = (
        launch_for(len(x), kernel_of(name), x, y, np.zeros_like(x))[2],
        on_serial(name, dtype),
    )
    if space != "checked":
        bits = np.uint32 if dtype is np.float32 else np.uint64
        same = (got.view(bits) == wanted.view(bits)) | (np.isnan(got) & np.isnan(wanted))
        assert same.all(), (x[~same], got[~same], wanted[~same])
        return
    near_zero = np.abs(wanted) < (0.5 if name == "lgamma" else 0.0)  # lgamma: absolute error near its zeros
    assert_array_equal(np.isnan(got), np.isnan(wanted))
    finite = np.isfinite(got) & np.isfinite(wanted) & ~near_zero
    error = np.abs(got[finite].astype(np.float64) - wanted[finite]) / np.spacing(np.abs(got[finite])).astype(
        np.float64
    )
    # Plain Python's ndtr rounds x / sqrt(2) before erfc, which multiplies the error by x^2 in the tail.
    allowed = ULPS + (2 * np.square(x[finite].astype(np.float64)) if name == "ndtr" else 0.0)
    assert (error <= allowed).all(), (x[finite][(error - allowed).argmax()], error.max())


@floats
def test_exp_nonpositive(space, dtype):
    """Compare with the bits of exp, but 0 below twice the smallest normal number; the checked space uses exp
    there, too.
    """
    x = -np.abs(inputs(dtype)[0])
    got, plain = (
        launch_for(len(x), kernel_of(name), x, x, np.zeros_like(x))[2] for name in ("exp_nonpositive", "exp")
    )
    near = plain < 2 * np.finfo(dtype).tiny
    assert_array_equal(got[~near], plain[~near])
    assert space == "checked" or (got[near] == 0.0).all()


@floats
def test_fast_exp2(space, dtype):
    """Errors are at most three ulp from the smallest normal number on; the result is 0 below, infinity above,
    exact where the power is whole."""
    top = 128 if dtype is np.float32 else 1024
    inside = default_rng(1).uniform(2 - top, top, 300).astype(dtype)
    inside = inside[inside < top]
    x = np.concatenate(
        [
            inside,
            np.array(
                [0.0, -0.0, 5.0, 2 - top, top - 1, top, 1e30, np.inf, -2.0 * top, -1e30, -np.inf], dtype
            ),
        ]
    )
    got = launch_for(len(x), kernel_of("fast_exp2"), x, x, np.zeros_like(x))[2]
    wanted = np.exp2(inside.astype(np.longdouble))
    assert np.max(np.abs(got[: len(inside)] - wanted) / wanted) < 3 * np.finfo(dtype).eps
    assert_allclose(
        got[len(inside) :],
        [1.0, 1.0, 32.0, 2.0 ** (2 - top), 2.0 ** (top - 1), *[np.inf] * 3, *[0.0] * 3],
        rtol=3 * np.finfo(dtype).eps,
    )


@pk.kernel
def infinite(i, x, k, out):
    out[i] = (
        (1 if pk.isinf(x[i]) else 0)
        + (2 if np.isinf(-x[i]) else 0)
        + (4 if pk.isinf(k[i]) else 0)
        + (8 if pk.isinf(np.inf) else 0)
    )


@floats
def test_infinities(space, dtype):
    x = np.array([1.0, np.inf, -np.inf, np.nan, 0.0, 3e38], dtype)
    out = launch_for(len(x), infinite, x, np.arange(6), np.zeros(6, np.int64))[2]
    assert_array_equal(out, [8, 11, 11, 8, 8, 8])


@pk.kernel
def by_the_builtin(i, x, k, out):
    out[i] = pow(x[i], 3) + pow(x[i], x[i]) + pow(k[i], 2)


@pk.kernel
def by_the_operator(i, x, k, out):
    out[i] = x[i] ** 3 + x[i] ** x[i] + k[i] ** 2


def test_the_builtin_pow_is_the_operator(space):
    x, k = np.linspace(0.5, 3.0, 40), np.arange(40)
    one, other = (
        launch_for(40, kernel, x, k, np.zeros(40))[2] for kernel in (by_the_builtin, by_the_operator)
    )
    assert_array_equal(one, other)
