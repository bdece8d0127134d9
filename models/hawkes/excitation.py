"""Kernels of the excitation (2) and of the rates, for one triggering function; arguments as in
`portable.models.hawkes.kernels`."""

import portable as pk

from .kernels import GROUP, TERMS, background_term, elapsed, mark_of, place_rows, squared_distance

MEMBERS = 32  # most members of a team of pair_tiles: one warp
# Columns of a row of parameters in kernels for several parameter sets; the parameters of the triggering
# function begin at OWN.
REACH, MU_SCALE, XI_SCALE, THETA, OWN = range(5)


def row_of_params(params, n_dims, reach_h, background_scale):
    """Return one row of numbers for kernels over several parameter sets: the reach of pairs in time, the
    factors of the sums of (1) and of (2), theta, and the parameters of the triggering function in the form
    for kernels."""
    scale = params.excitation_scale(n_dims)
    return reach_h, background_scale, scale, params.theta, *params.kernel_values


@pk.function
def own_parameters(g, rows, which, p):
    """Copy the parameters of the triggering function from row `which` of `rows` to p."""
    for k in range(g.n_own):
        p[k] = rows[which, OWN + k]


@pk.function
def terms_of(g, n_xi, r2, dt, mark, p, out):
    """Write the value of the triggering function to out[0], and its other moments if n_xi > 1. Return
    False only if all moments are known to be 0."""
    if n_xi == 1:
        out[0] = g.value(r2, dt, mark, p)
        return True
    return g.moments(r2, dt, mark, p, out)


@pk.function
def excitation_group(team, g, group, d, n_xi, reach, p, excitation):
    """Compute the sums of `excitation_sums` for the GROUP events of group `group`."""
    own = group * GROUP
    newest = min(own + GROUP, d.x.shape[1]) - 1
    xi = pk.local((n_xi, GROUP), pk.float64)
    xi_part = pk.local((n_xi, GROUP), d.x.dtype)
    terms = pk.local(1 + g.n_own, d.x.dtype)
    xi[:] = 0.0
    end = newest
    length = 1
    while end > 0 and elapsed(d.n_parts, d.t, own, d.t, end - 1) <= reach:
        begin = max(end - length * team.size, 0)
        xi_part[:] = 0.0
        for j in team.thread_range(begin, end):
            mark = mark_of(g.marked, d.n_dims, d.x, j)
            for r in range(pk.static(GROUP)):
                i = min(own + r, newest)
                dt = elapsed(d.n_parts, d.t, i, d.t, j)
                if terms_of(g, n_xi, squared_distance(d.n_dims, d.wide, d.x, i, d.x, j), dt, mark, p, terms):
                    for k in range(n_xi):
                        xi_part[k, r] += pk.where(dt > 0.0, terms[k], 0.0)
        for r in range(pk.static(GROUP)):
            for k in range(n_xi):
                xi[k, r] += pk.float64(xi_part[k, r])
        end = begin
        length = min(2 * length, TERMS)
    for r in range(pk.static(GROUP)):
        for k in range(n_xi):
            total = team.reduce(xi[k, r])
            if team.single() and own + r <= newest:
                excitation[k, own + r] = total


