"""Kernels of the background (1), and definitions that all kernels of the model share. Equations are
numbered as in `portable.models.hawkes`.

Arguments that recur
    x           locations, shape (n_rows, n_events): n_dims rows; then the marks, if any, in row n_dims; then,
                if `wide`, the residuals of the locations from their float32 values, in another n_dims rows
    t           times, shape (n_parts, n_events): a time is the sum of its parts, one in float64 or two in
                float32. Parts are subtracted separately, so that two float32 parts give the difference to
                float32 accuracy
    before      before[i] is the number of events strictly earlier than event i: ties excite nothing
    a_x, a_t    -1 / (2 tau_x^2), -1 / (2 tau_t^2): the factors of r^2 and dt^2 in the exponent of (1)
    p           the parameters of the triggering function, a tuple of numbers
    n_dims, n_parts, wide    compile-time constants
    d           n_dims, n_parts, wide, x and t as `Data`
    n_mu, n_xi  compile-time constants: 1 for the sums only; with derivatives, 3 and 1 + the number of
                parameters in p

The sums omit the constant factors of (1) and (2). Row 0 of `background` and `excitation`, shapes (n_mu,
n_events) and (n_xi, n_events), is the sum itself. The further rows are sums of moments, from which
derivatives are computed: terms times r^2 and terms times dt^2 for the background, the products of
`Triggering.moments` for the excitation. Terms are added up in the dtype of x and t, a few dozen at a time,
and these partial sums in float64.
"""

import math
from typing import Any, NamedTuple

import portable as pk

# exp(v) = 2^(v log2(e)): a power of 2 costs less, and log2(e) merges with the constant factors of v
LOG2_E = math.log2(math.e)
# Terms that a team member adds between two additions to its float64 sum: at most 32 roundings in float32.
TERMS = 32
GROUP = 4  # events per team in background_sums


class Data(NamedTuple):
    """The events as an argument of kernels over windows and blocks: the views, and compile-time constants
    that describe their layout."""

    n_dims: Any
    n_parts: Any
    wide: Any
    x: pk.View
    t: pk.View


@pk.function
def squared_distance(n_dims, wide, x, i, y, j):
    """Return the squared distance r_ij^2 between location i in x and location j in y."""
    r2 = 0.0
    for c in range(n_dims):
        d = x[c, i] - y[c, j]
        if wide:
            d += x[n_dims + 1 + c, i] - y[n_dims + 1 + c, j]
        r2 += d * d
    return r2


@pk.function
def place_rows(n_dims, wide):
    """Return the number of leading rows of x that hold locations (if `wide`, with the row of marks between
    them)."""
    return 2 * n_dims + 1 if wide else n_dims


@pk.function
def mark_of(marked, n_dims, x, i):
    """Return the mark of event i; 0 if the triggering function uses no marks."""
    return x[n_dims, i] if marked else 0.0


@pk.function
def elapsed(n_parts, t, i, s, j):
    """Return the time difference t_i - s_j."""
    dt = t[0, i] - s[0, j]
    for p in range(1, n_parts):
        dt += t[p, i] - s[p, j]
    return dt


@pk.function
def background_term(r2, dt2, a_x, a_t):
    """Return the exponential of (1), exp(a_x r2 + a_t dt2): an unnormalised normal density in space and
    time."""
    return pk.fast_exp2(LOG2_E * a_x * r2 + LOG2_E * a_t * dt2)


@pk.function
def background_terms(r2, dt, a_x, a_t, out):
    """Write the term of (1) and its moments, term * r2 and term * dt^2, to out."""
    dt2 = dt * dt
    term = background_term(r2, dt2, a_x, a_t)
    out[0] = term
    out[1] = term * r2
    out[2] = term * dt2


