"""Kernels of starts and moves: sums of columns, points far from those chosen, entropies of pairs of
components, children of components.

Arguments that recur, beside those of `kernels`
    rows        points as they were given, one a row
    names       a number below 2^63 for each row, which its bits decide, uint64
    nearest     float64, a row's squared distance to the nearest row chosen so far, 1 before the first; 0
                where it cannot be chosen
    free        float64: 1, and 0 for rows that count 0 times
    before      int64: how many rows are chosen; after: what the next draw finds there, so that launches are
                the same for every other draw
"""

import math

import portable as pk

from .kernels import LOG_ZERO, NEGLIGIBLE, PAD

BLOCK, SIDE = 8192, 16  # rows whose sums are kept apart, and members that share them


@pk.function
def product(a, b):
    """a b, rounded before anything is added to it."""
    return a * b


@pk.kernel
def gather_rows(i, column, numbers, rows, some):
    """Rows of some numbers."""
    some[i, column] = rows[numbers[i], column]


@pk.kernel
def column_sums(block, e, p, squared, weighted, flat, first, middles, weights, sums):
    """Sums of rows of a block of BLOCK, of each SIDE-th row by itself, e being number * p + column; rows
    beyond the last whole SIDE are left out. 8 bytes a coordinate, or 4.

    squared     pk.static: 0 adds up x - first, 1 the squares of x - first - middles[block]
    weighted    pk.static: 1 where each row counts `weights` times
    flat        rows one behind the other
    sums        shape (n_blocks, SIDE * p), float64
    """
    column = e % p
    begin, n = block * BLOCK, flat.shape[0] // p
    origin, middle = first[column], middles[block, column] if squared else 0.0
    total = pk.float64(0.0)
    for t in range(min(BLOCK, n - begin) // SIDE):
        value = pk.float64(flat[(begin + t * SIDE) * p + e]) - origin
        if squared:
            value = product(value - middle, value - middle)
        if weighted:
            value = product(value, weights[begin + t * SIDE + e // p])
        total += value
    sums[block, e] = total


@pk.function
def mixed(z):
    """Return a bijection of 64-bit words that leaves no pattern (Steele, Lea and Flood 2014: the finaliser
    of SplitMix)."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@pk.kernel
def name_rows(i, rows, names):
    """Equal rows have equal names, wherever they stand. 8 bytes a coordinate."""
    z = pk.uint64(rows.shape[1])
    for c in range(rows.shape[1]):
        z = mixed(z + 0x9E3779B97F4A7C15 ^ pk.uint64(pk.bits(rows[i, c] + 0.0)))
    names[i] = z >> 1


@pk.kernel
def draw(i, far, seed, before, after, names, rows, scales, free, found, places, chosen, nearest):
    """Update a row by the one that was chosen last, and draw the time at which it would be chosen next if
    rows came at the rates `nearest`: the earliest one is drawn in proportion to them. With equal rates all
    that may be chosen come at the rate 1. 3 p operations, a random number and a logarithm.

    far     pk.static: 1 keeps the squared distance to the nearest, 0 leaves out the rows that equal the
            chosen one
    found   by the draw before: the earliest times; where that at the rates `nearest` is infinite, nothing was
            left and the other counts; places has their rows
    """
    n, near, own = before[0], nearest[i], pk.int64(0)
    if n > 0:
        own = places[0] if found[0] < math.inf else places[1]
        square = 0.0
        for c in range(rows.shape[1]):
            away = (pk.float64(rows[i, c]) - pk.float64(rows[own, c])) / scales[c]
            square += away * away
        if free[i] > 0.0:
            if far:
                near = min(near, square) if n > 1 else square
            elif square == 0.0:
                near = 0.0
        nearest[i] = near
    if i == 0:
        after[0] = n + 1
        if n > 0:
            chosen[n - 1] = own
    luck = pk.random.exponential(seed, names[i], n)
    first = luck / near if near > 0.0 else math.inf
    return first, luck if free[i] > 0.0 else math.inf


@pk.function
def share_of(log_r):
    """r_ij from its logarithm."""
    return pk.exp(log_r) if log_r > NEGLIGIBLE else 0.0


@pk.kernel
def pair_entropies(team, n, pairs, joint, lse, total):
    """Adds to total[q] the sum over points of r_a log((r_a + r_b) / r_a) + r_b log((r_a + r_b) / r_b), a and
    b being pairs[q].

    It is what a mixture's bound loses by not telling a from b. Three exponentials, a logarithm and 16 bytes a
    point.
    """
    q = team.league_rank
    a, b = pairs[q, 0], pairs[q, 1]
    own = pk.float64(0.0)
    for i in team.thread_range(n):
        tile, t = i // PAD, i % PAD
        la, lb = joint[tile, a, t], joint[tile, b, t]
        away = lb - la
        tail = pk.log1p(pk.exp(-abs(away)))
        of_a, of_b = share_of(la - lse[0, i]), share_of(lb - lse[0, i])
        own += of_a * (max(away, 0.0) + tail) + of_b * (max(-away, 0.0) + tail)
    own = team.reduce(own)
    if team.single():
        total[q] += own


@pk.kernel
def share_out(tile, column, k, n, weights, joint, lse):
    """Logarithms of weighted shares of children in place of l_ij: child c of component j takes r_ij s_ic.

    Rows 0 to k - 1 are those of the components, rows k + 2 j and k + 2 j + 1 of j's children, whose s add up
    to 1. Two exponentials and 48 bytes a pair of point and component.
    """
    i = tile * PAD + column
    top = joint[tile, 0, column]
    for j in range(1, k):
        top = max(top, joint[tile, j, column])
    total = 0.0
    for j in range(k):
        total += pk.fast_exp(joint[tile, j, column] - top)
    value = top + pk.log(total)
    counts = i < n and weights[min(i, n - 1)] > 0.0
    lse[0, i] = -pk.log(weights[i]) if counts else -LOG_ZERO
    for j in range(k):
        parent = joint[tile, j, column] - value
        one, other = joint[tile, k + 2 * j, column], joint[tile, k + 2 * j + 1, column]
        both = max(one, other) + pk.log1p(pk.exp(-abs(one - other)))
        joint[tile, j, column] = LOG_ZERO
        joint[tile, k + 2 * j, column] = max(parent + (one - both), LOG_ZERO)
        joint[tile, k + 2 * j + 1, column] = max(parent + (other - both), LOG_ZERO)


@pk.function
def of_group(a, i, begins, members, joint, lse):
    """R_a of a point."""
    own = pk.float64(0.0)
    for m in range(begins[a], begins[a + 1]):
        own += share_of(joint[i // PAD, members[m], i % PAD] - lse[0, i])
    return own


@pk.kernel
def group_entropies(team, n, begins, members, pairs, joint, lse, total):
    """Adds to total[q, 0] the sum over points of R_a log((R_a + R_b) / R_a) + R_b log((R_a + R_b) / R_b), and
    to total[q, 1] and total[q, 2] those of R_a and R_b, a and b being pairs[q].

    R_a, the probability of a group, is the sum of r_ij over its members members[begins[a]], ...,
    members[begins[a + 1] - 1]. An exponential and 8 bytes a point and member, and two logarithms a point.
    """
    q = team.league_rank
    a, b = pairs[q, 0], pairs[q, 1]
    both, one, other = pk.float64(0.0), pk.float64(0.0), pk.float64(0.0)
    for i in team.thread_range(n):
        of_a = of_group(a, i, begins, members, joint, lse)
        of_b = of_group(b, i, begins, members, joint, lse)
        if of_a > 0.0 and of_b > 0.0:
            both += of_a * pk.log1p(of_b / of_a) + of_b * pk.log1p(of_a / of_b)
        one += of_a
        other += of_b
    both, one, other = team.reduce(both), team.reduce(one), team.reduce(other)
    if team.single():
        total[q, 0] += both
        total[q, 1] += one
        total[q, 2] += other
