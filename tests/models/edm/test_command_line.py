"""Test the command line, the readers and the figures."""

import csv
import sys

import h5py
import matplotlib
import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from portable.errors import DTypeError, InputError, ShapeError
from portable.models import edm
from portable.models.edm import calibrate, figures, files
from portable.models.edm.__main__ import main
from portable.models.edm.surrogates import SURROGATES

from .series import driver_and_driven, logistic_maps


@pytest.fixture
def table(tmp_path):
    """Write a CSV file with a column of dates, a missing cell, and two series."""
    x = logistic_maps(80, 2)
    path = tmp_path / "table.csv"
    lines = [f"day {t},{a!r},{b!r}" for t, (a, b) in enumerate(x.tolist())]
    lines[7] = lines[7].rsplit(",", 1)[0] + ","
    path.write_text("date,a,b\n" + "\n".join(lines) + "\n")
    x[7, 1] = np.nan
    return path, x


def test_readers(tmp_path, table):
    path, x = table
    with pytest.warns(UserWarning, match="table.csv': date hold no numbers, and are left out"):
        found = files.read(path)
    assert list(found) == ["a", "b"]
    assert_array_equal(found["b"], x[:, 1])
    np.save(tmp_path / "x.npy", x)
    assert_array_equal(files.read(tmp_path / "x.npy")["1"], x[:, 1])


def test_hdf5(tmp_path):
    x = logistic_maps(30, 2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["recording/values"] = x
    assert_array_equal(files.read(tmp_path / "x.h5")["0"], x[:, 0])
    with pytest.raises(InputError, match="has no dataset 'other'; it has recording/values"):
        files.read(tmp_path / "x.h5", "other")


def test_dates_of_a_file_are_kept(tmp_path, told):
    """The first column of dates gives the times of the rows, and of predictions beyond them."""
    x, out = logistic_maps(60, 2), tmp_path / "out.csv"
    months = pandas.date_range("1985-01-01", periods=60, freq="MS")
    frame = pandas.DataFrame(x, columns=["a", "b"])
    frame.insert(0, "month", months.strftime("%Y-%m"))
    frame.to_csv(tmp_path / "x.csv", index=False)
    table = files.read(tmp_path / "x.csv")
    assert list(table) == ["a", "b"]
    assert_array_equal(table.times, months.to_numpy())
    found = edm.simplex(table, 2, columns="a", target="b")
    wanted = pandas.date_range("1985-03-01", periods=59, freq="MS")
    assert_array_equal(found.index, wanted.to_numpy())
    assert main(f"simplex {tmp_path}/x.csv --columns a --target b -E 2 --out {out}".split()) == 0
    written = pandas.read_csv(out)
    assert written.time.tolist() == wanted.strftime("%Y-%m-%d").tolist()
    assert "warning" not in told.err
    assert_allclose(written.predicted, found.predicted, rtol=1e-9)
    frame["month"] = [*months[:-1].strftime("%Y-%m-%d %H:%M:%S"), "1999-13-01 00:00:00"]
    frame.to_csv(tmp_path / "x.csv", index=False)
    with pytest.warns(UserWarning, match="month hold no numbers, and are left out"):
        assert files.read(tmp_path / "x.csv").times is None


def test_parquet(tmp_path):
    import pandas

    x = logistic_maps(40, 2)
    dates = pandas.date_range("2001-05-06", periods=40, freq="D", tz="Europe/Berlin")
    frame = pandas.DataFrame(x, columns=["a", "b"], index=dates)
    frame = frame.assign(site="north", count=pandas.array([None] + [3] * 39, "Int64"))
    frame.to_parquet(tmp_path / "x.parquet")
    with pytest.warns(UserWarning, match="x.parquet': site hold no numbers, and are left out"):
        found = files.read(tmp_path / "x.parquet")
    assert list(found) == ["a", "b", "count"]
    assert_array_equal(np.column_stack([found["a"], found["b"]]), x)
    assert_array_equal(found["count"], [np.nan] + [3.0] * 39)
    assert_array_equal(found.times, dates.tz_convert(None).to_numpy())
    frame[["a", "b"]].reset_index(drop=True).iloc[5:].to_parquet(tmp_path / "part.parquet")
    part = files.read(tmp_path / "part.parquet")
    assert list(part) == ["a", "b"] and part.times is None
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "x.parquet").read_bytes()[:-30])
    with pytest.raises(InputError, match="cut.parquet' cannot be read"):
        files.read(tmp_path / "cut.parquet")
    frame.iloc[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ShapeError, match="none.parquet' has no rows"):
        files.read(tmp_path / "none.parquet")
    pandas.DataFrame({"a": np.zeros(40_000_000, np.int8)}).to_parquet(tmp_path / "bomb.parquet")
    with pytest.raises(InputError, match="bomb.parquet' holds .* bytes, which unpack to more"):
        files.read(tmp_path / "bomb.parquet")


