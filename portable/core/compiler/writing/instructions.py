"""Emit the operations of a typed tree, by a function for each in the table EMITTED.

Each function takes the place (`here`), the operation and the values of its arguments, and returns the value
of the operation. The types, effects and Python meaning of operations are defined in packages without code
generation (reading) or without LLVM (watch/checked); each has its own table, keyed by the operation's name.
"""

from functools import partial

from ..reading.callables import text_of, texts
from ..reading.team import combine_states
from ...language.types import UNIFORM, UNSIGNED, VARYING, arithmetic, common_float, is_float, is_weak
from .lines import builder
from .values import Ops, Value


def rounded(v):
    """Return a function's result as a rounded number, so that no sum is fused with a product in it."""
    return Value(v.dtype, v.kind, v.ir, v.const) if isinstance(v, Value) and v.factors else v


def _of_values(method):
    """Return the table entry of an operation that is a method of Ops on values only."""
    return lambda here, o, *values: method(here.ops, *values)


# ---- numbers
def _binary(here, o, a, b):
    op, ops, check = o.attr, here.ops, None
    if op in ("//", "%", "<<", ">>"):
        dtype = arithmetic(a.dtype, b.dtype, op)
        if is_float(dtype):
            # Python's // and % of floats are one of the layer's own functions.
            values = [ops.cast(v, ops.strong(dtype)) for v in (a, b)]
            return _layers_text(here, op, texts("divmod"), values, dtype, op == "%")
        check = partial(here.lower.watch.divide, here, op)
    return ops.binary(op, a, b, check)


def _cast(here, o, a):
    return here.ops.cast(a, o.dtype)


def _extreme(here, o, a, b):
    ops, (op, nan_wins) = here.ops, o.attr
    if nan_wins and is_float(o.dtype):
        return ops.float_intrinsic("minimum" if op == "<" else "maximum", (a, b), o.dtype)
    if nan_wins:
        return ops.select(ops.compare(op, a, b), a, b)
    # Python's min and max return the first operand unless the second is strictly better.
    return ops.select(ops.compare(op, b, a), b, a)


def _abs(here, o, a):
    ops = here.ops
    if is_float(a.dtype):
        return Value(a.dtype, a.kind, ops.intrinsic("fabs", [ops.get(a)]))
    if a.dtype in UNSIGNED:
        return a
    return ops.select(ops.compare("<", a, ops.const(0)), ops.negate(a), a)


def _round_to_integer(here, o, a):
    ops = here.ops
    if not is_float(a.dtype):
        return ops.cast(a, "int") if a.dtype == "bool" else a
    if a.const is not None:  # a number that wraps at its conversion, see `Operations.round_to_integer`
        own = ops.strong(a.dtype)
        a = Value(own, UNIFORM, ops.get(a, own, UNIFORM))
    return ops.cast(a if o.attr == "trunc" else ops.float_intrinsic(o.attr, (a,), a.dtype), "int")


def _from_bits(here, o, a):
    integer = "int32" if o.attr == "float32" else "int64"
    return _reinterpreted(here.ops, here.ops.cast(a, integer), integer, o.attr)


def _reinterpreted(ops, v, dtype, to):
    kind = VARYING if v.kind != UNIFORM else UNIFORM
    return Value(to, kind, builder.bitcast(ops.get(v, dtype, kind), ops.type_of(to, kind)))


def _lanes(here, o, c):
    """Return `any` or `all` of a condition over the live lanes."""
    ops = here.ops
    if ops.W == 1 or c.kind == UNIFORM:
        return c
    c = ops.get(c, "bool", VARYING)
    c = c if o.attr == "any" else ~c
    some = ops.any_lane(c if here.mask is None else c & here.mask)
    return Value("bool", UNIFORM, some if o.attr == "any" else ~some)


def _math(here, o, *values):
    (name, fast), ops = o.attr, here.ops
    dtype, fast = common_float(values), fast or bool(ops.flags)
    values = [ops.cast(v, ops.strong(dtype)) for v in values]
    native = ops.target.native(ops, name, values[0], fast)
    if native.__class__ is str:
        name = native
    elif native:
        return Value(dtype, values[0].kind, native)
    label = ("fast_" if o.attr[1] else "") + name
    return _layers_text(here, label, texts(name, fast), values, dtype)


