"""Ten pairs that were written when the rules stood: what reasons say of them shows what the rules are worth.

Rules are not to be fitted to them.
"""

import functools
import math

import numpy as np

import portable as pk
from portable.roofline.truth.arithmetic import _many, _shared_out
from portable.roofline.truth.pairs import APART, _check_threads, _draw, _on_device, _range, _there


@pk.kernel
def bisected(i, x, width, root):
    low, high = 0.0, 4.0
    while high - low > width[i]:
        middle = 0.5 * (low + high)
        below = middle * middle * middle < x[i]
        low, high = pk.where(below, middle, low), pk.where(below, high, middle)
    root[i] = 0.5 * (low + high)


def bisections_to_other_widths(space, random, scale):
    """Cube roots to as many digits as each wants, in no order, against the finest first."""
    n = _draw(random, 60_000, scale)
    x, width = random.uniform(0.0, 60.0, n), 10.0 ** random.uniform(-14.0, -0.5, n)
    order, root = np.argsort(width), pk.zeros(n, space=space)
    return tuple(
        (_range(space, n), bisected, *_there(space, x[k], width[k]), root) for k in (np.arange(n), order)
    )


@pk.kernel
def relaxed(i, left, right, x, out):
    out[i] = 0.25 * x[left[i]] + 0.5 * x[i] + 0.25 * x[right[i]]


def a_mesh_numbered_at_random(space, random, scale):
    """A ring of points, each with its two neighbours, against one that is numbered along the ring."""
    n = _draw(random, 4_000_000, scale)
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)

    def launch(ring):
        left, right = np.empty(n, np.int64), np.empty(n, np.int64)
        left[ring], right[ring] = np.roll(ring, 1), np.roll(ring, -1)
        return (_range(space, n), relaxed, *_there(space, left, right), x, out)

    return launch(random.permutation(n)), launch(np.arange(n))


@pk.kernel
def third_moments(team, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[1]):
        v = math.sqrt(x[team.league_rank, j])
        total += v * v * v
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


