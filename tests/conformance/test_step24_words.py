"""Step 24: words that are kernel text themselves, functions with defaults, print."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.language.words import ROWS
from portable.library.texts import approximate

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
    out = launch_for(len(x), parts, x, np.zeros((2, len(x))))[1]
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
    assert_array_equal(launch_for(len(x), near, x, y, np.zeros(len(x), np.int64))[2], want)


@pk.kernel
def divisors(i, a, b, out):
    out[i] = math.gcd(a[i], b[i]) + pk.gcd(36, i)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_gcd(space, dtype):
    a, b = default_rng(4).integers(0, 10**6, (2, 50))
    if np.issubdtype(dtype, np.signedinteger):
        a[::3] *= -1
    a[:2] = 0
    b[:1] = 0
    want = [math.gcd(p, q) + math.gcd(36, i) for i, (p, q) in enumerate(zip(a.tolist(), b.tolist()))]
    assert_array_equal(
        launch_for(50, divisors, a.astype(dtype), b.astype(dtype), np.zeros(50, np.int64))[2], want
    )


@pk.kernel
def of_a_float(i, x):
    x[i] = math.gcd(x[i], 3)


def test_gcd_of_a_float_is_refused(space):
    with pytest.raises(pk.LoweringError, match=r"test_step24_words.py:\d+.*math.gcd\(x\[i\], 3\).*integers"):
        launch_for(2, of_a_float, np.ones(2))


@pk.kernel
def whole(i, x, out):
    out[i] = round(x[i]) + round(2.5) + round(i)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_goes_to_even(space, dtype):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 7.49, 1e9 + 0.4], dtype)
    want = [round(v) + 2 + i for i, v in enumerate(x.tolist())]
    assert_array_equal(launch_for(len(x), whole, x, np.zeros(len(x), np.int64))[1], want)


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
    out = launch_for(64, gammas, a, x, np.zeros((3, 64)))[2]
    assert_allclose(out[0], special.digamma(a), rtol=2e-15, atol=2e-15)
    assert_allclose(out[1], special.gammainc(a, x), rtol=1e-12)
    assert_allclose(out[2], special.gammaincc(a, x), rtol=1e-11)


def test_digamma_of_negative_numbers_and_poles():
    assert_allclose(
        [pk.digamma(-0.5), pk.digamma(-2.25)], [0.03648997397857652, 4.158583564657973], rtol=1e-14
    )
    assert (
        pk.digamma(0.0) == pk.digamma(0) == -math.inf
        and math.isnan(pk.digamma(-3.0))
        and math.isnan(pk.gammainc(-1.0, 2.0))
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WORDS)
def test_words_lower_to_ptx(name, dtype, tmp_path):
    """A float32 kernel has no float64 instruction."""
    x = np.ones(4, dtype)
    text = lower(kernel_of(name), 4, (x, x, x))
    assert dtype is np.float64 or ".f64" not in text
    assemble(text, tmp_path)


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
    assert_array_equal(launch_for(9, many, x, np.zeros(9))[1], want)
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
        launch_for(2, kernel, np.ones(2))


# ---- print
@pk.kernel
def says(i, x):
    print("x of", i, "is", x[i])


def test_print_is_for_the_checked_space(space, capsys):
    if space == "checked":
        launch_for(2, says, np.array([0.5, 1.5]))
        assert capsys.readouterr().out == "x of 0 is 0.5\nx of 1 is 1.5\n"
        return
    with pytest.raises(pk.LanguageError, match="checked"):
        launch_for(2, says, np.zeros(2))


@pk.kernel
def missing(i, x):
    x[i] = math.comb(5, 2)


def test_what_is_missing_is_refused_with_what_there_is(space):
    with pytest.raises(pk.LanguageError, match="math.comb.*atan2.*gammainc"):
        launch_for(2, missing, np.zeros(2))


def test_every_row_is_whole():
    for row in ROWS:
        assert callable(row.plain) and row.reads and (row.line or row.name in ("modulo64", "near_rsqrt"))
        assert row.line == row.line.strip() and "|" not in row.line.replace("|x|", "").replace(
            "|m|", ""
        ).replace("|a - b|", "")


# the numbers from 1 to 4 whose inverse roots are within 2^-100 of a midpoint between two floats, the nearest
# first: found by a search of all midpoints
HARD = """
1.a6a9cc15abccep+0 1.c562b857453ddp+1 1.826dca556295ap+1 1.019f3185cc078p+0 1.2cf7c2d6696e2p+0
1.54709118a46d6p+1 1.656230dda552dp+0 1.d0a4a40f6cdecp+0 1.c71c71c71c720p+0 1.1d87b404a19e4p+0
1.cb33dde23f4dfp+0 1.7b8a47dd144acp+0 1.adf7d568fb6bdp+1 1.1bc0327288980p+0 1.016ab3f34f6cap+1
1.aff7a74ebc794p+1 1.05302693f863dp+0 1.8376f59dbd3a8p+1 1.e1f5ccbd57a16p+0 1.47fde75370085p+1
1.b9e8780208331p+0 1.82eedc431a662p+0 1.06869c46e3af3p+0 1.1bc50bd2f80b7p+0 1.00b02df0c1f94p+0
1.65f87ba43c0eep+1 1.2ac3d8d72ce01p+1 1.29c7f27b35a5cp+1 1.ed4285d71c6aep+0 1.4a2604bf3251dp+0
1.e20f2539faeabp+1 1.47ae147ae1480p+1 1.2eb6d223a7145p+0 1.4ede32d8befd8p+0 1.081cf76b75272p+1
1.4f244185f76a9p+0 1.62acbc4c59c27p+0 1.8f9e93439f37ap+0 1.9c66d758eb8d2p+0 1.1acb19e199c52p+1
1.580aa9accd7fbp+0 1.9beb6a9cc13f2p+0 1.4b8a6f3ab3beep+0 1.fe7c59d0291a7p+0
"""


@pk.kernel(packed=False)
def inverse_roots(i, x, a, b, y):
    p, q = a[i], b[i]
    y[0, i], y[1, i] = pk.rsqrt(x[i]), pk.rsqrt(p * p + q * q + 1e-300)


def test_hard_inverse_roots(space, monkeypatch):
    """Float64 roots are rounded correctly but for the second, also from the neighbour beyond the midpoint:
    the error of the last step is below 2^-102. The second argument is known to be normal, which saves CUDA
    the checks for zero.
    """
    x = np.array([*map(float.fromhex, HARD.split()), np.inf, np.nan])
    with mpmath.workprec(200):
        y = [float(1 / mpmath.sqrt(v)) for v in x]
    y[1] = np.nextafter(y[1], 0)
    a = np.nextafter(np.sqrt(x), 0)
    args = x, a, np.sqrt([*map(pk.fma, -a, a, x)]), np.zeros((2, 46))
    got = launch_for(46, inverse_roots, *args)[3]
    assert_allclose(got, [y, y], 3e-16 if space == "checked" else 0)  # NumPy's root and quotient there
    ptx = lower(inverse_roots, 9, args)
    assert ptx.count("rsqrt.approx.ftz.f64") == ptx.count("sqrt.rn.f64") == 1
    for v, want in zip(x[:-2], y):
        above = Fraction(want) ** 2 * Fraction(v) < 1
        for start in (want, np.nextafter(want, 2.0 * above)):
            monkeypatch.setattr(approximate, "near_rsqrt", lambda x, start=start: start)
            assert approximate.rsqrt_of(v) == want
