"""y = A x for a sparse matrix in compressed rows: a team takes a row, its members share the row's entries.

    python docs/examples/spmv.py [space]

Reads a value, a column and one element of x an entry.
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def spmv(team, row_start, columns, values, x, y):
    row = team.league_rank
    total = 0.0
    for k in team.thread_range(row_start[row], row_start[row + 1]):
        total += values[k] * x[columns[k]]
    total = team.reduce(total)
    if team.single():
        y[row] = total


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    dense = np.where(rng.random((n, 40)) < 0.3, rng.random((n, 40)), 0.0).astype(dtype)
    rows, columns = np.nonzero(dense)
    row_start = np.searchsorted(rows, np.arange(n + 1))
    x = rng.random(40).astype(dtype)
    args = row_start, columns.astype(np.int32), dense[rows, columns], x, np.zeros(n, dtype)
    return pk.TeamPolicy(n, pk.AUTO), args, dense @ x


if __name__ == "__main__":
    policy, args, expected = make(1000, np.float64, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        *inputs, y = [pk.copy_of(array) for array in args]
        pk.parallel_for(policy, spmv, *inputs, y)
    np.testing.assert_allclose(y.to_numpy(), expected, rtol=1e-13)
    print(f"spmv on {space}: {policy.league_size} rows are right")
