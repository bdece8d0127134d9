"""The host's memory: NumPy's own."""

import ctypes
import math
import os
import types

import numpy as np

from .. import dlpack
from ..view import address, over_new
from . import registry
from .contract import Memory

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector; NumPy's own start at multiples of 16
_MANY = 256 << 10  # bytes that are worth waking threads for


def _most_kept():
    """A 128th of the machine's memory, between 256 MiB and 1 GiB."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not on every system
        memory = 0
    return min(max(memory >> 7, 256 << 20), 1 << 30)


# Bytes of an array whose memory is kept when it is freed, at least, and of all that is kept: the system hands
# out fresh memory page by page (128 MB: 16 to 24 milliseconds, where a copy into used memory takes 4).
LARGE, _MOST_KEPT = 128 << 10, _most_kept()


class Host(Memory):
    """Memory that NumPy allocates and reaches."""

    dlpack = dlpack.CPU, 0

    def copy_to_host(self, target, source, nbytes):
        if nbytes < _MANY:
            ctypes.memmove(target, source, nbytes)
        else:
            registry.backend("threads").copy_bytes(target, source, nbytes)

    copy_to_device = copy_to_host

    def array(self, shape, dtype, zero):
        if not zero and math.prod(shape) * dtype.itemsize >= LARGE:
            return over_new(_Large(math.prod(shape) * dtype.itemsize), shape, dtype)
        raw = (np.zeros if zero else np.empty)(math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
        return np.ndarray(shape, dtype, raw, -address(raw) % _ALIGNMENT)

    def allocate(self, nbytes, zero=False):
        array = self.array((nbytes,), np.dtype(np.uint8), zero)
        return types.SimpleNamespace(pointer=address(array), array=array)


class _Large:
    """Memory of an array, which is kept for the next array of its size when nobody refers to this."""

    kept: dict[int, list[np.ndarray]] = {}  # by size; a list's pop and append need no lock
    most, raw = _MOST_KEPT, None  # names of modules may be gone before the last array is

    def __init__(self, nbytes):
        self.nbytes = nbytes
        try:
            self.raw = self.kept[nbytes].pop()
        except (KeyError, IndexError):
            self.raw = self._new(nbytes + _ALIGNMENT)
        start = address(self.raw)
        self.pointer = start + -start % _ALIGNMENT

    @classmethod
    def _new(cls, nbytes):
        try:
            return np.empty(nbytes, np.uint8)
        except MemoryError:
            cls.kept = {}
            return np.empty(nbytes, np.uint8)

    def __del__(self):
        cls = type(self)
        others = sum(size * len(arrays) for size, arrays in list(cls.kept.items()))
        if others + self.nbytes > self.most:
            cls.kept = {}  # perhaps of sizes that nobody asks for any more
        if self.raw is not None and self.nbytes <= self.most:
            cls.kept.setdefault(self.nbytes, []).append(self.raw)
