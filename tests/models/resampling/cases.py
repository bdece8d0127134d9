"""Weight vectors and schemes that several tests share."""

import numpy as np

from models import resampling

SCHEMES = [(resampling.systematic, {}), (resampling.stratified, {}), (resampling.multinomial, {}),
           (resampling.residual, {}), (resampling.ssp, {}), (resampling.metropolis, {"n_steps": 6}),
           (resampling.megopolis, {"n_steps": 6}), (resampling.rejection, {}), (resampling.killing, {})]
BIASED = resampling.metropolis, resampling.megopolis
NAMES = [scheme.__name__ for scheme, _ in SCHEMES]


def paper_weights(n, y, dtype=np.float64):
    """The paper's: w_i = N(x_i; y, 1) up to a factor, x_i ~ N(0, 1)."""
    x = np.random.default_rng(n).normal(size=n)
    return np.exp(-0.5 * (x - y) ** 2).astype(dtype)


def vectors():
    """Small weight vectors by name: random ones, zeros, one heavy particle, subnormal and huge weights."""
    random = np.random.default_rng(5)
    cases = {f"random {n}": random.random(n) for n in (1, 2, 3, 17, 64)}
    cases["paper"] = paper_weights(33, 2.0)
    cases["zeros"] = np.where(random.random(40) < 0.7, 0.0, random.random(40))
    cases["one positive"] = np.eye(9)[4]
    cases["one heavy"] = np.where(np.arange(23) == 7, 1.0, 1e-3)
    cases["equal"] = np.ones(31)
    cases["subnormal"] = np.array([5e-324, 0.0, 1e-323, 2e-323, 5e-324, 1e-322])
    cases["huge"] = np.array([1e308, 1.7e308, 3e307, 0.0, 1e-300])
    cases["float32"] = random.random(29).astype(np.float32)
    return cases


def many(n_vectors=1000):
    """Weight vectors of 1 to 40 particles over many orders of magnitude, a third of the entries of some zero."""
    random = np.random.default_rng(12)
    for v in range(n_vectors):
        n = 1 + v % 40
        w = np.ldexp(random.random(n), random.integers(-(v % 60) - 1, 1, n))
        if v % 3 == 0:
            w = np.where(random.random(n) < 1 / 3, 0.0, w)
        w[v % n] = 0.5
        yield w.astype(np.float32) if v % 2 else w
