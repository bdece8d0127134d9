"""Maximum likelihood by EM: equations (4) to (8) of `portable.models.tmap`."""

from __future__ import annotations

import itertools
from dataclasses import field
from typing import Literal

import numpy as np

from ..shared import (
    Array,
    ArrayLike,
    DType,
    DTypeError,
    Frozen,
    InputError,
    Names,
    PathLike,
    Spaces,
    Store,
    bar,
    check_count,
    check_number,
    connected,
    generator_of,
    local_space,
)
from .checks import check_dtype, check_memory, check_orders
from .em import EM, SHORTEST
from .kernels import DEAD
from .model import TransientMAP, check_type
from .runs import Runs

N_STARTS = 8
_EXCHANGES, _HIGHER = 4, 1e-9  # exchanges of branches in a row; smallest relative gain of the log-likelihood
_NEAR = 1.0  # difference of log-likelihoods
_TRIED, _STEPS = 4, 15  # trial starts for each that EM runs to the end, and EM steps of a trial
_TRIES = 20  # tries to find a new order of strata
_SAMPLE = 10_000  # largest number of gaps for the quantiles from which starts are drawn
_PAPERS_MOST = 60.0  # largest product of a gap and a rate
_AT_ONCE = 16  # starts that run concurrently; each needs memory for the vectors of the longest runs


class FitInfo(Frozen):
    """Course and result of a fit.

    Attributes
    ----------
    log_likelihood : float
        That of the returned model.
    history : ndarray, shape (n_iterations + 1,)
        Log-likelihood before each EM step and after the last; it never falls, up to rounding.
    n_iterations : int
    converged : bool
        True if the gain of a step per gap fell below `tol`.
    starts : ndarray, shape (n_starts,)
        Log-likelihood that each start reached.
    notes : tuple of str
        Warnings about parameters that the data hardly determine: dead branches, branches that take zero gaps
        only, fewer runs than branches, maxima that may have been missed. Empty if there are none.
    """

    log_likelihood: float
    history: Array = field(repr=False)
    n_iterations: int
    converged: bool
    starts: Array
    notes: Names


