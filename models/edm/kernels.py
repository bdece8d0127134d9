"""Kernels that say where neighbours are; the equations are numbered in `portable.models.edm`.

Arguments that recur, here and in `list_kernels`
    n_dims      E, the coordinates of an embedded point
    dims, wanted  shape (n_searches,): coordinates of each search, ascending, and its number k of neighbours
    library     arranged series, shape (n_sets, n_parts * depth * width), see `arrange`; infinity where
                nothing was observed
    place       arranged times of the candidates, shape (1 or n_sets, n_chunks * width); -1 where there is
                none
    series      the series of the queried points, one after the other, shape (n_columns * length,); NaN where
                nothing was observed
    part, lead  coordinate e of candidate (c, r) is at row part[e] * depth + lead[e] + c of `library`, column
                r
    offset      coordinate e of the point of time s is series[offset[e] + s], counted from the set's first
                column
    closest     the smallest squared distance from each point, shape (n_sets, n_searches, n_points)
    bounds      an upper bound of the k-th smallest, the same shape
    marks       which chunks may hold a neighbour, a bit a chunk, shape (n_sets, n_searches, n_words,
                n_points)

The candidates lie in chunks of `team.size`: chunk c holds candidates c, c + n_chunks, c + 2 n_chunks, ...
First a member owns a point, and meets all candidates one by one; distances of all E are those of E - 1 and
one more term. Only the smallest of each chunk is kept. The k-th smallest of these bounds the k-th nearest
distance from above, closely, since the nearest few seldom share a chunk. Then (`list_kernels`) the chunks
within the bound are measured again, one member per candidate.
"""

import math

import portable as pk

SLACK = 1  # chunks above k that the bound may let through: to look longer costs more than to measure one more
# how far from the place itself two others are counted at, as a share of the way to the nearer end
REACH = 0.75
LEAST_SHARE = 0.03  # of the way from one end of an interval, nearer than which no place is tried
STEPS = 40  # of that search; where minima tie it would go on to the last bit
LARGEST = 3e38  # finite in float32: a bound for all that was observed
IN_FLIGHT = 8  # loads that a member has under way where a team goes through a whole column


@pk.function
def with_value(v, low, high, n, total):
    """Smallest and largest of what is known, how much that is, and its sum, with one more value."""
    known = pk.isfinite(v)
    return min(low, v), max(high, v), n + pk.where(known, 1.0, 0.0), total + pk.where(known, v, 0.0)


@pk.function
def value_at(single, columns, t, c):
    """Column c at time t. `single`: known at compile time, whether there is one column, given as a vector:
    its neighbours lie side by side."""
    return columns[t] if single else columns[t, c]


@pk.kernel
def summarise(team, single, columns, summary):
    """Smallest, largest, mean and standard deviation of what is known of each column, one team per column; in
    float64.

    single, columns : as in `value_at`
    summary : shape (4, n_columns)
    """
    c = team.league_rank
    low = pk.float64(math.inf)
    high = pk.float64(-math.inf)
    n = pk.float64(0.0)
    total = pk.float64(0.0)
    n_times = columns.shape[0]
    stride = 2 * IN_FLIGHT * team.size
    whole = n_times // stride * stride
    own = pk.local(2 * IN_FLIGHT, pk.float64)
    for base in range(0, whole, stride):
        for m in range(2 * IN_FLIGHT):
            own[m] = value_at(single, columns, base + m * team.size + team.rank, c)
        for m in range(2 * IN_FLIGHT):
            low, high, n, total = with_value(own[m], low, high, n, total)
    for t in team.thread_range(whole, n_times):
        low, high, n, total = with_value(pk.float64(value_at(single, columns, t, c)), low, high, n, total)
    n = team.reduce(n)
    mean = team.reduce(total) / n
    low = team.reduce(low, pk.Min)
    high = team.reduce(high, pk.Max)
    # squares of large or small numbers leave the range of floats
    unit = high - low if high > low else pk.float64(1.0)
    square = pk.float64(0.0)
    for base in range(0, whole, stride):
        for m in range(2 * IN_FLIGHT):
            own[m] = value_at(single, columns, base + m * team.size + team.rank, c)
        for m in range(2 * IN_FLIGHT):
            u = (own[m] - mean) / unit
            square += pk.where(pk.isfinite(u), u * u, 0.0)
    for t in team.thread_range(whole, n_times):
        u = (value_at(single, columns, t, c) - mean) / unit
        square += pk.where(pk.isfinite(u), u * u, 0.0)
    square = team.reduce(square)
    if team.single():
        summary[0, c] = low
        summary[1, c] = high
        summary[2, c] = mean
        summary[3, c] = unit * pk.sqrt(square / n)


