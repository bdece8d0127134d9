"""Copies between pageable memory of the host and a device, through pieces of pinned memory.

The driver copies pageable memory through a buffer of its own, with one thread. Here all threads of the host
fill (or empty) one pinned piece while the device copies others: pieces form a ring, and are used in turn.
"""

from __future__ import annotations

import itertools

from .. import registry
from .library import cu

N_PIECES = 8
# Bytes of a copy: threads that sleep wake too late for smaller ones, which are the driver's (H200: 4 MiB in
# 274 microseconds by the driver, 287 by pieces; 16 MiB in 1,160 and 635).
LEAST_BYTES = 4 << 20
PIECE_BYTES = 512 << 10, 4 << 20  # of a piece, at least and at most


class Staging:
    """The ring of one Context. Copies are queued on the default stream, one at a time, and have ended when
    they return."""

    def __init__(self, context):
        self.context = context
        pieces = [(context.allocate_pinned(PIECE_BYTES[1]), context.event()) for _ in range(N_PIECES)]
        self.pieces, self.host = itertools.cycle(pieces), registry.memory("host")

    def _cut(self, nbytes):
        """(offset, bytes, pinned memory, event) of each piece. Small copies have small ones: the first is
        filled while threads wake."""
        least, most = PIECE_BYTES
        size = min(max(-(-nbytes // N_PIECES), least), most)
        return ((at, min(size, nbytes - at), *next(self.pieces)) for at in range(0, nbytes, size))

    def up(self, target, source, nbytes):
        """Copy from the host to the device."""
        self.context.activate()
        for at, size, pinned, event in self._cut(nbytes):
            event.wait()  # for the copy a turn before, which had the same memory
            self.host.copy_to_host(pinned.pointer, source + at, size)
            cu.cuMemcpyHtoDAsync(target + at, pinned.pointer, size, None)
            event.record()
        cu.cuStreamSynchronize(None)

    def down(self, target, source, nbytes):
        """Copy from the device to the host."""
        self.context.activate()
        pieces, under_way = self._cut(nbytes), []
        while True:
            for at, size, pinned, event in itertools.islice(pieces, N_PIECES - len(under_way)):
                cu.cuMemcpyDtoHAsync(pinned.pointer, source + at, size, None)
                event.record()
                under_way.append((at, size, pinned, event))
            if not under_way:
                return
            at, size, pinned, event = under_way.pop(0)
            event.wait()
            self.host.copy_to_host(target + at, pinned.pointer, size)
