"""Cross maps with a lag, to find the delay at which a target is predicted best."""

from __future__ import annotations

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    DType,
    Label,
    NumberOrArray,
    Real,
    SpaceLike,
    TableLike,
    Whole,
    check_count,
    check_seed,
)
from .checks import check_wholes
from .convergence import ends_of, p_values
from .frames import Tabled
from .problem import Problem
from .segments import Columns, Replicates, Window, Windows
from .skill import values_at
from .surrogates import Kind, block_length

AT_ONCE = 1 << 22  # predictions in memory at a time


class LaggedMap(Tabled):
    """Cross mapping skill by lag. Several targets are the first axis of all arrays except `Tp`.

    Attributes
    ----------
    Tp : ndarray of int, shape (n_lags,)
    rho : ndarray, shape (n_lags,)
    interval : ndarray, shape (2, n_lags)
        Interval of rho, by a bootstrap of blocks of successive points.
    peak : int
        The lag of the largest rho; of equal ones the first.
    peak_interval : (int, int), or ndarray, shape (n_targets, 2)
        Quantiles of the peaks of the bootstrap.
    p_values : ndarray, shape (n_lags,)
        (1 + number of surrogates with at least this rho at that lag) / (1 + number of surrogates); NaN
        without surrogates.
    peak_p : float
        The same for the largest rho over all lags: the p-value to report for the peak, since it includes the
        choice of the lag.
    targets : list of str, or None
        Names of several targets; None if they have none.
    """

    Tp: Array
    rho: Array
    interval: Array
    peak: NumberOrArray
    peak_interval: NumberOrArray
    p_values: Array
    peak_p: NumberOrArray
    targets: list[str] | None = None

    def _columns(self):
        low, high = self.interval[..., 0, :], self.interval[..., 1, :]
        parts = {"rho": self.rho, "low": low, "high": high, "p": self.p_values}
        return self._of_targets(self.rho, {"Tp": self.Tp}, parts)


