"""Kernels of the Gibbs sampler: draws of assignments, and split proposals that divide the points of
components. Arguments as in `kernels`.

Arguments that recur
    labels      int64, z_i of every point
    members     float64, 1 for the points that a proposal divides, 0 for all others
    sides       int64, 0 or 1: the half to which a proposal assigns each of these points
    start       the number of the block's first point
"""

import portable as pk

from .kernels import LOG_ZERO, PAD


@pk.kernel
def draw_labels(tile, column, k, n, seed, start, sweep, joint, lse, labels):
    """Draw z_i with probabilities r_ij, as the j of largest l_ij + G_ij with Gumbel variables G_ij = -log
    E_ij.

    E_ij is exponential: draw sweep k + j of stream start + i. Afterwards `joint` and `lse` hold logarithms of
    r_ij = 1 or 0, the input of `moments`.
    """
    i = tile * PAD + column
    best = 0
    top = joint[tile, 0, column] - pk.log(pk.random.exponential(seed, start + i, sweep * k))
    for j in range(1, k):
        term = joint[tile, j, column] - pk.log(pk.random.exponential(seed, start + i, sweep * k + j))
        best = pk.where(term > top, j, best)
        top = max(term, top)
    if i < n:
        labels[i] = best
    lse[0, i] = 0.0
    for j in range(k):
        joint[tile, j, column] = pk.where(j == best and i < n, 0.0, LOG_ZERO)


@pk.kernel
def count_pairs(i, labels, others, table):
    """Add 1 to table[labels[i], others[i]], the contingency table of two labellings."""
    pk.atomic_add(table, (labels[i], others[i]), 1)


@pk.kernel
def choose_members(i, a, b, labels, members, sides):
    """Mark the points of components a and b as members of a proposal; those of b are on side 1."""
    members[i] = 1.0 if labels[i] == a or labels[i] == b else 0.0
    sides[i] = 1 if labels[i] == b and a != b else 0


@pk.kernel
def draw_sides(tile, column, n, start, drawn, seed, draw, first, second, joint, lse, members, sides, log_q):
    """Draw the side of each member, and store the logarithm of its probability. Point `first` is always on
    side 0, point `second` on side 1.

    drawn   pk.static: 1 draws the sides, by draw `draw` of stream start + i; 0 keeps them, and only their
            probabilities are computed
    """
    i = tile * PAD + column
    point = start + min(i, n - 1)
    if i < n and members[point] > 0.0:
        one, other = pk.float64(joint[tile, 0, column]), pk.float64(joint[tile, 1, column])
        both = max(one, other) + pk.log1p(pk.exp(-abs(one - other)))
        side = sides[point]
        if drawn:
            side = 1 if pk.random.uniform(seed, point, draw) < pk.exp(other - both) else 0
        given = point == first or point == second
        if given:
            side = 1 if point == second else 0
        sides[point] = side
        log_q[point] = 0.0 if given else (other if side == 1 else one) - both
        joint[tile, 0, column] = LOG_ZERO if side == 1 else 0.0
        joint[tile, 1, column] = 0.0 if side == 1 else LOG_ZERO
        lse[0, i] = 0.0
    else:
        lse[0, i] = -LOG_ZERO
        if i < n:
            log_q[point] = 0.0


@pk.kernel
def entry(i, x):
    return x[i]


@pk.kernel
def relabel(i, zero, one, members, sides, labels):
    """Give members the label of their side: `zero` or `one`."""
    if members[i] > 0.0:
        labels[i] = one if sides[i] == 1 else zero
