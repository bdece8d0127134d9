"""Log-linear backgrounds: rates mu exp(b . z(t)), whose covariates z are constant over steps of time, so that
their integrals are exact sums."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..shared import (
    ArrayLike,
    Floats,
    InputError,
    ShapeError,
    check_count,
    check_kind,
    check_numbers,
    check_positive,
)
from .checks import check_edges

_MOST_EVENTS = 100_000_000  # that are drawn at once
_MOST_STEPS, _CLOSE = 100, 1e-9  # of Newton's method; a smaller change of a log-rate ends it


class Covariates:
    """A table of covariates over time, such as temperatures, holidays, or a `season`; or over a grid of
    places.

    Parameters
    ----------
    edges : array-like, shape (n_steps + 1,), hours, increasing
        They must cover the window of the events, and of a forecast. Of a grid: a sequence of such edges, in
        kilometres, for each dimension; they must cover the region.
    values : array-like, shape (n_steps, n_covariates); of a grid (*cells, n_covariates)
        Stored less their means over the table: mu is the rate where covariates have their means.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Edges that do not increase; not one row of values for each step.
    """

    def __init__(self, edges: Any, values: ArrayLike) -> None:
        given = edges if isinstance(edges, (list, tuple)) else np.atleast_1d(edges)
        axes = given if any(map(np.ndim, given)) else [given]
        self.axes = [check_edges(axis, "edges") for axis in axes]
        sizes = functools.reduce(np.multiply.outer, map(np.diff, self.axes))
        values = check_numbers(values, "values", sizes.ndim + 1)
        self.shape = sizes.shape
        if values.shape[:-1] != self.shape:
            raise ShapeError(f"values has shape {values.shape}; expected {self.shape} and covariates")
        values = values.reshape(sizes.size, -1)
        self.values = values - np.average(values, axis=0, weights=sizes.ravel())


def cell_of(grid, places):
    """Return the cell of each place, the nearest one for places outside of the grid."""
    return np.ravel_multi_index([*map(period_of, grid.axes, places.T)], grid.shape)


def corners_of(grid):
    """Return the lower and the upper corners of all cells, shape (n_cells, n_dims) each."""
    index = np.indices(grid.shape).reshape(len(grid.axes), -1)
    return [np.stack([axis[k + one] for axis, k in zip(grid.axes, index)], axis=1) for one in (0, 1)]


def unit_of(values):
    """Return the range of each covariate, 1 for one that does not vary."""
    ranges = np.ptp(values, axis=0)
    return ranges + (ranges == 0.0)


class LogLinear:
    """A density exp(b . z) over cells of time or space, up to a factor, whose integral is 1; `cell` is that
    of each event, `sizes` and `z` are those of the cells."""

    def __init__(self, cell, sizes, z):
        self.unit = unit_of(z)
        self.cell, self.sizes, self.z, self.b = cell, sizes, z / self.unit, np.zeros(z.shape[1])

    def fit(self, weights):
        """Maximise the likelihood of weighted events by Newton's method; return the density in each cell."""
        share = weights @ self.z[self.cell] / weights.sum()
        for _ in range(_MOST_STEPS):  # without events in some steps there is no maximum
            rates = np.exp(self.z @ self.b)
            rates /= self.sizes @ rates
            parts = (self.sizes * rates)[:, None] * self.z
            self.mean = parts.sum(axis=0)
            self.spread = parts.T @ self.z - np.outer(self.mean, self.mean)
            step = np.linalg.pinv(self.spread, 1e-9, hermitian=True) @ (share - self.mean)
            moved = np.abs(self.z @ step).max(initial=0.0)
            if moved < _CLOSE:
                break
            self.b = self.b + step / max(moved, 1.0)
        return rates


CONSTANT = Covariates([-1e300, 1e300], np.empty((1, 0)))


def growth_of(table, params):
    """Return exp(b . z) in each step for the coefficients b of each type, shape (n_steps, n_types)."""
    n, given = table.values.shape[1], params.coefficients.shape[1]
    if given != n:
        raise ShapeError(f"params has {given} coefficients for each type; expected {n}, one a covariate")
    return np.exp(table.values @ params.coefficients.T)


def clipped(table, begin, hours):
    """Return the edges within `hours` from `begin` on, relative to `begin`, which the table must cover."""
    step_of(table, begin + np.array([0.0, hours]))
    return np.clip(table.axes[0] - begin, 0.0, hours)


def step_of(table, times):
    """Return the step of each time; raise InputError for a time outside of the table."""
    check_kind(table, "covariates", Covariates, "be hawkes.Covariates")
    if len(table.axes) > 1:
        raise InputError("covariates is a grid; expected a table over time")
    low, high = table.axes[0][[0, -1]]
    outside = times[(times < low) | (times > high)]
    if outside.size:
        raise InputError(f"covariates cover {low:g} to {high:g} hours; expected also {outside[0]:g}")
    return period_of(table.axes[0], times)


def season(edges_h: ArrayLike, period_h: float, n_waves: int = 1) -> Floats:
    """Return covariates of a season: means over each step of cos(2 pi k t / period) and of the sine, for k =
    1..n_waves.

    Parameters
    ----------
    edges_h : array-like, shape (n_steps + 1,), hours, increasing
        Steps much shorter than the shortest wave.
    period_h : float, hours
        24 for a day, 168 for a week, 8766 for a year.
    n_waves : int
        More waves follow a more detailed shape.

    Returns
    -------
    ndarray, shape (n_steps, 2 n_waves), cosines first

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Edges that do not increase; a period that is not positive.
    """
    edges = check_edges(edges_h, "edges_h")
    waves = np.arange(1, check_count(n_waves, "n_waves", most=1_000) + 1) / check_positive(
        period_h, "period_h"
    )
    angles = np.outer(edges, 2.0j * math.pi * waves)
    means = np.diff(np.exp(angles), axis=0) / np.diff(angles, axis=0)
    return np.concatenate([means.real, means.imag], axis=1)


def period_of(edges, times):
    """Return the period of each time; times before the first or after the last edge belong to the first or
    last period."""
    return np.clip(np.searchsorted(edges, times, side="right") - 1, 0, len(edges) - 2)


def draw_times(random, edges, means):
    """Draw times in periods with these means of their numbers, shape (n_periods, n_types); return them and
    their types."""
    if not means.sum() <= _MOST_EVENTS:
        raise InputError(
            f"params: {means.sum():.3g} immigrants are expected; expected at most {_MOST_EVENTS:,}"
        )
    which = np.repeat(np.arange(means.size), random.poisson(means).ravel())
    period, types = np.divmod(which, means.shape[1])
    return random.uniform(edges[period], edges[period + 1]), types
