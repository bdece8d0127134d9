"""C = A B by tiles: a team computes a tile of C from tiles of A and B that it keeps in scratch.

    python docs/examples/matmul.py [space]

Each element of A and B is read from memory once a tile, T times less often than without scratch.
"""

import sys

import numpy as np

import portable as pk

T = 16


@pk.kernel
def matmul(team, a, b, c):
    a_tile, b_tile = team.scratch((T, T), a.dtype), team.scratch((T, T), b.dtype)
    sums = team.scratch((T, T), c.dtype)
    rows, inner = a.shape
    columns = b.shape[1]
    n_across = (columns + T - 1) // T
    row0, column0 = team.league_rank // n_across * T, team.league_rank % n_across * T
    for k0 in range(0, inner, T):
        for e in team.thread_range(T * T):
            r, k = e // T, e % T
            a_tile[r, k] = a[row0 + r, k0 + k] if row0 + r < rows and k0 + k < inner else 0.0
            b_tile[r, k] = b[k0 + r, column0 + k] if k0 + r < inner and column0 + k < columns else 0.0
        team.barrier()
        for e in team.thread_range(T * T):
            total = sums[e // T, e % T] if k0 > 0 else 0.0
            for k in range(T):
                total += a_tile[e // T, k] * b_tile[k, e % T]
            sums[e // T, e % T] = total
        team.barrier()
    for e in team.thread_range(T * T):
        r, column = row0 + e // T, column0 + e % T
        if r < rows and column < columns:
            c[r, column] = sums[e // T, e % T]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    a, b = rng.random((n, 24)).astype(dtype), rng.random((24, 20)).astype(dtype)
    return pk.TeamPolicy(-(-n // T) * 2, pk.AUTO), (a, b, np.zeros((n, 20), dtype)), a @ b


if __name__ == "__main__":
    policy, (a, b, c), expected = make(100, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        a, b, c = pk.copy_of(a), pk.copy_of(b), pk.copy_of(c)
        pk.parallel_for(policy, matmul, a, b, c)
    np.testing.assert_allclose(c.to_numpy(), expected, rtol=1e-13)
    print(f"matmul on {space}: {policy.league_size} tiles are right")
