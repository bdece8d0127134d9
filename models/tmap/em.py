"""The EM iteration, for several models of the same orders at once: E-steps of shards, and the M-step on a
space of this process."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import NOWHERE, Array, Frozen, Shards, launch, local_space, nodes
from ..shared.sharding import total as add_up
from . import kernels
from .expectation import Expectation
from .model import TransientMAP
from .packed import check_range, log_factorials, log_unit, parts_of, unit_of
from .saved_starts import SavedStarts

_BATCH = 10  # iterations between two checks of convergence
SHORTEST = 1e-3  # a branch's mean gap is at least this share of the shortest positive gap


class Sums(Frozen):
    """The sums (6) of one model.

    Attributes
    ----------
    loglik : float
    first, last, opened, time : ndarray, shape (n_branches,)
        Expected numbers of runs that begin in each branch, of runs that end there, of open gaps, and the
        expected time in each branch.
    moves : ndarray, shape (n_branches, n_branches)
        Expected numbers M_ij of switches.
    """

    loglik: float
    first: Array
    last: Array
    opened: Array
    time: Array
    moves: Array

    @property
    def completed(self):
        """Expected number of gaps of each branch with an observed end."""
        return self.moves.sum(axis=1) + self.last

    @property
    def visits(self):
        """Expected number of gaps N_i of each branch."""
        return self.completed + self.opened


class End(NamedTuple):
    """Result of EM from one start.

    Attributes
    ----------
    model : TransientMAP
    history : ndarray
        The log-likelihood before each step and after the last.
    converged : bool
    visits : ndarray, shape (n_branches,), or None
        `Sums.visits` of the model, if its last E-step was in this run, in a space of this process.
    """

    model: TransientMAP
    history: Array
    converged: bool
    visits: Array | None


class EM:
    """Runs in a space, and models that EM fits to them concurrently.

    Parameters
    ----------
    runs : Runs
    orders : ndarray of int, shape (n_branches,)
    n_models : int
    dtype : type
        Dtype of the recursions. Sums and the M-step are in float64.
    space : str, Space or a list of them
    memory_bytes : int, optional
        Bytes of the space for packed gaps. If they need more, they are streamed: the parts are kept on the
        host, and each E-step copies them to the space in turn.
    client : distributed.Client, optional
        Its workers hold the runs. The M-step runs in this process.
    """

    def __init__(self, runs, orders, n_models, dtype, space, memory_bytes=None, client=None):
        check_range(runs, dtype)
        parts, whole = parts_of(runs, dtype, memory_bytes, space, client)
        self.runs, self.dtype, self.unit = runs, dtype, unit_of(runs)
        self.n_shards = parts[0].n_shards if hasattr(parts[0], "cuts") else len(parts)
        self.orders, self.n_branches, self.n_models = orders, len(orders), n_models
        self._given = (lambda view: view) if client is None else (lambda view: view.to_numpy())
        self.shortest = SHORTEST * runs.shortest
        n = self.n_branches
        model, own = (n_models, kernels.SWITCHING + n, n), local_space(client, space)
        self._exact, self._state = pk.empty(model, space=own), pk.empty((n_models, 2), np.int64, own)
        self._models = self._exact if dtype is np.float64 else pk.empty(model, dtype, own)
        self._loaded = [self._exact, self._state, *([] if dtype is np.float64 else [self._models])]
        self._factorials = pk.copy_of(log_factorials(orders), own)
        self.space, self.shown = self._exact.space, None  # the bar of a fit
        make = functools.partial(Expectation, n_models, n, self.n_shards, dtype, self.unit)
        in_file = hasattr(runs, "parts")
        if (
            not whole and client is None and not in_file
        ):  # laid out once, though they are copied to the space at each step
            method = make(self.space)
            parts = [method.lay_out(part).on_host() for part in parts]
        self._shards = Shards(
            make,
            parts,
            client=client,
            space=space,
            room=None if whole or (in_file and client is not None) else 0.0,
            label="tmap",
        )
        self._last = None, None, None

    @functools.cached_property
    def _local_shards(self):
        """The method and the prepared shards of a space of this process, or None. They are prepared at first
        use: during that launch Python's memory leaves the caches."""
        own = self._shards.prepared_shards()
        if own is None:
            n_sums = kernels.row_of(kernels.MOVE, self.n_branches, self.n_branches**2)
            self._total = pk.zeros((self.n_models, n_sums), space=self.space)
        else:  # views of the first piece, to whose sums the others are added
            method, pieces = own
            method.views, self._total = (self._exact, self._models, self._state), pieces[0].total[0]
        return own

    def expect(self):
        """Run the E-step: compute `_total` from the models."""
        if self._local_shards is None:
            sums = self._shards.reduce("sums", *map(self._given, self._loaded), stay=True)[0]
            if isinstance(sums, pk.View):  # sums of the first place, in this space
                self._total = sums
            else:
                pk.deep_copy(self._total, sums)
        else:
            method, pieces = self._local_shards
            add_up(nodes(method.sums(pieces), 0, len(pieces)))

    def load(self, models):
        """Set the start models, at most n_models; branches are in the order of `orders`."""
        exact = np.empty(self._exact.shape)
        for k in range(self.n_models):
            exact[k] = models[k if k < len(models) else 0].rows(self.unit)
        state = np.zeros((self.n_models, 2), np.int64)
        state[len(models) :, kernels.STATUS] = kernels.MAX_ITER
        for target, source in zip(self._loaded, (exact, state, exact.astype(self.dtype, copy=False))):
            pk.deep_copy(target, source)

    def expectation(self, models):
        """Compute the Sums of each model, for any number of models."""
        found = []
        for some in self._batches(models):
            self.load(some)
            self.expect()
            found += [self._read(model, row) for model, row in zip(some, self._total.to_numpy().copy())]
        return found

    def _batches(self, models):
        """Yield batches of models that run concurrently."""
        for begin in range(0, len(models), self.n_models):
            yield models[begin : begin + self.n_models]

    def _read(self, model, row):
        n = self.n_branches
        parts = row[1 : 1 + 4 * n].reshape(4, n)
        return Sums(
            float(row[0] - log_unit(self.runs)),
            *parts[:3],
            parts[3] * self.unit,
            model.switching * row[1 + 4 * n :].reshape(n, n),
        )

    def run_em(self, models, max_iter, tol, store=NOWHERE):
        """Run EM from each model until a step gains no more than `tol` a gap, or for `max_iter` steps.

        The store keeps the models reached so far.

        Returns
        -------
        list of End
        """
        return [end for some in self._batches(models) for end in self._run_batch(some, max_iter, tol, store)]

    def _run_batch(self, models, max_iter, tol, store):
        self.load(models)
        history, iterations = self._batch(max_iter, tol)
        saved = SavedStarts(store, self._exact, self._models, self._state, history)
        ended, n = 0, len(models)
        # starts loaded from a store may have converged already
        state = None if store.path is None else self._state.to_numpy()
        stepped = running = np.ones(n, bool) if state is None else _running(state[:n])
        while running.any():
            iterations.replay()
            if store.due():
                saved.write()
            state = self._state.to_numpy()
            running = _running(state[:n])
            ended = self._show(ended, n - int(running.sum()))
        self._show(ended, n)
        saved.write()
        exact, history = self._exact.to_numpy(), history.to_numpy()
        totals = [None] * n if self._local_shards is None else self._total.to_numpy()
        # the last step was only an E-step, of the same model
        known = (total if own else None for total, own in zip(totals, stepped))
        return list(map(self._end, exact, state, history, known))

    def _end(self, rows, state, history, total):
        """Return the End of a start from its model's rows, and from its sums, or None."""
        model = self._model(rows)
        return End(
            model,
            history[: state[kernels.STEP] + 1] - log_unit(self.runs),
            bool(state[kernels.STATUS] == kernels.CONVERGED),
            None if total is None else self._read(model, total).visits,
        )

    def _batch(self, max_iter, tol):
        """Return a history of zeros, and iterations that write it; those of the previous batch are reused if
        max_iter and tol are the same."""
        asked, history, iterations = self._last
        if asked == (max_iter, tol):
            pk.deep_copy(history, 0.0)
            return history, iterations
        history = pk.zeros((self.n_models, max_iter + 1), space=self.space)
        n_iterations = min(_BATCH, max_iter + 1) if self._local_shards or self._shards.queued else 1
        iterations = self.iterations(n_iterations, max_iter, tol, history)
        self._last = (max_iter, tol), history, iterations
        return history, iterations

    def _show(self, before, ended):
        """Advance the progress bar from `before` to `ended` converged models."""
        if self.shown is not None:
            self.shown.advance(self.shown.tasks[0].id, ended - before)
        return ended

    def iterations(self, n_iterations, max_iter, tol, history):
        """Make n_iterations EM iterations that can be replayed: Iterations."""
        policy = pk.TeamPolicy(self.n_models, 32, space=self.space)
        fixed = (
            kernels.branches(self.n_branches)[1],
            max_iter,
            tol * self.runs.n_gaps,
            self.shortest / self.unit,
            self._factorials,
        )

        def iterate():
            self.expect()
            views = self._total, self._state, history, self._exact, self._models
            launch(policy, kernels.maximise, *fixed, *views)

        return Iterations(iterate, n_iterations, None if self._local_shards is None else self.space)

    def _model(self, rows):
        """Make a model from the rows of the M-step; its probabilities sum to 1 up to rounding."""
        switching, exits = rows[kernels.SWITCHING :], rows[kernels.EXIT]
        whole = switching.sum(axis=1) + exits
        alpha = rows[kernels.ALPHA] / rows[kernels.ALPHA].sum()
        return TransientMAP(alpha, self.orders, rows[kernels.RATE] / self.unit, switching / whole[:, None])


class Iterations:
    """EM iterations that are launched repeatedly.

    Parameters
    ----------
    iterate : callable
        Launches one iteration.
    n : int
        Number of iterations in a replay.
    space : Space or None
        Space of a graph of iterations; None if other places or copies take part in them.
    """

    def __init__(self, iterate, n, space):
        self._iterate, self._n, self._space, self._replays = iterate, n, space, 0
        self._launch, self._times = iterate, n

    def replay(self):
        """Launch the iterations. If launches are not queued, a graph of one iteration is used at once, as it
        saves the time between launches. If they are queued, a fit may end sooner than a graph is made: the
        first replay launches each kernel, the second a graph of one iteration, later ones a graph of all."""
        if self._space is not None and self._replays < 3:
            queued = pk.queued(self._space)
            in_graph = ((0, 1, self._n) if queued else (1, 0, 0))[self._replays]
            if in_graph:
                with pk.capture(self._space) as graph:
                    for _ in range(in_graph):
                        self._iterate()
                self._launch, self._times = graph.replay, self._n // in_graph
            self._replays += 1
        for _ in range(self._times):
            self._launch()


def _running(state):
    """Return a mask of the starts that have not converged."""
    return state[:, kernels.STATUS] == kernels.RUNNING
