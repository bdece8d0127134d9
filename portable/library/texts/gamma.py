"""The gamma function and its relatives as kernel source."""

from __future__ import annotations

from ...core.language.annotations import Number
from ...core.texts.elementary import INF, NAN, exp2_sum, horner, log_parts_of, precise_log2, product, split
from .c99 import horner_parts, quotient
from .counts import _log_poisson
from .tables import T
from ...core.language.kernel import function
from ...core.language.words import any, exp, float64, floor, fma, isfinite, rint, where, word


# ---- gamma(x). With a = |x|: below 8 it is a polynomial in the fraction t of a, 1 at t = 0 and 1, times (a -
# 1) (a - 2) ... (t + 1),
# or divided by a below 1; above 8 Stirling's formula as a power of 2. Negative x are reflected.
def gamma_near(a):
    """gamma(a) below 8: the product is exact except for rounding in its second part."""
    t = a - floor(a)
    g, g_low = product(t, t - 1.0)
    u = g * horner(t, T.GAMMA)
    one = 1.0 + u
    low = u - (one - 1.0)
    p, p_low = where(a < 1.0, 1.0, where(a >= 2.0, a - 1.0, 1.0)), a - a
    for c in (2.0, 3.0, 4.0, 5.0, 6.0):
        f = where(a - c >= 1.0, a - c, 1.0)
        q = p * f
        p, p_low = q, fma(p_low, f, fma(p, f, -q))
    q = p * one
    return where(a < 1.0, quotient(one, low, a, 0.0), q + fma(p, low, fma(p_low, one, fma(p, one, -q))))


def gamma_exponent(a, high, low):
    """log2(gamma(a)), a >= 8 and not so large that all is infinite, in two parts, from those of log2(a)."""
    p, p_low = product(a - 0.5, high)
    q, q_low = product(a, T.LOG2E[0])
    s = p - q
    inverse = 1.0 / a
    rest = (
        fma(a - 0.5, low, p_low)
        - fma(a, T.LOG2E[1], q_low)
        + inverse * horner(inverse * inverse, T.STIRLING) * T.LOG2E[0]
    )
    h = s + T.HALF_LOG2_2PI[0]
    back = h - s
    return h, ((s - (h - back)) + (T.HALF_LOG2_2PI[0] - back)) + (((p - s) - q) + rest + T.HALF_LOG2_2PI[1])


def gamma_reflected(a, h, low, near):
    """-1 / (a gamma(a) sin(pi a) / pi), which is gamma(-a)."""
    largest = T.GAMMA_ENDS[1]
    d = abs(a - rint(a))
    z = d * d
    s = a * (d * fma(z, horner(z, T.SINPI), 1.0))
    shift = where(h > 96.0, 64.0, 0.0)  # or the power would be below normal numbers before it is divided
    inverse = exp2_sum(shift - where(h < largest, h, largest), -low) / s
    below = where(a < 8.0, 1.0 / (s * near), where(h > 96.0, inverse * 2.0**-64, inverse))
    return where(s == 0.0, NAN, where(0.5 * floor(a) == floor(0.5 * floor(a)), -below, below))


def gamma_of(x):
    """gamma(x) from a = |x|, and its logarithm where a is above 8."""
    a = abs(x)
    end, largest, tiny = T.GAMMA_ENDS
    b = where(a < end, a, end)
    k, f = split(b)
    high, low = precise_log2(k, f)
    h, low = gamma_exponent(b, high, low)
    near = gamma_near(where(a < 8.0, a, 1.0))
    y = where(a < 8.0, near, exp2_sum(where(h < largest, h, largest), low))
    if any(x < 0.0):
        y = where(x < 0.0, gamma_reflected(a, h, low, near), y)
    return where(a < tiny, 1.0 / x, where(a < INF, y, where(x > 0.0, x, NAN)))


