"""exp, log and their family as kernel text: one sequence of fused multiply-adds, so the same bits on every machine.

Every function here is compiled like a user's kernel, for scalars, lane packs and CUDA. The text is branch-free (selects only), the
float32 versions hold no float64 operation, and every product that meets a sum is an explicit `fma`, because a compiler is free
to contract `a * b + c` and the machines would then disagree.

The plan is Cody and Waite's (Software Manual for the Elementary Functions, 1980): reduce exactly, approximate on a short
interval, rebuild. Rounding to an integer is the addition of 1.5 * 2^52 (or 2^23), which leaves the integer in the low bits.
"""

from .elementary_tables import (COS_32, COS_64, ERF_32, ERF_64, ERFCX_32, ERFCX_64, EXP2_32, EXP2_64, EXP_32, EXP_64, EXPM1_32,
                                EXPM1_64, FAST_EXP_32, FAST_EXP_64, LGAMMA_32, LGAMMA_64, LOG2_32, LOG2_64, LOG_32, LOG_64,
                                POW_32, POW_64, SIN_32, SIN_64, SINPI_32, SINPI_64, STIRLING_32, STIRLING_64, TWO_OVER_PI)
from .words import (any, bits, copysign, float32, float64, floor, fma, from_bits32, from_bits64, int32, int64, maximum, minimum,
                    rint, sqrt, trunc, where)

INF = float("inf")
NAN = float("nan")
ROUND_64, ROUND_32 = 6755399441055744.0, 12582912.0  # 1.5 * 2^52, 1.5 * 2^23
TINY_64, TINY_32 = 2.2250738585072014e-308, 1.1754943508222875e-38  # the smallest normal numbers
TWO_52, TWO_54, TWO_23, TWO_25 = 2.0**52, 2.0**54, 2.0**23, 2.0**25
TWO_M25, TWO_M54, TWO_M60, TWO_M64 = 2.0**-25, 2.0**-54, 2.0**-60, 2.0**-64
LIMB, WORD = (1 << 30) - 1, (1 << 60) - 1

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


def two_chains(x, coefficients):
    """The same for an odd number of coefficients, in half the time and one operation more."""
    z = x * x
    total = fma(horner(z, coefficients[0:-1:2]), x, horner(z, coefficients[1:-1:2]))
    return fma(total, x, coefficients[-1])


def product(a, b):
    """a * b as its rounded value and the error. Not `a * b`, which could be contracted into a sum that it meets later."""
    p = fma(a, b, 0.0)
    return p, fma(a, b, -p)


# ---- exponentials
# The polynomial gives 2 exp(r) and the scale is 2^(n-1): the largest results then need no scale above 2^1023. Results below the
# normal numbers are made 2^54 times larger (`tiny` changes the rounding constant, and with it the exponent), then scaled back:
# one rounding into the subnormals. At the lower clamp the exponent field is 0, so what underflows is 0 at once: rounding it there
# would cost the CPU hundreds of cycles, and sums of exponentials are full of it.
def exp_f64(x):
    x = where(x > 710.0, 710.0, x)
    x = where(x < -745.83, -745.83, x)
    tiny = x < -708.0
    magic = where(tiny, float64(ROUND_64 + 1022 + 54), ROUND_64 + 1022)
    t = fma(x, LOG2E_64, magic)
    n = t - magic
    r = fma(n, -LN2_LOW_64, fma(n, -LN2_64, x))
    y = horner(r, EXP_64) * from_bits64(bits(t) << 52)
    return where(tiny, y * TWO_M54, y)


def exp_f32(x):
    x = maximum(minimum(x, 89.0), float32(-104.67))
    tiny = x < -86.0
    magic = where(tiny, float32(ROUND_32 + 126 + 25), ROUND_32 + 126)
    t = fma(x, LOG2E_32, magic)
    n = t - magic
    r = fma(n, -LN2_LOW_32, fma(n, -LN2_32, x))
    y = horner(r, EXP_32) * from_bits32(bits(t) << 23)
    return where(tiny, y * TWO_M25, y)


