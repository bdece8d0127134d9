"""Draw from the conditionals under the prior and a component's points, and evaluate their density without
means and covariances.

Restricted to diagonal matrices, the inverse Wishart density is that of independent inverse gamma variables;
restricted to multiples of the unit matrix, that of a single one. A tied covariance has the prior only once.
"""

import numpy as np

from . import covariance
from .prior import brackets


def draw(kind, prior, n, xbar, scatter, random):
    """Return means, covariances and factors given the assignments, from their sums (3)."""
    k, p = xbar.shape
    means, spread, pull = brackets(kind, prior, n, xbar, scatter)
    if not covariance.is_diagonal(kind):
        if kind == "tied":
            spread, n_own = spread.sum(axis=0, keepdims=True), n.sum(keepdims=True)
        else:
            n_own = n
        factors = inverse_wishart_factors(prior.dof + n_own, spread + prior.scale, random)
        roots = np.swapaxes(np.linalg.inv(factors), 1, 2)
        covariances = roots @ np.swapaxes(roots, 1, 2)
        each = np.broadcast_to(roots, (k, p, p))
        noise = np.einsum("jab,jb->ja", each, random.standard_normal((k, p)))
        if kind == "tied":
            factors, covariances = factors[0], covariances[0]
    else:
        shape, rate = _gamma(kind, prior, n, spread)
        covariances = rate / random.gamma(shape)
        factors = 1.0 / np.sqrt(covariances)
        noise = random.standard_normal((k, p)) / covariance.for_each(kind, factors, k, p)
    return means + np.sqrt(prior.mean_scale / pull)[:, None] * noise, covariances, factors


def _gamma(kind, prior, n, spread):
    """Return shape and rate of the gamma distributions of the precisions, in the shape of the covariances."""
    p = spread.shape[1]
    power, rate = prior.dof + p + 1.0 + n, 0.5 * (spread + np.diagonal(prior.scale))
    if kind == "spherical":
        return 0.5 * p * power - 1.0, rate.sum(axis=1)
    return np.broadcast_to(0.5 * power[:, None] - 1.0, rate.shape), rate


def log_marginal(kind, prior, n, xbar, scatter):
    """Return log p(points | assignments) with means and covariances integrated out, up to terms that depend
    only on the number of points."""
    from scipy.special import gammaln  # `gibbs.Chain` has checked that SciPy is installed

    p = xbar.shape[1]
    _, spread, pull = brackets(kind, prior, n, xbar, scatter)
    of_means = -0.5 * p * np.log(pull).sum()
    if kind == "tied":
        log_det = np.linalg.slogdet(spread.sum(axis=0) + prior.scale)[1]
        return of_means - 0.5 * (prior.dof + n.sum()) * log_det
    if kind == "full":
        half = 0.5 * (prior.dof + n)
        gammas = gammaln(half[:, None] - 0.5 * np.arange(p)).sum()
        return of_means + gammas - (half * np.linalg.slogdet(spread + prior.scale)[1]).sum()
    shape, rate = _gamma(kind, prior, n, spread)
    return of_means + (gammaln(shape) - shape * np.log(rate)).sum()


def inverse_wishart_factors(dof, scale, random):
    """Return upper triangular P with (P P')^-1 ~ IW(dof_j, scale_j), shape (k, p, p); dof has shape (k,).

    Bartlett (1933), in reverse order so that the factor is upper triangular: with scale = C C' and A_aa^2 ~
    chi^2 of dof - p + 1 + a degrees of freedom, A_ab ~ N(0, 1) for a < b, it is P = C^-T A.
    """
    k, p = scale.shape[:2]
    a = np.triu(random.standard_normal((k, p, p)), 1)
    a[:, np.arange(p), np.arange(p)] = np.sqrt(random.chisquare(dof[:, None] - p + 1.0 + np.arange(p)))
    return np.swapaxes(np.linalg.inv(np.linalg.cholesky(scale)), 1, 2) @ a
