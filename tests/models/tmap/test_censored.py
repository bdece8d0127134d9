"""Test censored runs: their likelihood from the matrices, EM's sums from its derivative, recovery of
parameters."""

import mpmath
import numpy as np
import pytest

from portable.models.tmap import fit, Runs, TransientMAP, standard_errors
from portable.models.tmap.em import EM

from . import reference
from .problems import censored_runs, random_model, random_runs


@pytest.mark.parametrize("orders", [[1, 2], [1, 2, 3]], ids=str)
def test_likelihood_is_that_of_the_matrices(space, orders):
    model, runs = random_model(4, orders), censored_runs(4, 40)
    wanted = reference.log_likelihood(model, runs)
    assert model.log_likelihood(runs, space=space) == pytest.approx(wanted, rel=1e-12)
    (sums,) = EM(runs, model.orders, 1, np.float64, space).expectation([model])
    assert sums.loglik == pytest.approx(wanted, rel=1e-12)
    assert sums.opened.sum() == pytest.approx(runs.censored.sum(), rel=1e-12)
    assert sums.visits.sum() == pytest.approx(runs.n_gaps, rel=1e-12)


def test_long_and_short_open_gaps_of_high_orders(space):
    """Compute P(Poisson variable of mean x is below r) by both sums, up and down, and for a zero."""
    model = TransientMAP([1.0], [100], [1.0], [[0.0]])
    for x in (0.0, 1.0, 99.0, 101.0, 150.0, 2000.0):
        wanted = float(mpmath.log(mpmath.gammainc(100, x, regularized=True)))
        runs = Runs([1.0, x], [1, 1], [False, True])
        alone = model.log_likelihood(Runs([1.0], [1]), space=space)
        assert model.log_likelihood(runs, space=space) - alone == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def test_rate_from_the_slope_of_the_likelihood():
    """Compare Fisher's identity, r N - rate X, with central differences, whose error is about 1e-10 of the
    sums.
    """
    model, runs = random_model(9, [1, 2]), censored_runs(9, 60)
    em = EM(runs, model.orders, 2, np.float64, "serial")
    (sums,) = em.expectation([model])
    for i in range(2):
        ends = [
            TransientMAP(
                model.alpha, model.orders, model.rates * np.exp(h * (np.arange(2) == i)), model.switching
            )
            for h in (1e-4, -1e-4)
        ]
        up, down = em.expectation(ends)
        slope = (up.loglik - down.loglik) / 2e-4
        assert slope == pytest.approx(
            model.orders[i] * sums.visits[i] - model.rates[i] * sums.time[i], rel=1e-5, abs=1e-5
        )


def test_an_exponential_clock_in_closed_form():
    """For one branch of order 1, rate = events / time, and the other parameter is the share of events after
    which a run continues.
    """
    runs = censored_runs(3, 50)
    model, _ = fit(runs, orders=[1], tol=1e-14)
    events = runs.n_gaps - runs.censored.sum()
    assert model.rates[0] == pytest.approx(events / runs.values.sum(), rel=1e-6)
    goes_on = (runs.lengths - 1).sum()
    assert model.switching[0, 0] == pytest.approx(goes_on / events, rel=1e-12)


def test_known_parameters_behind_a_horizon():
    """Censor two thirds of 20,000 runs at a random time; each parameter is within four standard errors."""
    truth = TransientMAP([0.7, 0.3], [1, 3], [10.0, 1.0], [[0.5, 0.3], [0.1, 0.7]])
    whole = truth.simulate(20_000, seed=7)
    random, cut, censored = np.random.default_rng(7), [], []
    for gaps in reference.split(whole):
        horizon, times = random.exponential(6.0), np.cumsum(gaps)
        n = int((times <= horizon).sum())
        censored.append(n < len(gaps))
        cut.append(gaps if n == len(gaps) else np.append(gaps[:n], horizon - (times[n - 1] if n else 0.0)))
    runs = Runs.from_lists(cut, np.array(censored))
    assert runs.censored.mean() > 0.3
    model, info = fit(runs, orders=[1, 3], start=truth, tol=1e-10)
    errors = standard_errors(model, runs)
    assert np.diff(info.history).min() > -1e-9
    for name in "alpha rates exits switching".split():
        assert np.abs((getattr(model, name) - getattr(truth, name)) / getattr(errors, name)).max() < 4.0, name


def test_an_open_gap_of_zero_says_nothing():
    runs = random_runs(2, 30)
    more = Runs(np.append(runs.values, 0.0), np.append(runs.lengths, 1), np.append(runs.censored, True))
    model = random_model(2, [2, 3])
    assert model.log_likelihood(more) == pytest.approx(model.log_likelihood(runs), rel=1e-13)
