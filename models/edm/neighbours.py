"""All nearest neighbours, and simplex projection from them."""

from __future__ import annotations

from typing import Any

import numpy as np

import portable as pk

from ..shared import Array, ArrayLike, DType, Label, NumberOrArray, SpaceLike, TableLike, Whole
from . import frames
from .problem import problem_of
from .segments import Columns, Replicates, Window, Windows


class Neighbours(frames.Tabled):
    """The k nearest neighbours of embedded points.

    Attributes
    ----------
    distances : ndarray, shape (n_points, k), ascending
        Euclidean distances, in units of the library; NaN if the point has a missing coordinate.
    indices : ndarray of int, shape (n_points, k)
        Rows of the library's embedding: row i is (x[i], x[i + tau], ..., x[i + (E - 1) tau]). Equal distances
        are in the order of rows; -1 if the distance is NaN.
    points : ndarray of int, shape (n_points,)
        Rows of the queried embedding.
    index : ndarray or None, shape (n_points,)
        Names of the times at which the points end in the queried table, such as dates.
    """

    distances: Array
    indices: Array
    points: Array
    index: Array | Any = None

    def _columns(self):
        n_points, k = self.indices.shape
        return {
            "point": np.repeat(self.points, k),
            "rank": np.tile(np.arange(1, k + 1), n_points),
            "index": self.indices.ravel(),
            "distance": self.distances.ravel(),
        }


class Prediction(frames.Tabled):
    """Predicted values.

    Attributes
    ----------
    predicted : ndarray, shape (n_points,), or (n_points, n_targets) of several targets
        NaN if the point has a missing coordinate, or a neighbour has a missing target.
    observed : ndarray, of that shape
        The target's value at the same time; NaN if it is missing or beyond the end.
    variance : ndarray, of that shape
        Weighted mean square of the neighbours' targets about the prediction.
    times : ndarray of int, shape (n_points,)
        Times of the predictions, Tp after the last coordinate of a point.
    rho : float, or ndarray of shape (n_targets,)
        Pearson's correlation of predicted and observed over the points with both; NaN, with a RuntimeWarning,
        if library or target does not vary.
    index : ndarray or None, shape (n_points,)
        Names of these times in the library's table, such as dates.
    targets : list of str, or None
        Names of several targets; None if they have none.
    segments : ndarray of str or None, shape (n_points,)
        Name of the segment of each point.
    """

    predicted: Array
    observed: Array
    variance: Array
    times: Array
    rho: NumberOrArray
    index: Array | Any = None
    targets: list[str] | None = None
    segments: Array | Any = None

    def _columns(self):
        parts = {name: getattr(self, name).T for name in ("observed", "predicted", "variance")}
        return self._of_targets(self.predicted.T, self._segment() | {"time": self._times()}, parts)


def knn(
    library: TableLike,
    E: Whole = 1,
    *,
    columns: Columns = None,
    tau: Whole = 1,
    k: Whole | None = None,
    points: TableLike | None = None,
    Tp: Whole = 0,
    exclusion_radius: Whole = 0,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float64",
    space: SpaceLike = None,
) -> Neighbours:
    """Return the k nearest neighbours of each embedded point.

    Parameters
    ----------
    library : array-like, shape (n_times,) or (n_times, n_columns)
        With several columns, a point is E lags of each; with E = 1 the columns are the coordinates. NaN is a
        missing value: points that would need it are no candidates. Also a table of pandas or xarray.
    columns : str, int or a sequence of them, optional
        Columns of a table that are embedded; all by default.
    E : int, at least 1
        Embedding dimension.
    tau : int, default 1
        Steps between the coordinates of a point.
    k : int, optional
        Number of neighbours; E + 1 by default.
    points : array-like, shape (n_times_2,) or (n_times_2, n_columns), optional
        Series whose points are queried; the library itself by default. Then a point is not its own neighbour;
        nor is it if `points` is a range of successive rows of the library.
    Tp : int, default 0
        Candidates of time t are left out if t + Tp lies outside the library.
    exclusion_radius : int, default 0
        Candidates at most this many steps from the point, in the same segment, are excluded (if the points
        are of the library).
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points. A candidate's coordinates, and its target, all lie in one
        window. Windows that touch are separate segments, which no point or target crosses. Windows that
        overlap are merged.
    valid : array-like of bool, shape (n_times,), optional
        Times at which a candidate may end; all by default. In contrast to NaN, values of other times remain
        coordinates of candidates.
    segments : Segments, str or array-like, shape (n_times,), optional
        Replicates one after the other: `Segments`, the column of a table with the name of the replicate of
        each row, or these names. No point, target or radius crosses segments, and `lib` and `pred` may be
        names of segments.
    dtype : {"float64", "float32"}
        Type of the distances.
    space : str or Space, optional

    Returns
    -------
    Neighbours

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        An argument is invalid; the message names it. InputError if no point has k candidates.
    """
    window = Window(tau, Tp, k, exclusion_radius, lib, pred, valid, segments)
    problem = problem_of(library, columns, None, points, E, window, dtype)
    with pk.use(space):
        distances, rows = problem.neighbours()
    shift, ends = (problem.E - 1) * problem.tau, problem.point_places.times(problem.points)
    return Neighbours(distances, rows, ends - shift, problem.index_at(ends)[0])


def simplex(
    library: TableLike,
    E: Whole = 1,
    *,
    columns: Columns = None,
    tau: Whole = 1,
    Tp: Whole = 1,
    k: Whole | None = None,
    target: TableLike | Label | None = None,
    points: TableLike | None = None,
    exclusion_radius: Whole = 0,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float64",
    space: SpaceLike = None,
) -> Prediction:
    """Predict the target of each point from the targets of its nearest neighbours: simplex projection.

    Parameters
    ----------
    library, E, columns, tau, k, points, exclusion_radius, lib, pred, valid, segments, dtype, space
        As in `knn`.
    Tp : int, default 1
        Steps from a point's last coordinate to the predicted value; negative for the past.
    target : array-like, shape (n_times,) or (n_times, n_targets), optional; or names of columns of the
    library
        Values at the library's times; by default the library's first column.

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
    window = Window(tau, Tp, k, exclusion_radius, lib, pred, valid, segments)
    problem = problem_of(library, columns, target, points, E, window, dtype)
    if problem.short is not None:
        return Prediction(*problem.predict_few(space))
    with pk.use(space):
        predicted, seen, variance, rho = problem.predictions()
    index, named = problem.index_at(problem.times)
    return Prediction(predicted, seen, variance, problem.times, rho, index, problem.names, named)
