"""Test the way from files of cells to labels, tables and figures: files of populations, and the command line
from end to end."""

import csv
import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet

import portable as pk
from portable.models.mixture import cytometry, figures, DirichletMixture
from portable.models.mixture.__main__ import main
from portable.models.mixture.cytometry import figures as figures_of_cells

from ...refusals import refusals
from .panels import CHANNELS, MARKERS, fitted, raw_cells, real_file, simulated


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "cells.npz", X=raw_cells(), channels=CHANNELS, markers=MARKERS)
    return tmp_path / "cells.npz"


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("kind", "full tied diag spherical".split())
def test_component_densities_add_up_to_the_marginal(kind):
    sample = cytometry.Sample(raw_cells(), CHANNELS)
    points, good = cytometry.Panel.of([sample]).points(sample)
    model = DirichletMixture(2, covariance=kind, random_state=0, max_iter=5, tol=-1.0).fit(points[good])
    places = np.linspace(-12.0, 12.0, 2001)
    for column in range(2):
        parts = figures.component_densities(model, column, places)
        assert_allclose(parts.sum(axis=1) * (places[1] - places[0]), model.weights_, rtol=1e-6)


def test_probabilities_are_those_of_the_components():
    sample, found = simulated()[0][0], fitted()
    labels = found.predict(sample, probabilities=True)
    points, good = found.panel.points(sample)
    of_components = found.model.predict_proba(points[good])
    own = np.stack(
        [of_components[:, found.members == k].sum(axis=1) for k in range(found.n_populations)], axis=1
    )
    assert_allclose(labels.probabilities[good], own, rtol=1e-6, atol=1e-30)
    assert_array_equal(labels.population[good], own.argmax(axis=1))
    assert_allclose(labels.probability[good], own.max(axis=1), rtol=1e-12)
    assert (found.members[labels.component[good]] == labels.population[good]).all()
    assert labels.counts.tolist() == np.bincount(own.argmax(axis=1), minlength=found.n_populations).tolist()
    shares = cytometry.shares([labels, found.predict(simulated()[0][1])])
    assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(shares[0], labels.counts / good.sum(), rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"transform": "none"},
        {"compensation": "none"},
        {"compensation": (["B530-A"], [[1.0]])},
        {"covariance": "tied"},
    ],
)
@pytest.mark.filterwarnings("ignore:EM stopped after max_iter=3")
def test_a_file_gives_the_same_populations(options, tmp_path):
    samples, found, options = simulated()[0], fitted(), dict(options)
    if options:
        kind = {"covariance": options.pop("covariance", "full")}
        panel = cytometry.Panel.of(samples, saturation=2e5, **options)
        found = cytometry.fit(samples, 3, panel=panel, max_iter=3, rare=False, **kind)
    found.save(tmp_path / "p.npz")
    again = cytometry.Populations.load(tmp_path / "p.npz")
    assert (again.names, again.signatures, again.joins) == (found.names, found.signatures, found.joins)
    assert (again.panel.channels, again.panel.scales, again.panel.saturation) == (
        found.panel.channels,
        found.panel.scales,
        found.panel.saturation,
    )
    for sample in samples:
        one, other = found.predict(sample), again.predict(sample)
        assert (
            one.population == other.population
        ).all() and one.probability.tobytes() == other.probability.tobytes()
    assert_array_equal(again.medians, found.medians)
    assert (DirichletMixture.load(tmp_path / "p.npz").means_ == found.model.means_).all()


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    """Both stages are stored; the second call finds them finished, and gives the same result."""
    samples, _ = cytometry.simulate(seed=1, n_cells=1500, n_populations=3, n_markers=4, n_rare=0)
    fits = [cytometry.fit(samples, 4, space="threads", checkpoint=tmp_path / "kept") for _ in range(2)]
    assert {own.name for own in (tmp_path / "kept").iterdir()} == {"first", "rare"}
    assert fits[0].model.means_.tobytes() == fits[1].model.means_.tobytes() and fits[0].names == fits[1].names
    with pytest.raises(pk.InputError, match="checkpoint: the folder .* does not exist"):
        cytometry.fit(samples, 4, checkpoint=tmp_path / "none" / "kept")


