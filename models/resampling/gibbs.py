"""Particle Gibbs with ancestor sampling: paths given parameters by conditional SMC, parameters given paths by
Metropolis steps.

References
----------
Andrieu, Doucet, Holenstein: Particle Markov chain Monte Carlo methods. JRSS B 72 (2010).
Lindsten, Jordan, Schoen: Particle Gibbs with ancestor sampling. JMLR 15 (2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import portable as pk
from portable.errors import InputError

from ..annotations import Whole
from ..arrays import reached
from ..checks import check_count
from . import smoothing_kernels
from .inference import Metropolis
from .posterior import Posterior
from .row_kernels import MOST
from .running import ROW_TEAM
from .sampling import Sampling
from .state_space import StateSpaceModel
from .walk import Walk, random_of
from .weights import SWEEP_TEAM, Tables


class Gibbs:
    """The chains' parameters and paths, and a sweep of all of them."""

    def __init__(self, model, filters, data, priors, n_particles, n_chains, n_moves, seed):
        self.priors, self.n_chains, self.n_moves, self.seed = priors, n_chains, n_moves, seed
        self._model, self._filters, self._data = model, filters, data
        n_dims, n_steps, n = data.n_dims, data.n_steps, n_particles
        self.y, self.inputs = reached(data.y), reached(data.inputs)
        self.params = pk.empty((n_chains, len(priors.names)))
        self.path = pk.empty((n_steps, n_dims, n_chains))
        self.terms, self.found = pk.empty((n_chains, n_steps)), pk.empty(n_chains)
        self.tables = Tables(pk.empty((n_chains, n)), 0, n)
        self.extremes = pk.copy_of(np.tile(np.array([1.0, 0.0, 0.0]).view(np.int64), (n_chains, 1)))
        self.x, self.log_w = pk.empty((n_steps, n_dims, n_chains, n)), pk.empty((n_chains, n))
        self.cumulative, self.ancestors = (
            pk.empty((n_chains, n), np.uint64),
            pk.empty((n_steps, n_chains, n), np.int32),
        )
        self.conditional = smoothing_kernels.conditional_kernel(
            model.initial, model.propagate, model.log_weight, model.log_transition, n_dims
        )
        self.complete = smoothing_kernels.complete_kernel(
            model.log_initial, model.log_transition, model.log_weight, n_dims
        )
        self._sizes = [pk.static(v) for v in (self.params.shape[1], self.y.shape[1], self.inputs.shape[1])]

    def start(self, given):
        """Parameters as PMMH starts, and a path of a filter there."""
        begun = Metropolis(self._filters, self._data, self.priors, self.tables.n, self.n_chains, 1, self.seed)
        begun.start(given)
        self.z, self.walk = begun.z, Walk(begun.z)
        found = self._filters.run(
            self._data.y,
            self.tables.n,
            params=self.priors.table(begun.values()),
            inputs=self._data.inputs[:, self._lags() :] if self._data.inputs.shape[1] else None,
            seed=self.seed,
            keep=True,
            means=False,
        )
        if (found.died >= 0).any():
            raise InputError(
                f"a filter of {self.tables.n} particles died at the start of chain {found.died.argmax()};"
                " more particles are wanted"
            )
        pk.deep_copy(
            self.path, np.ascontiguousarray(found.trajectories(1, seed=self.seed)[..., 0].astype(np.float64))
        )
        self.accepted = np.zeros(self.n_chains)
        self.log_likelihood = self.density(self.values())

    def _lags(self):
        return self._data.y.shape[1] if self._filters.lagged else 0

    def density(self, values):
        """log p(path, y | parameters) of every chain."""
        pk.deep_copy(self.params, np.ascontiguousarray(self.priors.table(values)))
        pk.parallel_for(
            pk.TeamPolicy(self.n_chains, SWEEP_TEAM),
            self.complete,
            *self._sizes,
            self.y,
            self.inputs,
            self.params,
            self.path,
            self.terms,
            self.found,
        )
        found = self.found.to_numpy()
        return np.where(np.isnan(found), -np.inf, found)

    def values(self):
        return self.priors.from_line(self.z)[0]

    def step(self, number, warm):
        """Steps of the parameters, then a new path of every chain."""
        random = random_of(self.seed, 2, number)
        accepted = np.zeros(self.n_chains)
        values, volume = self.priors.from_line(self.z)
        log_prior = self.priors.log_density(values) + volume
        here = self.density(values)
        for _ in range(self.n_moves):
            z = self.walk.propose(self.z, random)
            values, volume = self.priors.from_line(z)
            proposed = self.priors.log_density(values) + volume
            possible = np.isfinite(proposed)
            if not possible.all():
                values = np.where(possible[:, None], values, self.values())
            found = np.where(possible, self.density(values), -np.inf)
            with np.errstate(invalid="ignore"):
                ratio = found + proposed - here - log_prior
            moved = np.log(random.random(self.n_chains)) < ratio
            self.z = np.where(moved[:, None], z, self.z)
            here, log_prior = np.where(moved, found, here), np.where(moved, proposed, log_prior)
            accepted += moved / self.n_moves
            if warm:
                self.walk.learn(self.z, np.minimum(np.exp(np.minimum(ratio, 0.0)), 1.0).mean())
        self.accepted, self.log_likelihood = accepted, here
        pk.deep_copy(self.params, np.ascontiguousarray(self.priors.table(self.values())))
        policy = pk.TeamPolicy(self.n_chains, min(ROW_TEAM, -(-self.tables.n // 32) * 32))
        pk.parallel_for(
            policy,
            self.conditional,
            *self._sizes,
            self.tables.bits,
            random.integers(0, 2**64, dtype=np.uint64),
            self.y,
            self.inputs,
            self.params,
            self.extremes,
            self.x,
            self.log_w,
            self.tables.values,
            self.cumulative,
            self.ancestors,
            self.path,
        )

    def arrays(self):
        return {
            "z": self.z,
            "log_likelihood": self.log_likelihood,
            "path": np.array(self.path.to_numpy()),
            **self.walk.state(),
        }

    def restore(self, arrays):
        self.z, self.log_likelihood = arrays["z"], arrays["log_likelihood"]
        pk.deep_copy(self.path, np.ascontiguousarray(arrays["path"]))
        self.walk.restore(arrays)


def sample_gibbs(
    model: StateSpaceModel,
    observations: npt.ArrayLike,
    n_particles: Whole,
    *,
    n_moves: Whole = 10,
    **options: Any,
) -> Posterior:
    """Draw from p(parameters | observations) by particle Gibbs with ancestor sampling.

    It wants few particles (some dozens) where `sample_pmmh` wants hundreds, and moves slowly where parameters
    and paths depend on each other closely, as the sd of a transition does on a path.

    Parameters
    ----------
    model : StateSpaceModel
        With log_initial and log_transition.
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int, at least 2
        Of each chain's conditional filter, the old path among them.
    n_moves : int
        Metropolis steps of the parameters in each sweep, a launch each.
    **options
        priors, and what else `Sampling` lists: fixed, inputs, n_chains, n_draws, n_warmup, start, seed,
        checkpoint, progress, space.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        As `sample_pmmh`; a model without log_initial or log_transition.
    """
    sampling, n_moves = Sampling(**options), check_count(n_moves, "n_moves")
    model.need("particle Gibbs", "log_initial", "log_transition")
    n_particles = check_count(n_particles, "n_particles", 2, MOST)
    filters = model.filter(space=sampling.space)

    def make(data, priors, n_chains, seed):
        return Gibbs(model, filters, data, priors, n_particles, n_chains, n_moves, seed)

    settings = {"n_particles": n_particles, "n_moves": n_moves}
    return sampling.run("particle Gibbs", model, filters, observations, make, settings)
