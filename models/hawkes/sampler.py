"""Sample from the posterior: by Algorithm 1 of Holbrook et al., random-scan adaptive Metropolis-Hastings with
several chains at once; and by the no-U-turn sampler of nutpie on log-parameters, fed by our gradient."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from portable.errors import DTypeError, InputError

from ..shared.checks import check_count, check_flag, check_seed
from ..shared.extras import need
from ..shared.posteriors import stopped
from ..shared.progress import bar
from ..shared.store import Store
from . import chain_kernels as ck
from .chains import Chains, StoredDraws
from .checks import check_params
from .fit import check_likelihood, check_target, no_rate, Objective, posterior_mode, raise_to, START
from .guards import check_places
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .priors import check_start, in_words, log_prior
from .spread_chains import SpreadChains


_REPLAYS = 4  # of 25 steps each between two looks at the chains
# Starts lie so many standard errors around the posterior mode: farther out than the posterior, as R-hat wants
# them.
_DISPERSION = 4.0
# standard deviations: the best normal proposal in one dimension (Gelman, Roberts and Gilks 1996)
_WIDTH = 2.4


def sample_posterior(
    likelihood: Likelihood,
    *,
    n_chains: int = 4,
    n_draws: int = 10_000,
    n_warmup: int = 1_000,
    n_thin: int = 1,
    start: ParametersBase | Sequence[ParametersBase] | None = None,
    fixed: Sequence[str] = ("tau_x", "tau_t"),
    priors: dict | None = None,
    least: dict | None = None,
    seed: int = 0,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Posterior:
    """Return draws from the posterior by Algorithm 1 of Holbrook et al. (2021).

    Each step moves one parameter, chosen at random: a normal proposal, cut off at 0, in the parameter's
    coordinate (its reciprocal for lengths and durations), with the ratio of proposal densities. Its width is
    multiplied by clip(acceptance rate / 0.44, 0.5, 2) after 5, 6, 8, ... proposals (ceil(b^1.1)), for ever.
    Chains of a place advance together, without the host.

    Parameters
    ----------
    likelihood : Likelihood
        Of the events. Its error_bound is the relative error that leaving out pairs may cause in any
        log-likelihood met; proposals whose bound is larger are evaluated again with more pairs. Where it has
        a client or a list of spaces, their places share the chains, and draws are the same for any number of
        them.
    n_chains : int, default 4
        Chains that advance together.
    n_draws, n_warmup : int
        Of each chain, kept and not kept, as of `sample_nuts`. The paper's 10,000 hold the 1,000 that it
        discards; for chains as long as these, give n_draws=9_000.
    n_thin : int, default 1
        Steps per draw, of which the last is kept, in warm-up too. With as many as free parameters a draw is a
        sweep over about all.
    start : Parameters, or a sequence of n_chains of them, optional
        Where chains begin, and what the fixed parameters are. If not given, or one, with fixed at its values:
        four standard errors around the posterior mode that is found from there.
    fixed : sequence of str
    priors : dict, optional
        Priors by coordinate; the paper's where none is given (`portable.models.hawkes.priors`).
    least : dict, optional
        Lower bounds of free parameters, by name, below which their priors are cut off: of h, for example,
        the rounding of places. A single start is moved to them.
    seed : int, 0 to 2^64 - 1
        Random numbers are a function of (seed, chain, step): equal seeds give equal draws on every space,
        unless rounding turns a decision, which happens once in about 10^8 steps.
    progress : bool
        Show steps a second and acceptance rates while sampling (rich).
    checkpoint : path, optional
        A folder that keeps draws and state every few seconds. The same call goes on from there to the same
        draws; one for more draws adds to them.

    Returns
    -------
    Posterior

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` has what was drawn until then.
    DTypeError, InputError
        An argument of a wrong type or out of range; priors that exclude the start; a checkpoint of other
        chains, or in use.
    StorageError
        The checkpoint cannot be written; what was kept before stays.

    Warns
    -----
    MixingWarning
        The draws have not converged; `Posterior.notes` says so too.

    References
    ----------
    Holbrook et al. (2021), Algorithm 1.
    """
    check_likelihood(likelihood)
    n_chains, n_draws = check_count(n_chains, "n_chains"), check_count(n_draws, "n_draws")
    n_warmup, thin = check_count(n_warmup, "n_warmup", 0), check_count(n_thin, "n_thin")
    seed = check_seed(seed)
    check_flag(progress, "progress")
    given, n_rows = _check_starts(start, n_chains), n_warmup + n_draws
    free, priors, least, cut = check_target(likelihood, given[0], fixed, priors, least)
    check_places(likelihood, given[0], free)
    if len(given) == 1:
        given = [raise_to(least, given[0])]
    for params in given:
        likelihood.check_params(params)
        check_start(params, cut, free)
    settings = _settings(likelihood, n_chains, thin, seed, given, free, cut)
    with Store(checkpoint, "hawkes.sample_posterior", settings) as store:
        starts, widths, scale = _starts(store, likelihood, given, free, priors, least, n_chains, seed)
        stored, stop = StoredDraws(store, n_chains, n_rows, len(free) + 1, thin), None
        if not stored.ended:
            make = Chains if likelihood.shared_by is None else SpreadChains
            chains = make(likelihood, starts, free, cut, n_rows, thin, seed, scale, widths)
            if stored.state:
                chains.restore(stored.arrays())
            stop = _run(chains, stored, progress)
        arrays = stored.arrays() if stop is None else chains.snapshot()
    found = _collect(arrays, starts[0], free, n_warmup, thin, seed, stop is None, cut)
    if stop is not None:
        raise stopped(stop, found)
    return found.converged()


def _settings(likelihood, n_chains, thin, seed, given, free, priors):
    """Return the settings that determine the draws of chains, but for their length."""
    sums, background = likelihood.sums, likelihood.background
    return {
        "locations": sums.locations,
        "times": sums.times,
        "marks": sums.marks,
        "n_chains": n_chains,
        "n_thin": thin,
        "seed": seed,
        "parameters": type(given[0]),
        "start": [[params.spec, *params.values()] for params in given],
        "method": likelihood.requested,
        "free": free,
        "priors": {name: [*prior.coefficients, prior.low, prior.high] for name, prior in priors.items()},
        "error_bound": likelihood.error_bound,
        "background_self": likelihood.background_self,
        "horizon_h": likelihood.horizon_h,
        "dtype": str(np.dtype(sums.dtype)),
        "background": background and [background.density, background.mass],
    }


def _starts(store, likelihood, given, free, priors, least, n_chains, seed):
    """Return the starts of chains, the widths of their first proposals or None, and the size of the
    log-likelihood."""
    found, kind = store.get("start"), type(given[0])
    if found is not None:
        return [kind(*row) for row in found["values"].tolist()], found.get("widths"), float(found["scale"])
    starts, widths = given, None
    if len(given) != n_chains or n_chains == 1:
        starts, widths = _disperse(likelihood, given[0], free, priors, least, n_chains, seed)
    scale = likelihood.log_likelihood(starts[0])
    if not np.isfinite(scale):
        raise InputError(no_rate(likelihood, starts[0], scale))
    found = {"values": np.array([start.values() for start in starts]), "scale": np.array(scale)}
    store.put("start", **found, **({} if widths is None else {"widths": widths}))
    return starts, widths, scale


def _run(chains, stored, progress):
    """Advance until all chains have ended; the KeyboardInterrupt that came before, or None."""
    with bar(progress, "{task.fields[rates]}") as shown:
        task = shown.add_task(f"{chains.n_chains} chains", total=chains.n_steps, rates="")
        try:
            while not stored.ended:
                done = chains.advance(_REPLAYS)
                if progress:
                    shown.update(task, completed=done, rates=_rates(chains, shown.tasks[0].speed or 0.0))
                if stored.add_look(chains) and not stored.ended:  # over parts that were kept already
                    chains.restore(stored.arrays())
        except KeyboardInterrupt as error:
            return error
    return None


def _rates(chains, speed):
    """Say how fast chains are, and how many proposals they accept."""
    tallies = chains.array("tallies").sum(axis=0)
    rates = tallies[:, ck.ACCEPTED] / np.maximum(tallies[:, ck.TRIED], 1)
    text = "  ".join(f"{name} {rate:.0%}" for name, rate in zip(chains.free, rates))
    return f"{speed:,.0f} steps/s, accepted: {text}"


def _collect(arrays, start, free, n_warmup, thin, seed, complete, priors):
    n_done = int(arrays["counts"][:, ck.STEP].min())
    n_kept = max(n_done // thin, 1)
    draws = arrays["draws"][:, min(n_warmup, n_kept - 1) : n_kept]
    tried = np.maximum(arrays["tallies"][:, :, ck.TRIED], 1)
    return Posterior(
        start=start,
        names=free,
        draws=draws[:, :, :-1],
        log_likelihood=draws[:, :, -1],
        acceptance=arrays["tallies"][:, :, ck.ACCEPTED] / tried,
        attained_error=float(arrays["state"][:, ck.WORST].max()),
        priors=in_words(priors, type(start), free),
        method="Algorithm 1",
        seed=seed,
        complete=complete,
    )


def _check_starts(start, n_chains):
    if start is None or isinstance(start, ParametersBase):
        return [start or START]
    if not isinstance(start, (list, tuple)):
        raise DTypeError(f"start must be Parameters or a sequence of them, got {type(start).__name__}")
    if len(start) != n_chains:
        raise InputError(f"start holds {len(start)} parameters for {n_chains} chains; one each is wanted")
    starts = [check_params(params) for params in start]
    if len({type(params) for params in starts}) > 1:
        raise DTypeError("start mixes parameters of different triggering functions; one kind is wanted")
    return starts


def _disperse(likelihood, start, free, priors, least, n_chains, seed):
    """Draw starts around the posterior mode, by the host's generator of the same seed, and return widths for
    the first proposals."""
    mode, log_covariance = posterior_mode(likelihood, start, free, priors, least)
    random = np.random.default_rng(seed)
    errors = np.minimum(np.sqrt(np.maximum(np.diag(log_covariance), 0.0)), 0.25)
    starts = []
    while len(starts) < n_chains:
        values = {}
        for name, width in zip(free, _DISPERSION * errors):
            value = getattr(mode, name) * float(np.exp(width * random.uniform(-1.0, 1.0)))
            # below its bound: as far above it
            values[name] = least[name] ** 2 / value if value < least.get(name, 0.0) else value
        starts.append(replace(mode, **values))
        try:
            check_start(starts[-1], priors, free)
        except InputError:  # beyond the edge of a bounded prior: the mode itself is within
            starts[-1] = mode
    return starts, _WIDTH * errors


class _NoDensity(ValueError):
    """Tells nutpie to end a trajectory here."""

    is_recoverable = True


def sample_nuts(
    likelihood: Likelihood,
    *,
    n_chains: int = 4,
    n_draws: int = 1_000,
    n_warmup: int = 300,
    start: ParametersBase | None = None,
    fixed: Sequence[str] = ("tau_x", "tau_t"),
    priors: dict | None = None,
    least: dict | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Posterior:
    """Return draws from the posterior by the no-U-turn sampler of nutpie.

    It moves the logarithms of the free parameters, in units of their standard errors around the posterior
    mode and along the axes of its covariance, from one gradient of the log-likelihood after the other. Chains
    run in turn.

    Parameters
    ----------
    likelihood : Likelihood
    n_chains : int
    n_draws, n_warmup : int
        Of each chain, kept and not kept.
    start : Parameters, optional
        Where the search for the mode begins, and what the fixed parameters are.
    fixed, priors, least
        As in `sample_posterior`.
    seed : int, 0 to 2^64 - 1
    progress : bool

    Returns
    -------
    Posterior

    Raises
    ------
    DTypeError, InputError
        An argument of a wrong type or out of range; priors that exclude the start; nutpie is not installed.

    Warns
    -----
    MixingWarning
        The draws have not converged; `Posterior.notes` says so too.

    References
    ----------
    Hoffman, Gelman: The no-U-turn sampler. JMLR 15 (2014).
    """
    check_likelihood(likelihood)
    n_chains, n_draws = check_count(n_chains, "n_chains"), check_count(n_draws, "n_draws")
    n_warmup, seed = check_count(n_warmup, "n_warmup", 50), check_seed(seed)  # fewer do not find a step size
    check_flag(progress, "progress")
    start = check_params(START if start is None else start)
    free, priors, least, cut = check_target(likelihood, start, fixed, priors, least)
    start = raise_to(least, start)
    check_start(start, cut, free)
    nutpie = _nutpie()
    mode, log_covariance = posterior_mode(likelihood, start, free, priors, least)
    target = _Target(likelihood, mode, log_covariance, free, cut)
    n = len(free)
    model = nutpie.compiled_pyfunc.from_pyfunc(
        n,
        lambda: target.log_density,
        lambda *_: target.expand,
        [np.dtype(np.float64)] * 2,
        [(n,), (1,)],
        ["z", "value"],
        make_initial_point_fn=lambda seed: target.first(seed),
    )
    trace = nutpie.sample(
        model,
        draws=n_draws,
        tune=n_warmup,
        chains=n_chains,
        cores=1,
        seed=seed % 2**32,
        save_warmup=False,
        progress_bar=progress,
    )
    draws = np.exp(trace.posterior["z"].to_numpy())
    acceptance = trace.sample_stats["mean_tree_accept"].to_numpy().mean(axis=1, keepdims=True)
    found = Posterior(
        start=mode,
        names=free,
        draws=draws,
        log_likelihood=trace.posterior["value"].to_numpy()[..., 0],
        acceptance=acceptance,
        attained_error=target.worst,
        priors=in_words(cut, type(start), free),
        method="NUTS (nutpie)",
        seed=seed,
        complete=draws.shape[1] == n_draws,
    )
    if not found.complete:  # nutpie takes Ctrl-C for itself, and gives what all chains have
        raise stopped(KeyboardInterrupt(), found)
    return found.converged()


def _nutpie():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next version on import
        need("nutpie.compiled_pyfunc", "nuts", "the no-U-turn sampler")
        return need("nutpie", "nuts", "the no-U-turn sampler")


class _Target:
    """The log-posterior of whitened log-parameters y: z = mode + axes y."""

    def __init__(self, likelihood, mode, log_covariance, free, priors):
        self._objective = Objective(likelihood, mode, free, priors, with_jacobian=True)
        self._mode = self._objective.place(mode)
        curvatures, axes = np.linalg.eigh(np.minimum(log_covariance, 1.0 / np.finfo(float).eps))
        # An axis along which the mode says nothing is taken as wide as a prior may be.
        self._axes = axes * np.sqrt(np.clip(curvatures, 1e-12, 1.0))
        self._priors, self._free, self.worst = priors, free, 0.0

    def log_density(self, y):
        z = self._mode + self._axes @ y
        value, slopes = self._objective(z)
        if not math.isfinite(value):
            raise _NoDensity("the posterior density is zero here")
        self.worst = max(self.worst, self._objective.likelihood.attained_error)
        return value, self._axes.T @ slopes

    def expand(self, y, *_, **__):
        z = self._mode + self._axes @ y
        value, _ = self._objective(z)
        return {"z": z, "value": np.array([value - self._log_prior(z) - self._objective.signs @ z])}

    def first(self, seed):
        y = np.random.default_rng(seed).normal(0.0, 0.5, len(self._free))
        while not math.isfinite(self._log_prior(self._mode + self._axes @ y)):
            y *= 0.9  # beyond a bound; the mode is within
        return y

    def _log_prior(self, z):
        return log_prior(self._objective.params(z), self._priors, self._free)
