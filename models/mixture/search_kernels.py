"""Kernels of starts and moves: sums of columns, draws of points far from those chosen before, entropies of
pairs of components, and the division of components into children.

Arguments that recur, in addition to those of `kernels`
    rows        the user's points, one a row
    names       uint64 below 2^63, a hash of each row's coordinates
    nearest     float64, a row's squared distance to the nearest row chosen so far, 1 before the first choice;
                0 for a row that cannot be chosen
    free        float64: 1, and 0 for rows of weight 0
    before      int64: number of rows chosen so far
    after       int64: the input `before` of the next draw; the two counters alternate, so that every other
                draw has the same launch
"""

import math

import portable as pk

from ..shared.shared_kernels import mixed
from .kernels import LOG_ZERO, PAD, share

BLOCK, SIDE = 8192, 16  # rows of a block, which has separate sums; members that divide a block between them


@pk.function
def product(a, b):
    """Return a b, rounded before it is added to anything: no fused multiply-add."""
    return a * b


@pk.kernel
def gather_rows(i, column, numbers, rows, some):
    """some[i] = rows[numbers[i]]."""
    some[i, column] = rows[numbers[i], column]


@pk.kernel
def column_sums(block, e, p, squared, weighted, flat, first, middles, weights, sums):
    """Sum the rows of a block of BLOCK rows, with a separate sum for every SIDE-th row: e is number * p +
    column. Rows beyond the last multiple of SIDE are left out. 8 bytes a coordinate, or 4.

    squared     pk.static: 0 adds up x - first, 1 the squares of x - first - middles[block]
    weighted    pk.static: 1 if each row counts `weights` times
    flat        the rows, concatenated
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


@pk.kernel
def name_rows(i, rows, names):
    """Hash each row to its name: equal rows have equal names at every position. 8 bytes a coordinate."""
    z = pk.uint64(rows.shape[1])
    for c in range(rows.shape[1]):
        z = mixed(z + 0x9E3779B97F4A7C15 ^ pk.uint64(pk.bits(rows[i, c] + 0.0)))
    names[i] = z >> 1


@pk.kernel
def draw(i, far, seed, before, after, names, rows, scales, free, found, places, chosen, nearest):
    """Update a row's distance by the row chosen last, and draw its arrival time for the next choice.

    Rows arrive at the rates `nearest`, so that the first arrival is a draw with probabilities in proportion
    to these. A second time, at rate 1 for each row that may be chosen, makes the draw uniform if all
    distances are 0. 3 p operations, a random number and a logarithm.

    far     pk.static: 1 keeps the squared distance to the nearest chosen row, 0 only excludes rows equal to
            the chosen one
    found   result of the draw before: the earliest times at the rates `nearest` and at equal rates; if the
            first is infinite, no row was left at a positive distance and the second one counts
    places  the rows that arrived at these times
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


@pk.kernel
def pair_entropies(team, n, pairs, joint, lse, total):
    """Add to total[q] the sum over points of r_a log((r_a + r_b) / r_a) + r_b log((r_a + r_b) / r_b), where
    (a, b) = pairs[q].

    A mixture's bound loses this entropy if a and b are not distinguished. Three exponentials, a logarithm and
    16 bytes a point.
    """
    q = team.league_rank
    a, b = pairs[q, 0], pairs[q, 1]
    own = pk.float64(0.0)
    for i in team.thread_range(n):
        tile, t = i // PAD, i % PAD
        la, lb = joint[tile, a, t], joint[tile, b, t]
        away = lb - la
        tail = pk.log1p(pk.exp(-abs(away)))
        of_a, of_b = share(pk.exp, la - lse[0, i]), share(pk.exp, lb - lse[0, i])
        own += of_a * (max(away, 0.0) + tail) + of_b * (max(-away, 0.0) + tail)
    own = team.reduce(own)
    if team.single():
        total[q] += own


@pk.kernel
def share_out(tile, column, k, n, weights, joint, lse):
    """Replace l_ij by logarithms of the children's weighted shares: child c of component j has r_ij s_ic.

    Rows 0 to k - 1 are the components, rows k + 2 j and k + 2 j + 1 the children of j, whose s add up to 1.
    Two exponentials and 48 bytes a pair of point and component.
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
    """Return R_a of point i, the probability of group a."""
    own = pk.float64(0.0)
    for m in range(begins[a], begins[a + 1]):
        own += share(pk.exp, joint[i // PAD, members[m], i % PAD] - lse[0, i])
    return own


@pk.kernel
def group_entropies(team, n, begins, members, pairs, joint, lse, total):
    """Add to total[q, 0] the sum over points of R_a log((R_a + R_b) / R_a) + R_b log((R_a + R_b) / R_b), and
    to total[q, 1] and total[q, 2] the sums of R_a and R_b, where (a, b) = pairs[q].

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
    for c, own in enumerate((both, one, other)):
        own = team.reduce(own)
        if team.single():
            total[q, c] += own
