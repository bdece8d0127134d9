"""The embedding dimension by a sweep, and convergent cross mapping."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import InputError

from ..checks import check_choice, check_count, check_number, check_seed
from .checks import (
    DTYPES,
    check_library_sizes,
    check_series,
    check_windows,
    without_variation,
)
from .mapping import Mapping
from .neighbours import MEMORY_BYTES, Problem
from .surrogates import SURROGATES, surrogates


@dataclass(frozen=True)
class Dimensions:
    """Simplex skill for each embedding dimension.

    Attributes
    ----------
    E : ndarray of int, shape (E_max,)
    rho : ndarray, shape (E_max,)
    best : int
        The smallest E of the largest rho.
    """

    E: np.ndarray
    rho: np.ndarray
    best: int


def embedding_dimension(library, E_max=20, *, tau=1, Tp=1, target=None, points=None, exclusion_radius=0, lib=None, pred=None,
                        dtype="float64", space=None):
    """Simplex skill for E = 1 to E_max, from one pass over the distances, and the best E.

    Parameters
    ----------
    library : array-like, shape (n_times,)
    E_max : int, default 20
    tau, Tp, target, points, exclusion_radius, lib, pred, dtype, space
        As in `simplex`.

    Returns
    -------
    Dimensions

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
    """
    check_series(library, "library")
    problem = Problem(library, points, check_count(E_max, "E_max"), tau, Tp, None, exclusion_radius, lib, pred, dtype)
    given = target is not None
    target = check_series(target, "target", problem.n_times) if given else problem.columns[:, 0]
    dims = np.arange(1, problem.E + 1)
    observed = target if problem.same or given else problem.point_columns[:, 0]
    windows = check_windows(pred, "pred", len(problem.point_columns))
    with pk.use(pk.default_space() if space is None else space):
        mapping = Mapping(problem.masked, problem.columns if problem.same else problem.point_columns, target[:, None], dims,
                          problem.lag, problem.Tp, windows, -1 if problem.radius is None else problem.radius, dtype,
                          MEMORY_BYTES, observed=observed[:, None])
        rho = mapping.run(np.zeros(1, int), problem.candidates[None])[0]
    if without_variation(library=problem.columns, target=target if given else None):
        rho[:] = np.nan
    best = int(dims[np.nanargmax(rho)]) if np.isfinite(rho).any() else 0
    return Dimensions(dims, rho, best)


@dataclass(frozen=True)
class Convergence:
    """Cross mapping skill against library size.

    Attributes
    ----------
    library_sizes : ndarray of int, shape (n_sizes,)
    rho : ndarray, shape (n_sizes, n_samples)
        Of every sample; NaN where what it predicts does not vary, as happens with rare events and small libraries.
    surrogate_rho : ndarray, shape (n_sizes, n_surrogates)
        Mean over the samples that have a skill, for each surrogate target.
    p_values : ndarray, shape (n_sizes,)
        Share of surrogates, and the target itself, that do at least as well as the target; surrogates without any skill do
        not count. NaN without surrogates, or where the target has no skill.
    """

    library_sizes: np.ndarray
    rho: np.ndarray
    surrogate_rho: np.ndarray
    p_values: np.ndarray

    @property
    def mean(self):
        """Mean over the samples that have a skill, shape (n_sizes,)."""
        return _mean(self.rho)

    @property
    def n_defined(self):
        """How many samples have a skill, shape (n_sizes,)."""
        return np.isfinite(self.rho).sum(axis=1)

    def band(self, level=0.95):
        """Quantiles of the samples that hold a share `level` of them, more than 0 and at most 1, shape (2, n_sizes)."""
        if check_number(level, "level", above=0.0) > 1.0:
            raise InputError(f"level is {level}; a share of at most 1 is wanted: 0.95 for 95 %")
        return np.nanquantile(self.rho, [(1 - level) / 2, (1 + level) / 2], axis=1)


def ccm(library, target, E, *, library_sizes, n_samples=100, tau=1, Tp=0, exclusion_radius=0, n_surrogates=0,
        surrogate="random", seed=0, dtype="float32", space=None):
    """Convergent cross mapping: skill of predicting `target` from random parts of `library`, for growing parts.

    If the target drives the library's series, the skill rises with the size and stays above that of surrogates.

    Parameters
    ----------
    library, target : array-like, shape (n_times,)
    E : int
    library_sizes : sequence of int
        Embedded points in a library, from k = E + 1 to as many as there are.
    n_samples : int, default 100
        Libraries of each size, drawn without replacement, each set of points as likely as any other.
    tau, Tp, exclusion_radius
        As in `cross_map`.
    n_surrogates : int, default 0
        Targets without the relation to be tested, for p-values.
    surrogate : {"random", "phase"}
        "random" shuffles the target; "phase" keeps its spectrum and distribution.
    seed : int, default 0
    dtype : {"float32", "float64"}
    space : str or Space, optional

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
    check_series(library, "library")
    problem = Problem(library, None, E, tau, Tp, None, exclusion_radius, None, None, dtype)
    target = check_series(target, "target", problem.n_times)
    n_samples, n_surrogates = check_count(n_samples, "n_samples"), check_count(n_surrogates, "n_surrogates", 0)
    check_choice(surrogate, "surrogate", SURROGATES)
    check_choice(dtype, "dtype", DTYPES)
    random = np.random.default_rng(check_seed(seed))
    valid = problem.candidates[problem.known_at(problem.masked)[problem.candidates]]
    sizes = check_library_sizes(library_sizes, len(valid), problem.k)
    targets = np.column_stack([target, *surrogates(target, n_surrogates, surrogate, random)])
    dims = np.full(targets.shape[1], problem.E)
    rho = np.empty((len(sizes), n_samples, len(dims)))
    with pk.use(pk.default_space() if space is None else space):
        mapping = Mapping(problem.columns, problem.columns, targets, dims, problem.lag, problem.Tp, [(0, problem.n_times)],
                          problem.radius, dtype, MEMORY_BYTES)
        for s, size in enumerate(sizes.tolist()):
            times = np.stack([np.sort(random.choice(valid, size, replace=False)) for _ in range(n_samples)])
            rho[s] = mapping.run(np.zeros(n_samples, int), times)
    if without_variation(library=problem.columns, target=target):
        rho[:] = np.nan
    elif np.isnan(rho[:, :, 0]).any():
        warnings.warn(f"{np.isnan(rho[:, :, 0]).sum()} of {rho[:, :, 0].size} samples have no skill, since their predictions do "
                      "not vary: means, bands and p-values are of the others", RuntimeWarning, stacklevel=2)
    mean = _mean(rho)
    return Convergence(sizes, rho[:, :, 0], mean[:, 1:], p_values(mean[:, 0], mean[:, 1:]))


def _mean(rho):
    """Mean over the samples (axis 1) that are no NaN; NaN where there is none."""
    known = np.isfinite(rho)
    count = known.sum(axis=1)
    total = np.where(known, rho, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def p_values(value, of_surrogates):
    """Share of surrogates (axis 1), and the target itself, that do at least as well; those without a skill do not count.

    NaN where the target has no skill, or no surrogate has one.
    """
    known = np.isfinite(of_surrogates)
    at_least = (known & (of_surrogates >= value[:, None])).sum(axis=1)
    return np.where(np.isfinite(value) & known.any(axis=1), (1 + at_least) / (1 + known.sum(axis=1)), np.nan)
