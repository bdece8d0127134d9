"""Test the display of results in notebooks: tables of their fields."""

import numpy as np

from portable.models import edm, hawkes, resampling, tmap


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
