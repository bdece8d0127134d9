"""Warnings about weaknesses of data and estimates, each a sentence with its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..shared import ArrayLike, Floats, InputError, Names, check_numbers, check_positive, generator_of
from .likelihood import Likelihood
from .parameters import ParametersBase
from .triggering import bisect
from .checks import places, spread_of

# Units of recorded times. A record is coarse if the share of tied events exceeds _TIED, or if delays are
# shorter than _FINE units. Delays below the share _SUDDEN of the mean gap resemble an event that was reported
# twice.
_UNITS = {24.0: "day", 1.0: "hour", 0.25: "quarter of an hour", 1.0 / 60.0: "minute", 1.0 / 3600.0: "second"}
_TIED, _FINE, _SUDDEN = 0.05, 3.0, 0.01
# An estimate of h below this share of the spacing of locations depends only on events with equal locations.
_COLLAPSED = 0.25
# Repeated locations are treated as centroids if their spacing exceeds the share _SPACED of the smoothing
# scale of the background: tau_x, or, for a given background, the share _SMOOTH of the region's width.
_SPACED, _SMOOTH = 0.25, 0.08

_SPREAD = (
    "Spread them over their rounding (hawkes.jitter, --jitter), give a background with these places, or"
    " make the Likelihood with repeats='accept' (--repeats accept)"
)


def jitter(
    locations: ArrayLike,
    width_km: float | None = None,
    *,
    seed: int = 0,
) -> Floats:
    """Return locations with a random displacement within their rounding.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), kilometres
    width_km : float, optional
        Side of the box, centred at each location, that displaced events are uniform in; the typical distance
        between locations if not given.
    seed : int

    Returns
    -------
    ndarray, shape (n_events, n_dims)
        Repeat an analysis for several seeds: results that vary with the seed are not determined by the data.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Locations of another shape, or that are no finite numbers; a width that is not positive.
    """
    locations = check_numbers(locations, "locations", 2)
    given = width_km is not None
    half = 0.5 * (check_positive(width_km, "width_km") if given else places(locations).spacing_km)
    return locations + generator_of(seed).uniform(-half, half, locations.shape)


def check_places(likelihood, params, free):
    """Raise InputError if h would be estimated from repeated locations that the background cannot
    represent.

    Events at one location are then closer to each other than expected from the background, whatever their
    times. The likelihood mistakes this for triggering, increasingly so for smaller h, and only a prior bounds
    it.
    """
    if likelihood.repeats == "accept" or not {"theta", "h"} <= set(free):
        return
    found = likelihood.places
    if found.n_distinct == 1 and found.n_events > 1:
        raise InputError(
            f"locations: all {found.n_events:,} events have the same place; for events only in time make a"
            " hawkes.TemporalLikelihood of the times"
        )
    smooth = (
        params.tau_x
        if likelihood.background is None
        else _SMOOTH * float(np.ptp(likelihood.sums.locations, axis=0).max())
    )
    if found.rounded and found.spacing_km > _SPACED * smooth:
        raise InputError(
            f"locations: {found}. The background cannot follow them, so events that share a place would count"
            f" as offspring of each other, whatever their times. {_SPREAD}"
        )


def collapsed(found, h):
    """Return True if an estimate of h is far below the spacing of repeated locations."""
    return found.rounded and h < _COLLAPSED * found.spacing_km


def check_estimate(likelihood, params, free, n_simulations=0):
    """Raise InputError if the estimate of h is far below the spacing of repeated locations: it then
    reflects only the repetition."""
    found = likelihood.places
    if likelihood.repeats == "accept" or not {"theta", "h"} <= set(free):
        return
    if collapsed(found, params.h):
        test = f" The test: {likelihood.triggering_test(n_simulations)}." if n_simulations else ""
        raise InputError(
            f"locations: {found}. The estimate of h is {params.h:.3g} km: it and theta = {params.theta:.3g}"
            f" reflect only that places repeat.{test} {_SPREAD}"
        )


def notes(
    likelihood: Likelihood,
    params: ParametersBase,
    free: Sequence[str] | None = None,
    *,
    n_simulations: int = 199,
) -> Names:
    """Return notes on the weaknesses of an estimate.

    Parameters
    ----------
    likelihood : Likelihood
    params : Parameters
        An estimate, or the mean of a posterior.
    free : sequence of str, optional
        The estimated parameters; all except tau_x and tau_t if not given.
    n_simulations : int
        Simulated data sets for the test of no triggering; 0 omits the test.

    Returns
    -------
    tuple of str

    Raises
    ------
    DTypeError
        `params` are not the likelihood's.
    """
    likelihood.check_params(params)
    free = [name for name in params.names() if name not in ("tau_x", "tau_t")] if free is None else list(free)
    found, triggered = [], True
    if n_simulations and "theta" in free:
        test = likelihood.triggering_test(n_simulations)
        triggered = test.rejects()
        if not triggered:
            found.append(str(test))
    delay = _typical_delay(params)
    found += _coarse_times(likelihood, delay)
    found += _reported_twice(likelihood, params, delay if triggered and "theta" in free else math.inf)
    ratio = likelihood.branching_ratio(params)
    if ratio >= 1.0 and "theta" in free:
        found.append(
            f"the branching ratio is {ratio:.3g}: from 1 on families have no finite size, and forecasts grow"
            " without end"
        )
    where = likelihood.places
    if where.rounded and "h" in free and params.h < where.spacing_km:
        found.append(
            f"h is {params.h:.3g} km, less than the spacing of places ({where}): it says how often places"
            " repeat; bound it by the rounding (least=), or see what jittered places give"
        )
    if likelihood.background is None:
        found += _scales(likelihood, params)
    if likelihood.background is None and delay > 0.25 * params.tau_t and "theta" in free:
        found.append(
            f"half of the delays exceed {delay:.3g} h, not small beside tau_t = {params.tau_t:g} h: a"
            " kernel density over all events includes slow clusters, and theta is too small; use a constant"
            " or declustered background (hawkes.fit_background)"
        )
    return tuple(found)


def _coarse_times(likelihood, delay):
    """Return a note if times are recorded in a unit too coarse for the delays of triggering."""
    times = likelihood.sums.times
    distinct, counts = np.unique(times, return_counts=True)
    tied = counts[counts > 1].sum() / len(times)
    unit = next((q for q in _UNITS if np.abs(times / q - np.rint(times / q)).max() < 1e-6), None)
    if len(distinct) < 3 or unit is None or not (tied > _TIED or delay < _FINE * unit and tied > 0.0):
        return []
    return [
        f"times are to the {_UNITS[unit]}, and {tied:.0%} of the events share theirs: events at one time"
        " do not excite each other, so that theta is too small; spread times over their unit"
        f" (read_catalogue(spread_h={unit:.3g}), --spread-h {unit:.3g})"
    ]


def _reported_twice(likelihood, params, delay):
    """Return notes on events at equal locations and times, or with delays so short that they may be
    duplicates."""
    sums, found = likelihood.sums, []
    same = len(sums.times) - len(np.unique(np.column_stack([sums.locations, sums.times]), axis=0))
    if same:
        found.append(f"{same:,} events have place and time of an earlier one: are they reported twice?")
    gap = sums.span_h / len(sums.times)
    if delay < _SUDDEN * gap:
        found.append(
            f"half of the delays are below {60.0 * delay:.2g} minutes, where events are {gap:.3g} hours"
            " apart on average: events that are reported twice look like this. Leave out the later of"
            f" such events{f' within {2.0 * params.h:.2g} km' if hasattr(params, 'h') else ''}, and compare"
        )
    return found


def _scales(likelihood, params):
    """Return notes on scales of the background that are far from those of the data."""
    sums = likelihood.sums
    spread, span = spread_of(sums.locations), sums.span_h
    return [
        f"{name} is {value:g} {unit}, but {what} over {whole:.3g} {unit}: expected a scale between a "
        "thousandth of that and all of it"
        for name, value, unit, what, whole in (
            ("tau_x", params.tau_x, "km", "places spread", spread),
            ("tau_t", params.tau_t, "h", "times span", span),
        )
        if whole > 0.0 and not 1e-3 * whole < value < whole
    ]


def _typical_delay(params):
    """Return the median delay of offspring in hours."""
    most = min(params.triggering.most_h, 1e12)

    def share(hours):
        return float(params.triggering.integral(hours, 0.0, params.kernel_values))

    half = 0.5 * share(most)
    return bisect(lambda hours: share(hours) < half, -30.0, math.log(most))
