"""Policies made inside numba's functions: named tuples of one layout, whose types identify the policy."""

from collections import namedtuple

from numba.core import types
from numba.extending import overload, register_jitable

from ..errors import InputError
from ..core.places.policy import MOST_BOX, MDRangePolicy, RangePolicy, TeamPolicy

_SIDES = tuple(f"{side}{k}" for k in range(MOST_BOX) for side in ("begin", "end"))
FIELDS = ("begin", "end", "chunk", "league_size", "scratch_bytes", *_SIDES)
_NAMES = {"range": "RangePolicy", "team": "TeamPolicy"} | {
    f"box{d}": f"MDRangePolicy{d}" for d in range(2, MOST_BOX + 1)
}
_MADE = [namedtuple(name, FIELDS) for name in _NAMES.values()]
Range, Team, *_ = _MADE  # and boxes, at the numbers of their dimensions
_KINDS = dict(zip(_MADE, _NAMES))
_NO_BOX = (0,) * len(_SIDES)
_int = types.int64


def kind_of(policy):
    """Return the name of a policy's kind, such as "range", given its numba type; None for other types."""
    return (
        "range" if isinstance(policy, types.Integer) else _KINDS.get(getattr(policy, "instance_class", None))
    )


def _without_space(policy, space):
    if not isinstance(getattr(space, "value", space), types.NoneType | None):
        raise InputError(
            f"{policy}: space= is not accepted inside numba's functions, which run on numba's threads"
        )


@register_jitable
def _extent(begin, end):
    if end < begin:
        raise InputError("policy: expected begin <= end in each dimension")
    return _int(end - begin)


@overload(RangePolicy)
def _range(begin, end, space=None, chunk=None):
    _without_space("RangePolicy", space)

    def make(begin, end, space=None, chunk=None):
        size = _int(0 if chunk is None else chunk)
        if _extent(begin, end) and chunk is not None and size < 1:
            raise InputError("RangePolicy: chunk must be at least 1")
        no = _int(0)
        return Range(_int(begin), _int(end), size, no, no, *_NO_BOX)

    return make


@overload(TeamPolicy)
def _team(league_size, team_size=None, space=None, scratch_bytes=0):
    _without_space("TeamPolicy", space)

    def make(league_size, team_size=None, space=None, scratch_bytes=0):
        n, scratch, no = _int(league_size), _int(scratch_bytes), _int(0)
        if n < 0 or scratch < 0:
            raise InputError("TeamPolicy: league_size and scratch_bytes must not be negative")
        return Team(no, n, no, n, scratch, *_NO_BOX)

    return make


def _box_of(d):
    """Return a function that makes a box of d dimensions; numba indexes tuples by constants alone."""
    size = " * ".join(f"extent(begin[{k}], end[{k}])" for k in range(d))
    sides = ", ".join(f"whole({side}[{k}])" for k in range(d) for side in ("begin", "end"))
    text = f"def make(begin, end, space=None): return made(0, {size}, 0, 0, 0, {sides}, *rest)"
    scope = {"made": _MADE[d], "extent": _extent, "whole": _int, "rest": _NO_BOX[2 * d :]}
    exec(text, scope)  # noqa: S102  (the text above)
    return scope["make"]


@overload(MDRangePolicy)
def _box(begin, end, space=None):
    _without_space("MDRangePolicy", space)
    sizes = {len(v) if isinstance(v, types.BaseTuple) else 0 for v in (begin, end)}
    if len(sizes) > 1 or not sizes <= {*range(2, MOST_BOX + 1)}:
        raise InputError(
            f"MDRangePolicy: begin and end are numba's {begin} and {end}; expected tuples of 2"
            f" to {MOST_BOX} integers each"
        )
    return _box_of(sizes.pop())
