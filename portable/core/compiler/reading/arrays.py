"""Build slices and rows in kernels into the typed tree: as operations on their elements, in the order of the
indices, without a temporary array."""

import ast
from functools import partial, reduce
import math

from ....errors import ReadOnlyError
from .complexes import complex_operated
from .operations import build
from .tree import Operation, Shaped, Variable, View, describe
from ...language.types import (
    COMPLEX,
    PARTS,
    UNIFORM,
    Complex,
    Record,
    Vector,
    complex_of,
    loaded_dtype,
    vector,
)

_UNROLLED = 16  # most elements of an unrolled loop
_MOST = 64  # most numbers of a vector or matrix, which stay in registers
REDUCTIONS = "sum", "min", "max"


class Array(Shaped):
    """Array as functions of its indices: a reindexed view, or an expression.

    shape : extents; item : function of indices that returns the number there; place : function of indices
    that returns (view, indices) of the element, None for an expression; views : the views that it reads
    """

    def __init__(self, shape, item, place=None, views=()):
        self.shape, self.item, self.place, self.views = shape, item, place, views

    def __repr__(self):
        return "an array: take an element, or assign to a slice"

    def element_at(self, ks):
        """Return the number at the last of the indices `ks`, as many as the array has dimensions."""
        return self.item(ks[len(ks) - self.ndim :])


def placed(shape, place, view):
    """Return the Array of a view's elements; `place` maps indices to (view, indices)."""
    return Array(shape, lambda ks: load_element(*place(ks)), place, [view])


def reindexed(array, shape, change):
    """Return an Array with new indices, which `change` maps to those of `array`."""
    place = array.place and (lambda ks: array.place(change(ks)))
    return Array(shape, lambda ks: array.item(change(ks)), place, array.views)


def part_at(array, items):
    """Return the part of an Array at indices of its leading dimensions."""
    return reindexed(array, array.shape[len(items) :], lambda ks: [*items, *ks])


def settled(v, node):
    """Return a value in the form that a name can hold: an array expression of few numbers becomes a
    vector."""
    if not isinstance(v, Array) or v.place:
        return v
    found = vector_of(v)
    if found is v:
        build.refuse(
            node,
            f"`{ast.unparse(node).splitlines()[0]}` needs a temporary array here; assign its elements to a"
            " view, a slice or a pk.local, as in `y[:] = ...`; for a few numbers write"
            " `pk.vector(x[i, :3])`",
        )
    return found


def load_element(view, items):
    if view.n_indices > len(items):
        return complex_of(load_element(view, [*items, k]) for k in (0, 1))
    return build.operation(
        "load", *items, view=view, dtype=loaded_dtype(view.dtype), counts=f"load {view.store or view.label}"
    )


def store_element(view, items, value, node):
    check_writable(view, node)
    if view.n_indices > len(items) and (isinstance(value, (Complex, Operation))):
        for k, part in enumerate(build.parts(value)):
            store_element(view, [*items, k], part, node)
        return
    if not isinstance(value, Operation):
        build.fail(node, f"expected a number for an element of '{view.label}', got {describe(value)}")
    build.writes()
    build.operation("store", *items, value, view=view, counts=f"store {view.store or view.label}")


def check_writable(view, node):
    if view.readonly:
        build.fail(node, f"'{view.label}' is read-only here; pass a writable argument", ReadOnlyError)


def part_of(view, items):
    """Return the view that remains after `items`, indices and slices of the leading dimensions."""
    part = View(view.label, view.dtype, [], view.readonly, False, view.lanes_last, view.store, view, items)
    sliced = [(k, item) for k, item in enumerate(items) if isinstance(item, tuple)]
    for d, (k, item) in enumerate(sliced):
        n = _static_extent(item, view.shape[k])
        if n is None:
            known = [v for v in (*item, view.shape[k]) if isinstance(v, Operation)]
            n = Operation("extent", known, attr=(part, d), dtype="int", kind=UNIFORM)
            build.order.append(n)  # it differs between lanes if a bound does
        part.shape.append(n)
    part.shape += view.shape[len(items) :]
    return build.put(part)


