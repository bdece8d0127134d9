"""Kernels of sums over weights, of offspring and of permutations; the notation is that of
`portable.models.resampling`.

r is the row of a filter, k a draw, i a particle.
"""

import portable as pk

from .weighing import ordered, part_of, tile_of


@pk.kernel
def moments(team, tile_size, log, w, extremes, found):
    """Sums over a tile of w_i relative to the largest of its row, and of its square; one team per tile. 4 or
    8 bytes."""
    r, tile, begin, end = part_of(team, tile_size, w.shape[1])
    largest = ordered(extremes[r, 0])
    total, squares = 0.0, 0.0
    for i in team.thread_range(begin, end):
        x = pk.exp(pk.float64(w[r, i]) - largest) if log else pk.float64(w[r, i]) / largest
        total += x
        squares += x * x
    total, squares = team.reduce(total), team.reduce(squares)
    if team.single():
        found[r, tile, 0] = total
        found[r, tile, 1] = squares


@pk.kernel
def log_likelihoods(r, log_likelihood, n_params, params, data, found):
    """The value of a function at row r of params, which it reads once; its data by what it does."""
    own = pk.local(n_params, params.dtype)
    own[:n_params] = params[r]
    found[r] = log_likelihood(own, data)


@pk.kernel
def bounds(i, r, x):
    """x_i twice, for its smallest and its largest. 8 bytes."""
    return x[r, i], x[r, i]


@pk.kernel
def fill(r, i, number, x):
    """x_i = number. 8 bytes."""
    x[r, i] = number


@pk.kernel
def count(r, k, ancestors, offspring):
    """Add one to the ancestor's offspring. One atomic, 8 bytes in."""
    pk.atomic_add(offspring, (r, ancestors[r, k]), 1)


@pk.kernel
def sum_tiles(team, tile_size, x, sums):
    """The sum of a tile of whole numbers; one team per tile. 8 bytes a number."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, x.shape[1])
    total = pk.int64(0)
    for i in team.thread_range(begin, end):
        total += x[r, i]
    total = team.reduce(total)
    if team.single():
        sums[r, tile] = pk.uint64(total)


@pk.kernel
def scan_tiles(team, tile_size, sums, x, cumulative):
    """x_0 + ... + x_i from what lies before each tile; one team per tile. 16 bytes a number."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, x.shape[1])
    carry = pk.int64(sums[r, tile])
    for first in range(begin, end, team.size):
        i = first + team.rank
        number = pk.int64(0)
        if i < end:
            number = x[r, i]
        after = carry + team.scan(number) + number
        if i < end:
            cumulative[r, i] = after
        carry = team.broadcast(after, team.size - 1)


@pk.kernel
def claim(r, k, ancestors, owner):
    """The lowest k with a_k = i owns slot i: one atomic, 8 bytes in."""
    pk.atomic_min(owner, (r, ancestors[r, k]), k)


@pk.kernel
def settle(r, k, ancestors, owner, permuted):
    """Every draw finds its slot: owners theirs, any other follows owners from slot k to a free one.

    Each slot has one owner and each owner one slot, so no two walks meet: nothing is atomic. Two reads for
    each slot passed, 8 bytes out.
    """
    n = ancestors.shape[1]
    slot = pk.int64(ancestors[r, k])
    if owner[r, slot] != k:
        slot = k
        while owner[r, slot] < n:
            slot = pk.int64(owner[r, slot])
    permuted[r, slot] = ancestors[r, k]
