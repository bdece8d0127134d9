"""Test probabilities over a posterior, parents, families, intensity, residuals: compared with the
NumPy reference and true values."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from portable.models.hawkes import (
    intensity,
    residuals,
    simulate,
    Background,
    Likelihood,
    cluster_sizes,
    intensity_grid,
    parent_probabilities,
    posterior_probabilities,
    sample_posterior,
)
from portable.models.hawkes.triggering import EXPONENTIAL
from portable.errors import DTypeError, InputError, ShapeError

from . import reference
from .events import FEW, PARAMS, prepared
from .test_gradient import TWO, known
from .test_simulate import sure

MARK = 0.0  # mark of an event, if the function needs none


def test_probabilities_over_a_posterior(space):
    locations, times, likelihood = prepared(13, space=space)
    posterior = sample_posterior(
        likelihood, n_chains=2, n_draws=25, n_warmup=1, start=[PARAMS, PARAMS], seed=1
    )
    found = posterior_probabilities(likelihood, posterior, n_draws=50, quantiles=(0.5,), keep=True)
    wanted = [reference.excitation_probabilities(locations, times, p) for p in posterior.thinned(50)]
    assert found.draws.shape == (50, 13)
    assert_allclose(found.draws, wanted, rtol=1e-9, atol=1e-12)
    assert_allclose(found.mean, np.mean(wanted, axis=0), rtol=1e-9, atol=1e-12)
    assert_allclose(found.sd, np.std(wanted, axis=0), atol=1e-8)
    # A median of 50 draws is between two of them; a histogram of 512 bins adds an error of one bin.
    ordered = np.sort(wanted, axis=0)
    assert (found.quantiles[0] >= ordered[23] - 1 / 512).all() and (
        found.quantiles[0] <= ordered[26] + 1 / 512
    ).all()
    assert posterior_probabilities(likelihood, posterior, n_draws=5).draws is None


@pytest.mark.parametrize("params", [PARAMS, TWO], ids=["one scale", "two scales"])
def test_parents(space, params):
    """Rows add up to 1, and to the probabilities of being triggered."""
    locations, times, likelihood = prepared(41, space=space)
    found = parent_probabilities(likelihood, params)
    assert (found.parents < found.children).all() and (times[found.parents] < times[found.children]).all()
    triggered = np.bincount(found.children, found.probabilities, minlength=41)
    # largest mass left out of each row
    assert_allclose(triggered + found.background, 1.0, atol=41e-9)
    assert_allclose(triggered, likelihood.excitation_probabilities(params), atol=41e-9)
    fewer = parent_probabilities(likelihood, params, least=0.01)
    assert 0 < len(fewer.parents) < len(found.parents) and fewer.probabilities.min() >= 0.01


def test_families():
    """Events with certain parents have the families of the simulation."""
    params, likelihood, parents = sure()
    wanted = np.ones(len(parents))
    for child in range(len(parents) - 1, -1, -1):
        if parents[child] >= 0:
            wanted[parents[child]] += wanted[child]
    found = parent_probabilities(likelihood, params)
    sizes = cluster_sizes(found)
    assert sizes.sum() == pytest.approx(wanted.sum(), rel=0.05)
    assert np.abs(sizes - wanted).max() < 1.0 and sizes.min() >= 1.0


def test_intensity(space):
    locations, times, likelihood = prepared(13, space=space)
    mu, xi = reference.rates(locations, times, PARAMS)
    background, excitation = intensity(likelihood, PARAMS, locations, times)
    assert_allclose(background, mu, rtol=1e-12)
    assert_allclose(excitation, xi, rtol=1e-12)
    axes = [np.linspace(-1, 1, 3), np.linspace(0, 1, 2)]
    grid = intensity_grid(likelihood, PARAMS, axes, [times[4]])
    assert grid.shape == (1, 3, 2)
    one = intensity(likelihood, PARAMS, [[axes[0][2], axes[1][1]]], [times[4]])
    assert grid[0, 2, 1] == pytest.approx(one[0][0] + one[1][0])
    with pytest.raises(ShapeError, match=r"locations has shape \(1, 3\); expected \(1, 2\)"):
        intensity(likelihood, PARAMS, [[1.0, 2.0, 3.0]], [1.0])
    with pytest.raises(InputError, match="axes holds 1 axes"):
        intensity_grid(likelihood, PARAMS, axes[:1], [1.0])


def test_residuals_are_the_compensator(space):
    """At the last event the residual is the reference's total expectation; before, its expectation with the
    horizon at that event."""
    locations, times, likelihood = prepared(13, space=space)
    found = residuals(likelihood, PARAMS)
    assert found.rescaled[-1] == pytest.approx(reference.expected_counts(times, PARAMS).sum(), rel=1e-12)
    middle = reference.expected_counts(times[:7], PARAMS, times[6]).sum()
    ahead = sum(
        PARAMS.mu0 * np.diff(reference.ndtr([-(t - times[0]) / 20.0, (times[6] - t) / 20.0]))[0]
        for t in times[7:]
    )
    assert found.rescaled[6] == pytest.approx(middle + ahead, rel=1e-9)
    assert len(found.gaps) == 12
    few = residuals(Likelihood(locations[:3], times[:3], space=space), PARAMS)
    assert len(few.gaps) == 2 and np.isnan(few.correlation)


def test_residuals_tell_right_from_wrong():
    """The true model is not rejected (p > 0.001, a false alarm of one in a thousand), one without excitation
    is."""
    truth, times, likelihood = known()
    right = residuals(likelihood, truth)
    wrong = residuals(likelihood, replace(truth, mu0=len(times) / 400.0, theta=1e-9))
    assert right.p_value > 1e-3 and abs(right.correlation) < 4 / len(times) ** 0.5
    assert wrong.p_value < 1e-12
    places, background = likelihood.sums.locations, Background(likelihood.background.density, 400.0)
    given = Likelihood(places, times, background=background, space="serial")
    with pytest.raises(InputError, match="its background has no mass_until"):
        residuals(given, truth)


def test_delays_and_displacements_of_two_scales():
    """Means are within five standard errors of their expectations; hardly any offspring come after the
    horizon."""
    made = simulate(TWO, n_immigrants=400.0, horizon_h=4000.0, box_km=((0.0, 10.0),), seed=21)
    child = np.flatnonzero(made.parents >= 0)
    delays = made.times[child] - made.times[made.parents[child]]
    shifts = made.locations[child, 0] - made.locations[made.parents[child], 0]
    rates, weights = np.array([TWO.omega_1, TWO.omega_2]), np.array([1.0, TWO.weight_2])
    slow = weights / weights.sum() @ np.exp(-rates)
    for found, mean in (
        (delays, weights / weights.sum() @ (1.0 / rates)),
        (delays > 1.0, slow),
        (shifts**2, TWO.h**2),
    ):
        assert abs(found.mean() - mean) < 5 * found.std() / len(child) ** 0.5


@pytest.mark.parametrize(
    "trigger, p", [(EXPONENTIAL, (0.5, 0.4)), (TWO.triggering, TWO.trigger_values)], ids=["one", "two"]
)
def test_triggering_functions_keep_their_contract(trigger, p):
    """value <= exp(-exponent) <= 1; density of delays = derivative of integral; gradients are derivatives of
    logarithms."""
    for r2, dt in ((0.0, 0.1), (0.3, 2.0), (1.0, 9.0)):
        q = trigger.for_kernels(p)
        value = trigger.value(r2, dt, MARK, q)
        assert 0.0 < value <= np.exp(-trigger.exponent(r2, dt, MARK, q)) * (1 + 1e-12)
        step = 1e-5
        slope = (trigger.integral(dt + step, MARK, q) - trigger.integral(dt - step, MARK, q)) / (2 * step)
        assert trigger.scale(0, q) * trigger.value(0.0, dt, MARK, q) == pytest.approx(slope, rel=1e-6)
        moments, out, integral_out = np.zeros(1 + len(p)), np.zeros(len(p)), np.zeros(len(p))
        trigger.moments(r2, dt, MARK, q, moments)
        trigger.slopes(2, moments, q, out)
        trigger.integral_gradient(dt, MARK, q, integral_out)
        assert moments[0] == pytest.approx(value)
        for k in range(len(p)):
            up, down = (
                trigger.for_kernels([v * np.exp(s * step * (j == k)) for j, v in enumerate(p)])
                for s in (1, -1)
            )
            whole = [trigger.scale(2, a) * trigger.value(r2, dt, MARK, a) for a in (up, down)]
            assert out[k] == pytest.approx(
                (whole[0] - whole[1]) / (2 * step) / trigger.scale(2, q), rel=1e-5, abs=1e-7
            )
            ends = [trigger.integral(dt, MARK, a) for a in (up, down)]
            assert integral_out[k] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-8)


def test_wrong_calls():
    with pytest.raises(DTypeError, match="posterior must be hawkes.Posterior, got float"):
        posterior_probabilities(FEW, 1.0)
    with pytest.raises(DTypeError, match="parents must come from parent_probabilities"):
        cluster_sizes([1.0])
    with pytest.raises(InputError, match="least is 0; expected more than 0.0"):
        parent_probabilities(FEW, PARAMS, least=0)
