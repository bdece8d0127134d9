"""Kernels that summarise a fitted model; arguments as in `portable.models.hawkes.kernels`. Constants of
the triggering function are compiled in."""

import portable as pk

from .kernels import background_terms, mark_of, squared_distance


@pk.kernel
def add_probability(i, mu_scale, xi_scale, background, excitation, moments, bins):
    """Add event i's probability (5) at one posterior draw to its sum, its sum of squares, and its
    histogram over [0, 1]."""
    xi = xi_scale * excitation[0, i]
    rate = mu_scale * background[0, i] + xi
    share = xi / rate if xi > 0.0 else 0.0
    moments[0, i] += share
    moments[1, i] += share * share
    n = bins.shape[1]
    bins[i, min(int(share * n), n - 1)] += 1


@pk.kernel
def bin_quantile(i, probability, n_draws, bins, row, out):
    """Compute the quantile of event i at level `probability` from its histogram, by linear interpolation
    within the bin."""
    wanted = probability * n_draws
    n = bins.shape[1]
    below = 0.0
    k = 0
    while k < n - 1 and below + bins[i, k] < wanted:
        below += bins[i, k]
        k += 1
    inside = (wanted - below) / bins[i, k] if bins[i, k] > 0 else 0.0
    out[row, i] = (k + pk.clip(inside, 0.0, 1.0)) / n


@pk.kernel
def pair_shares(e, value, marked, scale, r2_of, dt_of, mark_at, p, event, rates, out):
    """Compute the share of listed pair e in the rate of its later event: the probability that the earlier
    event triggered it."""
    out[e] = scale * value(r2_of[e], dt_of[e], mark_at[e] if marked else 0.0, p) / rates[event[e]]


@pk.kernel
def intensity_at(team, g, n_dims, mu_scale, xi_scale, places, moments, x, t, a_x, a_t, p, out):
    """Compute background and excitation at one place and time, from all events and from the earlier
    events, respectively; one team per place.

    With mu_scale = 0 the background is omitted.
    """
    i = team.league_rank
    terms = pk.local(3, pk.float64)
    background = 0.0
    excitation = 0.0
    for j in team.thread_range(t.shape[0]):
        r2 = squared_distance(n_dims, False, places, i, x, j)
        dt = moments[i] - t[j]
        if mu_scale > 0.0:
            background_terms(r2, dt, a_x, a_t, terms)
            background += terms[0]
        if dt > 0.0:
            excitation += g.value(r2, dt, mark_of(g.marked, n_dims, x, j), p)
    background = team.reduce(background)
    excitation = team.reduce(excitation)
    if team.single():
        out[0, i] = mu_scale * background
        out[1, i] = xi_scale * excitation


@pk.kernel
def compensator(team, g, mu0, theta, per_hour, p, t, marks, first_mu, last_mu, gone, first_xi, come, out):
    """Compute the expected number of events from time 0 to the time of event i; one team per event.

    The mass of background kernel j in [0, t_i] is its mass between 0 and t_j plus its signed mass between t_j
    and t_i. gone[j] is the sum of the former over the first j events. The latter is 1/2 for events before
    first_mu[i]; events from last_mu[i] on have no mass before t_i. All offspring of events before first_xi[i]
    have occurred; come[j] is their expected number for the first j events, in units of theta.
    """
    i = team.league_rank
    background = 0.0
    for j in team.thread_range(first_mu[i], last_mu[i]):
        background += 0.5 * pk.erf((t[i] - t[j]) * per_hour)
    excitation = 0.0
    for j in team.thread_range(first_xi[i], i):
        excitation += g.integral(t[i] - t[j], marks[j] if g.marked else 0.0, p)
    background = team.reduce(background)
    excitation = team.reduce(excitation)
    if team.single():
        window = 0.5 * first_mu[i] + gone[last_mu[i]]
        out[i] = mu0 * (background + window) + theta * (excitation + come[first_xi[i]])
