"""Kernels of a particle filter; the notation is that of `portable.models.resampling.filter`.

Arguments that recur
    sweep        particles for each team of `start` and `advance`; a row is a filter
    tile_size    see `weighing`
    t            step; `at` is its row in y and inputs
    y            observations, shape (n_slots, n_values); all values are NaN at a step without observation
    inputs       covariates of each step, shape (n_slots, n_inputs)
    params       shape (n_rows, n_params)
    x            states, shape (n_slots, n_dims, n_rows, n); `old` and `new` are slots
    log_w        shape (n_slots, n_rows, n)
    w            shape (n_rows, n): exp(log_w) relative to the largest of the row; all 1 in an unusable row
    extremes     those of w, and not 0 in the last column if the row idles
    now, before  `extremes` of log_w at this step and at the step before; a row that idles is not resampled,
                 and keeps its particles and their weights
"""

import math
from typing import Any, NamedTuple

import portable as pk

from .ancestor_kernels import LOW, key
from .weight_kernels import (
    IN_FLIGHT,
    RELATIVE,
    fixed,
    lay_out,
    order,
    ordered,
    part_of,
    power,
    real,
    relative,
    scale,
    tile_of,
)

AT_ONCE = 16  # bytes of a component per member at once: particles whose normal numbers share a block
TEAMS = 32  # teams of `advance`, each a warp, on a GPU's multiprocessor


@pk.function
def user_draw(t):
    """Return the first draw of the model at step t; resampling has the even multiples of 2^32."""
    return (2 * pk.uint64(t) + pk.uint64(1)) << 32


@pk.function
def parent(by_ancestor, r, k, ancestors):
    """Return the ancestor of particle k, or k itself if not `by_ancestor`."""
    a = pk.int32(k)
    if by_ancestor:
        a = pk.int32(ancestors[r, k])
    return a


@pk.function
def largest_log(now, r):
    """Return True if the largest log-weight of a row is finite, and that log-weight."""
    largest = ordered(now[r, 0])
    return abs(largest) < math.inf, largest


@pk.function
def upper_squared(q, lost):
    """Square the upper half of q, which has at most 31 bits."""
    upper = (q >> (lost & 63)) & LOW
    return upper * upper


@pk.function
def look_up(team, at_once, by_ancestor, r, base, ancestors, parents):
    """Fill `parents` with the parents of at_once particles of each member."""
    for m in range(at_once):
        parents[m] = parent(by_ancestor, r, base + m * team.size + team.rank, ancestors)


class Model(NamedTuple):
    """The functions of a model, and the number of components of a state."""

    initial: Any
    propagate: Any
    log_weight: Any
    guide: Any
    log_guide: Any
    n_dims: Any


class Known(NamedTuple):
    """Data of a row at a step: its parameters followed by the step's inputs, the observation, and True if any
    value of the observation is a number."""

    params: Any
    y: Any
    observed: Any


@pk.function
def gathered(r, at, n_params, n_inputs, inputs, params):
    """Gather the parameters of a row, followed by the inputs of a step, in one local array, so that each is
    read once."""
    own = pk.local(n_params + n_inputs, params.dtype)
    own[:n_params] = params[r]
    own[n_params:] = inputs[at]
    return own


@pk.function
def known(r, at, n_params, n_values, n_inputs, y, inputs, params):
    """Gather the data of row r at a step."""
    own_y = pk.local(n_values, y.dtype)
    seen = False
    for d in range(n_values):
        own_y[d] = y[at, d]
        seen = seen or not pk.isnan(own_y[d])
    return Known(gathered(r, at, n_params, n_inputs, inputs, params), own_y, seen)


@pk.function
def begin_particle(model, new, r, k, stream, seed, own, x):
    """Draw a particle's state at step 0 into x[new, :, r, k]; return its log-weight, 0 if the observation is
    missing."""
    state = model.initial(seed, stream, user_draw(0), own.params)
    x[new, : model.n_dims, r, k] = state
    weight = 0.0
    if own.observed:
        weight = model.log_weight(0, state, own.y, own.params)
    return weight


