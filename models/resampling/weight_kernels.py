"""Kernels that convert weights to whole numbers q_i and add them up; the notation is that of
`portable.models.resampling`.

Each row is the weight vector of one filter. A row is cut into n_tiles tiles, one team each; on the device,
the totals of tiles are replaced by the sums before each tile, so that no number travels to the host between
kernels.

Arguments that recur
    tile_size    numbers in a tile; a league has n_rows * n_tiles teams
    sweep        numbers for each team of kernels that need no tiles
    bits         b, at most MOST_BITS: the largest q of a row lies in [2^(b - 1), 2^b]
    log          compile-time: w holds WEIGHTS, LOGS, or a filter's RELATIVE log-weights: their exponentials
                 relative to the largest of the row, rounded to the type of w, are the weights (1 in an
                 unusable row), and extremes are those of the log-weights, of which only the largest is needed
    w            weights, shape (n_rows, n), float32 or float64; every value is used as float64
    extremes     shape (n_rows, 3), int64: the largest and smallest weight of each row, by `order`; not 0 if
                 the row idles
    offsets      shape (n_rows, n_tiles + 1), uint64: the sum of q before each tile, and Q in the last column
"""

import math
from typing import Any, NamedTuple

import numpy as np

import portable as pk

from .checks import MOST

WEIGHTS, LOGS = 0, 1
IN_FLIGHT = 8  # loads that a member has in flight
RELATIVE = 2  # the third kind of w: relative log-weights
NONE = -(2**63)  # below the `order` of every number
NAN = 2**63 - 1  # `order` of NaN
INFINITE, LOWEST = 0x7FF << 52, -(0x7FF << 52) - 1  # `order` of infinity, and 1 below that of -infinity
WHOLE = 2.0**52  # from here on float64 are whole numbers 1 apart, with consecutive bit patterns
WHOLE_BITS = 1075 << 52  # bit pattern of WHOLE
MOST_BITS = 51  # largest number of bits of q: q is less than WHOLE
STEPS = 1.5 * 2.0**32 + 1  # a float64 plus this has its value plus 1 in its lowest 51 bits, in steps of 2^-20
COARSE = 1.5 * 2.0**33 + 1  # the same in steps of 2^-19, so that the whole part ends at bit 32


@pk.function
def real(q):
    """Convert a whole number below 2^63 to float64, via int64, which machines convert faster than uint64."""
    return pk.float64(pk.int64(q))


@pk.function
def part_of(team, size, n):
    """Return (row, part, begin, end) of a team, if there is one team for each part of `size` numbers in rows
    of n."""
    n_parts = (n + size - 1) // size
    part = team.league_rank % n_parts
    begin = part * size
    return team.league_rank // n_parts, part, begin, min(begin + size, n)


@pk.function
def tile_of(team, sums, tile_size, n, backwards=False):
    """Return (tiles of a row, row, tile, begin, end) of a team, if there is one team for each tile of all
    rows; with `backwards` the last tile comes first, as it is still in a cache."""
    n_tiles = sums.shape[1] - 1
    tile = team.league_rank % n_tiles
    if backwards:
        tile = n_tiles - 1 - tile
    begin = tile * tile_size
    return n_tiles, team.league_rank // n_tiles, tile, begin, min(begin + tile_size, n)


@pk.function
def order(x):
    """Map a float64 to an int64 of the same order; NaN is the largest."""
    bits = pk.bits(x)
    return pk.where(pk.isnan(x), pk.int64(NAN), pk.where(bits < 0, bits ^ NAN, bits))


@pk.function
def ordered(number):
    """Return the float64 whose `order` is a number; NaN for NAN."""
    return pk.from_bits64(pk.where(number < 0, number ^ NAN, number))


def ordered_numpy(numbers):
    """Compute `ordered` of an int64 array."""
    return np.where(numbers < 0, numbers ^ NAN, numbers).view(np.float64)


@pk.function
def power(e):
    """Compute 2^e, for e from -1022 to 1023."""
    return pk.from_bits64((pk.int64(e) + 1023) << 52)


