"""Kernels for a step of Algorithm 1 of Holbrook et al. for several chains, entirely on the space: nothing
is copied to the host between steps.

A step consists of a sum over pairs (if the proposal changes a parameter of the triggering function or of the
background), a sum over events, and a decision kernel that accepts or rejects, adapts the proposal, records
the draw and makes the next proposal. Each chain changes its own randomly chosen parameter, so each computes
only the sums that its proposal changes.

Arguments that recur; C chains, P parameters in the order of `Parameters.names()`, F of them free
    values, proposed    shape (C, P)
    counts              shape (C, len(COUNTS)), integers, and
    state               shape (C, len(STATE)): the state of each chain, columns below
    background, excitation   shape (C or 1, 2 or 1, 1, n_events): for each chain the sums at the current and
                             at the proposed parameters; MU_HALF and XI_HALF of `counts` are the indices of
                             the current ones
"""

import portable as pk

from .cell_kernels import row_sums
from .excitation import excitation_group
from .kernels import background_group
from .triggering import normal_scale

# Columns of counts.
STEP, MOVED, MU_HALF, XI_HALF, STALLED = range(5)
# Columns of state.
LOG_LIKELIHOOD, LOG_RATIO, SHARE, MASS, WORST = range(5)
# Columns of tallies, shape (C, F, 5): of the running batch and of all steps.
BATCH, BATCH_ACCEPTED, BATCH_SIZE, TRIED, ACCEPTED = range(5)
# MOVED is the index of a free parameter, or one of these: all sums must be evaluated; the chain has ended.
EVERYTHING, NOTHING = -1, -2
# Reasons why a chain is stalled until the host acts: its proposal is outside the range of the list of pairs;
# the error exceeds its bound.
OUT_OF_RANGE, TOO_COARSE = 1, 2

# random numbers reserved per step: the choice of parameter, the acceptance, and tries of a truncated normal
DRAWS = 64
TARGET = 0.44  # acceptance rate of univariate proposals (Roberts and Rosenthal), as in the paper
N_SUMS = 4
SPENT = 40.0  # beyond this exponent all offspring have occurred: 1 - exp(-40) is 1 in float64


@pk.function
def moves(counts, chain, place_of, first, last):
    """Return True if the chain's proposal changes one of the parameters first ... last, or all sums must
    be evaluated."""
    moved = counts[chain, MOVED]
    place = place_of[max(moved, 0)]
    waits = counts[chain, STALLED] != 0 or moved == NOTHING
    return not waits and (moved == EVERYTHING or (place >= first and place <= last))


@pk.function
def log_prior_of(prior, v):
    """Return the log prior density of a coordinate at v, up to a constant, from its coefficients:
    `portable.models.hawkes.priors`."""
    log_v = pk.log(v)
    return prior[0] * log_v + prior[1] * v + prior[2] * v * v + prior[3] * log_v * log_v


@pk.kernel
def chain_background(team, d, n_teams, reach, self_term, counts, place_of, proposed, background):
    """Compute the sums of (1) for the chains that change tau_x or tau_t; one team per chain and group of
    events."""
    chain = team.league_rank // n_teams
    if moves(counts, chain, place_of, 1, 2):
        tau_x, tau_t = proposed[chain, 1], proposed[chain, 2]
        half = 1 - counts[chain, MU_HALF]
        background_group(
            team,
            team.league_rank % n_teams,
            d,
            pk.static(1),
            reach,
            self_term,
            -0.5 / (tau_x * tau_x),
            -0.5 / (tau_t * tau_t),
            background[chain, half],
        )


@pk.function
def proposed_parameters(g, proposed, chain, p):
    """Write the proposed parameters of the triggering function to p in the form for kernels, as
    `Triggering.for_kernels` does."""
    for k in range(g.n_own):
        v = proposed[chain, 4 + k]
        p[k] = 1.0 / v if g.reciprocal[k] else v


@pk.kernel
def chain_excitation(team, g, listed, n_teams, reach, source, counts, place_of, proposed, excitation):
    """Compute the sums of (2) for the chains that change a parameter of the triggering function: over a
    list of pairs, or over windows in time when the list would be too long."""
    chain = team.league_rank // n_teams
    if moves(counts, chain, place_of, 4, 3 + g.n_own):
        p = pk.local(g.n_own, pk.float64)
        proposed_parameters(g, proposed, chain, p)
        own = team.league_rank % n_teams
        half = 1 - counts[chain, XI_HALF]
        if listed:
            row_sums(team, g, own, pk.static(1), source, p, excitation[chain, half])
        else:
            excitation_group(team, g, own, source, pk.static(1), reach, p, excitation[chain, half])


