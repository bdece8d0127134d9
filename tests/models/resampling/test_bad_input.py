"""Test wrong calls: the exception's type and the words of its message."""

import numpy as np
import pytest
from portable.models import resampling

from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from ...refusals import refusals
from .cases import NAMES, SCHEMES

W = [0.5, 1.0, 0.25]
WEIGHTS = [
    ({"weights": []}, ShapeError, "weights is empty; expected at least one particle"),
    ({"weights": [[[1.0, 2.0]]]}, ShapeError, r"weights has shape \(1, 1, 2\)"),
    ({"weights": 1.0}, ShapeError, r"weights has shape \(\)"),
    ({"weights": [[1.0, 2.0], [0.0, 0.0]]}, InputError, r"weights\[1\] are all zero"),
    (
        {"weights": [[1.0, 2.0], [0.5, -1.0]]},
        InputError,
        r"weights\[1, 1\] is -1.0; expected weights of at least 0",
    ),
    ({"weights": [[1.0], [2.0, 3.0]]}, ShapeError, "weights is not a rectangular array"),
    ({"weights": ["a"]}, DTypeError, "weights must hold real numbers, got dtype <U1"),
    ({"weights": [1.0, -0.5, -1.0]}, InputError, r"weights\[1\] is -0.5; expected weights of at least 0"),
    ({"weights": [1.0, 2.0, np.nan]}, FiniteError, r"weights\[2\] is nan; expected finite weights"),
    ({"weights": [np.nan, -1.0]}, FiniteError, r"weights\[0\] is nan"),
    ({"weights": [1.0, np.inf]}, FiniteError, r"weights\[1\] is inf"),
    ({"weights": [0.0, 0.0]}, InputError, "weights are all zero"),
    ({"weights": None}, InputError, "expected one of weights and log_weights"),
    ({"weights": W, "log_weights": W}, InputError, "expected one of weights and log_weights"),
    ({"log_weights": []}, ShapeError, "log_weights is empty"),
    ({"log_weights": [-np.inf, -np.inf]}, InputError, "log_weights are all -inf"),
    (
        {"log_weights": [0.0, np.nan]},
        FiniteError,
        r"log_weights\[1\] is nan; expected finite numbers or -inf",
    ),
    ({"log_weights": [np.inf, 0.0]}, FiniteError, r"log_weights\[0\] is inf"),
]
NUMBERS = [
    ({"n_ancestors": 0}, InputError, "n_ancestors is 0; expected 1 to 2147483647"),
    ({"n_ancestors": 2**31}, InputError, "n_ancestors is 2147483648"),
    ({"n_ancestors": 2.0}, DTypeError, "n_ancestors must be an integer, got 2.0 of type float"),
    ({"seed": -1}, InputError, "seed is -1"),
    ({"seed": 2**64}, InputError, "seed is 18446744073709551616"),
    ({"seed": True}, DTypeError, "seed must be an integer, got True"),
    ({"step": 2**31}, InputError, "step is 2147483648; expected 0 to 2147483647"),
    ({"output": "weights"}, InputError, "output is 'weights'; expected one of 'ancestors'"),
    (
        {"on_degenerate": "ignore"},
        InputError,
        "on_degenerate is 'ignore'; expected one of 'raise', 'uniform'",
    ),
    ({"permuted": 1}, DTypeError, "permuted must be True or False"),
    (
        {"permuted": True, "n_ancestors": 2},
        InputError,
        "n_ancestors is 2; expected as many permuted ancestors as particles, 3",
    ),
]
OWN = [
    (resampling.metropolis, {"n_steps": 0}, InputError, "n_steps is 0; expected 1 to"),
    (resampling.metropolis, {"n_steps": 1.5}, DTypeError, "n_steps must be an integer"),
    (
        resampling.rejection,
        {"max_weight": 0.99},
        InputError,
        "max_weight is 0.99, below the largest of weights, 1.0",
    ),
    (
        resampling.metropolis,
        {"error_bound": 1.0},
        InputError,
        "error_bound is 1.0; expected a share between 0 and 1",
    ),
    (resampling.megopolis, {"n_steps": 0}, InputError, "n_steps is 0; expected 1 to"),
    (
        resampling.partial_rejection,
        {"max_weight": 0.0},
        InputError,
        "max_weight is 0.0; expected more than 0.0",
    ),
    (resampling.rejection, {"max_weight": float("nan")}, FiniteError, "max_weight is nan"),
    (resampling.rejection, {"max_weight": float("inf")}, FiniteError, "max_weight is inf"),
    (
        resampling.rejection,
        {"max_weight": "1"},
        DTypeError,
        "max_weight must be a number, got '1' of type str",
    ),
    (
        resampling.rejection,
        {"max_weight": 1e300},
        InputError,
        "proposals a draw with max_weight = 1e[+]300",
    ),
    (
        resampling.killing,
        {"n_ancestors": 2},
        InputError,
        "n_ancestors is 2; killing makes as many as particles",
    ),
]
CONVERSIONS = [
    (resampling.permute, [], ShapeError, "ancestors is empty"),
    (resampling.permute, [0, 2], InputError, "ancestors holds numbers from 0 to 2; expected 0 to 1"),
    (resampling.permute, [0, -1], InputError, "ancestors holds numbers from -1 to 0"),
    (resampling.permute, [0.0, 1.0], DTypeError, "ancestors must hold whole numbers, got dtype float64"),
    (resampling.permute, [[[0]]], ShapeError, r"ancestors has shape \(1, 1, 1\)"),
    (resampling.log_sum_exp, [], ShapeError, "log_weights is empty"),
]


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_weights(space, scheme, options):
    for given, error, message in WEIGHTS:
        with pytest.raises(error, match=message):
            scheme(**given, seed=0, space=space, **options)


