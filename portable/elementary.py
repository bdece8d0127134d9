"""exp, log and their family as kernel text: one sequence of fused multiply-adds, so the same bits on every machine.

Every function here is compiled like a user's kernel, for scalars, lane packs and CUDA. The text is branch-free (selects only), the
float32 versions hold no float64 operation, and every product that meets a sum is an explicit `fma`, because a compiler is free
to contract `a * b + c` and the machines would then disagree.

The plan is Cody and Waite's (Software Manual for the Elementary Functions, 1980): reduce exactly, approximate on a short
interval, rebuild. Rounding to an integer is the addition of 1.5 * 2^52 (or 2^23), which leaves the integer in the low bits.
"""

from .elementary_tables import (EXP2_32, EXP2_64, EXP_32, EXP_64, EXPM1_32, EXPM1_64, FAST_EXP_32, FAST_EXP_64, LOG2_32, LOG2_64,
                                LOG_32, LOG_64)
from .words import (bits, copysign, float32, float64, fma, from_bits32, from_bits64, maximum, minimum, sqrt, where)

INF = float("inf")
NAN = float("nan")
ROUND_64, ROUND_32 = 6755399441055744.0, 12582912.0  # 1.5 * 2^52, 1.5 * 2^23
TINY_64, TINY_32 = 2.2250738585072014e-308, 1.1754943508222875e-38  # the smallest normal numbers
TWO_52, TWO_54, TWO_23, TWO_25, TWO_M64 = 2.0**52, 2.0**54, 2.0**23, 2.0**25, 2.0**-64

# Constants in two parts: HIGH is the nearest number of the type, LOW the nearest to the rest. With |r| <= 1/2 the reduction
# fma(n, -HIGH, x) is exact: it is a multiple of half an ulp of ln 2. SHORT ends in zeros, so that n * SHORT is exact.
LOG2E_64, LOG2E_LOW_64 = 1.4426950408889634, 2.0355273740931033e-17
LOG2E_32, LOG2E_LOW_32 = 1.4426950216293335, 1.925963033500011e-08
LN2_64, LN2_LOW_64 = 0.6931471805599453, 2.3190468138462996e-17
LN2_32, LN2_LOW_32 = 0.6931471824645996, -1.9046542121259336e-09
LN2_SHORT_64, LN2_REST_64 = 0.6931471805601177, -1.7239444525614835e-13
LN2_SHORT_32, LN2_REST_32 = 0.69317626953125, -2.9088971132296138e-05
LOG10_2_64, LOG10_2_LOW_64 = 0.3010299956639812, -2.8037281277851704e-18
LOG10_2_32, LOG10_2_LOW_32 = 0.3010300099849701, -1.432098883924482e-08


def horner(x, coefficients):
    """The polynomial with these coefficients, highest degree first: one fma a degree."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = fma(total, x, c)
    return total


# ---- exponentials
# The polynomial gives 2 exp(r) and the scale is 2^(n-1): the largest results then need no scale above 2^1023. Results below the
# normal numbers are made 2^64 times larger (`tiny` changes the rounding constant, and with it the exponent), then scaled back:
# one rounding into the subnormals.
def exp_f64(x):
    x = where(x > 710.0, 710.0, x)
    x = where(x < -746.0, -746.0, x)
    tiny = x < -708.0
    magic = where(tiny, float64(ROUND_64 + 1022 + 64), ROUND_64 + 1022)
    t = fma(x, LOG2E_64, magic)
    n = t - magic
    r = fma(n, -LN2_LOW_64, fma(n, -LN2_64, x))
    y = horner(r, EXP_64) * from_bits64(bits(t) << 52)
    return where(tiny, y * TWO_M64, y)


def exp_f32(x):
    x = maximum(minimum(x, 89.0), -105.0)
    tiny = x < -86.0
    magic = where(tiny, float32(ROUND_32 + 126 + 64), ROUND_32 + 126)
    t = fma(x, LOG2E_32, magic)
    n = t - magic
    r = fma(n, -LN2_LOW_32, fma(n, -LN2_32, x))
    y = horner(r, EXP_32) * from_bits32(bits(t) << 23)
    return where(tiny, y * TWO_M64, y)


def exp2_f64(x):
    x = where(x > 1025.0, 1025.0, x)
    x = where(x < -1077.0, -1077.0, x)
    tiny = x < -1021.0
    magic = where(tiny, float64(ROUND_64 + 1022 + 64), ROUND_64 + 1022)
    t = x + magic
    y = horner(x - (t - magic), EXP2_64) * from_bits64(bits(t) << 52)
    return where(tiny, y * TWO_M64, y)


def exp2_f32(x):
    x = maximum(minimum(x, 129.0), -152.0)
    tiny = x < -125.0
    magic = where(tiny, float32(ROUND_32 + 126 + 64), ROUND_32 + 126)
    t = x + magic
    y = horner(x - (t - magic), EXP2_32) * from_bits32(bits(t) << 23)
    return where(tiny, y * TWO_M64, y)


def rebuild_expm1(x, r, r_low, scale, coefficients):
    """exp(x) - 1 from x = n ln 2 + r + r_low and scale = 2^(n-1): the sum's larger part first, its error kept."""
    base = scale - 0.5
    high = fma(scale, r, base)
    low = fma(scale, r, base - high) + ((scale - base) - 0.5)
    y = high + fma(scale, fma(r * r, horner(r, coefficients), fma(r, r_low, r_low)), low)
    return y + y


