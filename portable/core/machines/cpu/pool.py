"""A native thread pool: loops over [begin, end) in chunks, without Python between the chunks.

The pool's functions (`pool_code.py`) use POSIX threads; their code is cached on disk like that of kernels.
The design has five parts:

* A launch OPENS a gate and closes it when its own share of chunks runs out. Workers enter an open gate if
  they arrive in time; the launching thread (worker 0) works too and waits only for workers that entered. A
  worker that the system has not scheduled costs nothing, so more threads than cores cost only context
  switches. Each worker has a separate cache line to record that it is inside, so that no thread waits for a
  line that all write.
* If a launch permits it, threads take a part of the remaining chunks at once, in decreasing numbers: few
  updates of the shared counter, and no long chunk at the end.
* Idle workers spin for SPIN_MICROSECONDS, so that successive launches cost no system call, then sleep on a
  condition; PATIENCE times as long after a sleep that was shorter than that. At most as many spin as there
  are cores.
* Sleepers are woken as a chain (the launch wakes two, each of these two more): its cost does not grow with
  the cores.
* A thread that is about to sleep first announces it, then checks its condition again; a thread that changes
  the condition does so first, then checks for sleepers. Both in sequentially consistent order, so that no
  wake-up is lost.

Where POSIX threads are missing (Windows), a thread pool of the standard library calls the functions through
ctypes.
"""

from ctypes import (
    CFUNCTYPE,
    addressof,
    byref,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
    create_string_buffer,
    memmove,
    memset,
)
import os
import signal
import threading
import warnings
import weakref

from ... import locks
from ...places.policy import check_index
from . import engine, native, pool_code, ring_code, stop, usable_cores
from .pool_code import posix

_RING_SPINS = 32  # a copy checks for its pieces this many times as long as an idle thread spins
# Linux's default for a main thread; musl and macOS give other threads a smaller stack than kernels may need
STACK_BYTES = 8 << 20


@locks.compile_once
def compiled():
    """Return the pool's functions, a pool_code.Code; None without POSIX threads."""
    return (
        pool_code.Code(native.compiled(pool_code.FUNCTIONS, "the pool", stop.add_symbols))
        if pool_code.threads()
        else None
    )


@locks.compile_once
def copies():
    """Return the addresses of a ring's functions, and the object that keeps them alive."""
    code = native.compiled(ring_code.FUNCTIONS, "the ring", stop.add_symbols)
    return code, *(code(fn.__name__) for fn in ring_code.FUNCTIONS)


