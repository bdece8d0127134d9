"""The pairs: each a function that draws its data, and what was planted."""

import math

import numpy as np

import portable as pk

TRIPS = 400  # of the longest loop


def _draw(random, n, quick):
    """A size within a third of n, or a tiny one."""
    return 512 if quick else int(n * random.uniform(0.75, 1.33)) // 64 * 64


def _there(space, *arrays):
    return [pk.copy_of(a, space) for a in arrays]


def _range(space, n):
    return pk.RangePolicy(0, n, space=space)


@pk.kernel
def escape(i, limit, cx, cy, steps):
    x, y, n = 0.0, 0.0, 0
    while n < limit and x * x + y * y <= 4.0:
        x, y = x * x - y * y + cx[i], 2.0 * x * y + cy[i]
        n += 1
    steps[i] = n


def mandelbrot_points_in_no_order(space, random, quick):
    """Against the same points sorted by their steps."""
    n = _draw(random, 40_000, quick)
    cx, cy = random.uniform(-2.0, 0.6, n), random.uniform(-1.2, 1.2, n)
    z, steps, inside = np.zeros(n, complex), np.zeros(n, np.int64), np.ones(n, bool)
    for _ in range(TRIPS):
        inside &= z.real**2 + z.imag**2 <= 4.0
        z[inside] = z[inside] ** 2 + (cx + 1j * cy)[inside]
        steps += inside
    order = np.argsort(steps)

    def launch(points):
        return (_range(space, n), escape, TRIPS, *_there(space, cx[points], cy[points]), pk.zeros(n, "int64", space))

    return launch(np.arange(n)), launch(order)


@pk.kernel
def decay(i, trips, x, out):
    v = x[i]
    for _ in range(trips[i]):
        v = v * 0.999 + 0.001
    out[i] = v


def loops_of_other_lengths_side_by_side(space, random, quick):
    n = _draw(random, 60_000, quick)
    trips, x = random.geometric(0.01, n), random.random(n)
    order = np.argsort(trips)

    def launch(k):
        return (_range(space, n), decay, *_there(space, trips[k], x[k]), pk.zeros(n, space=space))

    return launch(np.arange(n)), launch(order)


@pk.kernel
def some_exp(i, x, out):
    if x[i] > 0.0:
        v = x[i]
        for _ in range(8):
            v = math.exp(-v)
        out[i] = v


def a_branch_that_few_lanes_take(space, random, quick):
    n = _draw(random, 400_000, quick)
    x = np.where(random.random(n) < 0.15, 1.0, -1.0) * random.random(n)

    def launch(values):
        return (_range(space, n), some_exp, *_there(space, values), pk.zeros(n, space=space))

    return launch(x), launch(np.sort(x))


@pk.kernel
def gather(i, place, table, out):
    out[i] = table[place[i]]


def a_gather_from_all_over_memory(space, random, quick):
    n = _draw(random, 8_000_000, quick)
    table, out = random.random(n), pk.zeros(n, space=space)

    def launch(place):
        return (_range(space, n), gather, *_there(space, place, table), out)

    return launch(random.permutation(n)), launch(np.arange(n))


@pk.kernel
def every_so_many(i, stride, x, out):
    out[i] = 2.0 * x[i * stride]


def elements_far_apart(space, random, quick):
    """One element of each line or two, against as many side by side."""
    n, stride = _draw(random, 2_000_000, quick), int(random.integers(8, 17))
    x, out = _there(space, random.random(n * stride))[0], pk.zeros(n, space=space)
    return (_range(space, n), every_so_many, stride, x, out), (_range(space, n), every_so_many, 1, x, out)


@pk.kernel
def column_sums(i, a, out):
    total = 0.0
    for j in range(a.shape[1]):
        total += a[i, j]
    out[i] = total


def lanes_along_the_slow_index(space, random, quick):
    """Rows of a matrix, an index a row, against the same numbers stored column by column."""
    n, m = _draw(random, 40_000, quick), 64
    a, out = random.random((n, m)), pk.zeros(n, space=space)
    across = pk.copy_of(np.ascontiguousarray(a.T), space)

    return (_range(space, n), column_sums, *_there(space, a), out), (_range(space, n), row_sums, across, out)


