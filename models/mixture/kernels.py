"""Kernels of Gaussian mixtures; the equations are numbered in `portable.models.mixture`.

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
                d, all r d^2)

All have the dtype of x; what slices add up to is float64.
"""

import math


import portable as pk

PAD = 32  # points of a tile; a warp, and some packs of lanes
UNROLLED = 24  # coordinates of a point that registers hold
STACKS = 4  # of as many tiles as a member of `log_joint` has points; of a team, at most
BATCH = 8  # values that are read before the first is used
STAGED = 16  # numbers of records that a member of `log_joint` has on their way from memory
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
def stage_records(team, first, count, length, records, some, staged):
    """The records of `count` components from the one numbered `first`, a row each, as many on their way from
    memory at a time as `some` holds; `staged` has whole times of them."""
    for begin in range(0, length, team.size):
        o = begin + team.rank
        for j in range(0, count, some.shape[0]):
            for b in range(pk.static(some.shape[0])):
                some[b] = records[min((first + j + b) * length + o, records.shape[0] - 1)]
            if o < length:
                for b in range(pk.static(some.shape[0])):
                    staged[j + b, o] = some[b]


@pk.function
def load_points(team, p, rows, q, begin, count, x, own):
    """The points of a member's q-th pass, one in each of `rows` tiles; begin: the first tile of all."""
    number, column = place(team, q, PAD)
    at = (begin + min(number, count - 1) * rows) * PAD + column
    for c in range(pk.static(min(p, UNROLLED))):
        for r in range(pk.static(rows)):
            own[c, r] = x[c, at + r * PAD]
    for c in range(min(p, UNROLLED), p):
        for r in range(pk.static(rows)):
            own[c, r] = x[c, at + r * PAD]


@pk.function
def add_term(joint, tile, j, column, term, top, total):
    """l_ij, kept, and the largest so far with the sum of exponentials from which it is factored out."""
    joint[tile, j, column] = term
    smaller, larger = pk.fast_exp(-abs(term - top)), term > top
    return pk.where(larger, term, top), pk.where(larger, total * smaller + 1.0, total + smaller)


@pk.kernel
def log_joint(team, p, diagonal, rows, slice, length, x, records, joint, lse):
    """l_ij of (1) for STACKS of `rows` tiles and `slice` components, and their log-sum-exp with the largest
    so far factored out.

    The components' records are staged in scratch. p (p + 3) + 8 operations and one exponential a pair; 8 p /
    slice + 8 bytes a pair.
    """
    n_tiles = x.shape[1] // PAD
    n_parts = (n_tiles + STACKS * rows - 1) // (STACKS * rows)
    s = team.league_rank // n_parts
    begin = team.league_rank % n_parts * STACKS * rows
    n_own = min(STACKS, (n_tiles - begin) // rows)
    count = min(slice, records.shape[0] // length - s * slice)
    # warps take products of records, a row a component, with points, a column a member
    dense = team.size > PAD and not diagonal and x.dtype == pk.float64 and p <= UNROLLED
    wide = team.size + 4  # rows lie in different banks
    some = pk.local(STAGED, x.dtype)
    staged = team.scratch((slice, length), x.dtype)
    points = team.scratch((p, wide) if dense else (1, 1), x.dtype)
    terms = team.scratch((slice, wide) if dense else (1, 1), x.dtype)
    own = pk.local((p, rows), x.dtype)
    y = pk.local(rows, x.dtype)
    square = pk.local(rows, x.dtype)
    top = pk.local(rows, x.dtype)
    total = pk.local(rows, x.dtype)
    # on their way from memory while records are staged, and while others end
    load_points(team, p, 1 if dense else rows, 0, begin, n_own * rows if dense else n_own, x, own)
    stage_records(team, s * slice, count, length, records, some, staged)
    team.barrier()
    if dense:
        by_products(team, p, s, slice, count, begin, n_own * rows, x, staged, points, terms, own, joint, lse)
    else:
        for q in range(passes(team, n_own, PAD)):
            number, column = place(team, q, PAD)
            if number < n_own:
                first = begin + number * rows
                for r in range(pk.static(rows)):
                    top[r], total[r] = 2.0 * LOG_ZERO, 0.0
                for j in range(count):
                    if diagonal:
                        o = diagonal_squares(p, rows, own, staged[j], 0, y, square)
                    else:
                        o = squares(p, rows, own, staged[j], 0, y, square)
                    for r in range(pk.static(rows)):
                        term = staged[j, o] - 0.5 * square[r]
                        top[r], total[r] = add_term(
                            joint, first + r, s * slice + j, column, term, top[r], total[r]
                        )
                for r in range(pk.static(rows)):
                    lse[s, first * PAD + column + r * PAD] = top[r] + pk.log(total[r])
            if q + 1 < passes(team, n_own, PAD):
                load_points(team, p, rows, q + 1, begin, n_own, x, own)


@pk.function
def stage_terms(team, p, staged, points, terms):
    """l_ij of the components staged and a column of points a member: each coordinate of L^-1 (x - mu) is a
    product, whose square is added up in registers."""
    shape = terms.shape[0], team.size
    y, square = team.tile(shape, terms.dtype), team.tile(shape, terms.dtype)
    for a in range(pk.static(p)):
        o = a * (a + 3) // 2
        for e, i, j in team.elements(y):
            y[e] = staged[i, o]
        team.product(y, staged[:, o + 1 : o + 2 + a], points[: a + 1, : team.size])
        for e, i, j in team.elements(y):
            square[e] += y[e] * y[e]
    for e, i, j in team.elements(y):
        terms[i, j] = staged[i, p * (p + 3) // 2] - 0.5 * square[e]


@pk.function
def by_products(team, p, s, slice, count, begin, n_own, x, staged, points, terms, own, joint, lse):
    """`log_joint` of tiles from `begin` on, by products of records with points."""
    for q in range(passes(team, n_own, PAD)):
        number, column = place(team, q, PAD)
        for c in range(pk.static(p)):
            points[c, team.rank] = own[c, 0]
        team.barrier()
        load_points(team, p, 1, q + 1, begin, n_own, x, own)
        stage_terms(team, p, staged, points, terms)
        team.barrier()
        if number < n_own:
            top, total = 2.0 * LOG_ZERO, 0.0
            for j in range(count):
                term = terms[j, team.rank]
                top, total = add_term(joint, begin + number, s * slice + j, column, term, top, total)
            lse[s, (begin + number) * PAD + column] = top + pk.log(total)


@pk.function
def log_sum_exp(i, lse):
    """lse_i of (2), from the rows of `lse`."""
    some = pk.local(BATCH, lse.dtype)
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
    value = log_sum_exp(i, lse)
    lse[0, i] = value if i < n else -LOG_ZERO
    return pk.float64(value) + flaw[0] if i < n else pk.float64(0.0)


@pk.kernel
def normalise_weighted(i, n, flaw, weights, lse):
    """`normalise` for points of which each counts `weights[i]` times: lse_i less the weight's logarithm is
    kept, so that exp(l_ij - lse_i) is the weighted share."""
    value = log_sum_exp(i, lse)
    counts = i < n and weights[min(i, n - 1)] > 0.0
    weight = weights[i] if counts else 1.0
    lse[0, i] = value - pk.log(weight) if counts else -LOG_ZERO
    return weight * value + flaw[0] if counts else flaw[0]


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
