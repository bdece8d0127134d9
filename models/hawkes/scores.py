"""Evaluate models on held-out events: pointwise log-likelihoods, WAIC and leave-one-out, information gain
per event, and tests of forecasts by numbers, places and marks."""

from __future__ import annotations

import math
import warnings
from dataclasses import field

import numpy as np

from ..shared import (
    Array,
    ArrayLike,
    Frozen,
    InputError,
    check_count,
    check_each,
    check_kind,
    check_number,
    check_numbers,
    check_positive,
    need,
    warn,
)
from .fit import check_likelihood, standard_score
from .forecast import Forecast
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .residuals import compensators


class ForecastScore(Frozen):
    """Quantiles of the observed events among the simulations of a forecast: values near 0 or 1 contradict
    the forecast.

    Attributes
    ----------
    n_events : int
    number : tuple of float
        The N test: shares of simulations with at least, and with at most, the observed number of events.
    places : float or None
        The S test: share of simulations whose events are at most as likely, by the rates of their cells; None
        for times only, or without events.
    marks : float or None
        The M test: share of simulations whose marks deviate at least as much from the marks of all
        simulations; None without marks.

    References
    ----------
    Savran et al.: Pseudoprospective evaluation of UCERF3-ETAS forecasts during the 2019 Ridgecrest sequence.
    Bulletin of the Seismological Society of America 110 (2020).
    """

    n_events: int
    number: tuple[float, float]
    places: float | None
    marks: float | None


def score_forecast(
    ahead: Forecast,
    times: ArrayLike,
    locations: ArrayLike | None = None,
    marks: ArrayLike | None = None,
    *,
    n_cells: int = 10,
    mark_width: float = 0.1,
) -> ForecastScore:
    """Test a forecast by the events that were observed: by their number, and by places and marks if given.

    Parameters
    ----------
    ahead : Forecast
    times : array-like, shape (n_events,), hours
        Of events after the record; events outside of the forecast's hours are omitted.
    locations : array-like, shape (n_events, n_dims), optional, kilometres
    marks : array-like, shape (n_events,), optional
        Less the reference mark, as in the forecast.
    n_cells : int
        Cells of equal width along each dimension, over all draws and events.
    mark_width : float
        Of the histograms of marks.

    Returns
    -------
    ForecastScore

    Raises
    ------
    DTypeError, FiniteError, ShapeError, InputError
        An argument of a wrong type or shape; the forecast has no marks.
    """
    check_kind(ahead, "ahead", Forecast, "come from hawkes.forecast")
    times = check_numbers(times, "times", 1)
    inside = (times >= ahead.begin_h) & (times <= ahead.end_h)
    n = int(inside.sum())
    if times.size and not n:
        warn(
            f"none of {len(times)} times is within the forecast's hours, {ahead.begin_h:g} to {ahead.end_h:g}"
        )
    number = float((ahead.counts >= n).mean()), float((ahead.counts <= n).mean())
    places = found = None
    if locations is not None and n:
        there = check_each(locations, "locations", len(times), "times", 2)[inside]
        places = _places(ahead.locations, there, check_count(n_cells, "n_cells", 2))
    if marks is not None:
        if ahead.marks is None:
            raise InputError("marks need a forecast with marks: fit a model with marks")
        own = check_each(marks, "marks", len(times), "times")[inside]
        found = _marks(ahead.marks, own, check_positive(mark_width, "mark_width"))
    return ForecastScore(n, number, places, found)


def _places(drawn, there, n_cells):
    """Return the share of simulations whose mean log-rate over events is at most that of the observed
    places."""
    whole = np.concatenate([*drawn, there])
    edges = [np.linspace(low, high, n_cells + 1) for low, high in zip(whole.min(axis=0), whole.max(axis=0))]
    counts = [np.histogramdd(some, edges)[0].ravel() for some in (*drawn, there)]
    rates = np.sum(counts[:-1], axis=0) / len(drawn)
    # a cell without simulated events has the rate of half an event in one simulation
    logs = np.log(np.maximum(rates, 0.5 / len(drawn)) / rates.sum())
    scores = np.array([one @ logs / one.sum() for one in counts if one.sum()])
    return float((scores[:-1] <= scores[-1]).mean())


