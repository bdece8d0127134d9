"""The gamma function and its relatives as kernel text."""

from __future__ import annotations

from ..language.annotations import Number
from .elementary import (
    INF,
    LOG2E_32,
    LOG2E_64,
    NAN,
    exp2_sum_f32,
    exp2_sum_f64,
    horner,
    precise_log2,
    product,
    quotient,
    split_f32,
    split_f64,
)
from .elementary_counts import _log_poisson
from .elementary_tables import (
    GAMMA_32,
    GAMMA_64,
    POW_32,
    POW_64,
    SINPI_32,
    SINPI_64,
    STIRLING_32,
    STIRLING_64,
)
from ..language.kernel import function
from ..language.words import any, exp, float64, floor, fma, isfinite, rint, where, word


# ---- gamma(x). With a = |x|: below 8 it is a polynomial in the fraction t of a, 1 at t = 0 and 1, times (a -
# 1) (a - 2) ... (t + 1),
# or divided by a below 1; above 8 Stirling's formula as a power of 2. Negative x are reflected.
def gamma_near(a, coefficients):
    """gamma(a) below 8: the product is exact but for rounding in its second part."""
    t = a - floor(a)
    g, g_low = product(t, t - 1.0)
    u = g * horner(t, coefficients)
    one = 1.0 + u
    low = u - (one - 1.0)
    p, p_low = where(a < 1.0, 1.0, where(a >= 2.0, a - 1.0, 1.0)), a - a
    for c in (2.0, 3.0, 4.0, 5.0, 6.0):
        f = where(a - c >= 1.0, a - c, 1.0)
        q = p * f
        p, p_low = q, fma(p_low, f, fma(p, f, -q))
    q = p * one
    return where(a < 1.0, quotient(one, low, a, 0.0), q + fma(p, low, fma(p_low, one, fma(p, one, -q))))


def gamma_exponent(a, high, low, log2e, half_log2_2pi, stirling):
    """log2(gamma(a)), a >= 8 and not so large that all is infinite, in two parts, from those of log2(a)."""
    p, p_low = product(a - 0.5, high)
    q, q_low = product(a, log2e[0])
    s = p - q
    inverse = 1.0 / a
    rest = (
        fma(a - 0.5, low, p_low)
        - fma(a, log2e[1], q_low)
        + inverse * horner(inverse * inverse, stirling) * log2e[0]
    )
    h = s + half_log2_2pi[0]
    back = h - s
    return h, ((s - (h - back)) + (half_log2_2pi[0] - back)) + (((p - s) - q) + rest + half_log2_2pi[1])


def gamma_of_size(x, a, h, low, power, largest, coefficients, sine):
    """gamma(x) from a = |x| and its logarithm where that is above 8."""
    near = gamma_near(where(a < 8.0, a, 1.0), coefficients)
    y = where(a < 8.0, near, power(where(h < largest, h, largest), low))
    if any(x < 0.0):  # -1 / (a gamma(a) sin(pi a) / pi)
        d = abs(a - rint(a))
        z = d * d
        s = a * (d * fma(z, horner(z, sine), 1.0))
        shift = where(h > 96.0, 64.0, 0.0)  # or the power would be below normal numbers before it is divided
        inverse = power(shift - where(h < largest, h, largest), -low) / s
        below = where(a < 8.0, 1.0 / (s * near), where(h > 96.0, inverse * 2.0**-64, inverse))
        below = where(s == 0.0, NAN, where(0.5 * floor(a) == floor(0.5 * floor(a)), -below, below))
        y = where(x < 0.0, below, y)
    return y


def gamma_at_ends(x, y, tiny):
    return where(tiny, 1.0 / x, where(abs(x) < INF, y, where(x > 0.0, x, NAN)))


def gamma_f64(x):
    a = abs(x)
    b = where(a < 200.0, a, 200.0)
    k, f = split_f64(b)
    high, low = precise_log2(
        k,
        f,
        (2.8853900817779268, 4.0710547481862066e-17),
        (0.9617966939259756, 5.0577616648125907e-17),
        POW_64,
    )
    h, low = gamma_exponent(b, high, low, LOG2E_64, (1.3257480647361595, -7.153413670427599e-17), STIRLING_64)
    y = gamma_of_size(x, a, h, low, exp2_sum_f64, 1100.0, GAMMA_64, SINPI_64)
    return gamma_at_ends(x, y, a < 2.0**-60)


def gamma_f32(x):
    a = abs(x)
    b = where(a < 60.0, a, 60.0)
    k, f = split_f32(b)
    high, low = precise_log2(
        k, f, (2.885390043258667, 3.851926067000022e-08), (0.9617967009544373, -7.028461812552678e-09), POW_32
    )
    h, low = gamma_exponent(b, high, low, LOG2E_32, (1.325748085975647, -2.1239488390278893e-08), STIRLING_32)
    y = gamma_of_size(x, a, h, low, exp2_sum_f32, 160.0, GAMMA_32, SINPI_32)
    return gamma_at_ends(x, y, a < 2.0**-30)


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
    """P(a, x) and Q(a, x): the series below a + 1, Legendre's continued fraction above, both times a
    probability of Poisson's in Loader's form, so that it is right for large a too."""
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
    """The regularised lower incomplete gamma function P(a, x), a float64; to about 1e-13."""
    return _incomplete(a, x)[0]


@word("inline")
@function
def gammaincc(a: Number, x: Number) -> float:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), without cancellation."""
    return _incomplete(a, x)[1]
