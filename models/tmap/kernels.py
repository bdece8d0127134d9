"""Kernels of the TMAP's likelihood and fit; the equations are numbered in `portable.models.tmap`.

Arguments that recur
    n, r        both R, the number of branches: n sizes arrays, and is a compile-time constant; r bounds
                loops, and is a constant up to UNROLLED, so that they unroll
    models      shape (n_starts, SWITCHING + R, R), rows as named below; CONSTANT is r log(lambda) - log (r -
                1)!
    offset, steps, lengths, open_end, gaps     the runs, see `packed.Packed`: each lane of a pack has a run
    censoring   compile-time: True if any run is open
    rounded     compile-time: True if gaps are rounded; then `gaps` holds the index of a distinct gap in place
                of a complete one, and `table`, shape (3, R, n_values), the quantities of
                `portable.models.tmap.rounding` for each
    faded       a vector with a smaller sum is computed again from logarithms; tiny: the dtype's smallest
                normal number
    dealt       shape (3, n_teams): each team's first pack, the end of its packs, its first kept row
    sums        shape (n_starts, n_sums, n_teams), rows as named below

Vectors may be multiplied by any factor: divided by the largest density of each gap, they stay in range, and
the logarithms of the divisors add up to (4). The backward pass needs no densities: with the filtered vector
g_i[k] = a_i[k-1] f_i(x_k) kept from the forward pass, and q[k+1],

    u_j = q_j[k+1] / sum_i g_i[k] pi_ij;        q_ij[k] = g_i[k] pi_ij u_j;        q_i[k] = sum_j q_ij[k]  (8)

so that all factors of g cancel, every term is positive, and there are no differences. Contributions are added
up in the dtype of the gaps, a few dozen at a time, and these partial sums in float64.
"""

import math

import portable as pk

ALPHA, CONSTANT, RATE, POWER, EXIT, SWITCHING = range(6)  # rows of a model; the last is the first of R rows
STATUS, STEP = range(2)  # columns of `state`
RUNNING, CONVERGED, MAX_ITER = range(3)
TERMS = 32  # gaps between two additions to float64: at most 64 roundings in float32
PACK = 32  # runs of a pack, in lanes: a warp, and a multiple of any CPU's vector width
UNROLLED = 6  # largest number of branches for unrolled loops: the code grows with its square
LOG_CHANCE, MEAN_GAP, SURVIVAL = range(3)  # rows of a table
DEAD = 1e-9  # expected number of gaps below which the data carry no information on a branch
# Rows of `sums`: the logarithm, and R each of: first gaps, last gaps, open gaps, times; then M_ij / pi_ij.
LOGLIK, FIRST, LAST, OPEN, TIME, MOVE = range(6)


def branches(n):
    """Return the arguments n and r for n branches."""
    return pk.static(n), pk.static(n) if n <= UNROLLED else n


@pk.function
def row_of(kind, n, i):
    """Return the first row of a kind's sums, for branch i."""
    return 0 if kind == LOGLIK else 1 + (kind - 1) * n + i


@pk.function
def at(row, n_items, item, lane):
    """Return the index of an item of a lane, in rows of n_items each: constant distances need no
    registers."""
    return (row * n_items + item) * PACK + lane


@pk.function
def log_or_never(v):
    """Return the logarithm as float64, -inf for 0, which fast forms of log need not support."""
    return pk.float64(pk.log(v)) if v > 0.0 else -math.inf


@pk.function
def log_density(rounded, table, model, i, x, log_x):
    """Compute the logarithm of the density (1), or of the probability (9)."""
    if rounded:
        return table[LOG_CHANCE, i, int(min(x, table.shape[2] - 1.0))]
    return model[CONSTANT, i] + model[POWER, i] * log_x - model[RATE, i] * x


@pk.function
def time_of(rounded, table, i, x):
    """Compute the contribution of a gap to X_i of (6)."""
    if rounded:
        return table[MEAN_GAP, i, int(min(x, table.shape[2] - 1.0))]
    return x


@pk.function
def weigh(r, rounded, table, model, x, log_x, faded, a, g):
    """Set g_i = a_i f_i(x) / d; return log d. R exponentials.

    d is the largest density f_i(x), or, if all g_i would be too small as the branches with large densities
    have small a_i, the largest a_i f_i(x).
    """
    divisor = -math.inf
    for i in range(r):
        g[i] = log_density(rounded, table, model, i, x, log_x)
        divisor = max(divisor, g[i])
    total = 0.0
    for i in range(r):
        g[i] = a[i] * pk.fast_exp(g[i] - divisor)
        total += g[i]
    if total < faded:
        divisor = -math.inf
        for i in range(r):
            g[i] = log_density(rounded, table, model, i, x, log_x) + (
                pk.log(a[i]) if a[i] > 0.0 else -math.inf
            )
            divisor = max(divisor, g[i])
        for i in range(r):
            g[i] = pk.exp(g[i] - divisor) if divisor > -math.inf else 0.0
    return divisor


