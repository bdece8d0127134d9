"""Expressions of the kernel language, read into the typed tree."""

from __future__ import annotations

import ast
import functools
import math

import numpy as np

from ....errors import LanguageError
from ...language.frontend import MOST_TABLE, walk
from ...language import types as t
from .complexes import BINARY, chosen_complex, complex_compared, complex_operated
from .tree import Operation, View, mapped, plain_tuple
from ...language.types import UNIFORM, Known

_NO_INDEX = "`{}` is not an integer; indices are integers"
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def describe(v):
    if isinstance(v, View):
        return f"a view of {len(v.shape)} dimension(s) ('{v.label}')"
    if isinstance(v, t.Complex):
        return "a complex number"
    if isinstance(v, tuple):
        return f"a record of {', '.join(v.names)}" if getattr(v, "names", ()) else "a tuple"
    if isinstance(v, Operation):
        return "a number"
    if isinstance(v, Known):
        return f"{v.value!r}"
    return f"the {type(v).__name__.lower()}"


def read_constant(build, node):
    if node.value is None:
        return Known(None)
    if isinstance(node.value, (bool, int, float, complex)):
        return build.known(node.value, node)
    build.fail(
        node,
        f"{'a string' if isinstance(node.value, str) else repr(node.value)} is not supported in kernels",
        LanguageError,
    )


def read_name(build, node):
    if node.id in build.frame.text.webs:
        return build.read(node.id, node)
    scope = build.frame.text.scope
    if node.id not in scope:
        build.fail(node, f"'{node.id}' is not defined", LanguageError)
    return build.known(scope[node.id], node)


def array_table(build, array, node):
    """A view of an array from outside the kernel, whose numbers become part of the code."""
    if t.held(array.dtype.name) not in t.DTYPES or not 0 < array.nbytes <= MOST_TABLE:
        build.fail(
            node,
            f"`{ast.unparse(node)}` is an array from outside of {array.dtype} and {array.nbytes}"
            f" bytes; up to {MOST_TABLE} of numbers are a table of the kernel's; pass others as"
            " arguments",
            LanguageError,
        )
    numbers = array.ravel().view(t.PARTS.get(array.dtype.name, array.dtype))
    return made_table(build, node, array.dtype.name, array.shape, numbers.tolist())


def attribute_of(build, base, node):
    if isinstance(base, Known):
        if not hasattr(base.value, node.attr):
            build.fail(node, f"`{ast.unparse(node)}` does not exist", LanguageError)
        return build.known(getattr(base.value, node.attr), node)
    if isinstance(base, View):
        return view_attribute(build, base, node)
    if hasattr(base, "attribute"):
        return base.attribute(build, node)
    if node.attr in getattr(base, "names", ()):
        return base[base.names.index(node.attr)]
    build.fail(node, f"{describe(base)} has no attribute '{node.attr}' in kernels", LanguageError)


def view_attribute(build, view, node):
    if node.attr == "shape":
        return tuple(build.extent(n) for n in view.shape)
    if node.attr == "size":
        size = build.const(1)
        for n in view.shape:
            size = build.binary("*", size, build.extent(n))
        return size
    if node.attr == "ndim":
        return build.const(len(view.shape))
    if node.attr == "dtype":
        return Known(np.dtype(view.dtype))
    build.fail(
        node,
        f"views have no attribute '{node.attr}' in kernels (shape, size, ndim, dtype)",
        LanguageError,
    )


def operated(build, op, left, right, node):
    """`left op right`, of an expression or of an augmented assignment."""
    if isinstance(left, t.Complex) or isinstance(right, t.Complex):
        return complex_operated(build, op, left, right, node)
    if isinstance(op, ast.Pow):
        return powered(build, left, right, node)
    if type(op) not in BINARY:
        build.fail(node, f"the operator of `{ast.unparse(node)}` is not supported in kernels", LanguageError)
    return build.counted(BINARY[type(op)], build.binary(BINARY[type(op)], left, right))


def powered(build, base, exponent, node):
    n = exponent.const
    if base.const is not None and n is not None:
        base = base if t.is_float(base.dtype) or whole_power(base, exponent) else build.cast(base, "float")
        known = constant_power(build, base, exponent, node)
        if known is not None:
            return known
    if isinstance(n, int) and 0 <= n <= 64:
        result = None
        while n:
            if n & 1:
                result = base if result is None else build.counted("*", build.binary("*", result, base))
            n >>= 1
            base = build.counted("*", build.binary("*", base, base)) if n else base
        return result if result is not None else build.operation("one", base)
    if n == 0.5:
        return build.counted("sqrt", build.operation("intrinsic", base, attr="sqrt"))
    build.wanted(
        lambda: t.is_float(t.promote(base.dtype, exponent.dtype)),
        node,
        "an integer power needs a constant exponent between 0 and 64; cast to float for others",
    )
    return build.operation("math", base, exponent, attr=("pow", False))


def whole_power(base, exponent):
    """Whether a power of constants is of whole numbers, and whole."""
    return exponent.const >= 0 and not t.is_float(t.promote(base.dtype, exponent.dtype))


