"""Pairs about arithmetic: special functions, conversions, chains, registers."""

import math

import portable as pk
from portable.roofline.truth.pairs import by_chains, draw, launches, on_device, planted, towards_one


@pk.kernel
def by_powers(i, power, x, out):
    v = x[i]
    out[i] = v**power + (0.5 + v) ** power + (0.25 + v) ** power


@pk.kernel
def by_products(i, x, out):
    v = x[i]
    a, b = 0.5 + v, 0.25 + v
    out[i] = v * v * v + a * a * a + b * b * b


@planted("special")
def powers_of_whole_numbers(space, random, scale):
    n = draw(random, 60_000, scale)
    x = random.uniform(0.5, 2.0, n)
    return launches(space, n, (by_powers, 3.0, x), (by_products, x))


@pk.kernel
def decay_anew(i, steps, x, out):
    total = 0.0
    for k in range(8 * steps):
        total += math.exp(-x[i] * k)
    out[i] = total


@pk.kernel
def powers_by_products(i, function, steps, x, out):
    left, total, each = pk.local(8, x.dtype), pk.local(8, x.dtype), function(x[i])
    for m in range(8):
        total[m] = 0.0
        left[m] = 1.0 if m == 0 else left[m - 1] * each
    factor = left[7] * each
    for _ in range(steps):
        for m in range(8):
            total[m] += left[m]
            left[m] *= factor
    out[i] = total.sum()


@pk.function
def faded(x):
    return math.exp(-x)


@planted("special")
def an_exponential_in_every_step(space, random, scale):
    """Plant an exponential in every step, against one exponential and a product in every step."""
    n, steps = draw(random, 3_000, scale), int(random.integers(60, 90))
    x = random.uniform(0.1, 1.0, n)
    return launches(space, n, (decay_anew, steps, x), (powers_by_products, faded, steps, x))


@pk.kernel
def counted_in_integers(i, trips, x, out):
    n, total = pk.local(8, pk.int64), pk.local(8, x.dtype)
    for m in range(8):
        n[m] = pk.int64(x[i]) + m
        total[m] = 0.0
    for _ in range(trips):
        for m in range(8):
            n[m] += 3
            total[m] = total[m] * 0.5 + pk.float64(n[m])
    out[i] = total.sum()


@pk.kernel
def counted_in_floats(i, trips, x, out):
    n, total = pk.local(8, x.dtype), pk.local(8, x.dtype)
    for m in range(8):
        n[m] = pk.trunc(x[i]) + m
        total[m] = 0.0
    for _ in range(trips):
        for m in range(8):
            total[m] = total[m] * 0.5 + n[m]
    out[i] = total.sum()


@planted("conversions")
def counts_that_are_used_as_floats(space, random, scale):
    """Plant integer counters that are converted in every step, against constant floats."""
    n, trips = draw(random, 20_000, scale), int(random.integers(20, 30))
    x = 100.0 * random.random(n)
    return launches(space, n, (counted_in_integers, trips, x), (counted_in_floats, trips, x))


@pk.function
def by_float64(a):
    return pk.float32(pk.float64(a) * 0.999 + 0.001)


def two_steps(space, n, trips, x, *steps):
    """Return launches of eight chains, each with its own step."""
    return [by_chains(space, n, step, trips, x, (8, 8), out=x.dtype.name)[0] for step in steps]


@planted("conversions")
def float64_in_the_midst_of_float32(space, random, scale):
    n, trips = draw(random, 20_000, scale), int(random.integers(40, 60))
    return two_steps(space, n, trips, random.random(n).astype("float32"), by_float64, towards_one)


@pk.function
def squared(v):
    return v * v - 0.7


@planted("waiting")
def a_map_that_is_applied_again(space, random, scale):
    """Plant one chain, whose every step depends on the step before, against twelve independent chains."""
    n, trips = draw(random, 20_000, scale), int(random.integers(20, 40))
    x = random.uniform(0.1, 0.9, n).astype("float32")
    return by_chains(space, n, squared, trips, x, (1, 12), apart=0.01, out="float32")


def many(space):
    """Return a number of values that exceeds the registers: 32 packs on most CPUs, 127 of 64 bits for a
    thread of a GPU."""
    return 192 if on_device(space) else 64


def shared_out(space, n, trips):
    """Return a number of indices and of iterations with the same work, in enough threads to fill a GPU."""
    return (32 * n, max(1, trips // 6)) if on_device(space) else (n, trips)


@planted("spills")
def more_chains_than_registers(space, random, scale):
    """Plant more chains at a time than registers hold, against sixteen at a time."""
    n, trips = shared_out(space, draw(random, 4_000, scale), int(random.integers(60, 90)))
    return by_chains(space, n, towards_one, trips, random.random(n), (many(space), 16), turns=True)


@pk.kernel
def filters(i, width, turns, trips, x, out):
    total, state, rate = 0.0, pk.local(width, x.dtype), pk.local(width, x.dtype)
    for turn in range(turns):
        for k in range(width):
            state[k] = 0.0
            rate[k] = x[i] * (0.01 * (turn + k))
        for t in range(trips):
            for k in range(width):
                state[k] = state[k] * rate[k] + x[t]
        for k in range(width):
            total += state[k]
    out[i] = total


def at_once(space, n, kernel, trips, x, widths):
    """Return two launches of a kernel that keeps `widths` numbers at a time, in several turns."""
    sides = ((kernel, pk.static(w), max(widths) // w, trips, x) for w in widths)
    return launches(space, n, *sides)


@planted("spills")
def filters_that_no_registers_hold(space, random, scale):
    """Plant more filters at a time than registers hold, against eight at a time."""
    n, trips = shared_out(space, draw(random, 4_000, scale), int(random.integers(60, 90)))
    return at_once(space, n, filters, trips, random.random(n), (many(space) // 2, 8))
