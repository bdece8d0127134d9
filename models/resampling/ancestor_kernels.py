"""Kernels that turn scanned weights into ancestors, tile by tile; the notation is that of
`portable.models.resampling`.

A particle's cumulative offspring O_i follow from Q_i by arithmetic, without a search. So a team scans its
tile and writes each particle's number to its places O_(i-1) .. O_i - 1. If these are few, the member that
owns the particle writes them. If they are many, the whole team writes them, from the O_i of such heavy
particles in scratch; aligned stretches of LONG places are left to `fill_stretches`, which has separate teams.

Arguments beyond those of `weighing`
    seed, step   uint64: the key, and the first draw of this call
    sums         shape (n_rows, n_tiles + 1), uint64: the sum of q before each tile, and Q in the last column
    draws        of multinomial schemes (wanted, records) as in `portable.models.resampling.strata`; of
                 residual resampling (wanted, records, copies, residues), where copies and residues are whole
                 copies and their remainders, laid out like `sums`; 0 for other schemes
    stretches    shape (n_rows, n_stretches), int64: the owner of LONG draws in a row, or -1
"""

import math
from typing import Any, NamedTuple

import portable as pk

from .weight_kernels import (
    COARSE,
    MOST,
    RELATIVE,
    STEPS,
    WHOLE,
    WHOLE_BITS,
    fixed,
    real,
    relative,
    scale,
    split,
    tile_of,
)

LONG = 4096  # places in a stretch
GROUP = 16  # stretches of a team
ITEMS = 8  # neighbours that a member scans serially; a team spreads those of all its members at once
BANKS = 32  # largest number of members of a team
WINDOW = 2 * ITEMS * BANKS  # draws that are written from marks; if there are more, particles are heavy
SPAN = 12  # draws that a member fills in first: in most cases all of them
REST = WINDOW // BANKS - SPAN
LOW = 2**32 - 1
FEW = 128  # multinomial draws that are drawn one by one


@pk.function
def key(r, k):
    """Return the stream of particle k of row r; k < 2^32."""
    return (pk.uint64(r) << 32) | pk.uint64(k)


class Row(NamedTuple):
    """Quantities of a row for a scheme: the start of its draws, Q, the number of equal parts of Q and that
    number over Q, the key, and the multinomial draws."""

    r: Any
    start: Any
    total: Any
    parts: Any
    ratio: Any
    seed: Any
    step: Any
    wanted: Any
    draws: Any


@pk.function
def one_start(r, total, seed, step):
    """Draw the one random number of systematic resampling, in [0, Q)."""
    return pk.uint64(pk.random.randint(seed, key(r, 0), step, total))


@pk.function
def below_systematic(position, row):
    """Count the positions floor((k Q + start) / M) below Q_i: the k with k < y = (Q_i M - start) / Q.

    1 + y is computed as a whole number of steps of 2^-20, with an error of at most two steps: unless y is
    that near to a whole number, its whole part is the count; otherwise products of whole numbers decide
    exactly.
    """
    steps = pk.bits(pk.fma(real(position), row.ratio, STEPS - real(row.start) / real(row.total)))
    k = (steps >> 20) & MOST
    if ((steps + 4) & (2**20 - 1)) < 8:
        k = (((steps + 2**19) >> 20) & MOST) - 1
        # 64 bits: correct although the products wrap
        rest = pk.int64(position * row.parts - pk.uint64(k) * row.total - row.start)
        k += pk.where(rest > 0, 1, 0)
    return k


@pk.function
def ends_in_steps(position, row, before, own, own_end):
    """Compute below_systematic less `before` at a position and, into own_end, after each of ITEMS neighbours.

    Return the count at the position, and True if any count is in doubt: counts are whole parts of numbers in
    steps of 2^-19, with an error of at most two steps, and one of these numbers is within four steps of a
    whole number.
    """
    origin = COARSE - real(row.start) / real(row.total) - pk.float64(before)
    here = pk.fma(real(position), row.ratio, origin)
    steps = pk.bits(here)
    low = pk.int32((steps >> 19) & LOW)
    nearest = pk.int32((steps + 4) & (2**19 - 8))
    passed = pk.uint64(0)
    for m in range(ITEMS):
        passed += own[m]
        steps = pk.bits(pk.fma(real(passed), row.ratio, here))
        own_end[m] = pk.int32((steps >> 19) & LOW)
        nearest = min(nearest, pk.int32((steps + 4) & (2**19 - 8)))
    return low, nearest == 0


@pk.function
def below_stratified(position, row):
    """Count the positions below Q_i as below_systematic, but with a separate uniform u_k in each stratum: k
    counts if u_k < part."""
    k, part = place(position, row)
    return k + pk.where(pk.random.uniform(row.seed, key(row.r, k), row.step) < part, 1, 0)


