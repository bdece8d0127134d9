"""Define the words of kernels beyond Python's syntax, one row each; all lists of words derive from the rows.

A row states the word's meaning in plain Python, its method in the compiler, the equivalent callables of
Python, math and NumPy, its largest error, and its line of documentation. From `ROWS` come pk's names, the
compiler's table `callables.py`, the checked space's functions, the messages about missing words, and
the tables of docs/kernels.md and docs/accuracy.md. Plain Python, and in some places the checked space, runs
these callables unchanged. Casts to a dtype are NumPy's scalar types, so that plain Python and compiled code
agree about the meaning of a cast.
"""

from __future__ import annotations

import builtins as _builtins  # this module's any and all shadow the builtins
import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, Union

import numpy as np

from .annotations import ArrayLike, DTypeLike, Number, Shape
from ...errors import DTypeError, LanguageError

Unary: TypeAlias = Callable[[Number], float]
Binary: TypeAlias = Callable[[Number, Number], float]
Operation = TypeVar("Operation", bound=Callable[..., Any])
Kind = TypeVar("Kind", bound=type)
Value = TypeVar("Value", bound=Union[Number, Callable[..., Any], None])


class Word(NamedTuple):
    """Row of a word of kernels.

    name : pk's name; for a word that pk lacks, Python's
    plain : its meaning in plain Python, for numbers of one dtype
    reads : the method of compiler/calls.py, without `word_`, and its further arguments. They determine the
        type rule, the counted operations and the checks of the checked space:
        ("math", name, n)       the layer's own source name_of in elementary*.py. A float of the dtype common
                                to its n arguments; counts under its name
        ("intrinsic", name, n)  the same, by LLVM's instruction
        ("inline",)             `plain` is kernel source, inlined at the call: its operations count, its
                                asserts are checked
    line : line of documentation
    also : other callables with the same meaning
    ulps : largest error of float32 and float64 in units of the last place, as in docs/accuracy.md; () if
        there is none
    """

    name: str
    plain: object
    reads: tuple
    line: str
    also: tuple = ()
    ulps: tuple = ()


FILES = [__file__]  # files of sources whose operations belong to the place of the call
ROWS: list[Word] = []
NAMES: list[str] = []  # names of pk
MEANT: dict[Any, Word] = {}  # callable -> the row of its meaning


def _enter(row):
    ROWS.append(row)
    MEANT.update(dict.fromkeys((row.plain, *row.also), row))


def row_of_word(value: Any) -> Word | None:
    """Return the row of a callable; None if there is none."""
    return MEANT.get(value) if value.__hash__ is not None else None


def named(fn: Any) -> Any:
    """Return a function that names itself and its arguments where Python or NumPy refuses these."""

    @functools.wraps(fn)
    def called(*args, **given):
        try:
            return fn(*args, **given)
        except (AttributeError, LookupError, OverflowError, TypeError, ValueError) as error:
            raise DTypeError(f"{fn.__name__} of {str(args)[1:-1]:.90}: {error}") from error

    return called


def word(
    *reads: Any, also: tuple[Any, ...] = (), line: str | None = None
) -> Callable[[Operation], Operation]:
    """Return a decorator that adds a row for a function."""

    def enter(fn: Operation) -> Operation:
        says = line or " ".join((fn.__doc__ or "").split("\n\n")[0].split())  # python -OO keeps no docstrings
        called = named(fn) if inspect.isfunction(fn) else fn
        _enter(Word(fn.__name__, fn, reads, says, (called, *also)))
        NAMES.extend([fn.__name__] * (fn.__module__ == __name__))
        return called

    return enter


def python(line: str, of: tuple[Any, ...], *reads: Any) -> None:
    """Add a row for a callable that only Python, or math, has."""
    name = of[0].__name__ if of[0].__module__ == "builtins" else f"{of[0].__module__}.{of[0].__name__}"
    _enter(Word(name, of[0], reads, line, tuple(of[1:])))


def cast(dtype: Kind, line: str, *reads: str) -> Kind:
    _enter(Word(dtype.__name__, dtype, reads or ("cast", dtype.__name__), line))
    NAMES.append(dtype.__name__)
    return dtype


