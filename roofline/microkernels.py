"""Kernels that do one thing as fast as the machine can, from which the ceilings are measured.

Chains of operations that do not depend on each other hide the time that each operation takes; 8 to 12 of them
are enough for a pack of lanes on a CPU, and threads add their own on a GPU. What is multiplied and added are
numbers among the arguments: no compiler can work the results out, and a GPU reads them from its constant
memory, for which a fused multiply-add in float64 waits less than for a third register. Values stay of order
one, far from infinities and subnormals.
"""

import functools

import numpy as np

import portable as pk

CHAINS = (
    12  # two units with four cycles each want eight; sixteen vector registers hold twelve and two operands
)
UNROLLED = 8  # steps of each chain in a trip: the loop costs three instructions
# of all rows, from one that a team reads to the next: it comes near none that others read at the time
LEAP = 0.618
ROWS, MOST = 4, 4  # rows that a team reads at once, and elements of each for a member: 16 loads in flight
BAND, BANDS = 512, 8  # elements of scratch, 32 KiB in all
FEW = 4  # of what is itself a sequence of operations, and waits for nothing


@pk.kernel
def fma(i, trips, b, c, out):
    """2 CHAINS UNROLLED flops a trip."""
    x = pk.local(CHAINS, out.dtype)
    for k in range(pk.static(CHAINS)):
        x[k] = out[i] + k
    for _ in range(trips):
        for _ in range(pk.static(UNROLLED)):
            for k in range(pk.static(CHAINS)):
                x[k] = pk.fma(x[k], b, c)
    total = 0.0
    for k in range(pk.static(CHAINS)):
        total += x[k]
    out[i] = total


