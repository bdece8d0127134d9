"""Select the family of mixtures and the number of components by the density of points that were not used in a
fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..shared import (
    Array,
    InputError,
    Names,
    Result,
    TableLike,
    Whole,
    check_count,
    check_kind,
    generator_of,
)
from .checks import check_table
from .fitted import Fitted


class Selection(Result):
    """Held-out log-densities of candidates.

    Attributes
    ----------
    names : tuple of str
    scores : ndarray, shape (n_candidates,)
        Mean log-density of the points, each under a fit to points without it.
    errors : ndarray, shape (n_candidates,)
        Standard errors of the differences from the highest score.
    n_parameters : ndarray of int, shape (n_candidates,)
    best : str
        The candidate with the fewest parameters whose score is within a standard error of the highest.
    """

    names: Names
    scores: Array
    errors: Array
    n_parameters: Array
    best: str


def select(
    candidates: Mapping[str, Fitted], X: TableLike, *, n_folds: Whole = 5, seed: Whole = 0
) -> Selection:
    """Compare mixtures of any family by held-out likelihood.

    Parameters
    ----------
    candidates : dict of str to DirichletMixture or TMixture
        Mixtures, fitted or not: only copies are fitted.
    X : array-like, shape (n_samples, n_features)
    n_folds : int, default 5
    seed : int, default 0
        Seed of the division of the points into folds.

    Returns
    -------
    Selection

    Raises
    ------
    DTypeError, InputError, ShapeError, FiniteError
        There is no candidate, or one is not a mixture; as `fit`.
    """
    _check_candidates(candidates)
    X = np.asarray(check_table(X))
    folds = np.arange(len(X)) % check_count(n_folds, "n_folds", 2, len(X))
    generator_of(seed).shuffle(folds)
    found = np.empty((len(candidates), len(X)))
    sizes = np.array([_hold_out(model, X, folds, own) for own, model in zip(found, candidates.values())])
    scores = found.mean(axis=1)
    short = found[scores.argmax()] - found
    errors = short.std(axis=1, ddof=1) / np.sqrt(len(X))
    near, names = np.flatnonzero(short.mean(axis=1) <= errors), tuple(candidates)
    return Selection(names, scores, errors, sizes, names[near[sizes[near].argmin()]])


def _check_candidates(candidates):
    if not candidates:
        raise InputError("candidates is empty; expected at least one mixture by its name")
    for name, model in candidates.items():
        check_kind(model, f"candidates[{name!r}]", Fitted, "be a mixture")


def _hold_out(model, X, folds, out):
    """Write the log-densities of each fold's points, under a fit to the other folds, to `out`; return the
    number of parameters."""
    for fold in np.unique(folds):
        fitted: Any = type(model)(**model.get_params())
        fitted.fit(X[folds != fold])
        out[folds == fold] = fitted.score_samples(X[folds == fold])
    return fitted._n_parameters()
