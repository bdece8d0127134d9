"""The sums over pairs in (1) and (2), by all pairs, by windows in time, or by cells in space and time."""

import functools
import math
import operator
from typing import Literal, TypeAlias

import numpy as np

import portable as pk

from ..shared import launch, lock_of, reached
from . import kernels
from .cell_kernels import background_by_cells, excitations_of_several
from .cells import Grid, PairList, Range
from .excitation import MEMBERS, event_slopes, excitation_sums, pair_tiles
from .triggering import EXPONENTIAL

Method: TypeAlias = Literal["auto", "all_pairs", "windowed", "cells"]

# Events that a member of pair_tiles keeps in registers. Each takes three times as many registers with
# derivatives, and in float64 twice that.
_ROWS, _ROWS_OF_SLOPES = 8, {np.float32: 8, np.float64: 4}

# Below this many events a launch takes longer than its sum, so windows save nothing.
_FEW_EVENTS = 1024

_TEAM_SIZE = 32  # for sums by windows and cells

# Events of a block of pair_tiles: a multiple of 256. Many pairs of small blocks balance the load, but each
# block costs 16 bytes per event.
_BLOCK, _MOST_BLOCKS = 256, 150

# A list of pairs is valid for triggering parameters that differ by at most this factor from those at its
# construction.
_LIST_RANGE = 1.5
# Locations are stored as two float32 parts if their rounding error exceeds this share of the shortest length.
# Below it, the relative error of log-likelihoods is less than 1e-6 (tests/models/hawkes/test_likelihood.py).
_ROUNDED = 2e-5
# The cost of a pair found and listed by cells, relative to a pair of the windowed sums; a list that is reused
# costs less by as much.
_VISIT_COST = 3.0


