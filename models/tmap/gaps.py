"""Numbers of runs where they are given: on the host, or on a device, from which they do not come back.

Each function runs in the space of the views that it is given.
"""

from __future__ import annotations

import contextlib

import numpy as np

import portable as pk
from portable.errors import DTypeError, InputError, ShapeError

from ..shared.arrays import Copying, reached
from ..shared.checks import as_numbers
from ..shared.launches import launch
from . import gap_kernels

_MANY = 1024  # leaves: more are added up where they are, for the copy of them to the host would take longer


def is_given(array):
    """Return True if an array tells its own memory: a View, or one of a device."""
    return isinstance(array, pk.View) or hasattr(array, "__cuda_array_interface__")


def where_given(array, name):
    """Return a vector of real numbers as a View of where it lies; on the host what kernels cannot read, as
    float64 of its own."""
    if is_given(array):
        view = pk.asview(array)
        if view.dtype.kind not in "fiu":
            raise DTypeError(f"{name} must hold real numbers, got dtype {view.dtype}")
        if view.ndim != 1:
            raise ShapeError(f"{name} has shape {view.shape}; 1 dimension wanted")
        return view
    numbers = as_numbers(array, name, 1)
    try:
        return pk.asview(numbers)
    except InputError:  # a long double, bytes in another order, an address that is no multiple of its size
        return pk.asview(numbers.astype(np.float64))


def read_only(array):
    """Return the same memory, for reading."""
    array = array.view()
    array.flags.writeable = False
    return array


def brought(view, space):
    """Return a view for kernels of a space, of its own memory where they reach it; as it is if the space
    is None."""
    if space is None:
        return view
    there = reached(view, space)
    return pk.asview(there, space=space) if there is view else there


def own_gaps(given, space, meanwhile):
    """Return the gaps as float64 of their own, in a space or where they are, and what `look_at` knows of
    them; `meanwhile` is called with their View, before they are there."""
    there = given if space is None else pk.create_mirror_view(given, space)
    copying = contextlib.nullcontext() if there is given else Copying(there, given)
    own = there is not given and there.dtype == np.float64  # that copy is enough
    if there is given and space is not None:
        there = pk.asview(given, space=space)
    with copying:
        values = there if own else pk.empty(there.shape, np.float64, there.space)
        meanwhile(values)
    return values, look_at(there, None if own else values)


def each_of(view):
    """Return the policy of all numbers of a vector, in its space."""
    return pk.RangePolicy(0, view.size, space=view.space)


def look_at(given, values=None):
    """Return the place of the first gap that is refused, the largest, the smallest above zero, how many
    are zero, and the sum of the others' exponents; on the way they are copied into `values`."""
    return pk.parallel_reduce(
        each_of(given),
        gap_kernels.look_at_gap,
        pk.static(values is not None),
        given,
        given if values is None else values,
        reducer=(pk.Min, pk.Max, pk.Min, pk.Sum, pk.Sum),
        label="tmap.look_at_gaps",
    )


def own_lengths(given, n_gaps):
    """Return whole numbers as int64 of their own; keys that sort as they do, and where runs begin, Views
    of their space; and a View of their sum and of what `look_at_length` says of the first below 1."""
    lengths, begins = (pk.empty(given.shape, np.int64, given.space) for _ in range(2))
    # half the digits
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


def seen_ends(runs):
    """Return for each gap whether its end was observed, shape (n_gaps,); None if all were."""
    return runs.complete if runs.n_censored else None


def off_multiples(values, resolution, complete):
    """Return the place of the first complete gap that is no multiple of `resolution`, and how many are
    not."""
    return pk.parallel_reduce(
        each_of(values),
        gap_kernels.look_at_rounded,
        *_ends(complete, values.space),
        resolution,
        values,
        reducer=(pk.Min, pk.Sum),
        label="tmap.look_at_rounded",
    )


def distinct_gaps(values, resolution, complete, unit):
    """Return the distinct complete gaps, as multiples of `resolution`, an array of the host; and of each
    gap its place among them, or of an open one its length in units, a View of float64."""
    each = each_of(values)
    keys, out = (pk.empty(values.shape, np.float64, values.space) for _ in range(2))
    ends = _ends(complete, values.space)
    launch(each, gap_kernels.round_gap, *ends, resolution, values, keys)
    distinct = pk.unique(keys, space=values.space)
    places = pk.searchsorted(distinct, keys, space=values.space)
    launch(each, gap_kernels.place_gap, unit, keys, places, values, out)
    found = distinct.to_numpy()
    return found[found < np.inf], out


def _ends(complete, space):
    """Return whether any gap is open, and for each whether its end was observed, for kernels."""
    censoring = complete is not None
    return pk.static(censoring), reached(complete if censoring else np.ones(1, bool), space)


def total(values):
    """Return the sum of a view of float64: the same bits on every space, which are NumPy's."""
    depth, longest = 0, values.size
    while longest > gap_kernels.LEAF:
        longest -= longest >> 4 << 3
        depth += 1
    leaves = pk.empty((1 << depth,), np.float64, values.space)
    teams = pk.TeamPolicy(leaves.size, 8, space=values.space)
    launch(teams, gap_kernels.add_leaf, depth, values, leaves)
    if leaves.size > _MANY:
        nodes = pk.empty((leaves.size // gap_kernels.BRANCHES,), np.float64, values.space)
        launch(each_of(nodes), gap_kernels.add_branches, leaves, nodes)
        leaves = nodes
    sums = leaves.to_numpy()
    while sums.size > 1:
        sums = sums[::2] + sums[1::2]
    return float(sums[0])


def taken(values, places):
    """Return the values at some places, as an array of the host."""
    out = pk.empty(places.shape, values.dtype, values.space)
    launch(each_of(out), gap_kernels.take, reached(places, values.space), values, out)
    return out.to_numpy()


def of_runs(values, lengths, begins):
    """Return the gaps of some runs, one after the other, from their lengths and where they begin, arrays
    of the host."""
    ends = np.cumsum(lengths)
    out = pk.empty((int(ends[-1]),), np.float64, values.space)
    launch(
        pk.RangePolicy(0, lengths.size, space=values.space),
        gap_kernels.take_run,
        *(reached(part, values.space) for part in (lengths, begins, ends - lengths)),
        values,
        out,
    )
    return out
