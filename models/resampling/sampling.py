"""What samplers of a model's parameters share: what they are told, their loop, what becomes of the draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import portable as pk
from portable.errors import FiniteError, InputError

from ..shared.annotations import ArrayLike, ClientLike, PathLike, Spaces
from ..shared.checks import as_numbers, check_choice, check_count, check_flag, check_seed
from ..shared.cluster import connected
from ..shared.posteriors import mixing, stopped, warn
from ..shared.progress import bar
from ..shared.sharding import here
from ..shared.shown import Shown
from ..shared.store import Store
from .blame import ON_NAN, OnNan
from .filter import ParticleFilter
from .given import Data
from .posterior import Posterior
from .priors import Prior, Priors
from .state_space import StateSpaceModel
from .walk import random_of

_TRIED = 64  # draws of the prior that the model's functions are tried with, up to one that they take
_REMEDY = "take more n_draws, longer n_warmup, or more particles (`particles_needed`)"
PIECE = 10  # steps between two looks at the clock, for progress and checkpoints


@dataclass(frozen=True, kw_only=True)
class Sampling(Shown):
    """What `sample_pmmh` and `sample_gibbs` are told alike, each by its name.

    Parameters
    ----------
    priors : dict of names and priors (`portable.models.resampling.priors`)
    fixed : dict of names and numbers, optional
        Parameters without a prior.
    inputs : as in `ParticleFilter.run`
    n_chains : int, default 8
        Rows of one batch: on a GPU some dozens cost little more than one.
    n_draws, n_warmup : int, default 1000 and 500
        Steps of each chain that are kept; steps before them, in which proposals adapt to all chains'
        covariance and to an acceptance rate of 23 %, and which are thrown away.
    start : dict of names and numbers or arrays of shape (n_chains,), optional
        Where chains begin; each at the best of ten draws of the prior if not given.
    seed : int, default 0
    checkpoint : path, optional
        A folder from which a sampling that was interrupted goes on, to the same draws; more draws may be
        asked for.
    progress : bool, default False
    on_nan : {"die", "raise"}, default "die"
        A proposal whose log-likelihood is NaN is rejected, counted and named in `Posterior.notes`; or
        FiniteError names it.
    space : str, Space or a list of them, optional
        Spaces of a list share the chains.
    client : distributed.Client or "local", optional
        Whose workers share the chains, for at most 4,096 particles each; proposals and decisions are made
        here. Draws are the same for any number of workers.
    """

    priors: Mapping[str, Prior]
    fixed: Mapping[str, float] | None = None
    inputs: ArrayLike | None = None
    n_chains: int = 8
    n_draws: int = 1000
    n_warmup: int = 500
    start: Mapping[str, Any] | None = None
    seed: int = 0
    checkpoint: PathLike | None = None
    progress: bool = False
    on_nan: OnNan = "die"
    space: Spaces | None = None
    client: ClientLike = None

    def run(
        self,
        name: str,
        model: StateSpaceModel,
        filters: ParticleFilter,
        observations: ArrayLike,
        make: Callable[[Data, Priors, int, int, ClientLike], Any],
        settings: dict[str, Any],
    ) -> Posterior:
        """Draw with a sampler.

        Parameters
        ----------
        name : str
            Of the sampler.
        model : StateSpaceModel
        filters : ParticleFilter
            Of the model.
        observations : as in `ParticleFilter.run`
        make : callable (data, priors, n_chains, seed, client) -> sampler
        settings : dict
            The sampler's own; a checkpoint belongs to a run of equal settings.

        Returns
        -------
        Posterior

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            What was told does not fit the model.
        KeyboardInterrupt
            After Ctrl-C; its attribute `posterior` has what was drawn until then, if a step was finished.
        StorageError
            The checkpoint cannot be written; what was finished is kept.
        ClusterError
            A worker of another version or without the space; a scheduler that is gone.
        """
        n_chains, seed = check_count(self.n_chains, "n_chains"), check_seed(self.seed)
        n_draws, n_warmup = check_count(self.n_draws, "n_draws"), check_count(self.n_warmup, "n_warmup", 0)
        known = Priors(model.parameters, self.priors, self.fixed)
        check_choice(self.on_nan, "on_nan", ON_NAN)
        given = None if self.start is None else starts_of(self.start, known, n_chains)
        with connected(self.client) as client, pk.use(here(client, self.space)):
            data = filters.data(observations, known.table(known.draw(random_of(0), _TRIED)), self.inputs)
            sampler = make(data, known, n_chains, seed, client)
            sampler.nans.refuse = self.on_nan == "raise"
            whole = {field.name: getattr(model, field.name) for field in fields(model)}
            settings = (
                settings
                | whole
                | {
                    "n_chains": n_chains,
                    "seed": seed,
                    "start": given,
                    "n_warmup": n_warmup,
                    "priors": dict(zip(known.free, known.priors)),
                    "fixed": known.fixed,
                    "y": data.y,
                    "inputs": data.inputs,
                }
            )
            with Store(self.checkpoint, f"resampling.{name}", settings) as store:
                sampler.start(given)
                chains = Chains(sampler, n_draws, n_warmup)
                parts, complete = chains.run(store, check_flag(self.progress, "progress"))
        if not parts:
            raise chains.stop
        draws, logs, moved = (
            np.concatenate([part[key] for part in parts])[n_warmup : n_warmup + n_draws]
            for key in ("draws", "logs", "moved")
        )
        n_nan, nan_from = sampler.nans.of(parts[-1])
        by_name = dict(zip(known.free, draws.transpose(2, 1, 0)))
        mixed = mixing(by_name, _REMEDY) if complete else ()
        undefined = (f"{n_nan.sum()} log-likelihoods were NaN and their proposals rejected: {nan_from}",)
        found = Posterior(
            names=known.free,
            draws=draws.swapaxes(0, 1),
            log_likelihood=logs.T,
            acceptance=moved.mean(axis=0) if len(moved) else np.zeros(n_chains),
            priors=known.texts,
            fixed=known.fixed,
            parameters=known.names,
            method=name,
            seed=seed,
            complete=complete,
            notes=mixed + undefined * bool(n_nan.any()),
            n_nan=n_nan,
        )
        if chains.stop is not None:
            raise stopped(chains.stop, found)
        warn(mixed, 3)
        if n_nan.any():
            warnings.warn(undefined[0], RuntimeWarning, stacklevel=3)
        return found


class Nans:
    """Log-likelihoods of chains that were NaN: how many, and where the first came from.

    Parameters
    ----------
    n_chains : int
    """

    def __init__(self, n_chains):
        self.counts, self.first, self.refuse = np.zeros(n_chains, np.int64), "", False

    def rejected(self, found, reason):
        """The same log-likelihoods with -inf in place of NaN; `reason` says why of a chain."""
        bad = np.isnan(found)
        if bad.any():
            self.counts += bad
            self.first = self.first or reason(int(bad.argmax()))
            if self.refuse:
                raise FiniteError(self.first)
        return np.where(bad, -np.inf, found)

    def arrays(self):
        return {"n_nan": self.counts.copy(), "nan_from": np.array(self.first)}

    def of(self, arrays):
        """Those in the arrays of a part; of one from before they were counted none."""
        return arrays.get("n_nan", np.zeros_like(self.counts)), str(arrays.get("nan_from", ""))

    def restore(self, arrays):
        self.counts, self.first = self.of(arrays)
        self.counts = self.counts.copy()


class Chains:
    """A loop of a sampler's steps, in parts that are kept; `stop` is the interruption that ended it, or None.

    A sampler has `start(given)`, `step(number, warm)`, `values()`, `arrays()` and `restore(arrays)`, with
    n_chains, log_likelihood, accepted and nans.
    """

    def __init__(self, sampler, n_draws, n_warmup):
        self.sampler, self.n_draws, self.n_warmup = sampler, n_draws, n_warmup
        self.stop = None

    def run(self, store, progress):
        """The arrays of all parts, and whether all steps were done: an interruption keeps what there is."""
        n_steps, parts, self.store = self.n_warmup + self.n_draws, [], store
        with bar(progress, "{task.fields[rates]}") as self._bar:
            self._task = self._bar.add_task(f"{self.sampler.n_chains} chains", total=n_steps, rates="")
            try:
                for part in store.chain("steps", n_steps, self._part):
                    parts.append(part)
                    if self.stop is not None:
                        break
            except KeyboardInterrupt as error:
                self.stop = error
        return parts, bool(parts) and int(parts[-1]["end"]) >= n_steps

    def _part(self, before, first, stop):
        sampler, draws, logs, moved = self.sampler, [], [], []
        if before is not None:
            sampler.restore(before)
            sampler.nans.restore(before)
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
        except KeyboardInterrupt as error:
            if not draws:
                raise
            self.stop = error
            del draws[done - first :], logs[done - first :], moved[done - first :]
        return {
            "end": np.array(done),
            "draws": np.array(draws),
            "logs": np.array(logs),
            "moved": np.array(moved),
            **sampler.arrays(),
            **sampler.nans.arrays(),
        }


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
