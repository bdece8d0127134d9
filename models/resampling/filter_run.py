"""A run of a particle filter: its arrays on the space, and the launches of its steps."""

import copy

import numpy as np

import portable as pk

from ..shared import launch, reached
from . import filter_kernels, launches, row_kernels, weight_kernels
from .nan_source import undefined
from .weights import TEAM, Tables, row_policy, unit_extremes

SWEEP = 4096  # particles for each team
ROW_TEAM = 512  # members of a team that takes a whole row, if the space allows a choice
DECIDING = 512  # members of a team of `decide`: 5.7 microseconds, 8.4 with 1,024 (2^24 particles, H100)
AT_A_TIME = 2**24  # particles that one launch of rows moves: progress and interruptions come between launches


class Run:
    """Arrays of a run, and its steps. No method waits for the space.

    Parameters
    ----------
    model : ParticleFilter
    data : Data
        Steps take the rows of its y and inputs in turn.
    n : int
        Particles of a row.
    seeds : ndarray of uint64, shape (n_rows, n_blocks)
        Keys of each row in equal parts of the steps; one part, and the same key in each row, if rows are not
        `short`.
    horizon : int, optional
        Number of steps that seeds cover; that of the data if not given.
    n_kept : int, optional
        Number of steps whose evidence, sizes, means and decisions are stored: all of them, or 2 for an online
        filter.
    keep : bool
        Keep states, log-weights and ancestors of n_kept steps.
    first : int
        The number of the first row in its bank, by which `short` rows draw.
    free : tuple of ndarray
        For particles with their own parameters, if rows are `short`: places, limits and sds as in
        `row_kernels`.
    """

    def __init__(
        self,
        model,
        data,
        n,
        seeds,
        horizon=None,
        n_kept=None,
        keep=False,
        means=False,
        first=0,
        free=((), np.zeros((0, 2)), np.zeros((0, 2))),
    ):
        self.y, self.inputs, self.params = (
            reached(a.astype(model.dtype)) for a in (data.y, data.inputs, data.params)
        )
        self.model, self.keep, self.first = model, keep, first
        self.horizon = horizon = horizon or data.n_steps
        self.n_kept = n_kept = n_kept or horizon
        n_dims, n_rows = data.n_dims, len(data.params)
        self.short = model.takes_rows(n)
        n_slots = n_kept if keep else 1 if model.in_place else min(2, n_kept)
        self.n_free = pk.static(len(free[0]))
        self.free = [pk.copy_of(np.asarray(a, d)) for a, d in zip(free, (np.int64, model.dtype, model.dtype))]
        self.x = pk.empty((n_slots, n_dims + len(free[0]), n_rows, n), model.dtype)
        self.log_w = pk.empty((n_kept if keep else 1, n_rows, n), model.dtype)
        self.ancestors = pk.empty((n_kept if keep else 1, n_rows, n), np.int32)
        self.tables = Tables(self.log_w[0], weight_kernels.WEIGHTS, n)
        self.extremes = pk.empty((n_kept, n_rows, 3), np.int64)
        self.half = (62 - (n - 1).bit_length()) // 2
        self.logs = copy.copy(self.tables)  # the same tables for log-weights
        self.logs.log, self.logs.extremes = (
            pk.static(weight_kernels.RELATIVE),
            pk.empty((n_rows, 3), np.int64),
        )
        self.keeps_weights = pk.static(False)
        if self.short or model.draw not in launches.FROM_LOGS:
            self.keep_weights()
        self.means = pk.empty((n_kept if means else 1, n_dims, n_rows))
        self.evidence, self.sizes = pk.empty((n_kept, n_rows)), pk.empty((n_kept, n_rows))
        self.mass = pk.empty(n_rows)
        self.averaged = pk.static(means)
        self.sizes_known = [
            pk.static(v) for v in (self.params.shape[1], self.y.shape[1], self.inputs.shape[1])
        ]
        self.functions, self.n_dims = model.functions, pk.static(n_dims)
        if self.short:
            self.n_sorted = 1 << (n - 1).bit_length() if model.ordered else 1
            kept = (n, np.int32), (self.n_sorted, np.float64), (self.n_sorted, np.int32)
            self.rows = pk.TeamPolicy(
                n_rows, min(ROW_TEAM, -(-n // 32) * 32), scratch_bytes=pk.scratch_bytes(*kept)
            )
            self.keys = pk.copy_of(seeds)
            self.places = pk.empty((n_rows, n if model.ordered else 1), np.int32)
        else:
            self.seed = np.uint64(seeds[0, 0])
            self.sweeps = pk.TeamPolicy(n_rows * -(-n // SWEEP), TEAM)
            self.decisions = row_policy(n_rows, self.tables.n_tiles, DECIDING)
            self.squares = pk.empty((n_rows, self.tables.n_tiles), np.uint64)
            self.parts = pk.empty((n_dims, n_rows, self.tables.n_tiles if means else 1))
        if model.in_place:
            self.owner, self.permuted = (pk.empty((n_rows, n), np.int32) for _ in range(2))
        launch(self.tables.rows, weight_kernels.begin, self.tables.extremes, self.tables.stretches)
        # weights are relative to the largest of their row
        self.tables.extremes = unit_extremes(n_rows)
        self.reset()

    def keep_weights(self):
        """Write weights to `tables.values` at each step from now on, for uses other than resampling from the
        log-weights."""
        if not self.keeps_weights.value:
            self.tables.values = pk.empty(self.log_w.shape[1:], self.model.dtype)
            self.keeps_weights = pk.static(True)

    def take_keys(self, keys):
        """Use other keys, shape (n_rows, n_blocks), from the next step 0 on."""
        if self.short:
            pk.deep_copy(self.keys, keys)
        else:
            self.seed = np.uint64(keys[0, 0])

    def reset(self):
        """Reset to the state before step 0."""
        if not self.short:  # launches of whole rows initialise the extremes themselves
            self._forget(self.extremes.reshape(-1, 3))
        pk.deep_copy(self.mass, float(np.log(float(self.tables.n))))
        if self.model.in_place:
            pk.deep_copy(self.ancestors, 0)  # rows that idle are permuted too: any valid ancestors will do

    def _forget(self, extremes):
        launch(
            pk.TeamPolicy(len(extremes)),
            weight_kernels.begin,
            extremes,
            pk.empty((len(extremes), 0), np.int64),
        )

    def pieces(self, n_steps, begin=0):
        """List (begin, end) of the launches of steps begin .. n_steps - 1."""
        length = max(1, AT_A_TIME // (self.tables.values.size)) if self.short else 1
        return [(begin, min(begin + length, n_steps)) for begin in range(begin, n_steps, length)]

    def steps(self, begin, end):
        """Launch steps begin .. end - 1."""
        if self.short:
            self._row_steps(begin, end)
        else:
            for t in range(begin, end):
                self.step(t)

    def _row_steps(self, begin, end):
        tables, model = self.tables, self.model
        launch(
            self.rows,
            row_kernels.filter_rows,
            *self.functions,
            model.look_ahead,
            self.n_dims,
            begin,
            end,
            self.horizon,
            self.first,
            pk.static(model.numbered),
            self.n_free,
            *self.free,
            *self.sizes_known,
            tables.bits,
            self.half,
            model.threshold,
            self.averaged,
            pk.static(model.ordered),
            self.n_sorted,
            self.keys,
            self.y,
            self.inputs,
            self.params,
            self.x,
            self.log_w,
            tables.values,
            self.ancestors,
            self.places,
            tables.extremes,
            tables.sums,
            self.mass,
            self.extremes,
            self.evidence,
            self.sizes,
            self.means,
        )

    def step(self, t):
        """Launch the kernels of step t: ancestors, states, weights, and the decision whether to resample."""
        tables, at, kept = self.tables, t % self.y.shape[0], t % self.n_kept
        now, new, new_w = self.extremes[kept], t % self.x.shape[0], t % self.log_w.shape[0]
        if t == 0:
            launch(
                self.sweeps,
                filter_kernels.start,
                *self.functions[::2][:2],
                self.n_dims,
                SWEEP,
                *self.sizes_known,
                self.seed,
                self.y,
                self.inputs,
                self.params,
                self.x,
                self.log_w,
                now,
            )
        else:
            before = self.extremes[(t - 1) % self.n_kept]
            if self.n_kept < self.horizon:
                self._forget(now)
            ancestors = self.ancestors[(t - 1) % self.ancestors.shape[0]]
            self._resample(t - 1, before, ancestors)
            launch(
                self.sweeps,
                filter_kernels.advance,
                *self.functions[1:],
                self.n_dims,
                pk.static(SWEEP),
                pk.static(filter_kernels.AT_ONCE // self.model.dtype.itemsize),
                pk.static(self.model.in_place),
                *self.sizes_known,
                t,
                at,
                (t - 1) % self.x.shape[0],
                new,
                (t - 1) % self.log_w.shape[0],
                new_w,
                self.seed,
                self.y,
                self.inputs,
                self.params,
                ancestors,
                before,
                self.x,
                self.log_w,
                now,
            )
        launch(
            tables.wide_tiles,
            filter_kernels.weigh,
            self.n_dims,
            tables.tile_size,
            tables.bits,
            self.half,
            self.keeps_weights,
            self.averaged,
            new,
            new_w,
            self.x,
            self.log_w,
            now,
            tables.values,
            tables.sums,
            self.squares,
            self.parts,
        )
        launch(
            self.decisions,
            filter_kernels.decide,
            tables.bits,
            self.half,
            tables.n,
            self.model.threshold,
            now,
            tables.extremes,
            self.logs.extremes,
            tables.sums,
            self.squares,
            self.mass,
            self.evidence[kept],
            self.sizes[kept],
        )
        if self.averaged.value:
            launch(tables.rows, filter_kernels.average, tables.sums, self.parts, self.means[kept])

    def _resample(self, t, before, ancestors):
        tables = self.tables
        if not self.keeps_weights.value:
            tables = self.logs
            tables.values = self.log_w[t % self.log_w.shape[0]]
        self.model.draw(tables, self.seed, np.uint64(2 * t << 32), ancestors)
        if self.model.in_place:
            launches.permute(ancestors, self.owner, self.permuted)
            launch(self.tables.draws, filter_kernels.overwrite, before, self.permuted, self.x)


def log_likelihoods(run, n_steps):
    """Run the first n_steps steps of a run that was reset; return log-likelihoods of its rows on the host,
    NaN for rows that died of NaN."""
    return np.cumsum(increments(run, 0, 0, n_steps), axis=0)[-1]


def increments(run, at, begin, end):
    """Run steps at .. end - 1; return the contributions from `begin` on to the log-likelihoods of rows, shape
    (end - begin, n_rows), NaN from the step on at which a row died of NaN."""
    for first, last in run.pieces(end, at):
        run.steps(first, last)
    found = np.array(run.evidence[begin:end].to_numpy())
    if not np.isfinite(found).all():
        bad = undefined(run.extremes.to_numpy()[begin:end])
        found[(bad >= 0) & (np.arange(end - begin)[:, None] >= bad)] = np.nan
    return found
