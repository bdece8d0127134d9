"""Types that excite one another: the log-likelihood and its gradient in all rates and branching ratios.

The anchor is 10^7 events of 1,000 types with three decays, as in Raza and Smith (arXiv 2604.01342), beside
the same formula as an associative scan in PyTorch. Operations are those that cannot be avoided: for each
event, type and decay a product and a sum for the rate, and for the gradient.
"""

import functools

import numpy as np

import portable as pk
from portable.models import hawkes
from portable.roofline import peers
from portable.roofline.contract import Contender, Duel

RATES = 0.05, 0.5, 5.0  # of events that come one a unit of time
RATIO = 0.5  # the mean offspring of an event


def duels(space, n, quick):
    """See `portable.roofline.cases.Case`; n is the number of events."""
    small = space == "checked" or quick
    on_device = space.startswith("cuda")
    n_types = 3 if space == "checked" else 1_000 if on_device and not quick else 100
    n = n or (60 if space == "checked" else 10_000 if quick else 10_000_000 if on_device else 100_000)
    times, types, params = problem(n, n_types)
    likelihood = hawkes.MutualLikelihood(times, types, n_types=n_types, space=space)
    call = functools.partial(likelihood.gradient, params, rates=False)
    ours = Contender(
        f"portable, {space}",
        call,
        sync=functools.partial(pk.fence, space),
        result=lambda: float(call()[0]),
    )
    rivals, absent = peers.gather(
        "hawkes_mutual", space, times, types, params, tools=("torch",), device="cuda" if on_device else "cpu"
    )
    title = (
        f"Hawkes, {n:,} events of {n_types:,} types that excite one another, {len(RATES)} decays, "
        "log-likelihood and gradient"
    )
    return [
        Duel(
            title,
            ours,
            rivals,
            absent,
            tolerance=1e-10,
            flops=4.0 * n * n_types * len(RATES),
            rounds=None if small else 3,
        )
    ]


def problem(n, n_types):
    """Events of even types, one a unit of time, and parameters."""
    random = np.random.default_rng(1)
    times, types = np.cumsum(random.exponential(1.0, n)), random.integers(0, n_types, n)
    branching = random.uniform(0.0, 1.0, (len(RATES), n_types, n_types))
    branching *= RATIO / branching.sum(axis=(0, 1)).mean()
    return times, types, hawkes.Mutual(np.full(n_types, (1.0 - RATIO) / n_types), branching, RATES)