def _layers_text(here, name, pair, values, dtype, part=None):
    """Inline one of the layer's own functions, from a pair for float32 and float64, as one operation; return
    its result, or a part of it."""
    strong = here.ops.strong(dtype)
    text = text_of(pair[strong == "float64"])
    result = here.lower.watch.replace_function(here, name, text, values, strong)
    if result is None:
        result = here.own_text(text, values, strong)
    result = result if part is None else result[part]
    return Value(dtype, result.kind, result.ir, result.const) if is_weak(dtype) else result


# ---- variables and memory
def _load(here, o, *indices):
    x = here.load(here.scope.values[o.view], indices)
    return x if x.dtype == o.dtype else Value(o.dtype, x.kind, x.ir)  # a table of weak numbers


def _store(here, o, *args):
    view, value = here.scope.values[o.view], args[-1]
    if is_float(value.dtype) and not is_float(view.dtype) and value.const is None:
        value = here.ops.cast(value, view.dtype)
    here.memory.store(here, view, args[:-1], value)


def _atomic(here, o, *args):
    (op, wanted), n, view = o.attr, o.view.n_indices, here.scope.values[o.view]
    return here.memory.atomic(here, op, view, args[:n], args[-1], args[n] if op == "cas" else None, wanted)


# ---- teams
def _combine(here, o, *state):
    ops, team, combine = here.ops, here.team, partial(combine_states, here, o.attr)
    if o.attr.commutes:
        return team.combine(ops, state, combine, again=here.call.depth > 1 or bool(here.loops))
    last = ops.const(here.lower.described_team[1] - 1)  # the scan before the last member, and its state
    whole = combine(_scan_of_members(here, o, *state), state)
    return tuple(team.pick(ops, v, last) for v in whole)


def _scan_of_members(here, o, *own):
    ops, combine = here.ops, partial(combine_states, here, o.attr)
    own = ops.spread(own)
    neutral = tuple(Value(v.dtype, UNIFORM, None, n) for n, v in zip(o.attr.neutral(own[0].dtype), own))
    return ops.spread(here.team.scan_members(ops, own, neutral, combine))


def _item(here, o, states):
    return states[o.attr]


EMITTED = {
    "abs": _abs,
    "append": lambda here, o, at, value, keep: here.team.append(
        here, here.scope.values[o.view], at, value, keep
    ),
    "atomic": _atomic,
    "barrier": lambda here, o: here.team.barrier(here.ops),
    "before": _scan_of_members,
    "binary": _binary,
    "bits": lambda here, o, a: _reinterpreted(here.ops, a, here.ops.strong(a.dtype), o.dtype),
    "broadcast": lambda here, o, value, rank: here.team.pick(here.ops, value, rank),
    "cast": _cast,
    "combine": _combine,
    "compare": lambda here, o, a, b: here.ops.compare(o.attr, a, b),
    "extreme": _extreme,
    "foreign": lambda here, o, *values: o.attr.emit(here, values),
    "from_bits": _from_bits,
    "get": lambda here, o: here.read(o.attr),
    "intrinsic": lambda here, o, *values: here.ops.float_intrinsic(o.attr, values, common_float(values)),
    "invert": _of_values(Ops.invert),
    "item": _item,
    "lanes": _lanes,
    "league_rank": lambda here, o: Value("int", UNIFORM, here.team.league_rank),
    "league_size": lambda here, o: Value("int", UNIFORM, here.team.league_size),
    "load": _load,
    "math": _math,
    "mma": lambda here, o, *values: here.team.mma(here.ops, *values),
    "negate": _of_values(Ops.negate),
    "not": _of_values(Ops.logical_not),
    "one": lambda here, o, a: here.ops.cast(here.ops.const(1), a.dtype),
    "part": _item,
    "rank": lambda here, o: here.team.rank(here.ops),
    "rounded": lambda here, o, a: rounded(a),
    "select": _of_values(Ops.select),
    "settle": _cast,
    "store": _store,
    "tally": lambda here, o, index: here.team.tally(here, here.scope.values[o.view], index, o.view.shape[0]),
    "together": lambda here, o: None,
    "whole": _round_to_integer,
}