def fit(
    runs: Runs,
    *,
    orders: ArrayLike,
    max_iter: int = 1000,
    tol: float = 1e-8,
    seed: int = 0,
    n_starts: int | None = None,
    start: TransientMAP | Literal["paper"] | None = None,
    dtype: DType = "float64",
    memory_mb: float | None = None,
    checkpoint: PathLike | None = None,
    progress: bool = False,
    space: Spaces = None,
    client: object = None,
) -> tuple[TransientMAP, FitInfo]:
    """Fit a TransientMAP of given orders to runs.

    Parameters
    ----------
    runs : Runs
        They may include censored ones, whose open gaps are part of the likelihood.
    orders : array-like of int, shape (n_branches,)
        One of them must be 1 if a gap is zero, unless gaps are rounded (`Runs`).
    max_iter : int, at most 1,000,000, default 1000
        EM steps of each start.
    tol : float, default 1e-8
        Gain of the log-likelihood per gap at which a start stops.
    seed : int, 0 to 2^64 - 1, default 0
        Seed of the random starts.
    n_starts : int, optional
        Starts of EM, of which the best is returned. They run concurrently. The likelihood has many local
        maxima: 8 by default, or 1 if `start` is given. `info.starts` and `info.notes` report the maxima that
        they reached.
    start : TransientMAP or "paper", optional
        The first start, of the same orders; the others are random. "paper" is that of `paper_start`.
    dtype : {"float64", "float32"}
        Dtype of the recursion over gaps. Sums over gaps and the model itself are in float64 either way.
    memory_mb : float, optional
        MiB of the space that gaps may take; more gaps are streamed. A gap takes 16 bytes in float64 and 8
        in float32. Streamed data stay in the host's memory, and each EM step copies them to the space part by
        part.
    checkpoint : path, optional
        A folder that stores the state of each start. The same call resumes from it to the same model, one
        with more `max_iter` or `n_starts` continues further.
    progress : bool
        Show a bar on standard error: converged starts, including short trials.
    space : str, Space or a list of them, optional
        The spaces of a list, such as several GPUs, compute concurrently.
    client : distributed.Client or "local", optional
        Its workers divide the runs; the M-step runs in this process. The model is the same for any number of
        workers.

    Returns
    -------
    model : TransientMAP
        Branches by ascending order, and by ascending mean gap among equal orders.
    info : FitInfo

    Raises
    ------
    InputError
        All gaps are zero, or some are but no order is 1, there are fewer gaps than branches, no run ends,
        `start` has other orders or cannot generate the runs, `memory_mb` is too small for the longest runs,
        or the checkpoint is of another fit or in use.
    StorageError
        The checkpoint cannot be written; its previous contents are kept.
    ClusterError
        A worker has another version or lacks the space; the scheduler is gone.

    Examples
    --------
    >>> from portable.models import tmap
    >>> process = tmap.TransientMAP([1.0, 0.0], [1, 2], [2.0, 0.5], [[0.5, 0.3], [0.0, 0.6]])
    >>> runs = process.simulate(200, seed=1, space="serial")
    >>> model, info = tmap.fit(runs, orders=[1, 2], n_starts=1, space="serial")
    >>> info.converged, model.orders.tolist()
    (True, [1, 2])
    """
    check_type(runs)
    orders = np.sort(check_orders(orders))
    max_iter = check_count(max_iter, "max_iter", most=1_000_000)
    n_starts = (N_STARTS if start is None else 1) if n_starts is None else check_count(n_starts, "n_starts")
    tol, dtype = check_number(tol, "tol", least=0.0), check_dtype(dtype)
    random = generator_of(seed)
    memory_bytes = check_memory(memory_mb)
    check_fit(runs, orders)
    start = paper_start(runs, orders, seed) if isinstance(start, str) and start == "paper" else start
    first = (
        []
        if start is None
        else [_ordered(_check_start(start, orders, runs, memory_mb, local_space(client, space)))[0]]
    )
    settings = {
        "resolution": runs.resolution,
        "orders": orders,
        "start": [[model.alpha, model.orders, model.rates, model.switching] for model in first],
        "tol": tol,
        "seed": seed,
        "dtype": dtype.__name__,
        "memory_bytes": memory_bytes,
    }
    if checkpoint is not None:  # otherwise the arrays may stay on a device
        settings |= {"values": runs.values, "lengths": runs.lengths, "censored": runs.censored}
    with (
        bar(progress) as shown,
        Store(checkpoint, "tmap.fit", settings) as store,
        connected(client) as client,
    ):
        drawn = n_starts - len(first)
        starts = first + (random_starts(runs, orders, drawn, random) if drawn < 2 else [])
        em = EM(runs, orders, min(n_starts, _AT_ONCE), dtype, space, memory_bytes, client)
        em.shown = shown
        shown.add_task("EM", total=n_starts + (drawn > 1) * _TRIED * drawn)
        starts += _promising(em, runs, orders, drawn, max_iter, random) if drawn > 1 else []
        found = em.run_em(starts, max_iter, tol, store)
        finals = np.array([end.history[-1] for end in found])
        best = max(found, key=lambda end: end.history[-1])
        exchanged = 0.0
        if drawn > 1:
            em.shown = None  # the bar is complete: it counts starts
            best, exchanged = _exchanged(em, best, max_iter, tol)
        model, history, converged, visits = best
        visits = em.expectation([model])[0].visits if visits is None else visits
        model, order = _ordered(model)
        said = (*_of_starts(finals, exchanged), *_notes(em, runs, model, visits[order]))
    return model, FitInfo(float(history[-1]), history, len(history) - 1, converged, finals, said)


