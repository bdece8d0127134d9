"""Test significance: the level of the test of no triggering, its statistic, intervals that reach 0, refusals
and notes."""

import functools
import math

import numpy as np
import pytest
from numpy.random import default_rng

from portable.models import hawkes
from portable.models.hawkes import (
    Likelihood,
    TemporalLikelihood,
    fit,
    fit_background,
    triggering_test,
)
from portable.models.hawkes.calibration import _TOWN_KM, _TOWNS, SHAPES
from portable.errors import InputError

from .events import PARAMS, squares

TRUTH = hawkes.Parameters(1.0, 1.6, 336.0, theta=0.3, omega=0.1, h=0.1)
YEAR = 8766.0


def even(seed, n=300):
    random = default_rng(seed)
    return random.uniform(0.0, 10.0, (n, 2)), np.sort(random.uniform(0.0, YEAR, n))


def triggered(seed, n=210.0):
    return hawkes.simulate(TRUTH, n_immigrants=n, horizon_h=YEAR, seed=seed)


def drawn(shape, seed, n):
    places, times = SHAPES[shape](default_rng(seed), n)
    order = np.argsort(times)
    return places[order], times[order]


@pytest.mark.parametrize("shape", list(SHAPES))
def test_level(shape):
    """Draw 120 sets without triggering: a correct test of 5 % rejects more than 16 of them once in 20,000
    times.
    """
    how = {"n_simulations": 39, "space": "threads"}
    sets = (drawn(shape, [5, k], 70) for k in range(120))
    p_values = np.array([triggering_test(*one, seed=k, **how).p_value for k, one in enumerate(sets)])
    assert (p_values <= 0.05).sum() <= 16
    assert 0.35 < p_values.mean() < 0.67  # uniform over 1/40, 2/40, ..., 1


def test_triggering_is_found():
    for seed in range(3):
        assert triggering_test(*triggered(seed)[:2], space="threads").p_value == 1 / 200


def test_the_statistic_by_numpy(space):
    """Compute q and the best share of one grid point, for the events and a draw."""
    from portable.models.hawkes import significance

    locations, times = even(3, 40)
    tables = significance._Tables(locations, times)
    shares, roots = tables.gains(default_rng(1), 3)
    random = default_rng(1)
    orders = np.tile(np.arange(40), (4, 1))
    orders[1:] = random.permuted(np.tile(np.arange(40, dtype=np.int32), (4, 1))[1:], axis=1)
    x, t = locations - locations.mean(axis=0), times
    for draw, (w, k) in ((0, (0, 0)), (2, (1, 1)), (3, (2, 0))):
        omega, h = tables.omega[w], tables.h[k]
        places = x[orders[draw]]
        r2 = squares(places)
        dt = t[:, None] - t[None]
        xi = np.where(
            dt > 0.0, omega * np.exp(-omega * dt) * np.exp(-0.5 * r2 / h**2) / (2 * np.pi * h**2), 0.0
        ).sum(axis=1)
        offspring = (1.0 - np.exp(-omega * (t[-1] - t))).sum()
        q = xi / offspring / (tables.f[orders[draw]] * tables.g)
        s = np.concatenate([[0.0], np.geomspace(1e-5, 1.0, 4000)[:-1]])
        gains = np.log1p(s[:, None] * (q - 1.0)).sum(axis=1)
        cell = w * significance._N_H + k
        assert roots[cell, draw] == pytest.approx(math.sqrt(2.0 * max(gains.max(), 0.0)), abs=0.01)
        if gains.max() > 0.1:
            assert shares[cell, draw] == pytest.approx(s[gains.argmax()], rel=0.02)


def test_noise_has_no_theta():
    places, times = even(12)
    paper = fit(Likelihood(places, times, space="threads"))
    turns = fit_background(places, times, space="threads").fit
    box = fit_background(places, times, "constant", space="threads").fit
    for found in (paper, turns, box):
        low, high = found.interval("theta")
        assert low == 0.0 and found.params.theta <= high < 1.5
        assert found.notes[0].startswith("no evidence of triggering: in ")
        thetas, below = found.profile
        assert (below >= 0.0).all() and thetas[0] == 0.0 and below.min() == 0.0
    assert fit(Likelihood(places, times, space="threads"), n_simulations=0).test is None


