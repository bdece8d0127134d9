"""Offspring and cumulative offspring of ancestors; ancestors permuted for propagation in place."""

from __future__ import annotations

import numpy as np

import portable as pk

from ..shared import ArrayLike, ArrayOrView, DTypeError, InputError, SpaceLike, launch, reached, reduce
from . import kernels, launches
from .checks import check_rows
from .weights import TEAM, RowsOrVector, teams, tile_size


def count_offspring(ancestors, n):
    """Count the offspring of each particle in rows of ancestors; a View of shape (n_rows, n)."""
    offspring = pk.zeros((ancestors.shape[0], n), np.int64)
    launch(ancestors.shape, kernels.count, ancestors, offspring)
    return offspring


def accumulate(offspring):
    """Add up rows of offspring cumulatively; a View of the same shape."""
    (n_rows, n), cumulative = offspring.shape, pk.empty(offspring.shape, np.int64)
    n_tiles = -(-n // tile_size(n))
    sums = pk.empty((n_rows, n_tiles + 1), np.uint64)
    launches.sum_up(offspring, sums)
    policy = teams(n_rows * n_tiles, TEAM)
    launch(policy, kernels.scan_tiles, tile_size(n), sums, offspring, cumulative)
    return cumulative


def permute(ancestors: ArrayLike | pk.View, *, space: SpaceLike = None) -> ArrayOrView:
    """Permute ancestors for propagation in place, so that o_i > 0 implies a_i = i (condition (9), Codes 9 and
    10).

    A particle with offspring keeps its place, so that particle i may be overwritten by a copy of particle a_i
    while others are read. Among draws of one ancestor the one of lowest number gets the ancestor's slot: the
    result is the same on every space, and equals that of the serial Code 9.

    Parameters
    ----------
    ancestors : array-like of int or View of int64, shape (n,) or (n_rows, n), 0 to n - 1
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, of the same shape; a View if `ancestors` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        An ancestor is outside 0 to n - 1.
    """
    with pk.use(space):
        rows = RowsOrVector(check_rows(ancestors, "ancestors", kinds="iu"))
        values = rows.given if rows.as_view else reached(rows.given.astype(np.int64))
        if values.dtype != np.int64:
            raise DTypeError(f"a View of ancestors must be int64, got {values.dtype}")
        values = values.reshape(1, -1) if rows.is_vector else values
        low, top = reduce(values.shape, kernels.bounds, values, reducer=(pk.Min, pk.Max))
        if low < 0 or top >= values.shape[1]:
            raise InputError(
                f"ancestors holds numbers from {int(low)} to {int(top)}; expected 0 to {values.shape[1] - 1}"
            )
        return rows.back(permuted(values))


def permuted(ancestors):
    """Permute rows of ancestors into a new View."""
    owner, result = pk.empty(ancestors.shape, np.int64), pk.empty(ancestors.shape, np.int64)
    launches.permute(ancestors, owner, result)
    return result
