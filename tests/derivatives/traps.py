"""Functions of two numbers whose derivatives are easily wrong, a line or two each: loops of every kind,
overwritten variables, ties, NaN on the branch that is not taken."""

import math
from typing import NamedTuple

import numpy as np

import portable as pk

TRAPS = []
TABLE = np.array([0.5, 1.5, -2.0, 3.0])
# the points
X = np.array([0.31, 0.87, 1.13, 1.42, 1.91, 2.3, 0.55, 1.7, 2.61, 1.05, 0.73])
Y = np.array([1.23, 0.61, 0.87, 1.53, 1.86, 0.43, 2.2, 1.07, 0.92, 1.31, 0.71])


class Point(NamedTuple):
    a: float
    b: float


def trap(fn):
    """Add a @pk.function to the list."""
    TRAPS.append(pk.function(fn))
    return TRAPS[-1]


# ---- loops
@trap
def loop_carried(x, y):
    v, n = x, int(pk.floor(3.0 + 0.0 * TABLE[0]))
    for _ in range(n):
        v = pk.sin(v) + x * v
    return v + y


@trap
def newton(x, y):
    v, k = x, 0
    while abs(v * v - x) > 1e-14 * x and k < 50:
        v = 0.5 * (v + x / v)
        k += 1
    return 0.5 * (v + x / v) * y


@trap
def before_the_loop_used_after(x, y):
    a, s = pk.exp(x), 0.0
    for _ in range(20):
        s += y * x
    return a * s


@trap
def breaks_of_a_while(x, y):
    v = x
    while True:
        v = v * 1.5 + 0.1 * y
        if v > 4.0:
            break
    return pk.log(v)


@trap
def returns_early(x, y):
    if x > 1.0:
        return x * x * y
    v = pk.exp(x)
    if y > 1.0:
        return v / y
    return v * v


@trap
def nested_breaks(x, y):
    s = 0.0
    for i in range(9):
        t = x + i
        while t > 0.5:
            t *= 0.6
            if t < y:
                break
        else_ = t * x
        s += else_
    return s


@trap
def over_a_tuple(x, y):
    s = 1.0
    for v in (x, y, x * y, 2.0):
        s = s * v + v
    return s


@trap
def zipped(x, y):
    s = 0.0
    for k, (u, v) in enumerate(zip((x, y), (y, 3.0))):
        s += u * v * (k + 1)
    return s


@trap
def integer_first(x, y):
    v = 0
    for _ in range(18):
        v = v + x * y
        v = v * 0.5
    return v


@trap
def weak_to_strong(x, y):
    v = 1
    if x > 1.2:
        v = x
    return v * y


# ---- overwritten
@trap
def parameter_overwritten(x, y):
    a = x * x
    x = x * 3.0
    return a + x * y


@trap
def array_overwritten(x, y):
    v = pk.local(2, pk.float64)
    v[0] = x
    v[1] = v[0] * v[0]
    v[0] = v[0] * 3.0 * y
    return v[0] + v[1]


@trap
def array_in_a_loop(x, y):
    v = pk.local(4, pk.float64)
    v[:] = x
    for k in range(20):
        v[k % 4] = pk.sin(v[(k + 1) % 4]) * y + v[k % 4]
    return v.sum()


@trap
def recurrence_in_place(x, y):
    v = pk.local(6, pk.float64)
    v[:] = y
    for k in range(1, 6):
        v[k] = v[k] * x + v[k - 1]
    return v[5]


@trap
def array_made_passive_again(x, y):
    v = pk.local(3, pk.float64)
    v[:] = x
    v[1] = 2.0
    return v[0] * v[1] + v[2] * y


@trap
def array_in_a_branch(x, y):
    v = pk.local(2, pk.float64)
    v[0], v[1] = 1.0, 2.0
    if x > 1.0:
        v[0] = x * y
    else:
        v[1] = x
    return v[0] * v[1]


@trap
def parts_of_an_array(x, y):
    m = pk.local((2, 3), pk.float64)
    m[0, :] = x
    row = m[1]
    row[:] = y
    row[1] = m[0, 1] * row[0]
    m[0, 2] += row[1]
    return m[0].sum() * row.sum()


@trap
def array_chosen(x, y):
    a, b = pk.local(2, pk.float64), pk.local(2, pk.float64)
    a[:], b[:] = x, y
    a[1] += 1.0
    return (a[:] @ b[:]) * a[1]


