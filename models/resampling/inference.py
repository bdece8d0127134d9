"""Parameters from a particle filter: particle marginal Metropolis-Hastings, many chains as the rows of one
batch.

A chain accepts a proposal by estimates of the likelihood, and draws from the exact posterior all the same
(Andrieu, Doucet, Holenstein 2010), because estimates are unbiased. With n_blocks > 1 the random numbers of
the filter are part of the chain's state: a proposal renews those of one part of the steps, chosen at random,
and keeps the others, so that the two estimates of a step are correlated (Tran, Kohn, Quiroz, Villani 2016;
Deligiannidis, Doucet, Pitt 2018); draws then follow the order of the states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import numpy as np
import rich.progress

import portable as pk
from portable.errors import InputError

from ..arrays import reached
from ..checks import as_numbers, check_count, check_flag, check_seed
from ..store import Store
from .filter import log_likelihoods
from .posterior import Posterior
from .priors import Priors
from .running import Run
from .state_space import StateSpaceModel
from .walk import STARTS, Walk, random_of
from .weights import on

PIECE = 10  # steps between two looks at the clock, for progress and checkpoints


class Chains:
    """What PMMH and particle Gibbs share: starts, a loop of steps in kept parts, and what becomes of the
    draws.

    A sampler has `start(z, random)`, `step(number, warm)`, `arrays()` and `restore(arrays)`, with z,
    log_likelihood and accepted.
    """

    def __init__(self, sampler, n_draws, n_warmup, seed):
        self.sampler, self.n_draws, self.n_warmup, self.seed = sampler, n_draws, n_warmup, seed

    def run(self, store, progress):
        """The arrays of all parts, and whether all steps were done: an interruption keeps what there is."""
        n_steps, parts, self.store = self.n_warmup + self.n_draws, [], store
        columns = [
            "[progress.description]{task.description}",
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeRemainingColumn(),
            "{task.fields[rates]}",
        ]
        with rich.progress.Progress(*columns, disable=not progress) as bar:
            self._bar, self._task = (
                bar,
                bar.add_task(f"{self.sampler.n_chains} chains", total=n_steps, rates=""),
            )
            with contextlib.suppress(KeyboardInterrupt):
                for part in store.chain("steps", n_steps, self._part):
                    parts.append(part)
        return parts, bool(parts) and int(parts[-1]["end"]) >= n_steps

    def _part(self, before, first, stop):
        sampler, draws, logs, moved = self.sampler, [], [], []
        if before is not None:
            sampler.restore(before)
        done = first
        try:
            while done < stop:
                sampler.step(done, warm=done < self.n_warmup)
                done += 1
                draws.append(sampler.values().copy())
                logs.append(sampler.log_likelihood.copy())
                moved.append(sampler.accepted.copy())
                if done % PIECE == 0:
                    self._bar.update(self._task, completed=done, rates=f"accepted: {np.mean(moved):.0%}")
                    if self.store.due():
                        break
        except KeyboardInterrupt:
            if not draws:
                raise
            del draws[done - first :], logs[done - first :], moved[done - first :]
        return {
            "end": np.array(done),
            "draws": np.array(draws),
            "logs": np.array(logs),
            "moved": np.array(moved),
            **sampler.arrays(),
        }


class Metropolis:
    """PMMH: the chains' state, and a step of all of them."""

    def __init__(self, model, data, priors, n_particles, n_chains, n_blocks, seed):
        self.priors, self.n_chains, self.n_blocks, self.seed, self.n_steps = (
            priors,
            n_chains,
            n_blocks,
            seed,
            data.n_steps,
        )
        y, inputs = (reached(a.astype(model.dtype)) for a in (data.y, data.inputs))
        params = pk.empty((n_chains, len(priors.names)), model.dtype)
        self.keys = np.zeros((n_chains, n_blocks), np.uint64)
        self.filters = Run(
            model,
            n_particles,
            data.n_dims,
            y,
            inputs,
            params,
            self.keys,
            data.n_steps,
            data.n_steps,
            means=False,
        )

    def estimate(self, values, keys):
        """Estimated log-likelihoods of parameters, shape (n_chains, n_free), from random numbers of keys,
        shape (n_chains, n_blocks)."""
        filters = self.filters
        pk.deep_copy(
            filters.params, np.ascontiguousarray(self.priors.table(values).astype(filters.params.dtype))
        )
        if filters.short:
            pk.deep_copy(filters.keys, keys)
        else:
            filters.seed = keys[0, 0]
        filters.reset()
        return log_likelihoods(filters, self.n_steps)

    def fresh(self, random):
        """Keys; where rows are long all chains have one, and differ by their streams."""
        keys = random.integers(0, 2**64, (self.n_chains, self.n_blocks), np.uint64)
        return keys if self.filters.short else np.broadcast_to(keys[:1, :1], keys.shape).copy()

    def start(self, given):
        """Each chain at the best of some draws of the prior, or where it was told."""
        random = random_of(self.seed, 0)
        self.log_likelihood = np.full(self.n_chains, -np.inf)
        best = np.zeros((self.n_chains, len(self.priors.free)))
        for _ in range(1 if given is not None else STARTS):
            values = self.priors.draw(random, self.n_chains) if given is None else given
            keys = self.fresh(random)
            found = np.where(
                np.isfinite(self.priors.log_density(values)), self.estimate(values, keys), -np.inf
            )
            better = found > self.log_likelihood
            best[better], self.keys[better], self.log_likelihood[better] = (
                values[better],
                keys[better],
                found[better],
            )
        self._refuse_impossible(best, given)
        keys = self.fresh(random)  # the best of several estimates is too high, and a chain would stick to it
        found = self.estimate(best, keys)
        again = np.isfinite(found)
        self.keys[again], self.log_likelihood[again] = keys[again], found[again]
        self.z = self.priors.to_line(best)
        self.log_prior = self.log_prior_of(self.z)
        self.accepted = np.zeros(self.n_chains, bool)
        self.walk = Walk(self.z)

    def _refuse_impossible(self, best, given):
        bad = np.flatnonzero(self.log_likelihood == -np.inf)
        if bad.size:
            tried = "start has" if given is not None else f"all {STARTS} draws of the prior have"
            raise InputError(
                f"{tried} likelihood 0 for chain {bad[0]}"
                + (f" ({dict(zip(self.priors.free, given[bad[0]].tolist()))})" if given is not None else "")
                + "; more particles, start= near the posterior, or narrower priors are wanted"
            )

    def log_prior_of(self, z):
        values, volume = self.priors.from_line(z)
        return self.priors.log_density(values) + volume

    def values(self):
        return self.priors.from_line(self.z)[0]

    def step(self, number, warm):
        """A proposal of every chain, and its acceptance."""
        random = random_of(self.seed, 1, number)
        z = self.walk.propose(self.z, random)
        keys = self.fresh(random)
        if self.n_blocks > 1:
            chosen = random.integers(0, self.n_blocks, self.n_chains)
            renewed = np.arange(self.n_blocks) == chosen[:, None]
            keys = np.where(renewed, keys, self.keys)
        log_prior, values = self.log_prior_of(z), self.priors.from_line(z)[0]
        possible = np.isfinite(log_prior)
        values = np.where(possible[:, None], values, self.values())
        found = np.where(possible, self.estimate(values, keys), -np.inf)
        with np.errstate(invalid="ignore"):
            ratio = found + log_prior - self.log_likelihood - self.log_prior
        self.accepted = np.log(random.random(self.n_chains)) < ratio
        self.z = np.where(self.accepted[:, None], z, self.z)
        self.keys = np.where(self.accepted[:, None], keys, self.keys)
        self.log_likelihood = np.where(self.accepted, found, self.log_likelihood)
        self.log_prior = np.where(self.accepted, log_prior, self.log_prior)
        if warm:
            self.walk.learn(self.z, np.minimum(np.exp(np.minimum(ratio, 0.0)), 1.0).mean())

    def arrays(self):
        return {
            "z": self.z,
            "keys": self.keys,
            "log_likelihood": self.log_likelihood,
            "log_prior": self.log_prior,
            **self.walk.state(),
        }

    def restore(self, arrays):
        self.z, self.keys, self.log_likelihood = arrays["z"], arrays["keys"], arrays["log_likelihood"]
        self.log_prior = arrays["log_prior"]
        self.walk.restore(arrays)


