"""Test readers and their refusals, the command line, the figures."""

import json
import sys

import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal

from portable.errors import DTypeError, FiniteError, InputError, ShapeError
from portable.models.shared.files import read_csv
from portable.models.tmap import Runs, TransientMAP, read
from portable.models.tmap.__main__ import main
from portable.models.tmap.files import from_events, from_frame

from ...refusals import refusals
from .problems import MODEL

TABLE = {"run": np.array("b a b a a".split()), "gap": np.array([1.0, 2.0, 3.0, 4.0, 0.0])}
EVENTS = {"user": np.array([2, 1, 1, 2, 1, 1, 3]), "time": np.array([10.0, 5.0, 0.0, 13.0, 6.0, 60.0, 1.0])}


def test_table_of_gaps():
    runs = from_frame(TABLE)
    assert_array_equal(runs.values, [2, 4, 0, 1, 3])
    assert_array_equal(runs.lengths, [3, 2])
    still = from_frame(TABLE | {"open": np.array([False, False, True, True, False])}, censored="open")
    assert_array_equal(still.censored, [False, True])


def test_table_of_events():
    runs = from_events(EVENTS, run="user")
    assert_array_equal(runs.values, [5, 1, 54, 3])
    assert_array_equal(runs.lengths, [3, 1])
    # the event at 60 begins a separate run, without a gap
    split = from_events(EVENTS, run="user", timeout=30.0)
    assert_array_equal(split.values, [5, 1, 3])
    assert_array_equal(split.lengths, [2, 1])
    assert_array_equal(from_events(EVENTS, timeout=30.0).lengths, [5])


def test_events_until_the_end_of_a_record():
    """User 3 has one event, and a censored gap from it; after a time-out a run has ended."""
    runs = from_events(EVENTS, run="user", end=70.0)
    assert_array_equal(runs.values, [5, 1, 54, 10, 3, 57, 69])
    assert_array_equal(runs.lengths, [4, 2, 1])
    assert_array_equal(runs.censored, [True, True, True])
    runs = from_events(EVENTS, run="user", end=70.0, timeout=30.0)  # only the run from 60 on may continue
    assert_array_equal(runs.values, [5, 1, 10, 3])
    assert_array_equal(runs.lengths, [2, 1, 1])
    assert_array_equal(runs.censored, [False, True, False])
    still = EVENTS | {"open": EVENTS["user"] == 2}
    runs = from_events(still, run="user", end=70.0, censored="open")
    assert_array_equal(runs.values, [5, 1, 54, 3, 57])
    assert_array_equal(runs.censored, [False, True])


def test_a_column_of_censored_runs_is_not_dropped(tmp_path, told):
    pandas.DataFrame(EVENTS | {"open": EVENTS["user"] == 2}).to_csv(tmp_path / "events.csv", index=False)
    options = {"time": "time", "run": "user"}
    with pytest.raises(InputError, match="censored names the column 'open'.*give end"):
        read(tmp_path / "events.csv", censored="open", **options)
    with pytest.raises(InputError, match="no column 'nosuch'"):
        read(tmp_path / "events.csv", censored="nosuch", end=70.0, **options)
    assert read(tmp_path / "events.csv", censored="open", end=70.0, **options).censored.tolist() == [
        False,
        True,
    ]
    command = f"fit {tmp_path}/events.csv --orders 1 --time time".split()
    assert main([*command, *"--run user --censored nosuch --end 70".split()]) == 2
    assert main([*command, *"--run user --censored open --end 70 --space serial".split()]) == 0
    assert "n_censored=1" in told.out


def test_cells_between_commas_semicolons_or_tabs(tmp_path):
    for apart, point in ((",", "."), (";", ","), (";", "."), ("\t", ",")):
        (path := tmp_path / "a.csv").write_text(f'run{apart}"a, gap"\n1{apart}2{point}5\n')
        assert read(path, gap="a, gap").values == [2.5]
        assert read_csv(path) == {"run": ["1"], "a, gap": ["2.5"]}


