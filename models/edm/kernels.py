"""Kernels of empirical dynamic modelling; the equations are numbered in `models.edm`.

Arguments that recur
    n_dims      E, the coordinates of an embedded point
    library     arranged series, shape (n_sets, n_parts * depth * width), see `arrange`; infinity where nothing was observed
    place       arranged times of the candidates, shape (1 or n_sets, n_chunks * width); -1 where there is none
    series      the series of the queried points, one after the other, shape (n_columns * length,); NaN where nothing was
                observed
    part, lead  coordinate e of candidate (c, r) is at row part[e] * depth + lead[e] + c of `library`, column r;
                `row` in a team's scratch is part * depth + lead
    offset      coordinate e of the point of time s is series[offset[e] + s], counted from the set's first column;
                `point` in a team's scratch holds those of a tile of points, shape (n_dims, width)
    minima      shape (n_teams, E, n), or (n_teams, 1, n) for one E alone: of each chunk of candidates and each point the
                smallest squared distance
    marks       shape (n_teams, n): bit c of a point says that chunk c may hold a neighbour

The candidates lie in chunks of `team.size`: chunk c holds candidates c, c + n_chunks, c + 2 n_chunks, ... A member first
owns a point, and meets all candidates one by one; distances of all E are those of E - 1 and one more term. Only the
smallest of each chunk is kept. The k-th smallest of these bounds the k-th nearest distance from above, closely, since
the nearest few seldom share a chunk. Then the chunks within the bound are measured again, a member a candidate.
"""

import math

import portable as pk

SLACK = 2  # chunks above k that the bound may let through: fewer steps of the search cost more than they save
FIRST_GUESS = 0.2  # where between its extremes the k-th of many minima is looked for first
STEPS = 40  # of that search; where minima tie it would go on to the last bit
LARGEST = 3e38  # finite in float32: a bound for all that was observed
FLOOR = 1e-6  # smallest weight of a neighbour
SUMS = 6  # number, p, o, p^2, o^2, p o


@pk.kernel
def arrange(team, n_candidates, pad, part_at, first, times, source, library, place):
    """Lay a set's candidates out in chunks, a team a set: `library` and `place` above. 8 bytes an element.

    times : shape (1 or n_sets, n_candidates), ascending; consecutive where pad > 0
    source : the series one after the other, NaN before their beginning
    first : shape (n_sets,), where in `source` a set begins
    part_at : shape (n_parts,), where in `source` time 0 of a part is, counted from there
    """
    b = team.league_rank
    own_times = times[min(b, times.shape[0] - 1)]
    width = team.size
    n_chunks = (n_candidates + width - 1) // width
    depth = n_chunks + pad
    if b < place.shape[0]:
        for item in team.thread_range(n_chunks * width):
            q = (item % width) * n_chunks + item // width
            place[b, item] = pk.where(q < n_candidates, own_times[min(q, n_candidates - 1)], pk.int32(-1))
    for p in range(part_at.shape[0]):
        begin = pk.int64(first[b]) + part_at[p]
        for item in team.thread_range(depth * width):
            q = (item % width) * n_chunks + item // width - pad
            time = pk.int64(own_times[min(max(q, 0), n_candidates - 1)]) + min(q, 0)
            value = source[begin + time]
            library[b, p * depth * width + item] = pk.where((q < n_candidates) & pk.isfinite(value), value, math.inf)


@pk.function
def start(place, s, radius):
    """What a squared distance begins with: infinity for what is too near in time to be a candidate of point s."""
    return pk.where(abs(place - s) <= radius, math.inf, 0.0)


@pk.function
def measure_minima(team, n_dims, skip, n_chunks, tile, radius, place, library, row, offset, series, point, minima):
    """The smallest squared distance in each chunk, for skip + 1 to n_dims coordinates; 3 operations a pair and coordinate."""
    s = tile + team.rank
    for e in range(n_dims):
        point[e, team.rank] = series[pk.int64(offset[e]) + s]
    d = pk.local(team.size, library.dtype)
    for c in range(n_chunks):
        for r in range(pk.static(team.size)):
            t = place[c * team.size + r]
            d[r] = 0.0
            if abs(t - tile) <= radius + team.size:  # seldom, so that most candidates need not be compared
                d[r] = start(t, s, radius)
        for e in range(n_dims):
            here = point[e, team.rank]
            first = (pk.int64(row[e]) + c) * team.size
            least = math.inf
            for r in range(pk.static(team.size)):
                u = library[first + r] - here
                d[r] += u * u
                least = min(least, d[r])
            if e >= skip:
                minima[e - skip, c * team.size + team.rank] = least


