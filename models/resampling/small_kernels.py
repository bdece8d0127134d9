"""Kernels that take short rows from weights to ancestors in one launch, one team per row; the notation is
that of `portable.models.resampling`.

For a thousand particles, launches take longer than the work. Ancestors are identical to those of the kernels
that take tiles: both add up whole numbers, and draw the random numbers of the same indices.

Arguments beyond those of `spreading`
    extremes   shape (n_rows, 3), int64: the largest and smallest weight of each row, by `weighing.order`, and
               1 where a row has no positive weight, a negative one or one that is not finite, else 0
    keys       uint64: seed and step, a pair of numbers or an array
    records, cumulative, offspring
               workspace as in `strata`, `chains` and `pairing`; 0 for schemes that need none
"""

import portable as pk

from . import ancestor_kernels
from .chains import scan_range, survivor
from .pairing import LANES, SPAN, meet_group
from .ancestor_kernels import BANKS, ITEMS, WINDOW, n_strata
from .strata import TILE, draw_one, fill_tile, lay_tile, weigh_range
from .weight_kernels import MOST_BITS, extremes_of, order, scale, sum_of_range

MOST = TILE  # particles and draws of a row: one tile of strata, and numbers q of MOST_BITS each
FIRST, SECOND = MOST // SPAN, MOST // SPAN**2  # items that the first level of pairs leaves, and the second


@pk.function
def look_over(team, r, log, w, extremes):
    """Find the extremes of a row, and mark an unusable one; return the row's scale and Q."""
    n = w.shape[1]
    largest, smallest = extremes_of(team, r, 0, n, w)
    if team.single():
        extremes[r, 0] = order(pk.float64(largest))
        extremes[r, 1] = order(pk.float64(smallest))
    team.barrier()
    row_scale = scale(extremes, r, MOST_BITS, log)
    if team.single():
        extremes[r, 2] = pk.where(row_scale.usable, 0, 1)
    return row_scale, sum_of_range(team, r, 0, n, row_scale, w)


@pk.function
def draw_all(team, r, wanted, seed, step, records):
    """Draw the multinomial positions of a row in ascending order, as `strata` in one tile."""
    drawn = fill_tile(team, r, 0, wanted, seed, step, records)
    team.barrier()
    n = pk.uint64(n_strata(wanted))
    for j in team.thread_range(max(wanted - pk.int64(drawn), 0)):
        draw_one(r, j, n, seed, step, records)
    team.barrier()
    lay_tile(team, r, 0, pk.uint64(0), wanted, records)
    team.barrier()


@pk.kernel
def spread_row(team, begin_row, below, residues, log, w, extremes, records, keys, ancestors):
    """Draw the ancestors of a row; one team per row. Reads the weights three times, writes 8 bytes a draw."""
    shelf = team.scratch((BANKS, ITEMS + 1), w.dtype)
    marks = team.scratch(WINDOW, pk.int32)
    seed, step = keys[0], keys[1]
    r = team.league_rank
    n = w.shape[1]
    row_scale, weight = look_over(team, r, log, w, extremes)
    total = weight
    wanted = pk.int64(ancestors.shape[1])
    if residues:
        whole, left = weigh_range(team, r, 0, n, row_scale, wanted, weight, w)
        wanted -= whole
        total = left
    if below is ancestor_kernels.below_multinomial:
        draw_all(team, r, wanted, seed, step, records)
    # a row has fewer draws than a stretch, so that no stretch is written: `ancestors` is passed in its place
    ancestor_kernels.spread_range(
        team,
        begin_row,
        below,
        residues,
        r,
        0,
        n,
        row_scale,
        w,
        weight,
        total,
        pk.uint64(0),
        pk.int64(0),
        wanted,
        (0, records),
        seed,
        step,
        ancestors,
        ancestors,
        shelf,
        marks,
    )


@pk.kernel
def meet_and_spread(team, log, w, extremes, offspring, keys, ancestors):
    """Draw SSP ancestors of a row; one team per row. Reads the weights three times, writes 8 bytes a draw,
    and 8 a particle."""
    shelf = team.scratch((BANKS, ITEMS + 1), pk.int64)
    marks = team.scratch(WINDOW, pk.int32)
    items = team.scratch(FIRST, pk.int64)
    parts = team.scratch(FIRST, pk.int64)
    next_items = team.scratch(SECOND, pk.int64)
    next_parts = team.scratch(SECOND, pk.int64)
    seed, step = keys[0], keys[1]
    r = team.league_rank
    n = w.shape[1]
    row_scale, total = look_over(team, r, log, w, extremes)
    n_draws = ancestors.shape[1]
    first = (n + SPAN - 1) // SPAN
    second = (first + SPAN - 1) // SPAN
    whole = row_scale, n_draws, w, total, seed, step
    for group in range((first + LANES - 1) // LANES):
        meet_group(team, False, 0, r, group, first, n, whole, (items, parts), (items, parts), offspring[r])
    team.barrier()
    meet_group(
        team, True, 1, r, 0, second, first, whole, (items, parts), (next_items, next_parts), offspring[r]
    )
    team.barrier()
    meet_group(team, True, 2, r, 0, 1, second, whole, (next_items, next_parts), (items, parts), offspring[r])
    team.barrier()
    ancestor_kernels.spread_range(
        team,
        None,
        ancestor_kernels.as_it_is,
        False,
        r,
        0,
        n,
        row_scale._replace(log=False),
        offspring,
        total,
        pk.uint64(n_draws),
        pk.uint64(0),
        pk.int64(0),
        pk.int64(0),
        0,
        seed,
        step,
        ancestors,
        ancestors,
        shelf,
        marks,
    )


@pk.kernel
def kill_row(team, log, w, extremes, cumulative, keys, ancestors):
    """Keep survivors of a row and replace the other particles; one team per row. Reads the weights four
    times, writes 16 bytes a particle."""
    r = team.league_rank
    n = w.shape[1]
    row_scale, total = look_over(team, r, log, w, extremes)
    scan_range(team, r, 0, n, row_scale, w, pk.uint64(0), cumulative)
    team.barrier()
    unscaled = scale(extremes, r, 0, log)
    seed, step = keys[0], keys[1]
    for k in team.thread_range(n):
        ancestors[r, k] = survivor(r, k, w, extremes, unscaled, total, cumulative, seed, step)
