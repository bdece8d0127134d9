"""The rest of C99's functions as kernel source, by the rules and with the tools of elementary.py."""

from ...core.texts.elementary import (
    INF,
    NAN,
    clamp,
    fields,
    finish_log,
    from_bits,
    horner,
    log_parts,
    power,
    product,
    reduce_exp,
    reduce_pi,
    series,
    split,
)
from ...core.language.words import bits, copysign, fma, isinf, isnan, rint, sqrt, trunc, where
from .tables import T


def horner_parts(x, coefficients, last_low):
    """Return the polynomial's value with the rounding of its last step; the last coefficient has a second
    part."""
    total = horner(x, coefficients[:-1])
    last = coefficients[-1]
    p = fma(total, x, last)
    return p, fma(total, x, last - p) + last_low


def quotient(n, n_low, d, d_low):
    """(n + n_low) / (d + d_low): the quotient corrected by its remainder."""
    w = 1.0 / d
    q = n * w
    return fma(fma(-q, d, n) + fma(-q, d_low, n_low), w, q)


def root(h, h_low):
    """Return the square root of h + h_low, in two parts."""
    r = sqrt(h)
    return r, (fma(-r, r, h) + h_low) * (0.5 / where(r > 0.0, r, 1.0))


# ---- exponentials and logarithms
def half_expm1(x):
    """(exp(x) - 1) / 2 as a larger and a smaller part."""
    r, r_low, t = reduce_exp(x, T.HALF)
    scale = power(t)  # exp(x) = 2 scale exp(r + r_low)
    base = scale - 0.5
    high = fma(scale, r, base)
    low = fma(scale, r, base - high) + ((scale - base) - 0.5)
    return high, fma(scale, fma(r, r * horner(r, T.EXPM1), fma(r, r_low, r_low)), low)


def expm1_of(x):
    least, most, small = T.EXPM1_ENDS
    high, low = half_expm1(clamp(x, least, most))
    return where(abs(x) < small, x, (high + low) + (high + low))  # keeps -0 and the subnormals


def tanh_of(x):
    """h / (1 + h) where h = high + low = (exp(2|x|) - 1) / 2, with the sign of x: above zero, an error of h
    shrinks."""
    high, low = half_expm1(2.0 * clamp(abs(x), 0.0, T.TANH_END))
    h = high + low
    h_low = (high - h) + low
    d = 1.0 + h
    one = d - h
    return copysign(quotient(h, h_low, d, ((1.0 - one) + (h - (d - one))) + h_low), x)


def log1p_of(x):
    """log(u) of u = 1 + x, and to it the error of that sum times 1 / u, for which 1 - f + 0.875 f^2 is near
    enough."""
    u = 1.0 + x
    k, f, inverse = fields(u)
    high, low = log_parts(k - T.BIASED, f)
    back = u - 1.0
    error = ((1.0 - (u - back)) + (x - back)) * (0.5 * inverse)
    return copysign(finish_log(u, high + fma(error, fma(f, fma(f, 0.875, -1.0), 1.0), low)), x)


def log2_parts(x):
    """k + log2(1 + f) as a larger and a smaller part."""
    k, f = split(x)
    p = series(f, T.LOG2)
    g, g_low = product(f, T.LOG2E[0])
    high = k + g
    low = fma(f, T.LOG2E[1], g_low + (g - (high - k)))
    return high, fma(-0.5 * f, g, fma(f * f, f * p, fma(-0.5 * f, g_low, low)))


def log2_of(x):
    high, low = log2_parts(x)
    return finish_log(x, high + low)


def log10_of(x):
    """(high + low) log10(2), rounded once except for terms far below an ulp."""
    high, low = log2_parts(x)
    y = high + low
    rest = fma(y, T.LOG10_2[1], ((high - y) + low) * T.LOG10_2[0])
    return finish_log(x, fma(y, T.LOG10_2[0], rest))


