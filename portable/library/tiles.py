"""The words of a team's tiles, read into the typed tree: they call functions of product.py."""

import ast

from ..core.compiler.reading.arrays import check_writable, transposed
from ..core.compiler.reading.calls import dtype_of, static_shape
from ..core.compiler.reading.operations import build
from ..core.compiler.reading.team import note_collective
from ..core.compiler.reading.tree import View, describe
from ..core.language.types import Known, Record
from .texts import product

# fields of a tile, and dtypes of products
_TILE = "rows columns down right height width rows_at_once packs_at_once".split()
_FACTORS = "float32", "float64"
_MOST = 1 << 16  # elements of a tile: those of a thread's teams lie on its stack
_UNROLLED = 64  # elements per member up to which loops are unrolled on all machines


def _tile(node):
    """Return an array that is divided among the members: each holds its private elements."""
    team = build.expr(node.func.value)
    if len(node.args) != 2 or node.keywords:
        build.fail(node, "tile takes a shape and a dtype")
    (m, *n), dtype = static_shape(node.args[0], "tile"), dtype_of(node.args[1])
    if len(n) != 1 or dtype not in _FACTORS:
        build.fail(node, "tile takes two extents, and float32 or float64")
    share, numbers = _cut(team, dtype, m, *n)
    if m * n[0] > _MOST:
        build.fail(node, f"a tile has at most {_MOST:,} elements, got {m * n[0]:,}")
    tile = Record(map(build.const, numbers), _TILE)
    view = View(ast.unparse(node), dtype, [share], lanes_last=True, store="(local)", tile=tile)
    build.inline(product.clear.portable_text, [team, build.put(view)], node)
    return view


def _cut(team, dtype, m, n):
    """Return the number of a tile's elements that are a member's, and the numbers of _TILE."""
    height, width = (16, team.size // 4) if team.warps else (1, team.size)
    if team.warps and dtype == "float32" and not n % (2 * width):
        height, width = 8, 2 * width
    down, right = -(-m // height), -(-n // width)
    return height * width // team.size * down * right, (
        m,
        n,
        down,
        right,
        down * height,
        right * width,
        *map(_divisor, (down, right), (8, 3) if team.registers > 16 else (6, 1)),
    )


def _divisor(n, most):
    """Return the largest divisor of n up to `most`."""
    return max(d for d in range(1, most + 1) if n % d == 0)


def elements(call):
    """Return the items of a for loop over the elements of a tile, as `items_of` does."""
    team, (own,) = build.expr(call.func.value), build.arguments(call, 1, read=build.expr)
    if not getattr(own, "tile", ()):
        build.fail(call, f"elements takes a team.tile, got {describe(own)}")
    text = (product.place_of_warps if team.warps else product.place_of_lanes).portable_text
    n = own.shape[0]
    unrolled = team.warps or n <= _UNROLLED
    return build.const(n), lambda e: (e, *build.inline(text, [team, own.tile, e], call)), unrolled


def _product(node):
    """Emit c += a b."""
    note_collective(node)
    team, (c, a, b) = build.expr(node.func.value), build.arguments(node, 3, read=build.expr)

    def refuse(why):
        build.fail(node, f"`{ast.unparse(node)}`: {why}")

    _check_product(refuse, c, a, b)
    _check_shapes(refuse, c, a, b)
    check_writable(c, node)
    if not c.tile:
        build.inline(product.product_into.portable_text, [team, c, a, b], node)
    else:
        tensor = c.dtype == "float64" and team.tensor and team.tensor()
        text = product.tensor if tensor else product.warps if team.warps else product.lanes
        build.inline(text.portable_text, [team, c, a, transposed(b)], node)
    return Known(None)


def _check_product(refuse, c, a, b):
    """Refuse arguments that are not views of one dtype, and a result that is also an input."""
    for v in (c, a, b):
        if not isinstance(v, View) or v.scatter or len(v.shape) != 2 and not (v is c and v.tile):
            refuse(f"expected views of two dimensions, or a team.tile as result; got {describe(v)}")
    if c.dtype not in _FACTORS or not c.dtype == a.dtype == b.dtype:
        refuse(f"expected only float32 or float64, got {c.dtype}, {a.dtype} and {b.dtype}")
    if _root(c) in (_root(a), _root(b)):
        refuse(f"'{c.label}' is the result and a factor")


def _check_shapes(refuse, c, a, b):
    """Refuse shapes that do not fit."""
    shape = [v.const for v in c.tile[:2]] or c.shape
    if not all(isinstance(n, int) for n in shape):
        refuse("the shape of a sum must be known at compile time; take a team.tile")
    for m, n in zip((*shape, a.shape[1]), (a.shape[0], b.shape[1], b.shape[0])):
        if type(m) is type(n) is int and m != n:
            refuse(f"extents do not match: {m} and {n}")


def _root(view):
    return view if view.base is None else _root(view.base)


def _mma(node):
    """Return a step of the tensor cores: of a member's numbers those of c."""
    whole = build.operation("mma", *map(build.number, node.args))
    return tuple(build.operation("item", whole, attr=k) for k in range(4))


CALLS = {"tile": _tile, "product": _product, "mma": _mma}
