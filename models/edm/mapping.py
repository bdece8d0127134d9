"""Predictions of many targets from many libraries, and their correlation with what was observed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import portable as pk

from . import list_kernels as kernels
from .search import (
    BLOCK,
    NARROWEST,
    TEAM,
    WIDEST,
    Columns,
    Library,
    Search,
    bytes_a_point,
    lined_up,
)

ABREAST = 4, 2, 1  # targets that a member looks up together, where there are many, some, and few
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
        centre, scale = given.centre(), given.scale(common=False)
        self.source, self.stride = lined_up(given.values, centre, scale, self.front, self.dtype)
        self.points = self.source
        if points is not source:
            self.points, _ = lined_up(pk.copy_of(points), centre, scale, self.front, self.dtype)
        self.list_lengths = -(-(self.dims + 1) // kernels.AT_ONCE) * kernels.AT_ONCE
        self.target_of = pk.copy_of(order.astype(np.int32))
        column, slices = _columns(begins.tolist())
        self.slices = {abreast: pk.copy_of(np.array(part, np.int32)) for abreast, part in slices.items() if part}
        self.bytes_a_point = int(self.list_lengths.sum()) * (self.dtype.itemsize + 4)
        self.offset = self.front - lag
        given = given if targets is source else Columns(targets)
        column = order[column] if targets.shape[1] > 1 else np.zeros(len(column), int)
        self.targets = self.observed = given.standardised(column, self.dtype)
        if observed is not None:
            self.observed = given.standardised(column, self.dtype, observed)
        self.filler_bytes = (len(column) - self.n_targets) * (len(self.targets) + len(self.observed)) * self.dtype.itemsize

    def batch_size(self, n_candidates):
        """Library sets of one launch: a quarter of the memory is theirs, and no more are taken than keep the space busy."""
        n_words = -(-n_candidates // (32 * NARROWEST))
        each = (n_candidates + WIDEST * (self.front + 1) + self.n_blocks * kernels.SUMS * self.n_targets) * self.dtype.itemsize
        each += self.n_blocks * BLOCK * (bytes_a_point(len(self.dims), n_words, self.dtype.itemsize) + self.bytes_a_point)
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
            self._run(first[part] * self.stride, times if len(times) == 1 else times[part], rho[part])
        return rho

    def _run(self, begin, times, out):
        room, n_sets = self.room, len(begin)
        library, search = room.turn_to(begin, times)
        for window, low in zip(self.windows, self.blocks.tolist()):
            for start, end in search.parts(*window):
                at = low + (start - window[0]) // BLOCK
                n_blocks = -(-(end - start) // BLOCK)
                pk.parallel_for(search.policy(n_sets * n_blocks * len(self.dims)), kernels.weigh_neighbours, library.adjacent,
                                self.n_dims, library.n_candidates, library.pad, search.room, start, end, BLOCK, self.radius,
                                self.Tp, len(self.observed), *library.arguments, library.first, search.offset, self.points,
                                search.dims, search.closest, search.bounds, search.marks, *room.lists, label="edm.weigh_neighbours")
                for abreast, slices in self.slices.items():
                    pk.parallel_for(pk.TeamPolicy(len(slices) * n_sets * n_blocks, TEAM), kernels.look_up, pk.static(abreast), n_sets,
                                    start, end, BLOCK, self.Tp, slices, *room.lists, self.targets, self.observed,
                                    room.sums[:, at:at + n_blocks], label="edm.look_up")
        pk.parallel_for(pk.MDRangePolicy((0, 0), (n_sets, self.n_targets)), kernels.correlate, self.target_of, room.sums,
                        room.rho, label="edm.correlate")
        pk.deep_copy(out, room.rho[:n_sets])


def _columns(begins):
    """Where targets go: which one each column holds, and the slices of them that `look_up` wants, by how many go abreast.

    begins : list of int, of the targets of each search, and their number. The columns of a search begin at a multiple of
        APART, or of the power of two that holds them all: then what is read of a row shares as few cache lines as can be
    """
    column, slices = [], {abreast: [] for abreast in ABREAST}
    for search, (begin, end) in enumerate(pairwise(begins)):
        _line_up(column, end - begin)
        shift = len(column) - begin
        column += range(begin, end)
        while begin < end:
            abreast = next(a for a in ABREAST if end - begin > (a - 1) * kernels.APART)
            width = min(abreast * kernels.APART, end - begin)
            slices[abreast].append((search, shift + begin, width, begin))
            begin += width
    _line_up(column, max(end - begin for begin, end in pairwise(begins)))
    return column, slices


def _line_up(column, width):
    """Fill up with any target, to a multiple of the power of two that holds `width`."""
    column += [0] * (-len(column) % min(kernels.APART, 1 << (width - 1).bit_length()))


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
        """(library, search), with these sets in the library."""
        self.library.arrange(begin, times)
        if self.search is None:
            m = self.mapping
            most = max(end - begin for begin, end in m.windows)
            kept = m.filler_bytes + sum(view.nbytes for view in (self.library.values, self.library.place, self.sums, self.rho))
            self.search = Search(self.library, m.dims, m.dims + 1, m.offset, m.points, m.radius, most, m.memory_bytes - kept,
                                 m.bytes_a_point)
            n_points, begins = self.search.n_points, np.cumsum([0, *m.list_lengths], dtype=np.int32)
            shape = self.n_sets, int(begins[-1]) * n_points
            self.lists = n_points, pk.copy_of(begins), pk.empty(shape, m.dtype), pk.empty(shape, np.int32)
        return self.library, self.search
