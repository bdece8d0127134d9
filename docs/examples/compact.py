"""Compaction by a prefix sum: keep some elements, in order. The scan tells each survivor its place.

python docs/examples/compact.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def is_kept(i, x, threshold):
    return 1 if x[i] > threshold else 0


@pk.kernel
def move(i, x, threshold, place, kept):
    if x[i] > threshold:
        kept[place[i]] = x[i]


def compact(x, threshold):
    """Return the elements of a view above a threshold, in order, as a NumPy array."""
    n = x.shape[0]
    place = pk.empty(n, "int64")
    n_kept = pk.parallel_scan(n, is_kept, x, threshold, out=place, inclusive=False)
    kept = pk.empty(n_kept)
    pk.parallel_for(n, move, x, threshold, place, kept)
    return kept.to_numpy()


if __name__ == "__main__":
    x = np.random.default_rng(1).random(1000)
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        kept = compact(pk.copy_of(x), 0.7)
    np.testing.assert_array_equal(kept, x[x > 0.7])
    print(f"compact on {space}: {len(kept)} of {len(x)} elements are kept")
