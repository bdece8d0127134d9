"""Build calls in kernels into the typed tree: casts, math, atomics and the other words, and inlined
functions.

A row of `words.ROWS` names the function in `WORDS` that builds a call of its word.
"""

import ast
import functools
import math

import numpy as np

from ...texts import elementary_complex
from ...language import words
from ... import registry
from . import foreign, expressions
from ...language.types import (
    BITS,
    HELD,
    PARTS,
    STORED,
    Complex,
    Known,
    Record,
    complex_of,
    fields_of,
    is_float,
    part,
)
from .arrays import (
    REDUCTIONS,
    array_of,
    assign_array,
    check_writable,
    dot,
    elementwise,
    is_array,
    part_of,
    read_vector,
    reshaped,
    settled,
    total,
)
from .complexes import conjugated, read_complex
from .expressions import attribute_of, powered
from .callables import CASTS, layers_own, text_of
from .operations import build
from .tree import Operation, View, describe, flat, plain_tuple

_TO_NUMBA = (
    "a number (numba's functions take no views from kernels; pk.function({}) reads the text by the layer's"
    " rules, and takes them)"
)
# bytes of the private arrays of one index: a thread's stack holds those of several packs
MOST_PRIVATE = 1 << 15


def read_call(node):
    if isinstance(node.func, ast.Attribute):
        base = build.expr(node.func.value)
        method = method_of(base, node)
        if method:
            return method()
        callee = attribute_of(base, node.func)
    else:
        callee = build.expr(node.func)
    if not isinstance(callee, Known):
        hint = "; an element is x[i]" * is_array(callee)
        build.refuse(node, f"`{ast.unparse(node.func)}` is {describe(callee)} and cannot be called{hint}")
    if fields := fields_of(callee.value):
        return Record(arguments_of(fields, node), fields.params)
    return call_known(callee.value, node)


def method_of(base, node):
    """Return a function that builds a method call on a value; None for a function of a module."""
    name = node.func.attr
    if hasattr(base, "method"):
        return lambda: base.method(node)
    if isinstance(base, Complex) and name == "conjugate" and not node.args:
        return lambda: conjugated(base)
    if name == "_replace" and getattr(base, "names", ()):
        return lambda: replaced(base, node)
    if is_array(base) and name in REDUCTIONS and not (node.args or node.keywords):
        return lambda: total(base, name, node)
    if is_array(base) and name == "reshape" and not node.keywords:
        return lambda: reshaped(base, [n for a in node.args for n in flat(build.expr(a))], node)
    if is_array(base):
        build.refuse(
            node,
            f"`{ast.unparse(node)}` cannot be called in a kernel; views have .sum(), .min(), .max() of all"
            " elements and .reshape(...)",
        )
    return None


def replaced(record, node):
    """Return the result of `record._replace(field=...)`."""
    given = {k.arg: settled(build.expr(k.value), k.value) for k in node.keywords}
    if node.args or not given.keys() <= {*record.names}:
        build.fail(node, f"_replace takes fields of {', '.join(record.names)}, by their names")
    return Record(map(given.get, record.names, record), record.names)


def call_known(fn, node):
    word = words.row_of_word(fn)
    fn = word.plain if word else fn
    inlined = getattr(fn, "portable_text", None)
    if inlined is None and (word.reads[0] == "inline" if word else layers_own(fn)):
        inlined = text_of(fn)
    if node.keywords and inlined is None:
        build.refuse(
            node,
            f"`{ast.unparse(node)}`: keyword arguments are for functions marked with @pk.function;"
            " others take positions",
        )
    if word and inlined is None:
        return read_word(node, *word.reads)
    if inlined is not None:
        return call_text(fn, inlined, node, word and word.reads == ("inline",))
    if foreign.compiled(fn):
        return call_foreign(
            foreign.call_of(fn), [build.number(a, _TO_NUMBA.format(fn.__name__)) for a in node.args]
        )
    hint = registry.part("remedies").of_call(fn, ast.unparse(node.func))
    build.refuse(node, f"`{ast.unparse(node.func)}` cannot be called in a kernel{hint}")


# words for numbers, which act on arrays element by element
_BY_ELEMENT = set("math intrinsic abs extreme where cast pow conjugate".split())


def read_word(node, how, *more):
    """Return the result of a call of a word, built by the method of its row; for arrays, element by
    element."""
    if how not in _BY_ELEMENT:
        return WORDS[how](node, *more)
    values = [build.expr(a) for a in node.args]
    if how == "extreme" and len(values) == 1:
        return total(values[0], "min" if more[0] == "<" else "max", node, more[1])

    def of(*values):
        outer, build.given = build.given, build.given | dict(zip(node.args, values))
        result = WORDS[how](node, *more)
        build.given = outer
        return result

    return elementwise(of, node, *values) if any(map(is_array, values)) else of(*values)


