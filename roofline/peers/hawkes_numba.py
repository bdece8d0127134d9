"""The Hawkes log-likelihood in two dimensions, in plain numba: the loops that a numba user writes."""

import math

import numpy as np
from numba import njit, prange

from roofline.contract import Contender
from roofline.peers.numba_threads import set_threads


def contenders(locations, times, params, *, mixed, threads):
    """Our algorithm (excitation from earlier events only), then the textbook's (two exps for all n x n pairs).

    Parameters
    ----------
    locations : ndarray, shape (n_events, 2), km
    times : ndarray, shape (n_events,), hours, ascending from 0
    params : object with mu0, tau_x, tau_t, theta, omega, h
    mixed : bool
        Pairs in float32, with times subtracted and sums taken in float64.
    threads : int
        CPU threads; 1 is compiled without parallel=True.

    Returns
    -------
    list of Contender, whose calls return the log-likelihood
    """
    set_threads(threads)
    x, y = np.ascontiguousarray(locations[:, 0]), np.ascontiguousarray(locations[:, 1])
    before = np.searchsorted(times, times, side="left")
    rates = np.empty(len(times))
    texts = {"same pairs": _rates_mixed} if mixed else {"same pairs": _rates, "n x n, two exps": _rates_textbook}
    found = []
    for name, text in texts.items():
        for fastmath in (False, True):
            loop = njit(parallel=threads > 1, fastmath=fastmath)(text)

            def call(loop=loop):
                loop(
                    x,
                    y,
                    times,
                    before,
                    params.mu0,
                    params.tau_x,
                    params.tau_t,
                    params.theta,
                    params.omega,
                    params.h,
                    rates,
                )
                return _log_likelihood(times, rates, params.mu0, params.tau_t, params.theta, params.omega)

            found.append(Contender(f"numba, {name}{', fastmath=True' if fastmath else ''}", call, result=call))
    return found


def _rates(x, y, t, before, mu0, tau_x, tau_t, theta, omega, h, out):
    """Intensity at each event: two exps for an earlier event, one for another."""
    n = t.shape[0]
    a, b, g = -0.5 / tau_x**2, -0.5 / tau_t**2, -0.5 / h**2
    background = mu0 / (tau_x**2 * tau_t) * (2.0 * math.pi) ** -1.5
    excitation = theta * omega / (h**2 * 2.0 * math.pi)
    for i in prange(n):
        mu = 0.0
        xi = 0.0
        for j in range(before[i]):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = t[i] - t[j]
            d2 = dx * dx + dy * dy
            mu += math.exp(a * d2 + b * dt * dt)
            xi += math.exp(g * d2 - omega * dt)
        for j in range(before[i], n):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = t[i] - t[j]
            mu += math.exp(a * (dx * dx + dy * dy) + b * dt * dt)
        out[i] = background * mu + excitation * xi


def _rates_textbook(x, y, t, before, mu0, tau_x, tau_t, theta, omega, h, out):
    """As `_rates`, one loop over all events with both exps."""
    n = t.shape[0]
    a, b, g = -0.5 / tau_x**2, -0.5 / tau_t**2, -0.5 / h**2
    background = mu0 / (tau_x**2 * tau_t) * (2.0 * math.pi) ** -1.5
    excitation = theta * omega / (h**2 * 2.0 * math.pi)
    for i in prange(n):
        mu = 0.0
        xi = 0.0
        for j in range(n):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = t[i] - t[j]
            d2 = dx * dx + dy * dy
            mu += math.exp(a * d2 + b * dt * dt)
            e = math.exp(g * d2 - omega * abs(dt))
            xi += e if dt > 0.0 else 0.0
        out[i] = background * mu + excitation * xi


def _rates_mixed(x, y, t, before, mu0, tau_x, tau_t, theta, omega, h, out):
    """As `_rates`, the pair in float32."""
    n = t.shape[0]
    a, b, g = np.float32(-0.5 / tau_x**2), np.float32(-0.5 / tau_t**2), np.float32(-0.5 / h**2)
    rate = np.float32(omega)
    background = mu0 / (tau_x**2 * tau_t) * (2.0 * math.pi) ** -1.5
    excitation = theta * omega / (h**2 * 2.0 * math.pi)
    for i in prange(n):
        mu = 0.0
        xi = 0.0
        for j in range(before[i]):
            dx = np.float32(x[i] - x[j])
            dy = np.float32(y[i] - y[j])
            dt = np.float32(t[i] - t[j])
            d2 = dx * dx + dy * dy
            mu += math.exp(a * d2 + b * dt * dt)
            xi += math.exp(g * d2 - rate * dt)
        for j in range(before[i], n):
            dx = np.float32(x[i] - x[j])
            dy = np.float32(y[i] - y[j])
            dt = np.float32(t[i] - t[j])
            mu += math.exp(a * (dx * dx + dy * dy) + b * dt * dt)
        out[i] = background * mu + excitation * xi


@njit
def _log_likelihood(t, rates, mu0, tau_t, theta, omega):
    """Sum of log rates less the compensator, in one pass over the events."""
    total = 0.0
    end = t[-1]
    for i in range(t.shape[0]):
        inside = 0.5 * (math.erf((end - t[i]) / (tau_t * math.sqrt(2.0))) + math.erf(t[i] / (tau_t * math.sqrt(2.0))))
        total += math.log(rates[i]) - mu0 * inside - theta * (1.0 - math.exp(-omega * (end - t[i])))
    return total