# ---- the tangent
def tan_of(x):
    """sin / cos of r + low in even quadrants, -cos / sin in odd ones. More exact than near_zero: the cosine
    has no error of r * r, the sine takes low times its derivative."""
    q, r, low = reduce_pi(x)
    even = (q & 1) == 0
    z, half = r * r, -0.5 * r
    c = fma(half, r, 1.0)
    c_low = fma(half, r, 1.0 - c) + fma(z, z * horner(z, T.COS), -(r * low))
    s_low = fma(r * z, horner(z, T.SIN), low * c)
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
    return where(abs(x) < T.SIN_SMALL, x, fma(fma(-t, d, n) + fma(-t, d_low, n_low), w, t))


# ---- angles. A multiple of a quarter of pi, and the remainder as a polynomial: both in two parts, rounded
# once.
def add_far(q, q_low, t, rest):
    """(q + q_low) + (t + rest) where |q| >= |t|, or q = 0."""
    high = q + t
    return high + ((t - (high - q)) + (q_low + rest))


def slope_of(y, x, steep):
    """y / x, or (y - x) / (x + y) where `steep` is set: in two parts."""
    d, n = x + y, y - x
    d_low, n_low = where(steep, y - (d - x), 0.0), where(steep, y - (n + x), 0.0)
    d, n = where(steep, d, x), where(steep, n, y)
    w = 1.0 / d
    slope = n * w
    return slope, (fma(-slope, d, n) + fma(-slope, d_low, n_low)) * w


def angle(y, x, turned, back, shrink):
    """Return the angle of a point (x, y), 0 <= y <= x; it is multiplied by `shrink` if no multiple of pi/4 is
    added to it.

    turned : the axes were exchanged; back : x was negative. Above pi/8 it is pi/4 and the angle of (x + y, y
        - x).
    """
    steep = y > 0.41421356 * x
    slope, off = slope_of(y, x, steep)
    z = slope * slope
    rest = fma(slope * z, horner(z, T.ATAN), off)
    quarters = where(steep, 1.0, 0.0)
    quarters = where(turned, 2.0 - quarters, quarters)
    quarters = where(back, 4.0 - quarters, quarters)
    minus = turned ^ back
    t, rest = where(minus, -slope, slope), where(minus, -rest, rest)
    q = quarters * T.QUARTER_PI[0]
    return where(
        quarters == 0.0,
        (t + rest) * shrink,
        add_far(q, fma(quarters, T.QUARTER_PI[1], fma(quarters, T.QUARTER_PI[0], -q)), t, rest),
    )


def atan_of(x):
    most, tiny = T.ATAN_ENDS
    a = clamp(abs(x), 0.0, most)  # or its inverse would be lost
    turned = a > 1.0
    y = angle(where(turned, 1.0, a), where(turned, a, 1.0), turned, turned ^ turned, 1.0)
    return where(a < tiny, x, copysign(y, x))


def ordered(y, x):
    """Return the larger and the smaller size of two numbers; 1 and 0, or 1 and 1, for infinities; 1 and 0
    for zeros."""
    a, b = abs(x), abs(y)
    turned = b > a
    a, b = where(turned, b, a), where(turned, a, b)
    return where((a < INF) & (a > 0.0), a, 1.0), where(a < INF, b, where(b < INF, 0.0, 1.0)), turned


def atan2_of(y, x):
    """Compute atan2(y, x): both magnitudes are scaled, the larger one to 2, ..., 4; a far smaller one is
    scaled up, and the angle down again.
    """
    lowest, least, small, lift = T.SIZES
    a, b, turned = ordered(y, x)
    back = copysign(1.0, x) < 0.0
    low, tiny = a < lowest, b < a * small
    a, b = where(low, a * least, a), where(low, b * least, b)
    scale = from_bits(T.EXPONENT - (bits(a) & T.EXPONENT))
    b = where(tiny, where(turned | back, 0.0, b * lift), b)
    result = angle(b * scale, a * scale, turned, back, where(tiny, 1.0 / lift, 1.0))
    return where(isnan(x) | isnan(y), x + y, copysign(result, y))


