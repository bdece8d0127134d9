"""Bitonic sort: a team sorts a row of N values in scratch (Batcher 1968). N log2(N)^2 / 4 comparisons a row.

python docs/examples/bitonic.py [space]
"""

import sys

import numpy as np

import portable as pk

N = 64


@pk.kernel
def sort_rows(team, rows):
    row = team.scratch(N, rows.dtype)
    for e in team.thread_range(N):
        row[e] = rows[team.league_rank, e]
    team.barrier()
    for size in (2, 4, 8, 16, 32, 64):
        stride = size // 2
        while stride > 0:
            for e in team.thread_range(N // 2):
                low = e // stride * 2 * stride + e % stride
                a, b = row[low], row[low + stride]
                if (a > b) == (low // size % 2 == 0):
                    row[low], row[low + stride] = b, a
            team.barrier()
            stride //= 2
    for e in team.thread_range(N):
        rows[team.league_rank, e] = row[e]


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    rows = rng.random((n, N)).astype(dtype)
    return pk.TeamPolicy(n), (rows,), np.sort(rows, axis=1)


if __name__ == "__main__":
    policy, (rows,), expected = make(100, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        rows = pk.copy_of(rows)
        pk.parallel_for(policy, sort_rows, rows)
    np.testing.assert_array_equal(rows.to_numpy(), expected)
    print(f"bitonic on {space}: {len(expected)} rows are sorted")