@pk.function
def below_multinomial(position, row):
    """Count the multinomial draws below Q_i: those of earlier strata, and those below it in its own stratum,
    which have 32 bits each, four to a block."""
    b, part = place(position, row)
    record = row.draws[1][row.r, b >> 2]
    shift = pk.uint64((b & 3) << 3)
    # counts of strata that share the record
    earlier = record & ((pk.uint64(1) << shift) - pk.uint64(1)) & 0xFFFFFF
    found = pk.int64((record >> 32) + (((earlier * 0x010101) >> 16) & 255))
    n_here = pk.int64((record >> shift) & 255)
    limit = as_number(pk.floor(part * 2.0**32))
    stream = key(row.r, b)
    found += below_in_block(pk.random.words(row.seed, stream, row.step + pk.uint64(1)), n_here, limit)
    block = 1
    while 4 * block < n_here:
        found += below_in_block(
            pk.random.words(row.seed, stream, row.step + pk.uint64(1 + block)), n_here - 4 * block, limit
        )
        block += 1
    return min(found, row.wanted)


@pk.function
def place(position, row):
    """Return (k, part): the number of the equal part of Q that a position is in, or `parts` at the end of Q,
    and the position within it, from 0 to 1.

    Accurate to parts 2^-51 and never descending: from 2,048 parts on, that is less than weights lose when
    they are rounded to whole numbers.
    """
    y = min(real(position) * row.ratio, real(row.parts))
    whole = pk.floor(y)
    return as_number(whole), y - whole


@pk.function
def as_number(whole):
    """Convert a whole float64 from 0 to below WHOLE to int64 by its bits, as in `fixed`."""
    return pk.int64(pk.bits(whole + WHOLE) ^ WHOLE_BITS)


@pk.function
def parts_over(total, parts):
    """Compute parts / total, rounded so that total times it is at least parts."""
    ratio = real(parts) / real(total)
    return pk.where(real(total) * ratio < real(parts), ratio * (1.0 + 2.0**-52), ratio)


@pk.function
def below_in_block(words, n_here, limit):
    """Count the words below a limit, among the first n_here."""
    found = 0
    for m in range(4):
        found += pk.where(n_here > m and pk.int64(words[m]) < limit, 1, 0)
    return found


@pk.function
def n_strata(n_draws):
    """Compute B, the number of strata of multinomial draws; at least 1."""
    return pk.where(n_draws < FEW, max(n_draws, 1), n_draws - pk.int64(10.0 * pk.sqrt(pk.float64(n_draws))))


@pk.function
def residue_bits(n, n_draws, total):
    """Compute the number of bits to drop from each residue, so that their sum stays below 2^62."""
    return max(0, exponent_of(min(n, n_draws)) + exponent_of(pk.int64(total)) - 62)


@pk.function
def exponent_of(whole):
    """Return an e with whole < 2^e."""
    return ((pk.bits(pk.float64(whole)) >> 52) & 2047) - 1022


