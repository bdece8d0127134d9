"""Kernels that say where neighbours are; the equations are numbered in `portable.models.edm`.

The candidates lie in chunks of `team.size`: chunk c holds candidates c, c + n_chunks, c + 2 n_chunks, ...
First a member owns a point, and meets all candidates one by one; distances of all E are those of E - 1 and
one more term. Only the smallest of each chunk is kept. The k-th smallest of these bounds the k-th nearest
distance from above, closely, since the nearest few seldom share a chunk. Then (`list_kernels`) the chunks
within the bound are measured again, one member per candidate.
"""

import math
from typing import Any, NamedTuple

import portable as pk

SLACK = 1  # chunks above k that the bound may let through: to look longer costs more than to measure one more
# how far from the place itself two others are counted at, as a share of the way to the nearer end
REACH = 0.75
LEAST_SHARE = 0.03  # of the way from one end of an interval, nearer than which no place is tried
STEPS = 40  # of that search; where minima tie it would go on to the last bit
LARGEST = 3e38  # finite in float32: a bound for all that was observed
IN_FLIGHT = 8  # loads that a member has under way where a team goes through a whole column


class Arranged(NamedTuple):
    """Candidates of some sets in chunks, as `arrange` lays them out.

    Attributes
    ----------
    n : int
        Candidates of a set.
    runs_on : bool
        Whether their times are consecutive.
    adjacent : pk.static
        Whether coordinate e lies e rows of `values` before coordinate 0.
    pad : int
        Rows before the first candidate.
    place : View of int32, shape (1 or n_sets, n_chunks * width)
        Their times; -1 where there is none.
    values : View, shape (n_sets, n_parts * depth * width)
        Series; infinity where nothing was observed.
    part, lead : Views of int32, shape (n_dims,)
        Coordinate e of candidate (c, r) is at row part[e] * depth + lead[e] + c of `values`, column r.
    first : View of int32, shape (n_sets,)
        Where in a series the first column of a set begins.
    """

    n: int
    runs_on: bool
    adjacent: Any
    pad: int
    place: pk.View
    values: pk.View
    part: pk.View
    lead: pk.View
    first: pk.View | None = None


class Asked(NamedTuple):
    """Points whose neighbours are searched.

    Attributes
    ----------
    radius : int
        Steps of time within which a candidate does not count; -1 excludes none.
    offset : View of int32, shape (n_dims,)
        Coordinate e of the point of time s is series[offset[e] + s], counted from the set's first column.
    series : View, shape (n_columns * length,)
        One column after the other; NaN where nothing was observed.
    """

    radius: int
    offset: pk.View
    series: pk.View


class Bounds(NamedTuple):
    """Bounds of the neighbours of points.

    Attributes
    ----------
    dims, wanted : Views of int32, shape (n_searches,)
        Coordinates E of each search, ascending, and its number k of neighbours.
    closest, bounds : Views, shape (n_sets, n_searches, n_points)
        The smallest squared distance from each point, and an upper bound of the k-th smallest.
    marks : View of uint32, shape (n_sets, n_searches, n_words, n_points)
        A bit for each chunk, set where it may hold a neighbour.
    """

    dims: pk.View
    wanted: pk.View
    closest: pk.View
    bounds: pk.View
    marks: pk.View


@pk.function
def fold(team, n, ahead, parts, load, add, of, state):
    """State after `add` of what `load` finds of all n items, `ahead` loads of a member under way at once.

    ahead, parts : known at compile time; `load(of, i, own, m)` fills column m of `own`, of so many rows, and
        `add(own, m, state)` is the state with it
    """
    own = pk.local((parts, ahead), pk.float64)
    stride = ahead * team.size
    whole = n // stride * stride
    for base in range(0, whole, stride):
        for m in range(ahead):
            load(of, base + m * team.size + team.rank, own, m)
        for m in range(ahead):
            state = add(own, m, state)
    for i in team.thread_range(whole, n):
        load(of, i, own, 0)
        state = add(own, 0, state)
    return state


@pk.function
def value_at(single, columns, t, c):
    """Column c at time t. `single`: known at compile time, whether there is one column, given as a vector:
    its neighbours lie side by side."""
    return columns[t] if single else columns[t, c]


@pk.function
def load_value(of, t, own, m):
    """A value of a column, for `fold`."""
    single, columns, c = of
    own[0, m] = value_at(single, columns, t, c)


@pk.function
def with_value(own, m, state):
    """Return smallest and largest of what is known, how much that is, and its sum, with one more value."""
    low, high, n, total = state
    v = own[0, m]
    known = pk.isfinite(v)
    return min(low, v), max(high, v), n + pk.where(known, 1.0, 0.0), total + pk.where(known, v, 0.0)


