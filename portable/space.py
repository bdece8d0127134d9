"""Execution spaces: where kernels run, and which one runs them by default.

"serial" is one CPU thread, "threads" (or "threads:4") a pool of them, "cuda" (or "cuda:1") a GPU, "checked"
the plain Python interpreter; `portable.register` adds others. What a space is, its backend says
(backends/contract.py).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from . import events
from .annotations import SpaceLike
from .backends import registry
from .errors import InputError, SpaceUnavailableError, UnknownSpaceError
from .policy import as_policy, check_index

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
        number = self.device or (self.n_threads if self.n_threads != _named(self.name).n_threads else 0)
        return f"{self.name}:{number}" if number else self.name


def instances(space: SpaceLike | None = None, n: int = 2) -> tuple[Space, ...]:
    """A space n times, each with a queue of its own: kernels in different queues may run at the same time.

    Parameters
    ----------
    space : str, Space or None
    n : int, at least 1

    Returns
    -------
    tuple of n Spaces
        Of a GPU: its streams, which last as long as the process. What one queue reads of another's results
        wants a `fence` of that one first; copies wait for all. On a CPU, where launches have finished when
        they return, the space itself.

    Raises
    ------
    DTypeError, InputError
        `n` is no whole number from 1 on.

    Examples
    --------
    >>> len(pk.instances("serial", 3))
    3
    """
    space = require(resolve(space))
    if check_index(n, "instances: n") < 1:
        raise InputError(f"instances: n is {n}; at least 1 is wanted")
    return registry.backend(space.name).instances(space, n)


@functools.cache
def _named(name):
    kind, colon, number = name.partition(":")
    if registry.knows(kind) and (number.isdigit() or not colon):
        space = registry.backend(kind).space(kind, int(number) if colon else None)
        if space is not None:
            return space
    raise UnknownSpaceError(
        f"space {name!r} is unknown; wanted one of {', '.join(registry.names())} (or 'cuda:1', 'threads:4',"
        " ...)"
    )


_chosen = contextvars.ContextVar("portable_space", default=None)


@functools.cache
def _first_choice():
    if name := os.environ.get("PORTABLE_SPACE"):
        return require(_named(name))
    return next(space for space in map(_named, registry.PREFERRED) if unavailable_because(space) is None)


def default_space() -> Space:
    """The space of launches that name none: `use`'s, else PORTABLE_SPACE, else cuda if a device answers, else
    threads.

    Examples
    --------
    >>> with pk.use("checked"):
    ...     pk.default_space().name
    'checked'
    """
    return _chosen.get() or _first_choice()


def resolve(space: SpaceLike | None = None) -> Space:
    """The Space meant by a name, a Space, or None (the default); UnknownSpaceError for anything else."""
    if space is None:
        return default_space()
    if isinstance(space, Space):
        return space
    if isinstance(space, str):
        return _named(space)
    raise UnknownSpaceError(f"space must be a name or a Space, got {space!r} of type {type(space).__name__}")


@contextlib.contextmanager
def use(space: SpaceLike | None = None, debug: bool | Literal["nan"] = False) -> Iterator[Space]:
    """Run a block with another default space: `with pk.use("serial"): ...`.

    Parameters
    ----------
    space : str or Space, optional
        The default of the block; as before if not given.
    debug : bool or "nan"
        Run every kernel that is launched in the block, also on spaces that a policy names, in its debug build
        (docs/checked.md); with "nan" it also looks for operations that make NaN from numbers.

    Yields
    ------
    Space
        The block's default.

    Raises
    ------
    InputError, UnknownSpaceError, SpaceUnavailableError

    Examples
    --------
    >>> with pk.use("serial"):
    ...     print(pk.default_space())
    serial
    """
    if debug not in (False, True, "nan"):
        raise InputError(f"use: debug is {debug!r}; False, True or 'nan' is wanted")
    token = _chosen.set(require(resolve(space)))
    try:
        if not debug:
            yield _chosen.get()
        else:
            with events.instead(_debug_hooks(debug, events.current())):
                yield _chosen.get()
    finally:
        _chosen.reset(token)


def _debug_hooks(debug, before):
    """The hooks of a block on debug builds: the same for all that ask for the same and have no others, by
    which plans know them."""
    known = _known.get(debug)
    if known is None:
        from .dispatch import bind

        known = _known[debug] = events.Hooks(redirect=functools.partial(debugged, debug, bind))
    if before in (events.NONE, known):
        return known
    plain = before.redirect in (None, known.redirect)
    return before._replace(
        redirect=known.redirect if plain else functools.partial(debugged, debug, before.redirect)
    )


_known = {}  # by `debug`


def debugged(debug, bind, policy, *launch):
    """`bind` of a launch (dispatch.py), or what stands in for it, on the space's debug build."""
    policy = as_policy(policy)
    space = policy.space if policy.space.__class__ is str else resolve(policy.space)
    return bind(_debugging(policy, space, getattr(space, "debug", debug) or debug), *launch)


