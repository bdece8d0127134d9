"""Goodness of fit of a process to runs, by time rescaling."""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np

from ..shared import Frozen, InputError, SpaceLike, need
from ..shared.pairs import correlation
from .model import TransientMAP, check_model
from .runs import Runs


class Goodness(Frozen):
    """Goodness of fit by the rescaled complete gaps; small p-values are evidence against the process.

    Attributes
    ----------
    uniforms : ndarray, shape (n_gaps - n_censored,)
        See `TransientMAP.rescaled`.
    distance, p_distance : float
        Largest distance of their distribution function from the uniform one, and its p-value (Kolmogorov,
        Smirnov).
    correlation, p_correlation : float
        Correlation of consecutive ones within runs, and its p-value; NaN without any.
    length_score, p_length : float
        Mean number of gaps in a run less its expectation, in standard errors, and its p-value; NaN with
        censored runs.
    """

    uniforms: np.ndarray = field(repr=False)
    distance: float
    p_distance: float
    correlation: float
    p_correlation: float
    length_score: float
    p_length: float


def goodness_of_fit(model: TransientMAP, runs: Runs, *, space: SpaceLike = None) -> Goodness:
    """Test the hypothesis that runs come from a process, by gaps rescaled to be uniform and independent.

    The p-values are exact for many gaps, if the parameters were not fitted to the same runs; after a fit they
    are too large. Rounded data are not continuous: with many gaps they are rejected for that reason only.

    Parameters
    ----------
    model : TransientMAP
    runs : Runs
    space : str or Space, optional

    Returns
    -------
    Goodness

    Raises
    ------
    InputError
        The process cannot generate one of the gaps, or SciPy is not installed.
    """
    whole = check_model(model).rescaled(runs, space=space)
    ends = np.cumsum(runs.lengths) - 1
    complete = runs.complete
    uniforms = whole[complete]
    if np.isnan(uniforms).any():
        at = int(np.flatnonzero(complete)[np.isnan(uniforms).argmax()])
        raise InputError(f"values[{at}] is {runs.values[at]}, a gap of density zero under the process")
    distance = p_distance = np.nan
    if len(uniforms):
        kstest = need("scipy.stats", "stats", "the distance from uniform").kstest
        distance, p_distance = map(float, kstest(uniforms, "uniform"))
    followed = complete.copy()
    followed[ends] = False
    early = np.flatnonzero(followed & np.append(complete[1:], False))
    found = correlation(whole[early], whole[early + 1])
    p_correlation = _two_sided(found * np.sqrt(len(early)))
    score = p_length = np.nan
    if not runs.n_censored and model.variance_arrivals() > 0.0:
        error = np.sqrt(model.variance_arrivals() / runs.n_runs)
        score = float((runs.lengths.mean() - model.mean_arrivals()) / error)
        p_length = _two_sided(score)
    return Goodness(uniforms, distance, p_distance, found, p_correlation, score, p_length)


def _two_sided(score):
    """Return the p-value of a standard normal score."""
    return math.erfc(abs(score) / math.sqrt(2.0))
