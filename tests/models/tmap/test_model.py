"""Test the process: its branch formulas compared with the stage matrices, and simulated runs with both."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from portable.errors import InputError, ShapeError
from portable.models.tmap import Runs, TransientMAP

from . import reference
from .problems import MODEL, random_model

MODELS = [MODEL, random_model(1, [1]), random_model(2, [4, 1]), random_model(3, [1, 1, 2, 5])]
models = pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.orders.tolist()))


@models
def test_every_event_is_counted(model):
    """(-D0)^-1 (D1 1 + d) = 1: after any stage an event comes, and the run continues or ends."""
    d0, d1, d, start = model.matrices()
    assert_allclose(np.linalg.solve(-d0, d1.sum(axis=1) + d), 1.0, rtol=1e-12)
    assert start.sum() == pytest.approx(1.0, rel=1e-12)


@models
@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_moments_of_a_gap(model, k, power):
    assert model.gap_moment(k, power) == pytest.approx(reference.gap_moment(model, k, power), rel=1e-12)


@models
def test_number_of_arrivals(model):
    """Mean and variance are compared with those of the distribution, whose tail beyond 1,000 gaps is below
    1e-40.
    """
    n = np.arange(1, 1001)
    p = model.arrivals_distribution(1000)
    assert p.sum() == pytest.approx(1.0, rel=1e-12)
    assert model.mean_arrivals() == pytest.approx(p @ n, rel=1e-12)
    assert model.variance_arrivals() == pytest.approx(p @ n**2 - (p @ n) ** 2, rel=1e-12)


@models
@pytest.mark.parametrize("lag", [1, 3])
def test_correlation(model, lag):
    """Compute it from the stage matrices: gaps k and k + lag, summed over k."""
    d0, d1, _, start = model.matrices()
    inverse = np.linalg.inv(-d0)
    step = inverse @ d1
    row = np.linalg.solve((np.eye(len(step)) - step).T, start)
    later = np.linalg.matrix_power(step, lag - 1)
    one = np.ones(len(step))
    pairs = row @ step @ later @ one
    powers = inverse, 2.0 * inverse @ inverse
    early = [row @ power @ step @ later @ one / pairs for power in powers]
    late = [row @ step @ later @ power @ one / pairs for power in powers]
    product = row @ inverse @ step @ later @ inverse @ one / pairs
    wanted = (product - early[0] * late[0]) / np.sqrt((early[1] - early[0] ** 2) * (late[1] - late[0] ** 2))
    assert model.lag_correlation(lag) == pytest.approx(wanted, rel=1e-12, abs=1e-13)


def test_mean_gap_of_one_branch():
    model = TransientMAP([1.0], [3], [2.0], [[0.5]])
    assert model.mean_gap() == pytest.approx(1.5) and model.mean_arrivals() == pytest.approx(2.0)
    assert model.variance_arrivals() == pytest.approx(2.0)  # geometric: (1 - p) / p^2


def test_simulated_moments(space):
    """Compare means with their expectations at five standard errors: one false alarm in 1.7 million each."""
    n_runs = 200 if space == "checked" else 20_000
    runs = MODEL.simulate(n_runs, seed=11, space=space)
    assert abs(runs.lengths.mean() - MODEL.mean_arrivals()) < 5 * (MODEL.variance_arrivals() / n_runs) ** 0.5
    first = runs.values[np.cumsum(runs.lengths) - runs.lengths]
    mean, square = MODEL.gap_moment(1), MODEL.gap_moment(1, 2)
    assert abs(first.mean() - mean) < 5 * ((square - mean**2) / n_runs) ** 0.5


def test_simulated_correlation():
    """Estimate a correlation of 0.3 from 100,000 pairs, whose heavy-tailed products have an error well below
    0.03.
    """
    runs = MODEL.simulate(20_000, seed=2)
    pairs = np.ones(runs.n_gaps, bool)
    pairs[np.cumsum(runs.lengths) - 1] = False
    early = np.flatnonzero(pairs)
    found = np.corrcoef(runs.values[early], runs.values[early + 1])[0, 1]
    assert found == pytest.approx(MODEL.lag_correlation(), abs=0.03) and found > 0.2


def test_equal_seeds_give_equal_runs(space):
    """Random numbers have the same bits everywhere; so have their sums, divided by a rate."""
    here, serial = MODEL.simulate(50, seed=5, space=space), MODEL.simulate(50, seed=5)
    assert_array_equal(here.lengths, serial.lengths)
    assert_allclose(here.values, serial.values, rtol=1e-14)
    assert not np.array_equal(serial.lengths, MODEL.simulate(50, seed=6).lengths)


def test_lists_are_runs():
    runs = Runs.from_lists([[1, 2.5], [0.0], [3, 4, 5]])
    assert runs.n_runs == 3 and runs.n_gaps == 6
    assert_array_equal(runs.values, [1, 2.5, 0, 3, 4, 5])
    assert_array_equal(runs.lengths, [2, 1, 3])


@pytest.mark.parametrize(
    "variance, correlation", [(9.0, 0.1), (9.0, 0.0), (4.0, 0.0), (2.3, 0.0), (0.5, 0.0)]
)
def test_from_moments(variance, correlation):
    model = TransientMAP.from_moments(2.0, variance, mean_arrivals=5.0, correlation=correlation)
    found = model.mean_gap(), model.gap_moment(1, 2) - 4.0, model.mean_arrivals(), model.lag_correlation()
    assert found == pytest.approx((2.0, variance, 5.0, correlation), abs=1e-12)


def test_matrices_out_and_in():
    model = TransientMAP([0.3, 0.7], [2, 3], [1.5, 4.0], [[0.2, 0.5], [0.4, 0.1]])
    d0, d1, _, start = model.matrices()
    again = TransientMAP.from_matrices(d0, d1, start)
    for name in "alpha orders rates switching".split():
        assert_allclose(getattr(again, name), getattr(model, name), rtol=1e-15)
    d1[0, 0] = 0.1
    with pytest.raises(InputError, match="d1 is not that of Erlang branches"):
        TransientMAP.from_matrices(d0, d1, start)
    with pytest.raises(ShapeError, match="d0, d1 and start have shapes"):
        TransientMAP.from_matrices(d0, d1[:2], start)
    with pytest.raises(InputError, match="correlation is 0.9; expected 0 to 0.2"):
        TransientMAP.from_moments(2.0, 9.0, mean_arrivals=5.0, correlation=0.9)
