"""Define exp, log and related functions in kernel source: one sequence of fused multiply-adds, with the same
bits on every machine.

Every function is compiled like a user's kernel, for scalars, lane packs and CUDA. The source is branch-free
(selects only, except for divisions whose quotient has more digits than the type), the float32 form contains
no float64 operation, and every product that enters a sum is an explicit `fma`, so that plain Python gives the
same bits.

Each function is written once, for float64. The float32 form has the same source with other constants: `T`
holds the constants of the type, and a name with the suffix `_f32` replaces the name without it (`narrowed`).
The word `exp` of kernels is the function `exp_of`.

The method is Cody and Waite's (Software Manual for the Elementary Functions, 1980): reduce exactly,
approximate on a short interval, reconstruct. A value in two parts, `x, x_low`, is x + x_low, with x_low about
an ulp of x unless stated otherwise. The rows of words.py give the errors.
"""

import types

from .elementary_tables import FOURS_OF_TWO_OVER_PI, T, T32
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
    trunc,
    where,
)

OWN = "portable.core.texts.", "portable.library.texts."
ELEMENTARY_FILES = [__file__]  # sources that are one operation in debug builds, with short loops
INF = float("inf")
NAN = float("nan")
LIMB, WORD = (1 << 30) - 1, (1 << 60) - 1

from_bits, from_bits_f32 = from_bits64, from_bits32
real, real_f32 = float64, float32
whole, whole_f32 = int64, int32


def narrowed(names, constants=T32):
    """Return the float32 form of a module's functions, as a separate namespace that they share."""
    found = {**names, "T": constants}
    for name, fn in names.items():
        if isinstance(fn, types.FunctionType) and fn.__module__.startswith(OWN):
            found[name] = types.FunctionType(fn.__code__, found, name)
            found[name].__qualname__ = f"F32.{name}"  # fingerprints look functions up by this name
    found.update({name[:-4]: found[name] for name in names if name.endswith("_f32")})
    return found


def horner(x, coefficients):
    """Return the polynomial in x with these coefficients, highest degree first: one fma per degree."""
    total = coefficients[0]
    for c in coefficients[1:]:
        total = fma(total, x, c)
    return total


def two_chains(x, coefficients):
    """Return the same polynomial, with an odd number of coefficients, in half the time and one more
    operation."""
    z = x * x
    total = fma(horner(z, coefficients[0:-1:2]), x, horner(z, coefficients[1:-1:2]))
    return fma(total, x, coefficients[-1])


def product(a, b):
    """Return a * b in two parts."""
    p = a * b
    return p, fma(a, b, -p)


def product_of_parts(a, a_low, b, b_low):
    """Return (a + a_low) * (b + b_low) in two parts."""
    p, p_low = product(a, b)
    return p, fma(a, b_low, fma(a_low, b, p_low))


def at_least(x, low):
    """Return the larger of x and low; NaN remains. It is a select, since CUDA has no float64 maximum that
    keeps NaN."""
    return where(x < low, low, x)


def at_most(x, high):
    return where(x > high, high, x)


at_least_f32, at_most_f32 = maximum, minimum


def clamp(x, low, high):
    return at_least(at_most(x, high), low)


def power(t):
    """Return 2^n from t, a sum with T.ONE; its low bits contain n plus the exponent bias."""
    return from_bits(bits(t) << T.DIGITS)


# ---- division
def divmod_of(x, y):
    """Return Python's (x // y, x % y) for any floats: the remainder of the magnitudes, as in C's fmod, then
    the signs.

    `exact`: below this size the floor of a rounded quotient is off by at most one, which the sign of an exact
    remainder detects; above it, y times a power of two is subtracted repeatedly until the remainder is below
    y. `more`: the largest factor by which that power grows at once.
    """
    exact, more = T.DIVIDED
    a, b, q = abs(x), abs(y), x / y
    n, r = _remainder(a, b, q, exact, more)
    m = copysign(r, x)
    turned = (m != 0.0) & ((m < 0.0) != (y < 0.0))
    if n < exact:
        n = copysign(n, q) - where(turned, 1.0, 0.0)
    else:  # NumPy's rounding of a quotient with more digits than the type
        q = (x - m) / y
        w = q - where(turned, 1.0, 0.0)
        n = floor(w)
        n = where(w - n > 0.5, n + 1.0, n)
    n = where(n == 0.0, copysign(0.0, q), n)
    return where(b == 0.0, x / y, n), where(m == 0.0, copysign(0.0, y), where(turned, m + y, m))


def _remainder(a, b, q, exact, more):
    """Return the integer quotient of a and b, if it is below `exact`, and the remainder; q is the
    floating-point quotient up to sign."""
    n = floor(abs(q))
    r = where(n == 0.0, a, fma(-n, b, a))  # b may be infinite
    n, r = where(r < 0.0, n - 1.0, n), where(r < 0.0, r + b, r)
    if not n < exact:  # also for NaN
        r = where(isfinite(a) & (b > 0.0), a, NAN)
        while r >= b:
            t = b
            while r / t >= exact:
                t = fma(t, more, 0.0)
            r = fma(-floor(r / t), t, r)
            r = where(r < 0.0, r + t, r)
    return n, r


