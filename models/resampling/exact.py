"""Kalman's filter and smoother, as references for particle filters of the linear Gaussian model.

Notation as in `portable.models.resampling.ready`; NaN observations are missing.
"""

import math
from typing import NamedTuple

import numpy as np

from ..shared import as_numbers


class Moments(NamedTuple):
    """A log-likelihood, and means and variances of the state at each step, shape (n_steps,); for arrays of
    parameters, with their axis last."""

    log_likelihood: float
    means: np.ndarray
    variances: np.ndarray


def kalman(y, params) -> Moments:
    """Compute log p(y) of the linear Gaussian model, and the law of x_t given y_0..y_t; parameters may be
    arrays."""
    y, (phi, sigma, tau) = as_numbers(y, "y", 1).astype(np.float64), params
    var, total = sigma * sigma / (1 - phi * phi), 0.0
    mean, means, variances = 0.0 * var, [], []
    for t, value in enumerate(y):
        if t:
            mean, var = phi * mean, phi * phi * var + sigma * sigma
        if not np.isnan(value):
            spread = var + tau * tau
            total -= 0.5 * (np.log(2 * math.pi * spread) + (value - mean) ** 2 / spread)
            mean, var = mean + var / spread * (value - mean), var * tau * tau / spread
        means.append(mean)
        variances.append(var)
    return Moments(total, np.array(means), np.array(variances))


def smoothed(y, params) -> Moments:
    """Compute the law of x_t given all of y for the linear Gaussian model, by Rauch, Tung and Striebel."""
    phi, sigma, _ = params
    total, means, variances = kalman(y, params)
    means, variances = means.copy(), variances.copy()
    for t in range(len(y) - 2, -1, -1):
        ahead = phi * phi * variances[t] + sigma * sigma
        gain = phi * variances[t] / ahead
        means[t] += gain * (means[t + 1] - phi * means[t])
        variances[t] += gain * gain * (variances[t + 1] - ahead)
    return Moments(total, means, variances)