def test_a_misspelt_column_of_runs_is_refused(tmp_path, told):
    pandas.DataFrame(EVENTS).to_csv(tmp_path / "events.csv", index=False)
    for options in ({"run": "usr"}, {}):
        with pytest.raises(InputError, match="there is no column '(usr|run)'; there are 'user', 'time'"):
            read(tmp_path / "events.csv", time="time", **options)
    assert read(tmp_path / "events.csv", time="time", run=None).n_runs == 1
    assert main(f"describe {tmp_path}/events.csv --time time".split()) == 2
    assert main(f"describe {tmp_path}/events.csv --time time --one-run".split()) == 0


def test_dates_of_every_kind(tmp_path):
    wanted = [43200.0, 43200.0]
    zoned = pandas.to_datetime(["2026-03-01T00:00+01:00", "2026-03-01T12:00+01:00", "2026-03-02T00:00+01:00"])
    assert from_events(pandas.DataFrame({"time": zoned})).values.tolist() == wanted
    paris = zoned.tz_convert("Europe/Paris")
    assert from_events(pandas.DataFrame({"time": paris}), end="2026-03-02T00:00Z").values.tolist() == [
        *wanted,
        3600.0,
    ]
    for texts in (
        ["2026-03-01", "2026/03/01 12:00", "2026-03-02"],
        ["1/31/2026", "1/31/2026 12:00 PM", "2/1/2026"],
        ["31.1.2026", "31.1.2026 12:00:00.000", "1.2.2026"],
    ):
        pandas.DataFrame({"time": texts, "u": 1}).to_csv(tmp_path / "a.csv", index=False)
        assert read(tmp_path / "a.csv", time="time", run="u").values.tolist() == wanted
    text = {"time": ["1/2/2026", "2/2/2026"]}
    with pytest.raises(InputError, match="month or the day first.*date_order="):
        from_events(text)
    assert from_events(text, date_order="month first").values.tolist() == [31 * 86400.0]
    assert from_events(text, date_order="day first").values.tolist() == [86400.0]
    with pytest.raises(InputError, match="date_order is 'day'; expected one of 'year first', 'month first'"):
        from_events(text, date_order="day")


def test_npz(tmp_path):
    runs = MODEL.simulate(20, seed=1)
    np.savez(tmp_path / "a.npz", x=runs.values, K=runs.lengths)
    np.savez(tmp_path / "b.npz", values=runs.values, lengths=runs.lengths, censored=np.arange(20) % 2 == 0)
    assert_array_equal(read(tmp_path / "a.npz").values, runs.values)
    assert_array_equal(read(tmp_path / "b.npz").censored, np.arange(20) % 2 == 0)


def test_csv(tmp_path):
    pandas.DataFrame(TABLE).to_csv(tmp_path / "gaps.csv", index=False)
    pandas.DataFrame(EVENTS).to_csv(tmp_path / "events.csv", index=False)
    assert_array_equal(read(tmp_path / "gaps.csv").values, [2, 4, 0, 1, 3])
    assert_array_equal(read(tmp_path / "events.csv", time="time", run="user", timeout=30.0).lengths, [2, 1])
    assert_array_equal(from_frame(pandas.DataFrame(TABLE)).lengths, [3, 2])


