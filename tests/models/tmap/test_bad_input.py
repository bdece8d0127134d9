"""Test wrong calls: the exception's type and the words of its message. Errors are raised before any
computation.
"""

import numpy as np
import pytest

from portable.errors import DTypeError, FiniteError, InputError, ShapeError, UnknownSpaceError
from portable.models.tmap import fit, Runs, TransientMAP, goodness_of_fit, standard_errors

from ...refusals import refusals
from .problems import MODEL

RUNS = [
    ([1.0, 2.0, -0.5], [1, 2], InputError, r"run 1, gap 1 \(values\[2\]\) is -0.5; a gap is not negative"),
    ([np.nan, 2.0], [1, 1], FiniteError, r"run 0, gap 0 \(values\[0\]\) is nan"),
    ([1.0, 2.0, np.inf], [2, 1], FiniteError, r"run 1, gap 0 \(values\[2\]\) is inf"),
    ([1e-200], [1], InputError, "is 1e-200; expected zero, or 1e-150 to 1e[+]150.*another unit"),
    ([1.0], [1, 0], InputError, r"lengths\[1\] is 0: run 1 has no gap"),
    ([1.0], [-1], InputError, r"lengths\[0\] is -1"),
    ([1.0, 2.0], [1.5, 0.5], DTypeError, r"lengths\[0\] is 1.5; expected a whole number"),
    ([1.0, 2.0], [1, np.nan], DTypeError, r"lengths\[1\] is nan"),
    ([], [], ShapeError, "lengths is empty; expected at least one run"),
    ([1.0, 2.0], [3], ShapeError, "values has 2 gaps, but lengths add up to 3"),
    ([[1.0, 2.0]], [2], ShapeError, r"values has shape \(1, 2\); expected 1 dimension"),
    (["a", "b"], [2], DTypeError, "values must hold real numbers, got dtype <U1"),
    ([1.0, 2.0], None, DTypeError, "lengths must hold real numbers"),
    ([1.0 + 1j], [1], DTypeError, "values must hold real numbers, got dtype complex128"),
]

LISTS = [
    ([], ShapeError, "runs is empty"),
    ([[1.0], []], InputError, "run 1 has no gap"),
    ([[]], InputError, "run 0 has no gap"),
    ([1.0, 2.0], ShapeError, r"runs\[0\] has shape \(\)"),
    ([[1.0], [2.0, -1.0]], InputError, r"run 1, gap 1 \(values\[2\]\) is -1.0"),
    (None, DTypeError, "runs must be a sequence of sequences"),
]

GOOD = {"alpha": [0.5, 0.5], "orders": [1, 2], "rates": [1.0, 2.0], "switching": [[0.4, 0.4], [0.1, 0.8]]}
MODELS = [
    ({"orders": [1, 0]}, InputError, "orders is .*whole numbers from 1 to 1000"),
    ({"orders": [1.0, 2.0]}, DTypeError, "orders must be whole numbers"),
    ({"orders": []}, ShapeError, "orders is empty"),
    ({"orders": 2}, ShapeError, r"orders has shape \(\); expected 1 dimension"),
    ({"alpha": [0.5, 0.6]}, InputError, "alpha sums to 1.1; expected 1"),
    ({"alpha": [1.5, -0.5]}, InputError, r"alpha\[1\] is -0.5; expected a probability"),
    ({"alpha": [1.0]}, ShapeError, r"alpha has shape \(1,\); expected \(2,\), as there are 2 orders"),
    ({"rates": [1.0, 0.0]}, InputError, "rates is .*positive numbers"),
    ({"rates": [1.0, np.inf]}, FiniteError, r"rates\[1\] is inf"),
    (
        {"switching": [[0.5, 0.6], [0.1, 0.8]]},
        InputError,
        "switching: row 0 sums to 1.1; expected at most 1",
    ),
    ({"switching": [[0.5, 0.1], [-0.1, 0.8]]}, InputError, r"switching\[1, 0\] is -0.1"),
    ({"switching": [[0.5, np.nan], [0.1, 0.8]]}, FiniteError, r"switching\[0, 1\] is nan"),
    ({"switching": [[0.5, 0.1], [0.0, 1.0]]}, InputError, "a run in branch 1 never ends"),
    ({"switching": [0.5, 0.1]}, ShapeError, r"switching has shape \(2,\); expected 2 dimensions"),
]

