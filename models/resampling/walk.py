"""Random walks of many chains at once, whose proposals adapt to all chains during warm-up."""

from typing import NamedTuple

import numpy as np

STARTS = 10  # draws of the prior, of which a chain starts at the best
TARGET = 0.234  # optimal acceptance rate in several dimensions (Roberts, Gelman and Gilks 1997)


def random_of(seed, *numbers):
    """Make the random generator of a step of a job; it depends only on the seed and the numbers."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *numbers])))


class Points(NamedTuple):
    """Parameters of rows, and the densities there: coordinates without bounds, shape (n_rows, n_free),
    logarithms of the prior density of these and of the likelihood, shape (n_rows,), and the keys of the
    random numbers of an estimate, shape (n_rows, n_keys)."""

    z: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray
    keys: np.ndarray

    def of(self, rows):
        """Select some rows."""
        return Points(*(array[rows] for array in self))

    def where(self, chosen, others):
        """Select chosen rows, and take the others from `others`."""
        return Points(
            *(np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(self, others))
        )


def metropolis(points, z, keys, priors, estimate, random, power=1.0):
    """Accept or reject proposals under the density prior x likelihood^power.

    Parameters
    ----------
    points : Points
        Current states of rows.
    z : ndarray, shape (n_rows, n_free)
        Proposals, from a symmetric law.
    keys : ndarray, shape (n_rows, n_keys)
    priors : Priors
    estimate : callable (values, keys) -> ndarray, shape (n_rows,)
        Log-likelihoods; -inf is possible.
    random : numpy.random.Generator
    power : float

    Returns
    -------
    points : Points
        New states of rows.
    rates : ndarray, shape (n_rows,)
        Acceptance probabilities.
    accepted : ndarray of bool, shape (n_rows,)
    """
    values, log_prior = priors.at(z)
    possible = np.isfinite(log_prior)
    if not possible.all():
        values = np.where(possible[:, None], values, priors.at(points.z)[0])
    found = np.where(possible, estimate(values, keys), -np.inf)
    with np.errstate(invalid="ignore"):
        ratio = power * found + log_prior - power * points.log_likelihood - points.log_prior
    accepted = np.log(random.random(len(z))) < ratio
    moved = Points(z, log_prior, found, keys).where(accepted, points)
    return moved, np.minimum(np.exp(np.minimum(ratio, 0.0)), 1.0), accepted


class Walk:
    """Proposals z + scale L e with L L^T the covariance of the chains' states so far; frozen after warm-up.

    Proposals of a chain depend on other chains during warm-up only: afterwards each chain is a separate
    Markov chain.

    Parameters
    ----------
    z : ndarray, shape (n_chains, n_free)
        Starts, whose variances determine the initial covariance.
    """

    def __init__(self, z):
        n_chains, n_free = z.shape
        self.scale, self.n_seen = 2.38 / np.sqrt(n_free), 0
        self.mean = z.mean(axis=0)
        spread = z.var(axis=0) if n_chains > 1 else np.ones(n_free)
        self.covariance = np.diag(np.maximum(0.01 * spread, 1e-8))

    def propose(self, z, random):
        factor = np.linalg.cholesky(self.covariance + 1e-12 * np.diag(np.diag(self.covariance)))
        return z + self.scale * random.normal(size=z.shape) @ factor.T

    def learn(self, z, accepted):
        """Adapt to the chains' current states, and to the share of them that moved; past states are forgotten
        at a rate of 1 / n^0.7."""
        self.n_seen += 1
        rate = (self.n_seen + 5.0) ** -0.7
        self.tune(accepted, rate)
        away = z - self.mean
        self.mean = self.mean + rate * away.mean(axis=0)
        self.covariance = (1.0 - rate) * self.covariance + rate * (away.T @ away) / len(z)

    def fit(self, z, weights):
        """Replace the covariance by that of weighted points, shapes (n, n_free) and (n,)."""
        self.mean = weights @ z
        away = z - self.mean
        covariance = (weights * away.T) @ away
        self.covariance = covariance + 1e-12 * np.eye(len(covariance))

    def tune(self, accepted, rate):
        """Move the scale towards the optimal acceptance rate."""
        self.scale = float(np.clip(self.scale * np.exp(2.0 * rate * (accepted - TARGET)), 1e-3, 1e3))

    def state(self):
        return {
            "walk_mean": self.mean,
            "walk_covariance": self.covariance,
            "walk_numbers": np.array([self.scale, self.n_seen]),
        }

    def restore(self, arrays):
        self.mean, self.covariance = arrays["walk_mean"], arrays["walk_covariance"]
        self.scale, self.n_seen = float(arrays["walk_numbers"][0]), int(arrays["walk_numbers"][1])
