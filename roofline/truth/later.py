"""Ten pairs of all kinds, the last of an earlier set of rules; rules have seen them since."""

import functools
import math

import numpy as np

import portable as pk
from portable.roofline.truth.arithmetic import _shared_out
from portable.roofline.truth.pairs import APART, _check_threads, _draw, _on_device, _range, _there


@pk.kernel
def first_numbers(i, x, out):
    out[i] = 2.0 * x[i, 0] + 1.0


@pk.kernel
def first_row(i, x, out):
    out[i] = 2.0 * x[0, i] + 1.0


def records_of_which_one_number_is_used(space, random, scale):
    """Against the same numbers in a row of their own."""
    n, width = _draw(random, 7_000_000, scale), int(random.integers(8, 12))
    records, rows = pk.zeros((n, width), space=space), pk.zeros((1, n), space=space)
    for x in (records, rows):
        pk.deep_copy(x, 1.0)
    out = pk.zeros(n, space=space)
    return (_range(space, n), first_numbers, records, out), (_range(space, n), first_row, rows, out)


@pk.kernel
def root(i, x, steps):
    v, n, d = x[i], 0, 1.0
    while abs(d) > 1e-9 and n < 300:
        d = 0.5 * (v - x[i] / v)
        v -= d
        n += 1
    steps[i] = n


def roots_that_need_other_numbers_of_steps(space, random, scale):
    n = _draw(random, 20_000, scale)
    x = 10.0 ** random.uniform(-40.0, 40.0, n)
    steps = pk.zeros(n, "int64", space)

    def launch(values):
        return _range(space, n), root, *_there(space, values), steps

    mixed = launch(x)
    pk.parallel_for(*mixed)
    order = np.argsort(steps.to_numpy())
    return mixed, launch(x[order])


