"""Predictions of many targets from many libraries, and their correlation with what was observed."""

from __future__ import annotations

import numpy as np

import portable as pk

from . import list_kernels as kernels
from .search import (
    BLOCK,
    NARROWEST,
    WIDEST,
    Columns,
    Library,
    Search,
    bytes_a_point,
    lined_up,
)

TASKS_AT_A_TIME = 512  # tasks of one launch for each that runs at a time, so that all end at about the same time


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
        order = np.argsort(dims, kind="stable")
        self.n_targets, self.room = len(dims), None
        self.dims = np.unique(dims)
        begins = np.searchsorted(dims[order], [*self.dims, self.n_dims + 1])
        self.blocks = np.cumsum([0] + [-(-(end - begin) // BLOCK) for begin, end in windows])
        self.n_blocks = int(self.blocks[-1])
        given = Columns(source)
        self.constant = given.low == given.high
        centre, scale = given.centre(), given.scale()
        self.source, self.stride = lined_up(given.values, centre, scale, self.front, self.dtype)
        self.points = self.source
        if points is not source:
            self.points, _ = lined_up(pk.copy_of(points), centre, scale, self.front, self.dtype)
        self.begins = pk.copy_of(begins.astype(np.int32))
        self.offset = self.front - lag
        given = given if targets is source else Columns(targets)
        self.target_of = pk.copy_of(order.astype(np.int32))
        column = order if targets.shape[1] > 1 else np.zeros(self.n_targets, int)
        self.targets = self.observed = given.standardised(column, self.dtype)
        if observed is not None:
            self.observed = given.standardised(column, self.dtype, observed)

    def batch_size(self, n_candidates):
        """Library sets of one launch: a quarter of the memory is theirs, and no more are taken than keep the space busy."""
        n_words = -(-n_candidates // (32 * NARROWEST))
        each = (n_candidates + WIDEST * (self.front + 1) + self.n_blocks * kernels.SUMS * self.n_targets) * self.dtype.itemsize
        each += self.n_blocks * BLOCK * bytes_a_point(len(self.dims), n_words, self.dtype.itemsize)
        enough = -(-TASKS_AT_A_TIME * pk.concurrency() // (self.n_blocks * len(self.dims)))
        return int(max(1, min(self.memory_bytes // (4 * each), enough)))

    def run(self, first, times):
        """rho of each set and target, shape (n_sets, n_targets).

        first : array of int, shape (n_sets,), the column of each set
        times : array of int, shape (1 or n_sets, n_candidates), ascending
        """
        size = min(self.batch_size(times.shape[1]), len(first))
        if self.room is None or not self.room.serves(size, times):
            self.room = Room(self, size, times)
        rho = np.empty((len(first), self.n_targets))
        for begin in range(0, len(first), size):
            part = slice(begin, begin + size)
            rho[part] = self._run(first[part] * self.stride, times if len(times) == 1 else times[part])
        return rho

    def _run(self, begin, times):
        library, search, sums, rho = self.room.turn_to(begin, times)
        n_sets = len(begin)
        for window, low in zip(self.windows, self.blocks.tolist()):
            for start, end in search.parts(*window):
                at = low + (start - window[0]) // BLOCK
                n_blocks = -(-(end - start) // BLOCK)
                pk.parallel_for(search.policy(n_sets * n_blocks * len(self.dims)), kernels.cross_map, library.adjacent,
                                self.n_dims, library.n_candidates, library.pad, search.room, start, end, BLOCK, self.radius,
                                self.Tp, *library.arguments, library.first, search.offset, self.points, search.dims, self.begins,
                                self.targets, self.observed, search.closest, search.bounds, search.marks,
                                sums[:, at:at + n_blocks], label="edm.cross_map")
        pk.parallel_for(pk.MDRangePolicy((0, 0), (n_sets, self.n_targets)), kernels.correlate, self.target_of, sums, rho,
                        label="edm.correlate")
        return rho[:n_sets].to_numpy()


class Room:
    """What a mapping keeps on the space for a number of sets; it serves others of no larger number."""

    def __init__(self, mapping, n_sets, times):
        self.mapping, self.n_sets, self.times, self.search = mapping, n_sets, times, None
        self.library = Library(mapping.source, mapping.stride, mapping.front, np.zeros(mapping.n_dims, int), mapping.lag, n_sets,
                               times)
        self.sums = pk.empty((n_sets, mapping.n_blocks, kernels.SUMS, mapping.n_targets), mapping.dtype)
        self.rho = pk.empty((n_sets, mapping.n_targets), np.float64)

    def serves(self, n_sets, times):
        return n_sets <= self.n_sets and len(self.times) == 1 and np.array_equal(times, self.times)

    def turn_to(self, begin, times):
        """(library, search, sums, rho), with these sets in the library."""
        self.library.arrange(begin, times)
        if self.search is None:
            m = self.mapping
            most = max(end - begin for begin, end in m.windows)
            self.search = Search(self.library, m.dims, m.dims + 1, m.offset, m.points, m.radius, most, m.memory_bytes)
        return self.library, self.search, self.sums, self.rho
