"""Surrogate series, which share some properties of the given series, but not their relation to other series.

docs/edm.md describes the properties that each kind preserves; `python -m portable.models.edm calibrate`
measures the level of tests.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    InputError,
    ShapeError,
    SpaceLike,
    Whole,
    check_choice,
    check_count,
    check_seed,
    launch,
    warn,
)
from . import surrogate_kernels as kernels
from .checks import check_columns
from .search import integers
from .segments import Replicates, check_segments
from .traits import default_kinds

Kind: TypeAlias = Literal["phase", "mirror", "seasonal", "twin", "block", "random"]
SURROGATES = get_args(Kind)
SPECTRAL = ("phase", "mirror", "seasonal")
COMPLETE = (*SPECTRAL, "twin")  # kinds that require series without missing values
TEAM = 32
TEAMS_AT_A_TIME = 4  # teams launched per team that runs at a time
WORK_BYTES = 1 << 28  # upper bound of their temporary memory
LEAST_FACTOR = 4  # largest b / a of a length m = a b, since the transform takes m (a / 2 + b) steps
RECURRENT = 0.125  # share of points that are near another one (Thiel et al.: 0.05 to 0.2)
PAIRS = 20_000  # pairs of points whose distances determine the threshold of nearness
FEWEST_CYCLES = 3


def surrogates(
    series: ArrayLike,
    n_surrogates: Whole,
    method: Kind = "phase",
    *,
    period: Whole | None = None,
    block: Whole | None = None,
    E: ArrayLike = 3,
    tau: Whole = 1,
    segments: Replicates = None,
    seed: Whole = 0,
    space: SpaceLike = None,
) -> Array:
    """Generate surrogates of one or several series.

    Parameters
    ----------
    series : array-like, shape (n_times,) or (n_times, n_series); NaN is a missing value
    n_surrogates : int
        Number of surrogates of each series.
    method : {"phase", "mirror", "seasonal", "twin", "block", "random"}, default "phase"
        "phase" keeps the power spectrum, and with it the autocorrelation, and gives each frequency a random
        phase: the null hypothesis is a stationary linear process. "mirror" does the same for the series
        followed by its reverse, and uses the first half of the result, so that the different ends of a slow
        series cause no jump. "seasonal" keeps the mean cycle of `period` steps and does the same for the
        residuals. "twin" is a random walk along the attractor, which continues from a point or from any point
        with the same neighbours: another trajectory of the same dynamics, linear or not. "block" joins blocks
        of successive values. "random" shuffles, which destroys all autocorrelation: a test against it
        mistakes autocorrelated series for coupled ones.
    period : int, optional
        Steps of a cycle, for "seasonal".
    block : int, optional
        Steps of a block; by default the square root of the number of times, rounded up.
    E, tau : int
        Embedding for "twin"; E may be one number per series.
    segments : Segments or array-like, shape (n_times,), optional
        Replicates one after the other, as in `simplex`: surrogates are generated for each separately. Times
        outside all of them are NaN.
    seed : int, default 0
        Surrogate k of series c does not depend on the other surrogates and series, or on the space.
    space : str or Space, optional

    Returns
    -------
    ndarray of float64, shape (n_times, n_surrogates), or
    (n_times, n_series, n_surrogates) if `series` has two dimensions

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        An argument is invalid; the message names it. "phase", "mirror", "seasonal" and "twin" require
        complete series.

    References
    ----------
    J. Theiler et al., Physica D 58 (1992), 77, algorithm 1 ("phase"); M. Thiel et al., Europhys. Lett. 75
    (2006), 535 ("twin"); H. R. Kuensch, Ann. Stat. 17 (1989), 1217 ("block").
    """
    columns = check_columns(series, "series")
    n = check_count(n_surrogates, "n_surrogates")
    cut = None if segments is None else check_segments(segments, len(columns))
    kinds = check_kinds(columns, method, period, block, "series", cut=cut)
    with pk.use(space):
        values = Surrogates(columns, kinds, seed, block=block, E=E, tau=tau, segments=cut).values(0, n)
    return values[:, 0] if np.ndim(series) == 1 else values


class Surrogates:
    """Surrogates of several series, each with its kind, generated on request on the default space.

    Parameters
    ----------
    columns : ndarray of float64, shape (n_times, n_series)
    kinds : list of (kind, period)
        Kind and period for each series, from `check_kinds`.
    seed, block, E, tau
        As in `surrogates`.
    numbers : array of int, shape (n_series,), optional
        Numbers that identify the random streams of the series; by default 0, 1, ...
    segments : Segments, optional
    """

    def __init__(self, columns, kinds, seed, *, block=None, E=3, tau=1, numbers=None, segments=None):
        numbers = np.arange(len(kinds)) if numbers is None else np.asarray(numbers)
        E, self.shape = np.broadcast_to(np.asarray(E), len(kinds)), columns.shape
        self.parts, self.partly = [], segments is not None
        for number, (begin, end) in enumerate(segments.windows if segments else [(0, len(columns))]):
            own = seed if not number else int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
            for kind in sorted(set(kinds), key=str):
                slot = np.flatnonzero([one == kind for one in kinds])
                form = *kind, own, block, E[slot], tau, numbers[slot], slot
                self.parts.append((slice(begin, end), _OfKind(columns[begin:end, slot], *form)))

    def fill(self, table, first, n, width):
        """Store surrogates first, ..., first + n - 1 of each series c in the columns of `table` from c *
        width on.
        """
        if self.partly:
            pk.deep_copy(table, math.nan)
        for rows, part in self.parts:
            part.fill(table[rows], first, n, width)

    def values(self, first, n):
        """Return surrogates first, ..., first + n - 1 of each series, shape (n_times, n_series, n)."""
        n_times, n_series = self.shape
        table = pk.empty((n_times, n_series * n))
        self.fill(table, first, n, n)
        return table.to_numpy().reshape(n_times, n_series, n)


class _OfKind:
    """Surrogates of one kind; `slot` is the position of each series in a table."""

    def __init__(self, columns, method, period, seed, block, E, tau, numbers, slot):
        self.method, self.seed = method, check_seed(seed)
        self.n_times, self.n_series = columns.shape
        self.number, self.slot = integers(numbers), integers(slot)
        if method in SPECTRAL:
            self._transform(columns, period)
            return
        self.columns = pk.copy_of(columns)
        if method == "random":
            missing = np.isnan(columns)
            known = integers(np.argsort(missing, axis=0, kind="stable"))
            self.launch = kernels.shuffle, integers((~missing).sum(axis=0)), known
        elif method == "block":
            self.launch = kernels.draw_blocks, block_length(self.n_times, block)
        else:
            self.launch = kernels.walk_twins, *self._twins(columns, E, tau)

    def _transform(self, columns, period):
        if self.method == "mirror":
            columns = np.concatenate([columns, columns[::-1]])
        # a length of whole cycles, so that surrogates of the residuals have no season, like the residuals
        self.shape = _factors(len(columns), period or 1)
        m = self.shape[0] * self.shape[1]
        rhythm = np.zeros((1, self.n_series)) if period is None else mean_cycle(columns[:m], period)
        rest = columns[:m] - rhythm[np.arange(m) % len(rhythm)]
        amplitude = abs(np.fft.rfft(rest[:m], axis=0)).T * (2.0 / m)
        amplitude[:, 0] = rest[:m].mean(axis=0)
        if m % 2 == 0:
            amplitude[:, -1] /= 2.0
        angle = 2.0 * np.pi / m * np.arange(m)
        wave = np.stack([np.cos(angle), np.sin(angle)])
        self.spectrum = [pk.copy_of(np.ascontiguousarray(part)) for part in (amplitude, wave, rhythm)]

    def _twins(self, columns, E, tau):
        n_points = self.n_times - (E - 1) * tau
        if n_points.min() < 2:
            raise ShapeError(
                f"series of {self.n_times} times hold {n_points.min()} points with E = {E.max()} and tau = "
                f"{tau}; expected at least 2 for twins"
            )
        reach = np.empty(self.n_series)
        for c, n in enumerate(n_points.tolist()):
            a, b = np.random.default_rng(0).integers(0, n, (2, PAIRS))
            lag = np.arange(E[c])[:, None] * tau
            reach[c] = np.quantile(abs(columns[a + lag, c] - columns[b + lag, c]).max(axis=0), RECURRENT)
        prints = pk.empty((self.n_series, self.n_times), np.uint64)
        launch(prints.shape, kernels.fingerprint, integers(E), tau, pk.copy_of(reach), self.columns, prints)
        begin, twins = np.zeros((*prints.shape, 2), np.int32), np.zeros(prints.shape, np.int32)
        for c, (n, row) in enumerate(zip(n_points.tolist(), prints.to_numpy())):
            _, group = np.unique(row[:n], return_inverse=True)
            size = np.bincount(group[:-1], minlength=group.max() + 1)  # the last point has no successor
            twins[c, : n - 1] = np.argsort(group[:-1], kind="stable")
            begin[c, :n, 0], begin[c, :n, 1] = (np.cumsum(size) - size)[group], size[group]
        return tuple(map(integers, (n_points, self.n_times - n_points, begin, twins)))

    def fill(self, table, first, n, width):
        common = first, width, self.seed, self.number, self.slot
        if self.method not in SPECTRAL:
            kernel, *own = self.launch
            launch((self.n_series, n), kernel, *common, *own, self.columns, table)
            return
        m = self.shape[0] * self.shape[1]
        most = TEAMS_AT_A_TIME * pk.concurrency(), max(1, WORK_BYTES // (32 * m))
        n_teams = int(min(self.n_series * n, *most))
        work = pk.empty((n_teams, 4, m))
        launch(
            pk.TeamPolicy(n_teams, TEAM),
            kernels.rephase,
            *self.shape,
            n,
            *common,
            *self.spectrum,
            work,
            table,
        )


def check_kinds(columns, method, period, block, name, names=None, cut=None):
    """Return (kind, period) for each column: the requested one, or by the column's traits if `method` is
    None.

    cut : Segments whose surrogates are generated separately, or None
    """
    parts = [columns[b:e] for b, e in cut.windows] if cut else [columns]
    if method is None:
        check_surrogates(np.zeros((min(map(len, parts)), 1)), "phase", period, block, name)
        return default_kinds(parts, names or list(range(columns.shape[1])), name)
    for part in parts:
        check_surrogates(part, method, period, block, name, names)
    if method == "random":
        warn(
            "surrogate='random' destroys autocorrelation: up to 40 % of independent series (AR(1) "
            "with 0.9) look coupled at 5 %; 'phase' keeps it",
        )
    return [(method, period)] * columns.shape[1]


def in_words(kinds) -> str:
    """Return kinds of surrogates in words, without repetition: "phase and seasonal (12 steps)"."""
    found = [f"{kind} ({period} steps)" if period else kind for kind, period in kinds]
    return " and ".join(sorted(set(found), key=found.index))


def check_surrogates(columns, method, period, block, name, names=None):
    """Raise if surrogates of this kind cannot be generated for the columns."""
    check_choice(method, "surrogate", SURROGATES)
    n_times = len(columns)
    if method in COMPLETE and np.isnan(columns).any():
        t, c = np.argwhere(np.isnan(columns))[0].tolist()
        where = f"{name}[{t}]" if columns.shape[1] == 1 else f"{name}[{t}, {c}]"
        where += f" ({names[c]})" if names and columns.shape[1] > 1 else ""
        raise InputError(
            f"{where} is NaN; expected complete series for {method} surrogates. surrogate='block' keeps "
            "gaps, and is the default of tests for such series"
        )
    if method == "seasonal":
        if period is None:
            raise InputError(
                "surrogate='seasonal' needs period=, the steps of a cycle: 12 for months in a year"
            )
        check_count(period, "period", 2, n_times // FEWEST_CYCLES)
    for own, value, of in (("period", period, "seasonal"), ("block", block, "block")):
        if value is not None and method != of:
            raise InputError(
                f"{own} is {value!r}, but surrogate={method!r} has none; expected surrogate={of!r}, or no "
                f"{own}"
            )
    if block is not None:
        check_count(block, "block", 1, n_times)


def block_length(n_times, block):
    return int(np.ceil(np.sqrt(n_times))) if block is None else block


def mean_cycle(columns, period):
    """Return the mean of each step of the cycle minus the mean of the series, shape (period, n_series)."""
    rhythm = np.stack([columns[k::period].mean(axis=0) for k in range(period)])
    return rhythm - columns.mean(axis=0)


def _factors(n_times, period):
    """Return (a, b) with the largest a b <= n_times that is a multiple of the period and has a small b / a:
    the length of the transform, which is computed in two steps.
    """
    for m in range(n_times - n_times % period, 0, -period):
        a = next(a for a in range(int(np.sqrt(m)), 0, -1) if m % a == 0)
        if m <= LEAST_FACTOR * a * a:
            return a, m // a
    return 1, period
