"""Kernels of the sums (3): products of responsibilities and features of points. Arguments as in `kernels`.

A feature of a point with d = x - reference is an entry of the lower triangle of (1, d) (1, d)', or, if
covariances are diagonal, of (1, d, d^2).
"""

import portable as pk

from .kernels import BATCH, PAD, passes, place, share

COLUMNS = 16  # features that one pass of a team covers: a multiple of the lanes of any pack
AHEAD = 16  # loads from a tile that a member keeps in flight while features are computed, at most


@pk.function
def powers(team, p, base, at, points, features):
    """Compute the features 1, d_a and d_a^2 of a tile's points; `features` has those from number `base`
    on."""
    for q in range(passes(team, PAD, COLUMNS)):
        t, column = place(team, q, COLUMNS)
        if t < PAD:
            for c in range(pk.static(p // COLUMNS + 1)):
                b = c * COLUMNS + column
                own = points[at + t, b]
                f = b - base
                if b <= p and 0 <= f < features.shape[1]:
                    features[t, f] = own
                if 0 < b <= p and 0 <= f + p < features.shape[1]:
                    features[t, f + p] = own * own


@pk.function
def row_of(f):
    """Return the row a of feature number f = a (a + 1) / 2 + b."""
    a = 0
    while (a + 1) * (a + 2) // 2 <= f:
        a += 1
    return a


@pk.function
def factors(p, diagonal, f):
    """Return a and b of feature f = d_a d_b, where d_0 = 1; 0 and 0 beyond the last feature."""
    a = row_of(f)
    b = f - a * (a + 1) // 2
    if diagonal:
        a = f if f <= p else f - p
        b = 0 if f <= p else f - p
    return a if a <= p else 0, b if a <= p else 0


@pk.function
def own_features(team, span, at, one, other, made, points, features):
    """Compute a member's features of a tile's points.

    The features are the same for all its points: products of the coordinates numbered `one` and `other`.
    `made` holds as many rows of them as are computed before any is written, since a write to scratch delays
    the reads that follow it.
    """
    for q in range(0, PAD * span // (team.size * one.shape[0]), made.shape[0]):
        for v in range(pk.static(made.shape[0])):
            t, f = place(team, (q + v) * one.shape[0], span)
            for u in range(pk.static(one.shape[0])):
                made[v, u] = points[at + t, one[u]] * points[at + t, other[u]]
        for v in range(pk.static(made.shape[0])):
            t, f = place(team, (q + v) * one.shape[0], span)
            for u in range(pk.static(one.shape[0])):
                if span == features.shape[1] or f + u * team.size < features.shape[1]:
                    features[t, f + u * team.size] = made[v, u]


@pk.function
def fetch_points(team, p, tile, x, ahead):
    """Begin to load the first coordinates of a tile's points that a member has to stage."""
    for q in range(pk.static(ahead.shape[0])):
        c, t = place(team, q, PAD)
        ahead[q] = x[min(c, p - 1), tile * PAD + t]


@pk.function
def stage_points(team, p, tile, at, x, reference, ahead, points):
    """Write d of a tile's points to scratch, one point a row, after d_0 = 1."""
    for q in range(pk.static(ahead.shape[0])):
        c, t = place(team, q, PAD)
        if c < p:
            points[at + t, c + 1] = ahead[q] - reference[c]
    for q in range(ahead.shape[0], passes(team, p, PAD)):
        c, t = place(team, q, PAD)
        if c < p:
            points[at + t, c + 1] = x[c, tile * PAD + t] - reference[c]


@pk.function
def fetch_shares(team, group, tile, row, joint, lse, ahead, ahead_lse):
    """Begin to load the first l_ij and lse_i of a tile that a member has to stage; `row` is the tile's row
    of l_ij that belongs to the group's first component."""
    for q in range(pk.static(ahead.shape[0])):
        j, t = place(team, q, PAD)
        ahead[q] = joint[(row + (j if group * PAD % team.size == 0 else min(j, group - 1))) * PAD + t]
        ahead_lse[q] = lse[0, tile * PAD + t]


@pk.function
def stage_shares(team, group, tile, row, joint, lse, ahead, ahead_lse, shares):
    """Compute r_ij of a tile's points and a group of components, one component a row of scratch. One
    exponential and 8 bytes a pair."""
    for q in range(pk.static(ahead.shape[0])):
        j, t = place(team, q, PAD)
        if group * PAD % team.size == 0 or j < group:
            shares[j, t] = share(pk.fast_exp, ahead[q] - ahead_lse[q])
    for q in range(ahead.shape[0], passes(team, group, PAD)):
        j, t = place(team, q, PAD)
        if group * PAD % team.size == 0 or j < group:
            shares[j, t] = share(pk.fast_exp, joint[(row + j) * PAD + t] - lse[0, tile * PAD + t])


@pk.kernel(teams=2)
def moments(
    team,
    p,
    diagonal,
    n_blocks,
    wide,
    group,
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
    """The sums of (3) for `group` components, a block of features and a slice of points, as the matrix
    product of responsibilities and features.

    The responsibilities and features of one tile of points are staged in one half of scratch while slower
    members still read the other half: one barrier a tile. 2 operations a pair and feature, and one
    exponential a pair.

    begin, end      first component and the one after the last; begin is rounded down to a multiple of `group`
    number          number of the reference: points less references[number] are summed, for components j with
                    chosen[j] == number
    n_blocks        blocks of `wide` features each, pk.static
    n_slices        slices of points, as equal as whole tiles allow; the last one has at least one tile
    """
    n_groups = (end + group - 1) // group - begin // group
    first = (begin // group + team.league_rank % n_groups) * group
    base = team.league_rank // n_groups % n_blocks * wide
    own = team.league_rank // n_groups // n_blocks
    length = (x.shape[1] // PAD + n_slices - 1) // n_slices
    height = joint.shape[0] // x.shape[1]
    begin_tile = own * length
    end_tile = min(begin_tile + length, x.shape[1] // PAD)
    span = wide if wide <= 2 * COLUMNS else 4 * COLUMNS if wide <= 4 * COLUMNS else 8 * COLUMNS
    points = team.scratch((2 * PAD, (p // COLUMNS + 1) * COLUMNS + 4), x.dtype)
    # 4 more columns: rows start in different banks, as do those of points
    features = team.scratch((2, PAD, wide + 4), x.dtype)
    shares = team.scratch((2, group, PAD + 4), x.dtype)
    total = team.tile((group, wide), x.dtype)
    ahead_points = pk.local(min(passes(team, p, PAD), AHEAD), x.dtype)
    ahead_lse = pk.local(min(passes(team, group, PAD), AHEAD), x.dtype)
    ahead = pk.local(ahead_lse.shape[0], x.dtype)
    one = pk.local(max(span // team.size, 1), pk.int32)
    other = pk.local(max(span // team.size, 1), pk.int32)
    # a power of two, like the number of passes of `own_features`; a larger one was slower in float64. In
    # small teams one row: each member has many features, so that the passes are a loop, and compile faster
    at_once = max(PAD * span // (team.size * one.shape[0]), 1)
    rows = 1 if team.size <= COLUMNS else BATCH if x.dtype == pk.float32 else 2
    made = pk.local((min(at_once, rows), one.shape[0]), x.dtype)
    reference = references[number]
    by_powers = diagonal and team.size <= COLUMNS
    for u in range(pk.static(0 if by_powers else one.shape[0])):
        one[u], other[u] = factors(p, diagonal, base + (team.rank + u * team.size) % span)
    for t in range(2 * PAD):
        for f in team.thread_range(wide):
            features[t // PAD, t % PAD, f] = 0.0
        for c in team.thread_range(points.shape[1]):
            points[t, c] = 1.0
    team.barrier()
    fetch_points(team, p, begin_tile, x, ahead_points)
    stage_points(team, p, begin_tile, 0, x, reference, ahead_points, points)
    fetch_points(team, p, min(begin_tile + 1, end_tile - 1), x, ahead_points)
    fetch_shares(team, group, begin_tile, begin_tile * height + first, joint, lse, ahead, ahead_lse)
    team.barrier()
    for tile in range(begin_tile, end_tile):
        half = (tile - begin_tile) % 2
        after = min(tile + 1, end_tile - 1)
        now = features[half, :, :wide]
        if by_powers:
            powers(team, p, base, half * PAD, points, now)
        else:
            own_features(team, span, half * PAD, one, other, made, points, now)
        stage_shares(team, group, tile, tile * height + first, joint, lse, ahead, ahead_lse, shares[half])
        stage_points(team, p, after, (1 - half) * PAD, x, reference, ahead_points, points)
        team.barrier()
        # in flight during the product, which takes about as long as the loads
        fetch_shares(team, group, after, after * height + first, joint, lse, ahead, ahead_lse)
        fetch_points(team, p, min(tile + 2, end_tile - 1), x, ahead_points)
        team.product(total, shares[half, :, :PAD], now)
    for e, i, f in team.elements(total):
        j = first + i
        if (
            chosen[min(j, end - 1)] == number  # read for all elements: those of a component share a load
            and i < group
            and j < end
            and base + f < sums.shape[2]
            and f < wide
        ):
            sums[own, j, base + f] = total[e]


# for one team per multiprocessor: its groups are twice as large, so features are computed for half as many
# groups
moments_alone = pk.kernel(moments.fn)


@pk.kernel
def add_slices(j, f, sums, added):
    """Add up the slices, always in the same order; AHEAD loads are in flight at a time. 4 or 8 n_slices bytes
    a sum."""
    some = pk.local(AHEAD, sums.dtype)
    last = sums.shape[0] - 1
    total = pk.float64(sums[0, j, f])
    s = 1
    while s <= last:
        for b in range(pk.static(AHEAD)):
            some[b] = sums[min(s + b, last), j, f]
        for b in range(pk.static(AHEAD)):
            total = total + some[b] if s + b <= last else total
        s += AHEAD
    added[j, f] = total
