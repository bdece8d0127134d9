"""Run the examples of docs/examples/resampling, which check themselves on every space, and the study's
command with its output."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from portable.models import resampling
from portable.models.resampling.__main__ import main
from portable.models.resampling.study import SCHEMES

import portable as pk

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "resampling"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_it_checks_itself(space, name, monkeypatch, told):
    if space == "threads" and name != "tracking":
        pytest.skip("the same code as on serial")
    monkeypatch.setattr(sys, "argv", [f"{name}.py", space])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert f"{name} on {space}" in told.out


QUICK = "experiment --space serial --quick --runs 2 --out".split()


@pytest.fixture(scope="module")
def studied(tmp_path_factory):
    """Return the folder of a small study that was run without matplotlib."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda name: None)
        assert main([*QUICK, str(folder)]) == 0
    return folder


def cells_of(folder):
    return json.loads((folder / "study.json").read_text())["cells"]


def test_the_study(studied, told):
    """Stored results are not computed again: only the figures are added."""
    assert not list(studied.glob("figure*"))
    cells = cells_of(studied)
    assert {cell["scheme"] for cell in cells} == set(SCHEMES) and {cell["n"] for cell in cells} == {
        16,
        64,
        256,
    }
    assert main([*QUICK, str(studied)]) == 0
    out = told.out
    assert "fastest, cpu:" in out and "fastest, both:" in out
    assert len(list(studied.glob("figure*.png"))) == 6
    assert cells_of(studied) == cells


def test_figures_of_two_machines(studied, tmp_path, told):
    """The studies were run elsewhere, one of them on a GPU."""
    cells = cells_of(studied)
    (tmp_path / "theirs.json").write_text(
        json.dumps({"cells": [cell | {"kind": "cuda", "seconds": 1e-9} for cell in cells]})
    )
    assert main(f"figures {studied}/study.json {tmp_path}/theirs.json --out {tmp_path}".split()) == 0
    assert {path.name for path in tmp_path.glob("figure6*")} == {
        f"figure6-decisions-{kind}.png" for kind in ("cpu", "cuda", "both")
    }
    assert len(list(tmp_path.glob("figure*.png"))) == 11 and len(cells_of(tmp_path)) == 2 * len(cells)
    assert "fastest, both: multinomial, cuda in 9 of 9 cells" in told.out
    assert main(["figures", str(tmp_path / "none.json"), "--out", str(tmp_path)]) == 2


def test_what_auto_makes_of_a_study(studied, tmp_path):
    cells = cells_of(studied)
    for cell in cells:
        cell["seconds"] = float(cell["scheme"] != ("ssp" if cell["y"] == 4.0 else "residual"))
    (tmp_path / "study.json").write_text(json.dumps({"cells": cells}))
    for y, scheme in ((0.0, resampling.residual), (4.0, resampling.ssp)):
        w = np.exp(-0.5 * (np.random.default_rng(1).normal(size=200) - y) ** 2)
        got = resampling.resample(w, seed=1, decisions=tmp_path / "study.json", space="serial")
        assert_array_equal(got, scheme(w, seed=1, space="serial"))
    assert_array_equal(resampling.resample(w, seed=1), resampling.systematic(w, seed=1))


def test_wrong_studies(tmp_path):
    with pytest.raises(pk.InputError, match="method is 'best'; expected one of 'auto'"):
        resampling.resample([1.0], method="best", seed=1)
    with pytest.raises(pk.InputError, match="none.json' cannot be read"):
        resampling.resample([1.0], seed=1, decisions=tmp_path / "none.json")
    assert main(["experiment", "--largest", "2"]) == 2
