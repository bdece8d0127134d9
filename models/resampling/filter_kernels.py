"""Kernels of a particle filter; the notation is that of `portable.models.resampling.filter`.

Arguments that recur
    sweep        particles of a team of `start` and `advance`; a row is a filter
    tile_size    see `weighing`
    t            step; `at` is its row in y and inputs
    y            observations, shape (n_slots, n_values); of a step that is missing all values are NaN
    inputs       what is known of each step, shape (n_slots, n_inputs)
    params       shape (n_rows, n_params)
    x            states, shape (n_slots, n_dims, n_rows, n); `old` and `new` are slots
    log_w        shape (n_slots, n_rows, n)
    w            shape (n_rows, n): exp(log_w) with the largest of the row as 1; all 1 in a row of no use
    extremes     of w, and whether the row idles
    now, before  `extremes` of this step and of the one before; a row that idles keeps its particles and their
                 weights
"""

import math

import portable as pk

from .spreading import LOW, key
from .weighing import IN_FLIGHT, RELATIVE, fixed, lay_out, order, ordered, power, relative, scale


AT_ONCE = 16  # bytes of a component that a member has at work: particles whose normal numbers share a block
TEAMS = 32  # of advance, each a warp, on a GPU's multiprocessor


@pk.function
def user_draw(t):
    """The first draw that belongs to the model at step t; resampling has the even numbers."""
    return (2 * pk.uint64(t) + pk.uint64(1)) << 32


@pk.function
def parent(by_ancestor, r, k, ancestors):
    """The ancestor of particle k, or k itself."""
    a = pk.int32(k)
    if by_ancestor:
        a = pk.int32(ancestors[r, k])
    return a


@pk.function
def largest_log(now, r):
    """Whether a row has a largest log-weight, and which."""
    largest = ordered(now[r, 0])
    return abs(largest) < math.inf, largest


@pk.function
def upper_squared(q, lost):
    """The square of the upper half of q, which has at most 31 bits."""
    upper = (q >> (lost & 63)) & LOW
    return upper * upper


@pk.function
def look_up(team, at_once, by_ancestor, r, base, ancestors, parents):
    """The parents of at_once particles of each member."""
    for m in range(at_once):
        parents[m] = parent(by_ancestor, r, base + m * team.size + team.rank, ancestors)


@pk.function
def take_observation(at, n_values, y, own):
    """The values of an observation, where they are read from once, and whether any of them is a number."""
    seen = False
    for d in range(n_values):
        own[d] = y[at, d]
        seen = seen or not pk.isnan(own[d])
    return seen


@pk.function
def gather(r, at, n_params, n_inputs, params, inputs, own):
    """The parameters of a row, and behind them the inputs of a step, where they are read from once."""
    for p in range(n_params):
        own[p] = params[r, p]
    for d in range(n_inputs):
        own[n_params + d] = inputs[at, d]


@pk.function
def begin_particle(initial, log_weight, n_dims, new, r, k, stream, observed, seed, y, params, x):
    """A particle's state at step 0, to x[new, :, r, k]; returns its log-weight, 0 where nothing was
    observed."""
    state = initial(seed, stream, user_draw(0), params)
    for c in range(n_dims):
        x[new, c, r, k] = state[c]
    weight = 0.0
    if observed:
        weight = log_weight(0, state, y, params)
    return weight


@pk.function
def move(
    propagate, log_weight, guide, log_guide, n_dims, t, new, r, k, stream, observed, seed, y, params, state, x
):
    """The same from the state of its ancestor; returns what the step adds to the log-weight."""
    weight = 0.0
    if guide is None:
        moved = propagate(t, state, seed, stream, user_draw(t), params)
        for c in range(n_dims):
            x[new, c, r, k] = moved[c]
        if observed:
            weight = log_weight(t, moved, y, params)
    elif observed:
        moved = guide(t, state, y, seed, stream, user_draw(t), params)
        for c in range(n_dims):
            x[new, c, r, k] = moved[c]
        weight = log_weight(t, moved, y, params) + log_guide(t, state, moved, y, params)
    else:
        drawn = propagate(t, state, seed, stream, user_draw(t), params)
        for c in range(n_dims):
            x[new, c, r, k] = drawn[c]
    return weight


