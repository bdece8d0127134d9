"""The command line, the readers and the figures."""

import csv

import numpy as np
import pytest

import portable as pk
from models import edm
from models.edm import figures, files
from models.edm.__main__ import main

from .series import driver_and_driven, logistic_maps


@pytest.fixture
def table(tmp_path):
    """A CSV file with a column of dates, a missing cell, and two series."""
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
    np.testing.assert_array_equal(found["b"], x[:, 1])
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(files.read(tmp_path / "x.npy")["1"], x[:, 1])


def test_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    x = logistic_maps(30, 2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["recording/values"] = x
    np.testing.assert_array_equal(files.read(tmp_path / "x.h5")["0"], x[:, 0])
    with pytest.raises(pk.InputError, match="has no dataset 'other'; it has recording/values"):
        files.read(tmp_path / "x.h5", "other")


@pytest.mark.parametrize("name, content, error, words", [
    ("absent.csv", None, pk.InputError, "there is no file"),
    ("table.txt", "a\n1\n", pk.InputError, r"ends in '.txt'; .csv, .csv.gz, .npy, .h5 or .hdf5 is wanted"),
    ("short.csv", "a,b\n", pk.ShapeError, r"has 1 line\(s\)"),
    ("ragged.csv", "a,b\n1,2\n3\n", pk.ShapeError, "line 3 has 1 cells, the header 2; as many are wanted"),
    ("words.csv", "a,b\nx,y\n", pk.DTypeError, "has no column of numbers"),
])
def test_files_that_cannot_be_read(tmp_path, name, content, error, words):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(error, match=words):
        files.read(tmp_path / name)


def test_commands(table, tmp_path, capsys):
    path, x = table
    assert main(["embed", str(path), "--columns", "a", "--E-max", "3", "--space", "threads"]) == 0
    assert f"best E: {edm.embedding_dimension(x[:, 0], 3, space='threads').best}" in capsys.readouterr().out
    out = tmp_path / "predicted.csv"
    assert main(["simplex", str(path), "--columns", "a", "--target", "b", "-E", "2", "--out", str(out), "--space", "threads"]) == 0
    found = edm.simplex(x[:, 0], 2, target=x[:, 1], space="threads")
    assert f"rho = {found.rho:.6f}" in capsys.readouterr().out
    np.testing.assert_allclose(np.genfromtxt(out, delimiter=",", skip_header=1)[:, 2], found.predicted, rtol=1e-9)
    assert main(["smap", str(path), "--columns", "a", "-E", "2", "--theta", "0", "2", "--space", "threads"]) == 0
    assert f"{edm.smap(x[:, 0], 2, theta=2.0, space='threads').rho[0]:.6g}" in capsys.readouterr().out
    assert main(["ccm", str(path), "--columns", "a", "--target", "b", "-E", "2", "--sizes", "20", "--samples", "3", "--space", "threads"]) == 0
    wanted = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[20], n_samples=3, space="threads")
    assert f"{wanted.mean[0]:.6g}" in capsys.readouterr().out
    matrix = tmp_path / "rho.npy"
    assert main(["crossmap", str(path), "-E", "2", "--out", str(matrix), "--space", "threads"]) == 0
    np.testing.assert_array_equal(np.load(matrix), edm.cross_map(x, 2, space="threads"))


def test_a_convergent_cross_map_wants_its_target(table, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["ccm", str(table[0]), "--columns", "a", "-E", "2", "--sizes", "20"])
    assert stopped.value.code == 2 and "required: --target" in capsys.readouterr().err


