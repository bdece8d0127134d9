"""Partial derivatives of operations, in the language of kernels: a row for each, by its name or operator.

A row has an entry for each argument: a function of the arguments and the result; a number where it is the
same everywhere; None where it is 0, as the argument is meant to be a whole number or to give a sign.
"""

from __future__ import annotations

import math

from ..core.language.words import copysign, cos, cosh, exp, hypot, ldexp, log, pow  # noqa: A004
from ..library.texts.words import digamma
from ..core.language.words import rint, sin, sinh, sqrt, where

LOG_2, LOG_10, HALF_OF_ROOT = math.log(2.0), math.log(10.0), 2.0 / math.sqrt(math.pi)
OF_NORMAL = 1.0 / math.sqrt(2.0 * math.pi)


def _right(a, b, y):
    return b


def _left(a, b, y):
    return a


def _by(a, b, y):
    return 1.0 / b


def _quotient(a, b, y):
    return -(y * (1.0 / b))


def _multiples(a, b, y):
    """Return the negated number of times that a remainder takes b away."""
    return -rint((a - y) / b)


def _itself(x, y):
    return y


def _abs(x, y):
    return where(x > 0.0, 1.0, where(x < 0.0, -1.0, 0.0 * x))


def _exp(x, y):
    return exp(x)


def _exp2(x, y):
    return LOG_2 * y


def _log(x, y):
    return 1.0 / x


def _log1p(x, y):
    return 1.0 / (1.0 + x)


def _log2(x, y):
    return 1.0 / (LOG_2 * x)


def _log10(x, y):
    return 1.0 / (LOG_10 * x)


def _sqrt(x, y):
    return 0.5 / y


def _rsqrt(x, y):
    return -0.5 * y / x


def _cbrt(x, y):
    return 1.0 / (3.0 * y * y)


def _sin(x, y):
    return cos(x)


def _cos(x, y):
    return -sin(x)


def _tan(x, y):
    return 1.0 + y * y


def _asin(x, y):
    return 1.0 / sqrt((1.0 - x) * (1.0 + x))


def _acos(x, y):
    return -1.0 / sqrt((1.0 - x) * (1.0 + x))


def _atan(x, y):
    return 1.0 / (1.0 + x * x)


def _atan2_y(a, b, y):
    size = hypot(a, b)
    return b / size / size


def _atan2_x(a, b, y):
    size = hypot(a, b)
    return -(a / size / size)


def _sinh(x, y):
    return cosh(x)


def _cosh(x, y):
    return sinh(x)


def _tanh(x, y):
    c = cosh(x)
    return 1.0 / c / c


def _asinh(x, y):
    return 1.0 / hypot(1.0, x)


def _acosh(x, y):
    return 1.0 / sqrt((x - 1.0) * (x + 1.0))


def _atanh(x, y):
    return 1.0 / ((1.0 - x) * (1.0 + x))


def _hypot_x(a, b, y):
    return a / y


def _hypot_y(a, b, y):
    return b / y


def _base(a, b, y):
    return where(b == 0.0, 0.0, b * pow(a, b - 1.0))


def _exponent(a, b, y):
    return where(a == 0.0, where(b > 0.0, 0.0, math.nan), log(a) * y)


def _sign(a, b, y):
    return copysign(1.0, a) * copysign(1.0, b)


def _power_of_two(a, b, y):
    return ldexp(1.0, b)


def _gamma(x, y):
    return y * digamma(x)


def _lgamma(x, y):
    return digamma(x)


def _erf(x, y):
    return HALF_OF_ROOT * exp(-x * x)


def _erfc(x, y):
    return -HALF_OF_ROOT * exp(-x * x)


def _ndtr(x, y):
    return OF_NORMAL * exp(-0.5 * x * x)


def _factor_a(a, b, c, y):
    return b


def _factor_b(a, b, c, y):
    return a


PARTIALS = {
    "+": (1.0, 1.0),
    "-": (1.0, -1.0),
    "*": (_right, _left),
    "/": (_by, _quotient),
    "%": (1.0, _multiples),
    "negate": (-1.0,),
    "abs": (_abs,),
    "fma": (_factor_a, _factor_b, 1.0),
    "copysign": (_sign, None),
    "exp": (_itself,),
    "exp_nonpositive": (_itself,),
    "exp2": (_exp2,),
    "expm1": (_exp,),
    "log": (_log,),
    "log1p": (_log1p,),
    "log2": (_log2,),
    "log10": (_log10,),
    "sqrt": (_sqrt,),
    "rsqrt": (_rsqrt,),
    "cbrt": (_cbrt,),
    "pow": (_base, _exponent),
    "hypot": (_hypot_x, _hypot_y),
    "sin": (_sin,),
    "cos": (_cos,),
    "tan": (_tan,),
    "asin": (_asin,),
    "acos": (_acos,),
    "atan": (_atan,),
    "atan2": (_atan2_y, _atan2_x),
    "sinh": (_sinh,),
    "cosh": (_cosh,),
    "tanh": (_tanh,),
    "asinh": (_asinh,),
    "acosh": (_acosh,),
    "atanh": (_atanh,),
    "fmod": (1.0, _multiples),
    "remainder": (1.0, _multiples),
    "degrees": (180.0 / math.pi,),
    "radians": (math.pi / 180.0,),
    "ldexp": (_power_of_two, None),
    "gamma": (_gamma,),
    "lgamma": (_lgamma,),
    "erf": (_erf,),
    "erfc": (_erfc,),
    "ndtr": (_ndtr,),
}
# steps: their derivative is 0 but at the jumps
FLAT = {"floor", "ceil", "trunc", "rint", "//", "logb", "whole"}