def _scalar(reads, name, plain, line, ulps, also):
    """Add a row for a function of floats; return pk's form of it, which keeps a NumPy scalar's dtype and
    emits no warnings."""
    vectorised = isinstance(plain, np.ufunc)
    n = plain.nin if vectorised else len(inspect.signature(plain).parameters)

    def call(*args):
        with np.errstate(all="ignore"):
            if vectorised:
                return plain(*args)
            kinds = [type(v) for v in args if isinstance(v, np.floating)]
            result = plain(*map(float, args))
            return np.result_type(*kinds).type(result) if kinds else float(result)

    call.__name__, call.__doc__ = name, f"{line[0].upper()}{line[1:]}."
    call = named(call)
    _enter(
        Word(
            name,
            plain if vectorised else call,
            (reads, name, n),
            line,
            (call, plain, *also),
            ulps,
        )
    )
    NAMES.append(name)
    return call


def text(name: str, line: str, *ulps: float, plain: Any = None, also: tuple[Any, ...] = ()) -> Any:
    """Return a word with source in the layer; `plain` unless it is NumPy's function of this name, `also`
    unless its equivalents are the functions of this name in math and NumPy."""
    known = tuple(getattr(m, name) for m in (math, np) if hasattr(m, name))
    return _scalar("math", name, plain or getattr(np, name), line, ulps, also or known)


def llvm(name: str, line: str, also: tuple[Any, ...] = ()) -> Any:
    """Return a word that is an LLVM instruction, correctly rounded."""
    return _scalar("intrinsic", name, getattr(np, name), line, (), also)


# ---- elementary functions
def _remainder(x, y):
    return math.remainder(x, y) if math.isfinite(x) and y or x != x or y != y else math.nan


def _gamma(x, function=math.gamma):
    try:
        return function(x)
    except (OverflowError, ValueError):  # at 0, beyond the largest, and at poles
        return math.nan if x <= -1 else math.copysign(math.inf, x)


exp: Unary = text("exp", "e to the power x, which may be complex", 0.90, 0.92)
exp2: Unary = text("exp2", "2 to the power x", 0.91, 0.88)
expm1: Unary = text("expm1", "exp(x) - 1, without cancellation", 0.92, 0.95)
log: Unary = text("log", "the natural logarithm", 0.77, 0.78)
log1p: Unary = text("log1p", "log(1 + x), without cancellation", 0.88, 0.89)
log2: Unary = text("log2", "the logarithm to base 2", 0.88, 0.85)
log10: Unary = text("log10", "the logarithm to base 10", 0.75, 0.75)
sqrt: Unary = llvm("sqrt", "the square root", also=(math.sqrt,))
rsqrt: Unary = text("rsqrt", "1 / sqrt(x)", 0.5, 0.51, plain=lambda x: 1.0 / np.sqrt(x))
pow: Binary = text(
    "pow",
    "a to the power b, as C99 has it",
    0.94,
    1.00,
    # of a number 0.5 NumPy takes the square root, which is not C99's at -inf
    plain=lambda a, b: np.power(a, [b])[0],
    also=(math.pow, np.power),
)
sin: Unary = text("sin", "the sine", 0.85, 0.90)
cos: Unary = text("cos", "the cosine", 0.85, 0.94)
tan: Unary = text("tan", "the tangent", 0.87, 0.89)
tanh: Unary = text("tanh", "the hyperbolic tangent", 0.77, 0.81)
atan: Unary = text("atan", "the angle of the slope x, from -pi/2 to pi/2", 0.91, 0.86, plain=np.arctan)
atan2: Binary = text(
    "atan2", "the angle of the point (x, y), given y first, from -pi to pi", 0.91, 0.87, plain=np.arctan2
)
asin: Unary = text("asin", "the angle whose sine is x", 0.63, 0.75, plain=np.arcsin)
acos: Unary = text("acos", "the angle whose cosine is x", 0.60, 0.72, plain=np.arccos)
hypot: Binary = text("hypot", "sqrt(x^2 + y^2), without overflow", 0.75, 0.51)
cbrt: Unary = text("cbrt", "the cube root, of negative numbers too", 0.51, 0.51)
sinh: Unary = text("sinh", "the hyperbolic sine", 0.73, 0.72)
cosh: Unary = text("cosh", "the hyperbolic cosine", 0.65, 0.66)
asinh: Unary = text("asinh", "the inverse of sinh", 0.95, 0.92, plain=np.arcsinh)
acosh: Unary = text("acosh", "the inverse of cosh", 0.92, 0.90, plain=np.arccosh)
atanh: Unary = text("atanh", "the inverse of tanh", 0.99, 0.95, plain=np.arctanh)
fmod: Binary = text("fmod", "the remainder of x by y with the sign of x", 0.5, 0.5)
degrees: Unary = text("degrees", "x radians as degrees", 0.70, 0.82)
radians: Unary = text("radians", "x degrees as radians", 0.63, 0.66)
remainder: Binary = text(
    "remainder",
    "x minus the nearest multiple of y, as math.remainder",
    0.5,
    0.5,
    plain=_remainder,
    also=(math.remainder,),
)
ldexp: Binary = text(
    "ldexp",
    "x 2^n, rounded once; n a whole number",
    0.5,
    0.5,
    plain=lambda x, n: np.ldexp(x, int(clip(n, -3e3, 3e3))),
)
logb: Unary = text(
    "logb",
    "the exponent of x as a float, exactly: floor(log2(abs(x)))",
    0.5,
    0.5,
    plain=lambda x: math.frexp(x)[1] - 1.0 if x and math.isfinite(x) else abs(x) or -math.inf,
)
gamma: Unary = text("gamma", "the gamma function", 1.13, 1.13, plain=lambda x: _gamma(x))
erf: Unary = text("erf", "the error function", 1.03, 1.10, plain=math.erf)
erfc: Unary = text("erfc", "1 - erf(x), without cancellation", 1.41, 1.68, plain=math.erfc)
ndtr: Unary = text(
    "ndtr",
    "the standard normal distribution function",
    1.41,
    1.74,
    plain=lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)),
)
lgamma: Unary = text(
    "lgamma",
    "the logarithm of abs(gamma(x))",
    1.49,
    1.49,
    plain=lambda x: math.inf if x <= 0 and x % 1 == 0 else _gamma(x, math.lgamma),
)


