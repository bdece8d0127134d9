"""S-maps: locally weighted linear maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import portable as pk
from portable.errors import FiniteError, InputError, ShapeError

from ..shared.annotations import Label, TableLike, Whole
from ..shared.checks import as_numbers
from ..shared.warned import warn
from . import frames
from . import local_kernels as kernels
from .problem import Problem, correlation
from .search import power_of_two, using
from .segments import Replicates, Windows

TRIANGLE_BYTES = 1 << 28  # bound of the triangles of one launch
KNOWN = 4  # coordinates up to which each number has code of its own, whose triangles stay in registers
FREE = 1e-8  # share of a point's distance from its candidates that rounding leaves
NEARLY_SINGULAR = 1e-6  # least diagonal entry over largest: below, singular values decide


@dataclass(frozen=True)
class SMap(frames.Tabled):
    """Predictions of S-maps, one for each theta. Of several targets, these are the last axis of all but
    `theta` and `times`.

    Attributes
    ----------
    theta : ndarray, shape (n_thetas,)
    predicted : ndarray, shape (n_thetas, n_points)
        NaN where the point has a missing coordinate.
    coefficients : ndarray, shape (n_thetas, n_points, 1 + n_coordinates)
        The intercept, then a coefficient for each coordinate: x[t], x[t - tau], ..., then those of the next
        column.
    rank : ndarray of int, shape (n_thetas, n_points)
        Of the weighted least squares; below 1 + n_coordinates, the slopes are those of least norm. A
        RuntimeWarning counts points that lie off their candidates where no slope is known.
    observed : ndarray, shape (n_points,)
    times : ndarray of int, shape (n_points,)
    rho : ndarray, shape (n_thetas,)
    index : ndarray or None, shape (n_points,)
        What the library's table calls these times, such as dates.
    targets : list of str, or None
        Names of several targets, where they have any.
    segments : ndarray of str or None, shape (n_points,)
        Names of the segments in which the points lie.
    """

    theta: np.ndarray
    predicted: np.ndarray
    coefficients: np.ndarray
    rank: np.ndarray
    observed: np.ndarray
    times: np.ndarray
    rho: np.ndarray
    index: np.ndarray | Any = None
    targets: list[str] | None = None
    segments: np.ndarray | Any = None

    def _columns(self):
        n_thetas, n = self.predicted.shape[:2]
        rows = self._segment() | {"time": self._times()}
        keys = {"theta": np.repeat(self.theta, n)} | {k: np.tile(v, n_thetas) for k, v in rows.items()}
        flat = (v.reshape(n_thetas * n, *v.shape[2:]) for v in (self.predicted, self.coefficients))
        predicted, coefficients = (np.moveaxis(v, 0, -1) for v in flat)  # targets are last, then come rows
        parts = {"observed": np.tile(self.observed.T, n_thetas), "predicted": predicted}
        parts |= {f"c{c}": own for c, own in enumerate(coefficients)}
        return self._of_targets(predicted, keys, parts)


def smap(
    library: TableLike,
    E: Whole = 1,
    *,
    theta: npt.ArrayLike,
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
    space: pk.SpaceLike | None = None,
) -> SMap:
    """S-map: a linear map for each point, fitted to all candidates with weights that fall with their
    distance.

    Skill that rises with theta is a sign of nonlinear dynamics.

    Parameters
    ----------
    library, E, columns, tau, points, exclusion_radius, lib, pred, valid, segments, space
        As in `simplex`.
    target : array-like, shape (n_times,) or (n_times, n_targets), optional; or names of columns of the
    library
    theta : float or sequence of float, not negative
        Weights are exp(-theta d / mean distance); at 0 the map is the same everywhere. Distances are searched
        once.
    Tp : int, default 1
    k : int, optional
        Use only the k nearest candidates; all if not given.

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
    theta = _check_theta(theta)
    form = E, tau, Tp, k, exclusion_radius, lib, pred, valid, segments, "float64"
    problem = Problem(library, columns, target, points, *form)
    target = problem.target
    valid = problem.candidates[problem.known_masked[problem.candidates]]
    asked = problem.points[problem.known]
    scale = problem.scale()
    x, y = (
        problem.embedded(problem.masked / scale, valid),
        problem.embedded(problem.point_columns / scale, asked),
    )
    times, observed = problem.times, np.column_stack(problem.observed())
    with using(space):
        limit = np.full(len(asked), np.inf)
        if k is not None:
            distances, _ = problem.search(problem.k)
            unit = problem.summarised.scale(problem.columns.shape[1])
            # rounded otherwise
            limit = distances.to_numpy()[asked - problem.points[0], -1] * (unit / scale) * (1 + 1e-13)
        at = _Points(problem, valid, asked, x, y, limit, scale)
        found = [at.fit(theta, values) for values in target.T]
    shape = len(theta), len(problem.points), len(found)
    predicted, coefficients = np.full(shape, np.nan), np.full((*shape[:2], len(x) + 1, shape[2]), np.nan)
    ranks = np.zeros(shape, int)
    for q, (solution, rank) in enumerate(found):
        predicted[..., q][:, problem.known] = solution[:, 0]
        coefficients[..., q][:, problem.known] = solution[:, 2:].transpose(0, 2, 1)
        ranks[..., q][:, problem.known] = rank
    still = problem.still()
    if at.n_free and not still:
        warn(
            f"{at.n_free} of {len(theta) * len(asked) * target.shape[1]} predictions are of points that "
            "lie off their candidates in a direction in which these do not vary: no slope is known "
            "there, and none is taken. A smaller E or theta, or a longer library, is wanted",
        )
    rho = np.array(
        [[np.nan if still else correlation(p, o) for p, o in zip(one.T, observed.T)] for one in predicted]
    )
    if not problem.several:
        predicted, coefficients, ranks, observed, rho = (
            v[..., 0] for v in (predicted, coefficients, ranks, observed, rho)
        )
    index, named = problem.index_at(times)
    return SMap(theta, predicted, coefficients, ranks, observed, times, rho, index, problem.names, named)


