"""List the functions and classes that a kernel may call, by identity."""

import functools
import types as python_types

import numpy as np

from ...texts import elementary
from ... import registry
from ...language import frontend, words


@functools.cache
def text_of(fn):
    """Return the Text of one of the layer's own functions."""
    return frontend.read(fn, "function")


CASTS = {fn: row.reads[1] for fn, row in words.MEANT.items() if row.reads[0] == "cast"}
CASTS |= {int: "int64", complex: "complex128"}


def texts(name, fast=False):
    """Return the layer's own functions of a word for float32 and float64; with `fast`, the fast ones if they
    exist."""
    form, module = f"{name}_of", elementary
    if fast or form not in elementary.TEXTS:
        module = registry.part("special functions")
        form = f"fast_{form}" if fast and f"fast_{form}" in module.TEXTS else form
    return module.TEXTS_32[form], module.TEXTS[form]


def layers_own(fn):
    """Return True for the layer's own plain functions (elementary.py, reducer.py), which are inlined
    without a decorator."""
    return isinstance(fn, python_types.FunctionType) and (fn.__module__ or "").startswith(
        (*elementary.OWN, "portable.core.language.reducer", "portable.core.machines.cpu")
    )


def constant_tuple(value):
    """Return True if all items are numbers, or tuples of such items."""
    return all(
        isinstance(v, (bool, int, float, complex, np.generic, words.static))
        or (isinstance(v, tuple) and constant_tuple(v))
        for v in value
    )
