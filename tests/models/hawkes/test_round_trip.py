"""Test the way from a table of dates to joined results: catalogues, posteriors read back, evidence,
forecasts, declustering, commands."""

import csv
import json
from dataclasses import replace

import numpy as np
import pandas
import pyarrow
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from portable.models import hawkes
from portable.models.hawkes import compose, simulate, Likelihood, Parameters, read_catalogue, sample_posterior
from portable.models.hawkes.__main__ import main
from portable.errors import DTypeError, InputError, ShapeError

from .events import PARAMS, random_events

TRUTH = Parameters(1.0, 1.6, 336.0, 0.4, 0.5, 0.1)


@pytest.fixture(scope="module")
def table():
    """Return 250 simulated events in random order, with dates, names and magnitudes."""
    made = simulate(TRUTH, n_immigrants=150, horizon_h=4000.0, seed=2)
    order = default_rng(0).permutation(len(made.times))
    dates = np.datetime64("2025-03-01T00:00:00") + np.rint(3600 * made.times[order]).astype("timedelta64[s]")
    return {
        "case": np.array([f"A{k}" for k in order]),
        "when": dates,
        "x_km": made.locations[order, 0],
        "y_km": made.locations[order, 1],
        "mag": default_rng(1).exponential(0.4, len(order)).round(2) + 2.0,
    }


def write(path, table, mark=","):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=mark)
        writer.writerow(table)
        point = (lambda v: str(v).replace(".", ",")) if mark == ";" else str
        writer.writerows(
            [[point(v) for v in row] for row in zip(*(column.tolist() for column in table.values()))]
        )


def test_frames_and_files_say_the_same(table, tmp_path):
    text = table | {"when": np.array([str(v).replace("-", "/").replace("T", " ") for v in table["when"]])}
    write(tmp_path / "a.csv", text)
    write(tmp_path / "b.csv", text, ";")
    frame = pandas.DataFrame(
        table | {"when": pandas.DatetimeIndex(table["when"]).tz_localize("UTC").tz_convert("Asia/Tokyo")},
        index=[f"row {n}" for n in range(len(table["when"]))],
    )
    arrow = pyarrow.Table.from_pandas(frame)
    options = {"time": "when", "ids": "case", "marks": "mag", "end": "2025-09-01"}
    found = [
        read_catalogue(source, **options)
        for source in (table, frame, tmp_path / "a.csv", tmp_path / "b.csv", arrow)
    ]
    for one in found:
        assert_allclose(one.times, found[0].times, atol=1e-9)
        assert_allclose(one.locations, found[0].locations)
        assert one.ids.tolist() == found[0].ids.tolist() and one.horizon_h == pytest.approx(
            found[0].horizon_h
        )
    one = found[0]
    assert (np.diff(one.times) >= 0.0).all() and one.ids[0] == table["case"][np.argmin(table["when"])]
    joined = one.joined(t=one.times)
    assert joined["id"].tolist() == table["case"].tolist() and (joined["when"] == table["when"]).all()
    assert_allclose(joined["t"], (table["when"] - table["when"].min()) / np.timedelta64(1, "h"))
    back = found[1].joined(t=one.times)  # a frame, with its index and time zone
    assert back.index.equals(frame.index) and back.when.equals(frame.when)
    assert_allclose(back.t, joined["t"])
    assert one.dates(one.times[3]) == np.sort(table["when"])[3]
    assert one.likelihood(space="serial").horizon_h == pytest.approx(one.horizon_h)


WRONG = [
    ({"time": "noon"}, InputError, "the table has no column 'noon'; it has: case, when"),
    ({"places": ("when",), "time": "case"}, DTypeError, "real numbers, got dtype datetime"),
    ({"end": "2025-03-02"}, InputError, "end is .* hours before the last event"),
    ({"reference_mark": 2.0}, InputError, "reference_mark needs marks"),
    ({"places": ("case",)}, DTypeError, "column 'case', row 1 is .*'A"),
]


