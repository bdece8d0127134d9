"""Test the command line and the files that it reads and writes."""

import csv
import functools
import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pyarrow import parquet

from portable.models.shared import extras
from portable.models.hawkes import (
    figures,
    simulate,
    Posterior,
    posterior_probabilities,
    read_catalogue,
    sample_posterior,
)
from portable.models.hawkes.__main__ import main
from portable.models.shared.posteriors import stopped
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from ...refusals import refusals
from .events import PARAMS

HEADER = "x_km,y_km,t_hours"


@pytest.fixture(scope="module")
def events_csv(tmp_path_factory):
    """Write simulated events with the columns that are read by default."""
    path = tmp_path_factory.mktemp("events") / "events.csv"
    assert main(f"simulate --out {path} --immigrants 150 --omega 5 --h 0.02 --seed 3".split()) == 0
    return path


def write(path, *rows, header=HEADER):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_simulate_then_read(events_csv):
    events = read_catalogue(events_csv)
    made = simulate(type(PARAMS)(1.0, 1.0, 1.0, 0.3, 5.0, 0.02), n_immigrants=150, horizon_h=1000.0, seed=3)
    assert_allclose(events.locations, made.locations)
    assert_allclose(events.times, made.times - made.times[0])


@pytest.mark.parametrize("by", ["likelihood", "mode", "metropolis"])
def test_fit(events_csv, tmp_path, by, capsys):
    if by == "metropolis":
        for module in ("arviz_base", "h5netcdf"):
            pytest.importorskip(module)
    assert (
        main(
            [
                *f"fit {events_csv} --method {by} --out {tmp_path} --space serial".split(),
                *"--draws 300 --warmup 100 --figures svg --least-h 0.03".split(),
            ]
        )
        == 0
    )
    found = json.loads((tmp_path / "fit.json").read_text())
    assert 2.0 < found["params"]["omega"] < 12.0 and found["units"]["omega"] == "1/h"
    assert found["params"]["h"] >= 0.03 * (1.0 - 1e-12)
    assert found["params"] == json.loads((tmp_path / "params.json").read_text())
    shown, warned = capsys.readouterr()
    # no event is cut off
    assert "events in 2 dimensions" in shown and "omega (1/h)" in shown and "…" not in shown
    if by == "metropolis":
        assert found["units"]["1/omega"] == "h" and "expected at most 1.01 and at least 400" in warned
        assert (tmp_path / "posterior.nc").stat().st_size > 1000 and "<svg" in (
            tmp_path / "posterior.svg"
        ).read_text()[:2000]


def test_probabilities_and_residuals(events_csv, tmp_path, told):
    common = f"{events_csv} --out {tmp_path} --space serial".split()
    assert main(["probabilities", *common, *"--draws 100 --warmup 100 --average 20".split()]) == 0
    with open(tmp_path / "probabilities.csv") as file:
        rows = list(csv.DictReader(file))
    shares = np.array([float(row["probability"]) for row in rows])
    with open(events_csv) as file:
        truth = np.array([int(row["parent"]) >= 0 for row in csv.DictReader(file)])
    assert (shares[truth] > 0.5).mean() > 0.9 and (shares[~truth] < 0.5).mean() > 0.9
    assert float(rows[0]["family_size"]) >= 1.0 and (tmp_path / "parents.csv").exists()
    assert {"map.png", "time.png"} <= {path.name for path in tmp_path.iterdir()}
    (tmp_path / "params.json").write_text(
        json.dumps(dict(zip(PARAMS.names(), (0.8, 1.6, 336.0, 0.3, 5.0, 0.02))))
    )
    assert main(["residuals", *common, *f"--params {tmp_path}/params.json".split()]) == 0
    assert "Kolmogorov-Smirnov" in told.out and (tmp_path / "residuals.png").exists()