@pk.function
def step_on(r, model, g, a):
    """Set a to a[k] of (2)."""
    for j in range(r):
        a[j] = 0.0
        for i in range(r):
            a[j] += g[i] * model[SWITCHING + i, j]


@pk.function
def step_back(r, model, tiny, g, q, u):
    """Replace q[k+1] by q[k] of (8), and compute u."""
    for j in range(r):
        total = 0.0
        for i in range(r):
            total += g[i] * model[SWITCHING + i, j]
        u[j] = q[j] / total if total >= tiny else 0.0
    for i in range(r):
        onward = 0.0
        for j in range(r):
            onward += model[SWITCHING + i, j] * u[j]
        q[i] = g[i] * onward


@pk.function
def poisson_below(order, y):
    """Add up the terms of a Poisson variable of mean y below `order`, relative to the last term if y > order,
    otherwise times exp(y / 2); return the sum and the last term.

    The recursion runs from the last term down, or upwards from exp(-y / 2), which does not underflow.
    """
    term = pk.float64(1.0)
    total = pk.float64(1.0)
    if y > order:
        m = order - 1.0
        while m > 0.0:
            term *= m / y
            total += term
            m -= 1.0
        term = 1.0
    else:
        term = pk.exp(-0.5 * y)
        total = term
        m = pk.float64(1.0)
        while m < order:
            term *= y / m
            total += term
            m += 1.0
    return total, term


@pk.function
def gap_at(gaps, row, lane):
    """Return a gap of a lane, and its logarithm."""
    return gaps[at(row, 2, 0, lane)], gaps[at(row, 2, 1, lane)]


@pk.function
def log_survival(model, i, x, log_x):
    """Compute the logarithm of the probability that a gap of branch i is longer than x, and the mean of such
    gaps, in float64: the probability is that of a Poisson variable of mean rate x below the order."""
    order = pk.float64(model[POWER, i]) + 1.0
    rate = pk.float64(model[RATE, i])
    y = rate * pk.float64(x)
    total, term = poisson_below(order, y)
    value = pk.log(total)
    if y > order:
        log_term = (
            pk.float64(model[CONSTANT, i]) - pk.log(rate) + pk.float64(model[POWER, i]) * pk.float64(log_x)
        )
        value = log_term - y + value
    else:
        value = value - 0.5 * y
    return value, order / rate + pk.float64(x) * term / total


@pk.function
def survive(n, r, model, x, log_x, a, q, stretched):
    """Compute q_i of the last, open gap of a run, into q, and the mean gaps longer than x, into `stretched`;
    return the logarithm of the gap's factor in the likelihood."""
    divisor = pk.float64(-math.inf)
    logs = pk.local(n, pk.float64)
    for i in range(r):
        log_tail, stretched[i] = log_survival(model, i, x, log_x)
        logs[i] = log_tail + log_or_never(a[i])
        divisor = max(divisor, logs[i])
    total = pk.float64(0.0)
    for i in range(r):
        logs[i] = pk.exp(logs[i] - divisor) if divisor > -math.inf else 0.0
        total += logs[i]
    for i in range(r):
        q[i] = logs[i] / max(total, 1e-300)
    return divisor + log_or_never(total)


@pk.kernel
def log_likelihood(
    team, n, r, censoring, rounded, faded, model, table, dealt, offset, steps, lengths, open_end, gaps
):
    """Compute (4); each team adds up its packs. 2 R^2 + 8 R operations, R exponentials, 2 items a gap; a
    logarithm a run."""
    a = pk.local(n, gaps.dtype)
    g = pk.local(n, gaps.dtype)
    q = pk.local(n, gaps.dtype)
    stretched = pk.local(n, pk.float64)
    loglik = pk.float64(0.0)
    for pack in range(dealt[0, team.league_rank], dealt[1, team.league_rank]):
        top = offset[pack]
        for lane in team.thread_range(PACK):
            complete = lengths[pack, lane] - open_end[pack, lane] if censoring else lengths[pack, lane]
            for i in range(r):
                a[i] = model[ALPHA, i]
                g[i] = 0.0
            for begin in range(0, steps[pack], TERMS):
                part = 0.0
                for k in range(begin, min(begin + TERMS, steps[pack])):
                    if k < complete:
                        x, log_x = gap_at(gaps, top + k, lane)
                        part += weigh(r, rounded, table, model, x, log_x, faded, a, g)
                        step_on(r, model, g, a)
                loglik += pk.float64(part)
            end = 0.0
            for i in range(r):
                end += g[i] * model[EXIT, i]
            if complete > 0 and complete == lengths[pack, lane]:
                loglik += log_or_never(end)
            if censoring:
                if complete < lengths[pack, lane]:
                    x, log_x = gap_at(gaps, top + complete, lane)
                    loglik += survive(n, r, model, x, log_x, a, q, stretched)
    return team.reduce(loglik)


