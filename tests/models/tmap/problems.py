"""Make random models and runs for the tests, and read the real runs if the file is present."""

import numpy as np
from numpy.random import default_rng

from portable.models.tmap import Runs, TransientMAP

from ...real_data import real_data

MODEL = TransientMAP(
    [0.7, 0.2, 0.1], [1, 2, 3], [20.0, 0.5, 2.0], [[0.6, 0.2, 0.1], [0.1, 0.6, 0.1], [0.2, 0.2, 0.5]]
)


def random_model(seed, orders):
    """Return a model with rates within a factor of a hundred, and runs of about five gaps."""
    random = default_rng(seed)
    n = len(orders)
    rates = np.exp(random.uniform(-2.0, 2.0, n)) * orders
    return TransientMAP(random.dirichlet(np.ones(n)), orders, rates, 0.8 * random.dirichlet(np.ones(n), n))


def random_runs(seed, n_runs, zeros=False, most=9):
    """Return ragged runs of random gaps, not from a model: the shortest of 1 and 2 gaps, optionally with
    zeros among the gaps."""
    random = default_rng(seed)
    lengths = random.integers(1, most + 1, n_runs)
    lengths[: min(2, n_runs)] = (1, 2)[: min(2, n_runs)]
    values = random.gamma(0.7, 1.5, lengths.sum())
    if zeros:
        values[random.random(values.size) < 0.2] = 0.0
    return Runs(values, lengths)


def censored_runs(seed, n_runs):
    """Return the runs of `random_runs`, half of them censored; the first two have no event, and one event."""
    runs = random_runs(seed, n_runs)
    censored = default_rng(seed).random(n_runs) < 0.5
    censored[:2] = True
    return Runs(runs.values, runs.lengths, censored)


def real_runs(name):
    """Return the runs of a file; the test is skipped if it is absent."""
    with np.load(real_data("tmap", f"{name}.npz")) as file:
        return Runs(file["x"], file["K"])
