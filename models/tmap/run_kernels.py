"""Kernels for single runs: their layout, results for each gap, and simulation.

Arguments are those of `kernels`.
"""

import math

import portable as pk

from .kernels import (
    ALPHA,
    EXIT,
    LOG_CHANCE,
    PACK,
    POWER,
    RATE,
    SURVIVAL,
    SWITCHING,
    at,
    gap_at,
    log_survival,
    step_back,
    step_on,
    survive,
    weigh,
)


@pk.kernel
def lay_out(team, unit, never, tiny, offset, steps, lengths, begin, values, gaps):
    """Lay out the runs of a pack in lanes, in units of `unit`; one team per pack. 3 items and a logarithm a
    gap.

    A positive gap too small for the dtype becomes the smallest normal number, as zero has a different
    meaning. Past the end of a run, gaps and their logarithms are zero, for which all densities are finite.
    """
    pack = team.league_rank
    for lane in team.thread_range(PACK):
        for k in range(steps[pack]):
            row = offset[pack] + k
            value = pk.float64(0.0)
            log_value = pk.float64(0.0)
            if k < lengths[pack, lane]:
                value = values[begin[pack, lane] + k] / unit
                positive = value > 0.0
                value = max(value, tiny) if positive else 0.0
                log_value = pk.log(value) if positive else never
            gaps[at(row, 2, 0, lane)] = value
            gaps[at(row, 2, 1, lane)] = log_value


@pk.kernel
def branch_probabilities(
    team,
    n,
    r,
    censoring,
    rounded,
    faded,
    tiny,
    model,
    table,
    offset,
    steps,
    lengths,
    open_end,
    gaps,
    begin,
    out,
):
    """Compute q_i[k] of (8) for every gap, into `out`, shape (n_gaps, R); there g is in the forward pass."""
    a = pk.local(n, gaps.dtype)
    g = pk.local(n, gaps.dtype)
    q = pk.local(n, gaps.dtype)
    u = pk.local(n, gaps.dtype)
    stretched = pk.local(n, pk.float64)
    pack = team.league_rank
    for lane in team.thread_range(PACK):
        first = begin[pack, lane]
        length = lengths[pack, lane]
        complete = length - open_end[pack, lane] if censoring else length
        for i in range(r):
            a[i] = model[ALPHA, i]
            q[i] = 0.0
            g[i] = 0.0
        for k in range(steps[pack]):
            if k < complete:
                x, log_x = gap_at(gaps, offset[pack] + k, lane)
                weigh(r, rounded, table, model, x, log_x, faded, a, g)
                step_on(r, model, g, a)
                for i in range(r):
                    out[first + k, i] = g[i]
        end = 0.0
        for i in range(r):
            q[i] = g[i] * model[EXIT, i]
            end += q[i]
        for i in range(r):
            q[i] = q[i] / end if end >= tiny else 0.0
        if censoring:
            if complete < length:
                x, log_x = gap_at(gaps, offset[pack] + complete, lane)
                survive(n, r, model, x, log_x, a, q, stretched)
        for back in range(steps[pack]):
            k = steps[pack] - 1 - back
            if k < length - 1:
                for i in range(r):
                    g[i] = out[first + k, i]
                step_back(r, model, tiny, g, q, u)
            if k < length:
                for i in range(r):
                    out[first + k, i] = q[i]


@pk.kernel
def rescale(
    team,
    n,
    r,
    censoring,
    rounded,
    seed,
    never,
    faded,
    model,
    table,
    offset,
    steps,
    lengths,
    open_end,
    gaps,
    begin,
    out,
):
    """Compute the probability of a gap no longer than each, given the previous gaps and that there is a gap.

    A rounded gap is placed in its interval at random: by the gap's number on stream 0.
    """
    a = pk.local(n, gaps.dtype)
    g = pk.local(n, gaps.dtype)
    pack = team.league_rank
    for lane in team.thread_range(PACK):
        length = lengths[pack, lane]
        complete = length - open_end[pack, lane] if censoring else length
        for i in range(r):
            a[i] = model[ALPHA, i]
        for k in range(steps[pack]):
            if k < length:
                x, log_x = gap_at(gaps, offset[pack] + k, lane)
                longer = pk.float64(0.0)
                total = pk.float64(0.0)
                share = 0.0
                if rounded:
                    share = pk.random.uniform(seed, 0, begin[pack, lane] + k)
                for i in range(r):
                    if rounded and k < complete:
                        place = int(min(x, table.shape[2] - 1.0))
                        tail = table[SURVIVAL, i, place] - share * pk.exp(table[LOG_CHANCE, i, place])
                    else:
                        log_tail, _ = log_survival(model, i, x, log_x)
                        tail = pk.exp(log_tail)
                    longer += pk.float64(a[i]) * tail
                    total += pk.float64(a[i])
                made = weigh(r, rounded, table, model, x, log_x, faded, a, g) > 0.1 * never
                out[begin[pack, lane] + k] = pk.clip(1.0 - longer / total, 0.0, 1.0) if made else math.nan
                step_on(r, model, g, a)


@pk.function
def choose(r, u, weights, row):
    """Return the first index at which the running sum of a row of `weights` exceeds u; R if none does."""
    chosen = r
    total = 0.0
    for i in range(r):
        total += weights[row, i]
        if chosen == r and u < total:
            chosen = i
    return chosen


@pk.kernel
def simulate_lengths(run, r, model, seed, lengths):
    """Simulate the number of gaps of a run: its walk through the branches on stream 2 * run. A random number
    a gap."""
    branch = choose(r, pk.random.uniform(seed, 2 * run, 0), model, ALPHA)
    gaps = 0
    while branch < r:
        gaps += 1
        branch = choose(r, pk.random.uniform(seed, 2 * run, gaps), model, SWITCHING + branch)
    lengths[run] = gaps


@pk.kernel
def simulate_gaps(run, r, model, seed, begin, lengths, values):
    """Simulate the gaps of a run: the same walk again, and each stage of an Erlang gap on stream 2 * run +
    1."""
    branch = choose(r, pk.random.uniform(seed, 2 * run, 0), model, ALPHA)
    draw = 0
    for k in range(lengths[run]):
        stages = 0.0
        for _ in range(int(model[POWER, branch]) + 1):
            stages += pk.random.exponential(seed, 2 * run + 1, draw)
            draw += 1
        values[begin[run] + k] = stages / model[RATE, branch]
        branch = choose(r, pk.random.uniform(seed, 2 * run, k + 1), model, SWITCHING + branch)
