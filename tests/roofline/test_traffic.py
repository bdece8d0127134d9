"""Compare the predicted traffic of a GPU, computed from the elements that a launch accesses, with caches and
blocks that are simulated independently."""

import math
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.roofline.truth import traffic
from portable.roofline.cases import layer
from portable.roofline.microkernels import copy
from portable.roofline.truth import pairs
from portable.roofline import counting
from portable.roofline.counting import blocks_of
from portable.roofline.truth.traffic import LINE, SECTOR, predicted


def on_lines(*arrays):
    """Return equal arrays that begin with a line of memory."""
    return tuple(pk.copy_of(a, "serial") for a in arrays)


@pytest.fixture
def gpu(monkeypatch):
    """Pretend a GPU with blocks of 256 threads and 132 multiprocessors."""

    def explained(policy, *_):
        if isinstance(policy, pk.MDRangePolicy):
            grid = tuple(-(-n // side) for n, side in zip(policy.extents[::-1], (32, 8)))
            grid += (math.prod(policy.extents[:-2]),)
        else:
            grid = getattr(policy, "league_size", None) or -(-policy.end // 256)
        return SimpleNamespace(facts={"blocks": grid, "threads a block": 256})

    monkeypatch.setattr(traffic.pk, "explain", explained)
    monkeypatch.setattr(traffic.pk, "concurrency", lambda space: 132 * traffic.TEAMS)


def test_a_cache_keeps_as_much_of_what_was_written_as_went_through_it(gpu):
    """After a copy half of L2 holds results that are not written back; if they all fit, all of them."""
    n = 1 << 16
    launch = pk.RangePolicy(0, n, space="serial"), copy, on_lines(np.ones(n), np.ones(n)), ()
    assert predicted(*launch, 1 << 16) == {"L2": 16 * n, "HBM": 16 * n - (1 << 15)}
    assert predicted(*launch, 32 * n) == {"L2": 16 * n, "HBM": 8 * n}


def test_places_in_no_order_bring_a_sector_to_their_threads_and_a_line_from_memory(gpu):
    """Compare with the lines that an LRU cache of the same number of lines would fetch."""
    n, second = 1 << 16, 1 << 17
    place = default_rng(0).permutation(n)
    args = on_lines(place, np.ones(n), np.zeros(n))
    found = predicted(pk.RangePolicy(0, n, space="serial"), pairs.gather, args, (), second)
    assert found["L2"] == 16 * n + SECTOR * n
    held, moved = OrderedDict(), 0
    for k in range(n):
        for line, written in (("p", k // 8), False), (("t", place[k] // 8), False), (("o", k // 8), True):
            moved += LINE * (line not in held and not written)
            held[line] = held.pop(line, False) or written
            if len(held) > second // LINE:
                moved += LINE * held.popitem(last=False)[1]
    assert found["HBM"] == pytest.approx(moved, rel=0.05)


def test_blocks_take_anew_what_they_share(gpu):
    """The vector of a matrix product is read once for each team; a table that fits the first cache once for
    each multiprocessor."""
    n = 128
    args = on_lines(np.ones((n, n)), np.ones(n), np.ones(n))
    assert predicted(pk.TeamPolicy(n, space="serial"), layer.matvec, args, (), 1 << 20)["L2"] == n * (
        8 * n + 8 * n + LINE
    )
    many = 1 << 17
    args = on_lines(default_rng(0).integers(0, n, many), np.ones(n), np.zeros(many))
    few = pk.RangePolicy(0, many, space="serial"), pairs.gather, args, ()
    assert predicted(*few, 1 << 20)["L2"] == 16 * many + 132 * 8 * n


def test_arrays_begin_with_a_line_as_a_devices_do(gpu):
    """Otherwise, depending on the place of NumPy's host copy, rows of two lines would touch three."""
    block = np.ones(128 * 128 + 8)
    off = next(block[k : k + 128 * 128] for k in range(8) if (block.ctypes.data + 8 * k) % LINE == 24)
    args = off.reshape(128, 128), np.ones(128), np.ones(128)
    found = predicted(pk.TeamPolicy(128, space="serial"), layer.matvec, args, (), 1 << 20)
    assert found["L2"] == 128 * (8 * 128 + 8 * 128 + LINE)


@pytest.mark.parametrize(
    "policy grid threads total".split(),
    [
        (pk.RangePolicy(5, 1005), 4, 256, 4),
        (pk.MDRangePolicy((1, 2), (20, 70)), (3, 3, 1), 256, 9),
        (pk.MDRangePolicy((1, 1, 1), (4, 12, 26)), (1, 2, 3), 256, 6),
        (pk.MDRangePolicy((0, 0, 0, 0), (2, 2, 3, 5)), (1, 1, 4), 256, 4),
    ],
)
def test_blocks_are_the_launch_in_parts(policy, grid, threads, total):
    parts, n = blocks_of(policy, grid, threads)
    box = isinstance(policy, pk.MDRangePolicy)
    spans = [(p.begin, p.end) if box else ((p.begin,), (p.end,)) for p in (*parts, policy)]
    *each, whole = [{tuple(map(sum, zip(b, at))) for at in np.ndindex(*np.subtract(e, b))} for b, e in spans]
    assert n == total == len(parts) and set.union(*each) == whole and sum(map(len, each)) == len(whole)


def test_of_many_blocks_some_are_looked_at():
    parts, n = blocks_of(pk.MDRangePolicy((0, 0), (4096, 4096)), (128, 512, 1), 256)
    assert n == 128 * 512 and len(parts) == counting.SOME
    assert {p.extents for p in parts} == {(8, 32)}
    assert blocks_of(pk.RangePolicy(0, 9), None, None) == ([], 0)
