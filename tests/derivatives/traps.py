"""Functions of two numbers whose derivatives are easily wrong, a line or two each: loops of every kind,
overwritten variables, ties, NaN on the branch that is not taken."""

import math  # noqa: F401  (used by the table)
from textwrap import indent
from typing import NamedTuple

import numpy as np

import portable as pk

from .tables import made

TABLE = np.array([0.5, 1.5, -2.0, 3.0])
# the points
X = np.array([0.31, 0.87, 1.13, 1.42, 1.91, 2.3, 0.55, 1.7, 2.61, 1.05, 0.73])
Y = np.array([1.23, 0.61, 0.87, 1.53, 1.86, 0.43, 2.2, 1.07, 0.92, 1.31, 0.71])


class Point(NamedTuple):
    a: float
    b: float


@pk.function
def fill(v, a):
    for k in range(3):
        v[k] = a + k
        a = a * 0.5


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


@pk.function
def shifted(a, b):
    a = a * b
    b = b + a
    return a * b


polynomial_slope = pk.derivative(polynomial, ("x", "a"), value=True)


TEXT = """
loop_carried
    v, n = x, int(pk.floor(3.0 + 0.0 * TABLE[0]))
    for _ in range(n):
        v = pk.sin(v) + x * v
    return v + y

newton
    v, k = x, 0
    while abs(v * v - x) > 1e-14 * x and k < 50:
        v = 0.5 * (v + x / v)
        k += 1
    return 0.5 * (v + x / v) * y

before_the_loop_used_after
    a, s = pk.exp(x), 0.0
    for _ in range(20):
        s += y * x
    return a * s

breaks_of_a_while
    v = x
    while True:
        v = v * 1.5 + 0.1 * y
        if v > 4.0:
            break
    return pk.log(v)

returns_early
    if x > 1.0:
        return x * x * y
    v = pk.exp(x)
    if y > 1.0:
        return v / y
    return v * v

nested_breaks
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

over_a_tuple
    s = 1.0
    for v in (x, y, x * y, 2.0):
        s = s * v + v
    return s

zipped
    s = 0.0
    for k, (u, v) in enumerate(zip((x, y), (y, 3.0))):
        s += u * v * (k + 1)
    return s

integer_first
    v = 0
    for _ in range(18):
        v = v + x * y
        v = v * 0.5
    return v

weak_to_strong
    v = 1
    if x > 1.2:
        v = x
    return v * y

parameter_overwritten
    a = x * x
    x = x * 3.0
    return a + x * y

array_overwritten
    v = pk.local(2, pk.float64)
    v[0] = x
    v[1] = v[0] * v[0]
    v[0] = v[0] * 3.0 * y
    return v[0] + v[1]

array_in_a_loop
    v = pk.local(4, pk.float64)
    v[:] = x
    for k in range(20):
        v[k % 4] = pk.sin(v[(k + 1) % 4]) * y + v[k % 4]
    return v.sum()

recurrence_in_place
    v = pk.local(6, pk.float64)
    v[:] = y
    for k in range(1, 6):
        v[k] = v[k] * x + v[k - 1]
    return v[5]

array_made_passive_again
    v = pk.local(3, pk.float64)
    v[:] = x
    v[1] = 2.0
    return v[0] * v[1] + v[2] * y

array_in_a_branch
    v = pk.local(2, pk.float64)
    v[0], v[1] = 1.0, 2.0
    if x > 1.0:
        v[0] = x * y
    else:
        v[1] = x
    return v[0] * v[1]

parts_of_an_array
    m = pk.local((2, 3), pk.float64)
    m[0, :] = x
    row = m[1]
    row[:] = y
    row[1] = m[0, 1] * row[0]
    m[0, 2] += row[1]
    return m[0].sum() * row.sum()

array_chosen
    a, b = pk.local(2, pk.float64), pk.local(2, pk.float64)
    a[:], b[:] = x, y
    a[1] += 1.0
    return (a[:] @ b[:]) * a[1]

array_indexed_by_data
    v = pk.local(4, pk.float64)
    for k in range(4):
        v[k] = x * k + y
    s = 0.0
    for k in range(4):
        s += v[(k * 3 + 1) % 4] * TABLE[k]
    return s

array_filled_by_a_function
    v = pk.local(3, pk.float64)
    fill(v, x * y)
    return v[0] + v[1] * v[2]

old_value_kept
    old = x
    for _ in range(18):
        new = old * y * 0.9 + 0.1
        old, x = new, old
    return old * x

atomics_on_its_own
    v = pk.local(2, pk.float64)
    v[0], v[1] = x, 0.0
    pk.atomic_add(v, 1, x * y)
    pk.atomic_sub(v, 1, v[0])
    return v[1] * v[1]

nan_on_the_other_side
    return pk.where(x > 0.0, pk.sqrt(x), pk.sqrt(-x - 1.0)) * y

infinite_on_the_other_side
    z = x - x
    return pk.where(z == 0.0, x, y * pk.rsqrt(z))

guarded_sum
    s = 0.0
    for k in range(18):
        z = x - 0.25 * k
        if z > 0.0:
            s += pk.log(z) * y
    return s

in_a_condition
    if (x if x > y else y) > 1.0 and (x > 0.5 or pk.log(y) > 2.0):
        return x * y
    return x - y

smaller
    return min(x * x, y) + max(x, y, 1.25) * 0.5

clipped
    return pk.clip(x * y, 0.4, 1.7) * x

absolute
    return abs(x - 1.1) * abs(y * x) - abs(0.3 - y)

function_called_twice
    return polynomial(x, y) * polynomial(y, x * x, 2)

several_returns_and_results
    a, b = two(x * x, y)
    c, d = two(b, a)
    return a * c + b * d

function_in_a_loop
    s = x
    for _ in range(18):
        a, b = two(s, y)
        s = 0.3 * a - 0.2 * b
    return s

record_in_a_loop
    p = Point(x, y)
    for _ in range(18):
        p = halved(p)
    return p.a + p.b * x

same_argument_twice
    return two(x, x)[0] * y + polynomial(x, x)

argument_overwritten_inside
    return shifted(x, y) * x

slope_inside
    v, s, t = polynomial_slope(x, y * y)
    return v * s + t

complex_numbers
    z = complex(x, y)
    for _ in range(3):
        z = z * z * 0.3 + complex(y, 0.1)
    return abs(z) + z.real

elementary
    return pk.exp2(x) * pk.log2(1.0 + y) + pk.expm1(y) * pk.log1p(x) + pk.log10(x) + pk.exp(-x * y)

angles
    return pk.tan(0.3 * x) + pk.atan(x) * pk.asin(0.2 * y) + pk.acos(0.1 * x) + pk.atan2(x, y)

hyperbolic
    return pk.sinh(x) * pk.tanh(y) + pk.cosh(x) / pk.asinh(y) + pk.acosh(1.5 + x) + pk.atanh(0.2 * y)

roots
    return pk.sqrt(x) + pk.cbrt(y) * pk.rsqrt(x * y) + pk.hypot(x, 2.0 * y) + x**0.5 + y**-1.5

powers
    return x**3 + x**y + 2.0**x + pk.pow(x, -2.0) + x**0 + pow(y, 2)

probability
    return pk.erf(x) + pk.erfc(y) * x + pk.ndtr(x - y)

gammas
    return pk.lgamma(x) * y + pk.gamma(y) + pk.digamma(x + 1.0)

fused
    return pk.fma(x, y, x) + pk.copysign(x, -y) - pk.fma(2.0, x, y)

remainders
    return (5.0 * x) % y + pk.fmod(7.0 * x, y) + math.remainder(3.0 * x, y) + pk.ldexp(x, 3)

fractional_part
    z = 7.3 * x
    return (z - pk.floor(z)) * y + (z - int(z)) + pk.degrees(x) * pk.radians(y)

interpolated
    k = int(x)
    w = x - k
    return (1.0 - w) * TABLE[k] + w * TABLE[k + 1] + y

logical
    n = int(x > 1.0) + 2 * int(y > 1.0)
    return x * n + y * (not n)

cast
    return float(x) * pk.float64(y) + np.float64(x * y)

log_sum_exp
    m = max(x, y, 0.5)
    return m + pk.log(pk.exp(x - m) + pk.exp(y - m) + pk.exp(0.5 - m))

finite_tests
    return x * y if pk.isfinite(pk.rsqrt(x - x)) else x + y * 2.0

constant
    return 3.0

sorted_by_hand
    v = pk.local(3, pk.float64)
    v[0], v[1], v[2] = x, y, x * y
    for i in range(2):
        for j in range(2 - i):
            if v[j] > v[j + 1]:
                v[j], v[j + 1] = v[j + 1], v[j]
    return v[0] + 2.0 * v[1] + 4.0 * v[2]

runge_kutta
    u, h = x, 0.05
    for _ in range(20):
        a = pk.sin(u) - y * u
        b = pk.sin(u + 0.5 * h * a) - y * (u + 0.5 * h * a)
        u += h * b
    return u

filtered
    mean, variance, ll = 0.0, 1.0, 0.0
    for k in range(18):
        z = TABLE[k % 4]
        variance = x * x * variance + y
        gain = variance / (variance + 0.5)
        ll -= 0.5 * pk.log(variance + 0.5) + 0.5 * (z - mean) ** 2 / (variance + 0.5)
        mean = mean + gain * (z - mean)
        variance = (1.0 - gain) * variance
    return ll

while_by_a_choice
    v, k = x, 0
    while (v if v > y else pk.sin(y)) * k < 2.0 and k < 9:
        v = v * 1.1 + y * 0.1
        k += 1
    return v * k

scan_by_hand
    v = pk.local(9, pk.float64)
    v[:] = x
    step = 1
    while step < 9:
        for k in range(8, step - 1, -1):
            v[k] = v[k] + v[k - step] * y
        step = step * 2
    return v[8]

aliased_rows
    m = pk.local((3, 3), pk.float64)
    m[:] = x
    a, b = m[1], m[1]
    a[0] = y
    b[0] = b[0] * a[0] + a[1]
    return m[1, 0] * m[0, 0]

transposed_product
    m, v = pk.local((2, 2), pk.float64), pk.local(2, pk.float64)
    m[0, 0], m[0, 1], m[1, 0], m[1, 1] = x, y, x * y, 1.0
    v[:] = m.T[0] * 2.0
    v[0] += m[1] @ v
    return v.sum() * v.max()

junctions
    z = (x > y) * x and x * y
    return (z or y) * x

continues_in_a_while
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

first_of_several
    for k in range(20):
        z = x * k - y
        if z > 1.0:
            for j in range(k + 3):
                z = z * 0.9 + x
                if z < y:
                    return z * j
            return z
    return x * y

fields_replaced
    p = Point(x, 2.0)
    for k in range(18):
        p = p._replace(a=p.b * 0.5, b=p.a * y * 0.3 + 0.1 * k)
    return p.a * p.b
"""
# each kind of loop with each way to change what it carries
LOOPS = {
    "for": "for k in range(18):",
    "down": "for k in range(17, -1, -1):",
    "bound": "for k in range(int(6.0 * x)):",
    "while": "while k < 18:\n    k += 1",
    "unrolled": "for k in (3, 1, 4, 1):",
}
BODIES = {
    "overwritten": "x = x * 0.9 + v * 0.01\nv = pk.cos(v * x) + y",
    "continues": "if v > y:\n    v = v * 0.5\n    continue\nv = v + x * 0.4",
    "returns": "v = v * 1.2 + 0.1 * x\nif v * k > 9.0:\n    return v * y",
    "changes": "own[k % 2] = own[1 - k % 2] * 0.7 + v * x\nv = pk.sin(own[0]) * 0.5 + y",
}


BEGIN = "    v, k, own = x * y, 0, pk.local(2, pk.float64)\n    own[:] = y\n"
MORE = "\n\n".join(
    f"{b}_{h}\n{BEGIN}{indent(LOOPS[h], ' ' * 4)}\n{indent(BODIES[b], ' ' * 8)}\n    return v * x + own[1]"
    for h in LOOPS
    for b in BODIES
)
TRAPS = made(pk.function, TEXT + "\n" + MORE, globals(), "<traps>", "x, y")
