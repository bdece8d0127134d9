"""Checks of what users pass in. All of them run before anything is computed or copied to a device."""

from __future__ import annotations

import warnings

import numpy as np

from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from ..checks import as_numbers, check_finite, first_not_finite
from ..mapped import Streamed, opened

# looked at together: they fit in a cache, and memory-mapped points are never in memory as a whole
_ROWS = 8192
_SIDE_BY_SIDE = 16  # rows that NumPy adds up as one long one


def check_points(points, name="X", n_features=None):
    """Points as an array of shape (n_samples, n_features), finite, float32 as it is and anything else as
    float64.

    What has one of these dtypes is not copied. What is larger than memory stays where it is: see
    `models.mapped`.
    """
    points = opened(points, name)
    points = points if isinstance(points, Streamed) else _plain_numbers(points, name)
    if points.ndim != 2:
        raise ShapeError(
            f"{name} has shape {points.shape}; one row per point is wanted: shape (n_samples, n_features). "
            f"Reshape your data: {name}.reshape(-1, 1) if it has a single coordinate"
        )
    if not points.shape[1]:
        raise ShapeError(f"{name} has 0 feature(s) (shape={points.shape}) while a minimum of 1 is required.")
    if not len(points):
        raise ShapeError(f"{name} has shape {points.shape}; at least one point is wanted")
    if n_features is not None and points.shape[1] != n_features:
        raise ShapeError(
            f"{name} has {points.shape[1]} features, but DirichletMixture is expecting {n_features} features "
            "as input"
        )
    if points.dtype not in (np.float32, np.float64):
        points = points.astype(np.float64)
    for start in range(0, len(points), _ROWS):
        at = first_not_finite(points[start : start + _ROWS])
        if at is not None:
            row, column = at[0] + start, at[1]
            raise FiniteError(
                f"{name}[{row}, {column}] is {points[row, column]}; finite numbers are wanted, not NaN "
                "or infinity"
            )
    return points


def _plain_numbers(points, name):
    """Columns of objects that are numbers are taken too, as from a data frame."""
    dtype = getattr(points, "dtype", None)
    if dtype == np.dtype(object):
        try:
            points = np.asarray(points).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DTypeError(f"{name} must hold real numbers: {error}") from error
    elif isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise DTypeError(f"Complex data not supported: {name} has dtype {dtype}; real numbers are wanted")
    return as_numbers(points, name)


def check_sample_weight(weights, n):
    """How often each of n points counts, float64, shape (n,); None if not given."""
    if weights is None:
        return None
    weights = check_array(weights, "sample_weight", (n,))
    if (weights < 0.0).any():
        at = int((weights < 0.0).argmax())
        raise InputError(f"sample_weight[{at}] is {weights[at]}; numbers >= 0 are wanted")
    if not weights.any():
        raise InputError("sample_weight is zero everywhere: no point counts")
    return weights


def spread_of(X, weights=None):
    """Mean and variance of each column, float64, in one pass over blocks of rows; InputError for a constant
    column.

    Blocks are combined as in Chan, Golub and LeVeque (1983), less the first row: of a constant column nothing
    is left.
    """
    n, p = X.shape
    if n == 1:
        raise ShapeError(f"X has shape {X.shape}: n_samples = 1; at least 2 points are wanted")
    first = np.asarray(X[0], np.float64)
    count, mean, squares = 0, np.zeros(p), np.zeros(p)
    for start in range(0, n, _ROWS):
        part = np.subtract(X[start : start + _ROWS], first, order="C")
        share = None if weights is None else weights[start : start + _ROWS, None]
        own = len(part) if share is None else share.sum()
        if own == 0.0:
            continue
        own_mean = _column_sums(part if share is None else part * share) / own
        part -= own_mean
        away = own_mean - mean
        np.square(part, out=part)
        squares += _column_sums(part if share is None else part * share) + away**2 * (
            count * own / (count + own)
        )
        mean = mean + away * (own / (count + own))
        count += own
    still = np.flatnonzero(squares == 0.0)
    if still.size:
        raise InputError(f"column {still[0]} of X is constant; leave such columns out ({still.tolist()})")
    return first + mean, squares / count


def _column_sums(a):
    whole = len(a) // _SIDE_BY_SIDE * _SIDE_BY_SIDE
    together = a[:whole].reshape(-1, _SIDE_BY_SIDE * a.shape[1]).sum(axis=0)
    return together.reshape(_SIDE_BY_SIDE, -1).sum(axis=0) + a[whole:].sum(axis=0)


def check_array(value, name, shape=None):
    """A float64 array of finite numbers, of a shape if one is given."""
    array = as_numbers(value, name)
    if shape is not None and array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; {shape} is wanted")
    return check_finite(array, name)


def check_weights(weights, k, name="weights"):
    """Probabilities of k components, shape (k,)."""
    weights = check_array(weights, name, (k,))
    if (weights < 0.0).any() or abs(weights.sum() - 1.0) > 1e-8:
        raise InputError(
            f"{name} is negative somewhere or adds up to {weights.sum()}; probabilities are wanted"
        )
    return weights


def check_covariances(covariances, shape, name):
    """Symmetric positive definite matrices, shape (..., p, p)."""
    covariances = check_array(covariances, name, shape)
    if not np.allclose(covariances, np.swapaxes(covariances, -1, -2)):
        raise InputError(f"{name} is not symmetric")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise InputError(f"{name} is not positive definite") from error
    return covariances


def check_variances(variances, shape, name):
    """Positive numbers of a shape."""
    variances = check_array(variances, name, shape)
    if (variances <= 0.0).any():
        raise InputError(f"{name} is not positive somewhere; variances are wanted")
    return variances


def check_random_state(random_state):
    """A Generator."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state is {random_state!r}; None, a whole number >= 0 or a NumPy Generator is wanted"
        ) from error


def feature_names(X):
    """The names of a data frame's columns, or None."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return np.asarray(columns, dtype=object)


def check_feature_names(X, wanted):
    """Columns named as at the fit; names on one side alone are worth a warning, as in scikit-learn."""
    names = feature_names(X)
    if names is not None and wanted is None:
        warnings.warn(
            "X has feature names, but DirichletMixture was fitted without feature names", stacklevel=3
        )
    elif names is None and wanted is not None:
        warnings.warn(
            "X does not have valid feature names, but DirichletMixture was fitted with feature names",
            stacklevel=3,
        )
    elif names is not None and list(names) != list(wanted):
        raise InputError(
            "The feature names should match those that were passed during fit: "
            f"got {list(names)}, wanted {list(wanted)}"
        )
