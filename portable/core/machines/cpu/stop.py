"""Ctrl-C in a running kernel: compiled code polls a flag, and ends if Python's handler raised.

    on_sigint   the signal handler: calls Python's own handler, then sets the flag to the time in seconds
    poll_flag   in compiled code: a load and a branch; if the flag is set, `poll` decides whether to leave
    poll        on the main thread, where it launched: Python's handlers run. One that raises ends this
                launch: its block is noted for the other workers, the exception is raised where the native
                call returns

A set flag requests a check, not a stop: setting it without need does no harm. Other Python threads that
launch at the time continue, as signals belong to the main thread. The exception is set asynchronously
(PyThreadState_SetAsyncExc), so an uninterrupted launch has no cost for a status.
"""

import ctypes
import os
import signal
import sys
import threading

import llvmlite.binding as llvm

from ... import locks
from ...language.words import int32
from . import native, pool_code
from .engine import CONVENTION, HEARS
from .native import c, call, load, pair, place_of, read, stack, swap, words, write

# words that many threads read are apart from neighbouring allocations that change
_STATE = (ctypes.c_int64 * 48)()
_WORDS = {"flag": 16, "ended": 17, "python": 32, "main": 33}
_C_FUNCTIONS = _hold, _release, _check, _fetch, _raise, _thread, _drop = [
    *map(
        c,
        "PyGILState_Ensure PyGILState_Release PyErr_CheckSignals PyErr_Fetch PyThreadState_SetAsyncExc"
        " PyThread_get_thread_ident Py_DecRef".split(),
    )
]
_time = c("time")
_flag, _ended, _python, _main = (place_of(f"portable_{name}") for name in _WORDS)
_three, _six = words(3), words(6)


def on_sigint(number):
    call(load(_python()), number)
    write(_flag(), _time(0))  # now that Python has recorded the signal


def poll(block, worker):
    """Return True if the launch with this block is to end."""
    raised, thread = read(_flag()), _thread()
    if thread != load(_main()):
        if worker != 0:
            return read(_ended()) == block
        # the flag is set for the main thread; when that has handled it, or runs no kernel, the flag is
        # cleared here
        if _time(0) - raised > 1:
            swap(_flag(), raised, 0)
        return False
    write(_flag(), 0)
    held = _hold()
    failed = int32(_check()) != 0
    if failed:
        error = stack(3)
        _fetch(error, error + 8, error + 16)
        kind, value, trace = _three(error)
        _raise(thread, kind)
        _drop(kind)
        _drop(value)
        _drop(trace)
        write(_ended(), block)
        write(_flag(), _time(0))  # for the other workers
    _release(held)
    return failed


poll.convention = CONVENTION


def ends(block, worker):
    """Return the same for code that calls kernels: between chunks of one launch, and between launches."""
    return read(_flag()) != 0 and (read(_ended()) == block or poll(block, worker))


def begins(block):
    """Reset the mark of an interrupted launch if an earlier launch had the same address."""
    if read(_ended()) == block:
        write(_ended(), 0)


def no_stop(block, worker):
    return False


def no_handler(block):
    pass


if not HEARS:
    ends, begins = no_stop, no_handler


def sequence(calls):
    """Run the launches of a plan or graph, from the address of: their number, the pool's `run`, and for
    each launch (function, block, begin, end, chunk, pool or 0)."""
    n, run = pair(calls)
    row = calls + 16
    while n > 0:
        fn, block, begin, end, chunk, pool = _six(row)
        begins(block)
        if pool != 0:
            call(run, pool, fn, block, begin, end, chunk)
        else:
            call(fn, block, begin, end, 0)
        if ends(block, 0):
            return
        n, row = n - 1, row + 48


@locks.compile_once
def add_symbols():
    """Make the functions above known by the names that compiled code has for them; the call of sequences of
    launches, with ctypes.byref(table), which is not converted. Made once."""
    if HEARS:
        for name, k in _WORDS.items():
            llvm.add_symbol(f"portable_{name}", ctypes.addressof(_STATE) + 8 * k)
        for function in _C_FUNCTIONS:
            address = ctypes.cast(getattr(ctypes.pythonapi, function.__name__), ctypes.c_void_p).value
            llvm.add_symbol(function.__name__, address)
        llvm.add_symbol("time", ctypes.cast(pool_code.posix("time"), ctypes.c_void_p).value)
    heard = (poll, on_sigint) if HEARS else ()
    symbols = dict(zip(("ends", "begins", "poll"), (ends, begins, *heard)))
    code = native.compiled((ends, begins, sequence, *heard), "Ctrl-C")
    for name, function in symbols.items():
        llvm.add_symbol(f"portable_{name}", code(function.__name__))
    if HEARS:
        _install_handler(code("on_sigint"))
    call = ctypes.CFUNCTYPE(None)(code("sequence"))
    call.code = code  # kept alive
    return call


def _install_handler(handler):
    """Install a native handler in front of Python's own from the next `arm` on."""
    _STOOD.append(handler)
    _note_main()
    os.register_at_fork(after_in_child=_note_main)
    locks.arming.append(arm)
    locks.ending.append(_forget)
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        # a notebook sets its handler again for each cell
        shell.events.register("pre_run_cell", lambda *info: arm())


def _note_main():
    _STATE[_WORDS["main"]] = threading.main_thread().ident


def _forget():
    """The main thread's launch is over: another one's block may lie at the same address."""
    if threading.get_ident() == _STATE[_WORDS["main"]]:
        _STATE[_WORDS["ended"]] = 0


def arm():
    """Install the native handler in front of Python's handler of Ctrl-C, if there is one: setting another
    handler removes it.
    """
    now = _getsig(signal.SIGINT)
    if now not in _STOOD and callable(signal.getsignal(signal.SIGINT)):
        _STATE[_WORDS["python"]] = now
        _setsig(signal.SIGINT, _STOOD[-1])


_getsig, _setsig = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
_getsig.argtypes, _getsig.restype = [ctypes.c_int], ctypes.c_void_p
_setsig.argtypes, _setsig.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
_STOOD = [None, 0, 1]  # no handler, default, ignored (SIG_IGN); and the native handler, once it is installed
