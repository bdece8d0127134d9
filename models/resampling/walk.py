"""Random walks of many chains at once, whose steps learn from all of them while they warm up."""

from __future__ import annotations

import numpy as np

STARTS = 10  # draws of the prior from which a chain takes its best
TARGET = 0.234  # acceptance rate of a walk in several dimensions (Roberts, Gelman and Gilks 1997)


def random_of(seed: int, *numbers: int) -> np.random.Generator:
    """Random numbers that belong to a step of a job: the same, whatever came before."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *numbers])))


class Walk:
    """Proposals z + scale L e with L L^T the covariance of what the chains have seen; frozen when warming up
    is over.

    Proposals of a chain depend on others while warming up only: afterwards each is a Markov chain of its own.

    Parameters
    ----------
    z : ndarray, shape (n_chains, n_free)
        Starts, whose variances are the first guess.
    target : float
        Acceptance rate that the scale is moved to.
    """

    def __init__(self, z: np.ndarray, target: float = TARGET) -> None:
        n_chains, n_free = z.shape
        self.target, self.scale, self.n_seen = target, 2.38 / np.sqrt(n_free), 0
        self.mean, self.weight = z.mean(axis=0), 0.0
        spread = z.var(axis=0) if n_chains > 1 else np.ones(n_free)
        self.covariance = np.diag(np.maximum(0.01 * spread, 1e-8))

    def propose(self, z: np.ndarray, random: np.random.Generator) -> np.ndarray:
        factor = np.linalg.cholesky(self.covariance + 1e-12 * np.diag(np.diag(self.covariance)))
        return z + self.scale * random.normal(size=z.shape) @ factor.T

    def learn(self, z: np.ndarray, accepted: float) -> None:
        """From where the chains stand, and the share of them that moved; the past is forgotten at a rate of 1
        / n^0.7."""
        self.n_seen += 1
        rate = (self.n_seen + 5.0) ** -0.7
        self.scale = float(np.clip(self.scale * np.exp(2.0 * rate * (accepted - self.target)), 1e-3, 1e3))
        away = z - self.mean
        self.mean = self.mean + rate * away.mean(axis=0)
        self.covariance = (1.0 - rate) * self.covariance + rate * (away.T @ away) / len(z)

    def state(self) -> dict[str, np.ndarray]:
        return {
            "walk_mean": self.mean,
            "walk_covariance": self.covariance,
            "walk_numbers": np.array([self.scale, self.n_seen]),
        }

    def restore(self, arrays: dict) -> None:
        self.mean, self.covariance = arrays["walk_mean"], arrays["walk_covariance"]
        self.scale, self.n_seen = float(arrays["walk_numbers"][0]), int(arrays["walk_numbers"][1])