def expm1_f64(x):
    a = where(x > 710.0, 710.0, x)
    a = where(a < -40.0, -40.0, a)
    t = fma(a, LOG2E_64, ROUND_64 + 1022)
    n = t - (ROUND_64 + 1022)
    high = fma(n, -LN2_64, a)
    r = fma(n, -LN2_LOW_64, high)
    y = rebuild_expm1(a, r, fma(n, -LN2_LOW_64, high - r), from_bits64(bits(t) << 52), EXPM1_64)
    return where(abs(x) < 1e-17, x, y)  # keeps -0 and the subnormals


def expm1_f32(x):
    a = maximum(minimum(x, 89.0), -20.0)
    t = fma(a, LOG2E_32, ROUND_32 + 126)
    n = t - (ROUND_32 + 126)
    high = fma(n, -LN2_32, a)
    r = fma(n, -LN2_LOW_32, high)
    y = rebuild_expm1(a, r, fma(n, -LN2_LOW_32, high - r), from_bits32(bits(t) << 23), EXPM1_32)
    return where(abs(x) < float32(1e-9), x, y)


# ---- logarithms
# x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2): adding bits(1) - bits(sqrt(1/2)) to the pattern makes the exponent field
# change at sqrt(1/2) 2^k. The integer k becomes a float through the bits of 2^52 + k (or 2^23 + k). f is exact.
def split_f64(x):
    """k and f of a positive x, subnormal or not."""
    tiny = x < TINY_64
    i = bits(where(tiny, x * TWO_54, x)) + 0x00095F619980C433
    k = from_bits64((i >> 52) | 0x4330000000000000) - where(tiny, float64(TWO_52 + 1023 + 54), TWO_52 + 1023)
    return k, from_bits64((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0


def split_f32(x):
    tiny = x < TINY_32
    i = bits(where(tiny, x * TWO_25, x)) + 0x004AFB0D
    k = from_bits32((i >> 23) | 0x4B000000) - where(tiny, float32(TWO_23 + 127 + 25), TWO_23 + 127)
    return k, from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0


def finish_log(x, y):
    """y, but what log(x) is at zero, below it, at infinity and at NaN."""
    y = where(x > 0.0, y, where(x == 0.0, x - INF, x * NAN))
    return where(x < INF, y, x)


def log_parts(k, f, ln2_short, ln2_rest, coefficients):
    """k ln 2 + log(1 + f) as a larger and a smaller part."""
    high = fma(k, ln2_short, f)
    low = f - fma(k, -ln2_short, high)
    return high, fma(f, f * horner(f, coefficients), fma(k, ln2_rest, low))


def log_f64(x):
    k, f = split_f64(x)
    high, low = log_parts(k, f, LN2_SHORT_64, LN2_REST_64, LOG_64)
    return finish_log(x, high + low)


def log_f32(x):
    k, f = split_f32(x)
    high, low = log_parts(k, f, LN2_SHORT_32, LN2_REST_32, LOG_32)
    return finish_log(x, high + low)


# log1p: u = 1 + x with its error, log(u), and the error times 1 / u, for which 1 - f + 0.875 f^2 is near enough.
def error_of_one_plus(x, u):
    back = u - 1.0
    return (1.0 - (u - back)) + (x - back)


def log1p_f64(x):
    u = 1.0 + x
    i = bits(u) + 0x00095F619980C433
    k = from_bits64((i >> 52) | 0x4330000000000000) - (TWO_52 + 1023)
    f = from_bits64((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    error = error_of_one_plus(x, u) * (0.5 * from_bits64(0x7FF0000000000000 - (i & 0x7FF0000000000000)))  # divided by 2^k
    high, low = log_parts(k, f, LN2_SHORT_64, LN2_REST_64, LOG_64)
    return copysign(finish_log(u, high + fma(error, fma(f, fma(f, 0.875, -1.0), 1.0), low)), x)


def log1p_f32(x):
    u = 1.0 + x
    i = bits(u) + 0x004AFB0D
    k = from_bits32((i >> 23) | 0x4B000000) - (TWO_23 + 127)
    f = from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0
    error = error_of_one_plus(x, u) * (0.5 * from_bits32(0x7F800000 - (i & 0x7F800000)))
    high, low = log_parts(k, f, LN2_SHORT_32, LN2_REST_32, LOG_32)
    return copysign(finish_log(u, high + fma(error, fma(f, fma(f, 0.875, -1.0), 1.0), low)), x)


def log2_parts(k, f, log2e, log2e_low, coefficients):
    """k + log2(1 + f) as a larger and a smaller part."""
    p = fma(f, log2e, 0.0)  # not `f * log2e`, which could be contracted into the next sum
    high = k + p
    low = fma(f, log2e_low, fma(f, log2e, -p) + (p - (high - k)))
    return high, fma(f, f * horner(f, coefficients), low)


def log2_f64(x):
    k, f = split_f64(x)
    high, low = log2_parts(k, f, LOG2E_64, LOG2E_LOW_64, LOG2_64)
    return finish_log(x, high + low)


def log2_f32(x):
    k, f = split_f32(x)
    high, low = log2_parts(k, f, LOG2E_32, LOG2E_LOW_32, LOG2_32)
    return finish_log(x, high + low)


def times_log10_2(high, low, constant, constant_low):
    """(high + low) * log10(2), rounded once but for terms far below an ulp."""
    y = high + low
    return fma(y, constant, fma(y, constant_low, ((high - y) + low) * constant))


def log10_f64(x):
    k, f = split_f64(x)
    high, low = log2_parts(k, f, LOG2E_64, LOG2E_LOW_64, LOG2_64)
    return finish_log(x, times_log10_2(high, low, LOG10_2_64, LOG10_2_LOW_64))


def log10_f32(x):
    k, f = split_f32(x)
    high, low = log2_parts(k, f, LOG2E_32, LOG2E_LOW_32, LOG2_32)
    return finish_log(x, times_log10_2(high, low, LOG10_2_32, LOG10_2_LOW_32))


# ---- roots
def rsqrt_newton(x):
    """1 / sqrt(x): the quotient and one Newton step on its exact residual; zero and infinity keep the quotient."""
    y = 1.0 / sqrt(x)
    h = x * y
    error = fma(-fma(x, y, -h), y, fma(-h, y, 1.0))
    return where(abs(error) < 1.0, fma(0.5 * y, error, y), y)


# ---- fastmath: one degree less, or no error kept; results below the normal numbers become 0, NaN, zero, infinity and negative
# arguments of log are not looked after
def fast_exp_f64(x):
    x = where(x > 710.0, 710.0, x)
    x = where(x < -708.5, -708.5, x)
    t = fma(x, LOG2E_64, ROUND_64 + 1022)
    n = t - (ROUND_64 + 1022)
    r = fma(n, -LN2_LOW_64, fma(n, -LN2_64, x))
    return horner(r, FAST_EXP_64) * from_bits64(bits(t) << 52)


def fast_exp_f32(x):
    x = maximum(minimum(x, 89.0), -87.5)
    t = fma(x, LOG2E_32, ROUND_32 + 126)
    n = t - (ROUND_32 + 126)
    r = fma(n, -LN2_LOW_32, fma(n, -LN2_32, x))
    return horner(r, FAST_EXP_32) * from_bits32(bits(t) << 23)


def fast_log_f64(x):
    i = bits(x) + 0x00095F619980C433
    k = from_bits64((i >> 52) | 0x4330000000000000) - (TWO_52 + 1023)
    f = from_bits64((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    return fma(k, LN2_64, fma(f, f * horner(f, LOG_64), f))


def fast_log_f32(x):
    i = bits(x) + 0x004AFB0D
    k = from_bits32((i >> 23) | 0x4B000000) - (TWO_23 + 127)
    f = from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0
    return fma(k, LN2_32, fma(f, f * horner(f, LOG_32), f))


FUNCTIONS = {
    "exp": (exp_f32, exp_f64),
    "exp2": (exp2_f32, exp2_f64),
    "expm1": (expm1_f32, expm1_f64),
    "log": (log_f32, log_f64),
    "log1p": (log1p_f32, log1p_f64),
    "log2": (log2_f32, log2_f64),
    "log10": (log10_f32, log10_f64),
    "rsqrt": (rsqrt_newton, rsqrt_newton),
}

FAST = {
    "exp": (fast_exp_f32, fast_exp_f64),
    "log": (fast_log_f32, fast_log_f64),
}