def test_probabilities_by_default_average_posterior_draws(events_csv, tmp_path, monkeypatch):
    """Only the steps are fewer: `--average` sets the number of averaged draws, not `--draws`."""
    asked = []

    def found(likelihood, posterior, *, n_draws):
        asked.append(n_draws)
        return posterior_probabilities(likelihood, posterior, n_draws=3)

    monkeypatch.setattr("portable.models.hawkes.__main__.posterior_probabilities", found)

    @functools.wraps(sample_posterior)
    def sample(likelihood, **options):
        return sample_posterior(likelihood, **options | {"n_draws": 10, "n_warmup": 10})

    monkeypatch.setattr("portable.models.hawkes.__main__.sample_posterior", sample)
    common = f"probabilities {events_csv} --out {tmp_path} --space serial --figures none".split()
    assert main(common) == 0 and main([*common, *"--draws 70 --average 20".split()]) == 0
    assert asked == [500, 20]


@pytest.mark.parametrize(
    "module, extra, command",
    [("arviz_base", "arviz", "fit"), ("matplotlib", "plot", "fit"), ("matplotlib", "plot", "probabilities")],
)
def test_libraries_that_write_are_asked_for_before_anything_is_drawn(
    events_csv, tmp_path, monkeypatch, told, module, extra, command
):
    monkeypatch.setattr(
        "portable.models.hawkes.__main__.need",
        lambda name, which, purpose: extras.need(
            "no_such_module" if name == module else "json", which, purpose
        ),
    )

    @functools.wraps(sample_posterior)
    def drawn(*args, **options):
        raise AssertionError("drawn before")

    monkeypatch.setattr("portable.models.hawkes.__main__.sample_posterior", drawn)
    assert main(f"{command} {events_csv} --out {tmp_path} --space serial".split()) == 2
    assert f'pip install ".[{extra}]"' in told.err


def test_ctrl_c_leaves_a_file_of_draws(events_csv, tmp_path, monkeypatch, capsys):
    """The exit code is 130, and posterior.nc contains the draws made so far."""

    @functools.wraps(sample_posterior)
    def sample(likelihood, **options):
        found = sample_posterior(likelihood, **options | {"n_draws": 10, "n_warmup": 10})
        raise stopped(KeyboardInterrupt(), replace(found, complete=False))

    monkeypatch.setattr("portable.models.hawkes.__main__.sample_posterior", sample)
    command = f"fit {events_csv} --method metropolis --out {tmp_path} --space serial".split()
    assert main([*command, *"--figures none".split()]) == 130
    found = Posterior.load(tmp_path / "posterior.nc")
    assert not found.complete and found.draws.shape[1] == 10
    told = capsys.readouterr()
    assert "stopped; what was drawn until then is in" in " ".join(told.out.split()) and "stopped" in told.err


def test_simulate_asks_for_its_folder_first(tmp_path, told):
    assert main(f"simulate --out {tmp_path}/no/a.csv --immigrants -1".split()) == 2
    assert "there is no folder" in told.err


def test_units_columns_and_formats(tmp_path):
    """Read the same three events in seven ways."""
    wanted = [[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]], [0.0, 1.5, 2.0]
    write(tmp_path / "a.csv", "3,1,7.0", "0,0,5.0", "1,2,6.5")  # unsorted
    write(tmp_path / "b.csv", "0,0,0", "1000,2000,90", "3000,1000,120", header="east_m,north_m,t_min")
    write(
        tmp_path / "c.csv",
        "0,0,2020-01-01T00:00:00",
        "1,2,2020-01-01T01:30:00",
        "3,1,2020-01-01T02:00:00",
        header="x,y,when",
    )
    with gzip.open(tmp_path / "d.csv.gz", "wt") as file:
        file.write(f"{HEADER}\n0,0,0\n1,2,1.5\n3,1,2\n")
    np.savez(tmp_path / "e.npz", x_km=[0.0, 1, 3], y_km=[0.0, 2, 1], t_hours=wanted[1])
    calls = [
        ("a.csv", {}),
        ("b.csv", {"places": ("east_m", "north_m"), "time": "t_min", "length_unit": "m", "time_unit": "min"}),
        ("c.csv", {"places": ("x", "y"), "time": "when"}),
        ("d.csv.gz", {}),
        ("e.npz", {}),
    ]
    for name, options in calls:
        events = read_catalogue(tmp_path / name, **options)
        assert_allclose(events.locations, wanted[0], atol=1e-12)
        assert_allclose(events.times, wanted[1], atol=1e-9)
    with open(tmp_path / "g.csv", "w", encoding="utf-8-sig") as file:  # as some spreadsheets write it
        file.write(f"{HEADER}\n0,0,2020-01-01T00:30:00+01:00\n1,1,2020-01-01T00:00:00Z\n")
    assert_allclose(read_catalogue(tmp_path / "g.csv").times, [0.0, 0.5])
    import pyarrow

    parquet.write_table(
        pyarrow.table({"x_km": [0.0, 1, 3], "y_km": [0.0, 2, 1], "t_hours": wanted[1]}),
        tmp_path / "f.parquet",
    )
    assert_allclose(read_catalogue(tmp_path / "f.parquet").times, wanted[1])