# ---- exponentials. The polynomial gives 2 exp(r) and the scale is 2^(n-1), so that the largest results need
# no scale above 2^1023. Subnormal results are computed larger (`tiny` changes the rounding constant, and
# with it the exponent), then scaled back: one rounding into the subnormals. At the lower clamp the exponent
# field is 0, so that an underflow gives 0 directly: rounding to subnormals would cost the CPU hundreds of
# cycles, and is frequent in sums of exponentials.
def reduce_exp(x, magic):
    """Return r in two parts, with x = n ln 2 + r, and the sum that contains n."""
    t = fma(x, T.LOG2E[0], magic)
    n = t - magic
    high = fma(n, -T.LN2[0], x)
    r = fma(n, -T.LN2[1], high)
    return r, fma(n, -T.LN2[1], high - r), t


def exp_of(x):
    low, high, least = T.EXP_ENDS
    x = clamp(x, low, high)
    tiny = x < least
    r, _, t = reduce_exp(x, where(tiny, T.HALF_TINY, T.HALF))
    y = horner(r, T.EXP) * power(t)
    return where(tiny, y * T.SHRINK, y)


def exp2_sum(x, low):
    """Return 2^(x + low); the literal -0.0 costs nothing."""
    least, most, small = T.EXP2_ENDS
    x = clamp(x, least, most)
    tiny = x < small
    magic = where(tiny, T.HALF_TINY, T.HALF)
    t = x + magic
    y = horner(x - (t - magic) + low, T.EXP2) * power(t)
    return where(tiny, y * T.SHRINK, y)


def exp2_of(x):
    return exp2_sum(x, -0.0)


# ---- logarithms. x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2): adding bits(1) - bits(sqrt(1/2)) to the
# pattern makes the exponent field change at sqrt(1/2) 2^k. The integer k becomes a float through the bits of
# 2^52 + k (or 2^23 + k). f is exact.
def fields(x):
    """Return 2^52 + 1023 + k (or 2^23 + 127 + k), f, and 2^(1-k) of a normal positive x."""
    i = bits(x) + T.FROM_ROOT_HALF
    f = from_bits((i & T.FRACTION) + T.ROOT_HALF_BITS) - 1.0
    return from_bits((i >> T.DIGITS) | T.UNIT), f, from_bits(T.EXPONENT - (i & T.EXPONENT))


def split(x):
    """Return k and f of a positive x, normal or subnormal."""
    tiny = x < T.LEAST
    k, f, _ = fields(where(tiny, x * T.LIFT, x))
    return k - where(tiny, T.BIASED_TINY, T.BIASED), f


series, series_f32 = two_chains, horner


def finish_log(x, y):
    """Return y, except at zero, negative numbers, infinity and NaN, where it returns log(x)."""
    y = where(x >= 0.0, where(x == 0.0, -INF, y), NAN)
    return where(x < INF, y, x)


def log_parts(k, f):
    """Return k ln 2 + log(1 + f) as a larger and a smaller part."""
    p = series(f, T.LOG)
    high = fma(k, T.LN2_SHORT[0], f)
    low = f - fma(k, -T.LN2_SHORT[0], high)
    return high, fma(-0.5 * f, f, fma(f * f, f * p, fma(k, T.LN2_SHORT[1], low)))


def log_parts_of(x):
    k, f = split(x)
    return log_parts(k, f)


def log_of(x):
    high, low = log_parts_of(x)
    return finish_log(x, high + low)


def log_normal(x):
    """Return the log of a positive normal number."""
    k, f, _ = fields(x)
    high, low = log_parts(k - T.BIASED, f)
    return high + low


# ---- powers
def precise_log2(k, f):
    """Return k + log2(1 + f) to about 65 bits (float64) in two parts, by the series of 2 atanh(s) / ln 2 in s
    = f / (2 + f)."""
    d = 2.0 + f
    w = 1.0 / d
    s = fma(f, w, 0.0)
    s_low = fma(-s, f - (d - 2.0), fma(-s, d, f)) * w
    z, z_low = product(s, s)
    z_low = fma(2.0 * s, s_low, z_low)
    q = horner(z, T.POW)
    cubic = fma(z, q, T.POW_THIRD[0])
    cubic_low = fma(z, q, T.POW_THIRD[0] - cubic) + T.POW_THIRD[1]
    s3, s3_low = product_of_parts(s, s_low, z, z_low)
    a, a_low = product_of_parts(s, s_low, T.POW_FIRST[0], T.POW_FIRST[1])
    b, b_low = product_of_parts(s3, s3_low, cubic, cubic_low)
    v = a + b
    v_low = (b - (v - a)) + (a_low + b_low)
    high = k + v
    return high, (v - (high - k)) + v_low


