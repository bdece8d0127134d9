"""Predictions of many targets from many libraries, and their correlation with the observations."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import Array, Shards, launch
from . import list_kernels as kernels
from .search import (
    MEMORY_BYTES,
    NARROWEST,
    TEAM,
    WIDEST,
    Columns,
    Library,
    Lines,
    Search,
    bytes_a_point,
    as_view,
)

ABREAST = 2  # targets that a team member predicts together, if there are more than APART
WIDE = 256  # members of a team that looks up the targets of few sets
# largest variance of equal numbers by rounding in the sums of a block, in units of the last place of the
# mean square
NO_VARIANCE = 64
# tasks of one launch per task that runs at a time, for an even load
TASKS_AT_A_TIME = 1024


class Mapping:
    """Predictions of many targets from many library sets, correlated with the observations.

    Parameters
    ----------
    source, points : ndarray or View, shape (n_times, n_columns)
        Columns of the libraries and of the queried points; NaN for values that must not be used.
    targets : ndarray or View, shape (n_times, n_targets)
        Targets at the libraries' times; or one column for all.
    observed : ndarray or View, optional
        Targets at the points' times; by default `targets`.
    dims : array of int, shape (n_targets,)
        Lags of each column for each target.
    window : Window
        Checked arguments, with places in `pred`. The radius -1 excludes no candidate; without k there is one
        more neighbour than there are lags.
    width : int
        Columns of each set. Each lag of all columns precedes the next lag, so that E lags are the first E
        width coordinates.
    """

    def __init__(
        self,
        source,
        points,
        targets,
        dims,
        window,
        width,
        dtype,
        memory_bytes=MEMORY_BYTES,
        observed=None,
    ):
        self.dtype, self.memory_bytes = np.dtype(dtype), memory_bytes
        tau, self.Tp, k, self.radius, _, self.windows, *_ = window
        self.order = order = np.argsort(dims, kind="stable")
        self.n_targets = self.n_sums = len(dims)
        self.dims, most, self.width = np.unique(dims), int(dims.max()), width
        self.wanted = self.dims + 1 if k is None else np.full(len(self.dims), k)
        self.search_of = np.searchsorted(self.dims, dims[order])
        self.least = NO_VARIANCE * float(np.finfo(self.dtype).eps)
        begins = np.searchsorted(dims[order], [*self.dims, most + 1])
        self.blocks = np.cumsum([0] + [-(-(end - begin) // kernels.BLOCK) for begin, end in self.windows])
        self.n_blocks = int(self.blocks[-1])
        given = Columns(source)
        points = given.values if points is source else as_view(points)
        coordinates = np.tile(np.arange(width), most), np.repeat(np.arange(most) * tau, width)
        self.lines = Lines(given, given.values, points, *coordinates, self.dtype)
        self.list_lengths = -(-self.wanted // kernels.AT_ONCE) * kernels.AT_ONCE
        self.target_of = pk.copy_of(order.astype(np.int32))
        self.bytes_a_point = int(self.list_lengths.sum()) * (self.dtype.itemsize + 4)
        column, slices = _columns(begins.tolist())
        given = given if targets is source else Columns(targets)
        column = order[column] if targets.shape[1] > 1 else np.zeros(len(column), int)
        values = seen = given.standardised(column, self.dtype)
        if observed is not None:
            seen = given.standardised(column, self.dtype, observed)
        self.targets = Table(values, seen, on_the_space(slices))
        self.filler_bytes = (len(column) - self.n_targets) * (len(values) + len(seen)) * self.dtype.itemsize
        self.times = None

    def batch_size(self, n_candidates):
        """Return the number of library sets in one launch: they use up to a quarter of the memory, and are
        not more than keep the space busy."""
        n_words, itemsize = -(-n_candidates // (32 * NARROWEST)), self.dtype.itemsize
        of_point = bytes_a_point(len(self.dims), n_words, itemsize) + self.bytes_a_point
        of_set = n_candidates + WIDEST * (self.lines.front + 1) + self.n_blocks * kernels.SUMS * self.n_sums
        each = of_set * itemsize + self.n_blocks * kernels.BLOCK * of_point
        enough = -(-TASKS_AT_A_TIME * pk.concurrency() // (self.n_blocks * len(self.dims)))
        return int(max(1, min(self.memory_bytes // (4 * each), enough)))

    def run(self, first, times):
        """Return rho of each set and target, shape (n_sets, n_targets).
        first : array of int, shape (n_sets,), the column of each set
        times : array of int, shape (1 or n_sets, n_candidates), ascending
        """
        rho = np.empty((len(first), self.n_targets))
        for part in self.batches(first, times):
            pk.deep_copy(rho[part], self.rho[: self.library.n_sets])
        return rho

    def batches(self, first, times):
        """Compute rho of as many sets at a time as fit into memory; yield the slice of each such part."""
        size = min(self.batch_size(times.shape[1]), len(first))
        self.allocate(size, times)
        for begin in range(0, len(first), size):
            part = slice(begin, begin + size)
            self.arrange(first[part], times if len(times) == 1 else times[part])
            self.predict(self.targets)
            self.correlate()
            yield part

    def allocate(self, n_sets, times):
        """Allocate arrays on the space for n_sets sets, unless the present ones are suitable."""
        if self.times is not None and n_sets <= len(self.rho) and len(self.times) == 1:
            if np.array_equal(times, self.times):
                return
        self.times, self.search = times, None
        self.library = Library(self.lines, n_sets, times)
        self.sums = pk.empty((n_sets, self.n_blocks, kernels.SUMS, self.n_sums), self.dtype)
        self.none_open = pk.zeros((1, 1), np.int32)
        self.rho = pk.empty((n_sets, self.n_targets))

    def arrange(self, first, times):
        """Store the candidates of the sets with these first columns and times, see `kernels.arrange`."""
        self.library.arrange(first * self.lines.stride, times)
        if self.search is not None:
            return
        held = self.library.values, self.library.place, self.sums, self.rho
        memory_bytes = self.memory_bytes - self.filler_bytes - sum(view.nbytes for view in held)
        most = max(end - begin for begin, end in self.windows)
        asked = self.dims * self.width, self.wanted, self.radius, most
        self.search = Search(self.library, *asked, memory_bytes, self.bytes_a_point)
        n_points = self.search.n_points
        self.in_one_part = len(self.windows) == 1 and most <= n_points
        begins = np.cumsum([0, *self.list_lengths], dtype=np.int32)
        shape = len(self.rho), int(begins[-1]) * n_points
        lists = pk.empty(shape, self.dtype), pk.empty(shape, np.int32)
        self.lists = kernels.Lists(n_points, pk.copy_of(begins), *lists)

    def predict(self, table, still_open=None, again=False):
        """Compute the sums over the predictions of a table of targets; only for pairs that are `still_open`,
        if given.

        again : True to reuse the lists of neighbours of the preceding call if they are in memory
        """
        n_sets, again = self.library.n_sets, again and self.in_one_part
        for window, low in zip(self.windows, self.blocks.tolist()):
            for start, end in [window] if again else self.search.parts(*window):
                at = low + (start - window[0]) // kernels.BLOCK
                n_blocks = -(-(end - start) // kernels.BLOCK)
                if not again:
                    self._weigh(start, end, n_blocks, len(table.observed))
                for abreast, slices in table.slices.items():
                    n_teams = len(slices) * n_sets * n_blocks
                    members, at_once = form_of(n_teams)
                    launch(
                        pk.TeamPolicy(n_teams, members),
                        kernels.look_up,
                        pk.static(int(members == WIDE)),
                        pk.static(abreast),
                        pk.static(at_once),
                        n_sets,
                        end - start,
                        start + self.Tp,
                        slices,
                        self.lists,
                        table.values,
                        table.observed,
                        self.none_open if still_open is None else still_open,
                        self.sums[:, at:],
                    )

    def _weigh(self, start, end, n_blocks, n_times):
        search = self.search
        launch(
            search.policy(self.library.n_sets * n_blocks * len(self.dims)),
            kernels.weigh_neighbours,
            search.n_dims,
            search.most_wanted,
            search.room,
            start,
            end,
            self.Tp,
            n_times,
            self.library.record,
            search.asked,
            search.found,
            self.lists,
        )

    def correlate(self):
        """Compute rho from the sums."""
        form = self.library.n_sets, self.n_targets
        launch(form, kernels.correlate, self.least, self.target_of, self.sums, self.rho)


def form_of(n_teams):
    """Return the members of each of n_teams teams that look up targets on the default space, and the points
    that each predicts together."""
    return WIDE if n_teams < pk.concurrency() else TEAM, 4


class Sets(NamedTuple):
    """Library sets as sent to a place: the first column of each, and their times; None if all sets have the
    same times."""

    first: Array
    times: Array | None

    @property
    def nbytes(self) -> int:
        return self.first.nbytes + (0 if self.times is None else self.times.nbytes)


class Maps:
    """Method for `sharding.Shards` with library sets as shards: each place has all series, and maps its sets.

    Parameters
    ----------
    args
        Arguments of Mapping.
    times : array of int, shape (1, n_candidates), or None
        Times of the sets whose `times` are None.
    space : str or Space
    """

    def __init__(self, args: tuple, times: Array | None, space: object) -> None:
        self._times, self._space = times, space
        with pk.use(space):
            self._mapping = Mapping(*args)

    def rho(self, shards: Iterator[Sets]) -> Iterator[Array]:
        """Yield rho of each set and target, shape (n_sets, n_targets), shard by shard. Shards with the same
        number of times are mapped together."""
        for _, some in itertools.groupby(
            shards, lambda sets: None if sets.times is None else sets.times.shape[1]
        ):
            parts = list(some)
            own = self._times if parts[0].times is None else np.concatenate([sets.times for sets in parts])
            with pk.use(self._space):
                rho = self._mapping.run(np.concatenate([sets.first for sets in parts]), own)
            yield from np.split(rho, np.cumsum([len(sets.first) for sets in parts])[:-1])


def mapped_in_steps(mapping, pieces, together, **where):
    """Yield (numbers of the pieces, list of rho) for groups of `together` successive pieces, which are Sets.

    mapping : arguments of Maps except the space
    where : further arguments of Shards
    """
    shards = Shards(functools.partial(Maps, *mapping), pieces, **where)
    for begin in range(0, len(pieces), together):
        part = range(begin, min(begin + together, len(pieces)))
        yield part, shards.map("rho", numbers=part)


class Table(NamedTuple):
    """Targets on the space.

    Attributes
    ----------
    values, observed : View, shape (n_times, n_columns)
        Standardised; on the libraries' times, and on the points'.
    slices : dict of int to View of int32, shape (n_slices, 5)
        The argument `slices` of `look_up`, by the number of targets per team member.
    """

    values: pk.View
    observed: pk.View
    slices: dict


def on_the_space(slices):
    """Copy lists of slices, by the number of targets per team member, to the space."""
    return {abreast: pk.copy_of(np.array(part, np.int32)) for abreast, part in slices.items() if part}


def slices_of(parts):
    """Return the slices for `look_up`, as lists by the number of targets per team member.

    parts : iterable of (search, first column, number of columns, where their sums begin, owner)
    """
    slices, most = {1: [], ABREAST: []}, ABREAST * kernels.APART
    for search, column, width, begin, owner in parts:
        for done in range(0, width, most):
            taken = min(most, width - done)
            slices[-(-taken // kernels.APART)].append((search, column + done, taken, begin + done, owner))
    return slices


def _columns(begins):
    """Assign targets to columns. Returns the target of each column, and the slices for `look_up` by the
    number of targets per team member.

    begins : list of int, the first target of each search, and the number of all. The columns of a search
        begin at a multiple of APART, or of the smallest power of two that is not below their number, so that
        a row is read in as few cache lines as possible
    """
    column, parts = [], []
    for search, (begin, end) in enumerate(pairwise(begins)):
        _line_up(column, end - begin)
        parts.append((search, len(column), end - begin, begin, -1))
        column += range(begin, end)
    _line_up(column, max(end - begin for begin, end in pairwise(begins)))
    slices = slices_of(parts)
    read = max(part[1] + abreast * kernels.APART for abreast, found in slices.items() for part in found)
    column += [0] * (read - len(column))  # `look_up` also reads unused columns
    return column, slices


def _line_up(column, width):
    """Pad the list of columns to a multiple of the smallest power of two that is not below `width`."""
    column += [0] * (-len(column) % min(kernels.APART, 1 << (width - 1).bit_length()))
