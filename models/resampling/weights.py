"""Rows of weights on a space, the tables from which they are resampled, and statistics that need no draws."""

from __future__ import annotations

import functools
import math
import threading

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    DTypeError,
    InputError,
    NumberOrArray,
    Real,
    SpaceLike,
    check_share,
    launch,
    reached,
)
from . import kernels, ancestor_kernels, strata, weight_kernels
from .checks import check_extremes, check_rows
from .pairing import SPAN

# members of the teams of a tile, of a sweep and of a row, if the space allows a choice
TEAM, SWEEP_TEAM, ROW_TEAM = 32, 128, 1024
MOST_TILES, LEAST_TILE = 4096, 512  # largest number of tiles of a row; smallest size of one
MOST_SWEEPS, LEAST_SWEEP = 2048, 2048
_FLOATS = np.dtype(np.float32), np.dtype(np.float64)


_teams = functools.lru_cache(maxsize=64)(pk.TeamPolicy)


def teams(n_teams, members, scratch_bytes=0):
    """Return the policy of n_teams teams on the default space, cached, so that repeated launches are
    recognised."""
    return _teams(n_teams, members, scratch_bytes=scratch_bytes, space=pk.default_space())


def row_policy(n_rows, n_tiles, members=ROW_TEAM):
    """Return the policy of one team for each row, with scratch for the sums before its tiles."""
    return teams(n_rows, members, pk.scratch_bytes((n_tiles + 1, np.float64)))


def tile_size(n):
    """Choose the size of a tile: few tiles in a row of n for the one team that adds them up, but many for the
    other teams."""
    return LEAST_TILE * max(1, 2 ** math.ceil(math.log2(n / (LEAST_TILE * MOST_TILES))))


class Room(threading.local):
    """Scratch arrays for consecutive calls in one thread: calls of equal shapes reuse them, so that memory
    pages are cleared once.

    The last array of each name is kept, if it has at most 64 MiB.
    """

    def __init__(self):
        self._kept = {}

    def __call__(self, name, shape, dtype):
        place = name, pk.default_space()
        wanted, view = self._kept.get(place, (None, None))
        if wanted != (shape, dtype):
            view = None
            self._kept.pop(place, None)  # freed before the next one is allocated
            view = pk.empty(shape, dtype)
            if view.nbytes <= 1 << 26:
                self._kept[place] = (shape, dtype), view
        return view


ROOM = Room()


class Rows(threading.local):
    """Workspaces of short rows for consecutive calls in one thread, at most MOST_ROWS; beyond that all are
    dropped."""

    def __init__(self):
        self._kept = {}

    def known(self, *form, space=None):
        """Return the workspace prepared for a form on a space, or None."""
        return self._kept.get((*form, space or pk.default_space()))

    def __call__(self, prepare, *form, space=None):
        place = *form, space or pk.default_space()
        row = self._kept.get(place)
        if row is None:
            if len(self._kept) == MOST_ROWS:
                self._kept.clear()
            row = self._kept[place] = prepare(*form)
        return row


MOST_ROWS = 64
ROWS = Rows()


def new(name, shape, dtype):
    """Allocate a new array, whatever its name."""
    return pk.empty(shape, dtype)


def unit_extremes(n_rows):
    """Make the extremes of rows of weights relative to their largest."""
    return pk.copy_of(np.tile(np.array([1.0, 0.0, 0.0]).view(np.int64), (n_rows, 1)))


class RowsOrVector:
    """Rows of particles, or a vector, with the form in which they were given.

    Attributes
    ----------
    given : ndarray or View
    as_view, is_vector : bool
    """

    def __init__(self, given):
        self.given, self.as_view, self.is_vector = given, isinstance(given, pk.View), len(given.shape) == 1

    def back(self, rows):
        """Convert a result by rows to the form of the input."""
        rows = rows if self.as_view else rows.to_numpy()
        return rows.reshape(-1) if self.is_vector else rows


