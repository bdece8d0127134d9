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

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from portable.errors import InputError, ShapeError

from ..shared import (
    Floats,
    Ints,
    Shown,
    as_numbers,
    check_count,
    check_finite,
    check_kind,
    check_number,
    check_numbers,
    check_seed,
)
from .simulate import sort_events

_MOST_EVENTS = 10**8


def _nonnegative(value, name, shape):
    array = check_numbers(value, name)
    if array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; expected {shape}")
    if (array < 0.0).any():
        at = tuple(np.argwhere(array < 0.0)[0].tolist())
        raise InputError(f"{name}[{', '.join(map(str, at))}] is {array[at]}; expected at least 0")
    return array


@dataclass(frozen=True, eq=False)
class Mutual(Shown):
    """Parameters of mutually exciting types.

    Parameters
    ----------
    mu : array-like, shape (n_types,), events an hour
        Rates of immigrants, which are events without a parent.
    branching : array-like, shape (n_rates, n_types, n_types), or (n_types, n_types) for one rate
        branching[k, j, i]: expected direct offspring of type j of an event of type i, through decay k.
    rates : array-like, shape (n_rates,), or float; an hour
        Of the exponential decays; 1 / rate is a mean delay.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        A shape does not fit, a number is negative, a rate is not positive.
    """

    mu: Any
    branching: Any
    rates: Any

    def __post_init__(self) -> None:
        rates = check_rates(self.rates)
        mu = check_numbers(self.mu, "mu", 1)
        branching = as_numbers(self.branching, "branching")
        if branching.ndim == 2 and len(rates) == 1:
            branching = branching[None]
        n = len(mu)
        object.__setattr__(self, "rates", rates)
        object.__setattr__(self, "mu", _nonnegative(mu, "mu", (n,)))
        object.__setattr__(self, "branching", _nonnegative(branching, "branching", (len(rates), n, n)))

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
    rates = check_finite(np.atleast_1d(as_numbers(rates, "rates")), "rates")
    if rates.ndim != 1 or not len(rates):
        raise ShapeError(f"rates has shape {rates.shape}; expected shape (n_rates,)")
    if (rates <= 0.0).any():
        k = int(np.argmax(rates <= 0.0))
        raise InputError(f"rates[{k}] is {rates[k]}; expected a positive number")
    return rates


class MutualSlopes(NamedTuple):
    """Derivatives of the log-likelihood, in the shapes of `Mutual`; the derivatives in the rates are None
    unless requested."""

    mu: Floats
    branching: Floats
    rates: Floats | None


class MutualSimulation(NamedTuple):
    """Simulated events in the order of time.

    Attributes
    ----------
    times : ndarray, shape (n_events,), hours, in [0, horizon_h]
    types : ndarray of int, shape (n_events,)
    parents : ndarray of int, shape (n_events,)
        Index of the event that triggered this one; -1 for an immigrant.
    """

    times: Floats
    types: Ints
    parents: Ints


def simulate_mutual(params: Mutual, horizon_h: float, *, seed: int = 0) -> MutualSimulation:
    """Simulate mutually exciting types of events from time 0, without earlier events, generation by
    generation.

    Parameters
    ----------
    params : Mutual
    horizon_h : float, hours
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
    horizon = check_number(horizon_h, "horizon_h", above=0.0)
    none = np.zeros((len(params.rates), len(params.mu)))
    return draw_after(params, none, horizon, np.random.default_rng(check_seed(seed)))


def draw_after(params, past, hours, random):
    """Draw the events of the next `hours`, generation by generation; `past` holds R_ki of the earlier
    events at the beginning."""
    times, types = _first_generation(params, past, hours, random)
    generations, n_before, born = [(times, types, np.full(len(types), -1))], 0, _Births(params)
    while generations[-1][0].size:
        times, types, _ = generations[-1]
        parent, kind, delay = born.draw(random, types)
        kept = (when := times[parent] + delay) <= hours
        generations.append((when[kept], kind[kept], n_before + parent[kept]))
        n_before += len(times)
        if n_before + len(parent) > _MOST_EVENTS:
            raise InputError(
                f"params: more than {_MOST_EVENTS:,} events; the largest eigenvalue of the influence is"
                f" {params.radius:.3g}; expected less than 1"
            )
    times, types, parents = map(np.concatenate, zip(*generations))
    order, parents = sort_events(times, parents)
    return MutualSimulation(times[order], types[order], parents)


def _first_generation(params, past, hours, random):
    """Draw the immigrants, and the direct offspring of the earlier events."""
    types = np.repeat(np.arange(len(params.mu)), random.poisson(params.mu * hours))
    times = random.uniform(0.0, hours, len(types))
    if not past.any():
        return times, types
    # Given that a delay exceeds the parent's age, the excess is exponential with the same rate.
    decays, kinds, sources = np.indices(params.branching.shape).reshape(3, -1)
    n = random.poisson(params.branching.ravel() * past[decays, sources])
    delays = random.exponential(1.0 / params.rates[np.repeat(decays, n)])
    seen = delays <= hours
    return np.append(times, delays[seen]), np.append(types, np.repeat(kinds, n)[seen])


class _Births:
    """A sampler of direct offspring: the cells (j, k) of type i divide the interval from i to i + 1 in
    proportion to their expected offspring."""

    def __init__(self, params):
        self.rates, (self.n_rates, n, _) = params.rates, params.branching.shape
        columns = params.branching.transpose(2, 1, 0).reshape(n, -1)
        self.means, self.n_cells = columns.sum(axis=1), columns.shape[1]
        shares = np.cumsum(columns, axis=1) / np.maximum(self.means, 1e-300)[:, None]
        self.ends = (np.minimum(shares, 1.0) + np.arange(n)[:, None]).ravel()

    def draw(self, random, types):
        """Draw all children of events of these types: the index of each child's parent, its type and its
        delay."""
        parent = np.repeat(np.arange(len(types)), random.poisson(self.means[types]))
        source = types[parent]
        cell = np.searchsorted(self.ends, source + random.random(len(source)), side="right")
        cell = np.minimum(cell - source * self.n_cells, self.n_cells - 1)
        return parent, cell // self.n_rates, random.exponential(1.0 / self.rates[cell % self.n_rates])


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
    p, c = check_number(p, "p", above=1.0), check_number(c_h, "c_h", above=0.0)
    longest = check_number(within_h, "within_h", above=0.0)
    rates = np.geomspace(1e-2 / max(longest, c), 40.0 / c, check_count(n_rates, "n_rates", 2))
    weights = (c * rates) ** (p - 1.0) * np.exp(-c * rates)
    return rates, weights / weights.sum()
