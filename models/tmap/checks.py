"""Checks of users' arguments, all of which run before any computation or copy to a device."""

import numpy as np

import portable as pk

from ..shared import (
    DType,
    DTypeError,
    FiniteError,
    InputError,
    ShapeError,
    as_numbers,
    check_choice,
    check_each,
    check_positive,
    refuse,
)
from ..shared.arrays import as_view
from ..shared.checks import check_unmasked
from .gap_kernels import LARGEST, NOWHERE, SMALLEST
from .gaps import off_multiples, own_gaps, own_lengths, view_in_space, where_given

MOST_ORDER = 1000
MOST_BRANCHES = 16  # a GPU team's sums are in shared memory, and grow with the square


def given_lengths(lengths, space=None):
    """Return run lengths in a space, or in their present one, as a View of whole numbers, (n_runs,)."""
    given = where_given(lengths, "lengths")
    if not given.size:
        raise ShapeError("lengths is empty; expected at least one run")
    if given.dtype.kind == "f":
        array = given.to_numpy()
        whole = np.isfinite(array) & (array == np.floor(array))
        refuse(~whole, array, "lengths", "a whole number of gaps", DTypeError)
        given = pk.asview(array.astype(np.int64))
    return view_in_space(given, space)


def check_lengths(given, n_gaps):
    """Check run lengths, which must add up to the number of gaps; return a View of int64 copies, and the keys
    and starts of `own_lengths`."""
    lengths, starts, found = own_lengths(given, n_gaps)
    n_ends, before = found.to_numpy().tolist()
    empty = NOWHERE - before
    if empty < given.size:
        raise InputError(f"lengths[{empty}] is {lengths[empty]}: run {empty} has no gap; leave it out")
    if n_gaps != n_ends:
        raise ShapeError(f"values has {n_gaps} gaps, but lengths add up to {n_ends}")
    return lengths, starts


def check_gaps(given, lengths, first=0, space=None, meanwhile=lambda values: None):
    """Check gaps from number `first` on, in a space or in their present one; return a View of float64 copies,
    and the results of `gaps.look_at`. Gaps that are neither zero nor a positive number within range are
    refused. `meanwhile` is as in `gaps.own_gaps`."""
    values, (refused, *known) = own_gaps(given, space, meanwhile)
    if refused >= given.size:
        return values, known
    gap, at, lengths = values[refused], refused + first, lengths.to_numpy()
    ends = np.cumsum(lengths)
    run = int(np.searchsorted(ends, at, side="right"))
    where = f"run {run}, gap {at - int(ends[run] - lengths[run])} (values[{at}])"
    if not np.isfinite(gap):
        raise FiniteError(f"{where} is {gap}; expected a finite gap")
    if gap < 0.0:
        raise InputError(f"{where} is {gap}; a gap is not negative. Are the events of the run in order?")
    raise InputError(
        f"{where} is {gap}; expected zero, or {SMALLEST:g} to {LARGEST:g}. Choose another unit of time."
    )


def check_censored(censored, n_runs):
    """Check the flags of open runs; return True or False for each run, shape (n_runs,)."""
    if censored is None:
        return np.ndarray(n_runs, np.bool_, np.zeros(1, np.bool_), strides=(0,))
    view = as_view(censored)
    array = np.asarray(check_unmasked(censored, "censored")) if view is None else view.to_numpy()
    if array.shape != (n_runs,):
        raise ShapeError(
            f"censored has shape {array.shape}; expected ({n_runs},), as there are {n_runs} runs"
        )
    if array.dtype != bool:
        raise DTypeError(f"censored must hold True or False, got dtype {array.dtype}")
    return array.copy()


def check_rounded(values, resolution, complete):
    """Raise an error if complete gaps are not multiples of `resolution`, up to rounding."""
    at, n_off = off_multiples(values, resolution, complete)
    if n_off:
        raise InputError(
            f"resolution is {resolution:g}, but a gap of {values[at]:g} is no multiple of it: "
            f"{n_off} of {np.sum(complete)} are not"
        )


def check_resolution(resolution, n_gaps):
    """Return a resolution as a number, or widths of intervals as an array of shape (n_gaps,)."""
    if np.ndim(resolution) == 0:
        return check_positive(resolution, "resolution")
    widths = check_each(resolution, "resolution", n_gaps, "gaps")
    refuse(widths <= 0.0, widths, "resolution", "a width above 0")
    return widths


def check_orders(orders):
    """Check branch orders; return them as an int64 array, shape (n_branches,)."""
    array = as_numbers(orders, "orders", 1)
    if not array.size:
        raise ShapeError("orders is empty; expected at least one branch")
    if array.size > MOST_BRANCHES:
        raise ShapeError(f"orders has {array.size} branches; expected at most {MOST_BRANCHES}")
    if array.dtype.kind == "f":
        raise DTypeError(f"orders must be whole numbers, got {orders!r}")
    if array.min() < 1 or array.max() > MOST_ORDER:
        raise InputError(f"orders is {orders!r}; expected whole numbers from 1 to {MOST_ORDER}")
    return array.astype(np.int64)


def check_dtype(dtype):
    """Return NumPy's type for "float32" or "float64"."""
    return getattr(np, check_choice(dtype, "dtype", DType))


def check_memory(memory_mb):
    """Convert MiB to bytes; None stays None."""
    return None if memory_mb is None else int(2**20 * check_positive(memory_mb, "memory_mb"))
