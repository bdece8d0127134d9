"""A space's name, memory, threads and device, as its backend defines them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, Union

from .. import registry
from ...errors import UnknownSpaceError

HOST = "host"  # the memory that NumPy reaches


@dataclass(frozen=True, slots=True)
class Space:
    """One execution space. Spaces compare by value.

    Attributes
    ----------
    name : str
        "serial", "threads", "cuda", "checked", or the name of a registered backend.
    memory : str
        Where its data lives: "host", or "cuda:0" and so on.
    n_threads : int
        CPU threads ("threads" and "numba"; 1 elsewhere).
    device : int
        Number of the GPU ("cuda" only).
    stream : int
        A driver's stream handle ("cuda" only); 0 is the default stream.
    debug : bool or "nan"
        Whether kernels run in their debug build; spaces that differ in this are equal.

    Examples
    --------
    >>> with pk.use("threads:3") as space:
    ...     space.n_threads, space.memory
    (3, 'host')
    """

    name: str
    memory: str = HOST
    n_threads: int = 1
    device: int = 0
    stream: int = 0
    debug: bool | Literal["nan"] = field(default=False, compare=False)

    def __str__(self):
        number = self.device or (self.n_threads if self.n_threads != named(self.name).n_threads else 0)
        return f"{self.name}:{number}" if number else self.name


SpaceLike: TypeAlias = Union[str, Space, None]


@functools.cache
def named(name: str) -> Space:
    """Return the space of a name; UnknownSpaceError if no backend has it."""
    kind, colon, number = name.partition(":")
    if registry.has_backend(kind) and (number.isdigit() or not colon):
        space = registry.backend(kind).space(kind, int(number) if colon else None)
        if space is not None:
            return space
    raise UnknownSpaceError(
        f"space {name!r} is unknown; expected one of {', '.join(registry.names())} (or 'cuda:1', 'threads:4',"
        " ...)"
    )
