"""Kernels of Gaussian mixtures; the equations are numbered in `models.mixture`.

Points are worked on in blocks; for one block and all components the logarithms l_ij of (1) are kept. No array is larger.

Arguments that recur
    p           number of coordinates, pk.static: up to 16 of them the loops over coordinates unroll
    diagonal    pk.static: 1 where covariances are diagonal
    rows        pk.static: points that a member of `log_joint` keeps in registers, a divisor of PAD
    x           a block of points less a common centre, shape (p, width); width is a multiple of PAD, and columns beyond
                the n points of the block are zeros
    records     of a component, in the order in which the kernels read: for each coordinate a -(L^-1 mu)_a and the row
                L^-1_a0 .. L^-1_aa (diagonal: L^-1_aa alone), then log pi - (p / 2) log 2 pi - sum log diag L
    joint       l_ij, shape (k, width); `moments` replaces what it uses by r_ij
    lse         row s: log-densities by components SLICE s and following; after `normalise` row 0 holds those by all
    means       mu less the common centre, shape (k, p)
    sums        shape (n_slices, k, m): of a slice of points and a component the sums of r, and with d = x - mu, of r d and
                r d d', as the lower triangle of r (1, d) (1, d)' (diagonal: of r, all r d, all r d^2), float64. The sums
                about the present mean cancel little

All but `sums` have the dtype of x.
"""

import portable as pk

PAD = 32  # points; a warp, and two packs of lanes
TILE = 512  # points of a team of `log_joint`
SLICE = 64  # components of a team of `log_joint`: enough to pay for loading a point
SIDE = 5  # `moments` keeps SIDE^2 sums in registers
STEPS = 512  # points of a member between two additions to `sums`
NEGLIGIBLE = -70.0  # log r: a component's count loses less than n e^-70 if such points are left out
LOG_ZERO = -1e30  # instead of log 0: finite, so that differences are no NaN, and far below any density


@pk.function
def squares(p, rows, own, records, j, y, square):
    """|L^-1 (x - mu)|^2 for each of a member's points; the position of the record's last number. p (p + 3) operations a point."""
    o = 0
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(p):
        for r in range(pk.static(rows)):
            y[r] = records[j, o]
        o += 1
        for b in range(a + 1):
            for r in range(pk.static(rows)):
                y[r] += records[j, o] * own[b, r]
            o += 1
        for r in range(pk.static(rows)):
            square[r] += y[r] * y[r]
    return o


@pk.function
def diagonal_squares(p, rows, own, records, j, y, square):
    """`squares` for a diagonal L. 4 p operations a point."""
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(p):
        for r in range(pk.static(rows)):
            y[r] = records[j, 2 * a] + records[j, 2 * a + 1] * own[a, r]
            square[r] += y[r] * y[r]
    return 2 * p


@pk.kernel
def log_joint(team, p, diagonal, rows, x, records, joint, lse):
    """l_ij of (1) for TILE points and SLICE components, and their log-sum-exp with the largest so far factored out.

    p (p + 3) + 8 operations and one exponential a pair; 8 p bytes a point, 8 a pair.
    """
    n_tiles = (x.shape[1] + TILE - 1) // TILE
    s = team.league_rank // n_tiles
    begin = team.league_rank % n_tiles * TILE
    stride = (min(begin + TILE, x.shape[1]) - begin) // rows
    own = pk.local((p, rows), x.dtype)
    y = pk.local(rows, x.dtype)
    square = pk.local(rows, x.dtype)
    top = pk.local(rows, x.dtype)
    total = pk.local(rows, x.dtype)
    for i in team.thread_range(begin, begin + stride):
        for r in range(pk.static(rows)):
            top[r] = 2.0 * LOG_ZERO
            total[r] = 0.0
        for c in range(p):
            for r in range(pk.static(rows)):
                own[c, r] = x[c, i + r * stride]
        for j in range(s * SLICE, min(s * SLICE + SLICE, records.shape[0])):
            if diagonal:
                o = diagonal_squares(p, rows, own, records, j, y, square)
            else:
                o = squares(p, rows, own, records, j, y, square)
            for r in range(pk.static(rows)):
                term = records[j, o] - 0.5 * square[r]
                joint[j, i + r * stride] = term
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
def list_steps(team, begin, end, joint, lse, j, steps):
    """Steps of the team in which some member's point counts: r_ij replaces l_ij there. Their number.

    One exponential a point that counts; 16 bytes a point.
    """
    count = 0
    team.barrier()
    for step in range(begin, end, team.size):
        e = joint[j, step + team.rank] - lse[0, step + team.rank]
        if team.reduce(e, pk.Max) > NEGLIGIBLE:
            joint[j, step + team.rank] = pk.fast_exp(e)
            if team.single():
                steps[count] = step
            count += 1
    team.barrier()
    return count


