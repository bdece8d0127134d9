"""The host's memory: NumPy's own."""

import ctypes
import math
import types

import numpy as np

from .. import dlpack
from ..view import address
from . import registry
from .contract import Memory

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector; NumPy's own start at multiples of 16
_MANY = 256 << 10  # bytes that are worth waking threads for


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
        raw = (np.zeros if zero else np.empty)(math.prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
        return np.ndarray(shape, dtype, raw, -address(raw) % _ALIGNMENT)

    def allocate(self, nbytes, zero=False):
        array = self.array((nbytes,), np.dtype(np.uint8), zero)
        return types.SimpleNamespace(pointer=address(array), array=array)