@pk.kernel
def start(
    team,
    initial,
    log_weight,
    n_dims,
    sweep,
    n_params,
    n_values,
    n_inputs,
    seed,
    y,
    inputs,
    params,
    x,
    log_w,
    now,
):
    """States and log-weights of step 0, and the largest of these; one team per sweep."""
    n = log_w.shape[2]
    n_sweeps = (n + sweep - 1) // sweep
    r = team.league_rank // n_sweeps
    begin = team.league_rank % n_sweeps * sweep
    own_params = pk.local(n_params + n_inputs, params.dtype)
    own_y = pk.local(n_values, y.dtype)
    gather(r, 0, n_params, n_inputs, params, inputs, own_params)
    observed = take_observation(0, n_values, y, own_y)
    largest = -math.inf
    for k in team.thread_range(begin, min(begin + sweep, n)):
        weight = begin_particle(
            initial, log_weight, n_dims, 0, r, k, key(r, k), observed, seed, own_y, own_params, x
        )
        log_w[0, r, k] = weight
        largest = pk.maximum(largest, log_w[0, r, k])
    largest = team.reduce(largest, pk.Max)
    if team.single():
        pk.atomic_max(now, (r, 0), order(pk.float64(largest)))


@pk.function
def move_some(
    team,
    propagate,
    log_weight,
    guide,
    log_guide,
    n_dims,
    count,
    first,
    t,
    old_w,
    new_w,
    new,
    r,
    resampled,
    observed,
    seed,
    y,
    params,
    states,
    x,
    log_w,
):
    """States and log-weights of particles first, first + team.size, ... at step t; returns the largest
    log-weight as they are kept."""
    largest = -math.inf
    for m in range(count):
        k = first + m * team.size
        weight = move(
            propagate,
            log_weight,
            guide,
            log_guide,
            n_dims,
            t,
            new,
            r,
            k,
            key(r, k),
            observed,
            seed,
            y,
            params,
            states[m],
            x,
        )
        log_w[new_w, r, k] = weight if resampled else log_w[old_w, r, k] + weight
        largest = pk.maximum(largest, log_w[new_w, r, k])
    return largest


