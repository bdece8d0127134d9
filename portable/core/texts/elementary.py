"""exp, log and their family as kernel text: one sequence of fused multiply-adds, so the same bits on every
machine.

Every function here is compiled like a user's kernel, for scalars, lane packs and CUDA. The text is
branch-free (selects only, but for divisions whose quotient has more digits than the type), float32 text holds
no float64 operation, and every product that meets a sum is an explicit `fma`, so that plain Python has the
same bits too.

The plan is Cody and Waite's (Software Manual for the Elementary Functions, 1980): reduce exactly, approximate
on a short interval, rebuild. Rounding to an integer is the addition of 1.5 * 2^52 (or 2^23), which leaves the
integer in the low bits. Where one text serves both types, constants and the few functions that look at bits
are its arguments. A value in two parts, `x, x_low`, is x + x_low, with x_low about an ulp of x unless said
otherwise. The errors are in elementary_tables.ACCURACY.
"""

from .elementary_tables import (
    COS_32,
    COS_64,
    ERF_32,
    ERF_64,
    ERFCX_32,
    ERFCX_64,
    EXP2_32,
    EXP2_64,
    EXP_32,
    EXP_64,
    EXPM1_32,
    EXPM1_64,
    FAST_EXP2_32,
    FAST_EXP2_64,
    FAST_EXP_32,
    FAST_EXP_64,
    LGAMMA_32,
    LGAMMA_64,
    LOG2_32,
    LOG2_64,
    LOG_32,
    LOG_64,
    POW_32,
    POW_64,
    SIN_32,
    SIN_64,
    SINPI_32,
    SINPI_64,
    STIRLING_32,
    STIRLING_64,
    TWO_OVER_PI,
)
from ..language.words import (
    any,
    bits,
    copysign,
    float32,
    float64,
    floor,
    fma,
    from_bits32,
    from_bits64,
    int32,
    int64,
    isfinite,
    isnan,
    maximum,
    minimum,
    rint,
    sqrt,
    trunc,
    uint64,
    where,
)

INF = float("inf")
NAN = float("nan")
ROUND_64, ROUND_32 = 1.5 * 2.0**52, 1.5 * 2.0**23
LIMB, WORD = (1 << 30) - 1, (1 << 60) - 1

# Constants in two parts: the nearest number of the type, and the nearest to the rest. Then fma(n, -LN2, x) is
# exact: with |r| <= 1/2 it is a multiple of half an ulp of ln 2. SHORT ends in zeros, so that n * SHORT is
# exact.
LOG2E_64, LOG2E_32 = (1.4426950408889634, 2.0355273740931033e-17), (1.4426950216293335, 1.925963033500011e-08)
LN2_64, LN2_32 = (0.6931471805599453, 2.3190468138462996e-17), (0.6931471824645996, -1.9046542121259336e-09)
LN2_SHORT_64, LN2_SHORT_32 = (
    (0.6931471805601177, -1.7239444525614835e-13),
    (0.69317626953125, -2.9088971132296138e-05),
)
LOG10_2_64, LOG10_2_32 = (
    (0.3010299956639812, -2.8037281277851704e-18),
    (0.3010300099849701, -1.432098883924482e-08),
)
ROOT_HALF_64, ROOT_HALF_32 = (
    (0.7071067811865476, -4.833646656726457e-17),
    (0.7071067690849304, 1.2101617485882343e-08),
)


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


def horner_parts(x, coefficients, last_low):
    """The polynomial's value with the rounding of its last step; the last coefficient has a second part."""
    total = horner(x, coefficients[:-1])
    last = coefficients[-1]
    p = fma(total, x, last)
    return p, fma(total, x, last - p) + last_low


def product(a, b):
    """a * b in two parts."""
    p = a * b
    return p, fma(a, b, -p)


def product_of_parts(a, a_low, b, b_low):
    """(a + a_low) * (b + b_low) in two parts."""
    p, p_low = product(a, b)
    return p, fma(a, b_low, fma(a_low, b, p_low))


def quotient(n, n_low, d, d_low):
    """(n + n_low) / (d + d_low): the division put right by its remainder."""
    w = 1.0 / d
    q = n * w
    return fma(fma(-q, d, n) + fma(-q, d_low, n_low), w, q)


def clamp_f64(x, low, high):
    """x between bounds; NaN stays. Selects, for CUDA has no float64 minimum that keeps NaN."""
    x = where(x > high, high, x)
    return where(x < low, low, x)


def clamp_f32(x, low, high):
    return maximum(minimum(x, high), low)


def power_f64(t):
    """2^n from a sum with ROUND_64 + 1023: its low bits hold n + 1023."""
    return from_bits64(bits(t) << 52)