@pk.function
def exponent(x):
    """Return the e with 2^(e - 1) <= x < 2^e, for a positive finite x."""
    e = (pk.bits(x) >> 52) & 2047
    lifted = (pk.bits(x * 2.0**54) >> 52) & 2047  # the bits of subnormal numbers have no exponent
    return pk.where(e == 0, lifted - 54, e) - 1022


class Scale(NamedTuple):
    """Scale of a row: True if its weights are usable, their largest, which LOGS are relative to, three
    numbers to scale a weight by (two factors and a term), and the kind of w."""

    usable: Any
    largest: Any
    factors: Any
    log: Any


@pk.function
def scale(extremes, r, bits, log):
    """Compute the Scale of a row: q = (w or exp(w - largest)) times two factors, one after the other, so that
    neither product overflows.

    In an unusable row (no positive weight, or a negative or non-finite one), q = factors[2] = 1 for all
    weights; for RELATIVE log-weights, a largest weight of 1 is assumed there.
    """
    largest = ordered(extremes[r, 0])
    smallest = ordered(extremes[r, 1])
    if log != WEIGHTS:
        usable = largest > -math.inf and largest < math.inf
        shift = pk.int64(bits) - 1
    else:
        usable = largest > 0.0 and largest < math.inf and smallest >= 0.0
        shift = bits - exponent(pk.where(usable, largest, 1.0))
    half = shift >> 1 if log == WEIGHTS else 0  # exponentials need one factor only
    factors = pk.local(3, pk.float64)  # powers of two: exact
    factors[0] = power(half)
    factors[1] = power(shift - half)
    factors[2] = pk.where(usable or log == RELATIVE, 0.0, 1.0)
    return Scale(usable, pk.where(usable, largest, 0.0), factors, log)


@pk.function
def relative(log_w, usable, largest):
    """Compute exp(log_w - largest); 1 in an unusable row."""
    return pk.exp_nonpositive(pk.where(usable, log_w - largest, 0.0))


@pk.function
def relative_to(x, scale):
    """Return a weight relative to the largest (LOGS) or unchanged; 0 in an unusable row. RELATIVE weights are
    those of `relative` already."""
    if scale.log == RELATIVE:
        w = pk.float64(x)
    elif scale.log == LOGS:
        w = pk.exp(pk.where(scale.usable, pk.float64(x), -math.inf) - scale.largest)
    else:
        w = pk.float64(pk.where(scale.usable, x, 0.0))
    return w


@pk.function
def scaled(x, scale):
    """Return a weight times the factors of its row's scale; 1 in an unusable row."""
    w = relative_to(x, scale)
    if scale.log == WEIGHTS:
        w *= scale.factors[0]
    return pk.fma(w, scale.factors[1], scale.factors[2])


@pk.function
def fixed(x, scale):
    """Compute q of a weight: the sum with 2^52 is rounded to a whole number, which its bits give directly; a
    conversion, which also handles numbers beyond the integers, takes three times as long."""
    w = relative_to(x, scale)
    if scale.log == WEIGHTS:
        w *= scale.factors[0]
    y = pk.fma(w, scale.factors[1], scale.factors[2] + WHOLE)
    return pk.uint64(pk.bits(y) ^ WHOLE_BITS)


@pk.function
def split(position, parts, total, ratio):
    """Return (k, rest) with position * parts = k * total + rest and 0 <= rest < total: exact, without a
    product of 128 bits.

    position <= total <= 2^62, parts <= 2^31, ratio is near parts / total. position * ratio is accurate to
    2^-20, so that the estimate of k is exact or too small by one; the rest then fits into 64 bits and is
    exact although the products wrap.
    """
    steps = pk.bits(pk.fma(real(position), ratio, STEPS - 2.0**-18))
    k = ((steps >> 20) & MOST) - 1  # no conversion, as in `fixed`
    rest = pk.int64(position * parts - pk.uint64(k) * total)
    above = rest >= pk.int64(total)
    return k + pk.where(above, 1, 0), rest - pk.where(above, pk.int64(total), 0)


@pk.kernel
def begin(team, extremes, stretches):
    """Initialize rows: extremes of no weights, and no stretches; one team per row. 24 bytes and 8 a
    stretch."""
    r = team.league_rank
    if team.single():
        extremes[r, 0] = NONE
        extremes[r, 1] = NAN
        extremes[r, 2] = 0
    for s in team.thread_range(stretches.shape[1]):
        stretches[r, s] = -1