@pk.function
def spread_range(
    team,
    begin_row,
    below,
    residues,
    r,
    begin,
    end,
    row_scale,
    w,
    weight,
    total,
    carry,
    copies,
    wanted,
    draws,
    seed,
    step,
    ancestors,
    stretches,
    shelf,
    marks,
):
    """Write the ancestors that descend from particles begin .. end - 1, before which the sum is `carry` of
    `total`, by one of the schemes below.

    For residues, `weight` is Q, and `copies` is the number of whole copies before; `shelf` and `marks` are
    scratch, of a row for each member and of WINDOW places.
    """
    own = pk.local(ITEMS, pk.uint64)
    own_whole = pk.local(ITEMS, pk.int64)
    own_end = pk.local(ITEMS, pk.int32)
    n_draws = pk.uint64(ancestors.shape[1])
    parts = n_draws
    if below is below_multinomial:
        parts = pk.uint64(n_strata(wanted))
    if residues:
        per_weight = real(n_draws) / real(weight)
        lost = pk.uint64(residue_bits(w.shape[1], pk.int64(n_draws), weight))
    total = pk.where(total > 0, total, pk.uint64(1))  # a range whose total is zero gets no draws
    ratio = parts_over(total, parts)
    start = pk.uint64(0) if begin_row is None else begin_row(r, total, seed, step)
    row = Row(r, start, total, parts, ratio, seed, step, wanted, draws)
    before = below(carry, row) + copies
    at_once = ITEMS * team.size
    mine = ITEMS * team.rank  # each member takes consecutive particles
    for k in team.thread_range(WINDOW):
        marks[k] = 0
    for first in range(begin, end, at_once):
        take(team, w, r, first, end, row_scale, shelf)
        sum_q = pk.uint64(0)
        sum_whole = pk.int64(0)
        for m in range(ITEMS):
            if below is as_it_is:
                own[m] = pk.uint64(shelf[team.rank, m])
            else:
                own[m] = fixed(shelf[team.rank, m], row_scale)
        if first + at_once > end:
            for m in range(ITEMS):
                own[m] = pk.where(first + mine + m < end, own[m], pk.uint64(0))
        for m in range(ITEMS):
            own_whole[m] = pk.int64(0)
            if residues:
                o, rest = split(own[m], n_draws, weight, per_weight)
                own_whole[m] = o
                own[m] = pk.uint64(rest) >> lost
                sum_whole += o
            sum_q += own[m]
        position = carry + team.scan(sum_q)
        carry = team.broadcast(position + sum_q, team.size - 1)
        whole = copies
        if residues:
            whole += team.scan(sum_whole)
            copies = team.broadcast(whole + sum_whole, team.size - 1)
        if below is below_systematic:
            low, doubt = ends_in_steps(position, row, before, own, own_end)
            if doubt:
                at = position
                for m in range(ITEMS):
                    at += own[m]
                    o_i = below(at, row)
                    own_end[m] = pk.int32(o_i - before)
                o_i = below(position, row)
                low = pk.int32(o_i - before)
        else:
            for m in range(ITEMS):
                position += own[m]
                whole += own_whole[m]
                o_i = below(position, row) + whole
                own_end[m] = pk.int32(o_i - before)
            low = max(pk.int32(0), team.scan(own_end[ITEMS - 1], pk.Max))
        here = team.broadcast(own_end[ITEMS - 1], team.size - 1)  # draws of these particles
        if here <= WINDOW:
            particle = pk.int32(first + mine)
            for m in range(ITEMS):
                if own_end[m] > low:
                    marks[low] = particle + m
                low = own_end[m]
            team.barrier()
            write_from_marks(team, r, before, here, marks, ancestors)
        else:
            for m in range(ITEMS):
                marks[m * team.size + team.rank] = own_end[m]
            team.barrier()
            write_one_by_one(team, r, first, min(at_once, end - first), before, marks, ancestors, stretches)
            team.barrier()
            for m in range(ITEMS):
                marks[m * team.size + team.rank] = 0
        before += here


@pk.kernel(teams=BANKS)
def spread(
    team,
    begin_row,
    below,
    residues,
    tile_size,
    bits,
    log,
    w,
    extremes,
    sums,
    draws,
    seed,
    step,
    ancestors,
    stretches,
):
    """Write the ancestors of a tile of particles; one team per tile. Reads the weights once, writes 8 bytes a
    draw."""
    n_tiles, r, tile, begin, end = tile_of(team, sums, tile_size, w.shape[1])
    # one row per member, padded so that rows begin in different banks of memory
    shelf = team.scratch((BANKS, ITEMS + 1), w.dtype)
    marks = team.scratch(WINDOW, pk.int32)
    weight = sums[r, n_tiles]
    total = weight
    carry = sums[r, tile]
    copies = pk.int64(0)
    wanted = pk.int64(0)
    if below is below_multinomial:
        wanted = pk.int64(draws[0][r])
    if residues:
        copies = pk.int64(draws[2][r, tile])
        carry = draws[3][r, tile]
        total = draws[3][r, n_tiles]
    if extremes[r, 2] != 0:
        end = begin
    row_scale = scale(extremes, r, bits, log)
    spread_range(
        team,
        begin_row,
        below,
        residues,
        r,
        begin,
        end,
        row_scale,
        w,
        weight,
        total,
        carry,
        copies,
        wanted,
        draws,
        seed,
        step,
        ancestors,
        stretches,
        shelf,
        marks,
    )


@pk.function
def take(team, w, r, begin, end, row_scale, shelf):
    """Load numbers of a row from `begin` on into the shelf, ITEMS for each member, with all loads in flight
    at once; convert RELATIVE log-weights to weights.

    Past the end the shelf gets numbers of weight zero (RELATIVE ones in an unusable row: 1).
    """
    x = pk.local(ITEMS, w.dtype)
    top = pk.local(1, w.dtype)
    top[0] = row_scale.largest
    if begin + ITEMS * team.size <= end:
        for m in range(ITEMS):
            x[m] = w[r, begin + m * team.size + team.rank]
    else:
        for m in range(ITEMS):
            x[m] = -math.inf if row_scale.log else 0
            if begin + m * team.size + team.rank < end:
                x[m] = w[r, begin + m * team.size + team.rank]
    team.barrier()  # all members have read the previous numbers
    for m in range(ITEMS):
        before = m * team.size  # whole rows of the shelf, if teams are wide: one address serves all m
        place = before % ITEMS + team.rank
        shelf[before // ITEMS + place // ITEMS, place % ITEMS] = (
            relative(x[m], row_scale.usable, top[0]) if row_scale.log == RELATIVE else x[m]
        )
    team.barrier()


