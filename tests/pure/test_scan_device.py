"""Scans and ragged rows on a device, as far as the host goes: launches, what they are given, who waits."""

import struct
import threading
import weakref

import numpy as np
import pytest
from fake_cuda import fake_cuda  # noqa: F401

import portable as pk
from portable import segments
from portable.backends.cuda import driver
from portable.backends.cuda import space as launches


def later(a, b):
    return b


IN_ORDER = pk.Reducer("InOrder", later, 0.0, commutes=False)


@pk.kernel
def itself(i):
    return i * 1.0


@pytest.mark.parametrize("n", [0, 1, 5_000, 9_000_000])
def test_a_scan_is_one_launch_of_its_tiles_and_of_a_lag(fake_cuda, monkeypatch, n):
    """Blocks take numbers: those of the tiles, and as many more as a tile's prefixes are behind its total. A
    scan that the device holds at once has no lag."""
    launched = []
    monkeypatch.setattr(
        launches.Compiled, "launch", lambda self, grid, block, *rest: launched.append((self, grid, block))
    )
    pk.parallel_reduce(pk.RangePolicy(0, n, space="cuda"), itself, reducer=IN_ORDER)
    ((compiled, grid, block),) = launched
    n_tiles = max(1, -(-n // compiled.tile))
    begin, end, *_, lag = struct.unpack(f"={len(launches.EXTRA)}q", block[: 8 * len(launches.EXTRA)])
    assert (begin, end, grid) == (0, n, n_tiles + lag)
    assert (lag > 0) == (n_tiles > compiled.resident_blocks())


def test_what_a_scan_leaves_is_zero_before_the_first(fake_cuda, monkeypatch):
    """A word of an earlier use could look like a number that was left; and no reduction writes there."""
    x, out = pk.zeros(100, space="cuda"), pk.zeros(100, space="cuda")
    policy, total = pk.RangePolicy(0, 100, space="cuda"), pk.zeros(1, space="cuda")
    work = launches._Workspace(driver.context(0))
    monkeypatch.setattr(launches, "_workspace", lambda device, stream: work)
    pk.parallel_scan(policy, entry, x, out=out, total=total)
    (words,) = work.scans
    assert not any(fake_cuda.bytes_at(words.pointer, words.nbytes))
    pk.parallel_reduce(policy, entry, x)
    assert words.pointer not in [kept.pointer for kept in work.partials]


@pk.kernel
def entry(i, x):
    return x[i]


def test_ragged_rows_wait_for_the_look_at_offsets_alone(fake_cuda, monkeypatch):
    """All is queued when the host waits, and it waits for the mark behind the first launch."""
    monkeypatch.setattr(segments, "_kept", threading.local())
    x, offsets = pk.copy_of(np.zeros(0), "cuda"), pk.copy_of(np.zeros(5, np.int64), "cuda")
    for call in (pk.segmented_reduce, pk.segmented_scan):
        call(x, offsets, space="cuda")  # compiles
        fake_cuda.calls.clear()
        call(x, offsets, space="cuda")
        calls = [c for c in fake_cuda.calls if "Launch" in c or "Event" in c or "Synchronize" in c]
        first, last = calls.index("cuEventRecord"), len(calls) - 1
        assert calls[last] == "cuEventSynchronize" and calls.count("cuEventSynchronize") == 1
        assert calls[:first] == ["cuLaunchKernel"] and set(calls[first + 1 : last]) == {"cuLaunchKernel"}


@pytest.mark.parametrize("longest, n_reduce, n_scan", [(segments.MOST, 1, 1), (segments.MOST + 1, 3, 2)])
def test_long_rows_take_more_launches_if_one_is_longer(fake_cuda, monkeypatch, longest, n_reduce, n_scan):
    """Beside the look at offsets, which tells: a team a row, then blocks of the rests and joins, or marks."""
    monkeypatch.setattr(segments, "_kept", threading.local())
    n = 6 * segments._LONG
    monkeypatch.setattr(segments, "reduce_ahead", lambda *given, **options: lambda: (1, 0, n, longest))
    x, offsets = pk.zeros(n, space="cuda"), pk.zeros(6, "int64", space="cuda")
    for call, wanted in ((pk.segmented_reduce, n_reduce), (pk.segmented_scan, n_scan)):
        fake_cuda.launches.clear()
        call(x, offsets, space="cuda")
        assert len(fake_cuda.launches) == wanted
        if wanted == 1:
            assert fake_cuda.launches[0][1:3] == ((5, 1, 1), (32, 1, 1))


def test_prefixes_of_long_rows_are_queued_before_the_answer(fake_cuda, monkeypatch):
    """Where the call before had rows of these sizes, none of them too long: else the host waits first. What
    was queued for rows that are too long is made again."""
    monkeypatch.setattr(segments, "_kept", threading.local())
    n = 6 * segments._LONG
    x, offsets = pk.zeros(n, space="cuda"), pk.zeros(6, "int64", space="cuda")

    def looked_at(*given, **options):
        return lambda: fake_cuda.launches.append("the answer") or (1, 0, n, longest)

    monkeypatch.setattr(segments, "reduce_ahead", looked_at)
    seen = []
    for longest in (1, 1, segments.MOST + 1, segments.MOST + 1, 1, 1):
        fake_cuda.launches.clear()
        pk.segmented_scan(x, offsets, space="cuda")
        seen.append(["answer" if what == "the answer" else "launch" for what in fake_cuda.launches])
    last = ["launch", "launch", "answer"]  # marks are cleared, prefixes made, and offsets were looked at
    first = ["answer", "launch"]
    assert seen == [first, first[::-1], [*first[::-1], *last], ["answer", *last], first, first[::-1]]


def test_a_count_keeps_its_workspace_until_the_launch_has_ended(fake_cuda, monkeypatch):
    """Its launch writes there: memory that is given back meanwhile is another's, or nobody's."""
    made, alive = [], []

    class Workspace(launches._Workspace):
        def __init__(self, context):
            super().__init__(context)
            made.append(weakref.ref(self))

    fence = launches.fence
    monkeypatch.setattr(launches, "_Workspace", Workspace)
    monkeypatch.setattr(
        launches, "fence", lambda space: (alive.extend(work() is not None for work in made), fence(space))
    )
    x = pk.zeros(100, space="cuda")
    pk.count(pk.RangePolicy(0, 100, space="cuda"), entry, x, reducer=pk.Sum, build="executed")
    assert alive and all(alive)


def test_waiting_for_the_context_waits_for_captures(fake_cuda):
    """It would end those of other threads."""
    context = driver.context(0)
    waited = threading.Event()

    def wait():
        context.synchronize()
        waited.set()

    with context.capture(context.stream().handle):
        other = threading.Thread(target=wait)
        other.start()
        assert not waited.wait(0.2)
    other.join(10)
    assert waited.is_set()
