"""Test simulation: the branching structure, its moments with fixed seeds, and reproducibility.

Statistical tests compare a mean with its expectation at five standard errors: one false alarm in 1.7 million
each.
"""

from dataclasses import replace

import numpy as np
import pytest

from portable.models.hawkes import Likelihood, simulate

from . import reference
from .events import PARAMS

SCENE = {"n_immigrants": 4000.0, "horizon_h": 50_000.0, "box_km": ((-1.0, 4.0), (2.0, 3.0))}


@pytest.fixture(scope="module")
def simulation():
    return simulate(PARAMS, seed=11, **SCENE)


def test_events_are_in_order_and_parents_come_first(simulation):
    locations, times, parents = simulation
    n = len(times)
    assert locations.shape == (n, 2) and times.shape == parents.shape == (n,)
    assert np.all(np.diff(times) >= 0.0) and times[0] >= 0.0 and times[-1] <= SCENE["horizon_h"]
    child = np.flatnonzero(parents >= 0)
    assert np.all(parents[child] < child) and np.all(times[parents[child]] < times[child])


def test_immigrants_fill_the_box(simulation):
    """Compare means with those of uniform variables: variance (side^2) / 12."""
    immigrants = simulation.parents < 0
    places, times = simulation.locations[immigrants], simulation.times[immigrants]
    n = len(times)
    assert abs(n - SCENE["n_immigrants"]) < 5 * SCENE["n_immigrants"] ** 0.5
    for column, (low, high) in zip((*places.T, times), (*SCENE["box_km"], (0.0, SCENE["horizon_h"]))):
        assert low <= column.min() and column.max() <= high
        assert abs(column.mean() - (low + high) / 2) < 5 * (high - low) / (12 * n) ** 0.5


def test_offspring_number_delay_and_displacement(simulation):
    """Few offspring come after a horizon of 25,000 mean delays, so that the moments are those of the full
    clusters."""
    child = simulation.parents >= 0
    parent = simulation.parents[child]
    n, n_children = len(child), int(child.sum())
    # A cluster has 1 / (1 - theta) events on average and 1 / (1 - theta)^3 as its second moment (Borel).
    clusters = SCENE["n_immigrants"]
    assert abs(n - clusters / (1 - PARAMS.theta)) < 5 * (clusters / (1 - PARAMS.theta) ** 3) ** 0.5
    delay = simulation.times[child] - simulation.times[parent]
    assert abs(delay.mean() * PARAMS.omega - 1.0) < 5 / n_children**0.5
    shift = (simulation.locations[child] - simulation.locations[parent]) / PARAMS.h
    assert np.all(abs(shift.mean(axis=0)) < 5 / n_children**0.5)
    assert np.all(abs((shift**2).mean(axis=0) - 1.0) < 5 * (2 / n_children) ** 0.5)


def sure():
    """Return parameters, the likelihood of events, and their parents, which are certain: offspring are
    seconds and metres from them, immigrants kilometres and days apart."""
    params = replace(PARAMS, omega=60.0, h=0.01, tau_t=336.0)
    *events, parents = simulate(params, n_immigrants=60, horizon_h=5000.0, seed=4)
    return params, Likelihood(*events, space="serial"), parents


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_dimensions(n_dims):
    simulation = simulate(PARAMS, n_immigrants=20, horizon_h=100.0, box_km=[(0.0, 1.0)] * n_dims, seed=2)
    assert simulation.locations.shape == (len(simulation.times), n_dims)
    assert np.isfinite(reference.log_likelihood(*simulation[:2], PARAMS))


def test_equal_seeds_give_equal_events():
    one, two = (simulate(PARAMS, seed=seed, **SCENE) for seed in (5, np.random.default_rng(5)))
    assert all(np.array_equal(a, b) for a, b in zip(one, two))
    assert not np.array_equal(one.times, simulate(PARAMS, seed=6, **SCENE).times)


def test_no_immigrants_no_events():
    locations, times, parents = simulate(PARAMS, n_immigrants=1e-9, horizon_h=1.0, seed=1)
    assert locations.shape == (0, 2) and times.shape == parents.shape == (0,)
