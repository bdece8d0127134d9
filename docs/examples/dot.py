"""The sum of x[i] y[i]: a reduction's kernel returns its contribution. Reads 2 n values.

python docs/examples/dot.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def dot(i, x, y):
    return x[i] * y[i]


def make(n, dtype, rng):
    """Policy, arguments, and the sum that the launch must return."""
    x, y = rng.random((2, n)).astype(dtype)
    return n, (x, y), float(np.sum(x * y, dtype=np.float64))


if __name__ == "__main__":
    n, (x, y), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        total = pk.parallel_reduce(n, dot, pk.copy_of(x), pk.copy_of(y))
    np.testing.assert_allclose(total, expected, rtol=1e-13)
    print(f"dot on {space}: {total}")
