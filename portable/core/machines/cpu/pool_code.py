"""The thread pool's functions over POSIX threads, in the language of native.py, and the layout of its state.
`pool.py` explains the algorithm.
"""

import ctypes
import functools
import time

import llvmlite.binding as llvm

from .native import add, c, call, load, pair, pause, read, stack, store, words, write

# Time that a worker without work spins before it sleeps; and the factor by which it is lengthened after a
# short sleep: an interval between launches is likely to be as short as the one before.
SPIN_MICROSECONDS, PATIENCE = 30, 10
# a thread that may take many chunks at once takes one part in ROUNDS of its share of the remaining chunks
ROUNDS = 4

# Offsets in the pool's state. Words that different threads write are 128 bytes apart: prefetchers fetch lines
# in pairs. The gate is open if it is odd. A worker first records that it enters, and then checks the gate
# again; a launch first closes it, and then waits until no worker is inside: in sequentially consistent order,
# so that one of them sees the other's write. 64 bits do not overflow in the life of a process.
GATE = 0
NEXT = 128  # the next chunk to be taken
# fn, block, begin, end, chunk, number of the last chunk, divisor of the share that one thread takes
JOB = 256
SLEEPERS = 384  # workers that sleep, or are about to
WAITING = 392  # 1: the launching thread sleeps, or is about to
STOP = 400
SPINS = 408  # pauses before sleep
WORKERS = 416  # threads in addition to the caller
BORN = 424  # counter that numbers the threads
CORES = 432
SHORT = 448  # nanoseconds of a sleep after which a worker has patience
BUSY = 440  # 1: a launch is under way; a signal handler that runs in it may launch again
MUTEX = 512  # this and the conditions: the largest known have 64 bytes
WORK = 640  # condition on which sleeping workers wait
DONE = 768  # condition on which a sleeping launch waits
INSIDE = 896  # of worker k, 128 k bytes further on: nonzero if it may be inside

SECOND = 1_000_000_000  # in nanoseconds
_job = words(7)
_lock, _unlock = c("pthread_mutex_lock"), c("pthread_mutex_unlock")
_sleep, _doze = c("pthread_cond_wait"), c("pthread_cond_timedwait")
_signal, _broadcast = c("pthread_cond_signal"), c("pthread_cond_broadcast")
_clock, memcpy = c("clock_gettime"), c("memcpy")
_C_FUNCTIONS = _lock, _unlock, _sleep, _doze, _signal, _broadcast, _clock, memcpy
ends, _begins = c("portable_ends"), c("portable_begins")  # stop.py's


def pool_pause(spins):
    while spins > 0:
        pause()
        spins -= 1


def time_ns():
    """Return the time of day in nanoseconds."""
    time = stack(2)
    _clock(0, time)
    seconds, rest = pair(time)
    return seconds * SECOND + rest


def enters(gate, seen):
    """Return True if a worker whose last launch was `seen` may enter: the gate is open, and each launch is
    entered once.
    """
    return (gate & 1) == 1 and gate != seen


