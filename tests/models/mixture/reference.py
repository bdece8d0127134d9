"""Evaluate the equations of `portable.models.mixture` in plain NumPy, component by component, with all n x k
numbers: for tests."""

import numpy as np
from scipy.special import logsumexp, softmax


def log_joint(X, log_weights, means, covariances):
    """Return l_ij of (1), shape (n, k)."""
    columns = []
    for log_weight, mean, covariance in zip(log_weights, means, covariances):
        y = np.linalg.solve(np.linalg.cholesky(covariance), (X - mean).T)
        log_det = np.linalg.slogdet(covariance)[1]
        columns.append(log_weight - 0.5 * (X.shape[1] * np.log(2.0 * np.pi) + log_det + (y * y).sum(axis=0)))
    return np.stack(columns, axis=1)


def log_sum_exp(terms):
    return logsumexp(terms, axis=1)


def responsibilities(X, weights, means, covariances):
    return softmax(log_joint(X, np.log(weights), means, covariances), axis=1)


def bayesian_em(X, prior, sticks, means, covariances, n_iter):
    """Iterate (4) to (7) from a start.

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


def t_em(X, means, covariances, dof, n_iter, noise=0.0, log_volume=0.0):
    """Iterate EM for a mixture of t, point by point and component by component; dof is estimated.

    noise : share of a uniform component of that volume

    Returns
    -------
    log-likelihoods, weights, means, covariances, dof
    """
    from scipy.optimize import brentq
    from scipy.special import digamma, gammaln

    (n, p), k = X.shape, len(means)
    weights, totals = np.full(k, (1.0 - noise) / k), []
    for _ in range(n_iter + 1):
        terms, u = np.empty((n, k)), np.empty((n, k))
        for j in range(k):
            away = X - means[j]
            delta = np.einsum("ia,ab,ib->i", away, np.linalg.inv(covariances[j]), away)
            half = 0.5 * (dof[j] + p)
            constant = gammaln(half) - gammaln(0.5 * dof[j]) - 0.5 * p * np.log(dof[j] * np.pi)
            constant += np.log(weights[j]) - 0.5 * np.linalg.slogdet(covariances[j])[1]
            terms[:, j] = constant - half * np.log(1.0 + delta / dof[j])
            u[:, j] = (dof[j] + p) / (dof[j] + delta)
        every = terms if not noise else np.column_stack([terms, np.full(n, np.log(noise) - log_volume)])
        lse = log_sum_exp(every)
        totals.append(lse.sum())
        if len(totals) > n_iter:
            return totals, weights, means, covariances, dof
        r = np.exp(terms - lse[:, None])
        counts = r.sum(axis=0)
        noise = noise and 1.0 - counts.sum() / n
        weights, means, covariances, before = counts / n, means.copy(), covariances.copy(), dof
        dof = np.empty(k)
        for j in range(k):
            w = r[:, j] * u[:, j]
            means[j] = w @ X / w.sum()
            covariances[j] = (w[:, None] * (X - means[j])).T @ (X - means[j]) / w.sum()
            rest = 1.0 + (r[:, j] * (np.log(u[:, j]) - u[:, j])).sum() / counts[j]
            rest += digamma(0.5 * (before[j] + p)) - np.log(0.5 * (before[j] + p))
            solved = lambda v, rest=rest: np.log(v / 2.0) - digamma(v / 2.0) + rest  # noqa: E731
            dof[j] = brentq(solved, 0.5, 1000.0, xtol=1e-14, rtol=1e-14) if solved(1000.0) < 0.0 else 1000.0


def em_of_patterns(X, weights, means, covariances, n_iter):
    """Iterate maximum-likelihood EM for points with NaN, one point after the other."""
    (n, p), k, totals = X.shape, len(means), []
    for _ in range(n_iter + 1):
        counts, first, second, total = np.zeros(k), np.zeros((k, p)), np.zeros((k, p, p)), 0.0
        for x in X:
            o, m = np.flatnonzero(~np.isnan(x)), np.flatnonzero(np.isnan(x))
            logs, guesses, rests = [], [], []
            for weight, mean, cov in zip(weights, means, covariances):
                known = cov[np.ix_(o, o)]
                logs.append(log_joint(x[None, o], [np.log(weight)], [mean[o]], [known])[0, 0])
                slope = cov[np.ix_(m, o)] @ np.linalg.inv(known)
                guess = x.copy()
                guess[m] = mean[m] + slope @ (x[o] - mean[o])
                rest = np.zeros((p, p))
                rest[np.ix_(m, m)] = cov[np.ix_(m, m)] - slope @ cov[np.ix_(o, m)]
                guesses.append(guess)
                rests.append(rest)
            lse = log_sum_exp(np.array([logs]))[0]
            total += lse
            for j, r in enumerate(np.exp(np.array(logs) - lse)):
                counts[j] += r
                first[j] += r * guesses[j]
                second[j] += r * (np.outer(guesses[j], guesses[j]) + rests[j])
        totals.append(total)
        if len(totals) > n_iter:
            return totals, weights, means, covariances
        weights, means = counts / n, first / counts[:, None]
        covariances = second / counts[:, None, None] - means[:, :, None] * means[:, None, :]
