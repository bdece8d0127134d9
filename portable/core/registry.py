"""Backends by the names of their spaces, each imported when first used: `import portable` loads no compiler
and no driver.
"""

from functools import cache
import importlib

from . import dlpack, locks

# The default is the first that can run here. The last one always can, and is at home in the host's memory.
PREFERRED = ("cuda", "threads")


def _own_backends(module, name):
    return lambda: importlib.import_module(f"portable.{module}").BACKENDS[name]


_loaders = {
    name: _own_backends(module, name)
    for name, module in {
        "serial": "core.machines.cpu.machine",
        "threads": "core.machines.cpu.machine",
        "numba": "numba.machine",
        "cuda": "core.machines.cuda.machine",
        "checked": "watch.checked.machine",
    }.items()
}


def add(name, backend):
    """Know a backend by the name of its space."""
    _loaders[name] = lambda: backend


def known_spaces():
    """Return the names of spaces known so far."""
    return tuple(_loaders)


@cache
def _discover():
    from importlib.metadata import entry_points  # slow, and only for names of other packages

    for point in entry_points(group="portable.backends"):
        _loaders.setdefault(point.name, point.load)


def part(name):
    """Import a part that depends on its callers, and is loaded only for launches that use it."""
    with locks.compiling:
        return importlib.import_module(f"portable.{_PARTS[name]}")


_PARTS = {
    "functions of numba's": "numba.calls",
    "debug build": "watch.debug.faults",
    "special functions": "library.texts.special",
    "derivatives": "derivatives.derive",
    "given arguments": "library.named_arguments",
    "remedies": "library.remedies",
    "tiles of a team": "library.tiles",
    "words that look": "watch.observation_words",
    "counts of a CPU": "watch.counts.cpu",
    "counts of a GPU": "watch.counts.cuda",
}


def has_backend(name):
    """Return True if there is a backend for the space of this name."""
    if name not in _loaders:
        _discover()
    return name in _loaders


def names():
    """Return the names of all spaces, those of installed packages too."""
    _discover()
    return tuple(_loaders)


@cache
def backend(name):
    """Return the backend of the space of this name."""
    with locks.compiling:  # no thread forks during an import, whose lock would be held in the child
        return _loaders[name]()


@cache
def launches(name):
    """Return the object that runs the kernels of the space of this name."""
    with locks.compiling:
        return backend(name).launches()


@cache
def memory(name):
    """Return the memory that a Space or a View names: "host", or "cuda:0" and so on."""
    return backend(PREFERRED[-1] if name == "host" else name.partition(":")[0]).memory(name)


def first(question, argument):
    """Return the method `question` of the first registered backend with an answer other than None, and the
    answer; None if there is none.
    """
    methods = (getattr(backend(name), question) for name in list(_loaders))
    answers = ((method, method(argument)) for method in methods)
    return next((found for found in answers if found[1] is not None), None)


def memory_of(device, number):
    """Return the name of the memory of a DLPack device; None if no space reaches it."""
    known = {kind: f"{name}:{number}" for name in list(_loaders) for kind in backend(name).dlpack}
    return (known | dict.fromkeys(dlpack.HOSTS, "host")).get(device)
