"""Compute the numbers of the paper's page from events and draws: thinned data, intervals of highest
density, smoothed shares."""

from __future__ import annotations

import math

import numpy as np

from portable.errors import InputError

YEAR_H = 365.25 * 24.0
MINUTE_H, NEAR_KM = 1.0 / 60.0, 0.1
SHARES = 0.08, 0.15, 0.20  # of events that the paper removes, the first by a minute and 100 m


def thin_near(locations, times, within_h, within_km):
    """Return a mask of events that stay: those that no earlier one that stays is near, both in time and in
    space.

    Parameters
    ----------
    locations : ndarray, shape (n_events, n_dims)
    times : ndarray, shape (n_events,), ascending
    within_h, within_km : float

    Returns
    -------
    ndarray of bool, shape (n_events,)
    """
    kept = np.ones(len(times), bool)
    first = np.searchsorted(times, times - within_h)
    for k in np.flatnonzero(first < np.arange(len(times))):
        before = slice(first[k], k)
        near = ((locations[before] - locations[k]) ** 2).sum(axis=1) <= within_km**2
        kept[k] = not (near & kept[before]).any()
    return kept


def thin_share(locations, times, share):
    """Return a minute and 100 m times the least factor that removes this share, by bisection; the factor,
    and which events stay."""
    low, high = 0.0, 1.0
    if share <= SHARES[0]:  # the paper's own minute and 100 m
        return 1.0, thin_near(locations, times, MINUTE_H, NEAR_KM)
    while 1.0 - thin_near(locations, times, high * MINUTE_H, high * NEAR_KM).mean() < share:
        low, high = high, 2.0 * high
        if high > 1e6:
            raise InputError(f"share is {share}: no distance removes so many events")
    for _ in range(12):
        middle = 0.5 * (low + high)
        kept = thin_near(locations, times, middle * MINUTE_H, middle * NEAR_KM)
        low, high = (low, middle) if 1.0 - kept.mean() >= share else (middle, high)
    return high, thin_near(locations, times, high * MINUTE_H, high * NEAR_KM)


def highest_density(draws, mass=0.95):
    """Return the shortest interval that holds this share of the draws: (low, high)."""
    ordered = np.sort(np.ravel(draws))
    n_inside = math.ceil(mass * len(ordered))
    widths = ordered[n_inside - 1 :] - ordered[: len(ordered) - n_inside + 1]
    first = int(np.argmin(widths))
    return float(ordered[first]), float(ordered[first + n_inside - 1])


def smoothed_share(times, probabilities, width_h=0.5 * YEAR_H, n_points=400):
    """Kernel smoothing over time: (share of triggered events, events an hour, times)."""
    edges = np.linspace(times[0], times[-1], 4001)
    counts, excited = (np.histogram(times, edges, weights=w)[0] for w in (None, probabilities))
    middle = 0.5 * (edges[1:] + edges[:-1])
    at = np.linspace(times[0], times[-1], n_points)
    weights = np.exp(-0.5 * ((at[:, None] - middle) / (0.5 * width_h)) ** 2)
    mass = weights.sum(axis=1) * (edges[1] - edges[0])
    n = weights @ counts
    return (weights @ excited) / np.maximum(n, 1e-12), n / mass, at


def attainable(posterior, thin=1):
    """Return the effective draws that Algorithm 1 gives of each parameter where the posterior is normal.

    The best normal proposal in one dimension, accepted at 0.44, has an autocorrelation time of 4.35 updates.
    An update takes its parameter so much nearer to the mean that the d - 1 others imply; with one in d drawn
    at random, the time in steps is

        (4.35 + 1) d w_i - 1,    w_i = sum_k S_ik^2 (S^-1)_kk / S_ii,

    for the covariance S of the posterior: w_i is 1 without correlation, and greater with it.

    Parameters
    ----------
    posterior : Posterior
    thin : int
        Steps a draw; as long as they are few beside that time.

    Returns
    -------
    dict
        By parameter, for as many steps as the posterior's draws took.
    """
    draws = posterior.draws.reshape(-1, len(posterior.free))
    covariance = np.atleast_2d(np.cov(draws.T))
    w = covariance**2 @ np.diag(np.linalg.inv(covariance)) / np.diag(covariance)
    return dict(zip(posterior.free, thin * len(draws) / ((4.35 + 1.0) * len(w) * w - 1.0)))