def exp2_sum_f64(x, low):
    """2^(x + low), low far below 1; the literal -0.0 costs nothing."""
    x = where(x > 1025.0, 1025.0, x)
    x = where(x < -1076.0, -1076.0, x)
    tiny = x < -1021.0
    magic = where(tiny, float64(ROUND_64 + 1022 + 54), ROUND_64 + 1022)
    t = x + magic
    y = horner(x - (t - magic) + low, EXP2_64) * from_bits64(bits(t) << 52)
    return where(tiny, y * TWO_M54, y)


def exp2_sum_f32(x, low):
    x = maximum(minimum(x, 129.0), -151.0)
    tiny = x < -125.0
    magic = where(tiny, float32(ROUND_32 + 126 + 25), ROUND_32 + 126)
    t = x + magic
    y = horner(x - (t - magic) + low, EXP2_32) * from_bits32(bits(t) << 23)
    return where(tiny, y * TWO_M25, y)


def exp2_f64(x):
    return exp2_sum_f64(x, -0.0)


def exp2_f32(x):
    return exp2_sum_f32(x, -0.0)


def reduce_exp_f64(x):
    """r + r_low = x - n ln 2, and 2^(n-1)."""
    t = fma(x, LOG2E_64, ROUND_64 + 1022)
    n = t - (ROUND_64 + 1022)
    high = fma(n, -LN2_64, x)
    r = fma(n, -LN2_LOW_64, high)
    return r, fma(n, -LN2_LOW_64, high - r), from_bits64(bits(t) << 52)


def reduce_exp_f32(x):
    t = fma(x, LOG2E_32, ROUND_32 + 126)
    n = t - (ROUND_32 + 126)
    high = fma(n, -LN2_32, x)
    r = fma(n, -LN2_LOW_32, high)
    return r, fma(n, -LN2_LOW_32, high - r), from_bits32(bits(t) << 23)


def half_expm1(r, r_low, scale, coefficients):
    """(exp(x) - 1) / 2 as a larger and a smaller part, from what the reduction gives."""
    base = scale - 0.5
    high = fma(scale, r, base)
    low = fma(scale, r, base - high) + ((scale - base) - 0.5)
    return high, fma(scale, fma(r, r * horner(r, coefficients), fma(r, r_low, r_low)), low)


def expm1_f64(x):
    a = where(x > 710.0, 710.0, x)
    r, r_low, scale = reduce_exp_f64(where(a < -40.0, -40.0, a))
    high, low = half_expm1(r, r_low, scale, EXPM1_64)
    return where(abs(x) < 1e-17, x, (high + low) + (high + low))  # keeps -0 and the subnormals


def expm1_f32(x):
    r, r_low, scale = reduce_exp_f32(maximum(minimum(x, 89.0), -20.0))
    high, low = half_expm1(r, r_low, scale, EXPM1_32)
    return where(abs(x) < float32(1e-9), x, (high + low) + (high + low))


def quotient(n, n_low, d, d_low):
    """(n + n_low) / (d + d_low), the division put right by its remainder."""
    w = 1.0 / d
    q = n * w
    return fma(fma(-q, d, n) + fma(-q, d_low, n_low), w, q)


def tanh_of_half_expm1(high, low):
    """-h / (1 + h) where h = high + low = (exp(-2|x|) - 1) / 2."""
    h = high + low
    h_low = (high - h) + low
    d = 1.0 + h
    return quotient(-h, -h_low, d, (h - (d - 1.0)) + h_low)


def tanh_f64(x):
    a = abs(x)
    r, r_low, scale = reduce_exp_f64(-2.0 * where(a > 20.0, 20.0, a))
    high, low = half_expm1(r, r_low, scale, EXPM1_64)
    return copysign(tanh_of_half_expm1(high, low), x)


def tanh_f32(x):
    r, r_low, scale = reduce_exp_f32(-2.0 * minimum(abs(x), 10.0))
    high, low = half_expm1(r, r_low, scale, EXPM1_32)
    return copysign(tanh_of_half_expm1(high, low), x)


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


