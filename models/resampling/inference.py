"""Parameter inference with particle filters: particle marginal Metropolis-Hastings, with chains as the rows
of a batch.

A chain accepts a proposal by an estimate of the likelihood, and yet draws from the exact posterior (Andrieu,
Doucet, Holenstein 2010), because the estimates are unbiased. With n_blocks > 1 the random numbers of the
filter are part of the chain's state: a proposal renews those of one randomly chosen block of steps, and keeps
the others, so that the two estimates in an acceptance ratio are correlated (Tran, Kohn, Quiroz, Villani 2016;
Deligiannidis, Doucet, Pitt 2018); resampling then follows the order of the states.

Particle Gibbs with ancestor sampling draws paths given parameters by conditional SMC, and parameters given
paths by Metropolis steps.

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

from ..shared import ArrayLike, InputError, Shards, Whole, check_count, launch, reached
from . import banks, smoothing_kernels
from .banks import Rows, by_rows
from .nan_source import named
from .posterior import Posterior
from .row_kernels import MOST
from .filter_run import ROW_TEAM
from .sampling import Chained, Filtering, Sampling, draw, filters_of, of_model
from .state_space import StateSpaceModel
from .walk import STARTS, Points, Walk, metropolis, random_of
from .weights import SWEEP_TEAM, Tables, unit_extremes


class Estimates:
    """Estimated log-likelihoods of rows of parameters, by filters.

    Parameters
    ----------
    sampler : Chained
        Counts those that are NaN.
    n_rows : int
    """

    def __init__(self, sampler, n_rows):
        self._sampler, self._filters = sampler, banks.shared(sampler.problem, n_rows)

    def __call__(self, values, keys, n_steps=None):
        """Estimate the log-likelihoods of parameters, shape (n_rows, n_free), with random numbers from keys,
        shape (n_rows, n_blocks), and the first n_steps observations."""
        return self.rejected(self._estimate_at(values, keys, "log_likelihoods", n_steps), values, keys)

    def increments(self, values, keys, number, begin, end):
        """Compute the contributions of observations begin .. end - 1, shape (end - begin, n_rows), NaN where
        they are undefined: `Bank.increments`."""
        return self._estimate_at(values, keys, "increments", number, begin, end)

    def rejected(self, found, values, keys):
        """Replace NaN by -inf in the results of rows, and count them."""

        def reason(row):
            own = self._sampler.problem
            rows = banks.of_rows(own.data, self._sampler.table(values))
            return banks.blamed(own.filters, rows, own.n, keys, row)

        return self._sampler.nans.rejected(found, reason)

    def _estimate_at(self, values, keys, name, *args):
        return np.concatenate(self._filters.map(name, self._sampler.table(values), keys, *args), axis=-1)


class Metropolis(Chained):
    """PMMH: the states of the chains, and a step that advances all chains."""

    def __init__(self, problem, n_blocks):
        super().__init__(problem)
        self.n_blocks, self._short = n_blocks, problem.filters.takes_rows(problem.n)
        self.estimate = Estimates(self, self.n_chains)

    def fresh(self, random):
        """Draw keys; long rows share one key in all chains, and differ by their streams."""
        keys = random.integers(0, 2**64, (self.n_chains, self.n_blocks), np.uint64)
        return keys if self._short else np.broadcast_to(keys[:1, :1], keys.shape).copy()

    def start(self, given):
        """Start each chain at the best of several draws of the prior, or at its given start."""
        random = random_of(self.seed, 0)
        logs, kept = np.full(self.n_chains, -np.inf), np.zeros((self.n_chains, self.n_blocks), np.uint64)
        best = np.zeros((self.n_chains, len(self.priors.free)))
        for _ in range(1 if given is not None else STARTS):
            values = self.priors.draw(random, self.n_chains) if given is None else given
            keys = self.fresh(random)
            found = np.where(
                np.isfinite(self.priors.log_density(values)), self.estimate(values, keys), -np.inf
            )
            better = found > logs
            best[better], kept[better], logs[better] = values[better], keys[better], found[better]
        self._refuse_impossible(logs, given)
        keys = self.fresh(random)  # the best of several estimates is too high, and would hold a chain
        found = self.estimate(best, keys)
        again = np.isfinite(found)
        kept[again], logs[again] = keys[again], found[again]
        z = self.priors.to_line(best)
        self.points = Points(z, self.priors.at(z)[1], logs, kept)
        self.walk = Walk(z)

    def _refuse_impossible(self, logs, given):
        bad = np.flatnonzero(logs == -np.inf)
        if bad.size:
            tried = "start has" if given is not None else f"all {STARTS} draws of the prior have"
            raise InputError(
                f"{tried} likelihood 0 for chain {bad[0]}"
                + (f" ({dict(zip(self.priors.free, given[bad[0]].tolist()))})" if given is not None else "")
                + f"{self.nans.words}; expected more particles, start= near the posterior, or narrower priors"
            )

    def step(self, number, warm):
        """Propose a state for every chain, and accept or reject it."""
        random = random_of(self.seed, 1, number)
        z = self.walk.propose(self.points.z, random)
        keys = self.fresh(random)
        if self.n_blocks > 1:
            chosen = random.integers(0, self.n_blocks, self.n_chains)
            renewed = np.arange(self.n_blocks) == chosen[:, None]
            keys = np.where(renewed, keys, self.points.keys)
        self.points, rates, self.accepted = metropolis(
            self.points, z, keys, self.priors, self.estimate, random
        )
        if warm:
            self.walk.learn(self.points.z, rates.mean())


def sample_pmmh(
    model: StateSpaceModel,
    observations: ArrayLike,
    n_particles: Whole,
    *,
    n_blocks: Whole = 1,
    **options: Any,
) -> Posterior:
    """Draw from p(parameters | observations) by particle marginal Metropolis-Hastings.

    Parameters
    ----------
    model : StateSpaceModel
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int
        That of each chain's filter. `particles_needed` finds the number at which the variance of the
        log-likelihood is about 1.
    n_blocks : int, default 1
        More than 1: correlated proposals, which renew the random numbers of one of this number of blocks of
        steps. For at most 4,096 particles.
    **options
        priors, and the other options of `Sampling`: fixed, inputs, n_chains, n_draws, n_warmup, start, seed,
        checkpoint, progress, on_nan, space, client; and guided, threshold, dtype and look_ahead, as in
        `StateSpaceModel.filter`.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Arguments are wrong; under the priors no start has a positive likelihood; with on_nan="raise" a
        log-weight is NaN.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` holds the draws so far.

    Warns
    -----
    MixingWarning, RuntimeWarning
        The draws have not converged; log-likelihoods were NaN. `Posterior.notes` has the same text.

    References
    ----------
    Andrieu, Doucet, Holenstein: Particle Markov chain Monte Carlo methods. JRSS B 72 (2010).
    Haario, Saksman, Tamminen: An adaptive Metropolis algorithm. Bernoulli 7 (2001).
    """
    sampling, n_blocks = Filtering(**options), check_count(n_blocks, "n_blocks")
    filters, own = filters_of(model, sampling, ordered=n_blocks > 1)
    given = model, filters, filters.count(n_particles), observations, Metropolis, own
    return draw(sampling, "PMMH", *of_model(sampling, *given, n_blocks=n_blocks))


class Paths:
    """A method for `sharding.Shards`, whose shards are chains: densities of paths, and new paths given old
    ones.

    The caller has all paths. A place also keeps those of its chains, with the number that the caller gave
    them, and copies the caller's paths if that number has changed.

    Parameters
    ----------
    model : StateSpaceModel
    data : Data
    n_particles : int
    space : str or Space
    """

    def __init__(self, model, data, n_particles, space):
        n_dims, self._n, self._rows = data.n_dims, n_particles, Rows(0, 0)
        self._conditional = model.initial, model.propagate, model.log_weight, model.log_transition
        self._complete = model.log_initial, model.log_transition, model.log_weight
        with pk.use(space) as self.space:
            self._y, self._inputs = reached(data.y), reached(data.inputs)
        self._sizes = [
            pk.static(v) for v in (n_dims, data.params.shape[1], data.y.shape[1], data.inputs.shape[1])
        ]
        self._shape = len(data.y), n_dims

    def _take(self, rows, params, number, paths):
        """Allocate arrays of some chains, and copy their parameters and paths."""
        (n_steps, n_dims), n, n_rows = self._shape, self._n, rows.end - rows.begin
        if rows != self._rows:
            self._rows, self._number = rows, None
            self._params = pk.empty((n_rows, params.shape[1]))
            self._path = pk.empty((n_steps, n_dims, n_rows))
            self._terms, self._found = pk.empty((n_rows, n_steps)), pk.empty(n_rows)
            self._tables = Tables(pk.empty((n_rows, n)), 0, n)
            self._extremes = unit_extremes(n_rows)
            self._x, self._log_w = pk.empty((n_steps, n_dims, n_rows, n)), pk.empty((n_rows, n))
            self._cumulative = pk.empty((n_rows, n), np.uint64)
            self._ancestors = pk.empty((n_steps, n_rows, n), np.int32)
        pk.deep_copy(self._params, np.ascontiguousarray(params[slice(*rows)]))
        if number != self._number:
            pk.deep_copy(self._path, np.ascontiguousarray(paths[..., slice(*rows)]))
            self._number = number

    @by_rows
    def densities(self, rows, params, number, paths):
        """Compute log p(path, y | parameters) of chains."""
        self._take(rows, params, number, paths)
        policy, kernel = pk.TeamPolicy(len(self._found), SWEEP_TEAM), smoothing_kernels.complete_rows
        own = self._y, self._inputs, self._params, self._path, self._terms, self._found
        launch(policy, kernel, *self._complete, *self._sizes, *own)
        return self._found.to_numpy().copy()

    @by_rows
    def moved(self, rows, params, number, paths, seed):
        """Draw new paths of chains, and increase their number by 1."""
        self._take(rows, params, number, paths)
        launch(
            pk.TeamPolicy(len(self._found), min(ROW_TEAM, -(-self._n // 32) * 32)),
            smoothing_kernels.conditional_rows,
            *self._conditional,
            *self._sizes,
            rows.begin,
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
        return self._path.to_numpy().copy()


class Gibbs(Chained):
    """Particle Gibbs: parameters and paths of the chains, and a sweep that advances all chains."""

    def __init__(self, problem, n_moves):
        super().__init__(problem)
        self.n_moves, data, n_chains = n_moves, problem.data, self.n_chains
        make = functools.partial(Paths, problem.model, data, problem.n)
        where = {"client": problem.client, "space": problem.space}
        self._shards = Shards(make, banks.rows_of(n_chains), **where, label="particle Gibbs")
        self.paths, self._number = np.empty((data.n_steps, data.n_dims, n_chains)), 0

    def start(self, given):
        """Find start parameters as PMMH does, and draw a path from a filter at each."""
        begun, own = Metropolis(self.problem, 1), self.problem
        begun.nans = self.nans
        begun.start(given)
        self.points, self.walk = begun.points, begun.walk
        lags = own.data.y.shape[1] if own.filters.lagged else 0
        found = own.filters.run(
            own.data.y,
            own.n,
            params=self.priors.table(begun.values()),
            inputs=own.data.inputs[:, lags:] if own.data.inputs.shape[1] else None,
            seed=self.seed,
            keep=True,
            means=False,
            client=own.client,
        )
        if (found.died >= 0).any():
            raise InputError(
                f"a filter of {own.n} particles died at the start of chain {found.died.argmax()};"
                " expected more particles"
            )
        self._follow(found.trajectories(1, seed=self.seed)[..., 0].astype(np.float64))

    def _follow(self, paths):
        """Set paths that no place has a copy of."""
        self.paths, self._number = paths, self._number + 1

    def density(self, values, keys=None):
        """Compute log p(path, y | parameters) of every chain."""
        asked = self.priors.table(values), self._number, self.paths
        found = np.concatenate(self._shards.map("densities", *asked))
        return self.nans.rejected(found, lambda chain: self._reason(asked[0][chain], chain))

    def _reason(self, params, chain):
        return (
            f"log_initial, log_transition or log_weight gave nan along the path of chain {chain}, with"
            f" {named(self.priors.names, params)}; expected finite numbers or -inf"
        )

    def step(self, number, warm):
        """Move the parameters n_moves times, then draw a new path of every chain."""
        random = random_of(self.seed, 2, number)
        self.accepted = np.zeros(self.n_chains)
        # the densities of the chains' current paths
        self.points = self.points._replace(log_likelihood=self.density(self.values()))
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
        return super().arrays() | {"path": self.paths}

    def restore(self, arrays):
        super().restore(arrays)
        self._follow(arrays["path"])


def sample_gibbs(
    model: StateSpaceModel,
    observations: ArrayLike,
    n_particles: Whole,
    *,
    n_moves: Whole = 10,
    **options: Any,
) -> Posterior:
    """Draw from p(parameters | observations) by particle Gibbs with ancestor sampling.

    It needs few particles (some dozens) where `sample_pmmh` needs hundreds, but moves slowly if parameters
    and paths are strongly dependent, as are the sd of a transition and a path.

    Parameters
    ----------
    model : StateSpaceModel
        With log_initial and log_transition.
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int, at least 2
        That of each chain's conditional filter, including the old path.
    n_moves : int
        Metropolis steps of the parameters in each sweep, one launch each.
    **options
        priors, and the other options of `Sampling`: fixed, inputs, n_chains, n_draws, n_warmup, start, seed,
        checkpoint, progress, on_nan, space, client.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        As `sample_pmmh`; the model has no log_initial or log_transition.
    """
    sampling, n_moves = Sampling(**options), check_count(n_moves, "n_moves")
    model.need("particle Gibbs", "log_initial", "log_transition")
    n_particles = check_count(n_particles, "n_particles", 2, MOST)
    filters = model.filter(space=sampling.space)
    given = model, filters, n_particles, observations, Gibbs, {}
    return draw(sampling, "particle Gibbs", *of_model(sampling, *given, n_moves=n_moves))
