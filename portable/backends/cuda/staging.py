"""Copies between pageable memory of the host and a device, through pieces of pinned memory.

The driver copies pageable memory through a buffer of its own, with one thread. Here all threads of the host
fill (or empty) one pinned piece while the device copies others: pieces form a ring, and are used in turn.

What comes back often goes to new memory, whose pages the system clears when they are first written to, huge
ones of 2 MiB where it can. Threads that meet in one page wait for each other, so that pieces on the way down
are large, and a thread takes a share of one (H100, 512 MiB to new memory, two turns: 77 and 80 milliseconds
with pieces of at most 4 MiB, 35 and 35 with 16, 38 and 36 with 32; 15 where the memory had its pages).
"""

from __future__ import annotations

import itertools

from .. import registry
from .library import cu

N_PIECES, RING_BYTES = 8, 64 << 20  # pieces of the ring at most; large ones are as few as it holds
# Bytes of a copy: threads that sleep wake too late for smaller ones, which are the driver's (H100, threads
# awake and asleep, by the driver and by pieces: 1 MiB up in 89 and 96 microseconds, 76 and 138, back in 146
# and 161, 88 and 157; 2 MiB up in 183 and 199, 142 and 210).
LEAST_BYTES = {"up": 2 << 20, "down": 1 << 20}
# of a piece, at least and at most
PIECE_BYTES = {"up": (512 << 10, 4 << 20), "down": (512 << 10, 16 << 20)}
_PAGE = 4096  # pieces begin at its multiples


class Staging:
    """The ring of one Context. Copies are queued on the default stream, one at a time. When one to the device
    returns, its source has been read, and its last pieces may be on their way; one to the host has ended."""

    def __init__(self, context):
        self.context = context
        self.ring, self.host = context.allocate_pinned(RING_BYTES), registry.memory("host")
        self.events = [context.event() for _ in range(N_PIECES)]

    def _cut(self, way, nbytes):
        """How many pieces there are at a time, and (offset, bytes, address in the ring, event) of each. Small
        copies have small ones: the first is filled while threads wake."""
        least, most = PIECE_BYTES[way]
        size = -(-min(max(-(-nbytes // N_PIECES), least), most) // _PAGE) * _PAGE
        step = max(RING_BYTES // N_PIECES, size)  # pieces of the copy before have places of their own
        n = RING_BYTES // step
        places = itertools.cycle((self.ring.pointer + k * step, self.events[k]) for k in range(n))
        return n, ((at, min(size, nbytes - at), *next(places)) for at in range(0, nbytes, size))

    def up(self, target, source, nbytes):
        """Copy from the host to the device."""
        self.context.activate()
        for at, size, pinned, event in self._cut("up", nbytes)[1]:
            event.wait()  # for the piece before that had this place, perhaps of another copy
            self.host.copy_for_device(pinned, source + at, size)
            cu.cuMemcpyHtoDAsync(target + at, pinned, size, None)
            event.record()

    def down(self, target, source, nbytes):
        """Copy from the device to the host."""
        self.context.activate()
        (n, pieces), under_way = self._cut("down", nbytes), []
        while True:
            for at, size, pinned, event in itertools.islice(pieces, n - len(under_way)):
                cu.cuMemcpyDtoHAsync(pinned, source + at, size, None)
                event.record()
                under_way.append((at, size, pinned, event))
            if not under_way:
                return
            at, size, pinned, event = under_way.pop(0)
            event.wait()
            self.host.copy_to_host(target + at, pinned, size)
