"""Kernels that generate surrogate series, and count those whose skill is at least that of the series.

Arguments that recur
    columns     the series, shape (n_times, n_series)
    slot        shape (n_series,), the position of each series in `table`
    table       the surrogates, shape (n_times, n_slots * width): surrogate number first + s of series c is
                column slot[c] * width + s, s < n
    number      shape (n_series,), identifies the random numbers of each series: surrogate k of series c uses
                the stream number[c] 2^32 + k in every launch
"""

import math

import portable as pk

from ..shared.shared_kernels import mixed
from .list_kernels import correlation_of

STREAMS = 1 << 32


@pk.kernel
def rephase(
    team, n_rows, n_columns, n, first, width, seed, number, slot, amplitude, wave, rhythm, work, table
):
    """Generate series with given amplitudes and random phases, one team per surrogate at a time: 4 m (n_rows
    / 2 + n_columns) fused operations.

    With m = n_rows n_columns, time t = p + n_rows q and frequency j = i n_columns + r,

        y_t = Re sum_r e^(2 pi i r q / n_columns) e^(2 pi i r p / m) sum_i z_j e^(2 pi i i p / n_rows)

    amplitude : shape (n_series, m // 2 + 1), of frequencies 0, 1/m, ..., 1/2; that of 0 is the mean
    wave : shape (2, m), cosine and sine of 2 pi t / m
    rhythm : shape (period, n_series), the periodic component that is added to the series
    work : shape (n_teams, 4, m), temporary memory
    table : n_times < 2 m; times from m on repeat those from 0 on; if n_times < m, the first n_times are kept
    """
    m = n_rows * n_columns
    half = m // 2
    own = work[team.league_rank]
    for turn in range((amplitude.shape[0] * n - team.league_rank + team.league_size - 1) // team.league_size):
        task = team.league_rank + turn * team.league_size
        c = task // n
        s = task % n
        stream = pk.int64(number[c]) * STREAMS + first + s
        for j in team.thread_range(half + 1):
            share = pk.random.uniform(seed, stream, j)
            angle = 2.0 * math.pi * share
            upright = j == 0 or 2 * j == m  # the sine is 0 at all times
            sign = 1.0 if j == 0 or share < 0.5 else -1.0
            own[0, j] = amplitude[c, j] * (sign if upright else pk.cos(angle))
            own[1, j] = 0.0 if upright else amplitude[c, j] * pk.sin(angle)
        team.barrier()
        for p in range(n_rows):
            for r in team.thread_range(n_columns):
                real = pk.float64(0.0)
                imaginary = pk.float64(0.0)
                at = 0
                for i in range(half // n_columns + 1):
                    j = i * n_columns + r
                    if j <= half:
                        real += own[0, j] * wave[0, at] - own[1, j] * wave[1, at]
                        imaginary += own[0, j] * wave[1, at] + own[1, j] * wave[0, at]
                    at += p * n_columns
                    at = at - m if at >= m else at
                own[2, r * n_rows + p] = real * wave[0, r * p] - imaginary * wave[1, r * p]
                own[3, r * n_rows + p] = real * wave[1, r * p] + imaginary * wave[0, r * p]
        team.barrier()
        for q in range(n_columns):
            for p in team.thread_range(n_rows):
                value = pk.float64(0.0)
                at = 0
                for r in range(n_columns):
                    value += own[2, r * n_rows + p] * wave[0, at] - own[3, r * n_rows + p] * wave[1, at]
                    at += q * n_rows
                    at = at - m if at >= m else at
                t = p + n_rows * q
                at = slot[c] * width + s
                if t < table.shape[0]:
                    table[t, at] = value + rhythm[t % rhythm.shape[0], c]
                if t + m < table.shape[0]:
                    table[t + m, at] = value + rhythm[(t + m) % rhythm.shape[0], c]
        team.barrier()


@pk.kernel
def shuffle(c, s, first, width, seed, number, slot, n_known, known, columns, table):
    """Permute the values of a series at random, all orders equally likely (Fisher and Yates); missing values
    keep their times.

    known : shape (n_times, n_series), the first n_known[c] entries of a column are the times that have a
        value
    """
    stream = pk.int64(number[c]) * STREAMS + first + s
    at = slot[c] * width + s
    for t in range(columns.shape[0]):
        table[t, at] = columns[t, c]
    for i in range(n_known[c] - 1, 0, -1):
        here = known[i, c]
        there = known[pk.random.randint(seed, stream, i, i + 1), c]
        kept = table[here, at]
        table[here, at] = table[there, at]
        table[there, at] = kept


@pk.kernel
def draw_blocks(c, s, first, width, seed, number, slot, block, columns, table):
    """Draw blocks of `block` successive values with random starts; the series is treated as circular, the
    first value after the last one."""
    n_times = columns.shape[0]
    stream = pk.int64(number[c]) * STREAMS + first + s
    begin = 0
    for t in range(n_times):
        if t % block == 0:
            begin = pk.random.randint(seed, stream, t, n_times)
        at = begin + t % block
        table[t, slot[c] * width + s] = columns[at if at < n_times else at - n_times, c]


@pk.kernel
def fingerprint(c, i, dims, tau, reach, columns, prints):
    """Store a hash of the set of points within reach[c] of point i in the maximum norm, the sum of the
    points' hashes. 3 E operations a pair.

    prints : uint64, shape (n_series, n_points); dims : shape (n_series,); point i ends at time i + (dims[c] -
    1) tau
    """
    shift = (dims[c] - 1) * tau
    if i + shift >= columns.shape[0]:
        return
    total = pk.uint64(0)
    for j in range(columns.shape[0] - shift):
        farthest = pk.float64(0.0)
        for e in range(dims[c]):
            farthest = max(farthest, abs(columns[i + e * tau, c] - columns[j + e * tau, c]))
        total += pk.where(farthest <= reach[c], mixed(pk.uint64(j + 1) * 0x9E3779B97F4A7C15), pk.uint64(0))
    prints[c, i] = total


@pk.kernel
def walk_twins(c, s, first, width, seed, number, slot, n_points, shift, begin, twins, columns, table):
    """Generate a twin surrogate, a random walk over the points: each step goes to the successor of the point
    or of one of its twins, drawn at random. From the last point, if it has no twin, it goes to any point.

    n_points, shift : shape (n_series,), number of points of the embedding, and the time of point 0
    begin : shape (n_series, n_times, 2), index in `twins` of the first twin of a point, and their number; the
        point itself is among them, the last point is not
    twins : shape (n_series, n_times)
    """
    stream = pk.int64(number[c]) * STREAMS + first + s
    n_times = columns.shape[0]
    at = pk.random.randint(seed, stream, n_times, n_points[c])
    for t in range(n_times):
        table[t, slot[c] * width + s] = columns[at + shift[c], c]
        n_twins = begin[c, at, 1]
        if n_twins > 0:
            one = begin[c, at, 0] + pk.random.randint(seed, stream, t, n_twins)
            at = pk.int64(twins[c, one]) + 1
        else:
            at = pk.random.randint(seed, stream, t, n_points[c])


@pk.kernel
def put_in_places(i, c, time, table, out):
    """Store in row i of column c the value at time[i], or NaN if time[i] < 0. 20 bytes an element."""
    out[i, c] = table[max(time[i], 0), c] if time[i] >= 0 else math.nan


@pk.kernel
def open_pairs(b, q, target_of, rho, still_open, counts):
    """Initialise the test of set b and target q, before the first surrogate: the pair is open if its rho is
    finite.

    still_open : shape (n_sets, n_targets), in the order of searches
    counts : shape (n_sets, 2, n_targets): the number of surrogates with at least the skill of the target, and
        the number of surrogates with a finite skill
    """
    still_open[b, q] = pk.where(pk.isfinite(rho[b, target_of[q]]), pk.int32(1), pk.int32(0))
    for v in range(2):
        counts[b, v, target_of[q]] = 0


@pk.kernel
def correlate_open(b, i, n, width, least, sums, still_open, skill):
    """Store Pearson's rho (4) of surrogate i % width of target i // width, if the pair is open. 8 n_blocks
    SUMS bytes a surrogate.

    n : number of surrogates of each target; their sums begin at multiples of `width`
    skill : shape (n_sets, n_targets * width)
    """
    if i % width < n and still_open[b, i // width] != 0:
        skill[b, i] = correlation_of(sums, b, i, least)


@pk.kernel
def count_better(b, q, n, width, stop, target_of, skill, rho, still_open, counts):
    """Count the surrogates of target q whose rho is at least that of the target, in order, until there are
    `stop` of them; then the pair is closed.
    """
    if still_open[b, q] == 0:
        return
    own = rho[b, target_of[q]]
    better = counts[b, 0, target_of[q]]
    tried = counts[b, 1, target_of[q]]
    for s in range(n):
        if better < stop:
            value = skill[b, q * width + s]
            better += pk.where(value >= own, pk.int32(1), pk.int32(0))
            tried += pk.where(pk.isfinite(value), pk.int32(1), pk.int32(0))
    counts[b, 0, target_of[q]] = better
    counts[b, 1, target_of[q]] = tried
    still_open[b, q] = pk.where(better < stop, pk.int32(1), pk.int32(0))