@pk.function
def scales(g, n_dims, given, proposed, chain, p):
    """Return the constant factors of the sums of (1) and (2) at the proposed parameters; with a given
    background, the first is mu0. Write the parameters of the triggering function to p."""
    proposed_parameters(g, proposed, chain, p)
    mu0 = proposed[chain, 0]
    background = mu0
    if not given:
        background = (
            mu0 * normal_scale(n_dims, 1.0 / proposed[chain, 1]) * normal_scale(1, 1.0 / proposed[chain, 2])
        )
    return background, proposed[chain, 3] * g.scale(n_dims, p)


@pk.kernel
def chain_events(
    team,
    g,
    n_dims,
    given,
    n_teams,
    block,
    t,
    marks,
    horizon,
    counts,
    place_of,
    proposed,
    background,
    excitation,
    sums,
):
    """Add up over a block of events: log rates and 1 / rates, and, where the proposal changes them, the
    shares of mu0 and theta in (3)."""
    chain = team.league_rank // n_teams
    if counts[chain, STALLED] == 0 and counts[chain, MOVED] != NOTHING:
        p = pk.local(g.n_own, pk.float64)
        factors = scales(g, n_dims, given, proposed, chain, p)
        mu_scale, xi_scale = factors[0], factors[1]
        new_mu = moves(counts, chain, place_of, 1, 2)
        new_xi = moves(counts, chain, place_of, 4, 3 + g.n_own)
        mu_half = 1 - counts[chain, MU_HALF] if new_mu else counts[chain, MU_HALF]
        xi_half = 1 - counts[chain, XI_HALF] if new_xi else counts[chain, XI_HALF]
        mu = background[min(chain, background.shape[0] - 1), min(mu_half, background.shape[1] - 1), 0]
        xi = excitation[chain, xi_half, 0]
        per_hour = 0.7071067811865476 / proposed[chain, 2]
        logs = 0.0
        inverses = 0.0
        shares = 0.0
        masses = 0.0
        begin = team.league_rank % n_teams * block
        end = min(begin + block, t.shape[0])
        for i in team.thread_range(begin, end):
            rate = mu_scale * mu[i] + xi_scale * xi[i]
            logs += pk.log(rate)
            inverses += 1.0 / rate
        if new_mu and not given:
            for i in team.thread_range(begin, end):
                shares += 0.5 * (pk.erf((horizon - t[i]) * per_hour) + pk.erf(t[i] * per_hour))
        if new_xi:
            spent = not g.marked and g.exponent(0.0, horizon - t[end - 1], 0.0, p) > SPENT
            for i in team.thread_range(begin, end):
                if spent:
                    masses += 1.0
                else:
                    masses += g.integral(horizon - t[i], marks[i] if g.marked else 0.0, p)
        block_sums = (logs, inverses, shares, masses)
        for k in range(pk.static(N_SUMS)):
            total = team.reduce(block_sums[k])
            if team.single():
                sums[k, chain, team.league_rank % n_teams] = total


@pk.function
def adapt(tallies, chain, k, sds):
    """Scale the proposal standard deviation of parameter k by its acceptance rate after a batch of b
    proposals; b then grows to b^1.1."""
    n = tallies[chain, k, BATCH]
    size = tallies[chain, k, BATCH_SIZE]
    if n >= size:
        sds[chain, k] *= pk.clip(tallies[chain, k, BATCH_ACCEPTED] / (n * TARGET), 0.5, 2.0)
        tallies[chain, k, BATCH] = 0
        tallies[chain, k, BATCH_ACCEPTED] = 0
        tallies[chain, k, BATCH_SIZE] = pk.int64(pk.ceil(pk.exp(1.1 * pk.log(pk.float64(size)))))


