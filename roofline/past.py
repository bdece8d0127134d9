"""Arguments of launches that are over: enough to tell them apart and to find them again, without keeping
arrays alive."""

import math
import weakref

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline.touched import SIZES


class Past:
    """An array that a launch had: where it lay, and whose memory that was.

    `owner` is weak. On the host a slice that was made for one launch is found again as long as its memory
    lives.
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
        """Return the array, or InputError where its memory is gone."""
        a = self.owner()
        if a is None:
            raise InputError(
                "its arrays are gone, so it cannot be counted any more: keep them, or count launches as they"
                " come, by roofline.profile(counted=True)"
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


def _each(function, a):
    """Return a launch's argument with its arrays mapped; a record stays one."""
    if isinstance(a, (np.ndarray, pk.View, pk.ScatterView, Past)):
        return function(a)
    if isinstance(a, tuple):
        items = [_each(function, one) for one in a]
        return a._make(items) if hasattr(a, "_make") else tuple(items)
    return a


def remembered(launch):
    """Return a launch that keeps no array alive."""
    return launch._replace(args=tuple(_each(Past, a) for a in launch.args), outs=())


def spans(launch):
    """Return {where an array lies: its bytes} of a launch of the past."""
    found = {}

    def note(a):
        found[a.pointer] = math.prod(a.shape) * SIZES.get(a.dtype.name, 0)

    for a in launch.args:
        _each(note, a)
    return found


def recalled(launch):
    """Return a launch of the past with the arrays that it had.

    Raises
    ------
    InputError
        One of them is gone.
    """
    return launch._replace(
        args=tuple(_each(lambda a: a.recall() if isinstance(a, Past) else a, b) for b in launch.args)
    )
