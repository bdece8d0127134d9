"""A particle filter for short rows: one team takes a row through all steps in one launch; notation as in
`portable.models.resampling.filter_kernels`.

Particles, weights and likelihoods are bitwise those of the kernels that take one step per launch: random
numbers have the same indices, weights are the same whole numbers, and maxima and sums of whole numbers do not
depend on their order. (Means agree up to rounding.) The state after each step is in memory, so that launches
may be split between any two steps.

Arguments beyond those of `filter_kernels`
    seeds    shape (n_rows, n_blocks), uint64: the key of a row in each of n_blocks equal parts of the
             `horizon`
    first    the number, in its bank, of row 0 here: random numbers are those of row first + r, or, if not
             `numbered`, those of row 0 with the row's keys
    n_free   number of parameters that vary between particles, stored after a particle's state: their indices
             in params are `free`, their limits and the standard deviations of their moves, at step 0 and at
             later steps, are `limits` and `sds`, shape (n_free, 2); they move on the real line, to which
             `portable.models.resampling.priors` transforms them
    totals   shape (n_rows, n_tiles + 1), uint64: Q of a row in its last column
"""

import math

import portable as pk

from .filter_kernels import Model, begin_particle, known, move, upper_squared, user_draw, verdict
from .ancestor_kernels import Row, below_systematic, key, one_start, parts_over
from .weight_kernels import WEIGHTS, fixed, order, ordered, real, relative, scale

OWN = pk.uint64(1 << 31)  # first draw of a step that moves parameters; lower ones belong to the model
MOST = 4096  # largest number of particles of a row that one team takes


