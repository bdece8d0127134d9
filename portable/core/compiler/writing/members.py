"""Define the members of a team for the code of a kernel."""

from ..reading.team import ALIGN, aligned
from ...language.types import in_parts, itemsize
from .values import ViewValue


class Members:
    """Base of a machine's team. Its subclass provides size, registers, rank, barrier, combine, pick, append,
    before, thread_range; and tally, if atomics of members that execute together have no fixed order.

    Attributes
    ----------
    buffer : where the team's scratch begins
    used : bytes of scratch that are allocated
    """

    def __init__(self, league_rank, league_size, buffer):
        self.league_rank, self.league_size, self.buffer, self.used = league_rank, league_size, buffer, 0

    def tally(self, here, view, index, n):
        """Add 1 to view[index], one of n numbers, in the order of lanes; return its old value."""
        return here.memory.atomic(here, "add", view, [index], here.ops.const(1))

    def scratch(self, ops, label, dtype, shape):
        """Return an array of the team; its shape consists of LLVM values or Python integers."""
        n_bytes = itemsize(dtype)
        for extent in shape:
            n_bytes = ops.bytes_times(n_bytes, extent)
        pointer = ops.advance(self.buffer, self.used)
        if isinstance(n_bytes, int):
            rounded = aligned(n_bytes)
        else:
            more = ops.plus(n_bytes, ALIGN - 1)
            rounded = more & more.type(-ALIGN)
        self.used = ops.plus(self.used, rounded)
        strides, step = [], itemsize(dtype)
        for extent in reversed(shape):
            strides.insert(0, step)
            step = ops.bytes_times(step, extent)
        dtype, shape, strides = in_parts(dtype, shape, strides)
        return ViewValue(label, dtype, pointer, shape, strides, store="(scratch)")
