"""Evaluate reducers: contributions folded in the order of indices or members. Sums of floats are exact in the
programs drawn here."""

import ast
import functools
import math

from . import meaning
from .meaning import is_float


def state_type(reader, dtype, in_team):
    """Return the dtype in which contributions are combined: 64 bits for integers, but unchanged in a team;
    bools count as int64."""
    dtype = reader.strong(dtype)
    if is_float(dtype) or in_team and dtype != "bool":
        return dtype
    return "uint64" if dtype in ("uint32", "uint64") else "int64"


class BuiltIn:
    """Built-in reducer: pk.Sum, Prod, Min, Max, MinLoc or MaxLoc.

    `result` is the type of the result of `all`; with `located` a contribution in a team is the pair (value,
    index).
    """

    def __init__(self, reader, name, contribution, in_team):
        self.reader, self.name, self.located = reader, name, name.endswith("Loc")
        self.given = contribution[0] if self.located and in_team else contribution
        self.state = state_type(reader, self.given, in_team)
        self.result = (self.state, "int64") if self.located else self.state

    def identity(self):
        number = meaning.FLOATS.get(self.state, int)
        if self.name in ("Sum", "Prod"):
            return number(self.name == "Prod")
        low = self.name.startswith("Max")
        if is_float(self.state):
            return number(-math.inf if low else math.inf)
        return meaning.least(self.state) if low else meaning.most(self.state)

    def all(self, values, indices=None):
        """Combine the values. `indices` are those of a launch; in a team the values of a located reducer are
        pairs."""
        if self.located:
            pairs = list(zip(values, indices)) if indices is not None else values
            return self.first([(self.as_state(v), k) for v, k in pairs])
        return functools.reduce(self.add, values, self.identity())

    def add(self, total, value):
        return self.combine(total, self.as_state(value))

    @staticmethod
    def finished(total):
        return total

    def as_state(self, value):
        return self.reader.convert(value, self.given, self.state)

    def combine(self, a, b):
        if self.name in ("Min", "Max"):
            return meaning.extreme_nan(self.name == "Min", a, b)
        op = "+" if self.name == "Sum" else "*"
        return meaning.floating(op, a, b) if is_float(self.state) else meaning.integer(op, a, b, self.state)

    def first(self, pairs):
        """Return the pair with the best number, NaN before all others; among equals the one with the lowest
        index.
        """
        best = (self.identity(), 2**63 - 1)
        for value, index in pairs:
            nan, best_nan = value != value, best[0] != best[0]
            if nan or best_nan:
                better = nan and (not best_nan or index < best[1])
            elif value == best[0]:
                better = index < best[1]
            else:
                better = value < best[0] if self.name == "MinLoc" else value > best[0]
            best = (value, index) if better else best
        return best


class Written:
    """Reducer defined in the source: `NAME = pk.Reducer("NAME", combine, neutral, lift, finish)`."""

    def __init__(self, reader, name, contribution, in_team):
        _, combine, neutral, *others = reader.reducers[name]
        lift, finish = ([None if ast.unparse(n) == "None" else n.id for n in others] + [None, None])[:2]
        self.reader, self.lift, self.finish = reader, None, None
        self.located = lift is not None and len(reader.functions[lift].args.args) == 2
        lifted = contribution
        if lift is not None:
            types = (
                (contribution[0], "int")
                if self.located and in_team
                else (contribution, "int")
                if self.located
                else (contribution,)
            )
            lifted, self.lift = reader.function(lift, types)
        self.lifted = lifted if isinstance(lifted, tuple) else (lifted,)
        self.single = not isinstance(lifted, tuple)
        self.state = tuple(state_type(reader, d, in_team) for d in self.lifted)
        neutral = ast.literal_eval(neutral)
        neutral = neutral if isinstance(neutral, tuple) else (neutral,)
        self.neutral = tuple(meaning.FLOATS.get(d, int)(v) for v, d in zip(neutral, self.state, strict=True))
        argument = self.state[0] if self.single else self.state
        self.combined, self.combine = reader.function(combine.id, (argument, argument))
        self.result = argument
        if finish is not None:
            self.result, self.finish = reader.function(finish, (argument,))

    def all(self, values, indices=None):
        total = self.neutral
        for k, value in enumerate(values):
            total = self.join(total, self.lifted_state(value, None if indices is None else indices[k]))
        return self.finished(total)

    def identity(self):
        return self.neutral

    def add(self, total, value):
        """Combine a scan's running total with one contribution."""
        return self.join(total, self.lifted_state(value, None))

    def finished(self, total):
        total = total[0] if self.single else total
        return self.finish(total) if self.finish else total

    def lifted_state(self, value, index):
        if self.lift is not None:
            value = (
                self.lift(value, index)
                if self.located and index is not None
                else self.lift(*value)
                if self.located
                else self.lift(value)
            )
        value = (value,) if self.single else value
        return self.reader.fit(value, self.lifted, self.state)

    def join(self, a, b):
        result = self.combine(a[0], b[0]) if self.single else self.combine(a, b)
        result, types = ((result,), (self.combined,)) if self.single else (result, self.combined)
        return self.reader.fit(result, types, self.state)
