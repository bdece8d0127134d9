"""Locks that a child of a fork finds free, and stretches of work that Ctrl-C does not break in the middle."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import weakref

_all = weakref.WeakSet()


class Lock:
    """A lock that its holder may take again: in a signal handler, or where the garbage collector calls back.

    `with lock.held:` takes it without a call of Python's own, for what is timed in fractions of a microsecond.
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: [lock.renew() for lock in _all])


arming = []  # what has running kernels hear of Ctrl-C, of the machines that can


def arm():
    """Have running kernels hear of Ctrl-C from now on: a program may have set a handler of its own."""
    for stand in arming:
        stand()


@contextlib.contextmanager
def uninterrupted():
    """Put a KeyboardInterrupt off to the end of the block, which hands objects over to native code."""
    if threading.current_thread() is not threading.main_thread() or not callable(signal.getsignal(signal.SIGINT)):
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
