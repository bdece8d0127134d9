"""Select orders: fit all partitions of a number of stages into branches, and compare the fits."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from ..shared import (
    Frozen,
    InputError,
    check_choice,
    check_count,
    check_positive,
    connected,
    generator_of,
    tracked,
)
from ..shared.store import inside
from .checks import MOST_BRANCHES
from .fit import FitInfo, fit
from .model import TransientMAP, check_type
from .runs import Runs

Rule: TypeAlias = Literal["bic", "aic", "held_out", "cross_validated"]
_MOST_PARTITIONS = 1_000


class Candidate(Frozen):
    """One choice of orders, with its fit.

    Attributes
    ----------
    orders : tuple of int
    model : TransientMAP
    info : FitInfo
        Course of the fit.
    n_parameters : int
    score : float
        The criterion's value: smaller is better.
    aic, bic : float
        Those of the fitted runs, whatever the criterion.
    """

    orders: tuple[int, ...]
    model: TransientMAP
    info: FitInfo
    n_parameters: int
    score: float
    aic: float
    bic: float


def n_parameters(n_branches, plain=False):
    """Count free parameters: rates, probabilities to start, and, unless all runs have one gap (`plain`), rows
    of switching."""
    return n_branches + (n_branches - 1) + (0 if plain else n_branches**2)


def select_orders(
    runs: Runs,
    total_order: int,
    *,
    max_branches: int = MOST_BRANCHES,
    criterion: Rule = "bic",
    held_out: float = 0.2,
    n_folds: int = 5,
    seed: int = 0,
    progress: bool = False,
    **options: Any,
) -> list[Candidate]:
    """Fit every partition of a total order into branches, and rank them.

    Parameters
    ----------
    runs : Runs
    total_order : int
        Sum of the orders: the number of stages. More than 1,000 partitions are refused (`count_partitions`).
    max_branches : int
        Largest number of branches of a partition.
    criterion : {"bic", "aic", "held_out", "cross_validated"}
        "bic": -2 log L + p log(n_runs). "aic": -2 log L + 2 p. "held_out": minus the log-likelihood, for each
        gap, of runs that were held out of the fit. "cross_validated": the same over all runs, each left out
        of one of n_folds fits; the returned model is fitted to all.
    held_out : float
        Share of the runs that "held_out" excludes from the fit, drawn at random.
    n_folds : int
        Parts that "cross_validated" leaves out in turn, drawn at random.
    seed : int, 0 to 2^64 - 1
    progress : bool
        Show a bar on standard error: partitions that have been fitted.
    **options
        Those of `fit`: max_iter, tol, n_starts, dtype, memory_mb, checkpoint (with a folder in it for each
        partition), space, client.

    Returns
    -------
    list of Candidate
        The best first. If a gap is zero, only partitions with a branch of order 1.

    Raises
    ------
    DTypeError, InputError
        An argument is out of range, or no partition can generate the runs.
    """
    check_type(runs)
    total_order = check_count(total_order, "total_order", most=100)
    max_branches = check_count(max_branches, "max_branches", most=MOST_BRANCHES)
    n_partitions = count_partitions(total_order, max_branches)
    if n_partitions > _MOST_PARTITIONS:
        raise InputError(
            f"total_order is {total_order}, with {n_partitions:,} ways to share stages among at most"
            f" {max_branches} branches; expected at most {_MOST_PARTITIONS:,}: a smaller total_order"
            " (--total) or max_branches (--max-branches), or orders (fit, --orders)"
        )
    check_choice(criterion, "criterion", Rule)
    n_folds = check_count(n_folds, "n_folds", 2)
    random, checkpoint = generator_of(seed), options.pop("checkpoint", None)
    share = check_positive(held_out, "held_out")
    fitted, kept = _split(runs, share, random) if criterion == "held_out" else (runs, None)
    folds = _folds(runs, n_folds, random) if criterion == "cross_validated" else []
    plain, found = bool((runs.lengths == 1).all()), []
    every = partitions(total_order, max_branches)
    shown = tracked(every, f"{n_partitions} partitions", n_partitions, progress)
    with connected(options.pop("client", None)) as options["client"]:  # one cluster for all fits
        where = {name: options.get(name) for name in ("memory_mb", "space", "client")}
        for orders in shown:
            if min(orders) > 1 and np.min(runs.values) == 0.0 and runs.resolution is None:
                continue
            name = "-".join(map(str, orders))
            model, info = fit(
                fitted, orders=orders, seed=seed, checkpoint=inside(checkpoint, name), **options
            )
            p = n_parameters(len(orders), plain)
            scores = {
                "aic": 2.0 * p - 2.0 * info.log_likelihood,
                "bic": p * np.log(fitted.n_runs) - 2.0 * info.log_likelihood,
            }
            if kept is not None:
                scores["held_out"] = -model.log_likelihood(kept, **where) / kept.n_gaps
            if folds:
                scores["cross_validated"] = _left_out(
                    runs, folds, checkpoint, name, where, orders=orders, seed=seed, **options
                )
            scores = {name: float(score) for name, score in scores.items()}
            found.append(
                Candidate(tuple(orders), model, info, p, scores[criterion], scores["aic"], scores["bic"])
            )
    return sorted(found, key=lambda candidate: candidate.score)


def _left_out(runs, folds, checkpoint, name, where, **options):
    """Compute minus the log-likelihood per gap of runs that are left out of fits in turn."""
    total = 0.0
    for k, out in enumerate(folds):
        part = inside(checkpoint, f"{name}-without-{k}")
        model, _ = fit(runs.subset(~out), checkpoint=part, **options)
        total += model.log_likelihood(runs.subset(out), **where)
    return -total / runs.n_gaps


def best_renewal(runs: Runs, total_order: int, **options: Any) -> float:
    """Compute the log-likelihood of the best renewal process with the same number of stages: independent
    gaps, a geometric number of them.

    Its gaps are a mixture of Erlang branches, of every partition of `total_order`; such mixtures can
    approximate any distribution (phase-type distributions of this form: Thummler, Buchholz and Telek, IEEE
    TDSC 3, 2006).

    Parameters
    ----------
    runs : Runs
        Without censored runs.
    total_order : int
    **options
        Those of `select_orders`.

    Returns
    -------
    float

    Raises
    ------
    DTypeError, InputError
        Runs are censored; `select_orders` refuses an argument.
    """
    if check_type(runs).n_censored:
        raise InputError("runs hold censored ones; the renewal process is fitted to complete gaps only")
    # a mixture has no order in time: each gap is a separate run
    gaps = Runs.from_gaps(runs.values, resolution=runs.resolution)
    best = max(found.info.log_likelihood for found in select_orders(gaps, total_order, **options))
    going_on, ending = runs.n_gaps - runs.n_runs, runs.n_runs
    lengths = sum(n * np.log(n / runs.n_gaps) for n in (going_on, ending) if n)
    return float(best + lengths)


def partitions(total, most_parts):
    """Yield partitions of `total` into at most most_parts ascending whole numbers, those with fewest parts
    first."""

    def parts(left, least, n):
        if n == 1:
            yield [left]
            return
        for first in range(least, left // n + 1):
            for rest in parts(left - first, first, n - 1):
                yield [first, *rest]

    for n in range(1, min(total, most_parts) + 1):
        yield from parts(total, 1, n)


def count_partitions(total: int, most_parts: int) -> int:
    """Count the partitions that `select_orders` fits.

    Parameters
    ----------
    total, most_parts : int

    Returns
    -------
    int
    """
    ways = [1] + [0] * total
    for part in range(1, min(most_parts, total) + 1):  # equal in number: parts of at most most_parts
        for whole in range(part, total + 1):
            ways[whole] += ways[whole - part]
    return ways[total]


def _folds(runs, n_folds, random):
    """Assign runs to folds; return for each fold a mask of the runs that are left out."""
    if n_folds > runs.n_runs:
        raise InputError(f"n_folds is {n_folds}, of {runs.n_runs} runs: expected at most one fold a run")
    fold = random.permutation(runs.n_runs) % n_folds
    return [fold == k for k in range(n_folds)]


def _split(runs, share, random):
    """Split runs at random into those to fit and those held out, each at least one."""
    n_kept = round(share * runs.n_runs)
    if not 0 < n_kept < runs.n_runs:
        raise InputError(
            f"held_out is {share}, of {runs.n_runs} runs: at least one run must be held out and one fitted"
        )
    out = np.zeros(runs.n_runs, bool)
    out[random.choice(runs.n_runs, n_kept, replace=False)] = True
    return runs.subset(~out), runs.subset(out)
