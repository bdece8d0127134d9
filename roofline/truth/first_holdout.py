"""Ten pairs of all kinds, the test set of an earlier set of rules; later rules were made with knowledge of
them."""

import functools
import math

import numpy as np

import portable as pk
from portable.roofline.truth import pairs
from portable.roofline.truth.arithmetic import powers_by_products
from portable.roofline.truth.pairs import APART, draw, in_order, launches, planted


@pk.kernel
def shrunk(i, x, steps):
    v, n = x[i], 0
    while v > 1.0:
        v = v * 0.97 - 0.001
        n += 1
    steps[i] = n


@planted("divergence")
def numbers_that_shrink_to_one(space, random, scale):
    """Plant numbers in random order, against the largest first."""
    n = draw(random, 50_000, scale)
    x = 10.0 ** random.uniform(0.0, 4.0, n)
    return in_order(space, n, shrunk, [], [x], -x, "int64")


@pk.kernel
def of_two_tables(i, place, x, y, out):
    out[i] = x[place[i]] * y[place[i]]


@planted(*APART)
def products_from_two_tables(space, random, scale):
    """Plant places in random order, against places in ascending order."""
    n = draw(random, 5_000_000, scale)
    x, y = random.random(n), random.random(n)
    return pairs.at_places(space, n, of_two_tables, random.permutation(n), x, y)


@pk.kernel
def with_turned(i, j, a, b, out):
    out[i, j] = a[i, j] + b[j, i]


@pk.kernel
def with_straight(i, j, a, b, out):
    out[i, j] = a[i, j] + b[i, j]


@planted(*APART)
def a_matrix_and_a_transpose(space, random, scale):
    """Plant the sum of a matrix and a transpose, one of them read across its rows, against two read along
    their rows."""
    n = max(64, int(scale**0.5 * (300 + random.integers(1, 60))) * 8)
    args = *random.random((2, n, n)), np.zeros((n, n))
    box = pk.MDRangePolicy((0, 0), (n, n), space=space)
    return launches(space, box, (with_turned, *args), (with_straight, *args), out=None)


@pk.kernel
def two_channels(i, channels, x, out):
    out[i] = 0.5 * (x[i * channels] + x[i * channels + 1])


@pk.kernel
def own_channels(i, x, out):
    out[i] = 0.5 * (x[0, i] + x[1, i])


@planted(*APART)
def two_channels_of_a_picture(space, random, scale):
    """Plant a picture that is stored by pixels, against one that is stored by channels."""
    n, channels = draw(random, 6_000_000, scale), int(random.integers(9, 13))
    pixels, rows = np.ones(n * channels), np.ones((2, n))
    return launches(space, n, (two_channels, channels, pixels), (own_channels, rows))


@pk.kernel
def largest(i, place, x, most):
    pk.atomic_max(most, place[i], x[i])


@planted("together")
def a_maximum_that_all_ask_for(space, random, scale):
    """Plant a maximum of all numbers at one place, against a place for each."""
    n = draw(random, 1_200_000, scale)
    return pairs.in_one_place(space, random, n, largest, random.integers(0, 10**9, n))


@pk.kernel
def cubic(i, x, out):
    v = x[i]
    out[i] = ((0.5 * v + 0.25) * v - 1.0) * v + 2.0


@planted("launch")
def a_polynomial_of_few(space, random, scale):
    """Plant a polynomial of few numbers, against that of many."""
    few, n = int(random.integers(10, 50)), draw(random, 250_000, scale)
    return launches(space, (few, n), (cubic, random.random(n)))


@pk.kernel
def by_power(i, steps, x, out):
    total, v = 0.0, x[i]
    for k in range(8 * steps):
        total += v ** (0.5 * k)
    out[i] = total


@planted("special")
def a_series_of_half_powers(space, random, scale):
    """Plant a power in every step, against a product in every step."""
    n, steps = draw(random, 2_000, scale), int(random.integers(60, 90))
    x = random.uniform(0.3, 0.99, n)
    return launches(space, n, (by_power, steps, x), (powers_by_products, math.sqrt, steps, x))


@functools.cache
def _levels(kind):
    """Return a kernel that sums in a type."""

    @pk.kernel
    def levels(i, trips, x, out):
        v, total = pk.local(8, x.dtype), pk.local(8, kind)
        for m in range(8):
            v[m] = x[i] + 10.0 * m
            total[m] = 0
        for _ in range(trips):
            for m in range(8):
                v[m] = v[m] * 0.99 + 1.5
                total[m] += kind(v[m])
        out[i] = total.sum()

    return levels


@planted("conversions")
def levels_that_are_summed_as_integers(space, random, scale):
    """Plant sums of floats converted to integers, against sums of the floats."""
    n, trips = draw(random, 15_000, scale), int(random.integers(30, 50))
    x = 100.0 * random.random(n)
    return launches(space, n, *((_levels(kind), trips, x) for kind in (pk.int64, pk.float64)))


@pk.function
def norm(x):
    return math.log(1.0 + x * x)


@planted("parallelism")
def one_team_in_thirty_two(space, random, scale):
    """Plant a team for 32 teams that the space has room for, at least one, against four for each."""
    return pairs.few_teams(space, random, draw(random, 400_000, scale), pk.concurrency(space) // 32, norm)


@planted("outside")
def a_search_on_the_host_between_launches(space, random, scale):
    """Plant a search in Python for the least result of a launch, against launches only."""

    def search(x):
        min(enumerate(x.to_numpy().tolist()), key=lambda item: item[1])

    return pairs.beside_the_host(space, random, 100_000, scale, (1024, 24), 3, search)
