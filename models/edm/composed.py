"""Methods that are made of several projections: forecasts fed back, partial cross maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..shared.annotations import Array, Label, TableLike, Whole
from ..shared.checks import check_count
from . import frames
from .checks import check_columns
from .local import smap
from .neighbours import simplex
from .problem import correlation


def forecast(library: TableLike, E: Whole, n_steps: Whole, **options: Any) -> Array:
    """Forecast all columns step after step, each step from those before it.

    Parameters
    ----------
    library, E
        As in `simplex`: the forecast goes on from its end, and it stays as it is.
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


def partial_cross_map(
    library: TableLike, target: TableLike | Label, through: TableLike | Label, E: Whole, **options: Any
) -> tuple[float, float]:
    """Compute the skill of a cross map, and what of it does not go through other series.

    If x drives y by way of z alone, the history of y tells about x no more than its reconstruction of z does.

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
        Partial correlation of prediction and observation, given what the reconstructions tell of the target.

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
    """The correlation of the first two columns, without what is linear in the others."""
    both, given = known[:, :2], known[:, 2:]
    return correlation(*(both - given @ np.linalg.lstsq(given, both, rcond=None)[0]).T)
