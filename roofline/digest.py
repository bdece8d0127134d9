"""Arrays in one number, by which two sides of a duel agree on all they wrote."""

import numpy as np

PERIOD = 1009  # a prime, so that no row of a matrix starts where the weights start


def digest(array):
    """Return the sum of an array's elements, each with a weight between 1 and 2 by its place: order
    matters.

    Parameters
    ----------
    array : ndarray of numbers, any shape
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    weights = 1.0 + np.arange(PERIOD) / PERIOD
    total = 0.0
    for start in range(0, flat.size, 1000 * PERIOD):  # by pieces: a long array is not copied as a whole
        piece = flat[start : start + 1000 * PERIOD].astype(np.float64)
        whole = piece.size // PERIOD * PERIOD
        total += float((piece[:whole].reshape(-1, PERIOD) @ weights).sum())
        total += float(piece[whole:] @ weights[: piece.size - whole])
    return total
