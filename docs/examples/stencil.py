"""One Jacobi step of the heat equation: each inner cell becomes the mean of its four neighbours.

    python docs/examples/stencil.py [space]

Reads and writes each cell once, neighbours come from cache. Cells of the edge keep their value.
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def jacobi(r, c, u, out):
    rows, columns = u.shape
    if 0 < r < rows - 1 and 0 < c < columns - 1:
        out[r, c] = 0.25 * (u[r - 1, c] + u[r + 1, c] + u[r, c - 1] + u[r, c + 1])
    else:
        out[r, c] = u[r, c]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    u = rng.random((5, n)).astype(dtype)
    expected = u.copy()
    expected[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return pk.MDRangePolicy((0, 0), u.shape), (u, np.zeros_like(u)), expected


if __name__ == "__main__":
    policy, (u, out), expected = make(200, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        u, out = pk.copy_of(u), pk.copy_of(out)
        pk.parallel_for(policy, jacobi, u, out)
    np.testing.assert_allclose(out.to_numpy(), expected, rtol=1e-14)
    print(f"stencil on {space}: {expected.size} cells are right")
