"""Make points for the tests: random mixtures, and real cells if the file is present."""

import numpy as np
from numpy.random import default_rng

from ...real_data import real_data

WIDE = 26  # coordinates: the kernels' loops unroll up to 24


def random_mixture(n_components, n_features, seed=1):
    """Return weights, means and covariances."""
    random = default_rng(seed)
    means = 2.0 * random.normal(size=(n_components, n_features))
    factors = random.normal(size=(n_components, n_features, n_features)) / np.sqrt(n_features)
    covariances = factors @ factors.transpose(0, 2, 1) + 0.2 * np.eye(n_features)
    return random.dirichlet(np.full(n_components, 3.0)), means, covariances


def draw(n_samples, weights, means, covariances, seed=2):
    """Draw points of a mixture, in random order, shape (n_samples, n_features)."""
    random = default_rng(seed)
    labels = random.choice(len(weights), n_samples, p=weights)
    noise = random.normal(size=(n_samples, means.shape[1]))
    return means[labels] + np.einsum("iab,ib->ia", np.linalg.cholesky(covariances)[labels], noise)


def factors_of(covariances):
    """Return upper triangular P with Sigma^-1 = P P'."""
    return np.linalg.inv(np.linalg.cholesky(covariances)).transpose(0, 2, 1)


def cells():
    """Return cells by colours, shape (n, 13), arcsinh(x / 150), none saturated, standardised; the test is
    skipped if the file is absent."""
    raw = np.load(real_data("mixture", "flowkit_100715.npz"))["X"].astype(float)
    colours = np.arcsinh(raw[(raw < 262143.0).all(axis=1), 3:] / 150.0)
    return (colours - colours.mean(axis=0)) / colours.std(axis=0)
