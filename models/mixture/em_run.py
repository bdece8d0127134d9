"""Run EM from a start for a number of iterations or to a tolerance."""

import numpy as np

from .em_store import NOTHING
from .steps import FullSteps, HostSteps

_PATIENCE = 40  # iterations of a trial that is about to exceed the objective it has to beat, at most


class Climb:
    """EM that starts from weights, means and covariances.

    Parameters
    ----------
    points : blocks.Points
    make_model : callable of weights
        prior.WithPrior or prior.WithoutPrior.
    kind : one of `covariance.KINDS`
    weights, means, covariances : ndarrays
        The start.
    log : kept.Log
        Stored results of earlier runs.
    steps : class, optional
        Class of the EM steps, such as `steps.HostSteps`; chosen by `kind` if not given.

    Attributes
    ----------
    history : list of float
        The objective at the start and after each iteration.
    moments : tuple of ndarrays
        n_j, xbar_j and S_j of (3) at the end of the last `run`.
    """

    def __init__(self, points, make_model, kind, weights, means, covariances, log=NOTHING, steps=None):
        self.points, self.make_model, self.kind = points, make_model, kind
        self.history, self.moments, self.log = [], None, log
        self.model = make_model(weights)
        steps = steps or (FullSteps if kind == "full" else HostSteps)
        self.steps = steps(points, self.model, means, covariances, kind)

    def run(self, n_iter, tol, beat=None):
        """Iterate until the objective per point grows by less than `tol`; return True if this happened within
        `n_iter` iterations.

        With `beat`, iterations continue beyond `n_iter`, up to _PATIENCE in total, while the objective is
        likely to exceed `beat` soon.
        """
        run = self.log.begin(self, n_iter, tol, beat)
        if run.ended:
            return run.converged
        value = self.steps.objective(self.steps.sweep())  # other climbs may have used the points
        if not self.history:
            self.history.append(value)
        while not run.converged and (
            run.done < n_iter or (beat is not None and self._may_beat(beat, run.done))
        ):
            self.history.append(self.steps.objective(self.steps.step(n_iter)))
            run.done += 1
            run.converged = bool(self.history[-1] - self.history[-2] < tol * self.points.total)
            self.log.note(run)
        self.moments = self.steps.moments()
        self.log.end(run)
        return run.converged

    def place(self, state, means, covariances, history):
        """Set the state that an earlier run from the same start reached; `history` holds the objectives that
        it added."""
        self.model.restore(state)
        self.steps.place(means, covariances)
        self.history += history.tolist()

    def _may_beat(self, beat, done):
        missing, step = beat - self.history[-1], self.history[-1] - self.history[-2]
        return done < _PATIENCE and 0.0 <= missing < 10.0 * step

    @property
    def components(self):
        """The components in the form that `Points` takes."""
        return self.steps.components

    def result(self):
        """Return weights, means, covariances and factors."""
        return np.exp(self.model.log_weights()), *self.steps.result()
