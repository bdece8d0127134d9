"""Kernels of multinomial draws in ascending order, without a search or a sort.

M independent uniform positions are divided into B strata of equal size. The counts of the strata are
independent Poisson(1) numbers plus a correction: given their sum L <= M they are the counts of L independent
positions, and M - L further positions are drawn one by one. B is M - 10 sqrt(M), so that L > M has a
probability below 10^-20 (draws beyond the M-th are dropped). Fewer than FEW draws are all drawn one by one.

Arguments beyond those of `spreading`
    wanted   shape (n_rows,), int64: M
    records  shape (n_rows, more than B / 4), uint64: the counts of strata 4 g, ..., 4 g + 3 in 8 bits each,
             the first in the lowest, and above them, in 32 bits, the number of draws before these strata.
             (Four strata have more than 255 draws with a probability below 10^-300.)
    before   shape (n_rows, n_tiles + 1), uint64: number of draws before a tile of TILE strata
"""

import math

import portable as pk

from .ancestor_kernels import FEW, LOW, key, n_strata, residue_bits
from .weight_kernels import fixed, real, scale, split, tile_of

TILE = 2048  # strata of a team
RECORDS = TILE // 4
EXTRA = 2**31  # the first draw of positions that are drawn one by one


def poisson_quantiles():
    """Compute P(c <= k) for Poisson(1) in units of 2^-32, until it is 1."""
    terms = [math.exp(-1.0) / math.factorial(k) for k in range(13)]
    return tuple(round(math.fsum(terms[: k + 1]) * 2**32) for k in range(12))


QUANTILES = poisson_quantiles()
COMMON = 5  # larger counts have a probability of 1 / 1,700


@pk.function
def poisson(word):
    """Draw a Poisson(1) number by inversion of 32 bits: its law is the same in all strata, and accurate to
    2^-32."""
    count = pk.uint32(0)
    for k in range(COMMON):
        count += pk.uint32(word >= pk.uint32(QUANTILES[k]))
    if word >= pk.uint32(QUANTILES[COMMON]):
        for k in range(COMMON, len(QUANTILES)):
            count += pk.uint32(word >= pk.uint32(QUANTILES[k]))
    return count


@pk.kernel
def begin_draws(r, n_draws, copies, wanted, before):
    """Set the number of draws of each row to M, less its whole copies if there are any, and the number drawn
    so far to 0. 24 bytes."""
    wanted[r] = n_draws
    if copies is not None:
        wanted[r] -= pk.int64(copies[r, copies.shape[1] - 1])
    before[r, before.shape[1] - 1] = pk.uint64(0)


@pk.function
def weigh_range(team, r, begin, end, row_scale, n_draws, total, w):
    """Add up the whole copies floor(M q / Q) and the remainders M q mod Q over a range of a row."""
    ratio = pk.float64(n_draws) / real(total)
    lost = pk.uint64(residue_bits(w.shape[1], n_draws, total))
    whole = pk.int64(0)
    left = pk.uint64(0)
    for i in team.thread_range(begin, end):
        o, rest = split(fixed(w[r, i], row_scale), pk.uint64(n_draws), total, ratio)
        whole += o
        left += pk.uint64(rest) >> lost
    whole = team.reduce(whole)
    left = team.reduce(left)
    return whole, left


@pk.kernel
def weigh_residues(team, tile_size, bits, log, w, extremes, sums, n_draws, copies, offsets):
    """Add up whole copies and remainders over a tile; one team per tile. One read of the weights."""
    n_tiles, r, tile, begin, end = tile_of(team, sums, tile_size, w.shape[1])
    row_scale = scale(extremes, r, bits, log)
    whole, left = weigh_range(team, r, begin, end, row_scale, n_draws, sums[r, n_tiles], w)
    if team.single():
        copies[r, tile] = pk.uint64(whole)
        offsets[r, tile] = left


@pk.function
def sum_of_counts(record):
    """Add up the counts of a record's four strata: the fourth byte of the product is the sum of the first
    factor's bytes."""
    return (((record & LOW) * 0x01010101) >> 24) & 255


@pk.function
def fill_tile(team, r, tile, wanted, seed, step, records):
    """Draw the Poisson counts of a tile of strata; return their sum. A block of random bits for four
    strata."""
    n = n_strata(wanted)
    last = 0 if wanted < FEW else n
    drawn = pk.uint64(0)
    for g in team.thread_range(tile * RECORDS, min((tile + 1) * RECORDS, (n + 3) // 4)):
        words = pk.random.words(seed, key(r, g), step)
        record = pk.uint32(0)
        for m in range(4):
            record |= poisson(words[m]) << (8 * m)
        here = pk.uint64(8 * min(max(last - 4 * g, 0), 4))
        record = record & ((pk.uint64(1) << here) - pk.uint64(1))
        records[r, g] = record
        drawn += sum_of_counts(record)
    return team.reduce(drawn)


@pk.kernel
def fill_strata(team, wanted, seed, step, records, before):
    """Draw the Poisson counts of a tile of strata; one team per tile. A block of random bits and 8 bytes out
    for four strata."""
    n_tiles, r, tile, _, _ = tile_of(team, before, TILE, 0)
    drawn = fill_tile(team, r, tile, wanted[r], seed, step, records)
    if team.single():
        before[r, tile] = drawn
        pk.atomic_add(before, (r, n_tiles), drawn)


@pk.function
def draw_one(r, j, n, seed, step, records):
    """Draw position j of those beyond the Poisson counts, uniformly among n strata; return its stratum."""
    words = pk.random.words(seed, key(r, j), step + pk.uint64(EXTRA))
    b = pk.int64((pk.uint64(words[1]) * n + ((pk.uint64(words[0]) * n) >> 32)) >> 32)
    pk.atomic_add(records, (r, b // 4), pk.uint64(1) << pk.uint64(8 * (b % 4)))
    return b


@pk.kernel
def draw_one_by_one(r, k, stride, wanted, seed, step, records, before):
    """Draw the M - L positions beyond the Poisson counts, `stride` indices of a row at a time. A block of
    random bits and two atomics for each draw."""
    missing = wanted[r] - pk.int64(before[r, before.shape[1] - 1])
    n = pk.uint64(n_strata(wanted[r]))
    j = pk.int64(k)
    while j < missing:
        b = draw_one(r, j, n, seed, step, records)
        pk.atomic_add(before, (r, b // TILE), pk.uint64(1))
        j += stride


@pk.function
def lay_tile(team, r, tile, carry, wanted, records):
    """Add to each record of a tile the number of draws before it, from `carry` before the tile; the record
    after the last stratum gets M."""
    n = n_strata(wanted)
    end = min((tile + 1) * RECORDS, (n + 3) // 4)
    for first in range(tile * RECORDS, end, team.size):
        g = first + team.rank
        record = pk.uint64(0)
        if g < end:
            record = records[r, g]
        count = sum_of_counts(record)
        after = carry + team.scan(count) + count
        if g < end:
            records[r, g] = record | ((after - count) << 32)
        carry = team.broadcast(after, team.size - 1)
    if team.single() and tile == 0 and n % 4 == 0:
        records[r, n // 4] = pk.uint64(wanted) << 32


@pk.kernel
def lay_strata(team, wanted, before, records):
    """Add to each record the number of draws before it, and M after the last stratum; one team per tile of
    strata. 16 bytes for four strata."""
    _, r, tile, _, _ = tile_of(team, before, TILE, 0)
    lay_tile(team, r, tile, before[r, tile], wanted[r], records)