@word("math", "exp", 1, True, line="`exp` to 3 ulp, for sums in which such errors do not count")
def fast_exp(x: Number) -> float:
    """exp to three units in the last place: by the device's own instruction in float32 on CUDA, and 0 in
    place of results below the normal numbers. For sums in which such errors do not count; its bits differ
    between machines."""
    return exp(x)


@word(
    "math", "exp_nonpositive", 1, line="`exp` of x <= 0 in less time: the same bits, or 0 near the subnormals"
)
def exp_nonpositive(x: Number) -> float:
    """exp of a number that is not above 0, such as a difference from the largest of many: the bits of `exp`,
    but 0 in place of results below 2^-1021 (2^-125 in float32). Of positive numbers it may be anything."""
    return exp(x)


@word("math", "exp2", 1, True, line="`exp2` to 2 ulp, for x < 1024 (128 in float32)")
def fast_exp2(x: Number) -> float:
    """Return 2^x to 2 ulp, for x < 1024 (128 in float32), with fewer operations than the other powers need;
    see `fast_exp`."""
    return exp2(x)


@word("math", "log", 1, True, line="`log` to about 2 ulp, of positive normal numbers")
def fast_log(x: Number) -> float:
    """log to about two units in the last place, of positive normal numbers; by the device's own instruction
    in float32 on CUDA."""
    return log(x)


def near_rsqrt(x):
    """1 / sqrt(x) to 2^-22.9 of itself in float32, by the machine's own instruction where it has one."""
    return 1.0 / sqrt(x)


_enter(Word("near_rsqrt", near_rsqrt, ("math", "near_rsqrt", 1, True), ""))  # only for the layer's sources


# ---- whole numbers as floats
rint: Unary = llvm("rint", "the nearest whole number, half to even, as a float")
floor: Unary = llvm("floor", "the whole number below, as a float")
ceil: Unary = llvm("ceil", "the whole number above, as a float")
trunc: Unary = llvm("trunc", "the whole number towards zero, as a float")
copysign: Binary = llvm("copysign", "abs(a) with the sign of b", also=(math.copysign,))

# ---- types
float32, float64 = cast(np.float32, "as a float32"), cast(np.float64, "as a float64")
int32, int64 = cast(np.int32, "as an int32"), cast(np.int64, "as an int64")
uint32, uint64 = cast(np.uint32, "as a uint32"), cast(np.uint64, "as a uint64")
complex64 = cast(np.complex64, "as a complex number of two float32", "complex", "float32")
complex128 = cast(np.complex128, "as a complex number of two float64", "complex", "float64")
python("false only for zeros", (bool, np.bool_), "cast", "bool")
python("as a weak float", (float,), "cast", "float")
python("a complex number of its two parts, or of one", (complex,), "complex")
python("the complex conjugate", (np.conjugate,), "conjugate")
python("the integer towards zero", (int, math.trunc), "whole", "trunc")