def log_parts(k, f, p, ln2_short, ln2_rest):
    """k ln 2 + log(1 + f) as a larger and a smaller part; p is the polynomial's value."""
    high = fma(k, ln2_short, f)
    low = f - fma(k, -ln2_short, high)
    return high, fma(-0.5 * f, f, fma(f * f, f * p, fma(k, ln2_rest, low)))


def log_f64(x):
    k, f = split_f64(x)
    high, low = log_parts(k, f, two_chains(f, LOG_64), LN2_SHORT_64, LN2_REST_64)
    return finish_log(x, high + low)


def log_f32(x):
    k, f = split_f32(x)
    high, low = log_parts(k, f, horner(f, LOG_32), LN2_SHORT_32, LN2_REST_32)
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
    high, low = log_parts(k, f, two_chains(f, LOG_64), LN2_SHORT_64, LN2_REST_64)
    return copysign(finish_log(u, high + fma(error, fma(f, fma(f, 0.875, -1.0), 1.0), low)), x)


def log1p_f32(x):
    u = 1.0 + x
    i = bits(u) + 0x004AFB0D
    k = from_bits32((i >> 23) | 0x4B000000) - (TWO_23 + 127)
    f = from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0
    error = error_of_one_plus(x, u) * (0.5 * from_bits32(0x7F800000 - (i & 0x7F800000)))
    high, low = log_parts(k, f, horner(f, LOG_32), LN2_SHORT_32, LN2_REST_32)
    return copysign(finish_log(u, high + fma(error, fma(f, fma(f, 0.875, -1.0), 1.0), low)), x)


def log2_parts(k, f, p, log2e, log2e_low):
    """k + log2(1 + f) as a larger and a smaller part; p is the polynomial's value."""
    g, g_low = product(f, log2e)
    high = k + g
    low = fma(f, log2e_low, g_low + (g - (high - k)))
    return high, fma(-0.5 * f, g, fma(f * f, f * p, fma(-0.5 * f, g_low, low)))


def log2_f64(x):
    k, f = split_f64(x)
    high, low = log2_parts(k, f, two_chains(f, LOG2_64), LOG2E_64, LOG2E_LOW_64)
    return finish_log(x, high + low)


def log2_f32(x):
    k, f = split_f32(x)
    high, low = log2_parts(k, f, horner(f, LOG2_32), LOG2E_32, LOG2E_LOW_32)
    return finish_log(x, high + low)


def times_log10_2(high, low, constant, constant_low):
    """(high + low) * log10(2), rounded once but for terms far below an ulp."""
    y = high + low
    return fma(y, constant, fma(y, constant_low, ((high - y) + low) * constant))


def log10_f64(x):
    k, f = split_f64(x)
    high, low = log2_parts(k, f, two_chains(f, LOG2_64), LOG2E_64, LOG2E_LOW_64)
    return finish_log(x, times_log10_2(high, low, LOG10_2_64, LOG10_2_LOW_64))


def log10_f32(x):
    k, f = split_f32(x)
    high, low = log2_parts(k, f, horner(f, LOG2_32), LOG2E_32, LOG2E_LOW_32)
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
    s = fma(f, w, 0.0)
    s_low = fma(-s, f - (d - 2.0), fma(-s, d, f)) * w
    z, z_low = product(s, s)
    z_low = fma(2.0 * s, s_low, z_low)
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
    """exp(x + low) of x <= 0 as (p + p_low) * scale, where scale is 2^64 too large if x < -700, and 0 if nothing can be left."""
    magic = where(x < -700.0, float64(ROUND_64 + 1023 + 64), ROUND_64 + 1023)
    t = fma(x, LOG2E_64, magic)
    n = t - magic
    high = fma(n, -LN2_64, x)
    r = fma(n, -LN2_LOW_64, high)
    low = fma(n, -LN2_LOW_64, high - r) + low
    p = 1.0 + r
    rest = fma(r, r * horner(r, EXPM1_64), r - (p - 1.0))
    return p, fma(low, p + rest, rest), from_bits64(where(x < -741.4, 0, bits(t) << 52))


