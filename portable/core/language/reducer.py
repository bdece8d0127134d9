"""Define reducers, which combine contributions into one value.

A contribution is lifted to a state, states are combined, and the last state is finished into the result:

    result = finish(combine(combine(lift(c0), lift(c1)), lift(c2)) ...)

All of these functions are plain kernel source, which the compiler inlines. A sum has nothing to lift or
finish: contribution, state and result are one number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias, Union

from ...errors import DTypeError
from .annotations import Number
from .kernel import Function
from .types import bounds
from .words import exp, fma, log, maximum, where


class Reducer:
    """Associative rule that combines contributions.

    Create a reducer once, not at each launch: kernels are compiled for it.

    Parameters
    ----------
    name : str
    combine : function of two states that returns a state
        Kernel source. A state is a number or a tuple of numbers.
    identity : number, tuple of numbers, or function of a dtype's name that returns one
        The neutral state, which also fixes how many numbers a state has. The function's argument is the
        dtype of the state's first number.
    lift : function (contribution) -> state, or (contribution, index) -> state; optional
        By default the contribution is the state. Contribution and state may be tuples. `index` is the index
        of the policy: the league rank of a team, or the row-major index in a box.
    finish : function (state) -> result, a number or a tuple; optional
        By default the last state is the result. If `lift` takes an index, the result's last number is an
        index too; over a box the caller receives it as a tuple.
    commutes : bool
        If False, contributions are combined in the order of indices (ranks in a team), which takes longer.
        Scans always use this order.

    Raises
    ------
    LanguageError, DTypeError
        A function is no kernel source; `identity` is neither numbers nor a function.

    Examples
    --------
    >>> @pk.kernel
    ... def value(i, x):
    ...     return x[i]
    >>> def longer(a, b):
    ...     return pk.where(abs(a) >= abs(b), a, b)
    >>> Farthest = pk.Reducer("Farthest", longer, 0.0)
    >>> float(pk.parallel_reduce(3, value, np.array([1.0, -4.0, 3.0]), reducer=Farthest))
    -4.0
    """

    __slots__ = "_given name combine identity lift finish with_index n_words commutes".split()

    def __init__(
        self,
        name: str,
        combine: Callable[..., Any],
        identity: Any,
        lift: Callable[..., Any] | None = None,
        finish: Callable[..., Any] | None = None,
        commutes: bool = True,
    ):
        self.name, self.combine, self.commutes = name, _text(combine), commutes
        self.lift, self.finish = _text(lift), _text(finish)
        # arguments for pickling
        self._given = name, self.combine, identity, self.lift, self.finish, commutes
        self.identity = identity if inspect.isfunction(identity) else lambda dtype: identity
        self.with_index = lift is not None and self.lift.fn.__code__.co_argcount == 2
        numbers = self.neutral("float64")
        self.n_words = len(numbers)
        for number in numbers:
            if not isinstance(number, Real):
                raise DTypeError(f"{name}: identity is {number!r:.60}; expected numbers")

    def neutral(self, dtype: str) -> tuple[Number, ...]:
        """Return the numbers of the identity.

        Parameters
        ----------
        dtype : str, the name of the dtype of a state's first number

        Returns
        -------
        tuple of numbers, one for each number of the state
        """
        numbers = self.identity(dtype)
        return numbers if isinstance(numbers, tuple) else (numbers,)

    def __reduce__(self):
        return self.name if globals().get(self.name) is self else (Reducer, self._given)

    def __repr__(self):
        return f"pk.{self.name}"


Reducers: TypeAlias = Union[Reducer, tuple[Reducer, ...]]


def _text(fn):
    return fn if fn is None or isinstance(fn, Function) else Function(fn)


def _limits(dtype):
    """Return the smallest and the largest value of a dtype; infinities for floats."""
    if dtype.startswith("float"):
        return -float("inf"), float("inf")
    return (0, 1) if dtype == "bool" else bounds(dtype)


_LAST = 2**63 - 1  # index of a location reducer's identity: above every real index


def _sum(a, b):
    return a + b


def _prod(a, b):
    return a * b


def _min(a, b):  # NaN wins, as in NumPy; `x != x` is true only for NaN, and false for integers
    return where((a < b) | (a != a), a, b)


def _max(a, b):
    return where((a > b) | (a != a), a, b)


def _with_index(value, index):
    return value, index


def _first(before, after, a, b):
    """Return the state that comes first; `before` and `after` state whether a's number precedes or follows
    b's. NaN precedes all numbers, and ties (also of two NaN) go to the lower index."""
    nan, number, lower = a[0] != a[0], b[0] == b[0], a[1] <= b[1]
    take = before | where(after, False, (nan & number) | (lower & (nan | number)))
    return where(take, a[0], b[0]), where(take, a[1], b[1])


def _minloc(a, b):
    return _first(a[0] < b[0], b[0] < a[0], a, b)


def _maxloc(a, b):
    return _first(a[0] > b[0], b[0] > a[0], a, b)


def _exponent(v):
    v = v * 1.0  # a float
    return v, where(True, 1.0, v)


def _log_add(a, b):
    """Return exp(a[0]) a[1] + exp(b[0]) b[1] as (the larger exponent, the sum scaled by it). Equal exponents
    may be infinite."""
    small = exp(where(a[0] == b[0], 0.0, -abs(a[0] - b[0])))
    return maximum(a[0], b[0]), where(a[0] >= b[0], fma(b[1], small, a[1]), fma(a[1], small, b[1]))


def _log_of_sum(state):
    return state[0] + log(state[1])


Sum = Reducer("Sum", _sum, 0)
Prod = Reducer("Prod", _prod, 1)
Min = Reducer("Min", _min, lambda dtype: _limits(dtype)[1])
Max = Reducer("Max", _max, lambda dtype: _limits(dtype)[0])
MinLoc = Reducer("MinLoc", _minloc, lambda dtype: (_limits(dtype)[1], _LAST), _with_index)
MaxLoc = Reducer("MaxLoc", _maxloc, lambda dtype: (_limits(dtype)[0], _LAST), _with_index)
LogSumExp = Reducer("LogSumExp", _log_add, (-float("inf"), 0.0), _exponent, _log_of_sum)
