"""Kernels of Gaussian mixtures; the equations are numbered in `models.mixture`.

Points are worked on in blocks; for one block and all components the logarithms l_ij of (1) are kept: no array of points and
components is larger.

Arguments that recur
    p           number of coordinates, pk.static: up to 16 of them the loops over coordinates unroll
    diagonal    pk.static: 1 where covariances are diagonal
    rows        pk.static: points that a member of `log_joint` keeps in registers, a divisor of PAD
    x           a block of points less a common centre, shape (p, width); width is a multiple of PAD, and columns beyond
                the n points of the block are zeros
    records     of a component, in the order in which the kernels read: for each coordinate a -(L^-1 mu)_a and the row
                L^-1_a0 .. L^-1_aa (diagonal: L^-1_aa alone), then log pi - (p / 2) log 2 pi - sum log diag L
    joint       l_ij, shape (k, width)
    lse         row s: log-densities by components s * slice and following; after `normalise` row 0 holds those by all
    means       mu less the common centre, shape (p, k)
    sums        shape (n_slices, m, k): of a slice of points and a component the sums of r, and with d = x - mu, of r d and
                r d d', as the lower triangle of r (1, d) (1, d)' (diagonal: of r, all r d, all r d^2), float64. The sums
                about the present mean cancel little

All but `sums` have the dtype of x.
"""

import portable as pk

PAD = 32  # points; a warp, and two packs of lanes
TILE = 512  # points of a team of `log_joint`
GROUP = 32  # components of a team of `moments`
STAGED = 64  # points that such a team has in scratch: 24 kB with their shares, so that eight teams fit a core of a GPU
BATCH = 8  # values that are read before the first is used, a divisor of GROUP
NEGLIGIBLE = -70.0  # log r: a component's count loses less than n e^-70 if such shares count as 0
LOG_ZERO = -1e30  # instead of log 0: finite, so that differences are no NaN, and far below any density


@pk.function
def squares(p, rows, own, staged, j, y, square):
    """|L^-1 (x - mu)|^2 for each of a member's points; the position of the record's last number. p (p + 3) operations."""
    o = 0
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(p):
        for r in range(pk.static(rows)):
            y[r] = staged[j, o]
        o += 1
        for b in range(a + 1):
            for r in range(pk.static(rows)):
                y[r] += staged[j, o] * own[b, r]
            o += 1
        for r in range(pk.static(rows)):
            square[r] += y[r] * y[r]
    return o


@pk.function
def diagonal_squares(p, rows, own, staged, j, y, square):
    """`squares` for a diagonal L. 4 p operations a point."""
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(p):
        for r in range(pk.static(rows)):
            y[r] = staged[j, 2 * a] + staged[j, 2 * a + 1] * own[a, r]
            square[r] += y[r] * y[r]
    return 2 * p


@pk.kernel
def log_joint(team, p, diagonal, rows, slice, length, x, records, joint, lse):
    """l_ij of (1) for TILE points and `slice` components, and their log-sum-exp with the largest so far factored out.

    The components' records are staged in scratch. p (p + 3) + 8 operations and one exponential a pair; 8 p / slice + 8
    bytes a pair.
    """
    n_tiles = (x.shape[1] + TILE - 1) // TILE
    s = team.league_rank // n_tiles
    begin = team.league_rank % n_tiles * TILE
    stride = (min(begin + TILE, x.shape[1]) - begin) // rows
    count = min(slice, records.shape[0] - s * slice)
    staged = team.scratch((slice, length), x.dtype)
    own = pk.local((p, rows), x.dtype)
    y = pk.local(rows, x.dtype)
    square = pk.local(rows, x.dtype)
    top = pk.local(rows, x.dtype)
    total = pk.local(rows, x.dtype)
    for j in range(count):
        for o in team.thread_range(length):
            staged[j, o] = records[s * slice + j, o]
    team.barrier()
    for i in team.thread_range(begin, begin + stride):
        for r in range(pk.static(rows)):
            top[r] = 2.0 * LOG_ZERO
            total[r] = 0.0
        for c in range(p):
            for r in range(pk.static(rows)):
                own[c, r] = x[c, i + r * stride]
        for j in range(count):
            if diagonal:
                o = diagonal_squares(p, rows, own, staged, j, y, square)
            else:
                o = squares(p, rows, own, staged, j, y, square)
            for r in range(pk.static(rows)):
                term = staged[j, o] - 0.5 * square[r]
                joint[s * slice + j, i + r * stride] = term
                smaller = pk.fast_exp(-abs(term - top[r]))
                total[r] = pk.where(term > top[r], total[r] * smaller + 1.0, total[r] + smaller)
                top[r] = max(term, top[r])
        for r in range(pk.static(rows)):
            lse[s, i + r * stride] = top[r] + pk.log(total[r])


