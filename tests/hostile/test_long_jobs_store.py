"""Test that long jobs lose no data: killed at writes, on a full disk, with a second process, damaged,
continued.

PORTABLE_HOSTILE=1 tries every write, which takes some minutes; otherwise a sample of the writes is tried.
"""

import os

import numpy as np
import pytest

from ..processes import python
from . import jobs

STEP = 1 if os.environ.get("PORTABLE_HOSTILE") else 251
KEPT = [job for job in jobs.JOBS if job != "model_file"]


@pytest.mark.parametrize("job", jobs.JOBS)
def test_killed_full_and_held(job, tmp_path):
    done = python("-m", "tests.hostile.killing", job, str(tmp_path / "run"), str(STEP), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every result was the same" in done.stdout


@pytest.fixture
def everything(monkeypatch):
    for module, name, value in jobs.SHORT:
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("job", KEPT)
def test_extended_recognised_and_damaged(job, tmp_path, everything):
    """Run the longer job after the shorter one, both again, and again with each part damaged in turn."""
    short, _ = jobs.result(job, tmp_path / "short")
    long, _ = jobs.result(job, tmp_path / "long", True)
    assert not jobs.same(short, long)
    assert jobs.same(jobs.result(job, tmp_path / "short", True)[0], long)
    before = jobs.parts(tmp_path / "short")
    assert len(before) > 4
    assert jobs.same(jobs.result(job, tmp_path / "short", True)[0], long)
    assert jobs.parts(tmp_path / "short") == before  # finished: the result is recognised
    damaged = [file for file in before if file.name != "out.npz"]
    for file in damaged[:: 1 if STEP == 1 else 9]:
        content = before[file]
        at = len(content) // 2
        file.write_bytes(content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :])
        found, told = jobs.result(job, tmp_path / "short", True)
        assert jobs.same(found, long)
        assert all(f"'{file}' is damaged" in text for text in told) and (told or file.name.startswith("end-"))
        after = jobs.parts(tmp_path / "short")
        assert all(
            after[path] == before[path]
            for path in before
            if path != file and not path.name.startswith("now-")
        )
        file.write_bytes(content)


def test_whose_the_file_is_may_be_forgotten(tmp_path, everything):
    """If the record of the run that made the output is damaged, the output is not overwritten."""
    jobs.result("cross_map", tmp_path)
    (tmp_path / "rho.npy.checkpoint" / "out.npz").write_bytes(b"")
    rows = np.load(tmp_path / "rho.npy")
    with (
        pytest.raises(ValueError, match="exists and is not of this run"),
        pytest.warns(RuntimeWarning, match="out.npz' is damaged"),
    ):
        jobs.cross_map(tmp_path, False)
    np.testing.assert_array_equal(np.load(tmp_path / "rho.npy"), rows)
