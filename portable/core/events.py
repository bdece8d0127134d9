"""Hooks: listeners are called when kernels begin and end. They belong to the context (so to the thread) that
set them."""

from __future__ import annotations

import contextlib
import contextvars
import os
import time
from typing import NamedTuple

from ..errors import LaunchError


class Hooks(NamedTuple):
    """Callbacks of a context for its launches.

    Attributes
    ----------
    recording : Graph or None, which a capture is recording (graph.py)
    listeners : callables (phase, what, launch): phase "begin" or "end", what "kernel"
    one_by_one : listeners that are called for each launch of a graph
    copying : listeners that are called for copies, too
    redirect : function that replaces dispatch.bind, or None (testing.py)
    debug : bool or "nan", the build of launches whose space specifies none
    seed : int, the schedule of the checked space
    """

    recording: object = None
    listeners: tuple = ()
    one_by_one: tuple = ()
    copying: tuple = ()
    redirect: object = None
    debug: object = False
    seed: int = 0

    @property
    def watched(self) -> bool:
        """True if launches run another build than their space's usual one."""
        return bool(self.redirect or self.debug)


_asked = os.environ.get("PORTABLE_DEBUG", "0")
NONE = Hooks(debug="nan" if _asked == "nan" else _asked not in ("", "0"))
_hooks = contextvars.ContextVar("portable hooks", default=NONE)
current = _hooks.get


@contextlib.contextmanager
def changed(**hooks):
    """Change some of the hooks for a block, only in this context, and keep the others."""
    token = _hooks.set(current()._replace(**hooks))
    try:
        yield
    finally:
        _hooks.reset(token)


def refuse_while_recording(what):
    """Raise LaunchError if a capture is recording: `what` would run now, and not when the graph is
    replayed.
    """
    if current().recording is not None:
        raise LaunchError(f"{what} cannot be recorded in a capture; do it before the capture")


class Stamp:
    """The time stamp of a space whose launches have finished when they return."""

    __slots__ = ("time",)

    def __init__(self):
        self.time = time.perf_counter()

    def wait(self) -> None:
        """Return when all before it has finished."""

    def seconds_since(self, earlier: Stamp) -> float:
        return self.time - earlier.time


class Copy(NamedTuple):
    """A copy, as listeners receive it: the memories it is from ("" of a fill) and to, and its size in
    bytes."""

    source: str
    target: str
    nbytes: int


@contextlib.contextmanager
def _called_listeners(what, launch, listeners):
    for listener in listeners:
        listener("begin", what, launch)
    try:
        yield
    finally:
        for listener in listeners:
            listener("end", what, launch)


_NOBODY = contextlib.nullcontext()  # listens


def kernel(launch):
    """Call all listeners at a kernel's begin and end."""
    return _called_listeners("kernel", launch, current().listeners)


def copy(source, target, nbytes):
    """Call the listeners of copies at a copy's begin and end."""
    copying = current().copying
    return _called_listeners("copy", Copy(source, target, nbytes), copying) if copying else _NOBODY
