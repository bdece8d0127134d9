"""Kernels that list nearest neighbours and predict from them; equations are numbered in
`portable.models.edm`.

Arguments that recur
    library, asked, found  Arranged, Asked and Bounds of `kernels`
    row         in the team's scratch memory: index in the library of coordinate e of candidate 0
    point       in the team's scratch memory: the coordinates of one point, the last one first
    distance, time  in the team's scratch memory: an unordered list of candidates, squared distances and times
"""

import math
from typing import NamedTuple

import portable as pk

from .kernels import SLACK, STEPS, find_rows, n_chunks_of, start

FLOOR = 1e-6  # smallest weight of a neighbour
SUMS = 6  # number, p, o, p^2, o^2, p o
GROUP = 16  # points per team of `nearest`
BLOCK = 64  # points whose products are summed in the kernel's dtype; sums of blocks are added in float64
AT_ONCE = 4  # entries of a list that are processed together; lists are padded with weights of 0
# teams per multiprocessor of the two kernels: more teams hide more latency, but have fewer registers each
WEIGHING, LOOKING_UP = 20, 24
APART = 32  # columns between the targets of one team member, so that adjacent members read adjacent columns
CHOSEN = 68  # capacity of the list of chosen chunks: 32, the 32 of one more word, and padding
ROOM = 160  # capacity of a list beyond the length it is cut to: four chunks of 32 candidates, and one more


class Lists(NamedTuple):
    """Lists of weighted neighbours.

    Attributes
    ----------
    room : int
        Capacity, in points.
    begin : View of int32, shape (n_searches + 1,)
        Lists of search u have begin[u + 1] - begin[u] entries, a multiple of AT_ONCE, padded with weights of
        0.
    weights, rows : Views, shape (n_sets, begin[-1] * room)
        Normalised simplex weights, and the rows of the targets to which they apply. The lists of search u
        begin at begin[u] * room, one after the other. Weights are NaN if there is no prediction.
    """

    room: int
    begin: pk.View
    weights: pk.View
    rows: pk.View


@pk.function
def ranks_before(n, distance, time, d, t):
    """Return how many of n listed neighbours precede (d, t), ordered by distance and, at ties, by time."""
    rank = pk.int32(0)
    for q in range(n):
        rank += pk.where((distance[q] < d) | ((distance[q] == d) & (time[q] < t)), pk.int32(1), pk.int32(0))
    return rank


@pk.function
def as_near(n, distance, d):
    """Return how many of n listed distances are <= d; the list is padded with infinity to a multiple of 4."""
    even = 0.0  # two counters, for a shorter chain of dependent operations
    odd = 0.0
    for q in range(0, n, 4):
        for i in range(pk.static(2)):
            even = pk.where(distance[q + 2 * i] <= d, even + 1.0, even)
            odd = pk.where(distance[q + 2 * i + 1] <= d, odd + 1.0, odd)
    return even + odd


@pk.function
def sort_nearest(team, n, k, distance, time, sorted_distance, sorted_time):
    """Store the k nearest candidates of a list, sorted by distance and, at ties, by time."""
    for m in team.thread_range(n):
        rank = ranks_before(n, distance, time, distance[m], time[m])
        if rank < k:
            sorted_distance[rank] = distance[m]
            sorted_time[rank] = time[m]
    team.barrier()


@pk.function
def trim(team, n, k, distance, time):
    """Remove from a list the candidates beyond an upper bound of its k-th distance. Returns the new length,
    at most k + SLACK except at ties."""
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
        d = distance[m]
        t = time[m]
        keep = i * team.size + team.rank < n and d <= high
        team.barrier()  # all members have read their entries before `append` overwrites them
        team.append(time, kept, t, keep)
        kept = team.append(distance, kept, d, keep)
    team.barrier()
    return kept


