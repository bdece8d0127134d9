"""Parameters from a particle filter: particle marginal Metropolis-Hastings, many chains as the rows of one
batch.

A chain accepts a proposal by estimates of the likelihood, and draws from the exact posterior all the same
(Andrieu, Doucet, Holenstein 2010), because estimates are unbiased. With n_blocks > 1 the random numbers of
the filter are part of the chain's state: a proposal renews those of one part of the steps, chosen at random,
and keeps the others, so that the two estimates of a step are correlated (Tran, Kohn, Quiroz, Villani 2016;
Deligiannidis, Doucet, Pitt 2018); draws then follow the order of the states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from portable.errors import InputError

from ..shared.annotations import Real, Whole
from ..shared.checks import check_count
from . import banks
from .posterior import Posterior
from .sampling import Chained, Nans, Sampling, draw, of_model
from .state_space import StateSpaceModel
from .walk import STARTS, Points, Walk, metropolis, random_of


class Estimates:
    """Estimated log-likelihoods of rows of parameters, by filters at the places of a client or of spaces;
    the default space's, if neither is given.

    Parameters
    ----------
    model : ParticleFilter
    data : Data
    priors : Priors
    n_particles, n_rows : int
    nans : Nans
    client : distributed.Client, optional
    space : str, Space or a list of them, optional
    """

    def __init__(self, model, data, priors, n_particles, n_rows, nans, client=None, space=None):
        self._model, self._data, self._priors, self._n = model, data, priors, n_particles
        self.nans, self._filters = nans, banks.shared(model, n_particles, data, n_rows, client, space)

    def __call__(self, values, keys, n_steps=None):
        """Those of parameters, shape (n_rows, n_free), from random numbers of keys, shape (n_rows, n_blocks),
        and the first n_steps observations."""
        return self.rejected(self._asked(values, keys, "log_likelihoods", n_steps), values, keys)

    def increments(self, values, keys, number, begin, end):
        """What observations begin .. end - 1 add to them, shape (end - begin, n_rows), NaN where they are
        undefined: `Bank.increments`."""
        return self._asked(values, keys, "increments", number, begin, end)

    def rejected(self, found, values, keys):
        """What was found of rows with -inf in place of NaN, which are counted."""

        def reason(row):
            rows = banks.of_rows(self._data, self._priors.table(values))
            return banks.blamed(self._model, rows, self._n, keys, row)

        return self.nans.rejected(found, reason)

    def _asked(self, values, keys, name, *args):
        return np.concatenate(self._filters.map(name, self._priors.table(values), keys, *args), axis=-1)


class Metropolis(Chained):
    """PMMH: where the chains stand, and a step of all of them; places as those of `Estimates`."""

    def __init__(
        self,
        model,
        data,
        priors,
        n_particles,
        n_chains,
        n_blocks,
        seed,
        client=None,
        space=None,
        nans=None,
    ):
        self.priors, self.n_chains, self.n_blocks, self.seed = priors, n_chains, n_blocks, seed
        self._short, self.nans = model.takes_rows(n_particles), nans or Nans(n_chains)
        self.estimate = Estimates(model, data, priors, n_particles, n_chains, self.nans, client, space)

    def fresh(self, random):
        """Keys; where rows are long all chains have one, and differ by their streams."""
        keys = random.integers(0, 2**64, (self.n_chains, self.n_blocks), np.uint64)
        return keys if self._short else np.broadcast_to(keys[:1, :1], keys.shape).copy()

    def start(self, given):
        """Each chain at the best of some draws of the prior, or where it was told."""
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
        keys = self.fresh(random)  # the best of several estimates is too high, and a chain would stick to it
        found = self.estimate(best, keys)
        again = np.isfinite(found)
        kept[again], logs[again] = keys[again], found[again]
        z = self.priors.to_line(best)
        self.points = Points(z, self.priors.at(z)[1], logs, kept)
        self.accepted, self.walk = np.zeros(self.n_chains, bool), Walk(z)

    def _refuse_impossible(self, logs, given):
        bad = np.flatnonzero(logs == -np.inf)
        if bad.size:
            tried = "start has" if given is not None else f"all {STARTS} draws of the prior have"
            raise InputError(
                f"{tried} likelihood 0 for chain {bad[0]}"
                + (f" ({dict(zip(self.priors.free, given[bad[0]].tolist()))})" if given is not None else "")
                + (f" ({self.nans.first})" if self.nans.first else "")
                + "; more particles, start= near the posterior, or narrower priors are wanted"
            )

    def step(self, number, warm):
        """A proposal of every chain, and its acceptance."""
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

    def arrays(self):
        return {**self.points._asdict(), **self.walk.state()}

    def restore(self, arrays):
        self.points = Points(*(arrays[name] for name in Points._fields))
        self.walk.restore(arrays)


def sample_pmmh(
    model: StateSpaceModel,
    observations: npt.ArrayLike,
    n_particles: Whole,
    *,
    n_blocks: Whole = 1,
    guided: bool = False,
    threshold: Real = 0.5,
    dtype: npt.DTypeLike = np.float64,
    **options: Any,
) -> Posterior:
    """Draw from p(parameters | observations) by particle marginal Metropolis-Hastings.

    Parameters
    ----------
    model : StateSpaceModel
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int
        Of each chain's filter. `particles_needed` tells how many: where the variance of the log-likelihood is
        about 1.
    n_blocks : int, default 1
        More than 1: correlated proposals, which renew the random numbers of one of so many parts of the
        steps. For at most 4,096 particles.
    guided : bool
    threshold : as in `ParticleFilter`
    dtype : float64 or float32
    **options
        priors, and what else `Sampling` lists: fixed, inputs, n_chains, n_draws, n_warmup, start, seed,
        checkpoint, progress, on_nan, space, client.

    Returns
    -------
    Posterior

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Wrong arguments; priors under which no start has a positive likelihood; with on_nan="raise" a NaN
        log-weight.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` has what was drawn until then.

    Warns
    -----
    MixingWarning, RuntimeWarning
        The draws have not converged; log-likelihoods were NaN. `Posterior.notes` says so too.

    References
    ----------
    Andrieu, Doucet, Holenstein: Particle Markov chain Monte Carlo methods. JRSS B 72 (2010).
    Haario, Saksman, Tamminen: An adaptive Metropolis algorithm. Bernoulli 7 (2001).
    """
    sampling, n_blocks = Sampling(**options), check_count(n_blocks, "n_blocks")
    filters = model.filter(
        guided=guided, threshold=threshold, dtype=dtype, ordered=n_blocks > 1, space=sampling.space
    )
    n = filters.count(n_particles)

    def make(data, priors, n_chains, seed, client):
        return Metropolis(filters, data, priors, n, n_chains, n_blocks, seed, client, sampling.space)

    settings = {
        "n_particles": n,
        "n_blocks": n_blocks,
        "guided": guided,
        "threshold": threshold,
        "dtype": str(np.dtype(dtype)),
    }
    return draw(sampling, "PMMH", *of_model(sampling, model, filters, observations, make, settings))
