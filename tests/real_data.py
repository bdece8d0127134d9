"""Find the files of real data, which are no part of the project."""

import os
from pathlib import Path

import pytest


def real_data(family, name):
    """Return the path of a file of real data; the test is skipped if it is absent."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    path = Path(os.environ.get("PORTABLE_DATA", beside)) / family / name
    if not path.exists():
        pytest.skip(f"real data not found: {path} (set PORTABLE_DATA to the folder that holds {family}/)")
    return path