@pytest.mark.parametrize("middle", [(0.2, -0.8, 0.6), (-0.8, 0.01, -0.6), (1, 0, 0), (0.1, 0.2, 1)])
def test_great_circles(middle):
    """Over 25 degrees, across the date line and about the pole, distances are those of great circles within
    the stated bound, and over 2 degrees within 0.04%."""
    random, to_middle = np.random.default_rng(5), np.array(middle) / np.linalg.norm(middle)
    unit = to_middle + random.uniform(-0.12, 0.12, (200, 3))
    unit[::2] = to_middle + 0.1 * (unit[::2] - to_middle)
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    east, north = np.degrees([np.arctan2(unit[:, 1], unit[:, 0]), np.arcsin(unit[:, 2])])
    table = {"lon": east, "lat": north, "t": 0.37 * np.arange(200)}
    events = read_catalogue(table, places=("lon", "lat"), time="t", lonlat=True)
    a, b = np.triu_indices(200, 1)
    # the chord is twice the sine of half the angle: the haversine formula
    wanted = 2.0 * 6371.0088 * np.arcsin(0.5 * np.linalg.norm(unit[a] - unit[b], axis=1))
    off = np.hypot(*(events.locations[a] - events.locations[b]).T) / wanted - 1.0
    assert 1500.0 < wanted.max() < 2780.0 and 0.001 < np.abs(off).max() < 0.006
    assert np.abs(off[(a | b) % 2 == 0]).max() < 0.0004


def test_degrees_that_no_plane_shows(tmp_path):
    """A degree of latitude is 111.195 km on a sphere of the mean radius."""
    path = write(tmp_path / "a.csv", "-77.0,38.0,0", "-77.0,39.0,1", "-76.0,38.5,2", header="lon,lat,t_hours")
    options = {"places": ("lon", "lat")}
    locations = read_catalogue(path, lonlat=True, **options).locations
    assert locations[1, 1] - locations[0, 1] == pytest.approx(111.195, abs=1e-2)
    wide = {"lon": [0.0, 70.0], "lat": [0.0, 0.0], "t_hours": [0.0, 1.0]}
    with pytest.raises(InputError, match=r"lon, lat reach 37.5 degrees from .*within 36 degrees"):
        read_catalogue(wide | {"lon": [0.0, 75.0]}, lonlat=True, **options)
    read_catalogue(wide, lonlat=True, **options)
    with pytest.warns(UserWarning, match="columns lon, lat look like degrees, but are read as lengths"):
        read_catalogue(path, **options)
    with pytest.raises(InputError, match="column 'lat', row 1 is -100.0; expected -90 to 90 degrees"):
        read_catalogue(
            write(tmp_path / "b.csv", "38,-100,0", header="lon,lat,t_hours"), lonlat=True, **options
        )


WRONG = [
    (["1,2,nan"], FiniteError, "column 't_hours', row 1 is nan"),
    (["1,2,3", "1,x,4"], DTypeError, "column 'y_km', row 2 is 'x'; expected a number"),
    (["1,2"], InputError, "line 2 has 2 cells, the header 3"),
    ([], InputError, "holds no events"),
]


@pytest.mark.parametrize("rows, error, words", WRONG, ids=lambda v: str(v)[:30])
def test_wrong_files(tmp_path, rows, error, words):
    with pytest.raises(error, match=words):
        read_catalogue(write(tmp_path / "a.csv", *rows))


