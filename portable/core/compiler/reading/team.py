"""The team handle: the words that kernels have for it; and the steps of reducers."""

import ast
import functools

from ....errors import LanguageError
from ...language.reducer import Reducer, Sum
from ...language.team import Team
from ...texts import product
from .arrays import check_writable, describe, transposed
from .calls import dtype_of, static_shape
from .known import layers_own
from .tree import Operation, View, mapped, plain_tuple
from ...language.types import COMPLEX, UNIFORM, UNSIGNED, Complex, Known, Number, Record, is_float

ALIGN = 64
# fields of a tile, and dtypes of products
_TILE = "rows", "columns", "down", "right", "height", "width", "rows_at_once", "packs_at_once"
_FACTORS = "float32", "float64"
_MOST = 1 << 16  # elements of a tile: those of a thread's teams lie on its stack
_UNROLLED = 64  # elements of a member whose loops are unrolled on all machines
WORDS = [name for name in vars(Team) if not name.startswith("_")]


def widened(dtype):
    """Return the dtype in which contributions add up: floats as they are, integers and bools in 64
    bits."""
    if is_float(dtype):
        return dtype
    return "uint64" if dtype in UNSIGNED else "int64"


def aligned(n_bytes):
    """Return bytes up to the next place where an array of the team's may begin."""
    return -(-n_bytes // ALIGN) * ALIGN


class TeamHandle:
    """A team as a kernel's text sees it, of `size` members that have `registers` packs each; `warp_size` of
    them move together.

    tensor : tells whether the machine's tensor cores multiply float64 in the order of `product`
    """

    def __init__(self, size, registers, warp_size, tensor=None):
        self.size, self.registers, self.warp_size, self.tensor = size, registers, warp_size, tensor
        self.warps = warp_size == 32

    def __repr__(self):
        return f"a team of {self.size} members with {self.registers} registers"

    def attribute(self, build, node):
        if node.attr in ("league_rank", "league_size", "rank"):
            return build.operation(node.attr, dtype="int")
        if node.attr in ("size", "registers", "warp_size"):
            return build.const(getattr(self, node.attr))
        build.fail(node, f"the team has no '{node.attr}' ({', '.join(WORDS)})", LanguageError)

    def method(self, build, node):
        name = node.func.attr
        if name not in _CALLS:
            if name in ("thread_range", "elements"):
                build.fail(node, f"team.{name}(...) belongs in a for loop", LanguageError)
            self.attribute(build, node.func)
            build.fail(node, f"team.{name} is a number, not a function", LanguageError)
        return _CALLS[name](build, node)


def _together(build, node):
    """A collective is for all members at once (typing.py looks whether they all get here)."""
    build.operation("together", attr=node.func.attr, counts=f"team.{node.func.attr}")


def _barrier(build, node):
    _together(build, node)
    build.operation("barrier")
    return Known(None)


def _single(build, node):
    return build.compare("==", build.operation("rank", dtype="int"), build.const(0))


def _broadcast(build, node):
    _together(build, node)
    values = build.arguments(node, 1, 2, build.numeric)
    rank = build.number_of(values[1], node.args[1]) if len(values) == 2 else build.const(0)
    build.wanted(lambda: rank.kind == UNIFORM, node, "broadcast: the rank must be the same for all members")
    return mapped(lambda v: build.operation("broadcast", v, rank), values[0])


def _append(build, node):
    """append(view, at, value, keep): the values of the members that keep, side by side from view[at]
    on."""
    _together(build, node)
    view = build.expr(node.args[0]) if len(node.args) == 4 else None
    if not isinstance(view, View) or len(view.shape) != 1:
        build.fail(
            node,
            "append takes a view of one dimension, where to begin in it, a value, and whether to keep it",
        )
    check_writable(build, view, node)
    at, value, keep = (build.number(a) for a in node.args[1:])
    build.wanted(
        lambda: at.kind == UNIFORM and not is_float(at.dtype),
        node,
        "append: the place to begin must be an integer that is the same for all members",
    )
    build.writes()
    return build.binary(
        "+", at, build.operation("append", at, value, build.truth(keep), view=view, dtype="int")
    )


def _tally(build, node):
    """tally(view, index): one more in view[index], a whole number in scratch."""
    _together(build, node)
    view = build.expr(node.args[0]) if len(node.args) == 2 else None
    if (
        not isinstance(view, View)
        or view.dtype not in ("int32", "int64", "uint32", "uint64")
        or len(view.shape) != 1
        or not isinstance(view.shape[0], int)
        or view.lanes_last  # a member's own
    ):
        build.fail(
            node,
            "tally takes a view of 32 or 64-bit whole numbers that the team shares, of one dimension"
            " whose extent is known at compile time, and an index",
        )
    check_writable(build, view, node)
    index = build.number(node.args[1])
    build.wanted(lambda: not is_float(index.dtype), node, "tally: the index must be an integer")
    build.writes()
    return build.operation("tally", index, view=view, dtype=view.dtype)


def _contribution(build, node):
    """(reducer, state) of what reduce and scan are called with: a value, and a reducer if not Sum."""
    _together(build, node)
    parts = [build.expr(a) for a in node.args[:1]]
    others = node.args[1:] + [k.value for k in node.keywords if k.arg == "reducer"]
    if not parts or len(others) > 1 or any(k.arg != "reducer" for k in node.keywords):
        build.fail(node, f"{node.func.attr} takes a value and a reducer")
    reducer = getattr(build.expr(others[0]), "value", None) if others else Sum
    if not isinstance(reducer, Reducer):
        build.fail(node, f"`{ast.unparse(others[0])}` is not a reducer (pk.Sum, pk.Min, ...)")
    return reducer, [build.operation("settle", v) for v in _state(build, reducer, *parts, node)]


def _state(build, reducer, value, node):
    """Return the state of one contribution."""
    index = None
    if not isinstance(value, tuple):
        build.number_of(value, node.args[0])
    if reducer.with_index:
        if not plain_tuple(value) or len(value) != 2:
            build.fail(node, f"{reducer!r} in a team wants a tuple (value, index)")
        value, index = value
    if isinstance(value, Complex) and reducer is not Sum and not lifts_complex(reducer):
        build.fail(
            node,
            f"{reducer!r} takes no complex number; give it the parts z.real and z.imag by themselves",
        )
    state = lifted(build, reducer, value, index)
    if len(state) != reducer.n_words and not (reducer is Sum and isinstance(value, Complex)):
        build.fail(node, f"{reducer!r} has states of {reducer.n_words} number(s), got {len(state)}")
    return state


def _collective(op, build, node):
    """Return the result of a collective over members' states: `op` gives the numbers of one, of which the
    reducer makes its result."""
    reducer, state = _contribution(build, node)
    if len(state) == reducer.n_words:
        return _combined(build, op, reducer, state)
    return Record((_combined(build, op, reducer, [v]) for v in state), COMPLEX)


def _combined(build, op, reducer, state):
    whole = build.operation(op, *state, attr=reducer)
    return finished(build, reducer, tuple(build.operation("item", whole, attr=k) for k in range(len(state))))


def _scratch(build, node):
    if build.frame.caller is not None or build.depth > 1:
        build.fail(
            node, "scratch is called at the kernel's top level, before any loop or branch", LanguageError
        )
    if len(node.args) != 2 or node.keywords:
        build.fail(node, "scratch takes a shape and a dtype")
    dtype, shape = dtype_of(build, node.args[1]), build.expr(node.args[0])
    shape = list(shape) if isinstance(shape, tuple) else [shape]
    message = (
        f"the shape of scratch must be integers that all members share, got `{ast.unparse(node.args[0])}`"
    )
    for p in shape:
        if not isinstance(p, Operation):
            build.fail(node, message)
        build.wanted(lambda p=p: not is_float(p.dtype) and p.kind == UNIFORM, node, message)
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


# ---- products
def _tile(build, node):
    """Return an array that the members share out: of each its own elements."""
    team = build.expr(node.func.value)
    if len(node.args) != 2 or node.keywords:
        build.fail(node, "tile takes a shape and a dtype")
    (m, *n), dtype = static_shape(build, node.args[0], "tile"), dtype_of(build, node.args[1])
    if len(n) != 1 or dtype not in _FACTORS:
        build.fail(node, "tile takes two extents, and float32 or float64")
    share, numbers = _cut(team, m, *n)
    if m * n[0] > _MOST:
        build.fail(node, f"a tile has at most {_MOST:,} elements, got {m * n[0]:,}")
    tile = Record(map(build.const, numbers), _TILE)
    view = View(ast.unparse(node), dtype, [share], lanes_last=True, store="(local)", tile=tile)
    build.inline(product.clear.portable_text, [team, build.put(view)], node)
    return view


def _cut(team, m, n):
    """Return the number of a tile's elements that are a member's, and the error message of `product` for
    the rest."""
    height, width = (16, team.size // 4) if team.warps else (1, team.size)
    down, right = -(-m // height), -(-n // width)
    blocks = _divisor(down, 8 if team.registers > 16 else 4), _divisor(right, 3)
    return height * width // team.size * down * right, (
        m,
        n,
        down,
        right,
        down * height,
        right * width,
        *blocks,
    )


def _divisor(n, most):
    """Return the largest divisor of n up to `most`."""
    return max(d for d in range(1, most + 1) if n % d == 0)


def elements(build, call):
    """Return the items of a for loop over the elements of a tile, as `items_of` does."""
    team, (own,) = build.expr(call.func.value), build.arguments(call, 1, read=build.expr)
    if not getattr(own, "tile", ()):
        build.fail(call, f"elements takes a team.tile, got {describe(own)}")
    text = (product.place_of_warps if team.warps else product.place_of_lanes).portable_text
    n, unrolled = own.shape[0], team.warps or own.shape[0] <= _UNROLLED
    return build.const(n), lambda e: (e, *build.inline(text, [team, own.tile, e], call)), unrolled


def _product(build, node):
    """c += a b."""
    _together(build, node)
    team, (c, a, b) = build.expr(node.func.value), build.arguments(node, 3, read=build.expr)

    def refuse(why):
        build.fail(node, f"`{ast.unparse(node)}`: {why}")

    _check_product(build, refuse, c, a, b)
    _check_shapes(refuse, c, a, b)
    check_writable(build, c, node)
    if not c.tile:
        build.inline(product.into.portable_text, [team, c, a, b], node)
    else:
        tensor = c.dtype == "float64" and team.tensor and team.tensor()
        text = product.tensor if tensor else product.warps if team.warps else product.lanes
        build.inline(text.portable_text, [team, c, a, transposed(build, b)], node)
    return Known(None)


def _check_product(build, refuse, c, a, b):
    """Refuse what are no views of one dtype, and a result that is also read."""
    for v in (c, a, b):
        if not isinstance(v, View) or v.scatter or len(v.shape) != 2 and not (v is c and v.tile):
            refuse(f"views of two dimensions are wanted, or first a team.tile; got {describe(v)}")
    if c.dtype not in _FACTORS or not c.dtype == a.dtype == b.dtype:
        refuse(f"float32 or float64 alone is wanted, got {c.dtype}, {a.dtype} and {b.dtype}")
    if _root(c) in (_root(a), _root(b)):
        refuse(f"'{c.label}' is read and written")


def _check_shapes(refuse, c, a, b):
    """Refuse shapes that do not fit."""
    shape = [v.const for v in c.tile[:2]] or c.shape
    if not all(isinstance(n, int) for n in shape):
        refuse("the shape of a sum must be known at compile time; take a team.tile")
    for pair in zip((*shape, a.shape[1]), (a.shape[0], b.shape[1], b.shape[0])):
        if all(isinstance(n, int) for n in pair) and pair[0] != pair[1]:
            refuse(f"shapes do not fit, {pair[0]} and {pair[1]}")


def _root(view):
    return view if view.base is None else _root(view.base)


def _mma(build, node):
    """Return a step of the tensor cores: of a member's numbers those of c."""
    whole = build.operation("mma", *map(build.number, node.args))
    return tuple(build.operation("item", whole, attr=k) for k in range(4))


_CALLS = {
    "tile": _tile,
    "product": _product,
    "mma": _mma,
    "barrier": _barrier,
    "single": _single,
    "broadcast": _broadcast,
    "append": _append,
    "tally": _tally,
    "reduce": functools.partial(_collective, "combine"),
    "scan": functools.partial(_collective, "before"),
    "scratch": _scratch,
}


# ---- the steps of a reducer, for texts that are being built (`lower` builds) and for code that is being
# emitted (it emits)
def combine_states(lower, reducer, a, b):
    """combine(a, b) of a reducer, inlined; states are tuples of Values."""
    result = lower.inline(reducer.combine.portable_text, [unwrapped(a), unwrapped(b)])
    result = result if isinstance(result, tuple) else (result,)
    if len(result) != len(a) or not all(isinstance(v, Number) for v in result):
        raise LanguageError(
            f"{reducer!r}: combine ({reducer.combine.place}) must return a state of {len(a)} number(s)"
        )
    return tuple(lower.cast(r, x.dtype) for r, x in zip(result, a))


def lifts_complex(reducer):
    """Return True if a reducer's `lift`, which is not the layer's, may make a state of a complex number."""
    return reducer.lift is not None and not layers_own(reducer.lift.fn)


def lifted(lower, reducer, value, index):
    """Return the state of one contribution, a tuple of numbers."""
    if reducer.lift is not None:
        args = [value, index] if reducer.with_index else [value]
        value = lower.inline(reducer.lift.portable_text, args)
    state = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(v, Number) for v in state):
        raise LanguageError(f"{reducer!r}: a state is a number or a tuple of numbers")
    return state


def finished(lower, reducer, state):
    """Return the result of a state: a number or a tuple of numbers."""
    if reducer.finish is None:
        return unwrapped(state)
    return lower.inline(reducer.finish.portable_text, [unwrapped(state)])


def unwrapped(state):
    """Return a state as texts of reducers have it: a number, or a tuple of several."""
    return state[0] if len(state) == 1 else state
