"""Keep the results of EM in a store, so that an interrupted fit, a longer one or one with more starts
continues from them."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..shared import NOWHERE

# fields of a stored run; the last three exist once it has ended
_FIELDS = "state", "means", "covariances", "history", "end", "n", "xbar", "scatter"


@dataclass
class Run:
    """A run of EM from one start: its name, iterations done, whether it has converged and has ended."""

    climb: Any
    n_iter: int
    n_before: int
    name: str = ""
    done: int = 0
    converged: bool = False
    ended: bool = False


class Log:
    """Results of runs by their start, so that a repeated run from the same start takes its stored result.

    Ended runs are stored together in parts; for the current run, the latest two states are stored. `step`, if
    given, is called with the climb after each iteration.
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
        """Return the Run of at most `n_iter` iterations that `climb` is about to make; if its result is
        stored, the climb is set to it."""
        run = Run(climb, n_iter, len(climb.history))
        if self._store.path is None:
            return run
        beaten = np.nan if beat is None else beat
        numbers = climb.points.n, climb.points.total, tol, beaten, len(climb.history) > 0
        digest = hashlib.sha256(f"{climb.kind} {type(climb.model).__name__} ".encode())
        for array in (np.array(numbers, np.float64), climb.model.state(), *climb.steps.result()[:2]):
            digest.update(np.ascontiguousarray(array).data)
        run.name = digest.hexdigest()[:32]
        same = self._found.get(run.name, {})  # stored runs by `n_iter`
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

    def note(self, run):
        """Store the state after an iteration if a checkpoint is due, and call `step`."""
        if self._step is not None:
            self._step(run.climb)
        if self._store.due():
            self.flush()
            self._store.put(f"now-{self._turn}", **self._record(run))
            self._turn = 1 - self._turn

    def end(self, run):
        """Mark a run as ended and store its result."""
        run.ended = True
        if self._store.path is not None:
            self._ended |= self._record(run, run.climb.moments)
            if self._store.due():
                self.flush()

    def flush(self):
        """Write the runs that have ended to the store."""
        if self._ended:
            name = self._damaged.pop() if self._damaged else f"runs-{self._number:06d}"
            self._store.put(name, **self._ended)
            self._number, self._ended = self._number + 1, {}

    def _record(self, run, moments=()):
        climb = run.climb
        arrays = climb.model.state(), *climb.steps.result()[:2], np.array(climb.history[run.n_before :])
        end = np.array([run.done, run.converged, run.ended], np.int64)
        whole = zip(_FIELDS, (*arrays, end, *moments))
        return {f"{run.name}-{run.n_iter}.{field}": np.array(array) for field, array in whole}


NOTHING = Log()  # stores nothing
