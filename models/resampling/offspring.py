"""Ancestors, offspring and cumulative offspring, one from another; ancestors permuted for propagation in
place.

Each takes a vector or the rows of several filters, and gives back a View where it was given one.
"""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import DTypeError, InputError

from ..shared.annotations import ArrayLike, ArrayOrView, Whole
from ..shared.arrays import reached
from ..shared.checks import check_count
from . import kernels, launches, weighing
from .checks import MOST, check_rows
from .spreading import LONG
from .weights import TEAM, on, tile_size


class _Rows:
    """Checked whole numbers from 0 to `high`, by rows on the default space as int64."""

    def __init__(self, values, name, high):
        given = check_rows(values, name, kinds="iu")
        self.as_view, self.is_vector = isinstance(given, pk.View), len(given.shape) == 1
        if self.as_view and given.dtype != np.int64:
            raise DTypeError(f"{name} must be int64 where it is a View, got {given.dtype}")
        device = given if self.as_view else reached(given.astype(np.int64))
        self.values = device.reshape(1, -1) if self.is_vector else device
        for r in range(self.values.shape[0]):
            check_bounds(self.values, r, name, high)

    def back(self, rows):
        rows = rows.reshape(-1) if self.is_vector else rows
        return rows if self.as_view else rows.to_numpy()


def check_bounds(values, r, name, high):
    """Row r holds numbers from 0 to `high`."""
    low, top = pk.parallel_reduce(values.shape[1], kernels.bounds, r, values, reducer=(pk.Min, pk.Max))
    if low < 0 or top > high:
        raise InputError(f"{name} holds numbers from {int(low)} to {int(top)}; 0 to {high} is wanted")


def _box(view):
    return pk.MDRangePolicy((0, 0), view.shape)


def ancestors_to_offspring(
    ancestors: ArrayLike | pk.View, n: Whole | None = None, *, space: pk.SpaceLike | None = None
) -> ArrayOrView:
    """o_i = #{k : a_k = i} (Code 12).

    Parameters
    ----------
    ancestors : array-like of int or View of int64, shape (n_ancestors,) or (n_rows, n_ancestors), 0 to n - 1
    n : int, optional
        Particles before resampling; n_ancestors if not given.
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (n,) or (n_rows, n); a View if `ancestors` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        An ancestor that is no number of a particle.
    """
    with on(space):
        n = check_rows(ancestors, "ancestors", "iu").shape[-1] if n is None else check_count(n, "n", 1, MOST)
        rows = _Rows(ancestors, "ancestors", n - 1)
        return rows.back(count_offspring(rows.values, n))


def count_offspring(ancestors, n):
    """Return offspring of rows of ancestors, a View of shape (n_rows, n)."""
    offspring = pk.zeros((ancestors.shape[0], n), np.int64)
    pk.parallel_for(_box(ancestors), kernels.count, ancestors, offspring)
    return offspring


def offspring_to_cumulative(
    offspring: ArrayLike | pk.View, *, space: pk.SpaceLike | None = None
) -> ArrayOrView:
    """O_i = o_0 + ... + o_i.

    Parameters
    ----------
    offspring : array-like of int or View of int64, shape (n,) or (n_rows, n)
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, of the same shape; a View if `offspring` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        Offspring that are no whole numbers, or negative.
    """
    with on(space):
        rows = _Rows(offspring, "offspring", MOST)
        return rows.back(accumulate(rows.values))


