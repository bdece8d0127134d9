"""Test real events on every space: the published value, and windows compared with all pairs.

The interpreter uses the first 50 events, since it is too slow for millions of pairs.
"""

from dataclasses import replace

import numpy as np
import pytest

from portable.models.hawkes import Likelihood, Parameters

from . import reference
from .events import assert_agrees, gunfire

ONES = Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=1.0, omega=1.0, h=1.0)
# near the paper's table
FITTED = Parameters(mu0=0.65, tau_x=1.6, tau_t=336.0, theta=0.344, omega=60.0, h=0.07)
ORACLE = -29321.9012230809  # the authors' own program, to all digits it prints
INTERPRETED = 50


@pytest.mark.parametrize("method", ["all_pairs", "windowed"])
@pytest.mark.parametrize("precision, tolerance", [("float64", 1e-11), ("mixed", 1e-6)])
def test_published_value(space, precision, tolerance, method):
    locations, times = gunfire("2010_5022")
    wanted = ORACLE
    if space == "checked":
        locations, times = locations[:INTERPRETED], times[:INTERPRETED]
        wanted = reference.log_likelihood(locations, times, ONES)
    options = {"method": method, "dtype": precision, "error_bound": tolerance / 2}
    likelihood = Likelihood(locations, times, space=space, **options)
    assert likelihood.log_likelihood(ONES) == pytest.approx(wanted, rel=tolerance)
    assert likelihood.log_likelihood(replace(ONES, mu0=2.0)) != pytest.approx(wanted, rel=1e-3)
    assert likelihood.log_likelihood(ONES) == pytest.approx(wanted, rel=tolerance)  # with the background kept


def test_windows_and_all_pairs_agree_within_the_bound(space):
    """84,296 events, 7.1e9 pairs, on a GPU; half of the events on several threads, and a quarter on one,
    which runs the same code."""
    locations, times = gunfire("with_holidays_84296")
    n = {"checked": INTERPRETED, "serial": 20_000, "threads": 40_000}.get(space, len(times))
    locations, times = locations[:n], times[:n]
    exact = Likelihood(locations, times, method="all_pairs", space=space).log_likelihood(FITTED)
    likelihood = Likelihood(locations, times, method="windowed", space=space)
    value = likelihood.log_likelihood(FITTED)
    assert likelihood.attained_error <= 1e-9
    # Rounding: sums of 84,296 logarithms, each off by a few eps times the terms of its rate.
    assert value == pytest.approx(exact, rel=likelihood.attained_error + 1e-13)


def test_probabilities_of_real_events(space):
    locations, times = gunfire("2010_5022")
    n = INTERPRETED if space == "checked" else 2000
    locations, times = locations[:n], times[:n]
    wanted = reference.excitation_probabilities(locations, times, FITTED)
    got = Likelihood(locations, times, error_bound=1e-15, space=space).excitation_probabilities(FITTED)
    assert_agrees(got, wanted, n)
    if space != "checked":
        assert np.mean(wanted > 0.5) > 0.02  # some are triggered; 50 events have no pair that close