def test_the_default_finds_what_was_simulated():
    made = triggered(1, 420.0)
    found = fit_background(*made[:2], horizon_h=YEAR, space="threads").fit
    assert found.converged and not found.notes and found.test.rejects()
    for name in ("theta", "omega", "h"):
        low, high = found.interval(name, 0.999)
        assert low < getattr(TRUTH, name) < high


def test_towns_have_narrow_kernels():
    """With half of the events in two towns, kernels there are narrower, and the density is the true one."""
    places, times = drawn("two towns", 2, 800)
    found = fit_background(places, times, n_simulations=0, max_iter=2, space="threads")
    town = fit_background(places, times, bandwidth_km=1.5, n_simulations=0, max_iter=2, space="threads")

    def law(at):
        even = np.full(len(at), 0.5 / 100.0)
        for centre in _TOWNS:
            r2 = ((at - centre) ** 2).sum(axis=1)
            even += 0.25 * np.exp(-0.5 * r2 / _TOWN_KM**2) / (2 * np.pi * _TOWN_KM**2)
        return even

    span = times[-1] - times[0]
    errors = [
        np.abs(np.log(one.background.density * span / 800 / law(places))).mean() for one in (found, town)
    ]
    assert errors[0] < 0.45 < errors[1]


def test_seasons_are_found():
    found = fit_background(*drawn("season", 4, 900), n_simulations=0, max_iter=2, space="threads")
    assert len(found.rates_per_h) >= 6
    assert len(fit_background(*even(5), n_simulations=0, max_iter=2).rates_per_h) == 1


def test_repeated_places_are_refused_by_fits_and_samplers():
    random = default_rng(0)
    lattice = np.column_stack([0.3 * random.integers(0, 10, 300), np.zeros(300)])
    times = np.sort(random.uniform(0.0, YEAR, 300))
    for call in (fit, hawkes.sample_posterior):
        with pytest.raises(InputError, match="there are 10 distinct places.*reflect only that places repeat"):
            call(Likelihood(lattice, times, space="threads"))
        with pytest.raises(InputError, match="all 300 events have the same place.*TemporalLikelihood"):
            call(Likelihood(np.zeros((300, 1)), times, space="threads"))
    assert triggering_test(lattice, times, space="threads").p_value > 0.01
    assert triggering_test(np.zeros((300, 1)), times, space="threads").p_value == 1.0


@pytest.mark.parametrize("unit, words", [(1.0, "to the hour, and"), (24.0, "to the day, and")])
def test_coarse_times_are_noted(unit, words):
    made = hawkes.simulate(
        hawkes.Parameters(1.0, 1.6, 336.0, 0.5, 2.0, 0.1), n_immigrants=250.0, horizon_h=YEAR, seed=3
    )
    coarse = unit * np.floor(made.times / unit)
    likelihood = Likelihood(made.locations, coarse, space="threads")
    assert any(words in note for note in hawkes.notes(likelihood, TRUTH, n_simulations=0))
    fine = Likelihood(*made[:2], space="threads")
    assert not hawkes.notes(fine, TRUTH, n_simulations=0)
    dates = np.datetime64("2026") + coarse.astype("m8[h]")
    table = dict(zip(("x_km", "y_km", "t_hours"), (*made.locations.T, dates)))
    spread = hawkes.read_catalogue(table, spread_h=unit, end="2028-01-01")
    assert spread.dates(spread.horizon_h) == np.datetime64("2028")
    assert (spread.dates(spread.times) - dates[spread.rows]).max() > 0.9 * np.timedelta64(int(unit), "h")
    thetas = [
        fit(one, start=TRUTH, n_simulations=0).params.theta
        for one in (fine, likelihood, spread.likelihood(space="threads"))
    ]
    assert thetas[1] < 0.7 * thetas[0] and thetas[2] == pytest.approx(thetas[0], rel=0.1)


def test_events_reported_twice_are_noted():
    places, times = even(6, 400)
    random = default_rng(1)
    again = random.choice(400, 20, replace=False)
    near = np.concatenate([places, places[again] + random.normal(0.0, 0.015, (20, 2))])
    soon = np.concatenate([times, times[again] + random.exponential(1.0 / 60.0, 20)])
    order = np.argsort(soon)
    found = fit_background(near[order], soon[order], space="threads").fit
    assert any("reported twice look like this" in note for note in found.notes)
    same = np.append(np.arange(400), again)
    same = same[np.argsort(times[same], kind="stable")]
    likelihood = Likelihood(places[same], times[same])
    assert "20 events have place and time of an earlier one" in " ".join(
        hawkes.notes(likelihood, TRUTH, n_simulations=0)
    )


