"""The prior, and what EM makes of the sums (3) with one and without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portable.errors import DTypeError, InputError

from ..checks import check_number
from .checks import check_array, check_covariances

_NEAREST = 1e-10  # sticks stay this far from 0 and 1


@dataclass(frozen=True)
class Prior:
    """The prior of `models.mixture`.

    Parameters
    ----------
    mean : array-like, shape (n_features,), optional
        m; the mean of the data if not given.
    mean_scale : float, default 100
        g: how much wider the means scatter than the points of a component.
    dof : float, optional
        nu > n_features - 1; n_features + 2 if not given.
    scale : array-like, shape (n_features, n_features), optional
        Psi; the diagonal matrix of the data's variances if not given.
    shape, rate : float, default 10 and 1
        e and f of alpha.
    """

    mean: object = None
    mean_scale: float = 100.0
    dof: float | None = None
    scale: object = None
    shape: float = 10.0
    rate: float = 1.0

    def for_data(self, center, variances):
        """The same with every number checked and given, from the data's mean and variances, shapes (n_features,)."""
        p = len(center)
        return Prior(
            mean=center if self.mean is None else check_array(self.mean, "prior.mean", (p,)),
            mean_scale=check_number(self.mean_scale, "prior.mean_scale", 0.0),
            dof=p + 2.0 if self.dof is None else check_number(self.dof, "prior.dof", p - 1.0),
            scale=np.diag(variances) if self.scale is None else check_covariances(self.scale, (p, p), "prior.scale"),
            shape=check_number(self.shape, "prior.shape", 0.0),
            rate=check_number(self.rate, "prior.rate", 0.0))


class WithPrior:
    """Bayesian EM: sticks, equations (4) to (8).

    Parameters
    ----------
    prior : Prior, from `for_data`
    weights : ndarray, shape (k,)
    """

    def __init__(self, prior, weights):
        self.prior = prior
        left = np.cumsum(weights[::-1])[::-1]
        with np.errstate(invalid="ignore"):  # nothing left: any stick will do
            self._sticks = _hold(np.nan_to_num(weights / left, nan=0.5)[:-1])

    def log_weights(self):
        """log pi_j, shape (k,)."""
        return np.append(np.log(self._sticks), 0.0) + np.append(0.0, np.cumsum(np.log1p(-self._sticks)))

    def update(self, n, xbar, scatter):
        """Means (5) and covariances (6); the sticks (7) are kept. Arguments: the sums (3)."""
        prior, p = self.prior, xbar.shape[1]
        alpha = (prior.shape + len(n) - 1.0) / (prior.rate - np.log1p(-self._sticks).sum())
        others = alpha - 1.0 + np.append(np.cumsum(n[:0:-1])[::-1], 0.0)[:-1]
        # With alpha < 1 nothing may hold a stick back: the objective then grows up to the bound.
        self._sticks = _hold(np.divide(n[:-1], n[:-1] + others, out=np.ones(len(n) - 1), where=others > 0.0))
        pull = 1.0 + prior.mean_scale * n
        means = (prior.mean + prior.mean_scale * n[:, None] * xbar) / pull[:, None]
        away = xbar - prior.mean
        spread = (n / pull)[:, None, None] * away[:, :, None] * away[:, None, :]
        return means, (prior.scale + scatter + spread) / (n + prior.dof + p + 2.0)[:, None, None]

    def objective(self, log_likelihood, means, factors):
        """Equation (8); `factors` are the upper P with Sigma^-1 = P P'."""
        prior, (k, p) = self.prior, means.shape
        left = np.log1p(-self._sticks).sum()
        log_det = -2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
        trace = np.einsum("jab,ac,jcb->", factors, prior.scale, factors)
        square = (((means - prior.mean)[:, None, :] @ factors) ** 2).sum()
        return (log_likelihood - left - (k + prior.shape - 1.0) * np.log(prior.rate - left)
                - 0.5 * ((prior.dof + p + 2.0) * log_det + trace + square / prior.mean_scale))


class WithoutPrior:
    """Maximum-likelihood EM, with `reg_covar` on the diagonals of the covariances."""

    def __init__(self, reg_covar, weights):
        self._reg_covar, self._weights = reg_covar, weights

    def log_weights(self):
        with np.errstate(divide="ignore"):
            return np.log(self._weights)

    def update(self, n, xbar, scatter):
        self._weights = n / n.sum()
        covariances = scatter / np.maximum(n, np.finfo(float).tiny)[:, None, None]
        return xbar, covariances + self._reg_covar * np.eye(xbar.shape[1])

    def objective(self, log_likelihood, means, factors):
        return log_likelihood


def check_prior(prior):
    if prior is not None and not isinstance(prior, Prior):
        raise DTypeError(f"prior must be mixture.Prior, or None for maximum likelihood, got {type(prior).__name__}")
    return prior


def centre(n, xbar_less_mean, scatter, means):
    """xbar_j and S_j from sums about the present means; a component without points keeps its mean."""
    share = np.maximum(n, np.finfo(float).tiny)
    away = xbar_less_mean / share[:, None]
    return means + away, scatter - n[:, None, None] * away[:, :, None] * away[:, None, :]


def precision_factors(covariances):
    """Upper triangular P with Sigma^-1 = P P', shape (k, p, p)."""
    try:
        lower = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise InputError("a component has collapsed: its covariance is not positive definite. Raise reg_covar, ask for "
                         "fewer components, or give a prior") from error
    return np.swapaxes(np.linalg.inv(lower), 1, 2)


def _hold(sticks):
    return np.clip(sticks, _NEAREST, 1.0 - _NEAREST)
