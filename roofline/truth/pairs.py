"""The pairs: each a function that draws its data, and what was planted."""

import math

import numpy as np

import portable as pk
from portable.errors import InputError

TRIPS = 400  # of the longest loop


def _draw(random, n, quick):
    """A size within a third of n, or a tiny one."""
    return 512 if quick else int(n * random.uniform(0.75, 1.33)) // 64 * 64


def _there(space, *arrays):
    return [pk.copy_of(a, space) for a in arrays]


def _range(space, n):
    return pk.RangePolicy(0, n, space=space)


def _check_threads(space):
    """Refuse what needs others to run beside.

    Raises
    ------
    InputError
    """
    if pk.concurrency(space) < 2:
        raise InputError(f"space: '{space}' runs one team at a time; this pair wants several.")


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
        return (
            _range(space, n),
            escape,
            TRIPS,
            *_there(space, cx[points], cy[points]),
            pk.zeros(n, "int64", space),
        )

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
def scatter(i, place, x, out):
    out[place[i]] = x[i]


def a_scatter_to_all_over_memory(space, random, quick):
    n = _draw(random, 6_000_000, quick)
    x, out = _there(space, random.random(n))[0], pk.zeros(n, space=space)

    def launch(place):
        return (_range(space, n), scatter, *_there(space, place), x, out)

    return launch(random.permutation(n)), launch(np.arange(n))


def a_gather_of_float32_from_a_large_table(space, random, quick):
    """Few of its elements, each once."""
    n, m = _draw(random, 2_000_000, quick), 512 if quick else 64_000_000
    table, out = pk.zeros(max(n, m), "float32", space), pk.zeros(n, "float32", space)
    pk.deep_copy(table, 1.0)

    def launch(place):
        return (_range(space, n), gather, *_there(space, place), table, out)

    return launch(random.integers(0, len(table), n)), launch(np.arange(n))


@pk.kernel
def turned(i, j, a, out):
    out[j, i] = a[i, j]


@pk.kernel
def straight(i, j, a, out):
    out[i, j] = a[i, j]


def a_matrix_written_across(space, random, quick):
    """Its transpose, an element of each line at a time, against a copy."""
    n = 64 if quick else 2048 + 8 * int(random.integers(1, 100))
    a, out, box = (
        _there(space, random.random((n, n)))[0],
        pk.zeros((n, n), space=space),
        pk.MDRangePolicy((0, 0), (n, n), space=space),
    )
    return (box, turned, a, out), (box, straight, a, out)


@pk.kernel
def collatz(i, start, out):
    n, steps = start[i], 0
    while n > 1:
        n = pk.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    out[i] = steps


def numbers_of_other_lengths_in_no_order(space, random, quick):
    n = _draw(random, 30_000, quick)
    start = random.integers(1, 10**6, n)
    left, steps = start.copy(), np.zeros(n, np.int64)
    while (left > 1).any():
        steps += left > 1
        left = np.where(left > 1, np.where(left % 2 == 0, left // 2, 3 * left + 1), left)

    def launch(numbers):
        return (_range(space, n), collatz, *_there(space, numbers), pk.zeros(n, "int64", space))

    return launch(start), launch(start[np.argsort(steps)])


@pk.kernel
def one_or_the_other(i, kind, x, out):
    v = x[i]
    if kind[i] == 0:
        for _ in range(6):
            v = math.exp(-v)
    else:
        for _ in range(6):
            v = math.log(1.5 + v)
    out[i] = v


def two_kinds_of_work_mixed(space, random, quick):
    n = _draw(random, 150_000, quick)
    kind, x = random.integers(0, 2, n), random.random(n)

    def launch(kinds):
        return (_range(space, n), one_or_the_other, *_there(space, kinds, x), pk.zeros(n, space=space))

    return launch(kind), launch(np.sort(kind))


@pk.kernel
def first_above(i, table, limit, out):
    found = -1
    for k in range(table.shape[0]):
        if table[k] > limit[i]:
            found = k
            break
    out[i] = found


def searches_that_end_at_other_places(space, random, quick):
    n = _draw(random, 30_000, quick)
    table, limit = np.sort(random.random(300)), random.random(n) ** 4

    def launch(limits):
        return (_range(space, n), first_above, *_there(space, table, limits), pk.zeros(n, "int64", space))

    return launch(limit), launch(np.sort(limit))


@pk.kernel
def rows(team, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += math.exp(x[team.league_rank, j])
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def one_team_for_all(space, random, quick):
    _check_threads(space)
    n = _draw(random, 600_000, quick)
    x = pk.copy_of(random.random(n), space)

    def launch(league):
        return (
            pk.TeamPolicy(league, space=space),
            rows,
            x[: n // league * league].reshape(league, n // league),
            pk.zeros(league, space=space),
        )

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
    """As many multiplications and additions, each waiting for the one before, against eight chains side by
    side."""
    n, trips = _draw(random, 20_000, quick), 100
    x = _there(space, random.random(n))
    return (_range(space, n), one_chain, trips, *x, pk.zeros(n, space=space)), (
        _range(space, n),
        eight_chains,
        trips,
        *x,
        pk.zeros(n, space=space),
    )


@pk.kernel
def bins(i, level, counts):
    pk.atomic_add(counts, level[i], 1)


def all_to_one_bin(space, random, quick):
    """Atomic additions that meet, against as many to bins of a kilobyte each."""
    _check_threads(space)
    n, counts = _draw(random, 2_000_000, quick), pk.zeros(1 << 18, "int64", space)

    def launch(level):
        return (_range(space, n), bins, *_there(space, level), counts)

    return launch(np.zeros(n, np.int64)), launch(np.arange(n) * 128 % len(counts))


def _spread(i, x, out):
    v = x[i]
    out[i] = math.exp(v) + math.exp(0.5 * v) + math.exp(0.25 * v)


exp_in_packs, exp_one_by_one = pk.kernel(_spread), pk.kernel(_spread, packed=False)


def exponentials_one_by_one(space, random, quick):
    n = _draw(random, 100_000, quick)
    x, out = _there(space, random.random(n))[0], pk.zeros(n, space=space)
    return (_range(space, n), exp_one_by_one, x, out), (_range(space, n), exp_in_packs, x, out)


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


APART = ("overfetch", "scattered")
ALL = [
    (("divergence",), mandelbrot_points_in_no_order),
    (("divergence",), loops_of_other_lengths_side_by_side),
    (("divergence",), a_branch_that_few_lanes_take),
    (("divergence",), numbers_of_other_lengths_in_no_order),
    (("divergence",), two_kinds_of_work_mixed),
    (("divergence",), searches_that_end_at_other_places),
    (APART, a_gather_from_all_over_memory),
    (APART, a_gather_of_float32_from_a_large_table),
    (APART, a_scatter_to_all_over_memory),
    (APART, elements_far_apart),
    (APART, a_matrix_written_across),
    (("parallelism",), one_team_for_all),
    (("waiting",), one_chain_of_operations),
    (("together",), all_to_one_bin),
    (("executed",), one_lane_at_a_time),
    (("executed",), exponentials_one_by_one),
    (("integer division",), indices_by_division),
    (("launch",), a_launch_for_few),
]
