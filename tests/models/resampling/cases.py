"""Weight vectors and schemes for several tests."""

import hashlib

import numpy as np
from numpy.random import default_rng
from portable.models import resampling

SCHEMES = [
    (resampling.systematic, {}),
    (resampling.stratified, {}),
    (resampling.multinomial, {}),
    (resampling.residual, {}),
    (resampling.ssp, {}),
    (resampling.metropolis, {"n_steps": 6}),
    (resampling.megopolis, {"n_steps": 6}),
    (resampling.rejection, {}),
    (resampling.killing, {}),
]
BIASED = resampling.metropolis, resampling.megopolis
NAMES = [scheme.__name__ for scheme, _ in SCHEMES]


def paper_weights(n, y, dtype=np.float64):
    """Return the paper's weights: w_i = N(x_i; y, 1) up to a factor, x_i ~ N(0, 1)."""
    x = default_rng(n).normal(size=n)
    return np.exp(-0.5 * (x - y) ** 2).astype(dtype)


def vectors():
    """Return small weight vectors by name: random ones, zeros, one heavy particle, subnormal and huge
    weights.
    """
    random = default_rng(5)
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
    """Return weight vectors of 1 to 40 particles over many orders of magnitude, every other one in float32.

    In turn they are unchanged, a third of them zero, one of them heavy, subnormal, and huge.
    """
    random = default_rng(12)
    for v in range(n_vectors):
        n, kind, single = 1 + v % 40, v % 5, v % 2
        w = np.ldexp(random.random(n), random.integers(-(v % 60) - 1, 1, n))
        if kind == 1:
            w = np.where(random.random(n) < 1 / 3, 0.0, w)
        w[v % n] = 2.0**50 if kind == 2 else 0.5
        w = np.ldexp(w, {3: -140 if single else -1060, 4: 127 if single else 1023}.get(kind, 0))
        yield w.astype(np.float32) if single else w


def many_logs(n_vectors=200):
    """Return log-weights of 1 to 40 particles, far from 0, a few of them -inf."""
    random = default_rng(13)
    for v in range(n_vectors):
        n = 1 + v % 40
        log_w = 12.0 * random.normal(size=n) + 700.0 * random.normal()
        log_w[random.random(n) < 0.1] = -np.inf
        log_w[v % n] = 700.0
        yield log_w.astype(np.float32) if v % 2 else log_w


def digest(ancestors):
    return hashlib.sha256(np.concatenate(ancestors).astype("<i8").tobytes()).hexdigest()[:16]
