"""Copies between pageable memory of the host and a device, through a ring of pinned memory.

The driver copies pageable memory through its internal buffer, with one thread, and waits. Here the calling
thread fills (or empties) the ring, for large copies together with the pool's threads, while the device copies
the pieces that are ready; the loops are compiled (`ring_up` and `ring_down` of machines/cpu/ring_code.py), so
that a small copy is one call.

Copies to the host that are neither small nor large are made by a kernel (`_MOVE`), which writes a stamp after
each piece. All of a block's stores precede its barrier, the barrier precedes the fence of the thread that
writes the stamp, and the fence the stamp, system-wide; the host reads the stamp with acquire order, and so
reads the piece as it was written. `ring_down` returns when each piece was copied out after its own stamp, or
else after the end of the queue: nothing writes to the ring any more.

The target of a copy to the host is often new memory, whose pages the system clears when they are first
written to, in huge pages of 2 MiB where it can. Threads that write to the same page wait for each other;
therefore pieces on the way down are large, and a thread takes a share of one (H100, 512 MiB to new memory,
two runs: 77 and 80 milliseconds with pieces of at most 4 MiB, 35 and 35 with 16, 38 and 36 with 32; 15 if the
pages existed).
"""

import ctypes

from ... import cache, registry
from .library import cu, error, version

RING_BYTES, _SEGMENTS = 64 << 20, 8
_MANY = 256 << 10  # from this number of bytes on the pool's threads help
_CALLS = (
    "cuEventSynchronize",
    "cuEventRecord",
    "cuStreamSynchronize",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
)
NEAR_BYTES = 4 << 20  # largest copy to the host by a kernel
_STAMP_BYTES = NEAR_BYTES >> 11  # eight for each 16 KiB
_MOVE = """
.version 6.0
.target sm_50
.address_size 64

.visible .entry ring_move(
  .param .u64 to, .param .u64 from, .param .u64 n, .param .u64 stamps, .param .u64 serial
)
.maxntid 1024
{
  .reg .pred %p<8>;
  .reg .b32 %r<8>;
  .reg .b64 %d<24>;
  ld.param.u64 %d0, [to];
  ld.param.u64 %d1, [from];
  ld.param.u64 %d2, [n];
  ld.param.u64 %d3, [stamps];
  ld.param.u64 %d4, [serial];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  setp.ne.u32 %p1, %r0, 0;
piece:
  mul.wide.u32 %d5, %r1, 16384;
  setp.ge.u64 %p2, %d5, %d2;
  @%p2 bra done;
  mul.wide.u32 %d6, %r0, 16;
  add.u64 %d6, %d5, %d6;
  add.u64 %d7, %d6, 16;
  add.u64 %d8, %d1, %d6;
  add.u64 %d9, %d0, %d6;
  setp.gt.u64 %p3, %d7, %d2;
  @%p3 bra byte;
  ld.volatile.global.v2.u64 {%d10, %d11}, [%d8];
  st.global.v2.u64 [%d9], {%d10, %d11};
  bra there;
byte:
  setp.ge.u64 %p4, %d6, %d2;
  @%p4 bra there;
  ld.volatile.global.u8 %r3, [%d8];
  st.global.u8 [%d9], %r3;
  add.u64 %d6, %d6, 1;
  add.u64 %d8, %d8, 1;
  add.u64 %d9, %d9, 1;
  bra byte;
there:
  bar.sync 0;
  @%p1 bra next;
  membar.sys;
  mul.wide.u32 %d12, %r1, 8;
  add.u64 %d12, %d3, %d12;
  st.volatile.global.u64 [%d12], %d4;
next:
  add.u32 %r1, %r1, %r2;
  bra piece;
done:
  ret;
}
"""


class Staging:
    """The ring of one Context. Copies are queued on the default stream, one at a time. When one to the device
    returns, its source has been read, and its last pieces may be on their way; one to the host has ended."""

    def __init__(self, context, pool):
        self.pool, self.memory = pool, context.allocate_pinned(RING_BYTES + _STAMP_BYTES)
        stamps = self.memory.pointer + RING_BYTES
        ctypes.memset(stamps, 0, _STAMP_BYTES)
        key = cache.key("cubin", context.device.compute_capability, version(), _MOVE)
        code = cache.get(key)
        if code is None:
            cache.put(key, code := context.link(_MOVE))
        self.function = context.load(code).function("ring_move")
        near = min(NEAR_BYTES, RING_BYTES)
        moves = cu.address("cuLaunchKernel"), self.function.handle.value, stamps, near
        self.events = [context.event(2) for _ in range(_SEGMENTS)]  # 2: of no time
        calls = cu.address("cuCtxSetCurrent"), context.handle.value, *map(cu.address, _CALLS)
        events = [event.handle.value for event in self.events]
        self.state, cu.up, cu.down = pool.ring(
            calls, self.memory.pointer, RING_BYTES // _SEGMENTS, events, moves
        )

    def copy(self, way, target, source, nbytes):
        """Copy "up", to the device, or "down"."""
        call = getattr(cu, way)
        if nbytes < _MANY:
            code = call(self.state, target, source, nbytes)
        else:
            self.pool.start()
            with self.pool.lock:
                code = call(self.state, target, source, nbytes)
        if code:
            raise error(f"a copy of {nbytes:,} bytes", code)


def staging_of(context):
    """Return a Staging, or None where the host has no threads for it."""
    pool = registry.backend("threads").native_pool()
    return pool and Staging(context, pool)
