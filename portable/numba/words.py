"""The layer's words, pk.exp, pk.fma, pk.atomic_add and so on, called by numba's functions as they stand."""

from __future__ import annotations

import functools

from numba.core import types
from numba.core.typing.templates import infer_global

from .. import math, words
from ..compiler.known import WORDS
from ..kernel import Function, from_text
from .functions import Linked, callable_as

_OWN = (*(getattr(math, name) for name in math.NAMES), *(w for w in vars(words).values() if callable(w)))
_NOT_ALONE = (words.static, words.local)  # a constant and an array of a kernel's


def _linked(word, n):
    """How a word with n arguments is linked: as a function that is one call of it."""
    args = ", ".join("abcd"[:n])
    text = [f"def {word.__name__}({args}): return word({args})\n"]
    function = from_text(
        Function,
        word.__name__,
        __name__,
        f"<pk.{word.__name__}>",
        text,
        1,
        {"word": word},
        (False, True, 1, False),
    )
    return functools.cache(functools.partial(Linked, function))


for _word in _OWN:
    if (
        _word in WORDS
        and _word not in _NOT_ALONE
        and not isinstance(_word, type)
        and _word.__module__ != "numpy"
    ):
        infer_global(
            _word, types.Function(callable_as(_word, functools.cache(functools.partial(_linked, _word))))
        )