@pk.function
def move(model, t, new, r, k, stream, seed, own, state, x):
    """Draw a particle's state from that of its ancestor into x[new, :, r, k]; return the step's
    log-weight."""
    weight = 0.0
    draw = user_draw(t)
    if model.guide is None:
        moved = model.propagate(t, state, seed, stream, draw, own.params)
        x[new, : model.n_dims, r, k] = moved
        if own.observed:
            weight = model.log_weight(t, moved, own.y, own.params)
    elif own.observed:
        moved = model.guide(t, state, own.y, seed, stream, draw, own.params)
        x[new, : model.n_dims, r, k] = moved
        weight = model.log_weight(t, moved, own.y, own.params) + model.log_guide(
            t, state, moved, own.y, own.params
        )
    else:
        drawn = model.propagate(t, state, seed, stream, draw, own.params)
        x[new, : model.n_dims, r, k] = drawn
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
    """Draw states and log-weights of step 0, and find the largest log-weight; one team per sweep."""
    r, _, begin, end = part_of(team, sweep, log_w.shape[2])
    model = Model(initial, None, log_weight, None, None, n_dims)
    own = known(r, 0, n_params, n_values, n_inputs, y, inputs, params)
    largest = -math.inf
    for k in team.thread_range(begin, end):
        log_w[0, r, k] = begin_particle(model, 0, r, k, key(r, k), seed, own, x)
        largest = pk.maximum(largest, log_w[0, r, k])
    note_largest(team, r, largest, now)


@pk.function
def note_largest(team, r, largest, now):
    """Raise the row's largest log-weight to that of a team's particles."""
    largest = team.reduce(largest, pk.Max)
    if team.single():
        pk.atomic_max(now, (r, 0), order(pk.float64(largest)))


class Step(NamedTuple):
    """Slots of states and log-weights that a row's step reads and writes, and True if ancestors were drawn
    before it."""

    t: Any
    new: Any
    old_w: Any
    new_w: Any
    r: Any
    resampled: Any


@pk.function
def move_some(team, model, count, first, step, seed, own, states, x, log_w):
    """Draw states and log-weights of particles first, first + team.size, ...; return the largest log-weight,
    as stored."""
    r = step.r
    largest = -math.inf
    for m in range(count):
        k = first + m * team.size
        weight = move(model, step.t, step.new, r, k, key(r, k), seed, own, states[m], x)
        log_w[step.new_w, r, k] = weight if step.resampled else log_w[step.old_w, r, k] + weight
        largest = pk.maximum(largest, log_w[step.new_w, r, k])
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
    """Draw states and log-weights of step t, from ancestors if the row was resampled; one team per sweep.

    A member of a warp works on particles k and k + 32, in float32 also on k + 64 and k + 96, whose normal
    numbers share a block of bits. Reads an ancestor and its state, writes state and log-weight: 8 (2 n_dims +
    2) bytes in float64.
    """
    r, _, begin, end = part_of(team, sweep, log_w.shape[2])
    stride = at_once * team.size
    whole = begin + (end - begin) // stride * stride
    step = Step(t, new, old_w, new_w, r, before[r, 2] == 0)
    by_ancestor = step.resampled and not in_place
    model = Model(None, propagate, log_weight, guide, log_guide, n_dims)
    own = known(r, at, n_params, n_values, n_inputs, y, inputs, params)
    parents = pk.local(at_once, pk.int32)
    state = pk.local((at_once, n_dims), x.dtype)
    largest = -math.inf
    if begin < whole:
        look_up(team, at_once, by_ancestor, r, begin, ancestors, parents)
    for base in range(begin, whole, stride):
        for m in range(at_once):
            state[m, :] = x[old, :n_dims, r, parents[m]]
        if base + stride < whole:  # these loads overlap with the moves below
            look_up(team, at_once, by_ancestor, r, base + stride, ancestors, parents)
        first = base + team.rank
        if own.observed:  # tested once for all particles, so that their moves can be interleaved
            found = move_some(
                team, model, at_once, first, step, seed, own._replace(observed=True), state, x, log_w
            )
        else:
            found = move_some(
                team, model, at_once, first, step, seed, own._replace(observed=False), state, x, log_w
            )
        largest = pk.maximum(largest, found)
    for k in team.thread_range(whole, end):
        state[0, :] = x[old, :n_dims, r, parent(by_ancestor, r, k, ancestors)]
        found = move_some(team, model, 1, k, step, seed, own, state, x, log_w)
        largest = pk.maximum(largest, found)
    note_largest(team, r, largest, now)


