"""Test wrong calls: the exception's type and the words of its message. Errors are raised before any
computation.
"""

import numpy as np
import pandas
import pytest
from numpy.random import default_rng

from portable.errors import (
    DTypeError,
    FiniteError,
    InputError,
    OrderError,
    ShapeError,
    UnknownSpaceError,
)
from portable.models import hawkes
from portable.models.hawkes import simulate, Likelihood, Parameters

from ...refusals import refusals
from .events import PARAMS

pytestmark = pytest.mark.usefixtures("serial")

GOOD = {"mu0": 1.0, "tau_x": 1.6, "tau_t": 336.0, "theta": 0.2, "omega": 60.0, "h": 0.07}
X, T = np.arange(8.0).reshape(4, 2), np.array([0.0, 1.0, 1.0, 2.0])


def with_entry(array, index, value):
    changed = np.array(array, dtype=float)
    changed[index] = value
    return changed


PARAMETERS = [
    ({"mu0": 0.0}, InputError, "mu0 is 0.0; expected more than 0.0"),
    ({"theta": -0.1}, InputError, "theta is -0.1; expected more than 0.0"),
    ({"omega": float("nan")}, FiniteError, "omega is nan; expected a finite number"),
    ({"h": float("inf")}, FiniteError, "h is inf; expected a finite number"),
    ({"tau_t": "14 days"}, DTypeError, "tau_t must be a number, got '14 days' of type str"),
    ({"tau_x": True}, DTypeError, "tau_x must be a number"),
    ({"h": None}, DTypeError, "h must be a number, got None"),
    ({"h": 1e-200}, InputError, "h is 1e-200; expected 1e-15 to 1e15, in km and hours"),
    ({"omega": 1e16}, InputError, "omega is 1e[+]16; expected 1e-15 to 1e15"),
]

EVENTS = [
    (X, T[:3], ShapeError, "locations has 4 entries for 3 times"),
    (X[:, 0], T, ShapeError, r"locations has shape \(4,\).*reshape\(-1, 1\)"),
    (np.zeros((4, 4)), T, ShapeError, "4 dimensions; expected 1, 2 or 3"),
    (np.zeros((4, 0)), T, ShapeError, "0 dimensions; expected 1, 2 or 3"),
    (np.zeros((4, 2, 1)), T, ShapeError, r"locations has shape \(4, 2, 1\)"),
    (X, T[:, None], ShapeError, r"times has shape \(4, 1\)"),
    (X, 3.0, ShapeError, r"times has shape \(\)"),
    (np.zeros((0, 2)), [], ShapeError, "times is empty; expected at least one event"),
    ([[0.0, 1.0], [2.0]], [0.0, 1.0], ShapeError, "locations is not a rectangular array"),
    (X, [0.0, 2.0, 1.0, 0.5], OrderError, r"times\[2\] = 1.0 follows times\[1\] = 2.0.*Sort"),
    (X, with_entry(T, 3, np.nan), FiniteError, r"times\[3\] is nan"),
    (X, with_entry(T, 0, -np.inf), FiniteError, r"times\[0\] is -inf"),
    (with_entry(X, (2, 1), np.nan), T, FiniteError, r"locations\[2, 1\] is nan"),
    (X, "a b c d".split(), DTypeError, "times must hold real numbers, got dtype <U1"),
    (X.astype(complex), T, DTypeError, "locations must hold real numbers, got dtype complex128"),
    (X, T > 0, DTypeError, "times must hold real numbers, got dtype bool"),
    (None, T, DTypeError, "locations must hold real numbers"),
]

OPTIONS = [
    (
        {"method": "window"},
        InputError,
        "method is 'window'; expected one of 'auto', 'all_pairs', 'windowed'",
    ),
    ({"method": None}, InputError, "method is None"),
    ({"dtype": "float32"}, InputError, "dtype is 'float32'; expected one of 'float64', 'mixed'"),
    ({"error_bound": 0.0}, InputError, "error_bound is 0.0; expected at least 1e-15"),
    (
        {"error_bound": 1e-17},
        InputError,
        "error_bound is 1e-17; expected at least 1e-15",
    ),
    ({"error_bound": "tight"}, DTypeError, "error_bound must be a number"),
    ({"background_self": 1}, DTypeError, "background_self must be True or False, got 1"),
    ({"keep_background": None}, DTypeError, "keep_background must be True or False"),
    ({"horizon_h": 1.5}, InputError, "horizon_h is 1.5, before the last event at 2.0"),
    ({"horizon_h": np.inf}, FiniteError, "horizon_h is inf"),
    ({"horizon_h": [3.0]}, DTypeError, "horizon_h must be a number"),
    ({"space": "gpu"}, UnknownSpaceError, "space 'gpu' is unknown"),
    ({"space": 0}, UnknownSpaceError, "space must be a name or a Space"),
]

