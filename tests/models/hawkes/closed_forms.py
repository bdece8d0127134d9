"""Evaluate equations (1) to (5) for two events with scalars: expected values for the likelihood and the
reference."""

import math
from statistics import NormalDist

PHI = NormalDist().cdf


def two_events(distance, gap, n_dims, p, *, background_self=True):
    """Return log-likelihood and probabilities of two events `distance` km and `gap` > 0 hours apart, observed
    until the second."""
    normal = (2.0 * math.pi) ** -0.5
    peak = p.mu0 * normal ** (n_dims + 1) / (p.tau_x**n_dims * p.tau_t)
    mu = peak * (background_self + math.exp(-((distance / p.tau_x) ** 2 + (gap / p.tau_t) ** 2) / 2.0))
    xi = p.theta * p.omega * math.exp(-p.omega * gap) * normal**n_dims / p.h**n_dims
    xi *= math.exp(-((distance / p.h) ** 2) / 2.0)
    expected_first = p.mu0 * (PHI(gap / p.tau_t) - 0.5) + p.theta * (1.0 - math.exp(-p.omega * gap))
    expected_second = p.mu0 * (0.5 - PHI(-gap / p.tau_t))
    value = math.log(mu) + math.log(mu + xi) - expected_first - expected_second
    return value, [0.0, xi / (mu + xi)]
