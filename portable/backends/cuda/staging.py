"""Copies between pageable memory of the host and a device, through a ring of pinned memory.

The driver copies pageable memory through a buffer of its own, with one thread, and waits. Here the calling
thread fills (or empties) the ring, of large copies all threads of the host do, while the device copies what
was filled before; the loops are compiled (`ring_up` and `ring_down` of backends/cpu/ring_code.py), so that a
small copy is one call.

What comes back often goes to new memory, whose pages the system clears when they are first written to, huge
ones of 2 MiB where it can. Threads that meet in one page wait for each other, so that pieces on the way down
are large, and a thread takes a share of one (H100, 512 MiB to new memory, two turns: 77 and 80 milliseconds
with pieces of at most 4 MiB, 35 and 35 with 16, 38 and 36 with 32; 15 where the memory had its pages).
"""

from __future__ import annotations

import contextlib

from .. import registry
from .library import cu, error

RING_BYTES, _SEGMENTS = 64 << 20, 8
# of a piece, at least and at most
PIECE_BYTES = {"up": (512 << 10, 4 << 20), "down": (512 << 10, 16 << 20)}
_PAGE, _MANY = 4096, 256 << 10  # from so many bytes on the pool's threads help
_CALLS = (
    "cuEventSynchronize",
    "cuEventRecord",
    "cuStreamSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
)
_ALONE = contextlib.nullcontext()


class Staging:
    """The ring of one Context. Copies are queued on the default stream, one at a time. When one to the device
    returns, its source has been read, and its last pieces may be on their way; one to the host has ended."""

    def __init__(self, context, pool):
        self.pool, self.memory = pool, context.allocate_pinned(RING_BYTES)
        self.events = [context.event(2) for _ in range(_SEGMENTS)]  # 2: of no time
        calls = cu.address("cuCtxSetCurrent"), context.handle.value, *map(cu.address, _CALLS)
        events = [event.handle.value for event in self.events]
        self.state, cu.up, cu.down = pool.ring(calls, self.memory.pointer, RING_BYTES // _SEGMENTS, events)

    def copy(self, way, target, source, nbytes):
        """Copy "up", to the device, or "down"."""
        least, most = PIECE_BYTES[way]
        piece = -(-min(max(nbytes // _SEGMENTS, least), most) // _PAGE) * _PAGE
        many = nbytes >= _MANY and self.pool
        if many:
            many.start()
        with many.lock if many else _ALONE:
            code = getattr(cu, way)(self.state, target, source, nbytes, piece)
        if code:
            raise error(f"a copy of {nbytes:,} bytes", code)


def staging_of(context):
    """A Staging, or None where the host has no threads for it."""
    pool = registry.backend("threads").native_pool()
    return pool and Staging(context, pool)
