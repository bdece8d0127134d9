"""The rest of C99's functions as kernel text, by the rules and with the tools of elementary.py."""

from .elementary import (
    INF,
    LN2_32,
    LN2_64,
    LN2_SHORT_32,
    LN2_SHORT_64,
    LOG2E_32,
    LOG2E_64,
    NAN,
    ROUND_32,
    ROUND_64,
    clamp_f32,
    clamp_f64,
    fields_f32,
    fields_f64,
    horner,
    log_parts,
    power_f32,
    power_f64,
    product,
    reduce_exp,
    split_f32,
    split_f64,
    two_chains,
)
from .elementary_tables import (
    ASIN_32,
    ASIN_64,
    ATAN_32,
    ATAN_64,
    CBRT_32,
    CBRT_64,
    EXPM1_32,
    EXPM1_64,
    LOG_32,
    LOG_64,
    SINH_32,
    SINH_64,
)
from ..language.words import (
    bits,
    copysign,
    fma,
    from_bits32,
    from_bits64,
    isinf,
    isnan,
    rint,
    sqrt,
    trunc,
    where,
)

# A quarter of pi in two parts; 2 and 4 times it are exact.
QUARTER_64, QUARTER_32 = (
    (0.7853981633974483, 3.061616997868383e-17),
    (0.7853981852531433, -2.1855694143368964e-08),
)


def root(h, h_low):
    """The square root of h + h_low, in two parts."""
    r = sqrt(h)
    return r, (fma(-r, r, h) + h_low) * (0.5 / where(r > 0.0, r, 1.0))


# ---- angles. A multiple of a quarter of pi, and what is left as a polynomial: both in two parts, rounded
# once.
def beyond(q, q_low, t, rest):
    """(q + q_low) + (t + rest) where |q| >= |t|, or q = 0."""
    high = q + t
    return high + ((t - (high - q)) + (q_low + rest))


def slope_of(y, x, steep):
    """y / x, or (y - x) / (x + y) where that is asked for: in two parts."""
    d, n = x + y, y - x
    d_low, n_low = where(steep, y - (d - x), 0.0), where(steep, y - (n + x), 0.0)
    d, n = where(steep, d, x), where(steep, n, y)
    w = 1.0 / d
    slope = n * w
    return slope, (fma(-slope, d, n) + fma(-slope, d_low, n_low)) * w


def angle(y, x, turned, back, shrink, quarter, coefficients):
    """The angle of a point (x, y), 0 <= y <= x, times `shrink` where no quarter belongs to it.

    turned : the axes were exchanged; back : x was negative. Above pi/8 it is pi/4 and the angle of (x + y, y
        - x).
    """
    steep = y > 0.41421356 * x
    slope, off = slope_of(y, x, steep)
    z = slope * slope
    rest = fma(slope * z, horner(z, coefficients), off)
    quarters = where(steep, 1.0, 0.0)
    quarters = where(turned, 2.0 - quarters, quarters)
    quarters = where(back, 4.0 - quarters, quarters)
    minus = turned ^ back
    t, rest = where(minus, -slope, slope), where(minus, -rest, rest)
    q = quarters * quarter[0]
    return where(
        quarters == 0.0,
        (t + rest) * shrink,
        beyond(q, fma(quarters, quarter[1], fma(quarters, quarter[0], -q)), t, rest),
    )


def atan_of_size(x, a, tiny, quarter, coefficients):
    """a is |x|, but not so large that its inverse is lost."""
    turned = a > 1.0
    y = angle(
        where(turned, 1.0, a), where(turned, a, 1.0), turned, turned ^ turned, 1.0, quarter, coefficients
    )
    return where(a < tiny, x, copysign(y, x))


def atan_f64(x):
    return atan_of_size(x, clamp_f64(abs(x), 0.0, 2.0**60), 2.0**-28, QUARTER_64, ATAN_64)


def atan_f32(x):
    return atan_of_size(x, clamp_f32(abs(x), 0.0, 2.0**30), 2.0**-13, QUARTER_32, ATAN_32)


def ordered(y, x):
    """The larger and the smaller size of two numbers; 1 and 0, or 1 and 1, for infinities; 1 and 0 for
    zeros."""
    a, b = abs(x), abs(y)
    turned = b > a
    a, b = where(turned, b, a), where(turned, a, b)
    return where((a < INF) & (a > 0.0), a, 1.0), where(a < INF, b, where(b < INF, 0.0, 1.0)), turned


