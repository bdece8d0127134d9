"""Execution spaces: where kernels run, and which one runs them by default.

"serial" is one CPU thread, "threads" (or "threads:4") a pool of them, "cuda" (or "cuda:1") a GPU, "checked" the plain
Python interpreter.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
import os
from dataclasses import dataclass

from .errors import InputError, SpaceUnavailableError, UnknownSpaceError
from .policy import check_index

NAMES = ("serial", "threads", "cuda", "checked")


@dataclass(frozen=True, slots=True)
class Space:
    """One execution space. Spaces compare by value.

    Attributes
    ----------
    name : str
        "serial", "threads", "cuda" or "checked".
    memory : str
        Where its data lives: "host", or "cuda:0" and so on.
    n_threads : int
        CPU threads ("threads" only; 1 elsewhere).
    device : int
        Number of the GPU ("cuda" only).
    stream : int
        A driver's stream handle ("cuda" only); 0 is the default stream.
    """

    name: str
    memory: str = "host"
    n_threads: int = 1
    device: int = 0
    stream: int = 0

    def __str__(self):
        if self.name == "threads" and self.n_threads != _threads().n_threads:
            return f"threads:{self.n_threads}"
        return f"cuda:{self.device}" if self.name == "cuda" and self.device else self.name


def Threads(n=None):  # noqa: N802  (a space reads like a class to its users)
    """The space of `n` CPU threads; n may exceed the cores. All usable cores if not given."""
    if n is None:
        return _threads()
    if check_index(n, "Threads: n") < 1:
        raise InputError(f"Threads: n is {n}; at least 1 is wanted")
    return Space("threads", n_threads=n)


def Cuda(device=0, stream=0):  # noqa: N802
    """The space of GPU number `device`; `stream` is a driver's stream handle."""
    if check_index(device, "Cuda: device") < 0:
        raise InputError(f"Cuda: device is {device}; zero or more is wanted")
    return Space("cuda", memory=f"cuda:{device}", device=device, stream=check_index(stream, "Cuda: stream"))


def instances(space=None, n=2):
    """A space n times, each with a queue of its own: kernels in different queues may run at the same time.

    Parameters
    ----------
    space : str, Space or None
    n : int, at least 1

    Returns
    -------
    tuple of n Spaces
        Of a GPU: its streams, which last as long as the process. What one queue reads of another's results wants a
        `fence` of that one first; copies wait for all. On a CPU, where launches have finished when they return, the space
        itself.
    """
    space = require(resolve(space))
    if check_index(n, "instances: n") < 1:
        raise InputError(f"instances: n is {n}; at least 1 is wanted")
    if space.name != "cuda":
        return (space,) * n
    from .backends.cuda import driver

    return tuple(dataclasses.replace(space, stream=driver.context(space.device).lasting_stream()) for _ in range(n))


@functools.cache
def _threads():
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("PORTABLE_NUM_THREADS")
    if asked is not None and not (asked.isdigit() and int(asked) > 0):
        raise InputError(f"PORTABLE_NUM_THREADS is {asked!r}; a positive whole number is wanted")
    return Space("threads", n_threads=int(asked) if asked else usable)


@functools.cache
def _named(name):
    kind, colon, number = name.partition(":")
    if kind == "cuda" and (number.isdigit() or not colon):
        return Cuda(int(number or 0))
    if kind == "threads" and number.isdigit() and int(number):
        return Threads(int(number))
    if name == "threads":
        return _threads()
    if name in NAMES:
        return Space(name)
    raise UnknownSpaceError(f"space {name!r} is unknown; wanted one of {', '.join(NAMES)} (or 'cuda:1', 'threads:4', ...)")


_chosen = contextvars.ContextVar("portable_space", default=None)


@functools.cache
def _first_choice():
    if name := os.environ.get("PORTABLE_SPACE"):
        return require(_named(name))
    return _named("cuda") if unavailable_because(_named("cuda")) is None else _named("threads")


def default_space():
    """The space of launches that name none: `use`'s, else PORTABLE_SPACE, else cuda if a device answers, else threads."""
    return _chosen.get() or _first_choice()


def resolve(space=None):
    """The Space meant by a name, a Space, or None (the default); UnknownSpaceError for anything else."""
    if space is None:
        return default_space()
    if isinstance(space, Space):
        return space
    if isinstance(space, str):
        return _named(space)
    raise UnknownSpaceError(f"space must be a name or a Space, got {space!r} of type {type(space).__name__}")


@contextlib.contextmanager
def use(space):
    """Run a block with another default space: `with pk.use("serial"): ...`."""
    token = _chosen.set(require(resolve(space)))
    try:
        yield _chosen.get()
    finally:
        _chosen.reset(token)


def unavailable_because(space):
    """None if the space can run here, else the reason in one line."""
    space = resolve(space)
    if space.name != "cuda":
        return None
    from .backends.cuda import driver

    usable, reason = driver.available()
    if not usable:
        return reason
    count = len(driver.devices())
    return None if space.device < count else f"this machine has {count} CUDA device(s), numbered from 0"


def concurrency(space=None):
    """How many teams a space works on at one time, about: what room of their own costs that they keep between tasks.

    The threads of a CPU; on a GPU sixteen small teams on each multiprocessor.
    """
    space = require(resolve(space))
    if space.name != "cuda":
        return space.n_threads
    from .backends.cuda import driver

    return 16 * driver.context(space.device).device.multiprocessors


def require(space):
    """The space itself, or SpaceUnavailableError with the reason."""
    if (reason := unavailable_because(space)) is not None:
        raise SpaceUnavailableError(f"space '{space}' cannot run here: {reason}")
    return space
