"""Kernels of mutual excitation: sums of exponentials over earlier events, by type.

At a time t, with K rates beta and M types,

    R_ki(t) = sum_{l: type i, t_l < t} exp(-beta_k (t - t_l))
    Q_ki(t) = sum_{l: type i, t_l < t} (t - t_l) exp(-beta_k (t - t_l))

Events are divided into short blocks; events at equal times are in one block. `rows` holds R, followed by Q if
`slopes` is true, at the first time of each block of a chunk, shape (n_blocks + 1, K or 2 K, M). Each row is
the previous row decayed by exp(-beta tau) plus the contributions of the previous block's events. This
recurrence is linear, so it is computed as a parallel scan: each span of blocks is summed from an initial
state of 0, the spans are joined one after the other, and each span is then traversed again from its true
initial state. The few pairs within a block are summed directly.

Events are also sorted by chunk, type and time, and divided into pieces of one type: sums over events are
first computed for each piece.

With places, a pair of events n and l at a distance r also has the factor

    G_nl = (2 pi h^2)^(-D/2) exp(-r^2 / (2 h^2)) / f_n

where f_n is the density in space of the background of event n. No recurrence gives such sums, so all events
are then in one block.
"""

from typing import Any, NamedTuple

import portable as pk

from .kernels import squared_distance

GROUP = 4  # events that a team processes together, so that the values loaded for their type are used for all


class Events(NamedTuple):
    """Events as an argument of kernels, with the rows of a chunk; views, except two numbers.

    t, types : shape (n_events,), in the order of time
    begin : shape (n_blocks + 1,), the first event of each block
    at, row, start, before, step : shape (n_events,), for each sorted event
        Its time, its block, the first event of that block, the number of strictly earlier events, and the
        step of the covariates.
    kinds : shape (n_pieces,), the type of each piece
    pieces : shape (n_pieces + 1,), the beginning of each piece among the sorted events
    rates : shape (n_rates,)
    rows : shape (n_blocks + 1, n_rates or twice as many, n_types)
    fades : shape (n_rates, n_events), decay of the chunk's sorted events since their block's begin
    first, piece : the chunk's first block and first piece
    n_dims : compile-time constant, the number of dimensions of places; 0 in time alone
    x, places : shape (n_dims, n_events), places of the events in the order of time, and of the sorted events
    scale : shape (n_events,), the factor of each sorted event in G
    exponent : the factor of r^2 in the exponent of G
    slope : compile-time constant, true for derivatives in log h
    """

    t: pk.View
    types: pk.View
    begin: pk.View
    at: pk.View
    row: pk.View
    start: pk.View
    before: pk.View
    step: pk.View
    kinds: pk.View
    pieces: pk.View
    rates: pk.View | None = None
    rows: pk.View | None = None
    fades: pk.View | None = None
    first: int = 0
    piece: int = 0
    n_dims: Any = pk.static(0)
    x: pk.View | None = None
    places: pk.View | None = None
    scale: pk.View | None = None
    exponent: float = 0.0
    slope: Any = pk.static(False)


@pk.function
def hours(e, a, b):
    """Return the hours from the beginning of block a to the beginning of block b; the end after the last
    block is the time of the last event."""
    return e.t[min(e.begin[b], e.t.shape[0] - 1)] - e.t[e.begin[a]]


@pk.function
def pass_block(b, i, n_rates, slopes, e, state, spread):
    """Advance R_ki and Q_ki, in `state` and `spread`, from the beginning of block b to that of the next. K
    exponentials, and K more for each event of type i."""
    dt = hours(e, b, b + 1)
    for k in range(n_rates):
        fade = pk.exp(-e.rates[k] * dt)
        if slopes:
            spread[k] = fade * (spread[k] + dt * state[k])
        state[k] = fade * state[k]
    end = e.begin[b + 1]
    after = e.t[min(end, e.t.shape[0] - 1)]
    for n in range(e.begin[b], end):
        if e.types[n] == i:
            for k in range(n_rates):
                one = pk.exp(-e.rates[k] * (after - e.t[n]))
                state[k] += one
                if slopes:
                    spread[k] += (after - e.t[n]) * one


@pk.function
def store(row, i, n_rates, slopes, state, spread, out):
    for k in range(n_rates):
        out[row, k, i] = state[k]
        if slopes:
            out[row, n_rates + k, i] = spread[k]


