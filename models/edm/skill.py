"""Skill of predictions in addition to rho: errors, and comparisons with simpler forecasts."""

from __future__ import annotations

import numpy as np

from ..shared import ArrayLike, InputError, Result, Whole, check_count
from .checks import check_columns
from .search import power_of_two

NO_VARIATION = 64  # largest variation of constant predictions by rounding, in units of the last place


class Skill(Result):
    """Skill of the predictions of one target, over the points with a prediction and an observation.

    Attributes
    ----------
    n : int
        Number of these points.
    rho, mae, rmse : float
        Pearson's correlation, mean absolute and root mean square error.
    persistence_rmse : float
        Error of the last known value as the prediction, Tp steps before; NaN if there is none.
    autoregression_rmse : float
        Error of a linear function of that value, fitted to all of these pairs, which favours it.
    against_persistence, against_autoregression : float
        1 - ratio of mean square errors, over the points that both predict; positive if the prediction is
        better.
    """

    n: int
    rho: float
    mae: float
    rmse: float
    persistence_rmse: float
    autoregression_rmse: float
    against_persistence: float
    against_autoregression: float


def skill(predicted: ArrayLike, observed: ArrayLike, Tp: Whole = 1) -> Skill:
    """Compute the skill of predictions of successive times.

    Parameters
    ----------
    predicted, observed : array-like, shape (n_points,)
        As in `Prediction`, of successive points; NaN for missing values.
    Tp : int, default 1
        Steps from a point to its prediction.

    Returns
    -------
    Skill

    Raises
    ------
    ShapeError, DTypeError, FiniteError
        An argument is not a series.
    InputError
        They differ in length, or Tp is below 1.
    """
    p, o = (check_columns(v, name)[:, 0] for v, name in ((predicted, "predicted"), (observed, "observed")))
    if len(p) != len(o):
        raise InputError(f"predicted has {len(p)} times, observed {len(o)}; expected equal numbers")
    last = value_at(o, np.arange(len(o)) - check_count(Tp, "Tp"))
    known = np.isfinite(p + o)
    both, errors, nothing = known & np.isfinite(last), (p - o)[known], float("nan")
    line = np.full(len(o), np.nan)
    if both.sum() > 2:
        away = last[both] - last[both].mean()  # else an offset would hide the slope
        given = np.column_stack([away / power_of_two(abs(away).max()), np.ones(len(away))])
        line[both] = given @ np.linalg.lstsq(given, o[both])[0]
    own, base, fitted = (_rmse((v - o)[both]) for v in (p, last, line))
    least = by_rounding(o[known])
    mae = float(abs(errors).mean()) if len(errors) else nothing
    found = len(errors), correlation(p, o), mae, _rmse(errors), base, fitted
    return Skill(
        *found, *(1.0 - (own / other) ** 2 if other > least else nothing for other in (base, fitted))
    )


def _rmse(errors):
    unit = power_of_two(abs(errors).max(initial=0.0))
    return float(unit * np.sqrt(((errors / unit) ** 2).mean())) if len(errors) else float("nan")


def by_rounding(values):
    """Return the largest deviation of numbers such as `values` that may be due to rounding only."""
    return NO_VARIATION * np.finfo(float).eps * abs(values).max(axis=0, initial=0.0)


def value_at(series, times):
    """Return the values of a series at `times`, an array of any shape; NaN beyond the ends."""
    there = (times >= 0) & (times < len(series))
    return np.where(there, series[np.clip(times, 0, len(series) - 1)], np.nan)


def values_at(columns, times):
    """Return `value_at` times, shape (n_points, n), of each column, shape (n_points, n_columns * n)."""
    return np.concatenate([value_at(column, times) for column in columns.T], axis=1)


def correlation(a, b):
    """Return Pearson's correlation over the pairs without NaN, in float64; NaN if a or b does not vary.

    a : predictions, whose variation may be due to rounding only
    """
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 2:
        return float("nan")
    a, b = (v[both] - v[both].mean() for v in (a, b))
    if abs(a).max() <= by_rounding(b):
        return float("nan")
    # without the scaling, squares of large or small numbers would overflow or vanish
    a, b = (v / power_of_two(abs(v).max()) for v in (a, b))
    spread = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / spread, -1.0, 1.0)) if spread > 0 else float("nan")
