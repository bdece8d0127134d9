"""The host's memory: NumPy's own."""

import ctypes

import numpy as np

from .. import dlpack
from .contract import Memory

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector; NumPy's own allocations start at multiples of 16


class Host(Memory):
    """Memory that NumPy allocates, and that needs no waiting for."""

    dlpack = dlpack.CPU, 0
    read = write = staticmethod(ctypes.memmove)

    def allocate(self, nbytes, zero):
        raw = (np.zeros if zero else np.empty)(nbytes + _ALIGNMENT, np.uint8)
        address = raw.__array_interface__["data"][0]
        return address + -address % _ALIGNMENT, raw
