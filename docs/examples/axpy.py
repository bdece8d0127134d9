"""y = a x + y: one index, one element. Reads 2 n values and writes n.

python docs/examples/axpy.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def axpy(i, a, x, y):
    y[i] += a * x[i]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    x, y = rng.random((2, n)).astype(dtype)
    return n, (2.5, x, y), 2.5 * x + y


if __name__ == "__main__":
    n, (a, x, y), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        x, y = pk.copy_of(x), pk.copy_of(y)
        pk.parallel_for(n, axpy, a, x, y)
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-14)
    print(f"axpy on {space}: {n} elements are right")