def _marks(drawn, own, width):
    """Return the share of simulations at least as far as the observed marks from the marks of all
    simulations, by logarithms of histograms."""
    whole = np.concatenate([*drawn, own])
    edges = np.arange(whole.min(), whole.max() + 2.0 * width, width)
    counts = [np.histogram(some, edges)[0] for some in (*drawn, own)]
    shape = np.sum(counts[:-1], axis=0) / max(sum(map(len, drawn)), 1)
    n = max(len(own), 1)
    far = [
        ((np.log(n * shape + 1.0) - np.log(n * one / max(one.sum(), 1) + 1.0)) ** 2).sum() for one in counts
    ]
    return float((np.array(far[:-1]) >= far[-1]).mean())


class InformationGain(Frozen):
    """Information gain of one model over another per event, in nats.

    Attributes
    ----------
    gain, low, high : float
        Mean, and its confidence limits (a paired T test, Rhoades et al. 2011).
    p_value : float
        Of no gain, two-sided: Wilcoxon's signed-rank test.
    """

    gain: float
    low: float
    high: float
    p_value: float


def information_gain(ours: ArrayLike, theirs: ArrayLike, *, level: float = 0.95) -> InformationGain:
    """Compare two models by their log-likelihoods of each event, the results of `pointwise` for the events
    of interest.

    Parameters
    ----------
    ours, theirs : array-like, shape (n_events,)
        Log densities of the same events given the earlier ones, for example of events after those of the fit.
    level : float, between 0 and 1

    Returns
    -------
    InformationGain

    Raises
    ------
    DTypeError, FiniteError, ShapeError, InputError
        Lengths differ, or are below 3; SciPy is not installed.
    """
    stats = need("scipy.stats", "stats", "the test of information gain")
    ours = check_numbers(ours, "ours", 1)
    theirs = check_each(theirs, "theirs", len(ours), "times")
    n = len(ours)
    if n < 3:
        raise InputError(f"ours has {n} events; expected at least 3 to compare models")
    standard_score(level)
    gains = ours - theirs
    width = stats.t.ppf(0.5 + 0.5 * level, n - 1) * gains.std(ddof=1) / math.sqrt(n)
    p_value = float(stats.wilcoxon(gains).pvalue) if gains.any() else 1.0
    gain = gains.mean()
    return InformationGain(*map(float, (gain, gain - width, gain + width)), p_value)


class Magnitudes(Frozen):
    """Completeness and Gutenberg-Richter b-value of magnitudes.

    Attributes
    ----------
    completeness : float
        The magnitude above which all events are assumed to be recorded.
    n_events : int
        Events of at least that magnitude.
    b, error : float
        Maximum likelihood estimate and its standard error (Shi and Bolt 1982); NaN for fewer than two events.
    """

    completeness: float
    n_events: int
    b: float
    error: float


def magnitudes(
    marks: ArrayLike, *, completeness: float | None = None, width: float = 0.1, correction: float = 0.2
) -> Magnitudes:
    """Estimate the magnitude of completeness of `marks` by maximum curvature, and the b-value above it.

    Parameters
    ----------
    marks : array-like, shape (n_events,)
    completeness : float, optional
        The magnitude of completeness, if known.
    width : float
        Rounding of the magnitudes; 0 for none, which requires `completeness`.
    correction : float
        Added to the most frequent magnitude (Woessner and Wiemer 2005).

    Returns
    -------
    Magnitudes

    Raises
    ------
    DTypeError, FiniteError, ShapeError, InputError
        No magnitude is complete; width 0 without completeness.

    Examples
    --------
    >>> from portable.models import hawkes
    >>> marks = np.round(2.0 + np.random.default_rng(1).exponential(np.log10(np.e), 5000), 1)
    >>> found = hawkes.magnitudes(marks, completeness=2.1)
    >>> abs(found.b - 1.0) < 3.0 * found.error
    True
    """
    marks = check_numbers(marks, "marks", 1)
    width = check_number(width, "width", least=0.0)
    if completeness is None:
        if not width or not marks.size:
            raise InputError(
                f"width is {width:g} for {marks.size} marks; give completeness, or a width of bins"
            )
        bins, counts = np.unique(np.rint(marks / width), return_counts=True)
        completeness = float(bins[counts.argmax()] * width) + check_number(correction, "correction")
    least = check_number(completeness, "completeness")
    some = marks[marks >= least - 0.5 * width - 1e-9]
    if not some.size:
        raise InputError(f"completeness is {least:g}, above all marks (the largest is {marks.max():g})")
    return Magnitudes(least, len(some), *_b_of(some, least, width))


