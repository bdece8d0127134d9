"""Kernels of Gaussian mixtures; the equations are numbered in `models.mixture`.

Points are worked on in blocks; for one block and all components the logarithms l_ij of (1) are kept: no array
of points and components is larger.

Arguments that recur
    p           number of coordinates, pk.static: up to UNROLLED of them the loops over coordinates unroll
    diagonal    pk.static: 1 where covariances are diagonal
    rows        pk.static: points that a member of `log_joint` keeps in registers
    x           a block of points less a common centre, shape (p, width); width is a multiple of rows * PAD,
                and columns beyond the n points of the block are zeros
    records     of all components, of each in the order in which the kernels read: for each coordinate a
                -(L^-1 mu)_a and the row L^-1_a0 .. L^-1_aa (diagonal: L^-1_aa alone), then log pi - (p / 2)
                log 2 pi - sum log diag L
    points      a block of points as they were given, one a row
    joint       l_ij, shape (width / PAD, rows, PAD): of each tile of PAD points all components, and LOG_ZERO
                in rows beyond k
    lse         row s: log-densities by components s * slice and following; after `normalise` row 0 holds
                those by all
    sums        shape (n_slices, k, m): of a slice of points and a component the sums of r, r d and r d d'
                with d = x less a reference, as the lower triangle of r (1, d) (1, d)' (diagonal: of r, all r
                d, all r d^2), float64

All but `sums` have the dtype of x.
"""

import math


import portable as pk

PAD = 32  # points of a tile; a warp, and some packs of lanes
UNROLLED = 24  # coordinates of a point that registers hold
TILES = 16  # of a team of `log_joint`, at most
COLUMNS = 16  # features of a row of places of `moments`: a multiple of the lanes of any pack
FEW_BLOCKS = 3  # of features: so many have code of their own, with numbers that are known
BATCH = 8  # values that are read before the first is used
AHEAD = 16  # values of a tile that a member has on their way from memory while features are made, at most
NEGLIGIBLE = -70.0  # log r: a component's count loses less than n e^-70 if such shares count as 0
LOG_ZERO = -1e30  # instead of log 0: finite, so that differences are no NaN, and far below any density


@pk.function
def place(team, q, width):
    """Row and column of a team's q-th pass over a table of `width` columns; a pack of lanes stays in its
    row."""
    e = q * team.size
    whole = width % team.size == 0
    row = e // width if whole else (e + team.rank) // width
    column = e % width + team.rank if whole else (e + team.rank) % width
    return row, column


@pk.function
def passes(team, rows, width):
    """Passes of `place` over so many rows."""
    return (rows * width + team.size - 1) // team.size


@pk.kernel
def lay_out(i, points, centre, x):
    """A point's row, less the centre, as a column; zeros beyond the last point. 16 bytes a coordinate, or 8.

    Returns 0, and NaN for a point with a coordinate that is not finite.
    """
    flaw = 0.0
    for c in range(x.shape[0]):
        value = pk.float64(points[i, c]) if i < points.shape[0] else centre[c]
        flaw = flaw if pk.isfinite(value) else math.nan
        x[c, i] = value - centre[c]
    return flaw


@pk.function
def squares(p, rows, own, staged, o, y, square):
    """|L^-1 (x - mu)|^2 for each of a member's points; the place of the record's last number. p (p + 3)
    operations."""
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(pk.static(min(p, UNROLLED))):
        for r in range(pk.static(rows)):
            y[r] = staged[o]
        o += 1
        for b in range(pk.static(a + 1)):
            for r in range(pk.static(rows)):
                y[r] += staged[o] * own[b, r]
            o += 1
        for r in range(pk.static(rows)):
            square[r] += y[r] * y[r]
    for a in range(min(p, UNROLLED), p):
        for r in range(pk.static(rows)):
            y[r] = staged[o]
        o += 1
        for b in range(a + 1):
            for r in range(pk.static(rows)):
                y[r] += staged[o] * own[b, r]
            o += 1
        for r in range(pk.static(rows)):
            square[r] += y[r] * y[r]
    return o