@pk.function
def choose_chunks(team, w, n_chosen, word, chosen):
    """Append the chunks whose bits are set in word w of a point's marks to a list of n_chosen chunks. Returns
    the new length."""
    for part in range(32 // team.size):
        bit = part * team.size + team.rank
        n_chosen = team.append(chosen, n_chosen, 32 * w + bit, (word >> bit) & 1 == 1)
    return n_chosen


@pk.function
def add_term(team, adjacent, e, last, newest, row, point, values, q, d):
    """Return the squared distances d of a point from candidates of four chunks, plus the term of coordinate e
    of (1)."""
    here = point[last - e]
    first = newest - e * team.size if adjacent else pk.int64(row[e])
    u0 = here - values[first + q[0]]
    u1 = here - values[first + q[1]]
    u2 = here - values[first + q[2]]
    u3 = here - values[first + q[3]]
    return d[0] + u0 * u0, d[1] + u1 * u1, d[2] + u2 * u2, d[3] + u3 * u3


@pk.function
def place_in(team, chunk):
    """Return the index in the library of a team member's candidate in a chunk."""
    return pk.int64(chunk) * team.size + team.rank


@pk.function
def cut_list(team, n, k, limit, lists):
    """Cut a list to its k nearest candidates. Returns the new length, and the distance beyond which further
    candidates are excluded."""
    distance, time, spare_distance, spare_time = lists
    team.barrier()
    sort_nearest(team, n, k, distance, time, spare_distance, spare_time)
    n = min(n, k)
    for m in team.thread_range(n):
        distance[m] = spare_distance[m]
        time[m] = spare_time[m]
    team.barrier()
    return n, distance[n - 1] if n == k else limit


@pk.function
def measure_chosen(team, n_dims, k, n, limit, s, radius, n_chosen, place, values, adjacent, own, lists):
    """Append to a list of n candidates the candidates of the chosen chunks within the limit. Returns the new
    length.

    2 E operations a candidate. AT_ONCE chunks and terms are processed together, so that few instructions
    depend on the preceding one. If ties exceed the capacity of the list, it is cut to the k nearest.
    """
    row, point, chosen = own
    distance, time, _, _ = lists
    newest = pk.int64(row[0])
    for i in range(0, n_chosen, AT_ONCE):
        q0, q1 = place_in(team, chosen[i]), place_in(team, chosen[i + 1])
        q2, q3 = place_in(team, chosen[i + 2]), place_in(team, chosen[i + 3])
        q, t = (q0, q1, q2, q3), (place[q0], place[q1], place[q2], place[q3])
        d = start(t[0], s, radius), start(t[1], s, radius), start(t[2], s, radius), start(t[3], s, radius)
        for begin in range(0, n_dims - AT_ONCE + 1, AT_ONCE):
            for e in range(pk.static(AT_ONCE)):
                d = add_term(team, adjacent, begin + e, n_dims - 1, newest, row, point, values, q, d)
        for e in range(n_dims - n_dims % AT_ONCE, n_dims):
            d = add_term(team, adjacent, e, n_dims - 1, newest, row, point, values, q, d)
        for own_time, own_distance in zip(t, d):
            keep = own_distance <= limit
            team.append(time, n, own_time, keep)
            n = team.append(distance, n, own_distance, keep)
        if n > distance.shape[0] - AT_ONCE * team.size:
            n, limit = cut_list(team, n, k, limit, lists)
    return n


@pk.function
def list_neighbours(team, n_dims, k, b, u, s, number, library, asked, found, own, lists):
    """List all candidates of the marked chunks within the bound, unordered. Returns their number, which may
    exceed k.

    b, u : the set and the search
    number : index of the point in `found`
    """
    row, point, chosen = own
    adjacent = library.adjacent
    series = asked.series[library.first[b] :]
    oldest = series[pk.int64(asked.offset[n_dims - 1]) + s :]
    for i in team.thread_range(n_dims):
        point[i] = oldest[i] if adjacent else series[pk.int64(asked.offset[n_dims - 1 - i]) + s]
    n = 0
    n_chosen = 0
    n_chunks = n_chunks_of(team, library)
    place, values = library.place[min(b, library.place.shape[0] - 1)], library.values[b]
    bound = found.bounds[b, u, number]
    n_words = (n_chunks + 31) // 32
    for w in range(n_words):
        n_chosen = choose_chunks(team, w, n_chosen, found.marks[b, u, w, number], chosen)
        if n_chosen > 32 or w == n_words - 1:
            for m in team.thread_range(n_chosen, n_chosen + 3):
                chosen[m] = pk.int32(n_chunks)  # the chunk of infinities
            team.barrier()
            n = measure_chosen(
                team, n_dims, k, n, bound, s, asked.radius, n_chosen, place, values, adjacent, own, lists
            )
            n_chosen = 0
            team.barrier()
    if n > 2 * k + team.size:
        n = trim(team, n, k, lists[0], lists[1])
    return n


@pk.function
def weight_of(d, nearest):
    """Return the simplex weight (2) of a neighbour at distance d, not normalised."""
    ratio = pk.fast_exp(-d / nearest) if nearest > 0.0 else pk.where(d > 0.0, 0.0, 1.0)
    return max(ratio, FLOOR)


@pk.function
def keep_weights(team, n, k, ranked, nearest, distance, time, weight, kept_time):
    """Store the simplex weights (2) and times of the k nearest of a list. Returns their number and a team
    member's part of the sum of weights. Unless `ranked` by time, candidates that tie at the k-th distance are
    left out, so the number may be less than k."""
    kept = 0
    total = 0.0
    for i in range((n + team.size - 1) // team.size):
        m = i * team.size + team.rank
        keep = m < n
        d = distance[m] if keep else math.inf
        t = time[m] if keep else -1
        if ranked:
            keep = keep and ranks_before(n, distance, time, d, t) < k
        elif n > k:
            keep = keep & (as_near(n, distance, d) <= k)
        w = weight_of(pk.sqrt(d), nearest)
        total += pk.where(keep, w, 0.0)
        team.append(kept_time, kept, t, keep)
        kept = team.append(weight, kept, w, keep)
    return kept, total


@pk.function
def weigh(team, n, k, nearest, lists):
    """Store the simplex weights (2) of the k nearest of a list, not normalised. Returns their sum. One
    exponential a neighbour."""
    distance, time, weight, kept_time = lists
    for m in team.thread_range(n, n + 3):
        distance[m] = math.inf
    team.barrier()
    kept, total = keep_weights(team, n, k, False, nearest, distance, time, weight, kept_time)
    if kept < k:
        team.barrier()
        kept, total = keep_weights(team, n, k, True, nearest, distance, time, weight, kept_time)
    total = team.reduce(total)
    team.barrier()
    return total


@pk.function
def list_at(lists, b, u):
    """Return the weights and rows of set b and search u, and the number of entries per point."""
    begin = pk.int64(lists.begin[u]) * lists.room
    length = pk.int64(lists.begin[u + 1] - lists.begin[u])
    return lists.weights[b][begin:], lists.rows[b][begin:], length


@pk.kernel(teams=WEIGHING)
def weigh_neighbours(
    team, n_most, most_wanted, room, first_point, last_point, Tp, n_times, library, asked, found, into
):
    """Store lists of neighbours with the weights (2); one team per set, block of points, and search.

    n_most, most_wanted : the maxima of `found.dims` and `found.wanted`
    n_times : number of times of the observed targets; time s is predicted if 0 <= s + Tp < n_times
    into : Lists
    """
    distance, time = team.scratch(room, library.values.dtype), team.scratch(room, pk.int32)
    near, near_time = team.scratch(most_wanted, library.values.dtype), team.scratch(most_wanted, pk.int32)
    row, point = team.scratch(n_most, pk.int32), team.scratch(n_most, library.values.dtype)
    own, lists = (row, point, team.scratch(CHOSEN, pk.int32)), (distance, time, near, near_time)
    n_blocks = (last_point - first_point + BLOCK - 1) // BLOCK
    n_searches = found.dims.shape[0]
    u = team.league_rank % n_searches
    n_dims = pk.int64(found.dims[u])
    k = pk.int64(found.wanted[u])
    b = team.league_rank // n_searches // n_blocks
    weights, rows, length = list_at(into, b, u)
    find_rows(team, n_dims, library, row)
    begin = first_point + team.league_rank // n_searches % n_blocks * BLOCK
    for s in range(begin, min(begin + BLOCK, last_point)):
        number = s - first_point
        at = pk.int64(number) * length
        n = list_neighbours(team, n_dims, k, b, u, s, number, library, asked, found, own, lists)
        if n >= k and 0 <= s + Tp and s + Tp < n_times:
            share = 1.0 / weigh(team, n, k, pk.sqrt(found.closest[b, u, number]), lists)
            first_time = near_time[0]
            for m in team.thread_range(length):
                weights[at + m] = near[m] * share if m < k else 0.0
                rows[at + m] = (near_time[m] if m < k else first_time) + Tp
        else:
            for m in team.thread_range(length):
                weights[at + m] = math.nan
                rows[at + m] = 0
        team.barrier()


@pk.function
def four_of(values, at):
    """Return four values in succession; a slice would be clipped at run time."""
    return values[at], values[at + 1], values[at + 2], values[at + 3]


@pk.function
def predict_some(abreast, at_once, q, number, end, lists, target, p):
    """Store the predictions (3) of the points from `number` on, before `end`, and of the targets q, q +
    APART, ..., in p, shape (at_once, abreast).

    lists : from `list_at`
    """
    weights, rows, length = lists
    for j in range(pk.static(at_once)):
        for i in range(pk.static(abreast)):
            p[j, i] = 0.0
    for m in range(0, length, 4):
        for j in range(pk.static(at_once)):
            at = pk.int64(min(number + j, end - 1)) * length + m
            w, r = four_of(weights, at), four_of(rows, at)
            for i in range(pk.static(abreast)):
                c = q + i * APART
                p[j, i] += (w[0] * target[r[0], c] + w[1] * target[r[1], c]) + (
                    w[2] * target[r[2], c] + w[3] * target[r[3], c]
                )


@pk.function
def add_terms(there, p, o, i, sum):
    """Add the terms of (4) of a prediction p and an observation o to column i of `sum` if both are known."""
    known = pk.isfinite(p + o) & there
    for v, term in enumerate((1.0, p, o, p * p, o * o, p * o)):
        sum[v, i] += pk.where(known, term, 0.0)


@pk.kernel(teams=LOOKING_UP)
def look_up(
    team,
    wide,
    abreast,
    at_once,
    n_sets,
    n_points,
    first_time,
    slices,
    lists,
    target,
    observed,
    still_open,
    sums,
):
    """Predict by (3) and sum the terms of Pearson's rho (4); one team per slice of targets, set, and block of
    points.

    A team member predicts `abreast` targets at a time, so that each entry of a list is read once for all of
    them, and `at_once` points, so that few instructions depend on the preceding one. All sets process a slice
    before the next one, while it is in cache: 2 k operations and 4 k bytes of cache traffic a point and
    target.

    wide : compile-time constant, True for teams with several members per target, since few teams of one warp
        would leave a GPU idle: members predict different points, and one sums the terms of a target, in the
        same order
    n_points, first_time : number of points, and the time at which the first is observed
    slices : shape (n_slices, 5): the search, the first column of `target`, the number of columns (at most
        abreast * APART), the index in `sums` of the first, and the owner of the columns if they are
        surrogates, else -1
    lists : Lists
    still_open : shape (n_sets, n_owners), 0 to skip the slices of an owner
    target : shape (n_times, n_columns), standardised, NaN where missing; padded to abreast * APART columns
        from the first column of each slice. `observed` is the same on the points' times
    sums : shape (n_sets, n_blocks, SUMS, n_targets), of blocks of BLOCK points
    """
    n_blocks = (n_points + BLOCK - 1) // BLOCK
    which = slices[team.league_rank // (n_sets * n_blocks)]
    b = team.league_rank // n_blocks % n_sets
    n_block = team.league_rank % n_blocks
    if which[4] >= 0:
        if still_open[b, which[4]] == 0:
            return
    first, last = which[1], which[1] + which[2]
    begin = n_block * BLOCK
    end = min(begin + BLOCK, n_points)
    own_lists, own_sums = list_at(lists, b, which[0]), sums[b, n_block]
    predicted = team.scratch((BLOCK + at_once if wide else 1, abreast * APART), target.dtype)
    p = pk.local((at_once, abreast), target.dtype)
    sum = pk.local((SUMS, abreast), target.dtype)
    if wide:
        for item in team.thread_range((end - begin + at_once - 1) // at_once * APART):
            n = item // APART * at_once
            c = item % APART
            predict_some(abreast, at_once, first + c, begin + n, end, own_lists, target, p)
            for j in range(pk.static(at_once)):
                for i in range(pk.static(abreast)):
                    predicted[n + j, c + i * APART] = p[j, i]
        team.barrier()
    for q in team.thread_range(first, min(last, first + APART)):
        for v in range(SUMS):
            for i in range(pk.static(abreast)):
                sum[v, i] = 0.0
        for number in range(begin, end, at_once):
            if not wide:
                predict_some(abreast, at_once, q, number, end, own_lists, target, p)
            for j in range(pk.static(at_once)):
                s = min(max(first_time + number + j, 0), observed.shape[0] - 1)
                for i in range(pk.static(abreast)):
                    c = q + i * APART
                    value = predicted[number - begin + j, c - first] if wide else p[j, i]
                    add_terms(number + j < end, value, observed[s, c], i, sum)
        for v in range(SUMS):
            for i in range(pk.static(abreast)):
                if q + i * APART < last:
                    own_sums[v, which[3] + q + i * APART - first] = sum[v, i]


@pk.function
def correlation_of(sums, b, q, least):
    """Return Pearson's rho (4) from the sums of all blocks, accumulated in float64.

    NaN if predictions or observations do not vary: a variance below `least` times the mean square is
    attributed to rounding.
    """
    total = pk.local(SUMS, pk.float64)
    for v in range(SUMS):
        total[v] = 0.0
    for block in range(sums.shape[1]):
        for v in range(SUMS):
            total[v] += sums[b, block, v, q]
    n, p, o = total[0], total[1], total[2]
    pp, oo, po = total[3], total[4], total[5]
    predicted = pp - p * p / n
    seen = oo - o * o / n
    varies = predicted > least * pp and seen > least * oo
    return (po - p * o / n) / pk.sqrt(predicted * seen) if varies else math.nan


@pk.kernel
def correlate(b, q, least, target_of, sums, rho):
    """Store Pearson's rho (4) of set b and target q in rho[b, target_of[q]]. 8 n_blocks SUMS bytes a
    number."""
    rho[b, target_of[q]] = correlation_of(sums, b, q, least)


@pk.kernel
def nearest(team, n_dims, room, k, first_point, last_point, library, asked, found, distances, times):
    """Store the k nearest candidates of each point, sorted by distance; one team per group of points.

    distances, times : shape (n_points, k); infinity and -1 beyond the last neighbour
    """
    distance, time = team.scratch(room, library.values.dtype), team.scratch(room, pk.int32)
    near, near_time = team.scratch(k, library.values.dtype), team.scratch(k, pk.int32)
    row, point = team.scratch(n_dims, pk.int32), team.scratch(n_dims, library.values.dtype)
    own, lists = (row, point, team.scratch(CHOSEN, pk.int32)), (distance, time, near, near_time)
    find_rows(team, n_dims, library, row)
    begin = first_point + team.league_rank * GROUP
    for s in range(begin, min(begin + GROUP, last_point)):
        number = s - first_point
        n = list_neighbours(team, n_dims, k, 0, 0, s, number, library, asked, found, own, lists)
        sort_nearest(team, n, k, distance, time, near, near_time)
        for m in team.thread_range(k):
            there = m < n
            distances[number, m] = pk.sqrt(near[m]) if there else math.inf
            times[number, m] = near_time[m] if there else -1
        team.barrier()
