"""Compare the bytes that memory levels deliver, by sampled accesses, with caches simulated access by
access."""

from collections import OrderedDict

import numpy as np
import pytest

import portable as pk
from portable import roofline
from portable.roofline import attainable
from portable.roofline.ceiling import Ceilings

pytestmark = pytest.mark.usefixtures("serial")

LINE = 64


@pk.kernel
def gather(i, place, table, y):
    y[i] = table[place[i]]


@pk.kernel
def transpose(i, j, a, b):
    b[j, i] = a[i, j]


@pk.kernel
def product(i, j, n, a, b, c):
    s = 0.0
    for k in range(n):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@pk.kernel
def fill(i, y):
    y[i] = 0.0


def cached(accesses, n_lines):
    """Return the bytes that a cache of `n_lines` lines with least-recently-used replacement fetches, and
    writes back.

    `accesses` are (address, 0 to read or 1 to write), one after the other.
    """
    held, moved = OrderedDict(), np.zeros(2, int)
    for address, way in accesses:
        line = address // LINE
        if line not in held:
            if len(held) == n_lines:
                moved += held.popitem(last=False)[1]
            held[line] = np.zeros(2, int)
        held.move_to_end(line)
        held[line][way] = 1
    return tuple(LINE * (moved + sum(held.values())))


def gathered(place, table, y):
    for i, at in enumerate(place):
        yield place.ctypes.data + 8 * i, 0
        yield table.ctypes.data + 8 * int(at), 0
        yield y.ctypes.data + 8 * i, 1


def transposed(a, b):
    n = len(a)
    for i in range(n):
        for j in range(n):
            yield a.ctypes.data + 8 * (n * i + j), 0
            yield b.ctypes.data + 8 * (n * j + i), 1


def multiplied(n, a, b, c):
    for i in range(n):
        for j in range(n):
            for k in range(n):
                yield a.ctypes.data + 8 * (n * i + k), 0
                yield b.ctypes.data + 8 * (n * k + j), 0
            yield c.ctypes.data + 8 * (n * i + j), 1


def passed(policy, kernel, *args):
    """Return {bytes of the cache: (fetched, written back)} by the build that records accesses."""
    found = pk.count(policy, kernel, *args, build="touched")
    sizes = {int(what.split()[1]) for _, what, _ in found if what.startswith("beyond ")}
    return {n: tuple(found["", f"beyond {n}", way] for way in ("load", "store")) for n in sorted(sizes)}


@pytest.mark.parametrize("hot", [50, 5000])
def test_small_launches_are_told_closely(hot):
    """The tolerance covers lines that one access site reuses while other sites evict them."""
    random = np.random.default_rng(3)
    place, table, y = random.integers(0, hot, 4000), np.ones(8000), np.zeros(4000)
    accesses = list(gathered(place, table, y))
    found = passed(4000, gather, place, table, y)
    for capacity in (4096, 16384, 65536, 1 << 20):
        assert found[capacity] == pytest.approx(cached(accesses, capacity // LINE), rel=0.01)


@pytest.mark.parametrize(
    "n kernel simulated policy".split(),
    [
        (200, transpose, transposed, pk.MDRangePolicy((0, 0), (200, 200))),
        (44, product, multiplied, pk.MDRangePolicy((0, 0), (44, 44))),
    ],
)
def test_large_launches_are_told_by_a_sample(n, kernel, simulated, policy):
    """The results agree within a quarter, except where they change rapidly within half of the size."""
    arrays = [np.ones((n, n)) for _ in range(3 if kernel is product else 2)]
    args = (n, *arrays) if kernel is product else tuple(arrays)
    accesses, found = list(simulated(*args)), passed(policy, kernel, *args)
    compared = 0
    for capacity in (4096, 16384, 65536, 1 << 18, 1 << 20):
        around = [sum(cached(accesses, int(c * capacity) // LINE)) for c in (0.5, 1.0, 1.5)]
        if max(around) < 1.1 * min(around):
            assert sum(found[capacity]) == pytest.approx(around[1], rel=0.25)
            compared += 1
    assert compared >= 2


def test_levels_behind_a_cache_that_holds_all_deliver_nothing():
    small, large = np.zeros(1000), np.zeros(1_000_000)
    counts = roofline.count(1000, fill, small)
    assert counts.passed(1 << 20) == 0.0 and counts.passed(4096) == pytest.approx(8000, rel=0.02)
    counts = roofline.count(1_000_000, fill, large)
    assert counts.passed(1 << 20) == pytest.approx(8e6, rel=0.02)


def test_each_worker_has_its_part_of_the_caches():
    """Two threads sweep half of the array each, four times; the caches of both hold it, that of one does
    not."""

    @pk.kernel
    def sweep(i, times, y):
        for _ in range(times):
            for j in range(1024):
                y[1024 * i + j] += 1.0

    with pk.use("threads:2"):
        counts = roofline.count(2, sweep, 4, np.zeros(2048), executed=False)
    assert counts.passed(8192) == pytest.approx(4 * 2 * 8 * 2048, rel=0.1)
    assert counts.passed(1 << 16) == 0.0


def test_a_kernel_tells_the_bytes_of_each_level():
    n = 512
    a, b = np.ones((n, n)), np.ones((n, n))
    counts = roofline.count(pk.MDRangePolicy((0, 0), (n, n)), transpose, a, b)
    levels = [("L1", 1 << 14), ("L2", 1 << 17), ("DRAM", None)]
    ceilings = Ceilings("serial", "", {}, None, levels, {})
    kernel = attainable.Kernel("transpose", counts, None, (1.0,), 1.0)
    told = kernel.level_bytes(ceilings)
    assert list(told) == ["L1", "L2", "DRAM"] and told["L1"] == kernel.near_bytes
    # Each line of the columns is evicted before its next element is written, and stays in the second cache.
    assert told["L2"] == pytest.approx(8 * n * n + LINE * n * n, rel=0.05)
    assert told["DRAM"] == pytest.approx(2 * 8 * n * n, rel=0.05)
