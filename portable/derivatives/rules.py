"""Partial derivatives of operations, in the language of kernels: a row for each, by its name or operator.

A row has an entry for each argument: an expression of the arguments, x or a, b and c, and the result y; a
number if it is constant; None if it is 0, because the argument is an integer or only determines a sign.
Where an operation gives NaN for numbers, so does its row, and all rows derived from it.
"""

import math

from ..core.language import words
from ..core.language.kernel import function
from ..library.texts.words import digamma


@function
def by_square(a, b):
    """Divide by the square of a number, which need not be a float itself."""
    return a / b / b


# names that expressions use in addition to the arguments
NAMES = {
    **{
        name: getattr(words, name)
        for name in "copysign cos cosh exp hypot ldexp log pow rint sin sinh sqrt where".split()
    },
    "by_square": by_square,
    "digamma": digamma,
    "nan": math.nan,
}
_QUOTIENTS = ("1.0 + 0.0 * y", "-rint((a - y) / b)")  # a remainder subtracts b this number of times

# numbers: log(2), 1 / log(2), 1 / log(10), the slopes of erf and ndtr at 0, 180 / pi and pi / 180
PARTIALS = {
    "+": (1.0, 1.0),
    "-": (1.0, -1.0),
    "*": ("b", "a"),
    "/": ("1.0 / b", "-(y * (1.0 / b))"),
    "%": _QUOTIENTS,
    "negate": (-1.0,),
    "abs": ("where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0 * x))",),
    "fma": ("b", "a", 1.0),
    "copysign": ("copysign(1.0, a) * copysign(1.0, b)", None),
    "exp": ("y",),
    "exp_nonpositive": ("y",),
    "exp2": ("0.6931471805599453 * y",),
    "expm1": ("exp(x)",),
    "log": ("1.0 / where(x < 0.0, nan, x)",),
    "log1p": ("1.0 / where(x < -1.0, nan, 1.0 + x)",),
    "log2": ("1.4426950408889634 / where(x < 0.0, nan, x)",),
    "log10": ("0.43429448190325176 / where(x < 0.0, nan, x)",),
    "sqrt": ("0.5 / y",),
    "rsqrt": ("-0.5 * y / x",),
    "cbrt": ("1.0 / (3.0 * y * y)",),
    "pow": (
        # y / a where b - 1 is rounded to another kind of power of a negative number
        "where(abs(a) + abs(b) == 0.0, 0.0, b * where((a >= 0.0) | (b - 1.0 - b == -1.0) & (y == y),"
        " pow(a, b - 1.0), y / a))",
        "where(a == 0.0, where(b > 1.0, 0.0, where(b > 0.0, -sqrt(a), nan)), log(a) * y)",
    ),
    "hypot": ("a / y", "b / y"),
    "sin": ("cos(x)",),
    "cos": ("-sin(x)",),
    "tan": ("1.0 + y * y",),
    "asin": ("1.0 / sqrt((1.0 - x) * (1.0 + x))",),
    "acos": ("-1.0 / sqrt((1.0 - x) * (1.0 + x))",),
    "atan": ("1.0 / (1.0 + x * x)",),
    "atan2": ("by_square(b, hypot(a, b))", "-by_square(a, hypot(a, b))"),
    "sinh": ("cosh(x)",),
    "cosh": ("sinh(x)",),
    "tanh": ("by_square(1.0, cosh(x))",),
    "asinh": ("1.0 / hypot(1.0, x)",),
    "acosh": ("1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0))",),
    "atanh": ("1.0 / where(abs(x) > 1.0, nan, (1.0 - x) * (1.0 + x))",),
    "fmod": _QUOTIENTS,
    "remainder": _QUOTIENTS,
    "degrees": (57.29577951308232,),
    "radians": (0.017453292519943295,),
    "ldexp": ("ldexp(1.0, b)", None),
    "gamma": ("y * digamma(x)",),
    "lgamma": ("digamma(x)",),
    "erf": ("1.1283791670955126 * exp(-x * x)",),
    "erfc": ("-1.1283791670955126 * exp(-x * x)",),
    "ndtr": ("0.3989422804014327 * exp(-0.5 * x * x)",),
}
# steps: their derivative is 0 but at the jumps
FLAT = {"floor", "ceil", "trunc", "rint", "//", "logb", "whole"}
