"""Particle Gibbs with ancestor sampling: paths given parameters by conditional SMC, parameters given paths by
Metropolis steps.

References
----------
Andrieu, Doucet, Holenstein: Particle Markov chain Monte Carlo methods. JRSS B 72 (2010).
Lindsten, Jordan, Schoen: Particle Gibbs with ancestor sampling. JMLR 15 (2014).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.annotations import ArrayLike, Whole
from ..shared.arrays import reached
from ..shared.checks import check_count
from ..shared.sharding import Shards
from . import smoothing_kernels
from .banks import Rows, rows_of, split
from .blame import named
from .inference import Metropolis
from .posterior import Posterior
from .row_kernels import MOST
from .running import ROW_TEAM
from .sampling import Chained, Nans, Sampling, draw, of_model
from .state_space import StateSpaceModel
from .walk import Points, metropolis, random_of
from .weights import SWEEP_TEAM, Tables


class Paths:
    """A method for `sharding.Shards`, whose shards are chains: densities of paths, and paths given old ones.

    The caller has all paths. A place keeps those of its chains too, with the number that the caller gave
    them, and takes others where that is another.

    Parameters
    ----------
    model : StateSpaceModel
    data : Data
    n_particles, n_params : int
    space : str or Space
    """

    def __init__(self, model, data, n_particles, n_params, space):
        n_dims, self._n, self._rows = data.n_dims, n_particles, Rows(0, 0)
        self._conditional = model.initial, model.propagate, model.log_weight, model.log_transition
        self._complete = model.log_initial, model.log_transition, model.log_weight
        with pk.use(space) as self.space:
            self._y, self._inputs = reached(data.y), reached(data.inputs)
        self._sizes = [pk.static(v) for v in (n_dims, n_params, data.y.shape[1], data.inputs.shape[1])]
        self._shape = len(data.y), n_dims

    def prepare(self, piece):
        """The piece itself."""
        return piece

    def _take(self, own, params, number, paths):
        """Room for the chains that are asked for, with their parameters and paths."""
        rows, (n_steps, n_dims), n = Rows(own[0].begin, own[-1].end), self._shape, self._n
        n_rows = rows.end - rows.begin
        if rows != self._rows:
            self._rows, self._number = rows, None
            self._params, self._path = (
                pk.empty((n_rows, params.shape[1])),
                pk.empty((n_steps, n_dims, n_rows)),
            )
            self._terms, self._found = pk.empty((n_rows, n_steps)), pk.empty(n_rows)
            self._tables = Tables(pk.empty((n_rows, n)), 0, n)
            self._extremes = pk.copy_of(np.tile(np.array([1.0, 0.0, 0.0]).view(np.int64), (n_rows, 1)))
            self._x, self._log_w = pk.empty((n_steps, n_dims, n_rows, n)), pk.empty((n_rows, n))
            self._cumulative = pk.empty((n_rows, n), np.uint64)
            self._ancestors = pk.empty((n_steps, n_rows, n), np.int32)
        pk.deep_copy(self._params, np.ascontiguousarray(params[rows.begin : rows.end]))
        if number != self._number:
            pk.deep_copy(self._path, np.ascontiguousarray(paths[..., rows.begin : rows.end]))
            self._number = number

    def densities(self, pieces, params, number, paths):
        """log p(path, y | parameters) of chains."""
        own = list(pieces)
        with pk.use(self.space):
            self._take(own, params, number, paths)
            pk.parallel_for(
                pk.TeamPolicy(self._rows.end - self._rows.begin, SWEEP_TEAM),
                smoothing_kernels.complete_rows,
                *self._complete,
                *self._sizes,
                self._y,
                self._inputs,
                self._params,
                self._path,
                self._terms,
                self._found,
            )
            return split(own, self._found.to_numpy().copy())

    def moved(self, pieces, params, number, paths, seed):
        """New paths of chains, which have the next number."""
        own = list(pieces)
        with pk.use(self.space):
            self._take(own, params, number, paths)
            pk.parallel_for(
                pk.TeamPolicy(self._rows.end - self._rows.begin, min(ROW_TEAM, -(-self._n // 32) * 32)),
                smoothing_kernels.conditional_rows,
                *self._conditional,
                *self._sizes,
                self._rows.begin,
                self._tables.bits,
                seed,
                self._y,
                self._inputs,
                self._params,
                self._extremes,
                self._x,
                self._log_w,
                self._tables.values,
                self._cumulative,
                self._ancestors,
                self._path,
            )
            self._number = number + 1
            return split(own, self._path.to_numpy().copy())


class Gibbs(Chained):
    """The chains' parameters and paths, and a sweep of all of them by the places of a client or of spaces;
    the default space, if neither is given."""

    def __init__(
        self, model, filters, data, priors, n_particles, n_chains, n_moves, seed, client=None, space=None
    ):
        self.priors, self.n_chains, self.n_moves, self.seed = priors, n_chains, n_moves, seed
        self.nans = Nans(n_chains)
        self._filters, self._data, self._n, self._client, self._space = (
            filters,
            data,
            n_particles,
            client,
            space,
        )
        make = functools.partial(Paths, model, data, n_particles, len(priors.names))
        self._shards = Shards(make, rows_of(n_chains), client=client, space=space, label="particle Gibbs")
        self.paths, self._number = np.empty((data.n_steps, data.n_dims, n_chains)), 0

    def start(self, given):
        """Parameters as PMMH starts, and a path of a filter there."""
        places = self._client, self._space, self.nans
        begun = Metropolis(
            self._filters, self._data, self.priors, self._n, self.n_chains, 1, self.seed, *places
        )
        begun.start(given)
        self.points, self.walk = begun.points, begun.walk
        found = self._filters.run(
            self._data.y,
            self._n,
            params=self.priors.table(begun.values()),
            inputs=self._data.inputs[:, self._lags() :] if self._data.inputs.shape[1] else None,
            seed=self.seed,
            keep=True,
            means=False,
            client=self._client,
        )
        if (found.died >= 0).any():
            raise InputError(
                f"a filter of {self._n} particles died at the start of chain {found.died.argmax()};"
                " more particles are wanted"
            )
        self._follow(found.trajectories(1, seed=self.seed)[..., 0].astype(np.float64))
        self.accepted = np.zeros(self.n_chains)
        self._weigh()

    def _lags(self):
        return self._data.y.shape[1] if self._filters.lagged else 0

    def _follow(self, paths):
        """Paths that no place has."""
        self.paths, self._number = paths, self._number + 1

    def density(self, values, keys=None):
        """log p(path, y | parameters) of every chain."""
        asked = self.priors.table(values), self._number, self.paths
        found = np.concatenate(self._shards.map("densities", *asked))
        return self.nans.rejected(found, lambda chain: self._reason(asked[0][chain], chain))

    def _weigh(self):
        """The densities of the chains' paths as they are now."""
        self.points = self.points._replace(log_likelihood=self.density(self.values()))

    def _reason(self, params, chain):
        return (
            f"log_initial, log_transition or log_weight gave nan along the path of chain {chain}, with"
            f" {named(self.priors.names, params)}; finite numbers or -inf are wanted"
        )

    def step(self, number, warm):
        """Steps of the parameters, then a new path of every chain."""
        random = random_of(self.seed, 2, number)
        self.accepted = np.zeros(self.n_chains)
        self._weigh()
        for _ in range(self.n_moves):
            z = self.walk.propose(self.points.z, random)
            self.points, rates, moved = metropolis(
                self.points, z, self.points.keys, self.priors, self.density, random
            )
            self.accepted += moved / self.n_moves
            if warm:
                self.walk.learn(self.points.z, rates.mean())
        asked = self.priors.table(self.values()), self._number, self.paths
        key = random.integers(0, 2**64, dtype=np.uint64)
        self._follow(np.concatenate(self._shards.map("moved", *asked, key), axis=2))

    def arrays(self):
        return {**self.points._asdict(), "path": self.paths, **self.walk.state()}

    def restore(self, arrays):
        self.points = Points(*(arrays[name] for name in Points._fields))
        self._follow(arrays["path"])
        self.walk.restore(arrays)


def sample_gibbs(
    model: StateSpaceModel,
    observations: ArrayLike,
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
        checkpoint, progress, on_nan, space, client.

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

    def make(data, priors, n_chains, seed, client):
        places = client, sampling.space
        return Gibbs(model, filters, data, priors, n_particles, n_chains, n_moves, seed, *places)

    settings = {"n_particles": n_particles, "n_moves": n_moves}
    return draw(sampling, "particle Gibbs", *of_model(sampling, model, filters, observations, make, settings))
