"""Test the guards: noise that could be mistaken for contagion is detected and reported, and parameters on
which events carry no information get no standard error."""

import math
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from portable.models import hawkes
from portable.models.hawkes import (
    fit,
    jitter,
    likelihood,
    Likelihood,
    notes,
    Parameters,
    places,
    sample_posterior,
)
from portable.errors import InputError

from .events import PARAMS, random_events

pytestmark = pytest.mark.usefixtures("serial")

START = Parameters(0.5, 1.6, 336.0, 0.3, 1.0, 1.0)


def centroids(n_events=400, n_places=39, seed=3):
    """Draw events without triggering, at centroids; two years of hours."""
    random = np.random.default_rng(seed)
    return random.uniform(0.0, 10.0, (n_places, 2))[random.integers(0, n_places, n_events)], np.sort(
        random.uniform(0, 17532, n_events)
    )


def test_centroids_are_refused_and_answered():
    locations, times = centroids()
    found = places(locations)
    assert found.n_distinct == 39 and found.repeated == 1.0 and 0.3 < found.spacing_km < 1.5
    likelihood = Likelihood(locations, times)
    for call in (fit, sample_posterior):
        with pytest.raises(
            InputError,
            match="100% of 400 events share the place of another: there are 39 distinct places.*jitter",
        ):
            call(likelihood)
    given = Likelihood(locations, times, background=hawkes.Background(np.full(400, 1e-4), 400.0))
    with pytest.raises(InputError, match="count as offspring"):
        fit(given)
    taken = Likelihood(locations, times, repeats="accept")
    noise = fit(taken, start=START, posterior=True)
    assert noise.params.theta > 0.5  # spurious contagion
    assert any("less than the spacing of places" in note for note in noise.notes)
    bounded = fit(taken, start=START, least={"h": 0.5 * found.spacing_km})
    assert bounded.interval("theta")[0] < 0.05 and bounded.params.theta < 0.1
    for seed in range(3):
        spread = fit(Likelihood(jitter(locations, seed=seed), times), start=START)
        assert spread.interval("theta")[0] < 0.05 and spread.params.theta < 0.1


def test_a_bound_is_held():
    likelihood = Likelihood(*random_events(41))
    free = fit(likelihood, start=PARAMS)
    held = fit(likelihood, start=PARAMS, least={"h": 3.0 * free.params.h, "omega": 0.1 * free.params.omega})
    assert held.params.h == pytest.approx(3.0 * free.params.h) and held.converged
    assert math.isnan(held.standard_errors["h"]) and math.isnan(held.interval("h")[0])
    assert any("h is held at its bound" in note for note in held.notes)
    assert held.log_likelihood < free.log_likelihood and math.isfinite(held.standard_errors["mu0"])
    with pytest.raises(InputError, match="least has 'tau_x', which is not estimated"):
        fit(likelihood, start=PARAMS, least={"tau_x": 1.0})


def test_what_is_not_identified():
    """For events far apart, which no triggering explains, theta converges to 0, and omega and h are
    meaningless.
    """
    grid = 100.0 * np.stack(np.meshgrid(np.arange(5.0), np.arange(8.0)), axis=-1).reshape(-1, 2)
    far = fit(Likelihood(grid, 1e4 * np.arange(40.0)), start=START)
    assert far.standard_errors["omega"] == far.standard_errors["h"] == math.inf
    assert far.interval("omega") == (0.0, math.inf)
    assert any("omega is not identified" in note for note in far.notes)
    assert math.isfinite(far.standard_errors["mu0"])


def test_notes():
    locations, times = random_events(200)
    likelihood = Likelihood(locations, times)
    said = " ".join(notes(likelihood, Parameters(0.7, 1e-6, 1e9, 1.2, 1e-3, 0.4)))
    for words in (
        "the branching ratio is 1.2",
        "tau_x is 1e-06 km, but places spread over",
        "tau_t is 1e+09 h, but times span over",
    ):
        assert words in said
    assert "includes slow clusters" in " ".join(
        notes(likelihood, Parameters(0.7, 0.5, 300.0, 0.3, 1e-3, 0.4))
    )
    assert not notes(likelihood, Parameters(0.7, 0.5, 300.0, 0.3, 0.1, 0.4), n_simulations=0)


def test_a_start_without_a_rate_says_what_to_do():
    locations = np.array([[0.0, 0.0], [1e4, 0.0], [0.0, 1e4]])
    likelihood = Likelihood(locations, [0.0, 1e5, 2e5], background_self=False)
    for call in (fit, sample_posterior):
        with pytest.raises(
            InputError,
            match=r"begin with larger scales, such as tau_x = [0-9.e+]+ km and tau_t = [0-9.e+]+ h",
        ):
            call(likelihood, start=START, fixed=())


def test_another_thread_than_the_main_one_leaves_closing_a_cluster_to_a_new_one():
    """It may be the cluster's own."""
    closed = queue.Queue()
    stack = SimpleNamespace(close=lambda: closed.put(threading.get_ident()))
    (own := threading.Thread(target=lambda: likelihood._close(stack))).start()
    assert closed.get() != own.ident