class PairSums:
    """The sums over pairs of one data set, on one space, and the results that are reused between
    evaluations.

    Attributes
    ----------
    background : View, shape (3, n_events)
        Sums of (1) and their moments; or the given density in row 0.
    excitation : View, shape (n_rows, n_events)
        Sums of (2) and their moments.
    t : View, shape (n_events,), hours since the first event
    largest : float
        The largest mark; 0 without marks.
    span_h : float
        From the first event to the last.
    """

    def __init__(self, locations, times, dtype, background_self, keep_background, given, space, marks=None):
        self.self_term = 1.0 if background_self else 0.0
        self._keep_background, self.dtype = keep_background, dtype
        self.n_events, self.n_dims = locations.shape
        self.span_h = float(times[-1])
        # Only differences of locations are needed. Relative to their mean, float32 resolves a city to
        # millimetres in any coordinate system. Over wide regions, or for short lengths, locations take two
        # parts.
        self.centre, self.times, self.marks = locations.mean(axis=0), times, marks
        # One row per dimension: NumPy takes ten times as long with the few dimensions on the last axis.
        self._rows = rows = np.ascontiguousarray(locations.T) - self.centre[:, None]
        rounded = dtype is not np.float64
        self._rounding = float(np.abs(rows - rows.astype(dtype)).max()) if rounded else 0.0
        with pk.use(space) as self.space:
            # Both arrays are private to this object, so a space that can access them uses them without a
            # copy.
            with_marks = rows if marks is None else np.vstack([rows, marks])
            self._x, self._whole = reached(with_marks.astype(dtype, copy=False)), with_marks
            self._x_wide = None
            self.t = reached(times)
            # A placeholder if there are no marks: no kernel reads it then.
            self.event_marks = self.t if marks is None else pk.copy_of(marks)
            self._t_parts = pk.copy_of(_split(times)) if rounded else self.t.reshape(1, -1)
            self.background = pk.zeros((3, self.n_events))
            if given:
                pk.deep_copy(self.background[0], given.density)
        self.excitation = self._several = self._several_of = None
        # Views of group numbers, by ranges of groups
        self._n_groups, self._numbers = -(-self.n_events // kernels.GROUP), {}
        self._n_dims, self._n_parts = pk.static(self.n_dims), pk.static(self._t_parts.shape[0])
        self.largest, self._room = 0.0 if marks is None else float(marks.max()), {}
        self._tiles = None  # arguments of pair_tiles, allocated at its first use
        self._given = given is not None
        self._kept = None  # (tau_x, tau_t, reach in hours and in km, rows) of the sums now in self.background
        self.pairs = None  # the current PairList
        self.crowded = False  # True if a list of pairs was too long to store
        self._listed = False  # True if self.excitation is zero for the events without a row in that list
        self._cheapest = None  # (rounded reaches, the method chosen for them)

    @functools.cached_property
    def locations(self):
        """Locations less their mean, shape (n_events, n_dims)."""
        return np.ascontiguousarray(self._rows.T)

    @functools.cached_property
    def x(self):
        """Locations, and marks in one row more, in float64: a View of shape (n_rows, n_events)."""
        return self._x if self.dtype is np.float64 else reached(self._whole, self.space)

    @functools.cached_property
    def box(self):
        """The lower corner and the extent of the locations."""
        low = self._rows.min(axis=1)
        return low, self._rows.max(axis=1) - low

    def room(self, name, dtype, *rows):
        """Return a workspace of shape (*rows, n_events), valid until the next list or grid is built."""
        if (name, dtype) not in self._room:
            self._room[name, dtype] = pk.empty((*rows, self.n_events), dtype, self.space)
        return self._room[name, dtype]

    def data(self, shortest_km):
        """Return the events as an argument of kernels over windows and blocks.

        shortest_km is the shortest length scale to which distances are compared; it decides if locations take
        two parts. Rounding changes an exponent of order 1 by twice its share of that length, with random
        sign: a sum over pairs changes by far less.
        """
        wide = self._rounding > _ROUNDED * shortest_km
        if wide and self._x_wide is None:
            leading = self._rows.astype(self.dtype)
            marks = np.zeros((1, self.n_events)) if self.marks is None else self.marks[None]
            rows = np.vstack([leading, marks, self._rows - leading]).astype(self.dtype)
            self._x_wide = pk.copy_of(rows, self.space)
        x = self._x_wide if wide else self._x
        return kernels.Data(self._n_dims, self._n_parts, pk.static(wide), x, self._t_parts)

    def cheapest(self, params, windows):
        """Return the method of least cost, in units of a pair.

        Windows in time include pairs that are far apart in space; cells exclude these, but events must be
        sorted and pairs listed. With few events, or windows as long as the data, visiting all pairs once is
        cheapest.
        """
        if self.n_events < _FEW_EVENTS:
            return "all_pairs"
        if self.crowded:
            return "windowed"
        reach = windows.excitation_h, windows.background_h, params.tau_x
        reach = [math.frexp(one)[1] if math.isfinite(one) else one for one in reach]
        if self._cheapest is None or self._cheapest[0] != reach:
            self._cheapest = reach, self._compare(params, windows)
        return self._cheapest[1]

    def _compare(self, params, windows):
        all_pairs = 0.5 * self.n_events**2
        background = 0.0 if self._given or self._keep_background else 2.0 * self._pairs(windows.background_h)
        in_time = self._pairs(windows.excitation_h)
        k = windows.excitation_h if math.isfinite(windows.excitation_h) else self.span_h
        trigger = params.triggering
        cut = (
            float(trigger.exponent(0.0, k, 0.0, params.kernel_values))
            if trigger is EXPONENTIAL
            else windows.cut
        )
        near = near_share(self.locations, trigger.reach_km(params.trigger_values, cut, self.largest))
        wide = near_share(self.locations, _background_km(params, windows))
        costs = {
            "all_pairs": all_pairs,
            "windowed": in_time + background,
            "cells": self.n_events + _VISIT_COST * near * in_time + _VISIT_COST * wide * background,
        }
        return min(costs, key=costs.get)

    def _pairs(self, reach_h):
        """Return the number of pairs of events at most `reach_h` hours apart."""
        if not math.isfinite(reach_h):
            return 0.5 * self.n_events**2
        return float(np.sum(np.arange(self.n_events) - np.searchsorted(self.times, self.times - reach_h)))

    def fill(self, params, windows, method, n_mu, n_xi):
        """Compute the sums at `params`; those of the background only if the stored ones are not valid."""
        self.room_for(n_xi)
        wanted, stale = _required_sums(params, windows, n_mu), self.stale(params, windows, n_mu)
        if stale:
            self._kept = None  # until the launches below have succeeded
        if stale and (method == "all_pairs" or not windows.missing):
            self._sum_all_pairs(params, n_mu, n_xi)
            wanted = *wanted[:2], math.inf, math.inf, n_mu
        else:
            if stale:
                self.sum_background(params, windows, method, n_mu)
                wanted = wanted if method == "cells" else (*wanted[:3], math.inf, n_mu)
            self.sum_excitation(params, windows, method, n_xi)
        if stale:
            self._kept = wanted

    def stale(self, params, windows, n_mu):
        """Return True if the stored sums of (1) are not valid for `params` and `windows`."""
        if self._given or not (self._keep_background and self._kept):
            return not self._given
        return not covers(self._kept, _required_sums(params, windows, n_mu))

    def room_for(self, n_xi):
        """Allocate at least n_xi rows for the sums of (2)."""
        if self.excitation is None or self.excitation.shape[0] < n_xi:
            self.excitation = pk.zeros((n_xi, self.n_events), space=self.space)
            self._listed = True

    def sum_background(self, params, windows, method, n_mu, groups=None):
        """Compute the sums of (1) by windows or cells; for windows, only for `groups` of events, a tuple
        of ranges, if given."""
        if method != "cells":
            d = self.data(params.tau_x)
            launch(
                *self._group_arguments(groups, kernels.background_sums),
                d,
                pk.static(n_mu),
                windows.background_h,
                self.self_term,
                *params.background_exponents,
                self.background,
            )
            return
        with pk.use(self.space), lock_of(self):
            grid = Grid(self, _background_km(params, windows), self.dtype)
            launch(
                pk.TeamPolicy(self.n_events, _TEAM_SIZE),
                background_by_cells,
                self._n_dims,
                pk.static(n_mu),
                *grid.args,
                grid.order,
                min(windows.background_h, 2.0 * self.span_h + 1.0),
                self.self_term,
                *params.background_exponents,
                self.background,
            )

    def _group_arguments(self, groups, *kernel):
        """Return the first arguments of a launch for some groups of events, all by default. The last
        groups, which have most pairs when all earlier events count, come first, so that the
        multiprocessors of a GPU finish at about the same time."""
        groups = groups or (range(self._n_groups),)
        if groups not in self._numbers:
            numbers = np.sort(np.concatenate([np.arange(one.start, one.stop) for one in groups]))
            self._numbers[groups] = pk.copy_of(numbers[::-1].copy(), self.space)
        view = self._numbers[groups]
        return pk.TeamPolicy(view.size, _TEAM_SIZE, space=self.space), *kernel, view

    def sum_excitation(self, params, windows, method, n_xi, groups=None):
        """Compute the sums of (2) by windows or cells, with the arguments of `sum_background`."""
        p = params.kernel_values
        if method == "cells":
            self.list_pairs(params, windows)
            self.pairs.sums(n_xi, p, self.excitation)
            return
        self._listed = False
        d = self.data(shortest_km(params))
        launch(
            *self._group_arguments(groups, excitation_sums, params.triggering.pairs),
            d,
            pk.static(n_xi),
            windows.excitation_h,
            p,
            self.excitation,
        )

    def sum_excitations(self, params, n_xi, rows, method):
        """Return the sums of (2) for several parameter sets of the kind of `params`, a View of shape
        (n_several, n_xi, n_events); row k of `rows` describes set k. With cells the current list must be
        valid for all of them (`serves`)."""
        shape, listed = (rows.shape[0], n_xi, self.n_events), method == "cells"
        if self._several is None or self._several.shape != shape:
            self._several, self._several_of = pk.empty(shape, space=self.space), None
        if (
            listed and self._several_of is not self.pairs
        ):  # events without a row in that list keep these zeros
            pk.deep_copy(self._several, 0.0)
        self._several_of = self.pairs if listed else None
        windows = self._n_groups, self.data(shortest_km(params))
        n_teams, source = (self.pairs.n_teams, self.pairs.args) if listed else windows
        launch(
            pk.TeamPolicy(rows.shape[0] * n_teams, _TEAM_SIZE, space=self.space),
            excitations_of_several,
            params.triggering.pairs,
            pk.static(listed),
            n_teams,
            source,
            pk.static(n_xi),
            rows,
            self._several,
        )
        return self._several

    def of_events(self, params, background_scale, horizon_h):
        """Return the arguments of kernels over events."""
        return (
            background_scale,
            params.excitation_scale(self.n_dims),
            params.theta,
            params.kernel_values,
            horizon_h,
            self.t,
            self.event_marks,
            self.background,
            self.excitation,
        )

    def slopes(self, params, of_events, first, end, block):
        """Launch `event_slopes` over the events from `first` to `end`; return a View of its sums with one
        column per block."""
        n_blocks = -(-(end - first) // block)
        found = pk.empty((6 + len(params.trigger_values), n_blocks), space=self.space)
        launch(
            pk.TeamPolicy(n_blocks, 128, space=self.space),
            event_slopes,
            params.triggering.functions,
            self._n_dims,
            first,
            end,
            block,
            params.background_exponents,
            of_events,
            found,
        )
        return found

    def serves(self, params, windows):
        """Return True if the current list of pairs is valid for `params` and `windows`."""
        pairs = self.pairs
        if pairs is None or pairs.trigger is not params.triggering:
            return False
        return pairs.range.holds(params.trigger_values, windows.cut)

    def list_pairs(self, params, windows):
        """Build the list of pairs, unless the current one is valid."""
        if not self.serves(params, windows):
            p, self.pairs = params.trigger_values, None  # frees the memory of the former list first
            bounds = tuple(v / _LIST_RANGE for v in p), tuple(v * _LIST_RANGE for v in p)
            range_ = Range(*bounds, windows.cut + 2.0)
            self.pairs = PairList(self, params.triggering, range_, self.dtype)
            self._listed = False
        if not self._listed:
            pk.deep_copy(self.excitation, 0.0)
            self._listed = True

    def _sum_all_pairs(self, params, n_mu, n_xi):
        """Compute the sums of (1) and (2) over all pairs, block by block."""
        rows = max(n_mu, n_xi)
        if self._tiles is None or self._tiles[-1] < rows:
            block = _BLOCK * -(-self.n_events // (_BLOCK * _MOST_BLOCKS))
            n_blocks = -(-self.n_events // block)
            with pk.use(self.space):
                tiles = reached(_pairs_of_blocks(n_blocks))
                tables = [pk.empty((rows, n_blocks, self.n_events)) for _ in range(2)]
                first = np.diff(self.times, prepend=-1.0) > 0.0  # of the events at one time
                before = np.maximum.accumulate(np.where(first, np.arange(self.n_events), 0))
                before = pk.copy_of(before)
            policy = pk.TeamPolicy(tiles.shape[1], MEMBERS, space=self.space)
            self._tiles = policy, (before, tiles, block), tables, rows
        policy, where, tables, _ = self._tiles
        sizes = pk.static(n_mu), pk.static(n_xi)
        self._listed = False
        d = self.data(min(shortest_km(params), params.tau_x))
        launch(
            policy,
            pair_tiles,
            params.triggering.pairs,
            pk.static(_ROWS if rows == 1 else _ROWS_OF_SLOPES[self.dtype]),
            d,
            *sizes,
            *where,
            *params.background_exponents,
            params.kernel_values,
            *tables,
        )
        launch(
            pk.MDRangePolicy((0, 0), (n_mu + n_xi, self.n_events), space=self.space),
            kernels.add_tiles,
            n_mu,
            where[-1],
            self.self_term,
            *tables,
            self.background,
            self.excitation,
        )


def covers(kept, wanted):
    """Return True if sums of (1) computed with the settings `kept` are valid for the settings `wanted`:
    the same (tau_x, tau_t), with reaches and a number of rows at least as large."""
    return kept[:2] == wanted[:2] and all(map(operator.ge, kept[2:], wanted[2:]))


def shortest_km(params):
    """Return the length scale of the triggering function: the distance at which its exponent is 1/2."""
    return params.triggering.reach_km(params.trigger_values, 0.5, 0.0)


def near_share(locations, reach_km):
    """Estimate the share of all pairs that cells of width `reach_km` would visit, from the numbers of
    events in the cells."""
    low, extent = locations.min(axis=0), np.ptp(locations, axis=0)
    n_cells = np.minimum(extent // reach_km + 1, 1 << 20)
    numbers = np.minimum((locations - low) // reach_km, n_cells - 1)
    key = numbers[:, 0]
    for column, n in zip(numbers.T[1:], n_cells[1:]):
        key = key * n + column
    shares = np.unique(key, return_counts=True)[1] / len(locations)
    return min(1.0, 3.0 ** locations.shape[1] * float(np.sum(shares**2)))


def _background_km(params, windows):
    """Return the reach in space of the background's kernel that corresponds to its reach in time."""
    return params.tau_x * windows.background_sds


def _required_sums(params, windows, n_mu):
    """Return the settings of the sums of (1): bandwidths, reaches in hours and km, and number of rows."""
    return params.tau_x, params.tau_t, windows.background_h, _background_km(params, windows), n_mu


def _split(times):
    """Return times as the sum of two float32 parts, leading and remaining digits, shape (2, n_events)."""
    leading = times.astype(np.float32)
    return np.stack([leading, (times - leading).astype(np.float32)])


@functools.lru_cache(maxsize=8)
def _pairs_of_blocks(n_blocks):
    """Return the block numbers of all pairs of a block and an earlier or the same block, shape (2,
    n_pairs)."""
    later, earlier = np.tril_indices(n_blocks)
    # pairs of a block with itself have half the work: they come last, to balance the load
    order = np.argsort(later == earlier, kind="stable")
    return np.stack([later[order], earlier[order]])