def lagged_map(
    library: TableLike,
    target: TableLike | Label,
    E: Whole,
    *,
    Tp: ArrayLike = range(-8, 9),
    columns: Columns = None,
    tau: Whole = 1,
    k: Whole | None = None,
    exclusion_radius: Whole = 0,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    level: Real = 0.95,
    n_boot: Whole = 1000,
    n_surrogates: Whole = 0,
    surrogate: Kind | None = None,
    period: Whole | None = None,
    block: Whole | None = None,
    seed: Whole = 0,
    dtype: DType = "float64",
    space: SpaceLike = None,
) -> LaggedMap:
    """Compute the skill of predicting `target` from `library` for several lags, by one search for neighbours.

    If the target drives the library's series with a delay, the skill is largest at a negative Tp: the library
    contains most information about the target's past (Ye et al.). All lags use the same candidates, those
    that have a target at every lag.

    Parameters
    ----------
    library : array-like, shape (n_times,) or (n_times, n_columns); also a table of pandas or xarray
    target : array-like, shape (n_times,) or (n_times, n_targets); or names of columns of the library
    E : int
    Tp : sequence of int, default -8 to 8
        Steps from a point's last coordinate to the predicted value.
    columns, tau, k, exclusion_radius, lib, pred, valid, segments, dtype, space
        As in `simplex`.
    level : float, default 0.95
        Level of the intervals.
    n_boot : int, default 1000
        Bootstrap samples: blocks of the square root of the number of points, or whole segments where there
        are several, drawn with replacement.
    n_surrogates, surrogate, period, block
        As in `ccm`.
    seed : int, default 0

    Returns
    -------
    LaggedMap

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    H. Ye, E. R. Deyle, L. J. Gilarranz, G. Sugihara: Distinguishing time-delayed causal interactions using
    convergent cross mapping. Sci. Rep. 5 (2015), 14750.
    """
    lags = check_wholes(list(Tp) if isinstance(Tp, range) else Tp, "Tp")
    ends = int(lags.min()), int(lags.max())
    window = Window(tau, 0, k, exclusion_radius, lib, pred, valid, segments)
    problem = Problem(library, columns, target, None, E, window, dtype, ends)
    bounds, n_boot = ends_of(level), check_count(n_boot, "n_boot")
    kinds = problem.kinds(n_surrogates, surrogate, period, block)
    check_seed(seed)
    times, still = problem.points[:, None] + lags, problem.still()
    found = []
    with pk.use(space):
        near = problem.search(problem.k)
        for target, kind in zip(problem.given.T, kinds):
            of_surrogates = np.full((len(lags), n_surrogates), np.nan)
            if n_surrogates:
                made = problem.surrogates(target[:, None], [kind], seed, block)
                each = int(max(1, AT_ONCE // times.size))
                for first in range(0, n_surrogates, each):
                    values = made.values(first, min(each, n_surrogates - first))[:, 0]
                    skill = _skill(*_at_lags(problem, near, values, lags, times))
                    of_surrogates[:, first : first + each] = skill.reshape(-1, len(lags)).T
            pair = _at_lags(problem, near, target[:, None], lags, times)
            weights = _weights(problem.parts, len(times), n_boot, np.random.default_rng(seed))
            found.append(_peaked(lags, *pair, of_surrogates, weights, bounds, still))
    return LaggedMap(lags, *(map(np.array, zip(*found)) if problem.several else found[0]), problem.names)


def _at_lags(problem, near, columns, lags, times):
    """Return predictions of columns at each lag, and the observations, each of shape (n_points, n_columns *
    n_lags)."""
    columns = problem.places.spread(columns)
    shifted = values_at(columns, np.arange(len(columns))[:, None] + lags)
    return problem.unpacked(problem.projected(*near, shifted))[0], values_at(columns, times)


def _peaked(lags, predicted, observed, of_surrogates, weights, bounds, still):
    """Return the fields of the LaggedMap of one target, from `rho` on."""
    rho, nothing = _skill(predicted, observed), np.full(len(lags), np.nan)
    if still or np.isnan(rho).all():
        return nothing, np.stack([nothing, nothing]), 0, (0, 0), nothing, float("nan")
    drawn = _correlations(weights, *_moments(predicted, observed))
    with np.errstate(invalid="ignore"):
        interval = np.nanquantile(drawn, bounds, axis=0)
    peaks = lags[np.argmax(np.where(np.isnan(drawn), -np.inf, drawn), axis=1)]
    low, high = np.quantile(peaks, bounds, method="nearest").tolist()
    best = np.where(np.isnan(of_surrogates), -np.inf, of_surrogates).max(axis=0, initial=-np.inf)
    peak_p = p_values(np.nanmax(rho), np.where(np.isfinite(best), best, np.nan))
    peak = int(lags[np.nanargmax(rho)])
    return rho, interval, peak, (low, high), p_values(rho, of_surrogates), float(peak_p)


def _skill(predicted, observed):
    """Return Pearson's correlation of each pair of columns, over the rows without NaN."""
    return _correlations(np.ones((1, len(predicted))), *_moments(predicted, observed))[0]


def _moments(predicted, observed):
    """Return the terms of the sums of Pearson's correlation for each point, centred and scaled."""
    known = np.isfinite(predicted) & np.isfinite(observed)
    count = np.maximum(known.sum(axis=0), 1)
    p, o = (np.where(known, v, 0.0) for v in (predicted, observed))
    p, o = (np.where(known, v - v.sum(axis=0) / count, 0.0) for v in (p, o))
    p, o = (v / np.where(abs(v).max(axis=0) > 0, abs(v).max(axis=0), 1.0) for v in (p, o))
    return known.astype(float), p, o, p * p, o * o, p * o


def _correlations(weights, n, p, o, pp, oo, po):
    """Return Pearson's correlations of points with `weights`, shape (n_samples, n_columns)."""
    n, p, o, pp, oo, po = (weights @ v for v in (n, p, o, pp, oo, po))
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = (pp - p * p / n) * (oo - o * o / n)
        return np.where(spread > 0, (po - p * o / n) / np.sqrt(spread), np.nan)


def _weights(parts, n, n_boot, random):
    """Return the number of times that each bootstrap sample contains each of n points, shape (n_boot, n).

    parts : the segment of each point, or None for blocks
    """
    if parts is not None and (names := np.unique(parts)).size > 1:
        drawn = random.multinomial(names.size, np.full(names.size, 1 / names.size), n_boot)
        return drawn[:, np.searchsorted(names, parts)].astype(float)
    length = block_length(n, None)
    starts, weights = random.integers(0, n, (n_boot, -(-n // length))), np.zeros((n_boot, n))
    for step in range(length):
        taken = starts if step < length - (-n % length) else starts[:, :-1]  # the last block is shorter
        np.add.at(weights, (np.arange(n_boot)[:, None], (taken + step) % n), 1.0)
    return weights