@pk.function
def bound_of(team, n_chunks, k, guess, minima):
    """The nearest squared distance, and one that k to k + SLACK of a point's minima do not exceed (more at ties).

    By repeated interpolation. `guess` is where between the extremes to look first; where it was is the third result.
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
        probe = low + share * (high - low)
        count = 0.0
        for c in range(n_chunks):
            count += pk.where(minima[c * team.size + team.rank] <= probe, 1.0, 0.0)
        search = probe > low and probe < high
        if count >= k:
            high = probe
            above = count
            search = search and count > k + SLACK
        else:
            low = probe
            below = count
        share = pk.clip((k + 0.5 * SLACK - below) / (above - below), 0.1, 0.9)
    found = pk.where(spread > 0.0, (high - nearest) / spread, guess)
    return nearest, pk.where(enough, high, LARGEST), pk.where(enough, found, guess)


@pk.function
def mark_chunks(team, n_chunks, bound, minima, marks):
    for w in range((n_chunks + 31) // 32):
        word = pk.uint32(0)
        for c in range(32 * w, min(32 * w + 32, n_chunks)):
            bit = pk.uint32(1) << pk.uint32(c - 32 * w)
            word = pk.where(minima[c * team.size + team.rank] <= bound, word | bit, word)
        marks[w * team.size + team.rank] = word


@pk.function
def ranks_before(n, distance, time, d, t):
    """How many of n listed neighbours come before one at distance d and time t."""
    rank = pk.int32(0)
    for q in range(n):
        rank += pk.where((distance[q] < d) | ((distance[q] == d) & (time[q] < t)), pk.int32(1), pk.int32(0))
    return rank


@pk.function
def sort_nearest(team, n, k, distance, time, sorted_distance, sorted_time):
    """The k nearest of a list, sorted by distance, at ties by time."""
    for m in team.thread_range(n):
        rank = ranks_before(n, distance, time, distance[m], time[m])
        if rank < k:
            sorted_distance[rank] = distance[m]
            sorted_time[rank] = time[m]
    team.barrier()


@pk.function
def trim(team, n, k, distance, time, spare_distance, spare_time):
    """Leave out of a list what the bound of its k-th distance excludes; returns how many remain, k + SLACK but for ties."""
    low = math.inf
    high = 0.0
    for m in team.thread_range(n):
        low = min(low, distance[m])
        high = max(high, distance[m])
    low = team.reduce(low, pk.Min)
    high = team.reduce(high, pk.Max)
    above = 1.0 * n
    below = 0.0
    steps = 0
    while above > k + SLACK and steps < STEPS:
        steps += 1
        share = pk.clip((k + 0.5 * SLACK - below) / (above - below), 0.1, 0.9)
        probe = low + share * (high - low)
        count = 0.0
        for m in team.thread_range(n):
            count += pk.where(distance[m] <= probe, 1.0, 0.0)
        count = team.reduce(count)
        if count >= k:
            high = probe
            above = count
        else:
            low = probe
            below = count
    kept = 0
    for i in range((n + team.size - 1) // team.size):
        m = min(i * team.size + team.rank, n - 1)
        keep = i * team.size + team.rank < n and distance[m] <= high
        team.append(spare_time, kept, time[m], keep)
        kept = team.append(spare_distance, kept, distance[m], keep)
    team.barrier()
    for m in team.thread_range(kept):
        distance[m] = spare_distance[m]
        time[m] = spare_time[m]
    team.barrier()
    return kept


@pk.function
def choose_chunks(team, n_chunks, r, marks, chosen):
    """The numbers of the chunks that are marked for the point of member r; returns how many."""
    n = 0
    for w in range((n_chunks + 31) // 32):
        word = marks[w * team.size + r]
        for part in range(32 // team.size):
            bit = part * team.size + team.rank
            n = team.append(chosen, n, 32 * w + bit, (word >> bit) & 1 == 1)
    team.barrier()
    return n


@pk.function
def add_term(team, e, r, row, point, library, c0, c1, c2, c3, d0, d1, d2, d3):
    """Coordinate e of the squared distances of point r from candidates of four chunks."""
    here = point[e, r]
    first = pk.int64(row[e])
    u0 = library[(first + c0) * team.size + team.rank] - here
    u1 = library[(first + c1) * team.size + team.rank] - here
    u2 = library[(first + c2) * team.size + team.rank] - here
    u3 = library[(first + c3) * team.size + team.rank] - here
    return d0 + u0 * u0, d1 + u1 * u1, d2 + u2 * u2, d3 + u3 * u3


@pk.function
def list_neighbours(team, n_dims, k, r, s, radius, bound, n_chosen, chosen, place, library, row, point, distance, time,
                    spare_distance, spare_time):
    """All candidates of the chosen chunks within the bound, in no order; returns their number. 2 E operations a candidate.

    Four chunks and terms at a time, so that few instructions wait for the one before. Where more candidates tie than the list has
    room for, it is cut to the k nearest now and then.
    """
    n = 0
    limit = bound
    last = n_chosen - 1
    for i in range(0, n_chosen, 4):
        c0 = pk.int64(chosen[i])
        c1 = pk.int64(chosen[min(i + 1, last)])
        c2 = pk.int64(chosen[min(i + 2, last)])
        c3 = pk.int64(chosen[min(i + 3, last)])
        t0 = place[c0 * team.size + team.rank]
        t1 = place[c1 * team.size + team.rank]
        t2 = place[c2 * team.size + team.rank]
        t3 = place[c3 * team.size + team.rank]
        d0 = start(t0, s, radius)
        d1 = start(t1, s, radius)
        d2 = start(t2, s, radius)
        d3 = start(t3, s, radius)
        for begin in range(0, n_dims - 3, 4):
            for e in range(pk.static(4)):
                d0, d1, d2, d3 = add_term(team, begin + e, r, row, point, library, c0, c1, c2, c3, d0, d1, d2, d3)
        for e in range(n_dims - n_dims % 4, n_dims):
            d0, d1, d2, d3 = add_term(team, e, r, row, point, library, c0, c1, c2, c3, d0, d1, d2, d3)
        for t, d, there in ((t0, d0, True), (t1, d1, i + 1 <= last), (t2, d2, i + 2 <= last), (t3, d3, i + 3 <= last)):
            keep = d <= limit and there
            team.append(time, n, t, keep)
            n = team.append(distance, n, d, keep)
        if n > distance.shape[0] - 4 * team.size:
            team.barrier()
            sort_nearest(team, n, k, distance, time, spare_distance, spare_time)
            n = min(n, k)
            for m in team.thread_range(n):
                distance[m] = spare_distance[m]
                time[m] = spare_time[m]
            team.barrier()
            limit = distance[n - 1] if n == k else limit
    team.barrier()
    if n > 2 * k + team.size:
        n = trim(team, n, k, distance, time, spare_distance, spare_time)
    return n


@pk.function
def weight_of(d, nearest):
    """The simplex weight (2) of a neighbour at distance d, before it is divided by the sum."""
    ratio = pk.fast_exp(-d / nearest) if nearest > 0.0 else pk.where(d > 0.0, 0.0, 1.0)
    return max(ratio, FLOOR)


@pk.function
def weigh(team, n, k, nearest, distance, time, weight, kept_time):
    """Simplex weights (2) of the k nearest of a list, not yet divided by their sum. An exponential a neighbour.

    Three neighbours of weight 0 follow, so that they can be taken four at a time.
    """
    kept = 0
    for i in range((n + team.size - 1) // team.size):
        there = i * team.size + team.rank < n
        m = min(i * team.size + team.rank, n - 1)
        d = distance[m]
        keep = there
        if n > k:
            keep = there and ranks_before(n, distance, time, d, time[m]) < k
        team.append(kept_time, kept, time[m], keep)
        kept = team.append(weight, kept, weight_of(pk.sqrt(d), nearest), keep)
    team.barrier()
    for m in team.thread_range(kept, kept + 3):
        weight[m] = 0.0
        kept_time[m] = kept_time[0]
    team.barrier()


@pk.function
def add_predictions(team, k, Tp, s, weight, time, begin, end, target, observed, sums):
    """The prediction (3) of point s for each target, a member a target, into the sums of its block."""
    for q in team.thread_range(begin, end):
        p = 0.0
        total = 0.0
        for first in range(0, k, 4):
            for i in range(pk.static(4)):
                w = weight[first + i]
                total += w
                p += w * target[time[first + i] + Tp, q]
        p /= total
        o = observed[s + Tp, q]
        known = pk.isfinite(p + o)
        p = pk.where(known, p, 0.0)
        o = pk.where(known, o, 0.0)
        sums[0, q] += pk.where(known, 1.0, 0.0)
        sums[1, q] += p
        sums[2, q] += o
        sums[3, q] += p * p
        sums[4, q] += o * o
        sums[5, q] += p * o


@pk.kernel
def cross_map(team, n_dims, n_candidates, pad, room, first_point, last_point, block, n_sets, radius, Tp, place, library, part,
              lead, first, offset, series, target_begin, target, observed, minima, marks, chosen, sums):
    """Sums for Pearson's rho of simplex predictions, each library set against all targets; a team a set and block of points.

    target : shape (n_times, n_targets), standardised, NaN where missing; those of E coordinates are columns
        target_begin[E - 1] to target_begin[E]. `observed` is the same on the points' times
    sums : shape (n_sets, n_blocks, SUMS, n_targets), of blocks of `block` points
    """
    distance = team.scratch(room, library.dtype)
    weight = team.scratch(room, library.dtype)
    spare_distance = team.scratch(room, library.dtype)
    time = team.scratch(room, pk.int32)
    spare_time = team.scratch(room, pk.int32)
    bounds = team.scratch(team.size, library.dtype)
    smallest = team.scratch(team.size, library.dtype)
    n_chunks = (n_candidates + team.size - 1) // team.size
    row = team.scratch(n_dims, pk.int32)
    point = team.scratch((n_dims, team.size), library.dtype)
    for e in team.thread_range(n_dims):
        row[e] = part[e] * (n_chunks + pad) + lead[e]
    team.barrier()
    n_blocks = sums.shape[1]
    own_minima = minima[team.league_rank]
    own_marks = marks[team.league_rank]
    own_chosen = chosen[team.league_rank]
    for turn in range((n_sets * n_blocks - team.league_rank + team.league_size - 1) // team.league_size):
        task = team.league_rank + turn * team.league_size
        b = task // n_blocks
        own_series = series[first[b]:]
        own_library = library[b]
        own_place = place[min(b, place.shape[0] - 1)]
        begin = first_point + (task % n_blocks) * block
        end = min(begin + block, last_point)
        own_sums = sums[b, task % n_blocks]
        for v in range(SUMS):
            for q in team.thread_range(target.shape[1]):
                own_sums[v, q] = 0.0
        for tile in range(begin, end, team.size):
            measure_minima(team, n_dims, 0, n_chunks, tile, radius, own_place, own_library, row, offset,
                           own_series, point, own_minima)
            share = FIRST_GUESS
            for e in range(n_dims):
                if target_begin[e] < target_begin[e + 1]:
                    k = e + 2
                    closest, bound, share = bound_of(team, n_chunks, k, share, own_minima[e])
                    mark_chunks(team, n_chunks, bound, own_minima[e], own_marks)
                    bounds[team.rank] = bound
                    smallest[team.rank] = closest
                    team.barrier()
                    for r in range(min(team.size, end - tile)):
                        n = choose_chunks(team, n_chunks, r, own_marks, own_chosen)
                        n = list_neighbours(team, e + 1, k, r, tile + r, radius, bounds[r], n, own_chosen, own_place,
                                            own_library, row, point, distance, time, spare_distance, spare_time)
                        if n >= k and 0 <= tile + r + Tp and tile + r + Tp < observed.shape[0]:
                            weigh(team, n, k, pk.sqrt(smallest[r]), distance, time, weight, spare_time)
                            add_predictions(team, k, Tp, tile + r, weight, spare_time, target_begin[e],
                                            target_begin[e + 1], target, observed, own_sums)
                        team.barrier()


@pk.kernel
def correlate(b, q, sums, rho):
    """Pearson's rho (4) from the sums of all blocks, added up in float64. 8 n_blocks SUMS bytes a number."""
    n = pk.float64(0.0)
    p = pk.float64(0.0)
    o = pk.float64(0.0)
    pp = pk.float64(0.0)
    oo = pk.float64(0.0)
    po = pk.float64(0.0)
    for block in range(sums.shape[1]):
        n += sums[b, block, 0, q]
        p += sums[b, block, 1, q]
        o += sums[b, block, 2, q]
        pp += sums[b, block, 3, q]
        oo += sums[b, block, 4, q]
        po += sums[b, block, 5, q]
    spread = (pp - p * p / n) * (oo - o * o / n)
    rho[b, q] = (po - p * o / n) / pk.sqrt(spread) if spread > 0.0 else math.nan


