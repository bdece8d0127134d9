"""The host's memory: NumPy's own."""

import ctypes
import math
import os
import sys
import types

import numpy as np

from .. import dlpack, registry
from ..arrays.view import address, over_new
from .contract import LARGE, Memory

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector; NumPy's own start at multiples of 16
_MANY = 256 << 10  # bytes that are worth waking threads for


def _most_kept():
    """Return a 128th of the machine's memory, between 256 MiB and 1 GiB."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError):  # not on every system
        memory = 0
    return min(max(memory >> 7, 256 << 20), 1 << 30)


_MOST_KEPT = _most_kept()  # bytes of freed arrays, all together


class Host(Memory):
    """Memory that NumPy allocates and reaches."""

    dlpack = dlpack.CPU, 0

    def copy_to_host(self, target, source, nbytes):
        if nbytes < _MANY:
            ctypes.memmove(target, source, nbytes)
        else:
            registry.backend("threads").copy_bytes(target, source, nbytes)

    copy_to_device = copy_to_host

    def read(self, view):
        return view._array

    def array(self, shape, dtype, zero):
        nbytes = math.prod(shape) * dtype.itemsize
        if not zero and nbytes >= LARGE:
            return over_new(_Large(nbytes), shape, dtype)
        raw = (np.zeros if zero else np.empty)(nbytes + _ALIGNMENT, np.uint8)
        return np.ndarray(shape, dtype, raw, -address(raw) % _ALIGNMENT)

    def allocate(self, nbytes, zero=False):
        array = self.array((nbytes,), np.dtype(np.uint8), zero)
        return types.SimpleNamespace(pointer=address(array), array=array)


class _Large:
    """Memory of an array, which is kept for the next array of its size once it is unreferenced."""

    __slots__ = ("nbytes", "raw", "pointer")
    kept: dict[int, list[np.ndarray]] = {}  # by size; a list's pop and append need no lock

    def __new__(cls, nbytes):
        try:
            raw = cls.kept[nbytes].pop()
        except (KeyError, IndexError):
            raw = cls._new(nbytes + _ALIGNMENT)
        self = object.__new__(cls)
        self.nbytes, self.raw, self.pointer = nbytes, raw, address(raw) + -address(raw) % _ALIGNMENT
        return self

    @classmethod
    def _new(cls, nbytes):
        try:
            return np.empty(nbytes, np.uint8)
        except MemoryError:
            cls.kept = {}
            return np.empty(nbytes, np.uint8)

    @classmethod
    def _n_kept(cls):
        """Return the bytes of freed memory, of a copy of the dict: collecting garbage may free more."""
        return sum([size * len(arrays) for size, arrays in cls.kept.copy().items()])

    def __del__(self, ending=sys.is_finalizing):
        if ending():
            return
        cls, nbytes = type(self), self.nbytes
        if cls._n_kept() + nbytes > _MOST_KEPT:
            cls.kept = {}  # perhaps of sizes that are not used any more
        if nbytes <= _MOST_KEPT:
            cls.kept.setdefault(nbytes, []).append(self.raw)
            if cls._n_kept() > _MOST_KEPT:  # other threads have freed since
                cls.kept = {}
