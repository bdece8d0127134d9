"""Rank calibration of PMMH and particle Gibbs: parameters from their priors, data from these, ranks of the
true values among draws.

Talts, Betancourt, Simpson, Vehtari, Gelman: Validating Bayesian inference algorithms with simulation-based
calibration (2018). If the sampler draws from the exact posterior, the rank of the true value among L
independent draws is uniform on 0..L. The chains of one data set are rows of one batch; of each the last draw
is kept, so that kept draws are independent but for what warming up leaves.

That is next to nothing if chains are long: one that has gone on for k autocorrelation times after its
proposals were frozen remembers where it began about as exp(-k). So chains go on, to twice as many draws each
time, until they hold LONG_ENOUGH autocorrelation times of each parameter: a memory of 2e-9, where 200 ranks
would show one of some hundredths. Autocorrelation says nothing of the rank.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass

import numpy as np


import portable as pk

from ..shared.calibration import Ranks, rank_truths
from ..shared.checks import check_choice, check_count, check_seed
from ..shared.extras import need
from ..shared.posteriors import mixing_looked_at
from ..shared.processes import space_of
from . import priors, ready
from .gibbs import sample_gibbs
from .inference import sample_pmmh
from .posterior import Posterior
from .walk import random_of

PRIORS = {
    "phi": priors.uniform(0.2, 0.95),
    "sigma": priors.log_normal(0.6, 0.4),
    "tau": priors.log_normal(0.6, 0.4),
}
# Steps at first: after warming up some 30 autocorrelation times of most data sets
STEPS = {"pmmh": 1000, "correlated": 1000, "gibbs": 500}
LONG_ENOUGH = 20  # autocorrelation times of a chain after warming up


@dataclass(frozen=True)
class Calibration(Ranks):
    """Ranks of true parameters among posterior draws, and how long chains were.

    Attributes
    ----------
    shortest : float
        The least that any data set's chains, after warming up, held of autocorrelation times of any
        parameter.
    """

    shortest: float

    def __str__(self) -> str:
        return f"{super().__str__()}; chains of at least {self.shortest:.0f} autocorrelation times"


def calibrate(
    method: str,
    *,
    n_sets: int = 200,
    n_kept: int = 49,
    n_steps: int | None = None,
    long_enough: float = LONG_ENOUGH,
    n_observed: int = 20,
    seed: int = 0,
    space: pk.SpaceLike | None = None,
    jobs: int = 1,
    progress: bool = False,
    client: object = None,
) -> Calibration:
    """Calibrate a sampler on the linear Gaussian model, with a tenth of the observations missing.

    Parameters
    ----------
    method : {"pmmh", "correlated", "gibbs"}
        The sampler.
    n_sets : int
        Simulated data sets. Each depends on the seed and its number alone.
    n_kept : int
        Draws of each posterior, each the last of a chain of its own.
    n_steps : int, optional
        Of each chain at first, half of them warming up; 1,000, of particle Gibbs 500 if not given.
    long_enough : float
        Chains go on, twice as long after warming up each time, until they hold so many autocorrelation times
        of every parameter.
    n_observed : int
        Observations of a data set.
    seed : int
    space : str or Space, optional
    jobs : int
        Processes that share the data sets out, each on one core unless a space is named.
    progress : bool
    client : distributed.Client or "local", optional
        Whose workers share the data sets out in place of `jobs`.

    Returns
    -------
    Calibration
        A p-value below 0.001 / 3 happens by chance once in a thousand calibrations.
    """
    check_choice(method, "method", tuple(STEPS))
    n_kept, seed = check_count(n_kept, "n_kept", 9), check_seed(seed)
    n_steps = check_count(STEPS[method] if n_steps is None else n_steps, "n_steps", 20)
    need("arviz_stats", "arviz", "autocorrelation times")
    one = functools.partial(
        _ranks, method, n_kept, n_steps, long_enough, n_observed, seed, space_of(space, jobs, client)
    )
    how = {"jobs": jobs, "progress": progress, "client": client, "space": space}
    fields, (lengths,) = rank_truths(one, PRIORS, method, n_sets, n_kept, **how)
    return Calibration(**fields, shortest=min(lengths))


def _ranks(method, n_kept, n_steps, long_enough, n_observed, seed, space, k):
    """Of data set k: the ranks of the true parameters, and how many autocorrelation times its chains held."""
    random = random_of(seed, k)
    truth = {name: float(prior.draw(random, 1)[0]) for name, prior in PRIORS.items()}
    own = int(random.integers(2**63))
    y = ready.linear_gaussian.simulate(truth, n_observed, seed=own, space=space)[1][:, 0]
    y[random.random(n_observed) < 0.1] = np.nan
    options = {
        "priors": PRIORS,
        "n_chains": n_kept,
        "n_warmup": n_steps // 2,
        "seed": own + 1,
        "space": space,
    }
    n_draws = n_steps - n_steps // 2
    with tempfile.TemporaryDirectory() as checkpoint:  # from which longer chains go on
        while True:
            asked = options | {"n_draws": n_draws, "checkpoint": checkpoint}
            with mixing_looked_at():
                if method == "gibbs":
                    found = sample_gibbs(ready.linear_gaussian, y, 20, **asked)
                else:
                    found = sample_pmmh(
                        ready.linear_gaussian, y, 64, n_blocks=4 if method == "correlated" else 1, **asked
                    )
            length = _autocorrelation_times(found)
            if length >= long_enough:
                return [int((found[name][:, -1] < truth[name]).sum()) for name in PRIORS], length
            n_draws *= 2


def _autocorrelation_times(found: Posterior) -> float:
    """How many autocorrelation times of the slowest parameter a chain holds: its effective draws."""
    stats = need("arviz_stats", "arviz", "autocorrelation times")
    return min(float(stats.ess(found[name], method="mean")) for name in found.names) / len(found.draws)
