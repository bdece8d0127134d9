"""Conway's game of life on a torus: one index, one cell. Reads 9 cells, nearly all from cache, and writes
one.

    python docs/examples/life.py [space]
"""

import sys

import numpy as np

import portable as pk


@pk.kernel
def step(i, j, cells, after):
    rows, columns = cells.shape
    up, down = (i + rows - 1) % rows, (i + 1) % rows
    left, right = (j + columns - 1) % columns, (j + 1) % columns
    alive = cells[up, left] + cells[up, j] + cells[up, right] + cells[i, left]
    alive += cells[i, right] + cells[down, left] + cells[down, j] + cells[down, right]
    after[i, j] = 1 if alive == 3 or (alive == 2 and cells[i, j] == 1) else 0


def make(n, dtype, rng):
    """Policy, arguments, and what the last argument must hold afterwards."""
    cells = rng.integers(0, 2, (n, 20)).astype(dtype)
    shifts = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)]
    alive = sum((np.roll(cells, shift, (0, 1)) for shift in shifts), np.zeros_like(cells))
    expected = ((alive == 3) | ((alive == 2) & (cells == 1))).astype(dtype)
    return pk.MDRangePolicy((0, 0), cells.shape), (cells, np.zeros_like(cells)), expected


if __name__ == "__main__":
    policy, (cells, after), expected = make(100, np.int32, np.random.default_rng(1))
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        after = pk.copy_of(after)
        pk.parallel_for(policy, step, pk.copy_of(cells), after)
    np.testing.assert_array_equal(after.to_numpy(), expected)
    print(f"life on {space}: {expected.size} cells are right")
