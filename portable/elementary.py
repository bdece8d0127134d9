"""exp, log and their family as kernel text: one sequence of fused multiply-adds, so the same bits on every machine.

Every function here is compiled like a user's kernel, for scalars, lane packs and CUDA. The text is branch-free (selects only), the
float32 versions hold no float64 operation, and every product that meets a sum is an explicit `fma`, because a compiler is free
to contract `a * b + c` and the machines would then disagree.

The plan is Cody and Waite's (Software Manual for the Elementary Functions, 1980): reduce exactly, approximate on a short
interval, rebuild. Rounding to an integer is the addition of 1.5 * 2^52 (or 2^23), which leaves the integer in the low bits.
"""

from .elementary_tables import (ERF_32, ERF_64, ERFCX_32, ERFCX_64, EXP2_32, EXP2_64, EXP_32, EXP_64, EXPM1_32, EXPM1_64,
                                FAST_EXP_32, FAST_EXP_64, LOG2_32, LOG2_64, LOG_32, LOG_64, POW_32, POW_64)
from .words import bits, copysign, float32, float64, fma, from_bits32, from_bits64, maximum, minimum, sqrt, trunc, where

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


def product(a, b):
    """a * b as its rounded value and the error. Not `a * b`, which could be contracted into a sum that it meets later."""
    p = fma(a, b, 0.0)
    return p, fma(a, b, -p)


# ---- exponentials
# The polynomial gives 2 exp(r) and the scale is 2^(n-1): the largest results then need no scale above 2^1023. Results below the
# normal numbers are made 2^64 times larger (`tiny` changes the rounding constant, and with it the exponent), then scaled back:
# one rounding into the subnormals. What underflows to zero (`gone`) gets the scale 0: rounding it there would cost the CPU hundreds
# of cycles, and sums of exponentials are full of it. The choice is on the bits, where the compiler does not undo it.
def exp_f64(x):
    gone = x < -745.2
    x = where(x > 710.0, 710.0, x)
    x = where(x < -746.0, -746.0, x)
    tiny = x < -708.0
    magic = where(tiny, float64(ROUND_64 + 1022 + 64), ROUND_64 + 1022)
    t = fma(x, LOG2E_64, magic)
    n = t - magic
    r = fma(n, -LN2_LOW_64, fma(n, -LN2_64, x))
    y = horner(r, EXP_64) * from_bits64(where(gone, 0, bits(t) << 52))
    return where(tiny, y * TWO_M64, y)


def exp_f32(x):
    gone = x < -104.0
    x = maximum(minimum(x, 89.0), -105.0)
    tiny = x < -86.0
    magic = where(tiny, float32(ROUND_32 + 126 + 64), ROUND_32 + 126)
    t = fma(x, LOG2E_32, magic)
    n = t - magic
    r = fma(n, -LN2_LOW_32, fma(n, -LN2_32, x))
    y = horner(r, EXP_32) * from_bits32(where(gone, 0, bits(t) << 23))
    return where(tiny, y * TWO_M64, y)


def exp2_sum_f64(x, low):
    """2^(x + low), low far below 1; the literal -0.0 costs nothing."""
    x = where(x > 1025.0, 1025.0, x)
    x = where(x < -1077.0, -1077.0, x)
    tiny = x < -1021.0
    magic = where(tiny, float64(ROUND_64 + 1022 + 64), ROUND_64 + 1022)
    t = x + magic
    y = horner(x - (t - magic) + low, EXP2_64) * from_bits64(bits(t) << 52)
    return where(tiny, y * TWO_M64, y)


def exp2_sum_f32(x, low):
    x = maximum(minimum(x, 129.0), -152.0)
    tiny = x < -125.0
    magic = where(tiny, float32(ROUND_32 + 126 + 64), ROUND_32 + 126)
    t = x + magic
    y = horner(x - (t - magic) + low, EXP2_32) * from_bits32(bits(t) << 23)
    return where(tiny, y * TWO_M64, y)


def exp2_f64(x):
    return exp2_sum_f64(x, -0.0)


def exp2_f32(x):
    return exp2_sum_f32(x, -0.0)


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
    y = where(x >= 0.0, where(x == 0.0, -INF, y), NAN)
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
    p, p_low = product(f, log2e)
    high = k + p
    low = fma(f, log2e_low, p_low + (p - (high - k)))
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