def arc(x):
    """asin of min(|x|, sqrt((1 - |x|) / 2)) in two parts, and True where that is the second."""
    a = abs(x)
    far = a > 0.5
    z = where(far, fma(-0.5, a, 0.5), a * a)
    r, r_low = root(z, 0.0)
    t, rest = where(far, r, a), where(far, r_low, 0.0)
    return t, fma(t * z, horner(z, T.ASIN), rest), far


def asin_of(x):
    t, rest, far = arc(x)
    t, rest = where(far, -2.0 * t, t), where(far, -2.0 * rest, rest)
    half, half_low = 2.0 * T.QUARTER_PI[0], 2.0 * T.QUARTER_PI[1]
    return copysign(add_far(where(far, half, 0.0), where(far, half_low, 0.0), t, rest), x)


def acos_of(x):
    t, rest, far = arc(x)
    quarters = where(far, where(x < 0.0, 4.0, 0.0), 2.0)
    factor = where(far, 2.0, 1.0) * where((x < 0.0) ^ far, 1.0, -1.0)
    return add_far(quarters * T.QUARTER_PI[0], quarters * T.QUARTER_PI[1], factor * t, factor * rest)


# ---- lengths and roots
def hypot_of(x, y):
    lowest, least, _, _ = T.SIZES
    a, b, _ = ordered(x, y)
    low = a < lowest
    a, b = where(low, a * least, a), where(low, b * least, b)
    exponent = bits(a) & T.EXPONENT
    scale = from_bits(T.EXPONENT - exponent)
    a, b = a * scale, b * scale
    p, p_low = product(a, a)
    q, q_low = product(b, b)
    h = p + q
    r, r_low = root(h, (q - (h - p)) + (p_low + q_low))
    result = (r + r_low) * 0.5 * from_bits(exponent)
    result = where(low, result / least, result)
    result = where(isnan(x) | isnan(y), x + y, where((x == 0.0) & (y == 0.0), 0.0, result))
    return where(isinf(x) | isinf(y), INF, result)


def thirds(k):
    """Return the integer next below k / 3, and the remainder of k; k is an integer below 2000."""
    q = rint(fma(k, 0.333333, -0.333333))
    return q, fma(-3.0, q, k)


def cbrt_step(y, m, inverse):
    """Newton's step towards the cube root of m; `inverse` is 1 / (3 m)."""
    square, square_low = product(y, y)
    cube, cube_low = product(square, y)
    return y, (fma(-square_low, y, (m - cube) - cube_low)) * (y * inverse)


def cbrt_start(f, left):
    """Return the cube root of (1 + f) 2^left, to 1e-5, that number, and 1 / 3 of its inverse."""
    m = (1.0 + f) * where(left == 0.0, 1.0, where(left == 1.0, 2.0, 4.0))
    root = where(left == 0.0, 1.0, where(left == 1.0, 1.2599210498948732, 1.5874010519681994))
    return horner(f, T.CBRT) * root, m, 0.3333333333333333 / m


def nearer(y, m, inverse):
    """Return the root after one more Newton step, for float64."""
    return fma(y * inverse, fma(-(y * y), y, m), y)


def nearer_f32(y, m, inverse):
    return y


def cbrt_of(x):
    k, f = split(abs(x))
    q, left = thirds(k)
    y, m, inverse = cbrt_start(f, left)
    y, low = cbrt_step(nearer(y, m, inverse), m, inverse)
    return where((abs(x) < INF) & (x != 0.0), copysign((y + low) * power(q + T.ONE), x), x)


# ---- hyperbolic functions. exp(a) = (p + low) 2^n in two parts, and its inverse in the same form.
def half_sum(x, sign):
    """(exp(a) + sign exp(-a)) / 2 of a = |x|."""
    end, most = T.COSH_ENDS
    magic = T.ONE - 2.0
    r, r_low, t = reduce_exp(clamp(abs(x), 0.0, end), magic)
    p = 1.0 + r
    rest = fma(r, r * horner(r, T.EXPM1), r - (p - 1.0))
    low = fma(r_low, p + rest, rest)
    q = p + low
    w = 1.0 / q
    w_low = fma(-((p - q) + low), w, fma(-q, w, 1.0)) * w
    n = t - magic
    n = where(n > most, most, n)
    f = power(T.ONE - (n + n)) * sign
    high = fma(w, f, p)
    return (high + (fma(w, f, p - high) + fma(w_low, f, low))) * power(t) * 2.0


