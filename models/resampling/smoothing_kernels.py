"""Kernels of smoothing and of particle Gibbs; notation as in `portable.models.resampling.filter_kernels`,
paths of `trace`.

An index is drawn with probability proportional to exp(v_i) as the place of the largest v_i - log E_i, E_i
exponential: no sums, so that the same index comes out on every space.
"""

import math

import portable as pk

from .filter_kernels import gather, take_observation, user_draw
from .spreading import key
from .weighing import WEIGHTS, fixed, scale


@pk.kernel
def simulate_backward(
    team, log_transition, n_dims, n_params, n_inputs, n_paths, seed, params, inputs, x, log_w, paths
):
    """A path from the last step to the first; one team per path. A density and two logarithms a particle
    and step."""
    r = team.league_rank // n_paths
    j = team.league_rank % n_paths
    n_steps = x.shape[0]
    own = pk.local(n_params + n_inputs, params.dtype)
    state = pk.local(n_dims, x.dtype)
    ahead = pk.local(n_dims, x.dtype)
    for back in range(n_steps):
        t = n_steps - 1 - back
        gather(r, min(t + 1, n_steps - 1), n_params, n_inputs, params, inputs, own)
        best = -math.inf
        place = 0
        for i in team.thread_range(x.shape[3]):
            v = pk.float64(log_w[t, r, i])
            if back > 0:
                for c in range(n_dims):
                    state[c] = x[t, c, r, i]
                v += pk.float64(log_transition(t + 1, state, ahead, own))
            v -= pk.log(pk.random.exponential(seed, key(r, i), (pk.uint64(t) << 32) + pk.uint64(j)))
            if v > best:
                best = v
                place = i
        best, place = team.reduce((best, place), pk.MaxLoc)
        for c in range(n_dims):
            ahead[c] = x[t, c, r, place]
            if team.single():
                paths[t, c, r, j] = ahead[c]


@pk.kernel
def lagged_moments(team, lag, extremes, ancestors, x, log_w, means, variances):
    """Means and variances of the states at t under the weights of t + lag; one team per step and row. lag
    reads a particle."""
    n_rows = log_w.shape[1]
    t = team.league_rank // n_rows
    r = team.league_rank % n_rows
    later = min(t + lag, x.shape[0] - 1)
    largest = -math.inf
    for k in team.thread_range(x.shape[3]):
        largest = max(largest, pk.float64(log_w[later, r, k]))
    largest = team.reduce(largest, pk.Max)
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
    """All steps of a row, whose particle 0 follows `path`; one team per row. Resamples at every step, by
    a search a particle.

    path, shape (n_steps, n_dims, n_rows), holds the old path, and at the end the new one. Random numbers
    are those of chain first + r.
    """
    r = team.league_rank
    n = w.shape[1]
    n_steps = y.shape[0]
    own_params = pk.local(n_params + n_inputs, params.dtype)
    own_y = pk.local(n_values, y.dtype)
    state = pk.local(n_dims, x.dtype)
    old = pk.local(n_dims, x.dtype)
    row_scale = scale(row_extremes, r, bits, WEIGHTS)
    total = pk.uint64(0)
    for t in range(n_steps):
        gather(r, t, n_params, n_inputs, params, inputs, own_params)
        observed = take_observation(t, n_values, y, own_y)
        for c in range(n_dims):
            old[c] = path[t, c, r]
        draw = pk.uint64(2 * t) << 32
        if t > 0:
            best = -math.inf
            place = 0
            for k in team.thread_range(n):
                position = pk.uint64(pk.random.randint(seed, key(first + r, k), draw, total))
                low, high = 0, n - 1
                while low < high:
                    middle = (low + high) // 2
                    if cumulative[r, middle] > position:
                        high = middle
                    else:
                        low = middle + 1
                ancestors[t - 1, r, k] = low
                for c in range(n_dims):
                    state[c] = x[t - 1, c, r, k]
                v = pk.float64(log_w[r, k]) + pk.float64(log_transition(t, state, old, own_params))
                v -= pk.log(pk.random.exponential(seed, key(first + r, k), draw + pk.uint64(1)))
                if v > best:
                    best = v
                    place = k
            best, place = team.reduce((best, place), pk.MaxLoc)
            if team.single():
                ancestors[t - 1, r, 0] = place
            team.barrier()
        largest = -math.inf
        for k in team.thread_range(n):
            if t == 0:
                drawn = initial(seed, key(first + r, k), user_draw(0), own_params)
                for c in range(n_dims):
                    state[c] = old[c] if k == 0 else drawn[c]
            else:
                a = ancestors[t - 1, r, k]
                for c in range(n_dims):
                    state[c] = x[t - 1, c, r, a]
                moved = propagate(t, state, seed, key(first + r, k), user_draw(t), own_params)
                for c in range(n_dims):
                    state[c] = old[c] if k == 0 else moved[c]
            for c in range(n_dims):
                x[t, c, r, k] = state[c]
            weight = log_weight(t, state, own_y, own_params) if observed else 0.0
            log_w[r, k] = weight if weight < math.inf else -math.inf  # NaN: no path goes there
            largest = pk.maximum(largest, log_w[r, k])
        largest = team.reduce(largest, pk.Max)
        for k in team.thread_range(n):
            w[r, k] = pk.exp(log_w[r, k] - largest)
        team.barrier()
        total = pk.uint64(0)
        for base in range(0, n, team.size):
            k = base + team.rank
            q = pk.uint64(0)
            if k < n:
                q = fixed(w[r, k], row_scale, WEIGHTS)
            after = total + team.scan(q) + q
            if k < n:
                cumulative[r, k] = after
            total = team.broadcast(after, team.size - 1)
        team.barrier()
    if team.single():
        position = pk.uint64(pk.random.randint(seed, key(first + r, 0), pk.uint64(2 * n_steps) << 32, total))
        a = 0
        while cumulative[r, a] <= position:
            a += 1
        t = n_steps - 1
        while t >= 0:
            for c in range(n_dims):
                path[t, c, r] = x[t, c, r, a]
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
    """The density of a row's path and observations; one team per row. Terms are added up in their order,
    the same everywhere."""
    r = team.league_rank
    own_params = pk.local(n_params + n_inputs, params.dtype)
    own_y = pk.local(n_values, y.dtype)
    state = pk.local(n_dims, path.dtype)
    before = pk.local(n_dims, path.dtype)
    for t in team.thread_range(y.shape[0]):
        gather(r, t, n_params, n_inputs, params, inputs, own_params)
        observed = take_observation(t, n_values, y, own_y)
        for c in range(n_dims):
            state[c] = path[t, c, r]
            before[c] = path[max(t - 1, 0), c, r]
        term = 0.0
        if t == 0:
            term = log_initial(state, own_params)
        else:
            term = log_transition(t, before, state, own_params)
        if observed:
            term += log_weight(t, state, own_y, own_params)
        terms[r, t] = term
    team.barrier()
    if team.single():
        total = 0.0
        for t in range(y.shape[0]):
            total += terms[r, t]
        found[r] = total
