"""Copies between pageable memory of the host and a device, through pieces of pinned memory.

The driver copies pageable memory through a buffer of its own, with one thread. Here several threads fill (or
empty) pinned pieces while the device copies others. Each thread has a stream and two pieces, and takes every
n-th piece of the copy.
"""

from __future__ import annotations

import ctypes
import os

from .library import cu

PIECE_BYTES = 4 << 20
LEAST_BYTES = 32 << 20  # smaller copies are the driver's
_MOST_THREADS = 8


class Staging:
    """The pinned pieces of one Context, and the threads that fill and empty them."""

    def __init__(self, context):
        from concurrent.futures import ThreadPoolExecutor

        usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.context, self.n_threads = context, min(usable, _MOST_THREADS)
        self.lanes = [
            (context.stream(), [(context.allocate_pinned(PIECE_BYTES), context.event()) for _ in range(2)])
            for _ in range(self.n_threads)
        ]
        self.threads = ThreadPoolExecutor(self.n_threads, "portable-copy")

    def copy(self, target, source, nbytes, to_device):
        """Copy bytes from one address to another, one of them of the device; waits for the end."""
        work = self._up if to_device else self._down
        parts = [self.threads.submit(work, k, target, source, nbytes) for k in range(self.n_threads)]
        for part in parts:
            part.result()

    def _pieces(self, k, nbytes):
        """(offset, bytes, pinned memory, event) of each piece of thread k."""
        pairs = self.lanes[k][1]
        for n, at in enumerate(range(k * PIECE_BYTES, nbytes, self.n_threads * PIECE_BYTES)):
            yield at, min(PIECE_BYTES, nbytes - at), *pairs[n % 2]

    def _up(self, k, target, source, nbytes):
        self.context.activate()
        stream = self.lanes[k][0].handle
        for at, size, pinned, event in self._pieces(k, nbytes):
            event.wait()  # for the copy before the last, which had the same memory
            ctypes.memmove(pinned.pointer, source + at, size)
            cu.cuMemcpyHtoDAsync(target + at, pinned.pointer, size, stream)
            event.record(stream)
        cu.cuStreamSynchronize(stream)

    def _down(self, k, target, source, nbytes):
        self.context.activate()
        stream, arriving = self.lanes[k][0].handle, None
        for at, size, pinned, event in self._pieces(k, nbytes):
            cu.cuMemcpyDtoHAsync(pinned.pointer, source + at, size, stream)
            event.record(stream)
            self._land(arriving, target)
            arriving = at, size, pinned, event
        self._land(arriving, target)

    @staticmethod
    def _land(piece, target):
        if piece is not None:
            at, size, pinned, event = piece
            event.wait()
            ctypes.memmove(target + at, pinned.pointer, size)
