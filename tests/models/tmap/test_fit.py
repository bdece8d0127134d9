"""EM: it climbs, it stops at a point of rest, it finds parameters that made the data, and says what is degenerate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tmap import Runs, fit

from .problems import MODEL, random_runs, real_runs


@settings(max_examples=100, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), n_runs=st.integers(3, 60), zeros=st.booleans(),
       orders=st.lists(st.integers(1, 6), min_size=0, max_size=2))
def test_the_likelihood_never_falls(seed, n_runs, zeros, orders):
    """On random problems; rounding moves a sum of n logarithms by some n eps of their size."""
    runs = random_runs(seed, n_runs, zeros)
    _, info = fit(runs, orders=[1, *orders], max_iter=20, tol=0.0, seed=seed, space="serial")
    assert np.isfinite(info.history).all()
    assert np.diff(info.history).min() > -1e-12 * runs.n_gaps * max(1.0, abs(info.history[0] / runs.n_gaps))


def test_all_spaces_climb_alike(space):
    runs = MODEL.simulate(40, seed=1, space="serial")
    model, info = fit(runs, orders=[1, 2], max_iter=5, tol=0.0, space=space)
    wanted, other = fit(runs, orders=[1, 2], max_iter=5, tol=0.0, space="serial")
    np.testing.assert_allclose(info.history, other.history, rtol=1e-12)
    np.testing.assert_allclose(model.rates, wanted.rates, rtol=1e-9)
    np.testing.assert_allclose(model.switching, wanted.switching, rtol=1e-9)
    assert np.diff(info.history).min() > 0.0 and info.n_iterations == 5 and not info.converged


def test_one_branch_is_found_in_one_step(space):
    """Closed form: rate = r n_gaps / sum of gaps, switching = 1 - n_runs / n_gaps."""
    runs = random_runs(2, 30)
    model, info = fit(runs, orders=[3], space=space)
    assert model.rates[0] == pytest.approx(3 * runs.n_gaps / runs.values.sum(), rel=1e-12)
    assert model.switching[0, 0] == pytest.approx(1.0 - runs.n_runs / runs.n_gaps, rel=1e-12)
    assert info.converged and info.log_likelihood == pytest.approx(model.log_likelihood(runs, space=space), rel=1e-13)


def test_known_parameters_are_recovered():
    """10,000 runs: the errors of rates are near 1 / sqrt(15,000 gaps of a branch), more for the mixture."""
    runs = MODEL.simulate(10_000, seed=4, space="threads")
    model, info = fit(runs, orders=[1, 2, 3], n_starts=8, tol=1e-8, space="threads")
    assert info.converged and info.log_likelihood >= MODEL.log_likelihood(runs, space="threads")
    assert info.log_likelihood == info.starts.max() and len(info.starts) == 8
    np.testing.assert_allclose(model.rates, MODEL.rates, rtol=0.1)
    np.testing.assert_allclose(model.alpha, MODEL.alpha, atol=0.03)
    np.testing.assert_allclose(model.switching, MODEL.switching, atol=0.05)


def test_means_of_the_fit_are_those_of_the_data():
    """At a point of rest of EM, visits and times are the data's; the tolerance is what EM still has to go."""
    runs = random_runs(9, 200, zeros=True)
    model, _ = fit(runs, orders=[1, 1, 2], max_iter=3000, tol=1e-12, space="serial")
    assert model.mean_arrivals() == pytest.approx(runs.n_gaps / runs.n_runs, rel=1e-6)
    assert model.mean_gap() == pytest.approx(runs.values.mean(), rel=1e-3)


def test_branches_come_in_order():
    runs = MODEL.simulate(300, seed=8, space="serial")
    model, _ = fit(runs, orders=[2, 1, 1], max_iter=50, space="serial")
    assert model.orders.tolist() == [1, 1, 2] and model.rates[0] > model.rates[1]


def test_a_branch_of_zeros_is_held_and_named():
    """Gaps of zero and of about one in turn: the best branch for the zeros would have no mean at all."""
    random = np.random.default_rng(1)
    values = np.where(np.arange(400) % 2, random.gamma(50.0, 0.02, 400), 0.0)
    shortest = values[values > 0.0].min()
    model, info = fit(Runs(values, np.full(100, 4)), orders=[1, 1, 50], n_starts=4, space="serial")
    assert np.isfinite(info.log_likelihood)
    assert model.orders[0] / model.rates[0] == pytest.approx(1e-3 * shortest)
    assert any("branch 0 takes zero gaps only" in note for note in info.notes)


def test_a_dead_branch_is_named():
    """Gaps all near one: an order of 1,000 takes them all, and nothing is left to the exponential."""
    random = np.random.default_rng(1)
    runs = Runs(random.gamma(1000.0, 1e-3, 4000), np.full(1000, 4))
    model, info = fit(runs, orders=[1, 1000], n_starts=4, max_iter=2000, tol=0.0, space="serial")
    assert model.rates[1] == pytest.approx(1000.0, rel=0.01)
    assert any("branch 0 is dead" in note for note in info.notes)


@pytest.mark.parametrize("name", ["cdnow_interpurchase_days", "nasa_http_19950801_sessions"])
def test_real_runs(name):
    """More branches explain more than one, whose likelihood is that of independent exponential gaps."""
    runs = real_runs(name)
    one = fit(runs, orders=[1], space="threads")[1]
    model, info = fit(runs, orders=[1, 1, 2], n_starts=2, max_iter=100, space="threads")
    assert np.diff(info.history).min() >= 0.0
    assert info.log_likelihood > one.log_likelihood + 0.01 * runs.n_gaps
    assert model.mean_arrivals() == pytest.approx(runs.n_gaps / runs.n_runs, rel=0.01)
    assert model.mean_gap() == pytest.approx(runs.values.mean(), rel=0.05)
