"""Predictions of many targets from many libraries, and their correlation with what was observed."""

from __future__ import annotations

import numpy as np

import portable as pk

from . import kernels
from .search import WIDEST, Library, Workspace, centre_of, flat, scale_of

ROWS_A_BLOCK = 64  # points whose products are added up in the kernel's dtype; blocks are added up in float64


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
        begins = np.searchsorted(dims[self.order], np.arange(1, self.n_dims + 2))
        self.blocks = np.cumsum([0] + [-(-(end - begin) // ROWS_A_BLOCK) for begin, end in windows])
        self.n_blocks = int(self.blocks[-1])
        centre = centre_of(np.concatenate([source, points])) if points is not source else centre_of(source)
        scale = scale_of(source)
        values, self.stride = flat((source - centre) / scale, self.front, self.dtype)
        self.source = pk.copy_of(values)
        self.points = self.source if points is source else pk.copy_of(flat((points - centre) / scale, self.front, self.dtype)[0])
        self.begins = pk.copy_of(begins.astype(np.int32))
        self.offset = pk.copy_of((self.front - lag).astype(np.int32))
        middle, spread = _moments(targets)
        self.targets = self._copied(targets, middle, spread)
        self.observed = self.targets if observed is None else self._copied(observed, middle, spread)

    def _copied(self, targets, middle, spread):
        """The targets in the order of dimensions, so standardised that sums of products in float32 lose little."""
        targets = np.broadcast_to((targets - middle) / spread, (len(targets), self.n_targets))
        return pk.copy_of(np.ascontiguousarray(targets[:, self.order], self.dtype))

    def batch_size(self, n_candidates):
        """Library sets of one launch: half of the memory is theirs."""
        each = (n_candidates + WIDEST * (self.front + 1) + self.n_blocks * kernels.SUMS * self.n_targets) * self.dtype.itemsize
        return max(1, int(self.memory_bytes // (2 * each)))

    def run(self, first, times):
        """rho of each set and target, shape (n_sets, n_targets).

        first : array of int, shape (n_sets,), the column of each set
        times : array of int, shape (1 or n_sets, n_candidates), ascending
        """
        base = int(first.min()) * self.stride  # places are counted from there, in 32 bits
        source, points = self.source[base:], self.points[base:]
        begin = (first - first.min()) * self.stride
        n_sets, n_candidates = len(first), times.shape[1]
        library = Library(source, self.stride, self.front, begin, np.zeros(self.n_dims, int), self.lag, times)
        begin = pk.copy_of(begin.astype(np.int32))
        work = Workspace(n_sets * self.n_blocks, n_candidates, self.n_dims, self.n_dims, self.n_dims + 1, self.dtype, self.memory_bytes // 2)
        sums = pk.empty((n_sets, self.n_blocks, kernels.SUMS, self.n_targets), self.dtype)
        rho = pk.empty((n_sets, self.n_targets), np.float64)
        for window, low, high in zip(self.windows, self.blocks, self.blocks[1:]):
            pk.parallel_for(work.policy, kernels.cross_map, self.n_dims, n_candidates, library.pad, work.room, *window,
                            ROWS_A_BLOCK, n_sets, self.radius, self.Tp, library.place, library.values, library.part,
                            library.lead, begin, self.offset, points, self.begins, self.targets, self.observed, work.minima, work.marks,
                            work.chosen, sums[:, int(low):int(high)], label="edm.cross_map")
        pk.parallel_for(pk.MDRangePolicy((0, 0), rho.shape), kernels.correlate, sums, rho, label="edm.correlate")
        out = np.empty(rho.shape)
        out[:, self.order] = rho.to_numpy()
        return out


def _moments(columns):
    """Mean and standard deviation of each column; 1 for the latter where nothing varies."""
    middle = np.nanmean(columns, axis=0)
    spread = np.sqrt(np.nanmean((columns - middle) ** 2, axis=0))
    return middle, np.where(spread > 0, spread, 1.0)
