"""The launches of every scheme, in order. None of them waits for the space, as a filter calls them at every
step.

Each scheme is given the `Tables` of weights with their extremes and sums (metropolis, megopolis and rejection
require only extremes), and seed and step as uint64 (the key, and the first draw of the call), and fills
ancestors, a View of int64, shape (n_rows, n_ancestors).
"""

import numpy as np

import portable as pk

from ..shared import launch, reached
from . import chains, kernels, pairing, small_kernels, ancestor_kernels, strata, weight_kernels
from .weights import SWEEP_TEAM, TEAM, new, row_policy, teams, tile_size

_ONE_BY_ONE = 4096  # indices that divide a row's draws beyond the Poisson counts among them


def _spread(scheme, tables, draws, seed, step, ancestors):
    own = draws, seed, step, ancestors, tables.stretches
    launch(tables.tiles, ancestor_kernels.spread, *scheme, *tables.sizes, *tables.known, tables.sums, *own)
    _fill_stretches(tables.stretches, ancestors)


def _fill_stretches(stretches, ancestors):
    n_stretches = ancestors.shape[1] // ancestor_kernels.LONG
    if n_stretches:
        policy = teams(ancestors.shape[0] * -(-n_stretches // ancestor_kernels.GROUP), SWEEP_TEAM)
        launch(policy, ancestor_kernels.fill_stretches, n_stretches, stretches, ancestors)


def systematic(tables, seed, step, ancestors):
    _spread(ancestor_kernels.SYSTEMATIC, tables, 0, seed, step, ancestors)


def stratified(tables, seed, step, ancestors):
    _spread(ancestor_kernels.STRATIFIED, tables, 0, seed, step, ancestors)


def multinomial(tables, seed, step, ancestors):
    drawn = _draw_strata(tables, None, seed, step)
    _spread(ancestor_kernels.MULTINOMIAL, tables, drawn, seed, step, ancestors)


FROM_LOGS = systematic, stratified, multinomial  # schemes that accept RELATIVE log-weights too


def residual(tables, seed, step, ancestors):
    copies, residues = tables.residues
    own = tables.sums, tables.n_ancestors, copies, residues
    launch(tables.tiles, strata.weigh_residues, *tables.sizes, *tables.known, *own)
    for sums in (copies, residues):
        launch(tables.rows, weight_kernels.add_up, sums)
    drawn = *_draw_strata(tables, copies, seed, step), copies, residues
    _spread(ancestor_kernels.RESIDUAL, tables, drawn, seed, step, ancestors)


def _draw_strata(tables, copies, seed, step):
    wanted, records, before = tables.multinomial_draws
    launch(tables.n_rows, strata.begin_draws, tables.n_ancestors, copies, wanted, before)
    n_rows, n_tiles = before.shape[0], before.shape[1] - 1
    tiles = teams(n_rows * n_tiles, SWEEP_TEAM)
    launch(tiles, strata.fill_strata, wanted, seed, step, records, before)
    stride = min(_ONE_BY_ONE, 4 * records.shape[1])
    launch((n_rows, stride), strata.draw_one_by_one, stride, wanted, seed, step, records, before)
    launch(row_policy(n_rows, n_tiles), weight_kernels.add_up, before)
    launch(tiles, strata.lay_strata, wanted, before, records)
    return wanted, records


def ssp(tables, seed, step, ancestors):
    offspring, levels = tables.meetings
    for level, (n_items, *items, next_items, next_parts) in enumerate(levels):
        groups = teams(tables.n_rows * -(-next_items.shape[1] // pairing.LANES), pairing.LANES)
        known = tables.bits, *tables.known, tables.sums, tables.n_ancestors, seed, step
        own = *items, next_items, next_parts, offspring
        launch(groups, pairing.meet, pk.static(level > 0), level, n_items, *known, *own)
    sums = tables.offspring_sums
    sum_up(offspring, sums)
    own = offspring, tables.extremes, sums, 0, seed, step, ancestors, tables.stretches
    scheme = *ancestor_kernels.OFFSPRING, tables.tile_size, 0, pk.static(False)
    launch(tables.tiles, ancestor_kernels.spread, *scheme, *own)
    _fill_stretches(tables.stretches, ancestors)


def sum_up(counts, sums):
    """Replace `sums` by the sum of whole numbers before each tile, and in the last column by the sum of
    all."""
    n_rows, n_tiles = sums.shape[0], sums.shape[1] - 1
    launch(teams(n_rows * n_tiles, TEAM), kernels.sum_tiles, tile_size(counts.shape[1]), counts, sums)
    launch(row_policy(n_rows, n_tiles), weight_kernels.add_up, sums)


def metropolis(tables, seed, step, ancestors, n_steps, together=False):
    own = pk.static(together), *tables.known, n_steps, seed, step, ancestors
    launch(tables.draws, chains.metropolis_chain, *own)


def megopolis(tables, seed, step, ancestors, n_steps):
    metropolis(tables, seed, step, ancestors, n_steps, True)


def rejection(tables, seed, step, ancestors, bound):
    launch(tables.draws, chains.rejection_chain, *tables.known, bound, seed, step, ancestors)


def killing(tables, seed, step, ancestors):
    own = tables.sums, tables.cumulative
    launch(tables.tiles, chains.scan_weights, *tables.sizes, *tables.known, *own)
    launch(tables.draws, chains.survive_or_draw, *tables.known, *own, seed, step, ancestors)


def permute(ancestors, owner, permuted):
    """Permute ancestors so that o_i > 0 implies a_i = i (Code 10); owner is a workspace of the same shape."""
    pk.deep_copy(owner, ancestors.shape[1])
    launch(ancestors.shape, kernels.claim, ancestors, owner)
    launch(ancestors.shape, kernels.settle, ancestors, owner, permuted)


# For each scheme: its kernel of short rows and that kernel's first arguments; the number of members of a team
# if the space allows a choice (spreading.BANKS at most for schemes that spread); and its workspace: name,
# length for n weights and m draws, and type.
_RECORDS = "records", lambda n, m: m // 4 + 1, np.uint64
_ROW = small_kernels.spread_row
OF_SHORT_ROWS = {
    systematic: ((_ROW, *ancestor_kernels.SYSTEMATIC), TEAM, None),
    stratified: ((_ROW, *ancestor_kernels.STRATIFIED), TEAM, None),
    multinomial: ((_ROW, *ancestor_kernels.MULTINOMIAL), TEAM, _RECORDS),
    residual: ((_ROW, *ancestor_kernels.RESIDUAL), TEAM, _RECORDS),
    ssp: ((small_kernels.meet_and_spread,), TEAM, ("offspring", lambda n, m: n, np.int64)),
    killing: ((small_kernels.kill_row,), 256, ("cumulative", lambda n, m: n, np.uint64)),
}
_LOG = {log: pk.static(log) for log in (weight_kernels.WEIGHTS, weight_kernels.LOGS)}


def short_rows(scheme, log, values, keys, ancestors, room):
    """Return `extremes` as in `small_kernels`, and the arguments of `pk.parallel_for` that launch a scheme of
    OF_SHORT_ROWS."""
    kernel, n_members, wanted = OF_SHORT_ROWS[scheme]
    (n_rows, n), kept = values.shape, 0
    if wanted is not None:
        name, length, dtype = wanted
        kept = room(name, (n_rows, length(n, ancestors.shape[1])), dtype)
    extremes = room("row extremes", (n_rows, 3), np.int64)
    own = _LOG[log], values, extremes, kept, keys, ancestors
    return extremes, (teams(n_rows, n_members), *kernel, *own)


class ShortRow:
    """A prepared launch of a scheme of OF_SHORT_ROWS for one vector of n weights on the host: its arrays are
    kept, and a call copies into them.

    Parameters
    ----------
    scheme : function of OF_SHORT_ROWS
    log : int
        WEIGHTS or LOGS.
    n, n_ancestors : int
    dtype : numpy.dtype
        Type of the weights.
    """

    def __init__(self, scheme, log, n, n_ancestors, dtype):
        self.values, self.key = arrays = np.zeros(n, dtype), np.zeros(2, np.uint64)
        views = [reached(array) for array in arrays]  # on a CPU of the arrays' memory
        pairs = zip(views, arrays)
        self.apart = [pair for pair in pairs if not np.shares_memory(pair[0].to_numpy(), pair[1])]
        self.ancestors = pk.empty((1, n_ancestors), np.int64)
        self.extremes, launch = short_rows(scheme, log, views[0].reshape(1, n), views[1], self.ancestors, new)
        self.run = pk.plan(*launch)

    def __call__(self, weights, seed, step):
        """Draw ancestors; the returned View is overwritten by the next call."""
        self.key[0], self.key[1] = seed, step
        self.values[:] = weights
        for pair in self.apart:
            pk.deep_copy(*pair)
        self.run()
        return self.ancestors
