"""Test the diagnostics of a fit: branches of gaps, rescaled gaps, standard errors, orders."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from portable.errors import DTypeError, InputError
from portable.models.tmap import fit, Runs, TransientMAP, goodness_of_fit, select_orders, standard_errors
from portable.models.tmap.select import count_partitions, partitions

from ...refusals import refusals
from . import reference
from .problems import MODEL, censored_runs, random_model, random_runs

RUNS = MODEL.simulate(3000, seed=3)


@pytest.mark.parametrize("censored", [False, True])
def test_branch_probabilities_add_up_to_the_sums(space, censored):
    model, runs = random_model(3, [1, 2, 3]), (censored_runs if censored else random_runs)(3, 40)
    found = model.branch_probabilities(runs, space=space)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    if not censored:
        starts, visits, times, _ = reference.posterior_sums(model, runs)
        assert_allclose(found.sum(axis=0), visits, rtol=1e-12)
        assert_allclose(runs.values @ found, times, rtol=1e-12)
        assert_allclose(found[np.cumsum(runs.lengths) - runs.lengths].sum(axis=0), starts, rtol=1e-12)


def test_rescaled_gaps(space):
    model, runs = random_model(5, [1, 3]), random_runs(5, 20)
    wanted = np.concatenate([reference.rescaled(model, gaps) for gaps in reference.split(runs)])
    assert_allclose(model.rescaled(runs, space=space), wanted, atol=1e-12)


def test_the_truth_fits_and_another_process_does_not():
    """The test has one false alarm in a thousand for each of three p-values; the seed is fixed."""
    right = goodness_of_fit(MODEL, RUNS, space="threads")
    assert min(right.p_distance, right.p_correlation, right.p_length) > 1e-3
    other = TransientMAP([1.0], [1], [1.0 / MODEL.mean_gap()], [[1.0 - 1.0 / MODEL.mean_arrivals()]])
    wrong = goodness_of_fit(other, RUNS)
    assert wrong.p_distance < 1e-6 and wrong.p_correlation < 1e-6 and wrong.p_length > 1e-3


def test_gaps_that_cannot_be():
    model = TransientMAP([1.0], [2], [1.0], [[0.5]])
    with pytest.raises(InputError, match=r"values\[0\] is 0.0, a gap of density zero"):
        goodness_of_fit(model, Runs([0.0, 1.0], [2]))


def test_joint_density_and_survival():
    """Compare with the matrices; a sum over possible continuations gives the density of gaps that need not be
    the last."""
    model, gaps = random_model(2, [1, 2, 3]), [[0.3, 1.2], [0.0, 2.0]]
    ended = [reference.density(model, np.array(one)) for one in gaps]
    assert_allclose(model.joint_density(gaps), ended, rtol=1e-12)
    d0, d1, d, row = model.matrices()
    wanted = row @ reference.expm(d0 * 0.3) @ d1 @ reference.expm(d0 * 1.2) @ (d + d1.sum(axis=1))
    assert model.joint_density(gaps[0], ended=False) == pytest.approx(wanted, rel=1e-12)
    visits = np.linalg.solve((np.eye(len(d0)) - np.linalg.solve(-d0, d1)).T, row)
    longer = [visits @ reference.expm(d0 * x) @ np.ones(len(d0)) / visits.sum() for x in (0.0, 0.5, 4.0)]
    first = np.concatenate([[0], np.cumsum(model.orders)[:-1]])
    # gaps begin only in first stages
    assert_allclose(visits[first].sum(), visits.sum(), rtol=1e-12)
    assert_allclose(model.gap_survival([0.0, 0.5, 4.0]), longer, rtol=1e-12)


@pytest.mark.parametrize("gaps", [[], [-1.0], [np.nan]])
def test_joint_density_of_no_gaps(gaps):
    with pytest.raises(InputError):
        MODEL.joint_density(gaps)


def test_standard_errors_of_one_branch(space):
    """Closed form: rate / sqrt(r N) for the rate, sqrt(p (1 - p) / N) for the probability of continuing."""
    runs = random_runs(2, 30)
    model, _ = fit(runs, orders=[3], space=space)
    found = standard_errors(model, runs, space=space)
    p = model.switching[0, 0]
    assert found.rates[0] == pytest.approx(model.rates[0] / np.sqrt(3 * runs.n_gaps), rel=1e-5)
    assert found.switching[0, 0] == pytest.approx(np.sqrt(p * (1 - p) / runs.n_gaps), rel=1e-5)
    assert found.exits[0] == pytest.approx(found.switching[0, 0], rel=1e-9) and np.isnan(found.alpha[0])


def test_no_standard_errors_away_from_a_maximum():
    with pytest.raises(InputError, match="model is not at a maximum"):
        standard_errors(random_model(8, [1, 2]), random_runs(8, 60))


def test_partitions():
    """Compare their numbers, 1, 2, 3, 5, 7, 11, 15 (Euler), and those with few parts."""
    assert [len(list(partitions(n, n))) for n in range(1, 8)] == [1, 2, 3, 5, 7, 11, 15]
    assert list(partitions(5, 2)) == [[5], [1, 4], [2, 3]]
    for total in (1, 2, 7, 12):
        for most in (1, 2, 3, 20):
            assert count_partitions(total, most) == len(list(partitions(total, most)))
    assert count_partitions(100, 100) == 190_569_292
    with pytest.raises(InputError, match="total_order is 40, with .* ways .*--max-branches"):
        select_orders(Runs.from_gaps(np.arange(1.0, 99.0)), 40)


@pytest.mark.parametrize("criterion", ["bic", "held_out"])
def test_orders_are_found(criterion):
    truth = TransientMAP([0.5, 0.5], [1, 3], [5.0, 1.0], [[0.6, 0.2], [0.2, 0.6]])
    runs = truth.simulate(1500, seed=1)
    found = select_orders(runs, 4, max_branches=2, criterion=criterion, n_starts=3, max_iter=300)
    assert [c.orders for c in found][0] == (1, 3) and len(found) == 3
    assert found[0].n_parameters == 7 and np.diff([c.score for c in found]).min() >= 0.0


def test_zeros_leave_only_orders_that_make_them():
    found = select_orders(random_runs(1, 40, zeros=True), 3, max_branches=2, max_iter=5, space="threads")
    assert [c.orders for c in found] == [(1, 2)]


test_wrong_selections = refusals(
    [
        ({"total_order": 0}, InputError, "total_order is 0"),
        ({"criterion": "dic"}, InputError, "criterion is 'dic'"),
        ({"held_out": 0.0, "criterion": "held_out"}, InputError, "held_out is 0.0"),
        ({"held_out": 1.0, "criterion": "held_out"}, InputError, "at least one run must be held out"),
        ({"runs": None}, DTypeError, "runs must be tmap.Runs"),
    ],
    lambda change: select_orders(**{"runs": RUNS, "total_order": 2} | change),
)
