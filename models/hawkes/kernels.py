"""Kernels of the Hawkes log-likelihood; the equations are numbered in `models.hawkes`.

Arguments that recur
    x           locations, shape (n_dims, n_events)
    t           times, shape (n_parts, n_events): a time is the sum of its parts, one in float64 or two in float32.
                Parts are subtracted one by one, so that two float32 parts give the difference to float32 accuracy
    before      before[i] is the number of events strictly earlier than event i: ties excite nothing
    a_x, a_t, a_h      -1 / (2 tau_x^2), -1 / (2 tau_t^2), -1 / (2 h^2): what multiplies squares in the exponents
    n_dims, n_parts    compile-time constants

The constant factors of (1) and (2) stay out of the sums: `background` and `excitation` are sums of exponentials alone.
Contributions are added up in the dtype of x and t, a few dozen at a time, and those partial sums in float64.
"""

import portable as pk

TERMS = 32  # contributions of a member between two additions to its float64 sum: at most 32 roundings in float32
ROWS = 8  # events that a member of pair_tiles keeps in registers
GROUP = 4  # events of a team of background_sums


@pk.function
def squared_distance(n_dims, x, i, y, j):
    """r_ij^2 of location i in x and j in y."""
    r2 = 0.0
    for c in range(n_dims):
        d = x[c, i] - y[c, j]
        r2 += d * d
    return r2


@pk.function
def elapsed(n_parts, t, i, s, j):
    """t_i - s_j."""
    dt = t[0, i] - s[0, j]
    for p in range(1, n_parts):
        dt += t[p, i] - s[p, j]
    return dt


@pk.function
def background_term(r2, dt, a_x, a_t):
    """The exponential of (1): a normal density in space and time."""
    return pk.fast_exp(a_x * r2 + a_t * dt * dt)


@pk.function
def excitation_term(r2, dt, a_h, omega):
    """The exponential of (2): normal in space, exponential decay in time."""
    return pk.fast_exp(a_h * r2 - omega * dt)


@pk.kernel
def pair_tiles(team, n_dims, n_parts, x, t, before, tiles, block, a_x, a_t, a_h, omega, mu, xi):
    """Sums of (1), the own term apart, and of (2) between two blocks of events; a team a pair of blocks.

    The background is symmetric, so a pair is visited once: events of block tiles[0, k] against earlier ones of block
    tiles[1, k]. Row b of `mu` and `xi`, shape (n_blocks, n_events), takes what block b adds to an event; no other team
    writes there, so nothing is atomic and every run gives the same bits. A member keeps ROWS later events in registers
    and walks the earlier ones. 3 D + 11 operations and two exponentials a pair; 8 (D + 2) bytes for every
    ROWS * team.size pairs.
    """
    later = tiles[0, team.league_rank]
    earlier = tiles[1, team.league_rank]
    n = x.shape[1]
    width = ROWS * team.size
    begin = earlier * block
    end = min(begin + block, n)
    last = min(later * block + block, n)
    for j in team.thread_range(begin, end):
        mu[later, j] = 0.0
    for i in team.thread_range(later * block, last):
        mu[earlier, i] = 0.0
    team.barrier()

    background_limit = pk.local(ROWS, pk.int64)  # a member's event r takes background from earlier events up to here,
    excitation_limit = pk.local(ROWS, pk.int64)  # and excitation up to here
    x_own = pk.local((n_dims, ROWS), x.dtype)
    t_own = pk.local((n_parts, ROWS), t.dtype)
    mu_own = pk.local(ROWS, pk.float64)
    xi_own = pk.local(ROWS, pk.float64)
    mu_part = pk.local(ROWS, x.dtype)
    xi_part = pk.local(ROWS, x.dtype)
    for first in range(later * block, last, width):
        for r in range(pk.static(ROWS)):
            i = first + r * team.size + team.rank
            present = min(i, n - 1)
            background_limit[r] = pk.where(i < last, i, 0)
            excitation_limit[r] = pk.where(i < last, before[present], 0)
            for c in range(n_dims):
                x_own[c, r] = x[c, present]
            for p in range(n_parts):
                t_own[p, r] = t[p, present]
            mu_own[r] = 0.0
            xi_own[r] = 0.0
        stop = min(end, first + width)
        free = min(before[first], stop) if first + width <= last else begin  # before it no pair is in doubt
        for limited in (False, True):
            for start in range(max(free, begin) if limited else begin, stop if limited else free, TERMS):
                for r in range(pk.static(ROWS)):
                    mu_part[r] = 0.0
                    xi_part[r] = 0.0
                for j in range(start, min(start + TERMS, stop if limited else free)):
                    sum_before = mu[later, j]
                    column = 0.0
                    for r in range(pk.static(ROWS)):
                        r2 = squared_distance(n_dims, x_own, r, x, j)
                        dt = elapsed(n_parts, t_own, r, t, j)
                        mu_term = background_term(r2, dt, a_x, a_t)
                        xi_term = excitation_term(r2, dt, a_h, omega)
                        if limited:
                            mu_term = pk.where(j < background_limit[r], mu_term, 0.0)
                            xi_term = pk.where(j < excitation_limit[r], xi_term, 0.0)
                        mu_part[r] += mu_term
                        xi_part[r] += xi_term
                        column += mu_term
                    column = team.reduce(column)
                    if team.single():
                        mu[later, j] = sum_before + pk.float64(column)
                for r in range(pk.static(ROWS)):
                    mu_own[r] += pk.float64(mu_part[r])
                    xi_own[r] += pk.float64(xi_part[r])
        team.barrier()
        for r in range(pk.static(ROWS)):
            i = first + r * team.size + team.rank
            if i < last:
                mu[earlier, i] += mu_own[r]
                xi[earlier, i] = xi_own[r]
        team.barrier()


