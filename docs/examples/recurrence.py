"""A linear recurrence, s_i = a_i s_(i-1) + x_i: a scan of the maps that its steps are.

python docs/examples/recurrence.py [space]
"""

import sys

import numpy as np

import portable as pk


def then(a, b):
    """s -> a[0] s + a[1], and then that of b."""
    return a[0] * b[0], b[0] * a[1] + b[1]


def from_zero(state):
    return state[1]


Recurrence = pk.Reducer("Recurrence", then, (1.0, 0.0), finish=from_zero, commutes=False)


@pk.kernel
def step(i, a, x):
    return a[i], x[i]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    a, x, s = rng.random(n).astype(dtype), rng.normal(size=n).astype(dtype), np.zeros(n, dtype)
    expected, level = np.zeros(n), 0.0
    for i in range(n):
        expected[i] = level = a[i] * level + x[i]
    return n, (a, x, s), expected


if __name__ == "__main__":
    n, (a, x, s), expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        s = pk.copy_of(s)
        pk.parallel_scan(n, step, pk.copy_of(a), pk.copy_of(x), out=s, reducer=Recurrence)
    np.testing.assert_allclose(s.to_numpy(), expected, rtol=1e-9, atol=1e-9)
    print(f"recurrence on {space}: ends at {s.to_numpy()[-1]:.6f}")