@pk.function
def power_of_two(width):
    """The power of two below a width; 1 for widths of 0."""
    return pk.ldexp(pk.float64(1.0), pk.logb(width)) if width > 0.0 else pk.float64(1.0)


@pk.function
def centre_of(summary, c):
    """A number near the middle of column c that is subtracted without rounding where the column allows it: a
    multiple of a power of two near the spread. Numbers of one binade with few digits stay exact, so ties stay
    ties.
    """
    step = power_of_two(summary[1, c] - summary[0, c]) / 2.0
    return pk.rint(summary[2, c] / step) * step


@pk.function
def scale_of(summary, c, n_together):
    """A power of two near the spread of column c, so that squares neither overflow nor vanish in float32; of
    n_together columns, coordinates of one point, the widest decides.
    """
    width = pk.float64(0.0)
    for e in range(c // n_together * n_together, (c // n_together + 1) * n_together):
        width = max(width, summary[1, e] - summary[0, e])
    return power_of_two(width)


@pk.function
def standard(value, middle, spread):
    """A value with the mean removed, in units of the standard deviation; 0 where nothing varies."""
    return (value - middle) / (spread if spread > 0.0 else 1.0)


@pk.kernel
def line_up(c, i, front, n_together, summary, columns, series):
    """Column c, centred and scaled, with NaN before and behind, as part of one long series. 12 bytes an
    element.

    summary : of the columns, or of others that are treated alike, from `summarise`
    series : shape (n_columns * stride,), i < stride
    """
    t = i - front
    there = 0 <= t < columns.shape[0]
    value = columns[min(max(t, 0), columns.shape[0] - 1), c] - centre_of(summary, c)
    stride = series.shape[0] // columns.shape[1]
    series[c * stride + i] = pk.where(there, value * (1.0 / scale_of(summary, c, n_together)), math.nan)


@pk.kernel
def standardise(t, q, column, summary, columns, target):
    """Target q is a column with its mean removed, in units of its standard deviation. 12 bytes an element."""
    c = column[q]
    target[t, q] = standard(columns[t, c], summary[2, c], summary[3, c])


@pk.function
def time_of(times, runs_on, q):
    """When candidate q of a set was."""
    return pk.int64(times[0]) + q if runs_on else pk.int64(times[q])


@pk.kernel
def arrange(team, runs_on, n_shares, n_candidates, pad, part_at, first, times, source, library, place, width):
    """Lay a set's candidates out in chunks, n_shares teams per set: `library` and `place` above. 8 bytes an
    element.

    A chunk of nothing but infinity follows, so that chunks can be taken several at a time.

    runs_on : known at compile time, whether times are consecutive, of which the first is enough
    width : shape (1,), is told how many candidates a chunk has
    times : shape (1 or n_sets, n_candidates or 1), ascending
    source : the series one after the other, NaN before their beginning
    first : shape (n_sets,), where in `source` a set begins
    part_at : shape (n_parts,), where in `source` time 0 of a part is, counted from there
    """
    b = team.league_rank // n_shares
    share = team.league_rank % n_shares
    if team.league_rank == 0 and team.single():
        width[0] = team.size
    own_times = times[min(b, times.shape[0] - 1)]
    n_chunks = (n_candidates + team.size - 1) // team.size
    depth = n_chunks + pad + 1
    if b < place.shape[0]:
        begin = share * (n_chunks + 1) // n_shares * team.size
        for item in team.thread_range(begin, (share + 1) * (n_chunks + 1) // n_shares * team.size):
            c = item // team.size
            q = (item % team.size) * n_chunks + c
            there = (c < n_chunks) & (q < n_candidates)
            time = time_of(own_times, runs_on, min(q, n_candidates - 1))
            place[b, item] = pk.where(there, time, -1)
    begin = share * depth // n_shares * team.size
    end = (share + 1) * depth // n_shares * team.size
    for p in range(part_at.shape[0]):
        origin = pk.int64(first[b]) + part_at[p]
        for item in team.thread_range(begin, end):
            c = item // team.size - pad
            q = (item % team.size) * n_chunks + c
            there = (c < n_chunks) & (q < n_candidates)
            time = time_of(own_times, runs_on, min(max(q, 0), n_candidates - 1)) + min(q, 0)
            value = source[origin + time]
            library[b, p * depth * team.size + item] = pk.where(there & pk.isfinite(value), value, math.inf)


@pk.function
def start(place, s, radius):
    """What a squared distance begins with: infinity for what is too near in time to be a candidate of point
    s."""
    return pk.where(abs(place - s) <= radius, math.inf, 0.0)


@pk.function
def measure_minima(
    team,
    n_dims,
    skip,
    n_chunks,
    begin,
    end,
    runs_on,
    tile,
    radius,
    place,
    library,
    row,
    offset,
    series,
    point,
    minima,
):
    """The smallest squared distance in each chunk from `begin` to `end`, for skip + 1 to n_dims coordinates;
    3 operations a pair and coordinate."""
    s = tile + team.rank
    for e in range(n_dims):
        point[e, team.rank] = series[pk.int64(offset[e]) + s]
    d = pk.local(team.size, library.dtype)
    reach = radius + team.size
    # chunks until one with a candidate near the tile, if their times run on
    ahead = (tile - place[0] + reach - begin) % n_chunks
    for c in range(begin, end):
        for r in range(pk.static(team.size)):
            d[r] = 0.0
        if ahead <= 2 * reach or not runs_on:
            for r in range(pk.static(team.size)):
                d[r] = start(place[c * team.size + r], s, radius)
        ahead = ahead - 1 if ahead > 0 else n_chunks - 1
        for e in range(n_dims):
            here = point[e, team.rank]
            first = (pk.int64(row[e]) + c) * team.size
            for r in range(pk.static(team.size)):
                u = here - library[first + r]
                d[r] += u * u
            least = math.inf
            for r in range(pk.static(team.size)):  # in pairs, so that few wait for the one before
                if r % 2 == 1:
                    least = min(least, min(d[r - 1], d[r]))
                elif r == team.size - 1:
                    least = min(least, d[r])
            if e >= skip:
                minima[e - skip, c * team.size + team.rank] = least


@pk.function
def bound_of(team, n_chunks, k, guess, minima):
    """The nearest squared distance, and one that k to k + SLACK of a point's minima do not exceed (more at
    ties).

    By repeated interpolation, at three places in one pass. `guess` is where between the extremes to look
    first; where it was is the third result.
    """
    low = math.inf
    high = 0.0
    above = 0.0  # how many minima do not exceed `high`
    below = 0.0  # how many do not exceed `low`, when that was counted
    for c in range(n_chunks):
        m = minima[c * team.size + team.rank]
        low = min(low, m)
        finite = m < math.inf
        high = pk.where(finite, max(high, m), high)
        above += pk.where(finite, 1.0, 0.0)
    enough = above >= k
    search = enough and above > k + SLACK
    nearest = low
    spread = high - low
    share = guess
    steps = 0
    while search and steps < STEPS:
        steps += 1
        middle = low + share * (high - low)
        left = low + (1.0 - REACH) * share * (high - low)
        right = middle + REACH * min(share, 1.0 - share) * (high - low)
        n_left = 0.0
        n_middle = 0.0
        n_right = 0.0
        for c in range(n_chunks):
            m = minima[c * team.size + team.rank]
            n_left += pk.where(m <= left, 1.0, 0.0)
            n_middle += pk.where(m <= middle, 1.0, 0.0)
            n_right += pk.where(m <= right, 1.0, 0.0)
        search = middle > low and middle < high
        for probe, n in ((left, n_left), (middle, n_middle), (right, n_right)):
            low = pk.where(n < k, probe, low)
            below = pk.where(n < k, n, below)
        for probe, n in ((right, n_right), (middle, n_middle), (left, n_left)):
            high = pk.where(n >= k, probe, high)
            above = pk.where(n >= k, n, above)
        search = search and above > k + SLACK
        share = pk.clip((k + 0.5 * SLACK - below) / (above - below), LEAST_SHARE, 1.0 - LEAST_SHARE)
    found = pk.where(spread > 0.0, (high - nearest) / spread, guess)
    return nearest, pk.where(enough, high, LARGEST), pk.where(enough, found, guess)


@pk.function
def mark_chunks(team, n_chunks, bound, minima, number, marks):
    """A bit for each chunk whose smallest distance does not exceed the bound, 32 to a word."""
    for w in range((n_chunks + 31) // 32):
        word = pk.uint32(0)
        bit = pk.uint32(1)
        for c in range(32 * w, min(32 * w + 32, n_chunks)):
            word = pk.where(minima[c * team.size + team.rank] <= bound, word | bit, word)
            bit = bit + bit
        marks[w, number] = word


@pk.function
def find_rows(team, n_dims, depth, part, lead, row):
    """Where in `library` each coordinate of candidate 0 is."""
    for e in team.thread_range(n_dims):
        row[e] = part[e] * depth + lead[e]
    team.barrier()


@pk.kernel
def measure(
    team,
    n_dims,
    skip,
    n_candidates,
    runs_on,
    pad,
    first_point,
    n_tiles,
    n_parts,
    radius,
    place,
    library,
    part,
    lead,
    first,
    offset,
    series,
    minima,
):
    """The smallest distance in each chunk, n_parts teams per set and tile of points, a member a point: for
    `bound` where there are so few tiles that its teams would not fill the machine.

    minima : shape (n_sets * n_tiles at least, n_dims - skip, n)
    """
    n_chunks = (n_candidates + team.size - 1) // team.size
    row = team.scratch(n_dims, pk.int32)
    point = team.scratch((n_dims, team.size), library.dtype)
    find_rows(team, n_dims, n_chunks + pad + 1, part, lead, row)
    task = team.league_rank // n_parts
    share = team.league_rank % n_parts
    b = task // n_tiles
    measure_minima(
        team,
        n_dims,
        skip,
        n_chunks,
        share * n_chunks // n_parts,
        (share + 1) * n_chunks // n_parts,
        runs_on,
        first_point + task % n_tiles * team.size,
        radius,
        place[min(b, place.shape[0] - 1)],
        library[b],
        row,
        offset,
        series[first[b] :],
        point,
        minima[task],
    )


@pk.kernel
def bound(
    team,
    measured,
    n_dims,
    skip,
    n_candidates,
    runs_on,
    pad,
    first_point,
    n_tiles,
    n_sets,
    radius,
    guess,
    place,
    library,
    part,
    lead,
    first,
    offset,
    series,
    dims,
    wanted,
    minima,
    closest,
    bounds,
    marks,
):
    """Closest candidates, bounds and marks of every search; one team per set and tile of points, a member a
    point.

    measured : known at compile time, whether `minima` holds them, a team's own its first task's
    runs_on : whether the candidates' times are consecutive
    guess : where between the extremes of a point's minima the bound of the first search may lie
    minima : shape (n_teams, n_dims - skip, n), room for the smallest distance in each chunk
    """
    n_chunks = (n_candidates + team.size - 1) // team.size
    row = team.scratch(n_dims, pk.int32)
    point = team.scratch((n_dims, team.size), library.dtype)
    find_rows(team, n_dims, n_chunks + pad + 1, part, lead, row)
    own_minima = minima[team.league_rank]
    for turn in range((n_sets * n_tiles - team.league_rank + team.league_size - 1) // team.league_size):
        task = team.league_rank + turn * team.league_size
        b = task // n_tiles
        tile = task % n_tiles * team.size
        number = tile + team.rank
        if not measured:
            measure_minima(
                team,
                n_dims,
                skip,
                n_chunks,
                0,
                n_chunks,
                runs_on,
                first_point + tile,
                radius,
                place[min(b, place.shape[0] - 1)],
                library[b],
                row,
                offset,
                series[first[b] :],
                point,
                own_minima,
            )
        share = guess
        for u in range(dims.shape[0]):
            smallest = own_minima[dims[u] - 1 - skip]
            nearest, limit, share = bound_of(team, n_chunks, wanted[u], share, smallest)
            closest[b, u, number] = nearest
            bounds[b, u, number] = limit
            mark_chunks(team, n_chunks, limit, smallest, number, marks[b, u])