# ---- Python's own
python("of numbers and strings, in the checked space only", (print,), "looks", "print")
python("the debugger's prompt at one index, in the checked space only", (breakpoint,), "looks", "breakpoint")
python("the nearest integer, half to even", (round,), "whole", "rint")
python("the integer below", (math.floor,), "whole", "floor")
python("the integer above", (math.ceil,), "whole", "ceil")
python("the absolute value, also of a complex number", (abs, math.fabs, np.abs, np.fabs), "abs")
python("Python's: the first, unless a later one is smaller", (min,), "extreme", "<", False)
python("Python's: the first, unless a later one is larger", (max,), "extreme", ">", False)
python("of the elements of a view or a slice, in their order", (sum, np.sum), "total", "sum")
python("the smallest element of a view or a slice; NaN if one is", (np.min,), "total", "min")
python("the largest element of a view or a slice; NaN if one is", (np.max,), "total", "max")
python("`a @ b`, the sum of the products of two rows, of rows and columns", (np.dot,), "dot")
python("`a ** b`", (_builtins.pow,), "pow")
python("of a view's first dimension, or of a tuple", (len,), "len")
python("of a for loop; its step may be a variable", (range,), "range")
python("of a for loop: numbers and the items of a range, view or tuple", (enumerate,), "range")
python("of a for loop: the items of several, up to the shortest", (zip,), "range")


if TYPE_CHECKING:

    def static(value: Value) -> Value:
        """Return a compile-time constant, which is valid wherever a kernel expects a number."""
else:

    @word("static")
    class static:
        """Marks a compile-time constant: `pk.static(14)` as a kernel's argument, or `range(pk.static(P))`
        inside.

        Loops over it unroll, and each value compiles its own code. A callable, such as a `@pk.function` or
        `np.exp`, is a constant without this mark.
        """

        __slots__ = ("value",)

        def __new__(cls, value):
            if value.__class__ is not int:  # most are
                if callable(value) or value is None or isinstance(value, static):
                    return value
                if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
                    raise LanguageError(
                        f"static: expected a number or a function, got {value!r} of type"
                        f" {type(value).__name__}"
                    )
                value = value.item() if isinstance(value, np.generic) else value
            self = object.__new__(cls)
            self.value = value
            return self

        def __reduce__(self):
            return static, (self.value,)

        def __index__(self):
            return self.value

        def __repr__(self):
            return f"static({self.value!r})"


@word("where", also=(np.where,))
def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; both are evaluated."""
    return a if condition else b


@word("extreme", "<", True, also=(np.minimum,))
def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of two; NaN if either is. -0.0 is smaller than 0.0."""
    return a if a < b or a != a or (a == b and math.copysign(1.0, a) < 0.0) else b


@word("extreme", ">", True, also=(np.maximum,))
def maximum(a: Any, b: Any) -> Any:
    """Return the larger of two; NaN if either is. 0.0 is larger than -0.0."""
    return a if a > b or a != a or (a == b and math.copysign(1.0, a) > 0.0) else b


@word("inline", also=(np.clip,))
def clip(x: Any, low: Any, high: Any) -> Any:
    """`x` limited to two bounds."""
    return minimum(maximum(x, low), high)


@word("lanes", "any")
def any(condition: Any) -> bool:  # noqa: A001  (the word of NumPy and of every SIMD language)
    """Return True if the condition holds in any lane that runs together with this one; for a single index:
    itself."""
    return bool(condition)


@word("lanes", "all")
def all(condition: Any) -> bool:  # noqa: A001
    """Return True if the condition holds in every lane that runs together with this one; for a single index:
    itself."""
    return bool(condition)


@word("intrinsic", "fma", 3, also=(math.fma,) if hasattr(math, "fma") else ())
def fma(a: Number, b: Number, c: Number) -> float:
    """a * b + c, rounded once."""
    dtypes = {type(v) for v in (a, b, c) if isinstance(v, np.floating)}
    a, b, c = map(float, (a, b, c))
    if dtypes == {np.float32}:
        return _single(a * b, c)
    if a - a != b - b:  # infinite or NaN
        return np.float64(a * b + c)
    if not math.isfinite(c):  # a * b may overflow
        return np.float64(c)
    (p, x), (q, y), (r, z) = map(float.as_integer_ratio, (a, b, c))
    exact = p * q * z + r * x * y  # in units of 1 / (x * y * z); Python rounds a ratio correctly
    try:
        return np.float64(exact / (x * y * z) if exact else a * b + c)
    except OverflowError:
        return np.float64(a * b * math.inf)


