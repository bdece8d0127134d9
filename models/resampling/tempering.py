"""Draws from any density that can be written down, along powers of its likelihood.

Densities are prior x likelihood^lambda_k, 0 = lambda_0 < lambda_1 < ... = 1; the next lambda is where the
effective sample size of the weights likelihood^(lambda_(k+1) - lambda_k) falls to a given share. Moves are
random walks (`walk.metropolis`), which ask for log-likelihoods alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

import portable as pk
from portable.errors import DTypeError, ShapeError

from ..shared.annotations import ArrayLike, Real, Whole
from ..shared.arrays import reached
from ..shared.checks import as_numbers, check_share
from ..shared.sharding import Shards
from . import density_kernels, filter_kernels
from .banks import rows_of, split
from .blame import named
from .given import ModelFunction, tried
from .populations import Populations, check_lengths
from .posterior import Posterior
from .sampling import Nans, Sampling, draw, without_chains
from .walk import random_of

_HALVINGS = 60  # of an interval of powers
_TRIED = 8  # rows of data with which the function is tried


class Densities:
    """A method for `sharding.Shards`, whose shards are rows of parameters."""

    def __init__(self, function, data, space):
        with pk.use(space) as self.space:
            self._function, self._data = function, reached(data)

    def prepare(self, piece):
        """The piece itself."""
        return piece

    def log_likelihoods(self, pieces, params):
        """Values at rows of parameters, shape (n_rows, n_params)."""
        own = list(pieces)
        with pk.use(self.space):
            rows = reached(np.ascontiguousarray(params[own[0].begin : own[-1].end]))
            found = pk.empty(rows.shape[0])
            pk.parallel_for(
                rows.shape[0],
                density_kernels.log_likelihoods,
                self._function,
                pk.static(rows.shape[1]),
                rows,
                self._data,
                found,
            )
            return split(own, found.to_numpy().copy())


class Tempered:
    """Densities prior x likelihood^lambda, a `populations.Target`."""

    remedy = "take more n_draws, or a longer length"
    n_keys, most_steps, always = 0, 10_000, True

    def __init__(self, function, data, priors, n_rows, n_proposed, nans, client, space):
        make = functools.partial(Densities, function, data)
        self.priors, self._nans = priors, nans
        self._all, self._proposed = (
            Shards(make, rows_of(n), client=client, space=space, label="densities")
            for n in (n_rows, n_proposed)
        )

    def begin(self, values, keys):
        """Return log-likelihoods of draws of the prior."""
        return self._evaluated(self._all, values)

    def step(self, number, populations):
        """Return what the next power adds to log-weights; log-likelihoods stay."""
        logs, power, threshold = (
            populations.points.log_likelihood,
            populations.power,
            populations.threshold,
        )
        wanted = threshold * populations.size(np.where(logs == -np.inf, -np.inf, 0.0))
        low, high = 0.0, 1.0 - power
        finished = populations.size(high * logs) >= wanted
        if not finished:
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                if populations.size(middle * logs) >= wanted:
                    low = middle
                else:
                    high = middle
        return high * logs, np.zeros(len(logs)), 1.0 if finished else power + high, finished

    def estimate(self, number, values, keys):
        """Return log-likelihoods of proposals."""
        return self._evaluated(self._proposed, values)

    def where(self, number, power):
        """Return the power's name."""
        return f"the data, at the power {power:.3g} of the likelihood"

    def _evaluated(self, shards, values):
        table = self.priors.table(values)
        found = np.concatenate(shards.map("log_likelihoods", table))
        found[found == np.inf] = np.nan  # no density
        names, said = self.priors.names, "log_likelihood gave nan or inf, with"
        return self._nans.rejected(
            found, lambda row: f"{said} {named(names, table[row])}; finite numbers or -inf are wanted"
        )