@pk.function
def write_from_marks(team, r, before, here, marks, ancestors):
    """Write ancestors from marks: each parent has put its number at the first of its draws, and the running
    maximum is the ancestor.

    Marks of earlier particles need not be cleared: they are smaller than the mark of the first draw. A scan
    over a wide team takes many steps, so that there each member first scans consecutive draws serially; a
    narrow team scans draw by draw.
    """
    if team.size == BANKS:
        parent = fill_in(team, 0, SPAN, pk.int32(0), marks)
        parents = pk.local(SPAN, pk.int32)
        for m in range(SPAN):
            parents[m] = marks[m * BANKS + team.rank]
        left = here - pk.int32(team.rank)
        for m in range(SPAN):
            if left > m * BANKS:
                ancestors[r, before + (m * BANKS + team.rank)] = parents[m]
        if here > SPAN * BANKS:
            fill_in(team, SPAN * BANKS, REST, parent, marks)
            for k in team.thread_range(SPAN * BANKS, here):
                ancestors[r, before + k] = marks[k]
    else:
        parent = pk.int32(0)
        for k in range(0, here, team.size):
            found = marks[k + team.rank]
            found = max(max(found, team.scan(found, pk.Max)), parent)
            parent = team.broadcast(found, team.size - 1)
            if k + team.rank < here:
                ancestors[r, before + k + team.rank] = found


@pk.function
def fill_in(team, begin, span, parent, marks):
    """Replace `span` marks of each member, from `begin` on, by the running maximum, at least `parent`; return
    the last one."""
    row = pk.local(span, pk.int32)
    mine = begin + span * team.rank
    for m in range(span):
        row[m] = marks[mine + m]
    for m in range(1, span):
        row[m] = max(row[m], row[m - 1])
    before_mine = max(parent, team.scan(row[span - 1], pk.Max))
    for m in range(span):
        row[m] = max(row[m], before_mine)
        marks[mine + m] = row[m]
    team.barrier()
    return team.broadcast(row[span - 1], team.size - 1)


@pk.function
def write_one_by_one(team, r, first, length, before, ends, ancestors, stretches):
    """Write ancestors of heavy particles, one particle after another, each by all members; leave whole
    stretches to `fill_stretches`. `ends` are read item by item."""
    low = before
    for i in range(length):
        high = before + ends[i % ITEMS * team.size + i // ITEMS]
        middle = high
        again = high
        if high - low >= 2 * LONG:  # at least one whole stretch lies inside
            middle = -(-low // LONG) * LONG
            again = high // LONG * LONG
            for s in team.thread_range(middle // LONG, again // LONG):
                stretches[r, s] = first + i
        for k in team.thread_range(low, middle):
            ancestors[r, k] = first + i
        for k in team.thread_range(again, high):
            ancestors[r, k] = first + i
        low = high


@pk.function
def as_it_is(position, row):
    """Return scanned offspring, which are cumulative offspring already."""
    return pk.int64(position)


# of each scheme: the function of the start of a row's draws, if any, that of the cumulative offspring at a
# scanned position, and True if it spreads residues
_NO, _YES = pk.static(False), pk.static(True)
SYSTEMATIC = one_start, below_systematic, _NO
STRATIFIED = None, below_stratified, _NO
MULTINOMIAL = None, below_multinomial, _NO
RESIDUAL = None, below_multinomial, _YES
OFFSPRING = None, as_it_is, _NO


@pk.kernel
def fill_stretches(team, n_stretches, stretches, ancestors):
    """Write the stretches of LONG draws of one particle that `spread` left; one team for GROUP stretches. 8
    bytes in, 8 bytes a draw out."""
    n_groups = (n_stretches + GROUP - 1) // GROUP
    r = team.league_rank // n_groups
    begin = team.league_rank % n_groups * GROUP
    end = min(begin + GROUP, n_stretches)
    last = pk.int64(-1)
    for s in team.thread_range(begin, end):
        last = max(last, stretches[r, s])
    if team.reduce(last, pk.Max) >= 0:
        for s in range(begin, end):
            owner = stretches[r, s]
            if owner >= 0:
                for k in team.thread_range(s * LONG, (s + 1) * LONG):
                    ancestors[r, k] = owner
        team.barrier()  # all members have read the stretches
        for s in team.thread_range(begin, end):
            stretches[r, s] = -1
