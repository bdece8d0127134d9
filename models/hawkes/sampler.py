"""Algorithm 1 of Holbrook et al.: random-scan adaptive Metropolis-Hastings, several chains at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from portable.errors import DTypeError, InputError

from ..shared.checks import check_count, check_flag, check_seed
from ..shared.posteriors import stopped
from ..shared.progress import bar
from ..shared.store import Store
from . import chain_kernels as ck
from .chains import Chains
from .checkpoint import Kept
from .checks import check_params
from .fit import START, check_likelihood, check_target, no_rate, posterior_mode, raise_to
from .guards import check_places
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .priors import check_start, in_words
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
        kept, stop = Kept(store, n_chains, n_rows, len(free) + 1, thin), None
        if not kept.ended:
            make = Chains if likelihood.shared_by is None else SpreadChains
            chains = make(likelihood, starts, free, cut, n_rows, thin, seed, scale, widths)
            if kept.state:
                chains.restore(kept.arrays())
            stop = _run(chains, kept, progress)
        arrays = kept.arrays() if stop is None else chains.snapshot()
    found = _collect(arrays, starts[0], free, n_warmup, thin, seed, stop is None, cut)
    if stop is not None:
        raise stopped(stop, found)
    return found.converged(2)


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
        "method": likelihood.asked,
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


def _run(chains, kept, progress):
    """Advance until all chains have ended; the KeyboardInterrupt that came before, or None."""
    with bar(progress, "{task.fields[rates]}") as shown:
        task = shown.add_task(f"{chains.n_chains} chains", total=chains.n_steps, rates="")
        try:
            while not kept.ended:
                done = chains.advance(_REPLAYS)
                if progress:
                    shown.update(task, completed=done, rates=_rates(chains, shown.tasks[0].speed or 0.0))
                if kept.look(chains) and not kept.ended:  # over parts that were kept already
                    chains.restore(kept.arrays())
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
    """Starts around the posterior mode, by a host's generator of the same seed, and widths for the first
    proposals."""
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
