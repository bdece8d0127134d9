"""Test results as objects: tables of their fields in notebooks, equality, pickles."""

import pickle

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.models import edm, hawkes, resampling, tmap
from portable.models.resampling import ready


def test_a_prediction_is_a_table_of_its_fields():
    shown = edm.simplex(np.sin(np.arange(60.0) / 3), 2, space="serial")._repr_html_()
    assert (
        shown.startswith("<table><caption>Prediction</caption>")
        and "<th>predicted</th><td>float64, shape (59,), -" in shown
    )


def test_text_is_escaped_and_long_values_are_cut():
    shown = tmap.FitInfo(
        log_likelihood=-1.25,
        history=np.zeros(9),
        n_iterations=3,
        converged=True,
        starts=np.zeros(2),
        notes=("a < b" * 99,),
    )._repr_html_()
    assert "<td>-1.25</td>" in shown and "a &lt; b" in shown and " ...</td>" in shown and "a < b" not in shown


def test_results_of_every_family_are_shown():
    for result in (
        hawkes.Fit,
        hawkes.Posterior,
        hawkes.Forecast,
        tmap.Goodness,
        tmap.StandardErrors,
        edm.SMap,
        edm.Convergence,
        resampling.Filtered,
        resampling.Posterior,
    ):
        assert callable(result._repr_html_), result


def test_results_are_equal_after_a_pickle():
    """Arrays are compared by their elements; what a result holds besides numbers is pickled too."""
    random = default_rng(1)
    places, times = random.uniform(0.0, 10.0, (40, 2)), np.sort(random.uniform(0.0, 100.0, 40))
    hours = hawkes.Covariates(np.arange(0.0, 101.0, 25.0), random.normal(size=(4, 1)))
    grid = hawkes.Covariates([[0.0, 5.0, 10.0], [0.0, 10.0]], [[[1.0]], [[4.0]]])
    even = {"kind": "constant", "grid": grid, "box_km": ((0, 10), (0, 10)), "covariates": hours}
    fits = [hawkes.fit_background(places, times, n_simulations=9, **more) for more in ({}, even)]
    assert fits[0].fit != fits[1].fit
    types = hawkes.fit_mutual(hawkes.MutualLikelihood(times, np.arange(40) % 2))
    if str(pk.default_space()).startswith("cuda"):  # a likelihood in the plane holds views of the device
        with pytest.raises(TypeError, match="device memory"):
            pickle.dumps(fits)
        fits = []
    again, mutual = pickle.loads(pickle.dumps((fits, types)))
    for one, other in zip(fits, again):
        assert (one.background.at(places, times) == other.background.at(places, times)).all()
        assert one.fit == other.fit
    assert mutual.likelihood.log_likelihood(types.params) == types.log_likelihood
    found = edm.simplex(times, 2)
    assert np.isnan(found.observed).any() and found == pickle.loads(pickle.dumps(found)) != found.rho
    params = ready.linear_gaussian.params(phi=0.9, sigma=0.5, tau=[0.7, 0.8])
    model, again = pickle.loads(pickle.dumps((ready.linear_gaussian, params)))
    assert again == params and model.params(**params._asdict()) == params
