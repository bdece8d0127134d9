"""The pairs: functions that draw their data, each with its planted causes.

`scale` is a multiple of the work that occupies two cores of a CPU; with 0 there is next to none.
"""

import math

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline.cases import layer

TRIPS = 400  # of the longest loop
APART = ("overfetch", "scattered")


def planted(*causes):
    """Return a decorator that states the causes of a pair: see `portable.roofline.truth.Pair`."""

    def named(make):
        make.causes = causes
        return make

    return named


def draw(random, n, scale):
    """Return a size within a third of `scale` times n, or a tiny one."""
    return max(512, int(scale * n * random.uniform(0.75, 1.33)) // 64 * 64)


def launches(space, sizes, *sides, out="float64"):
    """Return two launches, (policy, kernel, *arguments) each.

    Parameters
    ----------
    space : str or Space
    sizes : int or policy, or a pair of these
        The launches' extents.
    *sides : (kernel, *arguments)
        One for both launches, or one for each; arrays are copied to the space, once.
    out : str, optional
        The dtype of an array of the larger size that is appended to the arguments; None for no such array.
    """
    sizes, there = sizes if isinstance(sizes, tuple) else (sizes, sizes), {}
    written = [pk.zeros(max(sizes), out, space)] if out else []

    def on_space(a):
        if isinstance(a, np.ndarray) and id(a) not in there:
            there[id(a)] = pk.copy_of(a, space)
        return there.get(id(a), a)

    def over(size):
        return pk.RangePolicy(0, size, space=space) if isinstance(size, int) else size

    return tuple(
        (over(size), kernel, *map(on_space, args), *written)
        for size, (kernel, *args) in zip(sizes, 2 * sides, strict=False)
    )


def in_order(space, n, kernel, fixed, arrays, by=None, out="float64"):
    """Return a launch over arrays in their given order, after the arguments `fixed`, and one over the same
    arrays sorted by `by`, or by the result of the first launch."""
    mixed, _ = launches(space, n, (kernel, *fixed, *arrays), out=out)
    if by is None:
        pk.parallel_for(*mixed)
        by = mixed[-1].to_numpy()
    order = np.argsort(by)
    return mixed, launches(space, n, (kernel, *fixed, *(a[order] for a in arrays)), out=out)[0]


def at_places(space, n, kernel, place, *arrays, out="float64"):
    """Return a launch that accesses elements at these places, and one that accesses them in order."""
    return launches(space, n, *((kernel, at, *arrays) for at in (place, np.arange(n))), out=out)


def in_one_place(space, random, n, kernel, *arrays, out="int64"):
    """Return a launch whose atomic operations all go to one place, and one with a place for each.

    Raises
    ------
    InputError
        The space has one thread.
    """
    check_threads(space)
    return at_places(space, n, kernel, np.full(n, random.integers(0, n)), *arrays, out=out)


@pk.kernel
def row_sums(team, function, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += function(x[team.league_rank, j])
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def few_teams(space, random, n, few, function):
    """Return two launches that sum a function of about n numbers: one with few teams, and one with four
    times as many teams as run at once on the space.

    Raises
    ------
    InputError
        The space has one thread.
    """
    check_threads(space)
    several = max(1, few), 4 * pk.concurrency(space)
    x = pk.copy_of(random.random(max(n // math.prod(several), 1) * math.prod(several)), space)
    return tuple(
        (
            pk.TeamPolicy(league, space=space),
            row_sums,
            function,
            x.reshape(league, x.shape[0] // league),
            pk.zeros(league, space=space),
        )
        for league in several
    )


@pk.kernel
def settled(i, rounds, x):
    v = x[i]
    for _ in range(rounds):
        v = math.exp(-v)
    x[i] = v


def beside_the_host(space, random, n, scale, rounds, times, host):
    """Return a call that makes launches, and passes its array to the function `host` after each, and a call
    that only makes the launches. `rounds` is the work of an index on a device and on a host."""
    times, x = times if scale else 1, pk.copy_of(random.random(draw(random, n, scale)), space)
    launch, _ = launches(space, len(x), (settled, rounds[not on_device(space)], x), out=None)

    def call(after=lambda x: None):
        for _ in range(times):
            pk.parallel_for(*launch)
            after(x)

    return lambda: call(host), call


def in_a_graph(space, n, kernel, times):
    """Return a call that launches a kernel `times` times, and the replay of these launches in a graph."""
    launch, _ = launches(space, n, (kernel,))

    def one_by_one():
        for _ in range(times):
            pk.parallel_for(*launch)

    with pk.use(space), pk.capture(space) as graph:
        one_by_one()
    return one_by_one, graph.replay


@pk.kernel
def chains(i, width, step, apart, turns, trips, x, out):
    total, a = x[i], pk.local(width, x.dtype)
    for turn in range(turns):
        for k in range(width):
            a[k] = x[i] + apart * (turn + k)
        for _ in range(trips):
            for k in range(width):
                a[k] = step(a[k])
        for k in range(width):
            total += a[k]
    out[i] = total


def by_chains(space, n, step, trips, x, widths, apart=1, turns=None, out="float64"):
    """Return two launches of `chains`, each with `widths` chains at a time, over several turns or else with
    more iterations, so that both do the same work."""

    def side(width):
        more = max(widths) // width
        return chains, pk.static(width), step, apart, *((more, trips) if turns else (1, more * trips)), x

    return launches(space, n, *map(side, widths), out=out)


@pk.function
def towards_one(a):
    return a * 0.999 + 0.001


def on_device(space):
    """Return True for a GPU."""
    return str(space).startswith("cuda")


def check_threads(space):
    """Raise for a space without several threads.

    Raises
    ------
    InputError
    """
    if pk.concurrency(space) < 2:
        raise InputError(f"space: '{space}' runs one team at a time; expected several for this pair.")


def one_by_one(space, n, function, random):
    """Return a launch of a function's kernel one lane at a time, and one in packs.

    Raises
    ------
    InputError
        The space has no packs.
    """
    kernels = pk.kernel(function, packed=False), pk.kernel(function)
    x = random.random(n)
    found = launches(space, n, *((kernel, x) for kernel in kernels))
    told = pk.explain(*found[1])
    if not told.facts["code"].startswith("packs"):
        raise InputError(f"space: '{told.space}' has no packs, which this pair compares.")
    return found


@planted("divergence")
def mandelbrot_points_in_no_order(space, random, scale):
    """Plant points in random order, against the same points sorted by their steps."""
    n = draw(random, 40_000, scale)
    points = random.uniform(-2.0, 0.6, n), random.uniform(-1.2, 1.2, n)
    return in_order(space, n, layer.mandelbrot, [TRIPS], points, out="int32")


@pk.kernel
def decay(i, trips, x, out):
    v = x[i]
    for _ in range(trips[i]):
        v = v * 0.999 + 0.001
    out[i] = v


@planted("divergence")
def loops_of_other_lengths_side_by_side(space, random, scale):
    n = draw(random, 60_000, scale)
    trips, x = random.geometric(0.01, n), random.random(n)
    return in_order(space, n, decay, [], (trips, x), trips)


@pk.kernel
def some_exp(i, x, out):
    if x[i] > 0.0:
        v = x[i]
        for _ in range(8):
            v = math.exp(-v)
        out[i] = v


@planted("divergence")
def a_branch_that_few_lanes_take(space, random, scale):
    n = draw(random, 400_000, scale)
    x = np.where(random.random(n) < 0.15, 1.0, -1.0) * random.random(n)
    return in_order(space, n, some_exp, [], [x], x)


@pk.kernel
def collatz(i, start, out):
    n, steps = start[i], 0
    while n > 1:
        n = pk.where(n % 2 == 0, n // 2, 3 * n + 1)
        steps += 1
    out[i] = steps


@planted("divergence")
def numbers_of_other_lengths_in_no_order(space, random, scale):
    n = draw(random, 30_000, scale)
    return in_order(space, n, collatz, [], [random.integers(1, 10**6, n)], out="int64")


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


@planted("divergence")
def two_kinds_of_work_mixed(space, random, scale):
    n = draw(random, 150_000, scale)
    kind, x = random.integers(0, 2, n), random.random(n)
    return in_order(space, n, one_or_the_other, [], (kind, x), kind)


@pk.kernel
def first_above(i, table, limit, out):
    found = -1
    for k in range(table.shape[0]):
        if table[k] > limit[i]:
            found = k
            break
    out[i] = found


@planted("divergence")
def searches_that_end_at_other_places(space, random, scale):
    n = draw(random, 30_000, scale)
    table, limit = np.sort(random.random(300)), random.random(n) ** 4
    return in_order(space, n, first_above, [table], [limit], limit, "int64")


@pk.kernel
def gather(i, place, table, out):
    out[i] = table[place[i]]


@planted(*APART)
def a_gather_from_all_over_memory(space, random, scale):
    n = draw(random, 8_000_000, scale)
    table = random.random(n)
    return at_places(space, n, gather, random.permutation(n), table)


@planted(*APART)
def a_gather_of_float32_from_a_large_table(space, random, scale):
    """Plant accesses to few elements, each once, in random order, against accesses in order."""
    n = draw(random, 700_000, scale)
    table = pk.zeros(max(24 * n, int(32e6 * min(scale, 1))), "float32", space)
    pk.deep_copy(table, 1.0)
    return at_places(space, n, gather, random.integers(0, len(table), n), table, out="float32")


@pk.kernel
def scatter(i, place, x, out):
    out[place[i]] = x[i]


@planted(*APART)
def a_scatter_to_all_over_memory(space, random, scale):
    n = draw(random, 6_000_000, scale)
    x = random.random(n)
    return at_places(space, n, scatter, random.permutation(n), x)


@pk.kernel
def every_so_many(i, stride, x, out):
    out[i] = 2.0 * x[i * stride]


@pk.kernel
def side_by_side(i, x, out):
    out[i] = 2.0 * x[i]


@planted(*APART)
def elements_far_apart(space, random, scale):
    """Plant one element of each line or two, against as many adjacent elements."""
    n, stride = draw(random, 7_000_000, scale), int(random.integers(8, 12))
    x = pk.zeros(n * stride, space=space)
    pk.deep_copy(x, 1.0)
    return launches(space, n, (every_so_many, stride, x), (side_by_side, x))


@pk.kernel
def turned(i, j, a, out):
    out[j, i] = a[i, j]


@pk.kernel
def straight(i, j, a, out):
    out[i, j] = a[i, j]


@planted(*APART)
def a_matrix_written_across(space, random, scale):
    """Plant the transpose of a matrix, written an element of each line at a time, against a copy."""
    n = max(64, int(scale**0.5 * (320 + random.integers(1, 100))) * 8)
    a, out = random.random((n, n)), np.zeros((n, n))
    box = pk.MDRangePolicy((0, 0), (n, n), space=space)
    return launches(space, box, (turned, a, out), (straight, a, out), out=None)


@planted("parallelism")
def one_team_for_all(space, random, scale):
    return few_teams(space, random, draw(random, 600_000, scale), 1, math.exp)


@planted("waiting")
def one_chain_of_operations(space, random, scale):
    """Plant one chain of multiplications and additions, each dependent on the one before, against twelve
    independent chains with as many operations."""
    n = draw(random, 20_000, scale)
    return by_chains(space, n, towards_one, 70, random.random(n), (1, 12))


@planted("together")
def all_to_one_bin(space, random, scale):
    """Plant atomic additions to one bin, against a bin for each: with a few bins, their lines would move
    between cores."""
    return in_one_place(space, random, draw(random, 2_000_000, scale), layer.count)


def _poly(i, x, out):
    v, total = x[i], 0.0
    for k in range(32):
        total = total * v + 0.5 * k
    out[i] = total


@planted("executed")
def one_lane_at_a_time(space, random, scale):
    return one_by_one(space, draw(random, 300_000, scale), _poly, random)


def _spread(i, x, out):
    v = x[i]
    out[i] = math.exp(v) + math.exp(0.5 * v) + math.exp(0.25 * v)


@planted("executed")
def exponentials_one_by_one(space, random, scale):
    return one_by_one(space, draw(random, 100_000, scale), _spread, random)


@pk.kernel
def by_division(i, width, x, out):
    row, column = i // width, i % width
    out[i] = x[column] + row


@pk.kernel
def by_two_indices(row, column, width, x, out):
    out[row * width + column] = x[column] + row


@planted("integer division")
def indices_by_division(space, random, scale):
    height, width = 700, draw(random, 700, scale) + 37
    args = width, random.random(width), np.zeros(height * width)
    two = pk.MDRangePolicy((0, 0), (height, width), space=space)
    return launches(space, (height * width, two), (by_division, *args), (by_two_indices, *args), out=None)


@pk.kernel
def again_and_again(i, n_passes, x, out):
    for _ in range(n_passes):
        out[i] += x[i]


@planted("launch")
def a_launch_for_few(space, random, scale):
    """Plant a launch of some ten indices, against one of many."""
    few, n = int(random.integers(8, 33)), draw(random, 300_000, scale)
    return launches(space, (few, n), (again_and_again, 1, random.random(n)))