WRONG = [
    (lambda: from_frame(TABLE, gap="x"), InputError, "no column 'x'; there are 'run', 'gap'"),
    (lambda: from_frame({"run": [1.0, np.nan], "gap": [1.0, 2.0]}), FiniteError, r"run\[1\] is missing"),
    (
        lambda: from_frame({"run": [1, 1], "gap": ["a", "b"]}),
        DTypeError,
        "column 'gap', row 1 is 'a'; expected a number",
    ),
    (lambda: from_frame({"run": [1, 1], "gap": [1.0, -1.0]}), InputError, "run 0, gap 1"),
    (
        lambda: from_frame({"run": [1, 1], "gap": [1.0, 2.0, 3.0]}),
        ShapeError,
        r"column 'run' has shape \(2,\), 'gap' \(3,\)",
    ),
    (
        lambda: from_frame({"run": [1, 1], "gap": [1.0, 2.0], "open": [True]}, censored="open"),
        ShapeError,
        r"'open' has shape \(1,\)",
    ),
    (
        lambda: from_events({"time": [1.0], "u": [1, 2]}, run="u"),
        ShapeError,
        r"column 'u' has shape \(2,\), 'time' \(1,\)",
    ),
    (lambda: from_frame(3), DTypeError, "frame must be a pandas.DataFrame or a mapping"),
    (lambda: from_events({"time": [1.0, np.inf]}), FiniteError, r"time\[1\] is inf"),
    (lambda: from_events({"time": [1, 2], "u": ["a", None]}, run="u"), FiniteError, r"u\[1\] is missing"),
    (lambda: from_events({"time": ["2026-03-01 10:75"]}), DTypeError, "time., row 1 is .2026-03-01 10:75"),
    (lambda: from_frame({"gap": [1.0]}, alone="no"), DTypeError, "alone must be True or False"),
    (lambda: from_events({"time": []}), ShapeError, "column 'time' is empty"),
    (
        lambda: from_events({"time": [1.0, 2.0], "u": [1, 2]}, run="u"),
        InputError,
        "no two events are of one run",
    ),
    (lambda: from_events(EVENTS, run="user", timeout=0.0), InputError, "timeout is 0.0"),
    (lambda: from_events({"time": ["2026-01-01", "soon"]}), DTypeError, "time, row 2 is 'soon'"),
    (lambda: from_events({"time": ["2026-01-01", None]}), FiniteError, "time, row 2 is no time"),
    (lambda: from_events({"time": [np.nan, "2026-01-01"]}), FiniteError, "time, row 1 is no time"),
    (
        lambda: from_events({"time": ["2026-02-30", "2026-03-01"]}),
        DTypeError,
        "row 1 is '2026-02-30', which is no date",
    ),
    (
        lambda: from_events({"time": ["31/1/2026", "1/31/2026"]}),
        InputError,
        "row 1 has the day first, row 2 the month",
    ),
    (
        lambda: from_events(EVENTS, run="user", end=50.0),
        InputError,
        r"end is before time\[5\], the last event, by 10",
    ),
    (
        lambda: from_events(EVENTS | {"c": EVENTS["time"]}, end=80.0, censored="c"),
        DTypeError,
        "column 'c' must hold True or",
    ),
    (lambda: Runs([1.0], [1], [1]), DTypeError, "censored must hold True or False"),
    (lambda: Runs([1.0], [1], [True, False]), ShapeError, r"censored has shape \(2,\); expected \(1,\)"),
    (lambda: read("nowhere.csv"), InputError, "there is no file 'nowhere.csv'"),
    (
        lambda: TransientMAP.load("nowhere.json"),
        InputError,
        "'nowhere.json' cannot be read: No such file or directory",
    ),
]


test_wrong_tables = refusals(WRONG)


