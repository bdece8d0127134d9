"""Store chains' draws: in parts, each with the chains' state after it."""

from __future__ import annotations

import numpy as np

from . import chain_kernels as ck

_OWN = ("row", "draws", "looks")  # of a part; all else is a state


class Kept:
    """Draws that a store keeps, and those that are added to it.

    A part begins and ends at a look at the chains (`Chains.advance`), so that a run in one go, an interrupted
    one and one that was made longer look at the same moments. A part in which some chain came to its end is
    of no use to a longer run: it is kept apart, by its length.

    Parameters
    ----------
    store : Store
    n_chains, n_rows, n_columns, thin : int
        Of the draws.

    Attributes
    ----------
    draws : ndarray, shape (n_chains, n_rows, n_columns)
        NaN where there are none yet.
    state : dict of arrays or None
        Of the chains after the last part (`Chains.snapshot`); None before the first.
    ended : bool
        All draws are there.
    """

    def __init__(self, store, n_chains, n_rows, n_columns, thin):
        self._store, self._n_rows, self._thin, self._looks, self._steps = (
            store,
            n_rows,
            thin,
            0,
            np.zeros(1, np.int64),
        )
        self.draws, self.state, self.ended = np.full((n_chains, n_rows, n_columns), np.nan), None, False
        self.take()

    def take(self):
        """Go on over the parts that are there; whether there was one."""
        before = self._looks
        while not self.ended:
            part = self._store.get(f"looks-{self._looks:012d}")
            if part is None or part["counts"][:, ck.STEP].max() >= self._n_rows * self._thin:
                part = self._store.get(self._last)
                if part is None or part["looks"][0] != self._looks:
                    break
                self.ended = True
            row, (_, self._looks) = int(part["row"]), part["looks"].tolist()
            self.draws[:, row : row + part["draws"].shape[1]] = part["draws"]
            self.state = {name: array for name, array in part.items() if name not in _OWN}
            self._steps = self.state["counts"][:, ck.STEP]
        self._now, self._limit = self._looks, min(self._begins(), default=None)
        return self._looks > before

    def arrays(self):
        """Return all that `Chains.restore` asks for."""
        return self.state | {"draws": self.draws}

    def look(self, chains):
        """Note a look at the chains, and keep what they have done if it is time.

        Returns
        -------
        bool
            Later parts were there already: the chains are to be restored.
        """
        self._now += 1
        steps, n_steps = chains.counts[:, ck.STEP].copy(), self._n_rows * self._thin
        if steps.min() == n_steps:
            self._put(self._last, chains, steps)
            self.ended = True
        elif steps.max() < n_steps and (self._now == self._limit or self._store.due()):
            self._put(f"looks-{self._looks:012d}", chains, steps)
            self._looks, self._steps = self._now, steps
            return self.take()
        return False

    @property
    def _last(self):
        return f"end-{self._n_rows * self._thin:012d}"

    def _begins(self):
        """Return the beginnings of later parts."""
        return [
            begin
            for begin in (int(name[-12:]) for name in self._store.names("looks-"))
            if begin > self._looks
        ]

    def _put(self, name, chains, steps):
        state = chains.snapshot()
        row, end = int(self._steps.min()) // self._thin, -(-int(steps.max()) // self._thin)
        draws = state.pop("draws")
        self.draws[:, row:end] = draws[:, row:end]
        self.state = state
        self._store.put(
            name,
            row=np.array(row),
            draws=draws[:, row:end],
            looks=np.array([self._looks, self._now]),
            **state,
        )
