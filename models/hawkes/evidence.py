"""Compare models on events that they have not seen: pointwise log-likelihoods, WAIC and leave-one-out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field

import numpy as np

from portable.errors import InputError

from ..shared.checks import check_count, check_kind
from ..shared.extras import need
from ..shared.shown import Shown
from .fit import check_likelihood
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .residuals import compensators


@dataclass(frozen=True)
class Evidence(Shown):
    """Expected log density of events left out; larger is better, and a difference counts beside its own
    standard error.

    Attributes
    ----------
    waic, waic_se, p_waic : float
        Watanabe's criterion as an expected log density, its standard error, and the effective number of
        parameters.
    loo, loo_se, p_loo : float
        The same by leaving one out with Pareto-smoothed importance sampling.
    worst_k : float
        The largest Pareto shape: above 0.7 leaving one out is not to be trusted.
    pointwise : ndarray, shape (n_draws, n_events)
    """

    waic: float
    waic_se: float
    p_waic: float
    loo: float
    loo_se: float
    p_loo: float
    worst_k: float
    pointwise: np.ndarray = field(repr=False)


def pointwise(likelihood: Likelihood, params: ParametersBase) -> np.ndarray:
    """Return the log-likelihood event by event: the log density of each event's time and place given those
    before.

    Parameters
    ----------
    likelihood : Likelihood
        A background that is given must hold `mass_until`. The kernel density (1) looks ahead, and so do its
        terms.
    params : Parameters

    Returns
    -------
    ndarray, shape (n_events,)
        They add up to `likelihood.log_likelihood(params)`; the last holds the time after the last event, too.

    Raises
    ------
    DTypeError, InputError
        `likelihood` is none, or its background holds no `mass_until`.
    """
    check_likelihood(likelihood)
    rates = np.sum(likelihood.rates(params), axis=0)
    until = compensators(likelihood, params)
    with np.errstate(divide="ignore"):
        terms = np.log(rates) - np.diff(until, prepend=0.0)
    whole = likelihood.log_likelihood(params)
    terms[-1] += whole - terms.sum()
    return terms


def evidence(likelihood: Likelihood, posterior: Posterior, *, n_draws: int = 200) -> Evidence:
    """WAIC and leave-one-out of a posterior.

    Parameters
    ----------
    likelihood : Likelihood
    posterior : Posterior
        Of the same events.
    n_draws : int
        Taken evenly over all chains.

    Returns
    -------
    Evidence

    Raises
    ------
    DTypeError, InputError

    References
    ----------
    Vehtari, Gelman, Gabry: Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC.
    Statistics and Computing 27 (2017).
    """
    check_likelihood(likelihood)
    check_kind(posterior, "posterior", Posterior, "be hawkes.Posterior")
    n_draws = check_count(n_draws, "n_draws", 10)
    terms = np.array([pointwise(likelihood, params) for params in posterior.thinned(n_draws)])
    if not np.isfinite(terms).all():
        raise InputError("likelihood: some event has no density under some draw")
    most = terms.max(axis=0)
    log_means = most + np.log(np.exp(terms - most).mean(axis=0))
    penalty = terms.var(axis=0, ddof=1)
    each = log_means - penalty
    n = len(each)
    base, stats = (need(module, "arviz", "leave-one-out") for module in ("arviz_base", "arviz_stats"))
    tree = base.from_dict(
        {"posterior": {"theta": np.zeros((1, len(terms)))}, "log_likelihood": {"events": terms[None]}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of large Pareto shapes, which worst_k tells
        left_out = stats.loo(tree, pointwise=True)
    return Evidence(
        float(each.sum()),
        float(np.sqrt(n * each.var(ddof=1))) if n > 1 else 0.0,
        float(penalty.sum()),
        float(left_out.elpd),
        float(left_out.se),
        float(left_out.p),
        float(np.max(left_out.pareto_k)),
        terms,
    )
