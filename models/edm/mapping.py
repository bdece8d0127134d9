"""Predictions of many targets from many libraries, and their correlation with what was observed."""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import InputError

from . import list_kernels as kernels
from .search import BLOCK, NARROWEST, WIDEST, Library, Search, bytes_a_point, centre_of, flat, mean_of, scale_of

MOST = 2**31 - 1  # places are counted in 32 bits
TASKS_AT_A_TIME = 64  # tasks of one launch for each that runs at a time, so that all end at about the same time


class Mapping:
    """Predictions of many targets from many library sets, correlated with what was observed.

    Parameters
    ----------
    source, points : ndarray, shape (n_times, n_columns)
        Columns of the libraries and of the queried points; NaN where not to be used.
    targets : ndarray, shape (n_times, n_targets)
        On the libraries' times; or one column for all.
    observed : ndarray, optional
        The same on the points' times; as the targets if not given.
    dims : array of int, shape (n_targets,)
        Coordinates for each target.
    lag : array of int, shape (max(dims),)
        Coordinate e is the series `lag[e]` times earlier.
    windows : list of (begin, end)
        Times of the points.
    radius : int
        -1 excludes no candidate.
    """

    def __init__(self, source, points, targets, dims, lag, Tp, windows, radius, dtype, memory_bytes, observed=None):
        self.dtype, self.Tp, self.radius, self.windows, self.memory_bytes = np.dtype(dtype), Tp, radius, windows, memory_bytes
        self.lag, self.n_dims, self.front = lag, len(lag), int(lag.max())
        self.order = np.argsort(dims, kind="stable")
        self.n_targets = len(dims)
        self.dims = np.unique(dims)
        begins = np.searchsorted(dims[self.order], [*self.dims, self.n_dims + 1])
        self.blocks = np.cumsum([0] + [-(-(end - begin) // BLOCK) for begin, end in windows])
        self.n_blocks = int(self.blocks[-1])
        centre = centre_of(source)
        scale = scale_of(source)
        values, self.stride = flat((source - centre) / scale, self.front, self.dtype)
        if values.size > MOST:
            raise InputError(f"{source.shape[1]} series of {source.shape[0]} times take {values.size:,} places; at most "
                             f"{MOST:,} are possible: cross-map parts of them")
        self.source = pk.copy_of(values)
        self.points = self.source
        if points is not source:
            self.points = pk.copy_of(flat((points - centre) / scale, self.front, self.dtype)[0])
        self.begins = pk.copy_of(begins.astype(np.int32))
        self.offset = self.front - lag
        middle, spread = _moments(targets)
        self.targets = self._copied(targets, middle, spread)
        self.observed = self.targets if observed is None else self._copied(observed, middle, spread)

    def _copied(self, targets, middle, spread):
        """The targets in the order of dimensions, so standardised that sums of products in float32 lose little."""
        values = targets - middle
        values /= spread
        values = np.broadcast_to(values.astype(self.dtype), (len(targets), self.n_targets))
        return pk.copy_of(np.take(values, self.order, axis=1))

    def batch_size(self, n_candidates):
        """Library sets of one launch: half of the memory is theirs, and no more are taken than keep the space busy."""
        n_words = -(-n_candidates // (32 * NARROWEST))
        each = (n_candidates + WIDEST * (self.front + 1) + self.n_blocks * kernels.SUMS * self.n_targets) * self.dtype.itemsize
        each += self.n_blocks * BLOCK * bytes_a_point(len(self.dims), n_words, self.dtype.itemsize)
        enough = -(-TASKS_AT_A_TIME * pk.concurrency() // (self.n_blocks * len(self.dims)))
        return int(max(1, min(self.memory_bytes // (2 * each), enough)))

    def run(self, first, times):
        """rho of each set and target, shape (n_sets, n_targets).

        first : array of int, shape (n_sets,), the column of each set
        times : array of int, shape (1 or n_sets, n_candidates), ascending
        """
        size = self.batch_size(times.shape[1])
        parts = [slice(begin, begin + size) for begin in range(0, len(first), size)]
        return np.concatenate([self._run(first[part], times if len(times) == 1 else times[part]) for part in parts])

    def _run(self, first, times):
        begin = first * self.stride
        n_sets, n_candidates = len(first), times.shape[1]
        library = Library(self.source, self.stride, self.front, begin, np.zeros(self.n_dims, int), self.lag, times)
        most = max(end - begin for begin, end in self.windows)
        search = Search(library, self.dims, self.dims + 1, begin, self.offset, self.points, self.radius, most,
                        self.memory_bytes // 2)
        sums = pk.empty((n_sets, self.n_blocks, kernels.SUMS, self.n_targets), self.dtype)
        rho = pk.empty((n_sets, self.n_targets), np.float64)
        for window, low in zip(self.windows, self.blocks.tolist()):
            for start, end in search.parts(*window):
                at = low + (start - window[0]) // BLOCK
                n_blocks = -(-(end - start) // BLOCK)
                pk.parallel_for(search.policy(n_sets * n_blocks * len(self.dims)), kernels.cross_map, self.n_dims, n_candidates,
                                library.pad, search.room, start, end, BLOCK, self.radius, self.Tp, *library.arguments,
                                search.first, search.offset, self.points, search.dims, self.begins, self.targets, self.observed,
                                search.closest, search.bounds, search.marks, sums[:, at:at + n_blocks], label="edm.cross_map")
        pk.parallel_for(pk.MDRangePolicy((0, 0), rho.shape), kernels.correlate, sums, rho, label="edm.correlate")
        out = np.empty(rho.shape)
        out[:, self.order] = rho.to_numpy()
        return out


def _moments(columns):
    """Mean and standard deviation of each column; 1 for the latter where nothing varies."""
    middle = mean_of(columns)
    spread = np.sqrt(mean_of((columns - middle) ** 2))
    return middle, np.where(spread > 0, spread, 1.0)
