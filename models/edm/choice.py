"""Delay and dimension of an embedding from the geometry of the series, without a forecast."""

from __future__ import annotations

import numpy as np

from ..shared import (
    Array,
    ArrayLike,
    InputError,
    Real,
    ShapeError,
    SpaceLike,
    Whole,
    check_count,
    check_positive,
)
from .checks import check_columns
from .frames import Tabled, timed
from .neighbours import knn
from .segments import Replicates, number_of


class Delays(Tabled):
    """Mutual information of a series and its lagged values.

    Attributes
    ----------
    lag : ndarray of int, shape (max_lag + 1,), from 0
    information : ndarray, shape (max_lag + 1,), in nats
    best : int
        The first lag, from 1 on, after which the information rises; 0 if it falls all the way.
    """

    lag: Array
    information: Array
    best: int

    def _columns(self):
        return {"lag": self.lag, "information": self.information}


class FalseNeighbours(Tabled):
    """Share of points with a false nearest neighbour, by embedding dimension.

    Attributes
    ----------
    E : ndarray of int, shape (E_max,)
    share : ndarray, shape (E_max,)
        NaN if no point has a neighbour.
    best : int
        The smallest E with a share below `level`; 0 if there is none.
    """

    E: Array
    share: Array
    best: int

    def _columns(self):
        return {"E": self.E, "share": self.share}


def embedding_delay(
    series: ArrayLike, max_lag: Whole = 20, *, n_bins: Whole = 10, segments: Replicates = None
) -> Delays:
    """Compute the mutual information of a series and its lagged values; the first minimum is a delay tau.

    Parameters
    ----------
    series : array-like, shape (n_times,)
        NaN is a missing value. Also a table of pandas or xarray with one column.
    max_lag : int, default 20
        The largest lag that is tried, in steps.
    n_bins : int, default 10
        Bins of each axis, with equal numbers of values.
    segments : optional
        As in `simplex`: both values of a pair are in one segment.

    Returns
    -------
    Delays

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Naming the argument.

    References
    ----------
    A. M. Fraser, H. L. Swinney: Independent coordinates for strange attractors from mutual information.
    Physical Review A 33 (1986), 1134.
    """
    x, part = _one_series(series, "series", segments)
    n_bins = check_count(n_bins, "n_bins", 2)
    max_lag = check_count(max_lag, "max_lag", 1, len(x) - 1)
    edges = np.nanquantile(x, np.arange(1, n_bins) / n_bins)
    bins = np.where(np.isfinite(x) & (part >= 0), np.searchsorted(edges, x, side="right"), -1)
    found = np.array([_information(bins, part, lag, n_bins) for lag in range(max_lag + 1)])
    rises = np.flatnonzero(np.diff(found[1:]) > 0)
    return Delays(np.arange(max_lag + 1), found, int(rises[0]) + 1 if rises.size else 0)


def _information(bins, part, lag, n_bins):
    """Return the mutual information of bin numbers (-1 for a missing value) and those `lag` steps earlier."""
    now, before = slice(lag, None), slice(len(bins) - lag)
    both = (np.minimum(bins[now], bins[before]) >= 0) & (part[now] == part[before])
    if not both.any():
        raise InputError(f"max_lag: no two values have a distance of {lag}; expected a smaller one")
    pairs = bins[now][both] * n_bins + bins[before][both]
    p = np.bincount(pairs, minlength=n_bins**2).reshape(n_bins, n_bins) / len(pairs)
    apart = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
    return (p[p > 0] * np.log(p[p > 0] / apart[p > 0])).sum()


def false_neighbours(
    library: ArrayLike,
    E_max: Whole = 10,
    *,
    tau: Whole = 1,
    ratio: Real = 15.0,
    size: Real = 2.0,
    level: Real = 0.05,
    exclusion_radius: Whole = 0,
    segments: Replicates = None,
    space: SpaceLike = None,
) -> FalseNeighbours:
    """Compute the share of nearest neighbours that are distant in the next coordinate, for E = 1 to E_max.

    Parameters
    ----------
    library : array-like, shape (n_times,)
        NaN is a missing value. Also a table of pandas or xarray with one column.
    E_max : int, default 10
        The largest embedding dimension that is tried.
    ratio : float, default 15
        A neighbour is false if the next coordinates differ by more than `ratio` times its distance.
    size : float, default 2
        It is also false if its distance with that coordinate exceeds `size` standard deviations of the
        series, as in noise.
    level : float, default 0.05
        Share of false neighbours below which a dimension is sufficient.
    tau, exclusion_radius, segments, space
        As in `simplex`.

    Returns
    -------
    FalseNeighbours

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Naming the argument.

    References
    ----------
    M. B. Kennel, R. Brown, H. D. I. Abarbanel: Determining embedding dimension for phase-space
    reconstruction. Physical Review A 45 (1992), 3403.
    """
    x, part = _one_series(library, "library", segments)
    tau, limits = check_count(tau, "tau"), {"ratio": ratio, "size": size, "level": level}
    ratio, size, level = (check_positive(value, name) for name, value in limits.items())
    keys = {"tau": tau, "k": 1, "Tp": tau, "exclusion_radius": exclusion_radius, "space": space}
    keys |= {"pred": (0, max(len(x) - tau, 1)), "segments": None if segments is None else part}
    dims = np.arange(1, check_count(E_max, "E_max") + 1)
    shares = np.array([_false_share(x, part, E, ratio, size * np.nanstd(x), keys) for E in dims.tolist()])
    return FalseNeighbours(dims, shares, int(np.append(dims[shares < level], 0)[0]))


def _false_share(x, part, E, ratio, most, keys):
    """Return the share of false neighbours in E dimensions."""
    tau, near = keys["tau"], knn(x, E, **keys)
    ends, distance = near.points + (E - 1) * tau, near.distances[:, 0]
    ahead = abs(x[ends + tau] - x[near.indices[:, 0] + E * tau])
    known = np.isfinite(ahead + distance) & (part[ends] == part[ends + tau])
    false = (ahead > ratio * distance) | (np.hypot(ahead, distance) > most)
    return false[known].mean() if known.any() else np.nan


def _one_series(series, name, segments):
    """Return one series as a vector, and the segment of each time, counted from 0; -1 outside all
    segments."""
    table, cut = timed(series, name, segments)
    columns = check_columns(table, name)
    if columns.shape[1] > 1:
        raise ShapeError(f"{name} has {columns.shape[1]} columns; expected one series")
    times = np.arange(len(columns))
    return columns[:, 0], times * 0 if cut is None else number_of(cut, times)
