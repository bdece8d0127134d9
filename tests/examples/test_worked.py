"""Run the worked examples of docs/roofline-worked.md: each checks itself, on every space, at a small size."""

import runpy
import sys
from pathlib import Path

import pytest

WORKED = Path(__file__).parents[2] / "docs" / "worked"


@pytest.mark.parametrize("name", sorted(path.stem for path in WORKED.glob("calc_sigma_*.py")))
def test_it_checks_itself(space, name, monkeypatch, told):
    monkeypatch.setattr(
        sys,
        "argv",
        [f"{name}.py", space, "40", "2"] if space == "checked" else [f"{name}.py", space, "300", "9"],
    )
    runpy.run_path(str(WORKED / f"{name}.py"), run_name="__main__")
    assert f"{name} on {space}" in told.out


def test_every_step_is_told():
    page = (WORKED.parent / "roofline-worked.md").read_text()
    assert all(f"worked/{path.name}" in page for path in WORKED.glob("*.py"))


def test_edm_kernels_run(space, monkeypatch, told):
    if space == "checked":
        pytest.skip("the search of neighbours is tested there at its own sizes")
    monkeypatch.setattr(sys, "argv", ["edm_kernels.py", space, "600", "2"])
    runpy.run_path(str(WORKED / "edm_kernels.py"), run_name="__main__")
    assert f"edm_kernels on {space}" in told.out
