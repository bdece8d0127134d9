"""Reducers: how contributions become one value.

A reducer is an identity and a `combine`, both plain kernel text: the compiler inlines `combine`, the checked space calls
it. A state of one scalar is passed as that scalar, a state of several as a tuple.
"""

from __future__ import annotations

from .words import where


class Reducer:
    """An associative way to combine contributions.

    Parameters
    ----------
    name : str
    combine : function of two states that returns a state
        Written as kernel text; states are scalars, or tuples where `identity` gives a tuple.
    identity : function of a dtype name that returns the neutral state (Python numbers)
    with_index : bool
        The contribution is joined by the policy's index, and the state is (value, index).
    """

    __slots__ = ("name", "combine", "identity", "with_index")

    def __init__(self, name, combine, identity, with_index=False):
        self.name, self.combine, self.identity, self.with_index = name, combine, identity, with_index

    def __repr__(self):
        return f"pk.{self.name}"


def _limits(dtype):
    """Smallest and largest value of a dtype, infinities for floats."""
    if dtype.startswith("float"):
        return -float("inf"), float("inf")
    if dtype == "bool":
        return 0, 1
    bits = 32 if dtype.endswith("32") else 64
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_LAST = 2**63 - 1  # the index of a location reducer's identity: later than every real index


def _sum(a, b):
    return a + b


def _prod(a, b):
    return a * b


def _min(a, b):  # NaN wins, as in NumPy; `x != x` is NaN's mark and false for integers
    return where((a < b) | (a != a), a, b)


def _max(a, b):
    return where((a > b) | (a != a), a, b)


def _first(wins, a, b):
    """The state that wins; between equals (two NaN too) the lower index."""
    tie = (a[0] == b[0]) | ((a[0] != a[0]) & (b[0] != b[0]))
    take = where(tie, a[1] <= b[1], wins)
    return where(take, a[0], b[0]), where(take, a[1], b[1])


def _minloc(a, b):
    return _first((a[0] < b[0]) | (a[0] != a[0]), a, b)


def _maxloc(a, b):
    return _first((a[0] > b[0]) | (a[0] != a[0]), a, b)


Sum = Reducer("Sum", _sum, lambda dtype: 0)
Prod = Reducer("Prod", _prod, lambda dtype: 1)
Min = Reducer("Min", _min, lambda dtype: _limits(dtype)[1])
Max = Reducer("Max", _max, lambda dtype: _limits(dtype)[0])
MinLoc = Reducer("MinLoc", _minloc, lambda dtype: (_limits(dtype)[1], _LAST), with_index=True)
MaxLoc = Reducer("MaxLoc", _maxloc, lambda dtype: (_limits(dtype)[0], _LAST), with_index=True)
