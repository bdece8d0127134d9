"""Ancestors, offspring and cumulative offspring, one from another; ancestors permuted for propagation in place."""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import DTypeError, InputError

from ..checks import check_count
from . import kernels
from .checks import MOST, check_vector
from .weights import on


def _load(values, name, high):
    """Whole numbers from 0 to `high` on the default space as int64, and whether they came as a View."""
    given = check_vector(values, name, kinds="iu")
    as_view = isinstance(given, pk.View)
    if as_view and given.dtype != np.int64:
        raise DTypeError(f"{name} must be int64 where it is a View, got {given.dtype}")
    device = given if as_view else pk.copy_of(given.astype(np.int64))
    low, top = pk.parallel_reduce(device.shape[0], kernels.value, device, reducer=(pk.Min, pk.Max))
    if low < 0 or top > high:
        raise InputError(f"{name} holds numbers from {int(low)} to {int(top)}; 0 to {high} is wanted")
    return device, as_view


def _give(view, as_view):
    return view if as_view else view.to_numpy()


def ancestors_to_offspring(ancestors, n=None, *, space=None):
    """o_i = #{k : a_k = i}.

    Parameters
    ----------
    ancestors : array-like of int or View of int64, shape (n_draws,), 0 to n - 1
    n : int, optional
        Particles before resampling; n_draws if not given.
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (n,); a View if `ancestors` is one
    """
    with on(space):
        n = check_vector(ancestors, "ancestors", "iu").shape[0] if n is None else check_count(n, "n", 1, MOST)
        device, as_view = _load(ancestors, "ancestors", n - 1)
        offspring = pk.zeros((n,), np.int64)
        pk.parallel_for(device.shape[0], kernels.count, device, offspring)
        return _give(offspring, as_view)


def offspring_to_cumulative(offspring, *, space=None):
    """O_i = o_0 + ... + o_i.

    Parameters
    ----------
    offspring : array-like of int or View of int64, shape (n,)
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (n,); a View if `offspring` is one
    """
    with on(space):
        device, as_view = _load(offspring, "offspring", MOST)
        return _give(_accumulated(device)[0], as_view)


def _accumulated(offspring):
    n = offspring.shape[0]
    cumulative = pk.empty((n,), np.int64)
    return cumulative, int(pk.parallel_scan(n, kernels.identity, offspring, out=cumulative))


def cumulative_to_offspring(cumulative, *, space=None):
    """o_i = O_i - O_(i-1).

    Parameters
    ----------
    cumulative : array-like of int or View of int64, shape (n,), ascending
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (n,); a View if `cumulative` is one
    """
    with on(space):
        device, as_view = _load(cumulative, "cumulative", 2**62)
        offspring = pk.empty(device.shape, np.int64)
        pk.parallel_for(device.shape[0], kernels.difference, device, offspring)
        _load(offspring, "cumulative's differences", 2**62)
        return _give(offspring, as_view)


def cumulative_to_ancestors(cumulative, *, space=None):
    """Ascending ancestors: particle i o_i times (Code 11).

    Parameters
    ----------
    cumulative : array-like of int or View of int64, shape (n,), ascending
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (O_(n-1),); a View if `cumulative` is one
    """
    with on(space):
        return offspring_to_ancestors(cumulative_to_offspring(cumulative))


def offspring_to_ancestors(offspring, *, space=None):
    """Ascending ancestors: particle i o_i times.

    Parameters
    ----------
    offspring : array-like of int or View of int64, shape (n,), not all zero
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (sum of offspring,); a View if `offspring` is one
    """
    with on(space):
        device, as_view = _load(offspring, "offspring", MOST)
        cumulative, total = _accumulated(device)
        check_count(total, "the sum of offspring", 1, MOST)
        ancestors = pk.empty((total,), np.int64)
        pk.parallel_for(total, kernels.by_rank, cumulative, ancestors)
        return _give(ancestors, as_view)


def permute(ancestors, *, space=None):
    """The same ancestors in an order for propagation in place: o_i > 0 implies a_i = i (condition (9), Code 10).

    A particle with offspring stays where it is, so that particle i may be overwritten by a copy of particle a_i while
    others are read. Among draws of one ancestor the lowest number keeps the slot: the result is the same everywhere.

    Parameters
    ----------
    ancestors : array-like of int or View of int64, shape (n,), 0 to n - 1
    space : str or Space, optional

    Returns
    -------
    ndarray of int64, shape (n,); a View if `ancestors` is one
    """
    with on(space):
        n = check_vector(ancestors, "ancestors", "iu").shape[0]
        device, as_view = _load(ancestors, "ancestors", n - 1)
        owner, source, permuted = (pk.empty((n,), np.int64) for _ in range(3))
        pk.parallel_for(n, kernels.fill, n, owner)
        pk.parallel_for(n, kernels.claim, device, owner)
        pk.parallel_for(n, kernels.settle, device, owner, source)
        pk.parallel_for(n, kernels.gather, source, device, permuted)
        return _give(permuted, as_view)
