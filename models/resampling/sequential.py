"""SMC^2: the posterior of a state-space model's parameters after each observation, by a filter for each.

The target of step t is the prior times the filters' estimate of p(y_0..y_t | theta), whose random numbers u
are part of a particle (theta, u): iterated batch importance sampling on that larger space, with PMMH for
moves (Chopin, Jacob, Papaspiliopoulos 2013). Weights are multiplied by estimates of p(y_t | y_0..y_(t-1),
theta).

A filter is a function of its parameters and of a key for each step, so no filter is ever copied: where
parameters are renewed, their filters are run again from the first step by the keys that came with them, and
the keys of steps to come are drawn anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from portable.errors import InputError

from ..shared.annotations import ArrayLike, Real, Whole
from ..shared.checks import check_share
from .inference import Estimates
from .populations import Populations, check_lengths
from .posterior import Posterior
from .row_kernels import MOST
from .sampling import Nans, Sampling, draw, of_model, without_chains
from .state_space import StateSpaceModel

_AHEAD = 8  # filters go ahead of their weights by at most one step in so many


class Observations:
    """Densities of parameters given more and more observations, a `populations.Target`."""

    remedy = "take more n_draws, a longer length, or more particles"
    always = False

    def __init__(self, filters, data, priors, n_particles, n_chains, n_draws, length, nans, client, space):
        places = filters, data, priors, n_particles
        self._all = Estimates(*places, n_chains * n_draws, nans, client, space)
        self._proposed = Estimates(*places, n_chains * (n_draws // length), nans, client, space)
        self.priors, self.n_keys, self.most_steps = priors, data.n_steps, data.n_steps
        self._ahead = None, 0, np.zeros((0, 0))  # of which population, from which step on, increments

    def begin(self, values, keys):
        """Return zeros: nothing has been observed."""
        return np.zeros(len(values))

    def step(self, number, populations):
        """Return what an observation adds to log-weights and log-likelihoods."""
        keys, (of, first, found) = populations.points.keys, self._ahead
        if of != populations.number or not first <= number < first + len(found):
            end = min(number + 1 + number // _AHEAD, self.most_steps)
            values, first = populations.values(), number
            found = self._all.increments(values, keys, populations.number, number, end)
            self._ahead = populations.number, number, found
        added = found[number - first]
        if np.isnan(added).any():
            added = self._all.rejected(added, populations.values(), keys)
        return added, added, 1.0, number + 1 == self.most_steps

    def estimate(self, number, values, keys):
        """Return estimates of log p(y_0..y_number | parameters)."""
        return self._proposed(values, keys, number + 1)

    def where(self, number, power):
        """Return the observation's name."""
        return f"observation {number}"


def sample_smc2(
    model: StateSpaceModel,
    observations: ArrayLike,
    n_particles: Whole,
    *,
    n_chains: Whole = 8,
    n_draws: Whole = 1000,
    length: Whole = 10,
    renew_below: Real = 0.5,
    guided: bool = False,
    threshold: Real = 0.5,
    dtype: npt.DTypeLike = np.float64,
    **options: Any,
) -> Posterior:
    """Draw from p(parameters | observations) by SMC^2, which finds the evidence p(observations) too.

    Parameters
    ----------
    model : StateSpaceModel
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int, at most 4,096
        Of each parameter's filter; `particles_needed` tells how many.
    n_chains : int
        Populations, which tell each other's error: the Posterior's chains.
    n_draws : int
        Parameters of each population, a multiple of length.
    length : int
        States of the PMMH chains by which parameters are renewed; n_draws / length begin in each population.
    renew_below : float, 0 to 1
        Parameters are renewed where the effective sample size of their weights is below that share of
        n_draws, and after the last observation.
    guided : bool
    threshold : as in `ParticleFilter`
    dtype : float64 or float32
    **options
        priors, and of what `Sampling` lists: fixed, inputs, seed, checkpoint, progress, on_nan, space,
        client.

    Returns
    -------
    Posterior
        With log_evidence and its error.

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Wrong arguments; an observation that no parameters of a population explain; with on_nan="raise" a NaN
        log-weight.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` has draws given the observations until then.

    Warns
    -----
    MixingWarning, RuntimeWarning
        Populations differ; the error of the log-evidence is above 0.5; log-likelihoods were NaN.
        `Posterior.notes` says so too.

    References
    ----------
    Chopin, Jacob, Papaspiliopoulos: SMC^2: an efficient algorithm for sequential analysis of state space
    models. JRSS B 75 (2013).
    Dau, Chopin: Waste-free sequential Monte Carlo. JRSS B 84 (2022).
    """
    sampling = Sampling(n_chains=n_chains, n_draws=n_draws, n_warmup=0, **without_chains(options))
    n_draws, length = check_lengths(n_draws, length)
    renew_below = check_share(renew_below, "renew_below")
    filters = model.filter(guided=guided, threshold=threshold, dtype=dtype, space=sampling.space)
    n = filters.count(n_particles)
    if not filters.takes_rows(n):
        raise InputError(f"n_particles is {n}; SMC^2 has at most {MOST} for each of its filters")
    filters.numbered = False

    def make(data, priors, n_chains, seed, client):
        nans = Nans(n_chains)
        target = Observations(
            filters, data, priors, n, n_chains, n_draws, length, nans, client, sampling.space
        )
        return Populations(target, n_chains, n_draws, length, renew_below, seed, nans)

    settings = {
        "n_particles": n,
        "n_draws": n_draws,
        "length": length,
        "renew_below": renew_below,
        "guided": guided,
        "threshold": threshold,
        "dtype": str(np.dtype(dtype)),
    }
    return draw(sampling, "SMC2", *of_model(sampling, model, filters, observations, make, settings))
