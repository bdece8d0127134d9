"""Launches recorded once and replayed as one: a CUDA graph on a GPU, a compiled sequence on the CPU."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

from ..core.launch import dispatch
from ..core import events, registry
from ..core.language.annotations import SpaceLike
from ..errors import DTypeError, InputError, LaunchError
from ..core.locks import Lock, arm
from ..core.places.policy import check_index, kind_of, n_indices
from ..core.places.space import require


class _Step:
    """A recorded launch with replaceable numbers."""

    def __init__(self, launch, bound):
        self.launch, self.bound, self.call = launch, bound, dispatch.repeated_launch(launch, bound)
        self.places, words = dispatch.numbers_of(launch, bound[0])
        self.words = words if bound[2].interprets else bound[-1]
        self.prepared = hasattr(self.call, "block")  # an argument block that the call reads
        self.block = memoryview(self.call.block if self.prepared else bytearray(self.words)).cast("B")

    def put(self, numbers):
        """Write numbers into the argument block."""
        for name, number in numbers.items():
            if name in self.places:
                place, pack = self.places[name]
                try:
                    self.block[place : place + 8] = pack(number)
                except (OverflowError, struct.error):
                    raise DTypeError(
                        f"graph: {name} is {number!r}; '{self.launch.label}' was recorded with another type"
                    ) from None

    def run(self, numbers, hooks):
        """Run the launch once, with new numbers, or with the hooks of a context."""
        if hooks.recording is None and not hooks.listeners and self.prepared:
            return self.call()
        (*bound, backend, compiled, _), launch = self.bound, self.launch
        params, given = launch.kernel.params, launch.args
        names = (*params[n_indices(kind_of(launch.policy)) :], "out")  # a scan's last argument
        args = tuple(numbers.get(name, a) for name, a in zip(names, given))
        words = args if backend.interprets else bytes(self.block[: len(self.words)])
        launch, bound = launch._replace(args=args), (*bound, backend, compiled, words)
        if hooks.recording is not None:
            return hooks.recording.record(launch, bound)
        with events.kernel(launch):
            return dispatch.repeat(launch, bound)


class Graph:
    """Launches that `capture` recorded: `replay()` runs them in order, `graph(k=3)` with another number.

    Views are kept alive, their elements are read at each replay.
    """

    def __init__(self, space):
        self.space, self.launches, self._call, self._lock = space, [], None, Lock()
        self._steps, self._put = None, frozenset()  # and the names of numbers that were put into blocks

    def record(self, launch, bound):
        """Remember a launch instead of running it."""
        if bound[0] != self.space:
            raise LaunchError(
                f"'{launch.label}' runs on '{bound[0]}', but this capture records launches on '{self.space}'"
            )
        self.launches.append((launch, bound))

    def finish(self, times):
        """Prepare the recorded launches, to run `times` times in succession."""
        self.launches *= times
        recorded = [(bound, launch) for launch, bound in self.launches]
        self._call = registry.launches(self.space.name).sequence(self.space, recorded) or self._run_in_order

    def _run_in_order(self):
        """Run launch by launch: for spaces without prepared sequences, and for listeners that receive each
        launch.
        """
        for launch, bound in self.launches:
            with events.kernel(launch) if events.current().one_by_one else contextlib.nullcontext():
                dispatch.repeat(launch, bound)

    def __call__(self, **numbers: float) -> None:
        """Run the recorded launches once with other numbers.

        Parameters
        ----------
        **numbers : int or float
            Each applies to all recorded launches whose kernels have a parameter of that name. Other numbers
            are as recorded.

        Raises
        ------
        InputError
            No recorded kernel has a number of that name.
        DTypeError
            A float is given where an integer was recorded.

        Examples
        --------
        >>> @pk.kernel
        ... def put(i, k, x):
        ...     x[i] += k
        >>> x = np.zeros(2, np.int64)
        >>> with pk.capture("serial") as graph:
        ...     pk.parallel_for(pk.RangePolicy(0, 2, space="serial"), put, 1, x)
        >>> graph(k=5); graph(k=10); graph.replay()
        >>> x.tolist()
        [16, 16]
        """
        if self._steps is None:
            self._ended()
            self._steps = [_Step(*recorded) for recorded in self.launches]
        hooks = events.current()
        try:
            with self._lock.held:
                if numbers.keys() != self._put:
                    self._reset(numbers)
                for step in self._steps:
                    step.put(numbers)
                    step.run(numbers, hooks)
        except BaseException as error:
            raise dispatch.interrupted(error)  # noqa: B904  (the same)

    def _reset(self, numbers):
        """Reset all numbers to their recorded values; refuse names that no recorded number has."""
        known = {name for step in self._steps for name in step.places}
        if unknown := numbers.keys() - known:
            raise InputError(
                f"graph: no recorded kernel takes a number {', '.join(sorted(unknown))}; expected"
                f" {', '.join(sorted(known)) or 'none'}"
            )
        self._put = frozenset(numbers)
        for step in self._steps:
            step.block[: len(step.words)] = step.words

    def _ended(self):
        """Refuse a graph whose capture has not ended, or failed."""
        if self._call is None:
            raise LaunchError(
                "the capture of this graph has not ended, or failed; replay it after its with block"
            )

    def replay(self) -> None:
        """Run the recorded launches; listeners receive one event, or one for each launch. In a capture they
        are recorded again, one by one.
        """
        self._ended()
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
                    return self._run_in_order()
                with events.kernel(self):
                    return self._call()
        except BaseException as error:
            raise dispatch.interrupted(error)  # noqa: B904  (the same)

    @property
    def label(self) -> str:
        """The labels of the recorded launches."""
        return " + ".join(launch.label for launch, _ in self.launches)


@contextlib.contextmanager
def capture(space: SpaceLike = None, times: int = 1) -> Iterator[Graph]:
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
        `times` is not a positive integer.

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
    times = check_index(times, "capture: times", 1)
    graph = Graph(require(space))
    with events.changed(recording=graph):
        yield graph
    graph.finish(times)
    arm()
