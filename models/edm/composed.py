"""Methods composed of several projections: iterated forecasts, forecasts from rolling origins and by many
views, and partial cross maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..shared import Array, Label, Result, TableLike, Whole, check_count
from . import frames
from .checks import check_columns, without_xarray
from .local import smap
from .neighbours import Prediction, simplex
from .segments import Windows
from .skill import by_rounding, correlation


def forecast(library: TableLike, E: Whole, n_steps: Whole, **options: Any) -> Array:
    """Forecast all columns iteratively: each step is predicted from the preceding ones.

    Parameters
    ----------
    library, E
        As in `simplex`. The forecast starts at the end of the library; predictions are not added to the
        candidates.
    n_steps : int
    options
        As in `simplex`: tau, k, lib, valid, dtype, space; with `theta`, as in `smap`.

    Returns
    -------
    ndarray, shape (n_steps, n_columns)

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
    """
    known = values = check_columns(frames.timed(library, "library")[0], "library")
    method = smap if "theta" in options else simplex
    for _ in range(check_count(n_steps, "n_steps")):
        width = 1 + (E - 1) * options.get("tau", 1)
        found = method(values, E, target=values, points=known[-width:], **options)
        known = np.concatenate([known, found.predicted.reshape(-1, values.shape[1])[-1:]])
    return known[len(values) :]


def rolling_origin(
    library: TableLike,
    E: Whole,
    start: Whole,
    *,
    step: Whole = 1,
    length: Whole | None = None,
    **options: Any,
) -> Prediction:
    """Forecast from successive origins, each with a library of the times up to the origin only.

    Parameters
    ----------
    library, E
        As in `simplex`.
    start : int
        The first origin: the time of the last value in the library of the first forecast.
    step : int, default 1
        Times from one origin to the next.
    length : int, optional
        Number of times in the library of an origin; by default all times up to it.
    options
        As in `simplex`: columns, tau, Tp, k, exclusion_radius, valid, dtype, space, and one target; with a
        `theta`, as in `smap`.

    Returns
    -------
    Prediction
        One point per origin; the variance is NaN for S-maps.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
    """
    library = without_xarray(library, "library")
    n_times, step = frames.n_rows(library), check_count(step, "step")
    start = check_count(start, "start", 0, n_times - 1)
    length = n_times if length is None else check_count(length, "length")
    method, parts = smap if "theta" in options else simplex, []
    for t in range(start, n_times, step):
        window = (max(t + 1 - length, 0), t + 1)
        found = method(library, E, lib=window, pred=(t, t + 1), **options)
        index = [] if found.index is None else found.index
        variance = getattr(found, "variance", [math.nan])
        parts.append((found.predicted.ravel(), found.observed, variance, found.times, index))
    predicted, observed, variance, times, index = map(np.concatenate, zip(*parts))
    rho = correlation(predicted, observed)
    return Prediction(predicted, observed, variance, times, rho, index if len(index) else None)


class Multiview(Result):
    """Predictions by the mean of many views.

    Attributes
    ----------
    prediction : Prediction
        The mean over the best views; its variance is that of the views' predictions.
    views : list of list of str
        Coordinates of the best views, the best first.
    rho : ndarray, shape (n_views,)
        Skill of each view within the library.
    """

    prediction: Prediction
    views: list[list[str]]
    rho: Array


def multiview(
    library: TableLike,
    E: Whole,
    *,
    n_lags: Whole = 3,
    n_views: Whole | None = None,
    columns: Sequence[Label] | None = None,
    target: TableLike | Label | None = None,
    tau: Whole = 1,
    lib: Windows = None,
    pred: Windows = None,
    **options: Any,
) -> Multiview:
    """Predict a target by the mean over the best embeddings of lagged columns.

    Each view has E coordinates, at least one of them without a lag. The best views have the largest skill for
    the library itself in leave-one-out predictions.

    Parameters
    ----------
    library, columns, target, tau, lib, pred
        As in `simplex`; the target is the first column by default.
    E : int
        Coordinates of a view.
    n_lags : int, default 3
        Lags of each column: 0, tau, ..., (n_lags - 1) tau.
    n_views : int, optional
        Number of averaged views; by default the square root of the number of all views.
    options
        As in `simplex`: Tp, k (E + 1 if not given), exclusion_radius, valid, dtype, space.

    Returns
    -------
    Multiview

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    H. Ye, G. Sugihara: Information leverage in interconnected ecosystems: overcoming the curse of
    dimensionality. Science 353 (2016), 922.
    """
    library, aim, index, _, _ = frames.series_of(library, columns, target)
    values, n_lags = check_columns(library, "library"), check_count(n_lags, "n_lags")
    names = frames.names_of(library) if columns is None else list(map(str, frames.listed(columns)))
    block = lagged_block(values, n_lags, tau)
    E = check_count(E, "E", 1, block.shape[1])
    every = [v for v in combinations(range(block.shape[1]), E) if any(c % n_lags == 0 for c in v)]
    n_views = math.isqrt(len(every)) if n_views is None else check_count(n_views, "n_views", 1, len(every))
    options = {"target": values[:, 0] if aim is None else aim, "k": E + 1, "lib": lib} | options

    skills = [simplex(block[:, view], pred=lib, **options).rho for view in every]
    best = np.argsort(np.nan_to_num(np.negative(skills), nan=np.inf), kind="stable")[:n_views]
    found = [simplex(block[:, every[v]], pred=pred, **options) for v in best]
    views = [[frames.lagged(names[c // n_lags], c % n_lags * tau) for c in every[v]] for v in best]
    return Multiview(_mean_of(found, index), views, np.array(skills)[best])


def lagged_block(values, n_lags, tau):
    """Return each column at lags 0, tau, ..., the first column's lags first; NaN before the first time."""
    block = np.full((len(values), values.shape[1] * n_lags), np.nan)
    for k in range(min(n_lags, -(-len(values) // check_count(tau, "tau")))):
        block[k * tau :, k::n_lags] = values[: len(values) - k * tau]
    return block


def _mean_of(found, index):
    """Return the Prediction of the mean of several predictions of the same points, with their variance."""
    guesses, first = np.array([one.predicted for one in found]), found[0]
    mean, dated = guesses.mean(axis=0), frames.at_times(index, first.times)
    parts = first.observed, guesses.var(axis=0), first.times
    return Prediction(mean, *parts, correlation(mean, first.observed), dated)


def partial_cross_map(
    library: TableLike, target: TableLike | Label, through: TableLike | Label, E: Whole, **options: Any
) -> tuple[float, float]:
    """Compute the skill of a cross map, and its part that is not mediated by other series.

    If x drives y only through z, the history of y contains no more information about x than the
    reconstruction of z from y does.

    Parameters
    ----------
    library, target, E
        As in `ccm`.
    through : array-like, shape (n_times,) or (n_times, n_series); or names of columns of the library
    options
        As in `simplex`: columns, tau, k, exclusion_radius, valid, segments, dtype, space.

    Returns
    -------
    rho : float
    partial : float
        Partial correlation of prediction and observation, given the predictions of the target from the
        reconstructions of `through`.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    S. Leng et al.: Partial cross mapping eliminates indirect causal influences. Nature Communications 11
    (2020), 2632.
    """
    library, cut = frames.without_segments(library, options.pop("segments", None))
    options |= {"Tp": 0, "segments": cut}
    found, between = (simplex(library, E, target=one, **options) for one in (target, through))
    options.pop("columns", None)
    series = np.full((frames.n_rows(library), 1 + between.predicted[:1].size), np.nan)
    series[found.times] = np.column_stack([found.observed, between.predicted])
    by_way = [simplex(one, E, target=series[:, 0], **options) for one in series[:, 1:].T]
    series[found.times, 1:] = np.column_stack([one.predicted for one in by_way])
    known = np.column_stack([found.predicted, series[found.times], np.ones(len(found.times))])
    return found.rho, _correlation_left(known[np.isfinite(known).all(axis=1)])


def _correlation_left(known):
    """Return the partial correlation of the first two columns, given the other columns."""
    both, given = known[:, :2], known[:, 2:]
    left = both - given @ np.linalg.lstsq(given, both)[0]
    still = abs(left).max(axis=0, initial=0.0) <= by_rounding(both)
    return correlation(*np.where(still, 0.0, left).T)
