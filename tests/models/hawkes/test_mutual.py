"""Test types that excite one another, in time and in space: compared with the double sum and complex steps,
with ties, over blocks, spans and chunks; recovery of parameters; intervals, residuals, Omori's law."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from portable.errors import DTypeError, InputError, OrderError, ShapeError
from portable.models import hawkes
from portable.models.hawkes import (
    Covariates,
    Mutual,
    MutualLikelihood,
    fit_mutual,
    mutual,
    mutual_likelihood,
    mutual_residuals,
    season,
    simulate_mutual,
)
from portable.models.hawkes.__main__ import main
from portable.models.hawkes.calibration import KINDS


EDGES = np.linspace(0.0, 6_000.0, 1_001)  # hours
RAW = default_rng(5).normal(3.0, 1.0, (1_000, 2))
TABLE = Covariates(EDGES, RAW)
X, T = np.array([[1.0, 1.0], [9.0, 1.0], [1.0, 9.0]]), ([1.0, 2.0, 3.0], [0, 0, 0])


def background(mu, b, begin, ends):
    """Return the background of each type at times, and its integral until then."""
    rate = mu * np.exp((RAW - RAW.mean(axis=0))[:, : b.shape[1]] @ b.T)
    hours = np.clip(np.minimum(EDGES[1:], ends[:, None]) - np.maximum(EDGES[:-1], begin), 0.0, None)
    return rate[np.searchsorted(EDGES, ends, side="right") - 1], hours @ rate


def double_sum(times, types, x, density, mu, branching, rates, b, h, start, end):
    """Return the log-likelihood from all pairs, also for complex parameters; h is empty without places."""
    dt, every = times[:, None] - times, np.append(times, end)
    near = np.exp(-0.5 * (((x[:, None] - x) / h.prod()) ** 2).sum(axis=2))
    near = near * (2.0 * np.pi * h.prod() ** 2) ** (-0.5 * x.shape[1])
    rate, until = background(mu, b, start, every)
    rate, expected = rate[np.arange(len(times)), types] * density, until[-1].sum()
    for a, beta in zip(branching, rates):
        decay = near * np.where(dt > 0.0, beta * np.exp(-beta * np.maximum(dt, 0.0)), 0.0)
        rate = rate + (a[types][:, types] * decay).sum(axis=1)
        inside = np.exp(-beta * np.maximum(start - times, 0.0)) - np.exp(-beta * (end - times))
        expected = expected + (a.sum(axis=0)[types] * inside).sum()
    return np.log(rate[times >= start]).sum() - expected


def drawn(n, n_types, n_rates):
    """Draw rounded times, a third of them shared and some filling whole blocks, and parameters."""
    random = default_rng(n)
    times = 7.0 + np.sort(np.round(random.uniform(0.0, n, n), 0 if n < 400 else 1))
    times[n // 2 : n // 2 + n // 10] = times[n // 2]
    params = Mutual(
        random.uniform(0.1, 1.0, n_types),
        random.uniform(0.0, 0.5, (n_rates, n_types, n_types)),
        np.geomspace(0.05, 30.0, n_rates),
        random.normal(0.0, 0.5, (n_types, n_rates - 1)),
    )
    return np.sort(times), random.integers(0, n_types, n), params


@pytest.mark.parametrize(
    "n, n_types, n_rates, n_dims", [(1, 1, 1, 0), (60, 2, 2, 0), (600, 11, 3, 0), (90, 3, 2, 2)]
)
def test_the_double_sum_and_its_slopes(space, n, n_types, n_rates, n_dims, monkeypatch):
    """The third case has chunks of 64 blocks, so that states pass from one to the next. In the last one a
    third of the events are outside of the box, where the background is 1e-12 of that inside.
    """
    monkeypatch.setattr(mutual_likelihood, "ROWS_BYTES", (1, 1))
    monkeypatch.setattr(mutual_likelihood, "_PIECE", (32, 32))
    if space == "checked" and n > 60:
        n = 120
    times, types, params = drawn(n, n_types, n_rates)
    begun = times[n // 3]
    window = {"start_h": begun, "horizon_h": times[-1] + 2.0}
    given = window | {"n_types": n_types, "space": space}
    table = Covariates(EDGES, RAW[:, : n_rates - 1])
    x, density, h = default_rng(1).random((n, n_dims)), np.ones(n), np.array([0.2][:n_dims])
    if n_dims:
        given |= {"locations": x, "box_km": [[0.0, 1.0], [0.0, 0.6]]}
        params = replace(params, h_km=0.2)
        density = np.where(x[:, 1] < 0.6, 1.0, 1e-12) / 0.6
    likelihood = MutualLikelihood(times, types, covariates=table, **given)
    value, slopes = likelihood.gradient(params)
    parts = [params.mu, params.branching, params.rates, params.coefficients, h]
    wanted = double_sum(times, types, x, density, *parts, *window.values())
    assert value == pytest.approx(wanted, rel=1e-13, abs=1e-12)
    assert likelihood.log_likelihood(params) == value
    plain = likelihood.gradient(params, rates=False)[1]
    assert plain.rates is None
    assert_allclose(plain.branching, slopes.branching, rtol=1e-12, atol=1e-11)
    random = default_rng(3)
    for part, got in enumerate(slopes):
        for at in random.choice(got.size, min(got.size, 3), replace=False):
            moved = [one.astype(complex) for one in parts]
            moved[part].ravel()[at] += 1e-30j
            slope = double_sum(times, types, x, density, *moved, *window.values()).imag / 1e-30
            assert got.ravel()[at] == pytest.approx(slope, rel=1e-10, abs=1e-9), (part, at)


TRUTH = Mutual([0.2, 0.1, 0.05], [[0.3, 0.0, 0.2], [0.3, 0.2, 0.0], [0.0, 0.3, 0.1]], 1.5)
VARIED = replace(TRUTH, coefficients=np.array([[0.5, 0.1], [0.1, 0.2], [-0.3, 0.1]]))


@pytest.fixture(scope="module", params=[None, 0.3])
def found(request):
    """Return a record whose first hours are history, in time or with places, the truth, and a fit."""
    truth, end = replace(VARIED, h_km=request.param), 1_200.0 if request.param else 5_000.0
    made = simulate_mutual(truth, end, covariates=TABLE, seed=4)
    given = {"locations": made.locations, "box_km": [[0.0, 10.0]] * 2} if request.param else {}
    labels = np.array(["a", "b", "c"])[made.types]
    given |= {"start_h": 100.0, "horizon_h": end, "covariates": TABLE}
    likelihood = MutualLikelihood(made.times, labels, **given)
    return made, truth, fit_mutual(likelihood)


def test_simulated_as_expected():
    """Numbers of events are within five standard deviations of (1 - A)^-1 mu T; parents are earlier."""
    made = simulate_mutual(TRUTH, 20_000.0, seed=1)
    wanted = np.linalg.solve(np.eye(3) - TRUTH.influence, TRUTH.mu) * 20_000.0
    gain = np.linalg.inv(np.eye(3) - TRUTH.influence)
    spread = np.sqrt(np.diag(gain @ np.diag(wanted) @ gain.T))
    assert (np.abs(np.bincount(made.types) - wanted) < 5.0 * spread).all()
    born = made.parents >= 0
    assert (made.times[made.parents[born]] <= made.times[born]).all()
    pairs = np.zeros((3, 3))
    np.add.at(pairs, (made.types[born], made.types[made.parents[born]]), 1.0)
    assert ((pairs == 0.0) == (TRUTH.influence == 0.0)).all()


def test_found_again(found):
    """Estimates are within four standard errors, with a higher likelihood than the truth; pairs without
    influence reach 0.
    """
    _, truth, fit = found
    likelihood = fit.likelihood
    assert fit.converged and fit.log_likelihood > likelihood.log_likelihood(truth) and fit.notes == ()
    for name in ("mu", "influence", "rates", "coefficients", *["h_km"] * bool(truth.h_km)):
        low, high = fit.interval(name, 0.99994)
        assert np.all((low <= getattr(truth, name)) & (getattr(truth, name) <= high)), name
    slopes = likelihood.gradient(fit.params)[1]
    inside = fit.params.influence > 0.0
    assert (
        np.abs(slopes.branching[0][inside]).max() < 0.5 and slopes.branching[0][~inside].max(initial=0) < 0.5
    )
    strongest = fit.graph(0.999)
    assert {(row["source"], row["target"]) for row in strongest} == {
        *(("a", "a"), ("c", "a"), ("a", "b"), ("b", "b"), ("b", "c"), ("c", "c"))
    }


def test_standard_errors_are_curvatures(found):
    """Standard errors are compared with the gradient's curvature, by differences in all coordinates that are
    not at 0.
    """
    fit = found[2]
    params, h = fit.params, [fit.params.h_km] if fit.params.h_km else []
    x = np.concatenate([params.mu, params.branching.ravel(), params.rates, params.coefficients.ravel(), h])
    free = np.flatnonzero(x)

    def slopes_at(x):
        parts = x[:3], x[3:12].reshape(1, 3, 3), x[12:13], x[13:19].reshape(3, 2)
        value = fit.likelihood.gradient(Mutual(*parts, *x[19:]))[1]
        return np.concatenate([part.ravel() for part in value])[free]

    rows = []
    for a in free:
        step = 1e-5 * x[a] * (np.arange(len(x)) == a)
        rows.append((slopes_at(x - step) - slopes_at(x + step)) / (2e-5 * x[a]))
    errors = np.sqrt(np.diag(np.linalg.inv(rows)))
    z = 0.6744897501960817  # the half-width of an interval of probability 1/2
    names = "mu", "influence", "coefficients"
    ours = [fit.interval(name, 0.5)[1] - getattr(params, name) for name in names]
    ours.insert(2, params.rates * np.log(fit.interval("rates", 0.5)[1] / params.rates))
    ours += [one * np.log(fit.interval("h_km", 0.5)[1] / one) for one in h]
    ours = np.concatenate([np.ravel(part) for part in ours])
    assert_allclose(ours[free] / z, errors, rtol=1e-3)


def test_units_do_not_matter(found):
    """An hour takes 1e-6 units of time, a kilometre 1e3 units of length, and covariates are in units of 1e9
    and 1e-9 of before.
    """
    made, _, fit = found
    units, end = np.array([1e9, 1e-9]), 1e-6 * fit.likelihood.horizon_h
    window = {"start_h": 1e-4, "horizon_h": end, "covariates": Covariates(1e-6 * EDGES, RAW * units)}
    names = {"mu": 1e6, "influence": 1.0, "rates": 1e6, "coefficients": 1.0 / units}
    if fit.params.h_km:
        window |= {"locations": 1e3 * made.locations, "box_km": [[0.0, 1e4]] * 2}
        names["h_km"] = 1e3
    again = fit_mutual(MutualLikelihood(1e-6 * made.times, made.types, **window))
    for name, unit in names.items():
        assert_allclose(np.array(again.interval(name)) / unit, fit.interval(name), rtol=1e-4, atol=1e-5)


def test_residuals(found, space):
    """The residuals of the fit pass the test, those without influence between types do not. Expected counts
    are right.
    """
    made, _, fit = found
    likelihood = fit.likelihood
    assert mutual_residuals(likelihood, fit.params).p_value > 0.01
    alone = replace(fit.params, mu=likelihood.counts / likelihood.hours, branching=np.zeros((1, 3, 3)))
    assert mutual_residuals(likelihood, alone).p_value < 1e-3
    times, types = made.times[:80], made.types[:80]
    few = MutualLikelihood(times, types, n_types=3, covariates=TABLE, space=space)
    dt = times[:, None] - times
    gone = np.where(dt > 0.0, -np.expm1(-1.5 * np.maximum(dt, 0.0)), 0.0)
    until = background(VARIED.mu, VARIED.coefficients, times[0], times)[1][np.arange(80), types]
    wanted = until + (TRUTH.influence[types][:, types] * gone).sum(axis=1)
    assert_allclose(few.expected(VARIED), wanted, rtol=1e-12, atol=1e-12)


def test_season():
    """The mean of a wave over an hour is a share of its value in the middle."""
    middle = np.arange(0.5, 50.0) * np.pi / 12.0
    wanted = np.sinc(1.0 / 24.0) * np.array([np.cos(middle), np.sin(middle)]).T
    assert_allclose(season(np.arange(51.0), 24.0), wanted, atol=1e-13)


def test_omori():
    """A mixture has the law's shape to 0.2 % over six decades; a fit with it estimates one ratio for each
    pair.
    """
    rates, weights = hawkes.omori_rates(1.3, 0.5, within_h=1e4)
    delays = np.geomspace(1e-2, 1e4, 60)
    shape = (weights * rates * np.exp(-rates * delays[:, None])).sum(axis=1) * (1.0 + delays / 0.5) ** 1.3
    assert weights.sum() == pytest.approx(1.0) and np.ptp(shape) < 2e-3 * shape.mean()
    truth = Mutual([0.1, 0.1], weights[:, None, None] * np.array([[0.2, 0.4], [0.0, 0.3]]), rates)
    made = simulate_mutual(truth, 8_000.0, seed=2)
    likelihood = MutualLikelihood(made.times, made.types, start_h=0.0, horizon_h=8_000.0)
    fit = fit_mutual(likelihood, rates, weights=weights)
    low, high = fit.interval("influence", 0.9999)
    assert fit.n_free == 6 and ((low <= truth.influence) & (truth.influence <= high)).all()
    assert_allclose(fit.params.branching, weights[:, None, None] * fit.params.influence, rtol=1e-12)


def test_calibrate_runs(told):
    """Few sets show that the command runs; 200 show if intervals are right."""
    assert main("calibrate --mutual --sets 2 --space serial --no-progress".split()) == 0
    said = told.out
    assert all(f"{kind}: mu " in said for kind in KINDS) and "coefficients" in said


def test_intensity_and_forecast(space):
    truth = Mutual([0.2, 0.1], [[[0.2, 0.0], [0.1, 0.1]], [[0.1, 0.0], [0.3, 0.1]]], [2.0, 0.3])
    made = simulate_mutual(truth, 300.0, seed=4)
    likelihood = MutualLikelihood(made.times, made.types, horizon_h=300.0, space=space)
    asked = np.array([200.0, made.times[9], 310.0])
    wanted = np.tile(truth.mu[:, None], 3)
    for k, rate in enumerate(truth.rates):
        dt = asked[:, None] - made.times
        fade = np.where(dt > 0.0, rate * np.exp(-rate * np.maximum(dt, 0.0)), 0.0)
        wanted += truth.branching[k][:, made.types] @ fade.T
    assert_allclose(likelihood.intensity(truth, asked), wanted, rtol=1e-12)
    ahead = likelihood.forecast(truth, 2_000.0, n_draws=50, seed=1)
    counts = np.array([np.bincount(types, minlength=2) for types in ahead.types])
    mean = np.linalg.solve(np.eye(2) - truth.influence, truth.mu) * 2_000.0  # without earlier excitation
    assert (np.abs(counts.mean(axis=0) / mean - 1.0) < 0.05).all() and (
        counts.sum(axis=1) == ahead.counts
    ).all()


@pytest.mark.parametrize("places", ["", "--places x y"])
def test_the_command(tmp_path, told, places):
    made = simulate_mutual(Mutual([0.2, 0.1], [[0.3, 0.0], [0.4, 0.2]], 1.5, h_km=0.3), 800.0, seed=1)
    when, kinds = (made.times * 3.6e6).astype("m8[ms]"), np.array(["a", "b"])[made.types]
    rows = zip(np.datetime64("2026-01-31") + when, kinds, *made.locations.T)
    text = "\n".join(["when,kind,x,y", *(",".join(map(str, row)) for row in rows)])
    (tmp_path / "events.csv").write_text(f"{text}\n")
    words = f"mutual {tmp_path}/events.csv --time when --type kind --space serial {places}".split()
    more = f"--rates 1.0 --season 24 --out {tmp_path}/graph.csv --json {tmp_path}/fit.json".split()
    assert main([*words, *more]) == 0
    said = told.out
    assert "events of 2 types; converged" in said and "residuals by time rescaling: p =" in said
    assert "b: season of 24 hours: 1." in said and ("distance: h = 0.3" in said or not places)
    rows = (tmp_path / "graph.csv").read_text().splitlines()
    assert rows[0] == "source,target,influence,low,high" and rows[1].startswith("a,b,0.4")
    assert not any(row.startswith("b,a") for row in rows)
    held = json.loads((tmp_path / "fit.json").read_text())
    assert held["names"] == ["a", "b"] and np.shape(held["params"]["coefficients"]) == (2, 2)
    assert main([*words, "--type", "none"]) == 2 and "has no column 'none'" in told.err


def test_towns_are_no_influence():
    """Each type has a town, and nothing triggers anything: only a constant background mistakes the towns for
    influence. Events at few places are refused.
    """
    random = default_rng(1)
    t, types = np.sort(random.uniform(0.0, 2_000.0, 300)), random.integers(0, 2, 300)
    x = np.array([[2.0, 3.0], [7.0, 6.0]])[types] + random.normal(0.0, 1.0, (300, 2))
    towns = MutualLikelihood(t, types, locations=x, space="serial")
    assert fit_mutual(towns, background="constant").graph(0.99)
    apart = fit_mutual(towns)
    assert not apart.graph(0.99)
    assert apart.likelihood.background_probabilities(apart.params).sum() == pytest.approx(300.0, abs=60.0)
    with pytest.raises(InputError, match="reflects only that"):
        fit_mutual(MutualLikelihood(t, types, locations=x.round(), space="serial"), background="constant")


def test_wrong_calls(monkeypatch):
    monkeypatch.setattr(mutual, "_MOST_EVENTS", 10_000)
    endless = Mutual([9.0], [[9.0]], 9.0)
    far = {"start_h": 1.0, "covariates": TABLE}
    pair = MutualLikelihood([1.0, 2.0], [0, 0])
    for error, words, call in (
        (OrderError, r"times\[1\] = 1.0 follows", lambda: MutualLikelihood([2.0, 1.0], [0, 0])),
        (InputError, "are these nanoseconds", lambda: MutualLikelihood([0.0, 1e17], [0, 0])),
        (ShapeError, "types has shape", lambda: MutualLikelihood([1.0, 2.0], [0])),
        (InputError, r"types\[1\] is missing", lambda: MutualLikelihood([1.0, 2.0], ["a", None])),
        (InputError, "expected two or more", lambda: Covariates([], [[1.0]])),
        (InputError, "such as 1; pass n_types", lambda: MutualLikelihood([1.0, 2.0], [0, 2])),
        (InputError, "no event", lambda: MutualLikelihood([1.0], [0], start_h=3.0, horizon_h=4.0)),
        (InputError, "for events with locations", lambda: MutualLikelihood(*T, polygon=X)),
        (InputError, "h_km is None", lambda: MutualLikelihood(*T, locations=X).gradient(endless)),
        (InputError, "h_km is for a likelihood", lambda: fit_mutual(MutualLikelihood(*T), h_km=1.0)),
        (InputError, r"branching\[0, 0, 0\] is -1", lambda: Mutual([1.0], [[-1.0]], 1.0)),
        (ShapeError, "branching has shape", lambda: Mutual([1.0], [[1.0, 2.0]], 1.0)),
        (InputError, r"rates\[0\] is 0", lambda: Mutual([1.0], [[1.0]], 0.0)),
        (InputError, "expected less than 1", lambda: simulate_mutual(endless, 99.0)),
        (ShapeError, "values has shape", lambda: Covariates([0.0, 1.0, 2.0], [[3.0]])),
        (InputError, "period_h is 0", lambda: season([0.0, 1.0], 0)),
        (InputError, "n_waves is 1000000000; expected", lambda: season([0.0, 1.0], 24.0, 10**9)),
        (InputError, "cover 0 to 6000 hours", lambda: MutualLikelihood([9e3] * 2, [0, 0], **far)),
        (ShapeError, "params has 0", lambda: simulate_mutual(endless, 1.0, covariates=TABLE)),
        (DTypeError, "must be hawkes.Covariates", lambda: simulate_mutual(endless, 1.0, covariates=3)),
        (InputError, "immigrants are expected", lambda: simulate_mutual(Mutual([9.0], [[0.0]], 9.0), 1e9)),
        (DTypeError, "fixed_rates must be True or", lambda: fit_mutual(pair, fixed_rates="no")),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()
    silent = MutualLikelihood([1.0, 2.0, 3.0], [0, 0, 2], n_types=3)
    assert "no events of 1" in fit_mutual(silent).notes[0]