@pytest.mark.parametrize("change, error, words", WRONG)
def test_wrong_tables(table, change, error, words):
    with pytest.raises(error, match=words):
        read_catalogue(table, **{"time": "when"} | change)
    with pytest.raises(ShapeError, match="column 'when' is empty; expected at least one date"):
        read_catalogue({name: values[:0] for name, values in table.items()}, time="when")
    with pytest.raises(ShapeError, match=r"p has shape \(3,\)"):
        read_catalogue(table, time="when").joined(p=np.ones(3))
    with pytest.raises(
        DTypeError, match="source must be a path, or a table with names of columns, got ndarray"
    ):
        read_catalogue(np.ones(3))


def test_marks_below_a_columns_completeness_count_as_at_it(table):
    found = read_catalogue(
        table | {"mc": np.full(len(table["mag"]), 2.5)}, time="when", marks="mag", reference_mark="mc"
    )
    assert found.marks.min() == 2.5 and found.likelihood(space="serial").sums.marks.max() == pytest.approx(
        table["mag"].max() - 2.5
    )


def test_a_posterior_comes_back(tmp_path):
    kind = compose(2, marks=True)
    start = kind(
        mu0=0.7, tau_x=1.6, tau_t=20.0, theta=0.3, omega_1=1.0, omega_2=0.1, weight_2=1.0, h=0.4, alpha=0.5
    )
    for first, marks in ((PARAMS, None), (start, np.arange(41.0))):
        likelihood = Likelihood(*random_events(41), marks=marks, space="serial")
        posterior = sample_posterior(
            likelihood, n_chains=2, n_draws=20, n_warmup=0, start=[first] * 2, seed=1
        )
        posterior.save(tmp_path / "a.nc")
        again = hawkes.Posterior.load(tmp_path / "a.nc")
        assert_array_equal(again.draws, posterior.draws)
        assert_array_equal(again.log_likelihood, posterior.log_likelihood)
        assert (
            again.free == posterior.free and again.kind.names() == posterior.kind.names() and again.seed == 1
        )
        assert likelihood.log_likelihood(again.params(1, 3)) == likelihood.log_likelihood(
            posterior.params(1, 3)
        )
        assert again.start.tau_x == first.tau_x and again.priors == posterior.priors
    with pytest.raises(InputError, match="there is no such file"):
        hawkes.Posterior.load(tmp_path / "b.nc")
    (tmp_path / "c.nc").write_bytes(b"nothing")
    with pytest.raises(InputError, match="c.nc' holds no posterior"):
        hawkes.Posterior.load(tmp_path / "c.nc")


def flat(made, space="serial"):
    return hawkes.fit_background(*made[:2], "constant", horizon_h=4000.0, space=space)


def test_evidence_prefers_the_model_that_made_the_events():
    """Compare excitation with none by WAIC, leave-one-out and AIC; terms add up to the log-likelihood."""
    made = simulate(TRUTH, n_immigrants=150, horizon_h=4000.0, seed=2)
    likelihood = flat(made).likelihood
    params = hawkes.fit(likelihood, start=TRUTH).params
    terms = hawkes.pointwise(likelihood, params)
    assert terms.sum() == pytest.approx(likelihood.log_likelihood(params), rel=1e-12) and len(terms) == len(
        made.times
    )
    found = []
    for fixed in ((), ("theta", "omega", "h")):
        start = Parameters(*params.values()[:3], 1e-9 if fixed else params.theta, *params.values()[4:])
        posterior = sample_posterior(
            likelihood,
            n_chains=2,
            n_draws=300,
            n_warmup=200,
            start=[start] * 2,
            fixed=("tau_x", "tau_t", *fixed),
            seed=1,
        )
        found.append(hawkes.evidence(likelihood, posterior, n_draws=100))
    assert found[0].waic > found[1].waic + 10.0 and found[0].loo == pytest.approx(found[0].waic, abs=1.0)
    assert 2.0 < found[0].p_waic < 7.0 and found[0].pointwise.shape == (100, len(made.times))
    # variance of mu0, by quadrature; variances of a hundred draws scatter by a sixth
    alone = np.linspace(0.75, 1.3, 56)
    terms = np.array([hawkes.pointwise(likelihood, replace(start, mu0=mu0)) for mu0 in alone.tolist()])
    log_density = terms.sum(axis=1) - 0.5 * alone**2
    density = np.exp(log_density - log_density.max())
    exact = np.average(
        (terms - np.average(terms, axis=0, weights=density)) ** 2, axis=0, weights=density
    ).sum()
    assert found[1].p_waic == pytest.approx(exact, rel=0.6) and 1.0 < exact < 4.0


