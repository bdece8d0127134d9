"""Kernels of SSP resampling: fractional parts meet in pairs until all are 0 or 1 (Srinivasan's sampling process).

e_i = M q_i / Q is a whole part and a fraction f_i / Q, with f_i a whole number. Two fractions meet; their sum stays:
one of them becomes 0 or Q, the other takes the rest and meets the next. Chances are such that expectations stay. Sums
are of whole numbers, so that the last fraction is 0 exactly. Any order of meetings will do: here those of SPAN particles,
a stride apart, make a lane's work, what is left over of each lane meets again, and so on until one is left.

Arguments beyond those of `spreading`
    later      compile-time: whether there was a level before, whose remains are read instead of weights
    n_items    fractions that meet at this level; lane b takes items b, b + n_lanes, ...
    items      shape (n_rows, n_items), int64: their particles, -1 for none; next_items is the next level's
    parts      shape (n_rows, n_items), int64: f, 1 to Q - 1; next_parts is the next level's
    offspring  shape (n_rows, n), int64
"""

import portable as pk

from .spreading import key
from .weighing import fixed, scale, split

SPAN = 64


@pk.kernel
def meet(r, b, later, level, n_lanes, n_items, bits, log, n_draws, w, extremes, sums, seed, step, items, parts, next_items,
         next_parts, offspring):
    """The meetings of lane b of row r. One read of the weights at level 0, a block of random bits a meeting."""
    total = sums[r, sums.shape[1] - 1]
    whole = pk.int64(total)
    ratio = pk.float64(n_draws) / pk.float64(whole)
    row_scale = scale(extremes, r, bits, log)
    held = pk.int64(-1)
    part = pk.int64(0)
    for turn in range((n_items - b + n_lanes - 1) // n_lanes):
        i = b + turn * n_lanes
        if later:
            item = items[r, i]
            other = parts[r, i]
        else:
            item = pk.int64(i)
            o, other = split(fixed(pk.float64(w[r, i]), row_scale, log), pk.uint64(n_draws), total, ratio)
            offspring[r, i] = o
        if other > 0:
            if part == 0:
                held = item
                part = other
            else:
                u = pk.random.uniform(seed, key(r, item), step + pk.uint64(level))
                both = part + other
                if both < whole:
                    stays = u < pk.float64(part) / pk.float64(both)
                    held = pk.where(stays, held, item)
                    part = both
                else:
                    rises = u < pk.float64(whole - other) / pk.float64(2 * whole - both)
                    offspring[r, pk.where(rises, held, item)] += 1
                    held = pk.where(rises, item, held)
                    part = both - whole
    next_items[r, b] = held
    next_parts[r, b] = part
