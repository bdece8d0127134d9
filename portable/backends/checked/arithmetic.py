"""Operators of kernels as plain Python with the layer's rules: weak numbers, the kernel's own float, integers that overflow.

NumPy's scalars already have the types that kernels have. What differs is mended here: an integer beside a float32 gives
float32, the quotient of two integers is weak, bools add up to integers, nothing raises where a kernel returns an infinity.
An operator's result of the commonest types leaves at once; `settle` looks at the rest.
"""

from __future__ import annotations

import math
import operator
import sys

import numpy as np

from ...compiler import types

_LOW, _HIGH = -(2**63), 2**63
_EXACT = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
          "/": operator.truediv, "&": operator.and_, "|": operator.or_, "^": operator.xor}
_SIGNED = (np.int32, np.int64)
_PLAIN = {"Add": "+", "Sub": "-", "Mult": "*", "FloorDiv": "//", "Mod": "%", "Pow": "**", "Div": "/", "BitAnd": "&", "BitOr": "|",
          "BitXor": "^"}
NAMES = {*_PLAIN, "LShift", "RShift"}

_TEMPLATE = """
def {name}(a, b):
    try:
        r = a {op} b
    except (ZeroDivisionError, OverflowError, TypeError) as error:
        return unusual("{op}", a, b, error)
    kind = r.__class__
    if kind is float or kind is {own}:
        return r
    if kind is int and LOW <= r < HIGH:
        return r
    return settle("{op}", a, b, r, kind)
"""


class Overflow:
    """Whether NumPy has seen an overflow since it was last asked, and who wants to hear of integers that did."""

    seen = False
    tell = None  # called with a message and the frame of the kernel

    @classmethod
    def handler(cls, _kind, _flag):
        cls.seen = True


def settle(op, a, b, r, kind):
    """The result of an operator, of the type that a compiled kernel gives it."""
    if kind is int:
        Overflow.tell(f"{a} {op} {b} is {_brief(r)}, beyond int64", sys._getframe(2))
        return (r - _LOW) % 2**64 + _LOW
    seen, Overflow.seen = Overflow.seen, False  # which may be that of a float, or of an unsigned integer before
    if kind in _SIGNED:
        if seen and (b or op not in ("//", "%")):  # by zero they give 0
            exact = _EXACT[op](int(a), int(b))
            if exact != r:
                Overflow.tell(f"{a} {op} {b} is {_brief(exact)}, beyond {r.dtype}", sys._getframe(2))
        return r
    if kind is np.float64:
        return _floating(op, a, b, r)
    if kind is np.bool_ and op in "+-*":
        return _EXACT[op](int(a), int(b))
    if kind is complex:
        return math.nan
    return r


def _floating(op, a, b, r):
    """A float64 of NumPy's making: what an integer gave beside a float32 or a weak float keeps that one's type."""
    kinds = {a.__class__, b.__class__}
    if np.float64 in kinds:
        return r
    if np.float32 in kinds:  # the other one is an integer of an array
        return _EXACT[op](np.float32(a), np.float32(b))
    return float(r)


def unusual(op, a, b, error):
    """What a compiled kernel has where Python raises."""
    if isinstance(error, ZeroDivisionError):
        if isinstance(a, float) or isinstance(b, float) or op in ("/", "**"):
            return float(_EXACT[op](np.float64(a), np.float64(b)))
        return 0
    if isinstance(error, OverflowError) and isinstance(a, float):
        return float(_EXACT[op](np.float64(a), np.float64(b)))
    if isinstance(error, TypeError) and isinstance(a, (bool, np.bool_)) and isinstance(b, (bool, np.bool_)):
        return _EXACT[op](int(a), int(b))
    raise error


def _shift(left):
    def shift(a, b):
        """a << b or a >> b: a count that is negative, or as large as the type, leaves nothing (of a negative number -1)."""
        strong = [v.dtype for v in (a, b) if isinstance(v, np.integer)]
        dtype = np.result_type(*strong) if strong else np.dtype(np.int64)
        bits, x, n = 8 * dtype.itemsize, int(a), int(b)
        if not 0 <= n < bits:
            r = -1 if x < 0 and not left else 0
        else:
            r = types.converted(x << n, dtype.name) if left else x >> n
        return dtype.type(r) if strong else r
    return shift


def _negative(a):
    """-a: of a bool an integer, and of the smallest integer itself."""
    a = int(a) if isinstance(a, (bool, np.bool_)) else a
    return _within(-a, "-", a)


def _inverted(a):
    """~a: of a bool a bool."""
    return not a if isinstance(a, (bool, np.bool_)) else ~a


def size(a):
    """abs(a)."""
    a = int(a) if isinstance(a, (bool, np.bool_)) else a
    return _within(abs(a), "the size of ", a)


def _within(r, what, a):
    """A result of one integer, which may be the smallest of its type."""
    if isinstance(r, int) and r >= _HIGH or isinstance(r, _SIGNED) and r == a < 0:
        Overflow.tell(f"{what}{a} is beyond {'int64' if isinstance(r, int) else r.dtype}", sys._getframe(2))
        return a
    return r


def _brief(n):
    return str(n) if abs(n) < 10**24 else f"about 2**{n.bit_length()}"


def operators(own):
    """The operators by the names of their syntax tree nodes; `own` is the float that leaves at once."""
    scope = {"unusual": unusual, "settle": settle, "LOW": _LOW, "HIGH": _HIGH, "float32": np.float32, "float64": np.float64}
    for name, op in _PLAIN.items():
        exec(_TEMPLATE.format(name=f"_{name}", op=op, own=own), scope)  # noqa: S102  (the text above)
    return {f"_{name}": scope[f"_{name}"] for name in _PLAIN} | {"_LShift": _shift(True), "_RShift": _shift(False)}


UNARY = {"USub": _negative, "Invert": _inverted}
UNARY_OPERATORS = {f"_{name}": function for name, function in UNARY.items()}
DOUBLE, SINGLE = operators("float64"), operators("float32")
