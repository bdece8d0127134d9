"""Define the numbers of the compiler: dtypes, weak dtypes, and how a value differs between lanes.

Weak dtypes belong to literals, Python scalars, loop indices and shapes: 'int' and 'float' take the dtype of
the first array value that they are combined with. Otherwise 'int' is stored as int64, and 'float' as the
kernel's own float (see Kernel arguments in `lowering.py`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

UNIFORM, LINEAR, VARYING = "uniform", "linear", "varying"
FLOATS = ("float32", "float64", "float", "float16", "bfloat16")
SIGNED = ("int32", "int64", "int", "int8", "int16")
UNSIGNED = ("uint32", "uint64", "uint8", "uint16")
SHORT = 1 << 30  # bound of a launch's indices and extents for which a GPU's code may use 32 bits
CONSECUTIVE = ("int", "int64", "int32")  # dtypes of numbers that differ by a known step between lanes
DTYPES = ("bool", "int32", "int64", "uint32", "uint64", "float32", "float64")
# dtypes that exist in memory only -> the dtype of computations
HELD = dict.fromkeys(("int8", "uint8", "int16", "uint16"), "int32") | dict.fromkeys(
    ("float16", "bfloat16"), "float32"
)
PARTS = {"complex64": "float32", "complex128": "float64"}  # dtype of the two floats of a complex number
STORED = *DTYPES, *HELD, *PARTS  # dtypes of arrays
_OF_BITS = {
    1: "bool",
    8: "int8 uint8",
    16: "int16 uint16 float16 bfloat16",
    32: "int32 uint32 float32",
    64: "int64 uint64 float64 int float complex64",
    128: "complex128",
}
BITS = {dtype: n for n, dtypes in _OF_BITS.items() for dtype in dtypes.split()}
# format of a number in a word of eight bytes, for `struct`
WORDS = dict(zip(DTYPES, "?7x i4x q I4x Q f4x d".split()))


class TypeClash(Exception):
    """Two dtypes without a common one; the message names both and a remedy."""


def is_float(dtype):
    return dtype in FLOATS


def loaded_dtype(dtype):
    """Return the dtype in which a number of some dtype, or a part of one, is held once loaded from memory."""
    return HELD.get(dtype) or part(dtype)


def part(dtype):
    """Return the dtype of the numbers in memory: for complex numbers, of their parts."""
    return PARTS.get(dtype, dtype)


def is_weak(dtype):
    return dtype in ("int", "float")


def weak_dtype(number):
    """Return the dtype of a Python number."""
    return "bool" if isinstance(number, bool) else "int" if isinstance(number, int) else "float"


def strong(dtype, float_dtype):
    """Return the dtype for storage: int64 for weak integers, the kernel's own float for weak floats."""
    return float_dtype if dtype == "float" else "int64" if dtype == "int" else dtype


def bounds(dtype):
    """Return the smallest and the largest integer of an integer dtype."""
    bits = BITS[dtype]
    return (0, 2**bits - 1) if dtype in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def check_fits(number, dtype):
    """Raise TypeClash if an integer is out of range for the dtype that it is combined with."""
    if not is_float(dtype) and dtype != "bool" and not bounds(dtype)[0] <= number <= bounds(dtype)[1]:
        raise TypeClash(
            f"{number} does not fit {dtype}; cast the other side first, for example pk.int64(...)"
        )


def wrapped(number, bits):
    """Return the signed integer with the same lowest bits."""
    number &= 2**bits - 1
    return number - 2**bits if number >= 2 ** (bits - 1) else number


def to_integer(number, dtype):
    """Return a float as an integer: truncated, clamped to the dtype's range, NaN as 0."""
    low, high = bounds(dtype)
    if math.isnan(number):
        return 0
    return low if number < low else high if number >= high else int(number)


class Weak(float):
    """Result of weak floats in a kernel whose own floats are float32: the float64 result and, if it differs,
    the float32 result `single`. The dtype that it is combined with selects one."""

    def __new__(cls, double, single):
        self = float.__new__(cls, double)
        self.single = single
        return self

    def __repr__(self):
        return f"{float.__repr__(self)} ({self.single!r} in float32)"

    def __neg__(self):
        return Weak(-float(self), -self.single)

    def __abs__(self):
        return Weak(abs(float(self)), abs(self.single))