@functools.lru_cache(maxsize=1024)
def _debugging(policy, space, debug):
    return replace(policy, space=replace(resolve(space), debug=debug))


def unavailable_because(space: SpaceLike) -> str | None:
    """Why a space cannot run here.

    Parameters
    ----------
    space : str or Space

    Returns
    -------
    str or None
        The reason in one line; None if it can.

    Raises
    ------
    UnknownSpaceError

    Examples
    --------
    >>> pk.unavailable_because("serial") is None
    True
    """
    space = resolve(space)
    return registry.backend(space.name).unavailable(space)


def concurrency(space: SpaceLike | None = None) -> int:
    """How many teams a space works on at one time, about: what room of their own costs that they keep between
    tasks.

    Parameters
    ----------
    space : str, Space or None

    Returns
    -------
    int
        The threads of a CPU; on a GPU sixteen small teams on each multiprocessor.

    Examples
    --------
    >>> pk.concurrency("threads:3")
    3
    """
    space = require(resolve(space))
    return registry.backend(space.name).concurrency(space)


def queued(space: SpaceLike | None = None) -> bool:
    """Whether launches on a space return before they have run, so that one thread keeps several such spaces
    busy.

    Parameters
    ----------
    space : str, Space or None

    Returns
    -------
    bool

    Examples
    --------
    >>> pk.queued("serial")
    False
    """
    return registry.backend(require(resolve(space)).name).queued


def follow(space: SpaceLike, other: SpaceLike) -> None:
    """Have what is launched on a space from now on begin after all that was launched on another has ended;
    this thread waits for neither, if both queue their launches.

    Parameters
    ----------
    space, other : str or Space

    Raises
    ------
    UnknownSpaceError, SpaceUnavailableError

    Examples
    --------
    >>> pk.follow("serial", "threads")
    """
    space, other = require(resolve(space)), require(resolve(other))
    if space == other or not queued(other):
        return
    if space.memory == other.memory:  # another queue of one device
        fence(other)
    else:
        registry.memory(space.memory).follow(registry.memory(other.memory))


def require(space: Space) -> Space:
    """The space itself, or SpaceUnavailableError with the reason."""
    if (reason := unavailable_because(space)) is not None:
        raise SpaceUnavailableError(f"space '{space}' cannot run here: {reason}")
    return space


def stamp(space: SpaceLike | None = None) -> events.Stamp:
    """A mark behind everything launched on a space until now.

    Parameters
    ----------
    space : str, Space or None
        The default space if None.

    Returns
    -------
    Stamp
        `later.seconds_since(earlier)` waits for it and tells the time between two of one space, in seconds.

    Examples
    --------
    >>> before = pk.stamp("serial")
    >>> pk.stamp("serial").seconds_since(before) >= 0.0
    True
    """
    space = require(resolve(space))
    return registry.launches(space.name).stamp(space)


def fence(space: SpaceLike | None = None) -> None:
    """Wait until everything launched on a space has finished.

    Parameters
    ----------
    space : str, Space or None
        The default space if None.

    Raises
    ------
    UnknownSpaceError, SpaceUnavailableError, DeviceError

    Examples
    --------
    >>> pk.fence("serial")
    """
    space = require(resolve(space))
    registry.launches(space.name).fence(space)
