"""Hooks: whoever listens is told when kernels begin and end. Nobody listening costs one look at an empty list."""

from __future__ import annotations

import contextlib
import time

from .errors import LaunchError

recording = None  # the graph that a capture is recording (graph.py)
listeners = []  # callables (phase, what, launch): phase "begin" or "end", what "kernel"
one_by_one = []  # those of them that hear of each launch of a graph


def refuse_while_recording(what):
    """LaunchError if a capture is recording: `what` would run now, and not when the graph is replayed."""
    if recording is not None:
        raise LaunchError(f"{what} cannot be recorded in a capture; do it before the capture")


class Stamp:
    """The mark of a space whose launches have finished when they return."""

    __slots__ = ("time",)

    def __init__(self):
        self.time = time.perf_counter()

    def seconds_since(self, earlier):
        return self.time - earlier.time


@contextlib.contextmanager
def kernel(launch):
    """Tell all listeners of one kernel's begin and end."""
    for listener in tuple(listeners):
        listener("begin", "kernel", launch)
    try:
        yield
    finally:
        for listener in tuple(listeners):
            listener("end", "kernel", launch)


@contextlib.contextmanager
def listening(listener, into_graphs=False):
    """Call `listener(phase, what, launch)` for every event inside the block: `with pk.listening(tell): ...`

    phase is "begin" or "end", what is "kernel". A launch tells its policy, kernel, args, space, label, reducers and scan; a
    replayed graph is one event and tells its label, its space and its `launches`, pairs whose first is a launch. With
    `into_graphs`, graphs run launch by launch inside the block, each an event: slower, and each with a time of its own.
    """
    listeners.append(listener)
    one_by_one.extend([listener] * into_graphs)
    try:
        yield listener
    finally:
        listeners.remove(listener)
        del one_by_one[len(one_by_one) - into_graphs:]
