"""Counts of x in 16 equal bins: many indices may hit one bin, so the addition is atomic.

python docs/examples/histogram.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def histogram(i, low, high, x, counts):
    if low <= x[i] < high:
        n_bins = counts.shape[0]
        b = int((x[i] - low) / (high - low) * n_bins)
        pk.atomic_add(counts, min(b, n_bins - 1), 1)


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    x = rng.normal(size=n).astype(dtype)
    return n, (-2.0, 2.0, x, np.zeros(16, np.int32)), np.histogram(x[x < 2.0], 16, (-2.0, 2.0))[0]


if __name__ == "__main__":
    n, (low, high, x, counts), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        x, counts = pk.copy_of(x), pk.copy_of(counts)
        pk.parallel_for(n, histogram, low, high, x, counts)
    np.testing.assert_array_equal(counts.to_numpy(), expected)
    print(f"histogram on {space}: {counts.to_numpy()}")
