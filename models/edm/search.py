"""Embedded series on a space, and the memory for the search of neighbours by teams."""

import functools
from itertools import pairwise

import numpy as np

import portable as pk

from ..shared import InputError, launch, new_array
from . import kernels, list_kernels

MOST = 2**31 - 1  # largest index, since indices have 32 bits
SUMMARY_TEAM = 128
MEMORY_BYTES = 1 << 32  # upper bound of the memory for minima, bounds and lists
TEAM = 32  # requested members of a team: a warp, whose collectives cost least
WIDEST = 64  # largest number of members of a team on any space
NARROWEST = 8  # smallest number of members of a team for long series
LEAST_CHUNKS = 16  # smallest number of chunks per team, if tiles of points are too few for all teams
SHARE = 256  # candidates of a set per team that arranges them
TEAMS_AT_A_TIME = 4  # teams launched per team that runs at a time, for an even load


class Columns:
    """Series on the space, unchanged, and a summary of each.

    Parameters
    ----------
    values : ndarray or View of float32 or float64, shape (n_times, n_columns); NaN for missing values

    Attributes
    ----------
    values : View
    summary : View of float64, shape (4, n_columns)
        Minimum, maximum, mean and standard deviation of the finite values; it remains on the space.
    """

    def __init__(self, values):
        self.values = as_view(values)
        self.summary = pk.empty((4, values.shape[1]))
        launch(
            pk.TeamPolicy(values.shape[1], SUMMARY_TEAM),
            kernels.summarise,
            *as_vector(self.values),
            self.summary,
        )

    def lined_up(self, values, n_together, front, dtype):
        """Return columns one after the other, centred and scaled, each with NaN before and after it; and the
        distance from one column to the next.

        values : View, shape (n_times, n_columns), these columns or others in the same units. The NaN after a
            column are read by tiles of points that extend beyond it.
        n_together : number of successive columns that are coordinates of one point
        """
        n_times, n_columns = values.shape
        stride = front + n_times + WIDEST
        if n_columns * stride > MOST:
            raise InputError(
                f"{n_columns} series of {n_times} times need {n_columns * stride:,} elements; expected at "
                f"most {MOST:,}: pass fewer series"
            )
        series = pk.empty(n_columns * stride, dtype)
        launch((n_columns, stride), kernels.line_up, front, n_together, self.summary, values, series)
        return series, stride

    def standardised(self, column, dtype, values=None):
        """Return the columns `column` with mean 0 and standard deviation 1 (0 if a column does not vary),
        shape (n_times, len(column)).

        values : ndarray or View, columns of other times, standardised by the same mean and deviation; by
            default these columns
        """
        values = self.values if values is None else as_view(values)
        target = pk.empty((values.shape[0], len(column)), dtype)
        launch(target.shape, kernels.standardise, integers(column), self.summary, values, target)
        return target


def as_vector(columns):
    """Return the arguments `single` and `columns` of `kernels.value_at`; one column is returned as a
    vector."""
    single = columns.shape[1] == 1 and columns.strides[0] == columns.dtype.itemsize
    return pk.static(int(single)), columns.reshape(-1) if single else columns


def as_view(values):
    """Return an array as a view on the default space; a View is returned unchanged."""
    return values if isinstance(values, pk.View) else pk.copy_of(values)


def on_the_host(view):
    """Return a copy of a view's elements on the host: the next call of the form may overwrite the view."""
    array = new_array(view.shape, view.dtype)
    pk.deep_copy(array, view)
    return array


def power_of_two(widths):
    """Return the largest power of two that does not exceed each width; 1 for widths of 0."""
    return np.exp2(np.floor(np.log2(np.where(widths > 0, widths, 1.0))))


@functools.lru_cache(maxsize=64)
def coordinates(n_columns, E, tau):
    """Return column and lag of each coordinate, read-only: E lags of the first column, then of the next."""
    return np.repeat(np.arange(n_columns), E), np.tile(np.arange(E) * tau, n_columns)


