"""Build expressions of the kernel language into the typed tree."""

import ast
import functools
import math

import numpy as np

from ... import registry
from ...language.frontend import MOST_TABLE
from .arrays import (
    Array,
    array_of,
    dot,
    elementwise,
    is_array,
    load_element,
    part_at,
    part_of,
    settled,
    stepped,
    transposed,
)
from .complexes import BINARY, complex_compared, complex_operated, repeated_product
from .operations import build
from .tree import (
    Block,
    If,
    Operation,
    Variable,
    View,
    equal_arrangements,
    arranged,
    arrangement,
    describe,
    flat,
    inside,
    mapped,
    plain_tuple,
)
from ...language.types import (
    DTYPES,
    PARTS,
    Complex,
    Known,
    Vector,
    complex_of,
    converted,
    is_float,
    is_weak,
    loaded_dtype,
    promote,
    vector,
)

_NO_INDEX = "`{}` is not an integer; indices are integers"
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def read_constant(node):
    if node.value is None:
        return Known(None)
    if isinstance(node.value, (bool, int, float, complex)):
        return build.python_value(node.value, node)
    what = "a string" if isinstance(node.value, str) else repr(node.value)
    hint = "; write math.inf, math.nan" * (str(node.value).strip("+-") in ("inf", "nan"))
    remedy = registry.part("remedies").of_name(type(node.value).__name__)
    build.refuse(node, f"{what} is not supported in kernels{hint or remedy}")


def read_name(node):
    if node.id in build.frame.text.webs:
        return build.read(node.id, node)
    scope = build.frame.text.scope
    if node.id not in scope:
        hint = registry.part("remedies").of_name(node.id)
        build.refuse(node, f"'{node.id}' is not defined; import it above the kernel, or pass it{hint}")
    return build.python_value(scope[node.id], node)


def array_table(array, node):
    """Return a view of an array from outside the kernel; its numbers become constants in the code."""
    if loaded_dtype(array.dtype.name) not in DTYPES or not 0 < array.nbytes <= MOST_TABLE:
        build.refuse(
            node,
            f"`{ast.unparse(node)}` is a global array of {array.dtype} and {array.nbytes} bytes;"
            f" expected numbers, at most {MOST_TABLE} bytes; pass other arrays as"
            " arguments",
        )
    numbers = array.ravel().view(PARTS.get(array.dtype.name, array.dtype))
    return made_table(node, array.dtype.name, array.shape, numbers.tolist())


def attribute_of(base, node):
    if isinstance(base, Known):
        if not hasattr(base.value, node.attr):
            hint = registry.part("remedies").of_name(node.attr, dir(base.value))
            build.refuse(node, f"`{ast.unparse(node)}` does not exist{hint}")
        return build.python_value(getattr(base.value, node.attr), node)
    if isinstance(base, (View, Array, Vector)):
        return view_attribute(array_of(base) if isinstance(base, Vector) else base, node)
    if hasattr(base, "attribute"):
        return base.attribute(node)
    if node.attr in getattr(base, "names", ()):
        return base[base.names.index(node.attr)]
    hint = registry.part("remedies").of_name(node.attr)
    build.refuse(node, f"{describe(base)} has no attribute '{node.attr}' in kernels{hint}")


def view_attribute(view, node):
    if node.attr == "shape":
        return tuple(build.operands(*view.shape))
    if node.attr == "size":
        size = build.const(1)
        for n in view.shape:
            size = build.binary("*", size, n)
        return size
    if node.attr == "ndim":
        return build.const(view.ndim)
    if node.attr == "T":
        return transposed(view)
    if node.attr == "tile" and view.tile:
        return view.tile
    if node.attr == "dtype":
        return Known(np.dtype(view.dtype))
    build.refuse(
        node,
        f"views have no attribute '{node.attr}' in kernels (shape, size, ndim, dtype, T, sum(), min(),"
        " max())",
    )


def operated(op, left, right, node):
    """Return `left op right` in an expression or an augmented assignment."""
    if isinstance(op, ast.MatMult):
        return dot(left, right, node)
    if is_array(left) or is_array(right):
        return elementwise(lambda a, b: operated(op, a, b, node), node, left, right)
    sides = (node.target, node.value) if isinstance(node, ast.AugAssign) else (node.left, node.right)
    left, right = map(build.checked_number, (left, right), sides)
    if isinstance(left, Complex) or isinstance(right, Complex):
        return complex_operated(op, left, right, node)
    if isinstance(op, ast.Pow):
        return powered(left, right, node)
    if type(op) not in BINARY:
        build.refuse(node, f"the operator of `{ast.unparse(node)}` is not supported in kernels")
    return build.counted(BINARY[type(op)], build.binary(BINARY[type(op)], left, right))


