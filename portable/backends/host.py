"""The host's memory: NumPy's own."""

import ctypes
import types

import numpy as np

from .. import dlpack
from .contract import Memory

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector; NumPy's own allocations start at multiples of 16


class Host(Memory):
    """Memory that NumPy allocates and reaches."""

    dlpack = dlpack.CPU, 0
    copy_to_host = copy_to_device = staticmethod(ctypes.memmove)

    def allocate(self, nbytes, zero=False):
        raw = (np.zeros if zero else np.empty)(nbytes + _ALIGNMENT, np.uint8)
        address = raw.__array_interface__["data"][0]
        return types.SimpleNamespace(pointer=address + -address % _ALIGNMENT, raw=raw)


MEMORY = Host()
