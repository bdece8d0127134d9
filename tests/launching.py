"""Launch on any space from NumPy arrays and back, so that a test is one function of the space."""

import contextlib
import dataclasses
from unittest import mock

import numpy as np
import pytest

import portable as pk
from portable.core import cache
from portable.core.language.kernel import _Kept
from portable.core.machines.cpu import engine
from portable.core.places.space import HOST, resolve
from portable.library.texts.words import Small


floats = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture
def space(space):
    """Make the space that of launches that name none."""
    with pk.use(space):
        yield space


def launch_for(policy, kernel, *args, space=None):
    """Run a kernel on copies of the array arguments, on a space or the default.

    Returns
    -------
    ndarray or tuple of ndarray
        The array arguments after the launch, in order (those inside tuples too); a single array is not
        wrapped.
    """
    space = space or pk.default_space()
    moved = [move(arg, space) for arg in args]
    pk.parallel_for(_on(policy, space), kernel, *moved)
    arrays = tuple(_arrays(moved))
    return arrays[0] if len(arrays) == 1 else arrays


def launch_reduce(policy, kernel, *args, reducer=None, space=None):
    """Reduce over copies of the array arguments; return the result of parallel_reduce."""
    space, options = space or pk.default_space(), {} if reducer is None else {"reducer": reducer}
    return pk.parallel_reduce(_on(policy, space), kernel, *(move(arg, space) for arg in args), **options)


def _on(policy, space):
    policy = policy if dataclasses.is_dataclass(policy) else pk.RangePolicy(0, policy)
    return dataclasses.replace(policy, space=space)


def move(arg, space=None):
    """Copy an array to memory that kernels of a space, or the default, can access; return other arguments
    unchanged."""
    if isinstance(arg, tuple):
        return tuple(move(item, space) for item in arg)
    if not isinstance(arg, np.ndarray) or isinstance(arg, Small):
        return arg
    if resolve(space).memory == HOST:
        copy = np.empty_like(arg)
        copy[...] = arg
        copy.flags.writeable = arg.flags.writeable
        return copy
    view = pk.empty(arg.shape, arg.dtype, space=space)
    pk.deep_copy(view, pk.asview(arg, space="serial"))
    return view


def _arrays(args):
    for arg in args:
        if isinstance(arg, tuple):
            yield from _arrays(arg)
        elif isinstance(arg, np.ndarray) and not isinstance(arg, Small):
            yield arg
        elif isinstance(arg, pk.View):
            yield arg.to_numpy()


def builds(kernel):
    """Return (policy kind, argument types, reducers) of all builds of a kernel on the CPU; counting builds
    have a name in addition."""
    return [key[1:] for key in kernel.compiled if key[0] == "cpu" and len(key) == 4]


@contextlib.contextmanager
def hardly_optimised():
    """Compile for the CPU at LLVM's level 0 what is in no cache, for tests that only want builds to exist.
    Code on disk has keys of its own, and what kernels keep of it is forgotten in the end."""
    kept, load, keep = [], engine.load, _Kept.__setitem__

    def quick(text, name, key=None, level=3, hear=None):
        key = key or engine.key_of(text, level)
        if level and cache.get(key, False) is None:
            key, level = f"{key}quick", 0
        return load(text, name, key, level, hear)

    def recorded(own, key, value):
        kept.append((own, key))
        keep(own, key, value)

    with mock.patch.object(engine, "load", quick), mock.patch.object(_Kept, "__setitem__", recorded):
        yield
    for own, key in kept:
        own.pop(key, None)
