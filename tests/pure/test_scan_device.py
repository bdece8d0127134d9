"""Test scans and ragged rows on a device, as far as the host is concerned: launches, their arguments, and
waiting.
"""

import struct
import threading
import types
import weakref

import numpy as np
import pytest
from fake_cuda import fake_cuda  # noqa: F401

import portable as pk
from portable.library import rows, segments
from portable.core import registry
from portable.core.places.space import resolve
from portable.core.machines.cuda import driver
from portable.core.machines.cuda import space as launches


def later(a, b):
    return b


IN_ORDER = pk.Reducer("InOrder", later, 0.0, commutes=False)


@pk.kernel
def itself(i):
    return i * 1.0


@pytest.mark.parametrize("n", [0, 1, 5_000, 9_000_000])
def test_a_scan_is_one_launch_of_its_tiles_and_of_a_lag(fake_cuda, monkeypatch, n):
    """Blocks are numbered: as many as there are tiles, and as many more as a tile's prefixes lag behind its
    total. A scan that fits the device at once has no lag."""
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
    """A word of an earlier use could be mistaken for a result; and no reduction writes to this memory."""
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
    """All launches are queued when the host waits, and it waits for the event behind the first one."""
    monkeypatch.setattr(segments, "_kept", threading.local())
    x, offsets = pk.copy_of(np.zeros(0), "cuda"), pk.copy_of(np.zeros(5, np.int64), "cuda")
    for call in (pk.segmented_reduce, pk.segmented_scan):
        call(x, offsets, space="cuda")  # compiled by this call
        fake_cuda.calls.clear()
        call(x, offsets, space="cuda")
        calls = [c for c in fake_cuda.calls if "Launch" in c or "Record" in c or "Synchronize" in c]
        first, last = calls.index("cuEventRecord"), len(calls) - 1
        assert calls[last] == "cuEventSynchronize" and calls.count("cuEventSynchronize") == 1
        assert calls[:first] == ["cuLaunchKernel"] and set(calls[first + 1 : last]) == {"cuLaunchKernel"}


@pytest.fixture
def queued(fake_cuda, monkeypatch):
    """Return a function of a result of the teams that check six rows, and of a call: it lists the launches on
    the simulated device by their numbers of blocks, and the point at which the host waits for a launch
    that only checks."""
    monkeypatch.setattr(rows, "_kept", threading.local())
    n = 6 * segments._LONG
    x, offsets = pk.zeros(n, space="cuda"), pk.zeros(7, "int64", space="cuda")

    def left(found, looks):
        looks[1][:] = bytes([found]) * rows.LOOKS
        return looks

    def told(found, call):
        longest = segments.MOST + (found == rows.LONG)

        waited = types.SimpleNamespace(wait=lambda: fake_cuda.launches.append("answer"))
        space = resolve("cuda")
        view, _ = rows.read_by_host(space, 4, "int64")
        segments._kept.look = space, view, np.array([1, 0, n, longest]), ()

        monkeypatch.setattr(segments, "looks_of", lambda space: left(found, rows.looks_of(space)))
        monkeypatch.setattr(segments, "parallel_reduce", lambda *given, **options: None)
        monkeypatch.setattr(segments, "stamp", lambda space: waited)
        fake_cuda.launches.clear()
        call(x, offsets, space="cuda")
        return ["answer" if what == "answer" else what[1][0] for what in fake_cuda.launches]

    return told


BLOCKS = -(-(rows.LOOKS + 6) // 8)  # blocks of eight teams of a warp


def test_rows_are_looked_at_by_the_first_teams_of_their_reduction(queued):
    """There is one launch; if a row is longer than a team can process, further launches process and join the
    remainders.
    """
    assert queued(rows.SHORT, pk.segmented_reduce) == [BLOCKS]
    assert queued(rows.LONG, pk.segmented_reduce) == [BLOCKS, 1, 1]


def test_prefixes_of_long_rows_are_launched_at_once(queued):
    """The exception is a call whose predecessor with the same sizes had a row that is too long. Then marks
    are cleared, and prefixes computed of all values; offsets are checked while that is queued."""
    teams, marked = [BLOCKS], [2, 1, "answer"]
    found = [queued(kind, pk.segmented_scan) for kind in map(int, "1122112")]
    assert found == [teams, teams, teams + marked, marked, marked, teams, teams + marked]


def test_rows_that_nobody_has_seen_are_looked_at_once_more(fake_cuda, queued):
    """Rows are checked again after all launches have ended, since earlier work may take long."""
    fake_cuda.calls.clear()
    assert queued(rows.UNSEEN, pk.segmented_reduce) == [BLOCKS, "answer"]
    assert fake_cuda.calls.count("cuStreamSynchronize") == 1
    assert queued(rows.WRONG, pk.segmented_reduce) == [BLOCKS, "answer"]
    assert fake_cuda.calls.count("cuStreamSynchronize") == 1


def test_a_machine_whose_kernels_reach_no_memory_of_the_host(queued, monkeypatch):
    """Without such memory no result is available before the end."""
    monkeypatch.setattr(registry.backend("cuda"), "pinned", lambda n_bytes: None, raising=False)
    assert queued(rows.UNSEEN, pk.segmented_reduce) == [BLOCKS, "answer"]


def test_what_looks_are_left_in_is_one_calls_at_a_time(fake_cuda, queued, monkeypatch):
    """The next call of the thread uses the same memory, unless the call before was interrupted: its teams may
    still write there."""
    held = []
    queued(rows.SHORT, pk.segmented_reduce)
    kept, _ = vars(rows._kept)["cuda:0"]
    queued(rows.SHORT, pk.segmented_scan)
    assert vars(rows._kept)["cuda:0"][0] is kept

    def stop(space):
        held.append("cuda:0" in vars(rows._kept))
        raise KeyboardInterrupt

    monkeypatch.setattr(rows, "fence", stop)
    with pytest.raises(KeyboardInterrupt):
        queued(rows.UNSEEN, pk.segmented_reduce)
    assert held == [False]
    queued(rows.SHORT, pk.segmented_reduce)
    assert vars(rows._kept)["cuda:0"][0] is not kept


def test_a_count_keeps_its_workspace_until_the_launch_has_ended(fake_cuda, monkeypatch):
    """The launch writes to the workspace: memory that is freed in the meantime may have another owner."""
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
    """Synchronizing would end the captures of other threads."""
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