@pk.kernel
def join_spans(k, i, n_rates, slopes, width, n_blocks, e, ends):
    """Replace the sums of each span by R and Q at its beginning, for type i and rate k; e.rows[0] holds R
    and Q before the first span."""
    state = e.rows[0, k, i]
    spread = 0.0
    if slopes:
        spread = e.rows[0, n_rates + k, i]
    for s in range(ends.shape[0]):
        dt = hours(e, e.first + s * width, e.first + min((s + 1) * width, n_blocks))
        fade = pk.exp(-e.rates[k] * dt)
        own = ends[s, k, i]
        ends[s, k, i] = state
        if slopes:
            own_spread = ends[s, n_rates + k, i]
            ends[s, n_rates + k, i] = spread
            spread = fade * (spread + dt * state) + own_spread
        state = fade * state + own


@pk.kernel
def pass_spans(s, i, n_rates, slopes, width, n_blocks, e, ends, walk):
    """Compute R and Q of type i at the end of span s from the events of the span only; if `walk`, write its
    rows from R and Q at its beginning instead. 8 bytes per event, and 8 K per block."""
    state = pk.local(n_rates, pk.float64)
    spread = pk.local(n_rates, pk.float64)
    state[:] = 0.0
    spread[:] = 0.0
    if walk:
        for k in range(n_rates):
            state[k] = ends[s, k, i]
            if slopes:
                spread[k] = ends[s, n_rates + k, i]
    for b in range(s * width, min((s + 1) * width, n_blocks)):
        pass_block(e.first + b, i, n_rates, slopes, e, state, spread)
        if walk:
            store(b + 1, i, n_rates, slopes, state, spread, e.rows)
    if not walk:
        store(s, i, n_rates, slopes, state, spread, ends)


@pk.kernel
def fade_since_begin(k, m, e):
    """Write exp(-beta_k tau) for sorted event m of a chunk, where tau is the time since the beginning of
    its block."""
    q = e.pieces[e.piece] + m
    e.fades[k, m] = pk.exp(-e.rates[k] * (e.at[q] - e.t[e.start[q]]))


@pk.function
def near(e, q, m):
    """Return G of sorted event q and event m, or its derivative in log h if `slope`; 1 in time alone."""
    factor = 1.0
    if e.n_dims > 0:
        r2 = squared_distance(e.n_dims, False, e.places, q, e.x, m)
        factor = e.scale[q] * pk.exp(e.exponent * r2)
        if e.slope:
            factor *= -2.0 * e.exponent * r2 - e.n_dims
    return factor


@pk.function
def rows_of_group(team, begin, end, kind, n_rates, e, heights, parts):
    """Compute a member's part of the products of heights and rows, sum_i heights[kind, k, i] R_ki, for
    each rate k of GROUP events of a type."""
    parts[:] = 0.0
    for i in team.thread_range(e.rows.shape[2]):
        for k in range(n_rates):
            for g in range(GROUP):
                parts[g, k] += heights[kind, k, i] * e.rows[e.row[min(begin + g, end - 1)] - e.first, k, i]


@pk.function
def pairs_of_block(team, q, kind, n_rates, e, heights):
    """Return a member's part of the excitation of sorted event q by earlier events of its block."""
    total = 0.0
    for m in team.thread_range(e.start[q], e.before[q]):
        factor = near(e, q, m)
        for k in range(n_rates):
            total += heights[kind, k, e.types[m]] * (factor * pk.exp(-e.rates[k] * (e.at[q] - e.t[m])))
    return total


@pk.kernel
def excite(team, n_rates, e, heights, out):
    """Write sum_ki heights[type, k, i] R_ki at each event of a piece; one team per piece, whose members
    divide the types.

    2 K operations and 8 K bytes per event and type, and K exponentials per pair of a block.
    """
    p = e.piece + team.league_rank
    kind = e.kinds[p]
    origin = e.pieces[e.piece]
    end = e.pieces[p + 1]
    parts = pk.local((GROUP, n_rates), pk.float64)
    for begin in range(e.pieces[p], end, GROUP):
        rows_of_group(team, begin, end, kind, n_rates, e, heights, parts)
        for g in range(GROUP):
            q = min(begin + g, end - 1)
            total = pairs_of_block(team, q, kind, n_rates, e, heights)
            for k in range(n_rates):
                total += e.fades[k, q - origin] * parts[g, k]
            total = team.reduce(total)
            if team.single():
                out[q] = total