def check_fit(runs, orders):
    """Raise an error if runs cannot determine a model of these orders."""
    if runs.n_gaps < len(orders):
        raise InputError(f"runs hold {runs.n_gaps} gaps, fewer than the {len(orders)} branches")
    if runs.n_censored == runs.n_runs:
        raise InputError("censored is True for every run; without an end the probability to end is unknown")
    if not runs.longest > 0.0:
        raise InputError("all gaps are zero; no rate can be found")
    if orders.min() > 1 and runs.resolution is None and runs.n_zero:
        raise InputError(
            f"{runs.n_zero} gaps are zero, which only a branch of order 1 can make, but orders is "
            f"{orders.tolist()}"
        )


def _check_start(model, orders, runs, memory_mb, space):
    if not isinstance(model, TransientMAP):
        got = repr(model) if isinstance(model, str) else type(model).__name__
        raise DTypeError(f"start must be a TransientMAP or 'paper', got {got}")
    if not np.array_equal(np.sort(model.orders), orders):
        raise InputError(f"start has orders {model.orders.tolist()}; expected {orders.tolist()}")
    if model.log_likelihood(runs, memory_mb=memory_mb, space=space) == -np.inf:
        raise InputError("start gives these runs a likelihood of zero, which EM cannot increase")
    return model


def _ordered(model):
    """Sort the branches of a process by order, then by mean gap; return it, and their places before."""
    order = np.lexsort((model.orders / model.rates, model.orders))
    switching = model.switching[np.ix_(order, order)]
    return TransientMAP(model.alpha[order], model.orders[order], model.rates[order], switching), order


def _promising(em, runs, orders, n_starts, max_iter, random):
    """Draw _TRIED * n_starts starts, and return the n_starts best after a few steps."""
    tried = random_starts(runs, orders, _TRIED * n_starts, random)
    ends = em.run_em(tried, min(_STEPS, max_iter), 0.0)
    best = sorted(range(len(tried)), key=lambda k: -ends[k].history[-1])[:n_starts]
    return [tried[k] for k in best]


def _exchanged(em, best, max_iter, tol):
    """Search for a higher maximum by exchanging two branches of different orders and running EM, until no
    exchange raises the likelihood; neighbouring maxima often differ by such an exchange. Return the best end,
    and its gain in log-likelihood."""
    first = best.history[-1]
    for _ in range(_EXCHANGES):
        model = best.model
        starts = [
            _in_place_of(model, i, j)
            for i, j in itertools.combinations(range(len(model.orders)), 2)
            if model.orders[i] != model.orders[j]
        ][: em.n_models]
        highest = max(em.run_em(starts, max_iter, tol), key=lambda end: end.history[-1], default=best)
        if not highest.history[-1] > best.history[-1] + _HIGHER * abs(first):
            break
        best = highest
    return best, float(best.history[-1] - first)


def _in_place_of(model, i, j):
    """Exchange the means, starts and switching of two branches, each of which keeps its order."""
    order = np.arange(len(model.orders))
    order[[i, j]] = j, i
    means = (model.orders / model.rates)[order]
    return TransientMAP(
        model.alpha[order], model.orders, model.orders / means, model.switching[np.ix_(order, order)]
    )


