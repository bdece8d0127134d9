"""numba's threads, those of its prange, under portable's launches: for any threading layer of numba's.

A launch distributes its chunks to workers, each to the first free one. Where numba's threads may not be used,
the calling thread does all the work itself, with the same bits: in the child of a fork, to which GNU's OpenMP
gives none; on the workqueue, which ends the process at two concurrent requests, if another launch is running,
and for callers without Python's lock (they may be inside a prange).
"""

import contextlib
import ctypes
from functools import partial
import os

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import cfunc, njit, prange, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from ..core import cache, locks
from ..core.language.words import int32
from ..core.machines.cpu import native
from ..errors import SpaceUnavailableError
from .types import I64, PTR

ENTRY = ir.FunctionType(ir.VoidType(), [PTR, I64, I64, I64])  # as core/machines/cpu/lower.py emits them
MOST = 2**62  # threads: all of numba's
CHUNKS_A_THREAD = 8  # more of them, and all end nearer to each other
_int = types.int64

# Callers that may request threads: all (0), one at a time that holds Python's lock (1), none (2); and how
# many of the second kind have asked.
_STATE = (ctypes.c_int64 * 2)()
_state, _holds = native.place_of("portable_threads"), native.c("PyGILState_Check")


# As functions: code in numba's cache finds them by name, whereas an address would be invalid in another
# process.
def ask():
    """Return 1 for a caller that may request threads, in the language of native.py."""
    who = native.load(_state())
    if who == 1 and int32(_holds()) != 0:
        return native.add(_state() + 8, 1) == 0
    return who == 0


def done():
    """Let the next caller ask."""
    native.write(_state() + 8, 0)


def ready():
    """Start numba's threads; also called before a launch's code is loaded from numba's cache."""
    try:
        numba.get_num_threads()
    except ValueError as error:  # in several lines, the first of which gives the reason
        layer = os.environ.get("NUMBA_THREADING_LAYER", numba.config.THREADING_LAYER)
        raise SpaceUnavailableError(
            f"space 'numba': numba cannot load its threading layer '{layer}': {' '.join(str(error).split())}"
        ) from None
    for name in ("ask", "done"):
        llvm.add_symbol(f"portable_{name}_for_threads", _asking()(name))
    if not _told:
        _set_mode(2 if _orphaned else int(numba.threading_layer() == "workqueue"))


@locks.compile_once
def _asking():
    llvm.add_symbol("portable_threads", ctypes.addressof(_STATE))
    return native.compiled((ask, done), "who may ask")


def _set_mode(who):
    _STATE[:] = who, 0
    _told[:] = [who]


_told = []  # the mode of requests, once it has been set
_orphaned = []  # not empty in the child of a fork without numba's threads


def _named(builder, name, result, *values):
    """Call a C function by its name: an address in the code would keep numba from caching it."""
    function = builder.module.globals.get(name)
    function = function or ir.Function(
        builder.module, ir.FunctionType(result, [v.type for v in values]), name
    )
    return builder.call(function, values)


@intrinsic
def n_threads(typingctx):
    """Return the number of threads that the user allows numba."""
    return _int(), lambda context, builder, signature, args: _named(builder, "get_num_threads", I64)


@intrinsic
def _set_n_threads(typingctx, n):
    def codegen(context, builder, signature, args):
        _named(builder, "set_num_threads", ir.VoidType(), builder.trunc(args[0], ir.IntType(32)))
        return context.get_dummy_value()

    return types.none(_int), codegen


@intrinsic
def _ask(typingctx):
    return _int(), lambda context, builder, signature, args: _named(builder, "portable_ask_for_threads", I64)


@intrinsic
def _done(typingctx):
    def codegen(context, builder, signature, args):
        _named(builder, "portable_done_for_threads", ir.VoidType())
        return context.get_dummy_value()

    return types.none(), codegen


@intrinsic
def call(typingctx, function, block, begin, end, worker):
    """Run the entry function at an address."""

    def codegen(context, builder, signature, args):
        builder.call(
            builder.inttoptr(args[0], ENTRY.as_pointer()), [builder.inttoptr(args[1], PTR), *args[2:]]
        )
        return context.get_dummy_value()

    return types.none(*[_int] * 5), codegen


@intrinsic
def _take(typingctx, counter, chunk):
    """Return the number in an array of one, which grows by a chunk, as one indivisible step."""

    def codegen(context, builder, signature, args):
        return builder.atomic_rmw(
            "add", make_array(counter)(context, builder, args[0]).data, args[1], "monotonic"
        )

    return _int(counter, _int), codegen


def _compile_cached(compiler, function):
    """Return a function compiled for numba's cache, if it has a folder, and portable may store code
    on disk.
    """
    if cache.folder():
        with contextlib.suppress(RuntimeError):
            return compiler(cache=True)(function)
    return compiler()(function)


@partial(_compile_cached, partial(njit, parallel=True, nogil=True))
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
    """Distribute [begin, end) over at most `most` of the threads that the user allows numba; a single chunk
    runs in the calling thread. A negative chunk is multiplied so that a thread takes CHUNKS_A_THREAD of them.
    """
    if chunk < 0:
        chunk *= -max(1, (end - begin) // (CHUNKS_A_THREAD * most * -chunk))
    mask = n_threads()
    n = min(most, mask)
    if end - begin <= chunk or n < 2 or not _ask():
        call(function, block, begin, end, 0)
        return
    if n < mask:
        _set_n_threads(n)
    _dealt(n, function, block, begin, end, chunk)
    if n < mask:
        _set_n_threads(mask)
    _done()


def layer():
    """Return the name of numba's threading layer, which the first parallel code of a process chooses."""
    ready()
    return numba.threading_layer()


_ARGUMENTS = None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3


@locks.compile_once
def _compiled():
    """Return the address of `share`, and a function that calls it: with Python's lock if only its holders get
    threads.
    """
    ready()
    code = _compile_cached(partial(cfunc, types.void(*[_int] * 6)), share.py_func)
    kind = ctypes.PYFUNCTYPE if numba.threading_layer() == "workqueue" else ctypes.CFUNCTYPE
    return code.address, kind(*_ARGUMENTS)(code.address), code


class Pool:
    """Pool like that of the CPU's machines, for at most `n_threads` of numba's threads."""

    native = True

    def __init__(self, n_threads):
        self.n_threads = self.handle = n_threads
        self.lock = contextlib.nullcontext()

    @property
    def run_address(self):
        return _compiled()[0]

    def start(self):
        """Do nothing: numba starts its threads with its first parallel code."""

    def run(self, function, block, begin, end, chunk):
        """Call `function` for every chunk of [begin, end), and wait; between groups of many chunks Python
        handles Ctrl-C.
        """
        step = 64 * self.n_threads * abs(chunk)
        for low in range(begin, end, step):
            _compiled()[1](self.n_threads, function, block, low, min(low + step, end), chunk)


def _in_the_child():
    with contextlib.suppress(ValueError):  # no parallel code has run: the child will start its threads itself
        if numba.threading_layer() == "omp":
            _orphaned[:] = [True]
    if _told:  # reset: the busy thread does not exist here
        _set_mode(2 if _orphaned else _told[0])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)
