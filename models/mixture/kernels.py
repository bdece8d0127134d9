"""Kernels of Gaussian mixtures; the equations are numbered in `portable.models.mixture`.

Points are processed in blocks. The logarithms l_ij of (1) are stored for one block and all components at a
time: no larger array of points and components exists.

Arguments that recur
    p           number of coordinates, pk.static: up to UNROLLED of them the loops over coordinates unroll
    diagonal    pk.static: 1 if covariances are diagonal
    rows        pk.static: points that a member of `log_joint` keeps in registers
    x           a block of points less a common centre, shape (p, width); width is a multiple of rows * PAD,
                and columns beyond the n points of the block are zeros
    records     one record a component, in the order in which the kernels read it: for each coordinate a the
                number -(L^-1 mu)_a and the row L^-1_a0 .. L^-1_aa (diagonal: only L^-1_aa), then log pi -
                (p/2) log 2 pi - sum log diag L
    points      a block of the user's points, one a row
    joint       l_ij, shape (width / PAD, rows, PAD): for each tile of PAD points a row per component; rows
                beyond k contain LOG_ZERO
    lse         row s: log-sum-exp of l_ij over components s * slice to (s + 1) * slice - 1; after `normalise`
                row 0 holds the log-sum-exp over all components
    sums        shape (n_slices, k, m): for a slice of points and a component the sums of r, r d and r d d'
                with d = x less a reference, as the lower triangle of r (1, d) (1, d)' (diagonal: r, then all
                r d, then all r d^2)

These arrays have the dtype of x; totals over slices are float64.
"""

import math


import portable as pk

PAD = 32  # points of a tile: the width of a warp, or of a few packs of lanes
UNROLLED = 24  # coordinates of a point that are kept in registers, at most
STACKS = 4  # stacks of `rows` tiles that a team of `log_joint` processes, at most
BATCH = 8  # values that are loaded before the first is used
STAGED = 16  # components of a product of `log_joint`, whose records a member loads together
NEGLIGIBLE = -70.0  # log r: a component's count loses less than n e^-70 if smaller shares count as 0
LOG_ZERO = -1e30  # replaces log 0: finite, so that differences are not NaN, and far below any log-density


@pk.function
def share(exp, log_r):
    """Return r_ij, given its logarithm; `exp` is pk.exp or pk.fast_exp."""
    return pk.where(log_r > NEGLIGIBLE, exp(log_r), 0.0)


@pk.function
def place(team, q, width):
    """Return the row and column of this member in the team's q-th pass over a table of `width` columns. All
    lanes of a pack are in one row."""
    e = q * team.size
    whole = width % team.size == 0
    row = e // width if whole else (e + team.rank) // width
    column = e % width + team.rank if whole else (e + team.rank) % width
    return row, column


@pk.function
def passes(team, rows, width):
    """Return the number of passes of `place` that cover `rows` rows of `width` columns."""
    return (rows * width + team.size - 1) // team.size


@pk.kernel
def lay_out(i, points, centre, x):
    """Write point i less the centre to column i of x, and zeros to columns beyond the last point. 16 bytes a
    coordinate, or 8.

    Returns 0, or NaN if a coordinate of the point is not finite.
    """
    flaw = 0.0
    for c in range(x.shape[0]):
        value = pk.float64(points[i, c]) if i < points.shape[0] else centre[c]
        flaw = flaw if pk.isfinite(value) else math.nan
        x[c, i] = value - centre[c]
    return flaw


@pk.function
def squares(p, rows, own, staged, o, square):
    """Compute |L^-1 (x - mu)|^2 for each of a member's points, and return the index of the record's last
    number. p (p + 3) operations a point."""
    y = pk.local(rows, own.dtype)
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
def diagonal_squares(p, rows, own, staged, o, square):
    """Compute the same as `squares` for a diagonal L. 4 p operations a point."""
    for r in range(pk.static(rows)):
        square[r] = 0.0
    for a in range(p):
        for r in range(pk.static(rows)):
            y = staged[o + 2 * a] + staged[o + 2 * a + 1] * own[a, r]
            square[r] += y * y
    return o + 2 * p