@pk.function
def propose(
    seed, stream, chain, step, place_of, inverted, priors, low, high, values, proposed, sds, counts, state
):
    """Propose a value of a randomly chosen parameter from a normal density truncated to positive values."""
    k = pk.random.randint(seed, stream, step * DRAWS, place_of.shape[0])
    place = place_of[k]
    for c in range(values.shape[1]):
        proposed[chain, c] = values[chain, c]
    counts[chain, MOVED] = k
    v = 1.0 / values[chain, place] if inverted[k] else values[chain, place]
    new = -1.0
    draw = 2
    while new <= 0.0 and draw < DRAWS:  # each try succeeds with probability 1/2 or more
        new = v + sds[chain, k] * pk.random.normal(seed, stream, step * DRAWS + draw)
        draw += 1
    allowed = new > priors[k, 4] and new < priors[k, 5] and new > 1e-15 and new < 1e15
    state[chain, LOG_RATIO] = -1e300
    if allowed:
        # q(v | new) / q(new | v)
        ratio = pk.log(pk.ndtr(v / sds[chain, k]) / pk.ndtr(new / sds[chain, k]))
        state[chain, LOG_RATIO] = ratio + log_prior_of(priors[k], new) - log_prior_of(priors[k], v)
        proposed[chain, place] = 1.0 / new if inverted[k] else new
        if proposed[chain, place] < low[place] or proposed[chain, place] > high[place]:
            counts[chain, STALLED] = OUT_OF_RANGE


@pk.kernel
def chain_decide(
    team,
    g,
    n_dims,
    given,
    seed,
    first,
    missed_mu,
    missed_xi,
    tolerance,
    place_of,
    inverted,
    priors,
    low,
    high,
    sums,
    values,
    proposed,
    sds,
    counts,
    tallies,
    state,
    thin,
    draws,
):
    """Accept or reject the proposal of each chain, record the step, adapt, and make the next proposal; one
    team per chain.

    A row of draws, shape (C, n_rows, F + 1), is written `thin` times, and the last of these remains. Chain c
    uses the random numbers of stream first + c.
    """
    chain = team.league_rank
    totals = pk.local(N_SUMS, pk.float64)
    for k in range(pk.static(N_SUMS)):
        part = 0.0
        for b in team.thread_range(sums.shape[2]):
            part += sums[k, chain, b]
        totals[k] = team.reduce(part)
    n_free = place_of.shape[0]
    if team.single() and counts[chain, STALLED] == 0 and counts[chain, MOVED] != NOTHING:
        moved = counts[chain, MOVED]
        p = pk.local(g.n_own, pk.float64)
        factors = scales(g, n_dims, given, proposed, chain, p)
        new_mu = moves(counts, chain, place_of, 1, 2)
        new_xi = moves(counts, chain, place_of, 4, 3 + g.n_own)
        share = totals[2] if new_mu and not given else state[chain, SHARE]
        mass = totals[3] if new_xi else state[chain, MASS]
        value = totals[0] - proposed[chain, 0] * share - proposed[chain, 3] * mass
        error = (missed_mu * factors[0] + missed_xi * factors[1]) * totals[1]
        if error > tolerance:
            counts[chain, STALLED] = TOO_COARSE
        else:
            step = counts[chain, STEP]
            accepted = True
            if moved != EVERYTHING:
                threshold = pk.log(pk.random.uniform_open(seed, first + chain, step * DRAWS + 1))
                accepted = threshold < value - state[chain, LOG_LIKELIHOOD] + state[chain, LOG_RATIO]
            if accepted:
                for c in range(values.shape[1]):
                    values[chain, c] = proposed[chain, c]
                state[chain, LOG_LIKELIHOOD] = value
                state[chain, SHARE] = share
                state[chain, MASS] = mass
                state[chain, WORST] = max(state[chain, WORST], error / abs(value))
                if new_mu:
                    counts[chain, MU_HALF] = 1 - counts[chain, MU_HALF]
                if new_xi:
                    counts[chain, XI_HALF] = 1 - counts[chain, XI_HALF]
            if moved != EVERYTHING:
                gained = 1 if accepted else 0
                tallies[chain, moved, BATCH] += 1
                tallies[chain, moved, BATCH_ACCEPTED] += gained
                tallies[chain, moved, TRIED] += 1
                tallies[chain, moved, ACCEPTED] += gained
                adapt(tallies, chain, moved, sds)
                row = step // thin
                for k in range(n_free):
                    draws[chain, row, k] = values[chain, place_of[k]]
                draws[chain, row, n_free] = state[chain, LOG_LIKELIHOOD]
                step += 1
                counts[chain, STEP] = step
            counts[chain, MOVED] = NOTHING
            if step < thin * draws.shape[1]:
                propose(
                    seed,
                    first + chain,
                    chain,
                    step,
                    place_of,
                    inverted,
                    priors,
                    low,
                    high,
                    values,
                    proposed,
                    sds,
                    counts,
                    state,
                )
