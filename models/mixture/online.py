"""Online EM: steps with a part of the points each."""

import numpy as np

from . import covariance
from .prior import joined, steps_of

_POWER = 0.6  # exponent of the step's number; in (1/2, 1] EM converges (Cappé and Moulines 2009)


def step(points, kind, components, prior, reg_covar, before):
    """Take one step.

    Parameters
    ----------
    points : blocks.Points
    kind : one of `covariance.KINDS`
    components : blocks.Components
    prior : Prior, every number given, or None
    reg_covar : float
    before : ((n, xbar, scatter), total, number)
        Moments of all points so far, their total weight and the number of steps made.

    Returns
    -------
    log_density : float
        Mean over the points, before the step.
    after
        The new `before`.
    found : weights, means, covariances, factors
    """
    (n, xbar, scatter), total, number = before
    log_likelihood, (own_n, own_xbar, own_scatter) = points.sweep(components)
    share, after = (number + 2.0) ** -_POWER, total + points.total
    old, new = (1.0 - share) * after / total, share * after / points.total
    before, own = (old * n, xbar, old * scatter + new * own_scatter), (new * own_n, own_xbar, 0.0)
    sums = joined(kind, before, own)
    weights = np.exp(components.log_weights)
    model = steps_of(prior, reg_covar, kind, weights / weights.sum())
    model.weigh(sums[0])
    means, covariances = model.maximum(*sums)
    found = np.exp(model.log_weights()), means, covariances, covariance.factors_of(kind, covariances)
    return log_likelihood / points.total, (sums, after, number + 1), found
