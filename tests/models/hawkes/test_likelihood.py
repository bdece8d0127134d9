"""Compare the log-likelihood and the probabilities on every space with closed forms and the NumPy
reference."""

import functools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas
import pytest
from numpy.testing import assert_array_equal

from portable.models import hawkes
from portable.models.hawkes import Likelihood
from portable.models.shared.checks import as_numbers

from . import reference
from .closed_forms import PHI
from .events import PARAMS, assert_agrees, random_events

METHODS = ["all_pairs", "windowed", "cells"]
each_method = pytest.mark.parametrize("method", METHODS)
each_dimension = pytest.mark.parametrize("n_dims", [1, 2, 3])
each_self = pytest.mark.parametrize("background_self", [True, False])


def log_likelihood(locations, times, params, **options):
    return Likelihood(locations, times, **options).log_likelihood(params)


def excitation_probabilities(locations, times, params, **options):
    return Likelihood(locations, times, **options).excitation_probabilities(params)


N_EVENTS = 41  # neither a multiple of a pack nor of a warp, and few enough for the interpreter


@each_method
@each_dimension
def test_agrees_with_the_reference(space, n_dims, method):
    locations, times = random_events(N_EVENTS, n_dims)
    wanted = reference.log_likelihood(locations, times, PARAMS)
    # An error_bound of 1e-15 omits only terms that rounding would lose.
    value = log_likelihood(locations, times, PARAMS, method=method, error_bound=1e-15, space=space)
    assert isinstance(value, float)
    assert_agrees(value, wanted, N_EVENTS)


@functools.cache
def many_events(n_events):
    locations, times = random_events(n_events)
    return locations, times, reference.log_likelihood(locations, times, PARAMS)


@each_method
def test_sums_of_several_blocks(space, method):
    """Members add 32 terms at a time: here each of the 128 members of a GPU's team has more than 32."""
    n_events = 300 if space == "checked" else 4500
    locations, times, wanted = many_events(n_events)
    options = {"method": method, "error_bound": 1e-15}
    assert_agrees(log_likelihood(locations, times, PARAMS, space=space, **options), wanted, n_events)


@each_method
@each_self
def test_probabilities_agree_with_the_reference(space, background_self, method):
    locations, times = random_events(N_EVENTS)
    options = {"background_self": background_self}
    wanted = reference.excitation_probabilities(locations, times, PARAMS, **options)
    got = excitation_probabilities(
        locations, times, PARAMS, method=method, error_bound=1e-15, space=space, **options
    )
    assert got.shape == (N_EVENTS,) and got[0] == 0.0 and got.min() >= 0.0 and 0.1 < got.max() <= 1.0
    assert_agrees(got, wanted, N_EVENTS)


def mixed_agrees(space, method, locations, times, params, shift=0.0):
    """Compare pairs in float32, at places moved by `shift`: at most 1e-6 of the log-likelihood is lost."""
    wanted = reference.log_likelihood(locations, times, params)
    value = log_likelihood(locations + shift, times, params, method=method, dtype="mixed", space=space)
    assert value == pytest.approx(wanted, rel=1e-6)


# two dimensions have the test below
@pytest.mark.parametrize(
    "n_dims, method", [(1, "all_pairs"), (1, "cells"), (3, "all_pairs"), (3, "windowed"), (3, "cells")]
)
def test_mixed_precision(space, n_dims, method):
    """float32 pairs lose at most 1e-6 of the log-likelihood."""
    locations, times = random_events(N_EVENTS, n_dims)
    mixed_agrees(space, method, locations, times, PARAMS)


@each_method
def test_mixed_precision_keeps_minutes_after_thirteen_years(space, method):
    """Float32 hours would be 28 s apart there; the excitation decays within a minute and the gaps are
    seconds."""
    random = np.random.default_rng(3)
    gaps = random.exponential(0.01, N_EVENTS)
    gaps[[10, 30]] = 58_000.0, 59_000.0
    gaps[20:25] = 2e-5, 0.0, 3e-6, 1e-6, 1e-3
    locations, times = random.normal(0.0, 0.1, (N_EVENTS, 2)), np.cumsum(gaps)
    params = replace(PARAMS, omega=60.0, h=0.07, tau_t=336.0)
    mixed_agrees(space, method, locations, times, params)


@each_method
def test_mixed_precision_works_on_any_map(space, method):
    """Coordinates of 5,000 km, as on a national grid, are half a metre apart in float32; excitation extends
    over 10 m."""
    locations, times = random_events(N_EVENTS)
    params = replace(PARAMS, h=0.01)
    locations = 0.01 * locations
    mixed_agrees(space, method, locations, times, params, 5000.0)


@pytest.mark.parametrize("precision", ["float64", "mixed"])
def test_no_gap_is_too_short_to_excite(space, precision):
    """Two events a nanosecond apart after 117,000 hours are no tie, although two float32 represent both by
    the same value.
    """
    times = np.array([0.0, 117_000.0, np.nextafter(117_000.0, np.inf)])
    got = excitation_probabilities(np.zeros((3, 2)), times, PARAMS, dtype=precision, space=space)
    wanted = reference.excitation_probabilities(np.zeros((3, 2)), times, PARAMS)
    assert wanted[2] > 0.5
    assert_agrees(got, wanted, 3, np.float32)


