"""The equations of `portable.models.mixture` in plain NumPy, component by component, with all n x k numbers:
for tests."""

from __future__ import annotations

import numpy as np


def log_joint(X, log_weights, means, covariances):
    """l_ij of (1), shape (n, k)."""
    columns = []
    for log_weight, mean, covariance in zip(log_weights, means, covariances):
        y = np.linalg.solve(np.linalg.cholesky(covariance), (X - mean).T)
        log_det = np.linalg.slogdet(covariance)[1]
        columns.append(log_weight - 0.5 * (X.shape[1] * np.log(2.0 * np.pi) + log_det + (y * y).sum(axis=0)))
    return np.stack(columns, axis=1)


def log_sum_exp(terms):
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))


def bayesian_em(X, prior, sticks, means, covariances, n_iter):
    """Iterations of (4) to (7) from a start.

    Parameters
    ----------
    X : ndarray, shape (n, p)
    prior : Prior, every number given
    sticks : ndarray, shape (k - 1,)
    means, covariances : ndarrays, shapes (k, p) and (k, p, p)
    n_iter : int

    Returns
    -------
    objectives : list of n_iter + 1 floats
    sticks, means, covariances : ndarrays
    """
    k, p = means.shape
    m, g, nu, psi, e, f = prior.mean, prior.mean_scale, prior.dof, prior.scale, prior.shape, prior.rate
    objectives = []
    for _ in range(n_iter + 1):
        log_weights = [np.log(v) for v in sticks] + [0.0]
        for j in range(k):
            log_weights[j] += sum(np.log1p(-v) for v in sticks[:j])
        terms = log_joint(X, log_weights, means, covariances)
        lse = log_sum_exp(terms)
        left = np.log1p(-sticks).sum()
        value = lse.sum() - left - (k + e - 1) * np.log(f - left)
        for mean, covariance in zip(means, covariances):
            inverse = np.linalg.inv(covariance)
            value -= 0.5 * (
                (nu + p + 2) * np.linalg.slogdet(covariance)[1]
                + np.trace(psi @ inverse)
                + (mean - m) @ inverse @ (mean - m) / g
            )
        objectives.append(value)
        if len(objectives) > n_iter:
            return objectives, sticks, means, covariances
        r = np.exp(terms - lse[:, None])
        alpha = (e + k - 1) / (f - left)
        n = r.sum(axis=0)
        sticks = np.array([np.clip(n[j] / (alpha - 1 + n[j:].sum()), 1e-10, 1 - 1e-10) for j in range(k - 1)])
        means, covariances = means.copy(), covariances.copy()
        for j in range(k):
            xbar = r[:, j] @ X / n[j]
            scatter = (r[:, j, None] * (X - xbar)).T @ (X - xbar)
            means[j] = (m + g * n[j] * xbar) / (1 + g * n[j])
            spread = n[j] / (1 + g * n[j]) * np.outer(xbar - m, xbar - m)
            covariances[j] = (psi + scatter + spread) / (n[j] + nu + p + 2)
