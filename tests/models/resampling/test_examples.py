"""The examples of docs/examples/resampling check themselves on every space; the study's command writes what it says."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import portable as pk
from models import resampling
from models.resampling.__main__ import main
from models.resampling.study import SCHEMES

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "resampling"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_it_checks_itself(space, name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", space])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert f"{name} on {space}" in capsys.readouterr().out


def test_the_study_and_what_auto_makes_of_it(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["experiment", "--space", "serial", "--largest", "4", "--quick", "--runs", "2", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "fastest, cpu:" in out and "fastest, both:" in out
    assert len(list(tmp_path.glob("figure*.png"))) == 6
    cells = json.loads((tmp_path / "study.json").read_text())["cells"]
    assert {cell["scheme"] for cell in cells} == set(SCHEMES) and {cell["n"] for cell in cells} == {16, 64, 256}
    for cell in cells:
        cell["seconds"] = float(cell["scheme"] != ("ssp" if cell["y"] == 4.0 else "residual"))
    (tmp_path / "study.json").write_text(json.dumps({"cells": cells}))
    for y, scheme in ((0.0, resampling.residual), (4.0, resampling.ssp)):
        w = np.exp(-0.5 * (np.random.default_rng(1).normal(size=200) - y) ** 2)
        got = resampling.resample(w, seed=1, decisions=tmp_path / "study.json", space="serial")
        np.testing.assert_array_equal(got, scheme(w, seed=1, space="serial"))
    np.testing.assert_array_equal(resampling.resample(w, seed=1), resampling.systematic(w, seed=1))


def test_wrong_studies(tmp_path):
    with pytest.raises(pk.InputError, match="method is 'best'; wanted one of 'auto'"):
        resampling.resample([1.0], method="best", seed=1)
    with pytest.raises(pk.InputError, match="is no study that"):
        resampling.resample([1.0], seed=1, decisions=tmp_path / "none.json")
    with pytest.raises(SystemExit):
        main(["experiment", "--largest", "2"])
