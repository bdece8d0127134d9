"""Apply a defect that slows down one family, a patch in tests/roofline/defects: the scoreboard must name it.

A record and a run of the changed copy are timed, two minutes on two idle cores; therefore this runs only if
the file is named on the command line, and the cores are idle.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from portable.roofline import checks, machine

from ..processes import python

ROOT = Path(__file__).parents[2]
PATCHES = sorted((Path(__file__).parent / "defects").glob("*.patch"))  # named after the family


def copied(folder, patch=None):
    """Copy the packages into a separate folder, changed by a patch."""
    for name in ("portable", "models", "roofline"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    if patch:
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("patch", PATCHES)
def test_a_defect_applies(patch, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    copied(tmp_path, patch)


def run_in(folder, *options):
    return python(
        "-m",
        "portable.roofline",
        "scoreboard",
        *options,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
    )


@pytest.mark.parametrize("patch", PATCHES)
def test_a_defect_is_found(patch, tmp_path):
    """The unchanged tree makes a record and holds it; with the defect the rows of its family are slower."""
    if (machine.facts("serial")["busy_cores"] or 0.0) > checks.BUSY:
        pytest.skip("other work keeps the cores busy")
    (tmp_path / "records").mkdir()
    named = ["--only", f"{patch.stem} float", "--records", str(tmp_path / "records")]
    fine = copied(tmp_path / "fine")
    recorded = run_in(fine, *named, "--record", "--commit", "1234abcd", "--minutes", "4")
    assert recorded.returncode == 0, recorded.stderr
    again = run_in(fine, *named, "--minutes", "4")
    assert again.returncode == 0, again.stdout
    found = run_in(copied(tmp_path / "broken", patch), *named, "--minutes", "6")
    assert found.returncode == 1 and f"{patch.stem} float64 (slower)" in found.stdout, found.stdout