DATA = Runs([1.0, 0.0, 2.0], [2, 1])
FITS = [
    ({"runs": [[1.0]]}, DTypeError, "runs must be tmap.Runs, got list"),
    ({"runs": Runs([0.0, 0.0], [1, 1])}, InputError, "all gaps are zero"),
    ({"orders": [2]}, InputError, r"1 gaps are zero, which only a branch of order 1 .* orders is \[2\]"),
    ({"orders": [1, 1, 1, 1]}, InputError, "runs hold 3 gaps, fewer than the 4 branches"),
    ({"orders": [-1]}, InputError, "orders is"),
    ({"orders": [1] * 17}, ShapeError, "orders has 17 branches; expected at most 16"),
    ({"runs": Runs([1.0, 2.0], [1, 1], [True, True])}, InputError, "censored is True for every run"),
    ({"start": 3}, DTypeError, "start must be a TransientMAP or 'paper', got int"),
    ({"start": MODEL}, InputError, r"start has orders \[1, 2, 3\]; expected \[1, 2\]"),
    (
        {"start": TransientMAP([0.0, 1.0], [1, 2], [1.0, 1.0], np.zeros((2, 2)))},
        InputError,
        "start gives these runs a likelihood of zero",
    ),
    ({"dtype": "float16"}, InputError, "dtype is 'float16'; expected one of"),
    (
        {"dtype": "float32", "runs": Runs([1e-20, 1e20], [1, 1]), "orders": [1]},
        InputError,
        "gaps range from .*dtype='float64'",
    ),
    ({"memory_mb": 1e-4}, InputError, "memory_mb is 9.92e-05, but 32 runs of up to 2 gaps take 0.000977"),
    ({"memory_mb": 0}, InputError, "memory_mb is 0; expected more than 0.0"),
    ({"max_iter": 0}, InputError, "max_iter is 0; expected 1 to 1000000"),
    ({"max_iter": 10.0}, DTypeError, "max_iter must be an integer"),
    ({"n_starts": 0}, InputError, "n_starts is 0"),
    ({"tol": -1.0}, InputError, "tol is -1.0"),
    ({"tol": "small"}, DTypeError, "tol must be a number"),
    ({"tol": np.nan}, FiniteError, "tol is nan"),
    ({"seed": -1}, InputError, "seed is -1; expected 0 to"),
    ({"seed": 2**64}, InputError, "expected 0 to 18446744073709551615"),
    ({"space": "gpu"}, UnknownSpaceError, "space 'gpu' is unknown"),
]

SIMULATIONS = [
    ({"n_runs": 0}, InputError, "n_runs is 0; expected at least 1"),
    ({"n_runs": 2.5}, DTypeError, "n_runs must be an integer"),
    ({"seed": None}, DTypeError, "seed must be an integer"),
    ({"n_runs": 100, "max_gaps": 10}, InputError, "fewer than max_gaps = 10"),
]


test_runs = refusals(RUNS, lambda values, lengths: Runs(values, lengths))


test_lists = refusals(LISTS, lambda lists: Runs.from_lists(lists))


test_models = refusals(MODELS, lambda change: TransientMAP(**GOOD | change))


test_fits = refusals(FITS, lambda change: fit(**{"runs": DATA, "orders": [1, 2]} | change))


test_simulations = refusals(SIMULATIONS, lambda change: MODEL.simulate(**{"n_runs": 5, "seed": 1} | change))


def test_runs_are_runs():
    with pytest.raises(DTypeError, match="runs must be tmap.Runs, got ndarray"):
        MODEL.log_likelihood(np.ones(3))


@pytest.mark.parametrize("call", [goodness_of_fit, standard_errors])
def test_models_come_first(call):
    with pytest.raises(DTypeError, match="model must be tmap.TransientMAP, got Runs"):
        call(Runs([1.0], [1]), MODEL)


def test_every_gap_is_longer_than_a_negative_one():
    np.testing.assert_array_equal(MODEL.gap_survival([-5.0, -0.1, 0.0]), 1.0)


@pytest.mark.parametrize("call", [MODEL.gap_moment, MODEL.lag_correlation, MODEL.arrivals_distribution])
def test_counts_start_at_one(call):
    with pytest.raises(InputError, match="is 0; expected at least 1"):
        call(0)


def test_no_gap_that_late():
    model = TransientMAP([1.0], [1], [1.0], [[0.0]])
    with pytest.raises(InputError, match="k is 2, but no run has that many gaps"):
        model.gap_moment(2)
    with pytest.raises(InputError, match="lag is 1, but no run"):
        model.lag_correlation()