class Weights(RowsOrVector):
    """Rows of weights in memory that the default space can access.

    Parameters
    ----------
    weights, log_weights : array-like or View, shape (n,) or (n_rows, n)
        One of them; the other None.

    Attributes
    ----------
    log : int, WEIGHTS or LOGS
    n_rows, n : int
    as_view : bool
        True if the caller gave a View, and is given one back.
    """

    def __init__(self, weights, log_weights):
        if (weights is None) == (log_weights is None):
            raise InputError("expected one of weights and log_weights, not both")
        self.log = weight_kernels.WEIGHTS if weights is not None else weight_kernels.LOGS
        self.name = "log_weights" if self.log else "weights"
        super().__init__(check_rows(log_weights if self.log else weights, self.name))
        self.n_rows, self.n = (1, *self.given.shape) if self.is_vector else self.given.shape

    @functools.cached_property
    def values(self):
        """The weights by rows, row-major in memory that the default space can access, in float32 or
        float64."""
        if self.as_view and self.given.dtype.kind != "f":
            raise DTypeError(f"a View of weights must be float32 or float64, got {self.given.dtype}")
        given = self.given if self.as_view else self.in_floats()
        given = given.reshape(1, -1) if self.is_vector else given
        return given if self.as_view else reached(given)

    def in_floats(self):
        """Return the given array, which is not a View, in float32 or float64."""
        return self.given if self.given.dtype in _FLOATS else self.given.astype(np.float64)

    def check(self, extremes, degenerate_allowed=False):
        """Raise an error if weights with these extremes of each row, a View, are unusable; waits for the
        space. Return the largest of each row."""
        largest, smallest = weight_kernels.ordered_numpy(extremes.to_numpy()[:, :2]).T
        check_extremes(self.given, self.name, self.log, largest, smallest, degenerate_allowed)
        return largest