def test_parquet_wants_its_reader(tmp_path, monkeypatch, told):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert main(["embed", str(tmp_path / "x.parquet"), "--columns", "a"]) == 2
    said = told.err
    assert "the module 'pyarrow' is not installed" in said


@pytest.mark.parametrize(
    "name, content, error, words",
    [
        ("absent.csv", None, InputError, "there is no file"),
        (
            "table.txt",
            "a\n1\n",
            InputError,
            r"ends in '.txt'; expected .csv, .csv.gz, .parquet, .npy, .h5 or .hdf5",
        ),
        ("short.csv", "a,b\n", ShapeError, r"has 1 line\(s\)"),
        (
            "ragged.csv",
            "a,b\n1,2\n3\n",
            ShapeError,
            "line 3 has 1 cells, the header 2; expected equal numbers",
        ),
        ("words.csv", "a,b\nx,y\n", DTypeError, "has no column of numbers"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, error, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=words):
        files.read(tmp_path / name)


def test_commands(table, tmp_path, told):
    path, x = table
    assert main(f"embed {path} --columns a --E-max 3".split()) == 0
    assert f"best E: {edm.embedding_dimension(x[:, 0], 3).best}" in told.out
    out = tmp_path / "predicted.csv"
    assert main(f"simplex {path} --columns a --target b -E 2 --out {out}".split()) == 0
    found = edm.simplex(x[:, 0], 2, target=x[:, 1])
    assert f"rho = {found.rho:.6f}" in told.out
    assert_allclose(np.genfromtxt(out, delimiter=",", skip_header=1)[:, 2], found.predicted, rtol=1e-9)
    assert main(f"smap {path} --columns a -E 2 --theta 0 2".split()) == 0
    assert f"{edm.smap(x[:, 0], 2, theta=2.0).rho[0]:.6g}" in told.out
    assert main(f"ccm {path} --columns a --target b -E 2 --sizes 20 --samples 3".split()) == 0
    wanted = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[20], n_samples=3)
    printed = told.out
    assert f"{wanted.mean[0]:.6g}" in printed and all(name in printed for name in wanted._columns())
    matrix = tmp_path / "rho.npy"
    assert main(f"crossmap {path} -E 2 --out {matrix}".split()) == 0
    assert_array_equal(np.load(matrix), edm.cross_map(x, 2))


def test_a_convergent_cross_map_wants_its_target(table, told):
    with pytest.raises(SystemExit) as stopped:
        main(["ccm", str(table[0]), *"--columns a -E 2 --sizes 20".split()])
    assert stopped.value.code == 2 and "required: --target" in told.err


def test_tests_on_the_command_line(tmp_path, capsys):
    x = driver_and_driven(120)
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b", comments="", fmt="%.17g")
    given, out = [str(tmp_path / "x.csv")], tmp_path / "pairs.csv"
    keys = {"n_surrogates": 39, "surrogate": "phase"}
    chosen = "-E 2 --surrogates 39 --surrogate phase".split()
    found = edm.cross_map_test(x, 2, **keys)
    assert main(["test", *given, *chosen]) == 0
    assert found.summary().splitlines()[1] in capsys.readouterr().out
    assert main(["test", *given, *chosen, *f"--out {out} --method by".split()]) == 0
    with open(out, newline="") as file:
        written = {(row["library"], row["target"]): row["q"] for row in csv.DictReader(file)}
    assert float(written["b", "a"]) == found.adjusted("by")[1, 0]
    capsys.readouterr()
    assert main(["lagged", *given, *chosen, *"--columns b --target a --lags -3 2".split()]) == 0
    found = edm.lagged_map(x[:, 1], x[:, 0], 2, Tp=range(-3, 3), **keys)
    assert f"peak at Tp = {found.peak} ({found.peak_interval[0]} to" in capsys.readouterr().out
    assert main(["ccm", *given, *chosen, *"--columns b --target a --sizes 10 80 --samples 9".split()]) == 0
    found = edm.ccm(x[:, 1], x[:, 0], 2, library_sizes=[10, 80], n_samples=9, **keys).test()
    assert f"largest less smallest library: {found.difference:.4f}" in capsys.readouterr().out


def test_groups_and_windows_on_the_command_line(tmp_path, capsys):
    x = np.column_stack([driver_and_driven(120), logistic_maps(120, 1)])
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
    given = f"{tmp_path}/x.csv --library a b --library c b --lib 0 90 --pred 90 120".split()
    given += ["--E-max", "3"]
    keys = {"lib": (0, 90), "pred": (90, 120)}
    best = [max(1, edm.embedding_dimension(x[:, c], 3, **keys).best) for c in range(3)]
    dims = [[max(best[0], best[1])], [max(best[2], best[1])]]
    keys["libraries"] = [[0, 1], [2, 1]]
    assert main(["crossmap", *given]) == 0
    printed = capsys.readouterr().out
    assert "a + b" in printed and "c + b" in printed
    assert all(f"{rho:.4f}" in printed for rho in edm.cross_map(x, dims, **keys).ravel())
    chosen = "--surrogates 9 --max-surrogates 400 --surrogate phase".split()
    assert main(["test", *given, *chosen]) == 0
    found = edm.cross_map_test(x, dims, n_surrogates=9, max_surrogates=400, surrogate="phase", **keys)
    printed = capsys.readouterr().out
    assert found.summary().splitlines()[0] in printed
    assert main(["crossmap", *given, "--dims", "target"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{rho:.4f}" in printed for rho in edm.cross_map(x, best, **keys).ravel())
    assert main(f"crossmap {tmp_path}/x.csv -E 2 --library a z".split()) == 2
    assert "--library: there is no column 'z'; the columns are a, b, c" in capsys.readouterr().err


def test_calibration_tells_classes_and_surrogates(told):
    assert main("calibrate --pairs 2 --times 60 --surrogates 4 --space serial".split()) == 0
    printed = told.out
    assert "2 pairs of each class" in printed and "AR(1) 0.98" in printed and "seasonal" in printed
    small = calibrate.calibrate(2, 60, 4, kinds=True)
    assert set(small.shares["intermittent"]) == {"default", *SURROGATES}


def test_wrong_requests_have_their_reason(table, told):
    path, _ = table
    assert main(["embed", str(path), "--columns", "c"]) == 2
    assert "edm: columns: there is no column 'c'; the columns are a, b" in told.err
    assert main(f"simplex {path} --columns a --target z -E 2".split()) == 2
    assert "target: there is no column 'z'" in told.err


def test_figures_show_what_they_are_given(tmp_path):
    matplotlib.use("Agg")
    x = logistic_maps(80, 4)
    found = edm.embedding_dimension(x[:, 0], 3)
    axes = figures.draw_dimensions(found)
    assert_array_equal(axes.lines[1].get_ydata(), found.rho)
    theta = edm.smap(x[:, 0], 2, theta=[0.0, 1.0])
    assert_array_equal(figures.draw_theta(theta).lines[1].get_ydata(), theta.rho)
    grown = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[10, 40], n_samples=4, n_surrogates=3)
    assert_array_equal(figures.draw_convergence(grown).lines[1].get_ydata(), grown.mean)
    lags = edm.lagged_map(x[:, 0], x[:, 1], 2, Tp=[-1, 0, 1])
    axes = figures.draw_lags(lags)
    assert_array_equal(axes.lines[1].get_ydata(), lags.rho)
    assert axes.lines[2].get_xdata()[0] == lags.peak and list(axes.lines[0].get_ydata()) == [0.0, 0.0]
    assert (axes.get_xticks() % 1 == 0).all() and axes.get_xlabel() == "lag Tp, steps"
    rho = edm.cross_map(x, 2)
    order = figures.cluster_order(rho)
    assert sorted(order) == [0, 1, 2, 3]
    assert_array_equal(figures.draw_cross_map(rho).images[0].get_array(), rho[np.ix_(order, order)])
    wide = figures.draw_cross_map(rho[:2, :3], names=list("abc"), libraries=["a + b", "c + b"])
    ticks = [[one.get_text() for one in axis.get_ticklabels()] for axis in (wide.xaxis, wide.yaxis)]
    assert ticks == [["a", "b", "c"], ["a + b", "c + b"]] and wide.get_title() == "cross map"
    matplotlib.pyplot.close("all")


def test_a_wide_matrix_is_printed_whole(tmp_path, told):
    x = logistic_maps(60, 12)
    np.save(tmp_path / "x.npy", x)
    assert main(f"crossmap {tmp_path}/x.npy -E 2".split()) == 0
    printed = told.out
    assert all(f"{v:.4f}" in printed for v in edm.cross_map(x, 2).ravel())
    assert main(f"crossmap {tmp_path}/x.npy --columns 3 0 -E 2".split()) == 0
    assert f"{edm.cross_map(x[:, [3, 0]], 2)[0, 1]:.4f}" in told.out


@pytest.mark.parametrize(
    ("option", "command"), [("--out", "crossmap"), ("--out", "simplex"), ("--plot", "embed")]
)
def test_what_cannot_be_written_is_refused_first(table, tmp_path, told, option, command):
    path, _ = table
    given = [] if command == "crossmap" else ["--columns", "a"]
    given += [] if command == "embed" else ["-E", "2"]
    assert main([command, str(path), *given, option, str(tmp_path / "none" / "x.npy")]) == 2
    assert f"{option} is " in told.err


def test_a_figure_has_a_known_kind_of_file(table, tmp_path, told):
    assert main(["embed", str(table[0]), *f"--columns a --plot {tmp_path}/x.doc".split()]) == 2
    assert "x.doc; expected a name that ends in one of" in told.err


def test_the_textbook_example_names_the_driver(tmp_path, capsys):
    """In logistic maps (Sugihara et al. 2012) the hare drives the lynx by 0.1, the lynx the hare by 0.02."""
    hare, lynx = np.empty((2, 600))
    hare[0], lynx[0] = 0.4, 0.2
    for t in range(599):
        hare[t + 1] = hare[t] * (3.8 - 3.8 * hare[t] - 0.02 * lynx[t])
        lynx[t + 1] = lynx[t] * (3.5 - 3.5 * lynx[t] - 0.1 * hare[t])
    path, columns = tmp_path / "table.csv", np.column_stack([1900 + np.arange(600), hare, lynx])
    np.savetxt(path, columns, delimiter=",", header="year,hare,lynx", comments="", fmt="%.17g")
    assert main(["crossmap", str(path)]) == 0
    printed, said = capsys.readouterr()
    own = [edm.embedding_dimension(series, 20).best for series in (hare, lynx)]
    rho = edm.cross_map(columns[:, 1:], np.array(own)[:, None])
    rows = [line.split() for line in printed.splitlines() if line[1:7].strip() in ("hare", "lynx")]
    assert [row[3] for row in rows] == [str(E) for E in own]
    assert rho[1, 0] > 0.9 > rho[0, 1] and f"{rho[1, 0]:.4f}" in rows[1] and f"{rho[0, 1]:.4f}" in rows[0]
    drivers = [line for line in printed.splitlines() if " drives " in line and not line.startswith("skill")]
    assert drivers[0].startswith("hare drives lynx: ")
    assert "row X, column Y: how well X's history finds Y, so Y drives X" in printed
    assert "'year' numbers the times, and is no series" in said
    assert main(f"test {path} --columns hare lynx".split()) == 0
    assert "hare drives lynx: its skill from lynx's history is" in capsys.readouterr().out
    noise = np.random.default_rng(0).normal(size=(200, 2))
    np.savetxt(path, noise, delimiter=",", header="a,b", comments="")
    assert main(["crossmap", str(path)]) == 0
    assert "no driver is named" in capsys.readouterr().out


def test_windows_may_be_repeated(tmp_path, told):
    x = logistic_maps(120, 1)[:, 0]
    np.savetxt(tmp_path / "x.csv", x, header="x", comments="", fmt="%.17g")
    given = f"simplex {tmp_path}/x.csv --columns x -E 2".split()
    lib = "--lib 0 30 --lib 50 80".split()
    assert main([*given, *lib, *"--pred 80 100 --pred 100 120".split()]) == 0
    wanted = edm.simplex(x, 2, lib=[(0, 30), (50, 80)], pred=[(80, 100), (100, 120)]).rho
    assert f"rho = {wanted:.6f}" in told.out
    assert wanted != edm.simplex(x, 2, lib=(50, 80), pred=(100, 120)).rho
