"""Pairs about arithmetic: special functions, conversions, chains, registers."""

import functools
import math

import portable as pk
from portable.roofline.truth.pairs import _draw, _on_device, _range, _there


def _two(space, n, x, *kernels):
    """Launches of (kernel, arguments before x), each with an array of its own to write."""
    return tuple(
        (_range(space, n), kernel, *args, x, pk.zeros(n, x.dtype, space)) for kernel, *args in kernels
    )


@pk.kernel
def by_powers(i, power, x, out):
    v = x[i]
    out[i] = v**power + (0.5 + v) ** power + (0.25 + v) ** power


@pk.kernel
def by_products(i, x, out):
    v = x[i]
    a, b = 0.5 + v, 0.25 + v
    out[i] = v * v * v + a * a * a + b * b * b


def powers_of_whole_numbers(space, random, scale):
    n = _draw(random, 60_000, scale)
    (x,) = _there(space, random.uniform(0.5, 2.0, n))
    return _two(space, n, x, (by_powers, 3.0), (by_products,))


@pk.kernel
def decay_anew(i, steps, x, out):
    total = 0.0
    for k in range(8 * steps):
        total += math.exp(-x[i] * k)
    out[i] = total


@pk.kernel
def decay_on(i, steps, x, out):
    left, total, each = pk.local(8, x.dtype), pk.local(8, x.dtype), math.exp(-x[i])
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


def an_exponential_in_every_step(space, random, scale):
    """Against one exponential, and a product in every step."""
    n, steps = _draw(random, 3_000, scale), int(random.integers(60, 90))
    (x,) = _there(space, random.uniform(0.1, 1.0, n))
    return _two(space, n, x, (decay_anew, steps), (decay_on, steps))


@pk.kernel
def counted_in_integers(i, trips, x, out):
    n, total = pk.local(8, pk.int64), pk.local(8, x.dtype)
    for m in range(pk.static(8)):
        n[m] = pk.int64(x[i]) + m
        total[m] = 0.0
    for _ in range(trips):
        for m in range(pk.static(8)):
            n[m] += 3
            total[m] = total[m] * 0.5 + pk.float64(n[m])
    for m in range(pk.static(7)):
        total[0] += total[m + 1]
    out[i] = total[0]


@pk.kernel
def counted_in_floats(i, trips, x, out):
    n, total = pk.local(8, x.dtype), pk.local(8, x.dtype)
    for m in range(pk.static(8)):
        n[m] = pk.trunc(x[i]) + m
        total[m] = 0.0
    for _ in range(trips):
        for m in range(pk.static(8)):
            total[m] = total[m] * 0.5 + n[m]
    for m in range(pk.static(7)):
        total[0] += total[m + 1]
    out[i] = total[0]


def counts_that_are_used_as_floats(space, random, scale):
    """Integers that grow, against floats that stay what they are."""
    n, trips = _draw(random, 20_000, scale), int(random.integers(20, 30))
    (x,) = _there(space, 100.0 * random.random(n))
    return _two(space, n, x, (counted_in_integers, trips), (counted_in_floats, trips))


@pk.kernel
def wide_steps(i, trips, x, out):
    a = pk.local(8, x.dtype)
    for k in range(pk.static(8)):
        a[k] = x[i] + k
    for _ in range(trips):
        for k in range(pk.static(8)):
            a[k] = pk.float32(pk.float64(a[k]) * 0.999 + 0.001)
    total = a[0]
    for k in range(pk.static(7)):
        total += a[k + 1]
    out[i] = total


@pk.kernel
def narrow_steps(i, trips, x, out):
    a = pk.local(8, x.dtype)
    for k in range(pk.static(8)):
        a[k] = x[i] + k
    for _ in range(trips):
        for k in range(pk.static(8)):
            a[k] = a[k] * 0.999 + 0.001
    total = a[0]
    for k in range(pk.static(7)):
        total += a[k + 1]
    out[i] = total


