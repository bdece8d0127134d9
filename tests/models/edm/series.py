"""Make series for the tests: short maps for an interpreter, and the published ones if the files are
present."""

import numpy as np
from numpy.random import default_rng

from ...real_data import real_data


def logistic_maps(n_times, n_series, seed=1):
    """Return coupled logistic maps with noise, so that no two distances are equal; each series depends on the
    one before it."""
    random = default_rng(seed)
    r = random.uniform(3.6, 3.9, n_series)
    x = random.uniform(0.2, 0.8, n_series)
    out = np.empty((n_times, n_series))
    for t in range(-50, n_times):
        x = np.clip(
            0.9 * x * (r - r * x) + 0.05 * np.roll(x, 1) + 0.01 * random.normal(size=n_series), 0.001, 0.999
        )
        if t >= 0:
            out[t] = x
    return out


def driver_and_driven(n_times, seed=1):
    """Return two chaotic logistic maps; the first drives the second."""
    x = np.empty((n_times + 100, 2))
    x[0] = default_rng(seed).uniform(0.2, 0.4, 2)
    for t in range(len(x) - 1):
        x[t + 1, 0] = x[t, 0] * (3.8 - 3.8 * x[t, 0])
        x[t + 1, 1] = x[t, 1] * (3.7 - 3.7 * x[t, 1] - 0.3 * x[t, 0])
    return x[100:]


def published(name):
    """Return the columns of a file of kEDM's or rEDM's tests, without the header; the test is skipped if it
    is absent."""
    return np.genfromtxt(real_data("edm", f"{name}.csv"), delimiter=",", skip_header=1, encoding="utf-8-sig")
