"""What a kernel may call, by identity of the object called."""

from __future__ import annotations

import functools
import types as python_types

import numpy as np

from ...texts import elementary, elementary_c99, elementary_gamma
from ...language import frontend, words


@functools.cache
def text_of(fn):
    """The text of one of the layer's own functions."""
    return frontend.read(fn, "function")


DTYPES = {fn: row.reads[1] for fn, row in words.MEANT.items() if row.reads[0] == "cast"}
DTYPES |= {int: "int64", complex: "complex128"}


_TEXTS = {**vars(elementary), **vars(elementary_c99), **vars(elementary_gamma)}
_TEXTS_32 = elementary.narrowed(_TEXTS)


def texts(name, fast=False):
    """The layer's own texts of a word, for float32 and float64; its fast ones if they are wanted and
    there."""
    for form in (f"fast_{name}_of",) * fast + (f"{name}_of",):
        if form in _TEXTS:
            return _TEXTS_32[form], _TEXTS[form]


def layers_own(fn):
    """True for the layer's own plain functions (elementary.py, reducer.py), which are inlined without a
    decorator."""
    return isinstance(fn, python_types.FunctionType) and fn.__module__.startswith(
        ("portable.core.texts.elementary", "portable.core.language.reducer", "portable.core.machines.cpu")
    )


def constant_tuple(value):
    """True for a tuple of numbers, or of such tuples."""
    return all(
        isinstance(v, (bool, int, float, complex, np.generic, words.static))
        or (isinstance(v, tuple) and constant_tuple(v))
        for v in value
    )
