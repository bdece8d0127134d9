"""Run a program by the oracle: indices one after the other, the members of a team in turns between the points
where they synchronize."""

import itertools

import greenlet
import numpy as np

from . import meaning
from .meaning import Refused
from .oracle import Reader
from .types import View


class Member:
    """Handle of the team in one of its members."""

    def __init__(self, rank, size, league_rank, league_size, scratches):
        self.rank, self.size, self.league_rank, self.league_size = (rank, size, league_rank, league_size)
        self.scratches, self.n_scratches = scratches, 0

    def meet(self, word, value):
        """Wait for the team and return the list of the values that its members contributed."""
        return greenlet.getcurrent().parent.switch((word, value))

    def scratch(self, shape, dtype):
        self.n_scratches += 1
        if self.n_scratches > len(self.scratches):
            self.scratches.append(np.zeros(shape, dtype))
        return self.scratches[self.n_scratches - 1]


def run(program, team_size, fused):
    """Run a program in the interpreter.

    Returns
    -------
    arrays : list of ndarray, the array arguments after the launch
    result : the launch's result, or None
    overflow : bool, True if an integer did not fit, which the checked space reports
    fuses : bool, True if the source has a sum with a product
    """
    meaning.Notes.overflow = False
    arrays = [a.copy() if isinstance(a, np.ndarray) else a for a in program.args]
    dtypes = {a.dtype.name for a in arrays if isinstance(a, np.ndarray)}
    own = "float32" if "float32" in dtypes and "float64" not in dtypes else "float64"
    reader = Reader(program.plain or program.text, own, fused)
    with np.errstate(all="ignore"):
        types, values = zip(*(_argument(a, own) for a in arrays)) if arrays else ((), ())
        if program.policy[0] == "team":
            result = _teams(program, reader, types, values, team_size)
        else:
            result = _indices(program, reader, types, values)
    return ([a for a in arrays if isinstance(a, np.ndarray)], result, meaning.Notes.overflow, reader.fuses)


def _argument(arg, own):
    """Return (type, value) of an argument."""
    if isinstance(arg, np.ndarray):
        return View(arg.dtype.name, arg.ndim), arg
    if isinstance(arg, tuple):  # ("static", number)
        arg = arg[1]
    if isinstance(arg, bool):
        return "bool", arg
    if isinstance(arg, int):
        return "int", arg
    if isinstance(arg, float):
        return "float", meaning.FLOATS[own](arg)
    return arg.dtype.name, arg if arg.dtype.kind == "f" else arg.item()


def places(policy):
    """Return the indices of a policy without teams, as tuples."""
    if policy[0] == "range":
        return [(i,) for i in range(policy[1], policy[2])]
    return list(itertools.product(*(range(low, high) for low, high in zip(policy[1], policy[2]))))


def _indices(program, reader, types, values):
    where = places(program.policy)
    n = 1 if program.policy[0] == "range" else len(program.policy[1])
    out = values[-1] if program.launch == "scan" else None
    types, values = (types[:-1], values[:-1]) if program.launch == "scan" else (types, values)
    type_, call = reader.function("kernel", ("int",) * n + types)
    contributions = [call(*index, *values) for index in where]
    if program.launch == "for":
        return None
    if program.launch == "scan":
        return _scan(program, reader, type_, contributions, out)
    return _reduce(program, reader, type_, contributions, [i[0] if n == 1 else i for i in where])


def _reduce(program, reader, type_, contributions, indices):
    names = program.reducers
    several = len(names) > 1
    results = []
    for k, name in enumerate(names):
        reducer = reader.reducer(name, type_[k] if several else type_)
        values = [c[k] for c in contributions] if several else contributions
        numbers = range(len(values)) if indices and isinstance(indices[0], tuple) else indices
        result = reducer.all(values, list(numbers))
        if reducer.located and indices and isinstance(indices[0], tuple):
            *others, place = result if isinstance(result, tuple) else (result,)
            if 0 <= place < len(indices):  # otherwise the index is that of the neutral state
                result = (*others, indices[place]) if others else indices[place]
        results.append(result)
    return tuple(results) if several else results[0]


def _scan(program, reader, type_, contributions, out):
    reducer = reader.reducer(program.reducers[0], type_)
    dtype, begin = out.dtype.name, program.policy[1]
    total = reducer.identity()
    for k, contribution in enumerate(contributions):
        before, total = total, reducer.add(total, contribution)
        prefix = reducer.finished(total if program.inclusive else before)
        out[begin + k] = reader.convert(prefix, reducer.result, dtype)
    return reducer.finished(total)


def _teams(program, reader, types, values, team_size):
    type_, call = reader.function("kernel", ("team",) + types)
    league_size, contributions = program.policy[1], []
    for league_rank in range(league_size):
        scratches = []
        members = [Member(rank, team_size, league_rank, league_size, scratches) for rank in range(team_size)]
        contributions.append(_together([greenlet.greenlet(_quietly(call, m, values)) for m in members]))
    if program.launch == "for":
        return None
    return _reduce(program, reader, type_, contributions, list(range(league_size)))


def _quietly(call, member, values):
    def course():
        with np.errstate(all="ignore"):  # each greenlet has a separate context
            return call(member, *values)

    return course


def _together(members):
    """Run the members of a team from one synchronization to the next; return the result of member 0."""
    replies = [None] * len(members)
    while True:
        asked = [
            member.switch(*([] if reply is None else [reply])) for member, reply in zip(members, replies)
        ]
        if all(member.dead for member in members):
            return asked[0]
        if any(member.dead for member in members) or len({word for word, _ in asked}) > 1:
            raise Refused("members part before they meet")
        replies = [[value for _, value in asked]] * len(members)
