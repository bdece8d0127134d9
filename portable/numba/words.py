"""portable's words, pk.exp, pk.fma, pk.atomic_add and so on, called by numba's functions unchanged."""

from functools import cache, partial

import numpy as np
from numba.core import types
from numba.core.typing.templates import infer_global

from ..core.language import words
from ..core.language.kernel import Function, from_text
from .functions import Linked, callable_as

_NOT_ALONE = ("static", "local", "cast", "complex")  # of a kernel's own


def _linked(word, n):
    """Return a word with n arguments as a linked function, which contains a single call."""
    args = ", ".join("abcd"[:n])
    text = [f"def {word.__name__}({args}): return word({args})\n"]
    where = f"<pk.{word.__name__}>"
    options = False, True, 1, False
    function = from_text(Function, word.__name__, __name__, where, text, 1, {"word": word}, options)
    return cache(partial(Linked, function))


_others = {row.plain for row in words.ROWS if row.reads == ("inline",) and type(row.plain) is not Function}
for _word in _others.union(getattr(words, name) for name in words.__all__):
    if not isinstance(_word, np.ufunc) and words.MEANT[_word].reads[0] not in _NOT_ALONE:
        _own = cache(partial(_linked, _word))
        infer_global(_word, types.Function(callable_as(_word, _own)))