@pk.function
def with_square(own, m, state):
    """Return the sum of squares about a mean, in a unit, with that of one more value."""
    mean, unit, square = state
    u = (own[0, m] - mean) / unit
    return mean, unit, square + pk.where(pk.isfinite(u), u * u, 0.0)


@pk.function
def summary_of(team, single, columns, c):
    """Return smallest, largest, mean and standard deviation of what is known of a column, by a team, in
    float64."""
    of = single, columns, c
    n_times, zero = columns.shape[0], pk.float64(0.0)
    state = pk.float64(math.inf), pk.float64(-math.inf), zero, zero
    low, high, n, total = fold(team, n_times, 2 * IN_FLIGHT, 1, load_value, with_value, of, state)
    n = team.reduce(n)
    mean = team.reduce(total) / n
    low = team.reduce(low, pk.Min)
    high = team.reduce(high, pk.Max)
    # squares of large or small numbers leave the range of floats
    unit = high - low if high > low else pk.float64(1.0)
    state = mean, unit, zero
    _, _, square = fold(team, n_times, 2 * IN_FLIGHT, 1, load_value, with_square, of, state)
    return low, high, mean, unit * pk.sqrt(team.reduce(square) / n)


@pk.kernel
def summarise(team, single, columns, summary):
    """`summary_of` each column, one team per column.

    single, columns : as in `value_at`
    summary : shape (4, n_columns)
    """
    found = summary_of(team, single, columns, team.league_rank)
    if team.single():
        for v in range(4):
            summary[v, team.league_rank] = found[v]


@pk.function
def power_of_two(width):
    """Return the power of two below a width; 1 for widths of 0."""
    return pk.ldexp(pk.float64(1.0), pk.logb(width)) if width > 0.0 else pk.float64(1.0)


@pk.function
def centre_of(low, high, mean):
    """Return a number near the middle of a column that is subtracted without rounding where the column
    allows it: a multiple of a power of two near the spread. Numbers of one binade with few digits stay
    exact, so ties stay ties.
    """
    step = power_of_two(high - low) / 2.0
    return pk.rint(mean / step) * step