def _b_of(some, least, width):
    """Return the b-value of magnitudes rounded to a width (Tinti and Mulargia 1987), and its standard
    error."""
    over, n = float(some.mean() - least), len(some)
    if n < 2 or not over > 0.0:
        return math.nan, math.nan
    b = math.log1p(width / over) / (width * math.log(10.0)) if width else math.log10(math.e) / over
    return b, math.log(10.0) * b * b * math.sqrt(float(some.var()) / (n - 1))


class Evidence(Frozen):
    """Expected log predictive density; larger is better, and differences should be compared with their
    standard errors.

    Attributes
    ----------
    waic, waic_se, p_waic : float
        Watanabe's criterion as an expected log density, its standard error, and the effective number of
        parameters.
    loo, loo_se, p_loo : float
        The same by leave-one-out with Pareto-smoothed importance sampling.
    worst_k : float
        The largest Pareto shape: above 0.7 leave-one-out is unreliable.
    pointwise : ndarray, shape (n_draws, n_events)
    """

    waic: float
    waic_se: float
    p_waic: float
    loo: float
    loo_se: float
    p_loo: float
    worst_k: float
    pointwise: Array = field(repr=False)


def pointwise(likelihood: Likelihood, params: ParametersBase) -> Array:
    """Return the log-likelihood of each event: the log density of its time and place given the earlier
    events.

    Parameters
    ----------
    likelihood : Likelihood
        A given background must have `mass_until`. The kernel density (1), and therefore its terms, also
        depend on later events.
    params : Parameters

    Returns
    -------
    ndarray, shape (n_events,)
        The terms add up to `likelihood.log_likelihood(params)`; the last one includes the time after the last
        event.

    Raises
    ------
    DTypeError, InputError
        `likelihood` is no Likelihood, or its background has no `mass_until`.
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
    """Return WAIC and leave-one-out estimates for a likelihood and its posterior.

    Parameters
    ----------
    likelihood : Likelihood
    posterior : Posterior
        Of the same events.
    n_draws : int
        Number of draws, evenly spaced over all chains.

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
    if len(terms) < 10:
        raise InputError(f"posterior has {len(terms)} draws; expected at least 10")
    if not np.isfinite(terms).all():
        raise InputError("likelihood: an event has density zero under a draw")
    most = terms.max(axis=0)
    log_means = most + np.log(np.exp(terms - most).mean(axis=0))
    penalty = terms.var(axis=0, ddof=1)
    each = log_means - penalty
    n = len(each)
    base, stats = (need(module, "arviz", "leave-one-out") for module in ("arviz_base", "arviz_stats"))
    tree = base.from_dict(
        {"posterior": {"theta": np.zeros((1, len(terms)))}, "log_likelihood": {"events": terms[None]}}
    )
    with warnings.catch_warnings(action="ignore"):  # warnings of large Pareto shapes, which worst_k reports
        left_out = stats.loo(tree, pointwise=True)
    error = np.sqrt(n * each.var(ddof=1)) if n > 1 else 0.0
    waic, loo = (each.sum(), error, penalty.sum()), (left_out.elpd, left_out.se, left_out.p)
    return Evidence(*map(float, (*waic, *loo, np.max(left_out.pareto_k))), terms)
