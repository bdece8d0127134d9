"""The EM iteration as launches: both steps on the space, for several models of the same orders at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import portable as pk

from . import kernels
from .kernels import PACK
from .model import TransientMAP, log_factorials
from .packed import Packed

_BATCH = 10  # iterations between two looks at whether the starts have come to rest
SHORTEST = 1e-3  # a branch's mean gap is at least this share of the shortest positive gap


@dataclass(frozen=True)
class Sums:
    """The sums (6) of one model.

    Attributes
    ----------
    loglik : float
    first, last, opened, time : ndarray, shape (n_branches,)
        Expected numbers of runs that begin in each branch, of those that end there, of open gaps, and time spent.
    moves : ndarray, shape (n_branches, n_branches)
        Expected numbers M_ij of switches.
    """

    loglik: float
    first: np.ndarray
    last: np.ndarray
    opened: np.ndarray
    time: np.ndarray
    moves: np.ndarray

    @property
    def seen(self):
        """Expected number of gaps of each branch whose end was seen."""
        return self.moves.sum(axis=1) + self.last

    @property
    def visits(self):
        """Expected number of gaps N_i of each branch."""
        return self.seen + self.opened


class EM:
    """Runs in a space, and models that climb there together.

    Parameters
    ----------
    runs : Runs
    orders : ndarray of int, shape (n_branches,)
    n_models : int
    dtype : type
        Of the recursions. Sums and the M-step are in float64.
    space : str or Space
    """

    def __init__(self, runs, orders, n_models, dtype, space):
        self.packed = packed = Packed(runs, space, dtype)
        self.orders, self.n_branches, self.n_models = orders, len(orders), n_models
        self.n_gaps = runs.n_gaps
        self.shortest = SHORTEST * runs.shortest
        n, space = self.n_branches, packed.space
        shares = packed.shares()
        longest, n_teams = packed.rows_of(shares[:-1]), len(shares) - 1
        kept = np.cumsum(longest) - longest
        n_sums = kernels.row_of(kernels.MOVE, n, n * n)
        model = n_models, kernels.SWITCHING + n, n
        self._exact, self._models = pk.empty(model, np.float64, space), pk.empty(model, dtype, space)
        self._state = pk.zeros((n_models, 2), np.int64, space)
        self._sums = pk.zeros((n_models, n_sums, n_teams), np.float64, space)
        self._total = pk.zeros((n_models, n_sums), np.float64, space)
        self._factorials = pk.copy_of(log_factorials(orders), space)
        filtered = pk.empty((n_models, int(longest.sum()) * n * PACK), dtype, space)
        self._expectation = (
            (pk.TeamPolicy(n_models * n_teams, PACK, space=space), kernels.expectation, *kernels.branches(n),
             pk.static(packed.censoring), packed.faded, packed.tiny, pk.copy_of(shares, space), pk.copy_of(kept, space),
             self._state, self._models, *packed.views, filtered, self._sums),
            (pk.TeamPolicy(n_models * n_sums, 128, space=space), kernels.add_sums, self._sums, self._total),
        )

    def load(self, models):
        """Start from these, at most n_models; branches in the order of `orders`."""
        exact = np.stack([model.rows(self.packed.unit) for model in models])
        rest = np.repeat(exact[:1], self.n_models - len(models), axis=0)
        exact = np.concatenate([exact, rest])
        state = np.zeros((self.n_models, 2), np.int64)
        state[len(models):, kernels.STATUS] = kernels.USED_UP
        for target, source in ((self._exact, exact), (self._models, exact.astype(self.packed.dtype)), (self._state, state)):
            pk.deep_copy(target, source)

    def expectation(self, models):
        """The Sums of each model, any number of them."""
        found = []
        for begin in range(0, len(models), self.n_models):
            some = models[begin : begin + self.n_models]
            self.load(some)
            for launch in self._expectation:
                pk.parallel_for(*launch)
            found += [self._read(model, row) for model, row in zip(some, self._total.to_numpy().copy())]
        return found

    def _read(self, model, row):
        n = self.n_branches
        parts = row[1 : 1 + 4 * n].reshape(4, n)
        return Sums(float(row[0] - self.packed.log_unit()), *parts[:3], parts[3] * self.packed.unit,
                    model.switching * row[1 + 4 * n :].reshape(n, n))

    def climb(self, models, max_iter, tol):
        """EM from each model until a step gains no more than `tol` a gap, or for `max_iter` steps.

        Returns
        -------
        list of (TransientMAP, history, converged)
            `history` has the log-likelihood before each step and after the last.
        """
        self.load(models)
        history = pk.zeros((self.n_models, max_iter + 1), np.float64, self.packed.space)
        iterations = self.iterations(min(_BATCH, max_iter + 1), max_iter, tol, history)
        while True:
            iterations.replay()
            state = self._state.to_numpy()
            if (state[:, kernels.STATUS] != kernels.CLIMBING).all():
                break
        exact, history = self._exact.to_numpy(), history.to_numpy()
        return [(self._model(exact[k]), history[k, : state[k, kernels.STEP] + 1] - self.packed.log_unit(),
                 bool(state[k, kernels.STATUS] == kernels.AT_REST)) for k in range(len(models))]

    def iterations(self, n_iterations, max_iter, tol, history):
        """A graph of that many EM iterations."""
        maximise = (pk.TeamPolicy(self.n_models, 32, space=self.packed.space), kernels.maximise,
                    kernels.branches(self.n_branches)[1], max_iter, tol * self.n_gaps, self.shortest / self.packed.unit,
                    self._factorials, self._total, self._state, history, self._exact, self._models)
        with pk.capture(self.packed.space) as graph:
            for _ in range(n_iterations):
                for launch in (*self._expectation, maximise):
                    pk.parallel_for(*launch, label=f"tmap.{launch[1].name}")
        return graph

    def _model(self, rows):
        """A model of the rows that the M-step has left; its probabilities sum to 1 but for rounding."""
        switching, exits = rows[kernels.SWITCHING :], rows[kernels.EXIT]
        whole = switching.sum(axis=1) + exits
        alpha = rows[kernels.ALPHA] / rows[kernels.ALPHA].sum()
        return TransientMAP(alpha, self.orders, rows[kernels.RATE] / self.packed.unit, switching / whole[:, None])
