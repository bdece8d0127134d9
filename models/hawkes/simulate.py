"""Simulation with known parents: immigrants and their offspring, by generations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..shared import (
    ArrayLike,
    Floats,
    InputError,
    Ints,
    check_count,
    check_numbers,
    check_positive,
    generator_of,
)
from .checks import check_params
from .parameters import ParametersBase
from .regions import check_box

_Draw: TypeAlias = Callable[[np.random.Generator, int], Any]


class Simulation(NamedTuple):
    """Simulated events in the order of time.

    Attributes
    ----------
    locations : ndarray, shape (n_events, n_dims), kilometres
    times : ndarray, shape (n_events,), hours, in [0, horizon_h]
    parents : ndarray of int, shape (n_events,)
        Index of the event that triggered this one; -1 for an immigrant.
    """

    locations: Floats
    times: Floats
    parents: Ints

    @property
    def marks(self) -> Floats:
        """Raise AttributeError, because only a `MarkedSimulation` has marks.

        Returns
        -------
        ndarray

        Raises
        ------
        AttributeError
            Always.
        """
        raise AttributeError("these events have no marks: their triggering function has none")


class MarkedSimulation(NamedTuple):
    """A simulation with marks less the reference mark, shape (n_events,); other fields as in `Simulation`."""

    locations: Floats
    times: Floats
    parents: Ints
    marks: Floats


def simulate(
    params: ParametersBase,
    *,
    n_immigrants: float,
    horizon_h: float,
    box_km: ArrayLike = ((0.0, 10.0), (0.0, 10.0)),
    immigrants: _Draw | None = None,
    seed: int | np.random.Generator = 0,
    marks: _Draw | ArrayLike | None = None,
    max_events: int = 10_000_000,
) -> Simulation | MarkedSimulation:
    """Simulate events with known parents, from theta and the triggering function of `params`.

    The number of immigrants is Poisson; they are uniform in the box and in [0, horizon_h]. Every event has a
    Poisson(theta) number of offspring, with delays and displacements from the triggering function. Offspring
    may leave the box, as the likelihood assumes; offspring after horizon_h are not observed. The background
    of the likelihood is a kernel density over the observed events, and cannot be simulated beforehand: mu0,
    tau_x and tau_t are not used here.

    Parameters
    ----------
    params : Parameters
    n_immigrants : float
        Expected number of immigrants.
    horizon_h : float, hours
        Length of the simulation.
    box_km : sequence of (low, high), one a dimension, kilometres
        1, 2 or 3 pairs; the default is a square of 10 km.
    immigrants : callable (random, n), optional
        Returns locations and times of n immigrants instead.
    seed : int or numpy.random.Generator, default 0
        Equal seeds give equal events.
    marks : callable (random, n), or array-like, optional
        For triggering functions that use marks: returns n marks less the reference mark, at least 0; or marks
        to draw from with replacement. By default the Gutenberg-Richter law with b = 1: exponential with mean
        log10(e).
    max_events : int, default 10,000,000
        More events raise InputError: with theta >= 1 the generations may grow without end.

    Returns
    -------
    Simulation
        Named tuple (locations, times, parents); with marks a MarkedSimulation, with marks as the last field.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        An argument of a wrong type or shape, or out of range; a triggering function that does not fit the
        dimensions; more events than `max_events`.

    Examples
    --------
    >>> from portable.models import hawkes
    >>> params = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.3, omega=1.0, h=0.1)
    >>> events = hawkes.simulate(params, n_immigrants=50, horizon_h=1000.0, seed=1)
    >>> len(events.times), int((events.parents >= 0).sum())
    (75, 25)
    """
    check_params(params)
    n_immigrants = check_positive(n_immigrants, "n_immigrants")
    horizon_h, max_events = check_positive(horizon_h, "horizon_h"), check_count(max_events, "max_events")
    low, high = check_box(box_km)
    if n_immigrants > max_events:
        raise InputError(f"n_immigrants is {n_immigrants}, above max_events = {max_events}")
    random = seed if isinstance(seed, np.random.Generator) else generator_of(seed)
    trigger = params.triggering
    if trigger.n_dims not in (None, len(low)):
        raise InputError(f"params are for {trigger.n_dims} dimensions, box_km has {len(low)}")
    draw_marks = _marks_of(marks, trigger)

    n = random.poisson(n_immigrants)
    if immigrants is not None:
        locations, times = immigrants(random, n)
    else:
        locations, times = random.uniform(low, high, (n, len(low))), random.uniform(0.0, horizon_h, n)
    *found, own = with_offspring(params, locations, times, horizon_h, random, draw_marks, max_events)
    return MarkedSimulation(*found, own) if trigger.marked else Simulation(*found)


def _marks_of(marks, trigger):
    """Return a function (random, n) that draws n marks."""
    if not trigger.marked:
        if marks is not None:
            raise InputError("marks is not None, but the triggering function of params takes none")
        return lambda random, n: np.zeros(n)
    if marks is None:
        return lambda random, n: random.exponential(math.log10(math.e), n)
    if callable(marks):
        return marks
    pool = check_numbers(marks, "marks", 1)
    if not pool.size or pool.min() < 0.0:
        raise InputError("marks minus the reference must be at least 0, and not empty")
    return from_pool(pool)


def from_pool(pool):
    """Return a function (random, n) that draws n marks from a pool, with replacement."""
    return lambda random, n: random.choice(pool, n)


def with_offspring(params, locations, times, end, random, draw_marks, max_events):
    """Return given events and all their offspring until `end`, with marks, as of `generations`."""
    trigger, p, own = params.triggering, params.trigger_values, draw_marks(random, len(times))

    def births(marks, n_events):
        kappa = trigger.productivity(marks, p) if trigger.marked else 1.0
        n_offspring = random.poisson(params.theta * kappa, len(marks))
        if n_events + n_offspring.sum() > max_events:
            raise InputError(
                f"more than max_events = {max_events} events with theta = {params.theta}; expected theta < 1,"
                " a shorter horizon_h or fewer immigrants"
            )
        parent = np.repeat(np.arange(len(marks)), n_offspring)
        delays, shifts = trigger.draw(random, marks[parent], locations.shape[1], p)
        return parent, delays, shifts, lambda some: draw_marks(random, some.sum())

    return generations(births, locations, times, own, end)


def generations(births, locations, times, kinds, horizon_h):
    """Return events and their offspring until horizon_h, drawn by generations, in the order of time:
    locations, times, parents, kinds.
    `births` draws the offspring of a generation of these kinds, marks or types, given the number of events
    so far: the parent of each, its delay and shift, and a function from a mask of the observed ones to
    their kinds."""
    # first: number of the generation's first event among all generations
    found, first = [(locations, times, np.full(len(times), -1), kinds)], 0
    while n := len(times):
        parent, delays, shifts, kinds_of = births(kinds, first + n)
        times = times[parent] + delays
        observed = times <= horizon_h
        kept = np.flatnonzero(observed)
        times, parent, kinds = times[kept], parent[kept], kinds_of(observed)
        locations = locations.take(parent, axis=0) + shifts.take(kept, axis=0)
        found.append((locations, times, first + parent, kinds))
        first += n
    locations, times, parents, kinds = map(np.concatenate, zip(*found))
    order, place = np.argsort(times), np.full(len(times) + 1, -1)
    place[order] = np.arange(len(times))
    return locations.take(order, axis=0), times[order], place[parents[order]], kinds[order]
