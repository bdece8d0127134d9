"""Step 24: words that are kernel text themselves, functions with defaults, print."""

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.language.words import ROWS

from ..launching import launch_for
from .test_ptx import assemble, lower
from .test_step10_math import WORDS, kernel_of

DTYPES = [np.float32, np.float64]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.5, -3.5, 0.5, 1e-40]


def numbers(dtype):
    rng = default_rng(3)
    with np.errstate(all="ignore"):
        return np.concatenate([EDGES, rng.normal(size=30) * 100, 10.0 ** rng.uniform(-30, 30, 30)]).astype(
            dtype
        )


@pk.kernel
def parts(i, x, out):
    m, e = math.frexp(x[i])
    out[0, i] = m
    out[1, i] = e


@pytest.mark.parametrize("dtype", DTYPES)
def test_frexp(space, dtype):
    x = numbers(dtype)
    out = launch_for(space, len(x), parts, x, np.zeros((2, len(x))))[1]
    assert_array_equal(out, [[math.frexp(v)[k] for v in x.tolist()] for k in (0, 1)])


@pk.kernel
def near(i, x, y, out):
    out[i] = (
        (1 if math.isclose(x[i], y[i]) else 0)
        + (2 if pk.isclose(x[i], y[i], rel_tol=1e-2) else 0)
        + (4 if pk.isclose(x[i], y[i], 0.0, 1.0) else 0)
    )


def test_isclose(space):
    x = numbers(np.float64)
    y = np.concatenate([EDGES[1:], EDGES[:1], x[len(EDGES) :] * (1 + np.resize([1e-3, 1e-12, 0.1], 60))])
    want = [
        math.isclose(a, b)
        + 2 * math.isclose(a, b, rel_tol=1e-2)
        + 4 * math.isclose(a, b, rel_tol=0.0, abs_tol=1.0)
        for a, b in zip(x, y)
    ]
    assert_array_equal(launch_for(space, len(x), near, x, y, np.zeros(len(x), np.int64))[2], want)


@pk.kernel
def divisors(i, a, b, out):
    out[i] = math.gcd(a[i], b[i]) + pk.gcd(36, i)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_gcd(space, dtype):
    a, b = default_rng(4).integers(0, 10**6, (2, 50))
    if np.issubdtype(dtype, np.signedinteger):
        a[::3] *= -1
    a[:2] = 0
    b[:1] = 0
    want = [math.gcd(p, q) + math.gcd(36, i) for i, (p, q) in enumerate(zip(a.tolist(), b.tolist()))]
    assert_array_equal(
        launch_for(space, 50, divisors, a.astype(dtype), b.astype(dtype), np.zeros(50, np.int64))[2], want
    )


@pk.kernel
def of_a_float(i, x):
    x[i] = math.gcd(x[i], 3)


def test_gcd_of_a_float_is_refused(space):
    with pytest.raises(pk.LoweringError, match=r"test_step24_words.py:\d+.*math.gcd\(x\[i\], 3\).*integers"):
        launch_for(space, 2, of_a_float, np.ones(2))


@pk.kernel
def whole(i, x, out):
    out[i] = round(x[i]) + round(2.5) + round(i)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_goes_to_even(space, dtype):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 7.49, 1e9 + 0.4], dtype)
    want = [round(v) + 2 + i for i, v in enumerate(x.tolist())]
    assert_array_equal(launch_for(space, len(x), whole, x, np.zeros(len(x), np.int64))[1], want)


@pk.kernel
def gammas(i, a, x, out):
    out[0, i] = pk.digamma(a[i])
    out[1, i] = pk.gammainc(a[i], x[i])
    out[2, i] = pk.gammaincc(a[i], x[i])


def test_digamma_and_the_incomplete_gamma_function(space):
    special = pytest.importorskip("scipy.special")
    rng = default_rng(5)
    a = np.concatenate([rng.uniform(0, 20, 40), np.exp(rng.uniform(-5, 8, 24))])
    x = a * np.exp(rng.normal(size=64) / np.sqrt(a + 1))
    x[:2] = 0.0, np.inf
    out = launch_for(space, 64, gammas, a, x, np.zeros((3, 64)))[2]
    assert_allclose(out[0], special.digamma(a), rtol=2e-15, atol=2e-15)
    assert_allclose(out[1], special.gammainc(a, x), rtol=1e-12)
    assert_allclose(out[2], special.gammaincc(a, x), rtol=1e-11)


def test_digamma_of_negative_numbers_and_poles():
    assert_allclose(
        [pk.digamma(-0.5), pk.digamma(-2.25)], [0.03648997397857652, 4.158583564657973], rtol=1e-14
    )
    assert (
        pk.digamma(0.0) == -math.inf and math.isnan(pk.digamma(-3.0)) and math.isnan(pk.gammainc(-1.0, 2.0))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WORDS)
def test_words_lower_to_ptx(name, dtype, tmp_path):
    """A float32 kernel has no float64 instruction."""
    x = np.ones(4, dtype)
    text = lower(kernel_of(name), 4, (x, x, x), (9, 0))
    assert dtype is np.float64 or ".f64" not in text
    assemble(text, (9, 0), tmp_path)


# ---- functions with defaults and keywords
FACTOR = 2.0


@pk.function
def scaled(x, by=FACTOR, plus=Fraction(1, 2).numerator / 2):
    return x * by + plus


@pk.kernel
def many(i, x, out):
    out[i] = (
        scaled(x[i])
        + 10.0 * scaled(x[i], 3.0)
        + 100.0 * scaled(x[i], plus=1.0)
        + 1000.0 * scaled(plus=0.0, x=x[i], by=1.0)
    )


def test_defaults_and_keywords(space):
    x = np.arange(9.0)
    want = (2 * x + 0.5) + 10 * (3 * x + 0.5) + 100 * (2 * x + 1) + 1000 * x
    assert_array_equal(launch_for(space, 9, many, x, np.zeros(9))[1], want)
    assert scaled(2.0) == 4.5


@pk.kernel
def twice(i, x):
    x[i] = scaled(x[i], 2.0, by=1.0)


@pk.kernel
def nothing(i, x):
    x[i] = scaled()


@pytest.mark.parametrize("kernel, words", [(twice, "no parameter 'by'"), (nothing, "1 to 3 argument")])
def test_wrong_arguments_are_named(space, kernel, words):
    with pytest.raises((pk.LanguageError, pk.LoweringError), match=words):
        launch_for(space, 2, kernel, np.ones(2))


# ---- print
@pk.kernel
def says(i, x):
    print("x of", i, "is", x[i])


def test_print_is_for_the_checked_space(space, capsys):
    if space == "checked":
        launch_for(space, 2, says, np.array([0.5, 1.5]))
        assert capsys.readouterr().out == "x of 0 is 0.5\nx of 1 is 1.5\n"
        return
    with pytest.raises(pk.LanguageError, match="checked"):
        launch_for(space, 2, says, np.zeros(2))


@pk.kernel
def missing(i, x):
    x[i] = math.comb(5, 2)


def test_what_is_missing_is_refused_with_what_there_is(space):
    with pytest.raises(pk.LanguageError, match="math.comb.*atan2.*gammainc"):
        launch_for(space, 2, missing, np.zeros(2))


def test_every_row_is_whole():
    for row in ROWS:
        assert callable(row.plain) and row.reads and (row.line or row.name in ("modulo64", "near_rsqrt"))
        assert row.line == row.line.strip() and "|" not in row.line.replace("|x|", "").replace(
            "|m|", ""
        ).replace("|a - b|", "")