@pk.function
def scale_of(summary, c, n_together):
    """Return a power of two near the spread of column c, so that squares neither overflow nor vanish in
    float32; of n_together columns, coordinates of one point, the widest decides.
    """
    width = pk.float64(0.0)
    for e in range(c // n_together * n_together, (c // n_together + 1) * n_together):
        width = max(width, summary[1, e] - summary[0, e])
    return power_of_two(width)


@pk.function
def standard(value, middle, spread):
    """Return a value with the mean removed, in units of the standard deviation; 0 where nothing varies."""
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
    centre = centre_of(summary[0, c], summary[1, c], summary[2, c])
    value = columns[min(max(t, 0), columns.shape[0] - 1), c] - centre
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


@pk.function
def n_chunks_of(team, library):
    """Count the chunks that the candidates of a set fill."""
    return (library.n + team.size - 1) // team.size


@pk.function
def share_of(share, n_shares, n_rows, width):
    """Return the begin and end of a share of so many rows, in items."""
    return share * n_rows // n_shares * width, (share + 1) * n_rows // n_shares * width


@pk.function
def candidate_at(team, library, n_chunks, item, pad):
    """Tell whether an item of a part whose first `pad` rows are none is a candidate, and its number."""
    c = item // team.size - pad
    q = (item % team.size) * n_chunks + c
    return (c < n_chunks) & (q < library.n), q


@pk.kernel
def arrange(team, runs_on, n_shares, part_at, times, source, library, width):
    """Lay a set's candidates out in chunks, n_shares teams per set. 8 bytes an element.

    A chunk of nothing but infinity follows, so that chunks can be taken several at a time.

    runs_on : known at compile time, whether times are consecutive, of which the first is enough
    part_at : shape (n_parts,), where in `source` time 0 of a part is, counted from there
    times : shape (1 or n_sets, n_candidates or 1), ascending
    source : the series one after the other, NaN before their beginning
    library : Arranged
    width : shape (1,), is told how many candidates a chunk has
    """
    b = team.league_rank // n_shares
    share = team.league_rank % n_shares
    if team.league_rank == 0 and team.single():
        width[0] = team.size
    own_times = times[min(b, times.shape[0] - 1)]
    n_chunks = n_chunks_of(team, library)
    depth = n_chunks + library.pad + 1
    if b < library.place.shape[0]:
        begin, end = share_of(share, n_shares, n_chunks + 1, team.size)
        for item in team.thread_range(begin, end):
            there, q = candidate_at(team, library, n_chunks, item, 0)
            time = time_of(own_times, runs_on, min(q, library.n - 1))
            library.place[b, item] = pk.where(there, time, -1)
    begin, end = share_of(share, n_shares, depth, team.size)
    for p in range(part_at.shape[0]):
        origin = pk.int64(library.first[b]) + part_at[p]
        for item in team.thread_range(begin, end):
            there, q = candidate_at(team, library, n_chunks, item, library.pad)
            time = time_of(own_times, runs_on, min(max(q, 0), library.n - 1)) + min(q, 0)
            value = source[origin + time]
            at = p * depth * team.size + item
            library.values[b, at] = pk.where(there & pk.isfinite(value), value, math.inf)


@pk.function
def start(place, s, radius):
    """Return what a squared distance begins with: infinity for what is too near point s in time to be a
    candidate."""
    return pk.where(abs(place - s) <= radius, math.inf, 0.0)


@pk.function
def find_rows(team, n_dims, library, row):
    """Find the place in the library's values of each coordinate of a member's candidate 0."""
    depth = n_chunks_of(team, library) + library.pad + 1
    for e in team.thread_range(n_dims):
        row[e] = (library.part[e] * depth + library.lead[e]) * team.size
    team.barrier()


@pk.function
def measure_minima(team, n_dims, skip, begin, end, b, tile, library, asked, row, point, minima):
    """The smallest squared distance in each chunk from `begin` to `end`, for skip + 1 to n_dims coordinates;
    3 operations a pair and coordinate."""
    s = tile + team.rank
    series = asked.series[library.first[b] :]
    for e in range(n_dims):
        point[e, team.rank] = series[pk.int64(asked.offset[e]) + s]
    n_chunks = n_chunks_of(team, library)
    place = library.place[min(b, library.place.shape[0] - 1)]
    values = library.values[b]
    d = pk.local(team.size, library.values.dtype)
    reach = asked.radius + team.size
    # chunks until one with a candidate near the tile, if their times run on
    ahead = (tile - place[0] + reach - begin) % n_chunks
    for c in range(begin, end):
        for r in range(pk.static(team.size)):
            d[r] = 0.0
        if ahead <= 2 * reach or not library.runs_on:
            for r in range(pk.static(team.size)):
                d[r] = start(place[c * team.size + r], s, asked.radius)
        ahead = ahead - 1 if ahead > 0 else n_chunks - 1
        for e in range(n_dims):
            here = point[e, team.rank]
            first = pk.int64(row[e]) + c * team.size
            for r in range(pk.static(team.size)):
                u = here - values[first + r]
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
    """Return the nearest squared distance, and one that k to k + SLACK of a point's minima do not exceed
    (more at ties).

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


@pk.kernel
def measure(team, n_dims, skip, first_point, n_tiles, n_parts, library, asked, minima):
    """The smallest distance in each chunk, n_parts teams per set and tile of points, a member a point: for
    `bound` where there are so few tiles that its teams would not fill the machine.

    library, asked : Arranged, Asked
    minima : shape (n_sets * n_tiles at least, n_dims - skip, n)
    """
    n_chunks = n_chunks_of(team, library)
    row = team.scratch(n_dims, pk.int32)
    point = team.scratch((n_dims, team.size), library.values.dtype)
    find_rows(team, n_dims, library, row)
    task = team.league_rank // n_parts
    share = team.league_rank % n_parts
    begin, end = share * n_chunks // n_parts, (share + 1) * n_chunks // n_parts
    b, tile = task // n_tiles, first_point + task % n_tiles * team.size
    measure_minima(team, n_dims, skip, begin, end, b, tile, library, asked, row, point, minima[task])


@pk.kernel
def bound(team, measured, n_dims, skip, first_point, n_tiles, n_sets, guess, library, asked, minima, found):
    """Closest candidates, bounds and marks of every search; one team per set and tile of points, a member a
    point.

    measured : known at compile time, whether `minima` holds them, a team's own its first task's
    guess : where between the extremes of a point's minima the bound of the first search may lie
    library, asked, found : Arranged, Asked, Bounds
    minima : shape (n_teams, n_dims - skip, n), room for the smallest distance in each chunk
    """
    n_chunks = n_chunks_of(team, library)
    row = team.scratch(n_dims, pk.int32)
    point = team.scratch((n_dims, team.size), library.values.dtype)
    find_rows(team, n_dims, library, row)
    own = minima[team.league_rank]
    for turn in range((n_sets * n_tiles - team.league_rank + team.league_size - 1) // team.league_size):
        task = team.league_rank + turn * team.league_size
        b = task // n_tiles
        tile = task % n_tiles * team.size
        number = tile + team.rank
        if not measured:
            tile += first_point
            measure_minima(team, n_dims, skip, 0, n_chunks, b, tile, library, asked, row, point, own)
        share = guess
        for u in range(found.dims.shape[0]):
            smallest = own[found.dims[u] - 1 - skip]
            nearest, limit, share = bound_of(team, n_chunks, found.wanted[u], share, smallest)
            found.closest[b, u, number] = nearest
            found.bounds[b, u, number] = limit
            mark_chunks(team, n_chunks, limit, smallest, number, found.marks[b, u])