def exp_parts_f32(x, low):
    magic = where(x < -80.0, float32(ROUND_32 + 127 + 64), ROUND_32 + 127)
    t = fma(x, LOG2E_32, magic)
    n = t - magic
    high = fma(n, -LN2_32, x)
    r = fma(n, -LN2_LOW_32, high)
    low = fma(n, -LN2_LOW_32, high - r) + low
    p = 1.0 + r
    rest = fma(r, r * horner(r, EXPM1_32), r - (p - 1.0))
    return p, fma(low, p + rest, rest), from_bits32(where(x < -101.5, 0, bits(t) << 23))


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
    a = where(a > 27.3, 27.3, a)
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
    b = where(b > 38.6, 38.6, b)
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


# ---- circular functions: x = q pi/2 + r + r_low. Near zero by three parts of pi/2 (the first product is exact while |n| < 2^22,
# the second too, for its constant is short); farther out, and in a branch that is skipped when no lane needs it, by exact integer
# multiplication with the bits of 2/pi that matter (Payne and Hanek, SIGNUM Newsletter 18 (1983)).
def far_quadrant(m, p):
    """m (53 bits) times the bits of 2/pi from position p on, modulo 4: the quadrant, a mask of its sign, and the rest as integers."""
    row = (p * 1093) >> 16  # p // 60
    shift = p - 60 * row
    w0, w1, w2, w3 = int64(0), int64(0), int64(0), int64(0)
    for index, a, b, c, d in TWO_OVER_PI:
        here = row == index
        w0, w1, w2, w3 = where(here, a, w0), where(here, b, w1), where(here, c, w2), where(here, d, w3)
    v0 = ((w0 << shift) & WORD) | (w1 >> (60 - shift))
    v1 = ((w1 << shift) & WORD) | (w2 >> (60 - shift))
    v2 = ((w2 << shift) & WORD) | (w3 >> (60 - shift))
    low, high = m & LIMB, m >> 30
    c4 = (v2 >> 30) * low + (v2 & LIMB) * high
    c3 = (v1 & LIMB) * low + (v2 >> 30) * high + (c4 >> 30)
    c2 = (v1 >> 30) * low + (v1 & LIMB) * high + (c3 >> 30)
    c1 = (v0 & LIMB) * low + (v1 >> 30) * high + (c2 >> 30)
    c0 = ((v0 >> 30) * low + (v0 & LIMB) * high + (c1 >> 30)) & LIMB
    q = (c0 + (1 << 27)) >> 28
    c0 = c0 - (q << 28)
    sign = c0 >> 63
    return q, sign, ((c0 ^ sign) << 30) | ((c1 ^ sign) & LIMB), (((c2 ^ sign) & LIMB) << 30) | ((c3 ^ sign) & LIMB)


def finish_far(x, q, sign, high, low, scale, scale_low):
    """The quadrant and r + r_low of x, from (high + low) * scale of |x|."""
    f = high + low
    r, r_low = product(f, scale)
    r_low = fma(f, scale_low, fma(low - (f - high), scale, r_low))
    r, r_low = where(sign < 0, -r, r), where(sign < 0, -r_low, r_low)
    r = where(abs(x) < INF, where(x < 0.0, -r, r), NAN)
    return where(x < 0.0, -q, q), r, where(x < 0.0, -r_low, r_low)


def far_f64(x):
    i = bits(abs(x))
    q, sign, top, rest = far_quadrant((i & 0x000FFFFFFFFFFFFF) | 0x0010000000000000, (i >> 52) - 1017)
    high = float64(top)
    low = fma(float64(rest), TWO_M60, float64(top - int64(high)))
    return finish_far(x, q, sign, high, low, 5.449794528138487e-18, 2.1244235522607673e-34)


def far_f32(x):
    i = int64(bits(abs(x)))
    q, sign, top, rest = far_quadrant(((i & 0x007FFFFF) | 0x00800000) << 29, (i >> 23) - 121)
    high = float32(top)
    low = fma(float32(rest), TWO_M60, float32(top - int64(high)))
    return finish_far(x, q, sign, high, low, 5.449794679792836e-18, -1.5165434285708382e-25)