def constant_power(build, base, exponent, node):
    """A power of constants that is exact; None of others, which run time rounds."""
    a, n = base.const, exponent.const
    if not whole_power(base, exponent):
        mantissa, places = math.frexp(abs(a))  # of a power of two
        some = mantissa == 0.5 and float(n).is_integer() and -1075 < (places - 1) * n < 1024
        return build.strong_const(float(a) ** n, base.dtype) if some or n == 0 else None
    dtype = t.promote(base.dtype, exponent.dtype)
    if int(a).bit_length() * n > 128:
        build.fail(node, f"`{ast.unparse(node)}` is beyond every integer type")
    return build.strong_const(
        t.converted(a**n, dtype) if not t.is_weak(dtype) else int(a**n),
        "int" if dtype == "bool" else dtype,
    )


def read_unary(build, node):
    v = (
        build.numeric(node.operand)
        if isinstance(node.op, (ast.USub, ast.UAdd))
        else build.number(node.operand)
    )
    if isinstance(v, t.Complex):
        return mapped(build.negate, v) if isinstance(node.op, ast.USub) else v
    if isinstance(node.op, ast.Not):
        return build.logical_not(v)
    if isinstance(node.op, ast.USub):
        return build.counted("neg", build.negate(v))
    return build.counted("~", build.invert(v)) if isinstance(node.op, ast.Invert) else v


def read_comparison(build, node):
    if any(type(op) not in _COMPARE for op in node.ops):
        return identity_test(build, node)
    return linked(build, node, build.expr(node.left), 0)


def linked(build, node, a, k):
    """The chain of comparisons from its k-th on, whose left side is `a`: each operand once, and only if
    those before hold."""
    left, right, op = [node.left, *node.comparators][k], node.comparators[k], node.ops[k]
    b = build.expr(right)
    if isinstance(a, Known) or isinstance(b, Known):  # for example x.dtype == pk.float32
        holds = build.const(_equal(a, b) == isinstance(op, ast.Eq))
    elif isinstance(a, t.Complex) or isinstance(b, t.Complex):
        holds = complex_compared(build, _COMPARE[type(op)], a, b, node)
    else:
        holds = build.compared(_COMPARE[type(op)], build.number_of(a, left), build.number_of(b, right))
    rest = node.comparators[k + 1 :]
    return joined(build, True, holds, lambda: linked(build, node, b, k + 1), rest) if rest else holds


def identity_test(build, node):
    a, b = build.expr(node.left), build.expr(node.comparators[0])
    if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(b, Known):
        return build.const((isinstance(a, Known) and a.value is b.value) == isinstance(node.ops[0], ast.Is))
    build.fail(node, f"the comparison `{ast.unparse(node)}` is not supported in kernels", LanguageError)


def read_junction(build, node):
    """and/or give one of their operands, as in Python; the right one's memory accesses happen only where
    the left lets them."""
    conjunction = isinstance(node.op, ast.And)
    result = build.number(node.values[0])
    for part in node.values[1:]:
        result = joined(build, conjunction, result, lambda part=part: build.number(part), [part])
    return result


def joined(build, conjunction, left, evaluate, nodes):
    """`left and right` or `left or right`; `evaluate` gives the right side, of these nodes, where the
    left lets it."""
    c = build.truth(left)
    if c.const is not None:
        return build.rounded(evaluate() if c.const == conjunction else left)
    part = build.apart(evaluate)
    return build.operation(
        "junction", c, left, attr=(conjunction, any(map(_needs_branch, nodes))), parts=[part]
    )


def read_choice(build, node):
    c = build.condition(node.test)
    if c.const is not None:
        return mapped(build.rounded, build.expr(node.body if c.const else node.orelse))
    parts = [build.apart(lambda side=side: build.numeric(side)) for side in (node.body, node.orelse)]
    if any(isinstance(value, t.Complex) for _, value in parts):
        return chosen_complex(build, c, parts)
    return build.operation(
        "choice", c, attr=_needs_branch(node.body) or _needs_branch(node.orelse), parts=parts
    )


def read_subscript(build, node):
    base = build.expr(node.value)
    if plain_tuple(base):
        return tuple_item(build, base, node)
    view = view_of(build, base, node)
    items = indices_of(build, view, node)
    if len(items) == len(view.shape) and not any(isinstance(i, tuple) for i in items):
        return load_element(build, view, items)
    return part_of(build, view, items)


def load_element(build, view, items):
    if view.n_indices > len(items):
        return t.Record((load_element(build, view, [*items, build.const(k)]) for k in (0, 1)), t.COMPLEX)
    return build.operation(
        "load", *items, view=view, dtype=t.held(view.dtype), counts=f"load {view.store or view.label}"
    )


def part_of(build, view, items):
    """The view that remains after indices and slices of the leading dimensions."""
    part = View(view.label, view.dtype, [], view.readonly, False, view.lanes_last, view.store, view, items)
    sliced = [(k, item) for k, item in enumerate(items) if isinstance(item, tuple)]
    for d, (k, item) in enumerate(sliced):
        n = _static_extent(item, view.shape[k])
        if n is None:
            known = [v for v in (*item, view.shape[k]) if isinstance(v, Operation)]
            n = Operation("extent", known, attr=(part, d), dtype="int", kind=UNIFORM)
            build.order.append(n)  # it differs between lanes where a bound does
        part.shape.append(n)
    part.shape += view.shape[len(items) :]
    return build.put(part)


