"""Launches recorded once and replayed as one: a CUDA graph on a GPU, a compiled sequence on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..core.launch import dispatch
from ..core import events
from ..core.language.annotations import SpaceLike
from ..core import registry
from ..errors import InputError, LaunchError
from ..core.locks import Lock, arm
from ..core.places.policy import check_index
from ..core.places.space import require, resolve


class Graph:
    """What `capture` yields; `replay()` runs the recorded launches in order.

    Numbers are frozen as they were when recorded; views are kept alive, their elements are read at each
    replay.
    """

    def __init__(self, space):
        self.space, self.launches, self._call, self._lock = space, [], None, Lock()

    def record(self, launch, bound):
        """Remember a launch instead of running it."""
        if bound[0] != self.space:
            raise LaunchError(
                f"'{launch.label}' runs on '{bound[0]}', but this capture records launches on '{self.space}'"
            )
        self.launches.append((launch, bound))

    def finish(self, times):
        """Make the recorded launches ready, to run so many times one after the other."""
        self.launches *= times
        recorded = [(bound, launch) for launch, bound in self.launches]
        self._call = registry.launches(self.space.name).sequence(self.space, recorded) or self._again

    def _again(self):
        """Launch by launch: where the space has nothing to prepare, and for listeners that ask for it."""
        for launch, bound in self.launches:
            with events.kernel(launch) if events.current().one_by_one else contextlib.nullcontext():
                dispatch.repeat(launch, bound)

    def replay(self) -> None:
        """Run the recorded launches; listeners hear of one event, or of each launch. In a capture they are
        recorded again, one by one."""
        if self._call is None:
            raise LaunchError(
                "the capture of this graph has not ended, or failed; replay it after its with block"
            )
        hooks = events.current()
        if hooks.recording is not None:
            for launch in self.launches:
                hooks.recording.record(*launch)
            return None
        try:
            with self._lock.held:  # its blocks and copies are for one replay at a time
                if not hooks.listeners:
                    return self._call()
                if hooks.one_by_one:
                    return self._again()
                with events.kernel(self):
                    return self._call()
        except BaseException as error:
            raise dispatch.interrupted(error)  # noqa: B904  (the same)

    @property
    def label(self) -> str:
        """The labels of the recorded launches."""
        return " + ".join(launch.label for launch, _ in self.launches)


@contextlib.contextmanager
def capture(space: SpaceLike | None = None, times: int = 1) -> Iterator[Graph]:
    """Record this thread's launches, calls of plans and replays of graphs: `with pk.capture() as graph: ...`,
    then `graph.replay()`.

    Parameters
    ----------
    space : str or Space, optional
        Where the launches run; the default space if not given.
    times : int, default 1
        How many times a replay runs them, all in order and then all again: a loop without the host.

    Yields
    ------
    Graph

    Raises
    ------
    LaunchError
        Inside the block: a reduction or scan that returns its number (give it `out=` or `total=`), a copy, an
        allocation, or another capture.
    DTypeError, InputError
        `times` is no whole number from 1 on.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> x = np.zeros(2)
    >>> with pk.capture("serial") as graph:
    ...     pk.parallel_for(pk.RangePolicy(0, 2, space="serial"), add, 1.0, x)
    ...     pk.parallel_for(pk.RangePolicy(0, 1, space="serial"), add, 5.0, x)
    >>> graph.replay()
    >>> x.tolist()
    [6.0, 1.0]
    """
    if events.current().recording is not None:
        raise LaunchError("a capture is already recording; captures do not nest")
    if check_index(times, "capture: times") < 1:
        raise InputError(f"capture: times is {times}; at least 1 is wanted")
    graph = Graph(require(resolve(space)))
    with events.changed(recording=graph):
        yield graph
    graph.finish(times)
    arm()