def test_tests_on_the_command_line(tmp_path, capsys):
    x = driver_and_driven(120)
    np.savetxt(tmp_path / "x.csv", x, delimiter=",", header="a,b", comments="", fmt="%.17g")
    given, out = [str(tmp_path / "x.csv")], tmp_path / "pairs.csv"
    keys = {"n_surrogates": 39, "surrogate": "phase", "space": "threads"}
    chosen = ["-E", "2", "--surrogates", "39", "--surrogate", "phase", "--space", "threads"]
    found = edm.cross_map_test(x, 2, **keys)
    assert main(["test", *given, *chosen]) == 0
    assert found.summary().splitlines()[1] in capsys.readouterr().out
    assert main(["test", *given, *chosen, "--out", str(out), "--adjust", "by"]) == 0
    with open(out, newline="") as file:
        written = {(row["library"], row["target"]): row["q"] for row in csv.DictReader(file)}
    assert float(written["b", "a"]) == found.adjusted("by")[1, 0]
    capsys.readouterr()
    assert main(["lagged", *given, *chosen, "--columns", "b", "--target", "a", "--lags", "-3", "2"]) == 0
    found = edm.lagged_map(x[:, 1], x[:, 0], 2, Tp=range(-3, 3), **keys)
    assert f"peak at Tp = {found.peak} ({found.peak_interval[0]} to" in capsys.readouterr().out
    assert main(["ccm", *given, *chosen, "--columns", "b", "--target", "a", "--sizes", "10", "80",
                 "--samples", "9"]) == 0
    found = edm.ccm(x[:, 1], x[:, 0], 2, library_sizes=[10, 80], n_samples=9, **keys).test()
    assert f"largest less smallest library: {found.difference:.4f}" in capsys.readouterr().out


def test_calibration_tells_classes_and_surrogates(capsys):
    assert main(["calibrate", "--pairs", "2", "--times", "60", "--surrogates", "4", "--space",
                 "threads"]) == 0
    printed = capsys.readouterr().out
    assert "2 pairs of each class" in printed and "AR(1) 0.98" in printed and "random" in printed


def test_wrong_requests_have_their_reason(table, capsys):
    path, _ = table
    assert main(["embed", str(path), "--columns", "c"]) == 2
    assert "edm: columns: there is no column 'c'; the columns are a, b" in capsys.readouterr().err
    assert main(["simplex", str(path), "--columns", "a", "--target", "z", "-E", "2"]) == 2
    assert "target: there is no column 'z'" in capsys.readouterr().err


def test_figures_show_what_they_are_given(tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    x = logistic_maps(80, 4)
    found = edm.embedding_dimension(x[:, 0], 3, space="threads")
    axes = figures.draw_dimensions(found)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), found.rho)
    theta = edm.smap(x[:, 0], 2, theta=[0.0, 1.0], space="threads")
    np.testing.assert_array_equal(figures.draw_theta(theta).lines[0].get_ydata(), theta.rho)
    grown = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[10, 40], n_samples=4, n_surrogates=3, space="threads")
    np.testing.assert_array_equal(figures.draw_convergence(grown).lines[0].get_ydata(), grown.mean)
    lags = edm.lagged_map(x[:, 0], x[:, 1], 2, Tp=[-1, 0, 1], space="threads")
    axes = figures.draw_lags(lags)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), lags.rho)
    assert axes.lines[1].get_xdata()[0] == lags.peak
    rho = edm.cross_map(x, 2, space="threads")
    order = figures.cluster_order(rho)
    assert sorted(order) == [0, 1, 2, 3]
    np.testing.assert_array_equal(figures.draw_cross_map(rho).images[0].get_array(), rho[np.ix_(order, order)])
    matplotlib.pyplot.close("all")


def test_a_wide_matrix_is_printed_whole(tmp_path, capsys):
    x = logistic_maps(60, 12)
    np.save(tmp_path / "x.npy", x)
    assert main(["crossmap", str(tmp_path / "x.npy"), "-E", "2", "--space", "threads"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{v:.4f}" in printed for v in edm.cross_map(x, 2, space="threads").ravel())
    assert main(["crossmap", str(tmp_path / "x.npy"), "--columns", "3", "0", "-E", "2", "--space", "threads"]) == 0
    assert f"{edm.cross_map(x[:, [3, 0]], 2, space='threads')[0, 1]:.4f}" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "command"), [("--out", "crossmap"), ("--out", "simplex"), ("--plot", "embed")])
def test_what_cannot_be_written_is_refused_first(table, tmp_path, capsys, option, command):
    path, _ = table
    given = [] if command == "crossmap" else ["--columns", "a"]
    given += [] if command == "embed" else ["-E", "2"]
    assert main([command, str(path), *given, option, str(tmp_path / "none" / "x.npy")]) == 2
    assert f"{option} is " in capsys.readouterr().err


def test_a_figure_has_a_known_kind_of_file(table, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["embed", str(table[0]), "--columns", "a", "--plot", str(tmp_path / "x.doc")]) == 2
    assert "x.doc is no file for a figure" in capsys.readouterr().err
