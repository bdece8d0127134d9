"""Pi from random points: numbered random numbers, so that every space draws the same ones.

python docs/examples/pi.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.function
def uniform(counter):
    """Number `counter` of SplitMix64 (Steele, Lea and Flood 2014), in [0, 1) with 24 bits."""
    z = pk.uint64(counter) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)
    return float(z >> 40) * 2.0**-24


@pk.kernel
def inside(i, radius):
    x = uniform(2 * i + 1) * radius[0]
    y = uniform(2 * i + 2) * radius[0]
    return 1 if x * x + y * y < radius[0] * radius[0] else 0


def make(n, dtype, rng):
    """Policy, arguments, and the number of points that the launch must count."""
    z = np.arange(1, 2 * n + 1, dtype=np.uint64) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    x, y = ((z ^ (z >> 31)) >> 40).reshape(n, 2).T * 2.0**-24
    return n, (np.ones(1, dtype),), int(np.sum(x * x + y * y < 1.0))


if __name__ == "__main__":
    n, (radius,), expected = make(20_000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        hits = pk.parallel_reduce(n, inside, pk.copy_of(radius))
    assert hits == expected and abs(4.0 * hits / n - np.pi) < 0.05  # four standard deviations
    print(f"pi on {space}: {4.0 * hits / n}")
