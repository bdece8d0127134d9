"""Online EM: steps with a part of the points each."""

import numpy as np

from . import covariance
from .prior import joined, steps_of

_POWER = 0.6  # exponent of the step's number; in (1/2, 1] EM converges (Cappé and Moulines 2009)


def step(model, points):
    """Take one step of a fitted DirichletMixture, in place.

    Its `_online` holds the moments of all points so far, their total weight and the number of steps made.

    Parameters
    ----------
    model : DirichletMixture
    points : blocks.Points
    """
    kind, components, ((n, xbar, scatter), total, number) = model.covariance, model._fitted(), model._online
    log_likelihood, (own_n, own_xbar, own_scatter) = points.sweep(components)
    share, after = (number + 2.0) ** -_POWER, total + points.total
    old, new = (1.0 - share) * after / total, share * after / points.total
    before, own = (old * n, xbar, old * scatter + new * own_scatter), (new * own_n, own_xbar, 0.0)
    sums = joined(kind, before, own)
    weights = np.exp(components.log_weights)
    steps = steps_of(model.prior_, model.reg_covar, kind, weights / weights.sum())
    steps.weigh(sums[0])
    means, covariances = steps.maximum(*sums)
    model.precisions_cholesky_ = covariance.factors_of(kind, covariances)  # may raise
    model.weights_, model.means_, model.covariances_ = np.exp(steps.log_weights()), means, covariances
    model.lower_bound_, model._online = log_likelihood / points.total, (sums, after, number + 1)
    model.n_iter_ += 1