def rounded(number, dtype):
    """Return a Python number as a float of `dtype`, rounded once; infinite beyond it."""
    try:
        if loaded_dtype(dtype) != "float32":
            return float(number)
        if isinstance(number, int) and number.bit_length() > 53:
            low = number.bit_length() - 50  # lower bits, of which only matters whether any is set
            some = bool(abs(number) & (1 << low) - 1)
            number = math.copysign(math.ldexp(abs(number) >> low | some, low), number)
        with np.errstate(over="ignore", under="ignore"):
            return float(np.float32(getattr(number, "single", number)))
    except OverflowError:
        return math.copysign(math.inf, number)


def converted_constant(v, to, own):
    """Return the Python number of a constant as one of dtype `to`, in a kernel whose own floats are `own`: a
    weak float is rounded to `own` unless `to` is float64. The range of a literal integer is not checked."""
    number = rounded(v.const, own) if v.dtype == "float" and to != "float64" else v.const
    return number if v.dtype == "int" or is_weak(to) else converted(number, to)


def converted(number, dtype):
    """Convert a Python number to `dtype` with the results of run time: integers wrap, floats are clamped to
    the range."""
    if dtype == "bool":
        return bool(number)
    if is_float(dtype):
        return rounded(number, dtype)
    if isinstance(number, float):
        return to_integer(number, dtype)
    low, high = bounds(dtype)
    return int(number) if low <= number <= high else (number - low) % 2 ** BITS[dtype] + low


def promote(a, b):
    """Return the dtype of a (op) b.

    A float wins over an integer of any size, so that float32 data stay float32; a strong dtype wins over a
    weak one of its kind; a strong integer with a weak float gives a weak float. Signed and unsigned integers
    of the same size raise TypeClash.
    """
    if a == b:
        return a
    if a == "bool" or b == "bool":
        return b if a == "bool" else a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if is_weak(a) or is_weak(b):
        return b if is_weak(a) else a
    if is_float(a):
        return "float64"
    if (a in UNSIGNED) == (b in UNSIGNED):
        return a if BITS[a] > BITS[b] else b
    signed, unsigned = (a, b) if a in SIGNED else (b, a)
    if BITS[signed] > BITS[unsigned]:
        return signed
    raise TypeClash(f"{signed} meets {unsigned}: cast one of them, for example pk.{unsigned}(...)")


def common_float(values):
    """Return the dtype of a float-valued function of several numbers."""
    return functools.reduce(promote, (v.dtype for v in values), "float")


def arithmetic(a, b, op):
    """Return the dtype in which `a op b` is computed: two bools count as integers, / always gives a
    float."""
    dtype = promote(a, b)
    if dtype == "bool" and op not in ("&", "|", "^"):
        dtype = "int"
    if op == "/" and not is_float(dtype):
        dtype = "float"
    return dtype


def check_operator(op, dtype):
    """Raise TypeClash for an integer operator on floats."""
    if is_float(dtype) and op not in ("+", "-", "*", "/", "//", "%"):
        hint = "; a power is written **" * (op == "^")
        raise TypeClash(f"'{op}' needs integers, got {dtype}{hint}")


_FOLDS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_FOLDS_INTEGERS = _FOLDS | {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}


def folded(op, a, b, own):
    """Return `a op b` for two weak numbers known at compile time, in a kernel whose own floats are `own`;
    None if it must be computed at run time."""
    if op in ("/", "//", "%") and b == 0:
        return None
    if op == "/" or isinstance(a, float) or isinstance(b, float):
        return _folded_floats(_FOLDS[op], a, b, own) if op in _FOLDS else None
    if op in ("<<", ">>") and not 0 <= b < 64:
        return None
    result = _FOLDS_INTEGERS[op](a, b)
    return None if not isinstance(result, bool) and not -(2**63) <= result < 2**64 else result


def _folded_floats(operation, a, b, own):
    with np.errstate(all="ignore"):
        double = float(operation(*(np.float64(rounded(v, "float64")) for v in (a, b))))
        single = float(operation(*(np.float32(rounded(v, "float32")) for v in (a, b))))
    if not math.isfinite(double) or own == "float32" and not math.isfinite(single):
        return None
    return Weak(double, single) if own == "float32" and rounded(double, own) != single else double


def exact(product, a, b, own):
    """Return True if the product of two constants, in the kernel's own float dtype, is exact."""
    return Fraction(rounded(a, own)) * Fraction(rounded(b, own)) == Fraction(rounded(product, own))


HOLDS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Record(tuple):
    """Tuple with optional names of its items, like a NamedTuple."""

    def __new__(cls, values, names=()):
        kind = Complex if names == COMPLEX else Vector if names[:1] == ("0",) else cls
        self = super().__new__(kind, values)
        self.names = names
        return self