def random_starts(runs, orders, n_starts, random):
    """Draw starts: branches whose means are gaps drawn from the data, and switching that gives runs of the
    mean length.

    The gaps are divided into as many strata of equal size as branches, from short to long, and each branch
    draws from a different stratum, so that no two begin alike; the assignment of strata differs between
    starts as long as possible. A branch of order 1 that draws a zero starts with a mean so short that it
    takes zeros only: EM seldom gets there from longer means.
    """
    if not n_starts:
        return []
    n, used, drawn = len(orders), set(), []
    # the mean of gaps recorded as zero
    shortest = runs.shortest if runs.resolution is None else 0.25 * np.min(runs.resolution)
    least = np.where((orders == 1) & (runs.resolution is None), SHORTEST, 1.0) * shortest
    bound = SHORTEST * runs.shortest  # of EM's means
    some = runs.values if runs.n_gaps <= _SAMPLE else runs.sample(random.integers(0, runs.n_gaps, _SAMPLE))
    going_on = 1.0 - runs.n_runs / (runs.n_gaps + 1)
    kinds = [orders == order for order in sorted(set(orders.tolist()))]
    while len(drawn) < n_starts:
        for _ in range(_TRIES):
            strata = random.permutation(n)
            shares = tuple(tuple(sorted(strata[kind].tolist())) for kind in kinds)
            if shares not in used:
                break
        else:
            used.clear()
        used.add(shares)
        places, factors = (strata + random.random(n)) / n, np.exp(random.normal(0.0, 0.5, n))
        drawn.append((places, factors, random.dirichlet(np.ones(n)), random.dirichlet(np.ones(n), n)))
    gaps = np.quantile(np.sort(some), np.array([places for places, *_ in drawn]))
    return [
        TransientMAP(
            alpha, orders, orders / np.maximum(np.maximum(gap, least) * factors, bound), going_on * switching
        )
        for gap, (_, factors, alpha, switching) in zip(gaps, drawn)
    ]


def paper_start(runs: Runs, orders: ArrayLike, seed: int = 0) -> TransientMAP:
    """Draw a start by section 4.1 of Brazenas, Horvath and Telek.

    alpha and each row of the switching are uniform numbers over their sum, with switching rows scaled to a
    sum of 1 - 1 / K for a mean run of K gaps; rates are r_i / T for a mean gap of T, all reduced so that no
    gap times a rate is above 60, as exp(-88) is near the smallest float32.

    Parameters
    ----------
    runs : Runs
    orders : array-like of int, shape (n_branches,)
    seed : int, 0 to 2^64 - 1

    Returns
    -------
    TransientMAP

    Raises
    ------
    DTypeError, InputError, ShapeError
        `runs` are not Runs, `orders` not orders, or `seed` not a seed.
    """
    check_type(runs)
    orders = np.sort(check_orders(orders))
    check_fit(runs, orders)
    random, n = generator_of(seed), len(orders)
    shares = random.random((n + 1, n))
    shares /= shares.sum(axis=1, keepdims=True)
    rates = orders / runs.mean
    rates *= min(1.0, _PAPERS_MOST / (runs.longest * rates.max()))
    return TransientMAP(shares[0], orders, rates, (1.0 - runs.n_runs / runs.n_gaps) * shares[1:])


def _of_starts(finals, exchanged=0.0):
    """Return a note if only one of several starts reached the best maximum, or if an exchange of branches
    surpassed it."""
    near = int((finals > finals.max() - _NEAR).sum())
    note = ()
    if exchanged > _NEAR:
        note = (
            f"an exchange of two branches has come {exchanged:.4g} higher than the best of {len(finals)}"
            " starts: a higher maximum may have been missed; give more n_starts",
        )
    elif len(finals) > 2 and near == 1:
        note = (
            f"1 of {len(finals)} starts ended within {_NEAR:g} unit of the best log-likelihood: a higher"
            " maximum may have been missed; give more n_starts",
        )
    return note


def _notes(em, runs, model, visits):
    """Yield notes on parameters that the data hardly determine."""
    n_ends = runs.n_runs - runs.n_censored
    if n_ends < len(model.orders):
        ends = "1 run that ends" if n_ends == 1 else f"{n_ends} runs that end"
        yield (
            f"{ends}, for {len(model.orders)} branches: the probabilities to start and to end are hardly"
            " known"
        )
    dead, held = visits <= DEAD, model.orders / model.rates <= em.shortest * (1 + 1e-12)
    for i in np.flatnonzero(dead):
        yield (
            f"branch {i} is dead: no gap is expected to come from it, and its rate and switching mean nothing"
        )
    for i in np.flatnonzero(~dead & held) if runs.resolution is None else ():
        yield (
            f"branch {i} takes zero gaps only: its mean is held at {em.shortest:.3g}, {SHORTEST:g} of the"
            " shortest other gap; give the runs' resolution if gaps are"
            " rounded"
        )