@trap
def array_indexed_by_data(x, y):
    v = pk.local(4, pk.float64)
    for k in range(4):
        v[k] = x * k + y
    s = 0.0
    for k in range(4):
        s += v[(k * 3 + 1) % 4] * TABLE[k]
    return s


@trap
def array_filled_by_a_function(x, y):
    v = pk.local(3, pk.float64)
    fill(v, x * y)
    return v[0] + v[1] * v[2]


@pk.function
def fill(v, a):
    for k in range(3):
        v[k] = a + k
        a = a * 0.5


@trap
def old_value_kept(x, y):
    old = x
    for _ in range(18):
        new = old * y * 0.9 + 0.1
        old, x = new, old
    return old * x


@trap
def atomics_on_its_own(x, y):
    v = pk.local(2, pk.float64)
    v[0], v[1] = x, 0.0
    pk.atomic_add(v, 1, x * y)
    pk.atomic_sub(v, 1, v[0])
    return v[1] * v[1]


# ---- branches


@trap
def nan_on_the_other_side(x, y):
    return pk.where(x > 0.0, pk.sqrt(x), pk.sqrt(-x - 1.0)) * y


@trap
def infinite_on_the_other_side(x, y):
    z = x - x
    return pk.where(z == 0.0, x, y * pk.rsqrt(z))


@trap
def guarded_sum(x, y):
    s = 0.0
    for k in range(18):
        z = x - 0.25 * k
        if z > 0.0:
            s += pk.log(z) * y
    return s


@trap
def in_a_condition(x, y):
    if (x if x > y else y) > 1.0 and (x > 0.5 or pk.log(y) > 2.0):
        return x * y
    return x - y


@trap
def smaller(x, y):
    return min(x * x, y) + max(x, y, 1.25) * 0.5


@trap
def clipped(x, y):
    return pk.clip(x * y, 0.4, 1.7) * x


@trap
def absolute(x, y):
    return abs(x - 1.1) * abs(y * x) - abs(0.3 - y)


# ---- functions, records, tuples
@pk.function
def polynomial(x, a, n=3):
    s = 1.0
    for _ in range(n):
        s = s * x + a
    return s


@pk.function
def two(x, y):
    if x > y:
        return x * y, x
    return x + y, y * 2.0


@pk.function
def halved(p):
    return Point(p.a * 0.5, p.b + p.a)


@trap
def function_called_twice(x, y):
    return polynomial(x, y) * polynomial(y, x * x, 2)


@trap
def several_returns_and_results(x, y):
    a, b = two(x * x, y)
    c, d = two(b, a)
    return a * c + b * d


@trap
def function_in_a_loop(x, y):
    s = x
    for _ in range(18):
        a, b = two(s, y)
        s = 0.3 * a - 0.2 * b
    return s


@trap
def record_in_a_loop(x, y):
    p = Point(x, y)
    for _ in range(18):
        p = halved(p)
    return p.a + p.b * x


@trap
def same_argument_twice(x, y):
    return two(x, x)[0] * y + polynomial(x, x)


@trap
def argument_overwritten_inside(x, y):
    return shifted(x, y) * x


@pk.function
def shifted(a, b):
    a = a * b
    b = b + a
    return a * b


polynomial_slope = pk.derivative(polynomial, ("x", "a"), value=True)


@trap
def slope_inside(x, y):
    v, s, t = polynomial_slope(x, y * y)
    return v * s + t


@trap
def complex_numbers(x, y):
    z = complex(x, y)
    for _ in range(3):
        z = z * z * 0.3 + complex(y, 0.1)
    return abs(z) + z.real


# ---- words
@trap
def elementary(x, y):
    return pk.exp2(x) * pk.log2(1.0 + y) + pk.expm1(y) * pk.log1p(x) + pk.log10(x) + pk.exp(-x * y)


@trap
def angles(x, y):
    return pk.tan(0.3 * x) + pk.atan(x) * pk.asin(0.2 * y) + pk.acos(0.1 * x) + pk.atan2(x, y)


@trap
def hyperbolic(x, y):
    return pk.sinh(x) * pk.tanh(y) + pk.cosh(x) / pk.asinh(y) + pk.acosh(1.5 + x) + pk.atanh(0.2 * y)


@trap
def roots(x, y):
    return pk.sqrt(x) + pk.cbrt(y) * pk.rsqrt(x * y) + pk.hypot(x, 2.0 * y) + x**0.5 + y**-1.5


@trap
def powers(x, y):
    return x**3 + x**y + 2.0**x + pk.pow(x, -2.0) + x**0 + pow(y, 2)