def powered(base, exponent, node):
    n = exponent.const
    if base.const is not None and n is not None:
        base = base if is_float(base.dtype) or whole_power(base, exponent) else build.cast(base, "float")
        known = constant_power(base, exponent, node)
        if known is not None:
            return known
    if isinstance(n, int) and 0 <= n <= 64:
        result = repeated_product(base, n, lambda x, y: build.counted("*", build.binary("*", x, y)))
        return build.operation("one", base) if result is None else result
    if n == 0.5:
        return build.intrinsic("sqrt", base)
    build.check_when_typed(
        lambda: is_float(promote(base.dtype, exponent.dtype)),
        node,
        "an integer power needs a constant exponent between 0 and 64; cast to float for others",
    )
    return build.operation("math", base, exponent, attr=("pow", False))


def whole_power(base, exponent):
    """Return True if a power of constants has integer operands and an integer value."""
    return exponent.const >= 0 and not is_float(promote(base.dtype, exponent.dtype))


def constant_power(base, exponent, node):
    """Return a power of constants if it is exact; None for others, which are computed at run time."""
    a, n = base.const, exponent.const
    if not whole_power(base, exponent):
        mantissa, places = math.frexp(abs(a))  # mantissa 0.5: a power of two
        some = mantissa == 0.5 and float(n).is_integer() and -1075 < (places - 1) * n < 1024
        return build.strong_const(float(a) ** n, base.dtype) if some or n == 0 else None
    dtype = promote(base.dtype, exponent.dtype)
    if int(a).bit_length() * n > 128:
        build.fail(node, f"`{ast.unparse(node)}` is beyond every integer type")
    return build.strong_const(
        converted(a**n, dtype) if not is_weak(dtype) else int(a**n), "int" if dtype == "bool" else dtype
    )


def read_unary(node):
    signed, v = isinstance(node.op, (ast.USub, ast.UAdd)), build.expr(node.operand)
    if signed and is_array(v):
        return elementwise(lambda v: signed_as(node.op, v), node, v)
    if signed:
        return signed_as(node.op, build.checked_number(v, node.operand))
    v = build.number_of(v, node.operand)
    if isinstance(node.op, ast.Not):
        return build.logical_not(v)
    return build.counted("~", build.invert(v))


def signed_as(op, v):
    """Return `-v` or `+v`."""
    if isinstance(op, ast.UAdd):
        return v
    return mapped(build.negate, v) if isinstance(v, Complex) else build.counted("neg", build.negate(v))


def read_comparison(node):
    if any(type(op) not in _COMPARE for op in node.ops):
        return identity_test(node)
    return linked(node, build.expr(node.left), 0)


def linked(node, a, k):
    """Return a chain of comparisons from the k-th on, whose left operand is `a`: each operand is evaluated
    once, and only if the preceding comparisons hold."""
    left, right, op = [node.left, *node.comparators][k], node.comparators[k], node.ops[k]
    b = build.expr(right)
    equality = isinstance(op, (ast.Eq, ast.NotEq))
    if equality and (isinstance(a, Known) or isinstance(b, Known)):  # for example x.dtype == pk.float32
        holds = build.const(_equal(a, b) == isinstance(op, ast.Eq))
    elif isinstance(a, Complex) or isinstance(b, Complex):
        holds = complex_compared(_COMPARE[type(op)], a, b, node)
    else:
        holds = build.compared(_COMPARE[type(op)], build.number_of(a, left), build.number_of(b, right))
    rest = node.comparators[k + 1 :]
    return joined(True, holds, lambda: linked(node, b, k + 1), node) if rest else holds


def identity_test(node):
    a, b = build.expr(node.left), build.expr(node.comparators[0])
    if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(b, Known):
        return build.const((isinstance(a, Known) and a.value is b.value) == isinstance(node.ops[0], ast.Is))
    hint = "; write `a == b or a == c`" * isinstance(node.ops[0], (ast.In, ast.NotIn))
    build.refuse(node, f"the comparison `{ast.unparse(node)}` is not supported in kernels{hint}")


def read_junction(node):
    """Build `and` or `or`, whose value is one of the operands, as in Python; memory accesses of the right one
    happen only if it is evaluated."""
    conjunction = isinstance(node.op, ast.And)
    result = build.number(node.values[0])
    for part in node.values[1:]:
        result = joined(conjunction, result, functools.partial(build.number, part), node)
    return result


