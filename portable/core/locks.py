"""Locks that are free in the child of a fork, and compilations, which Ctrl-C interrupts only between two
parts.

A thread that holds one of these locks acquires others only in this order; tests/hostile/order.py checks it:

    1  of a plan, a graph, a count, the checked space, a device's launches, its staged copies
    2  numba's lock of compilers, then `compiling`
    3  Python's own of a module that is imported: so no module compiles in its body
    4  of a pool's launch, a device's captures, llvmlite: a holder neither compiles nor imports
"""

import contextlib
import ctypes
import functools
import gc
import os
import signal
import sys
import threading
import time
import weakref

# References with a callback in C: a KeyboardInterrupt raised in a Python callback, as WeakSet has, is lost.
_all: set[weakref.ref] = set()


class Lock:
    """A lock that its holder may take again: in a signal handler, or where the garbage collector calls back.

    `with lock.held:` acquires it without a Python-level call, for operations that take fractions of a
    microsecond.
    """

    __slots__ = ("held", "__weakref__")

    def __init__(self):
        self.held = threading.RLock()
        _all.add(weakref.ref(self, _all.discard))

    def __enter__(self):
        self.held.acquire()

    def __exit__(self, *error):
        self.held.release()

    def renew(self):
        """Forget a holder that the child of a fork does not have: another thread than the one that forked."""
        if not self.held._is_owned():
            self.held = threading.RLock()


class Compiling(Lock):
    """The lock of a compiler; numba's, if there is one, is acquired before it: each compiles functions of the
    other. `began`: time in seconds; `due`: time of the next check for Ctrl-C; `slow`: True for a long
    compilation; `reported`: the kernel of the last message on that.
    """

    __slots__ = ("others", "began", "due", "slow", "reported")

    def __init__(self):
        super().__init__()
        self.others, self.reported, self.due = [], None, 0.0

    def __enter__(self):
        other = contextlib.nullcontext()
        if not self.held._is_owned():  # else numba's would be acquired after this one
            other = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", other)
        other.__enter__()
        super().__enter__()
        if not self.others:
            self.began, self.slow = time.monotonic(), False
        self.others.append(other)

    def __exit__(self, *error):
        other = self.others.pop()
        super().__exit__()
        other.__exit__(None, None, None)


compiling = Compiling()  # LLVM's modules and the cache of a kernel's code are for one thread at a time
_llvms = contextlib.ExitStack()  # llvmlite's lock, while a fork holds it


def _before_fork():
    """Wait for the end of a compilation and of calls of LLVM before a fork: the child could not release
    their locks."""
    compiling.__enter__()
    # each call of LLVM acquires it, also one of a thread that frees a kernel
    if lib := getattr(sys.modules.get("llvmlite.binding.ffi"), "lib", None):
        _llvms.enter_context(lib._lock)


def _after_in_child():
    _llvms.close()
    for lock in filter(None, [found() for found in list(_all)]):
        lock.renew()
    compiling.__exit__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_in_child)
    os.register_at_fork(after_in_parent=lambda: (_llvms.close(), compiling.__exit__()))


def _require_interpreter():
    """Raise ImportError if native code cannot distinguish threads, or if no global lock serialises Python."""
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


def compile_alone(function):
    """Return a function that compiles: one at a time in the process, never amid a fork or broken off by
    Ctrl-C."""

    @functools.wraps(function)
    def locked(*args, **options):
        with compiling, uninterrupted(), _uncollected():
            return function(*args, **options)

    return locked


class lazy_attribute:  # noqa: N801  (a decorator)
    """Compute an attribute at its first use as functools.cached_property does, but without the lock of Python
    3.11's: a compiling thread may need it, and it would be held for ever in the child of a fork.
    """

    def __init__(self, make):
        self.make, self.__doc__ = make, make.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.make.__name__, self.make(instance))


def compile_once(function):
    """Return a function that compiles, by `compile_alone`, and caches its result: one and the same for
    concurrent threads. If two were compiled, dropping one would free its code, whose address a
    thread may hold.
    """
    return functools.cache(compile_alone(functools.cache(function)))


@contextlib.contextmanager
def _uncollected():
    """Suspend garbage collection during a compilation: it allocates half a million objects, all in use until
    it ends. By its threshold: another thread may enable or disable the collector meanwhile.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEVER, *before[1:])
    try:
        yield
    finally:
        now = gc.get_threshold()
        if now[0] == _NEVER:
            gc.set_threshold(before[0], *now[1:])


_NEVER = 0x70000001  # new objects before a collection; a value that no other program uses


# functions that let running kernels poll for Ctrl-C, and that clear an interrupted one, of machines that can
arming, ending = [], []


def arm():
    """Let running kernels poll for Ctrl-C from now on: the program may have set another handler."""
    for stand in arming:
        stand()


class _Deferred:
    """A handler of Ctrl-C that has the one before it called later."""

    def __init__(self, before):
        self.before, self.asked = before, None

    def __call__(self, *args):
        if self.asked and compiling.slow:  # the second one
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)
        self.asked = args

    def handle_signals(self):
        if self.asked:
            args, self.asked = self.asked, None
            self.before(*args)


@contextlib.contextmanager
def uninterrupted():
    """Defer Ctrl-C to the end of the block, which passes objects to native code, or to `check_interrupt`."""
    before, main = signal.getsignal(signal.SIGINT), threading.main_thread()
    if threading.current_thread() is not main or not callable(before) or before.__class__ is _Deferred:
        yield
        return
    deferred = _Deferred(before)
    signal.signal(signal.SIGINT, deferred)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        arm()
        deferred.handle_signals()


SLOW = 2.0  # seconds of a compilation after which a message reports that it takes long


def check_interrupt(name, more=0.0):
    """Handle Ctrl-C between two parts of the compilation of a kernel, and report if it takes long.

    name : str, the kernel's
    more : float, seconds that the next part will take
    """
    now = time.monotonic()
    if now < compiling.due and not more or not compiling.held._is_owned():
        return
    compiling.due = now + 0.01
    handler = signal.getsignal(signal.SIGINT)
    heard = handler.__class__ is _Deferred and threading.current_thread() is threading.main_thread()
    if heard:
        handler.handle_signals()
    if not compiling.slow and now + more > compiling.began + SLOW:
        compiling.slow = True
        if name != compiling.reported:  # once for all parts
            compiling.reported = name
            with contextlib.suppress(AttributeError, OSError, ValueError):  # no stderr, or a closed one
                sys.stderr.write(
                    f"portable: kernel '{name}' takes long to compile; Ctrl-C stops it at its next step,"
                    " and a second one ends the process\n"
                )
        if heard:
            _once_more()


def _once_more():
    """Have the system end the process at the Ctrl-C after the next one: also while LLVM's code runs."""
    flags, mask = {"linux": (136, 1 << 31), "darwin": (12, 4)}.get(sys.platform, (0, 0))
    if mask:  # offset of the flags in a sigaction, and SA_RESETHAND
        action, call = ctypes.create_string_buffer(256), ctypes.CDLL(None).sigaction
        call(signal.SIGINT, None, action)
        ctypes.c_uint32.from_buffer(action, flags).value |= mask
        call(signal.SIGINT, action, None)
