"""Mutually exciting types of events in time: neurons, traders, posts, crimes of several kinds.

Events n = 1..N at ascending times t_n have types m_n among M. The rate of type j is

    lambda_j(t) = mu_j + sum_k sum_{t_n < t} A_k[j, m_n] beta_k exp(-beta_k (t - t_n))

A_k[j, i] is the expected number of direct offspring of type j that an event of type i has through the decay
of rate beta_k; the sum over k is the influence of i on j. Over a window from s to T,

    log L = sum_n log lambda_{m_n}(t_n) - sum_j mu_j (T - s)
            - sum_n sum_jk A_k[j, m_n] (exp(-beta_k (s - t_n)^+) - exp(-beta_k (T - t_n)))

is evaluated exactly, with its gradient, in O(N M K) operations: `mutual_kernels` has the sums. Events before
s excite later events, but have no log rate in the first sum; events at equal times do not excite each other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..shared import (
    ArrayLike,
    Floats,
    Frozen,
    InputError,
    Ints,
    ShapeError,
    check_count,
    check_each,
    check_kind,
    check_number,
    check_numbers,
    check_positive,
    generator_of,
    refuse,
)
from .covariates import clipped, CONSTANT, Covariates, draw_times, growth_of
from .regions import check_box
from .simulate import generations

_MOST_EVENTS = 10**8


class Mutual(Frozen, eq=False):
    """Parameters of mutually exciting types.

    Parameters
    ----------
    mu : array-like, shape (n_types,), events an hour
        Rates of immigrants, which are events without a parent.
    branching : array-like, shape (n_rates, n_types, n_types), or (n_types, n_types) for one rate
        branching[k, j, i]: expected direct offspring of type j of an event of type i, through decay k.
    rates : array-like, shape (n_rates,), or float; an hour
        Of the exponential decays; 1 / rate is a mean delay.
    coefficients : array-like, shape (n_types, n_covariates), optional
        b of a background that is mu exp(b . z(t)), for covariates z (`Covariates`).
    h_km : float, optional
        Of events in space and time: the standard deviation of offspring about their parent, kilometres.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        A shape does not fit, a number is negative, a rate is not positive.
    """

    mu: Any
    branching: Any
    rates: Any
    coefficients: Any = None
    h_km: float | None = None

    def __post_init__(self) -> None:
        rates, mu = check_rates(self.rates), check_numbers(self.mu, "mu", 1)
        branching, n, b = check_numbers(self.branching, "branching"), len(mu), self.coefficients
        if branching.ndim == 2 and len(rates) == 1:
            branching = branching[None]
        if branching.shape != (len(rates), n, n):
            raise ShapeError(f"branching has shape {branching.shape}; expected {(len(rates), n, n)}")
        b = np.empty((n, 0)) if b is None else check_each(b, "coefficients", n, "types", 2)
        refuse(branching < 0.0, branching, "branching", "at least 0")
        refuse(mu < 0.0, mu, "mu", "at least 0")
        h = None if self.h_km is None else check_positive(self.h_km, "h_km")
        for name, value in zip(self.__match_args__, (mu, branching, rates, b, h)):
            object.__setattr__(self, name, value)

    @property
    def influence(self) -> Floats:
        """The expected number of direct offspring of type j per event of type i, as an array [j, i], shape
        (n_types, n_types)."""
        return self.branching.sum(axis=0)

    @property
    def radius(self) -> float:
        """The largest absolute eigenvalue of the influence: below 1, clusters are finite."""
        return float(np.abs(np.linalg.eigvals(self.influence)).max())


def check_rates(rates):
    rates = np.atleast_1d(check_numbers(rates, "rates"))
    if rates.ndim != 1 or not len(rates):
        raise ShapeError(f"rates has shape {rates.shape}; expected shape (n_rates,)")
    refuse(rates <= 0.0, rates, "rates", "a positive number")
    return rates


class MutualSlopes(NamedTuple):
    """Derivatives of the log-likelihood, in the shapes of `Mutual`; the derivatives in the rates and h_km
    are None unless requested, that in h_km is empty in time alone."""

    mu: Floats
    branching: Floats
    rates: Floats | None
    coefficients: Floats
    h_km: Floats | None


class MutualSimulation(NamedTuple):
    """Simulated events in the order of time.

    Attributes
    ----------
    times : ndarray, shape (n_events,), hours, in [0, horizon_h]
    types : ndarray of int, shape (n_events,)
    parents : ndarray of int, shape (n_events,)
        Index of the event that triggered this one; -1 for an immigrant.
    locations : ndarray, shape (n_events, n_dims), kilometres
        Without columns for types in time alone.
    """

    times: Floats
    types: Ints
    parents: Ints
    locations: Floats


def simulate_mutual(
    params: Mutual,
    horizon_h: float,
    *,
    covariates: Covariates = CONSTANT,
    box_km: ArrayLike = ((0.0, 10.0), (0.0, 10.0)),
    seed: int = 0,
) -> MutualSimulation:
    """Simulate mutually exciting types of events from time 0, without earlier events, generation by
    generation.

    Parameters
    ----------
    params : Mutual
    horizon_h : float, hours
    covariates : Covariates, optional
        Of the background; the coefficients are those of `params`.
    box_km : sequence of (low, high), one a dimension, kilometres
        If `params` has h_km: immigrants are uniform in this box; offspring may leave it.
    seed : int

    Returns
    -------
    MutualSimulation

    Raises
    ------
    DTypeError, FiniteError, InputError
        An argument is out of range; clusters do not end and there are more than 100 million events.
    """
    check_kind(params, "params", Mutual, "be hawkes.Mutual")
    horizon = check_positive(horizon_h, "horizon_h")
    none = np.zeros((len(params.rates), len(params.mu)))
    box = None if params.h_km is None else check_box(box_km)
    return draw_after(params, none, covariates, 0.0, horizon, generator_of(seed), box)


def draw_after(params, past, covariates, begin, hours, random, box=None):
    """Draw the events of the next `hours`, generation by generation; `past` holds R_ki of the earlier
    events at the beginning."""
    edges = clipped(covariates, begin, hours)
    means = params.mu * np.diff(edges)[:, None] * growth_of(covariates, params)
    times, types = draw_times(random, edges, means)
    delays, kinds = _offspring_of_past(params, past, hours, random)
    times, types = np.append(times, delays), np.append(types, kinds)
    low, high = ((), ()) if box is None else box
    places = random.uniform(low, high, (len(times), len(low)))
    births = _births_of(params, random, len(low))
    places, times, parents, types = generations(births, places, times, types, hours)
    return MutualSimulation(times, types, parents, places)


def _offspring_of_past(params, past, hours, random):
    """Return delays and types of the offspring of earlier events."""
    # Given that a delay exceeds the parent's age, the excess is exponential with the same rate.
    decays, kinds, sources = np.indices(params.branching.shape).reshape(3, -1)
    n = random.poisson(params.branching.ravel() * past[decays, sources])
    delays = random.exponential(1.0 / params.rates[np.repeat(decays, n)])
    seen = delays <= hours
    return delays[seen], np.repeat(kinds, n)[seen]


def _cells_of(branching):
    """Return the expected offspring of each type i, and the ends of its cells (j, k), which divide the
    interval from i to i + 1 in proportion to their expected offspring."""
    columns = branching.transpose(2, 1, 0).reshape(branching.shape[2], -1)
    means = columns.sum(axis=1)
    shares = np.cumsum(columns, axis=1) / np.maximum(means, 1e-300)[:, None]
    return means, (np.minimum(shares, 1.0) + np.arange(len(means))[:, None]).ravel()


def _births_of(params, random, n_dims):
    """Return a function for `generations` that draws the offspring of events of these types."""
    (means, ends), n_rates = _cells_of(params.branching), len(params.rates)
    n_cells = len(means) * n_rates

    def births(types, n_events):
        n_offspring = random.poisson(means[types])
        if n_events + n_offspring.sum() > _MOST_EVENTS:
            raise InputError(
                f"params: more than {_MOST_EVENTS:,} events; the largest eigenvalue of the influence is"
                f" {params.radius:.3g}; expected less than 1"
            )
        parent = np.repeat(np.arange(len(types)), n_offspring)
        source = types[parent]
        cell = np.searchsorted(ends, source + random.random(len(source)), side="right")
        cell = np.minimum(cell - source * n_cells, n_cells - 1)
        delays = random.exponential(1.0 / params.rates[cell % n_rates])
        shifts = random.normal(0.0, params.h_km or 0.0, (len(cell), n_dims))
        return parent, delays, shifts, lambda some: cell[some] // n_rates

    return births


def omori_rates(p: float, c_h: float, *, within_h: float, n_rates: int = 24) -> tuple[Floats, Floats]:
    """Return rates and weights of exponential decays whose mixture approximates Omori's law, for
    `fit(rates, weights=...)`.

    (p - 1) / c (1 + dt / c)^-p is a mixture of exponential decays whose rates follow the gamma distribution
    of shape p - 1 and scale 1 / c. The integral over the log rate is computed by the trapezoid rule.

    Parameters
    ----------
    p : float, above 1
    c_h : float, hours
    within_h : float, hours
        Longest delay of interest.
    n_rates : int

    Returns
    -------
    rates : ndarray, shape (n_rates,), an hour
    weights : ndarray, shape (n_rates,)
        They add up to 1.

    Raises
    ------
    DTypeError, FiniteError, InputError
        A number is out of range.
    """
    p, c = check_number(p, "p", above=1.0), check_positive(c_h, "c_h")
    longest = check_positive(within_h, "within_h")
    rates = np.geomspace(1e-2 / max(longest, c), 40.0 / c, check_count(n_rates, "n_rates", 2))
    weights = (c * rates) ** (p - 1.0) * np.exp(-c * rates)
    return rates, weights / weights.sum()
