"""Probabilities of the parents of events, over a posterior, and the cluster sizes that follow from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import (
    Floats,
    Ints,
    check_count,
    check_flag,
    check_fractions,
    check_kind,
    check_positive,
    launch,
    lock_of,
)
from .cells import all_pairs_within
from .fit import check_likelihood
from .likelihood import Likelihood
from .parameters import ParametersBase
from .posterior import Posterior
from .summary_kernels import add_probability, bin_quantile, pair_shares

_BINS = 512  # bins of an event's histogram: the error of quantiles is at most 1/512


class ProbabilitySummary(NamedTuple):
    """Summaries of the probabilities (5) over a posterior.

    Attributes
    ----------
    mean, sd : ndarray, shape (n_events,)
    quantiles : ndarray, shape (n_quantiles, n_events)
        From histograms, with errors of at most 1/512.
    draws : ndarray, shape (n_draws, n_events), or None
    """

    mean: Floats
    sd: Floats
    quantiles: Floats
    draws: Floats | None


def posterior_probabilities(
    likelihood: Likelihood,
    posterior: Posterior,
    *,
    n_draws: int = 500,
    quantiles: Sequence[float] = (0.025, 0.5, 0.975),
    keep: bool = False,
) -> ProbabilitySummary:
    """Return the mean, sd and quantiles, over a posterior, of each event's probability of having been
    triggered.

    Draws are evaluated one at a time, and their probabilities are not stored unless `keep` is True.

    Parameters
    ----------
    likelihood : Likelihood
    posterior : Posterior
    n_draws : int
        Number of draws to use, evenly spaced over all chains.
    quantiles : sequence of float, between 0 and 1
    keep : bool, default False
        If True, also return the n_draws x n_events probabilities.

    Returns
    -------
    ProbabilitySummary

    Raises
    ------
    DTypeError, InputError
        Not a Likelihood or not a Posterior; n_draws below 1; quantiles outside 0 to 1.
    """
    check_likelihood(likelihood)
    check_kind(posterior, "posterior", Posterior, "be hawkes.Posterior")
    n_draws = check_count(n_draws, "n_draws")
    check_flag(keep, "keep")
    quantiles = np.atleast_1d(check_fractions(quantiles, "quantiles"))
    n, done, kept = likelihood.n_events, 0, []
    with pk.use(likelihood.space), lock_of(likelihood):
        moments, bins = pk.zeros((2, n)), pk.zeros((n, _BINS), np.int32)
        for params in posterior.thinned(n_draws):
            rows = likelihood.rows(params)
            if keep:
                kept.append(likelihood.excitation_probabilities(params, rows))
            launch(
                n,
                add_probability,
                likelihood.background_scale(params),
                params.excitation_scale(likelihood.n_dims),
                *rows,
                moments,
                bins,
            )
            done += 1
        found = pk.zeros((len(quantiles), n))
        for row, q in enumerate(quantiles.tolist()):
            launch(n, bin_quantile, q, done, bins, row, found)
        mean, squares = moments.to_numpy() / done
        sd = np.sqrt(np.maximum(squares - mean**2, 0.0))
        return ProbabilitySummary(mean, sd, found.to_numpy(), np.array(kept) if keep else None)


class Parents(NamedTuple):
    """The sparse matrix of parent probabilities: entries (child, parent), in the order of children.

    Attributes
    ----------
    children, parents : ndarray of int, shape (n_pairs,)
    probabilities : ndarray, shape (n_pairs,)
    background : ndarray, shape (n_events,)
        The probability of having no parent. With it, each row adds up to 1, except for omitted pairs.
    """

    children: Ints
    parents: Ints
    probabilities: Floats
    background: Floats


def parent_probabilities(likelihood: Likelihood, params: ParametersBase, *, least: float = 1e-9) -> Parents:
    """Return the probabilities that each event was triggered by each earlier one, omitting those below
    `least`.

    Parameters
    ----------
    likelihood : Likelihood
    params : Parameters
    least : float, default 1e-9

    Returns
    -------
    Parents

    Raises
    ------
    DTypeError, FiniteError, InputError
        Not a Likelihood or not Parameters; `least` is not above 0.
    """
    check_likelihood(likelihood)
    likelihood.check_params(params)
    least = check_positive(least, "least")
    background, excitation = likelihood.rates(params)
    rates = background + excitation
    scale = params.excitation_scale(likelihood.n_dims)
    # exp(-745) is the smallest positive float64
    cut = max(math.log(scale / (least * rates.min())), 1.0) if rates.min() > 0.0 else 745.0
    *pairs, children, parents = all_pairs_within(likelihood.sums, params, min(cut, 745.0))
    with pk.use(likelihood.space):
        shares = pk.zeros(children.size)
        launch(
            children.size,
            pair_shares,
            params.triggering.value,
            params.triggering.functions.marked,
            scale,
            *pairs,
            params.kernel_values,
            pk.copy_of(children),
            pk.copy_of(rates),
            shares,
        )
        shares = shares.to_numpy()
    kept = np.flatnonzero(shares >= least)
    kept = kept[np.lexsort((parents[kept], children[kept]))]
    return Parents(children[kept], parents[kept], shares[kept], background / rates)


def cluster_sizes(parents: Parents) -> Floats:
    """Return the expected number of events in the cluster of each event: the event, its offspring, their
    offspring, and so on.

    Parameters
    ----------
    parents : Parents

    Returns
    -------
    ndarray, shape (n_events,), at least 1
        With the parents of all children independent, and distributed as in `parents`.

    Raises
    ------
    DTypeError
        `parents` are not from `parent_probabilities`.
    """
    check_kind(parents, "parents", Parents, "come from parent_probabilities")
    n = len(parents.background)
    sizes, generation = np.ones(n), np.ones(n)
    # children are later than parents, so that there are at most n generations
    while (generation > 1e-12).any():
        generation = np.bincount(
            parents.parents, parents.probabilities * generation[parents.children], minlength=n
        )
        sizes += generation
    return sizes
