"""Sample from the posterior, by Algorithm 1 of Holbrook et al., random-scan adaptive Metropolis-Hastings
with several chains at once; or by the no-U-turn sampler of nutpie on log-parameters, with the gradient of
`Likelihood`."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..shared import (
    DTypeError,
    InputError,
    Store,
    bar,
    check_count,
    check_flag,
    check_kind,
    check_seed,
    need,
    stopped,
)
from . import chain_kernels as ck
from .chains import Chains, StoredDraws
from .checks import check_params
from .fit import check_likelihood, check_target, no_rate, Objective, posterior_mode, raise_to, START
from .guards import check_places
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .priors import check_start, in_words, log_prior


_REPLAYS = 4  # replays, of 25 steps each, between two checks of the chains
# Range of the starts around the posterior mode, in standard errors: wider than the posterior, as R-hat
# requires.
_DISPERSION = 4.0
# Width of a proposal in posterior standard deviations: the optimal normal proposal in one dimension (Gelman,
# Roberts and Gilks 1996).
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
    """Draw from the posterior of the parameters by Algorithm 1 of Holbrook et al. (2021).

    Each step changes one parameter, chosen at random, by a normal proposal truncated at 0 in the parameter's
    coordinate (its reciprocal for lengths and durations), with the Metropolis-Hastings ratio of proposal
    densities. The proposal's width is multiplied by clip(acceptance rate / 0.44, 0.5, 2) after 5, 6, 8, ...
    proposals (ceil(b^1.1)), throughout the chain. Chains on one space advance together, without the host.

    Parameters
    ----------
    likelihood : Likelihood
        Of the events. Its error_bound limits the relative error of every log-likelihood due to omitted pairs;
        proposals with a larger bound are evaluated again with more pairs. If it has a client or a list of
        spaces, the chains are divided among these, and the draws do not depend on their number.
    n_chains : int, default 4
        Number of chains, which advance together.
    n_draws, n_warmup : int
        Draws of each chain that are kept and discarded, as in `sample_nuts`. The paper's 10,000 include the
        1,000 that it discards; for chains of the same length, use n_draws=9_000.
    n_thin : int, default 1
        Steps per draw, of which the last is kept, also in warm-up. With the number of free parameters, each
        of these changes about once per draw.
    start : Parameters, or a sequence of n_chains of them, optional
        Initial values of the chains, and values of the fixed parameters. If only one or none is given, the
        posterior mode is found from it, and chains begin within four standard errors of the mode.
    fixed : sequence of str
    priors : dict, optional
        Priors by coordinate; other coordinates have the paper's priors (`portable.models.hawkes.priors`).
    least : dict, optional
        Lower bounds of free parameters, by name, at which their priors are truncated; for h, for example, the
        rounding of locations. A single start is moved to the bounds.
    seed : int, 0 to 2^64 - 1
        Random numbers are a function of (seed, chain, step): equal seeds give equal draws on every space,
        unless rounding changes a decision, about once in 10^8 steps.
    progress : bool
        Show steps per second and acceptance rates while sampling (rich).
    checkpoint : path, optional
        A folder in which draws and state are stored every few seconds. A repeated call resumes from there and
        gives the same draws; a call for more draws extends them.

    Returns
    -------
    Posterior

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` has the draws until then.
    DTypeError, InputError
        An argument of a wrong type or out of range; priors that exclude the start; a checkpoint of other
        chains, or in use.
    StorageError
        The checkpoint cannot be written; earlier contents remain.

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
            chains = Chains(likelihood, starts, free, cut, n_rows, thin, seed, scale, widths)
            if stored.state:
                chains.restore(stored.arrays())
            stop = _run(chains, stored, progress)
        arrays = stored.arrays() if stop is None else chains.snapshot()
    found = _collect(arrays, starts[0], free, n_warmup, thin, seed, stop is None, cut)
    if stop is not None:
        raise stopped(stop, found)
    return found.converged()


def _settings(likelihood, n_chains, thin, seed, given, free, priors):
    """Return the settings that determine the draws of chains, except their length."""
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
    """Return the starts of the chains, the widths of their first proposals or None, and the magnitude of
    the log-likelihood."""
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
    """Advance until all chains have ended; return the KeyboardInterrupt that stopped them, or None."""
    with bar(progress, "{task.fields[rates]}") as shown:
        task = shown.add_task(f"{chains.n_chains} chains", total=chains.n_steps, rates="")
        try:
            while not stored.ended:
                done = chains.advance(_REPLAYS)
                if progress:
                    shown.update(task, completed=done, rates=_rates(chains, shown.tasks[0].speed or 0.0))
                if stored.add_look(chains) and not stored.ended:  # later parts are already in the checkpoint
                    chains.restore(stored.arrays())
        except KeyboardInterrupt as error:
            return error
    return None


def _rates(chains, speed):
    """Return a message with the chains' speed and acceptance rates."""
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
    check_kind(start, "start", (list, tuple), "be Parameters or a sequence of them")
    if len(start) != n_chains:
        raise InputError(f"start holds {len(start)} parameters for {n_chains} chains; expected one each")
    starts = [check_params(params) for params in start]
    if len({type(params) for params in starts}) > 1:
        raise DTypeError("start mixes parameters of different triggering functions; expected one kind")
    return starts


def _disperse(likelihood, start, free, priors, least, n_chains, seed):
    """Draw starts around the posterior mode with NumPy's generator of the same seed; return them and the
    widths of the first proposals."""
    mode, log_covariance = posterior_mode(likelihood, start, free, priors, least)
    random = np.random.default_rng(seed)
    errors = np.minimum(np.sqrt(np.maximum(np.diag(log_covariance), 0.0)), 0.25)
    starts = []
    while len(starts) < n_chains:
        values = {}
        for name, width in zip(free, _DISPERSION * errors):
            value = getattr(mode, name) * float(np.exp(width * random.uniform(-1.0, 1.0)))
            # reflect values below the bound, in the logarithm
            values[name] = least[name] ** 2 / value if value < least.get(name, 0.0) else value
        starts.append(replace(mode, **values))
        try:
            check_start(starts[-1], priors, free)
        except InputError:  # outside the support of a bounded prior, which contains the mode
            starts[-1] = mode
    return starts, _WIDTH * errors


class _NoDensity(ValueError):
    """A signal for nutpie to end a trajectory at this point."""

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
    """Draw from the posterior of the parameters by the no-U-turn sampler of nutpie.

    It samples the logarithms of the free parameters, whitened by the covariance at the posterior mode, with
    one gradient of the log-likelihood per step. Chains run one after the other.

    Parameters
    ----------
    likelihood : Likelihood
    n_chains : int
    n_draws, n_warmup : int
        Draws of each chain that are kept and discarded.
    start : Parameters, optional
        Initial values of the search for the mode, and values of the fixed parameters.
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
    # fewer do not suffice for the step size
    n_warmup, seed = check_count(n_warmup, "n_warmup", 50), check_seed(seed)
    check_flag(progress, "progress")
    start = check_params(START if start is None else start)
    free, priors, least, cut = check_target(likelihood, start, fixed, priors, least)
    start = raise_to(least, start)
    check_start(start, cut, free)
    # ArviZ announces its next version on import
    with warnings.catch_warnings(action="ignore", category=FutureWarning):
        need("nutpie.compiled_pyfunc", "nuts", "the no-U-turn sampler")
        nutpie = need("nutpie", "nuts", "the no-U-turn sampler")
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
    if not found.complete:  # nutpie handles Ctrl-C itself, and returns the draws that all chains have
        raise stopped(KeyboardInterrupt(), found)
    return found.converged()


class _Target:
    """The log-posterior of whitened log-parameters y, with z = mode + axes y."""

    def __init__(self, likelihood, mode, log_covariance, free, priors):
        self._objective = Objective(likelihood, mode, free, priors, with_jacobian=True)
        self._mode = self._objective.place(mode)
        curvatures, axes = np.linalg.eigh(np.minimum(log_covariance, 1.0 / np.finfo(float).eps))
        # An axis without information at the mode gets the standard deviation 1 of the logarithm.
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
            y *= 0.9  # outside a bound; the mode is inside
        return y

    def _log_prior(self, z):
        return log_prior(self._objective.params(z), self._priors, self._free)