def power_f32(t):
    return from_bits32(bits(t) << 23)


# ---- division
def _divided(x, y, exact, more):
    """Python's (x // y, x % y) for any floats: by the remainder of the sizes, as C's fmod has it, then the
    signs.

    `exact`: up to here the floor of a rounded quotient is at most one off, which the sign of an exact
    remainder tells; beyond, y times a power of two is taken away as often as it goes, until what remains is
    below y. `more`: how far that power goes up at a time.
    """
    a, b, q = abs(x), abs(y), x / y
    n, r = _remainder(a, b, q, exact, more)
    m = copysign(r, x)
    turned = (m != 0.0) & ((m < 0.0) != (y < 0.0))
    if n < exact:
        n = copysign(n, q) - where(turned, 1.0, 0.0)
    else:  # NumPy's rounding of a quotient that has more digits than the type
        q = (x - m) / y
        w = q - where(turned, 1.0, 0.0)
        n = floor(w)
        n = where(w - n > 0.5, n + 1.0, n)
    n = where(n == 0.0, copysign(0.0, q), n)
    return where(b == 0.0, x / y, n), where(m == 0.0, copysign(0.0, y), where(turned, m + y, m))


def _remainder(a, b, q, exact, more):
    """How often b goes into a, if that is below `exact`, and what remains; q is their quotient but for its
    sign."""
    n = floor(abs(q))
    r = where(n == 0.0, a, fma(-n, b, a))  # b may be infinite
    n, r = where(r < 0.0, n - 1.0, n), where(r < 0.0, r + b, r)
    if not n < exact:  # also where it is no number
        r = where(isfinite(a) & (b > 0.0), a, NAN)
        while r >= b:
            t = b
            while r / t >= exact:
                t = fma(t, more, 0.0)
            r = fma(-floor(r / t), t, r)
            r = where(r < 0.0, r + t, r)
    return n, r


def divmod_f64(x, y):
    return _divided(x, y, 2.0**50, 2.0**32)


def divmod_f32(x, y):
    return _divided(x, y, 2.0**21, 2.0**16)


# ---- exponentials The polynomial gives 2 exp(r) and the scale is 2^(n-1): the largest results then need no
# scale
# above 2^1023. Results below the normal numbers are made 2^54 times larger (`tiny` changes the rounding
# constant, and with it the exponent), then scaled back: one rounding into the subnormals. At the lower clamp
# the exponent field is 0, so what underflows is 0 at once: rounding it there would cost the CPU hundreds of
# cycles, and sums of exponentials are full of it.
TINY_MAGIC_64, MAGIC_64, SHRINK_64 = float64(ROUND_64 + 1022 + 54), ROUND_64 + 1022, 2.0**-54
TINY_MAGIC_32, MAGIC_32, SHRINK_32 = float32(ROUND_32 + 126 + 25), ROUND_32 + 126, 2.0**-25


def exp_f64(x):
    x = clamp_f64(x, -745.83, 710.0)
    tiny = x < -708.0
    magic = where(tiny, TINY_MAGIC_64, MAGIC_64)
    t = fma(x, LOG2E_64[0], magic)
    n = t - magic
    r = fma(n, -LN2_64[1], fma(n, -LN2_64[0], x))
    y = horner(r, EXP_64) * power_f64(t)
    return where(tiny, y * SHRINK_64, y)


def exp_f32(x):
    x = clamp_f32(x, -104.67, 89.0)
    tiny = x < -86.0
    magic = where(tiny, TINY_MAGIC_32, MAGIC_32)
    t = fma(x, LOG2E_32[0], magic)
    n = t - magic
    r = fma(n, -LN2_32[1], fma(n, -LN2_32[0], x))
    y = horner(r, EXP_32) * power_f32(t)
    return where(tiny, y * SHRINK_32, y)


def exp_nonpositive_f64(x):
    r, _, t = reduce_exp(where(x < -708.5, -708.5, x), LOG2E_64, LN2_64, MAGIC_64)
    return horner(r, EXP_64) * power_f64(t)


def exp_nonpositive_f32(x):
    r, _, t = reduce_exp(maximum(x, -87.5), LOG2E_32, LN2_32, MAGIC_32)
    return horner(r, EXP_32) * power_f32(t)


def exp2_sum_f64(x, low):
    """2^(x + low); the literal -0.0 costs nothing."""
    x = clamp_f64(x, -1076.0, 1025.0)
    tiny = x < -1021.0
    magic = where(tiny, TINY_MAGIC_64, MAGIC_64)
    t = x + magic
    y = horner(x - (t - magic) + low, EXP2_64) * power_f64(t)
    return where(tiny, y * SHRINK_64, y)


