"""The Hawkes log-likelihood in two dimensions, in plain numba: the loops that a numba user writes."""

import math

import numpy as np
from numba import njit, prange

from portable.roofline.contract import Contender
from portable.roofline.peers.numba_threads import set_threads


def contenders(locations, times, params, *, mixed, threads):
    """Our algorithm (each pair once, two exps), then the textbook's (n x n pairs, two exps each).

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
    p = params
    x, y = np.ascontiguousarray(locations[:, 0]), np.ascontiguousarray(locations[:, 1])
    before = np.searchsorted(times, times, side="left")
    # A row of background sums for each thread, so that no two add to one number.
    mu, xi = np.empty((threads, len(times))), np.empty(len(times))
    real = np.float32 if mixed else np.float64
    constants = [real(v) for v in (-0.5 / p.tau_x**2, -0.5 / p.tau_t**2, -0.5 / p.h**2, p.omega)]
    texts = (
        {"same pairs": _triangle_mixed} if mixed else {"same pairs": _triangle, "n x n, two exps": _textbook}
    )
    found = []
    for name, text in texts.items():
        for fastmath in (False, True):
            loop = njit(parallel=threads > 1, fastmath=fastmath)(text)

            def call(loop=loop):
                loop(x, y, times, before, *constants, mu, xi)
                return _log_likelihood(times, mu, xi, p.mu0, p.tau_x, p.tau_t, p.theta, p.omega, p.h)

            label = f"numba, {name}{', fastmath=True' if fastmath else ''}"
            found.append(Contender(label, call, result=call))
    return found


def _triangle(x, y, t, before, a, b, g, omega, mu, xi):
    """Sums over pairs, each visited once; thread k takes every so many-th event, so that all have as much to
    do.
    """
    n = t.shape[0]
    threads = mu.shape[0]
    for k in prange(threads):
        mu[k, :] = 0.0
        for i in range(k, n, threads):
            back = 0.0
            excited = 0.0
            for j in range(before[i]):
                dx = x[i] - x[j]
                dy = y[i] - y[j]
                dt = t[i] - t[j]
                d2 = dx * dx + dy * dy
                e = math.exp(a * d2 + b * dt * dt)
                back += e
                mu[k, j] += e
                excited += math.exp(g * d2 - omega * dt)
            for j in range(before[i], i):  # ties
                dx = x[i] - x[j]
                dy = y[i] - y[j]
                e = math.exp(a * (dx * dx + dy * dy))
                back += e
                mu[k, j] += e
            mu[k, i] += back + 1.0
            xi[i] = excited


def _triangle_mixed(x, y, t, before, a, b, g, omega, mu, xi):
    """As `_triangle`, the pair in float32."""
    n = t.shape[0]
    threads = mu.shape[0]
    for k in prange(threads):
        mu[k, :] = 0.0
        for i in range(k, n, threads):
            back = 0.0
            excited = 0.0
            for j in range(before[i]):
                dx = np.float32(x[i] - x[j])
                dy = np.float32(y[i] - y[j])
                dt = np.float32(t[i] - t[j])
                d2 = dx * dx + dy * dy
                e = math.exp(a * d2 + b * dt * dt)
                back += e
                mu[k, j] += e
                excited += math.exp(g * d2 - omega * dt)
            for j in range(before[i], i):  # ties
                dx = np.float32(x[i] - x[j])
                dy = np.float32(y[i] - y[j])
                e = math.exp(a * (dx * dx + dy * dy))
                back += e
                mu[k, j] += e
            mu[k, i] += back + 1.0
            xi[i] = excited


def _textbook(x, y, t, before, a, b, g, omega, mu, xi):
    """Sums over all pairs, both exps for each."""
    n = t.shape[0]
    mu[1:, :] = 0.0
    for i in prange(n):
        back = 0.0
        excited = 0.0
        for j in range(n):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = t[i] - t[j]
            d2 = dx * dx + dy * dy
            back += math.exp(a * d2 + b * dt * dt)
            e = math.exp(g * d2 - omega * abs(dt))
            excited += e if dt > 0.0 else 0.0
        mu[0, i] = back
        xi[i] = excited


@njit
def _log_likelihood(t, mu, xi, mu0, tau_x, tau_t, theta, omega, h):
    """Sum of log rates less the compensator, in one pass over the events."""
    background = mu0 / (tau_x**2 * tau_t) * (2.0 * math.pi) ** -1.5
    excitation = theta * omega / (h**2 * 2.0 * math.pi)
    total = 0.0
    end = t[-1]
    for i in range(t.shape[0]):
        rate = excitation * xi[i]
        for k in range(mu.shape[0]):
            rate += background * mu[k, i]
        inside = 0.5 * (
            math.erf((end - t[i]) / (tau_t * math.sqrt(2.0))) + math.erf(t[i] / (tau_t * math.sqrt(2.0)))
        )
        total += math.log(rate) - mu0 * inside - theta * (1.0 - math.exp(-omega * (end - t[i])))
    return total
