"""Kernels of smoothing and of particle Gibbs; notation as in `portable.models.resampling.filter_kernels`,
paths as in its `trace`.

An index i is drawn with probability proportional to exp(v_i) as the index of the largest v_i - log E_i, with
E_i exponential: there are no sums, so that every space draws the same index.
"""

import math

import portable as pk

from .chains import find, scan_range
from .filter_kernels import gathered, known, user_draw
from .ancestor_kernels import key
from .weight_kernels import WEIGHTS, extremes_of, scale


@pk.function
def log_joint(log_transition, t, back, r, k, state, ahead, own, log_w):
    """Return the log-weight of particle k plus the log-density of the next state on the path."""
    v = pk.float64(log_w[t, r, k])
    if back > 0:
        v += pk.float64(log_transition(t + 1, state, ahead, own))
    return v


@pk.function
def accepted(log_transition, bound, t, back, tries, seed, stream, r, state, ahead, own, x, cumulative):
    """Draw a particle by its weight, and accept it with its density over exp(bound); return its number, or -1
    if rejected."""
    word = (pk.uint64(t) << 32) + pk.uint64(2 * tries)
    last = cumulative.shape[2] - 1
    k = find(cumulative[t], r, pk.uint64(pk.random.randint(seed, stream, word, cumulative[t, r, last])))
    state[:] = x[t, :, r, k]
    v = 0.0 if back == 0 else pk.float64(log_transition(t + 1, state, ahead, own)) - bound
    return k if pk.log(pk.random.uniform(seed, stream, word + pk.uint64(1))) < v else -1


@pk.kernel
def simulate_backward(
    team, log_transition, n_dims, n_params, n_inputs, n_paths, seed, params, inputs, x, log_w, paths
):
    """Simulate a path from the last step to the first; one team per path. A density and two logarithms a
    particle and step."""
    r = team.league_rank // n_paths
    j = team.league_rank % n_paths
    n_steps = x.shape[0]
    state = pk.local(n_dims, x.dtype)
    ahead = pk.local(n_dims, x.dtype)
    for back in range(n_steps):
        t = n_steps - 1 - back
        own = gathered(r, min(t + 1, n_steps - 1), n_params, n_inputs, inputs, params)
        best = -math.inf
        place = 0
        for i in team.thread_range(x.shape[3]):
            state[:] = x[t, :, r, i]
            v = log_joint(log_transition, t, back, r, i, state, ahead, own, log_w)
            v -= pk.log(pk.random.exponential(seed, key(r, i), (pk.uint64(t) << 32) + pk.uint64(j)))
            if v > best:
                best = v
                place = i
        best, place = team.reduce((best, place), pk.MaxLoc)
        ahead[:] = x[t, :, r, place]
        if team.single():
            paths[t, :, r, j] = ahead


@pk.kernel
def accumulate_weights(team, bits, log_w, unit, w, cumulative):
    """Compute cumulative weights as whole numbers for a step and row, by which particles are drawn; one team
    for each. An exponential a particle."""
    n_rows, n = log_w.shape[1:]
    t = team.league_rank // n_rows
    r = team.league_rank % n_rows
    largest = pk.float64(extremes_of(team, r, 0, n, log_w[t])[0])
    for k in team.thread_range(n):
        w[t, r, k] = pk.exp(pk.float64(log_w[t, r, k]) - largest) if largest > -math.inf else 1.0
    team.barrier()
    row_scale = scale(unit, 0, bits, WEIGHTS)
    scan_range(team, r, 0, n, row_scale, w[t], pk.uint64(0), cumulative[t])


@pk.kernel
def reject_backward(
    r,
    j,
    log_transition,
    n_dims,
    n_params,
    n_inputs,
    bound,
    most,
    seed,
    params,
    inputs,
    x,
    log_w,
    cumulative,
    paths,
):
    """Simulate a path from the last step to the first by rejection: each state is drawn by its weight until
    one is accepted with its density over exp(bound); after `most` rejections, all densities are computed. A
    search and a density a draw."""
    n_steps, n = x.shape[0], x.shape[3]
    state, ahead = pk.local(n_dims, x.dtype), pk.local(n_dims, x.dtype)
    for back in range(n_steps):
        t = n_steps - 1 - back
        own = gathered(r, min(t + 1, n_steps - 1), n_params, n_inputs, inputs, params)
        stream, draw, tries, place = key(r, j), pk.uint64(t) << 32, 0, -1
        while place < 0 and tries < most:
            place = accepted(
                log_transition, bound, t, back, tries, seed, stream, r, state, ahead, own, x, cumulative
            )
            tries += 1
        if place < 0:
            best = -math.inf
            place = 0
            for k in range(n):
                state[:] = x[t, :, r, k]
                v = log_joint(log_transition, t, back, r, k, state, ahead, own, log_w)
                v -= pk.log(pk.random.exponential(seed, stream, draw + pk.uint64(2 * most + k)))
                if v > best:
                    best = v
                    place = k
        ahead[:] = x[t, :, r, place]
        paths[t, :, r, j] = ahead