class _Points:
    """Candidates and points on the space, where maps of several targets are fitted."""

    def __init__(self, problem, valid, asked, x, y, limit, scale):
        self.problem, self.valid, self.y, self.scale = problem, valid, y, scale
        n_dims, n_points = y.shape
        self.n_free = 0
        self.n_rows, self.n_points, self.mean = n_dims + 1, n_points, pk.empty(n_points, np.float64)
        radius = -1 if problem.radius is None else problem.radius
        series = valid.astype(np.int64), asked.astype(np.int64), x, y, limit
        self.common = (
            pk.static(n_dims) if n_dims <= KNOWN else n_dims,
            radius,
            *(pk.copy_of(one) for one in series),
            self.mean,
        )
        pk.parallel_for(n_points, kernels.mean_distance, *self.common, label="edm.mean_distance")

    def fit(self, theta, values):
        """(solutions, ranks) of a target: as `kernels.fit` gives them, shape (n_thetas, n_rows + 2,
        n_points); by singular values where a diagonal entry nearly vanishes.
        """
        unit = float(power_of_two(np.nanmax(abs(values))))
        goal = pk.copy_of(values[self.valid + self.problem.Tp] / unit)
        units = pk.copy_of(np.array([unit, self.scale]))
        solution = np.empty((len(theta), self.n_rows + 2, self.n_points))
        rank = np.full((len(theta), self.n_points), self.n_rows)
        at_once = int(max(1, TRIANGLE_BYTES // (8 * self.n_points * self.n_rows * (self.n_rows + 1))))
        for begin in range(0, len(theta), at_once):
            part = slice(begin, begin + at_once)
            there, triangle = self._launch(theta[part], goal, units)
            solution[part] = there.to_numpy()
            h, i = np.nonzero(~(solution[part, 1] > NEARLY_SINGULAR))
            if len(h):
                exact, rank[part][h, i], free = _by_singular_values(triangle.to_numpy()[h, :, :, i])
                self.n_free += int(free.sum())
                exact *= unit
                solution[part][h, 0, i] = exact[:, 0]
                solution[part][h, 2, i] = exact[:, 0] - (exact[:, 1:] * self.y.T[i]).sum(axis=1)
                solution[part][h, 3:, i] = exact[:, 1:] / self.scale
        return solution, rank

    def _launch(self, theta, goal, units):
        shape, n = (len(theta), self.n_rows), self.n_points
        solution = pk.empty((shape[0], self.n_rows + 2, n), np.float64)
        triangle = pk.empty((*shape, self.n_rows + 1, n), np.float64)
        pk.parallel_for(
            pk.MDRangePolicy((0, 0), (shape[0], n)),
            kernels.fit,
            pk.static(-(-self.n_rows // 8) * 8),
            *self.common,
            pk.copy_of(theta),
            goal,
            units,
            NEARLY_SINGULAR,
            solution,
            triangle,
            label="edm.fit",
        )
        return solution, triangle


def _by_singular_values(triangle):
    """Solutions whose slopes have the least norm, and ranks, of many small triangles, shape (n, n_rows,
    n_rows + 1).

    The first unknown, which is the prediction, is not made smaller by what the slopes lack: candidates that
    do not vary predict the mean of their targets. Last comes whether the point lies off the candidates in a
    direction in which they do not vary, so that its prediction is such a mean.
    """
    r, z = triangle[..., 1:, 1:-1], triangle[..., 1:, -1]
    sizes = np.sqrt((r**2).sum(axis=-2, keepdims=True))  # columns are compared at their own scale
    whole = np.sqrt((triangle[..., 1:-1] ** 2).sum(axis=-2, keepdims=True))  # with what the mean takes
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


def _check_theta(theta):
    theta = np.atleast_1d(as_numbers(theta, "theta")).astype(np.float64)
    if theta.ndim != 1 or not theta.size:
        raise ShapeError(f"theta has shape {theta.shape}; a number or a sequence of numbers is wanted")
    for value in theta.tolist():
        if not np.isfinite(value):
            raise FiniteError(f"theta holds {value}; finite numbers are wanted")
        if value < 0:
            raise InputError(f"theta holds {value}; numbers of at least 0 are wanted")
    return theta