# ---- pow: the logarithm to base 2 with some 65 bits, times y, and 2 to that
def precise_log2(k, f, c, c_low, third, third_low, coefficients):
    """k + log2(1 + f) as two parts, from the series of 2 atanh(s) / ln 2 in s = f / (2 + f); `third` is its s^3 coefficient."""
    d = 2.0 + f
    w = 1.0 / d
    s = f * w
    s_low = fma(-s, f - (d - 2.0), fma(-s, d, f)) * w
    z, z_low = product(s, s)
    z_low = fma(s + s, s_low, z_low)
    q = horner(z, coefficients)
    cubic = fma(z, q, third)
    cubic_low = fma(z, q, third - cubic) + third_low
    s3, s3_low = product(s, z)
    s3_low = fma(s, z_low, fma(s_low, z, s3_low))
    a, a_low = product(s, c)
    a_low = fma(s, c_low, fma(s_low, c, a_low))
    b, b_low = product(s3, cubic)
    b_low = fma(s3, cubic_low, fma(s3_low, cubic, b_low))
    v = a + b
    v_low = (b - (v - a)) + (a_low + b_low)
    high = k + v
    return high, (v - (high - k)) + v_low


def finish_pow(x, y, m):
    """m = |x|^y with its sign and the special cases of C99."""
    a = abs(x)
    m = where(a == 0.0, where(y > 0.0, a, INF), where(a == INF, where(y > 0.0, a, 0.0), m))
    even = trunc(0.5 * y) == 0.5 * y
    m = where(trunc(y) == y, where(even, m, copysign(m, x)), where(x < 0.0, where(a < INF, NAN, m), m))
    m = where(x == x, where(y == y, m, y), x)
    return where(y == 0.0, 1.0, where(x == 1.0, x, m))


def pow_f64(x, y):
    k, f = split_f64(abs(x))
    high, low = precise_log2(k, f, 2.8853900817779268, 4.0710547481862066e-17, 0.9617966939259756, 5.0577616648125907e-17, POW_64)
    b = where(y > 1e20, 1e20, where(y < -1e20, -1e20, y))
    p, p_low = product(b, high)
    p_low = where(abs(p) < 1100.0, fma(b, low, p_low), 0.0)
    return finish_pow(x, y, exp2_sum_f64(p, p_low))


def pow_f32(x, y):
    k, f = split_f32(abs(x))
    high, low = precise_log2(k, f, 2.885390043258667, 3.851926067000022e-08, 0.9617967009544373, -7.028461812552678e-09, POW_32)
    b = maximum(minimum(y, float32(1e12)), float32(-1e12))
    p, p_low = product(b, high)
    p_low = where(abs(p) < 160.0, fma(b, low, p_low), 0.0)
    return finish_pow(x, y, exp2_sum_f32(p, p_low))


# ---- the error function: exp(-a^2) erfcx(a), both as two parts
def exp_parts_f64(x, low):
    """exp(x + low) of x <= 0 as (p + p_low) * scale, where scale is 2^64 too large if x < -700."""
    magic = where(x < -700.0, float64(ROUND_64 + 1023 + 64), ROUND_64 + 1023)
    t = fma(x, LOG2E_64, magic)
    n = t - magic
    high = fma(n, -LN2_64, x)
    r = fma(n, -LN2_LOW_64, high)
    low = fma(n, -LN2_LOW_64, high - r) + low
    p = 1.0 + r
    rest = fma(r, r * horner(r, EXPM1_64), r - (p - 1.0))
    return p, fma(low, p + rest, rest), from_bits64(bits(t) << 52)


def exp_parts_f32(x, low):
    magic = where(x < -80.0, float32(ROUND_32 + 127 + 64), ROUND_32 + 127)
    t = fma(x, LOG2E_32, magic)
    n = t - magic
    high = fma(n, -LN2_32, x)
    r = fma(n, -LN2_LOW_32, high)
    low = fma(n, -LN2_LOW_32, high - r) + low
    p = 1.0 + r
    rest = fma(r, r * horner(r, EXPM1_32), r - (p - 1.0))
    return p, fma(low, p + rest, rest), from_bits32(bits(t) << 23)


