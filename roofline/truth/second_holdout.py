"""Ten pairs of all kinds, the last of an earlier set of rules; later rules were made with knowledge of
them."""

import math

import numpy as np

import portable as pk
from portable.roofline.truth import pairs
from portable.roofline.truth.arithmetic import at_once, shared_out
from portable.roofline.truth.pairs import APART, draw, in_order, launches, on_device, planted


@pk.kernel
def first_numbers(i, x, out):
    out[i] = 2.0 * x[i, 0] + 1.0


@pk.kernel
def first_row(i, x, out):
    out[i] = 2.0 * x[0, i] + 1.0


@planted(*APART)
def records_of_which_one_number_is_used(space, random, scale):
    """Plant records of which one number is used, against the same numbers in a separate row."""
    n, width = draw(random, 7_000_000, scale), int(random.integers(8, 12))
    return launches(space, n, (first_numbers, np.ones((n, width))), (first_row, np.ones((1, n))))


@pk.kernel
def root(i, x, steps):
    v, n, d = x[i], 0, 1.0
    while abs(d) > 1e-9 and n < 300:
        d = 0.5 * (v - x[i] / v)
        v -= d
        n += 1
    steps[i] = n


@planted("divergence")
def roots_that_need_other_numbers_of_steps(space, random, scale):
    n = draw(random, 20_000, scale)
    return in_order(space, n, root, [], [10.0 ** random.uniform(-40.0, 40.0, n)], out="int64")


@pk.function
def length(x):
    return math.sqrt(1.0 + math.exp(-x))


@planted("parallelism")
def half_as_many_teams_as_have_room(space, random, scale):
    """Plant half as many teams as a CPU's threads, or a sixteenth of a GPU's, against four for each."""
    n, few = draw(random, 500_000, scale), pk.concurrency(space) // (16 if on_device(space) else 2)
    return pairs.few_teams(space, random, n, few, length)


@pk.function
def next_number(s):
    return (s ^ 12345) + 6789


@planted("waiting")
def one_generator_of_an_index(space, random, scale):
    """Plant integer steps, each of which depends on the step before, against eight independent generators."""
    n, trips = draw(random, 20_000, scale), int(random.integers(40, 80))
    x = random.integers(0, 1000, n)
    return pairs.by_chains(space, n, next_number, trips, x, (1, 8), out="int64")


@pk.kernel
def found(i, place, x, counts):
    if x[i] > 0.1:
        pk.atomic_add(counts, place[i], 1)


@planted("together")
def a_count_of_what_is_found(space, random, scale):
    """Plant one counter for all, against a counter for each index."""
    n = draw(random, 1_500_000, scale)
    return pairs.in_one_place(space, random, n, found, random.random(n))


@pk.kernel
def halved(i, j, k, x, out):
    out[i, j, k] = 0.5 * x[i, j, k]


@planted("launch")
def a_small_cube(space, random, scale):
    """Plant a launch over a small cube, against one over a large cube."""
    few, many = int(random.integers(2, 4)), max(16, int(70 * scale ** (1 / 3)))
    x = random.random((many, many, many))
    boxes = tuple(pk.MDRangePolicy((0, 0, 0), (n, n, n), space=space) for n in (few, many))
    return launches(space, boxes, (halved, x, np.zeros_like(x)), out=None)


@planted("outside")
def arrays_that_come_and_go(space, random, scale):
    """Plant copies to NumPy, a sort there and copies back between launches, against launches only."""

    def sort(x):
        pk.deep_copy(x, np.sort(x.to_numpy())[::-1].copy())

    return pairs.beside_the_host(space, random, 200_000, scale, (512, 2), 4, sort)


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
    for m in range(7):
        first[m + 2] = twice * first[m + 1] - first[m]
    for _ in range(3):  # three doublings of the angle
        twice = twice * twice - 2.0
    total, now, before = pk.local(8, x.dtype), pk.local(8, x.dtype), pk.local(8, x.dtype)
    for m in range(8):
        total[m] = 0.0
        now[m] = first[m]
        before[m] = -first[8 - m]
    for _ in range(steps):
        for m in range(8):
            total[m] += now[m]
            after = twice * now[m] - before[m]
            before[m] = now[m]
            now[m] = after
    out[i] = total.sum()


@planted("special")
def sines_and_cosines_in_every_step(space, random, scale):
    """Plant sines and cosines in every step, against a recurrence over equidistant angles: each product
    follows from the two before."""
    n, steps = draw(random, 1_500, scale), int(random.integers(40, 60))
    x = random.random(n)
    return launches(space, n, (turned_by_angles, steps, x), (turned_by_products, steps, x))


@pk.kernel
def integer_states(i, trips, x, out):
    n = pk.local(8, pk.int64)
    for k in range(8):
        n[k] = pk.int64(x[i] + k)
    for _ in range(trips):
        for k in range(8):
            n[k] = pk.int64(0.5 * pk.float64(n[k]) + 100.0)
    out[i] = n.sum()


@pk.kernel
def float_states(i, trips, x, out):
    n = pk.local(8, pk.float64)
    for k in range(8):
        n[k] = pk.trunc(x[i] + k)
    for _ in range(trips):
        for k in range(8):
            n[k] = 0.5 * n[k] + 100.0
    out[i] = n.sum()


@planted("conversions")
def whole_numbers_that_are_halved_as_floats(space, random, scale):
    """Plant int64 states that are halved as floats, against float64 states."""
    n, trips = draw(random, 15_000, scale), int(random.integers(40, 60))
    x = random.uniform(0.0, 1e6, n)
    return launches(space, n, (integer_states, trips, x), (float_states, trips, x))


@pk.kernel
def products(i, width, turns, trips, x, out):
    """Sum the products of two small vectors, width x width at a time, in as many blocks as there are."""
    total = 0.0
    a, u, v = pk.local(width * width, x.dtype), pk.local(width, x.dtype), pk.local(width, x.dtype)
    for block in range(turns * turns):
        for k in range(width):
            u[k] = x[i + block + k]
            v[k] = x[i + width + k]
        a[:] = 0.0
        for _ in range(trips):
            for k in range(width):
                for m in range(width):
                    a[k * width + m] = 0.9 * a[k * width + m] + u[k] * v[m]
        for k in range(width * width):
            total += a[k]
    out[i] = total


@planted("spills")
def products_of_vectors_all_at_once(space, random, scale):
    """Plant eight times eight products at a time on a CPU, sixteen times sixteen on a GPU, against four times
    four."""
    n, trips = shared_out(space, draw(random, 2_000, scale), int(random.integers(60, 90)))
    return at_once(space, n, products, trips, random.random(n + 32), (16 if on_device(space) else 8, 4))
