"""Does the default analysis hold what it promises? Events without triggering, of which the 5 % test has to
reject 5 %, and events with it, which have to be found and covered.

Each set has a square of 10 km or a part of it, and a year (the season: three), unless the table says
otherwise.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

import portable as pk

from ..shared.checks import check_count, check_seed
from ..shared.processes import map_numbers, space_of
from .backgrounds import fit_background
from .parameters import Parameters
from .significance import several_tests
from .simulate import simulate

_SIDE_KM, _YEAR_H, _TOWN_KM = 10.0, 8766.0, 0.4
_TOWNS = np.array([[3.0, 3.5], [7.5, 6.0]])
_TOGETHER = 8  # sets a launch
TRUTH = Parameters(1.0, 1.6, 336.0, theta=0.3, omega=0.1, h=0.1)
NAMES = ("theta", "omega", "h")
ALPHA, LEVEL = 0.05, 0.9


@dataclass(frozen=True)
class NoiseCalibration:
    """How often the default analysis rejects, finds and covers.

    Attributes
    ----------
    n_sets, n_events, n_simulations : int
    rejected : dict
        Of each shape: the share of sets without triggering in which the 5 % test rejects.
    n_triggered : int
        Sets with triggering, dealt out to the shapes in turn.
    truth : Parameters
        Of these.
    found : float
        The share of these in which the 5 % test rejects.
    covered : dict
        Of each parameter: the share of these whose 90 % interval holds the truth.
    """

    n_sets: int
    n_events: int
    n_simulations: int
    rejected: dict[str, float]
    n_triggered: int
    truth: Parameters
    found: float
    covered: dict[str, float]


def calibrate_noise(
    *,
    n_sets: int = 1000,
    n_events: int = 1000,
    n_simulations: int = 199,
    n_triggered: int | None = None,
    seed: int = 0,
    space: pk.SpaceLike | None = None,
    progress: bool = False,
    jobs: int = 1,
    client: object = None,
) -> NoiseCalibration:
    """Level, power and coverage of the default analysis.

    Parameters
    ----------
    n_sets : int
        Sets without triggering of each of the six shapes of the background.
    n_events : int
        Of each set; with triggering the expected number.
    n_simulations : int
        Draws of a test.
    n_triggered : int, optional
        Sets with triggering; a fifth of `n_sets` if not given.
    seed : int
        A set depends on the seed, its shape and its number alone.
    space : str or Space, optional
    progress : bool
    jobs : int
        Processes that share the sets out, each on one core unless a space is named.
    client : distributed.Client or "local", optional
        Whose workers share them out in place of `jobs`.

    Returns
    -------
    NoiseCalibration
        Of 1,000 sets a right test rejects 3.5 to 6.5 % in 97 of 100 cases.

    Raises
    ------
    DTypeError, InputError
        An argument of a wrong type or out of range.
    """
    n_sets, n_events = check_count(n_sets, "n_sets"), check_count(n_events, "n_events", 20)
    n_simulations, seed = check_count(n_simulations, "n_simulations", 19), check_seed(seed)
    n_triggered = -(-n_sets // 5) if n_triggered is None else check_count(n_triggered, "n_triggered")
    how = {"jobs": jobs, "progress": progress, "client": client, "space": space}
    common = seed, n_events, n_simulations, space_of(space, jobs, client)
    rejected = {}
    for shape in SHAPES:
        one = functools.partial(_p_values, shape, n_sets, *common)
        found = map_numbers(one, -(-n_sets // _TOGETHER), description=shape, **how)
        rejected[shape] = float((np.concatenate(found) <= ALPHA + 1e-12).mean())
    one = functools.partial(_triggered, *common)
    found = map_numbers(one, n_triggered, description="with triggering", **how)
    held = np.array([inside for _, inside in found])
    return NoiseCalibration(
        n_sets,
        n_events,
        n_simulations,
        rejected,
        n_triggered,
        TRUTH,
        float(np.mean([p for p, _ in found])),
        dict(zip(NAMES, held.mean(axis=0).tolist())),
    )


def _p_values(shape, n_sets, seed, n_events, n_simulations, space, k):
    """Of the k-th sets of one shape that are tested together."""
    numbers = range(k * _TOGETHER, min((k + 1) * _TOGETHER, n_sets))
    at = list(SHAPES).index(shape)
    sets = []
    for number in numbers:
        places, times = SHAPES[shape](np.random.default_rng([seed, at, number]), n_events)
        order = np.argsort(times, kind="stable")
        sets.append((places[order], times[order]))
    # draws of their own for each shape, so that shapes are tests that do not depend on each other
    seeds = [seed + len(SHAPES) * number + at for number in numbers]
    return [
        found.p_value for found in several_tests(sets, n_simulations=n_simulations, seeds=seeds, space=space)
    ]


def _triggered(seed, n_events, n_simulations, space, k):
    """Of set k: whether the triggering is found, and which intervals hold the truth."""
    shape = list(SHAPES)[k % len(SHAPES)]
    horizon = 3.0 * _YEAR_H if shape == "season" else _YEAR_H
    made = simulate(
        TRUTH,
        n_immigrants=(1.0 - TRUTH.theta) * n_events,
        horizon_h=horizon,
        immigrants=SHAPES[shape],
        seed=np.random.default_rng([seed, 99, k]),
    )
    fit = fit_background(
        made.locations, made.times, horizon_h=horizon, n_simulations=n_simulations, space=space
    ).fit
    limits = [fit.interval(name, LEVEL) for name in NAMES]
    inside = [low <= getattr(TRUTH, name) <= high for name, (low, high) in zip(NAMES, limits)]
    return fit.test.p_value <= ALPHA + 1e-12, inside


def _year(random, n):
    return random.uniform(0.0, _YEAR_H, n)


def _square(random, n):
    return random.uniform(0.0, _SIDE_KM, (n, 2)), _year(random, n)


def _disc(random, n):
    radius, angle = 0.5 * _SIDE_KM * np.sqrt(random.random(n)), random.uniform(0.0, 2.0 * math.pi, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), _year(random, n)


def _l_shaped(random, n):
    """The square without its upper right quarter."""
    places = random.uniform(0.0, 0.5 * _SIDE_KM, (n, 2))
    quarter = random.integers(0, 3, n)
    return places + 0.5 * _SIDE_KM * np.array([[0, 0], [1, 0], [0, 1]])[quarter], _year(random, n)


def _towns(random, n):
    """Half of the events even, half in two towns."""
    places, times = _square(random, n)
    in_town = random.random(n) < 0.5
    some = _TOWNS[random.integers(0, 2, n)] + random.normal(0.0, _TOWN_KM, (n, 2))
    return np.where(in_town[:, None], some, places), times


def _gradient(random, n):
    """A density that rises from 0 on one side."""
    places, times = _square(random, n)
    places[:, 0] = _SIDE_KM * np.sqrt(random.random(n))
    return places, times


def _season(random, n):
    """A rate of 1 + 0.8 sin in three years, by rejection."""
    places, times = random.uniform(0.0, _SIDE_KM, (n, 2)), np.empty(0)
    while len(times) < n:
        some = random.uniform(0.0, 3.0 * _YEAR_H, 2 * n)
        kept = random.random(2 * n) * 1.8 < 1.0 + 0.8 * np.sin(2.0 * math.pi * some / _YEAR_H)
        times = np.concatenate([times, some[kept]])
    return places, times[:n]


SHAPES = {
    "square": _square,
    "disc": _disc,
    "L-shaped": _l_shaped,
    "two towns": _towns,
    "gradient": _gradient,
    "season": _season,
}
