"""The log-likelihood (4) and the probabilities (5) of events that are evaluated once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

import portable as pk

from .checks import check_params
from .likelihood import Likelihood
from .parameters import ParametersBase


def log_likelihood(
    locations: npt.ArrayLike,
    times: npt.ArrayLike,
    params: ParametersBase,
    *,
    method: Literal["auto", "all_pairs", "windowed", "cells"] = "auto",
    background_self: bool = True,
    tolerance: float = 1e-9,
    precision: Literal["float64", "mixed"] = "float64",
    horizon_h: float | None = None,
    space: pk.SpaceLike | Sequence[pk.SpaceLike] | None = None,
) -> float:
    """Log-likelihood of a spatiotemporal Hawkes process.

    For several evaluations on the same events, make one `Likelihood`; it also tells the bound on the error.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    params : Parameters
    method, background_self, tolerance, precision, horizon_h, space
        As in `Likelihood`.

    Returns
    -------
    float

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

    References
    ----------
    Holbrook et al. (2021); equation (4) of `models.hawkes`.
    """
    check_params(params)
    return Likelihood(
        locations,
        times,
        method=method,
        background_self=background_self,
        tolerance=tolerance,
        precision=precision,
        horizon_h=horizon_h,
        space=space,
    ).log_likelihood(params)


def excitation_probabilities(
    locations: npt.ArrayLike,
    times: npt.ArrayLike,
    params: ParametersBase,
    *,
    method: Literal["auto", "all_pairs", "windowed", "cells"] = "auto",
    background_self: bool = True,
    tolerance: float = 1e-9,
    precision: Literal["float64", "mixed"] = "float64",
    space: pk.SpaceLike | Sequence[pk.SpaceLike] | None = None,
) -> npt.NDArray[np.float64]:
    """Probability that each event was triggered by an earlier one.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    params : Parameters
    method, background_self, tolerance, precision, space
        As in `Likelihood`.

    Returns
    -------
    ndarray, shape (n_events,), in [0, 1]

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

    References
    ----------
    Holbrook et al. (2021), equation (2); equation (5) of `models.hawkes`.
    """
    check_params(params)
    return Likelihood(
        locations,
        times,
        method=method,
        background_self=background_self,
        tolerance=tolerance,
        precision=precision,
        space=space,
    ).excitation_probabilities(params)
