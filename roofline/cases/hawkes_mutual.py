"""Mutually exciting types of events: the log-likelihood and its gradient in all rates and branching ratios.

The reference is 10^7 events of 1,000 types with three decays, as in Raza and Smith (arXiv 2604.01342),
against the same formula as an associative scan in PyTorch. The counted operations are the unavoidable ones:
for each event, type and decay a product and a sum for the rate, and for the gradient.
"""

import functools

import numpy as np

from portable.models import hawkes
from portable.roofline.cases import common

RATES = 0.05, 0.5, 5.0  # decay rates, with one event in a unit of time
RATIO = 0.5  # the mean offspring of an event


def duels(space, n, quick):
    """Return the duels; n is the number of events; see `portable.roofline.cases.Case`."""
    small, on_device = space == "checked" or quick, space.startswith("cuda")
    known, n_types = common.size(space, quick, (60, 3), (10_000, 100), (10_000_000, 1_000), (100_000, 100))
    n = n or known
    times, types, params = problem(n, n_types)
    likelihood = hawkes.MutualLikelihood(times, types, n_types=n_types, space=space)
    call = functools.partial(likelihood.gradient, params, rates=False)
    title = (
        f"Hawkes, {n:,} events of {n_types:,} types that excite one another, {len(RATES)} decays, "
        "log-likelihood and gradient"
    )
    about = {"tools": ["torch"], "options": {"device": "cuda" if on_device else "cpu"}, "tolerance": 1e-10}
    about |= {"flops": 4.0 * n * n_types * len(RATES), "rounds": None if small else 3}
    given = times, types, params
    return [
        common.duel(title, space, call, "hawkes_mutual", *given, result=lambda: float(call()[0]), **about)
    ]


def problem(n, n_types):
    """Return events with equally frequent types, one in a unit of time, and parameters."""
    random = np.random.default_rng(1)
    times, types = np.cumsum(random.exponential(1.0, n)), random.integers(0, n_types, n)
    branching = random.uniform(0.0, 1.0, (len(RATES), n_types, n_types))
    branching *= RATIO / branching.sum(axis=(0, 1)).mean()
    return times, types, hawkes.Mutual(np.full(n_types, (1.0 - RATIO) / n_types), branching, RATES)
