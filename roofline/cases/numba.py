"""numba with the layer beside it: our functions and launches inside its code, and its threads under ours.

Everything here is a program that somebody writes in numba. Ours calls the layer where the rival has plain
numba; the last two rows set the space "numba" against "threads" in a program that has a prange of its own.
"""

import atexit
import functools
import math
import os
import subprocess
import sys

import numpy as np
from numba import njit, prange

import portable as pk
from portable.roofline.contract import Contender, Duel
from portable.roofline.peers.numba_threads import set_threads

TERMS = 8
LAUNCHES, TEN = 1000, 10
BUSY = "while True: sum(range(1000))"  # what a neighbour does

pk.numba.register()  # also in a clone that is not installed


@njit
def exponentials(x, out):
    """out = sum of exp(-k x), k = 1, ..., 8, with our exp."""
    for i in range(x.size):
        total = 0.0
        for k in range(1, TERMS + 1):
            total += pk.exp(-x[i] * k)
        out[i] = total


@njit
def plain_exponentials(x, out):
    for i in range(x.size):
        total = 0.0
        for k in range(1, TERMS + 1):
            total += math.exp(-x[i] * k)
        out[i] = total


@pk.kernel
def axpy(i, a, x, y):
    """y += a x."""
    y[i] += a * x[i]


@njit
def launches(times, x, y):
    for _ in range(times):
        pk.parallel_for(x.size, axpy, 0.5, x, y)


@njit
def _loop(x, y):
    for i in range(x.size):
        y[i] += 0.5 * x[i]


@njit(parallel=True)
def prange_axpy(x, y):
    for i in prange(x.size):
        y[i] += 0.5 * x[i]


@njit
def loops(times, x, y):
    for _ in range(times):
        _loop(x, y)


@njit
def pranges(times, x, y):
    for _ in range(times):
        prange_axpy(x, y)


@pk.kernel
def branchy(i, x, out):
    """Some steps until a number is small, an exponential in each."""
    v, total, k = x[i], 0.0, 0
    while v > 1e-3 and k < 40:
        v = v * v if v < 0.9 else v * 0.5
        total += math.exp(-v)
        k += 1
    out[i] = total


@njit
def launch_branchy(x, out):
    pk.parallel_for(x.size, branchy, x, out)


@njit(parallel=True)
def prange_branchy(x, out):
    for i in prange(x.size):
        v, total, k = x[i], 0.0, 0
        while v > 1e-3 and k < 40:
            v = v * v if v < 0.9 else v * 0.5
            total += math.exp(-v)
            k += 1
        out[i] = total


def duels(space, n, quick):
    """See `portable.roofline.cases.Case`; `n` counts indices (1,000,000) of the third row, a tenth
    elsewhere."""
    with pk.use(space) as resolved:
        threads = resolved.n_threads
    set_threads(threads)
    n = n or (100_000 if quick else 1_000_000)
    x, few = np.random.default_rng(1).random(n), np.random.default_rng(2).random(n // 10)
    found = [
        _duel(
            f"eight exponentials an index, {few.size:,} indices inside njit, one thread",
            few.size,
            [
                ("pk.exp", functools.partial(exponentials, few)),
                ("math.exp", functools.partial(plain_exponentials, few)),
            ],
        ),
        _small(),
        _duel(
            f"a branchy text at {n:,} indices, {threads} threads",
            n,
            [
                ("parallel_for inside njit", functools.partial(launch_branchy, x)),
                ("prange", functools.partial(prange_branchy, x)),
            ],
        ),
        _turns(
            f"prange and launches in turns, {few.size:,} indices, {threads} threads",
            few,
            threads,
            lambda: None,
        ),
    ]
    return (
        found
        if quick
        else [
            *found,
            _turns(f"the same beside {max(1, threads // 2)} busy neighbours", few, threads, _neighbours),
        ]
    )


def _duel(title, n, sides):
    made = []
    for label, call in sides:
        out = np.zeros(n)
        made.append(Contender(label, functools.partial(call, out), result=functools.partial(np.sum, out)))
    return Duel(title, made[0], made[1:], tolerance=1e-12)


def _small():
    sides = []
    for label, call in (("parallel_for", launches), ("a loop in a function", loops), ("prange", pranges)):
        x, y = np.ones(TEN), np.zeros(TEN)
        sides.append(Contender(label, functools.partial(call, LAUNCHES, x, y)))
    return Duel(
        f"{LAUNCHES:,} launches of {TEN} elements inside njit: a nanosecond each is {LAUNCHES / 1000:g}"
        " microsecond",
        sides[0],
        sides[1:],
    )


def _turns(title, x, threads, before):
    """Return a program that takes turns between its own prange and launches on a space."""

    def program(space, y, out):
        before()
        policy = pk.RangePolicy(0, x.size, space=space)
        for _ in range(5):
            prange_axpy(x, y)
            pk.parallel_for(policy, branchy, x, out)

    sides = []
    for space in (f"numba:{threads}", f"threads:{threads}"):
        out = np.zeros(x.size)
        sides.append(
            Contender(
                f"launches on '{space}'",
                functools.partial(program, space, np.zeros(x.size), out),
                result=functools.partial(np.sum, out),
            )
        )
    return Duel(title, sides[0], sides[1:])


@functools.cache
def _neighbours():
    """Busy processes, a half as many as cores, until this one ends."""
    n = max(
        1,
        len(os.sched_getaffinity(0)) // 2 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 2) // 2,
    )
    for _ in range(n):
        process = subprocess.Popen([sys.executable, "-c", BUSY])
        atexit.register(process.kill)
