"""Real events: the published value, and windows against all pairs. Too many pairs for the interpreter."""

from dataclasses import replace

import numpy as np
import pytest

from models.hawkes import Likelihood, Parameters

from .events import gunfire

ONES = Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=1.0, omega=1.0, h=1.0)
FITTED = Parameters(mu0=0.65, tau_x=1.6, tau_t=336.0, theta=0.344, omega=60.0, h=0.07)  # near the paper's table
ORACLE = -29321.9012230809  # the authors' own program, to all digits it prints


@pytest.fixture
def compiled_space(space):
    if space == "checked":
        pytest.skip("millions of pairs are too many for the interpreter")
    return space


@pytest.mark.parametrize("method", ["all_pairs", "windowed"])
@pytest.mark.parametrize("precision, tolerance", [("float64", 1e-11), ("mixed", 1e-6)])
def test_published_value(compiled_space, precision, tolerance, method):
    likelihood = Likelihood(
        *gunfire("2010_5022"), method=method, precision=precision, tolerance=tolerance / 2, space=compiled_space
    )
    assert likelihood.log_likelihood(ONES) == pytest.approx(ORACLE, rel=tolerance)
    assert likelihood.log_likelihood(replace(ONES, mu0=2.0)) != pytest.approx(ORACLE, rel=1e-3)
    assert likelihood.log_likelihood(ONES) == pytest.approx(ORACLE, rel=tolerance)  # with the background kept


def test_windows_and_all_pairs_on_all_events(compiled_space):
    """84,296 events, 7.1e9 pairs: about 5 s on two cores."""
    locations, times = gunfire("with_holidays_84296")
    exact = Likelihood(locations, times, method="all_pairs", space=compiled_space).log_likelihood(FITTED)
    likelihood = Likelihood(locations, times, method="windowed", space=compiled_space)
    value = likelihood.log_likelihood(FITTED)
    assert likelihood.error_bound <= 1e-9
    # Rounding: sums of 84,296 logarithms, each off by a few eps times the terms of its rate.
    assert value == pytest.approx(exact, rel=likelihood.error_bound + 1e-13)


def test_probabilities_are_higher_within_bursts(compiled_space):
    """The six events with most company within an hour are likelier offspring than the sixth with the least."""
    locations, times = gunfire("2010_5022")
    probabilities = Likelihood(locations, times, space=compiled_space).excitation_probabilities(FITTED)
    since_last = np.diff(times)
    order = np.argsort(since_last) + 1
    sixth = len(order) // 6
    assert probabilities[0] == 0.0
    assert probabilities[order[:sixth]].mean() > 10 * probabilities[order[-sixth:]].mean()
