"""Kernels of sums over weights, of offspring and of permutations; the notation is that of
`portable.models.resampling`.

r is the row of a filter, k a draw, i a particle.
"""

import portable as pk

from .chains import scan_range
from .weight_kernels import ordered, part_of, tile_of


@pk.kernel
def moments(team, tile_size, log, w, extremes, found):
    """Add up w_i / w_max and its square over a tile, w_max the largest weight of the row; one team per tile.
    4 or 8 bytes."""
    r, tile, begin, end = part_of(team, tile_size, w.shape[1])
    largest = ordered(extremes[r, 0])
    total, squares = 0.0, 0.0
    for i in team.thread_range(begin, end):
        x = pk.exp(pk.float64(w[r, i]) - largest) if log else pk.float64(w[r, i]) / largest
        total += x
        squares += x * x
    for c, own in enumerate((total, squares)):
        own = team.reduce(own)
        if team.single():
            found[r, tile, c] = own


@pk.kernel
def log_likelihoods(r, log_likelihood, n_params, params, data, found):
    """Compute a function's value at row r of params, which is read once; the function determines the reads of
    `data`."""
    own = pk.local(n_params, params.dtype)
    own[:n_params] = params[r]
    found[r] = log_likelihood(own, data)


@pk.kernel
def bounds(r, i, x):
    """Return x_i twice, for its minimum and its maximum. 8 bytes."""
    return x[r, i], x[r, i]


@pk.kernel
def count(r, k, ancestors, offspring):
    """Add 1 to the offspring of ancestor a_k. One atomic, 8 bytes in."""
    pk.atomic_add(offspring, (r, ancestors[r, k]), 1)


@pk.kernel
def sum_tiles(team, tile_size, x, sums):
    """Add up a tile of whole numbers; one team per tile. 8 bytes a number."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, x.shape[1])
    total = pk.int64(0)
    for i in team.thread_range(begin, end):
        total += x[r, i]
    total = team.reduce(total)
    if team.single():
        sums[r, tile] = pk.uint64(total)


@pk.kernel
def scan_tiles(team, tile_size, sums, x, cumulative):
    """Compute x_0 + ... + x_i, from the sum before each tile; one team per tile. 16 bytes a number."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, x.shape[1])
    scan_range(team, r, begin, end, None, x, sums[r, tile], cumulative)


@pk.kernel
def claim(r, k, ancestors, owner):
    """Make the lowest k with a_k = i the owner of slot i. One atomic, 8 bytes in."""
    pk.atomic_min(owner, (r, ancestors[r, k]), k)


@pk.kernel
def settle(r, k, ancestors, owner, permuted):
    """Find the slot of draw k: the one it owns, if any; otherwise the free slot to which owners lead
    from slot k.

    Each slot has at most one owner and each owner one slot, so no two walks reach the same slot, and no
    atomics are needed. Two reads for each slot passed, 8 bytes out.
    """
    n = ancestors.shape[1]
    slot = pk.int64(ancestors[r, k])
    if owner[r, slot] != k:
        slot = k
        while owner[r, slot] < n:
            slot = pk.int64(owner[r, slot])
    permuted[r, slot] = ancestors[r, k]
