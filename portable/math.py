"""The elementary functions by their names, as plain Python callables.

Kernels may write `math.exp`, `np.exp` or `pk.exp`: compiled, all three are the layer's own (elementary.py), with the same
bits on every machine; in plain Python each is what it always was.
"""

from __future__ import annotations

import math

import numpy as np

NAMES = ("exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "rsqrt", "pow", "sin", "cos", "tan", "tanh", "erf", "erfc",
         "ndtr", "lgamma")


def _quiet(fn):
    def call(*args):
        with np.errstate(all="ignore"):
            return fn(*args)

    call.__name__, call.__doc__ = fn.__name__, f"`{fn.__name__}` of one number, of its own dtype."
    return call


def _keeping(dtype_fn, doc):
    """A function of Python floats that keeps float32 as float32."""

    def call(x):
        result = dtype_fn(float(x))
        return np.float32(result) if isinstance(x, np.float32) else np.float64(result) if isinstance(x, np.float64) else result

    call.__doc__ = doc
    return call


exp, expm1, exp2, log, log1p, log2, log10 = map(_quiet, (np.exp, np.expm1, np.exp2, np.log, np.log1p, np.log2, np.log10))
sqrt, sin, cos, tan, tanh, pow = map(_quiet, (np.sqrt, np.sin, np.cos, np.tan, np.tanh, np.power))  # noqa: A001


def fast_exp(x):
    """exp to three units in the last place: by the device's own instruction in float32 on CUDA, and 0 in place of results
    below the normal numbers. For sums in which such errors do not count; its bits differ between machines."""
    return exp(x)


def fast_exp2(x):
    """2^x as `fast_exp` is exp, for x < 1024 (128 in float32): with log2(e) in the constants of x, the least work there is."""
    return exp2(x)


def fast_log(x):
    """log to about two units in the last place, of positive normal numbers; by the device's own instruction in float32 on CUDA."""
    return log(x)


def rsqrt(x):
    """1 / sqrt(x)."""
    with np.errstate(all="ignore"):
        return type(x)(1) / np.sqrt(x)


def _lgamma(x):
    try:
        return math.lgamma(x)
    except ValueError:  # a pole
        return math.inf


erf = _keeping(math.erf, "The error function.")
erfc = _keeping(math.erfc, "1 - erf(x), without cancellation.")
ndtr = _keeping(lambda x: 0.5 * math.erfc(-x * math.sqrt(0.5)), "The standard normal cumulative distribution function.")
lgamma = _keeping(_lgamma, "The logarithm of |gamma(x)|.")
