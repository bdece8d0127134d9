"""Storage of the state of a fit's starts."""

import portable as pk

from ..shared.fingerprints import digest
from .kernels import MAX_ITER, RUNNING, STATUS, STEP


class SavedStarts:
    """The state of starts that run concurrently, each stored separately: a fit with more starts, or more
    steps, resumes from it.

    Parameters
    ----------
    store : Store
    exact : View of float64, shape (n_models, n_rows, n_branches)
        The models; at first the starts.
    models : View
        The same in the dtype of the gaps.
    state : View of int64, shape (n_models, 2)
    history : View of float64, shape (n_models, max_iter + 1)
    """

    def __init__(self, store, exact, models, state, history):
        self._store, self._views = store, (exact, state, history)
        if store.path is None:  # nothing is stored
            return
        found = [view.to_numpy().copy() for view in self._views]
        # the initial model determines the result, so that its digest is the name
        self._names = [f"start-{digest(first)[:16]}" for first in found[0]]
        most, n = history.shape[1] - 1, len(self._names)
        self._steps, self._turns, self._longer = [-1] * n, [0] * n, [False] * n
        for k in range(n if store.names("start-") else 0):
            self._restore(k, most, *found)
        for view, array in zip((*self._views, models), (*found, found[0])):
            pk.deep_copy(view, array.astype(view.dtype))

    def _restore(self, k, most, exact, state, history):
        """Restore the later of a start's two stored states, or the earlier one if that is damaged."""
        parts = [(turn, self._store.get(f"{self._names[k]}-{turn}")) for turn in (0, 1)]
        parts = [(int(part["state"][STEP]), turn, part) for turn, part in parts if part is not None]
        self._longer[k] = any(step > most for step, *_ in parts)
        parts = [part for part in parts if part[0] <= most]
        if parts:
            step, turn, part = max(parts, key=lambda part: part[:2])
            exact[k], state[k], history[k, : len(part["history"])] = (
                part["exact"],
                part["state"],
                part["history"],
            )
            if state[k, STATUS] == MAX_ITER and step < most:
                state[k, STATUS] = RUNNING
            self._steps[k], self._turns[k] = step + (state[k, STATUS] != RUNNING), 1 - turn

    def write(self):
        """Store the starts that have changed."""
        if self._store.path is None:
            return
        exact, state, history = (view.to_numpy() for view in self._views)
        for k, name in enumerate(self._names):
            step = int(state[k, STEP])
            moved = step + (state[k, STATUS] != RUNNING)  # the last evaluation counts as a step, too
            if moved != self._steps[k] and not self._longer[k]:
                self._store.put(
                    f"{name}-{self._turns[k]}", exact=exact[k], state=state[k], history=history[k, :moved]
                )
                self._steps[k], self._turns[k] = moved, 1 - self._turns[k]
