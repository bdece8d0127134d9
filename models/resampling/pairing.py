"""Kernels of SSP resampling: fractional parts are combined in pairs until all are 0 or 1 (Srinivasan's
sampling process).

e_i = M q_i / Q is a whole part plus a fraction f_i / Q, with f_i a whole number. A pair of fractions keeps
its sum: one of them becomes 0 or Q, the other takes the rest and is paired with the next. The probabilities
are such that expectations are kept. Sums are of whole numbers, so that the last fraction is exactly 0. Pairs
may be formed in any order: here items are cut into groups of LANES * SPAN, a lane takes the items of its
group that lie LANES apart, the remainders of all lanes form the next level, and so on until one is left.

Arguments beyond those of `spreading`
    later      compile-time: True at all levels after the first, which read the remainders of the level before
               instead of weights
    n_lanes    lanes of a row; the last group may have fewer than LANES
    items      shape (n_rows, n_items), int64: the particles of the items; next_items is the next level's,
               shape (n_rows, n_lanes)
    parts      shape (n_rows, n_items), int64: f, 0 to Q - 1; next_parts is the next level's
    offspring  shape (n_rows, n), int64
"""

import portable as pk

from .ancestor_kernels import key
from .weight_kernels import fixed, scale, split

SPAN, LANES = 16, 32


@pk.function
def meeting(part, other, whole, u):
    """Pair two fractions f, g (part, other) of Q (whole) by a uniform u; return (True if f takes the rest,
    the rest, True if one has become Q).

    If f + g < Q, f takes all with probability f / (f + g); otherwise f becomes whole with probability (Q - g)
    / (2 Q - f - g), and g takes the rest.
    """
    both = part + other
    over = both >= whole
    chance = pk.float64(pk.where(over, whole - other, part))
    of = pk.float64(pk.where(over, whole + (whole - both), both))
    return (u * of < chance) != over, both - pk.where(over, whole, 0), over


@pk.function
def meet_group(team, later, level, r, group, n_lanes, n_items, of_row, items, left, offspring):
    """Combine the fractions of a group of row r in pairs; `items` and `left` are (items, parts) before and
    after, `offspring` is the row's."""
    row_scale, n_draws, w, total, seed, step = of_row
    begin = group * (LANES * SPAN)
    end = min(begin + LANES * SPAN, n_items)
    here = min(LANES, n_lanes - group * LANES)
    whole = pk.int64(total)
    ratio = pk.float64(n_draws) / pk.float64(whole)
    for lane in team.thread_range(here):
        held = pk.int64(0)
        held_o = pk.int64(0)
        part = pk.int64(0)
        for turn in range((end - begin + here - 1) // here):
            i = begin + turn * here + lane
            if i < end:
                if later:
                    item = items[0][i]
                    other = items[1][i]
                    o = pk.int64(0)
                    if other > 0:
                        o = offspring[item]
                else:
                    item = pk.int64(i)
                    o, other = split(fixed(w[r, i], row_scale), pk.uint64(n_draws), total, ratio)
                stays, part, over = meeting(
                    part, other, whole, pk.random.uniform(seed, key(r, item), step + pk.uint64(level))
                )
                if over and not stays:  # the item held so far has become whole
                    offspring[held] = held_o + 1
                o += pk.where(over and stays, 1, 0)
                if not later:
                    offspring[i] = o
                elif over and stays:
                    offspring[item] = o
                held = pk.where(stays, held, item)
                held_o = pk.where(stays, held_o, o)
        left[0][group * LANES + lane] = held
        left[1][group * LANES + lane] = part


@pk.kernel
def meet(
    team,
    later,
    level,
    n_items,
    bits,
    log,
    w,
    extremes,
    sums,
    n_draws,
    seed,
    step,
    items,
    parts,
    next_items,
    next_parts,
    offspring,
):
    """Combine the fractions of a group in pairs; one team per group. One read of the weights at level 0, a
    block of random bits an item."""
    n_lanes = next_items.shape[1]
    n_groups = (n_lanes + LANES - 1) // LANES
    r = team.league_rank // n_groups
    group = team.league_rank % n_groups
    of_row = scale(extremes, r, bits, log), n_draws, w, sums[r, sums.shape[1] - 1], seed, step
    own, left = (items[r], parts[r]), (next_items[r], next_parts[r])
    meet_group(team, later, level, r, group, n_lanes, n_items, of_row, own, left, offspring[r])
