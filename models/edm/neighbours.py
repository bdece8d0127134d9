"""All nearest neighbours, and simplex projection from them."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import portable as pk
from portable.errors import InputError

from ..shared.annotations import Label, NumberOrArray, TableLike, Whole, Windows
from ..shared.arrays import new_array
from ..shared.checks import check_choice, check_count
from . import frames, kept, point_kernels, tree
from . import list_kernels as kernels
from .checks import (
    DTYPES,
    DType,
    check_columns,
    check_embedding,
    check_enough,
    check_horizon,
    check_radius,
    check_targets,
    check_valid,
    check_windows,
    extremes,
    without_variation,
)
from .search import Columns, Library, Search, as_vector, coordinates, on_the_host, power_of_two, using
from .segments import found_in, lay_out, segments_of, times_within, warn_of_copies

FEW = 64  # neighbours that are kept sorted one by one
# Up to so many candidates (seen on one thread), or pairs for each team that runs at a time, meeting all costs
# less than the launches of a sort
SORTED, PAIRS = 1000, 1 << 17
NO_VARIATION = 64  # units of the last place
CORRELATING = 512  # members that correlate the predictions of a target
MEMORY_BYTES = 1 << 32  # bound of what the teams keep


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
    """

    predicted: np.ndarray
    observed: np.ndarray
    variance: np.ndarray
    times: np.ndarray
    rho: NumberOrArray
    index: np.ndarray | Any = None
    targets: list[str] | None = None

    def _columns(self):
        parts = {name: getattr(self, name).T for name in ("observed", "predicted", "variance")}
        return self._of_targets(self.predicted.T, {"time": self._times()}, parts)


