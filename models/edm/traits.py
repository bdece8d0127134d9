"""Traits of a series that determine the default kind of its surrogates: a season, rare bursts, a drift."""

from __future__ import annotations

import math

import numpy as np

from ..shared import ArrayLike, Result, as_numbers, warn
from .search import power_of_two

SHORTEST_PERIOD = 3.0  # steps
FEWEST_CYCLES = 4
LINE = 0.001  # false-alarm rate of a line in a smooth spectrum, over all frequencies of all series
LINE_SHARE = 0.05  # smallest share of the variance in the line of a season
OCTAVES = 0.6  # to either side of a frequency: the range whose powers estimate a smooth spectrum there
FEWEST_BESIDE = 6
SAME_VALUE = 0.3  # smallest share of the times with one value in an intermittent series
# smallest share of the squares about the median in the given share of the times (normal distribution: 0.16)
BURST_TIMES, BURST_SHARE = 0.025, 0.5
# Dickey and Fuller's statistic above which a unit root is not rejected at 10 %, and lags of the test
UNIT_ROOT, UNIT_ROOT_LAGS = -2.57, 4


class Traits(Result):
    """Traits of a series.

    Attributes
    ----------
    period : int
        Steps of a cycle with a significant line in the spectrum; 0 if there is none.
    intermittent : bool
        True if 30 % of the times have the same value, or 2.5 % of the times contribute half of the squares
        about the median.
    drifting : bool
        True if an augmented Dickey-Fuller test does not reject a random walk at 10 %.
    """

    period: int
    intermittent: bool
    drifting: bool


def traits(series: ArrayLike, n_series: int = 1) -> Traits:
    """Determine the traits of a series from its known values.

    Parameters
    ----------
    series : array-like, shape (n_times,)
        NaN is a missing value.
    n_series : int, default 1
        Number of series in the table: by chance, a season is found in one of 1,000 tables.

    Returns
    -------
    Traits
    """
    series = as_numbers(series, "series", 1).astype(np.float64)
    known = series[np.isfinite(series)]
    if len(known) < 4 * FEWEST_BESIDE or known.min() == known.max():
        return Traits(0, False, False)
    known /= power_of_two(abs(known).max())  # squares of large or small numbers are no numbers
    known = (known - known.mean()) / known.std()
    return Traits(_season(known, LINE / n_series), _is_intermittent(known), _drifts(known))


def _season(x, line):
    """Return the steps of a cycle: the least common multiple of the period of the highest line and of those
    found after its cycle is removed, since a season of any shape has lines at fractions of its period.
    """
    season = found = _period(x, line)
    while found:
        cycle = np.array([x[k::season].mean() for k in range(season)])
        found = _period(x - cycle[np.arange(len(x)) % season], line)
        both = math.lcm(season, found) if found else season
        if both == season or both > len(x) // FEWEST_CYCLES:
            break
        season = both
    return season


def _period(x, line):
    """Return the period of the line in the spectrum with the largest ratio to the median of its neighbours; 0
    if it is not significant.
    """
    n = len(x)
    power = abs(np.fft.rfft((x - x.mean()) * np.hanning(n))) ** 2
    power[0] = 0.0
    lines = np.convolve(power, np.ones(5), mode="same")  # the window spreads a line over adjacent frequencies
    tall = np.flatnonzero(lines >= LINE_SHARE * power.sum())
    best, where = 0.0, 0
    for k in tall[(tall >= FEWEST_CYCLES) & (tall <= n / SHORTEST_PERIOD)].tolist():
        low = max(min(int(k * 2.0**-OCTAVES), k - FEWEST_BESIDE), 1)
        high = max(int(k * 2.0**OCTAVES), k + FEWEST_BESIDE)
        beside = np.concatenate([power[low : max(k - 2, low)], power[k + 3 : high + 1]])
        # powers are exponentially distributed
        level = np.median(beside) / np.log(2.0) if len(beside) >= FEWEST_BESIDE else 0.0
        if level > 0.0 and power[k] / level > best:
            best, where = power[k] / level, k
    if best < 1.5 * np.log(n / (2.0 * line)):  # a margin of half, since the level is an estimate
        return 0
    around = slice(where - 1, where + 2)
    return max(2, int(round(n * power[around].sum() / (np.arange(len(power))[around] * power[around]).sum())))


def _is_intermittent(x):
    squares = np.sort((x - np.median(x)) ** 2)[::-1]
    bursts = squares[: max(1, int(BURST_TIMES * len(x)))].sum() >= BURST_SHARE * squares.sum()
    return bool(bursts or np.unique(x, return_counts=True)[1].max() >= SAME_VALUE * len(x))


def _drifts(x):
    """Return True if an augmented Dickey-Fuller test with a constant does not reject a unit root."""
    steps, p = np.diff(x), UNIT_ROOT_LAGS
    wanted = steps[p:]
    given = np.column_stack(
        [x[p:-1], np.ones(len(wanted)), *(steps[p - lag : -lag] for lag in range(1, p + 1))]
    )
    solution, residuals, rank, _ = np.linalg.lstsq(given, wanted, rcond=None)
    if rank < given.shape[1] or not residuals.size or residuals[0] <= 1e-20 * len(wanted):
        return False
    variance = residuals[0] / (len(wanted) - rank) * np.linalg.inv(given.T @ given)[0, 0]
    return bool(solution[0] / np.sqrt(variance) > UNIT_ROOT)


def default_kinds(parts, names, name):
    """Return (kind of surrogates, period) for each column by its traits, with a warning for doubtful ones.

    parts : ndarrays of the segments, shape (n_times, n_series); a season or drift must be in most of them
    """
    kinds = [_kind_of(columns, len(names)) for columns in zip(*(part.T for part in parts))]
    drifting = [label for label, (kind, _) in zip(names, kinds) if kind == "mirror"]
    periods = [period for _, period in kinds if period]
    if periods:  # others may have the season too weakly to be detected; it does no harm to series without it
        shared = max(set(periods), key=periods.count)
        kinds = [("seasonal", shared) if kind == ("phase", None) else kind for kind in kinds]
    if drifting:
        some = ", ".join(map(repr, drifting[:3])) + f" and {len(drifting) - 3} more" * (len(drifting) > 3)
        warn(
            f"{name}: {some} may drift as a random walk, for which no surrogates are valid: "
            "up to 10 % of independent walks look coupled at 5 %. Use differences",
        )
    return kinds


def _kind_of(columns, n_series):
    """Return (kind of surrogates, period) for the segments of a series."""
    found, whole = [traits(column, n_series) for column in columns], np.concatenate(columns)
    periods = [one.period for one in found]
    period, shortest = max(set(periods), key=periods.count), min(map(len, columns))
    if np.isnan(whole).any() or (found[0] if len(found) == 1 else traits(whole)).intermittent:
        return "block", None  # blocks preserve gaps and bursts
    if period and shortest >= 3 * period:
        return "seasonal", period
    return "mirror" if 2 * sum(one.drifting for one in found) > len(found) else "phase", None
