"""Use the layer within numba programs: our functions and launches in its code, and its threads under ours.

Each side is a program that is written in numba. Ours calls the layer where the contender has plain numba; the
last two rows compare the space "numba" with "threads" in a program with a prange.
"""

import atexit
import functools
import math
import subprocess
import sys

import numpy as np
from numba import njit, prange

import portable as pk
from portable.roofline import machine
from portable.roofline.cases.layer import axpy
from portable.roofline.contract import Contender, Duel
from portable.roofline.peers.numba_threads import set_threads

TERMS = 8
LAUNCHES, TEN = 1000, 10
BUSY = "while True: sum(range(1000))"  # the work of another process

pk.numba.register()  # also for a clone that is not installed


def exponentials(exp):
    """Return a function that computes out = sum of exp(-k x), k = 1, ..., 8."""

    @njit
    def sums(x, out):
        for i in range(x.size):
            total = 0.0
            for k in range(1, TERMS + 1):
                total += exp(-x[i] * k)
            out[i] = total

    return sums


@njit
def launches(times, x, y):
    for _ in range(times):
        pk.parallel_for(x.size, axpy, 0.5, x, y)


@njit(parallel=True)
def prange_axpy(x, y):
    for i in prange(x.size):
        y[i] += 0.5 * x[i]


def repeated(loop):
    """Return a function that calls a loop several times."""

    @njit
    def calls(times, x, y):
        for _ in range(times):
            loop(x, y)

    return calls


@pk.kernel
def branchy(i, x, out):
    """Do some steps until a number is small, with an exponential in each."""
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
    """Return the duels; see `portable.roofline.cases.Case`; `n` is the number of indices (1,000,000) of the
    third row, a tenth in the others."""
    with pk.use(space) as resolved:
        threads = resolved.n_threads
    set_threads(threads)
    n = n or (100_000 if quick else 1_000_000)
    x, few = np.random.default_rng(1).random(n), np.random.default_rng(2).random(n // 10)
    of_few, partial = f"{few.size:,} indices", functools.partial
    found = [
        _duel(
            f"eight exponentials an index, {of_few} inside njit, one thread",
            {"pk.exp": partial(exponentials(pk.exp), few), "math.exp": partial(exponentials(math.exp), few)},
            np.zeros(few.size),
        ),
        _duel(
            f"{LAUNCHES:,} launches of {TEN} elements inside njit: a nanosecond each is {LAUNCHES / 1000:g}"
            " microsecond",
            {
                label: partial(function, LAUNCHES, np.zeros(TEN))
                for label, function in (
                    ("parallel_for", launches),
                    ("a loop", repeated(njit(prange_axpy.py_func))),
                    ("prange", repeated(prange_axpy)),
                )
            },
            np.zeros(TEN),
        ),
        _duel(
            f"a branchy text at {n:,} indices, {threads} threads",
            {"parallel_for inside njit": partial(launch_branchy, x), "prange": partial(prange_branchy, x)},
            np.zeros(n),
        ),
        _turns(f"prange and launches in turns, {of_few}, {threads} threads", few, threads, lambda: None),
    ]
    beside = f"the same beside {max(1, threads // 2)} busy neighbours"
    return found if quick else [*found, _turns(beside, few, threads, _neighbours)]


def _duel(title, sides, *outputs):
    """Return a duel of functions, {label: function}, each with separate outputs, whose sums agree."""
    made = []
    for label, function in sides.items():
        own = [out.copy() for out in outputs]
        call, result = functools.partial(function, *own), functools.partial(np.sum, own[-1])
        made.append(Contender(label, call, result=result))
    return Duel(title, made[0], made[1:], tolerance=1e-12)


def _turns(title, x, threads, before):
    """Return the duel of a program that alternates between a prange and launches on a space."""

    def program(space, y, out):
        before()
        policy = pk.RangePolicy(0, x.size, space=space)
        for _ in range(5):
            prange_axpy(x, y)
            pk.parallel_for(policy, branchy, x, out)

    spaces = (f"{name}:{threads}" for name in ("numba", "threads"))
    sides = {f"launches on '{space}'": functools.partial(program, space) for space in spaces}
    return _duel(title, sides, np.zeros(x.size), np.zeros(x.size))


@functools.cache
def _neighbours():
    """Start busy processes, half as many as cores, until this process ends."""
    for _ in range(max(1, machine.usable_cores() // 2)):
        atexit.register(subprocess.Popen([sys.executable, "-c", BUSY]).kill)
