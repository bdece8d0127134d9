"""Ten pairs of programs: work between launches in Python, NumPy, copies and many small launches.

They were written after the rules were fixed, for reports of arbitrary programs; rules must not be fitted to
them.
"""

import functools
import io
import json

import numpy as np

import portable as pk
from portable.roofline.truth.machine import step
from portable.roofline.truth.pairs import beside_the_host, in_a_graph, launches, on_device, planted, settled


def with_step(space, random, scale, step, n=100_000):
    """Return a program that calls `step` with its array after each of four launches, and one without
    `step`."""
    return beside_the_host(space, random, n, scale, (256, 4), 4, step)


@planted("outside")
def rows_that_are_written_as_json(space, random, scale):
    return with_step(space, random, scale, lambda x: json.dumps(x.to_numpy()[:20_000].tolist()))


@planted("outside")
def a_histogram_by_numpy(space, random, scale):
    """Plant a histogram of each launch's result in NumPy."""
    return with_step(space, random, scale, lambda x: np.histogram(x.to_numpy(), 100))


@planted("outside")
def ranks_by_numpy(space, random, scale):
    return with_step(space, random, scale, lambda x: np.argsort(x.to_numpy(), kind="stable"))


@planted("outside")
def a_dictionary_of_counts(space, random, scale):
    """Plant a dictionary of counts that is filled in a Python loop."""

    def count(x):
        found = {}
        for value in (100.0 * x.to_numpy()[:50_000]).astype(int).tolist():
            found[value] = found.get(value, 0) + 1

    return with_step(space, random, scale, count)


@planted("outside")
def arrays_that_are_saved(space, random, scale):
    """Plant compressed copies in memory, as of a program that saves its states."""
    return with_step(space, random, scale, lambda x: np.savez_compressed(io.BytesIO(), x=x.to_numpy()))


@planted("outside")
def inputs_that_are_copied_each_time(space, random, scale):
    """Plant copies from lists, against an array that stays on the space."""
    values = random.random(50_000 if scale else 500).tolist()
    return with_step(space, random, scale, lambda x: pk.copy_of(np.array(values), space), n=50_000)


@planted("outside")
def random_numbers_by_numpy(space, random, scale):
    """Plant random numbers that are drawn on the host and copied before each launch."""

    def refill(x):
        pk.deep_copy(x, np.random.default_rng(1).normal(size=len(x)))

    return with_step(space, random, scale, refill)


@planted("calls", "launch")
def a_launch_for_each_row(space, random, scale):
    """Plant a launch for each row of a narrow table, against one launch over its numbers."""
    n_rows, width = int(random.integers(300, 600)) if scale else 3, max(8, int(64 * scale))
    table, rounds = pk.copy_of(random.random((n_rows, width)), space), 64 if on_device(space) else 4

    def launch(x):
        return functools.partial(pk.parallel_for, *launches(space, x.size, (settled, rounds, x), out=None)[0])

    rows = [launch(table[k]) for k in range(n_rows)]

    def one_by_one():
        for row in rows:
            row()

    return one_by_one, launch(table.reshape(-1))


@planted("calls")
def steps_of_a_recursion(space, random, scale):
    """Plant a launch for each step, against a graph of them."""
    return in_a_graph(
        space, int(random.integers(500, 900)), step, int(random.integers(300, 500)) if scale else 3
    )


@planted("calls")
def updates_of_a_small_grid(space, random, scale):
    return in_a_graph(
        space, int(random.integers(1500, 2500)), step, int(random.integers(80, 120)) if scale else 3
    )