def test_forecasts_hold_what_comes(space):
    """A stationary process has the expected counts; each draw's events follow the record. A check of the
    model on its own simulation passes."""
    if space in ("checked", "threads"):
        pytest.skip("hundreds of futures are drawn on the host")
    made = simulate(TRUTH, n_immigrants=400, horizon_h=4000.0, seed=3)
    found = flat(made, space)
    ahead = hawkes.forecast(found.likelihood, found.fit.params, 500.0, n_draws=300, seed=1)
    rate = found.rates_per_h[0] / (1.0 - found.fit.params.theta)
    assert ahead.mean == pytest.approx(500.0 * rate, rel=0.1)
    low, high = ahead.interval(0.9)
    assert low < ahead.mean < high and all(((t >= 4000.0) & (t <= 4500.0)).all() for t in ahead.times)
    check = hawkes.predictive_check(found.likelihood, found.fit.params, n_draws=60, seed=1)
    assert min(check.p_values.values()) > 0.01
    wrong = Parameters(1.0, 1.6, 336.0, 1e-9, 0.5, 0.1)
    assert hawkes.predictive_check(found.likelihood, wrong, n_draws=60, seed=1).p_values["near"] < 0.05
    paper = Likelihood(*made[:2], horizon_h=4000.0, space=space)
    assert 0.0 < hawkes.forecast(paper, TRUTH, 10.0, n_draws=50, seed=1).mean < 10.0
    with pytest.raises(InputError, match="known only at the events"):
        given = Likelihood(
            *made[:2],
            background=hawkes.Background(np.ones(len(made.times)), 1.0),
            space=space,
        )
        hawkes.forecast(given, TRUTH, 10.0)


def test_declustered():
    """The number of drawn background events is about the true one; each family begins with one of them."""
    made = simulate(TRUTH, n_immigrants=300, horizon_h=4000.0, seed=4)
    fit = flat(made)
    found = hawkes.decluster(fit.likelihood, fit.fit.params, seed=1)
    assert found.background.mean() == pytest.approx((made.parents < 0).mean(), abs=0.05)
    assert (
        found.background[found.family].all()
        and (found.parents[~found.background] < np.flatnonzero(~found.background)).all()
    )
    assert (found.parents == made.parents).mean() > 0.75


def test_commands(table, tmp_path, told):
    """Run commands on a user's CSV with dates: fit, joined probabilities from the posterior of a fit,
    residuals, forecast, comparison."""
    for module in "arviz_stats h5netcdf matplotlib scipy".split():
        pytest.importorskip(module)
    write(tmp_path / "a.csv", table)
    events = f"{tmp_path}/a.csv --time when --ids case --space serial --out {tmp_path}".split()
    omori = "--decay omori --marks mag --background constant".split()
    assert main(["fit", *events, *omori, *"--draws 150 --warmup 50 --figures none".split()]) == 0
    spec = json.loads((tmp_path / "params.json").read_text())["triggering"]
    assert spec["decay"] == "omori" and spec["marks"] is True
    posterior = ["--posterior", str(tmp_path / "posterior.nc")]
    assert main(["probabilities", *events, *omori, *posterior, *"--figures none".split()]) == 0
    with open(tmp_path / "probabilities.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == table["case"].tolist() and rows[0]["when"].startswith(
        str(table["when"][0])[:10]
    )
    assert {"probability", "family_size", "background"} <= set(rows[0])
    assert main(["residuals", *events, *omori, *f"--params {tmp_path}/params.json".split()]) == 0
    for name in ("residuals", "decay", "intensity"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5_000
    assert main(["forecast", *events, *omori, *posterior, *"--hours 100 --draws 40".split()]) == 0
    assert main(["compare", *events, *omori, *posterior]) == 0
    assert main(["compare", *events, *"--background constant".split()]) == 0
    assert main("calibrate --background constant --clusters fast --sets 2 --space serial".split()) == 0
    out = told.out
    for words in ("events expected, 95 % between", "WAIC", "AIC", "theta = 0.5, fast (mean"):
        assert words in out, words
    assert main(["probabilities", *events, *"--posterior none.nc".split()]) == 2
    assert "there is no such file" in told.err
