"""Kernels of schemes that compare single weights: Metropolis, Megopolis, rejection, killing.

Arguments beyond those of `spreading`
    k         draw, of row r; its chain starts at particle k mod n
    n_steps   B
    bound     shape (n_rows,), float64: w_max, scaled like the weights
"""

import portable as pk

from .ancestor_kernels import key
from .weight_kernels import fixed, ordered, real, scale, scaled, tile_of

SEGMENT = 32  # particles that Megopolis shifts together: a warp


@pk.function
def proposal(seed, stream, draw, n):
    """Draw (j, u): j uniform in 0..n-1 from 64 bits (n <= 2^31, bias below 2^-33), u in [0, 1) from 53
    bits."""
    w = pk.random.words(seed, stream, draw)
    j = (pk.uint64(w[1]) * n + ((pk.uint64(w[0]) * n) >> 32)) >> 32
    u = real((pk.uint64(w[3]) << 21) | (pk.uint64(w[2]) >> 11)) * 2.0**-53
    return pk.int64(j), u


@pk.kernel
def metropolis_chain(r, k, together, log, w, extremes, n_steps, seed, step, ancestors):
    """Run a Metropolis chain of B steps from particle k mod n. A block of random bits and one gathered weight
    a step, 8 bytes out.

    With `together`, a compile-time bool, proposals are particle k mod n, shifted by an offset that all chains
    of a row share: neighbouring chains read neighbouring weights. Segments are shifted as a whole and rotated
    within (Chesser, Emerson and Fehr, 2021); if n is not a multiple of SEGMENT, the whole row is rotated.
    Half a block of random bits and a neighbouring weight a step.
    """
    n = w.shape[1]
    row_scale = scale(extremes, r, 0, log)
    a = k % n
    whole = n % SEGMENT == 0
    place = a % SEGMENT if whole else 0
    segment = a - place
    own = scaled(w[r, a], row_scale)
    for b in range(n_steps):
        draw = step + pk.uint64(b)
        j, u = proposal(seed, key(r, pk.uint64(2**32 - 1) if together else k), draw, pk.uint64(n))
        if together:
            turn = j % SEGMENT if whole else 0
            j += segment - turn
            j = pk.where(j >= n, j - n, j) + (place + turn) % SEGMENT
            u = pk.random.uniform(seed, key(r, k), draw)
        other = scaled(w[r, j], row_scale)
        if u * own < other:
            a = j
            own = other
    ancestors[r, k] = a


@pk.kernel
def rejection_chain(r, k, log, w, extremes, bound, seed, step, ancestors):
    """Propose particle k mod n first, then uniform ones, until one is accepted. A block of random bits and a
    gathered weight each, 8 bytes out."""
    n = pk.uint64(w.shape[1])
    row_scale = scale(extremes, r, 0, log)
    draw = step
    a = k % w.shape[1]
    _, u = proposal(seed, key(r, k), draw, n)
    while u * bound[r] >= scaled(w[r, a], row_scale):
        draw += pk.uint64(1)
        a, u = proposal(seed, key(r, k), draw, n)
    ancestors[r, k] = a


@pk.kernel
def excess(r, k, log, w, extremes, bound, ancestors, weights):
    """Compute max(w_a / bound, 1) of ancestor a, its weight after partial rejection control. 24 bytes."""
    x = scaled(w[r, ancestors[r, k]], scale(extremes, r, 0, log))
    weights[r, k] = max(x / bound[r], 1.0)


@pk.function
def find(cumulative, r, position):
    """Return the first i with cumulative[r, i] > position, by bisection; empty intervals are never found."""
    low = 0
    high = cumulative.shape[1] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[r, middle] > position:
            high = middle
        else:
            low = middle + 1
    return low


@pk.function
def scan_range(team, r, begin, end, row_scale, w, carry, cumulative):
    """Compute Q_i over a range of a row, before which the sum is `carry`; return the sum at its end. Without
    a scale w are whole numbers."""
    for base in range(begin, end, team.size):
        i = base + team.rank
        q = pk.uint64(0)
        if i < end:
            q = pk.uint64(w[r, i]) if row_scale is None else fixed(w[r, i], row_scale)
        after = carry + team.scan(q) + q
        if i < end:
            cumulative[r, i] = after
        carry = team.broadcast(after, team.size - 1)
    return carry


@pk.kernel
def scan_weights(team, tile_size, bits, log, w, extremes, sums, cumulative):
    """Compute Q_i over a tile; one team per tile. One read of the weights, 8 bytes out."""
    _, r, tile, begin, end = tile_of(team, sums, tile_size, w.shape[1])
    scan_range(team, r, begin, end, scale(extremes, r, bits, log), w, sums[r, tile], cumulative)


@pk.function
def survivor(r, k, w, extremes, row_scale, total, cumulative, seed, step):
    """Return k with probability w_k / w_max, otherwise a multinomial draw."""
    _, u = proposal(seed, key(r, k), step, pk.uint64(w.shape[1]))
    a = pk.int64(k)
    if u * scaled(ordered(extremes[r, 0]), row_scale) >= scaled(w[r, k], row_scale):
        draw = pk.random.randint(seed, key(r, k), step + pk.uint64(1), total)
        a = find(cumulative, r, pk.uint64(draw))
    return a


@pk.kernel
def survive_or_draw(r, k, log, w, extremes, sums, cumulative, seed, step, ancestors):
    """Keep particle k with probability w_k / w_max; otherwise a multinomial draw replaces it."""
    row_scale = scale(extremes, r, 0, log)
    total = sums[r, sums.shape[1] - 1]
    ancestors[r, k] = survivor(r, k, w, extremes, row_scale, total, cumulative, seed, step)
