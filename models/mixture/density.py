"""Evaluate the log-density of a Gaussian mixture with given parameters."""

from __future__ import annotations

import numpy as np

import portable as pk

from ..shared import ArrayLike, ArrayOrView, InputError, SpaceLike
from . import covariance
from .blocks import Components, Points
from .checks import check_array, check_table, check_weights


def log_density(
    X: ArrayLike | pk.View,
    means: ArrayLike,
    precisions_cholesky: ArrayLike,
    weights: ArrayLike,
    *,
    space: SpaceLike = None,
) -> ArrayOrView:
    """Return the log-density of a Gaussian mixture at each point.

    Parameters
    ----------
    X : array-like or View, shape (n_samples, n_features)
        float32 is computed in float32, anything else in float64.
    means : array-like, shape (n_components, n_features)
    precisions_cholesky : array-like, shape (n_components, n_features, n_features) or (n_components,
        n_features) Upper triangular with a positive diagonal: Sigma^-1 = P P', as in scikit-learn; elements
        below the diagonal are not read. Or the diagonals of diagonal matrices.
    weights : array-like, shape (n_components,), adding up to 1
    space : str or Space, optional
        Where to compute; the default space if not given.

    Returns
    -------
    ndarray, shape (n_samples,)
        A View on the space if X is a View or an array on a device.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    Equations (1) and (2) of `portable.models.mixture`.
    """
    X = check_table(X)
    means = check_array(means, "means")
    if means.ndim != 2 or means.shape[1] != X.shape[1] or not len(means):
        raise InputError(
            f"means has shape {means.shape}; expected points of {X.shape[1]} coordinates, one row each"
        )
    k, p = means.shape
    diagonal = np.ndim(precisions_cholesky) == 2
    factors = check_array(precisions_cholesky, "precisions_cholesky", (k, p) if diagonal else (k, p, p))
    if (covariance.diagonals(factors) <= 0.0).any():
        raise InputError("precisions_cholesky has a diagonal that is not positive")
    weights = check_weights(weights, k)
    # the mean of the components: that of the points would require another pass over them
    points = Points(X, k, space, weights @ means, diagonal, streamed=True)
    components = Components.of("diag" if diagonal else "full", weights, means, factors)
    return points.log_densities(components, points.as_view)