def reduce_pi_f64(x):
    t = fma(x, 0.6366197723675814, ROUND_64)
    n = t - ROUND_64
    high = fma(n, -1.5707963267948966, x)
    r = fma(n, -6.12323399409214e-17, high)
    low = fma(n, -1.6446256936324258e-26, fma(n, -6.12323399409214e-17, high - r))
    q = bits(t)
    far = abs(x) > 6.5e6
    if any(far):
        far_q, far_r, far_low = far_f64(x)
        q, r, low = where(far, far_q, q), where(far, far_r, r), where(far, far_low, low)
    return q, r, low


def reduce_pi_f32(x):
    t = fma(x, 0.6366197466850281, ROUND_32)
    n = t - ROUND_32
    high = fma(n, -1.5707963705062866, x)
    r = fma(n, 4.371395334601402e-08, high)
    low = fma(n, -2.5633440682570896e-12, fma(n, 4.371395334601402e-08, high - r))
    q = bits(t)
    far = abs(x) > 6400.0
    if any(far):
        far_q, far_r, far_low = far_f32(x)
        q, r, low = where(far, int32(far_q), q), where(far, far_r, r), where(far, far_low, low)
    return q, r, low


def sin_near(r, low, coefficients):
    """sin(r + low) of |r| <= pi/4 as a larger and a smaller part."""
    z = r * r
    return r, fma(r * z, horner(z, coefficients), low)


def cos_near(r, low, coefficients):
    z = r * r
    w = fma(z, -0.5, 1.0)
    return w, fma(z, -0.5, 1.0 - w) + fma(z, z * horner(z, coefficients), -(r * low))


def quarter_f64(q, r, low):
    """The sine of q quarter turns and r + low."""
    s, s_low = sin_near(r, low, SIN_64)
    c, c_low = cos_near(r, low, COS_64)
    even = (q & 1) == 0
    return from_bits64(bits(where(even, s, c) + where(even, s_low, c_low)) ^ ((q & 2) << 62))


def quarter_f32(q, r, low):
    s, s_low = sin_near(r, low, SIN_32)
    c, c_low = cos_near(r, low, COS_32)
    even = (q & 1) == 0
    return from_bits32(bits(where(even, s, c) + where(even, s_low, c_low)) ^ ((q & 2) << 30))


def sin_f64(x):
    q, r, low = reduce_pi_f64(x)
    return where(abs(x) < 1e-9, x, quarter_f64(q, r, low))  # keeps -0


def sin_f32(x):
    q, r, low = reduce_pi_f32(x)
    return where(abs(x) < float32(1e-4), x, quarter_f32(q, r, low))


def cos_f64(x):
    q, r, low = reduce_pi_f64(x)
    return quarter_f64(q + 1, r, low)


def cos_f32(x):
    q, r, low = reduce_pi_f32(x)
    return quarter_f32(q + 1, r, low)


def tan_near(q, s, s_low, c, c_low):
    """s / c in even quadrants, -c / s in odd ones."""
    even = (q & 1) == 0
    n, n_low, d, d_low = where(even, s, c), where(even, s_low, c_low), where(even, c, -s), where(even, c_low, -s_low)
    total = d + d_low
    return quotient(n, n_low, total, (d - total) + d_low)


def tan_f64(x):
    q, r, low = reduce_pi_f64(x)
    s, s_low = sin_near(r, low, SIN_64)
    c, c_low = cos_near(r, low, COS_64)
    return where(abs(x) < 1e-9, x, tan_near(q, s, s_low, c, c_low))


def tan_f32(x):
    q, r, low = reduce_pi_f32(x)
    s, s_low = sin_near(r, low, SIN_32)
    c, c_low = cos_near(r, low, COS_32)
    return where(abs(x) < float32(1e-4), x, tan_near(q, s, s_low, c, c_low))


