"""Fit a mixture: starts among some of the points, the best of them, and EM with moves on all points."""

from __future__ import annotations

import numpy as np

from ..shared import Array, Frozen
from .blocks import Points
from .em_run import Climb
from .moves import Moves
from .prior import exceeds, steps_of
from .starts import Few, typical

# growth of the objective per point below which moves are tried for the first time, before EM continues to
# `tol`
_COARSE = 1e-4
_BEFORE = 60  # iterations of a start, at most, before the widths of its components are measured
_ROUNDS, _CHANGED = 5, 0.2  # such measurements, at most; change of a log variance that requires another
_AMONG_FEW = 300  # iterations among the few, at most


class Start(Frozen):
    """Result of one start.

    Parameters
    ----------
    objective : float
        Objective on the points on which starts are compared.
    n_active : int
        Components with more than n_features + 1 of these points, the number that a full covariance requires.
    agreement : float
        Adjusted Rand index of its labels and those of the best start, 1 for equal ones.
    """

    objective: float
    n_active: int
    agreement: float


class Given(Frozen):
    """Weights, means (None if they are to be chosen) and covariances of a start, and whether the covariances
    come from the user."""

    weights: Array
    means: Array | None
    covariances: Array
    are_known: bool


class Fit:
    """A fit, which the constructor carries out.

    Parameters
    ----------
    model : DirichletMixture
        The estimator, whose arguments are used.
    rows : Rows
        The points.
    weights : ndarray, shape (n,), or None
    variances : ndarray, shape (p,)
    prior : Prior or None
    first : Given
    with_moves : bool
    random : Generator
    streamed : bool
    log : kept.Log
    client : distributed.Client, optional

    Attributes
    ----------
    points, prior, climb, moves, starts, converged
        `prior` has a value for every parameter.
    """

    def __init__(
        self, model, rows, weights, variances, prior, first, with_moves, random, streamed, log, client=None
    ):
        self._asked, self._k, self._kind = model, len(first.weights), model.covariance
        self._first, self._variances, self._with_moves, self._log = first, variances, with_moves, log
        few = Few(rows, weights, self._k, random)
        how = {"streamed": streamed, "client": client, "rows": rows}
        self.points = points = model._blocks_of(rows.X, self._k, weights=weights, **how)
        self._few = points
        if not few.all:
            self._few = Points(
                few.X, self._k, rows.space, points.centre, points.diagonal, weights=few.weights
            )
        self.prior, self.moves = prior, []
        climb = self._begin(few, random)
        if self._few is not points and first.means is None:
            climb = self._climb(points, climb.result()[:3])
        self.climb, self.converged = self._finish(climb)
        log.flush()

    @property
    def n_active(self):
        return _n_active(self.climb)

    def _model(self, weights):
        return steps_of(self.prior, self._asked.reg_covar, self._kind, weights)

    def _begin(self, few, random):
        """Return the climb of the best start.

        If there are many points, the climb begins with EM and moves among a few of them. A start whose means
        are given begins with EM on all points.
        """
        model, first, found = self._asked, self._first, []
        given, known, among_few = first.means is not None, True, self._few is not self.points
        if self.prior is not None:
            known, widths = self.prior.scale is not None or first.are_known, None
            if first.are_known:
                widths = self._typical(first.weights * self._few.total, first.covariances)
            self.prior = self.prior.for_data(model._centre, self._variances, widths)
        for _ in range(1 if given else model.n_init):
            means, climb = first.means, None
            if not given:
                means = few.means(self._k, np.sqrt(self._variances), model.init_params, random)
            state = first.weights, means, first.covariances
            if not known:
                climb, moves = self._search_for_widths(state, given)
                known = True
            elif not given and (among_few or model.n_init > 1):
                climb, moves, _ = self._search(state)
            if climb is None or (given and among_few):
                climb, moves = self._climb(self.points, state), []
            found.append((climb, moves))
        climbs = [climb for climb, _ in found]
        best = int(np.argmax([climb.history[-1] if climb.history else -np.inf for climb in climbs]))
        self.starts = self._compared(climbs, best)
        if not among_few:
            self.moves = found[best][1]
        return climbs[best]

    def _search_for_widths(self, state, given):
        """Return a search that also finds the prior's scale, and is repeated if the components' widths have
        changed.

        Before moves there are more components than clusters. If these have few points, they are much narrower
        than clusters, and a prior that narrow would keep them so.
        """
        p, open_prior = len(self._variances), self.prior
        state = self._widen(state, given)
        for left in reversed(range(_ROUNDS if self._with_moves else 1)):
            climb, moves, converged = self._search(state)
            if not converged or not left:
                break
            found, before = climb.result()[:3], self.prior.scale
            widths = self._typical(climb.moments[0], found[2], self.prior.dof)
            if abs(np.linalg.slogdet(before)[1] - np.linalg.slogdet(widths)[1]) < _CHANGED * p:
                break
            self.prior = open_prior.as_wide_as(widths, self._variances)
            state = state if given else found
        return climb, moves

    def _widen(self, state, given):
        """Set the prior's scale from the widths of components after some iterations, which begin under a
        prior whose scale depends only on their number. Return the state after these, or the user's if one was
        given."""
        p, open_prior, found = len(self._variances), self.prior, state
        widths = np.diag(self._variances) * self._k ** (-2.0 / p)  # Fraley and Raftery (2007)
        for _ in range(_ROUNDS):
            self.prior, before = open_prior.as_wide_as(widths, self._variances), widths
            climb = self._climb(self._few, found)
            climb.run(_BEFORE, _COARSE)
            found = climb.result()[:3]
            widths = self._typical(climb.moments[0], found[2], self.prior.dof)
            if np.linalg.slogdet(before)[1] - np.linalg.slogdet(widths)[1] < _CHANGED * p:
                break
        self.prior = open_prior.as_wide_as(widths, self._variances)
        return state if given else found

    def _typical(self, counts, covariances, dof=None):
        """Return covariances that are typical of the modes under a prior of `dof`: posterior expectations,
        which do not shrink with the number of points as modes do."""
        active = exceeds(counts, min(2.0, 0.5 * counts.max()))
        kind, variances = self._kind, self._variances
        each = covariances if kind == "tied" else covariances[active]
        if dof is not None and kind != "tied":
            own, p = counts[active] + dof, len(variances)
            each = each * ((own + p + 2.0) / (own - p + 1.0)).reshape(-1, *[1] * (each.ndim - 1))
        return typical(kind, counts[active], each, variances)

    def _climb(self, points, state):
        return Climb(points, self._model, self._kind, *state, self._log)

    def _search(self, state):
        """Run EM and moves among the few points; return the climb, its moves and whether it converged."""
        climb, tol = self._climb(self._few, state), self._asked.tol
        tols = [max(tol, _COARSE) if tol >= 0.0 else tol]
        return climb_with(climb, self._moves(), tols, min(self._asked.max_iter, _AMONG_FEW))

    def _moves(self, sure=False):
        return Moves(sure) if self._with_moves else None

    def _finish(self, climb):
        tol = self._asked.tol
        # no moves were tried before
        is_first = self._few is self.points or self._first.means is not None
        coarse = self._with_moves and is_first and tol >= 0.0
        tols = [max(tol, _COARSE), tol] if coarse else [tol]
        moves = self._moves(not is_first)
        climb, more, converged = climb_with(climb, moves, tols, self._asked.max_iter)
        self.moves = [*self.moves, *more]
        return climb, converged

    def _compared(self, climbs, best):
        if len(climbs) == 1:
            return ()
        labels = [self._few.labels(climb.components) for climb in climbs]
        return tuple(
            Start(climb.history[-1], _n_active(climb), agreement(own, labels[best]))
            for climb, own in zip(climbs, labels)
        )


def climb_with(climb, moves, tols, max_iter):
    """Run EM to each of the tolerances in turn, with moves whenever it has converged; return the climb, the
    moves made and whether it converged."""
    made = []
    for tol in tols:
        while True:
            if not climb.run(max(max_iter - max(len(climb.history) - 1, 0), 0), tol):
                return climb, made, False
            found = moves.better(climb) if moves is not None and len(climb.history) <= max_iter else None
            if found is None:
                break
            climb = found[0]
            made.append(found[1])
    return climb, made, True


def agreement(labels, others):
    """Return the adjusted Rand index of two labellings (Hubert and Arabie 1985)."""
    table = np.stack([labels, others])
    counts = [np.unique(own, axis=-1, return_counts=True)[1] for own in (table, *table)]
    both, one, other, n = (float((c * (c - 1.0)).sum() / 2.0) for c in (*counts, np.array([len(labels)])))
    chance = one * other / n if n else 0.0
    most = 0.5 * (one + other)
    return 1.0 if most == chance else (both - chance) / (most - chance)


def _n_active(climb):
    n, xbar, _ = climb.moments
    return int(exceeds(n, xbar.shape[1] + 1.0).sum())
