"""What a kernel may call, by identity of the object called: the one table that binds names to meanings."""

from __future__ import annotations

import builtins
import functools
import math
import types as python_types

import numpy as np

from .. import frontend
from .. import math as portable_math
from .. import words


class Known:
    """A Python object that a kernel mentions but that has no run-time value: a module, a function, a dtype."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


@functools.cache
def text_of(fn):
    """The text of one of the layer's own functions."""
    return frontend.read(fn, "function")


CASTS = {np.float32: "float32", np.float64: "float64", np.int32: "int32", np.int64: "int64", np.uint32: "uint32",
         np.uint64: "uint64", np.bool_: "bool", builtins.int: "int64", builtins.float: "float64", builtins.bool: "bool"}
ATOMICS = {getattr(words, f"atomic_{op}"): op for op in ("add", "sub", "min", "max", "and", "or", "xor", "exchange", "cas")}


def _table():
    table = {
        builtins.range: ("range",), words.static: ("static",),
        builtins.min: ("extreme", "<", False), builtins.max: ("extreme", ">", False),
        words.minimum: ("extreme", "<", True), words.maximum: ("extreme", ">", True),
        np.minimum: ("extreme", "<", True), np.maximum: ("extreme", ">", True),
        words.where: ("where",), np.where: ("where",), words.clip: ("clip",),
        words.any: ("lanes", "any"), words.all: ("lanes", "all"),
        builtins.abs: ("abs",), math.fabs: ("abs",), np.abs: ("abs",), np.fabs: ("abs",), builtins.len: ("len",),
        np.rint: ("intrinsic", "rint", 1),
        np.floor: ("intrinsic", "floor", 1), math.floor: ("whole", "floor"),
        np.ceil: ("intrinsic", "ceil", 1), math.ceil: ("whole", "ceil"),
        np.trunc: ("intrinsic", "trunc", 1), math.trunc: ("whole", "trunc"),
        words.fma: ("intrinsic", "fma", 3), math.copysign: ("intrinsic", "copysign", 2), np.copysign: ("intrinsic", "copysign", 2),
        words.isnan: ("isnan",), math.isnan: ("isnan",), np.isnan: ("isnan",),
        words.isinf: ("isinf",), math.isinf: ("isinf",), np.isinf: ("isinf",), builtins.pow: ("pow",),
        words.isfinite: ("isfinite",), math.isfinite: ("isfinite",), np.isfinite: ("isfinite",),
        words.bits: ("bits",), words.from_bits64: ("from_bits", "float64"), words.from_bits32: ("from_bits", "float32"),
        words.local: ("local",), words.modulo64: ("cast", "uint64"),
        builtins.int: ("whole", "trunc"), builtins.float: ("cast", "float"), builtins.bool: ("cast", "bool"),
    }
    if hasattr(math, "fma"):
        table[math.fma] = ("intrinsic", "fma", 3)
    table |= {cast: ("cast", dtype) for cast, dtype in CASTS.items() if cast not in (int, float, bool)}
    table |= {word: ("atomic", op) for word, op in ATOMICS.items()}
    table |= {getattr(portable_math, f"fast_{name}"): ("math", name, True) for name in ("exp", "exp2", "log")}
    for name in portable_math.NAMES:
        for module in (portable_math, math, np):
            fn = getattr(module, {"pow": "power"}.get(name, name) if module is np else name, None)
            if fn is not None:
                table[fn] = ("math", name)
    return table


WORDS = _table()


def layers_own(fn):
    """True for the layer's own plain functions (elementary.py, reducer.py), which are inlined without a decorator."""
    return isinstance(fn, python_types.FunctionType) and fn.__module__ in ("portable.elementary", "portable.reducer")


def constant_tuple(value):
    """True for a tuple of numbers, or of such tuples."""
    return all(isinstance(v, (bool, int, float, np.generic, words.static)) or (isinstance(v, tuple) and constant_tuple(v))
               for v in value)