def test_files_that_hold_no_populations(tmp_path):
    fitted().model.save(tmp_path / "m.npz")
    with pytest.raises(pk.InputError, match="holds mixture.DirichletMixture; expected mixture.cytometry"):
        cytometry.Populations.load(tmp_path / "m.npz")
    fitted().save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as file:
        arrays = dict(file)
    members = fitted().members
    name = next(name for name, array in arrays.items() if np.array_equal(array, members))
    header = json.loads(str(arrays["header"]))
    for name, value in (
        (name, np.zeros(3, int)),
        ("header", np.array(json.dumps(header | {"version": 9}))),
        ("header", np.array("[")),
        (name, np.full(len(members), 99)),
    ):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: value})
        with pytest.raises(pk.InputError, match="bad.npz' (has|holds|is damaged)"):
            cytometry.Populations.load(tmp_path / "bad.npz")


def earlier(model, header=None):
    """Return arrays and header of a mixture as written by releases before 0.2."""
    arrays = {name: getattr(model, name) for name in "weights_ means_ covariances_ _centre".split()}
    arrays |= {name: getattr(model, name) for name in ("precisions_cholesky_", "objective_history_")}
    sums, *online = model._online
    arrays |= dict(zip(("online_n", "online_xbar", "online_scatter"), sums))
    numbers = {name: getattr(model, name) for name in ("n_iter_", "n_features_in_", "n_active_")}
    prior = model.prior_
    arrays |= {"prior_.mean": prior.mean, "prior_.scale": prior.scale}
    named = ("mean_scale", "dof", "shape", "rate")
    moves = [[move.entry, move.kind, list(move.components), move.gain] for move in model.moves_]
    header = {
        **{"format": "models.mixture", "version": 1, "arguments": {"n_components": len(model.weights_)}},
        **{"numbers": numbers | {"lower_bound_": model.lower_bound_, "converged_": model.converged_}},
        **{"online": online, "moves": moves, "prior": "default", "feature_names": None},
        "prior_": {name: getattr(prior, name) for name in named},
    }
    return arrays | {"header": np.array(json.dumps(header))}


def test_files_of_earlier_releases(tmp_path):
    """Their mixtures and populations are distinguished from each other and from other results."""
    found, sample = fitted(), simulated()[0][0]
    arrays = earlier(found.model)
    np.savez(tmp_path / "m.npz", **arrays)
    again = DirichletMixture.load(tmp_path / "m.npz")
    assert (again.means_ == found.model.means_).all() and again.moves_ == found.model.moves_
    assert again.prior_.dof == found.model.prior_.dof and again.prior == "default"
    with pytest.raises(pk.InputError, match="holds models.mixture; expected mixture.cytometry.Populations"):
        cytometry.Populations.load(tmp_path / "m.npz")
    panel = found.panel
    about = {
        **{"channels": panel.channels, "names": panel.names, "saturation": None, "compensation": "file"},
        **{"scales": [[scale.kind, *scale.numbers] for scale in panel.scales]},
        **{"populations": found.names, "signatures": found.signatures},
        "joins": [[join.components, join.uncertainty, join.n_groups] for join in found.joins],
    }
    arrays["cytometry"] = np.array(json.dumps(about))
    arrays |= {f"cytometry.{name}": getattr(panel, name) for name in ("centres", "spreads")}
    arrays |= {f"cytometry.{name}": getattr(found, name) for name in ("members", "medians", "cells")}
    np.savez(tmp_path / "p.npz", **arrays)
    again = cytometry.Populations.load(tmp_path / "p.npz")
    assert (again.names, again.joins, again.panel.scales) == (found.names, found.joins, panel.scales)
    assert (again.predict(sample).probability == found.predict(sample).probability).all()
    assert (DirichletMixture.load(tmp_path / "p.npz").means_ == found.model.means_).all()