class Problem:
    """Checked arguments of a search: which candidates, which points, and what they are made of.

    Times are places of `segments`, and those of points are places of `point_segments`: see
    `portable.models.edm.segments`.
    """

    def __init__(
        self,
        library,
        names,
        target,
        points,
        E,
        tau,
        Tp,
        k,
        exclusion_radius,
        lib,
        pred,
        valid,
        dtype,
        horizons=None,
    ):
        label = [target] if frames.is_label(target) else None
        library, target, self.index, self.names = frames.series_of(library, names, target)
        if points is not None:
            points = frames.timed(points, "points")
            self.index = frames.index_of(points)
        columns = check_columns(library, "library")
        self.same = points is None
        n_columns = columns.shape[1]
        asked = columns if self.same else check_columns(points, "points", n_columns)
        self.n_times = len(columns)
        self.E, self.tau = check_embedding(E, tau, self.n_times)
        if not self.same:
            check_embedding(E, tau, len(asked), "points")
        self.Tp = check_horizon(Tp, self.n_times, self.E, self.tau)
        radius = check_radius(exclusion_radius)
        self.dtype = np.dtype(check_choice(dtype, "dtype", DTYPES))
        self.column, self.lag = coordinates(n_columns, self.E, self.tau)
        self.k = self.E + 1 if k is None else check_count(k, "k")
        windows, pred = check_windows(lib, "lib", self.n_times), check_windows(pred, "pred", len(asked))
        valid, front = check_valid(valid, self.n_times), (self.E - 1) * self.tau
        horizons = (self.Tp,) if horizons is None else horizons
        found = 0 if self.same else found_in(asked, columns)
        self.radius = None if found is None else radius
        shifted = [] if found is None else [(begin + found, end + found) for begin, end in pred]
        laid = lay_out(columns, windows, shifted, valid, max(front, radius), horizons)
        self.segments, self.columns, self.masked, self.candidates, self.pred = laid
        self.point_segments, self.point_columns = self.segments, self.columns
        if not self.same:
            if found is None:
                warn_of_copies(columns, asked, front, self.column, self.lag)
                self.point_segments = segments_of(len(asked), (pred,), max(front, abs(self.Tp)))
            else:
                self.point_segments = self.segments.part(found, len(asked))
            self.point_columns = self.point_segments.spread(asked)
            self.pred = self.point_segments.windows(pred)
        self.points = self.point_segments.places(times_within(pred, front, len(asked)))
        if not self.points.size:
            raise InputError(
                f"pred is {pred}, where no point with E = {E} and tau = {tau} ends: the first ends at {front}"
            )
        if len(self.lag) == 1 and not _run_on(self.candidates):  # as `_search_line` wants them
            self.masked = np.full_like(self.columns, np.nan)
            self.masked[self.candidates] = self.columns[self.candidates]
        self.form = (E, tau, self.Tp, self.k, self.radius, self.dtype, tuple(windows), tuple(pred))
        self.form += (self.segments, self.point_segments, None if valid is None else valid.tobytes())
        every = self.known_at(self.point_columns)
        first, last = int(self.points[0]), int(self.points[-1]) + 1
        self.known = every[first:last] if last - first == len(self.points) else every[self.points]
        self.known_masked = every if self.masked is self.point_columns else self.known_at(self.masked)
        usable = np.zeros(len(self.columns), bool)
        usable[self.candidates] = self.known_masked[self.candidates]
        self.n_valid, enough = check_enough(usable, self.points, self.known, self.k, self.radius)
        self.known = self.known & enough
        self.several = np.ndim(target) == 2
        self.given = None if target is None else check_targets(target, self.n_times)
        self.target = self.columns[:, :1] if target is None else self.segments.spread(self.given)
        self.labels = [str(c) for c in (label or self.names or range(self.target.shape[1]))]

    def still(self):
        """Tell whether library or targets do not vary, which is warned of."""
        return without_variation(library=self.columns, target=self.given)

    def known_at(self, columns):
        """Whether the point of each time has all coordinates."""
        known = np.ones(len(columns), bool)
        if not np.isnan(columns.min()):
            known[: int(self.lag.max())] = False
            return known
        missing = np.isnan(columns).any(axis=1)
        for lag in np.unique(self.lag):
            known[:lag] = False
            known[lag:] &= ~missing[: len(columns) - lag]
        return known

    @property
    def times(self):
        """Times of what is predicted of each point, on the points' series."""
        times = new_array(len(self.points), np.int64)
        return np.add(self.point_segments.times(self.points), self.Tp, out=times)

    def by_lag(self):
        """Column and lag of each coordinate with all columns' lags before the next lag, and the number of
        columns.
        """
        n_columns = self.columns.shape[1]
        return (
            np.tile(np.arange(n_columns), self.E),
            np.repeat(np.arange(self.E) * self.tau, n_columns),
            n_columns,
        )

    def embedded(self, columns, times):
        """The points of these times, shape (n_coordinates, n_points)."""
        return np.ascontiguousarray(columns[times[None] - self.lag[:, None], self.column[:, None]])

    def scale(self):
        """A power of two near the widest spread: divided by it, columns keep their digits, and squares do not
        overflow.
        """
        low, high = extremes(self.columns)
        return float(power_of_two((high - low).max()))

    def observed(self):
        """List what predictions of each target are compared with, shape (n_points,); NaN where unknown."""
        given = self.given is not None
        own = self.same or (given and self.radius is not None)  # points of the library share its places
        truth = self.target if own else None if given else self.point_columns[:, :1]
        places = self.points + self.Tp
        return [observed_at(places, one) for one in (self.target * np.nan if truth is None else truth).T]

    @functools.cached_property
    def inputs(self):
        """The series that are searched, by name; all different."""
        found = {"library": self.columns}
        if self.masked is not self.columns:
            found["masked"] = self.masked
        if not self.same:
            found["points"] = self.point_columns
        return found

    @functools.cached_property
    def there(self):
        """The same on the default space."""
        return {name: pk.copy_of(array) for name, array in self.inputs.items()}

    @functools.cached_property
    def summarised(self):
        """The library on the default space, with its summary."""
        return Columns(self.there["library"])

    def neighbours(self):
        """Distances and times of all points' neighbours on the host."""

        def compute(*views):
            return *self._searched(views), self.summarised

        distances, times, summarised = self._kept("knn", (), compute)
        distances, times = on_the_host(distances), on_the_host(times)
        unit = summarised.scale(self.columns.shape[1])
        rows = slice(None) if len(self.points) == len(times) else self.points - self.points[0]
        return distances[rows].astype(np.float64) * unit, times[rows].astype(np.int64)

    def simplex(self):
        """Predictions of targets, their variances, and rho of each, on the space; for `unpacked`."""

        def compute(*views):
            distances, times = self._searched(views[: len(self.inputs)])
            return self.projected(distances, times, *views[len(self.inputs) :])

        return self._kept("simplex", () if self.given is None else (self.target,), compute)

    def _kept(self, what, more, compute):
        """What `compute` gives for the inputs and more arrays; its launches are kept for the next call where
        they depend on nothing but the form."""
        arrays, sorts = (*self.inputs.values(), *more), self._sorts(self.k)
        if not sorts and self._tree_may_serve():
            return compute(*map(pk.copy_of, arrays))
        # of sorted candidates so many count as are known
        form = what, self.same, self.form, self.n_valid if sorts else None
        return kept.repeated(form, arrays, compute)

    def _searched(self, views):
        self.there = dict(zip(self.inputs, views))
        return self.search(self.k)

    def projected(self, distances, times, target=None):
        """Predictions of targets from the neighbours of all points, their variances, and rho of each target,
        as `unpacked` takes them.

        target : View or ndarray, shape (n_times, n_targets); the library's first column if not given
        """
        n, n_targets = distances.shape[0], 1 if target is None else target.shape[1]
        of = self.summarised if target is None else Columns(target)
        out = pk.empty((2 * n + 1) * n_targets, np.float64)
        pk.parallel_for(
            pk.MDRangePolicy((0, 0), (1, n) if n_targets == 1 else (n, n_targets)),
            point_kernels.project,
            pk.static(int(n_targets == 1)),
            n_targets,
            self.Tp,
            distances,
            times,
            of.summary,
            of.values,
            out,
            label="edm.project",
        )
        if self.same or (target is not None and self.radius is not None):
            self._correlate(times, of.values, n_targets, out)
        elif target is None:
            self._correlate(times, self.there["points"], n_targets, out)
        else:  # nobody knows what other points saw of it
            pk.deep_copy(out[2 * n * n_targets :], math.nan)
        return out

    def unpacked(self, out):
        """Predictions and variances, shape (n_points, n_targets), and rho."""
        n = int(self.points[-1] - self.points[0]) + 1
        found = on_the_host(out)
        size = found.size // (2 * n + 1) * n
        rows = slice(None) if len(self.points) == n else self.points - self.points[0]
        both = found[:size], found[size : 2 * size]
        return *(part.reshape(n, -1)[rows] for part in both), found[2 * size :]

    def _correlate(self, times, observed, n_targets, out):
        """Behind predictions and variances, rho of each target."""
        n, rows = times.shape[0], self.points - self.points[0]
        every, asked = len(rows) == n, times
        if not every:
            asked = np.zeros((n, 1), np.int32)
            asked[rows] = 1
            asked = pk.copy_of(asked)
        begin = int(self.points[0]) + self.Tp
        first, last = max(-begin, 0), min(n, observed.shape[0] - begin)  # points of times that were observed
        single, columns = as_vector(observed)
        pk.parallel_for(
            pk.TeamPolicy(n_targets, CORRELATING),
            point_kernels.correlate_points,
            NO_VARIATION * float(np.finfo(self.dtype).eps),
            max(last - first, 0),
            pk.static(1) if n_targets == 1 else n_targets,
            single,
            pk.static(int(every)),
            asked[first:],
            columns[begin + first :],
            out[first * n_targets :],
            out[2 * n * n_targets :],
            label="edm.correlate_points",
        )

    def search(self, k):
        """Distances, in units of `summarised.scale`, and times of the k nearest candidates of points first,
        first + 1, ...; views of the default space.
        """
        if self._sorts(k):
            return self._search_line(k)
        return self._search_tree(k) or self._search_all(k)

    def _sorts(self, k):
        """Whether points have one coordinate, and are so many that sorting costs less than meeting all."""
        n, pairs = self.n_valid, self.n_valid * len(self.points)
        return len(self.lag) == 1 and k <= FEW and n > SORTED and pairs > PAIRS * pk.concurrency()

    def _tree_may_serve(self):
        """Whether a tree on the host may serve."""
        space = pk.default_space()
        if space.memory != "host" or self.dtype != np.float64:
            return False
        return tree.may_serve(self.n_valid, len(self.points), len(self.lag))

    def _search_line(self, k):
        """By sorting, where points have one coordinate."""
        source, points, _, _ = self._lined_up(0)
        values = source[int(self.candidates[0]) : int(self.candidates[-1]) + 1]
        first, n = int(self.points[0]), int(self.points[-1] - self.points[0]) + 1
        distances, times = pk.empty((n, k), self.dtype), pk.empty((n, k), np.int32)
        pk.parallel_for(
            n,
            point_kernels.nearest_on_line,
            k,
            self.n_valid,
            -1 if self.radius is None else self.radius,
            int(self.candidates[0]),
            first,
            values,
            pk.argsort(values),
            points,
            distances,
            times,
            label="edm.nearest_on_line",
        )
        return distances, times

    def _lined_up(self, front):
        """Candidates and points one after the other, and the steps from one column to the next; made once if
        they are the same.
        """
        given, lines = self.summarised, (self.columns.shape[1], front, self.dtype)
        values = self.there.get("masked", given.values)
        source, stride = given.lined_up(values, *lines)
        if self.same and values is given.values:
            return source, source, stride, stride
        points, point_stride = given.lined_up(self.there.get("points", given.values), *lines)
        return source, points, stride, point_stride

    def _search_tree(self, k):
        """By a tree on the host, where that is known to be faster; else None."""
        if not self._tree_may_serve():
            return None
        space = pk.default_space()
        valid = self.candidates[self.known_masked[self.candidates]]
        asked = self.points[self.known]
        front = int(self.lag.max())
        source, series, stride, point_stride = self._lined_up(front)
        newest = front - self.lag[:, None]
        candidates = source.to_numpy()[newest + self.column[:, None] * stride + valid]
        points = series.to_numpy()[newest + self.column[:, None] * point_stride + asked]
        found = tree.build(candidates, points, k, space.n_threads, lambda n: self._search_some(n, k))
        if found is None:
            return None
        radius = -1 if self.radius is None else self.radius
        n = int(self.points[-1] - self.points[0]) + 1
        distances, times = np.full((n, k), np.inf), np.full((n, k), -1, np.int32)
        rows = asked - self.points[0]
        distances[rows], times[rows] = tree.nearest(
            found, candidates, points, valid, asked, radius, k, space.n_threads
        )
        return pk.copy_of(distances), pk.copy_of(times)

    def _search_some(self, n, k):
        """Search for the first n points alone, to see how long that takes."""
        some = copy.copy(self)
        some.points = self.points[:n]
        some._search_all(k)
        pk.fence()

    def _search_all(self, k):
        """By meeting every candidate."""
        first, last, front = int(self.points[0]), int(self.points[-1]) + 1, int(self.lag.max())
        source, series, stride, point_stride = self._lined_up(front)
        offset = self.column * point_stride + front - self.lag
        library = Library(source, stride, front, self.column, self.lag, 1, self.candidates[None])
        library.arrange(np.zeros(1, int), self.candidates[None])
        n_dims, n, radius = len(self.lag), last - first, -1 if self.radius is None else self.radius
        search = Search(library, np.array([n_dims]), np.array([k]), offset, series, radius, n, MEMORY_BYTES)
        distances, times = pk.empty((n, k), self.dtype), pk.empty((n, k), np.int32)
        for begin, end in search.parts(first, last):
            part = slice(begin - first, end - first)
            n_teams = -(-(end - begin) // kernels.GROUP)
            pk.parallel_for(
                search.policy(n_teams),
                kernels.nearest,
                library.adjacent,
                n_dims,
                len(self.candidates),
                library.pad,
                search.room,
                k,
                begin,
                end,
                radius,
                *library.arguments,
                search.offset,
                search.series,
                search.bounds,
                search.marks,
                distances[part],
                times[part],
                label="edm.nearest",
            )
        return distances, times


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
    dtype: DType = "float64",
    space: pk.SpaceLike | None = None,
) -> Neighbours:
    """The k nearest neighbours of each embedded point.

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
    form = E, tau, Tp, k, exclusion_radius, lib, pred, valid, dtype
    problem = Problem(library, columns, None, points, *form)
    with using(space):
        distances, times = problem.neighbours()
    shift, ends = (problem.E - 1) * problem.tau, problem.point_segments.times(problem.points)
    distances[~problem.known] = np.nan
    return Neighbours(
        distances,
        np.where(times >= 0, problem.segments.times(times) - shift, -1),
        ends - shift,
        frames.at_times(problem.index, ends),
    )


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
    dtype: DType = "float64",
    space: pk.SpaceLike | None = None,
) -> Prediction:
    """Simplex projection: each point's target is predicted from those of its nearest neighbours.

    Parameters
    ----------
    library, E, columns, tau, k, points, exclusion_radius, lib, pred, valid, dtype, space
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
    form = E, tau, Tp, k, exclusion_radius, lib, pred, valid, dtype
    problem = Problem(library, columns, target, points, *form)
    with using(space):
        out = problem.simplex()
        # what the host does meanwhile
        times, observed, constant = problem.times, problem.observed(), problem.still()
        predicted, variance, rho = problem.unpacked(out)
    if constant:
        rho = np.full(len(rho), np.nan)
    index = frames.at_times(problem.index, times)
    if problem.several:
        return Prediction(predicted, np.column_stack(observed), variance, times, rho, index, problem.names)
    return Prediction(predicted[:, 0], observed[0], variance[:, 0], times, float(rho[0]), index)


