"""Operators of kernels as plain Python with the layer's rules: weak numbers, the kernel's own float, integers that overflow.

NumPy's scalars already have the types that kernels have. What differs is mended here: an integer beside a float32 gives
float32, the quotient of two integers is weak, bools add up to integers, nothing raises where a kernel returns an infinity.
An operator's result of the commonest types leaves at once; `settle` looks at the rest.
"""

from __future__ import annotations

import functools
import math
import operator
import sys

import numpy as np

from ...compiler import types

_LOW, _HIGH = -(2**63), 2**63
_EXACT = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod, "**": operator.pow,
          "/": operator.truediv, "&": operator.and_, "|": operator.or_, "^": operator.xor}
_SIGNED = (np.int32, np.int64)
_NUMBERS = (int, float, np.generic)
_PLAIN = {"Add": "+", "Sub": "-", "Mult": "*", "FloorDiv": "//", "Mod": "%", "Pow": "**", "Div": "/", "BitAnd": "&", "BitOr": "|",
          "BitXor": "^"}
COMPARED = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Eq": "==", "NotEq": "!="}
NAMES = {*_PLAIN, "LShift", "RShift"}

_TEMPLATE = """
def {name}(a, b):
    try:
        r = a {op} b
    except (ZeroDivisionError, OverflowError, TypeError) as error:
        return unusual("{op}", a, b, error)
    kind = r.__class__
    if kind is float or kind is own and (kind is a.__class__ or kind is b.__class__):
        return r
    if kind is int and _LOW <= r < _HIGH:
        return r
    return settle("{op}", a, b, r, kind)
"""
_COMPARISON = """
def {name}(a, b):
    k, l = a.__class__, b.__class__
    if k is l or k is int and 0 <= a < 2**24 or l is int and 0 <= b < 2**24 or isinstance(a, float) and isinstance(b, float):
        return a {op} b  # what every type holds needs no other type
    a, b = in_common(a, b)
    return a {op} b
"""


class Overflow:
    """Whether NumPy has seen an overflow since it was last asked, and who wants to hear of integers that did."""

    seen = False
    tell = None  # called with a message and the frame of the kernel

    @classmethod
    def handler(cls, _kind, _flag):
        cls.seen = True


@functools.cache
def _common_type(kinds):
    """The type in which numbers of these types meet, Python's own being the weak ones; None if they are one, or no numbers."""
    if len(set(kinds)) == 1 or not all(issubclass(kind, _NUMBERS) for kind in kinds):
        return None
    dtype = functools.reduce(types.promote, (np.dtype(k).name if issubclass(k, np.generic) else k.__name__ for k in kinds))
    return {"int": int, "float": float}.get(dtype) or np.dtype(dtype).type


def _as_type(value, kind):
    """A number as one of a type. An integer wraps, which is noted of a signed type."""
    if not issubclass(kind, np.integer) or 0 <= value < 2**31:
        return kind(value)
    number = types.converted(int(value), np.dtype(kind).name)
    if number != value and kind in _SIGNED:
        Overflow.tell(f"{value} does not fit {np.dtype(kind)}", sys._getframe(2))
    return kind(number)


def in_common(*numbers):
    """Numbers, all in the type that they have in common; anything else as it is."""
    kind = _common_type(tuple([v.__class__ for v in numbers]))
    return numbers if kind is None else [v if v.__class__ is kind else _as_type(v, kind) for v in numbers]


def one(value):
    """1 of a number's type; anything else as it is."""
    return value.__class__(1) if isinstance(value, _NUMBERS) else value


def element(x, *_index):
    """1 of the type that the elements of a view, or of a tuple, have."""
    return one(x[0]) if isinstance(x, tuple) else x.dtype.type(1)


def chosen(value, other):
    """A number in the type that it has in common with what `other()` gives, if that has a value."""
    try:
        it = other()
        return value if it.__class__ is value.__class__ else in_common(value, it)[0]
    except (NameError, TypeError):  # a name without a value, an array
        return value


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
    if isinstance(error, OverflowError) and (isinstance(a, float) or isinstance(b, float)):
        return float(_EXACT[op](np.float64(a), np.float64(b)))
    if isinstance(error, OverflowError):  # a weak integer beyond the other's type
        a, b = in_common(a, b)
        r = _EXACT[op](a, b)
        return settle(op, a, b, r, r.__class__)
    if isinstance(error, TypeError) and isinstance(a, (bool, np.bool_)) and isinstance(b, (bool, np.bool_)):
        return _EXACT[op](int(a), int(b))
    raise error


def _shift(left):
    def shift(a, b):
        """a << b or a >> b: a count that is negative, or as large as the type, leaves nothing (of a negative number -1)."""
        a, b = in_common(int(a) if isinstance(a, (bool, np.bool_)) else a, b)
        strong, dtype = isinstance(a, np.integer), np.result_type(a)
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
    scope = globals() | {"own": own}
    texts = dict.fromkeys(_PLAIN, _TEMPLATE) | dict.fromkeys(COMPARED, _COMPARISON)
    for name, op in (_PLAIN | COMPARED).items():
        exec(texts[name].format(name=f"_{name}", op=op), scope)  # noqa: S102  (the texts above)
    return {f"_{name}": scope[f"_{name}"] for name in texts} | {"_LShift": _shift(True), "_RShift": _shift(False)}


UNARY = {"USub": _negative, "Invert": _inverted}
OTHERS = {f"_{name}": function for name, function in UNARY.items()} | {
    "_one": one, "_element": element, "_chosen": chosen, "_first": lambda *numbers: in_common(*numbers)[0]}
DOUBLE, SINGLE = operators(np.float64), operators(np.float32)