def work(pool, worker):
    """Run chunks until none is left. Chunk k is [begin + k * chunk, ...), regardless of the thread that runs
    it. A thread takes one in `per` of the remaining chunks at once, at least one, and runs them as one: all
    threads finish at about the same time.
    """
    fn, block, begin, end, chunk, last, per = _job(pool + JOB)
    taken = read(pool + NEXT)  # a lower bound
    while taken <= last:
        if ends(block, worker):
            return
        n = max((last - taken) // per, 1)
        k = add(pool + NEXT, n)
        taken = k + n
        if k <= last:
            call(fn, block, begin + k * chunk, end if taken > last else begin + taken * chunk, worker)


def shared(pool):
    """Return True if a worker is inside."""
    k = load(pool + WORKERS)
    while k > 0:
        if read(pool + INSIDE + 128 * k):
            return True
        k -= 1
    return False


def wake(pool):
    """Wake up to two sleepers."""
    if read(pool + SLEEPERS) > 0:
        _lock(pool + MUTEX)
        _signal(pool + WORK)
        _signal(pool + WORK)
        _unlock(pool + MUTEX)


def doze(pool, block):
    """Sleep for a short time: a worker may be in an endless loop, and only this thread polls for Ctrl-C."""
    time = stack(2)
    _clock(0, time)
    seconds, rest = pair(time)
    rest += SECOND // 20
    store(time, seconds + rest // SECOND, rest % SECOND)
    _doze(pool + DONE, pool + MUTEX, time)
    _unlock(pool + MUTEX)
    ends(block, 0)
    _lock(pool + MUTEX)


def wait(pool, block):
    """Wait until no worker is inside."""
    spins = load(pool + SPINS)
    while spins and shared(pool):
        pause()
        spins -= 1
    if shared(pool):
        _lock(pool + MUTEX)
        write(pool + WAITING, 1)
        while shared(pool):
            doze(pool, block)
        write(pool + WAITING, 0)
        _unlock(pool + MUTEX)


def pool_run(pool, fn, block, begin, end, step):
    """Run a launch; `step`: the indices of a chunk; negative if a thread may take several chunks at once."""
    if begin >= end:
        return
    if load(pool + BUSY):
        call(fn, block, begin, end, 0)
        return
    store(pool + BUSY, 1)
    _begins(block)
    workers, chunk, per = load(pool + WORKERS), step, 1 << 62
    if step < 0:
        chunk, per = -step, (workers + 1) * ROUNDS
    last = (end - begin - 1) // chunk
    store(pool + JOB, fn, block, begin, end, chunk, last, per)
    store(pool + NEXT, 0)
    if workers and last:
        add(pool + GATE, 1)
        wake(pool)
        work(pool, 0)
        add(pool + GATE, 1)
        wait(pool, block)
    else:
        work(pool, 0)
    store(pool + BUSY, 0)


def sleep(pool, seen):
    """Sleep until a launch may be entered; True if the pool ends."""
    _lock(pool + MUTEX)
    add(pool + SLEEPERS, 1)
    if not (read(pool + STOP) or enters(read(pool + GATE), seen)):
        _sleep(pool + WORK, pool + MUTEX)
    add(pool + SLEEPERS, -1)
    stop = read(pool + STOP)
    _unlock(pool + MUTEX)
    return stop


def wake_launch(pool):
    """Wake the launch, if it sleeps."""
    if read(pool + WAITING):
        _lock(pool + MUTEX)
        _signal(pool + DONE)
        _unlock(pool + MUTEX)


def pool_worker(pool):
    worker = add(pool + BORN, 1)
    inside = pool + INSIDE + 128 * worker
    few = load(pool + SPINS) if worker < load(pool + CORES) else 0
    seen, spins = 0, few
    while True:
        left, gate = spins, read(pool + GATE)
        while left and not enters(gate, seen):
            pause()
            left, gate = left - 1, read(pool + GATE)
        if not enters(gate, seen):
            asleep = time_ns()
            if sleep(pool, seen):
                return
            # too late for this launch, perhaps, but not for the next
            spins = few * PATIENCE if time_ns() - asleep < load(pool + SHORT) and spins == few else few
            gate = read(pool + GATE)
            if enters(gate, seen):
                wake(pool)
        if enters(gate, seen):
            write(inside, 1)
            gate = read(pool + GATE)
            if enters(gate, seen):  # else it was closed meanwhile
                work(pool, worker)
                seen = gate
            write(inside, 0)
            wake_launch(pool)


def pool_copy(block, begin, end, worker):
    """Copy bytes [begin, end) from the second address of the block to the first."""
    target, source = pair(block)
    memcpy(target + begin, source + begin, end - begin)


def pool_stop(pool):
    _lock(pool + MUTEX)
    write(pool + STOP, 1)
    _broadcast(pool + WORK)
    _unlock(pool + MUTEX)


FUNCTIONS = pool_run, pool_worker, pool_stop, pool_copy, pool_pause


@functools.cache
def threads():
    """Return True if there are POSIX threads; registers the C functions."""
    try:
        for function in _C_FUNCTIONS:
            llvm.add_symbol(function.__name__, ctypes.cast(posix(function.__name__), ctypes.c_void_p).value)
    except (AttributeError, OSError, TypeError):  # TypeError: Windows has no CDLL(None)
        return False
    return True


class Code:
    """Addresses of the pool's functions: `run`, `worker`, `stop`, `copy`; `spins`: pauses before sleep.

    Parameters
    ----------
    code : function, name -> address, which keeps them in memory
    """

    def __init__(self, code):
        self.code = code
        self.run, self.worker, self.stop, self.copy, pause_many = (code(fn.__name__) for fn in FUNCTIONS)
        self.spins = _spins(ctypes.CFUNCTYPE(None, ctypes.c_int64)(pause_many))


@functools.cache
def _library():
    return ctypes.CDLL(None)


def posix(name):
    """Return the C library's function `name`; AttributeError or OSError if it does not exist."""
    return getattr(_library(), name)


def _spins(pause_many):
    """Return the number of pauses that last SPIN_MICROSECONDS: one takes 10 to 140 cycles, depending on
    the processor."""
    n, shortest = 1000, 1.0
    for _ in range(3):
        begin = time.perf_counter()
        pause_many(n)
        shortest = min(shortest, time.perf_counter() - begin)
    return max(1, int(n * SPIN_MICROSECONDS * 1e-6 / shortest))
