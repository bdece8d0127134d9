"""Execution spaces: where kernels run, and which one runs them by default.

"serial" is one CPU thread, "threads" (or "threads:4") a pool of them, "cuda" (or "cuda:1") a GPU, "checked"
the plain Python interpreter; `portable.register` adds others. The backend of a space defines its properties
(machines/contract.py).
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
from collections.abc import Iterator
from typing import Literal

from .. import events, registry
from ...errors import InputError, SpaceUnavailableError, UnknownSpaceError
from .place import HOST as HOST, Space, SpaceLike, named
from .policy import check_index


def instances(space: SpaceLike = None, n: int = 2) -> tuple[Space, ...]:
    """Return n instances of a space, each with a separate queue: kernels in different queues may run at the
    same time.

    Parameters
    ----------
    space : str, Space or None
    n : int, at least 1

    Returns
    -------
    tuple of n Spaces
        Of a GPU: its streams, which last as long as the process. A kernel in one queue that reads results of
        another queue requires a `fence` of the other one first; copies wait for all. On a CPU, where launches
        have finished when they return, the space itself.

    Raises
    ------
    DTypeError, InputError
        `n` is not a positive integer.

    Examples
    --------
    >>> len(pk.instances("serial", 3))
    3
    """
    space = require(space)
    return registry.backend(space.name).instances(space, check_index(n, "instances: n", 1))


_chosen = contextvars.ContextVar("portable_space", default=None)


@functools.cache
def _first_choice():
    if name := os.environ.get("PORTABLE_SPACE"):
        return require(name)
    return next(space for space in map(named, registry.PREFERRED) if unavailable_because(space) is None)


def default_space() -> Space:
    """Return the space of launches that name none: `use`'s, else PORTABLE_SPACE, else cuda if a device
    answers, else threads.

    Examples
    --------
    >>> with pk.use("checked"):
    ...     pk.default_space().name
    'checked'
    """
    return _chosen.get() or _first_choice()


def resolve(space: SpaceLike = None) -> Space:
    """Return the Space meant by a name, a Space, or None (the default); UnknownSpaceError for anything
    else."""
    if space is None:
        return default_space()
    if isinstance(space, Space):
        return space
    if isinstance(space, str):
        return named(space)
    raise UnknownSpaceError(f"space must be a name or a Space, got {space!r} of type {type(space).__name__}")


@contextlib.contextmanager
def use(space: SpaceLike = None, debug: bool | Literal["nan"] = False) -> Iterator[Space]:
    """Run a block with another default space: `with pk.use("serial"): ...`.

    Parameters
    ----------
    space : str or Space, optional
        The default of the block; as before if not given.
    debug : bool or "nan"
        Run every kernel that is launched in the block, also on spaces that a policy names, in its debug build
        (docs/checked.md); with "nan" the build also detects operations that make NaN from numbers.

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
        raise InputError(f"use: debug is {debug!r}; expected False, True or 'nan'")
    token = _chosen.set(require(space))
    try:
        with events.changed(debug=debug) if debug else contextlib.nullcontext():
            yield _chosen.get()
    finally:
        _chosen.reset(token)


def unavailable_because(space: SpaceLike) -> str | None:
    """Return the reason why a space cannot run here.

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


def concurrency(space: SpaceLike = None) -> int:
    """Return the approximate number of teams that a space runs at one time: that of workspaces that are kept
    between tasks.

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
    space = require(space)
    return registry.backend(space.name).concurrency(space)


def queued(space: SpaceLike = None) -> bool:
    """Return True if launches on a space return before they have run, so that one thread keeps several
    such spaces busy.

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
    return registry.backend(require(space).name).queued


def follow(space: SpaceLike, other: SpaceLike) -> None:
    """Order later launches on `space` after all earlier launches on `other`; the calling thread waits for
    neither, if both queue their launches.

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
    space, other = require(space), require(other)
    if space == other or not queued(other):
        return
    if space.memory == other.memory:  # another queue of one device
        fence(other)
    else:
        registry.memory(space.memory).follow(registry.memory(other.memory))


def require(space: SpaceLike = None) -> Space:
    """Return the Space meant by a name, a Space, or None (the default); SpaceUnavailableError with the reason
    if it cannot run here.
    """
    space = resolve(space)
    if (reason := registry.backend(space.name).unavailable(space)) is not None:
        raise SpaceUnavailableError(f"space '{space}' cannot run here: {reason}")
    return space


def stamp(space: SpaceLike = None) -> events.Stamp:
    """Return a mark after everything launched on a space until now.

    Parameters
    ----------
    space : str, Space or None
        The default space if None.

    Returns
    -------
    Stamp
        `later.seconds_since(earlier)` waits for it and returns the seconds between two stamps of one space.

    Examples
    --------
    >>> before = pk.stamp("serial")
    >>> pk.stamp("serial").seconds_since(before) >= 0.0
    True
    """
    space = require(space)
    return registry.launches(space.name).stamp(space)


def fence(space: SpaceLike = None) -> None:
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
    space = require(space)
    registry.launches(space.name).fence(space)