@pk.kernel
def row_sums(i, a, out):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j, i]
    out[i] = total


@pk.kernel
def rows(team, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += math.exp(x[team.league_rank, j])
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def one_team_for_all(space, random, quick):
    n = _draw(random, 600_000, quick)
    x = pk.copy_of(random.random(n), space)

    def launch(league):
        return pk.TeamPolicy(league, space=space), rows, x[: n // league * league].reshape(league, n // league), pk.zeros(league, space=space)

    return launch(1), launch(64)


@pk.kernel
def one_chain(i, trips, x, out):
    a = x[i]
    for _ in range(8 * trips):
        a = a * 0.999 + 0.001
    out[i] = a


@pk.kernel
def eight_chains(i, trips, x, out):
    a = pk.local(8, x.dtype)
    for k in range(pk.static(8)):
        a[k] = x[i] + k
    for _ in range(trips):
        for k in range(pk.static(8)):
            a[k] = a[k] * 0.999 + 0.001
    total = 0.0
    for k in range(pk.static(8)):
        total += a[k]
    out[i] = total


def one_chain_of_operations(space, random, quick):
    """As many multiplications and additions, each waiting for the one before, against eight chains side by side."""
    n, trips = _draw(random, 20_000, quick), 100
    x = _there(space, random.random(n))
    return (_range(space, n), one_chain, trips, *x, pk.zeros(n, space=space)), (_range(space, n), eight_chains, trips, *x, pk.zeros(n, space=space))


@pk.kernel
def bins(i, level, counts):
    pk.atomic_add(counts, level[i], 1)


def all_to_one_bin(space, random, quick):
    """Atomic additions that meet, against copies that are added up."""
    n = _draw(random, 2_000_000, quick)
    level = _there(space, np.zeros(n, np.int32))[0]
    counts = pk.zeros(256, "int32", space)
    return (_range(space, n), bins, level, counts), (_range(space, n), bins, level, pk.ScatterView(counts))


def _poly(i, x, out):
    v, total = x[i], 0.0
    for k in range(32):
        total = total * v + 0.5 * k
    out[i] = total


in_packs, one_by_one = pk.kernel(_poly), pk.kernel(_poly, packed=False)


def one_lane_at_a_time(space, random, quick):
    n = _draw(random, 300_000, quick)
    x, out = _there(space, random.random(n))[0], pk.zeros(n, space=space)
    return (_range(space, n), one_by_one, x, out), (_range(space, n), in_packs, x, out)


@pk.kernel
def by_division(i, width, x, out):
    row, column = i // width, i % width
    out[i] = x[column] + row


@pk.kernel
def by_two_indices(row, column, width, x, out):
    out[row * width + column] = x[column] + row


def indices_by_division(space, random, quick):
    height, width = 700, _draw(random, 700, quick) + 37
    x, out = _there(space, random.random(width))[0], pk.zeros(height * width, space=space)
    two = pk.MDRangePolicy((0, 0), (height, width), space=space)
    return (_range(space, height * width), by_division, width, x, out), (two, by_two_indices, width, x, out)


@pk.kernel
def again_and_again(i, n_passes, x, out):
    for _ in range(n_passes):
        out[i] += x[i]


def a_launch_for_few(space, random, quick):
    """A launch of some ten indices, against one of many."""
    few, n = int(random.integers(8, 33)), _draw(random, 4_000_000, quick)
    x, out = random.random(n), np.zeros(n)

    def launch(size):
        return (_range(space, size), again_and_again, 1, *_there(space, x[:size], out[:size]))

    return launch(few), launch(n)


WAITING = ("waiting",)
ALL = [
    (("divergence",), mandelbrot_points_in_no_order),
    (("divergence",), loops_of_other_lengths_side_by_side),
    (("divergence",), a_branch_that_few_lanes_take),
    (("overfetch", "scattered"), a_gather_from_all_over_memory),
    (("overfetch", "scattered"), elements_far_apart),
    (("overfetch", "scattered"), lanes_along_the_slow_index),
    (("parallelism",), one_team_for_all),
    (WAITING, one_chain_of_operations),
    (("together",), all_to_one_bin),
    (("executed",), one_lane_at_a_time),
    (("instructions", "integer", "executed"), indices_by_division),
    (("launch",), a_launch_for_few),
]