def _run_on(times):
    """Tell whether ascending times follow one another."""
    return not len(times) or times[-1] - times[0] == len(times) - 1


def value_at(series, times):
    """The values of a series at those times, of any shape; NaN beyond its ends."""
    there = (times >= 0) & (times < len(series))
    return np.where(there, series[np.clip(times, 0, len(series) - 1)], np.nan)


def observed_at(times, truth):
    """The values at those times, NaN beyond the series."""
    if _run_on(times):
        begin, end = max(int(times[0]), 0), min(int(times[-1]) + 1, len(truth))
        first, last = begin - int(times[0]), max(end - int(times[0]), 0)
        observed = new_array(len(times))
        observed[first:last] = truth[begin:end]
        observed[:first] = observed[last:] = np.nan
        return observed
    return value_at(truth, times)


def correlation(a, b):
    """Pearson's correlation where both are known, in float64; NaN if either does not vary.

    a : predictions, in which rounding may be all that varies
    """
    both = np.isfinite(a) & np.isfinite(b)
    if both.sum() < 2:
        return float("nan")
    a, b = (v[both] - v[both].mean() for v in (a, b))
    if abs(a).max() <= NO_VARIATION * np.finfo(float).eps * abs(b).max():
        return float("nan")
    # squares of large or small numbers leave the range of floats
    a, b = (v / power_of_two(abs(v).max()) for v in (a, b))
    spread = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / spread) if spread > 0 else float("nan")