@pytest.mark.parametrize("given, error, message", WEIGHTS)
def test_weights_of_other_functions(given, error, message):
    for function in (resampling.effective_sample_size, resampling.metropolis_steps):
        with pytest.raises(error, match=message):
            function(**given)


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_numbers(scheme, options):
    for given, error, message in NUMBERS:
        with pytest.raises(error, match=message):
            scheme(W, **{"seed": 0, **given}, **options)


test_options = refusals(OWN, lambda scheme, given: scheme(W, seed=0, **given))


def test_more_particles_than_int32_counts():
    """A view repeats one number 2^31 times; no computation runs on it."""
    for given in (
        {"weights": np.broadcast_to(1.0, (2**31,))},
        {"log_weights": np.broadcast_to(0.0, (2, 2**31))},
    ):
        with pytest.raises(
            InputError, match=r"weights has shape .*2147483648.*; at most 2\^31 - 1 in each dimension"
        ):
            resampling.systematic(**given, seed=0)


def test_max_weight_of_log_weights():
    with pytest.raises(InputError, match="max_weight is -2.0, below the largest of log_weights, -1.0"):
        resampling.rejection(log_weights=[-1.0, -3.0], seed=0, max_weight=-2.0)
    with pytest.raises(InputError, match="proposals a draw"):
        resampling.rejection(log_weights=[-1.0, -3.0], seed=0, max_weight=1e6)


@pytest.mark.parametrize("error", [0.0, 1.0, 2, float("nan"), "x"])
def test_error_of_metropolis_steps(error):
    with pytest.raises(InputError, match="error_bound"):
        resampling.metropolis_steps(W, error_bound=error)


def test_conversions(space):
    for function, given, error, message in CONVERSIONS:
        with pytest.raises(error, match=message):
            function(given, space=space)


@pytest.mark.parametrize("scheme, options", SCHEMES, ids=NAMES)
def test_rows_of_no_use_may_count_as_equal(space, scheme, options):
    """With on_degenerate='uniform' such a row is resampled like equal weights, other rows as without it."""
    w = np.array([[0.0] * 3, W])
    got = scheme(w, seed=1, on_degenerate="uniform", space=space, **options)
    np.testing.assert_array_equal(got, scheme(np.array([[1.0] * 3, W]), seed=1, space=space, **options))