@pk.kernel
def normalise(i, n, lse):
    """lse_i of (2), kept and returned; beyond the n points so large that no responsibility is left there."""
    top = lse[0, i]
    for s in range(1, lse.shape[0]):
        top = max(top, lse[s, i])
    total = 0.0
    for s in range(lse.shape[0]):
        total += pk.fast_exp(lse[s, i] - top)
    value = top + pk.log(total)
    lse[0, i] = value if i < n else -LOG_ZERO
    return pk.float64(value) if i < n else pk.float64(0.0)


@pk.function
def stage(team, p, x, joint, lse, begin, end, first, logs, points, shares):
    """Points begin to end in scratch, a row each, and r_ij of them for GROUP components from `first` on.

    BATCH values are on their way from memory at a time. One exponential a pair that counts; 8 bytes a pair and 8 p a point.
    """
    k = joint.shape[0]
    team.barrier()
    for t in range(end - begin):
        for j in team.thread_range(GROUP):
            shares[t, j] = 0.0
    for i in team.thread_range(begin, end):
        for c in range(p):
            points[i - begin, c] = x[c, i]
    team.barrier()
    for i in team.thread_range(begin, end):
        for j in range(0, GROUP, BATCH):
            for b in range(pk.static(BATCH)):
                logs[b] = joint[min(first + j + b, k - 1), i] - lse[0, i]
            for b in range(pk.static(BATCH)):
                if logs[b] > NEGLIGIBLE:
                    shares[i - begin, j + b] = pk.fast_exp(logs[b])
    team.barrier()


