"""Checks of what users pass in. All of them run before anything is computed or copied to a device."""

from __future__ import annotations

import numpy as np

from portable.errors import InputError, ShapeError

from ..checks import as_numbers, check_finite


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
    array = as_numbers(value, name)
    if shape is not None and array.shape != shape:
        raise ShapeError(f"{name} has shape {array.shape}; {shape} is wanted")
    return check_finite(array, name)


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
