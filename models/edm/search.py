"""Embedded series on a space, and the memory in which its teams search for neighbours."""

from __future__ import annotations

import numpy as np

import portable as pk

from . import kernels

TEAM = 32  # members asked for: a warp, whose collectives cost least
WIDEST = 64  # members that a team has at most, on any space
TEAMS_AT_A_TIME = 4  # teams launched for each that runs at a time, so that all end at about the same time


def centre_of(columns):
    """A number near the middle of each column that is subtracted without rounding where the column allows it.

    A multiple of a power of two near the spread: numbers of one binade with few digits stay exact, so ties stay ties.
    """
    middle, spread = np.nanmean(columns, axis=0), np.nanmax(columns, axis=0) - np.nanmin(columns, axis=0)
    step = np.exp2(np.floor(np.log2(np.where(spread > 0, spread, 1.0))) - 1)
    return np.round(middle / step) * step


def scale_of(columns):
    """A power of two near the largest spread, so that squares neither overflow nor vanish in float32."""
    spread = np.nanmax(columns) - np.nanmin(columns)
    return float(np.exp2(np.floor(np.log2(spread)))) if spread > 0 and np.isfinite(spread) else 1.0


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
        pk.parallel_for(pk.TeamPolicy(self.n_sets, TEAM), kernels.arrange, self.n_candidates, self.pad, _integers(parts),
                        _integers(first), _integers(times), source, self.values, self.place,
                        label="edm.arrange")


class Workspace:
    """What each team keeps while it searches among so many candidates for k neighbours, in `n_kept` dimensions at once."""

    def __init__(self, n_tasks, n_candidates, n_dims, n_kept, k, dtype, memory_bytes):
        size = n_candidates + WIDEST
        itemsize = np.dtype(dtype).itemsize
        each = size * (n_kept * itemsize + 4)
        self.n_teams = max(1, min(n_tasks, TEAMS_AT_A_TIME * pk.concurrency(), int(memory_bytes // each)))
        self.room = 2 * k + 5 * WIDEST
        self.minima = pk.empty((self.n_teams, n_kept, size), dtype)
        self.marks = pk.empty((self.n_teams, size // 32 + 2 * WIDEST), np.uint32)
        self.chosen = pk.empty((self.n_teams, size), np.int32)
        scratch = self.room * (3 * itemsize + 8) + n_dims * (4 + TEAM * itemsize) + 10 * 64
        self.policy = pk.TeamPolicy(self.n_teams, TEAM, scratch_bytes=scratch)


def _integers(values):
    return pk.copy_of(np.ascontiguousarray(values, np.int32))