def test_files_that_are_none(tmp_path, told):
    with pytest.raises(InputError, match="there is no file '.*absent.csv'"):
        read_catalogue(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="ends in '.txt'"):
        read_catalogue(write(tmp_path / "a.txt"))
    (tmp_path / "a.npz").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="cannot be read"):
        read_catalogue(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x_km=[0.0, 1.0], y_km=[0.0, 1.0], t_hours=[0.0, 1.0, 2.0])
    with pytest.raises(InputError, match=r"column 't_hours' has shape \(3,\), 'x_km' \(2,\)"):
        read_catalogue(tmp_path / "b.npz")
    assert main(["fit", str(write(tmp_path / "b.csv", "1,2,3", header="x,y,t"))]) == 2
    assert "has no column 'x_km'; it has: x, y, t" in told.err
    (tmp_path / "params.json").write_text("[]")
    csv_file = write(tmp_path / "c.csv", "1,2,3", "1,3,4")
    for options, words in (
        (f"residuals {csv_file} --params {tmp_path}/params.json", "must be a JSON object of mu0"),
        (f"residuals {csv_file} --params {tmp_path}/none.json", "none.json' cannot be read: No such file"),
        (f"fit {csv_file} --horizon-h 0.5", "horizon_h is 0.5, before the last event at 1.0"),
        (f"fit {csv_file} --season 1e-9", "--season is 1e-09; expected at least"),
    ):
        assert main(f"{options} --out {tmp_path}".split()) == 2 and words in told.err


def test_warnings_with_evidence(tmp_path):
    with pytest.warns(UserWarning, match="column 't_minutes' is read as h, but its name suggests min"):
        read_catalogue(write(tmp_path / "a.csv", "1,2,3", header="x_km,y_km,t_minutes"), time="t_minutes")
    with pytest.warns(UserWarning, match="1 of 3 events repeat the place and time of another"):
        read_catalogue(write(tmp_path / "b.csv", "1,2,3", "1,2,3", "1,2,4"))
    with pytest.warns(UserWarning, match="every time is a whole number of hours"):
        read_catalogue(write(tmp_path / "c.csv", *(f"{k % 7},2,{k * k}" for k in range(200))))
    with pytest.warns(UserWarning, match="events span 342 years"):
        read_catalogue(write(tmp_path / "d.csv", "1,2,0", "1,3,3000000"))


test_figures_say_what_they_want = refusals(
    [
        (
            lambda: figures.probability_map(np.zeros((3, 2)), [0.5]),
            ShapeError,
            "probabilities has 1 entries, locations 3; expected one per event",
        ),
        (
            lambda: figures.probabilities_in_time([1.0, 2.0], [0.5]),
            ShapeError,
            "probabilities has 1 entries, times 2",
        ),
        (
            lambda: figures.posterior_densities(PARAMS),
            DTypeError,
            "posterior must be hawkes.Posterior, got Parameters",
        ),
        (lambda: figures.residual_plot(3), DTypeError, "found must come from residuals, got int"),
    ]
)


def test_noise_is_not_called_contagion(tmp_path, told):
    random = np.random.default_rng(1)
    rows = np.column_stack([random.uniform(0, 10, (300, 2)), np.sort(random.uniform(0, 8766, 300))])
    path = write(tmp_path / "noise.csv", *(",".join(map(repr, row)) for row in rows.tolist()))
    more = f"--out {tmp_path} --figures none".split()
    assert main([*f"fit {path} --method likelihood".split(), *more]) == 0
    said = told.out
    assert "background: declustered" in said and "test: no evidence of triggering: in" in said
    table = json.loads((tmp_path / "fit.json").read_text())["table"]
    assert table["theta"]["q2.5"] == 0.0
    assert main([*f"probabilities {path} --params {tmp_path}/params.json".split(), *more]) == 0
    assert "no evidence of triggering" in told.out
    for words in (["--tau-x", "1"], ["--sample-tau"], ["--tau-t", "300"]):
        assert main([*f"fit {path}".split(), *words, *more]) == 2
        assert f"{words[0]} is for the paper's background" in told.err


def test_calibrate_noise(told):
    words = "calibrate --noise --sets 6 --events 60 --simulations 19 --space serial --no-progress"
    assert main(words.split()) == 0
    said = told.out
    for shape in ("square", "disc", "L-shaped", "two towns", "gradient", "season"):
        assert shape in said
    assert "found triggering" in said and "theta = 0.3" in said
