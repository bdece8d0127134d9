"""Kernels of summaries of particles in addition to means; notation as in
`portable.models.resampling.filter_kernels`.

Weights w are those after a step, relative to the largest of a row; sums holds Q, the sum of their whole
numbers q, in its last column.
"""

import portable as pk

from .weight_kernels import NAN, WEIGHTS, fixed, order, ordered, real, scale, tile_of

LOWEST = -NAN - 1  # below the `order` of every number


@pk.kernel
def moment_sums(
    team, moment, n_dims, n_moments, tile_size, bits, t, slot, x, params, w, extremes, sums, parts
):
    """Add up q times each moment over a tile; one team per tile. Reads weights and states."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, w.shape[1])
    row_scale = scale(extremes, r, bits, WEIGHTS)
    state = pk.local(n_dims, x.dtype)
    part = pk.local(n_moments, pk.float64)
    part[:] = 0.0
    for k in team.thread_range(begin, end):
        state[:] = x[slot, :, r, k]
        values = moment(t, state, params[r])
        q = real(fixed(w[r, k], row_scale))
        for c in range(n_moments):
            part[c] += q * pk.float64(values[c])
    for c in range(n_moments):
        total = team.reduce(part[c])
        if team.single():
            parts[c, r, tile] = total


@pk.kernel
def deviation_sums(team, tile_size, bits, slot, x, means, w, extremes, sums, parts):
    """Add up q times the squared distance from the mean over a tile; one team per tile. Reads weights and
    states."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, w.shape[1])
    row_scale = scale(extremes, r, bits, WEIGHTS)
    for c in range(x.shape[1]):
        part = 0.0
        for k in team.thread_range(begin, end):
            away = pk.float64(x[slot, c, r, k]) - means[c, r]
            part += real(fixed(w[r, k], row_scale)) * away * away
        part = team.reduce(part)
        if team.single():
            parts[c, r, tile] = part


@pk.kernel
def find_quantiles(team, bits, slot, levels, x, w, extremes, sums, found):
    """Find the smallest state with at least a share levels[j] of the weights at or below it; one team per
    row, component and level.

    Bisects the whole numbers that are ordered like float64: 64 passes over the row, and the same bits on
    every space.
    """
    n_dims = x.shape[1]
    j = team.league_rank % levels.shape[0]
    c = team.league_rank // levels.shape[0] % n_dims
    r = team.league_rank // (levels.shape[0] * n_dims)
    row_scale = scale(extremes, r, bits, WEIGHTS)
    wanted = levels[j] * real(sums[r, sums.shape[1] - 1])
    low = pk.int64(LOWEST)  # no state is at or below low, and all states are at or below high
    high = pk.int64(NAN)
    for _ in range(64):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        below = pk.uint64(0)
        for k in team.thread_range(w.shape[1]):
            if order(pk.float64(x[slot, c, r, k])) <= middle:
                below += fixed(w[r, k], row_scale)
        below = team.reduce(below)
        if real(below) >= wanted and below > 0:
            high = middle
        else:
            low = middle
    if team.single():
        found[j, c, r] = ordered(high)