def cosh_of(x):
    return half_sum(x, 1.0)


def sinh_of(x):
    y = half_sum(x, -1.0)
    z = x * x
    return where(abs(x) < 1.0, fma(x * z, horner(z, T.SINH), x), copysign(y, x))


# ---- their inverses: the logarithm of a number of at least 1 in two parts
def log_of_sum(v, low, twice):
    """log(v + low), and log 2 more if `twice`; of NaN and less than 1 NaN."""
    k, f, inverse = fields(v)
    high, rest = log_parts((k - T.BIASED) + where(twice, 1.0, 0.0), f)
    y = high + fma(low * (0.5 * inverse), fma(f, fma(f, 0.875, -1.0), 1.0), rest)
    return where(v >= 1.0, where(v < INF, y, v), NAN)


def asinh_of(x):
    """log(a + sqrt(a^2 + 1)) of a = |x|; twice a if it is large."""
    small, large = T.ASINH_ENDS
    a = abs(x)
    b = clamp(a, 0.0, large)
    p, p_low = product(b, b)
    h = p + 1.0
    back = h - p
    r, r_low = root(h, ((p - (h - back)) + (1.0 - back)) + p_low)
    v = r + b
    far = a > large
    y = log_of_sum(where(far, a, v), where(far, 0.0, (b - (v - r)) + r_low), far)
    return where(a < small, x, copysign(y, x))


def acosh_of(x):
    """log(x + sqrt(x^2 - 1))."""
    _, large = T.ASINH_ENDS
    b = clamp(x, -1.0, large)
    p, p_low = product(b, b)
    h = p - 1.0
    r, r_low = root(h, ((p - h) - 1.0) + p_low)
    v = b + r
    far = x > large
    return log_of_sum(where(far, x, v), where(far, 0.0, (r - (v - b)) + r_low), far)


def atanh_of(x):
    """log((1 + a) / (1 - a)) / 2 of a = |x|."""
    a = abs(x)
    n, d = 1.0 + a, 1.0 - a
    w = 1.0 / d
    q = n * w
    rest = (fma(-q, d, n) + fma(-q, (1.0 - d) - a, a - (n - 1.0))) * w
    y = where(a == 1.0, INF, 0.5 * log_of_sum(q, rest, a < 0.0))
    return where(a < T.ASINH_ENDS[0], x, copysign(y, x))


# ---- remainders and exponents
def fmod_of(x, y):
    return copysign(abs(x) % abs(y), x)


def remainder_of(x, y):
    """Return the remainder of x from the nearest multiple of y; of two nearest, the even one."""
    b = abs(y)
    r = abs(x) % (b + b)
    s = where(r + r > b, r - b, r)
    s = where((r + r > b) & (s + s >= b), s - b, s)
    return where(isinf(y) & (abs(x) < INF), x, copysign(1.0, x) * s)


def degrees_of(x):
    return x * 57.29577951308232


def radians_of(x):
    return x * 0.017453292519943295


def ldexp_of(x, n):
    """x 2^n by three powers of two, of which only the last may round."""
    end, least, gradual, most = T.LDEXP_ENDS
    n = trunc(clamp(n, -end, end))
    s = where(n > most, most, where(n < least, gradual, n - n))
    x, n = x * power(s + T.ONE), n - s
    s = where(n > most, most, where(n < least, gradual, n - n))
    x, n = x * power(s + T.ONE), n - s
    return x * power(where(n > most, most, where(n < least, least, n)) + T.ONE)


def logb_of(x):
    a = abs(x)
    tiny = a < T.LEAST
    k = from_bits((bits(where(tiny, a * T.LIFT, a)) >> T.DIGITS) | T.UNIT)
    k = k - where(tiny, T.BIASED_TINY, T.BIASED)
    return where(a > 0.0, where(a < INF, k, a), where(a == 0.0, -INF, a))
