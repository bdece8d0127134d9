"""Define the space "far": serial's launches in a memory that the host reaches only by copies. It makes the
copies and launches of a GPU, with results that have the bits of serial."""

import ctypes
import types

import numpy as np

import portable as pk
from portable.core.machines import contract
from portable.core import registry


class Memory(contract.Memory):
    """Memory that is accessed only by its addresses, and is filled with NaN when allocated."""

    copy_to_host = copy_to_device = staticmethod(ctypes.memmove)

    def allocate(self, nbytes, zero=False):
        raw = np.full(nbytes + 64, 0 if zero else 0xFF, np.uint8)
        return types.SimpleNamespace(pointer=-(-raw.ctypes.data // 64) * 64, raw=raw)


class Far(contract.Backend):
    """Backend of the space."""

    def __init__(self):
        self.own = Memory()

    def launches(self):
        return registry.launches("serial")

    def space(self, name, number):
        return pk.Space(name, memory=name) if number is None else None

    def memory(self, name):
        return self.own

    def pool(self, space):
        return registry.backend("serial").pool(space)


FAR = Far()


class Heard:
    """Listener that records all events in order: labels of kernels, and copies as (from, to, bytes)."""

    def __init__(self):
        self.events = []

    def __call__(self, phase, what, event):
        if phase == "begin":
            self.events.append(tuple(event) if what == "copy" else event.label)

    @property
    def kernels(self):
        return [event for event in self.events if isinstance(event, str)]

    @property
    def waits(self):
        """Count the copies to the host before the last kernel, except additions of results."""
        kernels = [event if isinstance(event, str) and event != "add_to" else None for event in self.events]
        last = max(k for k, event in enumerate(kernels) if event)
        return [event for event in self.events[:last] if not isinstance(event, str) and event[1] == "host"]

    def copies(self, source, target, least=2000):
        """Return the bytes of each copy of at least that size."""
        found = [event for event in self.events if not isinstance(event, str)]
        return [nbytes for *way, nbytes in found if way == [source, target] and nbytes >= least]
