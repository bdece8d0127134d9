"""The error function and its relatives as kernel source, by the rules and with the tools of elementary.py."""

from ...core.texts.elementary import at_most, clamp, horner, power, product, reduce_exp
from ...core.language.words import copysign, fma, where
from .approximate import exp_nonpositive_of
from .c99 import horner_parts
from .tables import T


# ---- the error function: erfc(a) = exp(-a^2) erfcx(a), both in two parts
def erfcx(a, a_low):
    """exp(a^2) erfc(a) of a >= 0 in two parts.

    The rounded t = (a - k) / (a + k) belongs to a slightly different a, for which 1 - t is 2k / (a + k); the
    difference is corrected by the derivative 2a erfcx(a) - 2 / sqrt(pi).
    """
    k, half_of_1_over_k, last_low, two_over_sqrt_pi = T.ERFCX_PARTS
    d = a + k
    t = fma(1.0 / d, -2.0 * k, 1.0)
    u = 1.0 - t
    u_low = (1.0 - u) - t
    residual = fma(d, u, -2.0 * k) + fma(d, u_low, (a - (d - k)) * u)
    shift = fma(residual * half_of_1_over_k, d, a_low)
    p, p_low = horner_parts(t, T.ERFCX, last_low)
    m, m_low = product(p, u)
    return m, fma(shift, fma(a + a, m, -two_over_sqrt_pi), fma(p, u_low, fma(p_low, u, m_low)))


def tail(a, a_low, h, h_low, half):
    """half * exp(-h - h_low) erfcx(a + a_low), a >= 0, rounded once; where the result underflows, the scale
    is 0. Tiny results have a scale 2^64 too large.
    """
    small, end = T.TAIL_ENDS
    tiny = h > small
    r, r_low, t = reduce_exp(-h, where(tiny, T.ONE_TAIL, T.ONE))
    scale = power(where(h > end, 0.0, t))
    m, m_low = erfcx(a, a_low)
    m, m_low, low = half * m, half * m_low, r_low - h_low
    p = 1.0 + r
    rest = fma(r, r * horner(r, T.EXPM1), r - (p - 1.0))
    p_low = fma(low, p + rest, rest)
    y = fma(m, p, fma(m, p_low, m_low * p)) * scale
    return where(tiny, y * 2.0**-64, y)


def erfc_of(x):
    a = clamp(abs(x), 0.0, T.ERFC_END)
    h, h_low = product(a, a)
    y = tail(a, 0.0, h, h_low, 1.0)
    return where(x < 0.0, 2.0 - y, y)


def ndtr_of(x):
    b = clamp(abs(x), 0.0, T.NDTR_END)
    a, a_low = product(b, T.ROOT_HALF[0])
    h, h_low = product(0.5 * b, b)
    y = tail(a, fma(b, T.ROOT_HALF[1], a_low), h, h_low, 0.5)
    return where(x > 0.0, 1.0 - y, y)


def erf_of(x):
    """erf(x) by a polynomial below 1; beyond, as 1 - exp(-a - a q(a)), whose error is as small as that of
    erfc.
    """
    a = at_most(abs(x), T.ERF_END)
    y = 1.0 - exp_nonpositive_of(fma(-a, horner(a, T.ERF_TAIL), -a))
    return where(a < 1.0, fma(x, horner(x * x, T.ERF), x), copysign(y, x))
