"""Find the modes of a mixture's density, and the components on the slope of each."""

import numpy as np

from .. import covariance

_STEPS, _STILL = 1000, 1e-10  # steps of a climb, at most; squared deviations of a step that ends it
_SAME = 0.1  # squared standard deviations between ends of climbs to the same mode, at most


def groups_by_mode(model, active):
    """Return groups of components: climbs from the means of a group end at the same mode.

    Parameters
    ----------
    model : DirichletMixture, fitted
    active : ndarray of int
        Components to group; the others are ignored, also in the density.
    """
    at, widths = _climbed(model, active)
    groups, free = [], np.ones(len(active), bool)
    for i in range(len(active)):
        if free[i]:
            same = free & (np.einsum("ia,ab,ib->i", at - at[i], widths[i], at - at[i]) < _SAME)
            groups.append(tuple(int(j) for j in active[same]))
            free &= ~same
    return groups


def _climbed(model, active):
    """Return the ends of climbs from the means, and the inverse covariances there, by modal EM (Li, Ray and
    Lindsay 2007)."""
    k, p = model.means_.shape
    each = covariance.for_each(model.covariance, model.precisions_cholesky_, k, p)[active]
    factors = each if each.ndim == 3 else each[:, :, None] * np.eye(p)  # Sigma^-1 = P P'
    precisions, means = factors @ factors.transpose(0, 2, 1), model.means_[active]
    constant = np.log(model.weights_[active]) + np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    pulls, at = np.einsum("jab,jb->ja", precisions, means), means
    for _ in range(_STEPS):
        away = np.einsum("ija,jab->ijb", at[:, None] - means, factors)
        logs = constant - 0.5 * (away**2).sum(axis=2)
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        widths = np.einsum("ij,jab->iab", shares, precisions)
        before, at = at, np.linalg.solve(widths, (shares @ pulls)[..., None])[..., 0]
        if np.einsum("ia,iab,ib->i", at - before, widths, at - before).max() < _STILL:
            break
    return at, widths
