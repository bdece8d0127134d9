"""Kernels of the TMAP; the equations are numbered in `models.tmap`.

Arguments that recur
    n_branches  R, a compile-time constant
    model       shape (SWITCHING + R, R), rows as named below; CONSTANT is r log(lambda) - log (r - 1)!
    offset, steps, lengths, x, log_x     the gaps, see `runs.Packed`: the lanes of a pack are different runs

Densities are divided by the largest of a gap, and vectors by their sum where it fades: all such factors cancel in (5),
and their logarithms add up to (4).
"""

import math

import portable as pk

ALPHA, CONSTANT, RATE, POWER, EXIT, SWITCHING = range(6)  # rows of `model`; the last is the first of R
FADED = 1e-100  # a vector of smaller sum is divided by it; a third of float64's range, for entries differ much
TINY = 2.3e-308  # the smallest normal number: what is smaller counts as zero


@pk.function
def densities(n_branches, model, x, log_x, a, f):
    """Put f_i(x) of (1), divided by the largest f_i with a_i > 0, into f; returns the logarithm of that largest.

    Branches with a_i = 0 weigh nothing, so that theirs is only kept from overflowing. R exponentials.
    """
    largest = -math.inf
    for i in range(n_branches):
        f[i] = model[CONSTANT, i] + model[POWER, i] * log_x - model[RATE, i] * x
        largest = pk.where(a[i] > 0.0, max(largest, f[i]), largest)
    for i in range(n_branches):
        f[i] = pk.fast_exp(min(f[i] - largest, 0.0))
    return largest


@pk.function
def revive(n_branches, v):
    """Divide a vector by its sum if that has faded; returns the logarithm of what it was divided by."""
    total = 0.0
    for i in range(n_branches):
        total += v[i]
    gain = 0.0
    if total < FADED:
        total = max(total, TINY)
        gain = pk.log(total)
        for i in range(n_branches):
            v[i] /= total
    return gain


@pk.function
def forward_step(n_branches, model, x, log_x, a, f):
    """Put a_i[k-1] f_i(x_k) into f and a[k] of (2) into a; returns the logarithm of what both were divided by."""
    gain = densities(n_branches, model, x, log_x, a, f)
    for i in range(n_branches):
        f[i] *= a[i]
    for j in range(n_branches):
        a[j] = 0.0
        for i in range(n_branches):
            a[j] += f[i] * model[SWITCHING + i, j]
    return gain


@pk.function
def log_end(n_branches, model, f):
    """Logarithm of the probability (4), but for divisors, from what the last `forward_step` left in f."""
    total = 0.0
    for i in range(n_branches):
        total += f[i] * model[EXIT, i]
    return pk.where(total >= TINY, pk.log(max(total, TINY)), -math.inf)