def call_text(fn, text, node, by_element):
    """Return the result of an inlined function; `by_element`: the function is for numbers, and maps arrays to
    arrays."""
    args = arguments_of(text, node)
    if by_element and any(map(is_array, args)):
        return elementwise(lambda *parts: build.inline(text, parts, node), node, *args)
    if getattr(fn, "chain", False):
        build.chains += [a for a in args if isinstance(a, Operation)]
    return build.inline(text, args, node)


def call_foreign(callee, args):
    """Return a call of a function that numba compiles (numba/calls.py); numba infers the dtypes of its
    results."""
    call = build.operation("foreign", *args, attr=callee)
    n = callee.n_results
    if n is None:
        return call
    return tuple(build.operation("part", call, attr=k) for k in range(n)) or Known(None)


def defaults(text, node):
    """Return a dict of the default values of the last parameters, by name."""
    names = text.params[len(text.params) - len(text.defaults) :]
    return {name: build.python_value(value, node) for name, value in zip(names, text.defaults)}


def arguments_of(text, node):
    """Return the arguments of a call, in the order of the parameters, with defaults for the missing ones."""
    given, params = [(k.arg, k.value) for k in node.keywords], text.params
    for k, (name, _) in enumerate(given):
        if name not in params[len(node.args) :] or name in dict(given[:k]):
            build.refuse(node, f"'{text.name}' has no parameter '{name}', or got it twice")
    values = [*zip(params, node.args), *given]
    values = {name: settled(build.expr(value), value) for name, value in values}
    values = defaults(text, node) | values
    if len(values) != len(params) or len(node.args) > len(params):
        optional = len(text.defaults)
        wanted = f"{len(params) - optional} to " * bool(optional) + str(len(params))
        build.fail(
            node,
            f"'{text.name}' takes {wanted} argument(s) ({', '.join(params)}), but"
            f" {len(node.args) + len(given)} were given",
        )
    return [values[name] for name in params]


def read_static(node):
    (v,) = build.arguments(node, 1, read=build.expr)
    if not isinstance(v, Known) and getattr(v, "const", None) is None:
        build.fail(
            node,
            f"`{ast.unparse(node.args[0])}` is not known at compile time; pk.static wants a constant, "
            "or a kernel argument that was passed as pk.static(value)",
        )
    return v


def converted(v, dtype):
    return v if v.dtype == dtype else build.counted("convert", build.cast(v, dtype))


def read_where(node):
    c, a, b = build.arguments(node, 3, read=build.numeric)
    c = build.truth(build.number_of(c, node.args[0]))
    if isinstance(a, Complex) or isinstance(b, Complex):
        return complex_of(
            build.counted("select", build.select(c, x, y)) for x, y in zip(build.parts(a), build.parts(b))
        )
    return build.counted("select", build.select(c, a, b))


def read_extreme(node, op, nan_wins):
    values = build.arguments(node, 2, 64)
    result = values[0]
    for v in values[1:]:
        result = build.counted("min" if op == "<" else "max", build.extreme(op, result, v, nan_wins))
    return result


def read_abs(node):
    (v,) = build.arguments(node, 1, read=build.numeric)
    if isinstance(v, Complex):
        return build.operation("math", *v, attr=("hypot", False))
    if v.const is not None:
        return build.strong_const(abs(v.const), "int" if v.dtype == "bool" else v.dtype)
    return build.counted("abs", build.operation("abs", v))


def read_len(node):
    v = build.expr(node.args[0]) if len(node.args) == 1 else None
    if plain_tuple(v):
        return build.const(len(v))
    if is_array(v):
        return build.operands(v.shape[0])[0]
    build.fail(node, "len wants one view or tuple")


def read_lanes(node, which):
    """Build a call of `any` or `all` over the lanes that execute together."""
    (c,) = build.arguments(node, 1)
    c = build.truth(c)
    return c if c.const is not None else build.operation("lanes", c, attr=which, dtype="bool")


def read_bits(node):
    (v,) = build.arguments(node, 1)
    build.check_when_typed(lambda: is_float(v.dtype), node, "bits wants a float")
    return build.operation("bits", v)


def read_math(node, name, n, fast=False):
    values = build.arguments(node, n, read=build.numeric if name == "exp" else None)
    if isinstance(values[0], Complex):
        return build.inline(text_of(elementary_complex.exponential), values, node)
    return build.operation("math", *values, attr=(name, fast))


def read_atomic(node, op):
    n = 4 if op == "cas" else 3
    if len(node.args) != n:
        build.fail(
            node,
            f"`{ast.unparse(node.func)}` takes {n} arguments (view, index, ...), but {len(node.args)}"
            " were given",
        )
    view, indices = atomic_element(node)
    unused = build.unused is node  # the call is the whole statement, not an argument in it
    row = len(indices) < view.ndim
    check_atomic(view, op, unused, row, node)
    step = functools.partial(atomic_step, op, unused)
    if row:
        target = array_of(part_of(view, indices))
        return assign_array(target, build.expr(node.args[2]), node, store=step)
    value, *more = map(build.numeric, node.args[2:])
    return step(view, indices, value, node, *more)


