"""Checks of what users pass in. All of them run before anything is computed or copied to a device."""

from __future__ import annotations

import numpy as np

from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from ..checks import as_numbers, check_choice, check_number

# Between these, logarithms and products with rates of like range stay within float64's normal numbers.
SMALLEST, LARGEST = 1e-150, 1e150
MOST_ORDER = 1000
MOST_BRANCHES = 16  # the sums of a GPU's team are in its shared memory, and grow with the square


def check_runs(values, lengths):
    """Gaps and run lengths as float64 and int64 arrays of their own, shapes (n_gaps,) and (n_runs,)."""
    values = as_numbers(values, "values", 1).astype(np.float64)
    lengths = check_lengths(lengths, values.size)
    check_gaps(values, lengths)
    return values, lengths


def check_lengths(lengths, n_gaps):
    """Run lengths as an int64 array of their own, shape (n_runs,), that add up to the number of gaps."""
    lengths = as_numbers(lengths, "lengths", 1)
    if not lengths.size:
        raise ShapeError("lengths is empty; at least one run is wanted")
    if lengths.dtype.kind == "f" and not (np.isfinite(lengths) & (lengths == np.floor(lengths))).all():
        run = int(np.flatnonzero(~(np.isfinite(lengths) & (lengths == np.floor(lengths))))[0])
        raise DTypeError(f"lengths[{run}] is {lengths[run]}; a whole number of gaps is wanted")
    lengths = lengths.astype(np.int64)
    empty = np.flatnonzero(lengths < 1)
    if empty.size:
        run = int(empty[0])
        raise InputError(f"lengths[{run}] is {lengths[run]}: run {run} has no gap; leave it out")
    if n_gaps != lengths.sum():
        raise ShapeError(f"values has {n_gaps} gaps, but lengths add up to {lengths.sum()}")
    return lengths


def check_gaps(values, lengths, first=0):
    """Zero, or a positive number of ordinary size; `values` are those from number `first` on."""
    bad = np.flatnonzero(~((values == 0.0) | ((values >= SMALLEST) & (values <= LARGEST))))
    if not bad.size:
        return
    at, gap = int(bad[0]) + first, values[bad[0]]
    ends = np.cumsum(lengths)
    run = int(np.searchsorted(ends, at, side="right"))
    where = f"run {run}, gap {at - int(ends[run] - lengths[run])} (values[{at}])"
    if not np.isfinite(gap):
        raise FiniteError(f"{where} is {gap}; a finite gap is wanted")
    if gap < 0.0:
        raise InputError(f"{where} is {gap}; a gap is not negative. Are the events of the run in order?")
    raise InputError(
        f"{where} is {gap}; zero, or {SMALLEST:g} to {LARGEST:g}, is wanted. Choose another unit of time."
    )


def check_censored(censored, n_runs):
    """True or False for each run, shape (n_runs,)."""
    if censored is None:
        return np.zeros(n_runs, bool)
    array = np.asarray(censored)
    if array.shape != (n_runs,):
        raise ShapeError(
            f"censored has shape {array.shape}; ({n_runs},) is wanted, as there are {n_runs} runs"
        )
    if array.dtype != bool:
        raise DTypeError(f"censored must hold True or False, got dtype {array.dtype}")
    return array.copy()


def check_rounded(values, resolution):
    """Refuse gaps that are no multiples of `resolution`, but for rounding."""
    share = values / resolution
    off = np.abs(share - np.rint(share)) > 1e-6 * np.maximum(share, 1.0)
    if off.any():
        at = int(off.argmax())
        raise InputError(
            f"resolution is {resolution:g}, but a gap of {values[at]:g} is no multiple of it: "
            f"{int(off.sum())} of {len(values)} are not"
        )


def check_orders(orders):
    """Branch orders as an int64 array, shape (n_branches,)."""
    array = as_numbers(orders, "orders", 1)
    if not array.size:
        raise ShapeError("orders is empty; at least one branch is wanted")
    if array.size > MOST_BRANCHES:
        raise ShapeError(f"orders has {array.size} branches; at most {MOST_BRANCHES} are wanted")
    if array.dtype.kind == "f":
        raise DTypeError(f"orders must be whole numbers, got {orders!r}")
    if array.min() < 1 or array.max() > MOST_ORDER:
        raise InputError(f"orders is {orders!r}; whole numbers from 1 to {MOST_ORDER} are wanted")
    return array.astype(np.int64)


def check_dtype(dtype):
    """NumPy's type of that name."""
    return {"float32": np.float32, "float64": np.float64}[
        check_choice(dtype, "dtype", ("float32", "float64"))
    ]


def check_memory(memory_mb):
    """MiB as bytes, or None."""
    return None if memory_mb is None else int(2**20 * check_number(memory_mb, "memory_mb", above=0.0))
