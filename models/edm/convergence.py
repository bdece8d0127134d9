"""Convergent cross mapping, and tests of convergence."""

from __future__ import annotations

import warnings

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    ClientLike,
    DType,
    InputError,
    Label,
    Result,
    Spaces,
    TableLike,
    Whole,
    bar,
    check_count,
    check_flag,
    check_share,
    connected,
    generator_of,
    local_space,
    warn,
)
from .checks import check_library_sizes
from .cross import STEPS
from .frames import Tabled
from .mapping import Sets, mapped_in_steps
from .problem import Problem
from .segments import Columns, Replicates, Window, Windows
from .surrogates import Kind

N_BOOT = 1000
_TOGETHER = 8  # samples per shard


class Convergence(Tabled):
    """Cross mapping skill by library size. Arrays of several targets have the targets as their first axis.

    Attributes
    ----------
    library_sizes : ndarray of int, shape (n_sizes,)
    rho : ndarray, shape (n_sizes, n_samples)
        Skill of every sample; NaN if its predictions do not vary, as with rare events and small libraries.
    surrogate_rho : ndarray, shape (n_sizes, n_surrogates)
        Mean over the samples with a finite skill, for each surrogate target.
    p_values : ndarray, shape (n_sizes,)
        (1 + number of surrogates with at least the target's skill) / (1 + number of surrogates with a skill).
        NaN without surrogates, or if the target has no skill.
    targets : list of str, or None
        Names of several targets; None if they have none.
    """

    library_sizes: Array
    rho: Array
    surrogate_rho: Array
    p_values: Array
    targets: list[str] | None = None

    def _columns(self, level=0.95):
        parts = {"rho": self.mean, **dict(zip(("low", "high"), self.interval(level))), "p": self.p_values}
        return self._of_targets(self.mean, {"library_size": self.library_sizes}, parts)

    @property
    def mean(self) -> Array:
        """Mean over the samples with a finite skill, shape (n_sizes,)."""
        return _mean(self.rho)

    def interval(self, level: float = 0.95) -> Array:
        """Return the quantiles that enclose a central share of the samples of each library size.

        Parameters
        ----------
        level : float, default 0.95
            Share of the samples between the quantiles, from 0 to 1.

        Returns
        -------
        ndarray, shape (2, n_sizes), or (2, n_targets, n_sizes) of several targets

        Raises
        ------
        InputError, DTypeError, FiniteError
            `level` is not between 0 and 1.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN")
            return np.nanquantile(self.rho, ends_of(level), axis=-1)

    def test(self, level: float = 0.95, seed: int = 0) -> ConvergenceTest:
        """Test by three statistics whether skill increases with library size.

        Parameters
        ----------
        level : float, default 0.95
            Level of the intervals, by a bootstrap over the samples of each size. They describe the
            uncertainty of the mean skill of this series from the drawn libraries, not the variation between
            series of the same system.
        seed : int, default 0

        Returns
        -------
        ConvergenceTest

        Raises
        ------
        InputError
            There is only one library size.
        """
        if len(self.library_sizes) < 2:
            raise InputError("library_sizes has one size; expected at least two")
        random, (low, high) = generator_of(seed), ends_of(level)
        n = self.rho.shape[-1]
        drawn = np.stack([_mean(self.rho[..., random.integers(0, n, n)]) for _ in range(N_BOOT)])
        several = self.mean, drawn, np.moveaxis(self.surrogate_rho, -1, 0)
        own, bootstrap, surrogate = (_trends(self.library_sizes, one) for one in several)
        p = [p_values(value, np.moveaxis(of, 0, -1)) for value, of in zip(own, surrogate)]
        slope, _, difference = (np.quantile(values, [low, high], axis=0) for values in bootstrap)
        return ConvergenceTest(own[0], slope, p[0], own[1], p[1], own[2], difference, p[2])


class ConvergenceTest(Result):
    """Changes of skill with library size. Numbers, or arrays with one entry per target.

    Attributes
    ----------
    slope
        Slope of mean skill against the logarithm of the size, by least squares.
    slope_interval : shape (2,)
    slope_p
        (1 + number of surrogates with at least this slope) / (1 + number of surrogates); NaN without
        surrogates.
    tau
        Kendall's tau of mean skill and size.
    tau_p
    difference
        Mean skill of the largest library minus that of the smallest.
    difference_interval : shape (2,)
    difference_p
    """

    slope: Array
    slope_interval: Array
    slope_p: Array
    tau: Array
    tau_p: Array
    difference: Array
    difference_interval: Array
    difference_p: Array


def _trends(sizes, mean):
    """Return slope, tau and difference along the last axis of mean skills."""
    order = np.argsort(sizes, kind="stable")
    mean, x = mean[..., order], np.log(sizes[order])
    x = x - x.mean()
    slope = (mean * x).sum(axis=-1) / (x * x).sum() if (x != 0).any() else np.full(mean.shape[:-1], np.nan)
    i, j = np.triu_indices(len(x), 1)
    rises = np.sign(mean[..., j] - mean[..., i]) * np.sign(x[j] - x[i])
    ties = np.sqrt((rises != 0).sum(axis=-1) * (x[j] != x[i]).sum())
    tau = np.divide(rises.sum(axis=-1), ties, out=np.full(mean.shape[:-1], np.nan), where=ties > 0)
    return slope, tau, mean[..., -1] - mean[..., 0]


def ends_of(level):
    level = check_share(level, "level")
    return (1 - level) / 2, (1 + level) / 2


def ccm(
    library: TableLike,
    target: TableLike | Label,
    E: Whole,
    *,
    library_sizes: ArrayLike,
    columns: Columns = None,
    n_samples: Whole = 100,
    tau: Whole = 1,
    Tp: Whole = 0,
    k: Whole | None = None,
    exclusion_radius: Whole = 0,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    n_surrogates: Whole = 0,
    surrogate: Kind | None = None,
    period: Whole | None = None,
    block: Whole | None = None,
    seed: Whole = 0,
    dtype: DType = "float32",
    progress: bool = False,
    space: Spaces = None,
    client: ClientLike = None,
) -> Convergence:
    """Compute convergent cross mapping: the skill of predicting `target` from random subsets of `library`, by
    size.

    If the target drives the library's series, the skill increases with the size and exceeds that of
    surrogates.

    Parameters
    ----------
    library : array-like, shape (n_times,) or (n_times, n_columns)
        With several columns, a point is E lags of each. Also a table of pandas or xarray.
    target : array-like, shape (n_times,) or (n_times, n_targets); or names of columns of the library
    E : int
    library_sizes : sequence of int
        Numbers of embedded points in a library, from k = E + 1 to the number of all candidates.
    columns : str, int or a sequence of them, optional
        Columns of a table that are embedded.
    n_samples : int, default 100
        Libraries of each size, drawn without replacement, all sets of points equally likely.
    tau, Tp, k, exclusion_radius
        As in `cross_map`.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times from which libraries are drawn, and of the points that are predicted; as in
        `simplex`.
    valid, segments
        As in `simplex`; libraries are drawn from the points of all segments.
    n_surrogates : int, default 0
        Surrogates of each target, for p-values.
    surrogate : {"phase", "mirror", "seasonal", "twin", "block", "random"}, optional
        Kind of surrogates. By default it follows from the traits of each target: "seasonal" for a season,
        "block" for rare bursts or gaps, "mirror" for a possible drift (with a warning), else "phase".
    period, block : int, optional
        As in `surrogates`.
    seed : int, default 0
    dtype : {"float32", "float64"}
    progress : bool
        Show a bar on standard error.
    space : str, Space or a list of them, optional
        With a list, such as several GPUs, the samples are distributed over the spaces.
    client : distributed.Client or "local", optional
        A Dask client over whose workers the samples are distributed; each worker receives the series.

    Returns
    -------
    Convergence

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    Sugihara et al., Science 338 (2012), 496.
    """
    window = Window(tau, Tp, k, exclusion_radius, lib, pred, valid, segments)
    problem = Problem(library, columns, target, None, E, window, dtype)
    n_samples = check_count(n_samples, "n_samples")
    check_flag(progress, "progress")
    kinds = problem.kinds(n_surrogates, surrogate, period, block)
    random = generator_of(seed)
    sizes = check_library_sizes(library_sizes, len(problem.valid), problem.k)
    n_targets, n_series = problem.given.shape[1], 1 + n_surrogates
    with connected(client) as client, pk.use(local_space(client, space)):
        table = problem.given[:, :, None]
        if n_surrogates:
            made = problem.surrogates(problem.given, kinds, seed, block)
            table = np.concatenate([table, made.values(0, n_surrogates)], axis=2)
        table = problem.places.spread(np.ascontiguousarray(table.reshape(problem.n_times, -1)))
        args = (
            problem.masked,
            problem.columns,
            table,
            np.full(table.shape[1], problem.E),
            problem.window,
            problem.columns.shape[1],
            dtype,
        )
        pieces = [
            Sets(np.zeros(n, int), _draw_libraries(random, problem.valid, size, n))
            for size in sizes.tolist()
            for n in (min(_TOGETHER, n_samples - begin) for begin in range(0, n_samples, _TOGETHER))
        ]
        where = {"client": client, "space": space, "room": 0.0, "label": "ccm"}
        together, found = -(-len(pieces) // STEPS) if progress else len(pieces), []
        with bar(progress) as shown:
            task = shown.add_task("samples", total=len(sizes) * n_samples)
            for _, some in mapped_in_steps((args, None), pieces, together, **where):
                found += some
                shown.advance(task, sum(map(len, some)))
        rho = np.concatenate(found).reshape(len(sizes), n_samples, n_targets * n_series)
    rho = np.moveaxis(rho.reshape(len(sizes), n_samples, n_targets, n_series), 2, 0)
    still = problem.still()
    own = rho[..., 0]
    if still:
        rho[...] = np.nan
    elif np.isnan(own).any():
        warn(
            f"{np.isnan(own).sum()} of {own.size} samples have no skill, since their predictions do not "
            "vary: means, bands and p-values use the others",
        )
    mean = _mean(np.moveaxis(rho, 2, -1))
    found = own, mean[..., 1:], p_values(mean[..., 0], mean[..., 1:])
    return Convergence(sizes, *(found if problem.several else (v[0] for v in found)), problem.names)


def _draw_libraries(random, times, size, n):
    """Draw n libraries of `size` times, all sets of times equally likely, shape (n, size)."""
    return np.stack([np.sort(random.choice(times, size, replace=False)) for _ in range(n)])


def _mean(rho):
    """Return the mean over the last axis without NaN; NaN if all are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice")
        return np.nanmean(rho, axis=-1)


def p_values(value, of_surrogates) -> Array:
    """Return the p-values (1 + number of surrogates with at least the target's value) / (1 + number of
    surrogates with a finite value); surrogates are the last axis.

    NaN if the target's value is NaN, or all those of surrogates are.
    """
    value, known = np.asarray(value), np.isfinite(of_surrogates)
    at_least = (known & (of_surrogates >= value[..., None])).sum(axis=-1)
    return np.where(
        np.isfinite(value) & known.any(axis=-1), (1 + at_least) / (1 + known.sum(axis=-1)), np.nan
    )
