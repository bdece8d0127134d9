"""Attacks by numbers: many short-lived kernels, unlimited constants, limited memory."""

import gc
import os

import numpy as np

import portable as pk

from .attacks_exits import _script
from .victims import HOST, add_one, attack, fresh, on

# Bytes that a compilation may leave allocated: 10,000 leave 0.7 kB each, 1,000 up to 6 kB, as allocators grow
# by steps; a pass manager that is not freed has 100 kB.
LEFT = 12_000


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _maps():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


def _flat(step, times, allowed):
    """Check that memory and the number of maps do not grow between the first half of the steps and the
    end."""
    marks = []
    for k in range(times):
        step(k)
        if k in (times // 2, times - 1):
            gc.collect()
            marks.append((_resident(), _maps()))
    (before, maps), (after, more) = marks
    grown = (after - before) / (times - times // 2)
    assert grown < allowed, f"{grown:.0f} bytes a step"
    assert more - maps < 100, f"{maps} maps, then {more}"
    print(f"  {grown:.0f} bytes a step, {maps} maps, then {more}")
    return times


@attack(1000)
def kernels_that_come_and_go(random, times):
    x = np.zeros(10)
    return _flat(lambda k: pk.parallel_for(on("serial", 10), fresh(k), x), times, LEFT)


@pk.kernel
def by_constant(i, x, n):
    x[i] += n


@attack(1000)
def values_of_static(random, times):
    """Launch with more values than a kernel keeps, all different."""
    x, by_constant.compiled.most = np.zeros(10), 32
    done = _flat(lambda k: pk.parallel_for(on("serial", 10), by_constant, x, pk.static(k + 0.5)), times, LEFT)
    assert len(by_constant.compiled) == 32
    return done


@attack(20_000)
def launches_plans_and_graphs(random, times):
    x = np.zeros(10)

    def step(k):
        pk.parallel_for(on(HOST[k % 4], 10), add_one, x)
        pk.plan(on("threads:2", 10), add_one, x)()
        if k % 10 == 0:
            with pk.capture("serial") as graph:
                pk.parallel_for(on("serial", 10), add_one, x)
            graph.replay()

    return _flat(step, times, 200)


@attack(1)
def a_limit_of_memory(random, times):
    """Exhaust a limit of memory: OutOfMemoryError or MemoryError, never an abort."""
    text = """
import resource
usable()
with open("/proc/self/statm") as file: now = int(file.read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + (MORE << 20), resource.RLIM_INFINITY))
kept, n = [], 0
try:
    for n in range(3000):
        kept.append(fresh(n / 7))
        pk.parallel_for(on("serial", 10), kept[-1], np.zeros(10))
except MemoryError as error:
    print("refused", n, type(error).__name__, error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
kept.clear()
usable()
"""
    for _ in range(times):
        _script(text.replace("MORE", str(random.choice((10, 40, 90)))), wanted="refused", seconds=600)
    return times
