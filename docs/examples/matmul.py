"""C = A B by tiles: a team adds up a tile of C in registers, from parts of A and B that it keeps in scratch.

    python docs/examples/matmul.py [space]

Its steps, and what each is worth, are in docs/products.md.
"""

import sys

import numpy as np

import portable as pk


@pk.function
def fetch(team, x, row, column, part):
    """A part of x from a row and a column on, zeros beyond its ends."""
    n = part.shape[1]
    for e in team.thread_range(part.size):
        i, j = row + e // n, column + e % n
        part[e // n, e % n] = x[i, j] if i < x.shape[0] and j < x.shape[1] else 0.0


@pk.kernel
def matmul(team, m, n, step, a, b, c):
    """A tile of m x n elements, from parts of `step` columns and rows. 2 m n operations each."""
    across = (c.shape[1] + n - 1) // n
    row, column = team.league_rank // across * m, team.league_rank % across * n
    a_part, b_part = team.scratch((m, step + 4), a.dtype), team.scratch((step, n + 4), b.dtype)
    own = team.tile((m, n), c.dtype)
    for k in range(0, a.shape[1], step):
        fetch(team, a, row, k, a_part[:, :step])
        fetch(team, b, k, column, b_part[:, :n])
        team.barrier()
        team.product(own, a_part[:, :step], b_part[:, :n])
        team.barrier()
    for e, i, j in team.elements(own):
        if i < m and j < n and row + i < c.shape[0] and column + j < c.shape[1]:
            c[row + i, column + j] = own[e]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    a, b = rng.random((n, 24)).astype(dtype), rng.random((24, 20)).astype(dtype)
    tile = pk.static(8), pk.static(24), pk.static(8)
    return pk.TeamPolicy(-(-n // 8), 32), (*tile, a, b, np.zeros((n, 20), dtype)), a @ b


if __name__ == "__main__":
    policy, (*tile, a, b, c), expected = make(100, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        a, b, c = pk.copy_of(a), pk.copy_of(b), pk.copy_of(c)
        pk.parallel_for(policy, matmul, *tile, a, b, c)
    np.testing.assert_allclose(c.to_numpy(), expected, rtol=1e-13)
    print(f"matmul on {space}: {policy.league_size} tiles are right")