@pk.function
def stage_records(team, first, count, length, records, some, staged):
    """Copy the records of `count` components, beginning with number `first`, to the rows of `staged` in
    scratch.

    `some` holds the loads from memory that are in flight together; the number of rows, in all tables of
    `staged`, is a multiple of its length.
    """
    for begin in range(0, length, team.size):
        o = begin + team.rank
        for j in range(0, count, some.shape[0]):
            for b in range(pk.static(some.shape[0])):
                some[b] = records[min((first + j + b) * length + o, records.shape[0] - 1)]
            if o < length:
                for b in range(pk.static(some.shape[0])):
                    staged[j // staged.shape[1] + b // staged.shape[1], b % staged.shape[1], o] = some[b]


@pk.function
def load_points(team, p, rows, q, begin, count, x, own):
    """Load the points of a member's q-th pass, one from each of `rows` tiles; `begin` is the first tile of
    the team."""
    number, column = place(team, q, PAD)
    at = (begin + min(number, count - 1) * rows) * PAD + column
    for c in range(pk.static(min(p, UNROLLED))):
        for r in range(pk.static(rows)):
            own[c, r] = x[c, at + r * PAD]
    for c in range(min(p, UNROLLED), p):
        for r in range(pk.static(rows)):
            own[c, r] = x[c, at + r * PAD]


@pk.function
def add_term(term, top, total):
    """Return the largest l_ij so far and the sum of exponentials relative to it, after one more l_ij."""
    smaller, larger = pk.fast_exp(-abs(term - top)), term > top
    return pk.where(larger, term, top), pk.where(larger, total * smaller + 1.0, total + smaller)


@pk.kernel(teams=3)
def log_joint(team, p, diagonal, rows, slice, length, x, records, joint, lse):
    """l_ij of (1) for STACKS stacks of `rows` tiles and `slice` components, and their log-sum-exp, relative
    to a running maximum.

    The components' records are staged in scratch. p (p + 3) + 8 operations and one exponential a pair; 8 p /
    slice + 8 bytes a pair.
    """
    n_tiles = x.shape[1] // PAD
    n_parts = (n_tiles + STACKS * rows - 1) // (STACKS * rows)
    s = team.league_rank // n_parts
    begin = team.league_rank % n_parts * STACKS * rows
    count = min(slice, records.shape[0] // length - s * slice)
    # warps multiply the matrix of records (one row per component) by that of points (one column per member)
    dense = team.size > PAD and not diagonal and x.dtype == pk.float64 and p <= UNROLLED
    deep = 1 if dense else rows
    n_own = min(STACKS * rows, n_tiles - begin) // deep
    wide = team.size + 4  # so that rows start in different banks of scratch
    some = pk.local(STAGED, x.dtype)
    staged = team.scratch((slice // STAGED, STAGED, length) if dense else (slice, 1, length), x.dtype)
    points = team.scratch((p, wide) if dense else (1, 1), x.dtype)
    terms = team.scratch((STAGED, wide) if dense else (1, 1), x.dtype)
    own = pk.local((p, deep), x.dtype)
    square = pk.local(rows, x.dtype)
    top = pk.local(deep, x.dtype)
    total = pk.local(deep, x.dtype)
    # these loads are in flight while records are staged, and while other teams finish
    load_points(team, p, deep, 0, begin, n_own, x, own)
    stage_records(team, s * slice, count, length, records, some, staged)
    team.barrier()
    for q in range(passes(team, n_own, PAD)):
        number, column = place(team, q, PAD)
        tile = begin + number * deep
        for r in range(pk.static(deep)):
            top[r], total[r] = 2.0 * LOG_ZERO, 0.0
        if dense:
            for c in range(pk.static(p)):
                points[c, team.rank] = own[c, 0]
            for first in range(0, count, STAGED):
                team.barrier()
                stage_terms(team, p, staged[first // STAGED], points, terms)
                team.barrier()
                for at in range(0, STAGED if number < n_own else 0, BATCH):
                    for b in range(pk.static(BATCH)):
                        some[b] = terms[at + b, team.rank]
                    # exponentials of a batch overlap; terms beyond the last one add nothing
                    for b in range(pk.static(BATCH)):
                        j = first + at + b
                        if j < count:
                            joint[tile, s * slice + j, column] = some[b]
                        top[0], total[0] = add_term(some[b] if j < count else -math.inf, top[0], total[0])
        if number < n_own:
            for j in range(0 if dense else count):
                record = staged[j, 0]
                if diagonal:
                    o = diagonal_squares(p, rows, own, record, 0, square)
                else:
                    o = squares(p, rows, own, record, 0, square)
                for r in range(pk.static(rows)):
                    term = record[o] - 0.5 * square[r]
                    joint[tile + r, s * slice + j, column] = term
                    top[r], total[r] = add_term(term, top[r], total[r])
            for r in range(pk.static(deep)):
                lse[s, (tile + r) * PAD + column] = top[r] + pk.log(total[r])
        if q + 1 < passes(team, n_own, PAD):
            load_points(team, p, deep, q + 1, begin, n_own, x, own)


# for float32, whose points fill more registers than a third of a multiprocessor's
log_joint_alone = pk.kernel(log_joint.fn)


@pk.function
def stage_terms(team, p, staged, points, terms):
    """Compute l_ij for the staged components and one point per member. Each coordinate of L^-1 (x - mu) is a
    matrix product, whose squares are added up in registers."""
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
def log_sum_exp(i, lse):
    """Return lse_i of (2) from the rows of `lse`, each of which covers a slice of the components."""
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
    """lse_i of (2), stored in row 0 of `lse` and returned. Beyond the n points the stored value is so large
    that all responsibilities vanish.

    `flaw` is the sum of the values that `lay_out` returned: the total is NaN if a point is not finite.
    """
    value = log_sum_exp(i, lse)
    lse[0, i] = value if i < n else -LOG_ZERO
    return pk.float64(value) + flaw[0] if i < n else pk.float64(0.0)


@pk.kernel
def normalise_weighted(i, n, flaw, weights, lse):
    """`normalise` for points that count `weights[i]` times: lse_i - log weights[i] is stored, so that
    exp(l_ij - stored value) is the weighted responsibility."""
    value = log_sum_exp(i, lse)
    counts = i < n and weights[min(i, n - 1)] > 0.0
    weight = weights[i] if counts else 1.0
    lse[0, i] = value - pk.log(weight) if counts else -LOG_ZERO
    return weight * value + flaw[0] if counts else flaw[0]


@pk.kernel
def densities(i, lse, values):
    """values[i] = lse_i of (2)."""
    values[i] = lse[0, i]


@pk.kernel
def most_probable(tile, column, k, joint, labels):
    """labels[i] = the component j of largest l_ij, the first one of equal ones. 8 k bytes."""
    best = 0
    top = joint[tile, 0, column]
    for j in range(1, k):
        best = pk.where(joint[tile, j, column] > top, j, best)
        top = max(joint[tile, j, column], top)
    if tile * PAD + column < labels.shape[0]:
        labels[tile * PAD + column] = best


@pk.kernel
def responsibilities(tile, column, joint, lse, shares):
    """shares[i, j] = r_ij of (2). One exponential and 16 bytes a pair."""
    i = tile * PAD + column
    if i < shares.shape[0]:
        for j in range(shares.shape[1]):
            shares[i, j] = pk.exp(joint[tile, j, column] - lse[0, i])
