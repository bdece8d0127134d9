"""Test the CPU thread pool: every chunk runs once, with any number of threads, and nothing hangs: successive
launches, sleep, a fork, the interpreter's exit."""

import _thread
import contextlib
import ctypes
import gc
import os
import queue
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from portable.core.machines.cpu import native, pool_code
from portable.core.machines.cpu import pool as pool_module
from portable.core.machines.cpu.pool import Pool, ring_code
from portable.errors import InputError

three = native.words(3)


def mark_all(block, begin, end, worker):
    """Turn spin + i * step times for each index i, add 1 to count[i] without an atomic, and note who[i] =
    worker and low[i] = begin; the block is int64: spin, step, n, count[n], who[n], low[n]."""
    spin, step, n = three(block)
    for i in range(begin, end):
        turns, place = spin + i * step, block + 24 + 8 * i
        while turns > 0:
            turns -= 1
        native.store(place, native.load(place) + 1)
        native.store(place + 8 * n, worker)
        native.store(place + 16 * n, begin)


@pytest.fixture(scope="module")
def mark():
    code = native.compiled([mark_all], "mark_all")
    yield code("mark_all")


class Block:
    """Argument block of `mark` for indices 0 to n - 1."""

    def __init__(self, n, spin=0, step=0):
        self.words = np.zeros(3 + 3 * n, np.int64)
        self.words[:3] = spin, step, n
        self.count, self.worker, self.low = self.words[3:].reshape(3, n)
        self.address = self.words.ctypes.data


@pytest.fixture(
    params=[(1, True), (2, True), (4, True), (8, True), (1, False), (3, False)],
    ids=lambda p: f"{p[0]}-{'native' if p[1] else 'plain'}",
)
def pool(request):
    pool = Pool(request.param[0], native=request.param[1])
    if request.param[1] and not pool.native:
        pytest.skip("no POSIX threads here")
    yield pool
    pool.close()


