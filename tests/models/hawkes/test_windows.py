"""Test the windowed method: its bound holds, it omits some pairs, and it widens if the first windows were too
short."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from portable.models.hawkes import Likelihood, Parameters
from portable.models.hawkes.windows import choose

from . import reference
from .events import PARAMS, prepared, random_events

scales = st.floats(-1.0, 1.0).map(lambda exponent: 10.0**exponent)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    params=st.builds(
        Parameters, mu0=scales, tau_x=scales, tau_t=scales, theta=scales, omega=scales, h=scales
    ),
    background_self=st.booleans(),
    bound=st.sampled_from([1e-1, 1e-3, 1e-9]),
    method=st.sampled_from(["windowed", "cells"]),
)
def test_the_bound_holds(space, params, background_self, bound, method):
    """Tolerances are loose, so that the effect of omitted pairs exceeds rounding."""
    locations, times = random_events(13)
    options = {"background_self": background_self}
    likelihood = Likelihood(locations, times, method=method, error_bound=bound, space=space, **options)
    value = likelihood.log_likelihood(params)
    # below are too few digits
    assume(sum(reference.rates(locations, times, params, **options)).min() > 1e-290)
    wanted = reference.log_likelihood(locations, times, params, **options)
    assert likelihood.attained_error <= bound
    # An exponent of -660 costs 660 roundings: 1.5e-13 of the rate.
    rounding = 1e-12 * (len(times) + abs(wanted))
    assert -rounding <= wanted - value <= likelihood.attained_error * abs(value) + rounding


def test_something_is_left_out(space):
    locations, times, likelihood = prepared(41, method="windowed", error_bound=1e-3, space=space)
    error = reference.log_likelihood(locations, times, PARAMS) - likelihood.log_likelihood(PARAMS)
    assert likelihood.windows.background_h < times[-1] - times[0]
    assert 1e-10 < error <= likelihood.attained_error * abs(likelihood.log_likelihood(PARAMS))


def test_windows_widen_for_an_event_far_from_all_others(space):
    """Without its own background, an event 20 tau_t away depends on weights of exp(-200), beyond any first
    window."""
    locations, times = np.zeros((3, 2)), np.array([0.0, 1.0, 401.0])
    params = replace(PARAMS, omega=10.0)
    likelihood = Likelihood(locations, times, method="windowed", background_self=False, space=space)
    wanted = reference.log_likelihood(locations, times, params, background_self=False)
    first_guess = choose(params, 2, 3, 401.0, 1e-9)
    assert math.isfinite(wanted) and first_guess.background_h < 400.0
    # One rounding of an exponent of 200 gives 200 roundings of the rate.
    assert likelihood.log_likelihood(params) == pytest.approx(wanted, rel=1e-13)


def test_all_pairs_has_no_such_error(space):
    likelihood = Likelihood(*random_events(13), method="all_pairs", space=space)
    assert likelihood.attained_error is None
    likelihood.log_likelihood(PARAMS)
    assert likelihood.attained_error == 0.0


def test_auto_counts_pairs():
    """The method depends on the pairs: for few events all pairs; for many in a small place windows in time;
    for many over a wide one, in long windows, cells."""
    rng = np.random.default_rng(3)
    cases = (100, 1.0, 1.0, "all_pairs"), (3000, 0.1, 1.0, "windowed"), (3000, 1000.0, 0.005, "cells")
    for n_events, side_km, omega, method in cases:
        locations, times = (
            rng.uniform(0, side_km, (n_events, 2)),
            np.sort(rng.uniform(0, 5.0 * n_events, n_events)),
        )
        likelihood = Likelihood(locations, times, space="serial")
        params = replace(PARAMS, omega=omega)
        value = likelihood.log_likelihood(params)
        assert likelihood.method == method
        exact = Likelihood(locations, times, method="all_pairs", space="serial").log_likelihood(params)
        assert abs(value - exact) <= likelihood.attained_error * abs(value) + 1e-12 * abs(exact)


def test_mixed_windows(space):
    locations, times, likelihood = prepared(
        41, method="windowed", error_bound=1e-3, dtype="mixed", space=space
    )
    exact = Likelihood(locations, times, method="windowed", error_bound=1e-3, space=space)
    assert likelihood.log_likelihood(PARAMS) == pytest.approx(exact.log_likelihood(PARAMS), rel=1e-6)


def test_a_window_as_long_as_the_data_is_exact():
    windows = choose(PARAMS, 2, 100, 1.0, 1e-9)
    assert windows.background_h == windows.excitation_h == math.inf
    assert windows.missing == 0.0


def test_a_smaller_tolerance_gives_wider_windows():
    loose, tight = (choose(PARAMS, 2, 100, 1e6, tolerance) for tolerance in (1e-6, 1e-12))
    assert loose.background_h < tight.background_h and loose.excitation_h < tight.excitation_h
    assert loose.missing > 1e5 * tight.missing > 0.0


def test_kept_sums_serve_narrower_windows(space):
    """After a widened evaluation the stored background is wider than requested, and therefore only more
    exact.
    """
    locations, times, likelihood = prepared(41, method="windowed", background_self=False, space=space)
    for theta in (1e-6, 0.9):
        params = replace(PARAMS, theta=theta)
        wanted = reference.log_likelihood(locations, times, params, background_self=False)
        value = likelihood.log_likelihood(params)
        assert value == pytest.approx(wanted, rel=1e-9)
