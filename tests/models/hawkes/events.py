"""Events for the tests: random ones that a Python interpreter can sum over, and the real ones where they are
found."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from portable.models.hawkes import Parameters

from ...tolerance import assert_close

PARAMS = Parameters(mu0=0.7, tau_x=1.6, tau_t=20.0, theta=0.3, omega=0.5, h=0.4)


def random_events(n_events, n_dims, seed=1):
    """Locations and times with ties (whole hours), bursts and quiet spells; the first time is not 0."""
    random = np.random.default_rng(seed)
    times = 5.0 + np.sort(np.round(random.uniform(0.0, 30.0 * n_events, n_events)))
    times[n_events // 2 : n_events // 2 + 3] = times[n_events // 2]
    return random.normal(size=(n_events, n_dims)), np.sort(times)


def assert_agrees(got, wanted, n_events, dtype=np.float64):
    """Each rate adds up to n terms, each off by as many roundings as its exponent has units: 40 from those
    that count.

    An error of every log-rate by that much adds up over the events.
    """
    assert_close(got, wanted, dtype, n_events + 40, scale=n_events)


def gunfire(name):
    """Locations and times of a file of D.C. gunfire; the test is skipped where the file is not found."""
    beside = Path(__file__).parents[4] / "shared" / "data"
    path = Path(os.environ.get("PORTABLE_DATA", beside)) / "hawkes" / f"dc_gunfire_{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"real data not found: {path} (set PORTABLE_DATA to the folder that holds hawkes/)")
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :2], table[:, 2]