@pk.kernel(teams=TEAMS)
def advance(
    team,
    propagate,
    log_weight,
    guide,
    log_guide,
    n_dims,
    sweep,
    at_once,
    in_place,
    n_params,
    n_values,
    n_inputs,
    t,
    at,
    old,
    new,
    old_w,
    new_w,
    seed,
    y,
    inputs,
    params,
    ancestors,
    before,
    x,
    log_w,
    now,
):
    """States and log-weights of step t, from ancestors where the row was resampled; one team per sweep.

    A member of a warp works at particles k and k + 32, in float32 k + 64 and k + 96 too, whose normal
    numbers share a block of bits. Reads an ancestor and its state, writes state and log-weight:
    8 (2 n_dims + 2) bytes in float64.
    """
    n_sweeps = (log_w.shape[2] + sweep - 1) // sweep
    r = team.league_rank // n_sweeps
    begin = team.league_rank % n_sweeps * sweep
    end = min(begin + sweep, log_w.shape[2])
    stride = at_once * team.size
    whole = begin + (end - begin) // stride * stride
    resampled = before[r, 2] == 0
    by_ancestor = resampled and not in_place
    own_params = pk.local(
        n_params + n_inputs, params.dtype
    )  # read once: what is written might be their place
    own_y = pk.local(n_values, y.dtype)
    gather(r, at, n_params, n_inputs, params, inputs, own_params)
    observed = take_observation(at, n_values, y, own_y)
    parents = pk.local(at_once, pk.int32)
    state = pk.local((at_once, n_dims), x.dtype)
    largest = -math.inf
    if begin < whole:
        look_up(team, at_once, by_ancestor, r, begin, ancestors, parents)
    for base in range(begin, whole, stride):
        for m in range(at_once):
            for c in range(n_dims):
                state[m, c] = x[old, c, r, parents[m]]
        if base + stride < whole:  # they travel while these states move
            look_up(team, at_once, by_ancestor, r, base + stride, ancestors, parents)
        first = base + team.rank
        if observed:  # asked once for all, so that they move side by side
            found = move_some(
                team,
                propagate,
                log_weight,
                guide,
                log_guide,
                n_dims,
                at_once,
                first,
                t,
                old_w,
                new_w,
                new,
                r,
                resampled,
                True,
                seed,
                own_y,
                own_params,
                state,
                x,
                log_w,
            )
        else:
            found = move_some(
                team,
                propagate,
                log_weight,
                guide,
                log_guide,
                n_dims,
                at_once,
                first,
                t,
                old_w,
                new_w,
                new,
                r,
                resampled,
                False,
                seed,
                own_y,
                own_params,
                state,
                x,
                log_w,
            )
        largest = pk.maximum(largest, found)
    for k in team.thread_range(whole, end):
        for c in range(n_dims):
            state[0, c] = x[old, c, r, parent(by_ancestor, r, k, ancestors)]
        found = move_some(
            team,
            propagate,
            log_weight,
            guide,
            log_guide,
            n_dims,
            1,
            k,
            t,
            old_w,
            new_w,
            new,
            r,
            resampled,
            observed,
            seed,
            own_y,
            own_params,
            state,
            x,
            log_w,
        )
        largest = pk.maximum(largest, found)
    largest = team.reduce(largest, pk.Max)
    if team.single():
        pk.atomic_max(now, (r, 0), order(pk.float64(largest)))


@pk.function
def weigh_one(n_dims, kept, averaged, slot, r, k, log_weight, largest, row_scale, x, w, part):
    """q of particle k. Where kept, its w is written; where averaged, q x is added to part."""
    weight = relative(log_weight, row_scale[0], largest)
    if kept:
        w[r, k] = weight
    q = fixed(weight, row_scale, RELATIVE)
    if averaged:
        for c in range(n_dims):
            part[c] += pk.float64(pk.int64(q)) * pk.float64(x[slot, c, r, k])
    return q


@pk.kernel
def weigh(
    team,
    n_dims,
    tile_size,
    bits,
    half,
    kept,
    averaged,
    slot,
    slot_w,
    x,
    log_w,
    now,
    w,
    sums,
    squares,
    parts,
):
    """Where kept w, and sums over a tile of q, of its upper half squared, and, where averaged, of q x; a
    team a tile, the last first.

    Reads the log-weights, and where averaged the states, and writes the weights that are kept; one
    exponential.
    """
    n_tiles = sums.shape[1] - 1
    r = team.league_rank // n_tiles
    tile = n_tiles - 1 - team.league_rank % n_tiles  # the last are still in a cache
    row_scale = scale(now, r, bits, RELATIVE)
    lost = pk.uint64(bits - half)
    begin = tile * tile_size
    end = min(begin + tile_size, log_w.shape[2])
    stride = IN_FLIGHT * team.size
    total = pk.uint64(0)
    square = pk.uint64(0)
    own = pk.local(IN_FLIGHT, log_w.dtype)
    top = pk.local(1, log_w.dtype)
    top[0] = row_scale[1]
    part = pk.local(n_dims, pk.float64)
    for c in range(n_dims):
        part[c] = 0.0
    whole = begin + (end - begin) // stride * stride
    for base in range(begin, whole, stride):
        for m in range(IN_FLIGHT):
            own[m] = log_w[slot_w, r, base + m * team.size + team.rank]
        for m in range(IN_FLIGHT):
            q = weigh_one(
                n_dims,
                kept,
                averaged,
                slot,
                r,
                base + m * team.size + team.rank,
                own[m],
                top[0],
                row_scale,
                x,
                w,
                part,
            )
            total += q
            square += upper_squared(q, lost)
    for k in team.thread_range(whole, end):
        q = weigh_one(n_dims, kept, averaged, slot, r, k, log_w[slot_w, r, k], top[0], row_scale, x, w, part)
        total += q
        square += upper_squared(q, lost)
    total = team.reduce(total)
    square = team.reduce(square)
    if team.single():
        sums[r, tile] = total
        squares[r, tile] = square
    if averaged:
        for c in range(n_dims):
            own = team.reduce(part[c])
            if team.single():
                parts[c, r, tile] = own


