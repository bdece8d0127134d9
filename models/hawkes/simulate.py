"""Simulation by the branching construction: immigrants, then their offspring, generation by generation."""

from __future__ import annotations

import numbers
from typing import NamedTuple

import numpy as np

from portable.errors import DTypeError, InputError, ShapeError

from .checks import check_params
from .parameters import check_positive


class Simulation(NamedTuple):
    """Simulated events in the order of time.

    Attributes
    ----------
    locations : ndarray, shape (n_events, n_dims), kilometres
    times : ndarray, shape (n_events,), hours, in [0, horizon_h]
    parents : ndarray of int, shape (n_events,)
        Index of the event that triggered this one; -1 for an immigrant.
    """

    locations: np.ndarray
    times: np.ndarray
    parents: np.ndarray


def simulate(params, *, n_immigrants, horizon_h, box_km=((0.0, 10.0), (0.0, 10.0)), seed=None, max_events=10_000_000):
    """Events with known parents, from theta, omega and h of `params`.

    Immigrants are uniform in the box and in [0, horizon_h], their number Poisson. Every event then has a Poisson(theta)
    number of offspring, exponentially delayed at rate omega and normally displaced by h in each dimension. Offspring
    may leave the box, as the likelihood assumes; those after horizon_h are not observed. The background of the
    likelihood is a kernel density over the observed events, which cannot be drawn before they are: mu0, tau_x and
    tau_t are not used here.

    Parameters
    ----------
    params : Parameters
    n_immigrants : float
        Expected number of immigrants.
    horizon_h : float, hours
    box_km : sequence of (low, high), one a dimension, kilometres
        1, 2 or 3 pairs; the default is a square of 10 km.
    seed : int, numpy.random.Generator or None
        Equal seeds give equal events.
    max_events : int, default 10,000,000
        More are refused: with theta >= 1 the generations grow without end.

    Returns
    -------
    Simulation
        Named tuple (locations, times, parents).

    Raises
    ------
    InputError
        A box side is not positive, or the events exceed `max_events`.
    """
    check_params(params)
    n_immigrants, horizon_h = check_positive(n_immigrants, "n_immigrants"), check_positive(horizon_h, "horizon_h")
    low, high = _check_box(box_km)
    if not isinstance(max_events, numbers.Integral) or isinstance(max_events, bool):
        raise DTypeError(f"max_events must be an integer, got {max_events!r} of type {type(max_events).__name__}")
    if n_immigrants > max_events:
        raise InputError(f"n_immigrants is {n_immigrants}, above max_events = {max_events}")
    random = _generator(seed)

    n = random.poisson(n_immigrants)
    locations, times = random.uniform(low, high, (n, len(low))), random.uniform(0.0, horizon_h, n)
    generations = [(locations, times, np.full(n, -1))]
    n_events, first = n, 0  # first: number of the generation's first event, counting generation after generation
    while n:
        n_offspring = random.poisson(params.theta, n)
        if n_events + n_offspring.sum() > max_events:
            raise InputError(f"more than max_events = {max_events} events with theta = {params.theta}; theta < 1, a "
                             "shorter horizon_h or fewer immigrants are wanted")
        parent = np.repeat(np.arange(n), n_offspring)
        times = times[parent] + random.exponential(1.0 / params.omega, parent.size)
        observed = times <= horizon_h
        times, parent = times[observed], parent[observed]
        locations = locations[parent] + random.normal(0.0, params.h, (parent.size, len(low)))
        generations.append((locations, times, first + parent))
        first, n = first + n, parent.size
        n_events += n
    locations, times, parents = (np.concatenate(parts) for parts in zip(*generations))
    order = np.argsort(times, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(n_events)
    parents = parents[order]
    return Simulation(locations[order], times[order], np.where(parents < 0, -1, rank[parents]))


def _check_box(box_km):
    try:
        box = np.asarray(box_km, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"box_km must hold (low, high) pairs of numbers, got {box_km!r}") from error
    if box.ndim != 2 or box.shape[0] not in (1, 2, 3) or box.shape[1] != 2:
        raise ShapeError(f"box_km has shape {box.shape}; 1, 2 or 3 pairs (low, high) are wanted")
    if not (np.isfinite(box).all() and (box[:, 0] < box[:, 1]).all()):
        raise InputError(f"box_km is {box_km!r}; finite pairs with low < high are wanted")
    return box.T


def _generator(seed):
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InputError(f"seed is {seed!r}; None, a non-negative integer or a NumPy Generator is wanted") from error
