"""Common parts of samplers of a model's parameters: arguments, loop, draws."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    ClientLike,
    FiniteError,
    Frozen,
    InputError,
    PathLike,
    Prior,
    Spaces,
    Store,
    as_numbers,
    bar,
    check_choice,
    check_count,
    check_seed,
    connected,
    local_space,
    stopped,
)
from ..shared.posteriors import mixing, run_steps, warn
from .banks import Problem
from .nan_source import OnNan
from .posterior import Posterior
from .joint_prior import Priors
from .walk import Points, random_of

_TRIED = 64  # draws of the prior with which the model's functions are tried, until they accept one


class Sampling(Frozen, kw_only=True):
    """Options that all samplers of parameters accept, by name.

    Parameters
    ----------
    priors : dict of names and priors (`portable.models.resampling.priors`)
    fixed : dict of names and numbers, optional
        Parameters without a prior.
    inputs : as in `ParticleFilter.run`
    n_chains : int, default 8
        Number of chains, rows of one batch: on a GPU some dozens take little longer than one.
    n_draws, n_warmup : int, default 1000 and 500
        Kept steps of each chain, and discarded steps before them. In the discarded steps proposals adapt to
        all chains' covariance and to an acceptance rate of 23 %.
    start : dict of names and numbers or arrays of shape (n_chains,), optional
        Starts of chains; if not given each starts at the best of ten draws of the prior.
    seed : int, default 0
    checkpoint : path, optional
        A folder from which an interrupted sampling resumes, with the same draws; the number of draws may be
        increased.
    progress : bool, default False
    on_nan : {"die", "raise"}, default "die"
        A proposal whose log-likelihood is NaN is rejected, counted and named in `Posterior.notes`; or this is
        a FiniteError.
    space : str, Space or a list of them, optional
        The spaces of a list divide the chains.
    client : distributed.Client or "local", optional
        Its workers divide the chains, for at most 4,096 particles each; proposals and decisions are made
        locally. Draws are the same for any number of workers.
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
    space: Spaces = None
    client: ClientLike = None


class Filtering(Sampling, kw_only=True):
    """Options that samplers with a filter for each parameter accept, by name: those of `Sampling`, and of the
    filters.

    Parameters
    ----------
    guided : bool, default False
        Draw states with the model's guide.
    threshold : float, 0 to 1, default 0.5
        Resample below this share of the largest effective sample size; with 1 at every step.
    dtype : float64 or float32
    look_ahead : as in `ParticleFilter`
    """

    guided: bool = False
    threshold: float = 0.5
    dtype: Any = np.float64
    look_ahead: Any = None


def filters_of(model, sampling, **options):
    """Make the filters of a sampler; return them, and their settings."""
    own = {name: getattr(sampling, name) for name in ("guided", "threshold", "dtype", "look_ahead")}
    own["dtype"] = str(np.dtype(own["dtype"]))
    return model.filter(**own, space=sampling.space, **options), own


def of_model(sampling, model, filters, n, observations, make, settings, **how):
    """Make the arguments of `draw`, from `parameters` on, for a sampler of a state-space model.

    Parameters
    ----------
    model : StateSpaceModel
    filters : ParticleFilter
        Filters of the model.
    n : int
        Particles of each.
    observations : as in `ParticleFilter.run`
    make : callable (problem, **how) -> sampler
    settings : dict
        Those of the filters; with `how` and the model a checkpoint belongs to a run of equal ones.

    Returns
    -------
    parameters, begin, settings : as for `draw`
    """

    def begin(problem):
        table = problem.priors.table(problem.priors.draw(random_of(0), _TRIED))
        data = filters.data(observations, table, sampling.inputs)
        whole = problem._replace(filters=filters, data=data, n=n, model=model)
        return make(whole, **how), {"y": data.y, "inputs": data.inputs}

    whole = {field.name: getattr(model, field.name) for field in dataclasses.fields(model)}
    return model.parameters, begin, settings | how | whole | {"n_particles": n}