@pk.function
def diagonal_squares(p, rows, own, staged, o, y, square):
    """`squares` for a diagonal L. 4 p operations a point."""
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(p):
        for r in range(pk.static(rows)):
            y[r] = staged[o + 2 * a] + staged[o + 2 * a + 1] * own[a, r]
            square[r] += y[r] * y[r]
    return o + 2 * p


@pk.function
def stage_records(team, first, n, records, some, staged):
    """n numbers of the records from the one numbered `first`, as many on their way from memory at a time as
    `some` holds."""
    q = 0
    while q * team.size < n:
        for b in range(pk.static(some.shape[0])):
            some[b] = records[first + min((q + b) * team.size + team.rank, n - 1)]
        for b in range(pk.static(some.shape[0])):
            if (q + b) * team.size + team.rank < n:
                staged[(q + b) * team.size + team.rank] = some[b]
        q += some.shape[0]


@pk.kernel
def log_joint(team, p, diagonal, rows, slice, length, x, records, joint, lse):
    """l_ij of (1) for TILES tiles and `slice` components, and their log-sum-exp with the largest so far
    factored out.

    The components' records are staged in scratch. p (p + 3) + 8 operations and one exponential a pair; 8 p /
    slice + 8 bytes a pair.
    """
    n_tiles = x.shape[1] // PAD
    n_parts = (n_tiles + TILES - 1) // TILES
    s = team.league_rank // n_parts
    begin = team.league_rank % n_parts * TILES
    stride = (min(begin + TILES, n_tiles) - begin) // rows
    count = min(slice, records.shape[0] // length - s * slice)
    staged = team.scratch(slice * length, x.dtype)
    some = pk.local(BATCH, x.dtype)
    own = pk.local((p, rows), x.dtype)
    y = pk.local(rows, x.dtype)
    square = pk.local(rows, x.dtype)
    top = pk.local(rows, x.dtype)
    total = pk.local(rows, x.dtype)
    stage_records(team, s * slice * length, count * length, records, some, staged)
    team.barrier()
    for q in range(passes(team, stride, PAD)):
        first, column = place(team, q, PAD)
        if first < stride:
            first += begin
            for r in range(pk.static(rows)):
                top[r] = 2.0 * LOG_ZERO
                total[r] = 0.0
            for c in range(pk.static(min(p, UNROLLED))):
                for r in range(pk.static(rows)):
                    own[c, r] = x[c, (first + r * stride) * PAD + column]
            for c in range(min(p, UNROLLED), p):
                for r in range(pk.static(rows)):
                    own[c, r] = x[c, (first + r * stride) * PAD + column]
            for j in range(count):
                if diagonal:
                    o = diagonal_squares(p, rows, own, staged, j * length, y, square)
                else:
                    o = squares(p, rows, own, staged, j * length, y, square)
                for r in range(pk.static(rows)):
                    term = staged[o] - 0.5 * square[r]
                    joint[first + r * stride, s * slice + j, column] = term
                    smaller, larger = pk.fast_exp(-abs(term - top[r])), term > top[r]
                    total[r] = pk.where(larger, total[r] * smaller + 1.0, total[r] + smaller)
                    top[r] = pk.where(larger, term, top[r])
            for r in range(pk.static(rows)):
                lse[s, (first + r * stride) * PAD + column] = top[r] + pk.log(total[r])


@pk.function
def log_sum_exp(i, lse, some):
    """lse_i of (2), from the rows of `lse`."""
    last = lse.shape[0] - 1
    top = lse[0, i]
    total = 0.0
    s = 0
    while s <= last:
        for b in range(pk.static(BATCH)):
            some[b] = lse[min(s + b, last), i]
        largest = top
        for b in range(pk.static(BATCH)):
            largest = max(largest, some[b])
        total *= pk.fast_exp(top - largest)
        for b in range(pk.static(BATCH)):
            if s + b <= last:
                total += pk.fast_exp(some[b] - largest)
        top = largest
        s += BATCH
    return top + pk.log(total)


@pk.kernel
def normalise(i, n, flaw, lse):
    """lse_i of (2), kept and returned; beyond the n points so large that no responsibility is left there.

    `flaw`: the sum of what `lay_out` returned, so that sums with a point that is not finite are NaN.
    """
    some = pk.local(BATCH, lse.dtype)
    value = log_sum_exp(i, lse, some)
    lse[0, i] = value if i < n else -LOG_ZERO
    return pk.float64(value) + flaw[0] if i < n else pk.float64(0.0)


@pk.kernel
def normalise_weighted(i, n, flaw, weights, lse):
    """`normalise` for points of which each counts `weights[i]` times: lse_i less the weight's logarithm is
    kept, so that exp(l_ij - lse_i) is the weighted share."""
    some = pk.local(BATCH, lse.dtype)
    value = log_sum_exp(i, lse, some)
    counts = i < n and weights[min(i, n - 1)] > 0.0
    weight = weights[i] if counts else 1.0
    lse[0, i] = value - pk.log(weight) if counts else -LOG_ZERO
    return weight * value + flaw[0] if counts else flaw[0]


@pk.function
def products(team, p, base, first, last, at, some, points, features):
    """d_a d_b of a tile's points, b <= a, as feature a (a + 1) / 2 + b - `base`, for a from `first` to
    `last`; d_0 = 1."""
    for q in range(passes(team, PAD, COLUMNS)):
        t, column = place(team, q, COLUMNS)
        if t < PAD:
            for c in range(pk.static(p // COLUMNS + 1)):
                b = c * COLUMNS + column
                own = points[at + t, b]
                a = first
                while a < last:
                    for k in range(pk.static(some.shape[0])):
                        some[k] = points[at + t, min(a + k, p)]
                    for k in range(pk.static(some.shape[0])):
                        f = (a + k) * (a + k + 1) // 2 + b - base
                        if b <= a + k < last and 0 <= f < features.shape[1]:
                            features[at + t, f] = some[k] * own
                    a += some.shape[0]


@pk.function
def powers(team, p, base, at, points, features):
    """1 and d_a, then d_a^2, of a tile's points, the feature numbered `base` first."""
    for q in range(passes(team, PAD, COLUMNS)):
        t, column = place(team, q, COLUMNS)
        if t < PAD:
            for c in range(pk.static(p // COLUMNS + 1)):
                b = c * COLUMNS + column
                own = points[at + t, b]
                f = b - base
                if b <= p and 0 <= f < features.shape[1]:
                    features[at + t, f] = own
                if 0 < b <= p and 0 <= f + p < features.shape[1]:
                    features[at + t, f + p] = own * own


@pk.function
def row_of(f):
    """The a of feature a (a + 1) / 2 + b."""
    a = 0
    while (a + 1) * (a + 2) // 2 <= f:
        a += 1
    return a


@pk.function
def fetch_points(team, p, tile, x, ahead):
    """The first coordinates of a tile's points that a member is to stage, on their way from memory."""
    for q in range(pk.static(ahead.shape[0])):
        c, t = place(team, q, PAD)
        ahead[q] = x[min(c, p - 1), tile * PAD + t]


@pk.function
def stage_points(team, p, tile, at, x, reference, ahead, points):
    """d of a tile's points, a row each, behind d_0."""
    for q in range(pk.static(ahead.shape[0])):
        c, t = place(team, q, PAD)
        if c < p:
            points[at + t, c + 1] = ahead[q] - reference[c]
    for q in range(ahead.shape[0], passes(team, p, PAD)):
        c, t = place(team, q, PAD)
        if c < p:
            points[at + t, c + 1] = x[c, tile * PAD + t] - reference[c]


@pk.function
def fetch_shares(team, group, tile, first, joint, lse, ahead, ahead_lse):
    """The first l_ij and lse_i of a tile that a member is to stage, on their way from memory."""
    for q in range(pk.static(ahead.shape[0])):
        j, t = place(team, q, PAD)
        ahead[q] = joint[tile, first + (j if group * PAD % team.size == 0 else min(j, group - 1)), t]
        ahead_lse[q] = lse[0, tile * PAD + t]


@pk.function
def share(log_r):
    """r_ij from its logarithm."""
    return pk.where(log_r > NEGLIGIBLE, pk.fast_exp(log_r), 0.0)


@pk.function
def stage_shares(team, group, tile, at, first, joint, lse, ahead, ahead_lse, shares):
    """r_ij of a tile's points and a group of components, a row each. One exponential and 8 bytes a pair."""
    for q in range(pk.static(ahead.shape[0])):
        j, t = place(team, q, PAD)
        if group * PAD % team.size == 0 or j < group:
            shares[at + j, t] = share(ahead[q] - ahead_lse[q])
    for q in range(ahead.shape[0], passes(team, group, PAD)):
        j, t = place(team, q, PAD)
        if group * PAD % team.size == 0 or j < group:
            shares[at + j, t] = share(joint[tile, first + j, t] - lse[0, tile * PAD + t])


@pk.kernel(teams=2)
def moments(
    team,
    p,
    diagonal,
    n_blocks,
    n_own,
    group,
    unroll,
    n_slices,
    x,
    joint,
    lse,
    begin,
    end,
    number,
    references,
    chosen,
    sums,
):
    """The sums of (3) for `group` components, a block of features and a slice of points: shares times
    features.

    Shares and features of a tile of points at a time are staged in one half of scratch, while members that
    are behind still read the other: a barrier a tile. The product has places: rows of components by COLUMNS
    of features; a member keeps the sums of `depth` by `n_own` of them at each of its places in registers, as
    many as half of them hold. 2 operations a pair and feature, and one exponential a pair.

    begin, end      components, in groups of whole `group`s
    number          of the reference: sums are those of the points less references[number], for components
                    whose `chosen` it is
    n_blocks        blocks of features of n_own * COLUMNS each, pk.static
    n_slices        of points, as even as whole tiles let them be; the last one has at least a tile
    unroll          points of a step of the product, pk.static
    """
    n_groups = (end + group - 1) // group - begin // group
    first = (begin // group + team.league_rank % n_groups) * group
    wide = n_own * COLUMNS
    base = team.league_rank // n_groups % n_blocks * wide
    own = team.league_rank // n_groups // n_blocks
    length = (x.shape[1] // PAD + n_slices - 1) // n_slices
    begin_tile, end_tile = own * length, min(own * length + length, x.shape[1] // PAD)
    depth = max(min(team.registers // (2 * n_own), group * COLUMNS // max(team.size, COLUMNS)), 1)
    rows = (group + depth - 1) // depth
    n_places = passes(team, rows, COLUMNS)
    points = team.scratch((2 * PAD, (p // COLUMNS + 1) * COLUMNS + 4), x.dtype)
    features = team.scratch((2 * PAD, wide), x.dtype)
    # rows lie in different banks, as those of points do
    shares = team.scratch((2 * rows * depth, PAD + 4), x.dtype)
    total = pk.local((n_places, depth, n_own), x.dtype)
    part = pk.local((depth, n_own), x.dtype)
    r = pk.local(depth, x.dtype)
    some = pk.local(min(p + 1, BATCH), x.dtype)
    ahead_points = pk.local(min(passes(team, p, PAD), AHEAD), x.dtype)
    ahead = pk.local(min(passes(team, group, PAD), AHEAD), x.dtype)
    ahead_lse = pk.local(min(passes(team, group, PAD), AHEAD), x.dtype)
    reference = references[number]
    for t in range(2 * PAD):
        for f in team.thread_range(wide):
            features[t, f] = 0.0
        for c in team.thread_range(points.shape[1]):
            points[t, c] = 1.0
    for j in range(2 * rows * depth):  # also of no components
        for t in team.thread_range(PAD):
            shares[j, t] = 0.0
    q = 0
    while q < n_places:
        for a in range(pk.static(depth)):
            for b in range(pk.static(n_own)):
                total[q, a, b] = 0.0
        q += 1
    team.barrier()
    fetch_points(team, p, begin_tile, x, ahead_points)
    stage_points(team, p, begin_tile, 0, x, reference, ahead_points, points)
    team.barrier()
    for tile in range(begin_tile, end_tile):
        half = (tile - begin_tile) % 2
        after = min(tile + 1, end_tile - 1)
        fetch_shares(team, group, tile, first, joint, lse, ahead, ahead_lse)
        fetch_points(team, p, after, x, ahead_points)
        if diagonal:
            powers(team, p, base, half * PAD, points, features)
        elif n_blocks == 1:
            products(team, p, 0, 0, p + 1, half * PAD, some, points, features)
        elif n_blocks <= FEW_BLOCKS:
            for s in range(pk.static(n_blocks)):
                if base == s * wide:
                    last = min(row_of(s * wide + wide - 1), p) + 1
                    products(team, p, s * wide, row_of(s * wide), last, half * PAD, some, points, features)
        else:
            last = min(row_of(base + wide - 1), p) + 1
            products(team, p, base, row_of(base), last, half * PAD, some, points, features)
        stage_shares(team, group, tile, half * (rows * depth), first, joint, lse, ahead, ahead_lse, shares)
        stage_points(team, p, after, (1 - half) * PAD, x, reference, ahead_points, points)
        team.barrier()
        q = 0
        while q < n_places:
            row, column = place(team, q, COLUMNS)
            if rows * COLUMNS % team.size == 0 or row < rows:
                for a in range(pk.static(depth)):
                    for b in range(pk.static(n_own)):
                        part[a, b] = total[q, a, b]
                # a `range`, for at each trip of a `while` a CPU asks for Ctrl-C, for which `part` leaves registers
                for t in range(half * PAD, half * PAD + PAD, unroll):
                    for u in range(pk.static(unroll)):
                        for a in range(pk.static(depth)):
                            r[a] = shares[half * (rows * depth) + a * rows + row, t + u - half * PAD]
                        for b in range(pk.static(n_own)):
                            feature = features[t + u, column + b * COLUMNS]
                            for a in range(pk.static(depth)):
                                part[a, b] += r[a] * feature
                for a in range(pk.static(depth)):
                    for b in range(pk.static(n_own)):
                        total[q, a, b] = part[a, b]
            q += 1
    q = 0
    while q < n_places:
        row, column = place(team, q, COLUMNS)
        if rows * COLUMNS % team.size == 0 or row < rows:
            for a in range(pk.static(depth)):
                j = first + a * rows + row
                if j < min(first + group, end) and chosen[j] == number:
                    for b in range(pk.static(n_own)):
                        f = base + column + b * COLUMNS
                        if f < sums.shape[2]:
                            sums[own, j, f] = total[q, a, b]
        q += 1


@pk.kernel
def add_slices(j, f, sums, added):
    """Add up the slices, always in the same order. 8 n_slices bytes a sum."""
    total = sums[0, j, f]
    for s in range(1, sums.shape[0]):
        total += sums[s, j, f]
    added[j, f] = total


@pk.kernel
def densities(i, lse, values):
    """lse_i of (2)."""
    values[i] = lse[0, i]


@pk.kernel
def most_probable(tile, column, k, joint, labels):
    """The component of largest l_ij, the first of equals. 8 k bytes."""
    best = 0
    top = joint[tile, 0, column]
    for j in range(1, k):
        best = pk.where(joint[tile, j, column] > top, j, best)
        top = max(joint[tile, j, column], top)
    if tile * PAD + column < labels.shape[0]:
        labels[tile * PAD + column] = best


@pk.kernel
def responsibilities(tile, column, joint, lse, shares):
    """r_ij of (2), a row a point. One exponential and 16 bytes a pair."""
    i = tile * PAD + column
    if i < shares.shape[0]:
        for j in range(shares.shape[1]):
            shares[i, j] = pk.exp(joint[tile, j, column] - lse[0, i])