def test_labels_as_fcs(tmp_path):
    sample, found = simulated()[0][0], fitted()
    labels = found.predict(sample)
    labels.write(tmp_path / "l.fcs", sample)
    back = cytometry.read(tmp_path / "l.fcs")
    assert back.channels == (*sample.channels, "population", "probability", "component")
    assert back.X[:, :-3].tobytes() == sample.X.tobytes()
    assert_array_equal(back.X[:, -3], labels.population)
    assert_array_equal(back.X[:, -2], labels.probability.astype(np.float32))
    assert [back.keywords[f"population_{k}"] for k in range(found.n_populations)] == list(found.names)
    again = found.predict(back)  # labels are no colours, have no limits, and are overwritten
    assert (again.population == labels.population).all() and cytometry.Panel.of(
        [back]
    ).channels == found.panel.channels
    again.write(tmp_path / "again.fcs", back)
    assert cytometry.read(tmp_path / "again.fcs").X.tobytes() == back.X.tobytes()


def test_labels_as_csv_and_parquet(tmp_path):
    labels = fitted().predict(simulated()[0][0], probabilities=True)
    labels.write(tmp_path / "l.csv")
    rows = rows_of(tmp_path / "l.csv")
    assert [int(row["population"]) for row in rows] == labels.population.tolist()
    assert [float(row["probability"]) for row in rows] == labels.probability.tolist()
    assert [row["name"] for row in rows] == [(*labels.names, "")[k] for k in labels.population]
    assert [float(row["probability 1"]) for row in rows] == pytest.approx(
        labels.probabilities[:, 1].tolist(), rel=1e-6
    )
    labels.write(tmp_path / "l.parquet")
    table = parquet.read_table(tmp_path / "l.parquet").to_pydict()
    assert table["population"] == labels.population.tolist() and table["name"] == [
        row["name"] for row in rows
    ]


def test_labels_as_anndata(tmp_path):
    anndata = pytest.importorskip("anndata")
    sample, found = simulated()[0][0], fitted()
    labels = found.predict(sample, probabilities=True)
    labels.write(tmp_path / "l.h5ad", sample, found.panel)
    back = anndata.read_h5ad(tmp_path / "l.h5ad")
    assert (
        list(back.var_names) == list(found.panel.names)
        and back.obs["population"].tolist() == labels.population.tolist()
    )
    values, good = found.panel.values(sample)
    assert_allclose(back.layers["raw"], values)
    assert_allclose(back.X[good], np.arcsinh(values[good] / 150.0), rtol=1e-10, atol=1e-12)
    assert_array_equal(back.obsm["probabilities"], labels.probabilities)


test_what_cannot_be_written_or_drawn = refusals(
    [
        (lambda labels: labels.write("x.txt"), "expected an ending of fcs, csv, parquet, h5ad"),
        (lambda labels: labels.write("x.fcs"), "sample is None; expected the sample"),
        (
            lambda labels: labels.write("x.fcs", cytometry.Sample(raw_cells(), CHANNELS)),
            "has 300 cells, but 500 of 'simulated1' were labelled",
        ),
        (lambda labels: figures_of_cells.check_pairs(fitted().panel, [("CD3",)]), "expected two channels"),
        (
            lambda labels: figures_of_cells.check_pairs(fitted().panel, [("CD3", "CD99")]),
            "pairs holds 'CD99'; the panel has CD3, CD4",
        ),
    ],
    lambda call: call(fitted().predict(simulated()[0][0])),
    error=pk.InputError,
)


