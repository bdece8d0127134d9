"""EM from a start, as far as it is asked to go."""

from __future__ import annotations

import numpy as np

from .steps import FullSteps, HostSteps

_PATIENCE = 40  # iterations of a trial that is about to beat what it is measured by


class Climb:
    """EM from weights, means and covariances on.

    Parameters
    ----------
    points : blocks.Points
    make_model : callable of weights
        prior.WithPrior or prior.WithoutPrior.
    kind : one of `covariance.KINDS`
    weights, means, covariances : ndarrays
        The start.

    Attributes
    ----------
    history : list of float
        The objective at the start and after each iteration.
    moments : tuple of ndarrays
        n_j, xbar_j and S_j of (3) at the end of the last `run`.
    """

    def __init__(self, points, make_model, kind, weights, means, covariances):
        self.points, self.kind, self.history = points, kind, []
        self.moments = None
        self._model = make_model(weights)
        if kind == "full":
            self._steps = FullSteps(points, self._model, means, covariances)
        else:
            self._steps = HostSteps(points, self._model, kind, means, covariances)

    def run(self, n_iter, tol, beat=None):
        """Iterate until the objective per point grows by less than `tol`; says whether it came to that within `n_iter` iterations.

        With `beat`, a few more iterations where the objective is likely to come above it.
        """
        value = self._steps.objective(self._steps.sweep())  # others may have used the points since
        if not self.history:
            self.history.append(value)
        done, converged = 0, False
        while not converged and (done < n_iter or (beat is not None and self._may_beat(beat, done))):
            self._steps.advance()
            self.history.append(self._steps.objective(self._steps.sweep()))
            done += 1
            converged = self.history[-1] - self.history[-2] < tol * self.points.total
        self.moments = self._steps.moments()
        return bool(converged)

    def _may_beat(self, beat, done):
        missing, step = beat - self.history[-1], self.history[-1] - self.history[-2]
        return done < _PATIENCE and 0.0 <= missing < 10.0 * step

    @property
    def components(self):
        """As `Points` takes them."""
        return self._steps.components

    def result(self):
        """weights, means, covariances and factors."""
        return np.exp(self._model.log_weights()), *self._steps.result()
