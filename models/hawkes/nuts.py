"""The no-U-turn sampler on log-parameters, by nutpie, fed by our gradient."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from ..shared.checks import check_count, check_flag, check_seed
from ..shared.extras import need
from ..shared.posteriors import stopped
from .checks import check_params
from .fit import START, Objective, check_likelihood, check_target, posterior_mode, raise_to
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .priors import check_start, in_words, log_prior


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
    return found.converged(2)


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
