"""Compute derivatives of plain Python sources by differences in 60 digits, independently of the layer."""

import types

import mpmath
import numpy as np

import portable as pk

DIGITS, STEP = 60, mpmath.mpf(10) ** -20
M = mpmath.mp


def _extreme(better):
    def choose(*values):
        best = values[0]
        for v in values[1:]:
            best = v if better(v, best) else best
        return best

    return choose


def _atomic(sign):
    def change(view, index, value):
        view[index] += sign * value

    return change


WORDS = {
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: M.log(x, 2),
    "rsqrt": lambda x: 1 / M.sqrt(x) if x > 0 else M.inf,
    "sqrt": lambda x: M.sqrt(x) if x >= 0 else M.nan,
    "pow": lambda a, b: M.mpf(a) ** b,
    "fma": lambda a, b, c: a * b + c,
    "copysign": lambda a, b: abs(a) if b >= 0 else -abs(a),
    "fmod": lambda a, b: a - b * int(a / b),
    "remainder": lambda a, b: a - b * M.nint(a / b),
    "ldexp": lambda a, n: a * mpmath.mpf(2) ** n,
    "ndtr": lambda x: M.erfc(-x / M.sqrt(2)) / 2,
    "lgamma": lambda x: M.re(M.loggamma(x)),
    "cbrt": lambda x: M.sign(x) * M.cbrt(abs(x)),
    "floor": lambda x: mpmath.mpf(int(M.floor(x))),
    "where": lambda c, a, b: a if c else b,
    "minimum": _extreme(lambda a, b: a < b),
    "maximum": _extreme(lambda a, b: a > b),
    "clip": lambda x, low, high: min(max(x, mpmath.mpf(low)), mpmath.mpf(high)),
    "local": lambda shape, dtype: np.full(shape, mpmath.mpf(0), object),
    "atomic_add": _atomic(1),
    "atomic_sub": _atomic(-1),
    "float64": mpmath.mpf,
    **{name: getattr(M, name) for name in "exp log sin cos tan sinh cosh tanh asin acos atan atan2".split()},
    **{name: getattr(M, name) for name in "asinh acosh atanh hypot erf erfc log10 log1p expm1".split()},
    **{name: getattr(M, name) for name in "degrees radians gamma digamma isfinite".split()},
}


class _Module:
    """Replacement for pk and np, with words for numbers of 60 digits."""

    def __init__(self, words):
        self.words = words

    def __getattr__(self, name):
        return self.words[name] if name in self.words else getattr(pk, name)


def plain(function, words=WORDS):
    """Return a @pk.function as Python on mpmath's numbers, or others with such words."""
    fn, module = function.fn, _Module(words)
    numbers = {"float": words["float64"], "complex": mpmath.mpc}
    scope = fn.__globals__ | {"pk": module, "np": module, "math": module} | numbers
    for name in fn.__code__.co_names:
        value = fn.__globals__.get(name)
        if isinstance(value, pk.Function):
            scope[name] = derivatives(value) if value.change else plain(value, words)
        elif isinstance(value, np.ndarray):
            scope[name] = np.array([mpmath.mpf(v) for v in value.tolist()], object)
    made = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__)
    return made


def derivatives(function):
    """Return (value, derivatives) of a derived function."""
    inner = plain(pk.function(function.fn))
    names = list(function.params)
    places = [names.index(path) for path in function.change.paths]
    return lambda *args: (inner(*args), *(slope(inner, args, k) for k in places))


def slope(function, args, k):
    """Return the derivative by the k-th argument."""
    up, down = ([*args[:k], args[k] + s, *args[k + 1 :]] for s in (STEP, -STEP))
    return (function(*up) - function(*down)) / (2 * STEP)


def value_and_slopes(function, *args):
    """Return the value of a @pk.function, and its derivatives by each float."""
    with mpmath.workdps(DIGITS):
        run, numbers = plain(function), [mpmath.mpf(a) for a in args]
        return [run(*numbers), *(slope(run, numbers, k) for k in range(len(numbers)))]