# ---- log |gamma(x)|. With a = |x|: below 8 it is a polynomial in the fraction t, which is zero at t = 0 and 1, plus the logarithm of
# (a - 1) (a - 2) ... (t + 1), or minus that of a below 1; above 8 it is Stirling's formula. Negative x are reflected, below.
def lgamma_argument(x):
    """What to take the logarithm of."""
    a = abs(x)
    chain = where(a < 1.0, where(x < 0.0, 1.0, a), 1.0)
    for c in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        chain = chain * where(a - c >= 1.0, a - c, 1.0)
    return where(a < 8.0, chain, a)


def lgamma_join(a, high, low, last_low, half_log_2pi, polynomial, stirling):
    """lgamma(a) of a > 0 from the two parts of the logarithm."""
    t = a - floor(a)
    g, g_low = product(t, t - 1.0)
    total = polynomial[0]
    for c in polynomial[1:-1]:
        total = fma(total, t, c)
    last = polynomial[-1]
    p = fma(total, t, last)
    p_low = fma(total, t, last - p) + last_low
    near_low = fma(g, p_low, g_low * p) + where(a < 1.0, -low, low)
    near = where(a < 1.0, -high, high) + fma(g, p, near_low)
    log = high + low
    w, h, inverse = a - 0.5, log - 1.0, 1.0 / a
    main, main_low = product(w, h)
    rest = fma(inverse, horner(inverse * inverse, stirling), half_log_2pi)
    far = main + (fma(w, ((log - h) - 1.0) + ((high - log) + low), main_low) + rest)
    return where(a < 8.0, near, where(main < INF, far, main))


def lgamma_reflection(a, coefficients):
    """|sin(pi a)| / pi, times a if a > 1: lgamma(-a) = -log(this) - (what lgamma_join gave for a)."""
    d = abs(a - rint(a))
    z = d * d
    return d * fma(z, horner(z, coefficients), 1.0) * where(a < 1.0, 1.0, a)


def lgamma_f64(x):
    a = abs(x)
    k, f = split_f64(lgamma_argument(x))
    high, low = log_parts(k, f, two_chains(f, LOG_64), LN2_SHORT_64, LN2_REST_64)
    y = lgamma_join(a, high, low, -4.942915152430645e-18, 0.4189385332046727, LGAMMA_64, STIRLING_64)
    if any(x < 0.0):
        b = lgamma_reflection(a, SINPI_64)
        k, f = split_f64(b)
        high, low = log_parts(k, f, two_chains(f, LOG_64), LN2_SHORT_64, LN2_REST_64)
        y = where(x < 0.0, where(b > 0.0, -(high + (low + y)), INF), y)
    return where(a == 0.0, INF, y)


def lgamma_f32(x):
    a = abs(x)
    k, f = split_f32(lgamma_argument(x))
    high, low = log_parts(k, f, horner(f, LOG_32), LN2_SHORT_32, LN2_REST_32)
    y = lgamma_join(a, high, low, -6.637773886097875e-09, 0.418938547372818, LGAMMA_32, STIRLING_32)
    if any(x < 0.0):
        b = lgamma_reflection(a, SINPI_32)
        k, f = split_f32(b)
        high, low = log_parts(k, f, horner(f, LOG_32), LN2_SHORT_32, LN2_REST_32)
        y = where(x < 0.0, where(b > 0.0, -(high + (low + y)), INF), y)
    return where(a == 0.0, INF, y)


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
    return fma(k, LN2_64, fma(f, f * fma(two_chains(f, LOG_64), f, -0.5), f))


def fast_log_f32(x):
    i = bits(x) + 0x004AFB0D
    k = from_bits32((i >> 23) | 0x4B000000) - (TWO_23 + 127)
    f = from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0
    return fma(k, LN2_32, fma(f, f * fma(horner(f, LOG_32), f, -0.5), f))


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
    "sin": (sin_f32, sin_f64),
    "cos": (cos_f32, cos_f64),
    "tan": (tan_f32, tan_f64),
    "tanh": (tanh_f32, tanh_f64),
    "lgamma": (lgamma_f32, lgamma_f64),
}

FAST = {
    "exp": (fast_exp_f32, fast_exp_f64),
    "log": (fast_log_f32, fast_log_f64),
}
