"""The intensity at any place and time, and residuals: under the model, the numbers of events expected
between consecutive events are exponential with mean 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    Floats,
    Frozen,
    InputError,
    ShapeError,
    check_count,
    check_numbers,
    generator_of,
    launch,
    need,
)
from ..shared.pairs import correlation
from .checks import check_enough, check_hours
from .fit import check_likelihood
from .likelihood import Likelihood
from .parameters import ParametersBase
from .regions import region_of
from .summary_kernels import compensator, intensity_at


def intensity(
    likelihood: Likelihood,
    params: ParametersBase,
    locations: ArrayLike,
    times: ArrayLike,
) -> tuple[Floats, Floats]:
    """Return background and excitation at given places and times.

    Parameters
    ----------
    likelihood : Likelihood
        Of the events that excite. A given background must have `Background.at`; without it, it is known only
        at the events.
    params : Parameters
    locations : array-like, shape (n_points, n_dims), kilometres
    times : array-like, shape (n_points,), hours, on the axis of the events' times
        In any order; times after the last event give a forecast that assumes no further events.

    Returns
    -------
    background, excitation : ndarray, shape (n_points,), per km^D and hour

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        Points of other dimensions than the events, or that are no finite numbers.
    """
    check_likelihood(likelihood)
    likelihood.check_params(params)
    locations = check_numbers(locations, "locations", 2)
    times = check_numbers(times, "times", 1)
    if locations.shape != (len(times), likelihood.n_dims):
        raise ShapeError(
            f"locations has shape {locations.shape}; expected ({len(times)}, {likelihood.n_dims}): a place"
            " for each time, in the dimensions of the events"
        )
    sums, given = likelihood.sums, likelihood.background
    if given is not None and given.at is None:
        raise InputError(
            "likelihood: its background is known only at the events; give Background(at=) for intensities"
            " elsewhere"
        )
    mu_scale = 0.0 if given else params.background_scale(likelihood.n_dims)
    with pk.use(likelihood.space):
        out = pk.zeros((2, len(times)))
        launch(
            pk.TeamPolicy(len(times), 128),
            intensity_at,
            params.triggering.functions,
            pk.static(likelihood.n_dims),
            mu_scale,
            params.excitation_scale(likelihood.n_dims),
            pk.copy_of((locations - likelihood.centre).T),
            pk.copy_of(times - likelihood.origin_h),
            sums.x,
            sums.t,
            *params.background_exponents,
            params.kernel_values,
            out,
        )
        background, excitation = out.to_numpy()
    if given is not None:
        background = params.mu0 * np.asarray(given.at(locations, times), dtype=np.float64)
    return background.copy(), excitation.copy()


def intensity_grid(
    likelihood: Likelihood,
    params: ParametersBase,
    axes: Sequence[ArrayLike],
    times: ArrayLike,
) -> Floats:
    """Return the intensity, the sum of background and excitation, on a grid in space and time.

    Parameters
    ----------
    likelihood, params
        As in `intensity`.
    axes : sequence of array-like, one a dimension, kilometres
        Coordinates of the grid's points.
    times : array-like, shape (n_times,), hours

    Returns
    -------
    ndarray, shape (n_times, len(axes[0]), ...), per km^D and hour

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        The number of axes is not that of dimensions; a coordinate is no finite number.
    """
    check_likelihood(likelihood)
    if len(axes) != likelihood.n_dims:
        raise InputError(
            f"axes holds {len(axes)} axes for events in {likelihood.n_dims} dimensions; expected one each"
        )
    axes = [check_numbers(axis, f"axes[{k}]", 1) for k, axis in enumerate(axes)]
    times = check_numbers(times, "times", 1)
    t, *coordinates = (part.ravel() for part in np.meshgrid(times, *axes, indexing="ij"))
    background, excitation = intensity(likelihood, params, np.stack(coordinates, axis=1), t)
    return (background + excitation).reshape(len(times), *(len(axis) for axis in axes))


_FAR_SDS = 8.5  # 1 - Phi(8.5) is below the rounding unit of float64
_SPENT = 40.0  # so is exp(-40)


class Residuals(Frozen):
    """Events on the transformed time scale of the model.

    Attributes
    ----------
    rescaled : ndarray, shape (n_events,)
        Expected number of events until each event, over all places.
    gaps : ndarray, shape (n_events - 1,)
        Their differences; independent and exponential with mean 1 if the model is correct.
    statistic, p_value : float
        Kolmogorov-Smirnov test of that distribution, on exp(-gap). It is conservative if the parameters were
        fitted to the same events.
    correlation : float
        Correlation of the normal scores of consecutive gaps: 0, within 2 / sqrt(n_events), if the model is
        correct.
    """

    rescaled: Floats
    gaps: Floats
    statistic: float
    p_value: float
    correlation: float


def residuals(likelihood: Likelihood, params: ParametersBase) -> Residuals:
    """Return the residuals of the events by time rescaling, at parameters `params`.

    Parameters
    ----------
    likelihood : Likelihood
        A given background must have `mass_until`. The kernel density (1) also depends on later events, so its
        residuals are too favourable: they can detect a wrong excitation, but hardly a wrong background.
    params : Parameters

    Returns
    -------
    Residuals

    Raises
    ------
    DTypeError, InputError
        Not a Likelihood or not Parameters; SciPy is not installed.

    References
    ----------
    Brown, Barbieri, Ventura, Kass, Frank: The time-rescaling theorem and its application to neural spike
    train data analysis. Neural Computation 14 (2002).
    """
    check_likelihood(likelihood)
    likelihood.check_params(params)
    return residuals_of(compensators(likelihood, params))


def residuals_of(rescaled):
    """Return the Residuals of at least 3 rescaled times."""
    stats = need("scipy.stats", "stats", "the test of residuals")
    check_enough(len(rescaled), np.ptp(rescaled), "residuals")
    gaps = np.diff(rescaled)
    test = stats.kstest(np.exp(-np.maximum(gaps, 0.0)), "uniform")
    scores = stats.norm.ppf((stats.rankdata(gaps) - 0.5) / len(gaps))
    found = correlation(scores[:-1], scores[1:])
    return Residuals(rescaled, gaps, float(test.statistic), float(test.pvalue), found)


def compensators(likelihood, params):
    """Return the expected number of events until each event, over all places, shape (n_events,)."""
    given, times = likelihood.background, likelihood.sums.times
    if given and given.mass_until is None:
        raise InputError(
            "likelihood: its background has no mass_until; expected the background's mass until each event"
        )
    n, reach_mu = likelihood.n_events, _FAR_SDS * params.tau_t
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
            *map(pk.copy_of, (first_mu, last_mu, gone, first_xi, come)),
            out,
        )
        found = out.to_numpy()
    return found + params.mu0 * given.mass_until if given else found


class ThinnedResiduals(Frozen):
    """Places and times that are uniform over region and time if the model is correct.

    Attributes
    ----------
    locations, times : ndarray, kilometres and hours
    is_event : ndarray of bool
        True for retained events, False for points that were added where the model's intensity is below
        `rate`.
    rate : float, per km^D and hour
    p_value : float
        Of a chi-square test of counts in cells of space, by simulation.
    """

    locations: Floats
    times: Floats
    is_event: Array
    rate: float
    p_value: float


def thinned_residuals(
    likelihood: Likelihood,
    params: ParametersBase,
    *,
    box_km: ArrayLike | None = None,
    polygon: Any = None,
    n_cells: int = 6,
    n_simulations: int = 199,
    seed: int = 0,
) -> ThinnedResiduals:
    """Return residuals in space by super-thinning, which detect errors of the model in space; `residuals`
    uses only the times.

    Where the model's intensity exceeds the mean rate, events are retained with probability rate / intensity;
    where it is lower, points are added at the rate of the difference.

    Parameters
    ----------
    likelihood : Likelihood
        With a background that has `at`, such as that of `fit_background`, or the kernel density (1), for
        which the test is too favourable because it was computed from the events.
    params : Parameters
    box_km, polygon
        The region, as in `fit_background`.
    n_cells : int
        Cells along each dimension, in which the test counts points.
    n_simulations : int
    seed : int

    Returns
    -------
    ThinnedResiduals

    Raises
    ------
    DTypeError, ShapeError, InputError
        An argument of a wrong type or out of range; the background is known only at the events.

    References
    ----------
    Clements, Schoenberg, Veen: Evaluation of space-time point process models using super-thinning.
    Environmetrics 23 (2012).
    """
    check_likelihood(likelihood)
    random = generator_of(seed)
    n_cells, n_draws = check_count(n_cells, "n_cells", 2), check_count(n_simulations, "n_simulations")
    check_hours(likelihood.horizon_h)
    region = region_of(box_km, polygon, likelihood.sums.locations + likelihood.centre)
    places, *rest = _thinned(likelihood, params, region, random)
    draws = [region.draw(random, len(places)) for _ in range(n_draws)]
    p_value = _p_of_cells([places, *draws], np.linspace(region.low, region.high, n_cells + 1).T)
    return ThinnedResiduals(places, *rest, p_value)


def _thinned(likelihood, params, region, random):
    """Thin the events and add points: return places, times, a mask of the events, and the rate."""
    places, times = likelihood.sums.locations + likelihood.centre, likelihood.sums.times + likelihood.origin_h
    rate = len(times) / (region.area * likelihood.horizon_h)
    kept = random.random(len(times)) * np.sum(likelihood.rates(params), axis=0) < rate
    new = region.draw(random, random.poisson(len(times)))
    when = likelihood.origin_h + random.uniform(0.0, likelihood.horizon_h, len(new))
    added = random.random(len(new)) * rate < rate - np.sum(intensity(likelihood, params, new, when), axis=0)
    is_event = np.repeat([True, False], [kept.sum(), added.sum()])
    found = (np.concatenate([own[kept], other[added]]) for own, other in ((places, new), (times, when)))
    return *found, is_event, float(rate)


def _p_of_cells(sets, edges):
    """Return the share of sets of places whose counts deviate from their mean by at least as much as those
    of the first set."""
    counts = np.array([np.histogramdd(some, edges)[0].ravel() for some in sets])
    mean = np.maximum(counts.mean(axis=0), 1e-300)
    far = ((counts - mean) ** 2 / mean).sum(axis=1)
    return float((far >= far[0]).mean())