@pk.function
def extremes_of(team, r, begin, end, w):
    """Return (largest, smallest) of a range of a row; NaN if the range contains one."""
    stride = IN_FLIGHT * team.size
    whole = begin + (end - begin) // stride * stride
    highs = pk.local(IN_FLIGHT, w.dtype)
    lows = pk.local(IN_FLIGHT, w.dtype)
    for m in range(IN_FLIGHT):
        highs[m] = w[r, begin]
        lows[m] = w[r, begin]
    for base in range(begin, whole, stride):
        for m in range(IN_FLIGHT):
            x = w[r, base + m * team.size + team.rank]
            highs[m] = pk.maximum(highs[m], x)
            lows[m] = pk.minimum(lows[m], x)
    largest = highs[0]
    smallest = lows[0]
    for m in range(1, IN_FLIGHT):
        largest = pk.maximum(largest, highs[m])
        smallest = pk.minimum(smallest, lows[m])
    for i in team.thread_range(whole, end):
        largest = pk.maximum(largest, w[r, i])
        smallest = pk.minimum(smallest, w[r, i])
    largest = team.reduce(largest, pk.Max)
    smallest = team.reduce(smallest, pk.Min)
    return largest, smallest


@pk.kernel
def find_extremes(team, sweep, w, extremes):
    """Find the largest and smallest weight of a row; one team for `sweep` weights. One read of the weights,
    two atomics a team."""
    r, _, begin, end = part_of(team, sweep, w.shape[1])
    largest, smallest = extremes_of(team, r, begin, end, w)
    if team.single():
        pk.atomic_max(extremes, (r, 0), order(pk.float64(largest)))
        pk.atomic_min(extremes, (r, 1), order(pk.float64(smallest)))


@pk.function
def sum_of_range(team, r, begin, end, row_scale, w):
    """Add up q over a range of a row."""
    stride = IN_FLIGHT * team.size
    whole = begin + (end - begin) // stride * stride
    x = pk.local(IN_FLIGHT, w.dtype)
    total = pk.uint64(0)
    for base in range(begin, whole, stride):
        for m in range(IN_FLIGHT):
            x[m] = w[r, base + m * team.size + team.rank]
        for m in range(IN_FLIGHT):
            total += fixed(x[m], row_scale)
    for i in team.thread_range(whole, end):
        total += fixed(w[r, i], row_scale)
    return team.reduce(total)


@pk.kernel
def weigh_tiles(team, tile_size, bits, log, w, extremes, offsets):
    """Add up q over a tile; one team per tile. One read of the weights."""
    _, r, tile, begin, end = tile_of(team, offsets, tile_size, w.shape[1], True)
    total = sum_of_range(team, r, begin, end, scale(extremes, r, bits, log), w)
    if team.single():
        offsets[r, tile] = total


@pk.function
def lay_out(team, r, offsets, shelf):
    """Turn the totals of tiles, in `shelf`, into the sums before each tile, in `offsets`; return the sum of
    all."""
    last = offsets.shape[1] - 1
    # consecutive tiles belong to one member: one scan for all; an odd number avoids conflicts of memory banks
    share = (last + team.size - 1) // team.size | 1
    team.barrier()
    begin = min(team.rank * share, last)
    end = min(begin + share, last)
    own = pk.uint64(0)
    for tile in range(begin, end):
        own += shelf[tile]
    before = team.scan(own)
    total = team.broadcast(before + own, team.size - 1)
    for tile in range(begin, end):
        own = shelf[tile]
        shelf[tile] = before
        before += own
    team.barrier()
    for tile in team.thread_range(last):
        offsets[r, tile] = shelf[tile]
    if team.single():
        offsets[r, last] = total
    return total


@pk.kernel
def add_up(team, offsets):
    """Replace the totals of tiles by the sums before each tile; one team per row, with scratch for the
    totals. 16 bytes a tile."""
    shelf = team.scratch(offsets.shape[1], pk.uint64)
    for tile in team.thread_range(offsets.shape[1] - 1):
        shelf[tile] = offsets[team.league_rank, tile]
    lay_out(team, team.league_rank, offsets, shelf)