def sample_smc(
    log_likelihood: ModelFunction,
    *,
    data: ArrayLike | None = None,
    n_chains: Whole = 8,
    n_draws: Whole = 1000,
    length: Whole = 20,
    threshold: Real = 0.5,
    **options: Any,
) -> Posterior:
    """Draw from prior x likelihood by a tempered, waste-free SMC sampler, which finds the evidence too.

    Parameters
    ----------
    log_likelihood : pk.function (params, data) -> number
        The logarithm of the likelihood, with its constant if the evidence is wanted; finite or -inf.
        params[j] is the parameter that comes j-th in priors, and then in fixed.
    data : array-like, shape (n,) or (n, n_columns), optional
        The function has it as rows: data[i, column]; data.shape[0] is n. NaN reach it.
    n_chains : int
        Populations, which tell each other's error: the Posterior's chains.
    n_draws : int
        Parameters of each population, a multiple of length.
    length : int
        States of the Markov chains by which parameters are renewed at each power of the likelihood; n_draws /
        length begin in each population.
    threshold : float, 0 to 1
        Effective sample size, as a share of n_draws, at which the next power is.
    **options
        priors, and of what `Sampling` lists: fixed, seed, checkpoint, progress, on_nan, space, client.

    Returns
    -------
    Posterior
        With log_evidence and its error.

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Wrong arguments; a population all of whose parameters have likelihood 0; with on_nan="raise" a NaN.
    KeyboardInterrupt
        After Ctrl-C; its attribute `posterior` has draws at the power of the likelihood until then.

    Warns
    -----
    MixingWarning, RuntimeWarning
        Populations differ; the error of the log-evidence is above 0.5; log-likelihoods were NaN.
        `Posterior.notes` says so too.

    References
    ----------
    Dau, Chopin: Waste-free sequential Monte Carlo. JRSS B 84 (2022).
    Jasra, Stephens, Doucet, Tsagaris: Inference for Lévy-driven stochastic volatility models via adaptive
    sequential Monte Carlo. Scandinavian Journal of Statistics 38 (2011): powers by the effective sample size.
    """
    sampling = Sampling(n_chains=n_chains, n_draws=n_draws, n_warmup=0, **without_chains(options, "inputs"))
    n_draws, length = check_lengths(n_draws, length)
    threshold = check_share(threshold, "threshold")
    if not isinstance(log_likelihood, type(filter_kernels.user_draw)):
        raise DTypeError(f"log_likelihood must be marked with @pk.function, got {log_likelihood!r:.60}")
    rows = np.zeros((0, 0)) if data is None else _rows(data)

    def begin(priors, n_chains, seed, client):
        _try(log_likelihood, priors.table(priors.draw(random_of(0), 1))[0], rows[:_TRIED])
        nans = Nans(n_chains)
        sizes = n_chains * n_draws, n_chains * (n_draws // length)
        target = Tempered(log_likelihood, rows, priors, *sizes, nans, client, sampling.space)
        return Populations(target, n_chains, n_draws, length, threshold, seed, nans), {}

    given = [names for names in (sampling.priors, sampling.fixed) if isinstance(names, Mapping)]
    names = tuple(dict.fromkeys(itertools.chain(*given)))
    settings = {
        "log_likelihood": log_likelihood,
        "data": rows,
        "n_draws": n_draws,
        "length": length,
        "threshold": threshold,
    }
    return draw(sampling, "SMC", names, begin, settings)


def _rows(data):
    """Data as rows, checked."""
    rows = as_numbers(data, "data").astype(np.float64)
    if rows.ndim not in (1, 2) or not rows.size:
        raise ShapeError(f"data has shape {rows.shape}; (n,) or (n, n_columns) is wanted, not empty")
    return rows.reshape(len(rows), -1)


def _try(function, params, data):
    """Refuse a function that does not take its arguments, or gives no number."""
    try:
        found = tried("log_likelihood", function, params, params, data)
    except ArithmeticError:
        return  # the kernel has infinities and NaN for these
    if found is None or np.ndim(found) or isinstance(found, tuple):
        raise DTypeError(f"log_likelihood must return a number, got {found!r:.60}")
