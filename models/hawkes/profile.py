"""The profile of the likelihood in theta, for limits where a standard error says nothing: near 0 delays and
distances mean nothing, and a logarithm has no 0."""

from __future__ import annotations

import itertools
import math

import numpy as np

from .parameters import Parameters

_LEAST_THETA, _MOST_THETA, _N_THETAS = 1e-4, 2.0, 60
LEAST_P = 1e-3  # draws of a test are a few hundred, so it does not settle intervals of a higher level


def thetas_of_profile():
    """0, and thetas even in their logarithm."""
    return np.concatenate([[0.0], np.geomspace(_LEAST_THETA, _MOST_THETA, _N_THETAS)])


def highest_theta(profile, fallen):
    """Return the theta above which the log-likelihood is farther below its maximum than so much."""
    thetas, below = profile
    inside = np.flatnonzero(below <= fallen)
    k = int(inside[-1]) if len(inside) else 0
    if k == len(thetas) - 1:
        return math.inf
    share = min(max((fallen - below[k]) / (below[k + 1] - below[k]), 0.0), 1.0)
    return float(thetas[k] + share * (thetas[k + 1] - thetas[k]))


def profile_of(likelihood, params, free, least, test):
    """Thetas up from 0, and how far the log-likelihood is below its maximum at each: with mu0 at its best,
    and over the delays and distances that were tested or estimated, exponential and normal."""
    h = test.h_km if "h" in free else (getattr(params, "h", test.distance_km),)
    omega = test.omega if "omega" in free else (getattr(params, "omega", 1.0 / test.delay_h),)
    thetas = thetas_of_profile()
    left = likelihood.horizon_h - likelihood.sums.times
    best = np.full(len(thetas), -math.inf)
    h = [v for v in h if v >= least.get("h", 0.0)] or [least["h"]]
    found = [(params.omega, params.h)] if hasattr(params, "omega") and hasattr(params, "h") else []
    for one, other in [*itertools.product(omega, h), *found]:
        at = Parameters(1.0, params.tau_x, params.tau_t, 1.0, one, other)
        background, excited = likelihood.rates(at)
        share, offspring = likelihood.observed_share(at)[0], -np.expm1(-one * left).sum()
        best = np.maximum(best, best_mu0(background, thetas, excited, share) - thetas * offspring)
    return thetas, best.max() - best


def best_mu0(background, thetas, excited, share):
    """max over mu0 of sum_n log(mu0 background_n + theta excited_n) - mu0 share, for each theta; by halving
    the interval in which the slope in mu0 changes its sign."""
    added = thetas[:, None] * excited
    low, high = np.full(len(thetas), -30.0), np.full(len(thetas), math.log(len(excited) / share) + 1e-9)
    for _ in range(40):
        middle = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.nansum(background / (np.exp(middle)[:, None] * background + added), axis=1) - share
        low, high = np.where(slope > 0.0, middle, low), np.where(slope > 0.0, high, middle)
    with np.errstate(divide="ignore"):
        logs = np.log(np.exp(high)[:, None] * background + added).sum(axis=1)
    return logs - np.exp(high) * share
