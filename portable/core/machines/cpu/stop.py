"""Ctrl-C in a running kernel: compiled code looks at a flag, and ends where Python's handler raised.

    on_sigint   what the system calls: Python's own handler first, then the flag is up (the time, in seconds)
    look        in compiled code: a load and a branch; where the flag is up, `poll` says whether to leave
    poll        on the main thread, where it launched: Python's handlers run. One that raises ends this
                launch: its block is noted for the other workers, the exception is raised where the native
                call returns

A flag that is up means "ask", not "stop": whoever raises it without need does no harm. Other Python threads
that launch at the time go on, as signals are the main thread's. The exception is set as one from outside
(PyThreadState_SetAsyncExc), so a launch that nobody interrupts pays for no status.
"""

import ctypes
import os
import signal
import sys
import threading

import llvmlite.binding as llvm

from ... import locks
from . import engine, pool_code
from .engine import CONVENTION, HEARS

_STATE = (ctypes.c_int64 * 48)()  # what many threads read lies apart from what nobody writes next to it
_WORDS = {"flag": 16, "ended": 17, "python": 32, "main": 33}
_FUNCTIONS = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyErr_CheckSignals",
    "PyErr_Fetch",
    "PyThreadState_SetAsyncExc",
    "PyThread_get_thread_ident",
    "Py_DecRef",
)

_IR = """
@portable_flag = external global i64
@portable_ended = external global ptr
@portable_python = external global ptr
@portable_main = external global i64
declare i64 @time(ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare i32 @PyThreadState_SetAsyncExc(i64, ptr)
declare i64 @PyThread_get_thread_ident()
declare void @Py_DecRef(ptr)

define void @on_sigint(i32 %signal) {
  %old = load ptr, ptr @portable_python
  call void %old(i32 %signal)
  %now = call i64 @time(ptr null)
  store atomic i64 %now, ptr @portable_flag seq_cst, align 8 ; now that Python knows
  ret void
}

; whether the launch with this block is to end
define CONVENTION i32 @portable_poll(ptr %block, i64 %worker) {
entry:
  %raised = load atomic i64, ptr @portable_flag seq_cst, align 8
  %id = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @portable_main
  %is.main = icmp eq i64 %id, %main
  br i1 %is.main, label %ask, label %other
other:
  %launched = icmp eq i64 %worker, 0
  br i1 %launched, label %elsewhere, label %helper
helper:
  %ended = load atomic ptr, ptr @portable_ended seq_cst, align 8
  %this = icmp eq ptr %ended, %block
  %leave = zext i1 %this to i32
  ret i32 %leave
elsewhere: ; the flag is up for the main thread; when that has seen it, or runs no kernel, it comes down here
  %now = call i64 @time(ptr null)
  %age = sub i64 %now, %raised
  %old = icmp sgt i64 %age, 1
  br i1 %old, label %down, label %on
down:
  %swapped = cmpxchg ptr @portable_flag, i64 %raised, i64 0 seq_cst seq_cst
  ret i32 0
ask:
  %type = alloca ptr
  %value = alloca ptr
  %trace = alloca ptr
  store atomic i64 0, ptr @portable_flag seq_cst, align 8
  %gil = call i32 @PyGILState_Ensure()
  %failed = call i32 @PyErr_CheckSignals()
  %stop = icmp ne i32 %failed, 0
  br i1 %stop, label %raise, label %leave.it
raise:
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  %own = load ptr, ptr %type
  call i32 @PyThreadState_SetAsyncExc(i64 %id, ptr %own)
  %its.value = load ptr, ptr %value
  %its.trace = load ptr, ptr %trace
  call void @Py_DecRef(ptr %own)
  call void @Py_DecRef(ptr %its.value)
  call void @Py_DecRef(ptr %its.trace)
  %when = call i64 @time(ptr null)
  store atomic ptr %block, ptr @portable_ended seq_cst, align 8
  store atomic i64 %when, ptr @portable_flag seq_cst, align 8 ; for the other workers
  br label %leave.it
leave.it:
  call void @PyGILState_Release(i32 %gil)
  ret i32 %failed
on:
  ret i32 0
}

; the same, for what calls kernels: between chunks of one launch, and between launches
define i1 @portable_ends(ptr %block, i64 %worker) {
  %flag = load atomic i64, ptr @portable_flag monotonic, align 8
  %calm = icmp eq i64 %flag, 0
  br i1 %calm, label %on, label %look
look:
  %ended = load atomic ptr, ptr @portable_ended seq_cst, align 8
  %this = icmp eq ptr %ended, %block
  br i1 %this, label %end, label %ask
ask:
  %answer = call CONVENTION i32 @portable_poll(ptr %block, i64 %worker)
  %raised = icmp ne i32 %answer, 0
  br i1 %raised, label %end, label %on
on:
  ret i1 false
end:
  ret i1 true
}

; A launch begins: what ended at this address was another one.
define void @portable_begins(ptr %block) {
  %ended = load atomic ptr, ptr @portable_ended seq_cst, align 8
  %stale = icmp eq ptr %ended, %block
  br i1 %stale, label %forget, label %out
forget:
  store atomic ptr null, ptr @portable_ended seq_cst, align 8
  br label %out
out:
  ret void
}
""".replace("CONVENTION", CONVENTION)
_DEAF = """
define i1 @portable_ends(ptr %block, i64 %worker) {
  ret i1 false
}

define void @portable_begins(ptr %block) {
  ret void
}
"""


@locks.once
def known():
    """Make the functions above known by the names that compiled code has for them; the call of sequences of
    launches, with ctypes.byref(table), which is not converted. Made once."""
    if HEARS:
        for name, k in _WORDS.items():
            llvm.add_symbol(f"portable_{name}", ctypes.addressof(_STATE) + 8 * k)
        functions = {name: getattr(ctypes.pythonapi, name) for name in _FUNCTIONS}
        for name, function in (functions | {"time": pool_code.posix("time")}).items():
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
    code = engine.load((_IR if HEARS else _DEAF) + engine.SEQUENCE, "Ctrl-C", level=None)
    for name in ("portable_ends", "portable_begins", *["portable_poll"] * HEARS):
        llvm.add_symbol(name, code(name))
    if HEARS:
        _listen(code("on_sigint"))
    call = ctypes.CFUNCTYPE(None)(code("sequence"))
    call.code = code  # kept alive
    return call


def _listen(handler):
    """Have a native handler stand in front of Python's own from the next `arm` on."""
    _STOOD.append(handler)
    _note_main()
    os.register_at_fork(after_in_child=_note_main)
    locks.arming.append(arm)
    locks.ending.append(_forget)
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        # a notebook sets its handler anew for each cell
        shell.events.register("pre_run_cell", lambda *info: arm())


def _note_main():
    _STATE[_WORDS["main"]] = threading.main_thread().ident


def _forget():
    """The main thread's launch is over: another one's block may lie at the same address."""
    if threading.get_ident() == _STATE[_WORDS["main"]]:
        _STATE[_WORDS["ended"]] = 0


def arm():
    """Stand in front of Python's own handler of Ctrl-C, if there is one: setting another takes this away."""
    now = _getsig(signal.SIGINT)
    if now not in _STOOD and callable(signal.getsignal(signal.SIGINT)):
        _STATE[_WORDS["python"]] = now
        _setsig(signal.SIGINT, _STOOD[-1])


_getsig, _setsig = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
_getsig.argtypes, _getsig.restype = [ctypes.c_int], ctypes.c_void_p
_setsig.argtypes, _setsig.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
_STOOD = [None, 0, 1]  # nobody, nobody, one that ignores it; and ours, once it is known
