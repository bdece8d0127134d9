"""The sums over pairs in (1) and (2), by all pairs, by windows in time, or by cells in space and time."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

import portable as pk

from ..shared.arrays import reached
from ..shared.launches import launch
from . import kernels
from .cell_kernels import background_by_cells
from .cells import Events, Grid, PairList, Range, largest
from .excitation import MEMBERS, event_slopes, excitation_sums, excitations_of_several, pair_tiles
from .triggering import EXPONENTIAL

METHODS = ("auto", "all_pairs", "windowed", "cells")

# Events that a member of pair_tiles keeps in registers; with derivatives each takes three times as many, in
# float64 twice that.
_ROWS, _ROWS_OF_SLOPES = 8, {np.float32: 8, np.float64: 4}

# Below this many events every sum is shorter than the work of starting it, so windows save nothing.
_FEW_EVENTS = 1024

_TEAM_SIZE = 32  # of sums by windows and cells

# Events of a block of pair_tiles: a multiple of 256. Many pairs of small blocks end evenly; but a block costs
# 16 bytes an event.
_BLOCK, _MOST_BLOCKS = 256, 150

# A list of pairs serves parameters of the triggering function up to this factor from those that it was made
# for.
_LIST_RANGE = 1.5
# Rounding of places in float32, as a share of the shortest length, beyond which they take two parts: below,
# log-likelihoods are off by less than 1e-6 of themselves (tests/models/hawkes/test_likelihood.py).
_ROUNDED = 2e-5
# A pair costs the windowed sums one unit; finding and listing one costs so many more, and a kept list so many
# less.
_VISIT_COST = 3.0


class PairSums:
    """Rows of sums of exponentials for one data set, on one space, and what can be kept between evaluations.

    Attributes
    ----------
    background : View, shape (3, n_events)
        Sums of (1) and their derivatives; or the given density.
    excitation : View, shape (n_rows, n_events)
        Sums of (2) and their derivatives.
    t : View, shape (n_events,), hours since the first event
    span_h : float
        From the first event to the last.
    """

    def __init__(self, locations, times, dtype, background_self, keep_background, given, space, marks=None):
        self.self_term = 1.0 if background_self else 0.0
        self._keep_background, self.dtype = keep_background, dtype
        self.n_events, self.n_dims = locations.shape
        self.span_h = float(times[-1])
        # Only differences count: about their mean, float32 resolves a city to millimetres on any map. On a
        # wide map, or for short lengths, places take two parts.
        self.centre, self.times, self.marks = locations.mean(axis=0), times, marks
        # Row by row: NumPy takes ten times as long for a few numbers side by side.
        self._rows = rows = np.ascontiguousarray(locations.T) - self.centre[:, None]
        rounded = dtype is not np.float64
        self._rounding = float(np.abs(rows - rows.astype(dtype)).max()) if rounded else 0.0
        with pk.use(pk.default_space() if space is None else space) as self.space:
            # both are made for this: where the space reaches them nothing is copied
            with_marks = rows if marks is None else np.vstack([rows, marks])
            self._x = reached(with_marks.astype(dtype, copy=False))
            self._x_wide = self._before = None
            self.t = reached(times)
            # without marks no kernel reads them
            self.event_marks = self.t if marks is None else pk.copy_of(marks)
            self._t_parts = pk.copy_of(_split(times)) if rounded else self.t.reshape(1, -1)
            self.background = pk.zeros((3, self.n_events), np.float64)
            if given:
                pk.deep_copy(self.background[0], given.density)
        self.excitation = self._several = self._several_of = None
        self._n_groups, self._numbers = -(-self.n_events // kernels.GROUP), {}  # Views by ranges of groups
        self._n_dims, self._n_parts = pk.static(self.n_dims), pk.static(self._t_parts.shape[0])
        self.largest = largest(marks)
        self._tiles = None  # what pair_tiles needs, made when it first does
        self._given = given is not None
        self._kept = None  # (tau_x, tau_t, reach in hours and in km, rows) of the sums now in self.background
        self.pairs = None  # the current PairList
        self.crowded = False  # whether a list of pairs was too long to keep
        self._listed = False  # whether self.excitation is zero wherever that list has no row
        self._cheapest = None  # (what the choice depends on, choice)

    @functools.cached_property
    def locations(self):
        """Less their mean, shape (n_events, n_dims)."""
        return np.ascontiguousarray(self._rows.T)

    @functools.cached_property
    def events(self):
        """The events for sums by cells."""
        return Events(self.locations, self.times, self.space, self.marks)

    def data(self, shortest_km):
        """Return the arguments of kernels over windows and blocks, first the constants of their form.

        shortest_km is the shortest length that distances are compared with. Rounding moves an exponent of
        order 1 by twice its share of that length, and moves it at random: a sum over pairs by far less.
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
        """Return the method of least cost, counted in pairs.

        Windows in time hold pairs that are too far apart in space; cells hold fewer, but events must be
        sorted and pairs be listed. With few events, or windows as long as the data, all pairs once are the
        least work.
        """
        if self.n_events < _FEW_EVENTS:
            return "all_pairs"
        if self.crowded:
            return "windowed"
        reach = tuple(map(_power_of_two, (windows.excitation_h, windows.background_h, params.tau_x)))
        if self._cheapest is None or self._cheapest[0] != reach:
            self._cheapest = reach, self._compare(params, windows)
        return self._cheapest[1]

    def _compare(self, params, windows):
        all_pairs = 0.5 * self.n_events**2
        background = 0.0 if self._given or self._keep_background else 2.0 * self._within(windows.background_h)
        in_time = self._within(windows.excitation_h)
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

    def _within(self, reach_h):
        """Return the number of pairs of events within so many hours."""
        if not math.isfinite(reach_h):
            return 0.5 * self.n_events**2
        return float(np.sum(np.arange(self.n_events) - np.searchsorted(self.times, self.times - reach_h)))

    def fill(self, params, windows, method, n_mu, n_xi):
        """Compute the sums for these parameters, that of the background only where the kept one does not
        serve."""
        self.room_for(n_xi)
        wanted, stale = _wanted(params, windows, n_mu), self.stale(params, windows, n_mu)
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
        """Return True if the kept background does not serve parameters."""
        if self._given or not (self._keep_background and self._kept):
            return not self._given
        return not covers(self._kept, _wanted(params, windows, n_mu))

    def room_for(self, n_xi):
        """Allocate that many rows of excitations."""
        if self.excitation is None or self.excitation.shape[0] < n_xi:
            self.excitation = pk.zeros((n_xi, self.n_events), np.float64, self.space)
            self._listed = True

    def sum_background(self, params, windows, method, n_mu, groups=None):
        """Sum the background by windows or cells; of some groups of events, a tuple of ranges, if they are
        given."""
        if method != "cells":
            d = self.data(params.tau_x)
            launch(
                *self._each(groups, kernels.background_sums),
                d,
                pk.static(n_mu),
                windows.background_h,
                self.self_term,
                *params.background_exponents,
                self.background,
            )
            return
        with pk.use(self.space):
            grid = Grid(self.events, _background_km(params, windows), self.dtype)
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

    def _each(self, groups, *kernel):
        """Return the beginning of a launch for some groups, all by default: the last ones first, which
        have most pairs if all earlier events count, so that a GPU's multiprocessors are done at the same
        time."""
        groups = groups or (range(self._n_groups),)
        if groups not in self._numbers:
            numbers = np.sort(np.concatenate([np.arange(one.start, one.stop) for one in groups]))
            self._numbers[groups] = pk.copy_of(numbers[::-1].copy(), self.space)
        view = self._numbers[groups]
        return pk.TeamPolicy(view.size, _TEAM_SIZE, space=self.space), *kernel, view

    def sum_excitation(self, params, windows, method, n_xi, groups=None):
        """Sum the excitation, as `sum_background` does the background."""
        p = params.kernel_values
        if method == "cells":
            self.list_pairs(params, windows)
            self.pairs.sums(n_xi, p, self.excitation)
            return
        self._listed = False
        d = self.data(shortest_km(params))
        launch(
            *self._each(groups, excitation_sums, params.triggering.pairs),
            d,
            pk.static(n_xi),
            windows.excitation_h,
            p,
            self.excitation,
        )

    def sum_excitations(self, params, n_xi, rows, method):
        """Return the excitation of several parameters like `params`, a View of shape (n_several, n_xi,
        n_events); each has a row of `rows`. By cells the current list must serve them all (`serves`)."""
        shape = rows.shape[0], n_xi, self.n_events
        if self._several is None or self._several.shape != shape:
            self._several, self._several_of = pk.empty(shape, np.float64, self.space), None
        if method == "cells":
            if self._several_of is not self.pairs:  # where that list has no row zeros stay
                pk.deep_copy(self._several, 0.0)
                self._several_of = self.pairs
            self.pairs.sums_of_several(n_xi, rows, self._several)
            return self._several
        self._several_of = None
        d = self.data(shortest_km(params))
        n_groups = self._n_groups
        launch(
            pk.TeamPolicy(rows.shape[0] * n_groups, _TEAM_SIZE, space=self.space),
            excitations_of_several,
            params.triggering.pairs,
            n_groups,
            d,
            pk.static(n_xi),
            rows,
            self._several,
        )
        return self._several

    def of_events(self, params, background_scale, horizon_h):
        """Return what kernels over events take."""
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
        """Launch `event_slopes` over the events from `first` to `end`; a View of one column per block."""
        n_blocks = -(-(end - first) // block)
        found = pk.empty((6 + len(params.trigger_values), n_blocks), np.float64, self.space)
        launch(
            pk.TeamPolicy(n_blocks, 128, space=self.space),
            event_slopes,
            params.triggering.functions,
            self._n_dims,
            first,
            end,
            block,
            *params.background_exponents,
            *of_events,
            found,
        )
        return found

    def serves(self, params, windows):
        """Return True if the current list of pairs serves parameters."""
        pairs = self.pairs
        if pairs is None or pairs.trigger is not params.triggering:
            return False
        return pairs.range.holds(params.trigger_values, windows.cut)

    def list_pairs(self, params, windows):
        """Make the list of pairs, unless the current one serves."""
        if not self.serves(params, windows):
            p, self.pairs = params.trigger_values, None  # the former list's memory is reused
            bounds = tuple(v / _LIST_RANGE for v in p), tuple(v * _LIST_RANGE for v in p)
            range_ = Range(*bounds, windows.cut + 2.0)
            self.pairs = PairList(self.events, params.triggering, range_, self.dtype)
            self._listed = False
        if not self._listed:
            pk.deep_copy(self.excitation, 0.0)
            self._listed = True

    def _sum_all_pairs(self, params, n_mu, n_xi):
        """Compute both sums of exponentials, block by block."""
        rows = max(n_mu, n_xi)
        if self._tiles is None or self._tiles[-1] < rows:
            block = _BLOCK * -(-self.n_events // (_BLOCK * _MOST_BLOCKS))
            n_blocks = -(-self.n_events // block)
            with pk.use(self.space):
                tiles = reached(_pairs_of_blocks(n_blocks))
                tables = [pk.empty((rows, n_blocks, self.n_events), np.float64) for _ in range(2)]
                if self._before is None:
                    self._before = pk.empty(self.n_events, np.int64)
                    launch(self.n_events, kernels.count_before, self.t, self._before)
            policy = pk.TeamPolicy(tiles.shape[1], MEMBERS, space=self.space)
            self._tiles = policy, tiles, block, tables, rows
        policy, tiles, block, tables, _ = self._tiles
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
            self._before,
            tiles,
            block,
            *params.background_exponents,
            params.kernel_values,
            *tables,
        )
        launch(
            pk.MDRangePolicy((0, 0), (n_mu + n_xi, self.n_events), space=self.space),
            kernels.add_tiles,
            n_mu,
            block,
            self.self_term,
            *tables,
            self.background,
            self.excitation,
        )


def covers(kept, wanted):
    """Return True if sums of (1) serve where others are wanted: (tau_x, tau_t, reaches and rows of sums), the
    same lengths, and as far and as many."""
    return kept[:2] == wanted[:2] and all(map(operator.ge, kept[2:], wanted[2:]))


def shortest_km(params):
    """Return the length that the triggering function compares distances with: where its exponent is a
    half."""
    return params.triggering.reach_km(params.trigger_values, 0.5, 0.0)


def near_share(locations, reach_km):
    """Estimate the share of all pairs that cells of that width would visit, from how events spread over
    them."""
    low, extent = locations.min(axis=0), np.ptp(locations, axis=0)
    n_cells = np.minimum(extent // reach_km + 1, 1 << 20)
    numbers = np.minimum((locations - low) // reach_km, n_cells - 1)
    key = numbers[:, 0]
    for column, n in zip(numbers.T[1:], n_cells[1:]):
        key = key * n + column
    shares = np.unique(key, return_counts=True)[1] / len(locations)
    return min(1.0, 3.0 ** locations.shape[1] * float(np.sum(shares**2)))


def _background_km(params, windows):
    """Return the reach of the background's kernel in space, if in time it reaches that far."""
    return params.tau_x * windows.background_sds


def _wanted(params, windows, n_mu):
    """Return the settings of the sums of (1), and the distances that they must reach."""
    return params.tau_x, params.tau_t, windows.background_h, _background_km(params, windows), n_mu


def _power_of_two(value):
    return math.frexp(value)[1] if math.isfinite(value) else math.inf


def _split(times):
    """Return times as a sum of two parts in float32, leading and remaining digits, shape (2, n_events)."""
    leading = times.astype(np.float32)
    return np.stack([leading, (times - leading).astype(np.float32)])


@functools.lru_cache(maxsize=8)
def _pairs_of_blocks(n_blocks):
    """Return the numbers of a later and of an earlier block, or the same, shape (2, n_pairs)."""
    later, earlier = np.tril_indices(n_blocks)
    order = np.argsort(later == earlier, kind="stable")  # half the work is in those: last, to end evenly
    return np.stack([later[order], earlier[order]])