def sample_pmmh(
    model: StateSpaceModel,
    observations,
    n_particles: int,
    *,
    priors: Mapping,
    fixed: Mapping | None = None,
    inputs=None,
    n_chains: int = 8,
    n_draws: int = 1000,
    n_warmup: int = 500,
    n_blocks: int = 1,
    start: Mapping | None = None,
    seed: int = 0,
    guided: bool = False,
    threshold: float = 0.5,
    dtype=np.float64,
    checkpoint=None,
    progress: bool = False,
    space=None,
) -> Posterior:
    """Draw from p(parameters | observations) by particle marginal Metropolis-Hastings.

    Parameters
    ----------
    model : StateSpaceModel
    observations, inputs : as in `ParticleFilter.run`; NaN is missing
    n_particles : int
        Of each chain's filter. `particles_needed` tells how many: where the variance of the log-likelihood is
        about 1.
    priors : dict of names and priors (`models.resampling.priors`)
    fixed : dict of names and numbers, optional
        Parameters without a prior.
    n_chains : int
        Rows of one batch: on a GPU some dozens cost little more than one.
    n_draws, n_warmup : int
        Steps of each chain that are kept; steps before them, in which proposals adapt to all chains'
        covariance and to an acceptance rate of 23 %, and which are thrown away.
    n_blocks : int, default 1
        More than 1: correlated proposals, which renew the random numbers of one of so many parts of the
        steps. For at most 4,096 particles.
    start : dict of names and numbers or arrays of shape (n_chains,), optional
        Where chains begin; each at the best of ten draws of the prior if not given.
    seed : int
    guided : bool
    threshold : as in `ParticleFilter`
    dtype : float64 or float32
    checkpoint : path, optional
        A folder from which a sampling that was interrupted goes on, to the same draws; more draws may be
        asked for.
    progress : bool
    space : str or Space, optional

    Returns
    -------
    Posterior

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Wrong arguments; priors under which no start has a positive likelihood; a NaN log-weight.

    References
    ----------
    Andrieu, Doucet, Holenstein: Particle Markov chain Monte Carlo methods. JRSS B 72 (2010).
    Haario, Saksman, Tamminen: An adaptive Metropolis algorithm. Bernoulli 7 (2001).
    """
    n_chains, n_blocks = check_count(n_chains, "n_chains"), check_count(n_blocks, "n_blocks")
    options = {
        "guided": guided,
        "threshold": threshold,
        "dtype": dtype,
        "ordered": n_blocks > 1,
        "space": space,
    }
    filters, known = model.filter(**options), Priors(model.parameters, priors, fixed)
    given = None if start is None else starts_of(start, known, n_chains)
    with on(space):
        data = filters.data(observations, known.table(known.draw(random_of(0), 1))[0], inputs)
        sampler = Metropolis(
            filters, data, known, filters.count(n_particles), n_chains, n_blocks, check_seed(seed)
        )
        settings = {
            "n_particles": n_particles,
            "n_chains": n_chains,
            "n_blocks": n_blocks,
            "seed": seed,
            "start": given,
            "guided": guided,
            "threshold": threshold,
            "dtype": str(np.dtype(dtype)),
        }
        return sampled(sampler, "PMMH", data, settings, n_draws, n_warmup, checkpoint, progress, given)