@pk.kernel
def add_and_multiply(i, trips, b, c, out):
    """CHAINS UNROLLED flops a trip, half of them additions, and none of them fused: no chain has both."""
    x = pk.local(CHAINS, out.dtype)
    for k in range(pk.static(CHAINS)):
        x[k] = out[i] + k
    for _ in range(trips):
        for _ in range(pk.static(UNROLLED)):
            for k in range(pk.static(CHAINS // 2)):
                x[k] = x[k] * b
                x[k + CHAINS // 2] = x[k + CHAINS // 2] + c
    total = 0.0
    for k in range(pk.static(CHAINS)):
        total += x[k]
    out[i] = total


@pk.kernel
def products(team, trips, b, out):
    """2 * 32 * 128 * 4 flops a trip, of sums in registers."""
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


@pk.kernel
def integers(i, trips, b, c, out):
    """2 CHAINS UNROLLED integer operations a trip: an exclusive or and an addition."""
    x = pk.local(CHAINS, out.dtype)
    for k in range(pk.static(CHAINS)):
        x[k] = out[i] + k
    for _ in range(trips):
        for _ in range(pk.static(UNROLLED)):
            for k in range(pk.static(CHAINS)):
                x[k] = (x[k] ^ b) + c
    total = out[i]
    for k in range(pk.static(CHAINS)):
        total ^= x[k]
    out[i] = total


def _converting(there, back):
    """A kernel of CHAINS conversions a trip by `there`, and as many by `back`; a pair costs an addition."""

    @pk.kernel
    def converted(i, trips, b, c, out):
        x = pk.local(CHAINS, out.dtype)
        for k in range(pk.static(CHAINS)):
            x[k] = out[i] + k
        for _ in range(trips):
            for k in range(pk.static(CHAINS)):
                x[k] = back(there(x[k])) + c
        total = b
        for k in range(pk.static(CHAINS)):
            total += x[k]
        out[i] = total

    return converted


CONVERSIONS = {  # pairs of them, there and back
    "int64": _converting(pk.int64, pk.float64),
    "float32": _converting(pk.float32, pk.float64),
}

FUNCTIONS = (
    "exp",
    "fast_exp",
    "log",
    "sqrt",
    "divide",
)  # what most methods have; others are measured when asked for


@functools.cache
def special(name):
    """A kernel of FEW calls a trip of any function of one or two numbers, as counts name it; None where there
    is none.

    Calls do not wait for each other, only sums do. Arguments lie near b; each costs an addition and its sum
    another.
    """
    if name.startswith("random."):
        draw = getattr(pk.random, name.removeprefix("random."), None)
        return draw and _draws_of(draw)
    plain = _divide if name == "divide" else getattr(pk, name, None)
    if not callable(plain):
        return None

    @pk.kernel
    def calls(i, trips, b, c, out):
        total = pk.local(FEW, out.dtype)
        for k in range(pk.static(FEW)):
            total[k] = 0.0
        x = b + out[i]
        for _ in range(trips):
            for k in range(pk.static(FEW)):
                x += c
                total[k] += plain(x)
        out[i] = 1e-9 * (total[0] + total[1] + total[2] + total[3])

    @pk.kernel
    def calls_of_two(i, trips, b, c, out):
        total = pk.local(FEW, out.dtype)
        for k in range(pk.static(FEW)):
            total[k] = 0.0
        x = b + out[i]
        for _ in range(trips):
            for k in range(pk.static(FEW)):
                x += c
                total[k] += plain(x, b)
        out[i] = 1e-9 * (total[0] + total[1] + total[2] + total[3])

    return calls if _takes(plain, 1) else calls_of_two if _takes(plain, 2) else None


def _takes(function, n):
    """Whether it is a function of n numbers that gives one."""
    try:
        return np.ndim(function(*[1.5] * n)) == 0
    except (TypeError, ValueError):
        return False


@pk.function
def _divide(x):
    return 1.0 / x


def _draws_of(draw):
    """Random numbers: an index is a stream, a call a draw."""

    @pk.kernel
    def draws(i, trips, b, c, out):
        total = 0.0
        for trip in range(trips):
            for k in range(pk.static(FEW)):
                total += draw(1, i, FEW * trip + k)
        out[i] = total

    @pk.kernel
    def bounded(i, trips, b, c, out):
        total = 0.0
        for trip in range(trips):
            for k in range(pk.static(FEW)):
                total += draw(1, i, FEW * trip + k, 1000)
        out[i] = total

    @pk.kernel
    def words(i, trips, b, c, out):
        total = out[i]
        for trip in range(trips):
            for k in range(pk.static(FEW)):
                w = draw(1, i, FEW * trip + k)
                total ^= w[0] ^ w[1] ^ w[2] ^ w[3]
        out[i] = total

    return {pk.random.randint: bounded, pk.random.words: words}.get(draw, draws)


@pk.kernel
def atomic_apart(i, trips, counts):
    """An atomic addition a trip, each index to its own place."""
    for _ in range(trips):
        pk.atomic_add(counts, i, 1)


@pk.kernel
def atomic_together(i, trips, place, counts):
    """An atomic addition a trip, all indices to one place, which no compiler knows: where it does, a warp
    adds its lanes' first."""
    at = place[i]
    for _ in range(trips):
        pk.atomic_add(counts, at, 1)


@pk.kernel
def triad(i, s, b, c, a):
    """STREAM's triad: two elements read, one written."""
    a[i] = b[i] + s * c[i]


@pk.kernel
def copy(i, b, a):
    """An element read and written."""
    a[i] = b[i]


@pk.kernel
def update(i, s, b, a):
    """Two elements read, one of them written: what is written is in the cache already."""
    a[i] += s * b[i]


@pk.kernel
def element(i, x):
    """An element read."""
    return x[i]


@pk.kernel
def element_at(i, place, x):
    """An element read from anywhere."""
    return x[place[i]]


@pk.kernel
def triad_again(team, trips, s, b, c, a):
    """The triad on a team's own rows, over and over: the rows stay in the cache that holds them."""
    row = team.league_rank
    for _ in range(trips):
        for j in team.thread_range(a.shape[1]):
            a[row, j] = b[row, j] + s * c[row, j]


@pk.kernel
def copy_again(team, trips, b, a):
    """A team's own row copied to another, over and over."""
    row = team.league_rank
    for _ in range(trips):
        for j in team.thread_range(a.shape[1]):
            a[row, j] = b[row, j]


@pk.kernel
def update_again(team, trips, s, b, a):
    """A team's own row added to another, over and over."""
    row = team.league_rank
    for _ in range(trips):
        for j in team.thread_range(a.shape[1]):
            a[row, j] += s * b[row, j]


@pk.kernel
def read_again(team, trips, x, out):
    """A team's own eight rows read over and over, each into a sum of its own."""
    first = 8 * team.league_rank
    total = pk.local(8, out.dtype)
    for k in range(pk.static(8)):
        total[k] = 0.0
    for _ in range(trips):
        for j in team.thread_range(x.shape[1]):
            for k in range(pk.static(8)):
                total[k] += x[first + k, j]
    row = 0.0
    for k in range(pk.static(8)):
        row += total[k]
    row = team.reduce(row)
    if team.single():
        out[team.league_rank] = row


@pk.kernel
def read_around(team, trips, leap, width, x, out):
    """Each team reads ROWS rows a trip, all at once, `leap` apart: a row comes back when most others have
    been read.

    A row has MOST elements a member at most. `leap` is below the number of rows, so that places need no
    division.
    """
    total = pk.local(ROWS * MOST, out.dtype)
    for k in range(pk.static(ROWS * MOST)):
        total[k] = 0.0
    n_rows = x.shape[0]
    row = team.league_rank % n_rows
    for _ in range(trips):
        for r in range(pk.static(ROWS)):
            for k in range(width // team.size):
                total[r * MOST + k % MOST] += x[row, k * team.size + team.rank]
            row += leap
            row = row - n_rows if row >= n_rows else row
    all_rows = 0.0
    for k in range(pk.static(ROWS * MOST)):
        all_rows += total[k]
    all_rows = team.reduce(all_rows)
    if team.single():
        out[team.league_rank] = all_rows


@pk.kernel
def read_scratch(team, trips, width, out):
    """Each member reads BANDS elements of the team's scratch a trip, its neighbours those next to them."""
    kept = team.scratch(width, out.dtype)
    for j in team.thread_range(width):
        kept[j] = 1.0
    team.barrier()
    total = pk.local(BANDS, out.dtype)
    for k in range(pk.static(BANDS)):
        total[k] = 0.0
    for trip in range(trips):
        start = (team.rank + trip) % pk.static(BAND)
        for k in range(pk.static(BANDS)):
            total[k] += kept[start + k * pk.static(BAND)]
    all_bands = 0.0
    for k in range(pk.static(BANDS)):
        all_bands += total[k]
    all_bands = team.reduce(all_bands)
    if team.single():
        out[team.league_rank] = all_bands / team.size


@pk.kernel
def dependent(i, trips, b, c, out):
    """One chain of an exclusive or and an addition: two cycles a trip on every CPU core."""
    x = out[i]
    for _ in range(trips):
        x = (x ^ b) + c
    out[i] = x


@pk.kernel
def nothing(i, out):
    """A launch and no more."""
    out[i] = 0.0
