"""Nonparametric triggering in time: a histogram of delays, estimated by EM.

    lambda(t) = mu + sum_{t_n < t} r[b(t - t_n)]

b is the bin of a delay, from the edge e_b (exclusive) to e_(b+1) (inclusive); r is a rate an hour, so that r
times the width of the bin is the expected number of direct offspring there. The rate of an event is thus
linear in all parameters v: lambda_i = sum_k x_ki v_k, where x_ki counts the earlier events in a bin, and

    log L = sum_i log lambda_i - sum_k E_k v_k

is concave; E_k are the hours at which component k is observed. A step of EM (Marsan and Lengline 2008) is

    v_k <- v_k S_k / E_k,        S_k = sum_i x_ki / lambda_i.

log L never falls, and it is below its maximum by at most N max_k (S_k / E_k - 2) + sum_k E_k v_k. EM
converges slowly, so Newton's method takes over after some steps. Events of a bin are consecutive in time, so
that bisection counts them: a step takes O(N n_bins), however many pairs there are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    Floats,
    InputError,
    Result,
    SpaceLike,
    check_choice,
    check_count,
    first_not_below,
    launch,
)
from .checks import check_edges, check_enough, check_horizon, check_times
from .fit import climb, covariance_of, Exact, MAX_ITER, standard_score

_CLOSE = 1e-2  # largest distance of log L from its maximum at convergence


@pk.kernel
def count_delays(b, i, t, edges, x):
    """Count the events whose delay to event i is in bin b. Two bisections, and 8 bytes."""
    low = first_not_below(t, 0, i, t[i] - edges[b + 1])
    high = first_not_below(t, low, i, t[i] - edges[b])
    x[1 + b, i] = high - low


class HistogramFit(Result, eq=False):
    """A background rate and a histogram of delays of direct offspring.

    Attributes
    ----------
    edges : ndarray, shape (n_bins + 1,), hours
    mu : float, events an hour
    offspring : ndarray, shape (n_bins,)
        Expected number of direct offspring of an event, by their delay.
    branching : float
        Direct offspring of an event within the last edge.
    standard_errors : dict
        Of mu, offspring and branching, from the observed information.
    log_likelihood : float
    gap : float
        Upper bound of the distance of the log-likelihood from its maximum.
    converged : bool
    history : ndarray, shape (n_steps,)
        The log-likelihood before each step of EM.
    """

    edges: Floats
    mu: float
    offspring: Floats
    branching: float
    standard_errors: dict[str, Any]
    log_likelihood: float
    gap: float
    converged: bool
    history: Floats

    def interval(self, name: str, level: float = 0.95) -> tuple[Any, Any]:
        """Return confidence limits from the standard errors, truncated at 0.

        Parameters
        ----------
        name : {"mu", "offspring", "branching"}
        level : float, between 0 and 1

        Returns
        -------
        low, high : float or ndarray

        Raises
        ------
        DTypeError, InputError
            `level` is out of range; there is no such parameter.
        """
        check_choice(name, "name", self.standard_errors)
        value, width = getattr(self, name), standard_score(level) * self.standard_errors[name]
        return np.maximum(value - width, 0.0), value + width


class _Objective(Exact):
    """The log-likelihood of rates that are linear in coordinates at least 0, for `climb`: row k of x is the
    rate at each event of coordinate k, and expected[k] its number of events in the record."""

    place, low = staticmethod(np.asarray), 0.0

    def __init__(self, x, expected, start):
        self.x, self.expected, self.start = x, expected, start

    def at(self, values):
        """Return log L, and S_k / E_k."""
        rates = values @ self.x
        return float(np.log(rates).sum() - self.expected @ values), self.x @ (1.0 / rates) / self.expected

    def run_em(self, n_steps):
        """Make steps of EM; return log L before each."""
        history = []
        for _ in range(n_steps):
            value, shares = self.at(self.start)
            history.append(value)
            self.start = self.start * shares
        return np.array(history)

    def with_information(self, values):
        (value, shares), parts = self.at(values), self.x / (values @ self.x)
        return value, self.expected * (shares - 1.0), parts @ parts.T


def fit_histogram(
    times: ArrayLike,
    edges: ArrayLike,
    *,
    horizon_h: float | None = None,
    n_steps: int = 50,
    space: SpaceLike = None,
) -> HistogramFit:
    """Estimate a background rate and a histogram of the delays of offspring, without a parametric form, by
    EM.

    Parameters
    ----------
    times : array-like, shape (n_events,), hours, ascending
    edges : array-like, shape (n_bins + 1,), hours, increasing
        Of the delays, from 0 or more on; an event triggers nothing later than the last edge.
    horizon_h : float, optional
        End of observation; the last event if not given. Observation begins at the first event.
    n_steps : int
        Steps of EM, before Newton's method.
    space : str or Space, optional

    Returns
    -------
    HistogramFit

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        Times do not ascend, or are fewer than three; edges do not increase, are negative, or reach beyond
        the record.

    References
    ----------
    Marsan, Lengline: Extending earthquakes' reach through cascading. Science 319 (2008), 1076. Lewis, Mohler:
    A nonparametric EM algorithm for multiscale Hawkes processes (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from portable.models import hawkes
    >>> truth = hawkes.Mutual([0.5], [[0.5]], 2.0)
    >>> times = hawkes.simulate_mutual(truth, 4000.0, seed=1).times
    >>> found = hawkes.fit_histogram(times, [0.0, 0.25, 0.5, 1.0, 2.0, 4.0], horizon_h=4000.0, space="serial")
    >>> low, high = found.interval("branching")
    >>> found.converged, bool(low < 0.5 < high)
    (True, True)
    """
    times = check_times(times)
    edges = check_edges(edges, "edges", 0.0)
    end = check_horizon(horizon_h, times)
    check_enough(len(times), end - times[0])
    objective, rate = _objective(times, end, edges, space)
    history = objective.run_em(check_count(n_steps, "n_steps"))
    return HistogramFit(edges, *_climbed(objective, rate), history)


def _objective(times, end, edges, space):
    """Return the _Objective in the share of background events and the offspring in each bin, and the rate of
    background events for a share of 1."""
    n, hours, widths = len(times), end - times[0], np.diff(edges)
    followed = np.clip(end - times - edges[:-1, None], 0.0, widths[:, None]).sum(axis=1)
    if not followed.all():
        raise InputError(f"edges[-1] is {edges[-1]}; expected fewer hours than some event is followed for")
    with pk.use(space):
        t, ends, x = map(pk.copy_of, (times - times[0], edges, np.ones((len(edges), n))))
        launch((len(widths), n), count_delays, t, ends, x)
        x = x.to_numpy()
    scales = np.append(n / hours, 1.0 / widths)
    start = 0.5 * n / np.append(hours, np.full(len(widths), followed.sum())) / scales
    return _Objective(x * scales[:, None], scales * np.append(hours, followed), start), scales[0]


def _climbed(objective, rate):
    """Return the fields of the histogram at the maximum, which Newton's method finds after EM."""
    z = climb(objective, MAX_ITER, 1e-13).z
    value, shares = objective.at(z)
    covariance, _ = covariance_of(objective.information(z), np.zeros(len(z), bool))
    errors = np.sqrt(np.diag(covariance))
    standard_errors = {
        "mu": rate * errors[0],
        "offspring": errors[1:],
        "branching": math.sqrt(covariance[1:, 1:].sum()),
    }
    gap = float(objective.x.shape[1] * (shares.max() - 2.0) + objective.expected @ z)
    return rate * z[0], z[1:], z[1:].sum(), standard_errors, value, gap, gap <= _CLOSE
