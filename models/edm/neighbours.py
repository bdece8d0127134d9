"""All nearest neighbours, and simplex projection from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import portable as pk

from ..shared.annotations import Label, NumberOrArray, TableLike, Whole
from . import frames
from .checks import DType
from .problem import problem_of
from .search import using
from .segments import Replicates, Windows


@dataclass(frozen=True)
class Neighbours(frames.Tabled):
    """The k nearest neighbours of embedded points.

    Attributes
    ----------
    distances : ndarray, shape (n_points, k), ascending
        Euclidean, in units of the library; NaN where the point itself has a missing coordinate.
    indices : ndarray of int, shape (n_points, k)
        Rows of the library's embedding: row i is (x[i], x[i + tau], ..., x[i + (E - 1) tau]). Ties in the
        order of rows; -1 where the distance is NaN.
    points : ndarray of int, shape (n_points,)
        Rows of the queried embedding.
    index : ndarray or None, shape (n_points,)
        What the queried table calls the times at which these points end, such as dates.
    """

    distances: np.ndarray
    indices: np.ndarray
    points: np.ndarray
    index: np.ndarray | Any = None

    def _columns(self):
        n_points, k = self.indices.shape
        return {
            "point": np.repeat(self.points, k),
            "rank": np.tile(np.arange(1, k + 1), n_points),
            "index": self.indices.ravel(),
            "distance": self.distances.ravel(),
        }


@dataclass(frozen=True)
class Prediction(frames.Tabled):
    """Predicted values.

    Attributes
    ----------
    predicted : ndarray, shape (n_points,), or (n_points, n_targets) of several targets
        NaN where the point has a missing coordinate, or a neighbour a missing target.
    observed : ndarray, of that shape
        The target's value at the same time; NaN beyond its end or where missing.
    variance : ndarray, of that shape
        Weighted mean square of the neighbours' targets about the prediction.
    times : ndarray of int, shape (n_points,)
        Of what was predicted, Tp after the last coordinate of a point.
    rho : float, or ndarray of shape (n_targets,)
        Pearson's correlation of predicted and observed, where both are known; NaN, with a RuntimeWarning, if
        library or target does not vary.
    index : ndarray or None, shape (n_points,)
        What the library's table calls these times, such as dates.
    targets : list of str, or None
        Names of several targets, where they have any.
    segments : ndarray of str or None, shape (n_points,)
        Names of the segments in which the points lie.
    """

    predicted: np.ndarray
    observed: np.ndarray
    variance: np.ndarray
    times: np.ndarray
    rho: NumberOrArray
    index: np.ndarray | Any = None
    targets: list[str] | None = None
    segments: np.ndarray | Any = None

    def _columns(self):
        parts = {name: getattr(self, name).T for name in ("observed", "predicted", "variance")}
        return self._of_targets(self.predicted.T, self._segment() | {"time": self._times()}, parts)


def knn(
    library: TableLike,
    E: Whole = 1,
    *,
    columns: Label | Sequence[Label] | None = None,
    tau: Whole = 1,
    k: Whole | None = None,
    points: TableLike | None = None,
    Tp: Whole = 0,
    exclusion_radius: Whole = 0,
    lib: Windows | None = None,
    pred: Windows | None = None,
    valid: npt.ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float64",
    space: pk.SpaceLike | None = None,
) -> Neighbours:
    """Return the k nearest neighbours of each embedded point.

    Parameters
    ----------
    library : array-like, shape (n_times,) or (n_times, n_columns)
        With several columns, a point is E lags of each; E = 1 takes the columns as they are. NaN is a missing
        value: points that would need it are no candidates. Also a table of pandas or xarray.
    columns : str, int or a sequence of them, optional
        Of a table: what is embedded; all its columns if not given.
    E : int, at least 1
        Embedding dimension.
    tau : int, default 1
        Steps between the coordinates of a point.
    k : int, optional
        Neighbours; E + 1 if not given.
    points : array-like, shape (n_times_2,) or (n_times_2, n_columns), optional
        Series whose points are queried; the library itself if not given. Then a point is no neighbour of
        itself, nor is it where this series is found in the library, from one row to another.
    Tp : int, default 0
        Candidates whose time, Tp later, lies outside the library are left out.
    exclusion_radius : int, default 0
        Candidates at most so many times from the point, in its own segment, are left out (where the library
        queries itself).
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points. A candidate's coordinates, and its target, all lie in one
        window. Where two windows touch, a segment ends and another begins: no point and no target reaches
        across. Windows that overlap are one.
    valid : array-like of bool, shape (n_times,), optional
        Times at which a candidate may end; all if not given. It takes no coordinate from others, as NaN
        would.
    segments : Segments, str or array-like, shape (n_times,), optional
        Replicates one behind the other: `Segments`, the column of a table that names the replicate of each
        row, or these names. No point, target or radius reaches from one into another, and `lib` and `pred`
        may name some of them.
    dtype : {"float64", "float32"}
        What distances are computed in.
    space : str or Space, optional

    Returns
    -------
    Neighbours

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Naming the argument; k above the number of candidates of some point is an InputError.
    """
    form = E, tau, Tp, k, exclusion_radius, lib, pred, valid, segments, dtype
    problem = problem_of(library, columns, None, points, *form)
    with using(space):
        distances, rows = problem.neighbours()
    shift, ends = (problem.E - 1) * problem.tau, problem.point_places.times(problem.points)
    return Neighbours(distances, rows, ends - shift, problem.index_at(ends)[0])


def simplex(
    library: TableLike,
    E: Whole = 1,
    *,
    columns: Label | Sequence[Label] | None = None,
    tau: Whole = 1,
    Tp: Whole = 1,
    k: Whole | None = None,
    target: TableLike | Label | None = None,
    points: TableLike | None = None,
    exclusion_radius: Whole = 0,
    lib: Windows | None = None,
    pred: Windows | None = None,
    valid: npt.ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float64",
    space: pk.SpaceLike | None = None,
) -> Prediction:
    """Simplex projection: each point's target is predicted from those of its nearest neighbours.

    Parameters
    ----------
    library, E, columns, tau, k, points, exclusion_radius, lib, pred, valid, segments, dtype, space
        As in `knn`.
    Tp : int, default 1
        Steps from a point's last coordinate to what is predicted; negative looks back.
    target : array-like, shape (n_times,) or (n_times, n_targets), optional; or names of columns of the
    library
        On the library's times; the library's first column if not given.

    Returns
    -------
    Prediction

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    Sugihara and May, Nature 344 (1990), 734; equations (1) to (4) of `portable.models.edm`.

    Examples
    --------
    >>> from portable.models import edm
    >>> x = [0.4]
    >>> for _ in range(199):
    ...     x.append(3.8 * x[-1] * (1.0 - x[-1]))
    >>> found = edm.simplex(x, E=2, lib=(0, 100), pred=(100, 200), space="serial")
    >>> round(found.rho, 2)
    1.0
    """
    form = E, tau, Tp, k, exclusion_radius, lib, pred, valid, segments, dtype
    problem = problem_of(library, columns, target, points, *form)
    with using(space):
        predicted, seen, variance, rho = problem.predictions()
    index, named = problem.index_at(problem.times)
    return Prediction(predicted, seen, variance, problem.times, rho, index, problem.names, named)
