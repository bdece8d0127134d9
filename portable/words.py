"""What a kernel may call beyond math and NumPy's scalar functions, as plain Python callables.

The compiler knows each by identity and emits code for it; plain Python, and here and there the checked space, runs them as they stand. Casts to a
dtype are NumPy's scalar types, so that plain Python and compiled code agree about what a cast means.
"""

from __future__ import annotations

import builtins as _builtins  # this module's any and all shadow the builtins
import math
from fractions import Fraction

import numpy as np

from .errors import LanguageError
from .math import sqrt  # noqa: F401  (random and elementary.py take it from here)

float32, float64 = np.float32, np.float64
int32, int64, uint32, uint64 = np.int32, np.int64, np.uint32, np.uint64
rint, floor, ceil, trunc, copysign = np.rint, np.floor, np.ceil, np.trunc, np.copysign  # whole numbers as floats


class static:
    """Marks a compile-time constant: `pk.static(14)` as a kernel's argument, or `range(pk.static(P))` inside.

    Loops over it unroll, and each value compiles its own code.
    """

    __slots__ = ("value",)

    def __new__(cls, value):
        if isinstance(value, static):
            return value
        if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
            raise LanguageError(f"static: a number is wanted, got {value!r} of type {type(value).__name__}")
        self = super().__new__(cls)
        self.value = value.item() if isinstance(value, np.generic) else value
        return self

    def __index__(self):
        return self.value

    def __repr__(self):
        return f"static({self.value!r})"


def where(condition, a, b):
    """`a` where the condition holds, else `b`; both are evaluated."""
    return a if condition else b


def minimum(a, b):
    """The smaller of two; NaN if either is. -0.0 is smaller than 0.0."""
    return a if a < b or a != a or (a == b and math.copysign(1.0, a) < 0.0) else b


def maximum(a, b):
    """The larger of two; NaN if either is. 0.0 is larger than -0.0."""
    return a if a > b or a != a or (a == b and math.copysign(1.0, a) > 0.0) else b


def clip(x, low, high):
    """`x` held between two bounds."""
    return minimum(maximum(x, low), high)


def any(condition):  # noqa: A001  (the word of NumPy and of every SIMD language)
    """True if the condition holds in any lane that moves together with this one; one index alone: itself."""
    return bool(condition)


def all(condition):  # noqa: A001
    """True if the condition holds in every lane that moves together with this one; one index alone: itself."""
    return bool(condition)


def fma(a, b, c):
    """a * b + c, rounded once."""
    strong = [v for v in (a, b, c) if isinstance(v, np.floating)]
    single = bool(strong) and _builtins.all(isinstance(v, np.float32) for v in strong)
    kind = np.float32 if single else np.float64
    a, b, c = float(a), float(b), float(c)
    plain = a * b + c
    if not math.isfinite(a + b + c) or plain == 0:  # infinities, NaN, and the sign of zero
        exact = Fraction(a) * Fraction(b) + Fraction(c) if math.isfinite(a + b + c) else None
        if not exact:
            return kind(plain)
    else:
        exact = Fraction(a) * Fraction(b) + Fraction(c)
    near = _nearest(exact)
    if single and math.isfinite(near) and (gap := exact - Fraction(near)) and np.float64(near).view(np.int64) & 1 == 0:
        # Round to odd before float32, so that the second rounding sees on which side the exact value lies.
        near = np.nextafter(near, math.inf if gap > 0 else -math.inf)
    with np.errstate(over="ignore", under="ignore"):
        return kind(near)


def _nearest(fraction):
    """The float64 nearest to a fraction; Python's division of integers rounds correctly."""
    try:
        return fraction.numerator / fraction.denominator
    except OverflowError:
        return math.inf if fraction > 0 else -math.inf


def modulo64(n):
    """A whole number modulo 2^64, as a uint64."""
    return np.uint64(n % 2**64 if isinstance(n, int) else n)


def isnan(x):
    """True for NaN."""
    return bool(x != x)


def isinf(x):
    """True for an infinity of either sign."""
    return bool(abs(x) == math.inf)


def isfinite(x):
    """True unless NaN or infinite."""
    return bool(abs(x) < math.inf)


def bits(x):
    """The bit pattern of a float: float64 as int64, float32 as int32."""
    return x.view(np.int32) if isinstance(x, np.float32) else np.float64(x).view(np.int64)


def from_bits64(n):
    """The float64 with the bit pattern of an int64."""
    return np.int64(n).view(np.float64)


def from_bits32(n):
    """The float32 with the bit pattern of an int32."""
    return np.int32(n).view(np.float32)


def local(shape, dtype):
    """An array private to one index, of compile-time shape; its content starts undefined."""
    return np.empty(shape, dtype)


def _atomic(combine, doc):
    def operation(view, index, value):
        old = view[index]
        view[index] = combine(old, view.dtype.type(value))
        return old

    operation.__doc__ = f"{doc} as one indivisible step; returns the old value. `view[index]`, index an integer or a tuple."
    return operation


atomic_add = _atomic(lambda old, value: old + value, "Add to an element")
atomic_sub = _atomic(lambda old, value: old - value, "Subtract from an element")
atomic_min = _atomic(minimum, "Lower an element to a value")
atomic_max = _atomic(maximum, "Raise an element to a value")
atomic_and = _atomic(lambda old, value: old & value, "Bitwise and into an element")
atomic_or = _atomic(lambda old, value: old | value, "Bitwise or into an element")
atomic_xor = _atomic(lambda old, value: old ^ value, "Bitwise exclusive or into an element")
atomic_exchange = _atomic(lambda old, value: value, "Replace an element")


def atomic_cas(view, index, expected, value):
    """Replace an element if it equals `expected`, as one indivisible step; returns the old value."""
    old = view[index]
    if old == expected:
        view[index] = value
    return old
