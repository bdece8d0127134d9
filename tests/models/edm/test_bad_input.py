"""Test wrong calls: the exception's type and the words of its message. Errors are raised before any
computation.
"""

import numpy as np
import pandas
import pytest

from portable.errors import DTypeError, FiniteError, InputError, ShapeError
from portable.models import edm

from ...refusals import refusals

X = np.sin(np.arange(30.0))
GAPS = np.where(np.arange(30) % 3 == 0, np.nan, X)

NEIGHBOURS = [
    ({"tau": 0}, InputError, "tau is 0; expected at least 1"),
    ({"tau": 1.5}, DTypeError, "tau must be an integer, got 1.5"),
    ({"E": 0}, InputError, "E is 0; expected at least 1"),
    ({"E": 31}, ShapeError, "library has 30 times; an embedding with E = 31 and tau = 1 needs 31"),
    ({"E": 2, "tau": 30}, ShapeError, "E = 2 and tau = 30 needs 31"),
    ({"Tp": 30}, InputError, "Tp is 30; expected -29 to 28"),
    ({"Tp": -30}, InputError, "Tp is -30"),
    ({"Tp": 0.5}, DTypeError, "Tp must be an integer, got 0.5"),
    ({"k": 0}, InputError, "k is 0; expected at least 1"),
    (
        {"k": 29},
        InputError,
        "k is 29, but the library has 28 points once the 1 within exclusion_radius = 0",
    ),
    (
        {"k": 9, "exclusion_radius": 20},
        InputError,
        "k is 9, but the library has 8 points once the 21 within exclusion_radius = 20",
    ),
    ({"exclusion_radius": -1}, InputError, "exclusion_radius is -1; expected at least 0"),
    ({"library": []}, ShapeError, r"library has shape \(0,\); expected at least one time"),
    ({"library": np.zeros((3, 3, 3))}, ShapeError, r"library has shape \(3, 3, 3\)"),
    ({"library": ["a"] * 30}, DTypeError, "library must hold real numbers, got dtype <U1"),
    ({"library": 3.0}, ShapeError, r"library has shape \(\)"),
    ({"library": np.full(30, np.nan)}, InputError, "library holds nothing but NaN"),
    ({"library": np.where(X > 0.9, np.inf, X)}, FiniteError, r"library\[2\] is inf"),
    ({"library": GAPS, "E": 3}, InputError, "k is 4, but the library has 0 points"),
    ({"library": X * 1e301}, InputError, r"library exceeds 1e\+300 \(from .*expected other units"),
    ({"library": X * 1e-301}, InputError, "library varies by less than 1e-300"),
    ({"points": np.zeros((30, 2))}, ShapeError, r"points has 2 column\(s\); expected 1"),
    ({"points": np.zeros(1)}, ShapeError, "points has 1 times"),
    ({"lib": (0, 31)}, InputError, r"lib holds \(0, 31\); expected 0 <= begin < end <= 30"),
    ({"pred": (5, 5)}, InputError, r"pred holds \(5, 5\)"),
    (
        {"pred": (0, 1)},
        InputError,
        r"pred is \[\(0, 1\)\], which has no point with E = 2 and tau = 1: the first is at 1",
    ),
    ({"valid": np.ones(30)}, DTypeError, "valid must be True or False for each time, got dtype float64"),
    ({"valid": [True]}, ShapeError, r"valid has shape \(1,\); expected a flag for each time"),
    ({"valid": X > 9}, InputError, "k is 3, but the library has 0 points"),
    ({"lib": [(0, 15), (15, 30)], "E": 16}, InputError, "k is 17, but the library has 0 points"),
    ({"lib": 5}, ShapeError, "lib is 5; expected .begin, end."),
    ({"lib": (0.0, 9.0)}, DTypeError, "expected integers"),
    ({"dtype": "float16"}, InputError, "dtype is 'float16'; expected one of 'float32', 'float64'"),
]

CROSS = [
    ({"dims": [2, 0, 2]}, InputError, r"dims\[1\] is 0; expected at least 1"),
    ({"dims": [2, 2]}, ShapeError, r"dims has shape \(2,\); .*shape \(3,\)"),
    ({"dims": [[2, 2]]}, ShapeError, r"dims has shape \(1, 2\); .*\(3, 1\)"),
    ({"dims": [[2], [0], [2]]}, InputError, r"dims\[1, 0\] is 0; expected at least 1"),
    ({"dims": "best"}, InputError, "dims is 'best'; expected one of 'library', 'target'"),
    ({"valid": X}, DTypeError, "valid must be True or False for each time, got dtype float64"),
    ({"valid": [True]}, ShapeError, r"valid has shape \(1,\); .*shape \(30,\)"),
    ({"dims": 2.5}, DTypeError, "dims must be whole numbers"),
    ({"dims": 29}, InputError, "series 0: k is 30, but the library has 1 points"),
    (
        {"dataset": np.column_stack([X, GAPS, X]), "dims": 3},
        InputError,
        "series 1: k is 4, but the library has 0 points",
    ),
    (
        {"dataset": np.column_stack([X, np.full(30, np.nan)])},
        InputError,
        "dataset holds nothing but NaN: column 1",
    ),
    ({"libraries": [3]}, InputError, "libraries is 3; expected 0 to 2"),
    ({"libraries": [0.5]}, DTypeError, "libraries must be numbers of columns"),
    (
        {"libraries": [[0, 1], [2]]},
        ShapeError,
        "groups of different sizes; expected groups of one size",
    ),
    ({"libraries": [[0, 1], [2, 2]]}, InputError, r"libraries\[1\] holds 2 twice"),
    ({"libraries": ["z"]}, InputError, "libraries: there is no series 'z'; they are 0, 1, 2"),
    ({"out": "rho.txt"}, InputError, "expected the name of a .npy file"),
    ({"out": "/nowhere/rho.npy"}, InputError, "there is no folder '/nowhere'"),
    ({"memory_mb": 0}, InputError, "memory_mb is 0; expected more than 0"),
    ({"progress": 1}, DTypeError, "progress must be True or False"),
    ({"Tp": 40}, InputError, "Tp is 40"),
]

