"""`with roofline.profile() as p:` records every launch: its time, duration and kernel, and on request
counts."""

from __future__ import annotations

import contextlib
import functools
import os
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import portable as pk
from portable.errors import InputError, printable
from portable.roofline import files, microkernels, timeline
from portable.roofline.counting import in_a_graph, in_words
from portable.roofline.counts import Counts
from portable.roofline.grid import grid
from portable.roofline.memory import high_water
from portable.roofline.launch_counts import Counted, Met, region_now, regions, shapes_of
from portable.roofline.launch_arguments import Past, recalled, remembered
from portable.roofline.templates import rendered
from portable.roofline.timing import Samples
from portable.roofline.units import scaled, spread

if TYPE_CHECKING:
    from rich.table import Table

SHORT = 20e-6  # seconds: for shorter launches the cost of a launch is a good part of the measured time
# approximate seconds of work that is queued before each launch, so that the device never waits; its
# iterations
AHEAD, TRIPS = 2e-4, 30_000
# repeats of a stamped launch, launches in a graph, and the least seconds of a launch on a device
STAMPED, MANY, LEAST = 7, 100, 1e-7

_hearing = []  # open profiles


@functools.cache
def _nvtx():
    """Return NVIDIA's library of named ranges if it is installed: Nsight shows them."""
    with contextlib.suppress(ImportError):
        import nvtx

        return nvtx


@contextlib.contextmanager
def region(name: str) -> Iterator[None]:
    """Name the launches inside a block, in every open profile, and in NVIDIA's tools if nvtx is installed:
    `with roofline.region("set up"): ...`

    Parameters
    ----------
    name : str
        In words; blocks may be nested.

    Yields
    ------
    None
    """
    regions.append(printable(name))
    begins, heard = {open_one: open_one._seconds_now() for open_one in _hearing}, region_now()
    try:
        with _nvtx().annotate(regions[-1]) if _nvtx() else contextlib.nullcontext():
            yield
    finally:
        for open_one in _hearing:
            begin = begins.get(open_one, 0.0)  # a profile opened inside records the rest of it
            open_one.regions.append((heard, begin, open_one._seconds_now() - begin))
        regions.pop()


@dataclass(frozen=True)
class Event:
    """Record one launch, or one replay of a graph.

    Attributes
    ----------
    label, region, space : str
        `region` names the `region(...)` blocks around the launch, outermost first, joined by " / ".
    launches : tuple
        The launches as `portable.listening` reports them, without their arrays; several for a graph.
    seconds : float
        On cuda between two events of the device around the launch, otherwise by the host's clock.
    start : float
        Seconds since the beginning of the profile.
    called : (float, float)
        Start and duration of the launching call on the host, in seconds.
    queue : str
        The space, with a number where it has several queues.
    """

    label: str
    region: str
    space: str
    launches: tuple[Any, ...]
    seconds: float
    start: float = 0.0
    called: tuple[float, float] = (0.0, 0.0)
    queue: str = ""


class Copied(NamedTuple):
    """Record a copy: the memories it is from ("" for a fill) and to, and its time, in seconds since the
    beginning of the profile."""

    source: str
    target: str
    nbytes: int
    region: str
    start: float
    seconds: float


class _Mark(NamedTuple):
    """Record a launch as it is reported: its kernel, place and stamps, and the host's clock before and
    after."""

    label: str
    space: object
    launches: tuple
    region: str
    begin: object
    end: object
    host: tuple


