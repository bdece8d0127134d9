"""Evaluate an operation on numbers of one dtype, on Python's integers and NumPy's floats.

Values: Python's int and bool for integers and bools, np.float32 and np.float64 for floats. Dtypes are names;
"int" and "float" are the weak ones of docs/kernels.md. Nothing here comes from the compiler or from the
checked space.
"""

from fractions import Fraction

import numpy as np

FLOATS = {"float32": np.float32, "float64": np.float64}
INTEGERS = {
    "int32": (32, True),
    "int64": (64, True),
    "int": (64, True),
    "uint32": (32, False),
    "uint64": (64, False),
}
DIGITS = {
    "float32": (24, -149, 128),
    "float64": (53, -1074, 1024),
}  # of the significand; least and first too large power of two


class Undefined(Exception):
    """Operation that docs/kernels.md leaves undefined: spaces may differ."""


class Refused(Exception):
    """Source that this interpreter does not support: a fault of the generator."""


class Notes:
    """Record of notes that the checked space may report although the value is defined: integers that did not
    fit.
    """

    overflow = False


def least(dtype):
    bits, signed = INTEGERS[dtype]
    return -(2 ** (bits - 1)) if signed else 0


def most(dtype):
    bits, signed = INTEGERS[dtype]
    return 2 ** (bits - 1) - 1 if signed else 2**bits - 1


def is_float(dtype):
    return dtype in ("float", "float32", "float64")


def promote(a, b):
    """Return the dtype in which two numbers are combined: the table 'Types' of docs/kernels.md."""
    if a == b:
        return a
    if "bool" in (a, b):
        return b if a == "bool" else a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if a in ("int", "float"):
        return b
    if b in ("int", "float"):
        return a
    if is_float(a):
        return "float64"
    if {a, b} in ({"int32", "int64"}, {"uint32", "uint64"}, {"uint32", "int64"}):
        return "uint64" if "uint64" in (a, b) else "int64"
    raise Refused(f"{a} meets {b}")


# ---- conversions
def wrapped(value, dtype):
    """Reduce an integer modulo 2**bits."""
    bits, signed = INTEGERS[dtype]
    result = value & (2**bits - 1)
    if signed:
        if result >= 2 ** (bits - 1):
            result -= 2**bits
        if result != value:
            Notes.overflow = True
    return result


def cut(value, dtype):
    """Convert a float to an integer: towards zero, limited to the type's ends, 0 for NaN."""
    if value != value:
        Notes.overflow = True
        return 0
    low, high = least(dtype), most(dtype)
    if value in (np.inf, -np.inf):
        Notes.overflow = True
        return high if value > 0 else low
    whole = int(value)
    if not low <= whole <= high:
        Notes.overflow = True
        return min(max(whole, low), high)
    return whole


def from_integer(value, dtype):
    """Return the float nearest to an integer, rounded once."""
    return nearest(Fraction(value), dtype) if abs(value) >= 2**24 else FLOATS[dtype](value)


def convert(value, a, b):
    """Convert a value of dtype `a` to dtype `b`; neither is "float"."""
    if a == b or (a in INTEGERS and b in INTEGERS and INTEGERS[a] == INTEGERS[b]):
        return value
    if b == "bool":
        return bool(value != 0)
    if a == "bool":
        return int(value) if b in INTEGERS else FLOATS[b](value)
    if b in INTEGERS:
        return wrapped(value, b) if a in INTEGERS else cut(value, b)
    return from_integer(value, b) if a in INTEGERS else FLOATS[b](value)


# ---- rounding
def nearest(exact, dtype):
    """Return the float nearest to a Fraction other than zero, ties to even."""
    digits, low, high = DIGITS[dtype]
    n, d = abs(exact.numerator), exact.denominator
    power = n.bit_length() - d.bit_length()
    if Fraction(n, d) < Fraction(2) ** power:
        power -= 1
    unit = max(power - digits + 1, low)
    whole = round(Fraction(n, d) / Fraction(2) ** unit)
    result = np.inf if whole.bit_length() + unit > high else FLOATS["float64"](np.ldexp(float(whole), unit))
    return FLOATS[dtype](-result if exact < 0 else result)


def fma(a, b, c, dtype):
    """Compute a * b + c, rounded once."""
    if not (np.isfinite(a) and np.isfinite(b)):
        return a * b + c
    if not np.isfinite(c):
        return c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if exact:
        return nearest(exact, dtype)
    if a == 0 or b == 0:  # zeros keep their signs as in any sum
        return a * b + c
    return FLOATS[dtype](0.0)  # two numbers that cancel


# ---- operators
def divide_integers(op, x, y, dtype):
    if y == 0:
        return 0
    return wrapped(x // y if op == "//" else x % y, dtype)


def shift(op, x, count, dtype):
    bits, _ = INTEGERS[dtype]
    if not 0 <= count < bits:
        return 0 if op == "<<" or x >= 0 else -1
    if op == ">>":
        return x >> count
    before = Notes.overflow
    result = wrapped(x << count, dtype)  # drops high bits: nothing to report
    Notes.overflow = before
    return result


def integer(op, x, y, dtype):
    """Evaluate + - *

    % & | ^ << >> of two integers of one dtype.
    """
    if op in "+-*":
        exact = x + y if op == "+" else x - y if op == "-" else x * y
        if dtype in ("int", "int64") and not -(2**63) <= exact < 2**63:
            raise Undefined("int64 overflows")
        return wrapped(exact, dtype)
    if op in ("//", "%"):
        return divide_integers(op, x, y, dtype)
    if op in ("<<", ">>"):
        return shift(op, x, y, dtype)
    return x & y if op == "&" else x | y if op == "|" else x ^ y


def floating(op, x, y):
    """Evaluate + - * /

    % of two floats of one dtype.
    """
    if op == "+":
        return x + y
    if op == "-":
        return x - y
    if op == "*":
        return x * y
    if op == "/":
        return x / y
    return np.floor_divide(x, y) if op == "//" else np.remainder(x, y)


def compare(op, x, y):
    return bool({"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[op])


# ---- words
def extreme(smaller, x, y):
    """Evaluate min and max of Python: the first operand, unless the second is better."""
    return y if (y < x if smaller else y > x) else x


def extreme_nan(smaller, x, y):
    """Evaluate minimum and maximum: NaN takes precedence, -0.0 is below 0.0."""
    if x != x or y != y:
        return x if x != x else y
    if x == y == 0 and isinstance(x, np.floating):
        return (x if np.signbit(x) else y) if smaller else (y if np.signbit(x) else x)
    return min(x, y) if smaller else max(x, y)