def _static_extent(bounds, extent):
    """Return the extent of a slice if it is known at compile time, or None."""
    if not isinstance(extent, int) or not all(b is None or isinstance(b.const, int) for b in bounds):
        return None
    return len(range(extent)[slice(*(b and int(b.const) for b in bounds))])


def stepped(view, items, node):
    """Return the Array of a view's elements at indices and slices (lower, upper, step)."""
    part = part_of(view, [i[:2] if isinstance(i, tuple) else i for i in items])
    steps = [i[2] if i[2:] else 1 for i in items if isinstance(i, tuple)]
    shape = build.operands(*part.shape)
    steps += [1] * (len(shape) - len(steps))
    if any(i[2:] and i[2] < 0 and i[:2] != (None, None) for i in items if isinstance(i, tuple)):
        build.refuse(node, f"`{ast.unparse(node)}`: a negative step goes with [::-1] alone, of a slice")

    def place(ks):
        return part, [_sliced_index(*each) for each in zip(ks, shape, steps)]

    taken = [n if step in (1, -1) else build.parts_of(n, abs(step)) for n, step in zip(shape, steps)]
    return placed(taken, place, part)


def _sliced_index(k, n, step):
    k = k if step in (1, -1) else build.binary("*", k, abs(step))
    return k if step > 0 else build.binary("-", build.binary("-", n, 1), k)


def transposed(v):
    """Return a view or an array with its dimensions reversed."""
    if isinstance(v, View):
        rest = v.dtype, v.shape[::-1], v.readonly, v.scatter, v.lanes_last, v.store
        return build.put(View(v.label, *rest, base=v))
    array = array_of(v)
    return reindexed(array, array.shape[::-1], lambda ks: ks[::-1])


def _whole_shape(array, shape, node):
    """Return a shape with as many elements as an array; one extent may be -1, which is replaced by the
    remaining factor."""
    product = partial(reduce, partial(build.binary, "*"))
    size, known = product(array.shape), [n for n in shape if n.const != -1]
    if len(shape) > len(known) + 1 or not all(isinstance(n, Operation) for n in shape):
        build.fail(node, f"`{ast.unparse(node)}`: expected whole numbers, one -1 among them at most")
    rest = build.binary("//", size, product(known, 1))
    shape = [rest if n.const == -1 else n for n in shape]
    check_shape([size], Array([product(shape)], None), node)
    return shape


def reshaped(v, shape, node):
    """Return an array with another shape and its elements in the same order."""
    array = array_of(v)
    shape = _whole_shape(array, shape, node)

    def old_index(ks):
        number, found = ks[0], []
        for k, n in zip(ks[1:], shape[1:]):
            number = build.binary("+", build.binary("*", number, n), k)
        for n in array.shape[:0:-1]:
            found.append(build.binary("%", number, n))
            number = build.binary("//", number, n)
        return [number, *reversed(found)]

    return reindexed(array, shape, old_index)


def is_array(v):
    """Return True for a vector, and for a view or an Array that has dimensions."""
    return isinstance(v, Vector) or isinstance(v, (View, Array)) and bool(v.shape)


def array_of(v):
    """Return a view that has dimensions, or tuples of numbers, as an Array; None for other values."""
    if isinstance(v, View) and v.shape and not v.scatter:
        return placed(build.operands(*v.shape), lambda ks: (v, ks), v)
    if shape := _extents(v):
        return Array(build.operands(*shape), lambda ks: reduce(build.chosen, ks, v))
    return v if isinstance(v, Array) else None


def _extents(v):
    """Return the shape of a number, or of tuples of equal shape; None for other values."""
    if isinstance(v, (Operation, Complex)):
        return ()
    shapes = {_extents(part) for part in v} if isinstance(v, tuple) else ()
    return (len(v), *shapes.pop()) if len(shapes) == 1 and None not in shapes else None


def vector_of(array):
    """Return an Array as a vector or matrix if its extents are known and small, else the Array."""
    shape = [n.const for n in array.shape]
    if None in shape or not 0 < math.prod(shape) <= _MOST:
        return array

    def part_of(ks):
        n = shape[len(ks) :]
        return vector(part_of([*ks, build.const(k)]) for k in range(n[0])) if n else array.item(ks)

    return part_of([])


