"""Arguments of past launches: enough to distinguish and to recover them, without keeping arrays alive."""

import math
import weakref

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline.touched import SIZES


class Past:
    """Store the place of a launch's array, and the owner of its memory.

    `owner` is a weak reference. On the host a slice that was made for one launch can be recovered as long as
    its memory lives.
    """

    __slots__ = ("dtype", "owner", "pointer", "rebuild", "shape", "strides")

    def __init__(self, a):
        self.rebuild = type(a) if isinstance(a, pk.ScatterView) else None
        a = a.view if self.rebuild else a
        self.shape, self.strides, self.dtype = a.shape, a.strides, a.dtype
        if isinstance(a, pk.View):
            self.pointer, a = a.pointer, a if a.memory != "host" or self.rebuild else np.asarray(a)
        else:
            self.pointer = a.ctypes.data
        if isinstance(a, np.ndarray):
            while isinstance(a.base, np.ndarray):
                a = a.base
        self.owner = weakref.ref(a)

    def recall(self):
        """Return the array, or raise InputError if its memory was freed."""
        a = self.owner()
        if a is None:
            raise InputError(
                "its arrays were freed, so it cannot be counted: keep them, or count launches as they"
                " run, by roofline.profile(counted=True)"
            )
        if self.rebuild:
            return self.rebuild(a)
        if isinstance(a, pk.View) or (a.ctypes.data, a.shape, a.strides) == (
            self.pointer,
            self.shape,
            self.strides,
        ):
            return a
        whole = a.reshape(-1, order="A")  # an owner is contiguous, in C's order or in Fortran's
        return np.ndarray(self.shape, self.dtype, whole, self.pointer - whole.ctypes.data, self.strides)


def _map_arrays(function, a):
    """Return a launch's argument with `function` applied to its arrays; a record keeps its type."""
    if isinstance(a, (np.ndarray, pk.View, pk.ScatterView, Past)):
        return function(a)
    if isinstance(a, tuple):
        items = [_map_arrays(function, one) for one in a]
        return a._make(items) if hasattr(a, "_make") else tuple(items)
    return a


def remembered(launch):
    """Return a copy of a launch that keeps no array alive."""
    return launch._replace(args=tuple(_map_arrays(Past, a) for a in launch.args), outs=())


def spans(launch):
    """Return {place of an array: its bytes} of a past launch."""
    found = {}

    def note(a):
        found[a.pointer] = math.prod(a.shape) * SIZES.get(a.dtype.name, 0)

    for a in launch.args:
        _map_arrays(note, a)
    return found


def recalled(launch):
    """Return a past launch with its arrays.

    Raises
    ------
    InputError
        One of them was freed.
    """
    return launch._replace(
        args=tuple(_map_arrays(lambda a: a.recall() if isinstance(a, Past) else a, b) for b in launch.args)
    )
