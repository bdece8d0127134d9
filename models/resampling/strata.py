"""Kernels of multinomial draws in ascending order, without a search or a sort.

M independent uniform positions are cut into B strata of equal size. How many fall into a stratum is Poisson(1) for each,
independently, but for what is missing to M: given their sum L <= M the counts are those of L independent positions, and
M - L further positions are drawn one by one. B is M - 10 sqrt(M), so that L > M has a probability below 10^-20 (draws
beyond the M-th are dropped). Below a hundred draws all are drawn one by one.

Arguments beyond those of `spreading`
    wanted   shape (n_rows,), int64: M
    counts   shape (n_rows, at least B + 1), int32: draws of a stratum, then draws before it
    before   shape (n_rows, n_tiles + 1), uint64: draws before a tile of TILE strata
"""

import math

import portable as pk

from .spreading import FEW, key, n_strata, residue_bits
from .weighing import fixed, scale, split

TILE = 2048  # strata of a team
QUARTER = TILE // 4  # strata b, b + QUARTER, ... of a tile share a block of random bits
EXTRA = 2**31  # the first draw of positions that are drawn one by one


def poisson_quantiles():
    """P(c <= k) for Poisson(1) in units of 2^-32, until it is 1."""
    terms = [math.exp(-1.0) / math.factorial(k) for k in range(13)]
    return tuple(round(math.fsum(terms[: k + 1]) * 2**32) for k in range(12))


QUANTILES = poisson_quantiles()
COMMON = 7  # counts beyond it are one in 100,000


@pk.function
def poisson(word):
    """A Poisson(1) number by inversion of 32 bits: its law is the same in all strata, and right to 2^-32."""
    u = pk.int64(word)
    count = 0
    for k in range(COMMON):
        count += pk.where(u >= QUANTILES[k], 1, 0)
    if u >= QUANTILES[COMMON]:
        for k in range(COMMON, len(QUANTILES)):
            count += pk.where(u >= QUANTILES[k], 1, 0)
    return count


@pk.kernel
def begin_draws(r, n_draws, wanted, before):
    """M draws in each row, none drawn yet. 16 bytes."""
    wanted[r] = n_draws
    before[r, before.shape[1] - 1] = pk.uint64(0)


@pk.kernel
def begin_residual_draws(r, n_draws, copies, wanted, before):
    """The draws that whole copies leave. 24 bytes."""
    wanted[r] = n_draws - pk.int64(copies[r, copies.shape[1] - 1])
    before[r, before.shape[1] - 1] = pk.uint64(0)


@pk.kernel
def weigh_residues(team, tile_size, bits, log, n_draws, w, extremes, sums, copies, offsets):
    """Whole copies floor(M q / Q) of a tile, and what they leave, M q mod Q; a team a tile. One read of the weights."""
    n_tiles = sums.shape[1] - 1
    r = team.league_rank // n_tiles
    tile = team.league_rank % n_tiles
    row_scale = scale(extremes, r, bits, log, w)
    total = sums[r, n_tiles]
    ratio = pk.float64(n_draws) / pk.float64(pk.int64(total))
    lost = pk.uint64(residue_bits(w.shape[1], n_draws, total))
    begin = tile * tile_size
    whole = pk.int64(0)
    left = pk.uint64(0)
    for i in team.thread_range(begin, min(begin + tile_size, w.shape[1])):
        o, rest = split(fixed(w[r, i], row_scale, log), pk.uint64(n_draws), total, ratio)
        whole += o
        left += pk.uint64(rest) >> lost
    whole = team.reduce(whole)
    left = team.reduce(left)
    if team.single():
        copies[r, tile] = pk.uint64(whole)
        offsets[r, tile] = left


@pk.kernel
def fill_strata(team, wanted, seed, step, counts, before):
    """Poisson counts of a tile of strata; a team a tile. A block of random bits for four strata, 4 bytes out."""
    n_tiles = before.shape[1] - 1
    r = team.league_rank // n_tiles
    tile = team.league_rank % n_tiles
    first = tile * TILE
    n = n_strata(wanted[r])
    few = wanted[r] < FEW
    drawn = 0
    for i in team.thread_range(min(QUARTER, max(n - first, 0))):
        words = pk.random.words(seed, key(r, first + i), step)
        for m in range(4):
            b = first + i + m * QUARTER
            if b < n:
                count = 0 if few else poisson(words[m])
                counts[r, b] = count
                drawn += count
    drawn = team.reduce(drawn)
    if team.single():
        before[r, tile] = pk.uint64(drawn)
        pk.atomic_add(before, (r, n_tiles), pk.uint64(drawn))


@pk.kernel
def draw_one_by_one(r, k, stride, wanted, seed, step, counts, before):
    """What the Poisson counts leave of M, `stride` indices a row. A block of random bits and two atomics a draw."""
    missing = wanted[r] - pk.int64(before[r, before.shape[1] - 1])
    n = pk.uint64(n_strata(wanted[r]))
    j = pk.int64(k)
    while j < missing:
        words = pk.random.words(seed, key(r, j), step + pk.uint64(EXTRA))
        b = pk.int64((pk.uint64(words[1]) * n + ((pk.uint64(words[0]) * n) >> 32)) >> 32)
        pk.atomic_add(counts, (r, b), 1)
        pk.atomic_add(before, (r, b // TILE), pk.uint64(1))
        j += stride


@pk.kernel
def lay_strata(team, wanted, before, counts):
    """Counts become draws before each stratum, and at the end M; a team a tile of strata. 8 bytes."""
    n_tiles = before.shape[1] - 1
    r = team.league_rank // n_tiles
    tile = team.league_rank % n_tiles
    first = tile * TILE
    n = n_strata(wanted[r])
    carry = pk.int64(before[r, tile])
    for base in range(first, min(first + TILE, n), team.size):
        b = base + team.rank
        count = pk.int64(0)
        if b < n:
            count = pk.int64(counts[r, b])
        after = carry + team.scan(count) + count
        if b < n:
            counts[r, b] = pk.int32(min(after - count, wanted[r]))
        carry = team.broadcast(after, team.size - 1)
    if team.single() and tile == 0:
        counts[r, n] = pk.int32(wanted[r])
