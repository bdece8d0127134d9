"""Reduce arrays to one number, by which the two sides of a duel compare all their results."""

import numpy as np

PERIOD = 1009  # a prime, so that no row of a matrix starts where the weights start


def digest(array):
    """Return the weighted sum of an array's elements, with weights between 1 and 2 by place, so that order
    matters.

    Parameters
    ----------
    array : ndarray of numbers, any shape
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    weights = 1.0 + np.arange(PERIOD) / PERIOD
    total = 0.0
    for start in range(0, flat.size, 1000 * PERIOD):  # in pieces, to avoid a copy of a long array
        piece = flat[start : start + 1000 * PERIOD].astype(np.float64)
        whole = piece.size // PERIOD * PERIOD
        total += float((piece[:whole].reshape(-1, PERIOD) @ weights).sum())
        total += float(piece[whole:] @ weights[: piece.size - whole])
    return total