SIMULATIONS = [
    ({"n_immigrants": 0.0}, InputError, "n_immigrants is 0.0; expected more than 0.0"),
    ({"n_immigrants": 2e7}, InputError, "n_immigrants is 20000000.0, above max_events"),
    ({"horizon_h": -1.0}, InputError, "horizon_h is -1.0; expected more than 0.0"),
    ({"box_km": (0.0, 1.0)}, ShapeError, r"box_km has shape \(2,\)"),
    ({"box_km": [(0.0, 1.0)] * 4}, ShapeError, r"box_km has shape \(4, 2\)"),
    ({"box_km": [(1.0, 1.0)]}, InputError, "pairs with low < high"),
    ({"box_km": "big"}, DTypeError, "box_km must hold real numbers"),
    ({"seed": -1}, InputError, "seed is -1"),
    ({"max_events": 1e6}, DTypeError, "max_events must be an integer"),
    ({"max_events": 20}, InputError, "more than max_events = 20 events with theta = 0.3"),
]


@pytest.mark.parametrize("change, error, words", PARAMETERS)
def test_parameters(change, error, words):
    with pytest.raises(error, match=f"^Parameters: .*{words}"):
        Parameters(**GOOD | change)


test_events = refusals(EVENTS, lambda locations, times: Likelihood(locations, times))


test_options = refusals(OPTIONS, lambda options: Likelihood(X, T, **{"space": "serial"} | options))


@pytest.mark.parametrize("params", [None, (1.0, 1.6, 336.0, 0.2, 60.0, 0.07), GOOD])
@pytest.mark.parametrize(
    "call",
    [
        lambda params: Likelihood(X, T).log_likelihood(params),
        lambda params: simulate(params, n_immigrants=1.0, horizon_h=1.0),
    ],
)
def test_params_are_parameters(call, params):
    with pytest.raises(DTypeError, match=f"params must be hawkes.Parameters, got {type(params).__name__}"):
        call(params)


@pytest.mark.parametrize("change, error, words", SIMULATIONS)
def test_simulations(change, error, words):
    call = {"n_immigrants": 20.0, "horizon_h": 100.0, "seed": 1} | change
    with pytest.raises(error, match=words):
        simulate(PARAMS, **call)


def test_explosive_simulations_end():
    with pytest.raises(InputError, match="with theta = 3.0; expected theta < 1"):
        simulate(Parameters(**GOOD | {"theta": 3.0}), n_immigrants=10.0, horizon_h=1e6, seed=1)


@pytest.mark.parametrize("kind", "numpy pandas list text".split())
def test_dates_want_the_function_that_reads_them(kind):
    dates = np.datetime64("2026-01-31T12:30") + np.arange(3) * np.timedelta64(1, "h")
    if kind == "pandas":
        dates = pandas.Series(dates)
    elif kind != "numpy":
        dates = dates.tolist() if kind == "list" else dates.astype(str).tolist()
    with pytest.raises(DTypeError, match="times holds dates; expected hours: hawkes.read_catalogue"):
        hawkes.Likelihood(np.zeros((3, 2)), dates)


def test_degrees_are_not_kilometres():
    """Places that look like longitude and latitude raise a warning; an origin nearby shows that they are
    lengths.
    """
    degrees = default_rng(1).normal([-77.0, 38.9], 0.05, (5, 2))
    for places in (degrees, degrees[:, ::-1]):
        with pytest.warns(
            UserWarning, match="look like degrees, near .*read_catalogue.lonlat=True. projects"
        ):
            Likelihood(places, np.arange(5.0))
    Likelihood(degrees - degrees.mean(axis=0), np.arange(5.0))
    Likelihood(default_rng(1).uniform(0.0, 90.0, (5, 2)), np.arange(5.0))
