"""Listeners: functions that are called when kernels begin and end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..core import events

Listener = Callable[[str, str, Any], None]


@contextlib.contextmanager
def listening(listener: Listener, into_graphs: bool = False, copies: bool = False) -> Iterator[Listener]:
    """Call `listener(phase, what, launch)` for every event inside the block: `with
    pk.listening(tell): ...`

    Launches of other threads are not reported.

    Parameters
    ----------
    listener : callable (phase, what, launch)
        phase is "begin" or "end", what is "kernel". A launch has the attributes policy, kernel, args, space,
        label, reducers and scan; a replayed graph is one event and has label, space and `launches`, pairs
        whose first is a launch.
    into_graphs : bool
        Graphs run launch by launch inside the block, each an event: slower, and each with a separate time.
    copies : bool
        Report copies, too: what is "copy", and the third argument has the memories of source ("" for a fill)
        and target, and the size in bytes.

    Yields
    ------
    callable, the listener

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> with pk.listening(lambda phase, what, launch: print(phase, what, launch.label)):
    ...     pk.parallel_for(2, add, 1.0, np.zeros(2), label="ones")
    begin kernel ones
    end kernel ones
    """
    hooks = events.current()
    with events.changed(
        listeners=(*hooks.listeners, listener),
        one_by_one=hooks.one_by_one + (listener,) * bool(into_graphs),
        copying=hooks.copying + (listener,) * bool(copies),
    ):
        yield listener