def exp2_sum_f32(x, low):
    x = clamp_f32(x, -151.0, 129.0)
    tiny = x < -125.0
    magic = where(tiny, TINY_MAGIC_32, MAGIC_32)
    t = x + magic
    y = horner(x - (t - magic) + low, EXP2_32) * power_f32(t)
    return where(tiny, y * SHRINK_32, y)


def exp2_f64(x):
    return exp2_sum_f64(x, -0.0)


def exp2_f32(x):
    return exp2_sum_f32(x, -0.0)


def reduce_exp(x, log2e, ln2, magic):
    """r in two parts, with x = n ln 2 + r, and the sum that holds n."""
    t = fma(x, log2e[0], magic)
    n = t - magic
    high = fma(n, -ln2[0], x)
    r = fma(n, -ln2[1], high)
    return r, fma(n, -ln2[1], high - r), t


def half_expm1(r, r_low, scale, coefficients):
    """(exp(x) - 1) / 2 as a larger and a smaller part, where exp(x) = 2 scale exp(r + r_low)."""
    base = scale - 0.5
    high = fma(scale, r, base)
    low = fma(scale, r, base - high) + ((scale - base) - 0.5)
    return high, fma(scale, fma(r, r * horner(r, coefficients), fma(r, r_low, r_low)), low)


def half_expm1_f64(x):
    r, r_low, t = reduce_exp(x, LOG2E_64, LN2_64, MAGIC_64)
    return half_expm1(r, r_low, power_f64(t), EXPM1_64)


def half_expm1_f32(x):
    r, r_low, t = reduce_exp(x, LOG2E_32, LN2_32, MAGIC_32)
    return half_expm1(r, r_low, power_f32(t), EXPM1_32)


def expm1_f64(x):
    high, low = half_expm1_f64(clamp_f64(x, -40.0, 710.0))
    return where(abs(x) < 1e-17, x, (high + low) + (high + low))  # keeps -0 and the subnormals


def expm1_f32(x):
    high, low = half_expm1_f32(clamp_f32(x, -20.0, 89.0))
    return where(abs(x) < 1e-9, x, (high + low) + (high + low))


def tanh_of(x, high, low):
    """h / (1 + h) where h = high + low = (exp(2|x|) - 1) / 2, with the sign of x: above zero, an error of h
    shrinks."""
    h = high + low
    h_low = (high - h) + low
    d = 1.0 + h
    one = d - h
    return copysign(quotient(h, h_low, d, ((1.0 - one) + (h - (d - one))) + h_low), x)


def tanh_f64(x):
    high, low = half_expm1_f64(2.0 * clamp_f64(abs(x), 0.0, 20.0))
    return tanh_of(x, high, low)


def tanh_f32(x):
    high, low = half_expm1_f32(2.0 * clamp_f32(abs(x), 0.0, 10.0))
    return tanh_of(x, high, low)


