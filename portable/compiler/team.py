"""The team handle as kernels see it; each machine says what its members are."""

from __future__ import annotations

import ast

from ..errors import CollectiveError, LanguageError
from ..reducer import Reducer, Sum
from . import types as t
from .known import Known
from .memory import itemsize
from .types import UNIFORM, VARYING
from .values import Value, ViewValue

_ALIGN = 64


def widened(dtype):
    """The dtype in which contributions add up: floats as they are, integers and bools in 64 bits."""
    if t.is_float(dtype):
        return dtype
    return "uint64" if dtype in t.UNSIGNED else "int64"


class Team:
    """Words on the team. A machine's subclass gives rank, size, registers, barrier, combine, pick, append, before, scratch_base, thread_range."""

    def __init__(self, league_rank, league_size):
        self.league_rank, self.league_size = league_rank, league_size

    def attribute(self, lower, node):
        if node.attr in ("league_rank", "league_size"):
            return Value("int", UNIFORM, getattr(self, node.attr))
        if node.attr == "rank":
            return self.rank(lower)
        if node.attr == "size":
            return self.size(lower)
        if node.attr == "registers":
            return lower.const(self.registers)
        lower.fail(node, f"the team has no '{node.attr}' (league_rank, league_size, rank, size, registers, thread_range, barrier, "
                         "reduce, scan, single, broadcast, append, scratch)", LanguageError)

    def method(self, lower, node):
        name = node.func.attr
        if name not in ("barrier", "reduce", "scan", "single", "broadcast", "append", "scratch"):
            if name == "thread_range":
                lower.fail(node, "team.thread_range(...) belongs in a for loop", LanguageError)
            self.attribute(lower, node.func)
            lower.fail(node, f"team.{name} is a number, not a function", LanguageError)
        return getattr(self, "call_" + name)(lower, node)

    @staticmethod
    def together(lower, node):
        """Collectives are for all members at once."""
        lower.counted(f"team.{node.func.attr}", None, "")
        if lower.divergent:
            lower.fail(node, f"`{ast.unparse(node)}`: every member must get here, but this place is reached only by some "
                             "(a condition, a loop or an early return that differs between members)", CollectiveError)

    def call_barrier(self, lower, node):
        self.together(lower, node)
        self.barrier(lower)
        return Known(None)

    def call_single(self, lower, node):
        return lower.compare("==", self.rank(lower), lower.const(0))

    def call_broadcast(self, lower, node):
        self.together(lower, node)
        values = lower.arguments(node, 1, 2)
        if len(values) == 2 and values[1].kind != UNIFORM:
            lower.fail(node, "broadcast: the rank must be the same for all members")
        return self.pick(lower, values[0], values[1] if len(values) == 2 else lower.const(0))

    def call_append(self, lower, node):
        """append(view, at, value, keep): the values of the members that keep, side by side from view[at] on."""
        self.together(lower, node)
        view = lower.expr(node.args[0]) if len(node.args) == 4 else None
        if not isinstance(view, ViewValue) or len(view.shape) != 1:
            lower.fail(node, "append takes a view of one dimension, where to begin in it, a value, and whether to keep it")
        lower.check_writable(view, node)
        at, value, keep = (lower.number(a) for a in node.args[1:])
        if at.kind != UNIFORM or t.is_float(at.dtype):
            lower.fail(node, "append: the place to begin must be an integer that is the same for all members")
        return lower.binary("+", at, self.append(lower, view, at, value, lower.truth(keep)))

    def contribution(self, lower, node):
        """(reducer, state) of what reduce and scan are called with: a value, and a reducer if not Sum."""
        self.together(lower, node)
        parts = [lower.expr(a) for a in node.args[:1]]
        others = node.args[1:] + [k.value for k in node.keywords if k.arg == "reducer"]
        if not parts or len(others) > 1 or any(k.arg != "reducer" for k in node.keywords):
            lower.fail(node, f"{node.func.attr} takes a value and a reducer")
        reducer = lower.expr(others[0]).value if others and isinstance(lower.expr(others[0]), Known) else Sum
        if not isinstance(reducer, Reducer):
            lower.fail(node, f"`{ast.unparse(others[0])}` is not a reducer (pk.Sum, pk.Min, ...)")
        value, index = parts[0], None
        if not isinstance(value, tuple):
            lower.number_of(value, node.args[0])
        if reducer.with_index:
            if not isinstance(value, tuple) or len(value) != 2:
                lower.fail(node, f"{reducer!r} in a team wants a tuple (value, index)")
            value, index = value
        state = lifted(lower, reducer, value, index)
        if len(state) != reducer.n_words:
            lower.fail(node, f"{reducer!r} has states of {reducer.n_words} number(s), got {len(state)}")
        return reducer, tuple(lower.cast(v, "int64" if v.dtype == "bool" else lower.strong(v.dtype)) for v in state)

    def call_reduce(self, lower, node):
        reducer, state = self.contribution(lower, node)
        return finished(lower, reducer, self.combine(lower, state, reducer))

    def call_scan(self, lower, node):
        """What the members before this one combine to."""
        reducer, state = self.contribution(lower, node)
        if len(state) != 1 or reducer.finish is not None:
            lower.fail(node, f"scan: {reducer!r} has no state of one number that is its result")
        own = Value(state[0].dtype, VARYING, lower.get(state[0], None, VARYING))
        neutral = lower.strong_const(reducer.identity(own.dtype), own.dtype)
        x = self.before(lower, own, neutral, lambda a, b: combine_states(lower, reducer, (a,), (b,))[0])
        return Value(x.dtype, VARYING, lower.get(x, None, VARYING))

    def call_scratch(self, lower, node):
        if lower.frame.caller is not None or lower.depth > 1:
            lower.fail(node, "scratch is called at the kernel's top level, before any loop or branch", LanguageError)
        if len(node.args) != 2 or node.keywords:
            lower.fail(node, "scratch takes a shape and a dtype")
        dtype = lower.dtype_of(node.args[1])
        shape, n_bytes = self.scratch_shape(lower, node, dtype)
        pointer = self.scratch_pointer(lower, n_bytes)
        strides, step = [], itemsize(dtype)
        for extent in reversed(shape):
            strides.insert(0, step)
            step = lower.bytes_times(step, extent)
        return ViewValue(ast.unparse(node), dtype, pointer, shape, strides, store="(scratch)")

    def scratch_shape(self, lower, node, dtype):
        v = lower.expr(node.args[0])
        parts = v if isinstance(v, tuple) else (v,)
        shape = []
        for p in parts:
            if not isinstance(p, Value) or t.is_float(p.dtype) or p.kind != UNIFORM:
                lower.fail(node, f"the shape of scratch must be integers that all members share, got `{ast.unparse(node.args[0])}`")
            if p.const is not None and p.const < 1:
                lower.fail(node, f"the shape of scratch must be positive, got {p.const}")
            shape.append(lower.index_number(p))
        n_bytes = itemsize(dtype)
        for extent in shape:
            n_bytes = lower.bytes_times(n_bytes, extent)
        return shape, n_bytes

    def scratch_pointer(self, lower, n_bytes):
        """The next aligned place in the team's buffer. `lower.scratch_used` counts bytes known at compile time."""
        place = lower.scratch_used
        pointer = lower.advance(self.scratch_base(lower), place)
        if isinstance(n_bytes, int):
            rounded = -(-n_bytes // _ALIGN) * _ALIGN
            lower.scratch_static += rounded
        else:
            lower.scratch_open, more = True, lower.plus(n_bytes, _ALIGN - 1)
            rounded = lower.b.and_(more, more.type(-_ALIGN))
        lower.scratch_used = lower.plus(place, rounded)
        return pointer


def combine_states(lower, reducer, a, b):
    """combine(a, b) of a reducer, inlined; states are tuples of Values."""
    result = _inlined(lower, reducer, reducer.combine, [_unwrapped(a), _unwrapped(b)])
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(a) or not all(isinstance(v, Value) for v in result):
        raise LanguageError(f"{reducer!r}: combine ({reducer.combine.place}) must return a state of {len(a)} number(s)")
    return tuple(lower.cast(r, x.dtype) for r, x in zip(result, a))


def lifted(lower, reducer, value, index):
    """The state of one contribution, a tuple of Values."""
    if reducer.lift is not None:
        args = [value, index] if reducer.with_index else [value]
        value = _inlined(lower, reducer, reducer.lift, args)
    state = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(v, Value) for v in state):
        raise LanguageError(f"{reducer!r}: a state is a number or a tuple of numbers")
    return state


def finished(lower, reducer, state):
    """The result of a state: a Value or a tuple of Values."""
    if reducer.finish is None:
        return _unwrapped(state)
    return _inlined(lower, reducer, reducer.finish, [_unwrapped(state)])


def _inlined(lower, reducer, step, args):
    """One step of a reducer. Its variables are learned about (frames.Facts) apart for each dtype, for packs and for single states."""
    types = [(v.dtype, v.kind) for a in args for v in (a if isinstance(a, tuple) else (a,))]
    return lower.inline(step.portable_text, args, f"{step.name} {id(reducer)} {types}")


def _unwrapped(state):
    return state[0] if len(state) == 1 else state