class Profile:
    """Collect the launches inside `with roofline.profile() as p:`. It keeps no array alive.

    Attributes
    ----------
    seconds : float
        Time of the whole block, by the host's clock, until its work is complete.
    copies : list of Copied
    regions : list of (name, start, seconds)
        Each completed `region(...)` block, in seconds since the beginning of the profile.
    memory_bytes : int or None
        Peak memory of the process in the block, minus its memory before (Linux; without devices).
    counted : Counted or None
        Counts of each kind of launch, taken at the launches, if `counted` was given.
    """

    seconds: float
    copies: list[Copied]
    regions: list[tuple[str, float, float]]
    memory_bytes: int | None
    counted: Any

    def __init__(
        self, before: Callable[[Any], object] | None = None, apart: bool = False, counted: Any = None
    ) -> None:
        self._before, self._aside, self._busy, self._apart = before, 0.0, False, apart
        self.seconds, self._marks, self._open, self._events, self._counts = 0.0, [], {}, None, {}
        self._met = {}
        self.copies, self.memory_bytes, self.counted = [], None, counted
        self._begin, self.regions, self._graphs = time.perf_counter(), [], weakref.WeakKeyDictionary()

    @staticmethod
    def region(name: str) -> contextlib.AbstractContextManager[None]:
        """Name the launches inside a block: `with p.region("set up"): ...`"""
        return region(name)

    def _seconds_now(self):
        return time.perf_counter() - self._begin - self._aside

    def _receive_event(self, phase, what, launch):
        if self._busy:  # launches that the profile makes are not the program's
            return
        if phase == "begin":
            if what == "kernel" and (self._before or self._apart):
                self._step_aside(launch)
            if _nvtx():
                _nvtx().push_range(printable(launch.label) if what == "kernel" else what)
            self._open[id(launch)] = self._seconds_now(), pk.stamp(launch.space) if what == "kernel" else None
            return
        host, begin = self._open.pop(id(launch))
        if what == "copy":
            self.copies.append(Copied(*launch, region_now(), host, self._seconds_now() - host))
        else:
            end, launches = pk.stamp(launch.space), self._remembered(launch)
            about = printable(launch.label), launch.space, launches, region_now()
            self._marks.append(_Mark(*about, begin, end, (host, self._seconds_now() - host)))
        if _nvtx():
            _nvtx().pop_range()

    def _remembered(self, launch):
        """Return the launches of a graph, or the launch itself, without their arrays."""
        if not hasattr(launch, "launches"):
            return (remembered(launch),)
        if launch not in self._graphs:
            self._graphs[launch] = tuple(map(remembered, _launches(launch)))
        return self._graphs[launch]

    def _step_aside(self, launch):
        start, self._busy = time.perf_counter(), True
        try:
            for one in _launches(launch):
                if self._before:
                    self._before(one)
            if self._apart and str(launch.space).startswith("cuda"):
                _occupy(launch.space)
        finally:
            self._busy = False
            self._aside += time.perf_counter() - start

    def look(self) -> tuple[float, bool]:
        """Return the seconds of the program so far, and True if it is now neither in a launch nor in the
        counting of one."""
        return self._seconds_now(), not (self._busy or self._open)

    @property
    def on_device(self) -> bool:
        """Return True if something was launched on a GPU."""
        return any(str(mark.space).startswith("cuda") for mark in self._marks)

    @property
    def events(self) -> list[Event]:
        """The launches in their order, a list of Event; blocks until the devices have finished."""
        if self._events is None or len(self._events) != len(self._marks):
            first, queues = {}, _queues(mark.space for mark in self._marks)
            beside = _stamp_seconds(self._marks[0].space) if self._apart and self.on_device else 0.0
            self._events = []
            for mark in self._marks:
                begin, host = first.setdefault(mark.space, (mark.begin, mark.host[0]))
                start = host + mark.begin.seconds_since(begin) if not self._apart else mark.host[0]
                self._events.append(
                    Event(
                        mark.label,
                        mark.region,
                        str(mark.space),
                        mark.launches,
                        max(mark.end.seconds_since(mark.begin) - beside, beside and LEAST),
                        start,
                        mark.host,
                        queues[mark.space],
                    )
                )
        return self._events

    def of(self, kernel: Any) -> list[Event]:
        """Return the events of one kernel.

        Raises
        ------
        InputError
            The kernel was never launched inside the block; the message lists the launched kernels.
        """
        found = [e for e in self.events if any(launch.kernel is kernel for launch in e.launches)]
        if not found:
            seen = ", ".join(sorted({f"'{e.label}'" for e in self.events})) or "nothing"
            name = getattr(kernel, "name", repr(kernel))
            raise InputError(f"kernel '{name}' was never launched inside this profile; launched were: {seen}")
        return found

    def groups(self) -> dict[tuple[str, str, str, str], Samples]:
        """Return {(region, label, space, shapes): Samples of seconds} of launches of the same kind, in
        order."""
        found = {}
        for e in self.events:
            found.setdefault((e.region, e.label, e.space, self.sizes(e)), []).append(e.seconds)
        return {key: Samples(tuple(values)) for key, values in found.items()}

    def counts(self, *, executed: bool = True) -> list[tuple[Event, list[Counts]]]:
        """Return the counts of every launch: a list of (Event, list of Counts, one for each launch of the
        event).

        Launches of one kernel and policy on the same arrays are counted once, on the present data; if counts
        depend on data, their notes state it. Kernels run once more: the counter of a kernel that appends must
        be reset before.
        """
        return [(e, [self.count(launch, executed=executed) for launch in e.launches]) for e in self.events]

    @staticmethod
    def sizes(event: Event) -> str:
        """Return the sizes of an event's launches in words."""
        words = [in_words(launch.policy) for launch in event.launches[:3]]
        return ", ".join(words) + (", ..." if len(event.launches) > 3 else "")

    def count(self, launch: Any, *, executed: bool = True) -> Counts:
        """Return the Counts of one of the launches: the mean of the launches of its kind that were counted
        before they ran (`meet`); otherwise launches of the same identity are counted once."""
        if met := self._met.get(_kind(launch, executed)):
            return met.mean()
        key = *_kind(launch, executed), tuple(map(_identity, launch.args))
        if key not in self._counts:
            self._counts[key] = Met()
            self._counts[key].meet(recalled(launch), executed)
        return self._counts[key].mean()

    def meet(self, launch: Any, *, executed: bool = True) -> None:
        """Count a launch that is about to run, on its own data. Launches of a kind may differ in work, if
        their source has conditions or they have different whole numbers: then the first few launches are
        counted, and a sample of the later ones."""
        self._met.setdefault(_kind(launch, executed), Met()).meet(launch, executed)

    def short(self) -> list[str]:
        """Return labels of launches so short that their times are mostly the cost of a launch."""
        return sorted({label for (_, label, _, _), s in self.groups().items() if s.median < SHORT})

    def _kinds(self):
        """Yield the rows of the tables, the costliest kind first; the last cell is in words."""
        ordered = sorted(self.groups().items(), key=lambda item: -sum(item[1].values))
        for (where, label, space, shapes), s in ordered:
            times = scaled(sum(s.values), "s"), scaled(s.median, "s"), spread(s, "s")
            yield where, label, space, shapes, f"{len(s.values):,}", *times

    def table(self) -> Table:
        """Return the table for the terminal, the costliest kind first."""
        columns = "region<|launch<|space<|size<|launches|total|median|quartiles"
        return grid("Launches", columns, self._kinds(), self._caption())

    def trace(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Return the time line as a dict in Chrome's trace format; with `path` it is also written, for
        ui.perfetto.dev."""
        if path is not None:
            files.write(path, timeline.as_json(self))
        return timeline.trace(self)

    def _repr_html_(self):
        """Return the time line, and a table of launches by kind."""
        shown = {"tracks": timeline.picture(self) if self._marks else {}, "whole": self.seconds}
        return rendered("profile.html", caption=self._caption(), rows=list(self._kinds()), **shown)

    def __repr__(self):
        return f"<profile of {len(self._marks):,} launches in {scaled(self.seconds, 's')}>"

    def _caption(self):
        launched = sum(e.seconds for e in self.events)
        text = f"{scaled(launched, 's')} in launches, of {scaled(self.seconds, 's')}"
        if self.copies:
            text += (
                f"; {scaled(sum(copy.seconds for copy in self.copies), 's')} in {len(self.copies):,} copies"
            )
        if self.memory_bytes is not None:
            text += f"; at most {scaled(self.memory_bytes, 'B')} more held than before"
        return text + (f"; too short to time one by one: {', '.join(self.short())}" if self.short() else "")


@contextlib.contextmanager
def profile(
    before: Callable[[Any], object] | None = None, apart: bool = False, counted: bool = False
) -> Iterator[Profile]:
    """Record every launch of a block: `with roofline.profile() as p: ...`

    A launch costs two more stamps (some microseconds), and keeps no array alive; the profile blocks for a
    device only when the events are read. A replayed graph is one event.

    Parameters
    ----------
    before : callable of a launch, optional
        Called before each launch begins, and not timed: for example to count it on its own data.
    apart : bool
        Time each kernel by itself: graphs run launch by launch, and before each launch a device is given
        other work, so that it does not wait for the host in between. The whole takes longer.
    counted : bool
        Count each kind of launch before it runs, on its own data, and time each by itself: `report` requires
        this for launches whose arrays no longer exist by then.

    Yields
    ------
    Profile
    """
    if counted:
        counted = Counted()
        before, apart = counted.count_if_due, True
    made = Profile(before, apart, counted or None)
    _hearing.append(made)
    try:
        with pk.listening(made._receive_event, apart, copies=True), high_water() as most:
            yield made
    finally:
        _hearing.remove(made)
    for space in {mark.space for mark in made._marks}:
        pk.fence(space)
    made.seconds, made.memory_bytes = made._seconds_now(), most.bytes
    if apart and made.on_device:
        # The work that kept the device busy delayed the program; how much of it the host waited for is
        # unknown.
        made.seconds = max(made.seconds - len(made._marks) * AHEAD, sum(e.seconds for e in made.events))


def _occupy(space):
    """Give a device some work."""
    pk.parallel_for(
        pk.RangePolicy(0, 32, space=space), microkernels.dependent, TRIPS, 5, 3, _something(space)
    )


@functools.cache
def _stamp_seconds(space):
    """Return the seconds that two stamps of a device add to the kernel between them: of a kernel that does
    next to nothing, minus its cost in a graph, which is the least cost of a launch."""
    little = pk.RangePolicy(0, 1, space=space), microkernels.dependent, (1, 5, 3, _something(space))
    return max(_stamped(*little) - in_a_graph(*little, MANY), 0.0)


def _stamped(policy, kernel, args):
    """Return the seconds between two stamps around a launch; the least of several."""
    found = []
    for _ in range(STAMPED):
        _occupy(policy.space)
        begin = pk.stamp(policy.space)
        pk.parallel_for(policy, kernel, *args)
        found.append(pk.stamp(policy.space).seconds_since(begin))
    return min(found)


@functools.cache
def _something(space):
    return pk.zeros((32,), np.int64, space)


def _queues(spaces):
    """Return {space: name} in words, with a number if a space has several queues."""
    of = {}
    for space in spaces:
        of.setdefault(str(space), {}).setdefault(space, None)
    return {
        space: f"{name}, queue {k}" if len(same) > 1 else name
        for name, same in of.items()
        for k, space in enumerate(same, 1)
    }


def _launches(launch):
    """Return the launches of a graph, or the launch itself."""
    return tuple(pair[0] for pair in launch.launches) if hasattr(launch, "launches") else (launch,)


def _kind(launch, executed):
    """Return the traits that launches with the same work share: kernel, policy, reducers, and the shapes and
    types of arrays."""
    return launch.kernel, launch.policy, launch.reducers, launch.scan, shapes_of(launch.args), executed


def _identity(a):
    """Return the identity of an argument: the memory of an array, the value of a number."""
    if isinstance(a, tuple):
        return tuple(map(_identity, a))
    if isinstance(a, Past):
        return a.pointer, a.shape, a.strides, a.dtype.name
    a = a.view if isinstance(a, pk.ScatterView) else a
    if isinstance(a, np.ndarray):
        return a.ctypes.data, a.shape, a.strides, a.dtype.name
    if isinstance(a, pk.View):
        return a.pointer, a.shape, a.strides, a.dtype.name
    return type(a), getattr(a, "value", a)