@pk.kernel
def pair_tiles(team, g, rows, d, n_mu, n_xi, before, tiles, block, a_x, a_t, p, mu, xi):
    """Compute the sums of (1), without self terms, and of (2) between two blocks of events; one team per
    pair of blocks.

    The background kernel is symmetric, so each pair is visited once: events of block tiles[0, k] against
    earlier events of block tiles[1, k]. Row b of mu[k] and xi[k], shape (n_blocks, n_events), holds the
    contribution of block b to each event; no other team writes to it, so no atomics are needed and the result
    is bitwise reproducible. Each member keeps `rows` later events in registers and loops over the earlier
    ones. 3 D + 11 operations and two exponentials per pair; 8 (D + 2) bytes for every rows * team.size pairs.
    """
    # Sums of the members' later events, over the earlier events so far.
    mu_sums = team.scratch((n_mu, rows, MEMBERS), pk.float64)
    xi_sums = team.scratch((n_xi, rows, MEMBERS), pk.float64)
    # The current tile of earlier events, with their marks.
    x_near = team.scratch((max(place_rows(d.n_dims, d.wide), d.n_dims + g.marked), TERMS), d.x.dtype)
    t_near = team.scratch((d.n_parts, TERMS), d.t.dtype)
    # The contributions of each member to these events; rows are longer by one so that columns lie in
    # different banks.
    shares = team.scratch((n_mu, TERMS, MEMBERS + 1), d.x.dtype)
    later = tiles[0, team.league_rank]
    earlier = tiles[1, team.league_rank]
    n = d.x.shape[1]
    width = rows * team.size
    begin = earlier * block
    end = min(begin + block, n)
    last = min(later * block + block, n)
    for k in range(n_mu):
        for j in team.thread_range(begin, end):
            mu[k, later, j] = 0.0
        for i in team.thread_range(later * block, last):
            mu[k, earlier, i] = 0.0
    team.barrier()

    x_own = pk.local((place_rows(d.n_dims, d.wide), rows), d.x.dtype)
    t_own = pk.local((d.n_parts, rows), d.t.dtype)
    mu_part = pk.local((n_mu, rows), d.x.dtype)
    xi_part = pk.local((n_xi, rows), d.x.dtype)
    xi_terms = pk.local(1 + g.n_own, d.x.dtype)
    share = pk.local(n_mu, d.x.dtype)
    for first in range(later * block, last, width):
        for r in range(rows):
            present = min(first + r * team.size + team.rank, n - 1)
            for c in range(place_rows(d.n_dims, d.wide)):
                x_own[c, r] = d.x[c, present]
            for c in range(d.n_parts):
                t_own[c, r] = d.t[c, present]
            for k in range(n_mu):
                mu_sums[k, r, team.rank] = 0.0
            for k in range(n_xi):
                xi_sums[k, r, team.rank] = 0.0
        stop = min(end, first + width)
        # All pairs before this event count, so that the loop needs no test.
        free = max(min(before[first], stop), begin) if first + width <= last else begin
        for limited in (False, True):
            limit = stop if limited else free
            for start in range(free if limited else begin, limit, TERMS):
                until = min(start + TERMS, limit)
                for r in range(rows):
                    for k in range(n_mu):
                        mu_part[k, r] = 0.0
                    for k in range(n_xi):
                        xi_part[k, r] = 0.0
                for j in team.thread_range(start, until):
                    for c in range(max(place_rows(d.n_dims, d.wide), d.n_dims + g.marked)):
                        x_near[c, j - start] = d.x[c, j]
                    for c in range(d.n_parts):
                        t_near[c, j - start] = d.t[c, j]
                team.barrier()
                for j in range(start, until):
                    for k in range(n_mu):
                        share[k] = 0.0
                    mark = mark_of(g.marked, d.n_dims, x_near, j - start)
                    for r in range(rows):
                        r2 = squared_distance(d.n_dims, d.wide, x_near, j - start, x_own, r)
                        dt = -elapsed(d.n_parts, t_near, j - start, t_own, r)
                        dt2 = dt * dt
                        i = first + r * team.size + team.rank
                        counts = j < i < last
                        term = background_term(r2, dt2, a_x, a_t)
                        if limited:
                            term = pk.where(counts, term, 0.0)
                        factors = (1.0, r2, dt2)
                        for k in range(n_mu):
                            mu_part[k, r] = pk.fma(term, factors[k], mu_part[k, r])
                            share[k] = pk.fma(term, factors[k], share[k])
                        if terms_of(g, n_xi, r2, dt, mark, p, xi_terms):
                            for k in range(n_xi):
                                term = xi_terms[k]
                                if limited:
                                    term = pk.where(counts and dt > 0.0, term, 0.0)
                                xi_part[k, r] += term
                    for k in range(n_mu):
                        shares[k, j - start, team.rank] = share[k]
                team.barrier()
                for j in team.thread_range(start, until):
                    for k in range(n_mu):
                        total = 0.0
                        for m in range(pk.static(team.size)):
                            total += shares[k, j - start, m]
                        mu[k, later, j] += pk.float64(total)
                team.barrier()
                for r in range(rows):
                    for k in range(n_mu):
                        mu_sums[k, r, team.rank] += pk.float64(mu_part[k, r])
                    for k in range(n_xi):
                        xi_sums[k, r, team.rank] += pk.float64(xi_part[k, r])
        team.barrier()
        for r in range(rows):
            i = first + r * team.size + team.rank
            if i < last:
                for k in range(n_mu):
                    mu[k, earlier, i] += mu_sums[k, r, team.rank]
                for k in range(n_xi):
                    xi[k, earlier, i] = xi_sums[k, r, team.rank]
        team.barrier()


