"""Locks that a child of a fork finds free, and stretches of work that Ctrl-C does not break in the middle."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import signal
import sys
import threading
import weakref

_all = weakref.WeakSet()


class Lock:
    """A lock that its holder may take again: in a signal handler, or where the garbage collector calls back.

    `with lock.held:` takes it without a call of Python's own, for what is timed in fractions of a
    microsecond.
    """

    __slots__ = ("held", "__weakref__")

    def __init__(self):
        self.held = threading.RLock()
        _all.add(self)

    def __enter__(self):
        self.held.acquire()

    def __exit__(self, *error):
        self.held.release()

    def renew(self):
        """Forget who holds it: a thread that the child of a fork does not have."""
        self.held = threading.RLock()


class Compiling(Lock):
    """The lock of a compiler; numba's own, if there is one, is taken before it: each compiles functions of
    the other."""

    __slots__ = ("others",)

    def __init__(self):
        super().__init__()
        self.others = []

    def __enter__(self):
        other = getattr(
            sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", contextlib.nullcontext()
        )
        other.__enter__()
        super().__enter__()
        self.others.append(other)

    def __exit__(self, *error):
        other = self.others.pop()
        super().__exit__()
        other.__exit__(None, None, None)

    def renew(self):
        super().renew()
        while self.others:
            self.others.pop().__exit__(None, None, None)


compiling = Compiling()  # LLVM's modules and the cache of a kernel's code are for one thread at a time
_llvms = contextlib.ExitStack()  # llvmlite's lock, while a fork holds it


def _before_fork():
    """Nobody forks in the middle of a compilation, nor of another call of LLVM: who would open its locks?"""
    compiling.__enter__()
    # each call of LLVM takes it, also one of a thread that lets go of a kernel
    if lib := getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None):
        _llvms.enter_context(lib._lock)


def _after_in_child():
    _llvms.close()
    for lock in _all:
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_in_child)
    os.register_at_fork(after_in_parent=lambda: (_llvms.close(), compiling.__exit__()))


def _require_interpreter():
    """ImportError where native code cannot tell threads apart, or no lock orders what Python does."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = api.PyInterpreterState_Main.restype = ctypes.c_void_p
    if api.PyInterpreterState_Get() != api.PyInterpreterState_Main():
        raise ImportError(
            "portable runs in the main interpreter of a process, and this is a subinterpreter; "
            "start a process instead"
        )
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError(
            "portable needs Python's global lock; start this free-threaded Python with PYTHON_GIL=1"
        )


_require_interpreter()


def alone(function):
    """A function that compiles: one at a time in the process, never amid a fork or broken off by Ctrl-C."""

    @functools.wraps(function)
    def locked(*args, **options):
        with compiling, uninterrupted(), _uncollected():
            return function(*args, **options)

    return locked


def once(function):
    """A function that compiles, `alone`: what it gives is kept, and is one and the same for threads that ask
    side by side. Of two, the one that is dropped would take its code along, whose address a thread may
    have."""
    return functools.cache(alone(functools.cache(function)))


@contextlib.contextmanager
def _uncollected():
    """Spare the garbage collector what a compilation makes: half a million objects, all in use until it
    ends."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


# what has running kernels hear of Ctrl-C, and forget one that ended so, of machines that can
arming, ending = [], []


def arm():
    """Have running kernels hear of Ctrl-C from now on: a program may have set a handler of its own."""
    for stand in arming:
        stand()


@contextlib.contextmanager
def uninterrupted():
    """Put a KeyboardInterrupt off to the end of the block, which hands objects over to native code."""
    if threading.current_thread() is not threading.main_thread() or not callable(
        signal.getsignal(signal.SIGINT)
    ):
        yield
        return
    asked = []
    before = signal.signal(signal.SIGINT, lambda *args: asked.append(args))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        arm()
        if asked:
            before(*asked[0])
