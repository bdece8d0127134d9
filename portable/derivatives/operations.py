"""Tangents of operations that are not functions of numbers only: a rule for each, by its name.

A rule receives the walk (forward.py) and the operation; it inserts tangents after it, or refuses it.
"""

import math

from ..core.compiler.reading.calls import MOST_PRIVATE
from ..core.compiler.reading.tree import View, one_of
from ..core.language import types as t
from ..core.language.reducer import Sum

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


def _existing(walk, view, k):
    """Return the array of tangents of an array; refuse it if there is none."""
    return walk.tangents.get((view, k)) or walk.refuse_view(view)


def _chosen(walk, view, k):
    return one_of(view.label, view.items, [_existing(walk, v, k) for v in view.options])


def _part(walk, view, k):
    base = _existing(walk, view.base, k)
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


def _of_first(walk, o):
    """Insert the same operation on the first argument's tangent."""
    first, *others = o.args
    walk.put_tangents(o, lambda k: walk.build.operation(o.op, walk.slope(first, k), *others, attr=o.attr))


def _rounded(walk, o):
    walk.put_tangents(o, lambda k: walk.build.rounded(walk.slope(o.args[0], k)))


def _cast(walk, o):
    if not t.is_float(o.attr):
        if o.attr != "bool":
            walk.flat(o, o.args)
        return
    walk.put_tangents(o, lambda k: walk.build.cast(walk.slope(o.args[0], k), o.attr))


def _put_choice(walk, o, condition, a, b):
    walk.put_tangents(o, lambda k: walk.build.select(condition, walk.slope(a, k), walk.slope(b, k)))


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
        _put_choice(walk, o, second_wins(walk.build, o, *o.args), *o.args[::-1])


def _load(walk, o):
    def put(k):
        view = _existing(walk, o.view, k)
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
        view = _existing(walk, o.view, k)
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
    "select": lambda walk, o: _put_choice(walk, o, *o.args),
    "extreme": _extreme,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "combine": _collective,
    "before": _collective,
    "rounded": _rounded,
    **dict.fromkeys(("item", "settle", "broadcast"), _of_first),
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
