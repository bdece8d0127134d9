"""The log-likelihood (4) and the probabilities (5) of events that are evaluated once."""

from __future__ import annotations

from typing import Any


from ..shared.annotations import ArrayLike, Floats
from .checks import check_params
from .likelihood import Likelihood
from .parameters import ParametersBase


def log_likelihood(
    locations: ArrayLike,
    times: ArrayLike,
    params: ParametersBase,
    **options: Any,
) -> float:
    """Return log-likelihood of a spatiotemporal Hawkes process.

    For several evaluations on the same events, make one `Likelihood`; it also tells the bound on the error.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    params : Parameters
    **options
        As in `Likelihood`: method, background_self, error_bound, dtype, horizon_h, space and others.

    Returns
    -------
    float

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

    References
    ----------
    Holbrook et al. (2021); equation (4) of `portable.models.hawkes`.

    Examples
    --------
    >>> from portable.models import hawkes
    >>> params = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.3, omega=1.0, h=0.1)
    >>> events = hawkes.simulate(params, n_immigrants=50, horizon_h=1000.0, seed=1)
    >>> round(hawkes.log_likelihood(events.locations, events.times, params, space="serial"), 3)
    -450.205
    """
    check_params(params)
    return Likelihood(locations, times, **options).log_likelihood(params)


def excitation_probabilities(
    locations: ArrayLike,
    times: ArrayLike,
    params: ParametersBase,
    **options: Any,
) -> Floats:
    """Return probability that each event was triggered by an earlier one.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    params : Parameters
    **options
        As in `Likelihood`: method, background_self, error_bound, dtype, horizon_h, space and others.

    Returns
    -------
    ndarray, shape (n_events,), in [0, 1]

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

    References
    ----------
    Holbrook et al. (2021), equation (2); equation (5) of `portable.models.hawkes`.
    """
    check_params(params)
    return Likelihood(locations, times, **options).excitation_probabilities(params)
