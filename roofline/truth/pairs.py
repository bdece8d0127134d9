"""The pairs: each a function that draws its data, and what was planted.

`scale` is how many times as much work there is as two cores of a CPU want; with 0 there is next to none.
"""

import math

import numpy as np

import portable as pk
from portable.errors import InputError

TRIPS = 400  # of the longest loop


def _draw(random, n, scale):
    """A size within a third of `scale` times n, or a tiny one."""
    return max(512, int(scale * n * random.uniform(0.75, 1.33)) // 64 * 64)


def _there(space, *arrays):
    return [pk.copy_of(a, space) for a in arrays]


def _range(space, n):
    return pk.RangePolicy(0, n, space=space)


def _sorted(launch):
    """Indices by the result of a launch, its last argument."""
    pk.parallel_for(*launch)
    return np.argsort(launch[-1].to_numpy())


def _on_device(space):
    return str(space).startswith("cuda")


def _check_threads(space):
    """Refuse what needs others to run beside.

    Raises
    ------
    InputError
    """
    if pk.concurrency(space) < 2:
        raise InputError(f"space: '{space}' runs one team at a time; this pair wants several.")


def _check_packs(launch):
    """Refuse what a kernel without packs is no other for.

    Raises
    ------
    InputError
    """
    told = pk.explain(*launch)
    if not told.facts["code"].startswith("packs"):
        raise InputError(f"space: '{told.space}' has no packs; this pair has a kernel that does without.")


@pk.kernel
def escape(i, limit, cx, cy, steps):
    x, y, n = 0.0, 0.0, 0
    while n < limit and x * x + y * y <= 4.0:
        x, y = x * x - y * y + cx[i], 2.0 * x * y + cy[i]
        n += 1
    steps[i] = n


def mandelbrot_points_in_no_order(space, random, scale):
    """Against the same points sorted by their steps."""
    n = _draw(random, 40_000, scale)
    cx, cy = random.uniform(-2.0, 0.6, n), random.uniform(-1.2, 1.2, n)

    def launch(points):
        return (
            _range(space, n),
            escape,
            TRIPS,
            *_there(space, cx[points], cy[points]),
            pk.zeros(n, "int64", space),
        )

    mixed = launch(np.arange(n))
    return mixed, launch(_sorted(mixed))


@pk.kernel
def decay(i, trips, x, out):
    v = x[i]
    for _ in range(trips[i]):
        v = v * 0.999 + 0.001
    out[i] = v


def loops_of_other_lengths_side_by_side(space, random, scale):
    n = _draw(random, 60_000, scale)
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


def a_branch_that_few_lanes_take(space, random, scale):
    n = _draw(random, 400_000, scale)
    x = np.where(random.random(n) < 0.15, 1.0, -1.0) * random.random(n)

    def launch(values):
        return (_range(space, n), some_exp, *_there(space, values), pk.zeros(n, space=space))

    return launch(x), launch(np.sort(x))


@pk.kernel
def gather(i, place, table, out):
    out[i] = table[place[i]]


def a_gather_from_all_over_memory(space, random, scale):
    n = _draw(random, 8_000_000, scale)
    table, out = random.random(n), pk.zeros(n, space=space)

    def launch(place):
        return (_range(space, n), gather, *_there(space, place, table), out)

    return launch(random.permutation(n)), launch(np.arange(n))


@pk.kernel
def every_so_many(i, stride, x, out):
    out[i] = 2.0 * x[i * stride]


@pk.kernel
def side_by_side(i, x, out):
    out[i] = 2.0 * x[i]


def elements_far_apart(space, random, scale):
    """One element of each line or two, against as many side by side."""
    n, stride = _draw(random, 7_000_000, scale), int(random.integers(8, 12))
    x, out = pk.zeros(n * stride, space=space), pk.zeros(n, space=space)
    pk.deep_copy(x, 1.0)
    return (_range(space, n), every_so_many, stride, x, out), (_range(space, n), side_by_side, x, out)


@pk.kernel
def scatter(i, place, x, out):
    out[place[i]] = x[i]


def a_scatter_to_all_over_memory(space, random, scale):
    n = _draw(random, 6_000_000, scale)
    x, out = _there(space, random.random(n))[0], pk.zeros(n, space=space)

    def launch(place):
        return (_range(space, n), scatter, *_there(space, place), x, out)

    return launch(random.permutation(n)), launch(np.arange(n))


def a_gather_of_float32_from_a_large_table(space, random, scale):
    """Few of its elements, each once."""
    n = _draw(random, 700_000, scale)
    table = pk.zeros(max(24 * n, int(32e6 * min(scale, 1))), "float32", space)
    out = pk.zeros(n, "float32", space)
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


def a_matrix_written_across(space, random, scale):
    """Its transpose, an element of each line at a time, against a copy."""
    n = max(64, int(scale**0.5 * (320 + random.integers(1, 100))) * 8)
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


def numbers_of_other_lengths_in_no_order(space, random, scale):
    n = _draw(random, 30_000, scale)
    start = random.integers(1, 10**6, n)

    def launch(numbers):
        return (_range(space, n), collatz, *_there(space, numbers), pk.zeros(n, "int64", space))

    mixed = launch(start)
    return mixed, launch(start[_sorted(mixed)])


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


def two_kinds_of_work_mixed(space, random, scale):
    n = _draw(random, 150_000, scale)
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


def searches_that_end_at_other_places(space, random, scale):
    n = _draw(random, 30_000, scale)
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


def one_team_for_all(space, random, scale):
    _check_threads(space)
    n, several = _draw(random, 600_000, scale), max(64, 2 * pk.concurrency(space))
    x = pk.copy_of(random.random(n), space)

    def launch(league):
        return (
            pk.TeamPolicy(league, space=space),
            rows,
            x[: n // league * league].reshape(league, n // league),
            pk.zeros(league, space=space),
        )

    return launch(1), launch(several if scale else 64)


@pk.kernel
def one_chain(i, trips, x, out):
    a = x[i]
    for _ in range(12 * trips):
        a = a * 0.999 + 0.001
    out[i] = a


@pk.kernel
def twelve_chains(i, trips, x, out):
    a = pk.local(12, x.dtype)
    for k in range(pk.static(12)):
        a[k] = x[i] + k
    for _ in range(trips):
        for k in range(pk.static(12)):
            a[k] = a[k] * 0.999 + 0.001
    total = 0.0
    for k in range(pk.static(12)):
        total += a[k]
    out[i] = total


def one_chain_of_operations(space, random, scale):
    """As many multiplications and additions, each waiting for the one before, against twelve chains side by
    side."""
    n, trips = _draw(random, 20_000, scale), 70
    x = _there(space, random.random(n))
    return (_range(space, n), one_chain, trips, *x, pk.zeros(n, space=space)), (
        _range(space, n),
        twelve_chains,
        trips,
        *x,
        pk.zeros(n, space=space),
    )


@pk.kernel
def bins(i, level, counts):
    pk.atomic_add(counts, level[i], 1)


def all_to_one_bin(space, random, scale):
    """Atomic additions that meet, against as many that have a bin each: of few bins the lines would go to and
    fro between cores."""
    _check_threads(space)
    n = _draw(random, 2_000_000, scale)
    counts = pk.zeros(n, "int64", space)

    def launch(level):
        return (_range(space, n), bins, *_there(space, level), counts)

    return launch(np.zeros(n, np.int64)), launch(np.arange(n))


def _spread(i, x, out):
    v = x[i]
    out[i] = math.exp(v) + math.exp(0.5 * v) + math.exp(0.25 * v)


exp_in_packs, exp_one_by_one = pk.kernel(_spread), pk.kernel(_spread, packed=False)


def exponentials_one_by_one(space, random, scale):
    n = _draw(random, 100_000, scale)
    x, out = _there(space, random.random(n))[0], pk.zeros(n, space=space)
    packs = _range(space, n), exp_in_packs, x, out
    _check_packs(packs)
    return (_range(space, n), exp_one_by_one, x, out), packs


def _poly(i, x, out):
    v, total = x[i], 0.0
    for k in range(32):
        total = total * v + 0.5 * k
    out[i] = total


in_packs, one_by_one = pk.kernel(_poly), pk.kernel(_poly, packed=False)


def one_lane_at_a_time(space, random, scale):
    n = _draw(random, 300_000, scale)
    x, out = _there(space, random.random(n))[0], pk.zeros(n, space=space)
    packs = _range(space, n), in_packs, x, out
    _check_packs(packs)
    return (_range(space, n), one_by_one, x, out), packs


@pk.kernel
def by_division(i, width, x, out):
    row, column = i // width, i % width
    out[i] = x[column] + row


@pk.kernel
def by_two_indices(row, column, width, x, out):
    out[row * width + column] = x[column] + row


def indices_by_division(space, random, scale):
    height, width = 700, _draw(random, 700, scale) + 37
    x, out = _there(space, random.random(width))[0], pk.zeros(height * width, space=space)
    two = pk.MDRangePolicy((0, 0), (height, width), space=space)
    return (_range(space, height * width), by_division, width, x, out), (two, by_two_indices, width, x, out)


@pk.kernel
def again_and_again(i, n_passes, x, out):
    for _ in range(n_passes):
        out[i] += x[i]


def a_launch_for_few(space, random, scale):
    """A launch of some ten indices, against one of many."""
    few, n = int(random.integers(8, 33)), _draw(random, 300_000, scale)
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
