"""Events in time alone: against the double sum, with ties and over the edges of blocks; found again; as many
as a catalogue holds."""

import numpy as np
import pytest

from portable.models.hawkes import TemporalLikelihood
from portable.errors import InputError, OrderError, ShapeError


def double_sum(times, mu, theta, omega, horizon):
    t, horizon = times - times[0], horizon - times[0]
    dt = t[:, None] - t[None]
    a = np.where(dt > 0.0, np.exp(-omega * np.maximum(dt, 0.0)), 0.0).sum(axis=1)
    return float(
        np.log(mu + theta * omega * a).sum()
        - mu * horizon
        - theta * (1.0 - np.exp(-omega * (horizon - t))).sum()
    )


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 300])
def test_the_double_sum(space, n):
    """Whole hours: a third of the events share a time with another, also where blocks of 64 meet."""
    times = 7.0 + np.sort(np.round(np.random.default_rng(n).uniform(0.0, n, n)))
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
    """A branching process in time; each parameter within four standard errors."""
    random, times = np.random.default_rng(5), []
    young = random.uniform(0.0, 20_000.0, random.poisson(4_000))
    while young.size:
        times.append(young)
        parent = np.repeat(young, random.poisson(0.5, young.size))
        young = parent + random.exponential(1.0 / 1.5, parent.size)
        young = young[young <= 20_000.0]
    times = np.sort(np.concatenate(times))
    found = TemporalLikelihood(times, horizon_h=20_000.0, space="threads").fit()
    assert found.converged and found.aic == pytest.approx(6.0 - 2.0 * found.log_likelihood)
    for name, truth in (("mu", 0.2), ("theta", 0.5), ("omega", 1.5)):
        assert abs(getattr(found, name) - truth) < 4.0 * found.standard_errors[name], name


def test_wrong_calls():
    with pytest.raises(OrderError, match=r"times must ascend, but times\[1\] = 1.0 follows"):
        TemporalLikelihood([2.0, 1.0])
    with pytest.raises(ShapeError, match="times is empty"):
        TemporalLikelihood([])
    with pytest.raises(InputError, match="omega is 0"):
        TemporalLikelihood([1.0, 2.0]).log_likelihood(1.0, 1.0, 0.0)
    with pytest.raises(InputError, match="times span no time"):
        TemporalLikelihood([1.0]).fit()
