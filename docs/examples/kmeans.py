"""A step of k-means: every point finds its nearest centre and adds itself to that centre's sum, by atomics.

python docs/examples/kmeans.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def assign(i, x, centres, counts, sums):
    nearest, least = 0, 1e30
    for k in range(centres.shape[1]):
        distance = 0.0
        for c in range(x.shape[0]):
            distance += (x[c, i] - centres[c, k]) ** 2
        if distance < least:
            nearest, least = k, distance
    pk.atomic_add(counts, nearest, 1)
    for c in range(x.shape[0]):
        pk.atomic_add(sums, (c, nearest), x[c, i])


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    x, centres = rng.random((3, n)).astype(dtype), rng.random((3, 5)).astype(dtype)
    nearest = ((x[:, :, None] - centres[:, None, :]) ** 2).sum(0).argmin(1)
    sums = np.stack([np.bincount(nearest, row, 5) for row in x]).astype(dtype)
    return n, (x, centres, np.zeros(5, np.int64), np.zeros((3, 5), dtype)), sums


if __name__ == "__main__":
    n, (x, centres, counts, sums), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        counts, sums = pk.copy_of(counts), pk.copy_of(sums)
        pk.parallel_for(n, assign, pk.copy_of(x), pk.copy_of(centres), counts, sums)
    np.testing.assert_allclose(sums.to_numpy(), expected, rtol=1e-12)
    assert counts.to_numpy().sum() == n
    print(f"kmeans on {space}: {n} points are in the right sums")
