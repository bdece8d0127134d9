"""Copies between pageable memory of the host and a device, through pieces of pinned memory.

The driver copies pageable memory through a buffer of its own, with one thread. Here all threads of the host
fill (or empty) one pinned piece while the device copies others: pieces form a ring, and are used in turn.
"""

from __future__ import annotations

import itertools

from .. import registry
from .library import cu

N_PIECES = 8
LEAST_BYTES = 256 << 10  # smaller copies are the driver's; the smallest piece
MOST_BYTES = 4 << 20  # of a piece


class Staging:
    """The ring of one Context. Copies are queued on the default stream, one at a time, and have ended when
    they return."""

    def __init__(self, context):
        self.context = context
        pieces = [(context.allocate_pinned(MOST_BYTES), context.event()) for _ in range(N_PIECES)]
        self.pieces, self.host = itertools.cycle(pieces), registry.memory("host")

    def _cut(self, nbytes):
        """(offset, bytes, pinned memory, event) of each piece, each a quarter of the copy or less."""
        size = min(max(-(-nbytes // 4), LEAST_BYTES), MOST_BYTES)
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
