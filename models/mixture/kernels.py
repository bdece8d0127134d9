"""Kernels of Gaussian mixtures; the equations are numbered in `models.mixture`.

Arguments that recur
    p           number of coordinates: pk.static up to MOST_STATIC, so that a member can hold sums of its own and loops
                over up to 16 coordinates unroll; a plain number beyond
    x           points, shape (p, n)
    records     shape (k, p + p (p + 1) / 2 + 1): of a component the mean, the rows of the lower triangle of L^-1,
                and log pi - (p / 2) log 2 pi - sum log diag L
    lse         log-densities of the mixture, shape (n,)
    partial     shape (n_blocks, k, 1 + p + p (p + 1) / 2): of each block of points and component the sums of r, r d and
                the lower triangle of r d d', where d = x - mu; the sums about the present mean cancel little

No array holds a number for every point and component: `lse` is what the sums need to find the responsibilities again.
"""

import portable as pk

MOST_STATIC = 24  # coordinates; the sums of a member of `block_sums` then take 2.6 kB a lane, near the size of a cache
TILE = 512  # points of which a team of `wide_block_sums` keeps the responsibilities


@pk.function
def log_joint(p, x, i, records, j):
    """l_ij of (1), up to 3 p (p + 1) / 2 + 2 p + 2 operations."""
    square = 0.0
    o = p
    for a in range(p):
        y = 0.0
        for b in range(a + 1):
            y += records[j, o] * (x[b, i] - records[j, b])
            o += 1
        square += y * y
    return records[j, o] - 0.5 * square


@pk.kernel
def normalise(i, p, x, records, lse):
    """Keep and return lse_i of (2), with the largest term so far factored out.

    3 p (p + 1) / 2 + 2 p + 8 operations and one exponential a pair; 8 (p + 1) bytes a point.
    """
    top = log_joint(p, x, i, records, 0)
    total = 1.0
    for j in range(1, records.shape[0]):
        term = log_joint(p, x, i, records, j)
        smaller = pk.fast_exp(-abs(term - top))
        total = pk.where(term > top, total * smaller + 1.0, total + smaller)
        top = max(term, top)
    value = top + pk.log(total)
    lse[i] = value
    return value


@pk.kernel
def block_sums(team, p, x, records, lse, block, partial):
    """The sums of (3) over a block of points; a team a block and component. `p` is static.

    A member keeps its sums in registers or the nearest cache. 3 p (p + 1) + 3 p operations and one exponential a pair;
    8 (p + 1) bytes a point and component, most of them from cache.
    """
    k = records.shape[0]
    j = team.league_rank % k
    own = team.league_rank // k
    sums = pk.local(1 + p + p * (p + 1) // 2, pk.float64)
    d = pk.local(p, pk.float64)
    for o in range(1 + p + p * (p + 1) // 2):
        sums[o] = 0.0
    for i in team.thread_range(own * block, min(own * block + block, x.shape[1])):
        r = pk.fast_exp(log_joint(p, x, i, records, j) - lse[i])
        sums[0] += r
        o = 1 + p
        for a in range(p):
            d[a] = x[a, i] - records[j, a]
            rd = r * d[a]
            sums[1 + a] += rd
            for b in range(a + 1):
                sums[o] += rd * d[b]
                o += 1
    for o in range(1 + p + p * (p + 1) // 2):
        total = team.reduce(sums[o])
        if team.single():
            partial[own, j, o] = total


@pk.kernel
def wide_block_sums(team, p, x, records, lse, block, partial):
    """`block_sums` for any p: responsibilities of TILE points in scratch, then one sum after the other.

    As many operations as `block_sums`; 16 p (p + 1) bytes of x a pair, from cache where 8 p TILE bytes fit there.
    """
    k = records.shape[0]
    j = team.league_rank % k
    own = team.league_rank // k
    r = team.scratch(TILE, pk.float64)
    end = min(own * block + block, x.shape[1])
    for o in team.thread_range(partial.shape[2]):
        partial[own, j, o] = 0.0
    for begin in range(own * block, end, TILE):
        stop = min(begin + TILE, end)
        team.barrier()
        for i in team.thread_range(begin, stop):
            r[i - begin] = pk.fast_exp(log_joint(p, x, i, records, j) - lse[i])
        team.barrier()
        part = 0.0
        for i in team.thread_range(begin, stop):
            part += r[i - begin]
        total = team.reduce(part)
        if team.single():
            partial[own, j, 0] += total
        o = 1 + p
        for a in range(p):
            part = 0.0
            for i in team.thread_range(begin, stop):
                part += r[i - begin] * (x[a, i] - records[j, a])
            total = team.reduce(part)
            if team.single():
                partial[own, j, 1 + a] += total
            for b in range(a + 1):
                part = 0.0
                for i in team.thread_range(begin, stop):
                    part += r[i - begin] * (x[a, i] - records[j, a]) * (x[b, i] - records[j, b])
                total = team.reduce(part)
                if team.single():
                    partial[own, j, o] += total
                o += 1


@pk.kernel
def add_blocks(j, o, partial, sums):
    """Add up the blocks, always in the same order. 8 n_blocks bytes a sum."""
    total = partial[0, j, o]
    for b in range(1, partial.shape[0]):
        total += partial[b, j, o]
    sums[j, o] = total


@pk.kernel
def assign(i, p, x, records, labels):
    """The component of largest l_ij, the first of equals. As many operations as `normalise`, without exponentials."""
    best = 0
    top = log_joint(p, x, i, records, 0)
    for j in range(1, records.shape[0]):
        term = log_joint(p, x, i, records, j)
        best = pk.where(term > top, j, best)
        top = max(term, top)
    labels[i] = best


@pk.kernel
def responsibilities(i, j, p, x, records, lse, out):
    """r_ij of (2), stored. As many operations as `normalise`; 8 (p + 2) bytes a pair."""
    out[i, j] = pk.exp(log_joint(p, x, i, records, j) - lse[i])