@pk.function
def add_parts(n, r, part_time, part_move, own, rank):
    """Add a member's partial sums, in the dtype of the gaps, to its sums in float64."""
    for i in range(r):
        own[row_of(TIME, n, i), rank] += pk.float64(part_time[i])
        part_time[i] = 0.0
        for j in range(r):
            own[row_of(MOVE, n, i * n + j), rank] += pk.float64(part_move[i, j])
            part_move[i, j] = 0.0


@pk.kernel(fastmath=True)
def expectation(
    team,
    n,
    r,
    censoring,
    rounded,
    faded,
    tiny,
    state,
    models,
    tables,
    dealt,
    offset,
    steps,
    lengths,
    open_end,
    gaps,
    filtered,
    sums,
):
    """Compute sums (4) and (6), one team per column of `sums`, for each start that still runs.

    A team's packs are consecutive, so that memory is read in order. Its kept row + k of `filtered`, shape
    (n_starts, n_rows R PACK), holds g of gap k: rows are reused for each pack, and stay in cache. Lanes
    continue past the end of their runs, without effect on the sums, which is cheaper than a branch. 6 R^2 +
    14 R operations, R exponentials and R divisions, 2 R + 4 items a gap.
    """
    n_teams = dealt.shape[1]
    start = team.league_rank // n_teams
    share = team.league_rank - start * n_teams
    own = team.scratch((row_of(MOVE, n, n * n), PACK), pk.float64)
    if state[start, STATUS] != RUNNING:
        return
    model = models[start]
    table = tables[start if rounded else 0]
    a = pk.local(n, gaps.dtype)
    g = pk.local(n, gaps.dtype)
    q = pk.local(n, gaps.dtype)
    u = pk.local(n, gaps.dtype)
    reached = pk.local(n, gaps.dtype)
    soon = pk.local(n, gaps.dtype)  # loaded one step ahead of its use
    part_time = pk.local(n, gaps.dtype)
    part_move = pk.local((n, n), gaps.dtype)
    stretched = pk.local(n, pk.float64)
    keep = dealt[2, share]
    for row in range(sums.shape[1]):
        own[row, team.rank] = 0.0
    added = 0
    for i in range(r):
        part_time[i] = 0.0
        for j in range(r):
            part_move[i, j] = 0.0
    for pack in range(dealt[0, share], dealt[1, share]):
        n_steps = steps[pack]
        top = offset[pack]
        for lane in team.thread_range(PACK):
            length = lengths[pack, lane]
            complete = length - open_end[pack, lane] if censoring else length
            for i in range(r):
                a[i] = model[ALPHA, i]
                reached[i] = a[i]
                q[i] = 0.0
            x, log_x = gap_at(gaps, top, lane)
            for begin in range(0, n_steps, TERMS):
                part = 0.0
                for k in range(begin, min(begin + TERMS, n_steps)):
                    row = top + min(k + 1, n_steps - 1)
                    soon_x, soon_log = gap_at(gaps, row, lane)
                    divisor = weigh(r, rounded, table, model, x, log_x, faded, a, g)
                    part += pk.where(k < complete, divisor, 0.0)
                    step_on(r, model, g, a)
                    for i in range(r):
                        filtered[start, at(keep + k, n, i, lane)] = g[i]
                    if k == complete - 1:
                        for i in range(r):
                            q[i] = g[i]
                            if censoring:
                                reached[i] = a[i]
                    x = soon_x
                    log_x = soon_log
                own[row_of(LOGLIK, n, 0), team.rank] += pk.float64(part)

            end = 0.0
            for i in range(r):
                q[i] *= model[EXIT, i]
                end += q[i]
            if complete > 0 and complete == length:
                own[row_of(LOGLIK, n, 0), team.rank] += log_or_never(end)
            scale = 1.0 / end if end >= tiny and complete == length else 0.0
            for i in range(r):
                q[i] *= scale
                own[row_of(LAST, n, i), team.rank] += pk.float64(q[i])
                part_time[i] += (
                    time_of(rounded, table, i, gaps[at(top + max(length - 1, 0), 2, 0, lane)]) * q[i]
                )
            if censoring:
                if complete < length:
                    x, log_x = gap_at(gaps, top + complete, lane)
                    own[row_of(LOGLIK, n, 0), team.rank] += survive(
                        n, r, model, x, log_x, reached, q, stretched
                    )
                    for i in range(r):
                        own[row_of(OPEN, n, i), team.rank] += pk.float64(q[i])
                        part_time[i] += q[i] * stretched[i]

            row = max(n_steps - 2, 0)
            x = gaps[at(top + row, 2, 0, lane)]
            for i in range(r):
                soon[i] = filtered[start, at(keep + row, n, i, lane)]
            for past in range(0, n_steps, TERMS):
                for back in range(past, min(past + TERMS, n_steps - 1)):
                    k = n_steps - 2 - back
                    row = max(k - 1, 0)
                    soon_x = gaps[at(top + row, 2, 0, lane)]
                    for i in range(r):
                        g[i] = soon[i]
                        soon[i] = filtered[start, at(keep + row, n, i, lane)]
                    if k < length - 1:
                        step_back(r, model, tiny, g, q, u)
                        for i in range(r):
                            part_time[i] += time_of(rounded, table, i, x) * q[i]
                            for j in range(r):
                                part_move[i, j] += g[i] * u[j]
                    x = soon_x
                added += min(TERMS, n_steps - past)
                if added >= TERMS:
                    added = 0
                    add_parts(n, r, part_time, part_move, own, team.rank)
            for i in range(r):
                own[row_of(FIRST, n, i), team.rank] += pk.float64(q[i])
    add_parts(n, r, part_time, part_move, own, team.rank)
    team.barrier()
    for row in team.thread_range(sums.shape[1]):
        total = pk.float64(0.0)
        # each member begins in a separate column, to avoid conflicts of memory banks
        for c in range(team.size):
            column = team.rank + c
            total += own[row, column - team.size if column >= team.size else column]
        sums[start, row, share] = total


