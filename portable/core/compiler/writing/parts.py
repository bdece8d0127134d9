"""Compute parts of views, which remain after indices and slices."""

import copy

from ...language.types import UNIFORM
from .lines import builder
from .values import ViewValue


def part(ops, view, items):
    """Return the view that remains after `items`, indices and slices, (lower, upper) pairs of a Value or
    None, of the leading dimensions."""
    offset, shape, strides, prefix = 0, [], [], list(view.prefix)
    for item, extent, stride in zip(items, view.shape, view.strides):
        start = item
        if isinstance(item, tuple):
            start, extent = _slice(ops, *item, extent)
            shape.append(extent)
            strides.append(stride)
        if start.kind == UNIFORM:
            offset = ops.plus(offset, ops.bytes_times(ops.index_number(start), stride))
        else:
            prefix.append((start, stride))
    shape += view.shape[len(items) :]
    strides += view.strides[len(items) :]
    scale = ops.W if view.lanes_last else 1
    pointer = ops.advance(view.pointer, ops.bytes_times(offset, scale))
    rest = view.readonly, view.lanes_last, tuple(prefix)
    return ViewValue(
        view.label, view.dtype, pointer, shape, strides, *rest, store=view.store, apart=view.apart
    )


def turned(view, n):
    """Return a view with its n dimensions reversed."""
    view = copy.copy(view)
    view.shape, view.strides = (v[:n][::-1] + v[n:] for v in (view.shape, view.strides))
    return view


def _slice(ops, lower, upper, extent):
    """Return the beginning of a slice of a dimension as a Value, and its extent."""
    length = ops.length(extent)
    if ops.kind_of(length, *(v for v in (lower, upper) if v is not None)) != UNIFORM:
        return _own_stretch(ops, lower, upper, length)
    start = 0 if lower is None else _bound(ops, lower, extent)
    stop = extent if upper is None else _bound(ops, upper, extent)
    stop = stop if lower is None or upper is None else ops.larger(start, stop)
    return ops.length(start), ops.plus(stop, ops.bytes_times(start, -1))


def _own_stretch(ops, lower, upper, extent):
    """Return the beginning of a slice in each lane, and its extent.

    A bound that differs between lanes must not be negative, so that consecutive bounds stay consecutive; for
    an empty slice the beginning is arbitrary.
    """
    zero = ops.const(0)

    def larger(a, b):
        return ops.select(ops.compare("<", a, b), b, a)

    def bound(v):
        v = ops.cast(v, "int")
        if v.kind != UNIFORM:
            return v
        behind = larger(ops.binary("+", v, extent), zero)
        return ops.select(ops.compare("<", v, zero), behind, v)

    def within(v):
        return ops.select(ops.compare("<", v, extent), v, extent)

    start = zero if lower is None else bound(lower)
    stop = extent if upper is None else within(bound(upper))
    inside = ops.select(ops.compare("<", start, zero), extent, within(start))
    return start, larger(ops.binary("-", stop, inside), zero)


def _bound(ops, v, extent):
    """Return a bound of a slice as in Python: a negative bound counts from the end, and a bound beyond an end
    is that end."""
    bound = ops.index_number(v)
    if isinstance(bound, int):
        return ops.larger(ops.plus(extent, bound), 0) if bound < 0 else ops.smaller(bound, extent)
    behind = builder.select(bound < 0, bound + extent, bound)
    return ops.smaller(ops.larger(behind, 0), extent)