@pk.kernel
def excitation_sums(team, g, groups, d, n_xi, reach, p, excitation):
    """Compute the sums of (2) over at least the earlier events within `reach` hours; each team takes GROUP
    consecutive events, group number groups[team.league_rank].

    The team visits earlier events backwards in time from the newest of the group, in blocks, until a block
    begins beyond the reach. Block lengths double: short windows waste little work, and long windows need few
    partial sums. 3 D + 5 operations and one exponential per pair, and 8 (D + 1) bytes for GROUP pairs.
    """
    excitation_group(team, g, groups[team.league_rank], d, n_xi, reach, p, excitation)


@pk.kernel
def event_terms(i, integral, marked, mu_scale, xi_scale, theta, p, horizon, t, marks, background, excitation):
    """Return event i's term of (4), log(mu_i + xi_i) less the excitation part of (3), and 1 / (mu_i +
    xi_i), the weight of an error in the rate.

    8 operations, a logarithm, an exponential, and 24 bytes per event.
    """
    rate = mu_scale * background[0, i] + xi_scale * excitation[0, i]
    return pk.log(rate) - theta * integral(horizon - t[i], marks[i] if marked else 0.0, p), 1.0 / rate


@pk.function
def slopes_of_block(team, g, n_dims, begin, end, column, widths, e, sums):
    """Write the sums of `event_slopes` over the events from `begin` to `end` to a column of `sums`; `e` are
    the arguments of `PairSums.of_events`."""
    a_x, a_t = widths
    mu_scale, xi_scale, theta, p, horizon, t, marks, background, excitation = e
    n_rows = 6 + g.n_own
    total = pk.local(n_rows, pk.float64)
    late = pk.local(g.n_own, pk.float64)
    slopes = pk.local(g.n_own, pk.float64)
    moments = pk.local(1 + g.n_own, pk.float64)
    for k in range(n_rows):
        total[k] = 0.0
    for i in team.thread_range(begin, end):
        rate = mu_scale * background[0, i] + xi_scale * excitation[0, i]
        inverse = 1.0 / rate
        left = horizon - t[i]
        mark = marks[i] if g.marked else 0.0
        expected = theta * g.integral(left, mark, p)
        g.integral_gradient(left, mark, p, late)
        for k in range(1 + g.n_own):
            moments[k] = excitation[k, i]
        g.slopes(n_dims, moments, p, slopes)
        total[0] += pk.log(rate) - expected
        total[1] += inverse
        weight = mu_scale * inverse
        total[2] += weight * background[0, i]
        total[3] += weight * (-2.0 * a_x * background[1, i] - n_dims * background[0, i])
        total[4] += weight * (-2.0 * a_t * background[2, i] - background[0, i])
        total[5] += xi_scale * excitation[0, i] * inverse - expected
        for k in range(g.n_own):
            total[6 + k] += xi_scale * slopes[k] * inverse - theta * late[k]
    for k in range(n_rows):
        value = team.reduce(total[k])
        if team.single():
            sums[k, column] = value


@pk.kernel
def event_slopes(team, g, n_dims, first, end, block, widths, e, sums):
    """Add up over a block of the events from `first` to `end`: the two results of `event_terms`, and the
    contributions to the derivatives of (4) in the logarithms of mu0, tau_x, tau_t (these three without the
    background part of (3)), theta and p. Each quantity is a row of `sums`."""
    begin = first + team.league_rank * block
    slopes_of_block(team, g, n_dims, begin, min(begin + block, end), team.league_rank, widths, e, sums)


@pk.kernel
def slopes_of_several(
    team, g, n_dims, n_blocks, block, widths, rows, horizon, t, marks, background, excitation, sums
):
    """Compute `event_slopes` over all events for several parameter sets: one team for each row of `rows`
    (`row_of_params`) and block; `excitation` has the shape (n_several, n_xi, n_events), `sums` (n_several,
    n_rows, n_blocks)."""
    which, column = team.league_rank // n_blocks, team.league_rank % n_blocks
    p = pk.local(g.n_own, pk.float64)
    own_parameters(g, rows, which, p)
    own = excitation[which]
    e = (
        rows[which, MU_SCALE],
        rows[which, XI_SCALE],
        rows[which, THETA],
        p,
        horizon,
        t,
        marks,
        background,
        own,
    )
    begin = column * block
    end = min(begin + block, t.shape[0])
    slopes_of_block(team, g, n_dims, begin, end, column, widths, e, sums[which])
