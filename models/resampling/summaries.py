"""Summaries of particles at each step in addition to means, on the device: variances, quantiles, the user's
moments."""

import numpy as np

import portable as pk

from ..shared import launch
from . import summary_kernels
from .filter_kernels import average
from .weights import SWEEP_TEAM


class Summaries:
    """Arrays of the requested summaries, and the launches after a step.

    Parameters
    ----------
    run : Run
    variances : bool
    levels : ndarray of float64, shape (n_levels,)
        Levels of quantiles; empty for none.
    moments : pk.function (t, state, params) -> tuple of numbers, or None
    n_moments : int

    Attributes
    ----------
    requested : bool
    variances, quantiles, moments : View or None
        Shapes (n_kept, n_dims, n_rows), (n_kept, n_levels, n_dims, n_rows) and (n_kept, n_moments, n_rows).
    """

    def __init__(self, run, variances, levels, moments, n_moments):
        n_dims, n_rows = run.x.shape[1:3]
        self.run, self.variances, self.quantiles, self.moments = run, None, None, None
        n_tiles = run.tables.n_tiles
        self.requested = variances or len(levels) > 0 or moments is not None
        if self.requested:
            run.keep_weights()
        if variances:
            self.variances = pk.empty((run.n_kept, n_dims, n_rows))
            self._deviations = pk.empty((n_dims, n_rows, n_tiles))
        if len(levels):
            self.levels = pk.copy_of(np.asarray(levels, np.float64))
            self.quantiles = pk.empty((run.n_kept, len(levels), n_dims, n_rows))
        if moments is not None:
            self._moment = moments, pk.static(n_dims), pk.static(n_moments)
            self.moments = pk.empty((run.n_kept, n_moments, n_rows))
            self._parts = pk.empty((n_moments, n_rows, n_tiles))

    def after(self, t):
        """Launch the kernels of the requested summaries of step t; one or two launches each."""
        run, tables = self.run, self.run.tables
        kept, slot = t % run.n_kept, t % run.x.shape[0]
        weights = tables.values, tables.extremes, tables.sums
        if self.variances is not None:
            own = *tables.sizes, slot, run.x, run.means[kept], *weights
            self._average(summary_kernels.deviation_sums, own, self._deviations, self.variances[kept])
        if self.moments is not None:
            own = *self._moment, *tables.sizes, t, slot, run.x, run.params, *weights
            self._average(summary_kernels.moment_sums, own, self._parts, self.moments[kept])
        if self.quantiles is not None:
            teams = pk.TeamPolicy(self.quantiles[kept].size, SWEEP_TEAM)
            own = tables.bits, slot, self.levels, run.x, *weights, self.quantiles[kept]
            launch(teams, summary_kernels.find_quantiles, *own)

    def _average(self, kernel, own, parts, found):
        """Launch sums over tiles, then the averages of these."""
        tables = self.run.tables
        launch(tables.wide_tiles, kernel, *own, parts)
        launch(tables.rows, average, tables.sums, parts, found)