@pk.function
def verdict(usable, largest, total, square, bits, half, n, threshold, before):
    """(what the step adds to the log-likelihood, effective sample size, whether the row idles, the mass it
    brings along).

    The step adds log sum w - mass, mass the logarithm of the sum of the weights that were brought along: n
    after resampling. A row of no use adds -infinity and is resampled from equal weights.
    """
    whole = pk.float64(pk.int64(total))
    part = whole * 2.0 ** pk.float64(half - bits)
    size = part * part / pk.float64(pk.int64(square)) if usable else 0.0
    idle = usable and size >= threshold * n
    log_total = pk.float64(largest) + pk.log(whole * power(1 - bits)) if usable else -math.inf
    return log_total - before, size, idle, log_total if idle else pk.log(pk.float64(n))


@pk.kernel
def decide(team, bits, half, n, threshold, now, extremes, of_logs, sums, squares, mass, evidence, sizes):
    """Sums of a row, and its `verdict`; one team per row. `extremes` are those of w, `of_logs` those of
    log_w, for who resamples. 32 bytes a tile."""
    r = team.league_rank
    usable, largest = largest_log(now, r)
    before = mass[r]
    square = pk.uint64(0)
    shelf = team.scratch(sums.shape[1], pk.uint64)
    for tile in team.thread_range(squares.shape[1]):
        shelf[tile] = sums[r, tile]
        square += squares[r, tile]
    square = team.reduce(square)
    total = lay_out(team, r, sums, shelf)
    if team.single():
        added, size, idle, brought = verdict(usable, largest, total, square, bits, half, n, threshold, before)
        evidence[r] = added
        sizes[r] = size
        mass[r] = brought
        now[r, 2] = 1 if idle else 0
        extremes[r, 2] = now[r, 2]
        for j in range(3):
            of_logs[r, j] = now[r, j]


@pk.kernel
def overwrite(r, k, now, ancestors, x):
    """Particles without offspring become copies of others, in place: ancestors are permuted. 8 to 8 (2 n_dims
    + 1) bytes."""
    if now[r, 2] == 0 and ancestors[r, k] != k:
        for c in range(x.shape[1]):
            x[0, c, r, k] = x[0, c, r, ancestors[r, k]]


@pk.kernel
def average(team, sums, parts, means):
    """Weighted means of a row, shape (n_dims, n_rows); one team per row."""
    r = team.league_rank
    weight = pk.float64(pk.int64(sums[r, sums.shape[1] - 1]))
    for c in range(parts.shape[0]):
        total = 0.0
        for tile in team.thread_range(parts.shape[2]):
            total += parts[c, r, tile]
        total = team.reduce(total)
        if team.single():
            means[c, r] = total / weight


@pk.kernel
def trace(r, j, extremes, ancestors, x, ends, paths):
    """The path of particle ends[r, j] at the last step, backwards; paths of shape (n_steps, n_dims, n_rows,
    n_paths)."""
    a = ends[r, j]
    t = x.shape[0] - 1
    while t >= 0:
        for c in range(x.shape[1]):
            paths[t, c, r, j] = x[t, c, r, a]
        if t > 0 and extremes[t - 1, r, 2] == 0:
            a = ancestors[t - 1, r, a]
        t -= 1
