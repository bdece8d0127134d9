"""Policies: the number and shape of the indices that a launch visits. Immutable data, independent of any
backend.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import DTypeError, InputError
from .place import SpaceLike

_LINE = 64  # a scratch array begins at a multiple of this number of bytes
MOST_BOX = 4  # dimensions of a box
_LARGEST = 2**62  # index arithmetic stays inside int64 with room for a pack beyond the end
_MISSING: Any = None  # an end that is not given, which a message reports


class _Auto:
    """The layer chooses: a pure function of kernel, argument types and device, never of a timing."""

    def __repr__(self):
        return "AUTO"

    def __reduce__(self):
        return "AUTO"


AUTO = _Auto()


def check_index(value, name, least=-_LARGEST):
    """Return `value` as a Python int; anything but an integer in index range, or below `least`, is refused by
    name."""
    if type(value) is not int:
        if isinstance(value, bool) or not hasattr(value.__class__, "__index__") or getattr(value, "ndim", 0):
            more = (value is _MISSING or name == "policy") * (
                "; write n alone, pk.RangePolicy(0, n), pk.MDRangePolicy((0, 0), (n, m)) or pk.TeamPolicy(n)"
            )
            raise DTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}{more}")
        value = operator.index(value)
    if not -_LARGEST <= value <= _LARGEST:
        raise InputError(f"{name} is {value}, beyond the range of indices (2**62)")
    if value < least:
        raise InputError(f"{name} is {value}; expected at least {least}")
    return value


@dataclass(frozen=True, slots=True)
class RangePolicy:
    """Indices begin, begin + 1, ..., end - 1, in any order, each a lane.

    Parameters
    ----------
    begin, end : int
        begin <= end; an empty range runs no index.
    space : str or Space, optional
        Where to run; the default space if not given.
    chunk : int, optional
        Indices that one CPU thread takes at a time; chosen automatically if not given.

    Examples
    --------
    >>> pk.RangePolicy(2, 5, space="serial").end
    5
    """

    begin: int = _MISSING
    end: int = _MISSING
    space: SpaceLike = None
    chunk: int | None = None

    def __post_init__(self):
        begin, end = self.begin, self.end
        if type(begin) is type(end) is int and -_LARGEST <= begin <= end <= _LARGEST and self.chunk is None:
            return  # most are these, one a launch
        begin, end = check_index(begin, "RangePolicy: begin"), check_index(end, "RangePolicy: end")
        if end < begin:
            raise InputError(f"RangePolicy: begin is {begin} and end is {end}; expected begin <= end")
        if self.chunk is not None:
            check_index(self.chunk, "RangePolicy: chunk", 1)
        object.__setattr__(self, "begin", begin)
        object.__setattr__(self, "end", end)


@dataclass(frozen=True, slots=True)
class TeamPolicy:
    """`league_size` teams; the members of a team share scratch, barriers and reductions.

    Parameters
    ----------
    league_size : int
        Number of teams.
    team_size : int or AUTO
        Members of a team: a request. A CPU team has as many members as its pack has lanes; a CUDA team is
        rounded up to whole warps; the checked space uses the number unchanged.
    space : str or Space, optional
    scratch_bytes : int
        Memory for scratch arrays whose shape is known only at run time; see `scratch_bytes`.

    Examples
    --------
    >>> @pk.kernel
    ... def sums(team, a, out):
    ...     total = 0.0
    ...     for j in team.thread_range(a.shape[1]):
    ...         total += a[team.league_rank, j]
    ...     total = team.reduce(total)
    ...     if team.single():
    ...         out[team.league_rank] = total
    >>> out = np.zeros(2)
    >>> pk.parallel_for(pk.TeamPolicy(2), sums, np.ones((2, 50)), out)
    >>> out.tolist()
    [50.0, 50.0]
    """

    league_size: int = _MISSING
    team_size: int | _Auto = AUTO
    space: SpaceLike = None
    scratch_bytes: int = 0

    def __post_init__(self):
        size = 1 if self.team_size is AUTO else self.team_size
        if type(self.league_size) is type(size) is type(self.scratch_bytes) is int and (
            0 <= self.league_size <= _LARGEST and 0 < size <= _LARGEST and 0 <= self.scratch_bytes <= _LARGEST
        ):
            return  # most are these, one a launch
        for name, least in (("league_size", 0), ("team_size", 1), ("scratch_bytes", 0)):
            value = getattr(self, name)
            if value is AUTO and name == "team_size":
                continue
            object.__setattr__(self, name, check_index(value, f"TeamPolicy: {name}", least))


def scratch_bytes(*arrays: tuple) -> int:
    """Compute the bytes of scratch for arrays whose shape is known only at run time: `TeamPolicy(...,
    scratch_bytes=...)`.

    Parameters
    ----------
    arrays : (shape, dtype) pairs
        The arguments of `team.scratch(shape, dtype)`, each array once: an integer or a tuple of integers, and
        a dtype.

    Returns
    -------
    int
        Each array begins at a multiple of 64 bytes.

    Raises
    ------
    DTypeError, InputError
        Naming the array that is no such pair.

    Examples
    --------
    >>> pk.scratch_bytes((50, pk.float64), ((3, 4), pk.int32))
    512
    """
    total = 0
    for k, array in enumerate(arrays):
        if not isinstance(array, (tuple, list)) or len(array) != 2:
            raise DTypeError(
                f"scratch_bytes: arrays[{k}] is {array!r}; expected a pair of a shape and a dtype"
            )
        shape, dtype = array
        shape = shape if isinstance(shape, (tuple, list)) else (shape,)
        lengths = [check_index(n, f"scratch_bytes: the shape of arrays[{k}]", 0) for n in shape]
        try:
            each = np.dtype(dtype).itemsize
        except TypeError as error:
            raise DTypeError(
                f"scratch_bytes: the dtype of arrays[{k}] is {dtype!r}; expected a NumPy dtype"
            ) from error
        total += -(-math.prod(lengths) * each // _LINE) * _LINE
    return check_index(total, "scratch_bytes: the sum")


def _plain_extents(begin, end):
    """Return the extents of a box with tuples of plain integers as bounds, as most have; else None."""
    if type(begin) is type(end) is tuple and {*map(type, begin), *map(type, end)} == {int}:
        extents = tuple(map(operator.sub, end, begin))
        if len(begin) == len(end) and 2 <= len(end) <= MOST_BOX and min(extents) >= 0:
            if -_LARGEST <= min(begin) and max(*end, math.prod(extents)) <= _LARGEST:
                return extents
    return None


@dataclass(frozen=True, slots=True)
class MDRangePolicy:
    """Indices (i, j), (i, j, k) or (i, j, k, l) of a box; the last varies fastest, and its neighbours are
    lanes.

    Parameters
    ----------
    begin, end : tuples of 2 to 4 int
        begin <= end in each dimension.
    space : str or Space, optional

    Attributes
    ----------
    extents : tuple of int
        Number of indices in each dimension.

    Examples
    --------
    >>> @pk.kernel
    ... def table(i, j, out):
    ...     out[i, j] = 10 * i + j
    >>> out = np.zeros((2, 3), np.int64)
    >>> pk.parallel_for(pk.MDRangePolicy((0, 0), (2, 3)), table, out)
    >>> out.tolist()
    [[0, 1, 2], [10, 11, 12]]
    """

    begin: tuple[int, ...] = _MISSING
    end: tuple[int, ...] = _MISSING
    space: SpaceLike = None
    extents: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        if (extents := _plain_extents(self.begin, self.end)) is not None:
            object.__setattr__(self, "extents", extents)
            return
        for name in ("begin", "end"):
            value = getattr(self, name)
            if not isinstance(value, (tuple, list)) or not 2 <= len(value) <= MOST_BOX:
                raise InputError(
                    f"MDRangePolicy: {name} is {value!r}; expected a tuple of 2 to {MOST_BOX} integers, as in"
                    " pk.MDRangePolicy((0, 0), (n, m))"
                )
            object.__setattr__(
                self, name, tuple(check_index(v, f"MDRangePolicy: {name}[{k}]") for k, v in enumerate(value))
            )
        if len(self.begin) != len(self.end):
            raise InputError(
                f"MDRangePolicy: begin has {len(self.begin)} dimensions and end has {len(self.end)}"
            )
        for k, (low, high) in enumerate(zip(self.begin, self.end)):
            if high < low:
                raise InputError(
                    f"MDRangePolicy: begin[{k}] is {low} and end[{k}] is {high}; expected begin <= end"
                )
        object.__setattr__(self, "extents", tuple(map(operator.sub, self.end, self.begin)))
        check_index(
            math.prod(self.extents),
            f"MDRangePolicy: the number of indices between {self.begin} and {self.end}",
        )


# How the compiler names a policy's kind, and how many indices its kernels take.
KINDS = {RangePolicy: "range", TeamPolicy: "team", MDRangePolicy: "box"}
_BOXES = [f"box{n}" for n in range(MOST_BOX + 1)]


def kind_of(policy):
    """Return the kind of a policy: "range", "team", or "box2" to "box4"."""
    kind = KINDS[policy.__class__]
    return _BOXES[len(policy.begin)] if kind == "box" else kind


WITH_PREFIXES = "scan inclusive", "scan exclusive"  # and "scan total", a reduction in the order of indices


def n_indices(kind):
    """Leading parameters of a kernel that are not arguments: indices, or the team."""
    return int(kind[-1]) if kind.startswith("box") else 1


def box_words(policy):
    """Return begin and end of MOST_BOX dimensions, one after the other; zeros for missing ones."""
    if policy.__class__ is not MDRangePolicy:
        return (0,) * (2 * MOST_BOX)
    words, n = [0] * (2 * MOST_BOX), 2 * len(policy.begin)
    words[0:n:2], words[1:n:2] = policy.begin, policy.end
    return words


def as_policy(policy):
    """Return a policy as given, or RangePolicy(0, n) for an integer n."""
    if policy.__class__ in KINDS:
        return policy
    return RangePolicy(0, check_index(policy, "policy", 0))
