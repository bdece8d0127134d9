"""Log-linear backgrounds: rates mu exp(b . z(t)), whose covariates z are constant over steps of time, so that
their integrals are exact sums."""

from __future__ import annotations

import math

import numpy as np

from portable.errors import InputError, ShapeError

from ..shared import ArrayLike, Floats, check_count, check_kind
from .checks import check_each, check_edges
from .parameters import check_positive

_MOST_EVENTS = 10**8  # that are drawn at once
_MOST_STEPS, _CLOSE = 100, 1e-9  # of Newton's method; a smaller change of a log-rate ends it


class Covariates:
    """A table of covariates over time, such as temperatures, holidays, or a `season`.

    Parameters
    ----------
    edges_h : array-like, shape (n_steps + 1,), hours, increasing
        They must cover the window of the events, and of a forecast.
    values : array-like, shape (n_steps, n_covariates)
        Stored less their means over these hours: mu is the rate where covariates have their means.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Edges that do not increase; not one row of values for each step.
    """

    def __init__(self, edges_h: ArrayLike, values: ArrayLike) -> None:
        self.edges_h = check_edges(edges_h, "edges_h")
        values = check_each(values, "values", len(self.edges_h) - 1, "steps", 2)
        self.values = values - np.average(values, axis=0, weights=np.diff(self.edges_h))


class LogLinear:
    """A rate exp(b . z) over steps of time, up to a factor, whose integral is 1.

    Parameters
    ----------
    table : Covariates
    times : ndarray, shape (n_events,)
    span : float
        Hours from the first event on.
    """

    def __init__(self, table, times, span):
        edges = clipped(table, times[0], span)
        self.z, self.hours = table.values[np.diff(edges) > 0.0], np.diff(np.unique(edges))
        self.edges = times[0] + np.append(0.0, np.cumsum(self.hours))
        self.step, self.b = period_of(self.edges, times), np.zeros(self.z.shape[1])

    def fit(self, weights):
        """Maximise the likelihood of weighted events by Newton's method; return the rate in each step."""
        share = weights @ self.z[self.step] / weights.sum()
        for _ in range(_MOST_STEPS):  # without events in some steps there is no maximum
            rates = np.exp(self.z @ self.b)
            rates /= self.hours @ rates
            parts = (self.hours * rates)[:, None] * self.z
            self.mean = parts.sum(axis=0)
            self.spread = parts.T @ self.z - np.outer(self.mean, self.mean)
            step = np.linalg.pinv(self.spread, hermitian=True) @ (share - self.mean)
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
    return np.clip(table.edges_h - begin, 0.0, hours)


def step_of(table, times):
    """Return the step of each time; raise InputError for a time outside of the table."""
    check_kind(table, "covariates", Covariates, "be hawkes.Covariates")
    low, high = table.edges_h[[0, -1]]
    outside = times[(times < low) | (times > high)]
    if outside.size:
        raise InputError(f"covariates cover {low:g} to {high:g} hours; expected also {outside[0]:g}")
    return period_of(table.edges_h, times)


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
    waves = np.arange(1, check_count(n_waves, "n_waves") + 1) / check_positive(period_h, "period_h")
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