def finish_pow(x, y, m):
    """Return m = |x|^y with its sign and the special cases of C99."""
    a = abs(x)
    m = where(a == 0.0, where(y > 0.0, a, INF), where(a == INF, where(y > 0.0, a, 0.0), m))
    even = trunc(0.5 * y) == 0.5 * y
    m = where(trunc(y) == y, where(even, m, copysign(m, x)), where(x < 0.0, where(a < INF, NAN, m), m))
    m = where(isnan(x), x, where(isnan(y), y, m))
    return where(y == 0.0, 1.0, where(x == 1.0, x, m))


def pow_of(x, y):
    k, f = split(abs(x))
    high, low = precise_log2(k, f)
    most, far = T.POW_ENDS
    b = clamp(y, -most, most)
    p, p_low = product(b, high)
    return finish_pow(x, y, exp2_sum(p, where(abs(p) < far, fma(b, low, p_low), 0.0)))


# ---- circular functions: x = q pi/2 + r. Near zero r comes from three parts of pi/2 (the first product is
# exact while |n| < 2^22; so is the second, since its constant is short). Farther out it comes from the exact
# product with the significant bits of 2/pi (Payne and Hanek, SIGNUM Newsletter 18 (1983)), in a branch that
# is skipped when no lane needs it.
def bits_of_two_over_pi(p):
    """Return 180 bits of 2/pi from position p, in words of 60."""
    row = (p * 1093) >> 16  # p // 60
    shift = p - 60 * row
    w0, w1, w2, w3 = int64(0), int64(0), int64(0), int64(0)
    for index, a, b, c, d in FOURS_OF_TWO_OVER_PI:
        here = row == index
        w0, w1, w2, w3 = where(here, a, w0), where(here, b, w1), where(here, c, w2), where(here, d, w3)
    return (
        ((w0 << shift) & WORD) | (w1 >> (60 - shift)),
        ((w1 << shift) & WORD) | (w2 >> (60 - shift)),
        ((w2 << shift) & WORD) | (w3 >> (60 - shift)),
    )


def far_quadrant(m, p):
    """Multiply m (53 bits) by the bits of 2/pi from position p, modulo 4.

    Return the nearest quadrant, -1 if the remainder is negative (else 0), and the magnitude of the remainder
    in two words.
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


def far_parts(x):
    """Return the quadrant of |x| for any x, the sign of the remainder, and the remainder's magnitude times
    2^58 in two parts."""
    i = int64(bits(abs(x)))
    m = ((i & T.FRACTION) | (T.FRACTION + 1)) << T.FAR_SHIFT
    q, sign, top, rest = far_quadrant(m, (i >> T.DIGITS) - T.FAR_FIRST)
    high = real(top)
    return q, sign, high, fma(real(rest), 2.0**-60, real(top - int64(high)))


def reduce_far(x):
    """Return the quadrant and r, in two parts, for any x."""
    q, sign, high, low = far_parts(x)
    f = high + low
    r, r_low = product(f, T.FAR_SCALE[0])
    rest = fma(f, T.FAR_SCALE[1], fma(low - (f - high), T.FAR_SCALE[0], r_low))
    f, r = r, r + rest  # r_low is then within half an ulp: the sine uses r unchanged
    r_low = rest - (r - f)
    r, r_low = where(sign < 0, -r, r), where(sign < 0, -r_low, r_low)
    r = where(abs(x) < INF, where(x < 0.0, -r, r), NAN)
    return whole(where(x < 0.0, -q, q)), r, where(x < 0.0, -r_low, r_low)


def reduce_pi(x):
    """Return the quadrant of x and r in two parts."""
    t = fma(x, T.TWO_OVER_PI, T.ROUND)
    n = t - T.ROUND
    high = fma(n, -T.HALF_PI[0], x)
    r = fma(n, -T.HALF_PI[1], high)
    low = fma(n, -T.HALF_PI[2], fma(n, -T.HALF_PI[1], high - r))
    q = bits(t)
    outside = abs(x) > T.SIN_NEAR
    if any(outside):
        far_q, far_r, far_low = reduce_far(x)
        q, r, low = where(outside, far_q, q), where(outside, far_r, r), where(outside, far_low, low)
    return q, r, low


def near_zero(r, low):
    """Return sin and cos of r + low, |r| <= pi/4, each as a larger and a smaller part."""
    z = r * r
    c = fma(z, -0.5, 1.0)
    c_low = fma(z, -0.5, 1.0 - c) + fma(z, z * horner(z, T.COS), -(r * low))
    return r, fma(r * z, horner(z, T.SIN), low), c, c_low


def quarter(q, r, low):
    """Return the sine of q quarter turns plus r + low."""
    s, s_low, c, c_low = near_zero(r, low)
    even = (q & 1) == 0
    return from_bits(bits(where(even, s, c) + where(even, s_low, c_low)) ^ ((q & 2) << T.SIGN))


def sin_of(x):
    q, r, low = reduce_pi(x)
    return where(abs(x) < T.SIN_SMALL, x, quarter(q, r, low))  # keeps -0


def cos_of(x):
    q, r, low = reduce_pi(x)
    return quarter(q + 1, r, low)


TEXTS = {**globals()}
TEXTS_32 = narrowed(TEXTS)
F32 = types.SimpleNamespace(**TEXTS_32)
