"""Kernels that bound the distances of nearest neighbours; equations are numbered in `portable.models.edm`.

Candidates are stored in chunks of `team.size`: chunk c holds candidates c, c + n_chunks, c + 2 n_chunks, ...
In the first pass each team member computes the squared distances of one point from all candidates; the
distance for E coordinates is that for E - 1 coordinates plus one term. Only the minimum of each chunk is
stored. The k-th smallest minimum is an upper bound of the k-th nearest distance, and a tight one, since the
nearest few candidates seldom share a chunk. In the second pass (`list_kernels`) the distances of all
candidates in the chunks within the bound are computed again, one team member per candidate.
"""

import math
from typing import Any, NamedTuple

import portable as pk

SLACK = 1  # chunks above k within the bound: a tighter bound costs more than the distances of one more chunk
# distance of the two outer probes from the middle one, as a share of that to the nearer end of the interval
REACH = 0.75
LEAST_SHARE = 0.03  # smallest distance of a probe from the ends of the interval, as a share of its length
STEPS = 40  # iterations of the search for a bound at most; tied minima would need as many as there are bits
LARGEST = 3e38  # an upper bound of all squared distances that is finite in float32
IN_FLIGHT = 8  # outstanding loads per team member in a pass over a column, to hide latency


class Arranged(NamedTuple):
    """Candidates of several sets, stored in chunks by `arrange`.

    Attributes
    ----------
    n : int
        Number of candidates in each set.
    runs_on : bool
        Whether their times are consecutive.
    adjacent : pk.static
        Whether coordinate e lies e rows of `values` before coordinate 0.
    pad : int
        Rows before the first candidate.
    place : View of int32, shape (1 or n_sets, n_chunks * width)
        Times of the candidates; -1 in unused slots of a chunk.
    values : View, shape (n_sets, n_parts * depth * width)
        Series; infinity where a value is missing.
    part, lead : Views of int32, shape (n_dims,)
        Coordinate e of candidate (c, r) is at row part[e] * depth + lead[e] + c of `values`, column r.
    first : View of int32, shape (n_sets,)
        Index in `Asked.series` of the first column of a set.
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
    """Points whose nearest neighbours are requested.

    Attributes
    ----------
    radius : int
        Candidates within this many time steps of a point are excluded; -1 excludes none.
    offset : View of int32, shape (n_dims,)
        Coordinate e of the point of time s is series[offset[e] + s], counted from the set's first column.
    series : View, shape (n_columns * length,)
        One column after the other; NaN where a value is missing.
    """

    radius: int
    offset: pk.View
    series: pk.View


class Bounds(NamedTuple):
    """Bounds of the distances of each point from its nearest neighbours.

    Attributes
    ----------
    dims, wanted : Views of int32, shape (n_searches,)
        Number E of coordinates of each search, ascending, and its number k of neighbours.
    closest, bounds : Views, shape (n_sets, n_searches, n_points)
        The smallest squared distance of each point, and an upper bound of the k-th smallest.
    marks : View of uint32, shape (n_sets, n_searches, n_words, n_points)
        One bit per chunk, set if the chunk may hold a neighbour.
    """

    dims: pk.View
    wanted: pk.View
    closest: pk.View
    bounds: pk.View
    marks: pk.View


@pk.function
def fold(team, n, ahead, parts, load, add, of, state):
    """Reduce items 0 to n - 1 to a state by `load` and `add`, with `ahead` outstanding loads per team member.

    load : `load(of, i, own, m)` writes item i to column m of `own`
    add : `add(own, m, state)` returns the state updated by column m
    ahead, parts : compile-time constants, the columns and rows of `own`
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
    """Return column c at time t.

    single : compile-time constant, True if `columns` is a vector: the only column, contiguous in memory
    """
    return columns[t] if single else columns[t, c]


@pk.function
def load_value(of, t, own, m):
    """Load the value of a column at time t, for `fold`."""
    single, columns, c = of
    own[0, m] = value_at(single, columns, t, c)


