"""Checks of users' arguments. All run before anything is computed or copied to a device, except the check for
finite points: a kernel that reads the points anyway makes it."""

import numpy as np

import portable as pk

from ..shared.arrays import as_view
from ..shared import (
    DTypeError,
    FiniteError,
    InputError,
    ShapeError,
    Streamed,
    as_numbers,
    check_finite,
    opened,
    refuse,
    warn,
)
from ..shared.checks import first_not_finite

# rows that are checked together: they fit in a cache, and memory-mapped points are never in memory as a whole
_ROWS = 8192


def check_points(points, name="X"):
    """Return points on the host as an array of finite numbers, shape (n_samples, n_features): float32
    unchanged, any other dtype as float64.

    Arrays of these dtypes are not copied. Arrays larger than memory are not loaded: see
    `portable.models.shared.mapped`.
    """
    points = check_table(points, name)
    if isinstance(points, pk.View):
        points = points.to_numpy()
    for start in range(0, len(points), _ROWS):
        rows = points[start : start + _ROWS]
        at = first_not_finite(rows)
        if at is not None:
            raise FiniteError(
                f"{name}[{at[0] + start}, {at[1]}] is {rows[at]}; expected finite numbers, not NaN "
                "or infinity"
            )
    return points


def check_table(points, name="X", n_features=None):
    """Return points checked as by `check_points`, except for their elements: a kernel checks whether these
    are finite.

    Views, and arrays of other libraries on a device, are not copied to the host but returned as Views.
    """
    points = opened(points, name)
    there = as_view(points)
    if there is not None:
        points = there
    elif not isinstance(points, Streamed):
        points = _plain_numbers(points, name)
    if points.dtype.kind not in "fiu":
        raise DTypeError(f"{name} must hold real numbers, got dtype {points.dtype}")
    if points.ndim != 2:
        raise ShapeError(
            f"{name} has shape {points.shape}; expected one row per point: shape (n_samples, n_features). "
            f"Reshape your data: {name}.reshape(-1, 1) if it has a single coordinate"
        )
    if not points.shape[1]:
        raise ShapeError(f"{name} has 0 feature(s) (shape={points.shape}) while a minimum of 1 is required.")
    if not len(points):
        raise ShapeError(f"{name} has shape {points.shape}; expected at least one point")
    if n_features is not None and points.shape[1] != n_features:
        raise ShapeError(
            f"{name} has {points.shape[1]} features, but DirichletMixture is expecting {n_features} features "
            "as input"
        )
    if points.dtype in (np.float32, np.float64):
        return points
    if there is None:
        return points.astype(np.float64)
    points = pk.empty(there.shape, space=there.space)
    pk.deep_copy(points, there, cast=True)
    return points


def _plain_numbers(points, name):
    """Return points as an array of numbers; columns of objects that are numbers, as of a data frame, are
    converted."""
    dtype = getattr(points, "dtype", None)
    if dtype == np.dtype(object):
        try:
            points = np.asarray(points).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DTypeError(f"{name} must hold real numbers: {error}") from error
    elif isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise DTypeError(f"Complex data not supported: {name} has dtype {dtype}; expected real numbers")
    plain = as_numbers(points, name)
    return points if isinstance(points, np.memmap) else plain  # which has the name of its file


def check_sample_weight(weights, n):
    """Return the weights of n points, float64, shape (n,); None if not given."""
    if weights is None:
        return None
    weights = check_array(weights, "sample_weight", (n,))
    refuse(weights < 0.0, weights, "sample_weight", "numbers >= 0")
    if not 1e-100 < weights.sum() < 1e100:
        raise InputError(
            f"sample_weight adds up to {weights.sum()}, near zero or infinity; expected 1 or more"
        )
    return weights


def check_array(value, name, shape=None):
    """Return a float64 array of finite numbers, of the given shape if any."""
    array = as_numbers(value, name)
    if shape is not None and array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; expected {shape}")
    return check_finite(array, name)


def check_weights(weights, k, name="weights"):
    """Return probabilities of k components, shape (k,)."""
    weights = check_array(weights, name, (k,))
    if (weights < 0.0).any() or abs(weights.sum() - 1.0) > 1e-8:
        raise InputError(
            f"{name} is negative somewhere or adds up to {weights.sum()}; expected probabilities"
        )
    return weights


def check_covariances(covariances, shape, name):
    """Return symmetric positive definite matrices, shape (..., p, p)."""
    covariances = check_array(covariances, name, shape)
    if not np.allclose(covariances, np.swapaxes(covariances, -1, -2)):
        raise InputError(f"{name} is not symmetric")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise InputError(f"{name} is not positive definite") from error
    return covariances


def check_variances(variances, shape, name):
    """Return positive numbers of the given shape."""
    variances = check_array(variances, name, shape)
    refuse(variances <= 0.0, variances, name, "a positive variance")
    return variances


def check_random_state(random_state):
    """Return a generator of random numbers."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state is {random_state!r}; expected None, a whole number >= 0 or a NumPy Generator"
        ) from error


def feature_names(X):
    """Return the names of a data frame's columns, or None."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(columns, dtype=object)


def check_feature_names(X, wanted):
    """Check that columns have the names of the fit; warn if only one of the two has names, as scikit-learn
    does."""
    names = feature_names(X)
    if (names is None) != (wanted is None):
        has, was = ("does not have valid", "with") if names is None else ("has", "without")
        text = f"X {has} feature names, but DirichletMixture was fitted {was} feature names"
        warn(text, UserWarning)
    elif names is not None and list(names) != list(wanted):
        raise InputError(
            "The feature names should match those that were passed during fit: "
            f"got {list(names)}, expected {list(wanted)}"
        )
