"""Test events in time only: compared with the double sum, with ties and over the edges of blocks; parameters
recovered; as many events as a catalogue has."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from portable.models import hawkes
from portable.models.hawkes import TemporalFit, TemporalLikelihood
from portable.errors import DTypeError, InputError, OrderError, ShapeError

from . import test_mutual as several


def double_sum(times, mu, theta, omega, horizon):
    params = 1.0, np.array([mu]), np.array([[[theta]]]), [omega], *np.empty((2, 1, 0))
    return several.double_sum(
        times, np.zeros(len(times), int), np.empty((len(times), 0)), *params, times[0], horizon
    )


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 600])
def test_the_double_sum(space, n):
    """Times are whole hours: a third of the events share a time with another, also where blocks of 256
    meet."""
    times = 7.0 + np.sort(np.round(default_rng(n).uniform(0.0, n, n)))
    likelihood = TemporalLikelihood(times, horizon_h=float(times[-1]) + 3.0, space=space)
    at = 0.5, 0.4, 0.7
    value, slopes = likelihood.gradient(*at)
    wanted = double_sum(times, *at, times[-1] + 3.0)
    assert value == pytest.approx(wanted, rel=1e-12) and likelihood.log_likelihood(*at) == pytest.approx(
        wanted, rel=1e-12
    )
    for k in range(3):
        up, down = (
            double_sum(times, *[v + s * (j == k) for j, v in enumerate(at)], times[-1] + 3.0)
            for s in (1e-5, -1e-5)
        )
        assert slopes[k] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6)


def test_found_again():
    """Simulate a branching process in time, and recover each parameter within four standard errors."""
    times = hawkes.simulate_mutual(hawkes.Mutual([0.2], [[0.5]], 1.5), 20_000.0, seed=5).times
    found = TemporalLikelihood(times, horizon_h=20_000.0, space="threads").fit()
    assert found.converged and found.aic == pytest.approx(6.0 - 2.0 * found.log_likelihood)
    for name, truth in (("mu", 0.2), ("theta", 0.5), ("omega", 1.5)):
        assert abs(getattr(found, name) - truth) < 4.0 * found.standard_errors[name], name


def test_residuals_intensity_and_forecast(space):
    """Compare a type that excites itself: the same likelihood, sums over earlier events, the mean of
    simulated futures.
    """
    random = default_rng(8)
    times = 100.0 + np.sort(np.round(random.uniform(0.0, 300.0, 200), 1))
    one = TemporalLikelihood(times, horizon_h=400.0, space=space)
    found = TemporalFit(0.4, 0.3, 0.5, 0.0, {}, True)
    at = found.mu, found.theta, found.omega
    assert one.mutual.log_likelihood(found.params) == pytest.approx(one.log_likelihood(*at), rel=1e-12)
    asked = np.array([250.0, times[20], 99.0, 410.0])
    dt = asked[:, None] - times
    wanted = 0.4 + 0.15 * np.where(dt > 0.0, np.exp(-0.5 * np.maximum(dt, 0.0)), 0.0).sum(axis=1)
    assert_allclose(one.intensity(found, asked), wanted, rtol=1e-12)
    rescaled = one.residuals(found).rescaled
    dt = np.maximum(times[:, None] - times, 0.0)
    wanted = 0.4 * (times - times[0]) + 0.3 * (1.0 - np.exp(-0.5 * dt)).sum(axis=1)
    assert_allclose(rescaled, wanted, rtol=1e-10, atol=1e-10)
    ahead = one.forecast(found, 50.0, n_draws=400, seed=1)
    left = np.exp(
        -0.5 * (400.0 - times)
    ).sum()  # the mean solves a linear equation; its decay is omega (1 - theta)
    rest = (1.0 - np.exp(-0.35 * 50.0)) / 0.35
    mean = 0.4 / 0.7 * 50.0 + (0.15 * left - 0.4 * 0.3 / 0.7) * rest
    assert abs(ahead.mean - mean) < 4.0 * ahead.counts.std() / 20.0
    assert ahead.begin_h == 400.0 and all((t >= 400.0).all() and (t <= 450.0).all() for t in ahead.times)
    assert (
        ahead.locations[0].shape == (ahead.counts[0], 0)
        and hawkes.score_forecast(ahead, [401.0]).n_events == 1
    )


def test_wrong_calls():
    with pytest.raises(OrderError, match=r"times must ascend, but times\[1\] = 1.0 follows"):
        TemporalLikelihood([2.0, 1.0])
    with pytest.raises(ShapeError, match="times is empty"):
        TemporalLikelihood([])
    with pytest.raises(InputError, match="omega is 0"):
        TemporalLikelihood([1.0, 2.0]).log_likelihood(1.0, 1.0, 0.0)
    with pytest.raises(InputError, match="times are all equal"):
        TemporalLikelihood([1.0] * 3).fit()
    with pytest.raises(InputError, match="the record has 2 events; expected at least 3"):
        TemporalLikelihood([1.0, 2.0]).fit()
    with pytest.raises(DTypeError, match="times holds dates; expected hours"):
        TemporalLikelihood(["2026-01-31T12:30", "2026-02-01T12:30"])
