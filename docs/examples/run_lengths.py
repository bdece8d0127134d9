"""Run-length encoding: where runs begin is a comparison, how long they are what lies between two beginnings.

python docs/examples/run_lengths.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def begins(i, x, out):
    out[i] = i == 0 or x[i] != x[max(i - 1, 0)]


@pk.kernel
def length(r, starts, n, out):
    out[r] = (starts[r + 1] if r + 1 < starts.shape[0] else n) - starts[r]


def encoded(x):
    """(values, lengths) of the runs of x, a View."""
    first = pk.zeros(x.shape, bool)
    pk.parallel_for(x.shape[0], begins, x, first)
    starts = pk.compact(first)
    lengths = pk.zeros(starts.shape, "int64")
    pk.parallel_for(starts.shape[0], length, starts, x.shape[0], lengths)
    return pk.compact(first, x), lengths


def make(n, dtype, rng):
    """Return numbers of long runs, and the runs."""
    values, lengths = np.arange(n) % 3, rng.integers(1, 9, n)
    return np.repeat(values, lengths).astype(dtype), values, lengths


if __name__ == "__main__":
    x, values, lengths = make(200, np.int32, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        found, long = encoded(pk.copy_of(x))
    np.testing.assert_array_equal(found.to_numpy(), values)
    np.testing.assert_array_equal(long.to_numpy(), lengths)
    print(f"run_lengths on {space}: {len(x)} numbers in {found.shape[0]} runs")
