"""Gaps and run lengths in the memory in which they are given: on the host, or on a device, from which they
are not copied.

Each function runs in the space of the views that it is given.
"""

import contextlib

import numpy as np

import portable as pk

from ..shared import DTypeError, InputError, ShapeError, as_numbers, launch, reached, reduce
from ..shared.arrays import Copying, as_view
from . import gap_kernels


def where_given(array, name):
    """Make a View of a vector of real numbers in its memory; numbers on the host that kernels cannot read are
    copied to float64."""
    view = as_view(array)
    if view is not None:
        if view.dtype.kind not in "fiu":
            raise DTypeError(f"{name} must hold real numbers, got dtype {view.dtype}")
        if view.ndim != 1:
            raise ShapeError(f"{name} has shape {view.shape}; expected 1 dimension")
        return view
    numbers = as_numbers(array, name, 1)
    try:
        return pk.asview(numbers)
    except InputError:  # a long double, bytes in another order, an address that is no multiple of its size
        return pk.asview(numbers.astype(np.float64))


def read_only(array):
    """Return a read-only view of an array."""
    array = array.view()
    array.flags.writeable = False
    return array


def view_in_space(view, space):
    """Make a view for kernels of a space, in the same memory if they can access it; unchanged if the space is
    None."""
    if space is None:
        return view
    there = reached(view, space)
    return pk.asview(there, space=space) if there is view else there


def own_gaps(given, space, meanwhile):
    """Copy gaps to separate float64, in a space or in their present one; return these, and the results of
    `look_at`. `meanwhile` is called with their View while a copy is in progress."""
    there = given if space is None else pk.create_mirror_view(given, space)
    copying = contextlib.nullcontext() if there is given else Copying(there, given)
    own = there is not given and there.dtype == np.float64  # that copy is sufficient
    if there is given and space is not None:
        there = pk.asview(given, space=space)
    with copying:
        values = there if own else pk.empty(there.shape, space=there.space)
        meanwhile(values)
    return values, look_at(there, None if own else values)


def each_of(view):
    """Return the policy of all numbers of a vector, in its space."""
    return pk.RangePolicy(0, view.size, space=view.space)


def look_at(given, values=None):
    """Check gaps; return the place of the first refused one, the largest, the smallest above zero, the number
    of zeros, and the sum of the others' exponents. They are copied into `values` on the way."""
    return reduce(
        each_of(given),
        gap_kernels.look_at_gap,
        pk.static(values is not None),
        given,
        given if values is None else values,
        reducer=(pk.Min, pk.Max, pk.Min, pk.Sum, pk.Sum),
    )


def own_lengths(given, n_gaps):
    """Copy run lengths to separate int64; return these, keys of the same order and the starts of runs, both
    Views, and a View of their sum and of the result of `look_at_length` for the first below 1."""
    lengths, begins = (pk.empty(given.shape, np.int64, given.space) for _ in range(2))
    # int32 keys have half the digits to sort
    keys = pk.empty(given.shape, np.int32, given.space) if n_gaps < 2**31 else lengths
    found = pk.zeros(2, np.int64, given.space)
    pk.parallel_scan(
        each_of(given),
        gap_kernels.look_at_length,
        given,
        lengths,
        keys,
        found[1:],
        out=begins,
        inclusive=False,
        total=found[:1],
        label="tmap.look_at_lengths",
    )
    return lengths, (keys, begins), found


def off_multiples(values, resolution, complete):
    """Return the place of the first complete gap that is not a multiple of `resolution`, and the number of
    such gaps."""
    return reduce(
        each_of(values),
        gap_kernels.look_at_rounded,
        *_ends(complete, values.space),
        resolution,
        values,
        reducer=(pk.Min, pk.Sum),
    )


def intervals_of(values, resolution, complete, unit):
    """Find the distinct intervals of complete gaps, in units, an array of shape (2, n_values); return these
    and, for each gap, its index among them or, for an open one, its length in units.

    Multiples of one resolution are found where the gaps are, intervals of their own widths on the host.
    """
    if np.ndim(resolution):
        return _intervals_of_own_widths(values.to_numpy() / unit, 0.5 * resolution / unit, complete)
    each = each_of(values)
    keys, out = (pk.empty(values.shape, space=values.space) for _ in range(2))
    launch(each, gap_kernels.round_gap, *_ends(complete, values.space), resolution, values, keys)
    distinct = pk.unique(keys, space=values.space)
    places = pk.searchsorted(distinct, keys, space=values.space)
    launch(each, gap_kernels.place_gap, unit, keys, places, values, out)
    found, step = distinct.to_numpy(), resolution / unit
    x = found[found < np.inf] * step
    return np.stack([np.maximum(x - 0.5 * step, 0.0), x + 0.5 * step]), out


def _intervals_of_own_widths(x, half, complete):
    """Return the distinct intervals x - half to x + half of complete gaps, and x with their indices."""
    ends = np.maximum(x - half, 0.0) + 1j * (x + half)
    found, index = np.unique(ends[complete], return_inverse=True)
    x[complete] = index
    return np.stack([found.real, found.imag]), x


def _ends(complete, space):
    """Return as arguments of kernels: True if any gap is open, and for each True if its end was observed."""
    censoring = not complete.all()
    return pk.static(censoring), reached(complete if censoring else complete[:1], space)


def values_at(values, places):
    """Return the values at some places, as an array on the host."""
    out = pk.empty(places.shape, values.dtype, values.space)
    launch(each_of(out), gap_kernels.take, reached(places, values.space), values, out)
    return out.to_numpy()


def of_runs(values, lengths, begins):
    """Return the gaps of some runs, one after the other, from the lengths and starts of these, arrays on the
    host."""
    ends = np.cumsum(lengths)
    out = pk.empty(int(ends[-1]), space=values.space)
    launch(
        lengths.size,
        gap_kernels.take_run,
        *(reached(part, values.space) for part in (lengths, begins, ends - lengths)),
        values,
        out,
        space=values.space,
    )
    return out
