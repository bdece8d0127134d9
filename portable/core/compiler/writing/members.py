"""What a machine gives of its teams to the code of a kernel."""

from __future__ import annotations

from ..reading.team import ALIGN, aligned
from ...language.types import in_parts, itemsize
from .values import ViewValue


class Members:
    """A machine's team. Its subclass gives size, registers, rank, barrier, combine, pick, append, before,
    scratch_base, thread_range; and tally, if atomics of members that move together come in any order."""

    def __init__(self, league_rank, league_size):
        self.league_rank, self.league_size = league_rank, league_size

    def tally(self, lower, view, index, n):
        """Count one more in view[index], of n numbers, lanes in order; what was there before."""
        return lower.atomic("add", view, [index], lower.const(1))

    def scratch(self, lower, label, dtype, shape):
        """An array of the team's, of a shape of LLVM's or Python's integers."""
        n_bytes = itemsize(dtype)
        for extent in shape:
            n_bytes = lower.bytes_times(n_bytes, extent)
        pointer = self._scratch_pointer(lower, n_bytes)
        strides, step = [], itemsize(dtype)
        for extent in reversed(shape):
            strides.insert(0, step)
            step = lower.bytes_times(step, extent)
        dtype, shape, strides = in_parts(dtype, shape, strides)
        return ViewValue(label, dtype, pointer, shape, strides, store="(scratch)")

    def _scratch_pointer(self, lower, n_bytes):
        """The next aligned place in the team's buffer, of which `lower.scratch_used` bytes are taken."""
        place = lower.scratch_used
        pointer = lower.advance(self.scratch_base(lower), place)
        if isinstance(n_bytes, int):
            rounded = aligned(n_bytes)
        else:
            more = lower.plus(n_bytes, ALIGN - 1)
            rounded = lower.b.and_(more, more.type(-ALIGN))
        lower.scratch_used = lower.plus(place, rounded)
        return pointer