@pk.kernel
def lengths(team, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += math.sqrt(1.0 + math.exp(-x[team.league_rank, j]))
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def half_as_many_teams_as_have_room(space, random, scale):
    """Of the threads of a CPU; a sixteenth of a GPU's, against four for each."""
    _check_threads(space)
    n, places = _draw(random, 500_000, scale), pk.concurrency(space)
    few = max(1, places // (16 if str(space).startswith("cuda") else 2))
    many = 4 * places
    n = max(n // many, 1) * many
    (x,) = _there(space, random.random(n))
    return tuple(
        (
            pk.TeamPolicy(league, space=space),
            lengths,
            x.reshape(league, n // league),
            pk.zeros(league, space=space),
        )
        for league in (few if many % few == 0 else 1, many)
    )


@pk.kernel
def one_generator(i, trips, x, out):
    s = x[i]
    for _ in range(8 * trips):
        s = (s ^ 12345) + 6789
    out[i] = s


@pk.kernel
def eight_generators(i, trips, x, out):
    s = pk.local(8, x.dtype)
    for k in range(pk.static(8)):
        s[k] = x[i] + k
    for _ in range(trips):
        for k in range(pk.static(8)):
            s[k] = (s[k] ^ 12345) + 6789
    total = s[0]
    for k in range(pk.static(7)):
        total ^= s[k + 1]
    out[i] = total


def one_generator_of_an_index(space, random, scale):
    """Steps of integers, each of which waits for the one before, against eight generators."""
    n, trips = _draw(random, 20_000, scale), int(random.integers(40, 80))
    x, out = _there(space, random.integers(0, 1000, n))[0], pk.zeros(n, "int64", space)
    return tuple((_range(space, n), kernel, trips, x, out) for kernel in (one_generator, eight_generators))


@pk.kernel
def found(i, place, x, counts):
    if x[i] > 0.1:
        pk.atomic_add(counts, place[i], 1)


def a_count_of_what_is_found(space, random, scale):
    """By one counter, against one for each."""
    _check_threads(space)
    n = _draw(random, 1_500_000, scale)
    (x,), counts = _there(space, random.random(n)), pk.zeros(n, "int64", space)
    return tuple(
        (_range(space, n), found, *_there(space, place), x, counts)
        for place in (np.full(n, random.integers(0, n)), np.arange(n))
    )


@pk.kernel
def halved(i, j, k, x, out):
    out[i, j, k] = 0.5 * x[i, j, k]


def a_small_cube(space, random, scale):
    """Against a large one."""
    few, many = int(random.integers(2, 4)), max(16, int(70 * scale ** (1 / 3)))
    (x,) = _there(space, random.random((many, many, many)))
    out = pk.zeros((many, many, many), space=space)
    return tuple((pk.MDRangePolicy((0, 0, 0), (n, n, n), space=space), halved, x, out) for n in (few, many))


@pk.kernel
def forward(i, rounds, x):
    v = x[i]
    for _ in range(rounds):
        v = math.exp(-v)
    x[i] = v


def arrays_that_come_and_go(space, random, scale):
    """Copied to NumPy, sorted there and copied back between launches, against launches alone."""
    n, times, rounds = _draw(random, 200_000, scale), 4 if scale else 1, 512 if _on_device(space) else 2
    x = pk.copy_of(random.random(n), space)

    def there_and_back():
        for _ in range(times):
            pk.parallel_for(_range(space, n), forward, rounds, x)
            pk.deep_copy(x, np.sort(x.to_numpy())[::-1].copy())

    def alone():
        for _ in range(times):
            pk.parallel_for(_range(space, n), forward, rounds, x)

    return there_and_back, alone


@pk.kernel
def turned_by_angles(i, steps, x, out):
    total = 0.0
    for k in range(8 * steps):
        total += math.sin(x[i] * k) * math.cos(x[i] * k)
    out[i] = total


@pk.kernel
def turned_by_products(i, steps, x, out):
    twice, first = 2.0 * math.cos(2.0 * x[i]), pk.local(9, x.dtype)
    first[0], first[1] = 0.0, 0.5 * math.sin(2.0 * x[i])
    for m in range(pk.static(7)):
        first[m + 2] = twice * first[m + 1] - first[m]
    for _ in range(pk.static(3)):  # of twice the angle, three times
        twice = twice * twice - 2.0
    total, now, before = pk.local(8, x.dtype), pk.local(8, x.dtype), pk.local(8, x.dtype)
    for m in range(pk.static(8)):
        total[m] = 0.0
        now[m] = first[m]
        before[m] = -first[8 - m]
    for _ in range(steps):
        for m in range(pk.static(8)):
            total[m] += now[m]
            after = twice * now[m] - before[m]
            before[m] = now[m]
            now[m] = after
    for m in range(pk.static(7)):
        total[0] += total[m + 1]
    out[i] = total[0]


def sines_and_cosines_in_every_step(space, random, scale):
    """Against a recurrence: of angles a step apart each product follows from the two before."""
    n, steps = _draw(random, 1_500, scale), int(random.integers(40, 60))
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)
    return tuple(
        (_range(space, n), kernel, steps, x, out) for kernel in (turned_by_angles, turned_by_products)
    )


@pk.kernel
def integer_states(i, trips, x, out):
    n, total = pk.local(8, pk.int64), 0.0
    for k in range(pk.static(8)):
        n[k] = pk.int64(x[i] + k)
    for _ in range(trips):
        for k in range(pk.static(8)):
            n[k] = pk.int64(0.5 * pk.float64(n[k]) + 100.0)
    for k in range(pk.static(8)):
        total += n[k]
    out[i] = total


@pk.kernel
def float_states(i, trips, x, out):
    n, total = pk.local(8, pk.float64), 0.0
    for k in range(pk.static(8)):
        n[k] = pk.trunc(x[i] + k)
    for _ in range(trips):
        for k in range(pk.static(8)):
            n[k] = 0.5 * n[k] + 100.0
    for k in range(pk.static(8)):
        total += n[k]
    out[i] = total


def whole_numbers_that_are_halved_as_floats(space, random, scale):
    """States that are int64, against float64."""
    n, trips = _draw(random, 15_000, scale), int(random.integers(40, 60))
    (x,), out = _there(space, random.uniform(0.0, 1e6, n)), pk.zeros(n, space=space)
    return tuple((_range(space, n), kernel, trips, x, out) for kernel in (integer_states, float_states))


@functools.cache
def _outer(width):
    """Sums of the products of two small vectors, width x width at once, in blocks."""

    @pk.kernel
    def products(i, blocks, trips, x, out):
        total = 0.0
        a, u, v = pk.local(width * width, x.dtype), pk.local(width, x.dtype), pk.local(width, x.dtype)
        for block in range(blocks):
            for k in range(pk.static(width)):
                u[k] = x[i + block + k]
                v[k] = x[i + width + k]
            for k in range(pk.static(width * width)):
                a[k] = 0.0
            for _ in range(trips):
                for k in range(pk.static(width)):
                    for m in range(pk.static(width)):
                        a[k * width + m] = 0.9 * a[k * width + m] + u[k] * v[m]
            for k in range(pk.static(width * width)):
                total += a[k]
        out[i] = total

    return products


def products_of_vectors_all_at_once(space, random, scale):
    """Eight times eight on a CPU, sixteen times sixteen on a GPU; against four times four."""
    n, trips = _shared_out(space, _draw(random, 2_000, scale), int(random.integers(60, 90)))
    width = 16 if _on_device(space) else 8
    (x,), out = _there(space, random.random(n + 32)), pk.zeros(n, space=space)
    return tuple((_range(space, n), _outer(w), (width // w) ** 2, trips, x, out) for w in (width, 4))


ALL = [
    (APART, records_of_which_one_number_is_used),
    (("divergence",), roots_that_need_other_numbers_of_steps),
    (("parallelism",), half_as_many_teams_as_have_room),
    (("waiting",), one_generator_of_an_index),
    (("together",), a_count_of_what_is_found),
    (("launch",), a_small_cube),
    (("outside",), arrays_that_come_and_go),
    (("special",), sines_and_cosines_in_every_step),
    (("conversions",), whole_numbers_that_are_halved_as_floats),
    (("spills",), products_of_vectors_all_at_once),
]
