"""The EM iteration as launches: both steps on the space, for several models of the same orders at once."""

from __future__ import annotations

import itertools
import types
from dataclasses import dataclass

import numpy as np

import portable as pk

from ..store import NOWHERE
from . import kernels
from .kept import Kept
from .kernels import PACK
from .model import TransientMAP, log_factorials
from .packed import FADED, Packed, check_range, log_unit, parts_of, tiny, unit_of

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
    memory_limit : int, optional
        Bytes of the space that gaps may take, packed. What is more is streamed: the parts wait on the host, and each E-step
        copies them to the space in turn.
    """

    def __init__(self, runs, orders, n_models, dtype, space, memory_limit=None):
        check_range(runs, dtype)
        parts = parts_of(runs, dtype, memory_limit)
        self.runs, self.dtype, self.unit, self.streamed = runs, dtype, unit_of(runs), len(parts) > 1
        self.orders, self.n_branches, self.n_models = orders, len(orders), n_models
        self.shortest = SHORTEST * runs.shortest
        n = self.n_branches
        model, n_sums = (n_models, kernels.SWITCHING + n, n), kernels.row_of(kernels.MOVE, n, n * n)
        self._exact, self._models = pk.empty(model, np.float64, space), pk.empty(model, dtype, space)
        self._state = pk.zeros((n_models, 2), np.int64, space)
        self._total = pk.zeros((n_models, n_sums), np.float64, space)
        self._factorials = pk.copy_of(log_factorials(orders), space)
        self.space = self._exact.space
        self._parts, n_rows = zip(*(self._lay_out(part) for part in parts))
        self._filtered = pk.empty((n_models, max(n_rows) * n * PACK), dtype, space)

    def _lay_out(self, runs):
        """What the E-step takes of some runs, and how many rows of `filtered` it wants."""
        packed = Packed(runs, self.space, self.dtype, self.unit)
        shares = packed.shares()
        longest = packed.rows_of(shares[:-1])
        views = *(pk.copy_of(part, self.space) for part in (shares, np.cumsum(longest) - longest)), *packed.views
        if self.streamed:
            views = tuple(view.to_numpy().copy() for view in views)
        sums = pk.zeros((*self._total.shape, len(longest)), np.float64, self.space)
        table = packed.table(self.n_models, self.n_branches)
        tabulation = packed.tabulation(self._exact, table) if packed.rounded else None
        return (packed.censoring, views, sums, table, tabulation), int(longest.sum())

    def launches(self):
        """The launches of an E-step in their order."""
        for number, (censoring, views, sums, table, tabulation) in enumerate(self._parts):
            if tabulation:
                yield tabulation
            if self.streamed:
                views = tuple(pk.copy_of(view, self.space) for view in views)
            yield (pk.TeamPolicy(self.n_models * sums.shape[2], PACK, space=self.space), kernels.expectation,
                   *kernels.branches(self.n_branches), pk.static(censoring), pk.static(tabulation is not None),
                   FADED[self.dtype], tiny(self.dtype), self._state, self._models, table, *views, self._filtered, sums)
            yield (pk.TeamPolicy(self._total.size, 512, space=self.space), kernels.add_sums, number, sums, self._total)

    def load(self, models):
        """Start from these, at most n_models; branches in the order of `orders`."""
        exact = np.stack([model.rows(self.unit) for model in models])
        rest = np.repeat(exact[:1], self.n_models - len(models), axis=0)
        exact = np.concatenate([exact, rest])
        state = np.zeros((self.n_models, 2), np.int64)
        state[len(models):, kernels.STATUS] = kernels.USED_UP
        for target, source in ((self._exact, exact), (self._models, exact.astype(self.dtype)), (self._state, state)):
            pk.deep_copy(target, source)

    def expectation(self, models):
        """The Sums of each model, any number of them."""
        found = []
        for begin in range(0, len(models), self.n_models):
            some = models[begin : begin + self.n_models]
            self.load(some)
            for launch in self.launches():
                pk.parallel_for(*launch)
            found += [self._read(model, row) for model, row in zip(some, self._total.to_numpy().copy())]
        return found

    def _read(self, model, row):
        n = self.n_branches
        parts = row[1 : 1 + 4 * n].reshape(4, n)
        return Sums(float(row[0] - log_unit(self.runs)), *parts[:3], parts[3] * self.unit,
                    model.switching * row[1 + 4 * n :].reshape(n, n))

    def climb(self, models, max_iter, tol, store=NOWHERE):
        """EM from each model until a step gains no more than `tol` a gap, or for `max_iter` steps.

        A store keeps where they have come to.

        Returns
        -------
        list of (TransientMAP, history, converged)
            `history` has the log-likelihood before each step and after the last.
        """
        self.load(models)
        history = pk.zeros((self.n_models, max_iter + 1), np.float64, self.space)
        kept = Kept(store, self._exact, self._models, self._state, history)
        iterations = self.iterations(1 if self.streamed else min(_BATCH, max_iter + 1), max_iter, tol, history)
        while (self._state.to_numpy()[:, kernels.STATUS] == kernels.CLIMBING).any():
            iterations.replay()
            if store.due():
                kept.keep()
        kept.keep()
        exact, state, history = self._exact.to_numpy(), self._state.to_numpy(), history.to_numpy()
        return [(self._model(exact[k]), history[k, : state[k, kernels.STEP] + 1] - log_unit(self.runs),
                 bool(state[k, kernels.STATUS] == kernels.AT_REST)) for k in range(len(models))]

    def iterations(self, n_iterations, max_iter, tol, history):
        """That many EM iterations, to be replayed: a graph, unless parts are copied in between."""
        maximise = (pk.TeamPolicy(self.n_models, 32, space=self.space), kernels.maximise,
                    kernels.branches(self.n_branches)[1], max_iter, tol * self.runs.n_gaps, self.shortest / self.unit,
                    self._factorials, self._total, self._state, history, self._exact, self._models)

        def iterate():
            for _ in range(n_iterations):
                for launch in itertools.chain(self.launches(), [maximise]):
                    pk.parallel_for(*launch, label=f"tmap.{launch[1].name}")

        if self.streamed:
            return types.SimpleNamespace(replay=iterate)
        with pk.capture(self.space) as graph:
            iterate()
        return graph

    def _model(self, rows):
        """A model of the rows that the M-step has left; its probabilities sum to 1 but for rounding."""
        switching, exits = rows[kernels.SWITCHING :], rows[kernels.EXIT]
        whole = switching.sum(axis=1) + exits
        alpha = rows[kernels.ALPHA] / rows[kernels.ALPHA].sum()
        return TransientMAP(alpha, self.orders, rows[kernels.RATE] / self.unit, switching / whole[:, None])
