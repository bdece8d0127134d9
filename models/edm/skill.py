"""Skill of predictions besides rho: errors, and what simpler forecasts would have come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from portable.errors import InputError

from ..shared.annotations import Whole
from ..shared.checks import check_count
from ..shared.results import Result
from .checks import check_columns
from .search import power_of_two

NO_VARIATION = 64  # units of the last place


@dataclass(frozen=True)
class Skill(Result):
    """Skill of the predictions of one target, where prediction and observation are known.

    Attributes
    ----------
    n : int
        How many are.
    rho, mae, rmse : float
        Pearson's correlation, mean absolute and root mean square error.
    persistence_rmse : float
        Of the last value that was known when the prediction was made; NaN if there is none.
    autoregression_rmse : float
        Of a straight line in that value, fitted to all of these pairs, which favours it.
    against_persistence, against_autoregression : float
        1 less the ratio of mean squares, by the points that both predict: above 0 is better than that.
    """

    n: int
    rho: float
    mae: float
    rmse: float
    persistence_rmse: float
    autoregression_rmse: float
    against_persistence: float
    against_autoregression: float


def skill(predicted: npt.ArrayLike, observed: npt.ArrayLike, Tp: Whole = 1) -> Skill:
    """Compute the skill of predictions of successive times.

    Parameters
    ----------
    predicted, observed : array-like, shape (n_points,)
        As in `Prediction`, of points that follow one another; NaN where unknown.
    Tp : int, default 1
        Steps that were predicted ahead.

    Returns
    -------
    Skill

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        They are no series.
    InputError
        They differ in length, or Tp is below 1.
    """
    p, o = (check_columns(v, name)[:, 0] for v, name in ((predicted, "predicted"), (observed, "observed")))
    if len(p) != len(o):
        raise InputError(f"predicted has {len(p)} times, observed {len(o)}; as many are wanted")
    last = value_at(o, np.arange(len(o)) - check_count(Tp, "Tp"))
    known = np.isfinite(p + o)
    both, errors, nothing = known & np.isfinite(last), (p - o)[known], float("nan")
    line = np.full(len(o), np.nan)
    if both.sum() > 2:
        line[both] = np.polyval(np.polyfit(last[both], o[both], 1), last[both])
    own, base, fitted = (_rmse((v - o)[both]) for v in (p, last, line))
    mae = float(abs(errors).mean()) if len(errors) else nothing
    found = len(errors), correlation(p, o), mae, _rmse(errors), base, fitted
    return Skill(*found, *(1.0 - (own / other) ** 2 if other else nothing for other in (base, fitted)))


def _rmse(errors):
    return float(np.sqrt((errors**2).mean())) if len(errors) else float("nan")


def value_at(series, times):
    """Return the values of a series at those times, of any shape; NaN beyond its ends."""
    there = (times >= 0) & (times < len(series))
    return np.where(there, series[np.clip(times, 0, len(series) - 1)], np.nan)


def correlation(a, b):
    """Return Pearson's correlation where both are known, in float64; NaN if either does not vary.

    a : predictions, in which rounding may be all that varies
    """
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 2:
        return float("nan")
    a, b = (v[both] - v[both].mean() for v in (a, b))
    if abs(a).max() <= NO_VARIATION * np.finfo(float).eps * abs(b).max():
        return float("nan")
    # squares of large or small numbers leave the range of floats
    a, b = (v / power_of_two(abs(v).max()) for v in (a, b))
    spread = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / spread) if spread > 0 else float("nan")
