"""Texts of functions that take a shorter way: the inverse square root, exp of numbers that are not above 0,
and
approximations."""

from ...core.texts.elementary import at_least, clamp, fields, from_bits, horner, power, reduce_exp, series
from ...core.language.words import bits, fma, from_bits64, int32, minimum, near_rsqrt, sqrt, uint64, where
from .tables import T


def near_rsqrt_of(x):
    return 1.0 / sqrt(x)


fast_rsqrt_of = near_rsqrt_of


def corrected(y, error):
    return fma(0.5 * y, error, y)


def corrected_f32(y, error):
    return fma(y * error, fma(0.40625, error, 0.5), y)


def rsqrt_of(x):
    """1 / sqrt(x): an approximation and Newton's step on its exact residual.

    With a term of second order float32 is rounded correctly whatever the approximation is: tried for each x
    from 1 to 4 and each y within 2^-22.9, where coefficients from 0.385 to 0.44 suffice, but not Newton's
    0.375.
    """
    y = near_rsqrt(x)
    error = residual(x, y)
    error = where(error < 1.0, error, 1.0)  # NaN at zero and infinity, where y is exact
    return corrected(y, error)


def residual(x, y):
    h = x * y
    return fma(-fma(x, y, -h), y, fma(-h, y, 1.0))


def normal_rsqrt_of(x):
    """1 / sqrt(x) of a float64 not below 2^-1022, from an approximation to 2^-19: a step of second order to
    half a unit in the last place, and then as in `rsqrt_of`. For infinity, of which y is 0, any finite number
    does.
    """
    y = near_rsqrt(x)
    x = where(int32(bits(x) >> 32) < 0x7FF00000, x, 1.0)
    error = fma(-x, y * y, 1.0)
    y = fma(y * error, fma(0.375, error, 0.5), y)
    return corrected(y, residual(x, y))


def exp_nonpositive_of(x):
    r, _, t = reduce_exp(at_least(x, T.EXP_LEAST), T.HALF)
    return horner(r, T.EXP) * power(t)


# ---- approximations within 3 ulp: fewer coefficients, or no error term. exp and exp2 give 0 below the normal
# numbers; exp2 does not handle NaN, and log not zero, negative numbers, infinity, NaN and subnormals.
# bits of 1024.0, -1022.0, -1023.0
INT_1024, INT_M1022, INT_M1023 = 0x4090 << 48, 0xC08FF << 44, 0xC08FF8 << 40


def fast_exp_of(x):
    r, _, t = reduce_exp(clamp(x, T.EXP_LEAST, T.EXP_ENDS[1]), T.HALF)
    return horner(r, T.FAST_EXP) * power(t)


def fast_exp2_of(x):
    """Compute by integer operations, for which a GPU has 16 times as many units as for float64; x = -1023
    gives 0, 1024 infinity.
    """
    n = bits(x)
    n = where(n > INT_1024, INT_1024, n)
    x = from_bits64(where(uint64(n) > INT_M1022, INT_M1023, uint64(n)))
    return fast_power(x)


def fast_exp2_of_f32(x):
    return fast_power(where(x < -126.0, -127.0, minimum(x, 128.0)))


def fast_power(x):
    t = x + T.ROUND
    p = bits(horner(x - (t - T.ROUND), T.FAST_EXP2))
    return from_bits(p + (bits(t) << T.DIGITS))


def fast_log_of(x):
    k, f, _ = fields(x)
    return fma(k - T.BIASED, T.LN2[0], fma(f, f * fma(series(f, T.LOG), f, -0.5), f))