@pk.kernel
def add_tiles(i, block, self_term, mu, xi, background, excitation):
    """Add up the rows of `pair_tiles`; xi has rows of the event's own and earlier blocks only. 12 n_blocks bytes."""
    total = pk.float64(self_term)
    for b in range(mu.shape[0]):
        total += mu[b, i]
    background[i] = total
    total = xi[0, i]
    for b in range(1, i // block + 1):
        total += xi[b, i]
    excitation[i] = total


@pk.kernel
def background_sums(team, n_dims, n_parts, x, t, reach, self_term, a_x, a_t, background):
    """Sums of (1) over at least the events within `reach` hours; a team GROUP events in a row.

    Their windows are nearly one, so each takes the union and an event that is read serves them all. Two bisections a
    team, then 3 D + 6 operations and one exponential a pair, and 8 (D + 1) bytes for GROUP pairs.
    """
    n = x.shape[1]
    own = team.league_rank * GROUP
    newest = min(own + GROUP, n) - 1
    first = 0
    low = own
    while first < low:  # first: the oldest event with t_own - t_j <= reach
        middle = (first + low) // 2
        if elapsed(n_parts, t, own, t, middle) > reach:
            first = middle + 1
        else:
            low = middle
    last = newest + 1
    high = n
    while last < high:  # last: one past the newest event with t_j - t_newest <= reach
        middle = (last + high) // 2
        if elapsed(n_parts, t, middle, t, newest) > reach:
            high = middle
        else:
            last = middle + 1
    mu = pk.local(GROUP, pk.float64)
    mu_part = pk.local(GROUP, x.dtype)
    for r in range(pk.static(GROUP)):
        mu[r] = 0.0
    step = TERMS * team.size
    for begin in range(first, last, step):
        for r in range(pk.static(GROUP)):
            mu_part[r] = 0.0
        for j in team.thread_range(begin, min(begin + step, last)):
            for r in range(pk.static(GROUP)):
                i = min(own + r, newest)
                term = background_term(squared_distance(n_dims, x, i, x, j), elapsed(n_parts, t, i, t, j), a_x, a_t)
                mu_part[r] += pk.where(j == i, 0.0, term)
        for r in range(pk.static(GROUP)):
            mu[r] += pk.float64(mu_part[r])
    for r in range(pk.static(GROUP)):
        total = team.reduce(mu[r])
        if team.single() and own + r <= newest:
            background[own + r] = self_term + total


@pk.kernel
def excitation_sums(team, n_dims, n_parts, x, t, reach, a_h, omega, excitation):
    """Sums of (2) over at least the earlier events within `reach` hours; a team GROUP events in a row.

    Walks back from the newest of them in blocks, until one lies wholly beyond the reach. Blocks double: a window of few
    events costs few, a long one few partial sums. 3 D + 5 operations and one exponential a pair, and 8 (D + 1) bytes for
    GROUP pairs.
    """
    own = team.league_rank * GROUP
    newest = min(own + GROUP, x.shape[1]) - 1
    xi = pk.local(GROUP, pk.float64)
    xi_part = pk.local(GROUP, x.dtype)
    for r in range(pk.static(GROUP)):
        xi[r] = 0.0
    end = newest
    terms = 1
    while end > 0 and elapsed(n_parts, t, own, t, end - 1) <= reach:
        begin = max(end - terms * team.size, 0)
        for r in range(pk.static(GROUP)):
            xi_part[r] = 0.0
        for j in team.thread_range(begin, end):
            for r in range(pk.static(GROUP)):
                i = min(own + r, newest)
                dt = elapsed(n_parts, t, i, t, j)
                term = excitation_term(squared_distance(n_dims, x, i, x, j), dt, a_h, omega)
                xi_part[r] += pk.where(dt > 0.0, term, 0.0)
        for r in range(pk.static(GROUP)):
            xi[r] += pk.float64(xi_part[r])
        end = begin
        terms = min(2 * terms, TERMS)
    for r in range(pk.static(GROUP)):
        total = team.reduce(xi[r])
        if team.single() and own + r <= newest:
            excitation[own + r] = total


@pk.kernel
def observed_share(i, per_hour, horizon, t):
    """The factor of mu0 in (3), the mass of a background kernel inside [0, T], with per_hour = 1 / (sqrt(2) tau_t).

    Written with erf: both terms are positive, where the difference of two Phi would cancel for small arguments.
    """
    return 0.5 * (pk.erf((horizon - t[i]) * per_hour) + pk.erf(t[i] * per_hour))


@pk.kernel
def event_terms(i, mu_scale, xi_scale, theta, omega, horizon, t, background, excitation):
    """log(mu_i + xi_i) less the excitation of (3), and 1 / (mu_i + xi_i), by which errors of the rate count.

    8 operations, a logarithm, an exponential, and 24 bytes an event.
    """
    rate = mu_scale * background[i] + xi_scale * excitation[i]
    return pk.log(rate) + theta * pk.expm1(-omega * (horizon - t[i])), 1.0 / rate
