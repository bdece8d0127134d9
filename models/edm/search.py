"""Embedded series on a space, and the memory in which its teams search for neighbours."""

from __future__ import annotations

import numpy as np

import portable as pk

from . import kernels, list_kernels

TEAM = 32  # members asked for: a warp, whose collectives cost least
WIDEST = 64  # members that a team has at most, on any space
NARROWEST = 8  # and at least, where series are long
BLOCK = 64  # points whose products are added up in the kernel's dtype; blocks are added up in float64
TEAMS_AT_A_TIME = 4  # teams launched for each that runs at a time, so that all end at about the same time


def mean_of(columns):
    """The mean of what is known in each column."""
    mean = columns.mean(axis=0)  # much faster than nanmean, and seldom NaN
    return np.nanmean(columns, axis=0) if np.isnan(mean).any() else mean


def extremes(columns):
    """Smallest and largest known number of each column."""
    return np.fmin.reduce(columns, axis=0), np.fmax.reduce(columns, axis=0)


def centre_of(columns):
    """A number near the middle of each column that is subtracted without rounding where the column allows it.

    A multiple of a power of two near the spread: numbers of one binade with few digits stay exact, so ties stay ties.
    """
    low, high = extremes(columns)
    step = np.exp2(np.floor(np.log2(np.where(high > low, high - low, 1.0))) - 1)
    return np.round(mean_of(columns) / step) * step


def scale_of(columns):
    """A power of two near the largest spread, so that squares neither overflow nor vanish in float32."""
    low, high = extremes(columns.ravel())
    return float(np.exp2(np.floor(np.log2(high - low)))) if high > low else 1.0


def flat(columns, front, dtype):
    """Columns one after the other, each with NaN before and behind; and the distance from one to the next.

    Behind, a tile of points may reach past the last one.
    """
    n_times, n_columns = columns.shape
    stride = front + n_times + WIDEST
    padded = np.full((n_columns, stride), np.nan, dtype)
    padded[:, front:front + n_times] = columns.T
    return padded.ravel(), stride


def coordinates(n_columns, E, tau):
    """Column and lag of each coordinate: E lags of the first column, then of the next."""
    return np.repeat(np.arange(n_columns), E), np.tile(np.arange(E) * tau, n_columns)


class Library:
    """Candidates of one or more sets, arranged for the kernels.

    Parameters
    ----------
    source : View, shape (n_columns * stride,), from `flat`
    stride, front : int
    first : array of int, shape (n_sets,)
        Where in `source` the first column of each set begins.
    column, lag : arrays of int, shape (n_dims,)
        The coordinates, counted from that column.
    times : array of int, shape (1 or n_sets, n_candidates)
        The candidates' times, ascending.
    """

    def __init__(self, source, stride, front, first, column, lag, times):
        self.n_sets, self.n_candidates = len(first), times.shape[1]
        runs_on = bool((np.diff(times, axis=1) == 1).all())
        if runs_on:  # lags are found in the same arrangement, `pad` rows further up
            parts, self.pad = column[lag == 0] * stride + front, int(lag.max(initial=0))
            part, lead = np.searchsorted(np.unique(column), column), self.pad - lag
        else:
            parts, self.pad = column * stride + front - lag, 0
            part, lead = np.arange(len(lag)), np.zeros(len(lag))
        size = self.n_candidates + WIDEST + self.pad * WIDEST
        self.part, self.lead = _integers(part), _integers(lead)
        self.values = pk.empty((self.n_sets, len(parts) * size), source.dtype)
        self.place = pk.empty((len(times), self.n_candidates + WIDEST), np.int32)
        width = pk.empty(1, np.int32)
        pk.parallel_for(pk.TeamPolicy(self.n_sets, TEAM), kernels.arrange, self.n_candidates, self.pad, _integers(parts),
                        _integers(first), _integers(times), source, self.values, self.place, width, label="edm.arrange")
        self.width = int(width.to_numpy()[0])
        self.arguments = self.place, self.values, self.part, self.lead


class Search:
    """The chunks of a library in which the neighbours of points lie.

    Parameters
    ----------
    library : Library
    dims, wanted : arrays of int, shape (n_searches,)
        Coordinates of each search, ascending, and its number of neighbours.
    first : array of int, shape (n_sets,)
        Where in `series` the points of each set begin.
    offset : array of int, shape (n_dims,)
    series : View, from `flat`
    radius : int
        -1 excludes no candidate.
    n_points : int
        Points that will be asked for in one window.
    memory_bytes : int
        Bound of what is kept here.
    """

    def __init__(self, library, dims, wanted, first, offset, series, radius, n_points, memory_bytes):
        self.library, self.radius, self.n_dims, self.skip = library, radius, int(dims[-1]), int(dims[0]) - 1
        self.dims, self.wanted, self.most_wanted = _integers(dims), _integers(wanted), int(max(wanted))
        self.first, self.offset, self.series = _integers(first), _integers(offset), series
        itemsize, n_words = series.dtype.itemsize, -(-library.n_candidates // (32 * library.width))
        shape = library.n_sets, len(dims)
        at_once = memory_bytes // (2 * library.n_sets * bytes_a_point(len(dims), n_words, itemsize))
        self.n_points = BLOCK * max(1, min(-(-n_points // BLOCK), at_once // BLOCK))
        self.closest, self.bounds = (pk.empty((*shape, self.n_points), series.dtype) for _ in range(2))
        self.marks = pk.empty((*shape, self.n_points * n_words), np.uint32)
        room = self.n_dims - self.skip, library.n_candidates + WIDEST
        n_tasks = library.n_sets * self.n_points // library.width
        most = memory_bytes // (2 * room[0] * room[1] * itemsize)
        self.n_teams = int(max(1, min(n_tasks, TEAMS_AT_A_TIME * pk.concurrency(), most)))
        self.minima = pk.empty((self.n_teams, *room), series.dtype)
        self.room = 2 * self.most_wanted + list_kernels.ROOM

    def parts(self, begin, end):
        """A window of times in parts that fit; when one is handed out, its bounds and marks are there."""
        for first in range(begin, end, self.n_points):
            last = min(first + self.n_points, end)
            self._bound(first, last)
            yield first, last

    def _bound(self, first, last):
        scratch = self.n_dims * (4 + TEAM * self.series.dtype.itemsize) + 128
        pk.parallel_for(pk.TeamPolicy(self.n_teams, TEAM, scratch_bytes=scratch), kernels.bound, self.n_dims, self.skip,
                        self.library.n_candidates, self.library.pad, first, -(-(last - first) // self.library.width),
                        self.library.n_sets, self.radius, *self.library.arguments, self.first, self.offset, self.series,
                        self.dims, self.wanted, self.minima, self.closest, self.bounds, self.marks, label="edm.bound")

    def policy(self, n_teams):
        """Teams of the kernels that list neighbours."""
        size = self.series.dtype.itemsize + 4
        entries = self.room + self.most_wanted + 1 + list_kernels.GROUP * (self.most_wanted + 4) + self.n_dims
        return pk.TeamPolicy(n_teams, TEAM, scratch_bytes=entries * size + 4 * 64 + 10 * 64)


def bytes_a_point(n_searches, n_words, itemsize):
    """What a search keeps of a point of one set: the closest distance, the bound and the marks."""
    return n_searches * (2 * itemsize + 4 * n_words)


def _integers(values):
    return pk.copy_of(np.ascontiguousarray(values, np.int32))