def sampled(sampler, name, data, settings, n_draws, n_warmup, checkpoint, progress, given):
    """Run a sampler's chains, from a checkpoint or anew; its draws as a Posterior."""
    n_draws, n_warmup = check_count(n_draws, "n_draws"), check_count(n_warmup, "n_warmup", 0)
    settings |= {
        "n_warmup": n_warmup,
        "priors": sampler.priors.texts,
        "fixed": sampler.priors.fixed,
        "y": data.y,
        "inputs": data.inputs,
    }
    with Store(checkpoint, f"resampling.{name}", settings) as store:
        sampler.start(given)
        chains = Chains(sampler, n_draws, n_warmup, settings["seed"])
        parts, complete = chains.run(store, check_flag(progress, "progress"))
    if not parts:
        raise InputError("sampling was stopped before its first step: there are no draws")
    draws, logs, moved = (
        np.concatenate([part[key] for part in parts])[n_warmup : n_warmup + n_draws]
        for key in ("draws", "logs", "moved")
    )
    return Posterior(
        names=sampler.priors.free,
        draws=draws.swapaxes(0, 1),
        log_likelihood=logs.T,
        acceptance=moved.mean(axis=0) if len(moved) else np.zeros(sampler.n_chains),
        priors=sampler.priors.texts,
        fixed=sampler.priors.fixed,
        parameters=sampler.priors.names,
        sampler=name,
        seed=settings["seed"],
        complete=complete,
    )


def starts_of(start, priors, n_chains):
    """Starts as rows, checked against the priors."""
    if not isinstance(start, Mapping) or set(start) != set(priors.free):
        raise InputError(
            f"start has {start if not isinstance(start, Mapping) else ', '.join(start)}; a dict of exactly "
            f"{', '.join(priors.free)} is wanted"
        )
    columns = [
        np.broadcast_to(as_numbers(start[name], f"start[{name!r}]").astype(float), (n_chains,))
        for name in priors.free
    ]
    values = np.stack(columns, axis=1)
    outside = np.flatnonzero(priors.log_density(values) == -np.inf)
    if outside.size:
        raise InputError(
            f"start: {dict(zip(priors.free, values[outside[0]].tolist()))} has no density under the priors"
        )
    return values
