"""Tangents of operations that are not functions of numbers only: a rule for each, by its name.

A rule receives the walk (forward.py) and the operation; it inserts tangents after it, or refuses it.
"""

from __future__ import annotations

import math

from ..core.compiler.reading.calls import MOST_PRIVATE
from ..core.compiler.reading.tree import Operation, View
from ..core.language import types as t
from ..core.language.reducer import Sum
from ..core.language.types import UNIFORM

PASSIVE = frozenset(  # operations whose result is no float, or locally constant
    "compare not invert one lanes together barrier assert print breakpoint extent counter member rank"
    " league_rank league_size tally".split()
)


def bits(mask):
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


def roots(view):
    """Return the arrays that a view may be a part of."""
    if view.options:
        return [root for v in view.options for root in roots(v)]
    return [view] if view.base is None else roots(view.base)


# ---- arrays of tangents
def shadow(walk, view, k):
    """Return the array of tangents of an array of numbers."""
    made = (_chosen if view.options else _new_tangents if view.base is None else _part)(walk, view, k)
    made.name = f"d_{view.name or 'array'}"
    return walk.build.put(made)


def _part_of_tangents(walk, view, whole, k):
    """Return the existing array of tangents of `whole`, of which `view` is a part or a choice."""
    return walk.tangents.get((whole, k)) or walk.refuse_view(view)


def _chosen(walk, view, k):
    options = [_part_of_tangents(walk, view, v, k) for v in view.options]
    made = View(view.label, options[0].dtype, [], view.readonly, items=view.items, options=options)
    made.shape = [
        Operation("extent", attr=(made, d), dtype="int", kind=UNIFORM) for d in range(len(view.shape))
    ]
    return made


def _part(walk, view, k):
    base = _part_of_tangents(walk, view, view.base, k)
    flags = view.readonly, False, view.lanes_last
    return View(view.label, base.dtype, view.shape, *flags, view.store, base, view.items)


def _new_tangents(walk, view, k):
    dtype = view.dtype if view.dtype in t.PARTS else t.loaded_dtype(view.dtype)
    if view.store == "(local)":
        walk.build.private_bytes += math.prod(view.shape) * t.BITS[dtype] // 8
        if walk.build.private_bytes > MOST_PRIVATE:
            walk.refuse_view(view, f"with their tangents local arrays take more than {MOST_PRIVATE} bytes")
    return View(view.label, dtype, view.shape, lanes_last=view.lanes_last, store=view.store)


# ---- operations that are not functions of numbers only
def _get(walk, o):
    def put(k):
        made = walk.pending.get((o, k))
        return walk.build.put(made) if made else walk.build.operation("get", attr=walk.variable(o.attr, k))

    walk.put_tangents(o, put)


def _rule_of_first(op):
    """Return the rule of an operation whose tangent is the same operation on the first argument's tangent."""

    def rule(walk, o):
        walk.put_tangents(o, lambda k: op(walk.build, o, walk.slope(o.args[0], k)))

    return rule


def _cast(walk, o):
    if not t.is_float(o.attr):
        if o.attr != "bool":
            walk.flat(o, o.args)
        return
    walk.put_tangents(o, lambda k: walk.build.cast(walk.slope(o.args[0], k), o.attr))


def _select(walk, o):
    c, a, b = o.args
    walk.put_tangents(o, lambda k: walk.build.select(c, walk.slope(a, k), walk.slope(b, k)))


def second_wins(build, o, a, b):
    """Return the condition that an extreme of two numbers is the second one; of equal ones it is
    the first.
    """
    op, nan_wins = o.attr
    later = build.compare(op, b, a)
    return build.binary("|", later, build.compare("!=", b, b)) if nan_wins else later


def _extreme(walk, o):
    """Insert the tangent of the selected number; of equal ones that is the first."""
    a, b = o.args
    if walk.mask(o):
        later = second_wins(walk.build, o, a, b)
        walk.put_tangents(o, lambda k: walk.build.select(later, walk.slope(b, k), walk.slope(a, k)))


def _load(walk, o):
    def put(k):
        view = walk.tangents.get((o.view, k))
        if view is None:
            walk.refuse_view(o.view)
        return walk.build.operation("load", *o.args, view=view, dtype=o.dtype, counts=o.counts)

    walk.put_tangents(o, put)


def _stored(walk, o):
    """Return the place of an access that changes an array with tangents, or by a number with some; None if
    there is none."""
    mask = walk.mask(*roots(o.view))  # which has that of the number
    if not t.is_float(t.part(o.view.dtype)):
        walk.flat(o, o.args[-1:])
        return 0
    if mask and not all(root in walk.own_views for root in roots(o.view)):
        walk.fail(
            o,
            f"'{o.view.label}' is an array argument, whose elements have no tangents; return the number,"
            " or keep it in a variable or a pk.local",
        )
    return mask


def _store(walk, o):
    *indices, value = o.args
    for k in bits(_stored(walk, o)):
        view = walk.tangents.get((o.view, k)) or walk.refuse_view(o.view)
        walk.build.operation("store", *indices, walk.slope(value, k), view=view, counts=o.counts)


def _atomic(walk, o):
    (op, wanted), (*indices, value) = o.attr, o.args
    mask = _stored(walk, o)
    if mask and (wanted or op not in ("add", "sub")):
        walk.fail(o, "of atomics, atomic_add and atomic_sub whose result is not used have one")
    for k in bits(mask):
        view = walk.tangents[o.view, k]
        value_k, more = walk.slope(value, k), {"attr": o.attr, "dtype": view.dtype, "counts": o.counts}
        walk.build.operation("atomic", *indices, value_k, view=view, **more)


def _collective(walk, o):
    if walk.mask(o) and o.attr is not Sum:
        walk.fail(o, f"of the reducers within teams pk.Sum has one, {o.attr!r} has not")
    build = walk.build

    def put(k):
        return build.operation(o.op, build.operation("settle", walk.slope(o.args[0], k)), attr=Sum)

    walk.put_tangents(o, put)


RULES = {
    "get": _get,
    "cast": _cast,
    "select": _select,
    "extreme": _extreme,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "combine": _collective,
    "before": _collective,
    "item": _rule_of_first(lambda build, o, slope: build.operation("item", slope, attr=o.attr)),
    "settle": _rule_of_first(lambda build, o, slope: build.operation("settle", slope, attr=o.attr)),
    "rounded": _rule_of_first(lambda build, o, slope: build.rounded(slope)),
    "broadcast": _rule_of_first(lambda build, o, slope: build.operation("broadcast", slope, o.args[1])),
}
# operations that pass where their arguments have no tangents, and why they are refused else
WITHOUT = {
    **dict.fromkeys(
        ("foreign", "part"), "it is numba's, whose source is not read; mark the function with @pk.function"
    ),
    **dict.fromkeys(("bits", "from_bits"), "the bits of a float are no smooth function of it"),
    "junction": "`and` and `or` that give a number; write `a if c else b`",
    "choice": "",
    **dict.fromkeys(("math", "intrinsic"), "its partial derivatives are not known"),
    "append": "values that a team appends have no tangents",
    "binary": "the operator is for integers",
}
