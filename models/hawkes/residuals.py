"""Residual analysis by time rescaling: under the model, expected counts between events are exponential with
mean 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.annotations import Floats
from ..shared.extras import need
from ..shared.launches import launch
from ..shared.shown import Shown
from .fit import check_likelihood
from .likelihood import Likelihood
from .parameters import ParametersBase
from .summary_kernels import compensator

_FAR_SDS = 8.5  # 1 - Phi(8.5) is below the last digit
_SPENT = 40.0  # and so is exp(-40)


@dataclass(frozen=True)
class Residuals(Shown):
    """Events on the clock of the model.

    Attributes
    ----------
    rescaled : ndarray, shape (n_events,)
        Events expected until each event, over all places.
    gaps : ndarray, shape (n_events - 1,)
        Differences; independent and exponential with mean 1 if the model is right.
    statistic, p_value : float
        Kolmogorov and Smirnov's test of that, on exp(-gap). Parameters that were fitted to the same events
        make it lenient.
    correlation : float
        Of each gap's normal score with the next one's: 0, within 2 / sqrt(n_events), if the model is right.
    """

    rescaled: Floats
    gaps: Floats
    statistic: float
    p_value: float
    correlation: float


def residuals(likelihood: Likelihood, params: ParametersBase) -> Residuals:
    """Residuals by time rescaling.

    Parameters
    ----------
    likelihood : Likelihood
        With a given background, that must hold `mass_until`. The kernel density (1) also looks ahead, so its
        residuals flatter the model: they show a wrong excitation, hardly a wrong background.
    params : Parameters

    Returns
    -------
    Residuals

    Raises
    ------
    DTypeError, InputError
        What is no Likelihood or no Parameters; SciPy is not installed.

    References
    ----------
    Brown, Barbieri, Ventura, Kass, Frank: The time-rescaling theorem and its application to neural spike
    train data analysis. Neural Computation 14 (2002).
    """
    check_likelihood(likelihood)
    likelihood.check_params(params)
    stats = need("scipy.stats", "stats", "the test of residuals")
    if likelihood.n_events < 3:
        raise InputError(f"likelihood has {likelihood.n_events} events; at least 3 are wanted for residuals")
    rescaled = compensators(likelihood, params)
    gaps = np.diff(rescaled)
    uniform = np.exp(-np.maximum(gaps, 0.0))
    test = stats.kstest(uniform, "uniform")
    scores = stats.norm.ppf((stats.rankdata(gaps) - 0.5) / len(gaps))
    correlation = float(np.corrcoef(scores[:-1], scores[1:])[0, 1])
    return Residuals(rescaled, gaps, float(test.statistic), float(test.pvalue), correlation)


def compensators(likelihood, params):
    """Events expected until each event, over all places, shape (n_events,)."""
    given, times = likelihood.background, likelihood.sums.times
    if given and given.mass_until is None:
        raise InputError(
            "likelihood: its background has no mass_until; residuals want the background's mass until each"
            " event"
        )
    n = likelihood.n_events
    reach_mu = _FAR_SDS * params.tau_t
    first_mu = np.searchsorted(times, times - reach_mu)
    last_mu = np.zeros(n, np.int64) if given else np.searchsorted(times, times + reach_mu, side="right")
    per_hour = math.sqrt(0.5) / params.tau_t
    gone = np.concatenate([[0.0], np.cumsum([0.5 * math.erf(t * per_hour) for t in times])])
    most = likelihood.sums.largest if params.triggering.marked else 0.0
    first_xi = np.searchsorted(times, times - params.triggering.reach_h(params.trigger_values, _SPENT, most))
    come = np.concatenate([[0.0], np.cumsum(likelihood.productivity(params))])
    with pk.use(likelihood.space):
        out = pk.zeros(n)
        launch(
            pk.TeamPolicy(n, 32),
            compensator,
            params.triggering.functions,
            0.0 if given else params.mu0,
            params.theta,
            per_hour,
            params.kernel_values,
            likelihood.sums.t,
            likelihood.sums.event_marks,
            pk.copy_of(first_mu),
            pk.copy_of(last_mu),
            pk.copy_of(gone),
            pk.copy_of(first_xi),
            pk.copy_of(come),
            out,
        )
        found = out.to_numpy().copy()
    return found + params.mu0 * given.mass_until if given else found