@pk.kernel
def add_sums(team, columns, sums, total):
    """Add up a shard's part of a row of `sums`, from its first column to the next shard's; one team per row
    and shard. 8 n_teams bytes."""
    shard = team.league_rank // (total.shape[1] * total.shape[2])
    item = team.league_rank - shard * (total.shape[1] * total.shape[2])
    start = item // total.shape[2]
    row = item - start * total.shape[2]
    value = 0.0
    for column in team.thread_range(columns[shard + 1] - columns[shard]):
        value += sums[start, row, columns[shard] + column]
    value = team.reduce(value)
    if team.single():
        total[shard, start, row] = value


@pk.kernel
def add_shards(start, row, pairs, total):
    """Add up the shards' values of a row into the first of them, pair by pair. 24 bytes a shard."""
    for k in range(pairs.shape[0]):
        total[pairs[k, 0], start, row] += total[pairs[k, 1], start, row]


@pk.kernel
def maximise(team, r, max_iter, least_gain, shortest, log_factorial, total, state, history, exact, models):
    """Run the M-step (7) of a start, or end it; one team per start.

    Records the log-likelihood, then stops if the last step has raised it by no more than `least_gain` or if
    that was the last of max_iter steps. A branch with fewer than DEAD expected gaps keeps its parameters, and
    no branch's mean gap falls below `shortest`. `exact` is the model in float64, `models` the same in the
    dtype of the gaps.
    """
    start = team.league_rank
    status = state[start, STATUS]
    step = state[start, STEP]
    loglik = total[start, row_of(LOGLIK, r, 0)]
    before = history[start, max(step - 1, 0)]
    team.barrier()
    if status != RUNNING:
        return
    at_rest = step > 0 and abs(loglik - before) <= least_gain
    if team.single():
        history[start, step] = loglik
        if at_rest:
            state[start, STATUS] = CONVERGED
        elif step >= max_iter:
            state[start, STATUS] = MAX_ITER
        else:
            state[start, STEP] = step + 1
    if at_rest or step >= max_iter:
        return
    n_runs = 0.0
    for i in range(r):
        n_runs += total[start, row_of(FIRST, r, i)]
    for i in team.thread_range(r):
        moved = 0.0
        for j in range(r):
            moved += exact[start, SWITCHING + i, j] * total[start, row_of(MOVE, r, i * r + j)]
        seen = moved + total[start, row_of(LAST, r, i)]
        visits = seen + total[start, row_of(OPEN, r, i)]
        order = exact[start, POWER, i] + 1.0
        exact[start, ALPHA, i] = total[start, row_of(FIRST, r, i)] / n_runs
        if visits > DEAD:
            rate = order / max(total[start, row_of(TIME, r, i)] / visits, shortest)
            exact[start, RATE, i] = rate
            exact[start, CONSTANT, i] = order * pk.log(rate) - log_factorial[i]
        if seen > DEAD:
            for j in range(r):
                exact[start, SWITCHING + i, j] *= total[start, row_of(MOVE, r, i * r + j)] / seen
            exact[start, EXIT, i] = total[start, row_of(LAST, r, i)] / seen
    team.barrier()
    for c in team.thread_range(SWITCHING + r):
        for i in range(r):
            models[start, c, i] = exact[start, c, i]