def test_missing_libraries_are_named_before_anything_is_read(file, tmp_path, monkeypatch, told):
    for kind, module in (("parquet", "pyarrow.parquet"), ("h5ad", "anndata")):
        monkeypatch.setitem(sys.modules, module, None)
        assert main(f"fit {file} --labels {kind} --out {tmp_path / 'out'}".split()) == 2
        assert f"'{module.partition('.')[0]}' is not installed. pip install" in told.err
    assert not (tmp_path / "out").exists()


def test_ellipses_hold_nine_tenths():
    """Ellipses of a normal distribution contain 90 %: with 100,000 points the share is off by 0.004 in one of
    30,000 runs."""
    covariance = np.array([[2.0, 0.7], [0.7, 0.5]])
    outline = figures_of_cells._ellipse(np.array([1.0, -1.0]), covariance) - [1.0, -1.0]
    radius = np.einsum("ia,ab,ib->i", outline, np.linalg.inv(covariance), outline)
    assert_allclose(radius, radius[0], rtol=1e-9)
    away = np.random.default_rng(1).multivariate_normal([0.0, 0.0], covariance, 100_000)
    inside = np.einsum("ia,ab,ib->i", away, np.linalg.inv(covariance), away) < radius[0]
    assert abs(inside.mean() - 0.9) < 0.004