@pytest.mark.parametrize(
    "begin, end, chunk",
    [
        (0, 0, 1),
        (5, 5, 3),
        (7, 3, 1),
        (0, 1, 1),
        (0, 1, 100),
        (0, 1000, 1),
        (3, 1000, 7),
        (0, 1000, 999),
        (0, 1000, 1000),
        (1, 998, 64),
    ],
)
def test_each_index_runs_once_in_its_chunk(pool, mark, begin, end, chunk):
    block = Block(1000)
    pool.run(mark, block.address, begin, end, chunk)
    inside = (np.arange(1000) >= begin) & (np.arange(1000) < end)
    assert_array_equal(block.count, inside)
    indices = np.arange(1000)[inside]
    assert_array_equal(block.low[inside], begin + (indices - begin) // chunk * chunk)
    assert np.all((block.worker >= 0) & (block.worker < pool.n_threads))


@pytest.mark.parametrize(
    "begin, end, least", [(0, 0, 1), (0, 1, 1), (3, 1000, 1), (1, 998, 7), (0, 5000, 3), (0, 9, 100)]
)
def test_many_chunks_at_once_are_taken_as_one_and_fewer_at_the_end(pool, begin, end, least):
    """Each index runs once; a thread takes at most a fourth of its even share at a time, and fewer chunks
    towards the end.
    """
    taken, call = _recorder()
    pool.run(ctypes.cast(call, ctypes.c_void_p).value, 0, begin, end, -least)
    assert [low for low, _ in sorted(taken)] == [begin, *(high for _, high in sorted(taken))][: len(taken)]
    assert max((high for _, high in taken), default=end) == end
    assert all((low - begin) % least == 0 for low, _ in taken)
    if pool.native and pool.n_threads > 1:
        most = max((end - begin) // (least * pool_code.ROUNDS * pool.n_threads), 1)
        sizes = [high - low for low, high in sorted(taken)]
        assert max(sizes, default=0) <= most * least
        assert sizes.count(most * least) <= pool.n_threads + 1 or most == 1


def _recorder():
    """Return a list of the (begin, end) of calls, and the function to call."""
    taken = []
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)(
        lambda block, low, high, worker: taken.append((low, high))
    )
    return taken, call


@pytest.mark.parametrize("begin, end", [(-10, 3), (-(2**63), -(2**63) + 10), (2**63 - 11, 2**63 - 1)])
def test_chunks_at_the_ends_of_int64(pool, begin, end):
    chunks, call = _recorder()
    pool.run(ctypes.cast(call, ctypes.c_void_p).value, 0, begin, end, 4)
    assert sorted(chunks) == [(low, min(low + 4, end)) for low in range(begin, end, 4)]


def test_many_launches(pool, mark):
    n_launches = 20_000 if pool.native else 300
    block = Block(16)
    for _ in range(n_launches):
        pool.run(mark, block.address, 0, 16, 1)
    assert_array_equal(block.count, n_launches)


def test_launches_after_the_workers_fell_asleep(pool, mark):
    block = Block(64, spin=2000)
    for _ in range(30):
        pool.run(mark, block.address, 0, 64, 1)
        time.sleep(0.002)
    assert_array_equal(block.count, 30)


def test_workers_that_are_called_again_soon_stay_awake(mark, monkeypatch):
    """Workers stay awake as long as they slept before, up to ten times their usual spinning. The times are
    slowed down, to between 6 and 60 ms, and only a few of many observations must succeed: on busy cores
    launches come too late, and pauses are longer or shorter than when they were timed. A pool that does
    not extend its spinning would never be found awake."""
    monkeypatch.setattr(pool_code, "SPIN_MICROSECONDS", 6000)
    if not pool_module.compiled():
        pytest.skip("no POSIX threads here")
    slow = pool_code.Code(pool_module.compiled().code)
    monkeypatch.setattr(pool_module, "compiled", lambda: slow)
    # a worker without a core for itself does not spin; this one has that of the sleeping launcher
    monkeypatch.setattr(pool_module.os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    pool, block = Pool(2), Block(64)
    sleepers = ctypes.c_int64.from_address(pool.handle + pool_code.SLEEPERS)

    def asleep_after(seconds):
        time.sleep(seconds)
        asleep = sleepers.value
        pool.run(mark, block.address, 0, 64, 1)
        return asleep

    pool.run(mark, block.address, 0, 64, 1)
    awake, then_asleep = [], []
    for _ in range(5):
        awake.append([asleep_after(0.02) for _ in range(16)].count(0))
        then_asleep.append(asleep_after(0.7))
    assert max(awake) >= 3 and max(then_asleep) == 1, (awake, then_asleep)
    pool.close()


def test_every_thread_helps(pool):
    """Every thread is active as soon as the machine runs it: each chunk lasts until every thread has one."""
    came, all_here = [], threading.Barrier(pool.n_threads)

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    def meet(block, begin, end, worker):
        came.append(worker)
        with contextlib.suppress(threading.BrokenBarrierError):
            all_here.wait(60)

    pool.run(ctypes.cast(meet, ctypes.c_void_p).value, 0, 0, pool.n_threads, 1)
    assert sorted(came) == list(range(pool.n_threads))


def test_launches_from_several_python_threads(pool, mark):
    n_launches = 500 if pool.native else 50
    blocks = [Block(32) for _ in range(4)]

    def launch(block):
        for _ in range(n_launches):
            pool.run(mark, block.address, 0, 32, 3)

    threads = [threading.Thread(target=launch, args=(block,)) for block in blocks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for block in blocks:
        assert_array_equal(block.count, n_launches)


def test_two_pools_at_once(mark):
    pools, blocks = [Pool(2), Pool(3)], [Block(32), Block(32)]
    threads = [
        threading.Thread(target=lambda p=p, b=b: [p.run(mark, b.address, 0, 32, 1) for _ in range(500)])
        for p, b in zip(pools, blocks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((block.count == 500).all() for block in blocks)


def test_native_launchers_may_call_run_address(mark):
    pool = Pool(2)
    if not pool.native:
        assert pool.handle == pool.run_address == 0
        return
    launch = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)(pool.run_address)
    block = Block(100)
    launch(pool.handle, mark, block.address, 0, 100, 3)  # before start the caller works without other threads
    assert set(block.worker) == {0}
    pool.start()
    with pool.lock:
        launch(pool.handle, mark, block.address, 0, 100, 3)
    assert_array_equal(block.count, 2)


def test_idle_pools_use_no_processor_time(mark):
    others = _tasks()  # may be busy, such as another library's event loop
    pool = Pool(4)
    block = Block(100, spin=1000)
    pool.run(mark, block.address, 0, 100, 1)
    time.sleep(0.01)  # far beyond SPIN_MICROSECONDS
    own = _tasks() - others
    before = _ticks(own)
    time.sleep(0.3)
    assert own and _ticks(own) - before < 5  # of 10 ms; 30 for each thread that spins


def _ticks(tasks):
    """Return the processor time of threads, in ticks of the system's clock."""
    stats = (Path(f"/proc/self/task/{task}/stat").read_text().rpartition(") ")[2].split() for task in tasks)
    return sum(int(fields[11]) + int(fields[12]) for fields in stats)


def _tasks():
    return set(os.listdir("/proc/self/task"))


def _gone(tasks):
    """A joined thread leaves /proc a moment after the join."""
    deadline = time.monotonic() + 10
    while tasks & _tasks() and time.monotonic() < deadline:
        time.sleep(0.001)
    return not tasks & _tasks()


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
def test_closing_ends_the_threads_and_a_launch_makes_new_ones(mark):
    pool, block, before = Pool(3), Block(10), _tasks()
    pool.run(mark, block.address, 0, 10, 1)
    assert len(threads := _tasks() - before) == 2
    pool.close()
    assert _gone(threads)
    pool.run(mark, block.address, 0, 10, 1)
    assert_array_equal(block.count, 2)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
def test_a_dropped_pool_ends_its_threads():
    before, pool = _tasks(), Pool(3)
    pool.start()
    assert len(threads := _tasks() - before) == 2
    del pool
    assert _gone(threads)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts threads in /proc")
@pytest.mark.parametrize("amid, nth", [("pthread_create", 2), ("pthread_join", 1)])
def test_ctrl_c_leaves_no_thread_behind(amid, nth, monkeypatch):
    """A thread that was neither recorded nor joined would go on in memory that is freed."""
    pool, before, posix, calls = Pool(3), _tasks(), pool_module.posix, []

    def interrupting(name):
        calls.append(name)
        if name == amid and calls.count(name) == nth:
            _thread.interrupt_main()
        return posix(name)

    monkeypatch.setattr(pool_module, "posix", interrupting)
    with pytest.raises((KeyboardInterrupt, SystemExit)):  # dask_jobqueue's handler exits
        pool.start(), pool.close()
    monkeypatch.undo()
    threads = _tasks() - before
    pool.close()
    assert _gone(threads) and not pool._started


def test_a_thread_of_a_pool_may_collect_it():
    pool = Pool(3, native=False)
    pool.start()
    pool.cycle, executor = pool, pool._executor
    del pool
    executor.submit(gc.collect).result()
    assert executor._shutdown


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True, "2"])
def test_wrong_numbers_of_threads(n_threads):
    with pytest.raises(InputError, match="Pool: n_threads"):
        Pool(n_threads)


_PROGRAM = """
import ctypes, os, sys, threading, time
from portable.core.machines.cpu import engine, pool_code
from portable.core.machines.cpu import pool as pool_module
from portable.core.machines.cpu.pool import Pool, ring_code
total = []
slow = float(os.environ.get("SLOW", 0))

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
def count(block, begin, end, worker):
    time.sleep(slow)
    total.append(end - begin)

fn = ctypes.cast(count, ctypes.c_void_p).value

def check(pool):
    total.clear()
    pool.run(fn, 0, 0, 100, 3)
    assert sum(total) == 100, total
"""


def _python(program, **environment):
    """Return the output of `program` in a fresh interpreter; it must succeed within 60 seconds."""
    folder = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _PROGRAM + textwrap.dedent(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=folder, env={**os.environ, **environment}
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork_the_child_makes_its_own_threads(native):
    out = _python(f"""
        pool = Pool(3, native={native})
        check(pool)
        for _ in range(5):
            child = os.fork()
            check(pool)
            if child == 0:
                print("child", flush=True)
                sys.exit(0)                       # through the child's own exit handlers
            assert os.waitpid(child, 0)[1] == 0
        check(pool)
        print("parent")
    """)
    assert out.split() == ["child"] * 5 + ["parent"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_middle_of_another_threads_launch():
    out = _python(
        """
        pool = Pool(3)
        check(pool)
        other = threading.Thread(target=check, args=(pool,))
        total.clear()
        other.start()
        while not total:                          # now `other` holds the lock, with the gate open
            time.sleep(0.001)
        child = os.fork()
        if child == 0:
            check(pool)
            print("child", flush=True)
            os._exit(0)
        other.join()
        assert os.waitpid(child, 0)[1] == 0
        check(pool)
        print("parent")
    """,
        SLOW="0.01",
    )
    assert out.split() == ["child", "parent"]


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "del pool", "pool.close()", "time.sleep(0.01)"])
def test_the_interpreter_exits(ending):
    assert _python(f"pool = Pool(4)\ncheck(pool)\nprint('end')\n{ending}") == "end\n"


def test_the_interpreter_exits_in_the_middle_of_a_launch():
    _python(
        """
        pool = Pool(3)
        threading.Thread(target=check, args=(pool,), daemon=True).start()
        time.sleep(0.05)
    """,
        SLOW="0.01",
    )


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux tells what its threads block")
def test_signals_are_for_pythons_threads():
    """A worker that the machine has not scheduled would deliver a Ctrl-C long after it was pressed."""
    tasks = Path("/proc/self/task")
    before = {task.name for task in tasks.iterdir()}
    pool = Pool(3)
    pool.start()
    try:
        blocked = [
            int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1
            for task in tasks.iterdir()
            if task.name not in before
            for line in (task / "status").read_text().splitlines()
            if line.startswith("SigBlk")
        ]
    finally:
        pool.close()
    assert pool.native and blocked == [1, 1] and signal.SIGINT not in signal.pthread_sigmask(0, [])


class _Queue:
    """Driver whose copies are done when they are waited for, and not earlier; a device's memory is the
    host's."""

    def __init__(self):
        number, handle = ctypes.c_int, ctypes.c_void_p
        address, marks = ctypes.c_int64, {}
        self.queued, self.longest = [], 0

        def copy(target, source, nbytes, stream):
            self.queued.append((target, source, nbytes))
            self.longest = max(self.longest, len(self.queued))
            return 0

        def mark(event, stream):
            marks[event] = self.queued[-1:]
            return 0

        def wait(event):
            while any(one in self.queued for one in marks.get(event, ())):
                ctypes.memmove(*self.queued.pop(0))
            return 0

        def finish(stream):
            while self.queued:
                ctypes.memmove(*self.queued.pop(0))
            return 0

        types = [(handle,), (handle,), (handle, handle), (handle,), *[(address,) * 3 + (handle,)] * 2]
        functions = (lambda context: 0, wait, mark, finish, copy, copy)
        self.calls = [ctypes.CFUNCTYPE(number, *t)(f) for t, f in zip(types, functions)]
        self.finish = finish
        activate, *others = (ctypes.cast(call, handle).value for call in self.calls)
        self.addresses = activate, 1, *others


@pytest.mark.parametrize("n_threads", [1, 3])
def test_copies_through_a_ring(n_threads):
    """Every byte is copied, and no other, in both directions, one copy after the other, from arrays that are
    modified as soon as a copy returns, whatever their alignment."""
    pool, driver, rng = Pool(n_threads), _Queue(), default_rng(1)
    segment = 1 << 20
    ring = np.zeros(8 * segment + 64, np.uint8)
    memory = ring.ctypes.data + -ring.ctypes.data % 64
    state, up, down = pool.ring(driver.addresses, memory, segment, list(range(1, 9)))
    pool.start()
    for n in (1, 63, 64, 65, 4096, 99_999, 1 << 19, 5_000_001, 23_456_789):
        for at in (0, 1, 8):
            source = rng.integers(0, 255, n + at, dtype=np.uint8)[at:]
            wanted, there = source.copy(), np.zeros(n + 2, np.uint8)
            with pool.lock:
                assert up(state, there.ctypes.data + 1, source.ctypes.data, n) == 0
                source[:] = 0
                second, here = rng.integers(0, 255, 1000, dtype=np.uint8), np.zeros(1000, np.uint8)
                kept = second.copy()
                assert up(state, here.ctypes.data, second.ctypes.data, 1000) == 0
                second[:] = 0
                back = np.zeros(n + 2, np.uint8)
                assert down(state, back.ctypes.data + 1, there.ctypes.data + 1, n) == 0
            assert_array_equal(back[1:-1], wanted)
            assert not back[0] and not back[-1] and not there[0] and not there[-1]
            driver.finish(None)
            assert_array_equal(here, kept)
    numbers = rng.integers(0, 255, (3000, 777), dtype=np.uint8)  # small: they fill the ring many times
    there, given = np.zeros_like(numbers), np.empty(777, np.uint8)
    for row, target in zip(numbers, there):
        given[:] = row
        assert up(state, target.ctypes.data, given.ctypes.data, 777) == 0
    driver.finish(None)
    assert_array_equal(there, numbers)
    assert driver.longest > 4  # several copies were in progress
    pool.close()


class _Device:
    """Driver whose kernel copies in a separate thread: pieces in any order, each with its stamp, after `late`
    seconds; `launches` and `waits` are the codes that launching and waiting return."""

    def __init__(self, late=0.0, launches=0, waits=0):
        address, number, handle = ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p
        self.late, self.moves, self.launched, self.waited = late, queue.Queue(), 0, 0
        self.random = default_rng(2)

        def launch(function, *shape_and_more):
            self.launched += 1
            values = ctypes.cast(shape_and_more[8], ctypes.POINTER(ctypes.POINTER(address)))
            if not launches:
                self.moves.put([values[k][0] for k in range(5)])
            return launches

        def finish(stream):
            self.waited += 1
            if not waits:
                self.moves.join()
            return waits

        def nothing(*arguments):
            return 0

        types = [(handle,), (handle,), (handle, handle), (handle,), *[(address,) * 3 + (handle,)] * 2]
        types.append((handle, *[ctypes.c_uint] * 7, *[handle] * 3))
        functions = nothing, nothing, nothing, finish, nothing, nothing, launch
        self.calls = [ctypes.CFUNCTYPE(number, *t)(f) for t, f in zip(types, functions)]
        activate, *others, self.launch = (ctypes.cast(call, handle).value for call in self.calls)
        self.addresses = activate, 1, *others
        if not waits:
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self):
        while move := self.moves.get():
            time.sleep(self.late)
            target, source, n, stamps, serial = move
            for at in self.random.permutation(range(0, n, ring_code.PIECE)).tolist():
                ctypes.memmove(target + at, source + at, min(ring_code.PIECE, n - at))
                if stamps:
                    ctypes.c_uint64.from_address(stamps + 8 * (at // ring_code.PIECE)).value = serial
            self.moves.task_done()

    def ring(self, pool):
        """Return the result of `Pool.ring`, and the memory."""
        segment = 1 << 20
        memory = np.zeros(9 * segment + 64, np.uint8)
        begin = memory.ctypes.data + -memory.ctypes.data % 64
        moves = self.launch, 1, begin + 8 * segment, 2 * segment
        return *pool.ring(self.addresses, begin, segment, list(range(1, 9)), moves), memory


@pytest.mark.parametrize("late", [0.0, 0.01])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_copies_by_a_kernel_that_stamps_its_pieces(n_threads, late):
    """Every byte is copied, and no other, in whatever order pieces come, also if they come so late that the
    host waits for the driver."""
    pool, device, rng = Pool(n_threads), _Device(late), default_rng(1)
    state, _, down, memory = device.ring(pool)
    pool.start()
    for n in (ring_code.MANY, 262_145, 999_999, 1 << 20, 1_048_577, 2_000_001, 2 << 20):
        room = np.zeros(n + 32, np.uint8)
        there = room[-room.ctypes.data % 16 :][:n]
        for _ in range(3):
            source, back = rng.integers(0, 255, n, dtype=np.uint8), np.zeros(n + 2, np.uint8)
            with pool.lock:
                there[:] = source
                assert down(state, back.ctypes.data + 1, there.ctypes.data, n) == 0
            assert_array_equal(back[1:-1], source)
            assert not back[0] and not back[-1]
    assert device.launched == 21 and (device.waited or not late)
    device.moves.put(None)
    pool.close()


@pytest.mark.parametrize("failing", ["launches", "waits"])
@pytest.mark.parametrize("n", [1 << 18, 1 << 20])
def test_a_kernel_that_fails_ends_its_copy_with_a_code(failing, n):
    """If the device is lost its stamps never come."""
    pool, device = Pool(2), _Device(**{failing: 719})
    state, _, down, memory = device.ring(pool)
    pool.start()
    there, back = np.ones(n + 16, np.uint8), np.zeros(n, np.uint8)
    with pool.lock:
        assert down(state, back.ctypes.data, there.ctypes.data + -there.ctypes.data % 16, n) == 719
    assert not back.any()
    device.moves.put(None)
    pool.close()