def read_vector(node, n_dimensions):
    """Build a call of pk.vector with numbers or a row, or of pk.matrix with rows or a matrix."""
    parts = [_of_known_extents(build.expr(a)) for a in node.args]
    whole = array_of(parts[0]) if len(parts) == 1 else None
    whole = whole if whole and whole.ndim == n_dimensions else array_of(tuple(parts))
    found = whole and vector_of(whole)
    if not found or found is whole or whole.ndim != n_dimensions:
        build.refuse(
            node,
            f"`{ast.unparse(node)}`: expected numbers, or rows of equal length; their number is known at"
            f" compile time and {_MOST} at most, as in pk.vector(x, y) or pk.vector(a[i, :3]); use pk.local"
            " for more",
        )
    return found


def _of_known_extents(v):
    """Return a row as a vector if its slices determine the extents; other values unchanged."""
    array = array_of(v)
    if array is None:
        return v
    shape = build.operands(*(_sliced(extent) or extent for extent in array.shape))
    return vector_of(Array(shape, array.item))


def _sliced(extent):
    """Return the number of elements that `x[2:5]`, `x[:3]` or `x[j:j + 3]` selects from a long array; None
    for other slices."""
    if extent.op != "extent" or not (slices := [i for i in extent.attr[0].items if isinstance(i, tuple)]):
        return None
    low, high = slices[extent.attr[1]] if extent.attr[1] < len(slices) else (None, None)
    if high is not None and high.attr == "+" and high.args[0] is low:
        return high.args[1].const
    low = low.const if low else 0
    return None if high is None or None in (low, high.const) else high.const - low


def elementwise(function, node, *values):
    """Return the Array that results from a function of the elements of `values`, of which at least one is an
    array."""
    arrays = [array_of(v) for v in values]
    shape = max((a.shape for a in arrays if a), key=len)
    for a in filter(None, arrays):
        shape = check_shape(shape, a, node)

    def item(ks):
        return function(*(a.element_at(ks) if a else v for a, v in zip(arrays, values)))

    made = Array(shape, item, views=[v for a in arrays if a for v in a.views])
    return vector_of(made) if any(isinstance(v, Vector) for v in values) else made


def check_shape(shape, array, node):
    """Return a shape in which the array's known extents replace unknown ones; raise LoweringError if they
    differ. The checked space compares the extents that only a launch determines."""
    for n, own in zip(reversed(shape), reversed(array.shape)):
        if None not in (n.const, own.const) and n.const != own.const or array.ndim > len(shape):
            build.fail(
                node,
                f"`{ast.unparse(node)}`: expected arrays of the same shape, got extents {own.const}"
                f" and {n.const}",
            )
        if build.asserts and n is not own and None in (n.const, own.const):
            build.operation("assert", build.compare("==", n, own), attr="the shapes of arrays differ")
    known = [own if n.const is None else n for n, own in zip(shape[len(shape) - array.ndim :], array.shape)]
    return [*shape[: len(shape) - len(known)], *known]


