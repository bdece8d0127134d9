"""Kernels of resampling; the notation is that of `models.resampling`.

Arguments that recur
    w             weights, shape (n,), float32 or float64; every value is used as float64
    scale         two powers of two by which a weight is multiplied, one after the other so that neither overflows
    cumulative    Q, shape (n,), uint64
    seed, step    uint64: the key, and the first draw of this call
"""

import portable as pk


@pk.function
def scaled(w, i, scale):
    return pk.float64(w[i]) * scale[0] * scale[1]


@pk.function
def fixed(w, i, scale):
    """q_i."""
    return pk.uint64(pk.int64(pk.rint(scaled(w, i, scale))))


@pk.function
def find(cumulative, position):
    """The first i with cumulative[i] > position, by bisection; empty intervals are never found."""
    low = 0
    high = cumulative.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > position:
            high = middle
        else:
            low = middle + 1
    return low


@pk.function
def proposal(seed, stream, draw, n):
    """(j, u) of one draw: j uniform in 0..n-1 from 64 bits (n <= 2^31, bias below 2^-33), u in [0, 1) from 53."""
    w = pk.random.words(seed, stream, draw)
    j = (pk.uint64(w[1]) * n + ((pk.uint64(w[0]) * n) >> 32)) >> 32
    u = pk.float64(pk.int64((pk.uint64(w[3]) << 21) | (pk.uint64(w[2]) >> 11))) * 2.0**-53
    return pk.int64(j), u


@pk.kernel
def value(i, x):
    """x_i twice, for its smallest and its largest. 4 or 8 bytes."""
    return x[i], x[i]


@pk.kernel
def exponential(i, log_w, largest, w):
    """w_i = exp(log w_i - largest). One exponential, 12 or 16 bytes."""
    w[i] = pk.exp(pk.float64(log_w[i]) - largest)


@pk.kernel
def quantised(i, w, scale):
    """q_i, for scans and sums. 3 operations, 4 or 8 bytes (a scan writes 8 more)."""
    return fixed(w, i, scale)


@pk.kernel
def moments(i, w, scale):
    """w_i and its square. 3 operations, 4 or 8 bytes."""
    x = scaled(w, i, scale)
    return x, x * x


@pk.kernel
def log_weight(i, log_w):
    """log w_i in float64. 4 or 8 bytes."""
    return pk.float64(log_w[i])


@pk.kernel
def at_systematic(k, quotient, remainder, start, n_draws, cumulative, ancestors):
    """Position floor((k Q + start) / M), in 64 bits. A division, log2 N reads, 8 bytes out."""
    rank = pk.uint64(k)
    ancestors[k] = find(cumulative, rank * quotient + (rank * remainder + start) // n_draws)


@pk.kernel
def at_stratified(k, quotient, remainder, total, n_draws, seed, step, cumulative, ancestors):
    """As at_systematic with a start of its own in every stratum: one more block of random bits."""
    rank = pk.uint64(k)
    start = pk.uint64(pk.random.randint(seed, k, step, total))
    ancestors[k] = find(cumulative, rank * quotient + (rank * remainder + start) // n_draws)


@pk.kernel
def at_multinomial(k, first, total, seed, step, cumulative, ancestors):
    """Position uniform in [0, Q), for ancestor first + k. A block of random bits, log2 N reads, 8 bytes out."""
    ancestors[first + k] = find(cumulative, pk.uint64(pk.random.randint(seed, first + k, step, total)))


@pk.kernel
def whole_copies(i, w, scale, n_draws, total):
    """floor(M q_i / Q), for the residual scheme. A division, 4 or 8 bytes (a scan writes 8 more)."""
    return pk.int64(fixed(w, i, scale) * n_draws // total)


@pk.kernel
def residue(i, w, scale, n_draws, total, shift):
    """(M q_i mod Q) 2^-shift, what whole_copies leaves. A division, 4 or 8 bytes (a scan writes 8 more)."""
    return (fixed(w, i, scale) * n_draws % total) >> shift


@pk.kernel
def by_rank(k, cumulative, ancestors):
    """The particle whose copy is number k, from cumulative offspring. log2 N reads, 8 bytes out."""
    ancestors[k] = find(cumulative, k)


@pk.kernel
def metropolis_chain(k, n_steps, w, scale, n, seed, step, ancestors):
    """A Metropolis chain from particle k mod n. A block of random bits and one gathered weight a step, 8 bytes out."""
    a = k % w.shape[0]
    own = scaled(w, a, scale)
    for b in range(n_steps):
        j, u = proposal(seed, k, step + pk.uint64(b), n)
        other = scaled(w, j, scale)
        if u * own < other:
            a = j
            own = other
    ancestors[k] = a


@pk.kernel
def rejection_chain(k, largest, w, scale, n, seed, step, ancestors):
    """First particle k, then uniform ones until one is accepted. A block and a gather each, 8 bytes out."""
    draw = step
    a = k % w.shape[0]
    _, u = proposal(seed, k, draw, n)
    while u * largest >= scaled(w, a, scale):
        draw += pk.uint64(1)
        a, u = proposal(seed, k, draw, n)
    ancestors[k] = a


@pk.kernel
def survive_or_draw(k, largest, total, w, scale, n, seed, step, cumulative, ancestors):
    """Particle k survives with probability w_k / w_max; else a multinomial draw takes its place."""
    _, u = proposal(seed, k, step, n)
    a = k
    if u * largest >= scaled(w, k, scale):
        a = find(cumulative, pk.uint64(pk.random.randint(seed, k, step + pk.uint64(1), total)))
    ancestors[k] = a


@pk.kernel
def fill(i, number, x):
    """x_i = number. 8 bytes."""
    x[i] = number


@pk.kernel
def count(k, ancestors, offspring):
    """Add one to the ancestor's offspring. One atomic, 8 bytes in."""
    pk.atomic_add(offspring, ancestors[k], 1)


@pk.kernel
def identity(i, x):
    """x_i, for scans. 16 bytes with the prefix."""
    return x[i]


@pk.kernel
def difference(i, cumulative, offspring):
    """o_i = O_i - O_(i-1). 16 bytes."""
    offspring[i] = cumulative[i] - (cumulative[i - 1] if i > 0 else 0)


@pk.kernel
def claim(k, ancestors, owner):
    """The lowest k with a_k = i owns slot i: one atomic, 8 bytes in."""
    pk.atomic_min(owner, ancestors[k], k)


@pk.kernel
def settle(k, ancestors, owner, source):
    """Every draw finds its slot: owners theirs, any other follows owners from slot k to a free one.

    Each slot has one owner and each owner one slot, so no two walks meet: nothing is atomic. Two reads for each slot
    passed, 8 bytes out.
    """
    n = ancestors.shape[0]
    slot = ancestors[k]
    if owner[slot] != k:
        slot = k
        while owner[slot] < n:
            slot = owner[slot]
    source[slot] = k


@pk.kernel
def gather(i, source, ancestors, permuted):
    """permuted_i = a_(source_i). 24 bytes."""
    permuted[i] = ancestors[source[i]]
