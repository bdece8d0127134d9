"""Kernels of the TMAP; the equations are numbered in `models.tmap`.

Arguments that recur
    n_branches  R, a compile-time constant
    model       shape (ROWS + R, R), see `rows` below
    width, offset, steps, lengths, x     the gaps, see `runs.Packed`: the lanes of a pack are different runs

Densities are divided by the largest of a gap, vectors by their sum: all such factors cancel in (5), and their logarithms
add up to (4).
"""

import math

import portable as pk

ALPHA, CONSTANT, RATE, POWER, EXIT, SWITCHING = range(6)  # rows of `model`; the last is the first of R
TINY = 2.3e-308  # the smallest normal number: what is smaller counts as zero


@pk.function
def densities(n_branches, model, x, a, f):
    """Put f_i(x) of (1), divided by the largest f_i with a_i > 0, into f; returns the logarithm of that largest.

    Branches with a_i = 0 weigh nothing, so that theirs is only kept from overflowing. One logarithm and R exponentials.
    """
    zero = x == 0.0
    log_x = pk.fast_log(pk.where(zero, 1.0, x))
    largest = -math.inf
    for i in range(n_branches):
        g = model[CONSTANT, i] + model[POWER, i] * log_x - model[RATE, i] * x
        f[i] = pk.where(zero and model[POWER, i] > 0.0, -math.inf, g)
        largest = pk.where(a[i] > 0.0, pk.maximum(largest, f[i]), largest)
    largest = pk.where(largest > -math.inf, largest, 0.0)  # no branch can make this gap
    for i in range(n_branches):
        f[i] = pk.fast_exp(pk.minimum(f[i] - largest, 0.0))
    return largest


@pk.function
def forward_step(n_branches, model, x, is_last, a, f):
    """Turn a[k-1] into a[k] of (2), divided by its sum; returns the logarithm of what (4) gains by this gap."""
    gain = densities(n_branches, model, x, a, f)
    ended = 0.0
    for i in range(n_branches):
        f[i] *= a[i]
        ended += f[i] * model[EXIT, i]
    went_on = 0.0
    for j in range(n_branches):
        a[j] = 0.0
        for i in range(n_branches):
            a[j] += f[i] * model[SWITCHING + i, j]
        went_on += a[j]
    scale = pk.where(went_on >= TINY, 1.0 / went_on, 0.0)
    for j in range(n_branches):
        a[j] *= scale
    total = pk.where(is_last, ended, went_on)
    return gain + pk.where(total >= TINY, pk.fast_log(pk.maximum(total, TINY)), -math.inf)


@pk.kernel
def log_likelihood(team, n_branches, model, width, offset, steps, lengths, x):
    """(4), a team every league_size-th pack. 2 R^2 + 9 R operations, two logarithms, R exponentials and 8 bytes a gap."""
    a = pk.local(n_branches, pk.float64)
    f = pk.local(n_branches, pk.float64)
    total = 0.0
    n_packs = steps.shape[0]
    for turn in range((n_packs - team.league_rank + team.league_size - 1) // team.league_size):
        pack = team.league_rank + turn * team.league_size
        for lane in team.thread_range(width):
            last = lengths[pack * width + lane] - 1
            for i in range(n_branches):
                a[i] = model[ALPHA, i]
            for k in range(steps[pack]):
                if k <= last:
                    total += forward_step(n_branches, model, x[int(offset[pack]) + k * width + lane], k == last, a, f)
    return team.reduce(total)


@pk.kernel
def posterior_sums(team, n_branches, model, width, offset, steps, lengths, x, forward, sums):
    """Sums (4) and (6) over the packs of a team: a column of `sums`, shape (1 + 3 R + R^2, n_teams).

    Rows: loglik, sum of q_i[1], N_i, X_i, M_ij / pi_ij. `forward`, shape (R, size), takes a[k-1] of every gap; f is
    computed again on the way back. 5 R^2 + 24 R operations, three logarithms, 2 R exponentials and 16 R + 16 bytes a gap.
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
        for lane in team.thread_range(width):
            last = lengths[pack * width + lane] - 1
            for i in range(n_branches):
                a[i] = model[ALPHA, i]
                tail[i] = model[EXIT, i]
                b[i] = 0.0  # nothing follows the last gap
                q[i] = 0.0
            for k in range(steps[pack]):
                if k <= last:
                    at = int(offset[pack]) + k * width + lane
                    for i in range(n_branches):
                        forward[i, at] = a[i]
                    loglik += forward_step(n_branches, model, x[at], k == last, a, f)
            for back in range(steps[pack]):
                k = steps[pack] - 1 - back
                if k <= last:
                    at = int(offset[pack]) + k * width + lane
                    for i in range(n_branches):
                        a[i] = forward[i, at]
                    densities(n_branches, model, x[at], a, f)
                    total = 0.0
                    for i in range(n_branches):
                        total += a[i] * f[i] * tail[i]
                    scale = pk.where(total >= TINY, 1.0 / total, 0.0)
                    for i in range(n_branches):
                        e = a[i] * f[i] * scale
                        q[i] = e * tail[i]
                        visits[i] += q[i]
                        times[i] += x[at] * q[i]
                        for j in range(n_branches):
                            moves[i, j] += e * b[j]
                    total = 0.0
                    for i in range(n_branches):
                        b[i] = f[i] * tail[i]
                        total += b[i]
                    scale = pk.where(total >= TINY, 1.0 / total, 0.0)
                    for i in range(n_branches):
                        b[i] *= scale
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