@functools.lru_cache(maxsize=64)
def _form(n_rows, n, n_ancestors, space):
    """Compute bits, sizes and policies of Tables."""
    size, sweep = tile_size(n), max(LEAST_SWEEP, -(-n // MOST_SWEEPS))
    n_tiles = -(-n // size)
    with pk.use(space):
        policies = [teams(n_rows * n_tiles, TEAM), teams(n_rows * n_tiles, SWEEP_TEAM)]
        policies += teams(n_rows * -(-n // sweep), SWEEP_TEAM), row_policy(n_rows, n_tiles)
    return (
        min(weight_kernels.MOST_BITS, 62 - (max(n, n_ancestors) - 1).bit_length()),
        size,
        n_tiles,
        sweep,
        *policies,
    )


class Tables:
    """Tables of weights for the kernels, kept on the space: only `is_usable` waits for it.

    Parameters
    ----------
    values : View, shape (n_rows, n)
    log : int
        WEIGHTS or LOGS of `portable.models.resampling.weight_kernels`.
    n_ancestors : int
    room : function (name, shape, dtype) -> View
        Source of scratch: `new` arrays, or ROOM if nothing outlives the call.

    Attributes
    ----------
    extremes, sums, stretches : Views, see `portable.models.resampling.weight_kernels` and `.ancestor_kernels`
    bits : int
    tile_size, n_tiles, sweep : int
    """

    def __init__(self, values, log, n_ancestors, room=new):
        self.room, self.values, self.log, self.n_ancestors = room, values, pk.static(log), n_ancestors
        self.n_rows, self.n = values.shape
        form = _form(self.n_rows, self.n, n_ancestors, pk.default_space())
        self.bits, self.tile_size, self.n_tiles, self.sweep = form[:4]
        self.tiles, self.wide_tiles, self.sweeps, self.rows = form[4:]
        self.extremes = room("extremes", (self.n_rows, 3), np.int64)
        self.sums = room("sums", (self.n_rows, self.n_tiles + 1), np.uint64)
        self.stretches = room(
            "stretches", (self.n_rows, max(1, n_ancestors // ancestor_kernels.LONG)), np.int64
        )

    @property
    def sizes(self):
        """Size of a tile, and bits, as arguments of kernels."""
        return self.tile_size, self.bits

    @property
    def known(self):
        """The weights, as arguments of kernels."""
        return self.log, self.values, self.extremes

    @property
    def draws(self):
        """The policy of all draws."""
        return self.n_rows, self.n_ancestors

    def find_extremes(self):
        launch(self.rows, weight_kernels.begin, self.extremes, self.stretches)
        launch(self.sweeps, weight_kernels.find_extremes, self.sweep, self.values, self.extremes)

    def add_up(self):
        """Add up q_i by tiles."""
        launch(self.wide_tiles, weight_kernels.weigh_tiles, *self.sizes, *self.known, self.sums)
        launch(self.rows, weight_kernels.add_up, self.sums)

    @functools.cached_property
    def multinomial_draws(self):
        """Workspace of `strata`: (wanted, records, before)."""
        n_tiles = -(-self.n_ancestors // strata.TILE)
        return (
            self.room("wanted", (self.n_rows,), np.int64),
            self.room("records", (self.n_rows, self.n_ancestors // 4 + 1), np.uint64),
            self.room("before", (self.n_rows, n_tiles + 1), np.uint64),
        )

    @functools.cached_property
    def residues(self):
        """Workspace for sums of whole copies and of remainders."""
        return [self.room(name, self.sums.shape, np.uint64) for name in ("copies", "residues")]

    @functools.cached_property
    def meetings(self):
        """Workspace of `pairing`: offspring, and for each level (n_items, items, parts, next_items,
        next_parts)."""
        levels, n_items = [], self.n
        kept = (
            self.room("items", (self.n_rows, 1), np.int64),
            self.room("parts", (self.n_rows, 1), np.int64),
        )
        while not levels or n_items > 1:
            n_lanes = -(-n_items // SPAN)
            left = tuple(
                self.room(f"{name} {len(levels)}", (self.n_rows, n_lanes), np.int64)
                for name in ("items", "parts")
            )
            levels.append((n_items, *kept, *left))
            n_items, kept = n_lanes, left
        return self.room("offspring", (self.n_rows, self.n), np.int64), levels

    @functools.cached_property
    def offspring_sums(self):
        """Workspace of `kernels.sum_tiles` for offspring."""
        return self.room("offspring sums", self.sums.shape, np.uint64)

    @functools.cached_property
    def cumulative(self):
        """Workspace of Q_i."""
        return self.room("cumulative", (self.n_rows, self.n), np.uint64)

    def is_usable(self, log):
        """Return True if there is a single row and it is certainly usable; waits for the space."""
        numbers = self.extremes.to_numpy()
        largest, smallest, _ = numbers[0].tolist()
        lowest = weight_kernels.LOWEST if log else 0
        return len(numbers) == 1 and lowest < largest < weight_kernels.INFINITE and (log or smallest >= 0)


def _moments(weights, log_weights, degenerate_allowed=False):
    """Return (the weights, the largest of each row, the sums of weights relative to it, the sums of their
    squares)."""
    w = Weights(weights, log_weights)
    tables = Tables(w.values, w.log, w.n)
    tables.find_extremes()
    parts = pk.empty((w.n_rows, tables.n_tiles, 2))
    launch(tables.wide_tiles, kernels.moments, tables.tile_size, *tables.known, parts)
    largest = w.check(tables.extremes, degenerate_allowed)
    return w, largest, *np.add.accumulate(parts.to_numpy(), axis=1)[:, -1].T  # summed in order of the tiles


def effective_sample_size(
    weights: ArrayLike | pk.View | None = None,
    *,
    log_weights: ArrayLike | pk.View | None = None,
    space: SpaceLike = None,
) -> NumberOrArray:
    """Compute (sum w)^2 / sum w^2, from 1 to n.

    Parameters
    ----------
    weights : array-like or View, shape (n,) or (n_rows, n), not negative
    log_weights : array-like or View, of the same shape, optional
        Instead of weights.
    space : str or Space, optional

    Returns
    -------
    float, or ndarray of shape (n_rows,)

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Both or neither of the two are given; weights are NaN, infinite or negative; a row has only zeros.
    """
    with pk.use(space):
        w, _, totals, squares = _moments(weights, log_weights)
    found = totals**2 / squares
    return float(found[0]) if w.is_vector else found


def log_sum_exp(log_weights: ArrayLike | pk.View, *, space: SpaceLike = None) -> NumberOrArray:
    """Compute log sum exp(log w), in float64; -inf if all log-weights are -inf.

    Parameters
    ----------
    log_weights : array-like or View, shape (n,) or (n_rows, n)
    space : str or Space, optional

    Returns
    -------
    float, or ndarray of shape (n_rows,)

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        A log-weight is NaN or +inf.
    """
    with pk.use(space):
        w, largest, totals, _ = _moments(None, log_weights, degenerate_allowed=True)
    impossible = largest == -np.inf  # totals of such rows are NaN, from -inf - -inf
    found = largest + np.log(totals, out=np.zeros_like(totals), where=~impossible)
    return float(found[0]) if w.is_vector else found


def metropolis_steps(
    weights: ArrayLike | pk.View | None = None,
    *,
    log_weights: ArrayLike | pk.View | None = None,
    error_bound: Real = 0.01,
    space: SpaceLike = None,
) -> int:
    """Compute the number of steps for a bias of Metropolis resampling of about `error_bound`: B* = ceil(log
    error / log(1 - beta)), beta = mean(w) / max(w).

    Parameters
    ----------
    weights, log_weights, space : as in `effective_sample_size`
    error_bound : float, between 0 and 1

    Returns
    -------
    int, at least 1: the largest over all rows

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        As `effective_sample_size`; error_bound is not between 0 and 1.

    References
    ----------
    Murray, Lee and Jacob (2016), cited in `portable.models.resampling`.
    """
    check_share(error_bound, "error_bound")
    with pk.use(space):
        w, _, totals, _ = _moments(weights, log_weights)
    beta = min(totals.min() / w.n, 1.0)
    return 1 if beta == 1.0 else max(1, math.ceil(math.log(error_bound) / math.log1p(-beta)))