def float64_in_the_midst_of_float32(space, random, scale):
    n, trips = _draw(random, 20_000, scale), int(random.integers(40, 60))
    (x,) = _there(space, random.random(n).astype("float32"))
    return _two(space, n, x, (wide_steps, trips), (narrow_steps, trips))


@pk.kernel
def map_once(i, trips, c, x, out):
    v = x[i]
    for _ in range(12 * trips):
        v = v * v + c
    out[i] = v


@pk.kernel
def map_twelve(i, trips, c, x, out):
    v = pk.local(12, x.dtype)
    for k in range(pk.static(12)):
        v[k] = x[i] * (1.0 - 0.05 * k)
    for _ in range(trips):
        for k in range(pk.static(12)):
            v[k] = v[k] * v[k] + c
    total = v[0]
    for k in range(pk.static(11)):
        total += v[k + 1]
    out[i] = total


def a_map_that_is_applied_again(space, random, scale):
    """One number, whose every step waits for the one before, against twelve side by side."""
    n, trips = _draw(random, 20_000, scale), int(random.integers(20, 40))
    (x,) = _there(space, random.uniform(0.1, 0.9, n).astype("float32"))
    return _two(space, n, x, (map_once, trips, -0.7), (map_twelve, trips, -0.7))


@functools.cache
def _chains(width):
    """So many chains of each index at once, in several turns."""

    @pk.kernel
    def chains(i, turns, trips, x, out):
        total, a = 0.0, pk.local(width, x.dtype)
        for turn in range(turns):
            for k in range(pk.static(width)):
                a[k] = x[i] + (turn + k)
            for _ in range(trips):
                for k in range(pk.static(width)):
                    a[k] = a[k] * 0.999 + 0.001
            for k in range(pk.static(width)):
                total += a[k]
        out[i] = total

    return chains


def _many(space):
    """More numbers than registers hold: 32 packs on most CPUs, 127 of 64 bits for a thread of a GPU."""
    return 192 if _on_device(space) else 64


def _shared_out(space, n, trips):
    """Indices and trips of as much work, by as many threads as a GPU has room for."""
    return (32 * n, max(1, trips // 6)) if _on_device(space) else (n, trips)


def more_chains_than_registers(space, random, scale):
    """Against sixteen at a time."""
    n, trips = _shared_out(space, _draw(random, 4_000, scale), int(random.integers(60, 90)))
    many = _many(space)
    (x,) = _there(space, random.random(n))
    return _two(space, n, x, (_chains(many), 1, trips), (_chains(16), many // 16, trips))


@functools.cache
def _filters(width):
    """So many filters of each index at once, each with a state and a rate, in several turns."""

    @pk.kernel
    def filters(i, turns, trips, x, out):
        total, state, rate = 0.0, pk.local(width, x.dtype), pk.local(width, x.dtype)
        for turn in range(turns):
            for k in range(pk.static(width)):
                state[k] = 0.0
                rate[k] = x[i] * (0.01 * (turn + k))
            for t in range(trips):
                for k in range(pk.static(width)):
                    state[k] = state[k] * rate[k] + x[t]
            for k in range(pk.static(width)):
                total += state[k]
        out[i] = total

    return filters


def filters_that_no_registers_hold(space, random, scale):
    """Against eight at a time."""
    n, trips = _shared_out(space, _draw(random, 4_000, scale), int(random.integers(60, 90)))
    many = _many(space) // 2
    (x,) = _there(space, random.random(n))
    return _two(space, n, x, (_filters(many), 1, trips), (_filters(8), many // 8, trips))


ALL = [
    (("special",), powers_of_whole_numbers),
    (("special",), an_exponential_in_every_step),
    (("conversions",), counts_that_are_used_as_floats),
    (("conversions",), float64_in_the_midst_of_float32),
    (("waiting",), a_map_that_is_applied_again),
    (("spills",), more_chains_than_registers),
    (("spills",), filters_that_no_registers_hold),
]