def _single(product, c):
    """Return a sum of float64 rounded once to float32."""
    near = product + c
    back = near - product
    gap = product - (near - back) + (c - back)  # what that rounding lost
    if gap * gap > 0 and np.float64(near).view(np.int64) & 1 == 0:
        # Round to odd before float32, so that the second rounding depends on the side of the exact value.
        near = np.nextafter(near, gap * math.inf)
    with np.errstate(all="ignore"):
        return np.float32(near)


def modulo64(n: int) -> np.uint64:
    """Return a whole number modulo 2^64, as a uint64."""
    try:
        return np.uint64(n % 2**64 if isinstance(n, int) else n)
    except (OverflowError, TypeError, ValueError):
        raise DTypeError(f"seed, stream and draw are integers, got {n!r:.60}") from None


_enter(Word("modulo64", modulo64, ("cast", "uint64"), ""))


@word("inline", also=(math.isnan, np.isnan))
def isnan(x: Number) -> bool:
    """Return True for NaN."""
    return bool(x != x)


@word("inline", also=(math.isinf, np.isinf))
def isinf(x: Number) -> bool:
    """Return True for an infinity of either sign."""
    return bool(abs(x) == math.inf)


@word("inline", also=(math.isfinite, np.isfinite))
def isfinite(x: Number) -> bool:
    """True unless NaN or infinite."""
    return bool(abs(x) < math.inf)


@word("bits")
def bits(x: Any) -> Any:
    """Return the bit pattern of a float: float64 as int64, float32 as int32."""
    return x.view(np.int32) if isinstance(x, np.float32) else np.float64(x).view(np.int64)


@word("from_bits", "float64")
def from_bits64(n: int) -> np.float64:
    """Return the float64 with the bit pattern of an int64."""
    return np.int64(n).view(np.float64)


@word("from_bits", "float32")
def from_bits32(n: int) -> np.float32:
    """Return the float32 with the bit pattern of an int32."""
    return np.int32(n).view(np.float32)


@word("local")
def local(shape: Shape, dtype: DTypeLike) -> Any:
    """Return an array private to one index, of compile-time shape; its content starts undefined."""
    return np.empty(shape, dtype)


ATOMICS: dict[str, Callable[..., Any]] = {}  # (old value, operands) -> new value of an element


def _atomic(
    op: str, combine: Callable[[Any, Any], Any], doc: str
) -> Callable[[ArrayLike, int | tuple[int, ...], Any], Any]:
    ATOMICS[op] = combine

    def operation(view, index, value):
        old = view[index]
        view[index] = combine(old, view.dtype.type(value))
        return old

    operation.__name__ = f"atomic_{op}"
    operation.__doc__ = (
        f"{doc} as one indivisible step; returns the old value. `view[index]`, index an integer or a tuple."
    )
    return word("atomic", op)(operation)


atomic_add = _atomic("add", operator.add, "Add to an element")
atomic_sub = _atomic("sub", operator.sub, "Subtract from an element")
atomic_min = _atomic("min", minimum, "Lower an element to a value")
atomic_max = _atomic("max", maximum, "Raise an element to a value")
atomic_and = _atomic("and", operator.and_, "Bitwise and into an element")
atomic_or = _atomic("or", operator.or_, "Bitwise or into an element")
atomic_xor = _atomic("xor", operator.xor, "Bitwise exclusive or into an element")
atomic_exchange = _atomic("exchange", lambda old, value: value, "Replace an element")


@word("atomic", "cas")
def atomic_cas(view: ArrayLike, index: int | tuple[int, ...], expected: Any, value: Any) -> Any:
    """Replace an element if it equals `expected`, as one indivisible step; returns the old value."""
    old = view[index]
    view[index] = ATOMICS["cas"](old, expected, value)
    return old


ATOMICS["cas"] = lambda old, expected, value: value if old == expected else old
# functions for min and max, by "<" or ">" and whether NaN wins
EXTREMES = {row.reads[1:]: row.plain for row in ROWS if row.reads[0] == "extreme"}
globals()["__all__"] = NAMES  # type checkers, which cannot run the rows, export all names
