"""Cross mapping: every library series against every target, and the sweep of embedding dimensions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import DTypeError, InputError, ShapeError

from ..checks import as_numbers, check_choice, check_count, check_number
from . import kernels
from .checks import DTYPES, check_columns, check_embedding, check_enough, check_horizon, check_radius, check_windows
from .search import Library, Workspace, centre_of, flat, scale_of

ROWS_A_BLOCK = 64  # points whose products are added up in the kernel's dtype; blocks are added up in float64


def check_dims(dims, n_series):
    dims = as_numbers(dims, "dims")
    dims = np.full(n_series, dims) if dims.ndim == 0 else dims
    if dims.shape != (n_series,):
        raise ShapeError(f"dims has shape {dims.shape}; one dimension a series is wanted: shape ({n_series},)")
    if dims.dtype.kind not in "iu":
        raise DTypeError(f"dims must be whole numbers, got dtype {dims.dtype}")
    if dims.min() < 1:
        n = int(np.argmin(dims))
        raise InputError(f"dims[{n}] is {dims[n]}; at least 1 is wanted")
    return dims.astype(np.int64)


class Mapping:
    """Predictions of many targets from many library sets, correlated with what was observed.

    Parameters
    ----------
    source, points : ndarray, shape (n_times, n_columns)
        Columns of the libraries and of the queried points; NaN where not to be used.
    targets : ndarray, shape (n_times, n_targets)
    dims : array of int, shape (n_targets,)
        Coordinates for each target.
    lag : array of int, shape (max(dims),)
        Coordinate e is the series `lag[e]` times earlier.
    window : (begin, end)
        Times of the points.
    radius : int
        -1 excludes no candidate.
    """

    def __init__(self, source, points, targets, dims, lag, Tp, window, radius, dtype, memory_bytes):
        self.dtype, self.Tp, self.radius, self.window, self.memory_bytes = np.dtype(dtype), Tp, radius, window, memory_bytes
        self.lag, self.n_dims, self.front = lag, len(lag), int(lag.max())
        self.order = np.argsort(dims, kind="stable")
        self.n_targets = len(dims)
        begins = np.searchsorted(dims[self.order], np.arange(1, self.n_dims + 2))
        self.n_blocks = -(-(window[1] - window[0]) // ROWS_A_BLOCK)
        centre = centre_of(np.concatenate([source, points])) if points is not source else centre_of(source)
        scale = scale_of(source)
        values, self.stride = flat((source - centre) / scale, self.front, self.dtype)
        self.source = pk.copy_of(values)
        self.points = self.source if points is source else pk.copy_of(flat((points - centre) / scale, self.front, self.dtype)[0])
        self.begins = pk.copy_of(begins.astype(np.int32))
        self.offset = pk.copy_of((self.front - lag).astype(np.int32))
        self.targets = pk.copy_of(_standardised(targets)[:, self.order].astype(self.dtype))

    def batch_size(self, n_candidates):
        """Library sets of one launch: half of the memory is theirs."""
        each = (n_candidates + 64 * (self.front + 1) + self.n_blocks * kernels.SUMS * self.n_targets) * self.dtype.itemsize
        return max(1, int(self.memory_bytes // (2 * each)))

    def run(self, first, times):
        """rho of each set and target, shape (n_sets, n_targets).

        first : array of int, shape (n_sets,), the column of each set
        times : array of int, shape (1 or n_sets, n_candidates), ascending
        """
        n_sets, n_candidates = len(first), times.shape[1]
        library = Library(self.source, self.stride, self.front, first, np.zeros(self.n_dims, int), self.lag, times)
        work = Workspace(n_sets * self.n_blocks, n_candidates, self.n_dims, self.n_dims + 1, self.dtype, self.memory_bytes // 2)
        sums = pk.empty((n_sets, self.n_blocks, kernels.SUMS, self.n_targets), self.dtype)
        rho = pk.empty((n_sets, self.n_targets), np.float64)
        pk.parallel_for(work.policy, kernels.cross_map, self.n_dims, n_candidates, library.pad, work.room, *self.window,
                        ROWS_A_BLOCK, n_sets, self.radius, self.Tp, library.place, library.values, library.part, library.lead,
                        pk.copy_of((np.asarray(first) * self.stride).astype(np.int32)), self.offset, self.points, self.begins,
                        self.targets, work.minima, work.marks, work.chosen, sums, label="edm.cross_map")
        pk.parallel_for(pk.MDRangePolicy((0, 0), rho.shape), kernels.correlate, sums, rho, label="edm.correlate")
        out = np.empty(rho.shape)
        out[:, self.order] = rho.to_numpy()
        return out


def _standardised(columns):
    """Columns of mean 0 and mean square 1, so that sums of products in float32 lose little; zeros where nothing varies."""
    centred = columns - np.nanmean(columns, axis=0)
    spread = np.sqrt(np.nanmean(centred**2, axis=0))
    return np.divide(centred, spread, out=np.where(np.isnan(centred), np.nan, 0.0), where=spread > 0)


def constant_columns(columns):
    return np.nanmax(columns, axis=0) == np.nanmin(columns, axis=0)


def cross_map(dataset, dims, *, tau=1, Tp=0, exclusion_radius=0, libraries=None, dtype="float32", memory_mb=1024, space=None):
    dataset = check_columns(dataset, "dataset")
    n_times, n_series = dataset.shape
    dims = check_dims(dims, n_series)
    E, tau = check_embedding(int(dims.max()), tau, n_times, "dataset")
    Tp = check_horizon(Tp, n_times, E, tau)
    radius = check_radius(exclusion_radius)
    check_choice(dtype, "dtype", DTYPES)
    memory_bytes = int(2**20 * check_number(memory_mb, "memory_mb", above=0))
    rows = np.arange(n_series) if libraries is None else np.asarray(libraries)
    lag = np.arange(E) * tau
    times = np.arange(max(0, -Tp), n_times - max(Tp, 0))[None]
    with pk.use(pk.default_space() if space is None else space):
        mapping = Mapping(dataset, dataset, dataset, dims, lag, Tp, (0, n_times), radius, dtype, memory_bytes)
        size = mapping.batch_size(times.shape[1])
        rho = np.concatenate([mapping.run(rows[b:b + size], times) for b in range(0, len(rows), size)])
    constant = constant_columns(dataset)
    rho[constant[rows]] = np.nan
    rho[:, constant] = np.nan
    return rho