def test_criteria_of_other_backgrounds_are_not_compared():
    places, times = even(7, 120)
    paper = fit(Likelihood(places, times, space="threads"), n_simulations=0)
    turns = fit_background(places, times, "constant", n_simulations=0, space="threads")
    same = fit(turns.likelihood, n_simulations=0)
    assert abs(same.aic - turns.fit.aic) < 10.0 and min(same.aic, turns.fit.aic) > 0.0
    for compare in (
        lambda: paper.aic < turns.fit.aic,
        lambda: paper.aic + 3.0 >= turns.fit.aic,
        lambda: paper.aic - turns.fit.aic,
        lambda: min(paper.aic, turns.fit.aic),
        lambda: turns.fit.aic - 2.0 > paper.aic,
        lambda: sorted([paper.aic, turns.fit.aic]),
    ):
        with pytest.raises(InputError, match="same background.*triggering_test"):
            compare()
    assert f"{paper.aic:.3f}" == f"{float(paper.aic):.3f}" and paper.aic > 0.0


def test_few_events_say_nothing():
    for n in (1, 2):
        places, times = np.arange(2.0 * n).reshape(n, 2), np.arange(n)
        few = (Likelihood(places, times),)
        for call, given in (
            (fit, few),
            (hawkes.sample_posterior, few),
            (fit_background, (places, times)),
        ):
            with pytest.raises(InputError, match=f"the record has {n} event.*; expected at least 3"):
                call(*given)
    at_once = Likelihood(np.arange(6.0).reshape(3, 2), np.ones(3))
    check = functools.partial(hawkes.predictive_check, params=PARAMS, n_draws=1)
    for call in (fit, check, functools.partial(hawkes.thinned_residuals, params=PARAMS)):
        with pytest.raises(InputError, match="times are all equal; expected horizon_h"):
            call(at_once)
    assert hawkes.places(np.empty((0, 2))).repeated == 0.0
    three = fit_background([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]], [1.0, 2.0, 3.0], space="threads").fit
    assert three.interval("theta")[0] == 0.0 and not three.test.rejects()


def test_events_in_time_alone():
    random = default_rng(2)
    times = np.sort(random.uniform(0.0, 1000.0, 300))
    found = TemporalLikelihood(times, horizon_h=1000.0, space="threads").fit()
    assert found.interval("theta")[0] == 0.0 and found.interval("theta")[1] < 1.5
    assert found.notes[0].startswith("no evidence of triggering")
    assert found.standard_errors["mu"] == pytest.approx(found.mu / math.sqrt(300), rel=0.3)
    low, high = found.interval("mu")
    assert low < 0.3 < high and high / low < 1.6
    made = triggered(3, 300.0)
    again = TemporalLikelihood(made.times, horizon_h=YEAR, space="threads").fit(n_simulations=0)
    assert again.p_value is None and again.interval("theta")[0] > 0.0
    with pytest.raises(InputError, match="name is 'h'; expected one of 'mu', 'theta', 'omega'"):
        again.interval("h")


def test_level_in_time_alone():
    """Draw 100 sets: more than 14 rejections occur once in 10,000 times."""
    p_values = [
        TemporalLikelihood(np.sort(default_rng(k).uniform(0.0, 1.0, 50)), horizon_h=1.0, space="serial")
        .fit(n_simulations=39)
        .p_value
        for k in range(100)
    ]
    assert (np.array(p_values) <= 0.05).sum() <= 14 and 0.3 < np.mean(p_values) < 0.75


def test_long_records_are_tested_in_stretches(monkeypatch):
    from portable.models.hawkes import significance

    monkeypatch.setattr(significance, "_ROW", 100)
    places, times = even(8, 450)
    found = triggering_test(places, times, n_simulations=19, space="threads")
    assert found.n_tested == 400
    assert triggering_test(*triggered(4, 330.0)[:2], space="threads").p_value == 1 / 200
