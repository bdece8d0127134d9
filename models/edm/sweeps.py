"""Simplex skill for a range of embedding dimensions."""

from __future__ import annotations

import numpy as np

import portable as pk

from ..shared import Array, ArrayLike, DType, Label, NumberOrArray, SpaceLike, TableLike, Whole, check_count
from . import plans
from .frames import Tabled
from .mapping import Mapping
from .problem import Problem
from .search import on_the_host
from .segments import Columns, Replicates, Window, Windows


class Dimensions(Tabled):
    """Simplex skill for each embedding dimension. Several targets are the first axis of `rho` and of `best`.

    Attributes
    ----------
    E : ndarray of int, shape (E_max,)
    rho : ndarray, shape (E_max,)
    best : int, or ndarray of int, shape (n_targets,)
        The smallest E with the largest rho; 0 if there is no finite rho.
    targets : list of str, or None
        Names of several targets; None if they have none.
    """

    E: Array
    rho: Array
    best: NumberOrArray
    targets: list[str] | None = None

    def _columns(self):
        return self._of_targets(self.rho, {"E": self.E}, {"rho": self.rho})


def embedding_dimension(
    library: TableLike,
    E_max: Whole = 20,
    *,
    columns: Columns = None,
    tau: Whole = 1,
    Tp: Whole = 1,
    target: TableLike | Label | None = None,
    points: TableLike | None = None,
    exclusion_radius: Whole = 0,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float64",
    space: SpaceLike = None,
) -> Dimensions:
    """Compute the simplex skill for E = 1 to E_max by one pass over the distances, and the best E.

    Parameters
    ----------
    library : array-like, shape (n_times,) or (n_times, n_columns)
        With several columns, a point is E lags of each.
    E_max : int, default 20
        The largest embedding dimension that is tried.
    columns, tau, Tp, target, points, exclusion_radius, lib, pred, valid, segments, dtype, space
        As in `simplex`.

    Returns
    -------
    Dimensions

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
    """
    window = Window(tau, Tp, None, exclusion_radius, lib, pred, valid, segments)
    problem = Problem(library, columns, target, points, check_count(E_max, "E_max"), window, dtype)
    with pk.use(space):
        rho = np.array([_skill(problem, values[:, None]) for values in problem.target.T])
    if problem.still():
        rho[:] = np.nan
    dims = np.arange(1, problem.E + 1)
    best = np.array([dims[np.nanargmax(one)] if np.isfinite(one).any() else 0 for one in rho])
    found = (rho, best) if problem.several else (rho[0], int(best[0]))
    return Dimensions(dims, *found, problem.names)


def _skill(problem, target):
    """Return rho of one target by E, shape (E_max,); launches are reused for the next series."""
    arrays = problem.inputs | {"target": target}
    own = problem.same or problem.given is not None

    def compute(*views):
        found = dict(zip(arrays, views))
        points = found.get("points", found["library"])
        mapping = Mapping(
            found.get("masked", found["library"]),
            points,
            found["target"],
            np.arange(1, problem.E + 1),
            problem.window,
            problem.columns.shape[1],
            problem.dtype,
            observed=None if own else points[:, :1],
        )
        mapping.run(np.zeros(1, int), problem.candidates[None])
        return mapping.rho

    form = "sweep", problem.form, own, *arrays
    return on_the_host(plans.run_planned(form, list(arrays.values()), compute))[0]