@pk.kernel
def log_likelihood(team, n_branches, model, offset, steps, lengths, x, log_x):
    """(4), a team every league_size-th pack. 2 R^2 + 8 R operations, R exponentials, 16 bytes a gap; a log a run."""
    a = pk.local(n_branches, pk.float64)
    f = pk.local(n_branches, pk.float64)
    total = 0.0
    n_packs = steps.shape[0]
    for turn in range((n_packs - team.league_rank + team.league_size - 1) // team.league_size):
        pack = team.league_rank + turn * team.league_size
        for lane in team.thread_range(x.shape[1]):
            last = lengths[pack, lane] - 1
            for i in range(n_branches):
                a[i] = model[ALPHA, i]
                f[i] = 0.0
            for k in range(steps[pack]):
                if k <= last:
                    row = offset[pack] + k
                    total += revive(n_branches, a)
                    total += forward_step(n_branches, model, x[row, lane], log_x[row, lane], a, f)
            if last >= 0:
                total += log_end(n_branches, model, f)
    return team.reduce(total)


@pk.kernel
def posterior_sums(team, n_branches, model, offset, steps, lengths, x, log_x, forward, sums):
    """Sums (4) and (6) over the packs of a team: a column of `sums`, shape (1 + 3 R + R^2, n_teams).

    Rows: loglik, sum of q_i[1], N_i, X_i, M_ij / pi_ij. `forward`, shape (R, n_rows, width), takes a[k-1] of every gap;
    f is computed again on the way back. 6 R^2 + 26 R operations, 2 R exponentials, a division, 16 R + 32 bytes a gap.
    """
    a = pk.local(n_branches, pk.float64)
    f = pk.local(n_branches, pk.float64)
    b = pk.local(n_branches, pk.float64)
    tail = pk.local(n_branches, pk.float64)  # sum_j pi_ij b_j[k+1], or pi_i0 after the last gap
    q = pk.local(n_branches, pk.float64)
    starts = pk.local(n_branches, pk.float64)
    visits = pk.local(n_branches, pk.float64)
    times = pk.local(n_branches, pk.float64)
    moves = pk.local((n_branches, n_branches), pk.float64)
    loglik = 0.0
    for i in range(n_branches):
        starts[i] = 0.0
        visits[i] = 0.0
        times[i] = 0.0
        for j in range(n_branches):
            moves[i, j] = 0.0
    n_packs = steps.shape[0]
    for turn in range((n_packs - team.league_rank + team.league_size - 1) // team.league_size):
        pack = team.league_rank + turn * team.league_size
        for lane in team.thread_range(x.shape[1]):
            last = lengths[pack, lane] - 1
            for i in range(n_branches):
                a[i] = model[ALPHA, i]
                tail[i] = model[EXIT, i]
                f[i] = 0.0
                b[i] = 0.0  # nothing follows the last gap
                q[i] = 0.0
            for k in range(steps[pack]):
                if k <= last:
                    row = offset[pack] + k
                    loglik += revive(n_branches, a)
                    for i in range(n_branches):
                        forward[i, row, lane] = a[i]
                    loglik += forward_step(n_branches, model, x[row, lane], log_x[row, lane], a, f)
            if last >= 0:
                loglik += log_end(n_branches, model, f)
            for back in range(steps[pack]):
                k = steps[pack] - 1 - back
                if k <= last:
                    row = offset[pack] + k
                    for i in range(n_branches):
                        a[i] = forward[i, row, lane]
                    densities(n_branches, model, x[row, lane], log_x[row, lane], a, f)
                    total = 0.0
                    for i in range(n_branches):
                        total += a[i] * f[i] * tail[i]
                    scale = pk.where(total >= TINY, 1.0 / total, 0.0)
                    for i in range(n_branches):
                        e = a[i] * f[i] * scale
                        q[i] = e * tail[i]
                        visits[i] += q[i]
                        times[i] += x[row, lane] * q[i]
                        for j in range(n_branches):
                            moves[i, j] += e * b[j]
                        f[i] *= tail[i]
                    for i in range(n_branches):
                        b[i] = f[i]
                    revive(n_branches, b)
                    for i in range(n_branches):
                        tail[i] = 0.0
                        for j in range(n_branches):
                            tail[i] += model[SWITCHING + i, j] * b[j]
            for i in range(n_branches):
                starts[i] += q[i]
    loglik = team.reduce(loglik)
    if team.single():
        sums[0, team.league_rank] = loglik
    for i in range(n_branches):
        start = team.reduce(starts[i])
        visit = team.reduce(visits[i])
        time = team.reduce(times[i])
        if team.single():
            sums[1 + i, team.league_rank] = start
            sums[1 + n_branches + i, team.league_rank] = visit
            sums[1 + 2 * n_branches + i, team.league_rank] = time
        for j in range(n_branches):
            move = team.reduce(moves[i, j])
            if team.single():
                sums[1 + 3 * n_branches + i * n_branches + j, team.league_rank] = move


@pk.kernel
def add_sums(team, sums, total):
    """Add up a row of `sums`; a team a row. 8 n_teams bytes."""
    value = 0.0
    for column in team.thread_range(sums.shape[1]):
        value += sums[team.league_rank, column]
    value = team.reduce(value)
    if team.single():
        total[team.league_rank] = value


@pk.function
def choose(n_branches, u, weights, row):
    """The first index at which the running sum of a row of `weights` exceeds u; R if none does."""
    chosen = n_branches
    total = 0.0
    for i in range(n_branches):
        total += weights[row, i]
        if chosen == n_branches and u < total:
            chosen = i
    return chosen


@pk.kernel
def simulate_lengths(run, n_branches, model, seed, lengths):
    """Number of gaps of a run: its walk through the branches on stream 2 * run. A random number a gap."""
    branch = choose(n_branches, pk.random.uniform(seed, 2 * run, 0), model, ALPHA)
    n = 0
    while branch < n_branches:
        n += 1
        branch = choose(n_branches, pk.random.uniform(seed, 2 * run, n), model, SWITCHING + branch)
    lengths[run] = n


@pk.kernel
def simulate_gaps(run, n_branches, model, seed, begin, lengths, values):
    """The gaps of a run: the same walk again, and each stage of an Erlang gap on stream 2 * run + 1."""
    branch = choose(n_branches, pk.random.uniform(seed, 2 * run, 0), model, ALPHA)
    draw = 0
    for k in range(lengths[run]):
        stages = 0.0
        for _ in range(int(model[POWER, branch]) + 1):
            stages += pk.random.exponential(seed, 2 * run + 1, draw)
            draw += 1
        values[begin[run] + k] = stages / model[RATE, branch]
        branch = choose(n_branches, pk.random.uniform(seed, 2 * run, k + 1), model, SWITCHING + branch)
