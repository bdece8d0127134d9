"""Slices and rows in kernels, read into the typed tree: operations of their elements, one after the other in
the order of the indices, without a temporary array."""

import ast
import functools

from ....errors import LanguageError, ReadOnlyError
from ...language import types as t
from .tree import Block, Loop, Operation, Set, Variable, View, plain_tuple
from ...language.types import UNIFORM, Known

_UNROLLED = 16  # elements at most
REDUCTIONS = "sum", "min", "max"


class Array:
    """Numbers by their indices: of a view in another order, or of an expression.

    shape : extents; item : gives the number at some indices; place : gives (view, indices) of its element,
    None of an expression; views : that it reads
    """

    def __init__(self, shape, item, place=None, views=()):
        self.shape, self.item, self.place, self.views = shape, item, place, views

    def __repr__(self):
        return "an array"


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


def refuse_expression(build, v, node):
    if isinstance(v, Array) and v.place is None:
        build.fail(
            node,
            f"`{ast.unparse(node).splitlines()[0]}` needs a temporary array here; assign its elements to a"
            " view, a slice or a pk.local, as in `y[:] = ...`",
            LanguageError,
        )


def load_element(build, view, items):
    if view.n_indices > len(items):
        return t.Record((load_element(build, view, [*items, build.const(k)]) for k in (0, 1)), t.COMPLEX)
    return build.operation(
        "load", *items, view=view, dtype=t.held(view.dtype), counts=f"load {view.store or view.label}"
    )


def store_element(build, view, items, value, node):
    check_writable(build, view, node)
    if view.n_indices > len(items) and (isinstance(value, (t.Complex, Operation))):
        for k, part in enumerate(build.parts(value)):
            store_element(build, view, [*items, build.const(k)], part, node)
        return
    if not isinstance(value, Operation):
        build.fail(node, f"a number is wanted for an element of '{view.label}', got {describe(value)}")
    build.writes()
    build.operation("store", *items, value, view=view, counts=f"store {view.store or view.label}")


def check_writable(build, view, node):
    if view.readonly:
        build.fail(node, f"'{view.label}' is read-only here; pass a writable view", ReadOnlyError)


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


def _static_extent(bounds, extent):
    """The extent of a slice if all of it is known here, or None."""
    if not isinstance(extent, int) or not all(b is None or isinstance(b.const, int) for b in bounds):
        return None
    return len(range(extent)[slice(*(b and int(b.const) for b in bounds))])


def stepped(build, view, items, node):
    """The elements at indices and slices (lower, upper, step)."""
    part = part_of(build, view, [i[:2] if isinstance(i, tuple) else i for i in items])
    steps = [i[2] if i[2:] else 1 for i in items if isinstance(i, tuple)]
    shape = [build.extent(n) for n in part.shape]
    steps += [1] * (len(shape) - len(steps))
    if any(i[2:] and i[2] < 0 and i[:2] != (None, None) for i in items if isinstance(i, tuple)):
        build.fail(
            node, f"`{ast.unparse(node)}`: a negative step goes with [::-1] alone, of a slice", LanguageError
        )

    def place(ks):
        return part, [_at(build, *each) for each in zip(ks, shape, steps)]

    taken = [_counted(build, n, abs(step)) for n, step in zip(shape, steps)]
    return Array(taken, lambda ks: load_element(build, *place(ks)), place, [part])


def _counted(build, n, step):
    """How many of n elements a slice with this step takes."""
    return (
        n if step == 1 else build.binary("//", build.binary("+", n, build.const(step - 1)), build.const(step))
    )


def _at(build, k, n, step):
    k = k if step in (1, -1) else build.binary("*", k, build.const(abs(step)))
    return k if step > 0 else build.binary("-", build.binary("-", n, build.const(1)), k)


def transposed(build, v):
    """A view, or an array, with its dimensions in reverse."""
    if isinstance(v, View):
        rest = v.dtype, v.shape[::-1], v.readonly, v.scatter, v.lanes_last, v.store
        return build.put(View(v.label, *rest, base=v))
    array = array_of(build, v)
    place = array.place and (lambda ks: array.place(ks[::-1]))
    return Array(array.shape[::-1], lambda ks: array.item(ks[::-1]), place, array.views)


def is_array(v):
    """True for a view of some dimensions, and for an Array."""
    return isinstance(v, (View, Array)) and bool(v.shape)


def array_of(build, v):
    """A view of some dimensions, or a tuple of numbers, as an Array; None of other values."""
    if isinstance(v, View) and v.shape and not v.scatter:
        shape = [build.extent(n) for n in v.shape]
        return Array(shape, lambda ks: load_element(build, v, ks), lambda ks: (v, ks), [v])
    if plain_tuple(v) and v and all(isinstance(part, (Operation, t.Complex)) for part in v):
        return Array([build.const(len(v))], lambda ks: v[ks[0].const])
    return v if isinstance(v, Array) else None


