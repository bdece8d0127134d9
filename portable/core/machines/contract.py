"""Define a backend by types: the spaces that it offers (Backend), their memory (Memory), and the way it
runs kernels (Launches).

A backend subclasses these protocols, whose default bodies suit most machines, or provides the same names (a
module suffices for Launches). Abstract methods must be implemented. `portable.register` registers it under
the names of its spaces. The conformance suite (tests/conformance) is parametrized by the space: a new backend
is complete when it passes. docs/backends.md shows an example.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from ...errors import InputError, SpaceError
from ..events import Stamp
from ..places.place import HOST, Space
from ..arrays.view import address, lowest, over_new, span
from .. import registry

# bytes from which the memory of a freed host array is kept for reuse: the system provides fresh memory page
# by page (128 MB: 16 to 24 milliseconds, where a copy into used memory takes 4)
LARGE = 128 << 10


class Allocated(Protocol):
    """Memory while it is referred to; its address."""

    pointer: int


class Memory(Protocol):
    """One memory by its addresses. A copy follows all work queued in the memory's spaces, and has ended when
    it returns.
    """

    # DLPack's type and number of the device; 12 (kDLExtDev) if DLPack has no type for it
    dlpack: tuple[int, int] = (12, 0)

    @abstractmethod
    def allocate(self, nbytes: int, zero: bool = False) -> Allocated:
        """Allocate memory, which is freed with the last reference to the returned object; MemoryError if
        there is no room.
        """

    def array(self, shape: tuple[int, ...], dtype: np.dtype, zero: bool) -> np.ndarray:
        """New memory as an array over its addresses, row-major; of its elements NumPy may touch only the
        host's.
        """
        return over_new(self.allocate(math.prod(shape) * dtype.itemsize, zero), shape, dtype)

    @abstractmethod
    def copy_to_host(self, target: int, source: int, nbytes: int):
        """Copy from address `source` of this memory to address `target` of the host."""

    @abstractmethod
    def copy_to_device(self, target: int, source: int, nbytes: int):
        """Copy from address `source` of the host to address `target` of this memory."""

    def copy(self, target: int, source: int, nbytes: int, origin: Memory):
        """Copy from address `source` of `origin`, this or another memory of a device, to `target`; they do
        not overlap.
        """
        through = np.empty(nbytes, np.uint8)
        origin.copy_to_host(through.ctypes.data, source, nbytes)
        self.copy_to_device(target, through.ctypes.data, nbytes)

    def queue_copy(self, target: int, source: int, nbytes: int, origin: Memory):
        """Queue a copy in this memory's space after the work that is queued there, unordered with the work
        queued in another's space: see `follow`.
        """
        self.copy(target, source, nbytes, origin)

    def reaches(self, other: Memory) -> bool:
        """Return True if kernels that run on this memory may read another device's memory, in their queue."""
        return False

    def follow(self, other: Memory):
        """Order all work queued in this memory's spaces from now on after the work queued in those of
        another."""
        other.synchronize()

    def fill(self, target: int, byte: int, nbytes: int, wait: bool = True):
        """Set every byte; to be finished when it returns only if `wait`."""
        filled = np.full(nbytes, byte, np.uint8)
        self.copy_to_device(target, filled.ctypes.data, nbytes)

    def synchronize(self):
        """Wait until all work queued in the memory's spaces has finished: another library is about
        to read.
        """

    def ready(self, stream: int | None):
        """Order the queue `stream` of another library, which is about to use this memory, after all work
        queued in the memory's spaces.
        """
        self.synchronize()

    def share(self):
        """Permit another library to use this memory, from now on, with its own queues."""

    def read(self, view) -> np.ndarray:
        """Return the elements of a view of this memory as a NumPy array: a copy, but of the host's."""
        if view._array.flags.c_contiguous:
            fresh = view.nbytes < LARGE
            of = np.empty if fresh else functools.partial(registry.memory(HOST).array, zero=False)
            elements = of(view.shape, view.dtype)
            if view.size:
                self.copy_to_host(address(elements), view.pointer, view.nbytes)
            return elements
        buffer, elements = span(view)
        if view.size:
            self.copy_to_host(address(buffer), lowest(view), buffer.nbytes)
        return elements if buffer.nbytes == view.nbytes else elements.copy()

    def interface(self, view) -> dict:
        """Return the `__cuda_array_interface__` of a view, for memory that CUDA's libraries reach."""
        raise AttributeError(f"{view!r} is not on a CUDA device")


