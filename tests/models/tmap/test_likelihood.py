"""Compare recursion and posterior sums with matrix exponentials, on every space, and test identities between
the sums."""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models.tmap import gap_kernels, packed, Runs, TransientMAP
from portable.models.tmap.em import EM

from . import reference
from .problems import MODEL, random_model, random_runs

ORDERS = [[1], [3], [1, 2], [1, 1, 2], [1, 2, 3], [1, 2, 3, 5, 8]]
orders = pytest.mark.parametrize("orders", ORDERS, ids=str)


@orders
@pytest.mark.parametrize("n_runs", [1, 2, 40])
def test_likelihood_is_that_of_the_matrices(space, orders, n_runs):
    model, runs = random_model(n_runs, orders), random_runs(n_runs, n_runs)
    assert model.log_likelihood(runs, space=space) == pytest.approx(
        reference.log_likelihood(model, runs), rel=1e-12
    )


@orders
def test_posterior_sums(space, orders):
    model, runs = random_model(7, orders), random_runs(7, 35)
    (sums,) = EM(runs, model.orders, 1, np.float64, space).expectation([model])
    assert sums.loglik == pytest.approx(reference.log_likelihood(model, runs), rel=1e-12)
    for got, wanted in zip(
        (sums.first, sums.visits, sums.time, sums.moves), reference.posterior_sums(model, runs)
    ):
        assert_allclose(got, wanted, rtol=1e-12)


def test_teams_that_take_several_packs(space, monkeypatch):
    """There are seven packs of 32 for three teams or fewer."""
    model, runs = random_model(5, [1, 2]), random_runs(5, 200)
    (whole,) = EM(runs, model.orders, 1, np.float64, space).expectation([model])
    monkeypatch.setattr(packed, "ROUNDS", 0)
    monkeypatch.setattr(packed, "LEAST_TEAMS", 3)
    again = runs.subset(slice(None))  # the packed form is stored with the runs
    (shared,) = EM(again, model.orders, 1, np.float64, space).expectation([model])
    for name in "loglik first last time moves".split():
        assert_allclose(getattr(shared, name), getattr(whole, name), rtol=1e-12)
    assert whole.visits.sum() == pytest.approx(runs.n_gaps, rel=1e-12)


@pytest.mark.parametrize("begin", [0, 900])
@pytest.mark.parametrize("most", [1, 3, 40, 200])
def test_packs_are_dealt_evenly(space, begin, most):
    """Packs are assigned as searches for equal shares of the rows would do, if a pack may have more than one
    share."""
    steps = np.sort(default_rng(most).geometric(0.1, 230))[::-1]
    ends = begin + np.append(0, np.cumsum(steps))
    n = min(most, 30), min(most, 200)
    cuts = np.array([[0, 30, n[0], 0, 0], [30, 230, n[1], n[0], 7]])
    there = [pk.copy_of(array, space) for array in (cuts, ends, np.full((3, sum(n)), -1))]
    pk.parallel_for(pk.TeamPolicy(2, 1024, space=space), gap_kernels.share_out, *there)
    for first, end, n, column, kept in cuts:
        dealt = there[2].to_numpy()[:, column : column + n]
        own, rows = steps[first:end], ends[first:end]
        firsts = np.unique(np.searchsorted(rows, rows[0] + np.arange(n) * own.sum() // n))
        idle = n - len(firsts)
        begins = [*(first + firsts), *[end] * (idle + 1)]
        assert_array_equal(dealt[:2], [begins[:-1], begins[1:]])
        before = kept + np.cumsum(own[firsts]) - own[firsts]
        assert_array_equal(dealt[2], [*before, *[0] * idle])


@pytest.mark.parametrize("zeros", [False, True])
def test_identities(space, zeros):
    """Each gap belongs to a branch, each run starts and ends once."""
    runs = random_runs(3, 70, zeros)
    model = random_model(3, [1, 2, 3])
    (sums,) = EM(runs, model.orders, 1, np.float64, space).expectation([model])
    assert sums.first.sum() == pytest.approx(runs.n_runs, rel=1e-12)
    assert sums.visits.sum() == pytest.approx(runs.n_gaps, rel=1e-12)
    assert (sums.visits - sums.moves.sum(axis=1)).sum() == pytest.approx(runs.n_runs, rel=1e-12)
    assert sums.time.sum() == pytest.approx(runs.values.sum(), rel=1e-12)


def test_a_zero_that_no_branch_can_make(space):
    model = TransientMAP([0.5, 0.5], [2, 3], [1.0, 1.0], [[0.5, 0.2], [0.2, 0.5]])
    assert model.log_likelihood(Runs([1.0, 0.0, 2.0], [2, 1]), space=space) == -math.inf


def test_far_gaps_and_high_orders_do_not_underflow(space):
    """Densities here are below 1e-300; the logarithm of a single gap's density is known."""
    model = TransientMAP([1.0, 0.0], [100, 1], [1.0, 1e3], [[0.0, 0.0], [0.0, 0.0]])
    for x in (1e-4, 2000.0):
        wanted = 99 * math.log(x) - x - math.lgamma(100)
        assert model.log_likelihood(Runs([x], [1]), space=space) == pytest.approx(wanted, rel=1e-12)


def test_a_long_run_beside_short_ones(space):
    """Densities of a million gaps multiply to a number far outside float64; the likelihood of one branch has
    no sum over branches."""
    n = 60 if space == "checked" else 1_000_000
    model = TransientMAP([1.0], [2], [1e3], [[0.5]])
    random = default_rng(1)
    gaps = random.gamma(2.0, 1e-3, n)
    whole = model.log_likelihood(Runs(np.append(gaps, 1e-3), [n, 1]), space=space)
    density = np.log(1e6 * gaps) - 1e3 * gaps
    wanted = (
        density.sum() + (n - 1) * math.log(0.5) + math.log(0.5) + math.log(1e6 * 1e-3) - 1.0 + math.log(0.5)
    )
    assert whole == pytest.approx(wanted, rel=1e-12)


def test_the_order_of_runs_does_not_matter(space):
    runs = random_runs(4, 50)
    parts = reference.split(runs)
    turned = Runs.from_lists(parts[::-1])
    one, two = (MODEL.log_likelihood(r, space=space) for r in (runs, turned))
    assert one == pytest.approx(two, rel=1e-13)


def test_a_branch_out_of_reach_stays_there(space):
    """The gap is e^4500 times as likely from a branch that runs never enter: sums and likelihood are those of
    the other branch."""
    model = TransientMAP([1.0, 0.0], [1, 2], [10.0, 1.0], [[0.5, 0.0], [0.25, 0.25]])
    runs = Runs([500.0, 0.1, 500.0], [2, 1])
    wanted = 3 * math.log(10.0) - 10.0 * 1000.1 + 3 * math.log(0.5)
    assert model.log_likelihood(runs, space=space) == pytest.approx(wanted, rel=1e-13)
    (sums,) = EM(runs, model.orders, 1, np.float64, space).expectation([model])
    assert sums.loglik == pytest.approx(wanted, rel=1e-13)
    assert_allclose(sums.visits, [3.0, 0.0], atol=1e-13)