class Fields(NamedTuple):
    """Fields that the constructor of a NamedTuple or a dataclass takes."""

    name: str
    params: tuple
    defaults: tuple  # of the last fields


def fields_of(cls):
    """Return the Fields of a NamedTuple's class, or of a dataclass that stores its arguments; None for other
    classes."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, tuple) and hasattr(cls, "_field_defaults"):
        return Fields(cls.__name__, cls._fields, tuple(cls._field_defaults.values()))
    if not dataclasses.is_dataclass(cls) or hasattr(cls, "__post_init__"):
        return None
    fields = dataclasses.fields(cls)
    if any(f.kw_only or not f.init for f in fields):
        return None
    defaults = (f.default for f in fields if f.default is not dataclasses.MISSING)
    return Fields(cls.__name__, tuple(f.name for f in fields), tuple(defaults))


COMPLEX = "real", "imag"


class Complex(Record):
    """Complex number as a record of its two parts."""


class Vector(Record):
    """Immutable vector of numbers; a vector of vectors is a matrix."""


def complex_of(parts):
    """Return the Complex number with these two parts."""
    return Record(parts, COMPLEX)


def vector(items):
    """Return the Vector of some items."""
    items = tuple(items)
    return Record(items, tuple(map(str, range(len(items)))))


def named(name, n, names):
    """Return the names of the n parts of a tuple, for messages."""
    return [f"{name}.{field}" for field in names] or [f"{name}[{k}]" for k in range(n)]


class Known:
    """Python object in a kernel or its arguments without a run-time value: a module, a function, a dtype,
    None. Two of the same object are equal."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return other.__class__ is Known and other.value is self.value

    def __hash__(self):
        return id(self.value)

    def __repr__(self):
        return f"known {getattr(self.value, '__name__', type(self.value).__name__)}"


class Number:
    """Base of numbers: an operation of the typed tree, or its value in emitted code."""

    __slots__ = ()

    def in_packs(self, width):
        """Return True if an integer is known to be a multiple of a pack's width."""
        return self.aligned or isinstance(self.const, int) and self.const % width == 0


def kind_of(*values):
    """Return the kind of a result of numbers of these kinds."""
    for v in values:
        if v.kind != UNIFORM:
            return VARYING
    return UNIFORM


def in_rows(op, a, b, width):
    """Return True if `a // b` or `a % b` acts on consecutive integers in rows of whole packs: // is then
    uniform, and % consecutive."""
    return (
        op in ("//", "%")
        and a.kind == LINEAR
        and a.aligned
        and a.step == 1
        and isinstance(b.const, int)
        and b.const > 0
        and b.const % width == 0
    )


def consecutive(op, a, b, dtype):
    """Return (kind, step) of a sum or difference of consecutive integers if it is consecutive or uniform;
    (None, 0) otherwise."""
    kinds, wrapped = (a.kind, b.kind), any(v.kind == LINEAR and v.dtype == "int32" for v in (a, b))
    if dtype not in CONSECUTIVE or LINEAR not in kinds or VARYING in kinds or wrapped and dtype != "int32":
        return None, 0
    if op == "+" and a.kind != b.kind or op == "-" and b.kind == UNIFORM:
        return LINEAR, a.step if a.kind == LINEAR else b.step
    return (UNIFORM, 0) if op == "-" and a.kind == b.kind and a.step == b.step else (None, 0)


def stays_aligned(op, a, b, dtype, kind, width):
    """Return True if `a op b`, of this dtype and kind, is known to be a multiple of a pack's width."""
    if op == "*":
        return kind == UNIFORM and dtype in ("int", "int64") and (a.in_packs(width) or b.in_packs(width))
    return kind == LINEAR and dtype != "int32" and a.in_packs(width) and b.in_packs(width)


def itemsize(dtype):
    """Return the bytes of one element in memory."""
    return BITS[dtype] // 8 or 1


def reach(shape, strides, size):
    """Return the first and the last byte offset of an array relative to its first element, which has `size`
    bytes."""
    ends = [step * (n - 1) for n, step in zip(shape, strides)]
    return sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends) + size


def in_parts(dtype, shape, strides):
    """Return dtype, shape and strides of the floats in memory: a complex number is a row of two."""
    if dtype not in PARTS:
        return dtype, shape, strides
    return part(dtype), [*shape, 2], [*strides, itemsize(part(dtype))]
