"""Make events for the tests: random ones, few enough for a Python interpreter, and the real ones if the files
are present."""

import gzip

import numpy as np

from portable.models.hawkes import Likelihood, Parameters

from ...real_data import real_data
from ...tolerance import assert_close

PARAMS = Parameters(mu0=0.7, tau_x=1.6, tau_t=20.0, theta=0.3, omega=0.5, h=0.4)


def random_events(n_events, n_dims=2, seed=1):
    """Return locations and times with ties (whole hours), bursts and quiet spells; the first time is not
    0."""
    random = np.random.default_rng(seed)
    times = 5.0 + np.sort(np.round(random.uniform(0.0, 30.0 * n_events, n_events)))
    times[n_events // 2 : n_events // 2 + 3] = times[n_events // 2]
    return random.normal(size=(n_events, n_dims)), np.sort(times)


def prepared(n_events, **options):
    """Return locations and times of random events, and their likelihood."""
    events = random_events(n_events)
    return *events, Likelihood(*events, **options)


NINE = random_events(9)
FEW = Likelihood(*NINE, space="serial")


def squares(places):
    """Return the squared distances between all places."""
    return ((places[:, None] - places) ** 2).sum(axis=2)


def assert_agrees(got, wanted, n_events, dtype=np.float64):
    """Compare log-likelihoods. Each rate adds up to n terms, each with as many rounding errors as its
    exponent has units: 40 for the terms that matter.

    An error of every log-rate by that much adds up over the events.
    """
    assert_close(got, wanted, dtype, n_events + 40, scale=n_events)


def gunfire(name):
    """Return locations and times of a file of D.C. gunfire; the test is skipped if the file is absent."""
    with gzip.open(real_data("hawkes", f"dc_gunfire_{name}.csv.gz"), "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :2], table[:, 2]
