"""The model in plain NumPy, float64, straight from equations (1) to (5) of `portable.models.hawkes`: slow,
short, independent.

Memory stays bounded because events are processed by chunks, each with all other events. Shares no code with
the kernels.
"""

from math import pi

import numpy as np
from scipy.special import ndtr

_PAIRS_A_CHUNK = 2**21  # 16 MiB for each array of pairs


def normal_density(z2, n_dims):
    """Return phi_D at squared length z2."""
    return np.exp(-0.5 * z2) / (2.0 * pi) ** (0.5 * n_dims)


def rates(locations, times, params, *, background_self=True):
    """Return mu_n of (1) and xi_n of (2).

    Parameters
    ----------
    locations : ndarray, shape (n_events, n_dims), kilometres
    times : ndarray, shape (n_events,), hours, ascending
    params : Parameters

    Returns
    -------
    mu, xi : ndarray, shape (n_events,), per km^D and hour
    """
    n_events, n_dims = locations.shape
    mu, xi = np.empty(n_events), np.empty(n_events)
    chunk = max(1, _PAIRS_A_CHUNK // n_events)
    for start in range(0, n_events, chunk):
        rows = slice(start, start + chunk)
        r2 = ((locations[rows, None, :] - locations[None, :, :]) ** 2).sum(axis=2)
        dt = times[rows, None] - times[None, :]
        density = normal_density(r2 / params.tau_x**2, n_dims) / params.tau_x**n_dims
        density *= normal_density((dt / params.tau_t) ** 2, 1) / params.tau_t
        if not background_self:
            density[np.arange(len(density)), np.arange(start, start + len(density))] = 0.0
        mu[rows] = params.mu0 * density.sum(axis=1)  # (1)
        trigger = normal_density(r2 / params.h**2, n_dims) / params.h**n_dims
        trigger *= params.omega * np.exp(-params.omega * np.maximum(dt, 0.0))
        xi[rows] = params.theta * np.where(dt > 0.0, trigger, 0.0).sum(axis=1)  # (2)
    return mu, xi


def expected_counts(times, params, horizon_h=None):
    """Return Lambda_n of (3), shape (n_events,)."""
    elapsed = times - times[0]
    left = (times[-1] if horizon_h is None else horizon_h) - times
    background = ndtr(left / params.tau_t) - ndtr(-elapsed / params.tau_t)
    return params.mu0 * background + params.theta * (1.0 - np.exp(-params.omega * left))


def log_likelihood(locations, times, params, *, background_self=True, horizon_h=None):
    """Return (4). Parameters as in `rates`."""
    mu, xi = rates(locations, times, params, background_self=background_self)
    return float(np.sum(np.log(mu + xi) - expected_counts(times, params, horizon_h)))


def excitation_probabilities(locations, times, params, *, background_self=True):
    """Return (5), shape (n_events,). Parameters as in `rates`."""
    mu, xi = rates(locations, times, params, background_self=background_self)
    return xi / (mu + xi)
