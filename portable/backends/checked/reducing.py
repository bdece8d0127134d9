"""The steps of a reducer as functions of numbers, made from their typed trees."""

from __future__ import annotations

import functools
import itertools

from ...compiler.team import widened
from ...compiler.tree import Operation, arrangement, arranged, flat
from ...compiler.types import VARYING, UNIFORM
from ...compiler.typing import typed
from ...errors import LanguageError
from .arithmetic import UNWATCHED, number
from .code import Code

NUMBER = "int", UNIFORM, 0, False


def _known(like, dtypes):
    """What `typed` has to know of numbers of these dtypes, arranged so."""
    given = iter([("number", dtype, VARYING, 0, False) for dtype in dtypes])
    return _tuples(arranged(like, given), like)


def _tuples(values, like):
    return values if like is None else ("tuple", *(_tuples(v, part) for v, part in zip(values, like)))


def _state(n):
    return None if n == 1 else (None,) * n


def _code(text, known, float_dtype, kernel_name, to=None):
    return Code(typed(text, known, 1, 1, float_dtype, kernel_name), float_dtype, kernel_name, to)


def combining(reducer, dtypes, float_dtype, kernel_name):
    """The function of two states, one number after the other, that gives their combination."""
    return _combining(reducer, tuple(dtypes), float_dtype, kernel_name)


@functools.lru_cache(maxsize=1024)
def _combining(reducer, dtypes, float_dtype, kernel_name):
    known = _known(_state(len(dtypes)), dtypes)
    tree = typed(reducer.combine.portable_text, (known, known), 1, 1, float_dtype, kernel_name)
    result = flat(tree.result)
    if len(result) != len(dtypes) or not all(isinstance(v, Operation) for v in result):
        raise LanguageError(f"{reducer!r}: combine ({reducer.combine.place}) must return a state of {len(dtypes)} number(s)")
    return functools.partial(Code(tree, float_dtype, kernel_name, dtypes).function, UNWATCHED)


class Folding:
    """A reducer for contributions like `value`, a number or tuple of the kernel's tree.

    Attributes
    ----------
    n : how many numbers a contribution is
    dtypes : those of the state's numbers
    """

    def __init__(self, entry, reducer, value):
        strong, options, like = entry.lower.strong, (entry.signature.float_dtype, entry.kernel.name), arrangement(value)
        self.reducer, dtypes = reducer, [v.dtype for v in flat(value)]
        self.n, self.lift, self.finish = len(dtypes), None, None
        if reducer.lift is not None:
            known = (_known(like, dtypes), ("number", *NUMBER))[:1 + reducer.with_index]
            self.lift = _code(reducer.lift.portable_text, known, *options)
            dtypes = [v.dtype for v in flat(self.lift.tree.result)]
        self.dtypes = [strong(widened(dtype)) for dtype in dtypes]
        self.combine = combining(reducer, self.dtypes, *options)
        self.identity = entry.identity(reducer, [Operation("input", dtype=dtype) for dtype in self.dtypes])
        if reducer.finish is not None:
            self.finish = _code(reducer.finish.portable_text, (_known(_state(len(self.dtypes)), self.dtypes),), *options)

    def state(self, values, index):
        """The state of one contribution."""
        if self.lift is not None:
            values = self.lift.function(UNWATCHED, *values, *[index][:self.reducer.with_index])
        return tuple(map(number, values, self.dtypes))

    def total(self, states):
        """All states combined; of none the neutral one."""
        total = None
        for state in states:
            total = state if total is None else self.combine(*total, *state)
        return tuple(number(v.const, dtype) for v, dtype in zip(self.identity, self.dtypes)) if total is None else total

    def result(self, state):
        """What a last state gives: a Python number or a tuple of them."""
        like = _state(len(state))
        if self.finish is not None:
            state, like = self.finish.function(UNWATCHED, *state), arrangement(self.finish.tree.result)
        return arranged(like, iter([v.item() if hasattr(v, "item") else v for v in state]))


def foldings(entry, values):
    """A Folding for each reducer of an entry, for its kernel's contributions."""
    return list(map(Folding, itertools.repeat(entry), entry.reducers, values))