@pk.kernel
def moments(team, p, n_slices, x, joint, lse, means, sums):
    """The sums of (3) over a slice of points; a team a slice and component.

    Of the triangle (1, d) (1, d)' a square of SIDE^2 products at a time is held in registers while the points pass.
    p (p + 5) + 2 operations and about (p + 1)^2 / SIDE subtractions and products a pair that counts; one exponential,
    and 8 (p + 1) (p / SIDE + 1) bytes from cache.
    """
    k = joint.shape[0]
    j = team.league_rank % k
    own = team.league_rank // k
    width = x.shape[1]
    length = (width // PAD + n_slices - 1) // n_slices * PAD
    steps = team.scratch(STEPS, pk.int64)
    part = pk.local((SIDE, SIDE), x.dtype)
    weighted = pk.local(SIDE, x.dtype)
    last = min(own * length + length, width)
    for begin in range(own * length, last, STEPS * team.size):
        count = list_steps(team, begin, min(begin + STEPS * team.size, last), joint, lse, j, steps)
        for A in range((p + SIDE) // SIDE):
            for B in range(A + 1):
                for a in range(pk.static(SIDE)):
                    for b in range(pk.static(SIDE)):
                        part[a, b] = 0.0
                for step in range(count):
                    i = steps[step] + team.rank
                    for a in range(pk.static(SIDE)):
                        row = min(A * SIDE + a, p)
                        weighted[a] = joint[j, i]
                        if row > 0:
                            weighted[a] *= x[row - 1, i] - means[j, row - 1]
                    for b in range(pk.static(SIDE)):
                        column = min(B * SIDE + b, p)
                        d = x[max(column - 1, 0), i] - means[j, max(column - 1, 0)] if column > 0 else 1.0
                        for a in range(pk.static(SIDE)):
                            part[a, b] += weighted[a] * d
                for a in range(pk.static(SIDE)):
                    for b in range(pk.static(SIDE)):
                        row = A * SIDE + a
                        column = B * SIDE + b
                        if row <= p and column <= row:
                            total = team.reduce(pk.float64(part[a, b]))
                            if team.single():
                                sums[own, j, row * (row + 1) // 2 + column] += total


@pk.kernel
def diagonal_moments(team, p, n_slices, x, joint, lse, means, sums):
    """`moments` without products of two coordinates. 6 p + 1 operations a pair that counts."""
    k = joint.shape[0]
    j = team.league_rank % k
    own = team.league_rank // k
    width = x.shape[1]
    length = (width // PAD + n_slices - 1) // n_slices * PAD
    steps = team.scratch(STEPS, pk.int64)
    first = pk.local(SIDE, x.dtype)
    second = pk.local(SIDE, x.dtype)
    last = min(own * length + length, width)
    for begin in range(own * length, last, STEPS * team.size):
        count = list_steps(team, begin, min(begin + STEPS * team.size, last), joint, lse, j, steps)
        for A in range((p + SIDE - 1) // SIDE):
            weight = joint[j, begin + team.rank] * 0.0
            for a in range(pk.static(SIDE)):
                first[a] = 0.0
                second[a] = 0.0
            for step in range(count):
                i = steps[step] + team.rank
                r = joint[j, i]
                weight += r
                for a in range(pk.static(SIDE)):
                    c = min(A * SIDE + a, p - 1)
                    d = x[c, i] - means[j, c]
                    first[a] += r * d
                    second[a] += r * d * d
            total = team.reduce(pk.float64(weight))
            if team.single() and A == 0:
                sums[own, j, 0] += total
            for a in range(pk.static(SIDE)):
                c = A * SIDE + a
                if c < p:
                    total = team.reduce(pk.float64(first[a]))
                    if team.single():
                        sums[own, j, 1 + c] += total
                    total = team.reduce(pk.float64(second[a]))
                    if team.single():
                        sums[own, j, 1 + p + c] += total


@pk.kernel
def add_slices(j, o, sums, added):
    """Add up the slices, always in the same order. 8 n_slices bytes a sum."""
    total = sums[0, j, o]
    for s in range(1, sums.shape[0]):
        total += sums[s, j, o]
    added[j, o] = total


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