@trap
def probability(x, y):
    return pk.erf(x) + pk.erfc(y) * x + pk.ndtr(x - y)


@trap
def gammas(x, y):
    return pk.lgamma(x) * y + pk.gamma(y) + pk.digamma(x + 1.0)


@trap
def fused(x, y):
    return pk.fma(x, y, x) + pk.copysign(x, -y) - pk.fma(2.0, x, y)


@trap
def remainders(x, y):
    return (5.0 * x) % y + pk.fmod(7.0 * x, y) + math.remainder(3.0 * x, y) + pk.ldexp(x, 3)


@trap
def fractional_part(x, y):
    z = 7.3 * x
    return (z - pk.floor(z)) * y + (z - int(z)) + pk.degrees(x) * pk.radians(y)


@trap
def interpolated(x, y):
    k = int(x)
    w = x - k
    return (1.0 - w) * TABLE[k] + w * TABLE[k + 1] + y


@trap
def logical(x, y):
    n = int(x > 1.0) + 2 * int(y > 1.0)
    return x * n + y * (not n)


@trap
def cast(x, y):
    return float(x) * pk.float64(y) + np.float64(x * y)


@trap
def log_sum_exp(x, y):
    m = max(x, y, 0.5)
    return m + pk.log(pk.exp(x - m) + pk.exp(y - m) + pk.exp(0.5 - m))


@trap
def finite_tests(x, y):
    return x * y if pk.isfinite(pk.rsqrt(x - x)) else x + y * 2.0


@trap
def constant(x, y):
    return 3.0


@trap
def sorted_by_hand(x, y):
    v = pk.local(3, pk.float64)
    v[0], v[1], v[2] = x, y, x * y
    for i in range(2):
        for j in range(2 - i):
            if v[j] > v[j + 1]:
                v[j], v[j + 1] = v[j + 1], v[j]
    return v[0] + 2.0 * v[1] + 4.0 * v[2]


@trap
def runge_kutta(x, y):
    u, h = x, 0.05
    for _ in range(20):
        a = pk.sin(u) - y * u
        b = pk.sin(u + 0.5 * h * a) - y * (u + 0.5 * h * a)
        u += h * b
    return u


@trap
def filtered(x, y):
    mean, variance, ll = 0.0, 1.0, 0.0
    for k in range(18):
        z = TABLE[k % 4]
        variance = x * x * variance + y
        gain = variance / (variance + 0.5)
        ll -= 0.5 * pk.log(variance + 0.5) + 0.5 * (z - mean) ** 2 / (variance + 0.5)
        mean = mean + gain * (z - mean)
        variance = (1.0 - gain) * variance
    return ll


@trap
def while_by_a_choice(x, y):
    v, k = x, 0
    while (v if v > y else pk.sin(y)) * k < 2.0 and k < 9:
        v = v * 1.1 + y * 0.1
        k += 1
    return v * k


@trap
def scan_by_hand(x, y):
    v = pk.local(9, pk.float64)
    v[:] = x
    step = 1
    while step < 9:
        for k in range(8, step - 1, -1):
            v[k] = v[k] + v[k - step] * y
        step = step * 2
    return v[8]


@trap
def aliased_rows(x, y):
    m = pk.local((3, 3), pk.float64)
    m[:] = x
    a, b = m[1], m[1]
    a[0] = y
    b[0] = b[0] * a[0] + a[1]
    return m[1, 0] * m[0, 0]


@trap
def transposed_product(x, y):
    m, v = pk.local((2, 2), pk.float64), pk.local(2, pk.float64)
    m[0, 0], m[0, 1], m[1, 0], m[1, 1] = x, y, x * y, 1.0
    v[:] = m.T[0] * 2.0
    v[0] += m[1] @ v
    return v.sum() * v.max()


@trap
def continues_in_a_while(x, y):
    v, k = x, 0
    while k < 20:
        k += 1
        if v * k > 6.0:
            v = v * 0.5
            continue
        if k == 18:
            break
        v = v + y * 0.3
    return v * v


@trap
def first_of_several(x, y):
    for k in range(20):
        z = x * k - y
        if z > 1.0:
            for j in range(k + 3):
                z = z * 0.9 + x
                if z < y:
                    return z * j
            return z
    return x * y


@trap
def fields_replaced(x, y):
    p = Point(x, 2.0)
    for k in range(18):
        p = p._replace(a=p.b * 0.5, b=p.a * y * 0.3 + 0.1 * k)
    return p.a * p.b