def elementwise(build, function, node, *values):
    """The Array of what a function gives of the elements of values, of which one at least is an array."""
    arrays = [array_of(build, v) for v in values]
    shape = max((a.shape for a in arrays if a), key=len)
    for a in filter(None, arrays):
        shape = check_shape(build, shape, a, node)

    def item(ks):
        return function(*(a.item(ks[len(ks) - len(a.shape) :]) if a else v for a, v in zip(arrays, values)))

    return Array(shape, item, views=[v for a in arrays if a for v in a.views])


def check_shape(build, shape, array, node):
    """Return a shape with what an array's says of its last extents; refuse another one. The checked space
    looks at extents that are known at a launch."""
    for n, own in zip(reversed(shape), reversed(array.shape)):
        if None not in (n.const, own.const) and n.const != own.const or len(array.shape) > len(shape):
            build.fail(
                node,
                f"`{ast.unparse(node)}`: arrays of the same shape are wanted, got extents {own.const}"
                f" and {n.const}",
            )
        if build.asserts and n is not own and None in (n.const, own.const):
            build.operation("assert", build.compare("==", n, own), attr="the shapes of arrays differ")
    known = [
        own if n.const is None else n for n, own in zip(shape[len(shape) - len(array.shape) :], array.shape)
    ]
    return [*shape[: len(shape) - len(known)], *known]


def each(build, shape, do, ks=(), most=_UNROLLED):
    """Do something at all indices of a shape, row by row; few are unrolled."""
    if not shape:
        do([*ks])
        return
    n, *rest = shape
    if n.const is not None and n.const <= most:
        for k in range(n.const):
            each(build, rest, do, [*ks, build.const(k)], most // n.const)
        return
    loop = Loop("range", build.frame.call, start=build.const(0), stop=n, deciding=frozenset)
    loop.counter = Operation("counter", [loop.start], attr=loop, dtype="int")
    outer, loops = build.block, build.frame.loops
    loop.body = Block(outer)
    build.put(loop)
    build.order += [loop.counter, loop]
    loops.append(loop)
    build.block = loop.body
    each(build, rest, do, [*ks, loop.counter], most)
    build.block = outer
    loops.pop()


def assign_array(build, target, value, node, operated=None):
    """Store the elements of an array, or one number, in a target; `operated(old, new)` gives what is
    stored."""
    source = array_of(build, value)
    if target.place is None:
        build.fail(node, f"`{ast.unparse(node)}` cannot be assigned in a kernel", LanguageError)
    if source and not all(_apart(view, target.views[0]) for view in source.views):
        build.fail(
            node,
            f"`{ast.unparse(node)}` is written while other elements of it are read; a loop says"
            " in which order",
            LanguageError,
        )

    def put(ks):
        new = source.item(ks[len(ks) - len(source.shape) :]) if source else value
        place = target.place(ks)
        store_element(build, *place, operated(load_element(build, *place), new) if operated else new, node)

    each(build, check_shape(build, target.shape, source, node) if source else target.shape, put)


def _apart(a, b):
    """True unless two views are parts of one that begin or end at different places of a dimension."""
    while a.base is not None and b.base is not None and a.base is not b.base:
        a, b = (a.base, b) if len(a.base.shape) < len(b.base.shape) else (a, b.base)
    if a.base is None or a.base is not b.base:
        return a.label != b.label or a is b or (a.base or a) is not (b.base or b)
    pairs = zip(a.items, b.items)
    return all(_same(x, y) for x, y in pairs if isinstance(x, tuple) or isinstance(y, tuple))


def _same(x, y):
    """True for slices with the same bounds."""
    if not (isinstance(x, tuple) and isinstance(y, tuple)):
        return False
    return all(a is b or a and b and a.const is not None and a.const == b.const for a, b in zip(x, y))


def total(build, value, how, node):
    """sum, min or max of the elements of an array, in the order of the indices."""
    array = array_of(build, value)
    if array is None:
        build.fail(node, f"`{ast.unparse(node)}`: a view or a slice is wanted", LanguageError)
    variable, home = Variable(f"the {how}"), build.block

    def number(ks):
        v = build.number_of(array.item(ks), node, "an array of real numbers")
        return build.operation("settle", v, attr="wide") if how == "sum" else v

    def put(v):
        build.put(Set(variable, v, home, build.block, build.loop_here(), at=build.at))

    def add(ks):
        old, new = build.operation("get", attr=variable), number(ks)
        if how == "sum":
            put(build.counted("+", build.binary("+", old, new)))
        else:
            put(build.counted(how, build.extreme("<" if how == "min" else ">", old, new, True)))

    put(build.const(0) if how == "sum" else number([build.const(0)] * len(array.shape)))
    each(build, array.shape, add)
    return build.operation("get", attr=variable)


def dot(build, a, b, node):
    """The sum of products of two arrays of one dimension."""
    arrays = [array_of(build, v) for v in (a, b)]
    if not all(v and len(v.shape) == 1 for v in arrays):
        build.fail(node, f"`{ast.unparse(node)}`: two arrays of one dimension are wanted", LanguageError)
    multiply = functools.partial(build.binary, "*")
    return total(
        build, elementwise(build, lambda x, y: build.counted("*", multiply(x, y)), node, *arrays), "sum", node
    )
