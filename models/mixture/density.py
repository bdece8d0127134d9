"""Densities (1) and (2), and the sums (3), of points that are already in a space."""

from __future__ import annotations

import math

import numpy as np

import portable as pk
from portable.errors import InputError

from . import kernels
from .checks import check_array, check_points, check_weights

# Blocks of points that are added up one by one. Their number depends on n alone, so the bits of a sum do not depend on
# the machine, and the partial sums take at most 64 times the room of the components.
_BLOCK, _MOST_BLOCKS = 512, 64

# Instead of log 0: finite, so that differences of two are no NaN, and far below any density.
_LOG_ZERO = -1e300


class Points:
    """Points in a space, with room for their log-densities.

    Parameters
    ----------
    points : ndarray, shape (n, p)
    space : str, Space or None
    """

    def __init__(self, points, space):
        self.n, p = points.shape
        with pk.use(pk.default_space() if space is None else space) as self.space:
            self.x = pk.copy_of(np.ascontiguousarray(points.T))
            self.lse = pk.empty((self.n,), np.float64)
        self.p = pk.static(p) if p <= kernels.MOST_STATIC else p
        self.n_features = p
        self._each = pk.RangePolicy(0, self.n, space=self.space)

    def normalise(self, records):
        """Fill `lse`; its sum."""
        return float(pk.parallel_reduce(self._each, kernels.normalise, self.p, self.x, self._put(records), self.lse,
                                        label="mixture.normalise"))

    def sums(self, records):
        """n_j, sum r d, and sum r d d' with d = x - mu_j; `lse` must be that of the same records.

        Returns
        -------
        ndarrays, shapes (k,), (k, p), (k, p, p)
        """
        p, k = self.n_features, len(records)
        block = max(_BLOCK, -(-self.n // _MOST_BLOCKS))
        n_blocks = -(-self.n // block)
        with pk.use(self.space):
            partial = pk.empty((n_blocks, k, records.shape[1]), np.float64)
            sums = pk.empty((k, records.shape[1]), np.float64)
        kernel = kernels.block_sums if p <= kernels.MOST_STATIC else kernels.wide_block_sums
        pk.parallel_for(pk.TeamPolicy(n_blocks * k, space=self.space), kernel, self.p, self.x, self._put(records),
                        self.lse, block, partial, label="mixture.block_sums")
        pk.parallel_for(pk.MDRangePolicy((0, 0), sums.shape, space=self.space), kernels.add_blocks, partial, sums,
                        label="mixture.add_blocks")
        sums = sums.to_numpy()
        rows, columns = np.tril_indices(p)
        scatter = np.empty((k, p, p))
        scatter[:, rows, columns] = scatter[:, columns, rows] = sums[:, 1 + p:]
        return sums[:, 0], sums[:, 1:1 + p], scatter

    def labels(self, records):
        """The most probable component of each point, shape (n,)."""
        with pk.use(self.space):
            labels = pk.empty((self.n,), np.int64)
        pk.parallel_for(self._each, kernels.assign, self.p, self.x, self._put(records), labels, label="mixture.assign")
        return labels.to_numpy()

    def responsibilities(self, records):
        """r_ij, shape (n, k)."""
        self.normalise(records)
        with pk.use(self.space):
            out = pk.empty((self.n, len(records)), np.float64)
        pk.parallel_for(pk.MDRangePolicy((0, 0), out.shape, space=self.space), kernels.responsibilities, self.p, self.x,
                        self._put(records), self.lse, out, label="mixture.responsibilities")
        return out.to_numpy()

    def _put(self, records):
        return pk.copy_of(records, self.space)


def pack(means, precisions_cholesky, log_weights):
    """Components as the kernels read them, shape (k, p + p (p + 1) / 2 + 1)."""
    p = means.shape[1]
    rows, columns = np.tril_indices(p)
    log_det = np.log(np.diagonal(precisions_cholesky, axis1=1, axis2=2)).sum(axis=1)
    constant = np.maximum(log_weights - 0.5 * p * math.log(2.0 * math.pi) + log_det, _LOG_ZERO)
    return np.hstack([means, precisions_cholesky[:, columns, rows], constant[:, None]])


def log_density(X, means, precisions_cholesky, weights, *, space=None):
    """Log-density of a Gaussian mixture at each point.

    Parameters
    ----------
    X : array-like, shape (n_samples, n_features)
    means : array-like, shape (n_components, n_features)
    precisions_cholesky : array-like, shape (n_components, n_features, n_features)
        Upper triangular with a positive diagonal: Sigma^-1 = P P', as in scikit-learn. What lies below is not read.
    weights : array-like, shape (n_components,), adding up to 1
    space : str or Space, optional
        Where to compute; the default space if not given.

    Returns
    -------
    ndarray, shape (n_samples,)

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    Equations (1) and (2) of `models.mixture`.
    """
    X = check_points(X)
    means = check_points(means, "means", X.shape[1])
    k, p = means.shape
    factors = check_array(precisions_cholesky, "precisions_cholesky", (k, p, p))
    if (np.diagonal(factors, axis1=1, axis2=2) <= 0.0).any():
        raise InputError("precisions_cholesky has a diagonal that is not positive")
    with np.errstate(divide="ignore"):
        log_weights = np.log(check_weights(weights, k))
    points = Points(X, space)
    points.normalise(pack(means, factors, log_weights))
    return points.lse.to_numpy()