@each_dimension
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_centre_has_the_bits_of_the_mean(n_dims, order):
    locations, times = random_events(1000, n_dims)
    locations = np.asarray(locations + 5.0, order=order)
    likelihood = Likelihood(locations, times, space="serial")
    assert_array_equal(likelihood.centre, locations.mean(axis=0))
    assert_array_equal(likelihood.sums.locations, locations - locations.mean(axis=0))


# the background's rate at the place and time of one event
PEAK = PARAMS.mu0 / (PARAMS.tau_x**2 * PARAMS.tau_t * (2.0 * math.pi) ** 1.5)


@pytest.mark.parametrize("horizon_h", [None, 12.0])
def test_one_event(space, horizon_h):
    left = 0.0 if horizon_h is None else 10.0  # observation begins with the event at 2 h
    expected = PARAMS.mu0 * (PHI(left / PARAMS.tau_t) - 0.5) - PARAMS.theta * math.expm1(-PARAMS.omega * left)
    value = log_likelihood([[4.0, 5.0]], [2.0], PARAMS, horizon_h=horizon_h, space=space)
    assert_agrees(value, math.log(PEAK) - expected, 1)


def test_one_event_without_its_own_background_is_impossible(space):
    likelihood = Likelihood([[4.0, 5.0]], [2.0], background_self=False, space=space)
    assert likelihood.log_likelihood(PARAMS) == -math.inf
    assert likelihood.excitation_probabilities(PARAMS).tolist() == [0.0]


@each_method
def test_all_events_at_one_time(space, method):
    """Ties excite no events, and no events are expected before the first event or after the last."""
    likelihood = Likelihood(np.ones((9, 2)), np.full(9, 6.0), method=method, space=space)
    assert_agrees(likelihood.log_likelihood(PARAMS), 9 * math.log(9 * PEAK), 9)
    assert likelihood.excitation_probabilities(PARAMS).tolist() == [0.0] * 9


def test_the_order_of_ties_does_not_matter(space):
    locations, times = random_events(N_EVENTS)
    first = int(np.flatnonzero(np.diff(times) == 0.0)[0])
    swapped = locations.copy()
    swapped[[first, first + 1]] = locations[[first + 1, first]]
    one, two = (log_likelihood(x, times, PARAMS, space=space) for x in (locations, swapped))
    assert_agrees(one, two, N_EVENTS)


def test_a_later_horizon(space):
    locations, times = random_events(N_EVENTS)
    horizon_h = times[-1] + 7.0
    value = log_likelihood(locations, times, PARAMS, horizon_h=horizon_h, space=space)
    wanted = reference.log_likelihood(locations, times, PARAMS, horizon_h=horizon_h)
    assert_agrees(value, wanted, N_EVENTS)
    assert abs(wanted - reference.log_likelihood(locations, times, PARAMS)) > 0.1


@pytest.mark.parametrize("keep_background", [True, False])
@each_method
def test_one_likelihood_for_many_parameters(space, method, keep_background):
    """Values stored between evaluations are never stale, whichever parameter changes, and back again."""
    locations, times = random_events(N_EVENTS)
    options = {"method": method, "keep_background": keep_background, "error_bound": 1e-15}
    likelihood = Likelihood(locations, times, space=space, **options)
    changes = [
        {},
        {"mu0": 0.1},
        {"theta": 0.9},
        {"omega": 3.0},
        {"h": 0.1},
        {"tau_x": 0.5},
        {"tau_t": 200.0},
        {},
    ]
    for change in changes:
        params = replace(PARAMS, **change)
        assert_agrees(
            likelihood.log_likelihood(params), reference.log_likelihood(locations, times, params), N_EVENTS
        )


@pytest.mark.usefixtures("serial")
def test_threads_of_python_share_a_likelihood():
    """Its memory holds one evaluation: without a lock some of these values belonged to other parameters."""
    several = Likelihood(*random_events(N_EVENTS)), [replace(PARAMS, theta=k / 9) for k in range(1, 9)]
    mutual = hawkes.MutualLikelihood(np.arange(9.0), np.zeros(9, int))
    types = mutual, [hawkes.Mutual([1.0], [[k / 9]], 1.0) for k in range(1, 9)]
    for shared, params in (several, types):
        wanted = list(map(shared.log_likelihood, params))
        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(shared.log_likelihood, 200 * params)) == 200 * wanted


def test_integers_and_lists_are_events_too(space):
    integers = [[0, 0], [1, 2], [2, 0]]
    value = log_likelihood(integers, [0, 3, 4], PARAMS, space=space)
    assert as_numbers(pandas.DataFrame([[2**60 + 1]]), "x")[0, 0] == 2**60 + 1  # not by way of float64
    of_pandas = pandas.DataFrame(integers).convert_dtypes()  # whose numbers would become objects
    assert log_likelihood(of_pandas, [0, 3, 4], PARAMS, space=space) == value
    wanted = reference.log_likelihood(
        np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 0.0]]), np.array([0.0, 3.0, 4.0]), PARAMS
    )
    assert_agrees(value, wanted, 3)
