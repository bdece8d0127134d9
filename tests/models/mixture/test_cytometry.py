"""From raw channels to components: the transformation, files, and the command line from end to end."""

import csv

import numpy as np
import pytest

import portable as pk
from models.mixture import DirichletMixture, cytometry, figures
from models.mixture.__main__ import main

CHANNELS, MARKERS = ["FSC-A", "B515-A", "Time", "R660-A"], ["", "KI67", "", ""]


def raw_cells(n=300, seed=1):
    random = np.random.default_rng(seed)
    kinds = np.array([[100.0, 3000.0], [5000.0, 40.0]])[random.integers(0, 2, n)]
    colours = kinds * np.exp(0.3 * random.normal(size=(n, 2)))
    X = np.column_stack([random.uniform(1e4, 2e4, n), colours[:, 0], np.arange(n), colours[:, 1]])
    X[7, 0] = X[11, 3] = 262143.5
    return X.astype(np.float32)


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "cells.npz", X=raw_cells(), channels=CHANNELS, markers=MARKERS)
    return tmp_path / "cells.npz"


def test_transformation_of_colours():
    X = raw_cells()
    cells = cytometry.transform(X, CHANNELS, MARKERS, cofactor=100.0)
    assert cells.names == ["KI67", "R660-A"] and cells.n_saturated == 2 and cells.points.shape == (298, 2)
    back = 100.0 * np.sinh(cells.points * cells.scales + cells.centres)
    np.testing.assert_allclose(back, np.delete(X, [7, 11], axis=0)[:, [1, 3]], rtol=1e-12)
    np.testing.assert_allclose(cells.points.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(cells.points.std(axis=0), 1.0, rtol=1e-12)


def test_tables_of_numbers_are_read(tmp_path, file):
    path = tmp_path / "cells.csv"
    np.savetxt(path, raw_cells(), delimiter=",", header=",".join(CHANNELS), comments="")
    X, channels, markers = cytometry.read(path)
    np.testing.assert_allclose(X, cytometry.read(file)[0], rtol=1e-7)
    assert channels == CHANNELS and markers == [""] * 4


@pytest.mark.parametrize("name, content, words", [
    ("none.npz", None, "there is no file"), ("cells.fcs", b"FCS3.1", "ends in '.fcs'"),
    ("cells.csv", b"a,b\n1,2\nx,y\n", "column 'a', row 2 is 'x'; a number is wanted"), ("short.csv", b"a,b,c\n1,2\n", "line 2 has 2 cells, the header 3")])
def test_files_that_are_no_cells(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(pk.InputError, match=words):
        cytometry.read(tmp_path / name)


@pytest.mark.parametrize("options, channels, words", [
    ({"cofactor": 0.0}, CHANNELS, "cofactor is 0.0"), ({"saturation": -1.0}, CHANNELS, "every cell reaches"),
    ({}, ["FSC-A", "FSC-H", "Time", "SSC-A"], "none of them is a colour")])
def test_transformations_that_leave_nothing(options, channels, words):
    with pytest.raises(pk.InputError, match=words):
        cytometry.transform(raw_cells(), channels, MARKERS, **options)


@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
def test_component_densities_add_up_to_the_marginal(kind):
    X = cytometry.transform(raw_cells(), CHANNELS, MARKERS).points
    model = DirichletMixture(2, covariance=kind, random_state=0, max_iter=5, tol=-1.0, space="serial").fit(X)
    places = np.linspace(-12.0, 12.0, 2001)
    for column in range(2):
        parts = figures.component_densities(model, column, places)
        np.testing.assert_allclose(parts.sum(axis=1) * (places[1] - places[0]), model.weights_, rtol=1e-6)


def test_fit_from_end_to_end(space, file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out, few = tmp_path / "out", ["--iterations", "1"] if space == "checked" else []
    assert main(["fit", str(file), "--components", "3", "--space", space, "--out", str(out), *few]) == 0
    assert "298 cells (2 saturated ones dropped), 2 colours" in capsys.readouterr().out.replace("\n", " ")
    with (out / "components.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1.0, rel=1e-12)
    assert sum(int(row["cells"]) for row in rows) == 298
    assert (out / "marginals.png").read_bytes()[:4] == b"\x89PNG"
    with np.load(out / "mixture.npz") as saved:
        assert saved["means"].shape == (3, 2) and list(saved["names"]) == ["KI67", "R660-A"]


def test_a_fit_that_did_not_converge_says_so_and_writes_all_the_same(file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert main(["fit", str(file), "--components", "3", "--space", "serial", "--out", str(out), "--iterations", "1"]) == 0
    assert "mixture: EM stopped after max_iter=1 iterations" in capsys.readouterr().err and (out / "mixture.npz").exists()


def test_bad_requests_end_with_a_line(file, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    assert main(["fit", str(tmp_path / "none.npz"), "--out", str(out)]) == 2
    assert main(["fit", str(file), "--components", "0", "--out", str(out)]) == 2
    assert main(["fit", str(file), "--space", "abacus", "--out", str(out)]) == 2
    assert main(["fit", str(file), "--out", str(file)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 4 and all(line.startswith("mixture: ") for line in lines) and not out.exists()