def _summed(offspring):
    sums = pk.empty(
        (offspring.shape[0], -(-offspring.shape[1] // tile_size(offspring.shape[1])) + 1), np.uint64
    )
    launches.sum_up(offspring, sums)
    return sums


def accumulate(offspring):
    """Cumulative offspring of rows of offspring."""
    sums, cumulative = _summed(offspring), pk.empty(offspring.shape, np.int64)
    n_tiles = sums.shape[1] - 1
    pk.parallel_for(
        pk.TeamPolicy(offspring.shape[0] * n_tiles, TEAM),
        kernels.scan_tiles,
        tile_size(offspring.shape[1]),
        sums,
        offspring,
        cumulative,
    )
    return cumulative


def cumulative_to_offspring(
    cumulative: ArrayLike | pk.View, *, space: pk.SpaceLike | None = None
) -> ArrayOrView:
    """o_i = O_i - O_(i-1).

    Parameters
    ----------
    cumulative : array-like of int or View of int64, shape (n,) or (n_rows, n), ascending
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, of the same shape; a View if `cumulative` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        Numbers that do not ascend from 0.
    """
    with on(space):
        rows = _Rows(cumulative, "cumulative", 2**62)
        offspring = pk.empty(rows.values.shape, np.int64)
        pk.parallel_for(_box(offspring), kernels.difference, rows.values, offspring)
        for r in range(offspring.shape[0]):
            check_bounds(offspring, r, "cumulative's differences", 2**62)
        return rows.back(offspring)


def cumulative_to_ancestors(
    cumulative: ArrayLike | pk.View, *, space: pk.SpaceLike | None = None
) -> ArrayOrView:
    """Ascending ancestors: particle i o_i times (Code 11).

    Parameters
    ----------
    cumulative : array-like of int or View of int64, shape (n,) or (n_rows, n), ascending
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (O_(n-1),) or (n_rows, O_(n-1)); a View if `cumulative` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        Numbers that do not ascend from 0, or rows that end differently.
    """
    with on(space):
        return offspring_to_ancestors(cumulative_to_offspring(cumulative))


def offspring_to_ancestors(
    offspring: ArrayLike | pk.View, *, space: pk.SpaceLike | None = None
) -> ArrayOrView:
    """Ascending ancestors: particle i o_i times.

    Parameters
    ----------
    offspring : array-like of int or View of int64, shape (n,) or (n_rows, n), not all zero, rows of one sum
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (sum of offspring,) or (n_rows, sum of a row); a View if `offspring` is one

    Raises
    ------
    ShapeError, DTypeError, InputError
        Negative offspring, none at all, or rows of different sums.
    """
    with on(space):
        rows = _Rows(offspring, "offspring", MOST)
        sums = _summed(rows.values)
        totals = sums.to_numpy()[:, -1]
        if (totals != totals[0]).any():
            raise InputError(
                f"the sums of offspring's rows are from {totals.min()} to {totals.max()}; one sum is wanted"
            )
        total = check_count(int(totals[0]), "the sum of offspring", 1, MOST)
        n_rows = len(totals)
        ancestors = pk.empty((n_rows, total), np.int64)
        extremes, stretches = (
            pk.empty((n_rows, 3), np.int64),
            pk.empty((n_rows, max(1, total // LONG)), np.int64),
        )
        pk.parallel_for(pk.TeamPolicy(n_rows), weighing.begin, extremes, stretches)
        launches.spread_offspring(rows.values, sums, extremes, stretches, ancestors)
        return rows.back(ancestors)


def permute(ancestors: ArrayLike | pk.View, *, space: pk.SpaceLike | None = None) -> ArrayOrView:
    """Return the same ancestors in an order for propagation in place: o_i > 0 implies a_i = i (condition
    (9), Codes 9 and 10).

    A particle with offspring stays where it is, so that particle i may be overwritten by a copy of particle
    a_i while others are read. Among draws of one ancestor the lowest number keeps the slot: the result is the
    same everywhere, and that of the serial Code 9.

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
        An ancestor that is no number of a particle.
    """
    with on(space):
        n = check_rows(ancestors, "ancestors", "iu").shape[-1]
        rows = _Rows(ancestors, "ancestors", n - 1)
        return rows.back(permuted(rows.values))


def permuted(ancestors):
    """Return rows of ancestors permuted, a new View."""
    owner, result = pk.empty(ancestors.shape, np.int64), pk.empty(ancestors.shape, np.int64)
    launches.permute(ancestors, owner, result)
    return result
