"""Kernels that do one kind of work as fast as the machine can, from which the ceilings are measured.

Chains of operations that do not depend on each other hide the latency of an operation; 8 to 12 of them are
enough for a pack of lanes on a CPU, and a GPU has many threads as well. The factors and summands are numbers
among the arguments: no compiler can compute the results, and a GPU reads them from its constant memory, for
which a fused multiply-add in float64 has a lower latency than for a third register. Values stay of order one,
far from infinities and subnormals.
"""

import functools

import numpy as np

import portable as pk

# two units with a latency of four cycles need eight; sixteen vector registers hold twelve and two operands
CHAINS = 12
UNROLLED = 8  # steps of each chain in an iteration: the loop costs three instructions
# distance between consecutive rows of a team, over all rows: far from the rows that other teams read at the
# time
LEAP = 0.618
ROWS, MOST = 4, 4  # rows that a team reads at once, and a member's elements of each: 16 loads in flight
BAND, BANDS = 512, 8  # elements of scratch, 32 KiB in all
FEW = 4  # calls of a function that is itself a sequence of independent operations


@pk.kernel
def chains(i, step, other, trips, b, c, out):
    """Do CHAINS UNROLLED steps an iteration, half of the chains by `step`, the others by `other`."""
    x = pk.local(CHAINS, out.dtype)
    for k in range(pk.static(CHAINS)):
        x[k] = out[i] + k
    for _ in range(trips):
        for _ in range(pk.static(UNROLLED)):
            for k in range(pk.static(CHAINS // 2)):
                x[k] = step(x[k], b, c)
                x[k + CHAINS // 2] = other(x[k + CHAINS // 2], b, c)
    out[i] = x.sum()


FMA = chains, pk.fma, pk.fma


@pk.function
def multiplied(x, b, c):
    return x * b


@pk.function
def added(x, b, c):
    return x + c


@pk.function
def mixed(x, b, c):
    """Return an exclusive or and an addition of integers."""
    return (x ^ b) + c


@pk.function
def through_int64(x, b, c):
    return pk.float64(pk.int64(x)) + c


@pk.function
def through_float32(x, b, c):
    return pk.float64(pk.float32(x)) + c


@pk.kernel
def products(team, trips, b, out):
    """Do 2 * 32 * 128 * 4 flops an iteration, with the sums in registers."""
    x, y = team.scratch((32, 4), out.dtype), team.scratch((4, 128), out.dtype)
    own, total = team.tile((32, 128), out.dtype), 0.0
    for e in team.thread_range(512):
        y[e // 128, e % 128] = b
        if e < 128:
            x[e // 4, e % 4] = b
    team.barrier()
    for _ in range(trips):
        team.product(own, x, y)
    for e, i, j in team.elements(own):
        total += own[e]
    out[team.league_rank * team.size + team.rank] = total


# the functions that most methods use; others are measured when a kernel calls them
FUNCTIONS = "exp", "fast_exp", "log", "sqrt", "divide"


@functools.cache
def special(name):
    """Return a kernel and its function, for FEW calls an iteration of a function of one or two numbers, by
    its name in counts; None if there is no such function.

    Calls do not depend on each other, only the sums do. Arguments are close to b; each costs an addition, and
    so does its sum.
    """
    if name.startswith("random."):
        draw = getattr(pk.random, name.removeprefix("random."), None)
        return draw and (draws, _of_stream(draw))
    plain = _divide if name == "divide" else getattr(pk, name, None)

    @pk.function
    def of_one(x, b):
        return plain(x)

    return (calls, of_one) if _takes(plain, 1) else (calls, plain) if _takes(plain, 2) else None


def _takes(function, n):
    """Return True if `function` maps n numbers to one."""
    try:
        return np.ndim(function(*[1.5] * n)) == 0
    except (TypeError, ValueError):
        return False


@pk.function
def _divide(x):
    return 1.0 / x


@pk.kernel
def calls(i, function, trips, b, c, out):
    total, x = pk.local(FEW, out.dtype), b + out[i]
    total[:] = 0.0
    for _ in range(trips):
        for k in range(pk.static(FEW)):
            x += c
            total[k] += function(x, b)
    out[i] = 1e-9 * total.sum()


@pk.kernel
def draws(i, function, trips, b, c, out):
    """Draw random numbers: each index is a stream, each call a draw."""
    total = out[i]
    for trip in range(trips):
        for k in range(pk.static(FEW)):
            total += function(i, FEW * trip + k)
    out[i] = total


def _of_stream(draw):
    """Return a function of stream and draw that returns one number."""

    @pk.function
    def number(i, k):
        return draw(1, i, k)

    @pk.function
    def bounded(i, k):
        return draw(1, i, k, 1000)

    @pk.function
    def word(i, k):
        w = draw(1, i, k)
        return w[0] ^ w[1] ^ w[2] ^ w[3]

    return {pk.random.randint: bounded, pk.random.words: word}.get(draw, number)


@pk.kernel
def atomics(i, trips, place, counts):
    """Add 1 atomically in each iteration, to a place that no compiler knows: for a known place, a warp would
    first add up its lanes' summands."""
    at = place[i]
    for _ in range(trips):
        pk.atomic_add(counts, at, 1)


@pk.kernel
def triad(i, s, b, c, a):
    """Run STREAM's triad: two elements are read, one is written."""
    a[i] = b[i] + s * c[i]


@pk.kernel
def copy(i, b, a):
    """Copy an element: one is read, one is written."""
    a[i] = b[i]


@pk.kernel
def update(i, s, b, a):
    """Update an element: two are read, one of them is written, which is then in the cache already."""
    a[i] += s * b[i]


@pk.kernel
def element(i, x):
    """Read an element."""
    return x[i]


@pk.kernel
def element_at(i, place, x):
    """Read an element at any place."""
    return x[place[i]]


@pk.kernel
def triad_again(team, trips, s, b, c, a):
    """Run the triad on a team's own rows repeatedly, so that the rows stay in a cache that holds them."""
    row = team.league_rank
    for _ in range(trips):
        for j in team.thread_range(a.shape[1]):
            a[row, j] = b[row, j] + s * c[row, j]


@pk.kernel
def copy_again(team, trips, b, a):
    """Copy one of a team's rows to another repeatedly."""
    row = team.league_rank
    for _ in range(trips):
        for j in team.thread_range(a.shape[1]):
            a[row, j] = b[row, j]


@pk.kernel
def update_again(team, trips, s, b, a):
    """Add one of a team's rows to another repeatedly."""
    row = team.league_rank
    for _ in range(trips):
        for j in team.thread_range(a.shape[1]):
            a[row, j] += s * b[row, j]


@pk.kernel
def read_again(team, trips, x, out):
    """Read a team's eight rows repeatedly, each into a separate sum."""
    first = 8 * team.league_rank
    total = pk.local(8, out.dtype)
    total[:] = 0.0
    for _ in range(trips):
        for j in team.thread_range(x.shape[1]):
            for k in range(pk.static(8)):
                total[k] += x[first + k, j]
    row = team.reduce(total.sum())
    if team.single():
        out[team.league_rank] = row


@pk.kernel
def read_around(team, trips, leap, width, x, out):
    """Read ROWS rows in each iteration of a team, all at once, `leap` apart: a row is read again after most
    other rows have been read.

    A row has at most MOST elements for each member. `leap` is below the number of rows, so that places need
    no division.
    """
    total = pk.local(ROWS * MOST, out.dtype)
    total[:] = 0.0
    n_rows = x.shape[0]
    row = team.league_rank % n_rows
    for _ in range(trips):
        for r in range(pk.static(ROWS)):
            for k in range(width // team.size):
                total[r * MOST + k % MOST] += x[row, k * team.size + team.rank]
            row += leap
            row = row - n_rows if row >= n_rows else row
    all_rows = team.reduce(total.sum())
    if team.single():
        out[team.league_rank] = all_rows


@pk.kernel
def read_scratch(team, trips, width, out):
    """Read BANDS elements of a team's scratch in each iteration of a member; neighbours read adjacent
    elements."""
    kept = team.scratch(width, out.dtype)
    for j in team.thread_range(width):
        kept[j] = 1.0
    team.barrier()
    total = pk.local(BANDS, out.dtype)
    total[:] = 0.0
    for trip in range(trips):
        start = (team.rank + trip) % pk.static(BAND)
        for k in range(pk.static(BANDS)):
            total[k] += kept[start + k * pk.static(BAND)]
    all_bands = team.reduce(total.sum())
    if team.single():
        out[team.league_rank] = all_bands / team.size


@pk.kernel
def dependent(i, trips, b, c, out):
    """Run one chain of an exclusive or and an addition: two cycles an iteration on every CPU core."""
    x = out[i]
    for _ in range(trips):
        x = (x ^ b) + c
    out[i] = x


@pk.kernel
def empty_launch(i, out):
    """Do nothing, to measure the cost of a launch."""
    out[i] = 0.0