class Lines:
    """Columns of candidates and of points, one after the other on the space.

    Parameters
    ----------
    given : Columns
        Its summary defines the centres and units.
    values, points : Views, shape (n_times, n_columns) and (n_times_2, n_columns)
        Columns of candidates and points; the same view if they are equal.
    column, lag : arrays of int, shape (n_dims,)
        The coordinates of a point, columns counted from the first one of a set.
    dtype : numpy.dtype
    """

    def __init__(self, given, values, points, column, lag, dtype):
        self.column, self.lag, self.front = column, lag, int(lag.max())
        lines = int(column.max()) + 1, self.front, dtype
        self.source, self.stride = given.lined_up(values, *lines)
        self.points, self.point_stride = self.source, self.stride
        if points is not values:
            self.points, self.point_stride = given.lined_up(points, *lines)

    def offset(self, stride):
        """Return the index of each coordinate of the point of time 0, for columns `stride` apart."""
        return self.column * stride + self.front - self.lag


class Library:
    """Candidates of one or more sets, arranged for the kernels.

    Parameters
    ----------
    lines : Lines
    n_sets : int
        Largest number of sets that are arranged at a time.
    times : array of int, shape (1 or n_sets, n_candidates)
        The candidates' times, ascending, of all sets.
    """

    def __init__(self, lines, n_sets, times):
        self.lines, self.most_sets, self.n_candidates = lines, n_sets, times.shape[1]
        column, lag = lines.column, lines.lag
        self.runs_on = bool((np.diff(times, axis=1) == 1).all())
        if self.runs_on:  # lags share the arrangement of lag 0, up to `pad` rows before it
            parts, self.pad = lines.offset(lines.stride)[lag == 0], lines.front
            part, lead = np.searchsorted(np.unique(column), column), self.pad - lag
        else:
            parts, self.pad = lines.offset(lines.stride), 0
            part, lead = np.arange(len(lag)), np.zeros(len(lag))
        adjacent = pk.static(int(self.runs_on and np.array_equal(lag, np.arange(len(lag)))))
        size = self.n_candidates + WIDEST + (self.pad + 1) * WIDEST
        self.width = None
        self.parts = integers(parts)
        most = -(-TEAMS_AT_A_TIME * pk.concurrency() // n_sets)
        self.n_shares = max(1, min(most, self.n_candidates // SHARE))
        self.values = pk.empty((n_sets, len(parts) * size), lines.source.dtype)
        self.place = pk.empty((min(n_sets, len(times)), self.n_candidates + 2 * WIDEST), np.int32)
        form = self.n_candidates, self.runs_on, adjacent, self.pad
        self.record = kernels.Arranged(*form, self.place, self.values, *packed(part, lead))

    def arrange(self, first, times):
        """Store the candidates of sets in chunks.

        first : shape (n_sets,), index in `source` of the first column of each set
        times : as of the class
        """
        self.n_sets = len(first)
        times = times[:, :1] if self.runs_on else times
        first, there = packed(first, times)
        self.record = self.record._replace(first=first)
        width = pk.empty(1, np.int32)
        launch(
            pk.TeamPolicy(self.n_sets * self.n_shares, TEAM),
            kernels.arrange,
            pk.static(int(self.runs_on)),
            self.n_shares,
            self.parts,
            there.reshape(times.shape),
            self.lines.source,
            self.record,
            width,
        )
        self.width = self.width or int(width.to_numpy()[0])


class Search:
    """Search for the chunks of a library that contain the neighbours of points.

    Parameters
    ----------
    library : Library
        Its sets are arranged before `parts`, and may be rearranged later.
    dims, wanted : arrays of int, shape (n_searches,)
        Number of coordinates of each search, ascending, and its number of neighbours.
    radius : int
        Exclusion radius; -1 excludes no candidate.
    n_points : int
        Largest number of points in one window.
    memory_bytes : int
        Upper bound of the memory.
    beside : int
        Bytes that the caller needs for each point of a set, included in that bound.
    """

    def __init__(self, library, dims, wanted, radius, n_points, memory_bytes=MEMORY_BYTES, beside=0):
        lines = library.lines
        self.library, self.dtype = library, lines.points.dtype
        self.n_dims, self.skip = int(dims[-1]), int(dims[0]) - 1
        *searches, offset = packed(dims, wanted, lines.offset(lines.point_stride))
        self.most_wanted, self.asked = int(max(wanted)), kernels.Asked(radius, offset, lines.points)
        itemsize, n_words = self.dtype.itemsize, -(-library.n_candidates // (32 * library.width))
        shape = library.most_sets, len(dims)
        each = library.most_sets * (bytes_a_point(len(dims), n_words, itemsize) + beside)
        at_once = memory_bytes // (4 * each)
        block = list_kernels.BLOCK
        self.n_points = block * max(1, min(-(-n_points // block), at_once // block))
        near = (pk.empty((*shape, self.n_points), self.dtype) for _ in range(2))
        marks = pk.empty((*shape, n_words, self.n_points), np.uint32)
        self.found = kernels.Bounds(*searches, *near, marks)
        room = self.n_dims - self.skip, library.n_candidates + WIDEST
        n_tasks = library.most_sets * self.n_points // library.width
        most = 3 * memory_bytes // (4 * room[0] * room[1] * itemsize)
        self.n_teams = int(max(1, min(n_tasks, TEAMS_AT_A_TIME * pk.concurrency(), most)))
        self.minima = pk.empty((self.n_teams, *room), self.dtype)
        # a share p of points lies within p^(1 / E) of the largest distance
        n_chunks = -(-library.n_candidates // library.width)
        self.guess = float(min(0.5, (wanted[0] / n_chunks) ** (2 / dims[0])))
        self.room = 2 * self.most_wanted + list_kernels.ROOM

    def parts(self, begin, end):
        """Yield a window of times in parts that fit in memory, each with its bounds and marks computed."""
        for first in range(begin, end, self.n_points):
            last = min(first + self.n_points, end)
            self._bound(first, last)
            yield first, last

    def _bound(self, first, last):
        scratch = pk.scratch_bytes((self.n_dims, np.int32), ((self.n_dims, TEAM), self.dtype))
        library = self.library
        n_tiles = -(-(last - first) // library.width)
        n_tasks, n_chunks = n_tiles * library.n_sets, -(-library.n_candidates // library.width)
        n_parts = min(TEAMS_AT_A_TIME * pk.concurrency() // n_tasks, n_chunks // LEAST_CHUNKS)
        alone = n_parts > 1 and n_tasks <= self.n_teams
        form, both = (self.n_dims, self.skip, first, n_tiles), (library.record, self.asked)
        if alone:
            launch(
                pk.TeamPolicy(n_tasks * n_parts, TEAM, scratch_bytes=scratch),
                kernels.measure,
                *form,
                n_parts,
                *both,
                self.minima,
            )
        launch(
            pk.TeamPolicy(self.n_teams, TEAM, scratch_bytes=scratch),
            kernels.bound,
            pk.static(int(alone)),
            *form,
            library.n_sets,
            self.guess,
            *both,
            self.minima,
            self.found,
        )

    def policy(self, n_teams):
        """Return the policy of the kernels that list neighbours, for n_teams teams."""
        lengths = self.room, self.most_wanted, self.n_dims
        lists = [(n, dtype) for n in lengths for dtype in (self.dtype, np.int32)]
        return pk.TeamPolicy(
            n_teams, TEAM, scratch_bytes=pk.scratch_bytes(*lists, (list_kernels.CHOSEN, np.int32))
        )


def bytes_a_point(n_searches, n_words, itemsize):
    """Return the bytes per point and set of a search: closest distance, bound and marks."""
    return n_searches * (2 * itemsize + 4 * n_words)


def packed(*arrays):
    """Return arrays of integers as flat views on the space, parts of one array that is copied at once."""
    ends = np.cumsum([0, *(np.size(array) for array in arrays)]).tolist()
    there = integers(np.concatenate([np.ravel(array) for array in arrays]))
    return [there[begin:end] for begin, end in pairwise(ends)]


def integers(values):
    """Return integers as a view of int32 on the space."""
    return pk.copy_of(np.ascontiguousarray(values, np.int32))