@pk.kernel
def lagged_moments(team, lag, extremes, ancestors, x, log_w, means, variances):
    """Compute means and variances of the states at t under the weights at t + lag; one team per step and row.
    lag reads a particle."""
    n_rows = log_w.shape[1]
    t = team.league_rank // n_rows
    r = team.league_rank % n_rows
    later = min(t + lag, x.shape[0] - 1)
    largest = pk.float64(extremes_of(team, r, 0, x.shape[3], log_w[later])[0])
    weight = 0.0
    for k in team.thread_range(x.shape[3]):
        weight += pk.exp(pk.float64(log_w[later, r, k]) - largest)
    weight = team.reduce(weight)
    for c in range(x.shape[1]):
        mean = 0.0
        for again in range(2):
            total = 0.0
            for k in team.thread_range(x.shape[3]):
                a = pk.int64(k)
                s = later - 1
                while s >= t:
                    if extremes[s, r, 2] == 0:
                        a = pk.int64(ancestors[s, r, a])
                    s -= 1
                away = pk.float64(x[t, c, r, a]) - mean
                total += pk.exp(pk.float64(log_w[later, r, k]) - largest) * (
                    away * away if again == 1 else away
                )
            total = team.reduce(total) / weight
            if again == 0:
                mean = total
            elif team.single():
                means[t, c, r] = mean
                variances[t, c, r] = total


@pk.kernel
def conditional_rows(
    team,
    initial,
    propagate,
    log_weight,
    log_transition,
    n_dims,
    n_params,
    n_values,
    n_inputs,
    first,
    bits,
    seed,
    y,
    inputs,
    params,
    row_extremes,
    x,
    log_w,
    w,
    cumulative,
    ancestors,
    path,
):
    """Run the conditional filter of a row, whose particle 0 follows `path`; one team per row. Resamples at
    every step, with one search a particle.

    path, shape (n_steps, n_dims, n_rows), holds the old path, and on return the new one. Random numbers are
    those of chain first + r.
    """
    r = team.league_rank
    n = w.shape[1]
    n_steps = y.shape[0]
    state = pk.local(n_dims, x.dtype)
    old = pk.local(n_dims, x.dtype)
    row_scale = scale(row_extremes, r, bits, WEIGHTS)
    total = pk.uint64(0)
    for t in range(n_steps):
        own = known(r, t, n_params, n_values, n_inputs, y, inputs, params)
        old[:] = path[t, :, r]
        draw = pk.uint64(2 * t) << 32
        if t > 0:
            best = -math.inf
            place = 0
            for k in team.thread_range(n):
                stream = key(first + r, k)
                position = pk.uint64(pk.random.randint(seed, stream, draw, total))
                ancestors[t - 1, r, k] = find(cumulative, r, position)
                state[:] = x[t - 1, :, r, k]
                v = pk.float64(log_w[r, k]) + pk.float64(log_transition(t, state, old, own.params))
                v -= pk.log(pk.random.exponential(seed, stream, draw + pk.uint64(1)))
                if v > best:
                    best = v
                    place = k
            best, place = team.reduce((best, place), pk.MaxLoc)
            if team.single():
                ancestors[t - 1, r, 0] = place
            team.barrier()
        largest = -math.inf
        for k in team.thread_range(n):
            stream = key(first + r, k)
            if t == 0:
                state[:] = initial(seed, stream, user_draw(0), own.params)
            else:
                a = ancestors[t - 1, r, k]
                state[:] = x[t - 1, :, r, a]
                state[:] = propagate(t, state, seed, stream, user_draw(t), own.params)
            if k == 0:
                state[:] = old
            x[t, :, r, k] = state
            weight = log_weight(t, state, own.y, own.params) if own.observed else 0.0
            log_w[r, k] = weight if weight < math.inf else -math.inf  # NaN: such a state gets no weight
            largest = pk.maximum(largest, log_w[r, k])
        largest = team.reduce(largest, pk.Max)
        for k in team.thread_range(n):
            w[r, k] = pk.exp(log_w[r, k] - largest)
        team.barrier()
        total = scan_range(team, r, 0, n, row_scale, w, pk.uint64(0), cumulative)
        team.barrier()
    if team.single():
        position = pk.uint64(pk.random.randint(seed, key(first + r, 0), pk.uint64(2 * n_steps) << 32, total))
        a = 0
        while cumulative[r, a] <= position:
            a += 1
        t = n_steps - 1
        while t >= 0:
            path[t, :, r] = x[t, :, r, a]
            if t > 0:
                a = pk.int64(ancestors[t - 1, r, a])
            t -= 1


@pk.kernel
def complete_rows(
    team,
    log_initial,
    log_transition,
    log_weight,
    n_dims,
    n_params,
    n_values,
    n_inputs,
    y,
    inputs,
    params,
    path,
    terms,
    found,
):
    """Compute the joint log-density of a row's path and observations; one team per row. Terms are added up in
    order of the steps, so that the sum is the same on every space."""
    r = team.league_rank
    state = pk.local(n_dims, path.dtype)
    before = pk.local(n_dims, path.dtype)
    for t in team.thread_range(y.shape[0]):
        own = known(r, t, n_params, n_values, n_inputs, y, inputs, params)
        state[:] = path[t, :, r]
        before[:] = path[max(t - 1, 0), :, r]
        term = 0.0
        if t == 0:
            term = log_initial(state, own.params)
        else:
            term = log_transition(t, before, state, own.params)
        if own.observed:
            term += log_weight(t, state, own.y, own.params)
        terms[r, t] = term
    team.barrier()
    if team.single():
        total = 0.0
        for t in range(y.shape[0]):
            total += terms[r, t]
        found[r] = total
