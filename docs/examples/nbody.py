"""Gravity of n bodies on each other, softened at short range: every index sums over all bodies.

    python docs/examples/nbody.py [space]

About 20 operations a pair; bodies stay in cache.
"""

import math
import sys

import numpy as np

import portable as pk


@pk.kernel
def attract(i, softening, mass, x, y, acceleration):
    ax, ay = 0.0, 0.0
    for j in range(mass.shape[0]):
        dx = x[j] - x[i]
        dy = y[j] - y[i]
        r2 = dx * dx + dy * dy + softening
        pull = mass[j] / (r2 * math.sqrt(r2))
        ax += pull * dx
        ay += pull * dy
    acceleration[0, i] = ax
    acceleration[1, i] = ay


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    mass, x, y = rng.random((3, n)).astype(dtype)
    dx, dy = np.subtract.outer(x, x).T, np.subtract.outer(y, y).T
    pull = mass / (dx * dx + dy * dy + dtype(0.01)) ** dtype(1.5)
    return n, (0.01, mass, x, y, np.zeros((2, n), dtype)), np.stack([(pull * dx).sum(1), (pull * dy).sum(1)])


if __name__ == "__main__":
    n, (softening, mass, x, y, pull), expected = make(300, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        mass, x, y, pull = pk.copy_of(mass), pk.copy_of(x), pk.copy_of(y), pk.copy_of(pull)
        pk.parallel_for(n, attract, softening, mass, x, y, pull)
    np.testing.assert_allclose(pull.to_numpy(), expected, rtol=1e-11, atol=1e-11)
    print(f"nbody on {space}: {n} bodies are right")
