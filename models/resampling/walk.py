"""Random walks of many chains at once, whose steps learn from all of them while they warm up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

STARTS = 10  # draws of the prior from which a chain takes its best
TARGET = 0.234  # acceptance rate of a walk in several dimensions (Roberts, Gelman and Gilks 1997)


def random_of(seed, *numbers):
    """Return random numbers that belong to a step of a job: the same, whatever came before."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *numbers])))


class Points(NamedTuple):
    """Parameters of rows, and what was found there: coordinates without bounds, shape (n_rows, n_free), the
    logarithms of the prior's density there and of the likelihood, shape (n_rows,), and the keys of the random
    numbers of an estimate, shape (n_rows, n_keys)."""

    z: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray
    keys: np.ndarray

    def of(self, rows):
        """Return the values of some rows."""
        return Points(*(array[rows] for array in self))

    def where(self, chosen, others):
        """Return the values of chosen rows, and others elsewhere."""
        return Points(
            *(np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in zip(self, others))
        )


def metropolis(points, z, keys, priors, estimate, random, power=1.0):
    """Accept or reject proposals under the density prior x likelihood^power.

    Parameters
    ----------
    points : Points
        Where rows stand.
    z : ndarray, shape (n_rows, n_free)
        Proposals, as likely from there as back.
    keys : ndarray, shape (n_rows, n_keys)
    priors : Priors
    estimate : callable (values, keys) -> ndarray, shape (n_rows,)
        Log-likelihoods; -inf is possible.
    random : numpy.random.Generator
    power : float

    Returns
    -------
    points : Points
        Where rows stand now.
    rates : ndarray, shape (n_rows,)
        The probabilities with which they moved.
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
    """Proposals z + scale L e with L L^T the covariance of what the chains have seen; frozen when warming up
    is over.

    Proposals of a chain depend on others while warming up only: afterwards each is a Markov chain of its own.

    Parameters
    ----------
    z : ndarray, shape (n_chains, n_free)
        Starts, whose variances are the first guess.
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
        """Learn from where the chains stand, and the share of them that moved; the past is forgotten at a
        rate of 1 / n^0.7."""
        self.n_seen += 1
        rate = (self.n_seen + 5.0) ** -0.7
        self.tune(accepted, rate)
        away = z - self.mean
        self.mean = self.mean + rate * away.mean(axis=0)
        self.covariance = (1.0 - rate) * self.covariance + rate * (away.T @ away) / len(z)

    def fit(self, z, weights):
        """Take the covariance of weighted points, shapes (n, n_free) and (n,), in place of what was seen."""
        self.mean = weights @ z
        away = z - self.mean
        covariance = (weights * away.T) @ away
        self.covariance = covariance + 1e-12 * np.eye(len(covariance))

    def tune(self, accepted, rate):
        """Move the scale towards the wanted acceptance rate."""
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