@pk.function
def with_value(own, m, state):
    """Update the minimum, maximum, count and sum of the finite values by one value."""
    low, high, n, total = state
    v = own[0, m]
    known = pk.isfinite(v)
    return min(low, v), max(high, v), n + pk.where(known, 1.0, 0.0), total + pk.where(known, v, 0.0)


@pk.function
def with_square(own, m, state):
    """Add the square of (value - mean) / unit to a sum of squares if the value is finite."""
    mean, unit, square = state
    u = (own[0, m] - mean) / unit
    return mean, unit, square + pk.where(pk.isfinite(u), u * u, 0.0)


@pk.function
def summary_of(team, single, columns, c):
    """Return minimum, maximum, mean and standard deviation of the finite values of a column, computed by a
    team in float64."""
    of = single, columns, c
    n_times, zero = columns.shape[0], pk.float64(0.0)
    state = pk.float64(math.inf), pk.float64(-math.inf), zero, zero
    low, high, n, total = fold(team, n_times, 2 * IN_FLIGHT, 1, load_value, with_value, of, state)
    n = team.reduce(n)
    mean = team.reduce(total) / n
    low = team.reduce(low, pk.Min)
    high = team.reduce(high, pk.Max)
    # without the unit, squares of large or small numbers would overflow or vanish
    unit = high - low if high > low else pk.float64(1.0)
    state = mean, unit, zero
    _, _, square = fold(team, n_times, 2 * IN_FLIGHT, 1, load_value, with_square, of, state)
    return low, high, mean, unit * pk.sqrt(team.reduce(square) / n)


@pk.kernel
def summarise(team, single, columns, summary):
    """Store `summary_of` each column, one team per column.

    single, columns : as in `value_at`
    summary : shape (4, n_columns)
    """
    found = summary_of(team, single, columns, team.league_rank)
    if team.single():
        for v in range(4):
            summary[v, team.league_rank] = found[v]


@pk.function
def power_of_two(width):
    """Return the largest power of two that does not exceed a width; 1 for a width of 0."""
    return pk.ldexp(pk.float64(1.0), pk.logb(width)) if width > 0.0 else pk.float64(1.0)


@pk.function
def centre_of(low, high, mean):
    """Return a centre to subtract from a column: its mean, rounded to a multiple of a power of two near the
    range. The subtraction is exact for values of one binade with few digits, so equal distances stay equal.
    """
    step = power_of_two(high - low) / 2.0
    return pk.rint(mean / step) * step