CONVERGENCE = [
    (
        {"library_sizes": [2]},
        InputError,
        r"library_sizes\[0\] is 2; expected 3 \(k\) to 29 \(points of the library\)",
    ),
    ({"library_sizes": [10, 30]}, InputError, r"library_sizes\[1\] is 30"),
    ({"library_sizes": []}, ShapeError, r"library_sizes has shape \(0,\)"),
    ({"library_sizes": [5.5]}, DTypeError, "library_sizes must be whole numbers"),
    ({"target": X[:-1]}, ShapeError, "target has 29 times; expected 30"),
    ({"n_samples": 0}, InputError, "n_samples is 0"),
    ({"n_surrogates": -1}, InputError, "n_surrogates is -1"),
    ({"surrogate": "none"}, InputError, "surrogate is 'none'"),
    (
        {"target": GAPS, "n_surrogates": 2, "surrogate": "phase"},
        InputError,
        r"target\[0\] is NaN; expected complete series for phase surrogates",
    ),
    ({"n_surrogates": 2, "surrogate": "seasonal"}, InputError, "surrogate='seasonal' needs period="),
    (
        {"n_surrogates": 2, "surrogate": "seasonal", "period": 11},
        InputError,
        "period is 11; expected 2 to 10",
    ),
    ({"n_surrogates": 2, "period": 6}, InputError, "period is 6, but surrogate='phase' has none"),
    (
        {"n_surrogates": 2, "surrogate": "phase", "block": 6},
        InputError,
        "block is 6, but surrogate='phase' has none",
    ),
    ({"target": "x"}, DTypeError, "target names .*'x'.*, but the data are of type ndarray, without names"),
    ({"seed": -1}, InputError, "seed is -1"),
]

MAPS = [
    ({"theta": -1.0}, InputError, r"theta\[0\] is -1.0; expected numbers of at least 0"),
    ({"theta": [0.0, np.nan]}, FiniteError, "theta.1. is nan"),
    ({"theta": []}, ShapeError, r"theta has shape \(0,\)"),
    ({"theta": "2"}, DTypeError, "theta must hold real numbers"),
]


def of_neighbours(function):
    return lambda change: function(**({"library": X, "E": 2, "Tp": 0} | change))


test_knn = refusals(NEIGHBOURS, of_neighbours(edm.knn))
test_simplex = refusals(NEIGHBOURS, of_neighbours(edm.simplex))
test_cross_map = refusals(
    CROSS, lambda change: edm.cross_map(**({"dataset": np.column_stack([X, X**2, X**3]), "dims": 2} | change))
)


test_ccm = refusals(
    CONVERGENCE,
    lambda change: edm.ccm(**({"library": X, "target": X**2, "E": 2, "library_sizes": [10]} | change)),
)


def test_levels_are_shares():
    found = edm.ccm(X, X**2, 2, library_sizes=[10], n_samples=5)
    with pytest.raises(InputError, match="level is 95; expected a share between 0 and 1"):
        found.interval(95)


test_smap = refusals(MAPS, lambda change: edm.smap(**({"library": X, "E": 2, "theta": 1.0} | change)))


def test_sweep():
    with pytest.raises(ShapeError, match="target has 29 times; expected 30"):
        edm.embedding_dimension(X, 3, target=X[1:])
    with pytest.raises(ShapeError, match="E = 31"):
        edm.embedding_dimension(X, 31)


def test_words_in_a_table_are_named():
    with pytest.raises(DTypeError, match="column 'site' has dtype"):
        edm.cross_map(pandas.DataFrame({"x": X, "site": ["a"] * 30}), 2)
    with pytest.raises(DTypeError, match="library must hold real numbers, got dtype datetime64"):
        edm.simplex(pandas.DatetimeIndex(["2026-01-01"] * 30), 2)
    with pytest.raises(InputError, match="columns is empty; expected at least one name"):
        edm.simplex(pandas.DataFrame({"x": X}), 2, columns=[])
    assert edm.traits(X.tolist()) == edm.traits(X) == edm.traits(X.astype(np.longdouble))