@pk.kernel
def add_tiles(row, i, n_mu, block, self_term, mu, xi, background, excitation):
    """Add up the block sums of `pair_tiles` for event i: row `row` of the background, or row `row - n_mu`
    of the excitation. 8 n_blocks bytes.

    In xi, only the rows of the event's block and of earlier blocks are defined.
    """
    if row < n_mu:
        total = pk.float64(self_term if row == 0 else 0.0)
        for b in range(mu.shape[1]):
            total += mu[row, b, i]
        background[row, i] = total
    else:
        total = xi[row - n_mu, 0, i]
        for b in range(1, i // block + 1):
            total += xi[row - n_mu, b, i]
        excitation[row - n_mu, i] = total


@pk.function
def first_after(n_parts, t, low, high, own, reach):
    """Return the first event in [low, high) that is more than `reach` hours after event `own`; `high` if
    there is none."""
    while low < high:
        middle = (low + high) // 2
        if elapsed(n_parts, t, middle, t, own) > reach:
            high = middle
        else:
            low = middle + 1
    return low


@pk.function
def background_group(team, group, d, n_mu, reach, self_term, a_x, a_t, background):
    """Compute the sums of `background_sums` for the GROUP events of group `group`."""
    own = group * GROUP
    newest = min(own + GROUP, d.x.shape[1]) - 1
    first = first_after(d.n_parts, d.t, 0, own, own, -reach)
    last = first_after(d.n_parts, d.t, newest + 1, d.t.shape[1], newest, reach)
    mu = pk.local((n_mu, GROUP), pk.float64)
    mu_part = pk.local((n_mu, GROUP), d.x.dtype)
    terms = pk.local(3, d.x.dtype)
    mu[:] = 0.0
    step = TERMS * team.size
    for begin in range(first, last, step):
        mu_part[:] = 0.0
        for j in team.thread_range(begin, min(begin + step, last)):
            for r in range(pk.static(GROUP)):
                i = min(own + r, newest)
                dt = elapsed(d.n_parts, d.t, i, d.t, j)
                background_terms(squared_distance(d.n_dims, d.wide, d.x, i, d.x, j), dt, a_x, a_t, terms)
                for k in range(n_mu):
                    mu_part[k, r] += pk.where(j == i, 0.0, terms[k])
        for r in range(pk.static(GROUP)):
            for k in range(n_mu):
                mu[k, r] += pk.float64(mu_part[k, r])
    for r in range(pk.static(GROUP)):
        for k in range(n_mu):
            total = team.reduce(mu[k, r])
            if team.single() and own + r <= newest:
                background[k, own + r] = total + (self_term if k == 0 else 0.0)


@pk.kernel
def background_sums(team, groups, d, n_mu, reach, self_term, a_x, a_t, background):
    """Compute the sums of (1) over at least the events within `reach` hours; each team takes GROUP
    consecutive events, group number groups[team.league_rank].

    The time windows of a group's events nearly coincide, so the team visits their union, and each event
    loaded is used for all GROUP sums. Two bisections per team; 3 D + 6 operations and one exponential per
    pair; 8 (D + 1) bytes for GROUP pairs.
    """
    background_group(team, groups[team.league_rank], d, n_mu, reach, self_term, a_x, a_t, background)


@pk.function
def normal_slope(z):
    """Return z times the standard normal density at z."""
    return z * 0.3989422804014327 * pk.exp(-0.5 * z * z)


@pk.kernel
def observed_share(i, per_hour, horizon, t):
    """Return the factor of mu0 in (3), the mass of event i's background kernel inside [0, T], and its
    derivative in log tau_t.

    `per_hour` is 1 / (sqrt(2) tau_t). Phi is written with erf because both terms are then positive; the
    difference of two values of Phi would cancel for small arguments.
    """
    left, gone = (horizon - t[i]) * per_hour, t[i] * per_hour
    root2 = 1.4142135623730951
    return 0.5 * (pk.erf(left) + pk.erf(gone)), -(normal_slope(root2 * left) + normal_slope(root2 * gone))