def atan2_of_sizes(y, x, sizes, unit, inverse, lowest, least, small, lift, quarter, coefficients):
    """Both sizes are scaled, the larger one to 2, ..., 4; what is far smaller is made larger, and the angle
    smaller again."""
    a, b, turned = sizes
    back = copysign(1.0, x) < 0.0
    low, tiny = a < lowest, b < a * small
    a, b = where(low, a * least, a), where(low, b * least, b)
    scale = inverse(unit - (bits(a) & unit))
    b = where(tiny, where(turned | back, 0.0, b * lift), b)
    result = angle(b * scale, a * scale, turned, back, where(tiny, 1.0 / lift, 1.0), quarter, coefficients)
    return where(isnan(x) | isnan(y), x + y, copysign(result, y))


def atan2_f64(y, x):
    return atan2_of_sizes(
        y,
        x,
        ordered(y, x),
        0x7FF0000000000000,
        from_bits64,
        2.0**-960,
        2.0**60,
        2.0**-200,
        2.0**100,
        QUARTER_64,
        ATAN_64,
    )


def atan2_f32(y, x):
    return atan2_of_sizes(
        y,
        x,
        ordered(y, x),
        0x7F800000,
        from_bits32,
        2.0**-100,
        2.0**26,
        2.0**-60,
        2.0**40,
        QUARTER_32,
        ATAN_32,
    )


def arc(x, coefficients):
    """asin of min(|x|, sqrt((1 - |x|) / 2)) in two parts, and whether that is the second."""
    a = abs(x)
    far = a > 0.5
    z = where(far, fma(-0.5, a, 0.5), a * a)
    r, r_low = root(z, 0.0)
    t, rest = where(far, r, a), where(far, r_low, 0.0)
    return t, fma(t * z, horner(z, coefficients), rest), far


def asin_of_arc(x, t, rest, far, quarter):
    t, rest = where(far, -2.0 * t, t), where(far, -2.0 * rest, rest)
    return copysign(beyond(where(far, 2.0 * quarter[0], 0.0), where(far, 2.0 * quarter[1], 0.0), t, rest), x)


def asin_f64(x):
    t, rest, far = arc(x, ASIN_64)
    return asin_of_arc(x, t, rest, far, QUARTER_64)


def asin_f32(x):
    t, rest, far = arc(x, ASIN_32)
    return asin_of_arc(x, t, rest, far, QUARTER_32)


def acos_of_arc(x, t, rest, far, quarter):
    quarters = where(far, where(x < 0.0, 4.0, 0.0), 2.0)
    factor = where(far, 2.0, 1.0) * where((x < 0.0) ^ far, 1.0, -1.0)
    return beyond(quarters * quarter[0], quarters * quarter[1], factor * t, factor * rest)


def acos_f64(x):
    t, rest, far = arc(x, ASIN_64)
    return acos_of_arc(x, t, rest, far, QUARTER_64)


def acos_f32(x):
    t, rest, far = arc(x, ASIN_32)
    return acos_of_arc(x, t, rest, far, QUARTER_32)


# ---- lengths and roots
def hypot_of_sizes(x, y, sizes, unit, inverse, lowest, least):
    a, b, _ = sizes
    low = a < lowest
    a, b = where(low, a * least, a), where(low, b * least, b)
    power = bits(a) & unit
    scale = inverse(unit - power)
    a, b = a * scale, b * scale
    p, p_low = product(a, a)
    q, q_low = product(b, b)
    h = p + q
    r, r_low = root(h, (q - (h - p)) + (p_low + q_low))
    result = (r + r_low) * 0.5 * inverse(power)
    result = where(low, result / least, result)
    result = where(isnan(x) | isnan(y), x + y, where((x == 0.0) & (y == 0.0), 0.0, result))
    return where(isinf(x) | isinf(y), INF, result)


def hypot_f64(x, y):
    return hypot_of_sizes(x, y, ordered(x, y), 0x7FF0000000000000, from_bits64, 2.0**-960, 2.0**60)


def hypot_f32(x, y):
    return hypot_of_sizes(x, y, ordered(x, y), 0x7F800000, from_bits32, 2.0**-100, 2.0**26)


def thirds(k):
    """The whole number next below k / 3, and what is left of k; k is a whole number of less than 2000."""
    q = rint(fma(k, 0.333333, -0.333333))
    return q, fma(-3.0, q, k)


def cbrt_step(y, m, inverse):
    """Newton's step towards the cube root of m; `inverse` is 1 / (3 m)."""
    square, square_low = product(y, y)
    cube, cube_low = product(square, y)
    return y, (fma(-square_low, y, (m - cube) - cube_low)) * (y * inverse)


