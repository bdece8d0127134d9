"""Algorithms 2 and 3 of Holbrook et al. as printed, for Figure 1: a sum over all n x n pairs, event by event.

The same source is compiled for one index at a time and for packs of 2 to 16; `Likelihood` visits each pair
once, and omits pairs whose exponentials are both negligible.
"""

from __future__ import annotations

import math

import numpy as np

import portable as pk

from portable.models.hawkes.parameters import Parameters


@pk.function
def log_rate(n, n_events, x, y, t, a_x, a_t, a_h, omega, mu_scale, xi_scale):
    """Return log lambda_n from the sums over all events."""
    mu, xi = 0.0, 0.0
    own_x, own_y, own_t = x[n], y[n], t[n]
    for k in range(n_events):
        dx, dy, dt = own_x - x[k], own_y - y[k], own_t - t[k]
        r2 = dx * dx + dy * dy
        mu += pk.exp(a_x * r2 + a_t * dt * dt)
        if dt > 0.0:
            xi += pk.exp(a_h * r2 - omega * dt)
    return pk.log(mu_scale * mu + xi_scale * xi)


@pk.kernel
def packed(n, n_events, x, y, t, a_x, a_t, a_h, omega, mu_scale, xi_scale):
    """Process one event in each lane."""
    return log_rate(n, n_events, x, y, t, a_x, a_t, a_h, omega, mu_scale, xi_scale)


scalar = pk.kernel(packed.fn, packed=False)  # one event after the other
# the same source by the number of events that a CPU thread processes at a time
BY_LANES = {1: scalar} | {n: pk.kernel(packed.fn, packed=n) for n in (2, 4, 8, 16)}


def log_rates(kernel, locations: np.ndarray, times: np.ndarray, params: Parameters, space: object = None):
    """Return a function that computes the sum of the log rates of events in two dimensions by one of the
    kernels.

    Parameters
    ----------
    kernel : packed, scalar or one of BY_LANES
    locations : ndarray, shape (n_events, 2), kilometres
    times : ndarray, shape (n_events,), hours
    params : Parameters
    space : str or Space, optional

    Returns
    -------
    callable () -> float
    """
    with pk.use(pk.default_space() if space is None else space) as used:
        columns = [pk.copy_of(np.ascontiguousarray(c, dtype=np.float64)) for c in (*locations.T, times)]
    p, n = params, len(times)
    scales = (
        p.mu0 / (p.tau_x**2 * p.tau_t * (2.0 * math.pi) ** 1.5),
        p.theta * p.omega / (2.0 * math.pi * p.h**2),
    )
    widths = -0.5 / p.tau_x**2, -0.5 / p.tau_t**2, -0.5 / p.h**2, p.omega
    policy = pk.RangePolicy(0, n, space=used)
    return lambda: pk.parallel_reduce(policy, kernel, n, *columns, *widths, *scales)