# ---- logarithms x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2): adding bits(1) - bits(sqrt(1/2)) to the
# pattern
# makes the exponent field change at sqrt(1/2) 2^k. The integer k becomes a float through the bits of 2^52 + k
# (or 2^23 + k). f is exact.
def fields_f64(x):
    """2^52 + 1023 + k, f, and 2^(1-k) of a normal positive x."""
    i = bits(x) + 0x00095F619980C433
    f = from_bits64((i & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0
    return (
        from_bits64((i >> 52) | 0x4330000000000000),
        f,
        from_bits64(0x7FF0000000000000 - (i & 0x7FF0000000000000)),
    )


def fields_f32(x):
    """2^23 + 127 + k, f, and 2^(1-k) of a normal positive x."""
    i = bits(x) + 0x004AFB0D
    f = from_bits32((i & 0x007FFFFF) + 0x3F3504F3) - 1.0
    return from_bits32((i >> 23) | 0x4B000000), f, from_bits32(0x7F800000 - (i & 0x7F800000))


def split_f64(x):
    """k and f of a positive x, subnormal or not."""
    tiny = x < 2.0**-1022
    k, f, _ = fields_f64(where(tiny, x * 2.0**54, x))
    return k - where(tiny, float64(2.0**52 + 1023 + 54), 2.0**52 + 1023), f


def split_f32(x):
    tiny = x < 2.0**-126
    k, f, _ = fields_f32(where(tiny, x * 2.0**25, x))
    return k - where(tiny, float32(2.0**23 + 127 + 25), 2.0**23 + 127), f


def finish_log(x, y):
    """y, but what log(x) is at zero, below it, at infinity and at NaN."""
    y = where(x >= 0.0, where(x == 0.0, -INF, y), NAN)
    return where(x < INF, y, x)


def log_parts(k, f, p, ln2_short):
    """k ln 2 + log(1 + f) as a larger and a smaller part; p is the polynomial's value."""
    high = fma(k, ln2_short[0], f)
    low = f - fma(k, -ln2_short[0], high)
    return high, fma(-0.5 * f, f, fma(f * f, f * p, fma(k, ln2_short[1], low)))


def log_parts_f64(x):
    k, f = split_f64(x)
    return log_parts(k, f, two_chains(f, LOG_64), LN2_SHORT_64)


def log_parts_f32(x):
    k, f = split_f32(x)
    return log_parts(k, f, horner(f, LOG_32), LN2_SHORT_32)


def log_f64(x):
    high, low = log_parts_f64(x)
    return finish_log(x, high + low)


def log_f32(x):
    high, low = log_parts_f32(x)
    return finish_log(x, high + low)


def log_normal_f64(x):
    """log of a number that is positive and normal."""
    k, f, _ = fields_f64(x)
    high, low = log_parts(k - (2.0**52 + 1023), f, two_chains(f, LOG_64), LN2_SHORT_64)
    return high + low


def log_normal_f32(x):
    k, f, _ = fields_f32(x)
    high, low = log_parts(k - (2.0**23 + 127), f, horner(f, LOG_32), LN2_SHORT_32)
    return high + low


def finish_log1p(x, u, f, inverse, high, low):
    """log(u) of u = 1 + x, and to it the error of that sum times 1 / u, for which 1 - f + 0.875 f^2 is near
    enough."""
    back = u - 1.0
    error = ((1.0 - (u - back)) + (x - back)) * (0.5 * inverse)
    return copysign(finish_log(u, high + fma(error, fma(f, fma(f, 0.875, -1.0), 1.0), low)), x)


def log1p_f64(x):
    u = 1.0 + x
    k, f, inverse = fields_f64(u)
    high, low = log_parts(k - (2.0**52 + 1023), f, two_chains(f, LOG_64), LN2_SHORT_64)
    return finish_log1p(x, u, f, inverse, high, low)


def log1p_f32(x):
    u = 1.0 + x
    k, f, inverse = fields_f32(u)
    high, low = log_parts(k - (2.0**23 + 127), f, horner(f, LOG_32), LN2_SHORT_32)
    return finish_log1p(x, u, f, inverse, high, low)


def log2_parts(k, f, p, log2e):
    """k + log2(1 + f) as a larger and a smaller part; p is the polynomial's value."""
    g, g_low = product(f, log2e[0])
    high = k + g
    low = fma(f, log2e[1], g_low + (g - (high - k)))
    return high, fma(-0.5 * f, g, fma(f * f, f * p, fma(-0.5 * f, g_low, low)))


def log2_parts_f64(x):
    k, f = split_f64(x)
    return log2_parts(k, f, two_chains(f, LOG2_64), LOG2E_64)


def log2_parts_f32(x):
    k, f = split_f32(x)
    return log2_parts(k, f, horner(f, LOG2_32), LOG2E_32)


def log2_f64(x):
    high, low = log2_parts_f64(x)
    return finish_log(x, high + low)


def log2_f32(x):
    high, low = log2_parts_f32(x)
    return finish_log(x, high + low)


def log10_of(x, high, low, log10_2):
    """(high + low) log10(2), rounded once but for terms far below an ulp."""
    y = high + low
    return finish_log(x, fma(y, log10_2[0], fma(y, log10_2[1], ((high - y) + low) * log10_2[0])))


def log10_f64(x):
    high, low = log2_parts_f64(x)
    return log10_of(x, high, low, LOG10_2_64)


def log10_f32(x):
    high, low = log2_parts_f32(x)
    return log10_of(x, high, low, LOG10_2_32)


# ---- powers
def rsqrt_of(x):
    """1 / sqrt(x): the quotient and one Newton step on its exact residual; zero and infinity keep the
    quotient."""
    y = 1.0 / sqrt(x)
    h = x * y
    error = fma(-fma(x, y, -h), y, fma(-h, y, 1.0))
    return where(abs(error) < 1.0, fma(0.5 * y, error, y), y)


def precise_log2(k, f, first, third, coefficients):
    """k + log2(1 + f) with some 65 bits (float64) in two parts: the series of 2 atanh(s) / ln 2 in s = f / (2
    + f).

    `first` and `third` are the coefficients of s and s^3, each in two parts.
    """
    d = 2.0 + f
    w = 1.0 / d
    s = fma(f, w, 0.0)
    s_low = fma(-s, f - (d - 2.0), fma(-s, d, f)) * w
    z, z_low = product(s, s)
    z_low = fma(2.0 * s, s_low, z_low)
    q = horner(z, coefficients)
    cubic = fma(z, q, third[0])
    cubic_low = fma(z, q, third[0] - cubic) + third[1]
    s3, s3_low = product_of_parts(s, s_low, z, z_low)
    a, a_low = product_of_parts(s, s_low, first[0], first[1])
    b, b_low = product_of_parts(s3, s3_low, cubic, cubic_low)
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
    m = where(isnan(x), x, where(isnan(y), y, m))
    return where(y == 0.0, 1.0, where(x == 1.0, x, m))


def pow_f64(x, y):
    k, f = split_f64(abs(x))
    high, low = precise_log2(
        k,
        f,
        (2.8853900817779268, 4.0710547481862066e-17),
        (0.9617966939259756, 5.0577616648125907e-17),
        POW_64,
    )
    b = clamp_f64(y, -1e20, 1e20)
    p, p_low = product(b, high)
    return finish_pow(x, y, exp2_sum_f64(p, where(abs(p) < 1100.0, fma(b, low, p_low), 0.0)))


def pow_f32(x, y):
    k, f = split_f32(abs(x))
    high, low = precise_log2(
        k, f, (2.885390043258667, 3.851926067000022e-08), (0.9617967009544373, -7.028461812552678e-09), POW_32
    )
    b = clamp_f32(y, -1e12, 1e12)
    p, p_low = product(b, high)
    return finish_pow(x, y, exp2_sum_f32(p, where(abs(p) < 160.0, fma(b, low, p_low), 0.0)))


# ---- the error function: erfc(a) = exp(-a^2) erfcx(a), both in two parts
def erfcx(a, a_low, k, half_of_1_over_k, last_low, two_over_sqrt_pi, coefficients):
    """exp(a^2) erfc(a) of a >= 0 in two parts.

    The rounded t = (a - k) / (a + k) belongs to a slightly different a, for which 1 - t is 2k / (a + k); the
    difference is put right by the derivative 2a erfcx(a) - 2 / sqrt(pi).
    """
    d = a + k
    t = fma(1.0 / d, -2.0 * k, 1.0)
    u = 1.0 - t
    u_low = (1.0 - u) - t
    residual = fma(d, u, -2.0 * k) + fma(d, u_low, (a - (d - k)) * u)
    shift = fma(residual * half_of_1_over_k, d, a_low)
    p, p_low = horner_parts(t, coefficients, last_low)
    m, m_low = product(p, u)
    return m, fma(shift, fma(a + a, m, -two_over_sqrt_pi), fma(p, u_low, fma(p_low, u, m_low)))


def tail_of(m, m_low, r, low, scale, tiny, coefficients):
    """(m + m_low) exp(r + low) scale, rounded once; what is tiny has a scale 2^64 too large."""
    p = 1.0 + r
    rest = fma(r, r * horner(r, coefficients), r - (p - 1.0))
    p_low = fma(low, p + rest, rest)
    y = fma(m, p, fma(m, p_low, m_low * p)) * scale
    return where(tiny, y * 2.0**-64, y)


def tail_f64(a, a_low, h, h_low, half):
    """half * exp(-h - h_low) erfcx(a + a_low), a >= 0; where nothing can be left of it, the scale is 0."""
    tiny = h > 700.0
    magic = where(tiny, float64(ROUND_64 + 1023 + 64), ROUND_64 + 1023)
    r, r_low, t = reduce_exp(-h, LOG2E_64, LN2_64, magic)
    scale = power_f64(where(h > 741.4, 0.0, t))
    m, m_low = erfcx(a, a_low, 4.0, 0.125, 7.196568139158719e-18, 1.1283791670955126, ERFCX_64)
    return tail_of(half * m, half * m_low, r, r_low - h_low, scale, tiny, EXPM1_64)


def tail_f32(a, a_low, h, h_low, half):
    tiny = h > 80.0
    magic = where(tiny, float32(ROUND_32 + 127 + 64), ROUND_32 + 127)
    r, r_low, t = reduce_exp(-h, LOG2E_32, LN2_32, magic)
    scale = power_f32(where(h > 101.5, 0.0, t))
    m, m_low = erfcx(a, a_low, 3.0, 0.1666666716337204, -1.3340214488621882e-09, 1.128379225730896, ERFCX_32)
    return tail_of(half * m, half * m_low, r, r_low - h_low, scale, tiny, EXPM1_32)


def erfc_of(x, bound, clamp, tail):
    a = clamp(abs(x), 0.0, bound)
    h, h_low = product(a, a)
    y = tail(a, 0.0, h, h_low, 1.0)
    return where(x < 0.0, 2.0 - y, y)


def ndtr_of(x, bound, clamp, tail, root_half):
    b = clamp(abs(x), 0.0, bound)
    a, a_low = product(b, root_half[0])
    h, h_low = product(0.5 * b, b)
    y = tail(a, fma(b, root_half[1], a_low), h, h_low, 0.5)
    return where(x > 0.0, 1.0 - y, y)


def erfc_f64(x):
    return erfc_of(x, 27.3, clamp_f64, tail_f64)


def erfc_f32(x):
    return erfc_of(x, 10.375, clamp_f32, tail_f32)


def erf_f64(x):
    return where(abs(x) < 0.5, fma(x, horner(x * x, ERF_64), x), copysign(1.0 - erfc_f64(abs(x)), x))


def erf_f32(x):
    return where(abs(x) < 0.5, fma(x, horner(x * x, ERF_32), x), copysign(1.0 - erfc_f32(abs(x)), x))


def ndtr_f64(x):
    return ndtr_of(x, 38.6, clamp_f64, tail_f64, ROOT_HALF_64)


def ndtr_f32(x):
    return ndtr_of(x, 14.625, clamp_f32, tail_f32, ROOT_HALF_32)


# ---- circular functions: x = q pi/2 + r. Near zero by three parts of pi/2 (the first product is exact while
# |n| <
# 2^22, the second too, for its constant is short). Farther out, in a branch that is skipped when no lane
# needs it, by the exact product with the bits of 2/pi that matter (Payne and Hanek, SIGNUM Newsletter 18
# (1983)).
def bits_of_two_over_pi(p):
    """180 bits from position p on, in words of 60."""
    row = (p * 1093) >> 16  # p // 60
    shift = p - 60 * row
    w0, w1, w2, w3 = int64(0), int64(0), int64(0), int64(0)
    for index, a, b, c, d in TWO_OVER_PI:
        here = row == index
        w0, w1, w2, w3 = where(here, a, w0), where(here, b, w1), where(here, c, w2), where(here, d, w3)
    return (
        ((w0 << shift) & WORD) | (w1 >> (60 - shift)),
        ((w1 << shift) & WORD) | (w2 >> (60 - shift)),
        ((w2 << shift) & WORD) | (w3 >> (60 - shift)),
    )


def far_quadrant(m, p):
    """m (53 bits) times the bits of 2/pi from position p on, modulo 4.

    Returns the nearest quadrant, -1 where the rest is negative (else 0), and the size of the rest in two
    words.
    """
    v0, v1, v2 = bits_of_two_over_pi(p)
    low, high = m & LIMB, m >> 30
    c4 = (v2 >> 30) * low + (v2 & LIMB) * high
    c3 = (v1 & LIMB) * low + (v2 >> 30) * high + (c4 >> 30)
    c2 = (v1 >> 30) * low + (v1 & LIMB) * high + (c3 >> 30)
    c1 = (v0 & LIMB) * low + (v1 >> 30) * high + (c2 >> 30)
    c0 = ((v0 >> 30) * low + (v0 & LIMB) * high + (c1 >> 30)) & LIMB
    q = (c0 + (1 << 27)) >> 28
    c0 = c0 - (q << 28)
    sign = c0 >> 63
    return (
        q,
        sign,
        ((c0 ^ sign) << 30) | ((c1 ^ sign) & LIMB),
        (((c2 ^ sign) & LIMB) << 30) | ((c3 ^ sign) & LIMB),
    )


def finish_far(x, q, sign, high, low, scale):
    """The quadrant and r, in two parts, of x, from (high + low) * scale of |x|."""
    f = high + low
    r, r_low = product(f, scale[0])
    rest = fma(f, scale[1], fma(low - (f - high), scale[0], r_low))
    f, r = r, r + rest  # what is left is within half a unit: the sine takes it as it stands
    r_low = rest - (r - f)
    r, r_low = where(sign < 0, -r, r), where(sign < 0, -r_low, r_low)
    r = where(abs(x) < INF, where(x < 0.0, -r, r), NAN)
    return where(x < 0.0, -q, q), r, where(x < 0.0, -r_low, r_low)


def far_f64(x):
    i = bits(abs(x))
    q, sign, top, rest = far_quadrant((i & 0x000FFFFFFFFFFFFF) | 0x0010000000000000, (i >> 52) - 1017)
    high = float64(top)
    low = fma(float64(rest), 2.0**-60, float64(top - int64(high)))
    return finish_far(x, q, sign, high, low, (5.449794528138487e-18, 2.1244235522607673e-34))  # 2^-58 pi/2


def far_f32(x):
    i = int64(bits(abs(x)))
    q, sign, top, rest = far_quadrant(((i & 0x007FFFFF) | 0x00800000) << 29, (i >> 23) - 121)
    high = float32(top)
    low = fma(float32(rest), 2.0**-60, float32(top - int64(high)))
    q, r, r_low = finish_far(x, q, sign, high, low, (5.449794679792836e-18, -1.5165434285708382e-25))
    return int32(q), r, r_low


def reduce_pi(x, two_over_pi, half_pi, magic, limit, far):
    """The quadrant and r in two parts; `half_pi` has three."""
    t = fma(x, two_over_pi, magic)
    n = t - magic
    high = fma(n, -half_pi[0], x)
    r = fma(n, -half_pi[1], high)
    low = fma(n, -half_pi[2], fma(n, -half_pi[1], high - r))
    q = bits(t)
    outside = abs(x) > limit
    if any(outside):
        far_q, far_r, far_low = far(x)
        q, r, low = where(outside, far_q, q), where(outside, far_r, r), where(outside, far_low, low)
    return q, r, low


def reduce_pi_f64(x):
    half_pi = (1.5707963267948966, 6.12323399409214e-17, 1.6446256936324258e-26)
    return reduce_pi(x, 0.6366197723675814, half_pi, ROUND_64, 6.5e6, far_f64)


def reduce_pi_f32(x):
    half_pi = (1.5707963705062866, -4.371395334601402e-08, 2.5633440682570896e-12)
    return reduce_pi(x, 0.6366197466850281, half_pi, ROUND_32, 6400.0, far_f32)


def near_zero(r, low, sine, cosine):
    """sin and cos of r + low, |r| <= pi/4, each as a larger and a smaller part."""
    z = r * r
    c = fma(z, -0.5, 1.0)
    c_low = fma(z, -0.5, 1.0 - c) + fma(z, z * horner(z, cosine), -(r * low))
    return r, fma(r * z, horner(z, sine), low), c, c_low


def quarter_f64(q, r, low):
    """The sine of q quarter turns and r + low."""
    s, s_low, c, c_low = near_zero(r, low, SIN_64, COS_64)
    even = (q & 1) == 0
    return from_bits64(bits(where(even, s, c) + where(even, s_low, c_low)) ^ ((q & 2) << 62))


def quarter_f32(q, r, low):
    s, s_low, c, c_low = near_zero(r, low, SIN_32, COS_32)
    even = (q & 1) == 0
    return from_bits32(bits(where(even, s, c) + where(even, s_low, c_low)) ^ ((q & 2) << 30))


def sin_f64(x):
    q, r, low = reduce_pi_f64(x)
    return where(abs(x) < 1e-9, x, quarter_f64(q, r, low))  # keeps -0


def sin_f32(x):
    q, r, low = reduce_pi_f32(x)
    return where(abs(x) < 1e-4, x, quarter_f32(q, r, low))


def cos_f64(x):
    q, r, low = reduce_pi_f64(x)
    return quarter_f64(q + 1, r, low)


def cos_f32(x):
    q, r, low = reduce_pi_f32(x)
    return quarter_f32(q + 1, r, low)


def tan_of(q, r, low, sine, cosine):
    """sin / cos of r + low in even quadrants, -cos / sin in odd ones. More exact than near_zero: the cosine
    has no error of r * r, the sine takes low times its derivative."""
    even = (q & 1) == 0
    z, half = r * r, -0.5 * r
    c = fma(half, r, 1.0)
    c_low = fma(half, r, 1.0 - c) + fma(z, z * horner(z, cosine), -(r * low))
    s_low = fma(r * z, horner(z, sine), low * c)
    s = r + s_low
    s_low = (r - s) + s_low
    n, n_low, d, d_low = (
        where(even, s, c),
        where(even, s_low, c_low),
        where(even, c, -s),
        where(even, c_low, -s_low),
    )
    w = 1.0 / (d + d_low)
    t = n * w
    return fma(fma(-t, d, n) + fma(-t, d_low, n_low), w, t)


def tan_f64(x):
    q, r, low = reduce_pi_f64(x)
    return where(abs(x) < 1e-9, x, tan_of(q, r, low, SIN_64, COS_64))


def tan_f32(x):
    q, r, low = reduce_pi_f32(x)
    return where(abs(x) < 1e-4, x, tan_of(q, r, low, SIN_32, COS_32))


# ---- log |gamma(x)|. With a = |x|: below 8 it is a polynomial in the fraction t of a, zero at t = 0 and 1,
# plus
# the logarithm of (a - 1) (a - 2) ... (t + 1), or minus that of a below 1; above 8 it is Stirling's formula.
# Negative x are reflected.
def lgamma_argument(x):
    """What to take the logarithm of; below 1, the reflection of a negative x does without it."""
    a = abs(x)
    chain = where(a < 1.0, where(x < 0.0, 1.0, a), 1.0)
    for c in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0):
        chain = chain * where(a - c >= 1.0, a - c, 1.0)
    return where(a < 8.0, chain, a)


def lgamma_positive(a, high, low, last_low, half_log_2pi, polynomial, stirling):
    """lgamma(a) from the two parts of the logarithm."""
    t = a - floor(a)
    g, g_low = product(t, t - 1.0)
    p, p_low = horner_parts(t, polynomial, last_low)
    near_low = fma(g, p_low, g_low * p) + where(a < 1.0, -low, low)
    near = where(a < 1.0, -high, high) + fma(g, p, near_low)
    log = high + low
    w, h, inverse = a - 0.5, log - 1.0, 1.0 / a
    main, main_low = product(w, h)
    rest = fma(inverse, horner(inverse * inverse, stirling), half_log_2pi)
    far = main + (fma(w, ((log - h) - 1.0) + ((high - log) + low), main_low) + rest)
    return where(a < 8.0, near, where(main < INF, far, main))


def lgamma_of(x, log_parts_of, last_low, half_log_2pi, polynomial, stirling, sine):
    a = abs(x)
    high, low = log_parts_of(lgamma_argument(x))
    y = lgamma_positive(a, high, low, last_low, half_log_2pi, polynomial, stirling)
    if any(x < 0.0):  # lgamma(-a) = -log(|sin(pi a)| a / pi) - lgamma(a)
        d = abs(a - rint(a))
        z = d * d
        s = d * fma(z, horner(z, sine), 1.0) * where(a < 1.0, 1.0, a)
        high, low = log_parts_of(s)
        y = where(x < 0.0, where(s > 0.0, -(high + (low + y)), INF), y)
    return where(a == 0.0, INF, y)


def lgamma_f64(x):
    return lgamma_of(
        x, log_parts_f64, -4.942915152430645e-18, 0.4189385332046727, LGAMMA_64, STIRLING_64, SINPI_64
    )


def lgamma_f32(x):
    return lgamma_of(
        x, log_parts_f32, -6.637773886097875e-09, 0.418938547372818, LGAMMA_32, STIRLING_32, SINPI_32
    )


# ---- approximations, right to 3 ulp: fewer coefficients, or no error kept. exp and exp2 give 0 below the
# normal numbers;
# exp2 does not look after NaN, and log not after zero, negative numbers, infinity, NaN and subnormals.
# bits of 1024.0, -1022.0, -1023.0
INT_1024, INT_M1022, INT_M1023 = 0x4090 << 48, 0xC08FF << 44, 0xC08FF8 << 40


def fast_exp_f64(x):
    r, _, t = reduce_exp(clamp_f64(x, -708.5, 710.0), LOG2E_64, LN2_64, MAGIC_64)
    return horner(r, FAST_EXP_64) * power_f64(t)


def fast_exp_f32(x):
    r, _, t = reduce_exp(clamp_f32(x, -87.5, 89.0), LOG2E_32, LN2_32, MAGIC_32)
    return horner(r, FAST_EXP_32) * power_f32(t)


def fast_exp2_f64(x):
    """Integers do what they can, for a GPU has 16 times as many units for them as for float64; x = -1023
    gives 0, 1024 infinity."""
    n = bits(x)
    n = where(n > INT_1024, INT_1024, n)
    x = from_bits64(where(uint64(n) > INT_M1022, INT_M1023, uint64(n)))
    t = x + ROUND_64
    return from_bits64(bits(horner(x - (t - ROUND_64), FAST_EXP2_64)) + (bits(t) << 52))


def fast_exp2_f32(x):
    x = where(x < -126.0, -127.0, minimum(x, 128.0))
    t = x + ROUND_32
    return from_bits32(bits(horner(x - (t - ROUND_32), FAST_EXP2_32)) + (bits(t) << 23))


def fast_log_f64(x):
    k, f, _ = fields_f64(x)
    return fma(k - (2.0**52 + 1023), LN2_64[0], fma(f, f * fma(two_chains(f, LOG_64), f, -0.5), f))


def fast_log_f32(x):
    k, f, _ = fields_f32(x)
    return fma(k - (2.0**23 + 127), LN2_32[0], fma(f, f * fma(horner(f, LOG_32), f, -0.5), f))