def test_wrong_files(tmp_path):
    np.savez(tmp_path / "a.npz", y=[1.0])
    with pytest.raises(InputError, match="a.npz' has the arrays y; expected 'values' and 'lengths'"):
        read(tmp_path / "a.npz")
    (tmp_path / "a.doc").write_text("")
    with pytest.raises(
        InputError, match="a.doc' ends in '.doc'; expected .npz, .csv, .csv.gz, .txt or .parquet"
    ):
        read(tmp_path / "a.doc")
    (tmp_path / "b.npz").write_bytes(b"not a zip file")
    with pytest.raises(InputError, match="b.npz' cannot be read: File is not a zip file"):
        read(tmp_path / "b.npz")
    with (tmp_path / "c.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(InputError, match="c.npz' cannot be read: File is not a zip file"):
        read(tmp_path / "c.npz")
    (tmp_path / "m.json").write_text(json.dumps({"alpha": [1.0]}))
    with pytest.raises(InputError, match="m.json' holds no model: KeyError: 'orders'"):
        TransientMAP.load(tmp_path / "m.json")


def test_an_empty_table(tmp_path):
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(InputError, match="a.csv' cannot be read: No columns to parse"):
        read(tmp_path / "a.csv")


def test_models_come_back(tmp_path):
    MODEL.save(tmp_path / "m.json")
    again = TransientMAP.load(tmp_path / "m.json")
    for name in "alpha orders rates switching".split():
        assert_array_equal(getattr(again, name), getattr(MODEL, name))


def test_command_line(tmp_path, told):
    """Write, simulate, fit and describe a process."""
    TransientMAP([0.6, 0.4], [1, 2], [5.0, 1.0], [[0.5, 0.3], [0.2, 0.6]]).save(tmp_path / "truth.json")
    runs, model = str(tmp_path / "runs.npz"), str(tmp_path / "model.json")
    assert main(f"simulate {tmp_path}/truth.json --runs 400 --out {runs} --space serial".split()) == 0
    fitting = f"fit {runs} --orders 1,2 --starts 2 --errors --out {model} --space serial".split()
    assert main(fitting) == 0
    assert main(f"fit {runs} --total 2 --starts 1 --renewal --space serial".split()) == 0
    assert main(f"fit {runs} --total 2 --starts 1 --criterion cross_validated --space serial".split()) == 0
    assert main(f"describe {runs} --model {model} --space serial".split()) == 0
    out = told.out
    for words in (
        "n_runs=400",
        "log-likelihood",
        "standard errors",
        "orders by BIC",
        "orders by cross validated",
        "AIC",
        "renewal process",
        "rescaled gaps",
    ):
        assert words in out
    assert TransientMAP.load(model).orders.tolist() == [1, 2]
    assert main(["describe", str(tmp_path / "none.npz")]) == 2
    assert "there is no file" in told.err


def test_outputs_are_checked_first(tmp_path, told):
    """The check precedes the search for the input file, which does not exist."""
    assert main(f"fit none.npz --orders 1 --out {tmp_path}/no/a.json".split()) == 2
    assert "--out is" in told.err
    assert main(f"simulate none.json --runs 3 --out {tmp_path}/a.txt".split()) == 2
    assert "a.txt; expected a name that ends in .npz" in told.err
    assert main("fit none.npz --orders 1 --plot a.xyz".split()) == 2
    assert "--plot is a.xyz; expected a name that ends in one of" in told.err


def test_what_is_missing_is_named_with_its_extra(monkeypatch, told):
    # an import then fails as if the package were not installed
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main("fit none.npz --orders 1 --plot a.png".split()) == 2
    assert 'pip install ".[plot]"' in told.err


def test_figures(tmp_path):
    from portable.models.tmap import figures

    runs = MODEL.simulate(200, seed=2)
    figure = figures.overview(MODEL, runs)
    figure.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 10_000 and len(figure.axes) == 3
    assert figures.empirical_correlation(runs, 1) == pytest.approx(MODEL.lag_correlation(), abs=0.15)
    assert np.isnan(figures.empirical_correlation(Runs([1.0, 2.0], [1, 1]), 1))


def test_a_column_of_gaps_alone(tmp_path, told):
    """The column is one run in the order of the file, or each gap is a run; without an option it is refused,
    and the error names both."""
    path = tmp_path / "trace.csv"
    path.write_text("gap\n1.5\n2.5\n0.5\n")
    assert_array_equal(read(path, run=None).lengths, [3])
    assert_array_equal(read(path, alone=True).lengths, [1, 1, 1])
    with pytest.raises(InputError, match="no column 'run'.*--one-run.*--alone"):
        read(path)
    with pytest.raises(InputError, match="alone is not for a table of events"):
        read(path, time="gap", alone=True)
    for how, shown in (("--one-run", "n_runs=1"), ("--alone", "n_runs=3")):
        assert main(f"fit {path} --orders 1 {how} --space serial".split()) == 0
        assert shown in told.out


def test_orders_are_counted_before_they_are_fitted(tmp_path, told):
    path = tmp_path / "runs.csv"
    path.write_text("run,gap\n" + "".join(f"{k // 3},{1.0 + k % 5}\n" for k in range(30)))
    assert main(f"fit {path} --total 100".split()) == 2
    assert "or max_branches (--max-branches)" in told.err
    words = f"fit {path} --total 5 --max-branches 2 --starts 1 --space serial".split()
    assert main(words) == 0
    assert "3 ways to share 5 stages" in told.out