@pk.kernel
def moments(team, p, side, n_sides, n_slices, x, joint, lse, means, sums):
    """The sums of (3) for GROUP components and a slice of points; a member has components of its own.

    Of the triangle (1, d) (1, d)' a square of side^2 products at a time is held in registers while the points pass.
    (p + 1) (p + 2) operations and about (p + 1)^2 / side subtractions and products a pair that counts; one exponential
    and 8 bytes of memory.
    """
    k = joint.shape[0]
    n_groups = (k + GROUP - 1) // GROUP
    first = team.league_rank % n_groups * GROUP
    own = team.league_rank // n_groups
    width = x.shape[1]
    length = (width // PAD + n_slices - 1) // n_slices * PAD
    points = team.scratch((STAGED, p), x.dtype)
    shares = team.scratch((STAGED, GROUP + 1), x.dtype)  # rows of odd length lie in different banks
    logs = pk.local(BATCH, x.dtype)
    part = pk.local((side, side), x.dtype)
    weighted = pk.local(side, x.dtype)
    row_means = pk.local(side, x.dtype)
    column_means = pk.local(side, x.dtype)
    last = min(own * length + length, width)
    for begin in range(own * length, last, STAGED):
        end = min(begin + STAGED, last)
        stage(team, p, x, joint, lse, begin, end, first, logs, points, shares)
        for j in team.thread_range(first, min(first + GROUP, k)):
            for A in range(n_sides):
                for B in range(A + 1):
                    for a in range(pk.static(side)):
                        row_means[a] = means[min(max(A * side + a, 1), p) - 1, j]
                        column_means[a] = means[min(max(B * side + a, 1), p) - 1, j]
                        for b in range(pk.static(side)):
                            part[a, b] = 0.0
                    for t in range(end - begin):
                        r = shares[t, j - first]
                        if pk.any(r > 0.0):
                            for a in range(pk.static(side)):
                                row = min(A * side + a, p)
                                weighted[a] = r * (points[t, row - 1] - row_means[a]) if row > 0 else r
                            for b in range(pk.static(side)):
                                column = min(B * side + b, p)
                                d = points[t, column - 1] - column_means[b] if column > 0 else 1.0
                                for a in range(pk.static(side)):
                                    part[a, b] += weighted[a] * d
                    for a in range(pk.static(side)):
                        for b in range(pk.static(side)):
                            row = A * side + a
                            column = B * side + b
                            if row <= p and column <= row:
                                sums[own, row * (row + 1) // 2 + column, j] += pk.float64(part[a, b])


@pk.kernel
def diagonal_moments(team, p, side, n_sides, n_slices, x, joint, lse, means, sums):
    """`moments` without products of two coordinates. 6 p + 1 operations a pair that counts."""
    k = joint.shape[0]
    n_groups = (k + GROUP - 1) // GROUP
    first = team.league_rank % n_groups * GROUP
    own = team.league_rank // n_groups
    width = x.shape[1]
    length = (width // PAD + n_slices - 1) // n_slices * PAD
    points = team.scratch((STAGED, p), x.dtype)
    shares = team.scratch((STAGED, GROUP + 1), x.dtype)
    logs = pk.local(BATCH, x.dtype)
    centre = pk.local(side, x.dtype)
    once = pk.local(side, x.dtype)
    twice = pk.local(side, x.dtype)
    last = min(own * length + length, width)
    for begin in range(own * length, last, STAGED):
        end = min(begin + STAGED, last)
        stage(team, p, x, joint, lse, begin, end, first, logs, points, shares)
        for j in team.thread_range(first, min(first + GROUP, k)):
            for A in range(n_sides):
                count = 0.0 * means[0, j]
                for a in range(pk.static(side)):
                    centre[a] = means[min(A * side + a, p - 1), j]
                    once[a] = 0.0
                    twice[a] = 0.0
                for t in range(end - begin):
                    r = shares[t, j - first]
                    if pk.any(r > 0.0):
                        count += r
                        for a in range(pk.static(side)):
                            d = points[t, min(A * side + a, p - 1)] - centre[a]
                            once[a] += r * d
                            twice[a] += r * d * d
                if A == 0:
                    sums[own, 0, j] += pk.float64(count)
                for a in range(pk.static(side)):
                    c = A * side + a
                    if c < p:
                        sums[own, 1 + c, j] += pk.float64(once[a])
                        sums[own, 1 + p + c, j] += pk.float64(twice[a])


@pk.kernel
def add_slices(o, j, sums, added):
    """Add up the slices, always in the same order. 8 n_slices bytes a sum."""
    total = sums[0, o, j]
    for s in range(1, sums.shape[0]):
        total += sums[s, o, j]
    added[o, j] = total


@pk.kernel
def most_probable(i, joint, labels):
    """The component of largest l_ij, the first of equals. 8 k bytes."""
    best = 0
    top = joint[0, i]
    for j in range(1, joint.shape[0]):
        best = pk.where(joint[j, i] > top, j, best)
        top = max(joint[j, i], top)
    labels[i] = best


@pk.kernel
def responsibilities(j, i, joint, lse):
    """r_ij of (2) in place of l_ij. One exponential and 16 bytes a pair."""
    joint[j, i] = pk.exp(joint[j, i] - lse[0, i])


@pk.kernel
def draw_labels(i, n, seed, first, sweep, joint, lse, labels):
    """z_i with probabilities r_ij, as the largest of l_ij + G_ij with G_ij = -log E_ij, a Gumbel variable.

    E_ij is exponential, draw sweep k + j of stream first + i. What is left is what `moments` takes for r_ij = 1 or 0.
    """
    k = joint.shape[0]
    best = 0
    top = joint[0, i] - pk.log(pk.random.exponential(seed, first + i, sweep * k))
    for j in range(1, k):
        term = joint[j, i] - pk.log(pk.random.exponential(seed, first + i, sweep * k + j))
        best = pk.where(term > top, j, best)
        top = max(term, top)
    labels[i] = best
    lse[0, i] = 0.0
    for j in range(k):
        joint[j, i] = pk.where(j == best and i < n, 0.0, LOG_ZERO)


@pk.kernel
def count_pairs(i, labels, others, table):
    """How often label a of one and label b of the other meet."""
    pk.atomic_add(table, (labels[i], others[i]), 1)
