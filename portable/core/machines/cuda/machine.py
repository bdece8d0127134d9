"""The space "cuda", as machines/contract.py defines it; its memory is a driver.Context."""

import dataclasses

from ... import dlpack
from ....errors import DTypeError, InputError
from ..contract import Backend
from . import driver, Cuda


class _Cuda(Backend):
    team_size, queued, dlpack = 256, True, (dlpack.CUDA, dlpack.CUDA_MANAGED)

    def launches(self):
        from . import space

        return space

    def space(self, name, number):
        return Cuda(number or 0)

    def memory(self, name):
        return driver.context(int(name.partition(":")[2]))

    def unavailable(self, space):
        usable, reason = driver.available()
        if not usable:
            return reason
        count = len(driver.devices())
        return None if space.device < count else f"this machine has {count} CUDA device(s), numbered from 0"

    def concurrency(self, space):
        return 16 * driver.context(space.device).device.multiprocessors

    def instances(self, space, n):
        context = driver.context(space.device)
        return tuple(dataclasses.replace(space, stream=context.lasting_stream()) for _ in range(n))

    def about(self, space):
        for d in driver.devices():
            capability = ".".join(map(str, d.compute_capability))
            yield (
                f"cuda:{d.ordinal}",
                (
                    f"{d.name}, compute capability {capability}, {d.multiprocessors} multiprocessors, "
                    f"{d.memory_bytes / 2**30:.0f} GiB"
                ),
            )

    def adopt(self, array):
        given = getattr(array, "__cuda_array_interface__", None)
        if given is None:
            return None
        if given.get("mask") is not None:
            raise DTypeError("asview: masked arrays are not supported")
        pointer = given["data"][0]
        context = driver.known.get(pointer)
        if context is None:
            ordinal = driver.device_of(pointer) if pointer else 0
            if ordinal is None:
                raise InputError(f"asview: CUDA did not allocate the memory of the {type(array).__name__}")
            context = driver.context(ordinal)
            driver.know(pointer, context)
        # work queued on another stream must finish before the array is read here
        if given.get("stream") not in (None, 1):
            context.synchronize()
        if not context.parallel:
            context.share()
        return given, context.name

    def pinned(self, nbytes):
        return driver.context(0).allocate_pinned(nbytes) if self.unavailable(Cuda()) is None else None


BACKENDS = {"cuda": _Cuda()}
