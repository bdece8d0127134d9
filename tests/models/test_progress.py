"""Bars of long calls: on standard error, to the end, and without an effect on the result."""

import numpy as np
import pytest
from numpy.random import default_rng

from portable.models import edm, mixture, tmap
from portable.errors import DTypeError


def ended(capfd):
    """Return True if the last bar came to its end."""
    out, err = capfd.readouterr()
    done = [part for part in err.split() if part.count("/") == 1 and part.replace("/", "").isdigit()]
    assert not out and done
    left, right = done[-1].split("/")
    return left == right


def runs():
    truth = tmap.TransientMAP([0.7, 0.3], [1, 2], [10.0, 1.0], [[0.5, 0.3], [0.1, 0.7]])
    return truth.simulate(100, seed=1, space="serial")


def series():
    return default_rng(2).random((80, 3)).cumsum(axis=0) % 1.0


def fit(**how):
    model, info = tmap.fit(runs(), orders=[1, 2], max_iter=20, n_starts=2, space="serial", **how)
    return [model.rates, info.history]


def ccm(**how):
    x = series()
    return [edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[20, 40], n_samples=20, space="serial", **how).rho]


def cross_map_test(**how):
    found = edm.cross_map_test(series(), 2, n_surrogates=20, surrogate="phase", space="serial", **how)
    return [found.rho, found.p_values]


def points():
    return default_rng(1).normal(size=(100, 2)) + np.repeat([[0.0], [9.0]], 50, axis=0)


def mixture_fit(**how):
    model = mixture.DirichletMixture(3, random_state=0, n_init=2, space="serial").fit(points(), **how)
    return [model.means_, model.objective_history_]


def sample_posterior(**how):
    model = mixture.DirichletMixture(3, random_state=0, space="serial").fit(points())
    return [model.sample_posterior(points(), 5, n_warmup=3, n_thin=2, **how).means]


@pytest.mark.parametrize(
    "call", [fit, ccm, cross_map_test, mixture_fit, sample_posterior], ids=lambda call: call.__name__
)
def test_a_bar_comes_to_its_end(capfd, call):
    quiet = call()
    assert capfd.readouterr() == ("", "")
    for one, other in zip(call(progress=True), quiet, strict=True):
        np.testing.assert_array_equal(one, other)
    assert ended(capfd)
    with pytest.raises(DTypeError, match="progress"):
        call(progress="yes")
