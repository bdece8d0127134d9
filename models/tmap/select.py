"""Which orders? Fits of all ways to share a number of stages among branches, compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from portable.errors import InputError

from ..checks import check_choice, check_count, check_number, check_seed
from ..store import inside
from .checks import MOST_BRANCHES
from .fit import FitInfo, fit
from .model import TransientMAP, check_type
from .runs import Runs


@dataclass(frozen=True)
class Candidate:
    """One choice of orders.

    Attributes
    ----------
    orders : tuple of int
    model : TransientMAP
    info : FitInfo
        Of the runs that were fitted.
    n_parameters : int
    score : float
        The criterion: smaller is better.
    """

    orders: tuple
    model: TransientMAP
    info: FitInfo
    n_parameters: int
    score: float


def n_parameters(n_branches):
    """Free parameters: rates, probabilities to start, and rows of switching."""
    return n_branches + (n_branches - 1) + n_branches**2


def select_orders(runs, total_order, *, most_branches=MOST_BRANCHES, criterion="bic", held_out=0.2, seed=0, **options):
    """Fit every partition of a total order into branches, and rank them.

    Parameters
    ----------
    runs : Runs
    total_order : int
        Sum of the orders: the number of stages.
    most_branches : int
    criterion : {"bic", "held_out"}
        "bic": -2 log L + p log(n_runs). "held_out": minus the log-likelihood, for each gap, of runs that were not fitted.
    held_out : float
        Share of the runs that "held_out" keeps from the fit, drawn at random.
    seed : int, 0 to 2^64 - 1
    **options
        Of `fit`: max_iter, tol, n_starts, dtype, memory_limit, checkpoint (a part of it for each partition), space.

    Returns
    -------
    list of Candidate
        The best first. Where a gap is zero, only partitions with a branch of order 1.

    Raises
    ------
    DTypeError, InputError
        Also where no partition can make the runs.
    """
    check_type(runs)
    total_order = check_count(total_order, "total_order", most=100)
    most_branches = check_count(most_branches, "most_branches", most=MOST_BRANCHES)
    check_choice(criterion, "criterion", ("bic", "held_out"))
    random, checkpoint = np.random.default_rng(check_seed(seed)), options.pop("checkpoint", None)
    share = check_number(held_out, "held_out", above=0.0)
    fitted, kept = (runs, None) if criterion == "bic" else _split(runs, share, random)
    found = []
    for orders in partitions(total_order, most_branches):
        if min(orders) > 1 and runs.values.min() == 0.0:
            continue
        model, info = fit(fitted, orders=orders, seed=seed, checkpoint=inside(checkpoint, "-".join(map(str, orders))), **options)
        p = n_parameters(len(orders))
        if kept is None:
            score = -2.0 * info.log_likelihood + p * np.log(runs.n_runs)
        else:
            where = {name: options.get(name) for name in ("memory_limit", "space")}
            score = -model.log_likelihood(kept, **where) / kept.n_gaps
        found.append(Candidate(tuple(orders), model, info, p, float(score)))
    return sorted(found, key=lambda candidate: candidate.score)


def best_renewal(runs, total_order, **options):
    """Log-likelihood of the best renewal process of as many stages: independent gaps, a geometric number of them.

    Its gaps are a mixture of Erlang branches, of every partition of `total_order`; such mixtures come as close to any
    distribution as one likes (phase-type distributions of this form: Thummler, Buchholz and Telek, IEEE TDSC 3, 2006).

    Parameters
    ----------
    runs : Runs
        None of them censored.
    total_order : int
    **options
        Of `select_orders`.

    Returns
    -------
    float
    """
    if check_type(runs).censored.any():
        raise InputError("runs hold censored ones; the renewal process is fitted to complete gaps only")
    gaps = Runs(runs.values, np.ones(runs.n_gaps, int))  # a mixture has no order in time: each gap is a run of its own
    best = max(found.info.log_likelihood for found in select_orders(gaps, total_order, **options))
    going_on, ending = runs.n_gaps - runs.n_runs, runs.n_runs
    lengths = sum(n * np.log(n / runs.n_gaps) for n in (going_on, ending) if n)
    return float(best + lengths)


def partitions(total, most_parts):
    """Ascending whole numbers that add up to `total`, at most so many, the fewest first."""
    def parts(left, least, n):
        if n == 1:
            yield [left]
            return
        for first in range(least, left // n + 1):
            for rest in parts(left - first, first, n - 1):
                yield [first, *rest]

    for n in range(1, min(total, most_parts) + 1):
        yield from parts(total, 1, n)


def _split(runs, share, random):
    """Two sets of runs, each of at least one."""
    n_kept = round(share * runs.n_runs)
    if not 0 < n_kept < runs.n_runs:
        raise InputError(f"held_out is {share}, of {runs.n_runs} runs: at least one run must be held out and one fitted")
    out = np.zeros(runs.n_runs, bool)
    out[random.choice(runs.n_runs, n_kept, replace=False)] = True
    return runs.subset(~out), runs.subset(out)