def cbrt_start(f, left, coefficients):
    """The cube root of (1 + f) 2^left, to 1e-5, that number, and 1 / 3 of its inverse."""
    m = (1.0 + f) * where(left == 0.0, 1.0, where(left == 1.0, 2.0, 4.0))
    root = where(left == 0.0, 1.0, where(left == 1.0, 1.2599210498948732, 1.5874010519681994))
    return horner(f, coefficients) * root, m, 0.3333333333333333 / m


def cbrt_f64(x):
    k, f = split_f64(abs(x))
    q, left = thirds(k)
    y, m, inverse = cbrt_start(f, left, CBRT_64)
    y = fma(y * inverse, fma(-(y * y), y, m), y)
    y, low = cbrt_step(y, m, inverse)
    return where((abs(x) < INF) & (x != 0.0), copysign((y + low) * power_f64(q + (ROUND_64 + 1023)), x), x)


def cbrt_f32(x):
    k, f = split_f32(abs(x))
    q, left = thirds(k)
    y, m, inverse = cbrt_start(f, left, CBRT_32)
    y, low = cbrt_step(y, m, inverse)
    return where((abs(x) < INF) & (x != 0.0), copysign((y + low) * power_f32(q + (ROUND_32 + 127)), x), x)


# ---- hyperbolic functions. exp(a) = (p + low) 2^n in two parts, and its inverse beside it.
def half_sum(a, sign, log2e, ln2, magic, most, one, power, coefficients):
    """(exp(a) + sign exp(-a)) / 2 of a >= 0; `magic` holds the exponent of 2^-2, `one` that of 1."""
    r, r_low, t = reduce_exp(a, log2e, ln2, magic)
    p = 1.0 + r
    rest = fma(r, r * horner(r, coefficients), r - (p - 1.0))
    low = fma(r_low, p + rest, rest)
    q = p + low
    w = 1.0 / q
    w_low = fma(-((p - q) + low), w, fma(-q, w, 1.0)) * w
    n = t - magic
    n = where(n > most, most, n)
    f = power(one - (n + n)) * sign
    high = fma(w, f, p)
    return (high + (fma(w, f, p - high) + fma(w_low, f, low))) * power(t) * 2.0


def cosh_f64(x):
    return half_sum(
        clamp_f64(abs(x), 0.0, 711.0),
        1.0,
        LOG2E_64,
        LN2_64,
        ROUND_64 + 1021,
        50.0,
        ROUND_64 + 1023,
        power_f64,
        EXPM1_64,
    )


def cosh_f32(x):
    return half_sum(
        clamp_f32(abs(x), 0.0, 90.0),
        1.0,
        LOG2E_32,
        LN2_32,
        ROUND_32 + 125,
        25.0,
        ROUND_32 + 127,
        power_f32,
        EXPM1_32,
    )


def sinh_f64(x):
    y = half_sum(
        clamp_f64(abs(x), 0.0, 711.0),
        -1.0,
        LOG2E_64,
        LN2_64,
        ROUND_64 + 1021,
        50.0,
        ROUND_64 + 1023,
        power_f64,
        EXPM1_64,
    )
    z = x * x
    return where(abs(x) < 1.0, fma(x * z, horner(z, SINH_64), x), copysign(y, x))


def sinh_f32(x):
    y = half_sum(
        clamp_f32(abs(x), 0.0, 90.0),
        -1.0,
        LOG2E_32,
        LN2_32,
        ROUND_32 + 125,
        25.0,
        ROUND_32 + 127,
        power_f32,
        EXPM1_32,
    )
    z = x * x
    return where(abs(x) < 1.0, fma(x * z, horner(z, SINH_32), x), copysign(y, x))


# ---- their inverses: the logarithm of a number of at least 1 in two parts
def log_of_sum(v, low, twice, k, f, inverse, p, ln2_short):
    """log(v + low), and log 2 more if `twice`; of NaN and less than 1 NaN."""
    high, rest = log_parts(k + where(twice, 1.0, 0.0), f, p, ln2_short)
    y = high + fma(low * (0.5 * inverse), fma(f, fma(f, 0.875, -1.0), 1.0), rest)
    return where(v >= 1.0, where(v < INF, y, v), NAN)


def log_of_sum_f64(v, low, twice):
    k, f, inverse = fields_f64(v)
    return log_of_sum(v, low, twice, k - (2.0**52 + 1023), f, inverse, two_chains(f, LOG_64), LN2_SHORT_64)


