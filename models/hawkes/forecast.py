"""Forecasts, posterior predictive checks, and declustered catalogues."""

from __future__ import annotations

import math
from dataclasses import field
from statistics import NormalDist

import numpy as np

from ..shared import (
    Array,
    Floats,
    Frozen,
    InputError,
    Ints,
    check_count,
    check_kind,
    check_positive,
    check_share,
    generator_of,
)
from .checks import check_hours
from .fit import check_likelihood
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .probabilities import parent_probabilities
from .simulate import from_pool, with_offspring
from .triggering import tabulate_shares


class Forecast(Frozen, eq=False):
    """Events that were simulated from the model after the record.

    Attributes
    ----------
    begin_h, end_h : float
        On the axis of the events' times.
    counts : ndarray of int, shape (n_draws,)
    locations, times : list of ndarray
        The events of each draw, in the order of time; for models in time only, locations have no columns.
    marks : list of ndarray, or None
        Their marks less the reference mark, drawn from those of the record; None if the model has none.
    types : list of ndarray of int, or None
        Their types, of a `MutualLikelihood`.
    """

    begin_h: float
    end_h: float
    counts: Ints
    locations: list[Floats] = field(repr=False)
    times: list[Floats] = field(repr=False)
    marks: list[Floats] | None = field(default=None, repr=False)
    types: list[Ints] | None = field(default=None, repr=False)

    @property
    def mean(self) -> float:
        """The expected number of events."""
        return float(self.counts.mean())

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the limits of a prediction interval of the number of events.

        Parameters
        ----------
        level : float, between 0 and 1, default 0.95
            Probability that the number of events is within the limits.

        Returns
        -------
        low, high : float, events

        Raises
        ------
        DTypeError, InputError
            `level` is out of range.
        """
        level = check_share(level, "level")
        low, high = np.quantile(self.counts, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return float(low), float(high)


def forecast(
    likelihood: Likelihood,
    params: ParametersBase | Posterior,
    hours: float,
    *,
    n_draws: int = 500,
    seed: int = 0,
    max_events: int = 1_000_000,
) -> Forecast:
    """Simulate events after the end of observation: offspring of the observed events, new background
    events, and their offspring.

    Parameters
    ----------
    likelihood : Likelihood
        Of the history. The kernel density (1) decays within a few tau_t after the end of the record; a
        background of `fit_background` continues with the rate of its last period.
    params : Parameters or Posterior
        With a posterior, each simulated future uses another draw of the parameters.
    hours : float
        Length of the forecast, from the end of observation on.
    n_draws : int
    seed : int
    max_events : int
        Simulations with more events raise InputError: with branching ratios near or above 1 their number is
        unbounded.

    Returns
    -------
    Forecast

    Raises
    ------
    DTypeError, FiniteError, InputError
        An argument of a wrong type or out of range; parameters that are not the likelihood's.
    """
    check_likelihood(likelihood)
    hours, n_draws = check_positive(hours, "hours"), check_count(n_draws, "n_draws")
    random, begin = generator_of(seed), likelihood.horizon_h
    found = []
    for one in _draws_of(params, n_draws):
        likelihood.check_params(one)
        found.append(_after(likelihood, one, begin, begin + hours, random, max_events))
    places, times, _, marks = map(list, zip(*found))
    begin += likelihood.origin_h
    return Forecast(
        begin,
        begin + hours,
        np.array([len(t) for t in times]),
        places,
        [likelihood.origin_h + t for t in times],
        marks if one.triggering.marked else None,
    )


def _draws_of(params, n_draws):
    if isinstance(params, ParametersBase):
        return [params] * n_draws
    check_kind(params, "params", Posterior, "be hawkes.Parameters or hawkes.Posterior")
    some = list(params.thinned(n_draws))
    return [some[k % len(some)] for k in range(n_draws)]


def _after(likelihood, params, begin, end, random, max_events):
    """Draw locations, times, parents and marks of one future between begin and end, in hours since the first
    event."""
    sums, trigger = likelihood.sums, params.triggering
    marks = sums.marks if trigger.marked else np.zeros(likelihood.n_events)
    delays, shares = _shares(params, end)
    low, high = (np.interp(v - sums.times, delays, shares) for v in (begin, end))
    counts = random.poisson(params.theta * likelihood.productivity(params) * np.maximum(high - low, 0.0))
    parent = np.repeat(np.arange(len(counts)), counts)
    delay = np.interp(random.uniform(low[parent], high[parent]), shares, delays)
    shifts = trigger.draw(random, marks[parent], likelihood.n_dims, params.trigger_values)[1]
    fresh_places, fresh_times = _immigrants(likelihood, params, begin, end, random)
    locations = np.concatenate([likelihood.centre + sums.locations[parent] + shifts, fresh_places])
    times = np.clip(np.concatenate([sums.times[parent] + delay, fresh_times]), begin, end)
    return with_offspring(params, locations, times, end, random, from_pool(marks), max_events)


def _shares(params, most):
    """Return a grid of delays, and the share of offspring within each delay."""
    q = params.kernel_values
    return tabulate_shares(lambda delay: params.triggering.integral(delay, 0.0, q), most)


def _immigrants(likelihood, params, begin, end, random):
    """Draw background events between two times."""
    given, sums, origin = likelihood.background, likelihood.sums, likelihood.origin_h
    if given is not None:
        if given.draw is None:
            raise InputError(
                "likelihood: its background is known only at the events; expected one of fit_background, or "
                "Background(draw=), to draw from it"
            )
        locations, times = given.draw(random, params.mu0, origin + begin, origin + end)
        return locations, times - origin
    cdf = np.vectorize(NormalDist().cdf, otypes=[float])
    until_end, until_begin = (cdf((v - sums.times) / params.tau_t) for v in (end, begin))
    weights = params.mu0 * (until_end - until_begin)
    n = random.poisson(weights.sum())
    which = random.choice(len(weights), n, p=weights / weights.sum()) if n else np.zeros(0, int)
    times = np.full(n, -math.inf)
    while (outside := (times < begin) | (times > end)).any():  # truncated normal, by rejection
        times[outside] = random.normal(sums.times[which[outside]], params.tau_t)
        if (sums.times[-1] + 4.0 * params.tau_t) < begin:
            times[outside] = random.uniform(begin, end, outside.sum())
    shifts = random.normal(0.0, params.tau_x, (n, likelihood.n_dims))
    return likelihood.centre + sums.locations[which] + shifts, times


class PredictiveCheck(Frozen):
    """Statistics of the events compared with those of simulated catalogues.

    Attributes
    ----------
    observed : dict
        n_events; dispersion, the variance over the mean of counts in 50 equal periods; near, the share of
        events with an earlier event within the typical distance and delay of an offspring.
    drawn : dict of ndarray, shape (n_draws,)
    p_values : dict
        Two-sided: twice the smaller share of simulations at least as extreme. Small values are evidence
        against the model.
    """

    observed: dict
    drawn: dict = field(repr=False)
    p_values: dict


def predictive_check(
    likelihood: Likelihood,
    params: ParametersBase | Posterior,
    *,
    n_draws: int = 100,
    seed: int = 0,
    max_events: int = 1_000_000,
) -> PredictiveCheck:
    """Compare statistics of the events with those of catalogues simulated from the model over the same
    time.

    Parameters
    ----------
    likelihood, params, n_draws, seed, max_events
        As in `forecast`.

    Returns
    -------
    PredictiveCheck

    Raises
    ------
    DTypeError, FiniteError, InputError
        As in `forecast`.
    """
    check_likelihood(likelihood)
    n_draws, random, end = check_count(n_draws, "n_draws"), generator_of(seed), likelihood.horizon_h
    check_hours(end)
    some = _draws_of(params, n_draws)
    trigger = some[0].triggering
    near_km = trigger.reach_km(some[0].trigger_values, 1.0, 0.0)
    delays, shares = _shares(some[0], end)
    near_h = float(np.interp(0.5 * shares[-1], shares, delays))
    pool = from_pool(likelihood.sums.marks if trigger.marked else np.zeros(1))
    rows = []
    for one in some:
        fresh = _immigrants(likelihood, one, 0.0, end, random)
        drawn = with_offspring(one, *fresh, end, random, pool, max_events)
        rows.append(_statistics(*drawn[:2], end, near_km, near_h))
    observed = _statistics(likelihood.sums.locations, likelihood.sums.times, end, near_km, near_h)
    drawn = {name: np.array([row[name] for row in rows]) for name in observed}
    p_values = {
        name: float(min(1.0, 2.0 * min((values >= observed[name]).mean(), (values <= observed[name]).mean())))
        for name, values in drawn.items()
    }
    return PredictiveCheck(observed, drawn, p_values)


def _statistics(locations, times, end, near_km, near_h):
    counts = np.histogram(times, 50, (0.0, end))[0]
    near, first = 0, np.searchsorted(times, times - near_h)
    for i, j in enumerate(first):
        if i > j:
            near += bool((((locations[j:i] - locations[i]) ** 2).sum(axis=1) < near_km**2).any())
    return {
        "n_events": float(len(times)),
        "dispersion": float(counts.var() / max(counts.mean(), 1e-300)),
        "near": near / max(len(times), 1),
    }


class Declustered(Frozen):
    """One draw of the parents of all events.

    Attributes
    ----------
    parents : ndarray of int, shape (n_events,)
        The parent of each event; -1 for background.
    background : ndarray of bool, shape (n_events,)
    family : ndarray of int, shape (n_events,)
        The background event from which each event descends.
    """

    parents: Array
    background: Array
    family: Array


def decluster(likelihood: Likelihood, params: ParametersBase, *, seed: int = 0) -> Declustered:
    """Draw the parent of each event, or none, from its probabilities; the events without a parent are a
    declustered catalogue.

    Parameters
    ----------
    likelihood : Likelihood
    params : Parameters
    seed : int
        Use several seeds to assess the variation between draws.

    Returns
    -------
    Declustered

    References
    ----------
    Zhuang, Ogata, Vere-Jones (2002).
    """
    found = parent_probabilities(likelihood, params)
    n, random = likelihood.n_events, generator_of(seed)
    parents, family = np.full(n, -1), np.arange(n)
    first = np.searchsorted(found.children, np.arange(n + 1))
    u = random.random(n)
    for i in range(n):
        shares = np.cumsum(found.probabilities[first[i] : first[i + 1]])
        if shares.size and u[i] < shares[-1]:
            parents[i] = found.parents[first[i] + np.searchsorted(shares, u[i], side="right")]
            family[i] = family[parents[i]]
    return Declustered(parents, parents < 0, family)
