"""Simulation-based calibration (Talts, Betancourt, Simpson, Vehtari, Gelman 2018): are the samplers right?

Parameters are drawn from priors, events from parameters, and posteriors from events; the rank of the true
parameter among independent posterior draws is then uniform. The kernel density (1) is not a model that events
can be drawn from, so the background is uniform over a box and given to the likelihood as known.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

import portable as pk

from ..shared.calibration import Ranks, rank_truths
from ..shared.checks import check_choice, check_count, check_seed
from ..shared.posteriors import mixing_looked_at
from ..shared.processes import space_of
from .likelihood import Likelihood
from .nuts import sample_nuts
from .parameters import Background, Parameters
from .priors import coordinate_name, is_reciprocal, log_normal
from .sampler import sample_posterior
from .simulate import simulate

FREE = ("mu0", "theta", "omega", "h")
PRIORS = {
    "mu0": log_normal(1.0, 0.2),
    "theta": log_normal(0.4, 0.25),
    "omega": log_normal(1.0, 0.4),
    "1/h": log_normal(5.0, 0.4),
}
_SIDE_KM, _HORIZON_H, _IMMIGRANTS = 10.0, 1000.0, 250.0


@dataclass(frozen=True)
class Calibration(Ranks):
    """Ranks of true parameters among posterior draws, and of how many events and draws.

    Attributes
    ----------
    least_ess : float
        The smallest effective sample size of any data set and parameter.
    least_events : int
    """

    least_ess: float
    least_events: int


def calibrate(
    method: Literal["metropolis", "nuts"] = "metropolis",
    *,
    n_sets: int = 200,
    n_kept: int = 99,
    least_ess: int = 500,
    seed: int = 0,
    space: pk.SpaceLike | None = None,
    progress: bool = False,
    jobs: int = 1,
    client: object = None,
) -> Calibration:
    """Simulation-based calibration of a sampler.

    Parameters
    ----------
    method : {"metropolis", "nuts"}, default "metropolis"
        The sampler: Algorithm 1 of the paper, or the no-U-turn sampler.
    n_sets : int
        Simulated data sets, of at least 200 events each.
    n_kept : int
        Draws of each posterior that are kept; n_kept + 1 ranks are shared out among at most 20 boxes.
    least_ess : int
        Chains are made twice as long until every parameter has that many effective draws.
    seed : int
    space : str or Space, optional
    progress : bool
    jobs : int
        Processes that share the data sets out, each on one core unless a space is named.
    client : distributed.Client or "local", optional
        Whose workers share them out in place of `jobs`.

    Returns
    -------
    Calibration
        A p-value below 0.01 / n_free happens by chance once in a hundred calibrations.

    Raises
    ------
    DTypeError, InputError
        An argument of a wrong type or out of range; ArviZ or SciPy are not installed.
    """
    check_choice(method, "method", ("metropolis", "nuts"))
    n_kept, seed = check_count(n_kept, "n_kept", 9), check_seed(seed)
    one = functools.partial(_ranks, method, n_kept, least_ess, seed, space_of(space, jobs, client))
    how = {"jobs": jobs, "progress": progress, "client": client, "space": space}
    fields, (effective, sizes) = rank_truths(one, FREE, method, n_sets, n_kept, **how)
    return Calibration(**fields, least_ess=float(min(effective)), least_events=int(min(sizes)))


def _ranks(method, n_kept, least_ess, seed, space, k):
    """Return for data set k the ranks of the true parameters, the least effective sample size, and the
    number of events."""
    truth, likelihood = _data_set([seed, k], space)
    posterior, ess = _sample(method, likelihood, least_ess, seed + k)
    draws = posterior.draws.reshape(-1, len(FREE))
    kept = draws[np.linspace(0, len(draws) - 1, n_kept).astype(int)]
    return (kept < [getattr(truth, name) for name in FREE]).sum(axis=0), ess, likelihood.n_events


def _data_set(seed, space):
    """Return parameters from the priors, and the likelihood of events drawn with them."""
    random = np.random.default_rng(seed)
    while True:
        values = {}
        for name in FREE:
            v = PRIORS[coordinate_name(Parameters, name)].draw(random)
            values[name] = 1.0 / v if is_reciprocal(Parameters, name) else v
        truth = Parameters(tau_x=1.0, tau_t=1.0, **values)
        if truth.theta >= 1.0:  # its clusters have no mean size; the prior says so once in ten thousand draws
            continue
        made = simulate(
            truth,
            n_immigrants=truth.mu0 * _IMMIGRANTS,
            horizon_h=_HORIZON_H,
            box_km=((0.0, _SIDE_KM),) * 2,
            seed=random,
        )
        # Observation begins with the first event, before which there was nothing: of the prior, next to
        # nothing is lost.
        if len(made.times) >= 200:
            break
    inside = ((made.locations >= 0.0) & (made.locations <= _SIDE_KM)).all(axis=1)
    background = Background(
        np.where(inside, _IMMIGRANTS / (_SIDE_KM**2 * _HORIZON_H), 0.0),
        _IMMIGRANTS,
        _IMMIGRANTS * made.times / _HORIZON_H,
    )
    return truth, Likelihood(
        made.locations, made.times, background=background, horizon_h=_HORIZON_H, space=space
    )


def _sample(method, likelihood, least_ess, seed):
    """Return a posterior with enough effective draws of every parameter, and how many the worst has."""
    start = Parameters(1.0, 1.0, 1.0, 0.4, 1.0, 0.2)
    length = 4_000 if method == "metropolis" else 300
    while True:
        with mixing_looked_at():
            if method == "metropolis":
                posterior = sample_posterior(
                    likelihood, n_draws=length, n_warmup=500, start=start, priors=PRIORS, seed=seed
                )
            else:
                posterior = sample_nuts(
                    likelihood,
                    n_chains=2,
                    n_draws=length,
                    n_warmup=150,
                    start=start,
                    priors=PRIORS,
                    seed=seed,
                )
        ess = min(row["ess_bulk"] for row in posterior.summary().values())
        if ess >= least_ess:
            return posterior, ess
        length *= 2
