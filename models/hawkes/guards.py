"""What in the data, or in an estimate, an analyst should not overlook: each said in a sentence, with the
numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from portable.errors import InputError

from ..checks import as_numbers, check_finite, check_number

from .likelihood import Likelihood
from .parameters import ParametersBase
from .repeats import places

# Repeated places farther apart than this share of the scale that the background is smooth over are as
# centroids: tau_x, or where the background is given, some share of the region's width.
_SPACED, _SMOOTH = 0.25, 0.08


def jitter(
    locations: npt.ArrayLike,
    width_km: float | None = None,
    *,
    seed: int = 0,
) -> npt.NDArray[np.float64]:
    """Places moved at random within their rounding.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), kilometres
    width_km : float, optional
        Side of the box around each place that its event is put in; the typical distance between places if not
        given.
    seed : int

    Returns
    -------
    ndarray, shape (n_events, n_dims)
        Repeat an analysis for several seeds: what changes with them, the data do not say.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Locations of another shape, or that are no finite numbers; a width that is not positive.
    """
    locations = check_finite(as_numbers(locations, "locations", 2), "locations")
    width = (
        places(locations).spacing_km if width_km is None else check_number(width_km, "width_km", above=0.0)
    )
    return locations + np.random.default_rng(seed).uniform(-0.5 * width, 0.5 * width, locations.shape)


def check_places(likelihood, params, free):
    """Refuse an estimate of h from repeated places that the background cannot follow.

    Whatever the times, events at one place are then nearer to each other than the background expects: noise
    passes for contagion, the more so the smaller h, and nothing but a prior bounds it.
    """
    if likelihood.repeats == "accept" or not {"theta", "h"} <= set(free):
        return
    found = likelihood.places
    smooth = (
        params.tau_x
        if likelihood.background is None
        else _SMOOTH * float(np.ptp(likelihood.sums.locations, axis=0).max())
    )
    if found.rounded and found.spacing_km > _SPACED * smooth:
        raise InputError(
            f"locations: {found}. The background cannot follow them, so events that share a place would pass"
            " for offspring of each other, whatever their times. Spread them over their rounding"
            " (hawkes.jitter, --jitter), give a background that knows the places, or make the Likelihood"
            " with repeats='accept' (--repeats accept)"
        )


def notes(
    likelihood: Likelihood, params: ParametersBase, free: Sequence[str] | None = None
) -> tuple[str, ...]:
    """What to know about an estimate before it is defended.

    Parameters
    ----------
    likelihood : Likelihood
    params : Parameters
        An estimate, or the mean of a posterior.
    free : sequence of str, optional
        Parameters that were estimated; all but tau_x and tau_t if not given.

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
    found = []
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
    delay = _typical_delay(params)
    if likelihood.background is None and delay > 0.25 * params.tau_t and "theta" in free:
        found.append(
            f"half of the delays exceed {delay:.3g} h, not small beside tau_t = {params.tau_t:g} h: a"
            " background that is a kernel density over all events takes slow clusters for its own, and theta"
            " is too small; a constant or declustered background does not (hawkes.fit_background)"
        )
    return tuple(found)


def _scales(likelihood, params):
    """Scales of the background that are far from the data's."""
    sums = likelihood.sums
    spread, span = float(np.sqrt(sums.locations.var(axis=0).mean())), sums.span_h
    found = []
    for name, value, unit, whole in (
        ("tau_x", params.tau_x, "km", spread),
        ("tau_t", params.tau_t, "h", span),
    ):
        if whole > 0.0 and not 1e-3 * whole < value < whole:
            what = "places spread" if name == "tau_x" else "times span"
            found.append(
                f"{name} is {value:g} {unit}, but {what} over {whole:.3g} {unit}: a scale between a"
                " thousandth of that and all of it is wanted"
            )
    return found


def _typical_delay(params):
    """The median delay, hours."""
    trigger, p = params.triggering, params.kernel_values
    whole = float(trigger.integral(min(trigger.most_h, 1e12), 0.0, p))
    low, high = -30.0, math.log(min(trigger.most_h, 1e12))
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (
            (middle, high)
            if float(trigger.integral(math.exp(middle), 0.0, p)) < 0.5 * whole
            else (low, middle)
        )
    return math.exp(low)
