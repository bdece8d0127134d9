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
    sums        shape (n_slices, k, m): of a slice of points and a component the sums of r, r d and r d d' with d = x less
                a reference, as the lower triangle of r (1, d) (1, d)' (diagonal: of r, all r d, all r d^2), float64

All but `sums` have the dtype of x.
"""

import portable as pk

PAD = 32  # points; a warp, and two packs of lanes
TILE = 512  # points of a team of `log_joint`
COLUMNS = 16  # features of a row of places of `moments`: a multiple of the lanes of any pack
BATCH = 8  # values that are read before the first is used
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
def products(team, p, base, first, last, points, features):
    """d_a d_b of a tile's points, b <= a, as feature a (a + 1) / 2 + b - `base`, for a from `first` to `last`; d_0 = 1."""
    for e in team.thread_range(points.shape[0] * COLUMNS):
        t = e // COLUMNS
        for c in range(pk.static(p // COLUMNS + 1)):
            b = c * COLUMNS + e % COLUMNS
            own = points[t, b]
            for a in range(first, last):
                f = a * (a + 1) // 2 + b - base
                if b <= a and 0 <= f < features.shape[1]:
                    features[t, f] = points[t, a] * own


@pk.function
def powers(team, p, base, points, features):
    """1 and d_a, then d_a^2, of a tile's points, the feature numbered `base` first."""
    for e in team.thread_range(points.shape[0] * COLUMNS):
        t = e // COLUMNS
        for c in range(pk.static(p // COLUMNS + 1)):
            b = c * COLUMNS + e % COLUMNS
            own = points[t, b]
            f = b - base
            if b <= p and 0 <= f < features.shape[1]:
                features[t, f] = own
            if 0 < b <= p and 0 <= f + p < features.shape[1]:
                features[t, f + p] = own * own


@pk.function
def row_of(f):
    """The a of feature a (a + 1) / 2 + b."""
    a = 0
    while (a + 1) * (a + 2) // 2 <= f:
        a += 1
    return a


@pk.function
def stage_points(team, p, begin, x, reference, some, points):
    """d of a tile's points, a row each, behind d_0. BATCH values are on their way from memory at a time."""
    n, q = points.shape[0], 0
    while q * BATCH * team.size < p * n:
        for b in range(pk.static(BATCH)):
            e = (q * BATCH + b) * team.size + team.rank
            c = min(e // n, p - 1)
            some[b] = x[c, begin + e % n] - reference[c]
        for b in range(pk.static(BATCH)):
            e = (q * BATCH + b) * team.size + team.rank
            if e < p * n:
                points[e % n, e // n + 1] = some[b]
        q += 1


@pk.function
def stage_shares(team, n, group, begin, first, last, joint, lse, some, shares):
    """r_ij of a tile's points and a group of components, a row each. One exponential and 8 bytes a pair."""
    q = 0
    while q * BATCH * team.size < group * n:
        for b in range(pk.static(BATCH)):
            e = (q * BATCH + b) * team.size + team.rank
            i = begin + e % n
            some[b] = joint[min(first + e // n, last - 1), i] - lse[0, i]
        team.barrier()  # whoever still works on the tile before has what it needs
        for b in range(pk.static(BATCH)):
            e = (q * BATCH + b) * team.size + team.rank
            if group * n % (BATCH * team.size) == 0 or e < group * n:
                shares[e // n, e % n] = pk.where(some[b] > NEGLIGIBLE, pk.fast_exp(some[b]), 0.0)
        q += 1


@pk.kernel(teams=2)
def moments(team, p, diagonal, n_blocks, n_own, group, tile, n_slices, x, joint, lse, begin, end, number, references, chosen, sums):
    """The sums of (3) for `group` components, a block of features and a slice of points: shares times features.

    Shares and features of `tile` points at a time are staged in scratch. The product has places: rows of components by
    COLUMNS of features; a member keeps the sums of `depth` by `n_own` of them at each of its places in registers, as many
    as half of them hold. 2 operations a pair and feature, and one exponential a pair.

    begin, end      components
    number          of the reference: sums are those of the points less references[number], for components whose `chosen` it is
    n_blocks        blocks of features of n_own * COLUMNS each, pk.static
    """
    n_groups = (end - begin + group - 1) // group
    first = begin + team.league_rank % n_groups * group
    base = team.league_rank // n_groups % n_blocks * (n_own * COLUMNS)
    own = team.league_rank // n_groups // n_blocks
    length = (x.shape[1] // PAD + n_slices - 1) // n_slices * PAD
    last = min(own * length + length, x.shape[1])
    depth = max(min(team.registers // (2 * n_own), group * COLUMNS // max(team.size, COLUMNS)), 1)
    rows = (group + depth - 1) // depth
    n_places = (rows * COLUMNS + team.size - 1) // team.size
    points = team.scratch((tile, (p // COLUMNS + 1) * COLUMNS), x.dtype)
    features = team.scratch((tile, n_own * COLUMNS), x.dtype)
    shares = team.scratch((rows * depth, tile + 2), x.dtype)  # rows lie in different banks
    total = pk.local((n_places, depth, n_own), x.dtype)
    part = pk.local((depth, n_own), x.dtype)
    r = pk.local(depth, x.dtype)
    some = pk.local(BATCH, x.dtype)
    for t in range(tile):
        for f in team.thread_range(n_own * COLUMNS):
            features[t, f] = 0.0
        for c in team.thread_range((p // COLUMNS + 1) * COLUMNS):
            points[t, c] = 1.0
    for j in range(group, rows * depth):  # no components
        for t in team.thread_range(tile):
            shares[j, t] = 0.0
    team.barrier()
    place = 0
    while place < n_places:
        for a in range(pk.static(depth)):
            for b in range(pk.static(n_own)):
                total[place, a, b] = 0.0
        place += 1
    for i in range(own * length, last, tile):
        stage_points(team, p, i, x, references[number], some, points)
        stage_shares(team, tile, group, i, first, end, joint, lse, some, shares)
        team.barrier()
        if diagonal:
            powers(team, p, base, points, features)
        elif n_blocks == 1:
            products(team, p, 0, 0, p + 1, points, features)
        else:
            products(team, p, base, row_of(base), min(row_of(base + n_own * COLUMNS - 1), p) + 1, points, features)
        team.barrier()
        place = 0
        while place < n_places:
            e = place * team.size + team.rank
            if rows * COLUMNS % team.size == 0 or e < rows * COLUMNS:
                row, column = e // COLUMNS, e % COLUMNS
                for a in range(pk.static(depth)):
                    for b in range(pk.static(n_own)):
                        part[a, b] = total[place, a, b]
                t = 0
                while t < tile:
                    for a in range(pk.static(depth)):
                        r[a] = shares[a * rows + row, t]
                    for b in range(pk.static(n_own)):
                        feature = features[t, column + b * COLUMNS]
                        for a in range(pk.static(depth)):
                            part[a, b] += r[a] * feature
                    t += 1
                for a in range(pk.static(depth)):
                    for b in range(pk.static(n_own)):
                        total[place, a, b] = part[a, b]
            place += 1
    place = 0
    while place < n_places:
        e = place * team.size + team.rank
        if rows * COLUMNS % team.size == 0 or e < rows * COLUMNS:
            for a in range(pk.static(depth)):
                j = first + a * rows + e // COLUMNS
                if j < min(first + group, end) and chosen[j] == number:
                    for b in range(pk.static(n_own)):
                        f = base + e % COLUMNS + b * COLUMNS
                        if f < sums.shape[2]:
                            sums[own, j, f] += pk.float64(total[place, a, b])
        place += 1


@pk.kernel
def add_slices(j, f, sums, added):
    """Add up the slices, always in the same order. 8 n_slices bytes a sum."""
    total = sums[0, j, f]
    for s in range(1, sums.shape[0]):
        total += sums[s, j, f]
    added[j, f] = total


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
