"""Ten pairs of all kinds that an earlier set of rules was held against last; rules have seen them since."""

import math

import numpy as np

import portable as pk
from portable.roofline.truth.pairs import APART, _check_threads, _draw, _on_device, _range, _there


@pk.kernel
def shrunk(i, x, steps):
    v, n = x[i], 0
    while v > 1.0:
        v = v * 0.97 - 0.001
        n += 1
    steps[i] = n


def numbers_that_shrink_to_one(space, random, scale):
    """In no order, against the largest first."""
    n = _draw(random, 50_000, scale)
    x, steps = 10.0 ** random.uniform(0.0, 4.0, n), pk.zeros(n, "int64", space)
    return tuple((_range(space, n), shrunk, *_there(space, v), steps) for v in (x, np.sort(x)[::-1].copy()))


@pk.kernel
def of_two_tables(i, place, x, y, out):
    out[i] = x[place[i]] * y[place[i]]


def products_from_two_tables(space, random, scale):
    """At places in no order, against places in their order."""
    n = _draw(random, 5_000_000, scale)
    x, y = _there(space, random.random(n), random.random(n))
    out = pk.zeros(n, space=space)
    return tuple(
        (_range(space, n), of_two_tables, *_there(space, place), x, y, out)
        for place in (random.permutation(n), np.arange(n))
    )


@pk.kernel
def with_turned(i, j, a, b, out):
    out[i, j] = a[i, j] + b[j, i]


@pk.kernel
def with_straight(i, j, a, b, out):
    out[i, j] = a[i, j] + b[i, j]


def a_matrix_and_a_transpose(space, random, scale):
    """Added, one of them read across, against both read along their rows."""
    n = max(64, int(scale**0.5 * (300 + random.integers(1, 60))) * 8)
    a, b = _there(space, *random.random((2, n, n)))
    out, box = pk.zeros((n, n), space=space), pk.MDRangePolicy((0, 0), (n, n), space=space)
    return (box, with_turned, a, b, out), (box, with_straight, a, b, out)


@pk.kernel
def two_channels(i, channels, x, out):
    out[i] = 0.5 * (x[i * channels] + x[i * channels + 1])


@pk.kernel
def own_channels(i, x, out):
    out[i] = 0.5 * (x[0, i] + x[1, i])


def two_channels_of_a_picture(space, random, scale):
    """That lies pixel by pixel, against one that lies channel by channel."""
    n, channels = _draw(random, 6_000_000, scale), int(random.integers(9, 13))
    pixels, rows = pk.zeros(n * channels, space=space), pk.zeros((2, n), space=space)
    for x in (pixels, rows):
        pk.deep_copy(x, 1.0)
    out = pk.zeros(n, space=space)
    return (_range(space, n), two_channels, channels, pixels, out), (
        _range(space, n),
        own_channels,
        rows,
        out,
    )


@pk.kernel
def largest(i, place, x, most):
    pk.atomic_max(most, place[i], x[i])


def a_maximum_that_all_ask_for(space, random, scale):
    """Of all numbers, against one for each."""
    _check_threads(space)
    n = _draw(random, 1_200_000, scale)
    (x,), most = _there(space, random.integers(0, 10**9, n)), pk.zeros(n, "int64", space)
    return tuple(
        (_range(space, n), largest, *_there(space, place), x, most)
        for place in (np.full(n, random.integers(0, n)), np.arange(n))
    )


@pk.kernel
def cubic(i, x, out):
    v = x[i]
    out[i] = ((0.5 * v + 0.25) * v - 1.0) * v + 2.0


def a_polynomial_of_few(space, random, scale):
    """Numbers, against that of many."""
    few, n = int(random.integers(10, 50)), _draw(random, 250_000, scale)
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)
    return tuple((_range(space, size), cubic, x, out) for size in (few, n))


@pk.kernel
def by_power(i, steps, x, out):
    total, v = 0.0, x[i]
    for k in range(8 * steps):
        total += v ** (0.5 * k)
    out[i] = total


