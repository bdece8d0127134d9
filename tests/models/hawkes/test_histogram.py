"""Test histograms of delays beside EM in NumPy, on an exponential decay, and on bad input."""

import itertools

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from portable.errors import InputError
from portable.models import hawkes

from ...refusals import refusals

EDGES = np.array([0.0, 0.27, 0.53, 1.07, 2.03, 4.09])  # no sum or difference of the rounded times


def test_em_in_numpy(space):
    """Compare EM, and its maximum after many steps, at times that are shared by several events."""
    times = np.sort(np.round(default_rng(3).uniform(0.0, 60.0, 80), 1))
    found = hawkes.fit_histogram(times, EDGES, horizon_h=65.0, n_steps=20, space=space)
    dt, x, hours = times[:, None] - times, [np.ones(80)], [65.0 - times[0]]
    for a, b in itertools.pairwise(EDGES):
        x.append(((dt > a) & (dt <= b)).sum(axis=1))
        hours.append(np.clip(65.0 - times - a, 0.0, b - a).sum())
    x, hours, history = np.array(x), np.array(hours), []
    v = 40.0 / np.append(hours[0], np.full(5, hours[1:].sum()))
    for _ in range(20_000):
        rate = v @ x
        history.append(np.log(rate).sum() - hours @ v)
        v = v * (x @ (1.0 / rate)) / hours
    assert_allclose(found.history, history[:20], rtol=1e-10)
    assert (np.diff(found.history) >= 0.0).all() and found.converged
    assert found.log_likelihood == pytest.approx(history[-1], rel=1e-7)
    assert_allclose(found.offspring, v[1:] * np.diff(EDGES), atol=1e-3)


def test_an_exponential_decay(tmp_path):
    """Find each bin within three standard errors."""
    times = hawkes.simulate_mutual(hawkes.Mutual([0.5], [[0.5]], 2.0), 8_000.0, seed=1).times
    found = hawkes.fit_histogram(times, EDGES, horizon_h=8_000.0)
    away = found.offspring + 0.5 * np.diff(np.exp(-2.0 * EDGES))
    assert (np.abs(away) < 3.0 * found.standard_errors["offspring"]).all()
    found.save(tmp_path / "found.npz")
    again = hawkes.HistogramFit.load(tmp_path / "found.npz")
    assert again.offspring.sum() == pytest.approx(found.branching)


test_wrong_calls = refusals(
    [
        ({"edges": [0.0, 2.0, 2.0]}, r"edges\[2\] is 2.0 after 2.0"),
        ({"edges": [-1.0, 2.0]}, r"edges is \[-1.0, 2.0\]"),
        ({"edges": [0.0, 10.0, 11.0]}, r"edges\[-1\] is 11.0"),
    ],
    lambda change: hawkes.fit_histogram(
        **{"times": [0.0, 1.0, 9.0], "edges": [0.0, 1.0]} | change, space="serial"
    ),
    error=InputError,
)