@runtime_checkable
class Backend(Protocol):
    """Spaces and their memory. Light: the compiler and its like are imported by `launches`, when the first
    kernel runs.
    """

    team_size: int = 1  # members of a team whose work is on memory: 1 where all lanes run on one core
    # True if new host memory is filled with the checked space's mark for unwritten elements
    marks_unwritten: bool = False
    queued: bool = False  # True if launches return before they have run
    # DLPack's types of the devices whose memory is named "name:0", "name:1", ...
    dlpack: tuple[int, ...] = ()

    @abstractmethod
    def launches(self) -> Launches:
        """Return the object that runs kernels."""

    def space(self, name: str, number: int | None) -> Space | None:
        """Return the space that "name" means, or "name:number"; None if it has no such number."""
        return Space(name) if number is None else None

    def memory(self, name: str) -> Memory:
        """The memory of a `Space.memory` that is not the host's: "name" or "name:number" of one of the
        backend's spaces.
        """
        raise SpaceError(f"memory '{name}' is unknown")

    def unavailable(self, space: Space) -> str | None:
        """Return the reason why the space cannot run here, in one line; None if it can."""
        return None

    def concurrency(self, space: Space) -> int:
        """Return the number of teams that run at one time, about."""
        return space.n_threads

    def instances(self, space: Space, n: int) -> tuple[Space, ...]:
        """Return n instances of the space, each with a separate queue if the backend has queues."""
        return (space,) * n

    def about(self, space: Space) -> Iterable[tuple[str, str]]:
        """List (name, description) of each available machine, for `python -m portable`."""
        return [(space.name, "")]

    def adopt(self, array: object) -> tuple[dict, str] | None:
        """Return (array interface, name of the memory) of another library's array that only this backend can
        read; None for any other object.
        """
        return None

    def pinned(self, nbytes: int) -> Allocated | None:
        """Allocate host memory that its devices copy fast and its kernels reach, as `Memory.allocate` does;
        None if there is no such memory.
        """
        return None


class Launches(Protocol):
    """Preparation and execution of kernels.

    `policy_kind` is "range", "team", "box2", "box3", "scan inclusive", "scan exclusive" or "scan total".
    `specs` are the arguments' types and `words` the argument block as bytes, both as in
    compiler/signature.py; with `interprets`, `words` are the arguments themselves. `compiled` is the result
    of `prepare`.
    """

    interprets: bool = False
    apart: bool = False  # True if specs of views may end in True, which states that the views do not overlap
    builds: tuple[str, ...] = ()  # values of `build` that `counted` accepts: the builds of pk.count

    @abstractmethod
    def prepare(self, space: Space, kernel, policy_kind: str, specs: tuple, reducers: tuple) -> object:
        """Compile a kernel, or load it from memory or disk; LanguageError or LoweringError with the kernel's
        file and line, never the compiler's own error.
        """

    @abstractmethod
    def run_for(self, space: Space, compiled, policy, words):
        """Every index of the policy has run, or is queued on the space's stream, when this returns."""

    def run(self, pattern: str, space: Space, compiled, policy, words, outs: tuple) -> tuple | None:
        """Run a "reduce" or a "scan" and return one result a reducer: a Python number, or a tuple for a
        reducer with several.

        An index of a box is its place counted row by row. With `outs`, one-element views, the numbers are
        written there without waiting, and None is returned. The last argument of a scan receives the
        prefixes.
        """
        raise SpaceError(f"'{space}' has no reductions and scans")

    def sequence(self, space: Space, recorded: list) -> Callable | None:
        """Return a function that repeats the recorded launches in order and keeps their data alive.
        `recorded` has pairs of (result of dispatch.bind, Launch): one for a plan, all launches for a graph.
        None if there is no shorter way than to run them one by one. The function of a single launch may have
        an attribute `block`, the memory of its argument block, which is read at each call.
        """

    def fence(self, space: Space):
        """Return when all work queued before has finished."""

    def stamp(self, space: Space):
        """Return a mark of the time when everything queued before has finished:
        `mark.seconds_since(earlier)`, and `mark.wait()`."""
        return Stamp()

    def explain(self, space: Space, kernel, policy, policy_kind: str, specs: tuple) -> tuple[dict, list, str]:
        """Return facts about the code, the kind of memory access of each line, as explain.Access takes them,
        and the typed tree as text.
        """
        return {}, [], ""

    def listing(self, space: Space, kernel, policy, policy_kind: str, specs: tuple, reducers: tuple) -> str:
        """Return the machine code as text."""
        raise SpaceError(f"'{space}' has no machine code to list")

    def counted(
        self, space: Space, kernel, policy, policy_kind: str, specs: tuple, reducers: tuple, words, build: str
    ) -> dict:
        """Return the counts of portable.count, for one of `builds`."""


def register(name: str, backend: Backend) -> None:
    """Make a backend of another package known under the name of a space: `pk.register("toy", Toy())`.

    An installed package need not call this: its backend is found by the entry point `name` of the group
    "portable.backends".

    Parameters
    ----------
    name : str, an identifier
        The value that launches pass as space=name, or as "name:1" if the backend gives numbers a meaning.
    backend : portable.backends.contract.Backend

    Raises
    ------
    InputError
        The name is no identifier or is taken, or the object is no Backend.
    """
    taken = registry.known_spaces()
    if not isinstance(name, str) or not name.isidentifier() or name in taken:
        raise InputError(
            f"register: name is {name!r}; expected an identifier that is none of {', '.join(taken)}"
        )
    if isinstance(backend, type) or not isinstance(backend, Backend):
        raise InputError(
            f"register: backend is {backend!r}; expected an instance of portable.backends.contract.Backend"
        )
    registry.add(name, backend)
