"""Keep the results of EM in a store: the same fit, a longer one or one of more starts continues there."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from ..shared.store import NOWHERE

# of a run; the last three once it has ended
_FIELDS = "state", "means", "covariances", "history", "end", "n", "xbar", "scatter"


@dataclass
class Run:
    """A run of EM from one start: its name, iterations done, whether it has converged and has ended."""

    name: str = ""
    done: int = 0
    converged: bool = False
    ended: bool = False


class Log:
    """Runs by their start, so that whatever leads to it again finds what it came to.

    Those that have ended are gathered in parts; of the one that goes on the latest two states are kept.
    `step`, if it is given, is called with the climb after each iteration.
    """

    def __init__(self, store=NOWHERE, step=None):
        self._store, self._found, self._ended, self._turn, self._damaged = store, {}, {}, 0, []
        self._step = step
        for part in store.names():
            kept = store.get(part)
            if kept is None:
                self._damaged += [part] * part.startswith("runs-")
                continue
            for key in {key.partition(".")[0] for key in kept}:
                run = {field: kept[f"{key}.{field}"] for field in _FIELDS if f"{key}.{field}" in kept}
                name, asked = key.split("-")
                same = self._found.setdefault(name, {})
                if int(asked) not in same or tuple(run["end"]) > tuple(same[int(asked)]["end"]):
                    same[int(asked)] = run
        self._number = 1 + max((int(part[-6:]) for part in store.names("runs-")), default=-1)

    def begin(self, climb, n_iter, tol, beat):
        """Return the run of at most `n_iter` iterations that `climb` is about to make; what was kept is
        put in place."""
        if self._store.path is None:
            return Run()
        beaten = np.nan if beat is None else beat
        numbers = climb.points.n, climb.points.total, tol, beaten, len(climb.history) > 0
        digest = hashlib.sha256(f"{climb.kind} {type(climb.model).__name__} ".encode())
        for array in (np.array(numbers, np.float64), climb.model.state(), *climb.steps.result()[:2]):
            digest.update(np.ascontiguousarray(array).data)
        run = Run(digest.hexdigest()[:32])
        same = self._found.get(run.name, {})  # by how many iterations were asked for
        shorter = [kept for kept in same.values() if beat is None and kept["end"][0] <= n_iter]
        kept = same.get(n_iter) or max(shorter, key=lambda kept: tuple(kept["end"]), default=None)
        if kept is not None:
            done, converged, ended = kept["end"].tolist()
            run.done, run.converged = done, bool(converged)
            run.ended = bool(ended) and (run.converged or done == n_iter or beat is not None)
            climb.place(*(kept[field] for field in _FIELDS[:4]))
            if run.ended:
                climb.moments = tuple(kept[field] for field in _FIELDS[5:])
        return run

    def note(self, run, climb, n_iter, n_before):
        """After an iteration: keep the state if it is time."""
        if self._step is not None:
            self._step(climb)
        if self._store.due():
            self.flush()
            self._store.put(f"now-{self._turn}", **self._record(run, climb, n_iter, n_before))
            self._turn = 1 - self._turn

    def end(self, run, climb, n_iter, n_before):
        """A run has ended."""
        run.ended = True
        if self._store.path is not None:
            self._ended |= self._record(run, climb, n_iter, n_before, climb.moments)
            if self._store.due():
                self.flush()

    def flush(self):
        """Write down the runs that have ended."""
        if self._ended:
            name = self._damaged.pop() if self._damaged else f"runs-{self._number:06d}"
            self._store.put(name, **self._ended)
            self._number, self._ended = self._number + 1, {}

    def _record(self, run, climb, n_iter, n_before, moments=()):
        arrays = climb.model.state(), *climb.steps.result()[:2], np.array(climb.history[n_before:])
        end = np.array([run.done, run.converged, run.ended], np.int64)
        whole = zip(_FIELDS, (*arrays, end, *moments))
        return {f"{run.name}-{n_iter}.{field}": np.array(array) for field, array in whole}


NOTHING = Log()  # keeps nothing