def joined(conjunction, left, evaluate, node):
    """Return `left and right` or `left or right`; `evaluate` builds the right operand, which is evaluated
    only if the left one does not decide."""
    c = build.truth(left)
    if c.const is not None:
        return build.rounded(evaluate() if c.const == conjunction else left)
    sides = evaluate, lambda: left
    return chosen(c, sides if conjunction else sides[::-1], node)


def read_choice(node):
    c = build.condition(node.test)
    if c.const is not None:
        return mapped(build.rounded, build.expr(node.body if c.const else node.orelse))
    return chosen(c, [functools.partial(_numbers, side) for side in (node.body, node.orelse)], node)


def chosen(condition, sides, node):
    """Return the number, or the tuple of numbers, that one of two functions builds: a condition chooses which
    is evaluated."""
    home, values = build.block, []
    branch = build.put(If(condition, Block(home), Block(home), (False, False), choice=True))
    for build.block, side in zip(inside(branch), sides):
        values.append(side())
    if Complex in map(type, values):
        values = [complex_of(build.parts(v)) for v in values]
    if not equal_arrangements(*map(arrangement, values)):
        build.fail(
            node,
            f"`{ast.unparse(node)}` is {' or '.join(map(describe, values))}; both sides have as many numbers",
        )
    variables = mapped(lambda _: Variable("the choice"), values[0])
    # lanes of the second side need not keep what the first assigns
    for build.block, value, begin in zip(inside(branch), values, (branch.then, home)):
        build.set(variables, value, begin)
    build.block = home
    return mapped(lambda variable: build.operation("get", attr=variable), variables)


def _numbers(node):
    """Return the value of an expression; raise LoweringError unless it is a number or a tuple of numbers."""
    v = settled(build.expr(node), node)
    whole = isinstance(v, tuple) and all(isinstance(part, Operation) for part in flat(v))
    return v if whole else build.checked_number(v, node)


def read_subscript(node):
    base = build.expr(node.value)
    if plain_tuple(base):
        return tuple_item(base, node)
    element = element_of(base, node)
    return load_element(*element) if plain_tuple(element) else element


def element_of(base, node):
    """Return the object that a subscript of an array denotes: (view, indices) of an element, the view of a
    part, an Array, or the number in an array expression."""
    if isinstance(base, Array):
        return of_array(base, node)
    view = view_of(base, node)
    items = indices_of(view, node)
    slices = [i for i in items if isinstance(i, tuple)]
    if len(items) == view.ndim and not slices:
        return view, items
    if any(i[2:] for i in slices):
        return stepped(view, items, node)
    return part_of(view, items)


def of_array(array, node):
    """Return an element, or the part at indices of the leading dimensions, of a reindexed view or an array
    expression."""
    items = indices_of(array, node)
    if any(isinstance(i, tuple) for i in items):
        build.refuse(node, f"`{ast.unparse(node)}`: take the slice first, then `.T` or a step")
    if len(items) < array.ndim:
        return part_at(array, items)
    return array.place(items) if array.place else array.item(items)


def made_table(node, dtype, shape, numbers):
    """Return a view of numbers known at compile time."""
    return build.put(
        View(ast.unparse(node), dtype, list(shape), readonly=True, store="(table)", data=tuple(numbers))
    )


def item_at(items, index, node):
    """Return the item of a tuple at an index."""
    k, n = index.const, len(items)
    if k is None:
        return table_item(items, index, node)
    if not isinstance(k, int) or not -n <= k < n:
        build.fail(node, f"index {k} is outside the {n} of `{ast.unparse(getattr(node, 'value', node))}`")
    return items[k]


def table_item(items, index, node):
    """Return the item of a tuple at an index that may differ between lanes; the items are numbers, or tuples
    of numbers."""
    numbers = [flat(v) for v in items]
    if not all(isinstance(v, Operation) for v in sum(numbers, [index])) or not all(
        equal_arrangements(arrangement(v), arrangement(items[0])) for v in items
    ):
        build.fail(
            node,
            f"`{ast.unparse(node)}`: a tuple that is indexed by a variable holds numbers, or tuples of as"
            " many; `for v in t`, or an index of range(pk.static(len(t))), takes any",
        )
    build.check_when_typed(lambda: not is_float(index.dtype), node, _NO_INDEX, getattr(node, "slice", node))
    base = node.value if isinstance(node, ast.Subscript) else node
    if isinstance(items, Vector) or any(v.const is None for v in sum(numbers, [])):
        return build.chosen(items, index)

    def column(values):
        dtype = functools.reduce(promote, (v.dtype for v in values))
        values = [build.known_as(v, dtype) for v in values]
        return load_element(made_table(base, dtype, [len(items)], values), [index])

    return arranged(items[0], map(column, zip(*numbers)))


