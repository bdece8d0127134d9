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


@pk.function
def squared_distance(n_dims, x, i, j):
    """r_ij^2."""
    r2 = 0.0
    for c in range(n_dims):
        d = x[c, i] - x[c, j]
        r2 += d * d
    return r2


@pk.function
def elapsed(n_parts, t, i, j):
    """t_i - t_j."""
    dt = t[0, i] - t[0, j]
    for p in range(1, n_parts):
        dt += t[p, i] - t[p, j]
    return dt


@pk.function
def background_term(r2, dt, a_x, a_t):
    """The exponential of (1): a normal density in space and time."""
    return pk.exp(a_x * r2 + a_t * dt * dt)


@pk.function
def excitation_term(r2, dt, a_h, omega):
    """The exponential of (2): normal in space, exponential decay in time."""
    return pk.exp(a_h * r2 - omega * dt)


@pk.kernel
def pair_sums(team, n_dims, n_parts, x, t, before, self_term, a_x, a_t, a_h, omega, background, excitation):
    """Sums of (1) and (2) over all pairs; a team an event.

    An earlier event costs 3 D + 10 operations and two exponentials, another 3 D + 6 and one; 8 (D + 1) bytes are read
    for each (in float64), nearly all from cache. 16 bytes an event are written.
    """
    i = team.league_rank
    n = x.shape[1]
    step = TERMS * team.size
    mu = pk.float64(0.0)
    xi = pk.float64(0.0)
    for begin in range(0, before[i], step):
        mu_part = 0.0
        xi_part = 0.0
        for j in team.thread_range(begin, min(begin + step, before[i])):
            r2 = squared_distance(n_dims, x, i, j)
            dt = elapsed(n_parts, t, i, j)
            mu_part += background_term(r2, dt, a_x, a_t)
            xi_part += excitation_term(r2, dt, a_h, omega)
        mu += pk.float64(mu_part)
        xi += pk.float64(xi_part)
    for begin in range(before[i], n, step):  # the event itself, ties and later events are background only
        mu_part = 0.0
        for j in team.thread_range(begin, min(begin + step, n)):
            term = background_term(squared_distance(n_dims, x, i, j), elapsed(n_parts, t, i, j), a_x, a_t)
            mu_part += pk.where(j == i, 0.0, term)
        mu += pk.float64(mu_part)
    mu = team.reduce(mu)
    xi = team.reduce(xi)
    if team.single():
        background[i] = self_term + mu
        excitation[i] = xi


@pk.kernel
def background_sums(team, n_dims, n_parts, x, t, reach, self_term, a_x, a_t, background):
    """Sums of (1) over the events within `reach` hours; a team an event.

    Two bisections an event, then 3 D + 6 operations, one exponential and 8 (D + 1) bytes a pair.
    """
    i = team.league_rank
    n = x.shape[1]
    first = 0
    low = i
    while first < low:  # first: the oldest event with t_i - t_j <= reach
        middle = (first + low) // 2
        if elapsed(n_parts, t, i, middle) > reach:
            first = middle + 1
        else:
            low = middle
    last = i + 1
    high = n
    while last < high:  # last: one past the newest event with t_j - t_i <= reach
        middle = (last + high) // 2
        if elapsed(n_parts, t, middle, i) > reach:
            high = middle
        else:
            last = middle + 1
    step = TERMS * team.size
    mu = pk.float64(0.0)
    for begin in range(first, last, step):
        mu_part = 0.0
        for j in team.thread_range(begin, min(begin + step, last)):
            term = background_term(squared_distance(n_dims, x, i, j), elapsed(n_parts, t, i, j), a_x, a_t)
            mu_part += pk.where(j == i, 0.0, term)
        mu += pk.float64(mu_part)
    mu = team.reduce(mu)
    if team.single():
        background[i] = self_term + mu


@pk.kernel
def excitation_sums(team, n_dims, n_parts, x, t, before, reach, a_h, omega, excitation):
    """Sums of (2) over the earlier events within `reach` hours, newest first; a team an event.

    Walks back in blocks until one lies wholly beyond the reach, so that a short window needs no search. Blocks double:
    a window of few events costs few, a long one few partial sums. 3 D + 5 operations, one exponential and 8 (D + 1)
    bytes a pair.
    """
    i = team.league_rank
    end = before[i]
    terms = 1
    xi = pk.float64(0.0)
    while end > 0 and elapsed(n_parts, t, i, end - 1) <= reach:
        begin = max(end - terms * team.size, 0)
        xi_part = 0.0
        for j in team.thread_range(begin, end):
            xi_part += excitation_term(squared_distance(n_dims, x, i, j), elapsed(n_parts, t, i, j), a_h, omega)
        xi += pk.float64(xi_part)
        end = begin
        terms = min(2 * terms, TERMS)
    xi = team.reduce(xi)
    if team.single():
        excitation[i] = xi


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
