"""Tangents of operations that are not functions of numbers only: a rule for each, by its name.

A rule receives the walk (forward.py) and the operation; it inserts tangents after it, or refuses it.
"""

import copy
import math

from ..core.compiler.reading.calls import MOST_PRIVATE
from ..core.language import types as t
from ..core.language.reducer import Sum

PASSIVE = frozenset(  # operations whose result is no float, or locally constant
    "compare not invert one lanes together barrier assert print breakpoint extent counter member rank"
    " league_rank league_size tally".split()
)
WRITES = "store", "atomic"


def bits(mask):
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


def roots(view):
    """Return the arrays that a view may be a part of."""
    if view.options:
        return [root for v in view.options for root in roots(v)]
    return [view] if view.base is None else roots(view.base)


def carried(o):
    """Return what an operation passes on: its array, its variable, or the arguments in which it is linear;
    all of a nonlinear one."""
    if o.view is not None:
        return roots(o.view)
    return [o.attr] if o.op == "get" else o.args[LINEAR.get(o.op, slice(None))]


# ---- arrays of tangents
def shadow(walk, view, k):
    """Return the array of tangents of an array of numbers."""
    made = copy.copy(view)
    made.name = f"d_{view.name or 'array'}"
    if view.dtype not in t.PARTS:
        made.dtype = t.loaded_dtype(view.dtype)
    if view.options:
        made.options = [_existing(walk, v, k) for v in view.options]
    elif view.base is not None:
        made.base = _existing(walk, view.base, k)
    elif view.store == "(local)":
        walk.build.private_bytes += math.prod(view.shape) * t.BITS[made.dtype] // 8
        if walk.build.private_bytes > MOST_PRIVATE:
            walk.refuse_view(view, f"with their tangents local arrays take more than {MOST_PRIVATE} bytes")
    return walk.build.put(made)


def _existing(walk, view, k):
    """Return the array of tangents of an array; refuse it if there is none."""
    return walk.tangents.get((view, k)) or walk.refuse_view(view)


# ---- operations that are not functions of numbers only
def _linear(walk, o):
    """Insert the same operation on tangents: of its array, its variable, or the arguments in which it is
    linear."""

    def put(k):
        args = [*o.args]
        args[LINEAR[o.op]] = [walk.slope(a, k) for a in o.args[LINEAR[o.op]]]
        view = o.view and _existing(walk, o.view, k)
        attr = walk.variable(o.attr, k) if o.op == "get" else o.attr
        return walk.build.operation(o.op, *args, attr=attr, dtype=o.dtype, view=view, counts=o.counts)

    walk.put_tangents(o, put)


def second_wins(build, o, a, b):
    """Return the condition that an extreme of two numbers is the second one; of equal ones it is
    the first.
    """
    op, nan_wins = o.attr
    later = build.compare(op, b, a)
    return build.binary("|", later, build.compare("!=", b, b)) if nan_wins else later


def _extreme(walk, o):
    """Insert the tangent of the selected number; of equal ones that is the first."""
    if walk.mask(o):
        second = second_wins(walk.build, o, *o.args)
        walk.put_tangents(o, lambda k: walk.build.select(second, *(walk.slope(a, k) for a in o.args[::-1])))


def _change(walk, o):
    """Insert the change of an array's tangents after that of the array."""
    if walk.mask(o):
        if not all(root in walk.position for root in roots(o.view)):
            walk.fail(
                o,
                f"'{o.view.label}' is an array argument, whose elements have no tangents; return the number,"
                " or keep it in a variable or a pk.local",
            )
        if o.op == "atomic" and o.attr not in ADDED:
            walk.fail(o, WHY)
        _linear(walk, o)


def _collective(walk, o):
    if walk.mask(o) and o.attr is not Sum:
        walk.fail(o, f"of the reducers within teams pk.Sum has one, {o.attr!r} has not")
    _linear(walk, o)


ADDED = ("add", False), ("sub", False)  # atomics that have derivatives
WHY = "of atomics, atomic_add and atomic_sub whose result is not used have one"
LINEAR = {  # the arguments in which an operation is linear
    "get": slice(0),
    "load": slice(0),
    "store": slice(-1, None),
    "atomic": slice(-1, None),
    "select": slice(1, None),
    **dict.fromkeys("broadcast cast combine before item rounded settle".split(), slice(1)),
}
RULES = {
    **dict.fromkeys(LINEAR, _linear),
    "extreme": _extreme,
    **dict.fromkeys(WRITES, _change),
    **dict.fromkeys(("combine", "before"), _collective),
}
# operations that pass where their arguments have no tangents, and why they are refused else
WITHOUT = {
    **dict.fromkeys(
        ("foreign", "part"), "it is numba's, whose source is not read; mark the function with @pk.function"
    ),
    **dict.fromkeys(("bits", "from_bits"), "the bits of a float are no smooth function of it"),
    **dict.fromkeys(("math", "intrinsic"), "its partial derivatives are not known"),
    "append": "values that a team appends have no tangents",
    "binary": "the operator is for integers",
}