# ---- log |gamma(x)|. With a = |x|: below 8 it is a polynomial in the fraction t of a, zero at t = 0 and 1,
# plus
# the logarithm of (a - 1) (a - 2) ... (t + 1), or minus that of a below 1; above 8 it is Stirling's formula.
# Negative x are reflected.
def lgamma_argument(x):
    """Return the argument of the logarithm; below 1, the reflection of a negative x does without it."""
    a = abs(x)
    chain = where(a < 1.0, where(x < 0.0, 1.0, a), 1.0)
    for c in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        chain = chain * where(a - c >= 1.0, a - c, 1.0)
    return where(a < 8.0, chain, a)


def lgamma_positive(a, high, low):
    """lgamma(a) from the two parts of the logarithm."""
    t = a - floor(a)
    g, g_low = product(t, t - 1.0)
    p, p_low = horner_parts(t, T.LGAMMA, T.LGAMMA_LOW)
    near_low = fma(g, p_low, g_low * p) + where(a < 1.0, -low, low)
    near = where(a < 1.0, -high, high) + fma(g, p, near_low)
    log = high + low
    w, h, inverse = a - 0.5, log - 1.0, 1.0 / a
    main, main_low = product(w, h)
    rest = fma(inverse, horner(inverse * inverse, T.STIRLING), T.HALF_LOG_2PI)
    far = main + (fma(w, ((log - h) - 1.0) + ((high - log) + low), main_low) + rest)
    return where(a < 8.0, near, where(main < INF, far, main))


def lgamma_of(x):
    a = abs(x)
    high, low = log_parts_of(lgamma_argument(x))
    y = lgamma_positive(a, high, low)
    if any(x < 0.0):  # lgamma(-a) = -log(|sin(pi a)| a / pi) - lgamma(a)
        d = abs(a - rint(a))
        z = d * d
        s = d * fma(z, horner(z, T.SINPI), 1.0) * where(a < 1.0, 1.0, a)
        high, low = log_parts_of(s)
        y = where(x < 0.0, where(s > 0.0, -(high + (low + y)), INF), y)
    return where(a == 0.0, INF, y)


# ---- the regularised incomplete gamma function
@function
def _series(a, x):
    """1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..."""
    n, term, total = a, 1.0, 1.0
    while term > 1e-17 * total:
        n += 1.0
        term *= x / n
        total += term
    return total


@function
def _fraction(a, x):
    """Legendre's continued fraction, by Lentz's products of two others."""
    b, c, k, change = x + 1.0 - a, 1e300, 0.0, 2.0
    d = 1.0 / b
    total = d
    while abs(change - 1.0) > 4e-16 and k < 1e6:
        k += 1.0
        b += 2.0
        d = 1.0 / (b - k * (k - a) * d)
        c = b - k * (k - a) / c
        change = c * d
        total *= change
    return total


@function
def _incomplete(a, x):
    """Return P(a, x) and Q(a, x): the series below a + 1, Legendre's continued fraction above, both times a
    Poisson probability in Loader's form, so that it is accurate for large a too.
    """
    a, x = float64(a), float64(x)
    lower, upper = where(x == 0.0, 0.0, NAN), where(x == 0.0, 1.0, NAN)
    if a > 0.0 and x > 0.0 and isfinite(a):
        lower, upper = 1.0, 0.0
        if x < a + 1.0:
            total = _series(a, x)
            lower = exp(_log_poisson(a, x)) * total
            upper = 1.0 - lower
        elif isfinite(x):
            total = _fraction(a, x)
            upper = exp(_log_poisson(a, x)) * a * total
            lower = 1.0 - upper
    return lower, upper


@word("inline")
@function
def gammainc(a: Number, x: Number) -> float:
    """Return the regularised lower incomplete gamma function P(a, x), a float64; to about 1e-13."""
    return _incomplete(a, x)[0]


@word("inline")
@function
def gammaincc(a: Number, x: Number) -> float:
    """Return the regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), without
    cancellation."""
    return _incomplete(a, x)[1]