def log_of_sum_f32(v, low, twice):
    k, f, inverse = fields_f32(v)
    return log_of_sum(v, low, twice, k - (2.0**23 + 127), f, inverse, horner(f, LOG_32), LN2_SHORT_32)


def asinh_of_size(a, clamp, large, log):
    """log(a + sqrt(a^2 + 1)) of a = |x|; twice a if it is large."""
    b = clamp(a, 0.0, large)
    p, p_low = product(b, b)
    h = p + 1.0
    back = h - p
    r, r_low = root(h, ((p - (h - back)) + (1.0 - back)) + p_low)
    v = r + b
    far = a > large
    return log(where(far, a, v), where(far, 0.0, (b - (v - r)) + r_low), far)


def asinh_f64(x):
    return where(abs(x) < 2.0**-28, x, copysign(asinh_of_size(abs(x), clamp_f64, 2.0**28, log_of_sum_f64), x))


def asinh_f32(x):
    return where(abs(x) < 2.0**-13, x, copysign(asinh_of_size(abs(x), clamp_f32, 2.0**13, log_of_sum_f32), x))


def acosh_of(x, clamp, large, log):
    """log(x + sqrt(x^2 - 1))."""
    b = clamp(x, -1.0, large)
    p, p_low = product(b, b)
    h = p - 1.0
    r, r_low = root(h, ((p - h) - 1.0) + p_low)
    v = b + r
    far = x > large
    return log(where(far, x, v), where(far, 0.0, (r - (v - b)) + r_low), far)


def acosh_f64(x):
    return acosh_of(x, clamp_f64, 2.0**28, log_of_sum_f64)


def acosh_f32(x):
    return acosh_of(x, clamp_f32, 2.0**13, log_of_sum_f32)


def atanh_of_size(a, log):
    """log((1 + a) / (1 - a)) / 2."""
    n, d = 1.0 + a, 1.0 - a
    w = 1.0 / d
    q = n * w
    rest = (fma(-q, d, n) + fma(-q, (1.0 - d) - a, a - (n - 1.0))) * w
    return where(a == 1.0, INF, 0.5 * log(q, rest, a < 0.0))


def atanh_f64(x):
    return where(abs(x) < 2.0**-28, x, copysign(atanh_of_size(abs(x), log_of_sum_f64), x))


def atanh_f32(x):
    return where(abs(x) < 2.0**-13, x, copysign(atanh_of_size(abs(x), log_of_sum_f32), x))


# ---- remainders and exponents
def fmod_of(x, y):
    return copysign(abs(x) % abs(y), x)


def remainder_of(x, y):
    """What is left of x beside the multiple of y that is next, of two the even one."""
    b = abs(y)
    r = abs(x) % (b + b)
    s = where(r + r > b, r - b, r)
    s = where((r + r > b) & (s + s >= b), s - b, s)
    return where(isinf(y) & (abs(x) < INF), x, copysign(1.0, x) * s)


def degrees_of(x):
    return x * 57.29577951308232


def radians_of(x):
    return x * 0.017453292519943295


def ldexp_by(x, n, least, gradual, most, one, power):
    """x 2^n by three powers of two, of which the last alone may round."""
    n = trunc(n)
    s = where(n > most, most, where(n < least, gradual, n - n))
    x, n = x * power(s + one), n - s
    s = where(n > most, most, where(n < least, gradual, n - n))
    x, n = x * power(s + one), n - s
    return x * power(where(n > most, most, where(n < least, least, n)) + one)


def ldexp_f64(x, n):
    return ldexp_by(x, clamp_f64(n, -2200.0, 2200.0), -1022.0, -969.0, 1023.0, ROUND_64 + 1023, power_f64)


def ldexp_f32(x, n):
    return ldexp_by(x, clamp_f32(n, -300.0, 300.0), -126.0, -102.0, 127.0, ROUND_32 + 127, power_f32)


def logb_of_size(a, k):
    return where(a > 0.0, where(a < INF, k, a), where(a == 0.0, -INF, a))


def logb_f64(x):
    a = abs(x)
    tiny = a < 2.0**-1022
    k = from_bits64((bits(where(tiny, a * 2.0**54, a)) >> 52) | 0x4330000000000000)
    return logb_of_size(a, k - where(tiny, 2.0**52 + 1077, 2.0**52 + 1023))


def logb_f32(x):
    a = abs(x)
    tiny = a < 2.0**-126
    k = from_bits32((bits(where(tiny, a * 2.0**25, a)) >> 23) | 0x4B000000)
    return logb_of_size(a, k - where(tiny, 2.0**23 + 152, 2.0**23 + 127))