@pk.function
def scale_of(summary, c, n_together):
    """Return the unit of column c, a power of two near its range, so that squares neither overflow nor vanish
    in float32. Of n_together columns, the coordinates of one point, the widest determines the unit of all.
    """
    width = pk.float64(0.0)
    for e in range(c // n_together * n_together, (c // n_together + 1) * n_together):
        width = max(width, summary[1, e] - summary[0, e])
    return power_of_two(width)


@pk.function
def standard(value, middle, spread):
    """Return (value - middle) / spread; the spread is replaced by 1 if it is 0."""
    return (value - middle) / (spread if spread > 0.0 else 1.0)


@pk.kernel
def line_up(c, i, front, n_together, summary, columns, series):
    """Store column c, centred and scaled, with NaN before and after it, as a part of one long series. 12
    bytes an element.

    summary : from `summarise`, of these columns or of the columns that define the units
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
    """Store target q: column[q] less its mean, divided by its standard deviation. 12 bytes an element."""
    c = column[q]
    target[t, q] = standard(columns[t, c], summary[2, c], summary[3, c])


@pk.function
def time_of(times, runs_on, q):
    """Return the time of candidate q of a set; if `runs_on`, times are consecutive and `times` has only the
    first."""
    return pk.int64(times[0]) + q if runs_on else pk.int64(times[q])


@pk.function
def n_chunks_of(team, library):
    """Return the number of chunks of a set, ceil(n / team.size)."""
    return (library.n + team.size - 1) // team.size


@pk.function
def share_of(share, n_shares, n_rows, width):
    """Return the first and the last item (exclusive) of one of n_shares parts of n_rows rows of `width`
    items."""
    return share * n_rows // n_shares * width, (share + 1) * n_rows // n_shares * width


@pk.function
def candidate_at(team, library, n_chunks, item, pad):
    """Return True if an item is a candidate, and the candidate's number; the first `pad` rows hold none."""
    c = item // team.size - pad
    q = (item % team.size) * n_chunks + c
    return (c < n_chunks) & (q < library.n), q


@pk.kernel
def arrange(team, runs_on, n_shares, part_at, times, source, library, width):
    """Store the candidates of each set in chunks, n_shares teams per set. 8 bytes an element.

    A chunk of infinities follows the last one, so that kernels may read several chunks at a time.

    runs_on : compile-time constant, True if times are consecutive, so that the first one is sufficient
    part_at : shape (n_parts,), index in `source` of time 0 of a part, relative to the set's first column
    times : shape (1 or n_sets, n_candidates or 1), ascending
    source : the series one after the other, NaN before their beginning
    library : Arranged, the output
    width : shape (1,), output: the number of candidates in a chunk
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
    """Return the initial value of the sum of squares (1): infinity if |place - s| <= radius, which excludes
    the candidate, else 0."""
    return pk.where(abs(place - s) <= radius, math.inf, 0.0)


@pk.function
def find_rows(team, n_dims, library, row):
    """Store in `row` the index in the library's values of each coordinate of candidate 0."""
    depth = n_chunks_of(team, library) + library.pad + 1
    for e in team.thread_range(n_dims):
        row[e] = (library.part[e] * depth + library.lead[e]) * team.size
    team.barrier()


@pk.function
def measure_minima(team, n_dims, skip, begin, end, b, tile, library, asked, row, point, minima):
    """Store the minimum of the squared distances (1) in each chunk from `begin` to `end`, for skip + 1 to
    n_dims coordinates; 3 operations a pair and coordinate."""
    s = tile + team.rank
    series = asked.series[library.first[b] :]
    for e in range(n_dims):
        point[e, team.rank] = series[pk.int64(asked.offset[e]) + s]
    n_chunks = n_chunks_of(team, library)
    place = library.place[min(b, library.place.shape[0] - 1)]
    values = library.values[b]
    d = pk.local(team.size, library.values.dtype)
    reach = asked.radius + team.size
    # number of chunks before the next one with a candidate near the tile, if times are consecutive
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
            for r in range(pk.static(team.size)):  # in pairs, for a shorter chain of dependent operations
                if r % 2 == 1:
                    least = min(least, min(d[r - 1], d[r]))
                elif r == team.size - 1:
                    least = min(least, d[r])
            if e >= skip:
                minima[e - skip, c * team.size + team.rank] = least


@pk.function
def bound_of(team, n_chunks, k, guess, minima):
    """Return a bound that k to k + SLACK of a point's minima do not exceed, the least such minimum (more at
    ties), and the bound's position between the extremes, from 0 to 1.

    The bound is found by repeated interpolation, with three probes in each pass. `guess` is the position of
    the first probe.
    """
    low = math.inf
    high = 0.0
    above = 0.0  # number of minima <= high
    below = 0.0  # number of minima <= low, once `low` has been a probe
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
    """Set the bit of each chunk whose minimum does not exceed the bound, 32 chunks to a word."""
    for w in range((n_chunks + 31) // 32):
        word = pk.uint32(0)
        bit = pk.uint32(1)
        for c in range(32 * w, min(32 * w + 32, n_chunks)):
            word = pk.where(minima[c * team.size + team.rank] <= bound, word | bit, word)
            bit = bit + bit
        marks[w, number] = word


@pk.kernel
def measure(team, n_dims, skip, first_point, n_tiles, n_parts, library, asked, minima):
    """Store the minimum of the squared distances in each chunk, n_parts teams per set and tile of points, one
    team member per point. Used before `bound` if there are too few tiles for its teams to fill the machine.

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
    """Store the smallest distances, bounds and marks of every search; one team per set and tile of points,
    one team member per point.

    measured : compile-time constant, True if `measure` has filled `minima`, one row per team and task
    guess : position between the extremes of a point's minima, 0 to 1, of the first probe of the first search
    library, asked, found : Arranged, Asked, Bounds
    minima : shape (n_teams, n_dims - skip, n), memory for the minimum of each chunk
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
