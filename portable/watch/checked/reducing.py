"""The steps of a reducer as functions of numbers, made from their typed trees."""

import functools
import math

import numpy as np

from ...core.compiler.reading.tree import arranged, arrangement, flat
from ...core.language.types import VARYING, Complex, converted, is_float
from ...core.compiler.reading.typing import typed
from ...errors import LanguageError
from .arithmetic import UNWATCHED, number
from .code import Code


def _step(text, like, dtypes, float_dtype, kernel_name, to=None):
    """Return the Python function of a source, for numbers of these dtypes that are arranged `like` its
    parameters; and the arrangement of its result.
    """
    numbers = iter([("number", dtype, VARYING, 0, False) for dtype in dtypes])
    tree = typed(text, tuple(_known_value(part, numbers) for part in like), 1, 1, float_dtype, kernel_name)
    code = Code(tree, float_dtype, kernel_name, combining, to)
    return functools.partial(code.function, UNWATCHED), arrangement(tree.result)


def _known_value(like, numbers):
    if like is None:
        return next(numbers)
    return "tuple", getattr(like, "names", ()), *(_known_value(part, numbers) for part in like)


def _state(dtypes):
    """Return the layout of a state: a number, or a tuple of several."""
    return None if len(dtypes) == 1 else (None,) * len(dtypes)


@functools.lru_cache(maxsize=1024)
def combining(reducer, dtypes, float_dtype, kernel_name):
    """Return the function of two states, one number after the other, that returns their combination."""
    combine, like = _step(
        reducer.combine.portable_text, (_state(dtypes),) * 2, dtypes * 2, float_dtype, kernel_name, dtypes
    )
    if len(flat(like)) != len(dtypes):
        raise LanguageError(
            f"{reducer!r}: combine ({reducer.combine.place}) must return a state of {len(dtypes)} number(s)"
        )
    return combine


class Folding:
    """A reducer for an entry's contributions like `value`; `n`: how many numbers they are, `dtypes`: those of
    a state's numbers."""

    def __init__(self, entry, reducer, value, state):
        options, given = (entry.signature.float_dtype, entry.kernel.name), [v.dtype for v in flat(value)]
        self.reducer, self.n, self.dtypes = reducer, len(given), tuple(v.dtype for v in state)
        self.lift = self.finish = None
        if reducer.lift is not None:
            self.lift, _ = _step(
                reducer.lift.portable_text,
                (arrangement(value), None)[: 1 + reducer.with_index],
                [*given, "int"],
                *options,
            )
        self.combine = combining(reducer, self.dtypes, *options)
        with np.errstate(all="ignore"):  # a number beyond float32 is infinite there
            self.neutral = tuple(
                number(converted(n, v.dtype), v.dtype) for n, v in zip(entry.neutral(reducer, state), state)
            )
        self.like = _state(self.dtypes)
        if reducer.finish is not None:
            self.finish, self.like = _step(reducer.finish.portable_text, (self.like,), self.dtypes, *options)

    def state(self, values, index):
        """Return the state of one contribution."""
        if self.lift is not None:
            values = self.lift(*values, *[index][: self.reducer.with_index])
        return tuple(map(number, values, self.dtypes))

    def total(self, states):
        """Return all states combined, starting from the neutral one."""
        return functools.reduce(lambda a, b: self.combine(*a, *b), states, self.neutral)

    def broken_laws(self, states, in_order):
        """Yield (kind of finding, message) for violations of the reducer's laws by neighbouring states:
        combinations that differ by more than rounding.
        """
        with np.errstate(all="ignore"):
            states = [self.combine(*self.neutral, *s) for s in states]
            for a, b, c in zip(states, states[1:], states[2:]):
                ab, bc = self.combine(*a, *b), self.combine(*b, *c)
                given = f"for a = {_as_text(a)}, b = {_as_text(b)}"
                one, other = self.combine(*ab, *c), self.combine(*a, *bc)
                if self._differ((a, b, c), one, other):
                    yield (
                        "not associative",
                        (
                            f"combine(combine(a, b), c) is {_as_text(one)}, but combine(a, combine(b, c)) is"
                            f" {_as_text(other)}, {given}, c = {_as_text(c)}"
                        ),
                    )
                ba = self.combine(*b, *a)
                if self.reducer.commutes and not in_order and self._differ((a, b), ab, ba):
                    yield (
                        "does not commute",
                        (
                            f"combine(a, b) is {_as_text(ab)}, but combine(b, a) is {_as_text(ba)}, {given}: "
                            "pass commutes=False if intended"
                        ),
                    )

    def _differ(self, states, one, other):
        numbers = [abs(float(v)) for state in (*states, one, other) for v in state]
        room = max(numbers) * (1e-3 if "float32" in self.dtypes else 1e-8)
        return all(map(math.isfinite, numbers)) and any(
            abs(float(x) - float(y)) > (room if is_float(d) else 0)
            for x, y, d in zip(one, other, self.dtypes)
        )

    def finished(self, state):
        """Return the numbers of a state's result."""
        return self.finish(*state) if self.finish is not None else state

    def result(self, state):
        """Return the result of the last state: a Python number or a tuple of them."""
        numbers = (v.item() if hasattr(v, "item") else v for v in self.finished(state))
        return complex(*numbers) if isinstance(self.like, Complex) else arranged(self.like, numbers)


def _as_text(state):
    numbers = ", ".join(map(str, state))
    return numbers if len(state) == 1 else f"({numbers})"