def for_each_element(shape, do, ks=(), most=_UNROLLED):
    """Call `do` with all indices of a shape, in row-major order, in a loop that is unrolled for at most
    `most` elements."""
    if not shape:
        do([*ks])
        return
    n, *rest = shape
    if n.const is not None and n.const <= most:
        for k in range(n.const):
            for_each_element(rest, do, [*ks, build.const(k)], most // n.const)
        return
    with build.counted_loop(build.const(0), n) as k:
        for_each_element(rest, do, [*ks, k], most)


def assign_array(target, value, node, operated=None, store=store_element):
    """Store the elements of an array, or one number, in a target; `operated(old, new)` returns the number to
    store."""
    source = array_of(value)
    if target.place is None:
        build.refuse(node, f"`{ast.unparse(node)}` cannot be assigned in a kernel")
    if source and not all(_may_assign(view, target.views[0]) for view in source.views):
        build.refuse(
            node,
            f"`{ast.unparse(node)}` is written while other elements of it are read; write a loop,"
            " which fixes the order",
        )

    def put(ks):
        new = source.element_at(ks) if source else value
        place = target.place(ks)
        store(*place, operated(load_element(*place), new) if operated else new, node)

    shape = check_shape(target.shape, source, node) if source else target.shape
    for_each_element(shape, put, most=_most_unrolled(source))


def _most_unrolled(array):
    """Return the largest number of elements to unroll: all of a vector."""
    return _MOST if array and not array.views else _UNROLLED


def _may_assign(a, b):
    """Return True unless two views are parts of one array that begin or end at different places of a
    dimension."""
    while a.base is not None and b.base is not None and a.base is not b.base:
        a, b = (a.base, b) if a.base.ndim < b.base.ndim else (a, b.base)
    if a.base is None or a.base is not b.base:
        return a.label != b.label or a is b or (a.base or a) is not (b.base or b)
    return all(_same(x, y) for x, y in zip(a.items, b.items) if isinstance(x, tuple) or isinstance(y, tuple))


def _same(x, y):
    """Return True for slices with the same bounds."""
    if not (isinstance(x, tuple) and isinstance(y, tuple)):
        return False
    return all(a is b or a and b and a.const is not None and a.const == b.const for a, b in zip(x, y))


def total(value, how, node, nan_wins=True):
    """Return the sum, min or max of the elements of an array, in the order of the indices."""
    array = array_of(value)
    if array is None:
        build.refuse(node, f"`{ast.unparse(node)}`: expected a view or a slice")
    names = COMPLEX if how == "sum" and _is_complex(array) else ("",)
    variables, home = [Variable(f"the {how}") for _ in names], build.block
    numbers = partial(_numbers, array, how, len(names), node)

    def put(values):
        build.set(tuple(variables), tuple(values), home)

    joined = partial(_joined, how, nan_wins)
    zeros = [build.const(0)] * array.ndim
    put([build.const(0)] * len(names) if how == "sum" else numbers(zeros))
    for_each_element(
        array.shape, lambda ks: put([*map(joined, variables, numbers(ks))]), most=_most_unrolled(array)
    )
    results = [build.operation("get", attr=variable) for variable in variables]
    return Record(results, names) if results[1:] else results[0]


def _joined(how, nan_wins, variable, new):
    """Return the result of combining a variable with another number."""
    old = build.operation("get", attr=variable)
    if how == "sum":
        return build.counted("+", build.binary("+", old, new))
    return build.counted(how, build.extreme("<" if how == "min" else ">", old, new, nan_wins))


def _numbers(array, how, n, node, ks):
    """Return the element at `ks` as one number, or as both parts of a complex number; terms of a sum have 64
    bits."""
    v = array.item(ks)
    if n == 1:
        hint = " (or a sum in a loop, from 0j)" * (how == "sum")
        v = [build.number_of(v, node, f"an array of real numbers{hint}")]
    return [build.operation("settle", p, attr="wide") for p in v] if how == "sum" else v


def _is_complex(array):
    """Return True if an array holds complex numbers, by the dtypes of its views or by its first element."""
    if array.views:
        return any(v.dtype in PARTS for v in array.views)
    return isinstance(array.item([build.const(0)] * array.ndim), Complex)


def dot(left, right, node):
    """Return the matrix product of two arrays of one or two dimensions."""
    a, b = (array_of(v) for v in (left, right))
    if not all(v and v.ndim <= 2 for v in (a, b)):
        build.refuse(node, f"`{ast.unparse(node)}`: expected arrays of one or two dimensions")
    made = Array(a.shape[:-1] + b.shape[1:], partial(_product, a, b, node), None, [*a.views, *b.views])
    if not made.shape:
        return made.item([])
    return vector_of(made) if Vector in (type(left), type(right)) else made


def _product(a, b, node, ks):
    """Return the scalar product of a row of `a` and a column of `b`."""
    n = a.ndim - 1
    row, column = part_at(a, ks[:n]), reindexed(b, b.shape[:1], lambda k: [*k, *ks[n:]])

    def multiply(x, y):
        if isinstance(x, Complex) or isinstance(y, Complex):
            return complex_operated(ast.Mult(), x, y, node)
        return build.counted("*", build.binary("*", x, y))

    return total(elementwise(multiply, node, row, column), "sum", node)
