"""Ten pairs that were written after the rules were fixed: their results show the quality of the rules.

Rules must not be fitted to them.
"""

import math

import numpy as np

import portable as pk
from portable.roofline.truth import pairs
from portable.roofline.truth.arithmetic import at_once, many, shared_out, two_steps
from portable.roofline.truth.pairs import APART, draw, in_order, launches, planted


@pk.kernel
def bisected(i, x, width, root):
    low, high = 0.0, 4.0
    while high - low > width[i]:
        middle = 0.5 * (low + high)
        below = middle * middle * middle < x[i]
        low, high = pk.where(below, middle, low), pk.where(below, high, middle)
    root[i] = 0.5 * (low + high)


@planted("divergence")
def bisections_to_other_widths(space, random, scale):
    """Plant cube roots to different numbers of digits, in random order, against the finest first."""
    n = draw(random, 60_000, scale)
    x, width = random.uniform(0.0, 60.0, n), 10.0 ** random.uniform(-14.0, -0.5, n)
    return in_order(space, n, bisected, [], (x, width), width)


@pk.kernel
def relaxed(i, left, right, x, out):
    out[i] = 0.25 * x[left[i]] + 0.5 * x[i] + 0.25 * x[right[i]]


@planted(*APART)
def a_mesh_numbered_at_random(space, random, scale):
    """Plant a ring of points with their two neighbours, numbered at random, against a ring numbered in
    order."""
    n = draw(random, 4_000_000, scale)
    x = random.random(n)

    def side(ring):
        left, right = np.empty(n, np.int64), np.empty(n, np.int64)
        left[ring], right[ring] = np.roll(ring, 1), np.roll(ring, -1)
        return relaxed, left, right, x

    return launches(space, n, side(random.permutation(n)), side(np.arange(n)))


@pk.function
def third_moment(x):
    v = math.sqrt(x)
    return v * v * v


@planted("parallelism")
def one_team_in_twenty(space, random, scale):
    """Plant a team for 20 teams that the space has room for, at least one, against four for each."""
    n, few = draw(random, 1_000_000, scale), pk.concurrency(space) // 20
    return pairs.few_teams(space, random, n, few, third_moment)


@pk.kernel
def counted_votes(i, choice, weight, votes):
    pk.atomic_add(votes, choice[i], weight[i])


@planted("together")
def votes_for_one(space, random, scale):
    """Plant weighted votes for one candidate, against as many candidates as votes."""
    n = draw(random, 1_500_000, scale)
    return pairs.in_one_place(space, random, n, counted_votes, random.integers(1, 9, n))


@pk.kernel
def reciprocal(i, x, out):
    out[i] = 1.0 / (1.0 + x[i])


@planted("launch")
def reciprocals_of_few(space, random, scale):
    """Plant reciprocals of few numbers, against those of many."""
    few, n = int(random.integers(5, 60)), draw(random, 250_000, scale)
    return launches(space, (few, n), (reciprocal, random.random(n)))


@planted("outside")
def medians_on_the_host_between_launches(space, random, scale):
    """Plant medians of a launch's results on the host, against launches only."""
    return pairs.beside_the_host(
        space, random, 200_000, scale, (512, 4), 4, lambda x: np.median(x.to_numpy())
    )


@pk.kernel
def by_logarithms(i, steps, step, x, out):
    total, t = 0.0, 1.0 + x[i]
    for _ in range(8 * steps):
        total += math.log(t)
        t += step
    out[i] = total


@pk.kernel
def by_one_logarithm(i, steps, step, x, out):
    product, t = pk.local(8, x.dtype), pk.local(8, x.dtype)
    for m in range(8):
        product[m] = 1.0
        t[m] = 1.0 + x[i] + step * m
    for _ in range(steps):
        for m in range(8):
            product[m] *= t[m]
            t[m] += 8.0 * step
    total = 0.0
    for m in range(8):
        total += math.log(product[m])
    out[i] = total


@planted("special")
def logarithms_in_every_step(space, random, scale):
    """Plant a logarithm in every step, against the logarithms of eight products."""
    n, steps = draw(random, 3_000, scale), int(random.integers(60, 90))
    args = steps, 1e-4, random.random(n)
    return launches(space, n, (by_logarithms, *args), (by_one_logarithm, *args))


@pk.function
def rounded_step(w):
    return pk.float64(pk.float32(w * 0.99 + 0.02))


@pk.function
def plain_step(w):
    return w * 0.99 + 0.02


@planted("conversions")
def weights_that_are_rounded_in_every_step(space, random, scale):
    """Plant a rounding to float32 in every step, against float64 throughout."""
    n, trips = draw(random, 15_000, scale), int(random.integers(40, 60))
    return two_steps(space, n, trips, random.random(n), rounded_step, plain_step)


@pk.kernel
def oscillators(i, width, turns, trips, x, out):
    total, place, speed = 0.0, pk.local(width, x.dtype), pk.local(width, x.dtype)
    for turn in range(turns):
        for k in range(width):
            place[k] = x[i] + (turn + k)
            speed[k] = 0.0
        for _ in range(trips):
            for k in range(width):
                speed[k] = speed[k] - 0.01 * place[k]
                place[k] = place[k] + 0.01 * speed[k]
        for k in range(width):
            total += place[k]
    out[i] = total


@planted("spills")
def oscillators_that_no_registers_hold(space, random, scale):
    """Plant more oscillators at a time than registers hold, against eight at a time."""
    n, trips = shared_out(space, draw(random, 3_000, scale), int(random.integers(60, 90)))
    return at_once(space, n, oscillators, trips, random.random(n), (many(space) // 2, 8))


@pk.kernel
def by_remainder(i, trips, size, x, out):
    n = x[i]
    for _ in range(trips):
        n = (n * 31 + 7) % size
    out[i] = n


@pk.kernel
def by_mask(i, trips, mask, x, out):
    n = x[i]
    for _ in range(trips):
        n = (n * 31 + 7) & mask
    out[i] = n


@planted("integer division")
def a_generator_by_remainders(space, random, scale):
    """Plant a generator that takes remainders by division, against one that masks bits."""
    n, trips, bits = draw(random, 20_000, scale), int(random.integers(20, 40)), int(random.integers(12, 20))
    x, size = random.integers(0, 1 << bits, n), 1 << bits
    sides = (by_remainder, trips, size, x), (by_mask, trips, size - 1, x)
    return launches(space, n, *sides, out="int64")