@pk.kernel
def by_root(i, steps, x, out):
    left, total, each = pk.local(8, x.dtype), pk.local(8, x.dtype), math.sqrt(x[i])
    for m in range(pk.static(8)):
        total[m] = 0.0
        left[m] = 1.0 if m == 0 else left[m - 1] * each
    factor = left[7] * each
    for _ in range(steps):
        for m in range(pk.static(8)):
            total[m] += left[m]
            left[m] *= factor
    for m in range(pk.static(7)):
        total[0] += total[m + 1]
    out[i] = total[0]


def a_series_of_half_powers(space, random, scale):
    """A power in every step, against a product."""
    n, steps = _draw(random, 2_000, scale), int(random.integers(60, 90))
    (x,), out = _there(space, random.uniform(0.3, 0.99, n)), pk.zeros(n, space=space)
    return tuple((_range(space, n), kernel, steps, x, out) for kernel in (by_power, by_root))


@pk.kernel
def levels_in_integers(i, trips, x, out):
    v, total = pk.local(8, x.dtype), pk.local(8, pk.int64)
    for m in range(pk.static(8)):
        v[m] = x[i] + 10.0 * m
        total[m] = 0
    for _ in range(trips):
        for m in range(pk.static(8)):
            v[m] = v[m] * 0.99 + 1.5
            total[m] += pk.int64(v[m])
    for m in range(pk.static(7)):
        total[0] += total[m + 1]
    out[i] = total[0]


@pk.kernel
def levels_in_floats(i, trips, x, out):
    v, total = pk.local(8, x.dtype), pk.local(8, x.dtype)
    for m in range(pk.static(8)):
        v[m] = x[i] + 10.0 * m
        total[m] = 0.0
    for _ in range(trips):
        for m in range(pk.static(8)):
            v[m] = v[m] * 0.99 + 1.5
            total[m] += v[m]
    for m in range(pk.static(7)):
        total[0] += total[m + 1]
    out[i] = total[0]


def levels_that_are_summed_as_integers(space, random, scale):
    """Against sums of the floats themselves."""
    n, trips = _draw(random, 15_000, scale), int(random.integers(30, 50))
    (x,), out = _there(space, 100.0 * random.random(n)), pk.zeros(n, space=space)
    return tuple(
        (_range(space, n), kernel, trips, x, out) for kernel in (levels_in_integers, levels_in_floats)
    )


@pk.kernel
def norms(team, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        total += math.log(1.0 + x[team.league_rank, j] * x[team.league_rank, j])
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def one_team_in_thirty_two(space, random, scale):
    """Of those that the space has room for, one at least, against four for each."""
    _check_threads(space)
    n, places = _draw(random, 400_000, scale), pk.concurrency(space)
    few, many = max(1, places // 32), 4 * places
    n = max(n // (few * many), 1) * few * many
    (x,) = _there(space, random.random(n))
    return tuple(
        (
            pk.TeamPolicy(league, space=space),
            norms,
            x.reshape(league, n // league),
            pk.zeros(league, space=space),
        )
        for league in (few, many)
    )


@pk.kernel
def damped(i, rounds, x, out):
    v = x[i]
    for _ in range(rounds):
        v = math.exp(-v)
    out[i] = v


def a_search_on_the_host_between_launches(space, random, scale):
    """Of the least number that a launch gave, in Python, against launches alone."""
    n, times, rounds = _draw(random, 100_000, scale), 3 if scale else 1, 1024 if _on_device(space) else 24
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)

    def searched():
        for _ in range(times):
            pk.parallel_for(_range(space, n), damped, rounds, x, out)
            min(enumerate(out.to_numpy().tolist()), key=lambda item: item[1])

    def alone():
        for _ in range(times):
            pk.parallel_for(_range(space, n), damped, rounds, x, out)

    return searched, alone


ALL = [
    (("divergence",), numbers_that_shrink_to_one),
    (APART, products_from_two_tables),
    (APART, a_matrix_and_a_transpose),
    (APART, two_channels_of_a_picture),
    (("together",), a_maximum_that_all_ask_for),
    (("launch",), a_polynomial_of_few),
    (("special",), a_series_of_half_powers),
    (("conversions",), levels_that_are_summed_as_integers),
    (("parallelism",), one_team_in_thirty_two),
    (("outside",), a_search_on_the_host_between_launches),
]