def tuple_item(base, node, parts=None):
    """Return an item or a slice of a tuple; a matrix is indexed one dimension after the other."""
    first, *rest = parts or _subscripts(node)
    if not plain_tuple(base) or rest and not isinstance(base, Vector):
        build.fail(
            node, f"`{ast.unparse(node)}` has more indices than `{ast.unparse(node.value)}` dimensions"
        )

    if isinstance(first, ast.Slice):
        items = base[slice(*(_constant(p, node) for p in (first.lower, first.upper, first.step)))]
        items = [tuple_item(item, node, rest) for item in items] if rest else items
        return vector(items) if isinstance(base, Vector) else items
    item = item_at(base, build.number(first), node)
    return tuple_item(item, node, rest) if rest else item


def _constant(part, node):
    """Return an integer that is known at compile time, or None for an absent bound."""
    v = None if part is None else build.expr(part)
    if v is None or isinstance(v, Operation) and isinstance(v.const, int):
        return v and v.const
    build.fail(node, f"`{ast.unparse(node)}`: what part of a tuple is meant is known at compile time")


def view_of(base, node):
    if not isinstance(base, View):
        build.fail(
            node, f"`{ast.unparse(node.value)}` is {describe(base)}; only views and tuples are indexed"
        )
    if base.scatter:
        build.fail(
            node, f"'{base.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub only"
        )
    return base


def _subscripts(node):
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def indices_of(view, node):
    """Return the parts of a subscript: numbers, or (lower, upper) of a slice with None for an end of the
    dimension; with a step other than 1, (lower, upper, step)."""
    parts = _subscripts(node)
    if len(parts) > view.ndim:
        build.fail(node, f"'{view.label}' has {view.ndim} dimension(s), but {len(parts)} indices were given")
    items = []
    for k, part in enumerate(parts):
        if isinstance(part, ast.Slice):
            bounds = tuple(p and as_bound(p) for p in (part.lower, part.upper))
            step = part.step and as_bound(part.step).const
            if part.step and not (isinstance(step, int) and step):
                build.refuse(node, "the step of a slice must be a nonzero constant")
            items.append(bounds if step in (None, 1) else (*bounds, int(step)))
            continue
        v = build.expr(part)
        if plain_tuple(v) and not isinstance(v, Vector):
            items += v
        else:
            items.append(as_index(v, view, view.shape[k], part, node))
    return items


def as_index(v, view, extent, part, node):
    """Return a value after checking it as an index of a dimension of this extent; `part` is its node in the
    subscript `node`."""
    if not isinstance(v, Operation):
        team = "; a kernel of an index is launched over a range, one of a team has team.league_rank"
        build.fail(node, _NO_INDEX.format(ast.unparse(part)) + team * hasattr(v, "warp_size"))
    build.check_when_typed(lambda: not is_float(v.dtype), node, _NO_INDEX, part)
    if v.const is not None and (v.const < 0 or isinstance(extent, int) and v.const >= extent):
        build.fail(
            node, f"index {v.const} is outside '{view.label}'; kernels count from 0 to the extent less one"
        )
    return v


def as_bound(node):
    """Return the value of a slice's bound."""
    v = build.number(node)
    build.check_when_typed(
        lambda: not is_float(v.dtype),
        node,
        "`{}` is not an integer; the bounds of a slice are integers",
        node,
    )
    return v


def _equal(a, b):
    if not (isinstance(a, Known) and isinstance(b, Known)):
        return False
    try:
        return np.dtype(a.value) == np.dtype(b.value)
    except TypeError:
        return a.value is b.value


EXPRESSIONS = {
    ast.Constant: read_constant,
    ast.Name: read_name,
    ast.Attribute: lambda node: attribute_of(build.expr(node.value), node),
    ast.Tuple: lambda node: tuple(map(build.expr, node.elts)),
    ast.BinOp: lambda node: operated(node.op, build.expr(node.left), build.expr(node.right), node),
    ast.UnaryOp: read_unary,
    ast.Compare: read_comparison,
    ast.BoolOp: read_junction,
    ast.IfExp: read_choice,
    ast.Subscript: read_subscript,
}
