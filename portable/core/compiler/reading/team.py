"""Build the words of a team, and the steps of reducers."""

import ast
import functools

from ....errors import LanguageError
from ...language.reducer import Reducer, Sum
from ...language.team import Team
from ... import registry
from .arrays import check_writable
from .calls import dtype_of
from .callables import layers_own
from .operations import build
from .tree import Operation, View, mapped, plain_tuple
from ...language.types import UNIFORM, UNSIGNED, Complex, Known, Number, complex_of, is_float

ALIGN = 64
WORDS = [name for name in vars(Team) if not name.startswith("_")]


def widened(dtype):
    """Return the dtype in which contributions are summed: floats unchanged, integers and bools in 64 bits."""
    if is_float(dtype):
        return dtype
    return "uint64" if dtype in UNSIGNED else "int64"


def aligned(n_bytes):
    """Return a number of bytes rounded up to the alignment of a team's arrays."""
    return -(-n_bytes // ALIGN) * ALIGN


class TeamHandle:
    """Team in a kernel's source, with `size` members that hold `registers` packs each; `warp_size` of them
    execute together.

    tensor : function that returns True if the machine's tensor cores multiply float64 in the order of
    `product`
    """

    def __init__(self, size, registers, warp_size, tensor=None):
        self.size, self.registers, self.warp_size, self.tensor = size, registers, warp_size, tensor
        self.warps = warp_size == 32

    def __repr__(self):
        return f"a team of {self.size} members with {self.registers} registers"

    def attribute(self, node):
        if node.attr in ("league_rank", "league_size", "rank"):
            return build.operation(node.attr, dtype="int")
        if node.attr in ("size", "registers", "warp_size"):
            return build.const(getattr(self, node.attr))
        build.refuse(node, f"the team has no '{node.attr}' ({', '.join(WORDS)})")

    def method(self, node):
        name = node.func.attr
        if name not in _CALLS:
            if name in ("thread_range", "elements"):
                build.refuse(node, f"team.{name}(...) must be iterated by a for loop")
            self.attribute(node.func)
            build.refuse(node, f"team.{name} is a number, not a function")
        return _CALLS[name](node)


def note_collective(node):
    """Record a collective operation; typing.py checks that all members reach it."""
    build.operation("together", attr=node.func.attr, counts=f"team.{node.func.attr}")


def _barrier(node):
    note_collective(node)
    build.operation("barrier")
    return Known(None)


def _single(node):
    return build.compare("==", build.operation("rank", dtype="int"), 0)


def _broadcast(node):
    note_collective(node)
    values = build.arguments(node, 1, 2, build.numeric)
    rank = build.number_of(values[1], node.args[1]) if len(values) == 2 else build.const(0)
    build.check_when_typed(
        lambda: rank.kind == UNIFORM, node, "broadcast: the rank must be the same for all members"
    )
    return mapped(lambda v: build.operation("broadcast", v, rank), values[0])


def _append(node):
    """Build append(view, at, value, keep): store the values of the members with a true `keep` contiguously
    from view[at]."""
    note_collective(node)
    view = build.expr(node.args[0]) if len(node.args) == 4 else None
    if not isinstance(view, View) or view.ndim != 1:
        build.fail(
            node,
            "append takes a view of one dimension, where to begin in it, a value, and whether to keep it",
        )
    check_writable(view, node)
    at, value, keep = (build.number(a) for a in node.args[1:])
    build.check_when_typed(
        lambda: at.kind == UNIFORM and not is_float(at.dtype),
        node,
        "append: the place to begin must be an integer that is the same for all members",
    )
    build.writes()
    return build.binary(
        "+", at, build.operation("append", at, value, build.truth(keep), view=view, dtype="int")
    )


def _tally(node):
    """Build tally(view, index): add 1 to view[index], an integer in scratch."""
    note_collective(node)
    view = build.expr(node.args[0]) if len(node.args) == 2 else None
    if (
        not isinstance(view, View)
        or view.dtype not in ("int32", "int64", "uint32", "uint64")
        or view.ndim != 1
        or not isinstance(view.shape[0], int)
        or view.lanes_last  # private to a member
    ):
        build.fail(
            node,
            "tally takes a view of 32 or 64-bit whole numbers that the team shares, of one dimension"
            " whose extent is known at compile time, and an index",
        )
    check_writable(view, node)
    index = build.number(node.args[1])
    build.check_when_typed(lambda: not is_float(index.dtype), node, "tally: the index must be an integer")
    build.writes()
    return build.operation("tally", index, view=view, dtype=view.dtype)


def _contribution(node):
    """Return (reducer, state) for the arguments of reduce or scan: a value, and a reducer if it is not
    Sum."""
    note_collective(node)
    parts = [build.expr(a) for a in node.args[:1]]
    others = node.args[1:] + [k.value for k in node.keywords if k.arg == "reducer"]
    if not parts or len(others) > 1 or any(k.arg != "reducer" for k in node.keywords):
        build.fail(node, f"{node.func.attr} takes a value and a reducer")
    reducer = getattr(build.expr(others[0]), "value", None) if others else Sum
    if not isinstance(reducer, Reducer):
        build.fail(node, f"`{ast.unparse(others[0])}` is not a reducer (pk.Sum, pk.Min, ...)")
    return reducer, [build.operation("settle", v) for v in _state(reducer, *parts, node)]


def _state(reducer, value, node):
    """Return the state that a reducer lifts one contribution to."""
    index = None
    if not isinstance(value, tuple):
        build.number_of(value, node.args[0])
    if reducer.with_index:
        if not plain_tuple(value) or len(value) != 2:
            build.fail(node, f"{reducer!r} in a team wants a tuple (value, index)")
        value, index = value
    if isinstance(value, Complex) and reducer is not Sum and not lifts_complex(reducer):
        build.fail(
            node, f"{reducer!r} takes no complex number; give it the parts z.real and z.imag by themselves"
        )
    state = lifted(build, reducer, value, index)
    if len(state) != reducer.n_words and not (reducer is Sum and isinstance(value, Complex)):
        build.fail(node, f"{reducer!r} has states of {reducer.n_words} number(s), got {len(state)}")
    return state


def _collective(op, node):
    """Return the result of a collective over the members' states: `op` combines the states, and the reducer
    finishes the result."""
    reducer, state = _contribution(node)
    if len(state) == reducer.n_words:
        return _combined(op, reducer, state)
    return complex_of(_combined(op, reducer, [v]) for v in state)


def _combined(op, reducer, state):
    whole = build.operation(op, *state, attr=reducer)
    return finished(build, reducer, tuple(build.operation("item", whole, attr=k) for k in range(len(state))))


def _scratch(node):
    if build.frame.caller is not None or build.depth > 1:
        build.refuse(node, "scratch must be called at the kernel's top level, outside loops and branches")
    if len(node.args) != 2 or node.keywords:
        build.fail(node, "scratch takes a shape and a dtype")
    dtype, shape = dtype_of(node.args[1]), build.expr(node.args[0])
    shape = list(shape) if isinstance(shape, tuple) else [shape]
    message = (
        f"the shape of scratch must be integers that all members share, got `{ast.unparse(node.args[0])}`"
    )
    for p in shape:
        if not isinstance(p, Operation):
            build.fail(node, message)
        build.check_when_typed(lambda p=p: not is_float(p.dtype) and p.kind == UNIFORM, node, message)
        if p.const is not None and p.const < 1:
            build.fail(node, f"the shape of scratch must be positive, got {p.const}")
    return build.put(
        View(
            ast.unparse(node),
            dtype,
            [p if p.const is None else int(p.const) for p in shape],
            store="(scratch)",
        )
    )


def _read_tiles(node):
    """Build a word of a team's tiles, which the library implements."""
    return registry.part("tiles of a team").CALLS[node.func.attr](node)


_CALLS = dict.fromkeys(("tile", "product", "mma"), _read_tiles) | {
    "barrier": _barrier,
    "single": _single,
    "broadcast": _broadcast,
    "append": _append,
    "tally": _tally,
    "reduce": functools.partial(_collective, "combine"),
    "scan": functools.partial(_collective, "before"),
    "scratch": _scratch,
}


# ---- the steps of a reducer, while a tree is built (`lower` is the builder) and while code is emitted
# (`lower` emits)
def combine_states(lower, reducer, a, b):
    """Return combine(a, b) of a reducer, inlined; states are tuples of Values."""
    result = lower.inline(reducer.combine.portable_text, [unwrapped(a), unwrapped(b)])
    result = numbers_in(result)
    if len(result) != len(a):
        raise LanguageError(
            f"{reducer!r}: combine ({reducer.combine.place}) must return a state of {len(a)} number(s)"
        )
    return tuple(lower.cast(r, x.dtype) for r, x in zip(result, a))


def lifts_complex(reducer):
    """Return True if a reducer's `lift` is the user's and may make a state of a complex number."""
    return reducer.lift is not None and not layers_own(reducer.lift.fn)


def lifted(lower, reducer, value, index):
    """Return the state of one contribution as a tuple of numbers."""
    if reducer.lift is not None:
        args = [value, index] if reducer.with_index else [value]
        value = lower.inline(reducer.lift.portable_text, args)
    state = numbers_in(value)
    if not state:
        raise LanguageError(f"{reducer!r}: a state is a number or a tuple of numbers")
    return state


def numbers_in(value):
    """Return the numbers of a number or a tuple of numbers, () for another value."""
    numbers = value if isinstance(value, tuple) else (value,)
    return numbers if all(isinstance(v, Number) for v in numbers) else ()


def finished(lower, reducer, state):
    """Return the result of a state: a number or a tuple of numbers."""
    if reducer.finish is None:
        return unwrapped(state)
    return lower.inline(reducer.finish.portable_text, [unwrapped(state)])


def unwrapped(state):
    """Return a state in the form for a reducer's functions: a number, or a tuple of several."""
    return state[0] if len(state) == 1 else state