def made_table(build, node, dtype, shape, numbers):
    """A view of numbers that are known at compile time."""
    return build.put(
        View(ast.unparse(node), dtype, list(shape), readonly=True, store="(table)", data=tuple(numbers))
    )


def table_item(build, items, index, node):
    """The item of a tuple whose number an index has of its own: of numbers known at compile time, or of
    tuples of them."""
    if all(isinstance(v, tuple) and len(v) == len(items[0]) for v in items):
        return t.Record(
            (table_item(build, column, index, node) for column in zip(*items)),
            getattr(items[0], "names", ()),
        )
    if not items or not all(isinstance(v, Operation) and v.const is not None for v in items):
        build.fail(
            node,
            f"`{ast.unparse(node)}`: a tuple that is indexed by a variable holds numbers known at compile"
            " time",
        )
    build.wanted(
        lambda: not t.is_float(index.dtype),
        node,
        _NO_INDEX,
        node.slice,
    )
    dtype = functools.reduce(t.promote, (v.dtype for v in items))
    return load_element(
        build,
        made_table(build, node.value, dtype, [len(items)], [build.known_as(v, dtype) for v in items]),
        [index],
    )


def tuple_item(build, base, node):
    """One item of a tuple, or a part of it."""

    def constant(part):
        v = None if part is None else build.expr(part)
        if v is None or isinstance(v, Operation) and isinstance(v.const, int):
            return v and v.const
        build.fail(node, f"`{ast.unparse(node)}`: what part of a tuple is meant is known at compile time")

    if isinstance(node.slice, ast.Slice):
        return base[constant(node.slice.lower) : constant(node.slice.upper) : constant(node.slice.step)]
    number = build.number(node.slice)
    if number.const is None:
        return table_item(build, base, number, node)
    index = constant(node.slice)
    if not -len(base) <= index < len(base):
        build.fail(node, f"index {index} is outside a tuple of {len(base)}")
    return base[index]


def view_of(build, base, node):
    if not isinstance(base, View):
        build.fail(
            node,
            f"`{ast.unparse(node.value)}` is {describe(base)}; only views and tuples are indexed",
        )
    if base.scatter:
        build.fail(
            node, f"'{base.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub only"
        )
    return base


def indices_of(build, view, node):
    """The subscript's parts: numbers, or (lower, upper) of a slice, where None is an end."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) > len(view.shape):
        build.fail(
            node,
            f"'{view.label}' has {len(view.shape)} dimension(s), but {len(parts)} indices were given",
        )
    items = []
    for k, part in enumerate(parts):
        if isinstance(part, ast.Slice):
            if part.step is not None:
                build.fail(node, "a slice with a step is not supported in kernels", LanguageError)
            items.append(tuple(p and as_bound(build, p) for p in (part.lower, part.upper)))
            continue
        v = build.expr(part)
        if plain_tuple(v):
            items += v
        else:
            items.append(as_index(build, v, view, view.shape[k], part, node))
    return items


def as_index(build, v, view, extent, part, node):
    """A value as an index of a dimension of this extent, `part` of the subscript `node`."""
    if not isinstance(v, Operation):
        build.fail(node, _NO_INDEX.format(ast.unparse(part)))
    build.wanted(lambda: not t.is_float(v.dtype), node, _NO_INDEX, part)
    if v.const is not None and (v.const < 0 or isinstance(extent, int) and v.const >= extent):
        build.fail(
            node,
            f"index {v.const} is outside '{view.label}'; kernels count from 0 to the extent less one",
        )
    return v


def as_bound(build, node):
    """A bound of a slice."""
    v = build.number(node)
    build.wanted(
        lambda: not t.is_float(v.dtype),
        node,
        "`{}` is not an integer; the bounds of a slice are integers",
        node,
    )
    return v


def _needs_branch(node):
    """Whether one lane may evaluate an expression only where the text says so."""
    return any(isinstance(n, (ast.Subscript, ast.Call)) for n in walk(node))


def _static_extent(bounds, extent):
    """The extent of a slice if all of it is known here, or None."""
    if not isinstance(extent, int) or not all(b is None or isinstance(b.const, int) for b in bounds):
        return None
    return len(range(extent)[slice(*(b and int(b.const) for b in bounds))])


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
    ast.Attribute: lambda build, node: attribute_of(build, build.expr(node.value), node),
    ast.Tuple: lambda build, node: tuple(map(build.expr, node.elts)),
    ast.BinOp: lambda build, node: operated(
        build, node.op, build.numeric(node.left), build.numeric(node.right), node
    ),
    ast.UnaryOp: read_unary,
    ast.Compare: read_comparison,
    ast.BoolOp: read_junction,
    ast.IfExp: read_choice,
    ast.Subscript: read_subscript,
}