def draw(sampling, name, parameters, begin, settings):
    """Draw with a sampler.

    Parameters
    ----------
    name : str
        Name of the sampler.
    parameters : tuple of str
    begin : callable (problem) -> (sampler, settings)
    settings : dict
        Settings of the sampler; a checkpoint belongs to a run of equal settings.

    Returns
    -------
    Posterior

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Options do not fit the model.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` holds the draws so far, if a step was finished.
    StorageError
        The checkpoint cannot be written; finished parts are kept.
    ClusterError
        A worker has another version or lacks the space; the scheduler is gone.
    """
    sampler, fields, stop = run_loop(sampling, name, parameters, begin, settings)
    known, complete, n_nan = sampler.priors, sampler.complete, sampler.nans.counts
    by_name = dict(zip(known.free, np.moveaxis(fields["draws"], -1, 0)))
    mixed = (mixing(by_name, sampler.remedy) if complete else ()) + fields.pop("notes", ())
    undefined = (
        f"{n_nan.sum()} log-likelihoods were NaN and their proposals rejected: {sampler.nans.first}",
    )
    posterior = Posterior(
        names=known.free,
        priors=known.texts,
        fixed=known.fixed,
        parameters=known.names,
        method=name,
        seed=sampling.seed,
        complete=complete,
        notes=mixed + undefined * bool(n_nan.any()),
        n_nan=n_nan,
        **fields,
    )
    if stop is not None:
        raise stopped(stop, posterior)
    warn(mixed)
    if n_nan.any():
        warnings.warn(undefined[0], RuntimeWarning, stacklevel=3)
    return posterior


def run_loop(sampling, name, parameters, begin, settings):
    """Run a sampler's loop; arguments and errors are those of `draw`.

    Returns
    -------
    sampler : Chained
    found : dict
        Result of its `drawn`.
    stop : KeyboardInterrupt or None
    """
    n_chains, seed = check_count(sampling.n_chains, "n_chains"), check_seed(sampling.seed)
    n_draws = check_count(sampling.n_draws, "n_draws")
    n_warmup = check_count(sampling.n_warmup, "n_warmup", 0)
    known = Priors(parameters, sampling.priors, sampling.fixed)
    check_choice(sampling.on_nan, "on_nan", OnNan)
    given = starts_of(sampling.start, known, n_chains)
    with connected(sampling.client) as client, pk.use(local_space(client, sampling.space)):
        sampler, own = begin(Problem(None, None, known, 0, client, sampling.space, n_chains, seed))
        sampler.nans.refuse = sampling.on_nan == "raise"
        settings = {
            **settings,
            **own,
            "n_chains": n_chains,
            "seed": seed,
            "start": given,
            "n_warmup": n_warmup,
            "priors": dict(zip(known.free, known.priors)),
            "fixed": known.fixed,
        }
        with Store(sampling.checkpoint, f"resampling.{name}", settings) as store:
            sampler.start(given)
            parts, stop = sampler.run(store, n_draws, n_warmup, sampling.progress)
        if not parts:
            raise stop
        return sampler, sampler.drawn(parts), stop


def without_chains(options, *others):
    """Check that options of `Sampling` have none of chains only.

    Parameters
    ----------
    options : dict
    *others : str
        Further options that do not apply.

    Raises
    ------
    InputError
        One of them is for chains: start or n_warmup.
    """
    for name in ("start", "n_warmup", *others):
        if name in options:
            raise InputError(f"{name} is not for populations, which begin as draws of the priors")
    return options