@pk.kernel
def nearest(team, n_dims, n_candidates, pad, room, k, first_point, last_point, radius, place, library, part, lead,
            offset, series, minima, marks, chosen, distances, times):
    """The k nearest candidates of each point, sorted; a team every league_size-th tile of points.

    distances, times : shape (n_points, k); infinity and -1 where there are fewer
    """
    distance = team.scratch(room, library.dtype)
    time = team.scratch(room, pk.int32)
    spare_distance = team.scratch(room, library.dtype)
    spare_time = team.scratch(room, pk.int32)
    bounds = team.scratch(team.size, library.dtype)
    n_chunks = (n_candidates + team.size - 1) // team.size
    row = team.scratch(n_dims, pk.int32)
    point = team.scratch((n_dims, team.size), library.dtype)
    for e in team.thread_range(n_dims):
        row[e] = part[e] * (n_chunks + pad) + lead[e]
    team.barrier()
    own_minima = minima[team.league_rank]
    own_marks = marks[team.league_rank]
    own_chosen = chosen[team.league_rank]
    n_tiles = (last_point - first_point + team.size - 1) // team.size
    for turn in range((n_tiles - team.league_rank + team.league_size - 1) // team.league_size):
        tile = first_point + (team.league_rank + turn * team.league_size) * team.size
        measure_minima(team, n_dims, n_dims - 1, n_chunks, tile, radius, place[0], library[0], row, offset, series,
                       point, own_minima)
        _closest, bound, _share = bound_of(team, n_chunks, k, FIRST_GUESS, own_minima[0])
        mark_chunks(team, n_chunks, bound, own_minima[0], own_marks)
        bounds[team.rank] = bound
        team.barrier()
        for r in range(min(team.size, last_point - tile)):
            n = choose_chunks(team, n_chunks, r, own_marks, own_chosen)
            n = list_neighbours(team, n_dims, k, r, tile + r, radius, bounds[r], n, own_chosen, place[0], library[0], row,
                                point, distance, time, spare_distance, spare_time)
            sort_nearest(team, n, k, distance, time, spare_distance, spare_time)
            number = tile + r - first_point
            for m in team.thread_range(k):
                there = m < n
                distances[number, m] = pk.sqrt(spare_distance[m]) if there else math.inf
                times[number, m] = spare_time[m] if there else -1
            team.barrier()


@pk.kernel
def project(i, q, Tp, distances, times, target, predicted, variance):
    """The simplex prediction (3) of point i for target q, and the weighted mean of squares about it. A weight a neighbour."""
    nearest = distances[i, 0]
    total = 0.0
    value = 0.0
    for m in range(distances.shape[1]):
        w = weight_of(distances[i, m], nearest)
        total += w
        value += w * target[max(times[i, m], 0) + Tp, q]
    value /= total
    spread = 0.0
    for m in range(distances.shape[1]):
        u = target[max(times[i, m], 0) + Tp, q] - value
        spread += weight_of(distances[i, m], nearest) * u * u
    known = times[i, distances.shape[1] - 1] >= 0
    predicted[i, q] = pk.where(known, value, math.nan)
    variance[i, q] = pk.where(known, spread / total, math.nan)