@pk.function
def seed_of(seeds, r, t, horizon):
    """Return the key of row r at step t."""
    return seeds[r, min(t * seeds.shape[1] // horizon, seeds.shape[1] - 1)]


@pk.function
def sort_row(team, r, n, slot, x, keys, items, places):
    """Sort particles by their first component: places[r, j] is the j-th particle. A bitonic sort of a power
    of two of keys in scratch."""
    size = keys.shape[0]
    for k in team.thread_range(size):
        keys[k] = math.inf
        items[k] = n
        if k < n:
            keys[k] = pk.float64(x[slot, 0, r, k])
            items[k] = k
    team.barrier()
    run = 2
    while run <= size:
        stride = run // 2
        while stride > 0:
            for m in team.thread_range(size // 2):
                i = m // stride * 2 * stride + m % stride
                j = i + stride
                low, high = keys[i], keys[j]
                first, second = items[i], items[j]
                after = low > high or (low == high and first > second)
                if after == (i // run % 2 == 0):
                    keys[i] = high
                    keys[j] = low
                    items[i] = second
                    items[j] = first
            team.barrier()
            stride = stride // 2
        run = 2 * run
    for k in team.thread_range(n):
        places[r, k] = items[k]
    team.barrier()


@pk.function
def spread_row(team, r, drawn, total, row_scale, w, marks, places, in_order, ancestors):
    """Draw systematic ancestors of a row: mark the first draw of each parent with the parent's place; the
    running maximum of the marks gives the parent of every draw.

    With `in_order`, places[r, j] is the j-th particle, and draws follow that order. `drawn` holds the row's
    number in its bank, seed and step.
    """
    number, seed, step = drawn
    n = w.shape[1]
    start = one_start(number, total, seed, step)
    row = Row(r, start, total, pk.uint64(n), parts_over(total, pk.uint64(n)), seed, step, 0, 0)
    for k in team.thread_range(n):
        marks[k] = 0
    team.barrier()
    carry = pk.uint64(0)
    for base in range(0, n, team.size):
        k = base + team.rank
        q = pk.uint64(0)
        if k < n:
            i = pk.int64(places[r, k]) if in_order else pk.int64(k)
            q = fixed(w[r, i], row_scale)
        position = carry + team.scan(q)
        carry = team.broadcast(position + q, team.size - 1)
        low, high = below_systematic(position, row), below_systematic(position + q, row)
        if high > low:
            marks[low] = pk.int32(k)
    team.barrier()
    place = pk.int32(0)
    for base in range(0, n, team.size):
        k = base + team.rank
        found = place
        if k < n:
            found = marks[k]
        found = max(max(found, team.scan(found, pk.Max)), place)
        place = team.broadcast(found, team.size - 1)
        if k < n:
            i = pk.int32(found)
            if in_order:
                i = pk.int32(places[r, found])
            ancestors[r, k] = i
    team.barrier()


@pk.function
def write_parameters(varying, n_dims, slot, r, k, x, params):
    """Write the parameters of particle k, stored after its state, to params; `varying` has n_free, free and
    limits."""
    n_free, free, limits = varying
    for p in range(n_free):
        z = x[slot, n_dims + p, r, k]
        value = z
        if limits[p, 0] > -math.inf:
            width = limits[p, 1] - limits[p, 0]
            value = limits[p, 0] + (width / (1.0 + math.exp(-z)) if width < math.inf else math.exp(z))
        params[free[p]] = value


@pk.function
def wander(varying, sds, n_dims, t, old, new, r, k, a, seed, stream, x, params):
    """Move the parameters of particle k, stored after the state of particle a, and write them to x and
    params."""
    for p in range(varying[0]):
        sd = sds[p, min(t, 1)]
        z = x[old, n_dims + p, r, a] + sd * pk.random.normal(seed, stream, user_draw(t) + OWN + pk.uint64(p))
        x[new, n_dims + p, r, k] = z
    write_parameters(varying, n_dims, new, r, k, x, params)


@pk.function
def look_around(team, look_ahead, varying, n_dims, t, old, old_w, r, row_scale, own, x, log_w, w):
    """Set w to the weights of particles times the observation's likelihood as predicted by `look_ahead`;
    return the sum of their whole numbers and the logarithm of the largest."""
    state = pk.local(n_dims, x.dtype)
    largest = -math.inf
    for k in team.thread_range(w.shape[1]):
        state[:] = x[old, :n_dims, r, k]
        write_parameters(varying, n_dims, old, r, k, x, own.params)
        expected = look_ahead(t, state, own.y, own.params) if own.observed else 0.0
        w[r, k] = log_w[old_w, r, k] + expected
        largest = pk.maximum(largest, w[r, k])
    largest = team.reduce(largest, pk.Max)
    total = pk.uint64(0)
    for k in team.thread_range(w.shape[1]):
        w[r, k] = relative(w[r, k], abs(largest) < math.inf, largest)
        total += fixed(w[r, k], row_scale)
    total = team.reduce(total)
    team.barrier()
    return total, largest


@pk.kernel
def filter_rows(
    team,
    initial,
    propagate,
    log_weight,
    guide,
    log_guide,
    look_ahead,
    n_dims,
    begin,
    end,
    horizon,
    first,
    numbered,
    n_free,
    free,
    limits,
    sds,
    n_params,
    n_values,
    n_inputs,
    bits,
    half,
    threshold,
    averaged,
    in_order,
    n_sorted,
    seeds,
    y,
    inputs,
    params,
    x,
    log_w,
    w,
    ancestors,
    places,
    row_extremes,
    totals,
    mass,
    extremes,
    evidence,
    sizes,
    means,
):
    """Filter steps begin .. end - 1 of a row; one team per row, with scratch for n int32, and for n_sorted
    numbers and their places.

    Cost of a particle and step: its random numbers, about two exponentials, and 8 (3 n_dims + 6) bytes in
    float64, which stay in a cache.
    """
    r = team.league_rank
    number = first + r if numbered else 0
    n = w.shape[1]
    n_slots = x.shape[0]
    n_kept = evidence.shape[0]
    marks = team.scratch(n, pk.int32)
    keys = team.scratch(n_sorted, pk.float64)
    items = team.scratch(n_sorted, pk.int32)
    model = Model(initial, propagate, log_weight, guide, log_guide, n_dims)
    state = pk.local(n_dims, x.dtype)
    row_scale = scale(row_extremes, r, bits, WEIGHTS)
    lost = pk.uint64(bits - half)
    varying = n_free, free, limits
    brought = mass[r]
    idle = begin > 0 and row_extremes[r, 2] != 0
    total = pk.uint64(0)
    if begin > 0:
        total = totals[r, totals.shape[1] - 1]
    for t in range(begin, end):
        kept = t % n_kept
        new = t % n_slots
        old = (t + n_slots - 1) % n_slots
        new_w = t % log_w.shape[0]
        old_w = (t + log_w.shape[0] - 1) % log_w.shape[0]
        last = (t + ancestors.shape[0] - 1) % ancestors.shape[0]
        own = known(r, t % y.shape[0], n_params, n_values, n_inputs, y, inputs, params)
        seed = seed_of(seeds, r, t, horizon)
        resampled = t > 0 and not idle
        if look_ahead is not None:
            if resampled:
                before, top = real(total), ordered(extremes[(t + n_kept - 1) % n_kept, r, 0])
                total, ahead = look_around(
                    team, look_ahead, varying, n_dims, t, old, old_w, r, row_scale, own, x, log_w, w
                )
                if abs(ahead) < math.inf:  # otherwise the row dies at this step
                    brought -= pk.float64(ahead) - top + pk.log(real(total) / before)
        if resampled:
            if in_order:
                sort_row(team, r, n, old, x, keys, items, places)
            drawn = number, seed, pk.uint64(2 * (t - 1)) << 32
            spread_row(team, r, drawn, total, row_scale, w, marks, places, in_order, ancestors[last])
        largest = -math.inf
        for k in team.thread_range(n):
            weight = 0.0
            stream = key(number, k)
            a = pk.int64(k)
            if resampled:
                a = pk.int64(ancestors[last, r, k])
            wander(varying, sds, n_dims, t, old, new, r, k, a, seed, stream, x, own.params)
            if t == 0:
                weight = begin_particle(model, new, r, k, stream, seed, own, x)
            else:
                state[:] = x[old, :n_dims, r, a]
                weight = move(model, t, new, r, k, stream, seed, own, state, x)
                if look_ahead is not None:
                    if resampled and own.observed:
                        write_parameters(varying, n_dims, old, r, a, x, own.params)
                        weight -= look_ahead(t, state, own.y, own.params)
            log_w[new_w, r, k] = log_w[old_w, r, k] + weight if idle else weight
            largest = pk.maximum(largest, log_w[new_w, r, k])
        largest = team.reduce(largest, pk.Max)
        usable = abs(largest) < math.inf
        q_sum = pk.uint64(0)
        square = pk.uint64(0)
        for k in team.thread_range(n):
            w[r, k] = relative(log_w[new_w, r, k], usable, largest)
            q = fixed(w[r, k], row_scale)
            q_sum += q
            square += upper_squared(q, lost)
        total = team.reduce(q_sum)
        square = team.reduce(square)
        if averaged:
            for c in range(n_dims):
                part = 0.0
                for k in team.thread_range(n):
                    part += real(fixed(w[r, k], row_scale)) * pk.float64(x[new, c, r, k])
                part = team.reduce(part)
                if team.single():
                    means[kept, c, r] = part / real(total)
        added, size, idle, brought = verdict(
            usable, largest, total, square, bits, half, n, threshold, brought
        )
        if team.single():
            extremes[kept, r, 0] = order(pk.float64(largest))
            extremes[kept, r, 2] = 1 if idle else 0
            evidence[kept, r] = added
            sizes[kept, r] = size
        team.barrier()
    if team.single():
        mass[r] = brought
        row_extremes[r, 2] = 1 if idle else 0
        totals[r, totals.shape[1] - 1] = total
