"""The sum of the square roots of what lies above a threshold: a reduction with an early return.

python docs/examples/conditional_sum.py [space]
"""

import math
import sys

import numpy as np

import portable as pk


@pk.kernel
def root_above(i, threshold, x):
    if x[i] <= threshold:
        return 0.0
    return math.sqrt(x[i] - threshold)


def make(n, dtype, rng):
    """Policy, arguments, and the sum that the launch must return."""
    x = rng.random(n).astype(dtype)
    return n, (0.5, x), float(np.sum(np.sqrt(np.maximum(x - dtype(0.5), 0)), dtype=np.float64))


if __name__ == "__main__":
    n, (threshold, x), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        total = pk.parallel_reduce(n, root_above, threshold, pk.copy_of(x))
    np.testing.assert_allclose(total, expected, rtol=1e-13)
    print(f"conditional sum on {space}: {total}")
