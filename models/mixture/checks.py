"""Checks of what users pass in. All of them run before anything is computed or copied to a device."""

from __future__ import annotations

import numbers

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError


def check_points(points, name="X", n_features=None):
    """Points as a float64 array of shape (n_samples, n_features), finite."""
    points = check_array(points, name)
    if points.ndim != 2:
        raise ShapeError(f"{name} has shape {points.shape}; one row a point is wanted: shape (n_samples, n_features)")
    if not points.size:
        raise ShapeError(f"{name} has shape {points.shape}; at least one point of one coordinate is wanted")
    if n_features is not None and points.shape[1] != n_features:
        raise ShapeError(f"{name} has shape {points.shape}; points of {n_features} coordinates are wanted")
    return points


def check_array(value, name, shape=None):
    """A float64 array of finite numbers, of a shape if one is given."""
    if isinstance(value, pk.View):
        value = value.to_numpy()
    if hasattr(value, "toarray"):
        raise DTypeError(f"{name} is sparse, of type {type(value).__name__}; a dense array is wanted: {name}.toarray()")
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged rows
        raise ShapeError(f"{name} is not a rectangular array: {error}") from error
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if shape is not None and array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; {shape} is wanted")
    array = array.astype(np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        index = tuple(bad[0].tolist())
        raise FiniteError(f"{name}[{', '.join(map(str, index))}] is {array[index]}; finite numbers are wanted")
    return array


def check_weights(weights, k, name="weights"):
    """Probabilities of k components, shape (k,)."""
    weights = check_array(weights, name, (k,))
    if (weights < 0.0).any() or abs(weights.sum() - 1.0) > 1e-8:
        raise InputError(f"{name} is negative somewhere or adds up to {weights.sum()}; probabilities are wanted")
    return weights


def check_covariances(covariances, shape, name):
    """Symmetric positive definite matrices: (..., p, p)."""
    covariances = check_array(covariances, name, shape)
    if not np.allclose(covariances, np.swapaxes(covariances, -1, -2)):
        raise InputError(f"{name} is not symmetric")
    try:
        np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise InputError(f"{name} is not positive definite") from error
    return covariances


def check_count(value, name, least):
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise DTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if value < least:
        raise InputError(f"{name} is {value}; at least {least} is wanted")
    return int(value)


def check_number(value, name, above=-np.inf, least=-np.inf):
    """A finite number above one bound and not below the other."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise DTypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not np.isfinite(value):
        raise FiniteError(f"{name} is {value}; a finite number is wanted")
    if value < least or value <= above:
        bound = f"at least {least}" if value < least else f"more than {above}"
        raise InputError(f"{name} is {value}; {bound} is wanted")
    return float(value)
