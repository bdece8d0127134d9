"""Policies made inside numba's functions: named tuples there, of one layout, whose types say which policy it is."""

from __future__ import annotations

from collections import namedtuple

from numba.core import types
from numba.extending import overload

from ..errors import InputError
from ..policy import MDRangePolicy, RangePolicy, TeamPolicy

FIELDS = ("begin", "end", "chunk", "league_size", "scratch_bytes", "begin0", "end0", "begin1", "end1", "begin2", "end2")
Range, Team, Box2, Box3 = (namedtuple(name, FIELDS) for name in ("RangePolicy", "TeamPolicy", "MDRangePolicy2", "MDRangePolicy3"))
KINDS = {Range: "range", Team: "team", Box2: "box2", Box3: "box3"}
_int = types.int64


def kind_of(policy):
    """The compiler's name of a policy's kind by numba's type of it, or None."""
    if isinstance(policy, types.Integer):
        return "range"
    return KINDS.get(getattr(policy, "instance_class", None))


def _without(policy, **given):
    for name, value in given.items():
        if not isinstance(value, types.Omitted | types.NoneType) and value is not None:
            raise InputError(f"{policy}: {name}= is not for launches inside numba's functions, which run on numba's threads")


@overload(RangePolicy)
def _range(begin, end, space=None, chunk=None):
    _without("RangePolicy", space=space)

    def make(begin, end, space=None, chunk=None):
        size = 0 if chunk is None else chunk
        if end < begin:
            raise InputError("RangePolicy: begin <= end is wanted")
        if chunk is not None and size < 1:
            raise InputError("RangePolicy: chunk must be at least 1")
        return Range(_int(begin), _int(end), _int(size), _int(0), _int(0), _int(0), _int(0), _int(0), _int(0), _int(0), _int(0))

    return make


@overload(TeamPolicy)
def _team(league_size, team_size=None, space=None, scratch_bytes=0):
    _without("TeamPolicy", space=space)

    def make(league_size, team_size=None, space=None, scratch_bytes=0):
        if league_size < 0 or scratch_bytes < 0:
            raise InputError("TeamPolicy: league_size and scratch_bytes must not be negative")
        return Team(_int(0), _int(league_size), _int(0), _int(league_size), _int(scratch_bytes), _int(0), _int(0), _int(0),
                    _int(0), _int(0), _int(0))

    return make


@overload(MDRangePolicy)
def _box(begin, end, space=None):
    _without("MDRangePolicy", space=space)
    sizes = [len(v) if isinstance(v, types.BaseTuple) else 0 for v in (begin, end)]
    if sizes[0] not in (2, 3) or sizes[0] != sizes[1]:
        raise InputError(f"MDRangePolicy: begin and end are {begin} and {end}; tuples of 2 or 3 integers each are wanted")

    def two(begin, end, space=None):
        if end[0] < begin[0] or end[1] < begin[1]:
            raise InputError("MDRangePolicy: begin <= end is wanted in each dimension")
        n = (end[0] - begin[0]) * (end[1] - begin[1])
        return Box2(_int(0), _int(n), _int(0), _int(0), _int(0), _int(begin[0]), _int(end[0]), _int(begin[1]), _int(end[1]),
                    _int(0), _int(0))

    def three(begin, end, space=None):
        if end[0] < begin[0] or end[1] < begin[1] or end[2] < begin[2]:
            raise InputError("MDRangePolicy: begin <= end is wanted in each dimension")
        n = (end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2])
        return Box3(_int(0), _int(n), _int(0), _int(0), _int(0), _int(begin[0]), _int(end[0]), _int(begin[1]), _int(end[1]),
                    _int(begin[2]), _int(end[2]))

    return two if sizes[0] == 2 else three
