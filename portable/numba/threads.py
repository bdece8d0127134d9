"""The threads of the space "numba": those that numba's own prange runs on, whichever layer (tbb, omp, workqueue) it chose."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading

import numba
import numpy as np
from llvmlite import ir
from numba import cfunc, njit, prange, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

I64, PTR = ir.IntType(64), ir.PointerType()
ENTRY = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, I64])  # as backends/cpu/lower.py makes them
_int = types.int64


@intrinsic
def call(typingctx, function, block, begin, end, worker):
    """Run the entry function at an address."""

    def codegen(context, builder, signature, args):
        builder.call(builder.inttoptr(args[0], ENTRY.as_pointer()), [builder.inttoptr(args[1], PTR), *args[2:]])
        return context.get_dummy_value()

    return types.none(*[_int] * 5), codegen


@intrinsic
def _take(typingctx, counter, chunk):
    """The number in an array of one, which grows by a chunk, as one indivisible step."""

    def codegen(context, builder, signature, args):
        place = make_array(counter)(context, builder, args[0]).data
        return builder.atomic_rmw("add", place, args[1], "monotonic")

    return _int(counter, _int), codegen


def _layer(builder, name, result, *values):
    """Call a function of numba's threading layer by its name: an address in the code would keep numba from caching it."""
    function = builder.module.globals.get(name)
    function = function or ir.Function(builder.module, ir.FunctionType(result, [v.type for v in values]), name)
    return builder.call(function, values)


@intrinsic
def n_threads(typingctx):
    """How many threads the user left to numba."""

    def codegen(context, builder, signature, args):
        return _layer(builder, "get_num_threads", I64)

    return _int(), codegen


@intrinsic
def _set_n_threads(typingctx, n):
    def codegen(context, builder, signature, args):
        _layer(builder, "set_num_threads", ir.VoidType(), builder.trunc(args[0], ir.IntType(32)))
        return context.get_dummy_value()

    return types.none(_int), codegen


@njit(parallel=True, nogil=True, cache=True)
def _dealt(n, function, block, begin, end, chunk):
    """The chunks of [begin, end), each to the worker that is free first."""
    counter = np.array([begin])
    for worker in prange(n):
        low = _take(counter, chunk)
        while low < end:
            call(function, block, low, min(low + chunk, end), worker)
            low = _take(counter, chunk)


@njit(nogil=True)
def share(most, function, block, begin, end, chunk):
    """[begin, end) on at most so many threads, of those that the user left to numba; a chunk or less on this one."""
    mask = n_threads()
    n = min(most, mask)
    if n < 2 or end - begin <= chunk:
        call(function, block, begin, end, 0)
        return
    if n < mask:
        _set_n_threads(n)
    _dealt(n, function, block, begin, end, chunk)
    if n < mask:
        _set_n_threads(mask)


def layer():
    """The name of numba's threading layer, which the first parallel code of a process chooses."""
    numba.get_num_threads()
    return numba.threading_layer()


_RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
_CALL = types.void(*[_int] * 6)


@functools.cache
def _compiled():
    """What `Pool` calls: the launch on numba's threads, and the same on the calling thread alone."""
    shared = cfunc(_CALL, cache=True)(_shared)
    alone = cfunc(_CALL, cache=True)(_alone)
    return [(code.address, _RUN(code.address), code) for code in (shared, alone)]


def _shared(most, function, block, begin, end, chunk):
    share(most, function, block, begin, end, chunk)


def _alone(most, function, block, begin, end, chunk):
    call(function, block, begin, end, 0)


class Pool:
    """What backends/cpu/pool.py's Pool is, for at most `n_threads` of the threads that numba has."""

    native = True
    forked = False  # whether this process is the child of a fork, to which GNU's OpenMP gives no threads

    def __init__(self, n_threads):
        self.n_threads = self.handle = n_threads
        # The workqueue ends the process if two threads come at once; the other layers take turns themselves.
        self.lock = _turn if layer() == "workqueue" else contextlib.nullcontext()

    @property
    def run_address(self):
        return _compiled()[self.forked and layer() == "omp"][0]

    def start(self):
        """numba's threads start with its first parallel code."""

    def run(self, function, block, begin, end, chunk):
        """Call `function` for every chunk of [begin, end), and wait."""
        code = _compiled()[self.forked and layer() == "omp"][1]
        with self.lock:
            code(self.n_threads, function, block, begin, end, chunk)


_turn = threading.RLock()  # a signal handler may launch while this thread still holds it


def _after_fork():
    Pool.forked = True
    _turn._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
