"""S-maps: locally weighted linear maps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    Label,
    Real,
    ShapeError,
    SpaceLike,
    TableLike,
    Whole,
    as_numbers,
    check_finite,
    check_fractions,
    check_number,
    launch,
    refuse,
    warn,
)
from . import frames
from . import local_kernels as kernels
from .problem import Problem
from .search import power_of_two
from .segments import Columns, Replicates, Window, Windows
from .skill import correlation

TRIANGLE_BYTES = 1 << 28  # upper bound of the triangular matrices of one launch
SWEEPS, SETTLED = 1000, 1e-13  # of coordinate descent: most sweeps, and relative change at the end
KNOWN = 4  # largest number of coordinates with separately compiled code, whose matrices are in registers
FREE = 1e-8  # share of a point's distance from its candidates that may be due to rounding
NEARLY_SINGULAR = 1e-6  # ratio of a diagonal entry to its column below which singular values are computed


class SMap(frames.Tabled):
    """Predictions of S-maps, one for each theta. Several targets are the last axis of all arrays except
    `theta` and `times`.

    Attributes
    ----------
    theta : ndarray, shape (n_thetas,)
    predicted : ndarray, shape (n_thetas, n_points)
        NaN if the point has a missing coordinate.
    coefficients : ndarray, shape (n_thetas, n_points, 1 + n_coordinates)
        The intercept, then a coefficient for each coordinate: x[t], x[t - tau], ..., then those of the next
        column.
    rank : ndarray of int, shape (n_thetas, n_points)
        Rank of the weighted least squares; below 1 + n_coordinates, the slopes are those of least norm. A
        RuntimeWarning counts points that differ from all candidates in a direction without a defined slope.
    observed : ndarray, shape (n_points,)
    times : ndarray of int, shape (n_points,)
    rho : ndarray, shape (n_thetas,)
    index : ndarray or None, shape (n_points,)
        Names of these times in the library's table, such as dates.
    targets : list of str, or None
        Names of several targets; None if they have none.
    segments : ndarray of str or None, shape (n_points,)
        Name of the segment of each point.
    coordinates : list of str
        Coordinates of the coefficients after the intercept, such as "x(t-1)"; "d x(t-1)" in tables.
    """

    theta: Array
    predicted: Array
    coefficients: Array
    rank: Array
    observed: Array
    times: Array
    rho: Array
    index: Array | Any = None
    targets: list[str] | None = None
    segments: Array | Any = None
    coordinates: list[str] | None = None

    def _columns(self):
        n_thetas, n = self.predicted.shape[:2]
        rows = self._segment() | {"time": self._times()}
        keys = {"theta": np.repeat(self.theta, n)} | {k: np.tile(v, n_thetas) for k, v in rows.items()}
        flat = (v.reshape(n_thetas * n, *v.shape[2:]) for v in (self.predicted, self.coefficients))
        predicted, coefficients = (np.moveaxis(v, 0, -1) for v in flat)  # targets are last, then come rows
        parts = {"observed": np.tile(self.observed.T, n_thetas), "predicted": predicted}
        names = ["intercept", *(f"d {name}" for name in self.coordinates)]
        parts |= dict(zip(names, coefficients))
        return self._of_targets(predicted, keys, parts)


def smap(
    library: TableLike,
    E: Whole = 1,
    *,
    theta: ArrayLike,
    columns: Columns = None,
    tau: Whole = 1,
    Tp: Whole = 1,
    k: Whole | None = None,
    penalty: Real = 0.0,
    l1_ratio: Real = 0.0,
    target: TableLike | Label | None = None,
    points: TableLike | None = None,
    exclusion_radius: Whole = 0,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    space: SpaceLike = None,
) -> SMap:
    """Predict by S-maps: a linear map for each point, fitted to all candidates with weights that decrease
    with distance.

    Skill that increases with theta indicates nonlinear dynamics.

    Parameters
    ----------
    library, E, columns, tau, points, exclusion_radius, lib, pred, valid, segments, space
        As in `simplex`.
    target : array-like, shape (n_times,) or (n_times, n_targets), optional; or names of columns of the
    library
    theta : float or sequence of float, not negative
        Weights are exp(-theta d / mean distance); with theta = 0 all points have the same map. Distances are
        computed once for all theta.
    Tp : int, default 1
    k : int, optional
        Use only the k nearest candidates; all by default.
    penalty, l1_ratio : float, default 0
        Penalty of slopes b_e, in the units of the series: penalty `sum_e (l1_ratio |b_e| + (1 - l1_ratio)
        b_e^2 / 2)` is added to half the weighted mean square. An l1_ratio of 0 is a ridge, 1 a lasso, and
        between them an elastic net.

    Returns
    -------
    SMap

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError

    References
    ----------
    Sugihara, Phil. Trans. R. Soc. A 348 (1994), 477; equation (5) of `portable.models.edm`.
    """
    theta, penalty = _check_theta(theta), check_number(penalty, "penalty", least=0)
    check_fractions(l1_ratio, "l1_ratio", 0)
    window = Window(tau, Tp, k, exclusion_radius, lib, pred, valid, segments)
    problem = Problem(library, columns, target, points, E, window, "float64")
    with pk.use(space):
        at = _Points(problem, k is not None, penalty * np.array([l1_ratio, 1 - l1_ratio]))
        found = [at.fit(theta, values) for values in problem.target.T]
    solution, rank = (np.stack(parts, axis=-1) for parts in zip(*found))
    parts = solution[:, 0], np.moveaxis(solution[:, 2:], 1, 2), rank
    predicted, coefficients, rank = (_spread(values, problem.known) for values in parts)
    still, observed = problem.still(), problem.observed()
    if at.n_free and not still:
        warn(
            f"{at.n_free} of {predicted[:, problem.known].size} predictions extrapolate in a direction in "
            "which their candidates do not vary, so that no slope is known; expected a smaller E or theta, "
            "or a longer library",
        )
    rho = [[np.nan if still else correlation(p, o) for p, o in zip(one.T, observed.T)] for one in predicted]
    parts = predicted, coefficients, rank, observed, np.array(rho)
    *maps, observed, rho = parts if problem.several else (values[..., 0] for values in parts)
    index, named = problem.index_at(problem.times)
    names = [frames.lagged(problem.series[c], lag) for c, lag in zip(problem.column, problem.lag)]
    return SMap(theta, *maps, observed, problem.times, rho, index, problem.names, named, names)


def _spread(values, known):
    """Return values of all points from those of the known points, the second axis; others are NaN, or 0 for
    integers."""
    out = np.full((len(values), len(known), *values.shape[2:]), np.nan if values.dtype.kind == "f" else 0)
    out[:, known] = values
    return out


class _Points:
    """Candidates and points on the space, to fit maps of several targets."""

    def __init__(self, problem, limited, penalty):
        self.problem, self.scale, self.n_free = problem, problem.scale(), 0
        self.penalty, self.least = penalty, math.inf if penalty.any() else NEARLY_SINGULAR
        valid, asked = problem.valid, problem.points[problem.known]
        x = problem.embedded(problem.masked / self.scale, valid)
        self.y = problem.embedded(problem.point_columns / self.scale, asked)
        n_dims, self.n_points = self.y.shape
        self.n_rows, self.mean = n_dims + 1, pk.empty(self.n_points)
        limit = np.full(self.n_points, np.inf)
        if limited:
            distances, _ = problem.search(problem.k)
            limit = distances.to_numpy()[asked - problem.first, -1] * (1 + 1e-13)  # rounded otherwise
        series = valid.astype(np.int64), asked.astype(np.int64), x, self.y, limit
        self.common = (
            pk.static(n_dims) if n_dims <= KNOWN else n_dims,
            problem.radius,
            *(pk.copy_of(one) for one in series),
            self.mean,
        )
        launch(self.n_points, kernels.mean_distance, *self.common)

    def fit(self, theta, values):
        """Return (solutions, ranks) of a target, solutions as of `kernels.fit`, shape (n_thetas, n_rows + 2,
        n_points); those with a small diagonal entry by singular values.
        """
        unit = float(power_of_two(np.nanmax(abs(values))))
        goal = pk.copy_of(values[self.problem.valid + self.problem.Tp] / unit)
        units = pk.copy_of(np.array([unit, self.scale]))
        solution = np.empty((len(theta), self.n_rows + 2, self.n_points))
        rank = np.full((len(theta), self.n_points), self.n_rows)
        at_once = max(1, TRIANGLE_BYTES // (8 * self.n_points * self.n_rows * (self.n_rows + 1)))
        for begin in range(0, len(theta), at_once):
            part = slice(begin, begin + at_once)
            there, triangle = self._launch(theta[part], goal, units)
            solution[part] = there.to_numpy()
            h, i = np.nonzero(~(solution[part, 1] > self.least))
            if len(h):
                triangles = triangle.to_numpy()[h, :, :, i]
                if self.penalty.any():
                    exact = _penalised(triangles, *self.penalty / np.array([unit, self.scale]) / self.scale)
                else:
                    exact, rank[part][h, i], free = _by_singular_values(triangles)
                    self.n_free += int(free.sum())
                exact *= unit
                solution[part][h, 0, i] = exact[:, 0]
                solution[part][h, 2, i] = exact[:, 0] - (exact[:, 1:] * self.y.T[i]).sum(axis=1)
                solution[part][h, 3:, i] = exact[:, 1:] / self.scale
        return solution, rank

    def _launch(self, theta, goal, units):
        shape, n = (len(theta), self.n_rows), self.n_points
        solution = pk.empty((shape[0], self.n_rows + 2, n))
        triangle = pk.empty((*shape, self.n_rows + 1, n))
        launch(
            (shape[0], n),
            kernels.fit,
            pk.static(-(-self.n_rows // 8) * 8),
            *self.common,
            pk.copy_of(theta),
            goal,
            units,
            self.least,
            solution,
            triangle,
        )
        return solution, triangle


def _by_singular_values(triangle):
    """Return solutions with slopes of least norm, ranks, and flags, for many small triangular systems, shape
    (n, n_rows, n_rows + 1).

    The norm does not include the first unknown, the prediction: candidates that do not vary predict the mean
    of their targets. A flag is True if the point differs from the candidates in a direction in which they do
    not vary, so that its prediction is such a mean.
    """
    r, z = triangle[..., 1:, 1:-1], triangle[..., 1:, -1]
    sizes = np.sqrt((r**2).sum(axis=-2, keepdims=True))  # columns are scaled to norm 1
    whole = np.sqrt((triangle[..., 1:-1] ** 2).sum(axis=-2, keepdims=True))  # norms including the mean
    nothing = sizes <= r.shape[-1] * np.finfo(float).eps * whole
    sizes = np.where(nothing, 1.0, sizes)
    u, sizes_of, v = np.linalg.svd(np.where(nothing, 0.0, r / sizes))
    kept = sizes_of > r.shape[-1] * np.finfo(float).eps * sizes_of[:, :1]
    inverse = np.divide(1.0, sizes_of, out=np.zeros_like(sizes_of), where=kept)
    slopes = np.einsum("nji,nj->ni", v, inverse * np.einsum("nji,nj->ni", u, z)) / sizes[:, 0]
    first = triangle[:, 0, 0]
    rest = triangle[:, 0, -1] - (triangle[:, 0, 1:-1] * slopes).sum(axis=1)
    predicted = np.divide(rest, first, out=np.zeros_like(rest), where=first != 0)
    free = np.einsum("nji,ni->nj", v, triangle[:, 0, 1:-1] / sizes[:, 0])
    far = (abs(free) > FREE * abs(free).max(axis=1, keepdims=True)) & ~kept
    return np.column_stack([predicted, slopes]), (first != 0) + kept.sum(axis=1), far.any(axis=1)


def _penalised(triangle, lasso, ridge):
    """Return solutions of many small triangular systems with penalised slopes, by coordinate descent.

    lasso, ridge : the penalties of |b| and b^2 / 2, in units of the mean weight
    """
    r, z, weight = triangle[..., 1:, 1:-1], triangle[..., 1:, -1], triangle[:, 0, 0] ** 2
    square, b = np.einsum("nij,nik->njk", r, r), np.einsum("nij,ni->nj", r, z)
    square += (ridge * weight)[:, None, None] * np.eye(r.shape[-1])
    slopes = _descend(square, b, lasso * weight)
    rest = triangle[:, 0, -1] - (triangle[:, 0, 1:-1] * slopes).sum(axis=1)
    return np.column_stack([rest / triangle[:, 0, 0], slopes])


def _descend(square, b, lasso):
    """Return the x that minimises x' square x / 2 - b' x + lasso |x|, for many small problems."""
    slopes, own = np.zeros_like(b), np.einsum("njj->nj", square)
    for _ in range(SWEEPS):
        before = slopes.copy()
        for e in range(b.shape[1]):
            rest = b[:, e] - (square[:, e] * slopes).sum(axis=1) + own[:, e] * slopes[:, e]
            size = np.sign(rest) * np.maximum(abs(rest) - lasso, 0.0)
            slopes[:, e] = np.divide(size, own[:, e], out=np.zeros_like(size), where=own[:, e] > 0)
        if abs(slopes - before).max() <= SETTLED * abs(slopes).max():
            break
    return slopes


def _check_theta(theta):
    theta = check_finite(np.atleast_1d(as_numbers(theta, "theta")), "theta")
    if theta.ndim != 1 or not theta.size:
        raise ShapeError(f"theta has shape {theta.shape}; expected a number or a sequence of numbers")
    refuse(theta < 0, theta, "theta", "numbers of at least 0")
    return theta