def erfcx_parts(a, a_low, k, scale, last_low, two_over_sqrt_pi, coefficients):
    """exp(a^2) erfc(a) for a >= 0. The rounded t belongs to a slightly different a, for which 1 - t replaces 2k / (a + k);
    the difference is put right by the derivative 2a erfcx(a) - 2 / sqrt(pi)."""
    d = a + k
    t = fma(1.0 / d, -2.0 * k, 1.0)
    u = 1.0 - t
    u_low = (1.0 - u) - t
    residual = fma(d, u, -2.0 * k) + fma(d, u_low, (a - (d - k)) * u)
    shift = fma(residual * scale, d, a_low)
    total = coefficients[0]
    for c in coefficients[1:-1]:
        total = fma(total, t, c)
    last = coefficients[-1]
    p = fma(total, t, last)
    p_low = fma(total, t, last - p) + last_low
    m, m_low = product(p, u)
    return m, fma(shift, fma(a + a, m, -two_over_sqrt_pi), fma(p, u_low, fma(p_low, u, m_low)))


def join(m, m_low, p, p_low, scale, tiny):
    """(m + m_low) (p + p_low) scale, rounded once (twice below the normal numbers)."""
    y = fma(m, p, fma(m, p_low, m_low * p)) * scale
    return where(tiny, y * TWO_M64, y)


def erfcx_f64(a, a_low):
    return erfcx_parts(a, a_low, 4.0, 0.125, 7.196568139158719e-18, 1.1283791670955126, ERFCX_64)


def erfcx_f32(a, a_low):
    return erfcx_parts(a, a_low, 3.0, 0.1666666716337204, -1.3340214488621882e-09, 1.128379225730896, ERFCX_32)


def erfc_tail_f64(a):
    """erfc(a) of a >= 0."""
    a = where(a > 27.25, 27.25, a)
    h, h_low = product(a, a)
    m, m_low = erfcx_f64(a, 0.0)
    p, p_low, scale = exp_parts_f64(-h, -h_low)
    return join(m, m_low, p, p_low, scale, h > 700.0)


def erfc_tail_f32(a):
    a = minimum(a, 10.375)
    h, h_low = product(a, a)
    m, m_low = erfcx_f32(a, 0.0)
    p, p_low, scale = exp_parts_f32(-h, -h_low)
    return join(m, m_low, p, p_low, scale, h > 80.0)


def erfc_f64(x):
    y = erfc_tail_f64(abs(x))
    return where(x < 0.0, 2.0 - y, y)


def erfc_f32(x):
    y = erfc_tail_f32(abs(x))
    return where(x < 0.0, 2.0 - y, y)


def erf_f64(x):
    return where(abs(x) < 0.5, fma(x, horner(x * x, ERF_64), x), copysign(1.0 - erfc_tail_f64(abs(x)), x))


def erf_f32(x):
    return where(abs(x) < 0.5, fma(x, horner(x * x, ERF_32), x), copysign(1.0 - erfc_tail_f32(abs(x)), x))


def ndtr_f64(x):
    b = abs(x)
    b = where(b > 38.75, 38.75, b)
    a, a_low = product(b, 0.7071067811865476)
    h, h_low = product(0.5 * b, b)
    m, m_low = erfcx_f64(a, fma(b, -4.833646656726457e-17, a_low))
    p, p_low, scale = exp_parts_f64(-h, -h_low)
    y = join(0.5 * m, 0.5 * m_low, p, p_low, scale, h > 700.0)
    return where(x > 0.0, 1.0 - y, y)


def ndtr_f32(x):
    b = minimum(abs(x), 14.625)
    a, a_low = product(b, 0.7071067690849304)
    h, h_low = product(0.5 * b, b)
    m, m_low = erfcx_f32(a, fma(b, 1.2101617485882343e-08, a_low))
    p, p_low, scale = exp_parts_f32(-h, -h_low)
    y = join(0.5 * m, 0.5 * m_low, p, p_low, scale, h > 80.0)
    return where(x > 0.0, 1.0 - y, y)


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
    "pow": (pow_f32, pow_f64),
    "erf": (erf_f32, erf_f64),
    "erfc": (erfc_f32, erfc_f64),
    "ndtr": (ndtr_f32, ndtr_f64),
}

FAST = {
    "exp": (fast_exp_f32, fast_exp_f64),
    "log": (fast_log_f32, fast_log_f64),
}