@pk.function
def weigh_one(n_dims, kept, averaged, slot, r, k, log_weight, largest, row_scale, x, w, part):
    """Compute q of particle k; if `kept`, write its w, and if `averaged`, add q x to `part`."""
    weight = relative(log_weight, row_scale.usable, largest)
    if kept:
        w[r, k] = weight
    q = fixed(weight, row_scale)
    if averaged:
        for c in range(n_dims):
            part[c] += real(q) * pk.float64(x[slot, c, r, k])
    return q


@pk.kernel
def weigh(
    team, n_dims, tile_size, bits, half, kept, averaged, slot, slot_w, x, log_w, now, w, sums, squares, parts
):
    """Add up over a tile q, the square of its upper half, and, if `averaged`, q x; write w if `kept`. One
    team per tile, the last tile first.

    Reads the log-weights, if `averaged` the states, and writes w if `kept`; one exponential.
    """
    _, r, tile, begin, end = tile_of(team, sums, tile_size, log_w.shape[2], True)
    row_scale = scale(now, r, bits, RELATIVE)
    lost = pk.uint64(bits - half)
    stride = IN_FLIGHT * team.size
    total = pk.uint64(0)
    square = pk.uint64(0)
    own = pk.local(IN_FLIGHT, log_w.dtype)
    top = pk.local(1, log_w.dtype)
    top[0] = row_scale.largest
    part = pk.local(n_dims, pk.float64)
    part[:] = 0.0
    whole = begin + (end - begin) // stride * stride
    for base in range(begin, whole, stride):
        for m in range(IN_FLIGHT):
            own[m] = log_w[slot_w, r, base + m * team.size + team.rank]
        for m in range(IN_FLIGHT):
            k = base + m * team.size + team.rank
            q = weigh_one(n_dims, kept, averaged, slot, r, k, own[m], top[0], row_scale, x, w, part)
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
    """Compute the results of a row's step: (increment of the log-likelihood, effective sample size, True if
    the row idles, mass for the next step).

    The increment is log sum w - mass, where mass is the logarithm of the sum of the weights before the step:
    log n after resampling. An unusable row adds -infinity and is resampled from equal weights.
    """
    whole = real(total)
    part = whole * 2.0 ** pk.float64(half - bits)
    size = part * part / real(square) if usable else 0.0
    idle = usable and size >= threshold * n
    log_total = pk.float64(largest) + pk.log(whole * power(1 - bits)) if usable else -math.inf
    return log_total - before, size, idle, log_total if idle else pk.log(pk.float64(n))


@pk.kernel
def decide(team, bits, half, n, threshold, now, extremes, of_logs, sums, squares, mass, evidence, sizes):
    """Add up the tiles of a row, and compute its `verdict`; one team per row. `extremes` are those of w,
    `of_logs` those of log_w, either of which may be passed to a resampling scheme. 32 bytes a tile."""
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
    """Overwrite particles without offspring by copies of others, in place: ancestors are permuted. 8 to 8 (2
    n_dims + 1) bytes."""
    if now[r, 2] == 0 and ancestors[r, k] != k:
        x[0, :, r, k] = x[0, :, r, ancestors[r, k]]


@pk.kernel
def average(team, sums, parts, means):
    """Compute the weighted means of a row, shape (n_dims, n_rows); one team per row."""
    r = team.league_rank
    weight = real(sums[r, sums.shape[1] - 1])
    for c in range(parts.shape[0]):
        total = 0.0
        for tile in team.thread_range(parts.shape[2]):
            total += parts[c, r, tile]
        total = team.reduce(total)
        if team.single():
            means[c, r] = total / weight


@pk.kernel
def trace(r, j, extremes, ancestors, x, ends, paths):
    """Trace the path of particle ends[r, j] of the last step backwards; paths has shape (n_steps, n_dims,
    n_rows, n_paths)."""
    a = ends[r, j]
    t = x.shape[0] - 1
    while t >= 0:
        paths[t, :, r, j] = x[t, :, r, a]
        if t > 0 and extremes[t - 1, r, 2] == 0:
            a = ancestors[t - 1, r, a]
        t -= 1