def test_fit_from_end_to_end(space, file, tmp_path, told):
    out, few = tmp_path / "out", "--max-iter 1 --no-rare" if space == "checked" else ""
    few += "" if space == "serial" else " --figures none"
    assert main(f"fit {file} --components 3 --space {space} --out {out} {few}".split()) == 0
    said = told.out
    assert "300 cells (2 saturated ones or such without numbers left out), 2 channels" in said
    rows = rows_of(out / "components.csv")
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(1.0, rel=1e-12)
    assert sum(int(row["cells"]) for row in rows) == 298
    labels = rows_of(out / "cells.labelled.csv")
    assert [at for at, row in enumerate(labels) if row["population"] == "-1"] == [7, 11] and len(
        labels
    ) == 300
    populations, shares = rows_of(out / "populations.csv"), rows_of(out / "shares.csv")
    assert sum(int(row["cells"]) for row in populations) == 298 and shares[0]["left out"] == "2"
    if space == "serial":
        for name in "biaxial medians shares marginals".split():
            assert (out / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (out / "figures.pdf").read_bytes()[:4] == b"%PDF"
    found = cytometry.Populations.load(out / "mixture.npz", space=space)
    assert found.model.means_.shape[1] == 2 and found.panel.names == ("KI67", "R660-A")


def test_predict_merge_and_figures_of_a_fitted_mixture(tmp_path, told):
    """The sample was not used in the fit, and its channels are in another order."""
    fitted().save(tmp_path / "mixture.npz")
    new = simulated()[0][1]
    turned = cytometry.Sample(new.X[:, ::-1], new.channels[::-1], new.markers[::-1], spillover=new.spillover)
    cytometry.write(turned, tmp_path / "new.fcs")
    out = tmp_path / "out"
    request = f"{tmp_path / 'mixture.npz'} {tmp_path / 'new.fcs'} --space serial --out {out}".split()
    assert main(["predict", *request, *"--labels csv --all-probabilities".split()]) == 0
    rows = rows_of(out / "new.labelled.csv")
    assert [int(row["population"]) for row in rows] == fitted().predict(new).population.tolist()
    of_each = (f"probability {number}" for number in range(fitted().n_populations))
    assert list(rows[0]) == ["cell", "population", "probability", "component", *of_each, "name"]
    assert {own.name for own in out.iterdir()} == {"new.labelled.csv", "shares.csv"}
    assert main(["merge", *request, "--populations", "2"]) == 0
    assert (
        cytometry.Populations.load(out / "mixture.npz").n_populations
        == 2
        == len(rows_of(out / "populations.csv"))
    )
    assert main(["figures", *request, "--pairs", "CD3,CD8"]) == 0
    assert (out / "biaxial.png").exists()
    np.savez(tmp_path / "bare.npz", X=new.X, channels=new.channels)
    for wrong, words in (
        (["figures", *request, "--pairs", "CD3;CD8"], "expected two channels"),
        (["predict", str(tmp_path / "bare.npz"), *request[1:]], "bare.npz' holds no result"),
        (["predict", request[0], str(tmp_path / "bare.npz"), *request[2:]], "bare has no spillover matrix"),
        (["merge", request[0], *f"{tmp_path}/bare.npz --out {tmp_path}".split()], "the file that is read"),
    ):
        assert main(wrong) == 2
        assert words in told.err


def test_a_fit_that_did_not_converge_says_so_and_writes_all_the_same(file, tmp_path, told):
    out = tmp_path / "out"
    words = f"fit {file} --components 3 --space serial --out {out} --max-iter 1 --labels none --figures none"
    assert main(words.split()) == 0
    assert (
        "mixture: warning: EM stopped after max_iter=1 iterations" in told.err
        and (out / "mixture.npz").exists()
    )
    assert not list(out.glob("*.labelled.*")) and not list(out.glob("*.png"))


def test_bad_requests_end_with_a_line(file, tmp_path, capsys, monkeypatch):
    """The error precedes the fit."""
    monkeypatch.setattr(DirichletMixture, "fit", None)
    out, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    (other / "cells.npz").write_bytes(file.read_bytes())
    for request in (
        [str(tmp_path / "none.npz")],
        [str(file), "--cofactor", "0"],
        [str(file), str(other / "cells.npz")],
        [str(file), "--pairs", "KI67"],
        [str(file), "--channels", "CD3"],
        [str(file), "--compensation", "no.csv"],
        f"{file} --method modes --populations 3".split(),
    ):
        assert main(["fit", *request, "--out", str(out)]) == 2
    assert main(["fit", str(file), "--out", str(file)]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 8 and all(line.startswith("mixture: ") for line in lines) and not out.exists()


def test_values_that_the_fit_refuses(file, tmp_path, capsys):
    for option, value in (("--components", "0"), ("--space", "abacus"), ("--cells-per-sample", "0")):
        assert main([*f"fit {file}".split(), option, value, *f"--out {tmp_path}/out".split()]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 3 and not (tmp_path / "out").exists()


def test_a_real_file_from_end_to_end(tmp_path, told):
    """Write 65,016 cells as FCS 3.1, label and draw them; three are saturated; no cell is lost."""
    raw = cytometry.read(real_file())
    cytometry.write(raw, tmp_path / "cells.fcs", keywords={"cyt": "LSR II"})
    assert (tmp_path / "cells.fcs").read_bytes()[:6] == b"FCS3.1"
    out = tmp_path / "out"
    request = f"fit {tmp_path / 'cells.fcs'} --components 6 --cells-per-sample 2000 --no-rare --out {out}"
    assert main([*request.split(), "--channels", *"CD3 CD4 CD8 CD19".split()]) == 0
    assert "65,016 cells (3 saturated ones" in told.out
    back = cytometry.read(out / "cells.labelled.fcs")
    assert len(back.X) == 65_016 and back.X[:, :16].tobytes() == raw.X.tobytes()
    assert back.channels == (*raw.channels, "population", "probability", "component")
    assert back.markers[:16] == raw.markers and back.keywords["cyt"] == "LSR II"
    assert (back.X[:, 16] == -1).sum() == 3 and (
        (back.X[:, 16] == -1) == (raw.X >= 262143.0).any(axis=1)
    ).all()
    assert (back.X[back.X[:, 16] >= 0, 17] > 0.0).all() and (out / "figures.pdf").stat().st_size > 20_000
    names = "population name signature components cells share stability".split()  # docs/cytometry.md
    names += [f"{name} median" for name in cytometry.Populations.load(out / "mixture.npz").panel.names]
    assert list(rows_of(out / "populations.csv")[0]) == names and len(names) == 7 + 4
