"""Backends by the names of their spaces, each imported when first used: `import portable` loads no compiler
and no driver.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

from .. import dlpack, locks
from ..errors import InputError

if TYPE_CHECKING:
    from .contract import Backend

# The default is the first that can run here. The last one always can, and is at home in the host's memory.
PREFERRED = ("cuda", "threads")


def _own(folder, name):
    return lambda: importlib.import_module(f"{__package__}.{folder}.machine").BACKENDS[name]


_loaders = {
    name: _own(folder, name)
    for name, folder in (
        ("serial", "cpu"),
        ("threads", "cpu"),
        ("numba", "cpu"),
        ("cuda", "cuda"),
        ("checked", "checked"),
    )
}


def register(name: str, backend: Backend) -> None:
    """Make a backend of another package known under the name of a space: `pk.register("toy", Toy())`.

    An installed package need not call this: its backend is found by the entry point `name` of the group
    "portable.backends".

    Parameters
    ----------
    name : str, an identifier
        What launches say: space=name, or "name:1" if the backend gives numbers a meaning.
    backend : portable.backends.contract.Backend

    Raises
    ------
    InputError
        The name is no identifier or is taken, or the object is no Backend.
    """
    from .contract import Backend

    if not isinstance(name, str) or not name.isidentifier() or name in _loaders:
        raise InputError(
            f"register: name is {name!r}; an identifier is wanted that is none of {', '.join(_loaders)}"
        )
    if isinstance(backend, type) or not isinstance(backend, Backend):
        raise InputError(
            f"register: backend is {backend!r}; "
            "an object that is a portable.backends.contract.Backend is wanted"
        )
    _loaders[name] = lambda: backend


@functools.cache
def _discover():
    from importlib.metadata import entry_points  # slow, and only for names that are not the layer's own

    for point in entry_points(group="portable.backends"):
        _loaders.setdefault(point.name, point.load)


def knows(name):
    """Whether there is a backend for the space of this name."""
    if name not in _loaders:
        _discover()
    return name in _loaders


def names():
    """The names of all spaces, those of installed packages too."""
    _discover()
    return tuple(_loaders)


@functools.cache
def backend(name):
    """The backend of the space of this name."""
    with locks.compiling:  # nobody forks in the middle of an import, whose lock the child would find taken
        return _loaders[name]()


@functools.cache
def launches(name):
    """What runs the kernels of the space of this name."""
    with locks.compiling:
        return backend(name).launches()


@functools.cache
def _host():
    with locks.compiling:
        from .host import Host
    return Host()


@functools.cache
def memory(name):
    """The memory that a Space or a View names: "host", or "cuda:0" and so on."""
    return _host() if name == "host" else backend(name.partition(":")[0]).memory(name)


def first(question, argument):
    """The first answer but None of a backend, of those known so far, to its method `question`."""
    answers = (getattr(backend(name), question)(argument) for name in list(_loaders))
    return next((answer for answer in answers if answer is not None), None)


def memory_of(device, number):
    """The name of the memory of a DLPack device; None if no space reaches it."""
    known = {kind: f"{name}:{number}" for name in list(_loaders) for kind in backend(name).dlpack}
    return (known | dict.fromkeys(dlpack.HOSTS, "host")).get(device)