def check_atomic(view, op, unused, row, node):
    """Raise LoweringError for an atomic that is not defined for a view's elements or rows."""
    summed = op in ("add", "sub") and unused
    if view.dtype in ("bool", *HELD) or op in ("and", "or", "xor") and is_float(view.dtype):
        build.fail(
            node,
            f"atomic_{op} is not defined for {view.dtype}; an int32 array counts, a float32 or float64 one"
            " sums",
        )
    if not summed and (view.dtype in PARTS or row):
        build.fail(
            node,
            f"`{ast.unparse(node)}`: rows and complex numbers are added and subtracted, number by number, by"
            " a statement that looks at no old value",
        )
    if view.scatter and not summed:
        build.fail(
            node,
            f"'{view.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub, whose"
            " result nobody sees",
        )


def atomic_step(op, unused, view, items, value, node, *more):
    """Build an atomic on an element, or on each part of a complex one, and return its result."""
    if view.n_indices > len(items):
        for k, number in enumerate(build.parts(value)):
            atomic_step(op, unused, view, [*items, k], number, node)
        return None
    build.writes()
    return build.operation(
        "atomic",
        *items,
        build.number_of(value, node),
        *more,
        attr=(op, not unused),
        view=view,
        dtype=part(view.dtype),
        counts=f"atomic {op} {view.store or view.label}",
    )


def atomic_element(node):
    """Return (view, indices) of the element that an atomic changes."""
    view = build.expr(node.args[0])
    if not isinstance(view, View):
        build.fail(node, f"`{ast.unparse(node.args[0])}` is {describe(view)}; atomics work on views")
    check_writable(view, node)
    index = build.expr(node.args[1])
    indices = index if isinstance(index, tuple) else (index,)
    if len(indices) > view.ndim or not all(isinstance(i, Operation) for i in indices):
        build.fail(node, f"'{view.label}' has {view.ndim} dimension(s); its index is as many integers")
    for index, extent in zip(indices, view.shape):
        expressions.as_index(index, view, extent, node.args[1], node)
    return view, indices


def read_local(node):
    if len(node.args) != 2:
        build.fail(node, "local takes a shape and a dtype")
    shape = static_shape(node.args[0], "local")
    return private_array(shape, dtype_of(node.args[1]), node)


def private_array(shape, dtype, node):
    """Return an array private to each lane; the lane is its last, contiguous index."""
    build.private_bytes += math.prod(shape) * (BITS[dtype] // 8 or 1)
    if build.private_bytes > MOST_PRIVATE:
        build.fail(
            node,
            f"`{ast.unparse(node)}`: arrays of {build.private_bytes} bytes for each index; at most"
            f" {MOST_PRIVATE} are possible",
        )
    return build.put(View(ast.unparse(node), dtype, list(shape), lanes_last=True, store="(local)"))


def static_shape(node, what):
    v = build.expr(node)
    parts = v if isinstance(v, tuple) else (v,)
    if not all(isinstance(p, Operation) and isinstance(p.const, int) and p.const > 0 for p in parts):
        build.fail(
            node,
            f"the shape of {what} must be positive integers known at compile time, got `{ast.unparse(node)}`;"
            " pass an argument as pk.static(n)",
        )
    return [p.const for p in parts]


def dtype_of(node):
    v = build.expr(node)
    if isinstance(v, Known):
        name = CASTS.get(v.value)
        if name is None and isinstance(v.value, (np.dtype, type)):
            name = np.dtype(v.value).name
        name = {"float": "float64"}.get(name, name)
        if name in STORED:
            return name
    build.fail(node, f"`{ast.unparse(node)}` is not a dtype that kernels have ({', '.join(STORED)})")


WORDS = {
    "vector": read_vector,
    "total": lambda node, how: total(*build.arguments(node, 1, read=build.expr), how, node),
    "dot": lambda node: dot(*build.arguments(node, 2, read=build.expr), node),
    "range": lambda node: build.fail(node, f"{ast.unparse(node.func)}(...) belongs in a for loop"),
    "looks": lambda node, name: registry.part("words that look").WORDS[name](node),
    "static": read_static,
    "cast": lambda node, dtype: converted(*build.arguments(node, 1), dtype),
    "where": read_where,
    "extreme": read_extreme,
    "abs": read_abs,
    "len": read_len,
    "lanes": read_lanes,
    "intrinsic": lambda node, name, n: build.intrinsic(name, *build.arguments(node, n)),
    "whole": lambda node, name: build.round_to_integer(*build.arguments(node, 1), name),
    "pow": lambda node: powered(*build.arguments(node, 2), node),
    "bits": read_bits,
    "from_bits": lambda node, dtype: build.operation(
        "from_bits", *build.arguments(node, 1), attr=dtype, dtype=dtype
    ),
    "math": read_math,
    "atomic": read_atomic,
    "local": read_local,
    "complex": read_complex,
    "conjugate": lambda node: conjugated(*build.arguments(node, 1, read=build.numeric)),
}
EXPRESSIONS = expressions.EXPRESSIONS | {ast.Call: read_call}