class Chained:
    """Common parts of samplers of chains: the problem, `points`, and draws that are the chains' states.

    A sampler has `start(given)`, `step(number, warm)` and `step_record()`, the record of a step, and
    `arrays()`, the state that `restore(arrays)` takes; `run` makes its steps.
    """

    remedy = "take more n_draws, longer n_warmup, or more particles (`particles_needed`)"
    finished, piece = False, 10

    def __init__(self, problem):
        self.problem, self.priors, self.nans = problem, problem.priors, Nans(problem.n_chains)
        self.n_chains, self.seed = problem.n_chains, problem.seed

    def run(self, store, n_draws, n_warmup, progress):
        """Make the steps; return the arrays of their parts, and the interruption that ended them or None."""
        self._n_draws, self._n_warmup = n_draws, n_warmup
        n_steps = self.n_steps()
        with bar(progress, "{task.fields[rates]}") as self._bar:
            self._task = self._bar.add_task(f"{self.n_chains} chains", total=n_steps, rates="")
            parts, stop = run_steps(store, "steps", n_steps, self)
        if parts:
            self.resume(parts[-1])
            self.complete = bool(parts[-1].get("finished") or parts[-1]["end"] >= n_steps)
        return parts, stop

    def resume(self, part):
        """Take the state after a part."""
        self.restore(part)
        self.nans.restore(part)

    def advance(self, number):
        """Make a step; return its record."""
        self.step(number, warm=number < self._n_warmup)
        return {name: np.copy(value) for name, value in self.step_record().items()}

    def report(self, done, seen):
        """Show the number of steps that are done, and the share of accepted proposals."""
        rate = np.mean([one["moved"] for one in seen])
        self._bar.update(self._task, completed=done, rates=f"accepted: {rate:.0%}")

    def part(self, seen):
        """Return the arrays of a part, given the records of its steps."""
        return {
            "finished": np.array(self.finished),
            **{name: np.array([one[name] for one in seen]) for name in seen[0]},
            **self.arrays(),
            **self.nans.arrays(),
        }

    def table(self, values):
        """Return all parameters of rows."""
        return self.priors.table(values)

    @property
    def log_likelihood(self):
        return self.points.log_likelihood

    def values(self):
        return self.priors.from_line(self.points.z)[0]

    def n_steps(self):
        return self._n_warmup + self._n_draws

    def arrays(self):
        """Return the arrays that the next step needs, as saved in a checkpoint."""
        return {**self.points._asdict(), **self.walk.state()}

    def restore(self, arrays):
        """Restore the state from `arrays`."""
        self.points = Points(*(arrays[name] for name in Points._fields))
        self.walk.restore(arrays)

    def step_record(self):
        """Return the record of a step."""
        return {"draws": self.values(), "logs": self.log_likelihood, "moved": self.accepted}

    def drawn(self, parts):
        """Return the fields of a Posterior, from the arrays of all parts."""
        draws, logs, moved = (
            np.concatenate([part[key] for part in parts])[self._n_warmup : self.n_steps()]
            for key in ("draws", "logs", "moved")
        )
        return {
            "draws": draws.swapaxes(0, 1),
            "log_likelihood": logs.T,
            "acceptance": moved.mean(axis=0) if len(moved) else np.zeros(self.n_chains),
        }


class Nans:
    """Log-likelihoods of chains or populations that were NaN: their number for each, and the reason of the
    first.

    Parameters
    ----------
    n_chains : int
    """

    def __init__(self, n_chains):
        self.counts, self.first, self.refuse = np.zeros(n_chains, np.int64), "", False

    def rejected(self, found, reason):
        """Replace NaN by -inf in log-likelihoods of rows, equally many for each chain, and count them;
        `reason` returns the reason for a row."""
        bad = np.isnan(found)
        if bad.any():
            self.counts += bad.reshape(len(self.counts), -1).sum(axis=1)
            self.first = self.first or reason(int(bad.argmax()))
            if self.refuse:
                raise FiniteError(self.first)
        return np.where(bad, -np.inf, found)

    @property
    def words(self):
        """Reason of the first NaN in brackets, for a message; empty if there is none."""
        return f" ({self.first})" if self.first else ""

    def arrays(self):
        return {"n_nan": self.counts.copy(), "nan_from": np.array(self.first)}

    def restore(self, arrays):
        self.counts, self.first = arrays["n_nan"].copy(), str(arrays["nan_from"])


def starts_of(start, priors, n_chains):
    """Convert starts to rows, and check them against the priors; None if there are none."""
    if start is None:
        return None
    if not isinstance(start, Mapping) or set(start) != set(priors.free):
        raise InputError(
            f"start has {start if not isinstance(start, Mapping) else ', '.join(start)}; expected a "
            f"dict of exactly {', '.join(priors.free)}"
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