class Pool:
    """`n_threads` threads, the caller among them, that share the chunks of one loop at a time.

    Parameters
    ----------
    n_threads : int, at least 1; may exceed the cores
    native : bool, default True
        False selects the fallback through the standard library, which is also used where POSIX threads are
        missing.

    Attributes
    ----------
    n_threads : int
    native : bool
    lock : threading.RLock, held during launches
    handle, run_address : int
        For compiled launchers: `run_address` is `void pool_run(ptr handle, ptr fn, ptr block, i64 begin, i64
        end, i64 chunk)` and does the same as `run`; chunk is not 0. The caller holds `lock` and has called
        `start` before: without it (so in the child of a fork) the calling thread does all the work itself,
        correctly but without the workers. Both are 0 where the pool is not native.
    """

    def __init__(self, n_threads, *, native=True):
        self.n_threads, self.handle = check_index(n_threads, "Pool: n_threads", 1), 0
        self.native = native and pool_code.threads()
        if self.native:
            self._memory = create_string_buffer(pool_code.INSIDE + 128 * (n_threads + 1))
            self.handle = (addressof(self._memory) + 127) & ~127
        self._forget_threads()
        _pools.add(weakref.ref(self, _pools.discard))

    @property
    def _code(self):
        """Compile the pool's functions at their first use, before `lock` is taken."""
        return compiled()

    @locks.lazy_attribute
    def _call(self):
        return _RUN(self.run_address)

    @property
    def run_address(self):
        return self._code.run if self.native else 0

    def run(self, fn, block, begin, end, chunk):
        """Call native `void fn(ptr block, i64 begin, i64 end, i64 worker)` for every chunk of [begin, end),
        and wait.

        Parameters
        ----------
        fn, block : int, addresses; `block` is passed on unchanged
        begin, end : int
        chunk : int, not 0
            Chunk k is [begin + k * chunk, min(begin + (k + 1) * chunk, end)), regardless of the thread that
            runs it: one call of `fn` each. Threads take the next chunk when they are free; `worker` is the
            thread's number, 0 for the caller. For a negative chunk, -chunk indices each, a thread takes
            several neighbouring chunks as one, fewer as the remaining chunks decrease.
        """
        call = self.native and self._call
        with self.lock:
            if not self._started:
                self._start()
            if call:
                call(self.handle, fn, block, begin, end, chunk)
            else:
                self._run_plain(engine.call(fn), block, begin, end, chunk)

    def copy(self, target, source, nbytes):
        """Copy bytes from one address to another, which do not overlap."""
        if not self.native:
            memmove(target, source, nbytes)
            return
        block = (c_int64 * 2)(target, source)
        least = (
            min(nbytes // self.n_threads, ring_code.HUGE) if nbytes > ring_code.LARGE else ring_code.COPIED
        )
        chunk = max(nbytes // (4 * self.n_threads), least) & -64
        self.run(self._code.copy, addressof(block), 0, nbytes, max(chunk, 64))

    def ring(self, calls, memory, segment_bytes, events, moves=(0,) * 4):
        """Return the state of a ring of pinned memory, and two functions that copy through it, to a device
        and back: of the state, target, source and bytes; they return the driver's code. Who copies 256 KiB
        or more holds `lock`, and has called `start`.

        Parameters
        ----------
        calls : tuple of int
            Addresses of the driver's cuCtxSetCurrent, of its context, and of its cuEventSynchronize,
            cuEventRecord, cuStreamSynchronize, cuMemcpyHtoDAsync and cuMemcpyDtoHAsync.
        memory : int, an address
        segment_bytes : int, at least those of half of the largest piece
        events : list of 8 handles, int, one a segment
        moves : tuple of 4 int
            For a kernel that copies from the device, with the parameters target, source, bytes, stamps and
            serial: the address of cuLaunchKernel, its handle, the address of stamps in pinned memory (eight
            bytes for each 16 KiB), and the largest number of bytes it copies; zeros without such a kernel.
        """
        code = self._code
        _, up, down, *parts, fill = copies()
        fill = code.copy if memory % 64 else fill
        words = *calls, fill, memory, segment_bytes, self.handle, self.n_threads, 0, 0, 0, 0
        serial, spins = 0, _RING_SPINS * code.spins
        numbers = *words, *events, *moves, serial, spins, code.run, code.copy, *parts
        return (c_int64 * len(numbers))(*numbers), _RING(up), _RING(down)

    def start(self):
        """Start the threads, unless they run already."""
        self.run_address  # noqa: B018  (compiled)
        with self.lock:
            if not self._started:
                self._start()

    def close(self):
        """End the threads; the next `run` or `start` makes new ones."""
        with self.lock, locks.uninterrupted():
            if self._finalizer:
                self._finalizer()
            self._forget_threads(self.lock)

    def _forget_threads(self, lock=None):
        """The state of a pool without threads: at birth, after `close` and in the child of a fork."""
        self.lock = lock or threading.RLock()  # a signal handler may launch while this thread still holds it
        self._started = False
        self._executor = self._finalizer = None
        if self.native:
            memset(self.handle, 0, pool_code.INSIDE + 128 * self.n_threads)
            posix("pthread_mutex_init")(c_void_p(self.handle + pool_code.MUTEX), None)
            for condition in (pool_code.WORK, pool_code.DONE):
                posix("pthread_cond_init")(c_void_p(self.handle + condition), None)

    @locks.uninterrupted()  # a thread that is not recorded would outlive its memory
    def _start(self):
        self._started = True
        if self.n_threads == 1:
            return
        if not self.native:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(self.n_threads - 1, "portable")
            # without waiting: the thread that collects may be one of them
            self._finalizer = weakref.finalize(self, self._executor.shutdown, False)
            return
        patience = 1000 * pool_code.PATIENCE * pool_code.SPIN_MICROSECONDS
        for place, number in (
            (pool_code.SPINS, self._code.spins),
            (pool_code.SHORT, patience),
            (pool_code.CORES, usable_cores()),
            (pool_code.BORN, 1),  # worker 0 is the caller
        ):
            _word(self.handle + place).value = number
        threads = _create_threads(self.n_threads - 1, self._code.worker, self.handle)
        _word(self.handle + pool_code.WORKERS).value = len(threads)
        self._finalizer = weakref.finalize(self, _end_threads, threads, self._code, self.handle, self._memory)
        if len(threads) < self.n_threads - 1:
            warnings.warn(
                f"threads: the system allowed {len(threads) + 1} of {self.n_threads} threads; launches "
                "use those.",
                RuntimeWarning,
                stacklevel=4,
            )

    def _run_plain(self, fn, block, begin, end, chunk):
        chunk = abs(chunk)
        lows = iter(range(begin, end, chunk))  # taking the next one is atomic under the interpreter's lock

        def work(worker):
            for low in lows:
                fn(block, low, min(low + chunk, end), worker)

        helpers = [self._executor.submit(work, worker) for worker in range(1, self.n_threads)]
        work(0)
        for helper in helpers:
            helper.result()


_RUN = CFUNCTYPE(None, *[c_void_p] * 3, *[c_int64] * 3)
_RING = CFUNCTYPE(c_int, c_void_p, *[c_int64] * 3)
_STOP = CFUNCTYPE(None, c_void_p)
_word = c_int64.from_address
_pools: set[weakref.ref] = set()  # as in locks.py


def _forget_threads():
    """In the child of a fork only the forking thread lives: its pools have no workers, their locks no
    holders."""
    for pool in filter(None, [found() for found in list(_pools)]):
        if pool._finalizer:
            pool._finalizer.detach()
        pool._forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def _create_threads(n_threads, function, argument):
    """Up to `n_threads` running POSIX threads; fewer where the system refuses more.

    Signals are for Python's threads: a worker that the machine has not scheduled would deliver one late.
    """
    attributes, threads = create_string_buffer(256), []  # pthread_attr_t has 56 to 64 bytes
    function, argument = c_void_p(function), c_void_p(argument)
    posix("pthread_attr_init")(attributes)
    posix("pthread_attr_setstacksize")(attributes, c_size_t(STACK_BYTES))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # new threads inherit it
    try:
        for _ in range(n_threads):
            thread = c_void_p()  # pthread_t is a pointer or an unsigned long
            if posix("pthread_create")(byref(thread), attributes, function, argument):
                break
            threads.append(thread)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    posix("pthread_attr_destroy")(attributes)
    return threads


@locks.uninterrupted()  # afterwards the memory and the code are freed
def _end_threads(threads, code, handle, memory):
    """Stop and join the workers, which use `memory` and `code`. Runs at the interpreter's exit, too."""
    if _word(handle + pool_code.GATE).value & 1:
        return  # exit while another Python thread is in a launch: the workers end with the process
    _STOP(code.stop)(handle)
    for thread in threads:
        posix("pthread_join")(thread, None)
