"""The K largest of each column, in falling order: one index, one column, its candidates in registers.

python docs/examples/topk.py [space]
"""

import sys

import numpy as np

import portable as pk

K = 4


@pk.kernel
def largest(i, x, out):
    best = pk.local(K, x.dtype)
    for k in range(pk.static(K)):
        best[k] = -1e30
    for j in range(x.shape[0]):
        v = x[j, i]
        if v > best[K - 1]:
            for k in range(pk.static(K)):  # v takes its place and pushes the smaller ones down
                larger = max(best[k], v)
                v = min(best[k], v)
                best[k] = larger
    for k in range(pk.static(K)):
        out[k, i] = best[k]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    x = rng.random((30, n)).astype(dtype)
    return n, (x, np.zeros((K, n), dtype)), np.sort(x, axis=0)[: -K - 1 : -1]


if __name__ == "__main__":
    n, (x, out), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        out = pk.copy_of(out)
        pk.parallel_for(n, largest, pk.copy_of(x), out)
    np.testing.assert_array_equal(out.to_numpy(), expected)
    print(f"topk on {space}: {n} columns are right")
