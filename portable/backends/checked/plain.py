"""What the functions that a kernel calls mean in plain Python, with the layer's weak types and NumPy's error model.

NumPy's scalars already have the types that kernels have: a float32 stays one beside a Python number. Two things are
missing from plain Python. `math.exp` turns a float32 into a Python float, and it raises where a kernel returns an
infinity or NaN. So the functions below replace Python's wherever the kernel refers to them. Operators are in arithmetic.py.
"""
import functools
import math
import types

import numpy as np

from ... import math as real
from ... import words
from ...frontend import scope_of
from .arithmetic import in_common, size


def keep_type(compute):
    """`compute` with a result as strong as its arguments: NumPy's scalars stay, Python's numbers give Python's."""
    @functools.wraps(compute)
    def word(*args):
        strong = [arg.dtype for arg in args if isinstance(arg, (np.generic, np.ndarray))]
        if not strong:
            result = compute(*(float(arg) for arg in args))
            return result.item() if isinstance(result, np.generic) else result
        result = compute(*args)
        return result if isinstance(result, np.generic) else _float_type(strong).type(result)
    return word


def _float_type(dtypes):
    """The dtype of a real function's result; whole numbers give float64, as NumPy has it."""
    dtype = np.result_type(*dtypes)
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


def unmark(value):
    """The number inside a pk.static, also inside tuples; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(unmark(item) for item in value)
    return value.value if isinstance(value, words.static) else value


def _meanings():
    table = {words.static: unmark, **dict.fromkeys((abs, math.fabs, np.abs, np.fabs), size)}
    for name in real.NAMES:
        word = keep_type(getattr(np, name, None) or getattr(real, name))
        for module, spelling in ((real, name), (math, name), (np, {"pow": "power"}.get(name, name))):
            if hasattr(module, spelling):
                table[getattr(module, spelling)] = word
    for name in ("rint", "floor", "ceil", "trunc", "copysign"):      # math.floor gives a whole number: left alone
        table[getattr(words, name)] = table[getattr(np, name)] = keep_type(getattr(np, name))
    table[words.fma] = keep_type(words.fma)
    for choose in (min, max, words.minimum, words.maximum, words.clip):
        table[choose] = _common(choose)
    table[np.minimum], table[np.maximum] = table[words.minimum], table[words.maximum]
    table[words.where] = table[np.where] = _where
    return table


def _where(condition, a, b):
    """`a` where the condition holds, else `b`, in the type that they have in common."""
    a, b = in_common(a, b)
    return a if condition else b


def _common(choose):
    """A word that gives one of its arguments, in the type that they have in common."""
    @functools.wraps(choose)
    def word(*args):
        return choose(*in_common(*args))
    return word


MEANING = _meanings()


class Module:
    """A module or namespace as a kernel sees it: its attributes, through `meaning`."""

    def __init__(self, module, meaning):
        self._module, self._meaning = module, meaning

    def __getattr__(self, name):
        value = self._meaning(getattr(self._module, name))
        setattr(self, name, value)                            # the next look-up is a plain one
        return value


def plain(function):
    """The same code, looking its names up through `MEANING`; bound to the globals and closure cells of this moment."""
    return rebind(function, {})


def reducing(reducer):
    """lift, combine and finish of a reducer as plain Python; lift always takes the index too."""
    lift, combine, finish = (step and plain(step.fn) for step in (reducer.lift, reducer.combine, reducer.finish))
    if not reducer.with_index:
        lift_value, lift = lift, lambda value, index: lift_value(value) if lift_value else value
    return lift, combine, finish or (lambda state: state)


def meaning_of(value):
    """What a function of Python or NumPy means in a kernel; anything else is itself."""
    try:
        return MEANING.get(value, value)
    except TypeError:                                         # not hashable: a list or an array, never a word
        return value


def rebind(function, seen):
    """A copy of a function with its names, and those of the functions it calls, looked up through `MEANING`."""
    if function in seen:
        return seen[function]
    code, scope = function.__code__, {"__builtins__": __builtins__}
    cells = tuple(types.CellType() for _ in code.co_freevars)
    copy = seen[function] = types.FunctionType(code, scope, function.__name__, None, cells or None)

    def meaning(value):
        if isinstance(value, types.ModuleType):
            return Module(value, meaning)
        inner = getattr(value, "fn", None)                    # a @pk.function or @pk.kernel called by the kernel
        return rebind(inner, seen) if isinstance(inner, types.FunctionType) else meaning_of(value)

    outside = scope_of(function)
    scope.update((name, meaning(value)) for name, value in outside.items() if name in function.__globals__)
    for name, cell in zip(code.co_freevars, cells):
        cell.cell_contents = meaning(outside[name])
    return copy
