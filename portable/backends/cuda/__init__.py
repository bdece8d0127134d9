"""The space "cuda": NVIDIA's GPUs. The driver is loaded when one is asked for."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np

from ... import dlpack
from ...errors import DTypeError, InputError
from ...policy import check_index
from ...space import HOST, Space
from ..contract import Backend, Memory

_FILL_BYTES = 1 << 20  # the host's part of a fill; the device doubles it


def Cuda(device=0, stream=0):  # noqa: N802  (a space reads like a class to its users)
    """The space of GPU number `device`; `stream` is a driver's stream handle."""
    if check_index(device, "Cuda: device") < 0:
        raise InputError(f"Cuda: device is {device}; zero or more is wanted")
    return Space("cuda", memory=f"cuda:{device}", device=device, stream=check_index(stream, "Cuda: stream"))


def _driver():
    return importlib.import_module(f"{__package__}.driver")


class _Device(Memory):
    def __init__(self, ordinal):
        self.ordinal, self.dlpack = ordinal, (dlpack.CUDA, ordinal)

    @property
    def context(self):
        return _driver().context(self.ordinal)

    def allocate(self, nbytes, zero):
        memory = self.context.allocate(nbytes)
        if zero:
            self.context.fill(memory.pointer, 0, nbytes, wait=True)
        return memory.pointer, memory

    def read(self, target, source, nbytes):
        self.context.settle()
        self.context.copy_to_host(target, source, nbytes)

    def write(self, target, source, nbytes):
        self.context.settle()
        self.context.copy_to_device(target, source, nbytes)

    def copy(self, target, source, nbytes, origin):
        if not isinstance(origin, _Device):
            return super().copy(target, source, nbytes, origin)
        origin.wait()
        self.wait()
        if origin is self:
            return self.context.copy(target, source, nbytes, wait=True)
        return self.context.copy_from(origin.context, target, source, nbytes)

    def fill(self, target, pattern, nbytes):
        context = self.context
        context.synchronize()
        if pattern == pattern[:1] * len(pattern):
            return context.fill(target, pattern[0], nbytes, wait=True)
        done = min(nbytes, _FILL_BYTES // len(pattern) * len(pattern))
        start = np.frombuffer(pattern * (done // len(pattern)), np.uint8)
        context.copy_to_device(target, start.ctypes.data, done)
        while done < nbytes:
            part = min(done, nbytes - done)
            context.copy(target + done, target, part)
            done += part
        return context.synchronize()

    def wait(self):
        self.context.synchronize()

    def share(self):
        self.context.parallel = True

    def interface(self, view):
        self.share()
        return {"data": (view.pointer, view.readonly), "shape": view.shape, "strides": view.strides,
                "typestr": view.dtype.str, "version": 3, "stream": 1}  # 1: the legacy default stream


class _Cuda(Backend):
    team_size = 256

    def __init__(self):
        self.memories = {}

    def launches(self):
        from . import space

        return space

    def space(self, name, number):
        return Cuda(number or 0)

    def memory(self, name):
        ordinal = int(name.partition(":")[2] or 0)
        return self.memories.setdefault(ordinal, _Device(ordinal))

    def unavailable(self, space):
        usable, reason = _driver().available()
        if not usable:
            return reason
        count = len(_driver().devices())
        return None if space.device < count else f"this machine has {count} CUDA device(s), numbered from 0"

    def concurrency(self, space):
        return 16 * _driver().context(space.device).device.multiprocessors

    def instances(self, space, n):
        return tuple(dataclasses.replace(space, stream=_driver().context(space.device).lasting_stream()) for _ in range(n))

    def about(self, space):
        for d in _driver().devices():
            yield f"cuda:{d.ordinal}", (f"{d.name}, compute capability {'.'.join(map(str, d.compute_capability))}, "
                                        f"{d.multiprocessors} multiprocessors, {d.memory_bytes / 2**30:.0f} GiB")

    def adopt(self, array):
        given = getattr(array, "__cuda_array_interface__", None)
        if given is None:
            return None
        if given.get("mask") is not None:
            raise DTypeError("asview: masked arrays are not supported")
        pointer, readonly = given["data"]
        ordinal = _driver().device_of(pointer) if pointer else 0
        if ordinal is None:
            raise InputError(f"asview: CUDA does not know the memory of the {type(array).__name__}")
        memory = self.memory(f"cuda:{ordinal}")
        if given.get("stream") not in (None, 1):  # work queued on another stream than ours must be done before we look
            memory.wait()
        memory.share()
        interface = {name: given.get(name) for name in ("shape", "typestr", "strides")}
        return {"data": (pointer or 0, readonly), "version": 3, **interface}, f"cuda:{ordinal}"

    def adopts(self, device, number):
        return HOST if device == dlpack.CUDA_HOST else f"cuda:{number}" if device in (dlpack.CUDA, dlpack.CUDA_MANAGED) else None

    def pinned(self, nbytes):
        if self.unavailable(Cuda()) is not None:
            return None
        memory = self.memory("cuda:0").context.allocate_pinned(nbytes)
        return memory.pointer, memory


BACKENDS = {"cuda": _Cuda()}