def one_team_in_twenty(space, random, scale):
    """Of those that the space has room for, one at least, against four for each."""
    _check_threads(space)
    n, places = _draw(random, 1_000_000, scale), pk.concurrency(space)
    few, many = max(1, places // 20), 4 * places
    (x,) = _there(space, random.random(max(n // (few * many), 1) * few * many))
    return tuple(
        (
            pk.TeamPolicy(league, space=space),
            third_moments,
            x.reshape(league, x.shape[0] // league),
            pk.zeros(league, space=space),
        )
        for league in (few, many)
    )


@pk.kernel
def counted_votes(i, choice, weight, votes):
    pk.atomic_add(votes, choice[i], weight[i])


def votes_for_one(space, random, scale):
    """All with their weights, against as many candidates as votes."""
    _check_threads(space)
    n = _draw(random, 1_500_000, scale)
    (weight,), votes = _there(space, random.integers(1, 9, n)), pk.zeros(n, "int64", space)
    return tuple(
        (_range(space, n), counted_votes, *_there(space, choice), weight, votes)
        for choice in (np.full(n, random.integers(0, n)), np.arange(n))
    )


@pk.kernel
def reciprocal(i, x, out):
    out[i] = 1.0 / (1.0 + x[i])


def reciprocals_of_few(space, random, scale):
    """Numbers, against those of many."""
    few, n = int(random.integers(5, 60)), _draw(random, 250_000, scale)
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)
    return tuple((_range(space, size), reciprocal, x, out) for size in (few, n))


@pk.kernel
def settled(i, rounds, x):
    v = x[i]
    for _ in range(rounds):
        v = math.exp(-v)
    x[i] = v


def medians_on_the_host_between_launches(space, random, scale):
    """Of what a launch left, against launches alone."""
    n, times, rounds = _draw(random, 200_000, scale), 4 if scale else 1, 512 if _on_device(space) else 4
    (x,) = _there(space, random.random(n))

    def with_medians():
        for _ in range(times):
            pk.parallel_for(_range(space, n), settled, rounds, x)
            np.median(x.to_numpy())

    def alone():
        for _ in range(times):
            pk.parallel_for(_range(space, n), settled, rounds, x)

    return with_medians, alone


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
    for m in range(pk.static(8)):
        product[m] = 1.0
        t[m] = 1.0 + x[i] + step * m
    for _ in range(steps):
        for m in range(pk.static(8)):
            product[m] *= t[m]
            t[m] += 8.0 * step
    total = 0.0
    for m in range(pk.static(8)):
        total += math.log(product[m])
    out[i] = total


def logarithms_in_every_step(space, random, scale):
    """Against those of eight products."""
    n, steps = _draw(random, 3_000, scale), int(random.integers(60, 90))
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)
    return tuple(
        (_range(space, n), kernel, steps, 1e-4, x, out) for kernel in (by_logarithms, by_one_logarithm)
    )


@pk.kernel
def rounded_weights(i, trips, x, out):
    w = pk.local(8, x.dtype)
    for m in range(pk.static(8)):
        w[m] = x[i] + m
    for _ in range(trips):
        for m in range(pk.static(8)):
            w[m] = pk.float64(pk.float32(w[m] * 0.99 + 0.02))
    for m in range(pk.static(7)):
        w[0] += w[m + 1]
    out[i] = w[0]


@pk.kernel
def plain_weights(i, trips, x, out):
    w = pk.local(8, x.dtype)
    for m in range(pk.static(8)):
        w[m] = x[i] + m
    for _ in range(trips):
        for m in range(pk.static(8)):
            w[m] = w[m] * 0.99 + 0.02
    for m in range(pk.static(7)):
        w[0] += w[m + 1]
    out[i] = w[0]


def weights_that_are_rounded_in_every_step(space, random, scale):
    """To float32, against float64 throughout."""
    n, trips = _draw(random, 15_000, scale), int(random.integers(40, 60))
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)
    return tuple((_range(space, n), kernel, trips, x, out) for kernel in (rounded_weights, plain_weights))


@functools.cache
def _oscillators(width):
    """So many of each index at once, in several turns."""

    @pk.kernel
    def oscillators(i, turns, trips, x, out):
        total, place, speed = 0.0, pk.local(width, x.dtype), pk.local(width, x.dtype)
        for turn in range(turns):
            for k in range(pk.static(width)):
                place[k] = x[i] + (turn + k)
                speed[k] = 0.0
            for _ in range(trips):
                for k in range(pk.static(width)):
                    speed[k] = speed[k] - 0.01 * place[k]
                    place[k] = place[k] + 0.01 * speed[k]
            for k in range(pk.static(width)):
                total += place[k]
        out[i] = total

    return oscillators


def oscillators_that_no_registers_hold(space, random, scale):
    """Against eight at a time."""
    n, trips = _shared_out(space, _draw(random, 3_000, scale), int(random.integers(60, 90)))
    many = _many(space) // 2
    (x,), out = _there(space, random.random(n)), pk.zeros(n, space=space)
    return tuple((_range(space, n), _oscillators(w), many // w, trips, x, out) for w in (many, 8))


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


def a_generator_by_remainders(space, random, scale):
    """Of a division, against one by a mask of bits."""
    n, trips, bits = _draw(random, 20_000, scale), int(random.integers(20, 40)), int(random.integers(12, 20))
    (x,), out = _there(space, random.integers(0, 1 << bits, n)), pk.zeros(n, "int64", space)
    ways = (by_remainder, 1 << bits), (by_mask, (1 << bits) - 1)
    return tuple((_range(space, n), kernel, trips, number, x, out) for kernel, number in ways)


ALL = [
    (("divergence",), bisections_to_other_widths),
    (APART, a_mesh_numbered_at_random),
    (("parallelism",), one_team_in_twenty),
    (("together",), votes_for_one),
    (("launch",), reciprocals_of_few),
    (("outside",), medians_on_the_host_between_launches),
    (("special",), logarithms_in_every_step),
    (("conversions",), weights_that_are_rounded_in_every_step),
    (("spills",), oscillators_that_no_registers_hold),
    (("integer division",), a_generator_by_remainders),
]
