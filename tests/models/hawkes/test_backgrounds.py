"""Test backgrounds fitted in turns: densities that integrate to 1, recovery of parameters, and clusters that
the paper's background absorbs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from portable.models import hawkes
from portable.models.hawkes import calibration, fit_background
from portable.models.hawkes.calibration import CLUSTERS, coverage
from portable.models.hawkes.scores import pointwise
from portable.errors import InputError, ShapeError

from ...refusals import refusals
from .events import NINE, random_events, squares

BOX = ((0.0, 10.0), (0.0, 10.0))


def made(clusters="slow", seed=1, n=250.0):
    return hawkes.simulate(CLUSTERS[clusters], n_immigrants=n, horizon_h=8766.0, box_km=BOX, seed=seed)


@pytest.mark.parametrize("kind, periods", [("constant", None), ("piecewise", 3), ("declustered", 2)])
def test_a_background_is_a_density(kind, periods):
    events = made("fast", n=60.0)
    found = fit_background(*events[:2], kind, box_km=BOX, n_periods=periods, horizon_h=8766.0, space="serial")
    axis = np.linspace(0.0, 10.0, 81)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    side = np.full(81, 0.125)
    side[[0, -1]] *= 0.5
    cells, begin, n = np.outer(side, side).ravel(), events.times[0], len(events.times)
    # one time in each period
    times = (
        (begin + 1.0, 8765.0)
        if kind == "declustered"
        else begin + np.array([0.2, 0.5, 0.8]) * (8766.0 - begin)
    )
    masses = [float(cells @ found.background.at(grid, np.full(len(grid), t))) for t in times]
    close = 0.01 if kind == "declustered" else 1e-9
    assert np.mean(masses) * (8766.0 - begin) == pytest.approx(n, rel=close)
    assert found.background.mass_until[-1] <= found.background.mass + 1e-9
    drawn = found.background.draw(np.random.default_rng(1), 1.0, begin, 8766.0)
    assert abs(len(drawn[1]) - n) < 5.0 * n**0.5 and ((drawn[0] >= 0.0) & (drawn[0] <= 10.0)).all()
    assert pointwise(found.likelihood, found.fit.params).sum() == pytest.approx(
        found.fit.log_likelihood, rel=1e-12
    )


def test_the_density_leaves_the_event_out(space):
    """Compare with NumPy."""
    locations, times = random_events(13)
    found = fit_background(locations, times, "declustered", bandwidth_km=0.7, max_iter=1, space=space)
    low, high = locations.min(axis=0), locations.max(axis=0)
    mass = np.prod(stats.norm.cdf((high - locations) / 0.7) - stats.norm.cdf((low - locations) / 0.7), axis=1)
    r2 = squares(locations)
    kernel = np.exp(-0.5 * r2 / 0.49) / (2.0 * np.pi * 0.49) / mass[None]
    np.fill_diagonal(kernel, 0.0)
    np.testing.assert_allclose(
        found.background.density, 13 * kernel.sum(axis=1) / 12 / (times[-1] - times[0]), rtol=1e-10
    )


def test_slow_clusters_are_not_eaten():
    """With delays of five days at 500 m the kernel density over all events absorbs the clusters; other
    backgrounds do not."""
    events, truth = made(), CLUSTERS["slow"]
    paper = hawkes.fit(
        hawkes.Likelihood(*events[:2], horizon_h=8766.0, space="threads"),
        start=hawkes.Parameters(0.5, 1.6, 336.0, 0.3, 0.01, 0.5),
    )
    assert paper.interval("theta")[1] < truth.theta
    for kind in ("constant", "piecewise", "declustered"):
        found = fit_background(*events[:2], kind, box_km=BOX, horizon_h=8766.0, space="threads")
        assert found.converged
        for name in ("theta", "omega", "h"):
            k = found.fit.free.index(name)
            off = np.log(getattr(found.fit.params, name) / getattr(truth, name))
            assert abs(off) < 4.0 * found.fit.log_covariance[k, k] ** 0.5, (kind, name)
        assert found.fit.params.mu0 == pytest.approx((events.parents < 0).mean(), abs=0.1)


def test_a_rate_that_changes_is_found():
    def late(random, n):
        return random.uniform(0.0, 10.0, (n, 2)), 8766.0 * np.where(
            random.random(n) < 0.8, 0.5, 0.0
        ) + random.uniform(0, 4383.0, n)

    events = hawkes.simulate(
        CLUSTERS["fast"], n_immigrants=300.0, horizon_h=8766.0, box_km=BOX, immigrants=late, seed=2
    )
    found = fit_background(
        *events[:2],
        "piecewise",
        n_periods=2,
        box_km=BOX,
        horizon_h=8766.0,
        space="threads",
    )
    assert found.rates_per_h[1] / found.rates_per_h[0] == pytest.approx(4.0, rel=0.35)
    assert found.rates_per_h.mean() * 8766.0 == pytest.approx(300.0, rel=0.2)


def test_a_background_follows_the_hour_and_a_grid():
    """Coefficients are within four standard errors, and the rate is their exponential."""
    varied, table = calibration._varied, calibration._DAYS
    events = hawkes.simulate(CLUSTERS["fast"], n_immigrants=400.0, horizon_h=8766.0, immigrants=varied)
    how = {"covariates": table, "horizon_h": 8766.0}
    found = fit_background(*events[:2], "constant", grid=calibration._GRID, box_km=BOX, **how)
    b, errors = found.coefficients
    assert (np.abs(b - calibration._B) < 4.0 * errors).all() and errors.max() < 0.2
    noon, midnight = found.background.at(np.full((2, 2), 5.0), np.array([36.5, 24.5]))
    assert np.log(noon / midnight) == pytest.approx((table.values[36] - table.values[24]) @ b[:2])
    drawn = found.background.draw(np.random.default_rng(1), 9.0, 0.0, 8766.0)[0]
    assert (drawn < 5.0).mean() == pytest.approx(0.8, abs=0.05)
    with pytest.raises(InputError, match="leave out n_periods"):
        fit_background(*events[:2], n_periods=3, **how)
    values, units = np.random.default_rng(1).random((9, 3)) * [1.0, 1.0, 0.0], np.array([1e9, 1e-9, 1.0])
    found = []
    for unit in (1.0, units):
        table = hawkes.Covariates(100.0 * np.arange(10.0), values * unit)
        made = fit_background(*NINE, "constant", covariates=table, horizon_h=900.0)
        found.append(made.coefficients * unit)
    assert_allclose(*found, rtol=1e-6)
    assert found[0][1, 2] == np.inf  # the third covariate is constant
    late = hawkes.Covariates([0.0, 400.0, 900.0], [[0.0], [1.0]])  # nothing comes after 400 hours
    silent = fit_background(*NINE, "constant", covariates=late, horizon_h=900.0)
    assert silent.coefficients[0] < -9.0


def test_coverage_runs():
    """Run three sets of each background: the command takes 200."""
    found = coverage("constant", "fast", n_sets=3, space="threads")
    assert [one.what.partition(" = ")[0] for one in found] == ["theta", "omega", "h"]
    assert float(found[1].what.partition("mean ")[2].rstrip(")")) == pytest.approx(5.0, rel=0.3)
    assert all(one.share in (0.0, 1 / 3, 2 / 3, 1.0) and not one.judged for one in found)


WRONG = [
    (
        lambda: fit_background(*NINE, "flat"),
        InputError,
        "kind is 'flat'; expected one of 'constant', 'piecewise', 'declustered'",
    ),
    (
        lambda: fit_background(*NINE, "constant", n_periods=3),
        InputError,
        "n_periods is for 'piecewise' and 'declustered'",
    ),
    (
        lambda: fit_background(*NINE, box_km=((0.0, 1.0),)),
        ShapeError,
        r"box_km has shape \(1, 2\); expected a pair low < high for each of 2",
    ),
    (lambda: fit_background(*NINE, box_km=((50.0, 51.0),) * 2), InputError, "box_km holds no event"),
    (lambda: fit_background(0 * NINE[0], NINE[1]), InputError, "locations have no extent"),
    (lambda: fit_background(*NINE, grid=calibration._GRID), InputError, "grid needs edges for each dim"),
    (lambda: fit_background(*NINE, "constant", grid=calibration._GRID), InputError, "grid must cover"),
    (lambda: fit_background(*NINE, covariates=calibration._GRID), InputError, "covariates is a grid"),
]


test_wrong_calls = refusals(WRONG)