@pk.function
def add_offspring(n_rates, since, left, rates, found):
    """Add, for each decay, the share of an event's offspring that falls within the window, and its
    derivative in the rate. The window begins `since` hours after the event (0 for an event within it) and
    ends `left` hours after it."""
    for k in range(n_rates):
        old = pk.exp(-rates[k] * since)
        found[2 + k] -= old * pk.expm1(-rates[k] * (left - since))
        found[2 + n_rates + k] += left * pk.exp(-rates[k] * left) - since * old


@pk.kernel
def weigh(team, n_rates, e, levels, start, end, excited, weights, sums):
    """Write 1 / lambda of each event of a piece, 0 for an event before the window, and multiply its fades
    by it; `levels` holds the background by step and type. Sum over the piece log lambda, 1 / lambda and, for
    each rate, the offspring and their derivative. A logarithm, a division and K exponentials per event."""
    p = e.piece + team.league_rank
    found = pk.local(2 + 2 * n_rates, pk.float64)
    found[:] = 0.0
    for q in team.thread_range(e.pieces[p], e.pieces[p + 1]):
        weight = 0.0
        if e.at[q] >= start:
            rate = levels[e.step[q], e.kinds[p]] + excited[q]
            weight = 1.0 / rate
            found[0] += pk.log(rate)
            found[1] += weight
        weights[q] = weight
        for k in range(n_rates):
            e.fades[k, q - e.pieces[e.piece]] *= weight
        add_offspring(n_rates, max(start - e.at[q], 0.0), end - e.at[q], e.rates, found)
    for c in range(2 + 2 * n_rates):
        total = team.reduce(found[c])
        if team.single():
            sums[p, c] = total


@pk.function
def collect_pairs(q, i, n_rates, slopes, e, weight, found, spread):
    """Add the contributions to R and Q of earlier events of type i in the block of sorted event q, times
    the weight of event q."""
    for m in range(e.start[q], e.before[q]):
        if e.types[m] == i:
            dt = e.at[q] - e.t[m]
            own = weight * near(e, q, m)
            for k in range(n_rates):
                one = own * pk.exp(-e.rates[k] * dt)
                found[k] += one
                if slopes:
                    spread[k] += dt * one


@pk.kernel
def collect(p, i, n_rates, slopes, e, weights, out):
    """Sum weight R_ki, and weight Q_ki, over the events of a piece, for type i; `fades` already include
    the weights. 2 K operations and 8 K bytes per event."""
    found = pk.local(n_rates, pk.float64)
    spread = pk.local(n_rates, pk.float64)
    found[:] = 0.0
    spread[:] = 0.0
    origin = e.pieces[e.piece]
    for q in range(e.pieces[e.piece + p], e.pieces[e.piece + p + 1]):
        b = e.row[q] - e.first
        for k in range(n_rates):
            fade = e.fades[k, q - origin]
            found[k] += fade * e.rows[b, k, i]
            if slopes:
                dt = e.at[q] - e.t[e.start[q]]
                spread[k] += fade * (e.rows[b, n_rates + k, i] + dt * e.rows[b, k, i])
        collect_pairs(q, i, n_rates, slopes, e, weights[q], found, spread)
    store(p, i, n_rates, slopes, found, spread, out)


@pk.kernel
def add_pieces(j, c, i, runs, parts, out):
    """Add the sums of the pieces of type j to `out`. 16 bytes per piece and entry."""
    total = out[j, c, i]
    for p in range(runs[j], runs[j + 1]):
        total += parts[p, c, i]
    out[j, c, i] = total


@pk.kernel
def design(m, i, n_rates, begin, e, out):
    """Write R_ki at the sorted events from `begin` on, for type i."""
    q = begin + m
    for k in range(n_rates):
        total = e.rows[e.row[q] - e.first, k, i] * e.fades[k, q - e.pieces[e.piece]]
        for n in range(e.start[q], e.before[q]):
            if e.types[n] == i:
                total += near(e, q, n) * pk.exp(-e.rates[k] * (e.at[q] - e.t[n]))
        out[m, k, i] = total
