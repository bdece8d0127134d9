"""The intensity at places and times other than the events'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import portable as pk
from portable.errors import InputError, ShapeError

from ..shared.annotations import ArrayLike, Floats
from ..shared.checks import check_numbers
from ..shared.launches import launch
from .fit import check_likelihood
from .likelihood import Likelihood
from .parameters import ParametersBase
from .summary_kernels import intensity_at


def intensity(
    likelihood: Likelihood,
    params: ParametersBase,
    locations: ArrayLike,
    times: ArrayLike,
) -> tuple[Floats, Floats]:
    """Background and excitation at places and times.

    Parameters
    ----------
    likelihood : Likelihood
        Of the events that both come from. Of a background that is given, `Background.at` is asked, without
        which it is known at the events alone, and this refused.
    params : Parameters
    locations : array-like, shape (n_points, n_dims), kilometres
    times : array-like, shape (n_points,), hours, on the axis of the events' times
        In any order; after the last event this is a forecast that assumes no further events.

    Returns
    -------
    background, excitation : ndarray, shape (n_points,), per km^D and hour

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        Points of other dimensions than the events', or that are no finite numbers.
    """
    check_likelihood(likelihood)
    likelihood.check_params(params)
    locations = check_numbers(locations, "locations", 2)
    times = check_numbers(times, "times", 1)
    if locations.shape != (len(times), likelihood.n_dims):
        raise ShapeError(
            f"locations has shape {locations.shape}; ({len(times)}, {likelihood.n_dims}) is wanted: a place"
            " for each time, in the dimensions of the events"
        )
    sums, given = likelihood.sums, likelihood.background
    if given is not None and given.at is None:
        raise InputError(
            "likelihood: its background is known at the events alone; give Background(at=) for intensities"
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
            sums.events.x,
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
    """Return the intensity, background and excitation together, on a grid in space and time.

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
        As many axes as dimensions are wanted, all of finite numbers.
    """
    check_likelihood(likelihood)
    if len(axes) != likelihood.n_dims:
        raise InputError(
            f"axes holds {len(axes)} axes for events in {likelihood.n_dims} dimensions; one each is wanted"
        )
    axes = [check_numbers(axis, f"axes[{k}]", 1) for k, axis in enumerate(axes)]
    times = check_numbers(times, "times", 1)
    t, *coordinates = (part.ravel() for part in np.meshgrid(times, *axes, indexing="ij"))
    background, excitation = intensity(likelihood, params, np.stack(coordinates, axis=1), t)
    return (background + excitation).reshape(len(times), *(len(axis) for axis in axes))
