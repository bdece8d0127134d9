"""Scans on CUDA, reduce-then-scan: three kernels, so that the bits of a sum do not depend on which block
comes first.

    entry     a block a tile: the tile's total, into `partials`
    finish    one block: partials become what lies before each tile; the total of all is the result
    apply     a block a tile: the prefixes, into `out`, the last argument

A thread scans neighbouring states, ITEMS words of them (one state if the kernel loops); a tile is what one
block takes. The kernel runs, and prefixes are written, with neighbouring threads at neighbouring indices:
shared memory turns one order into the other.
"""

from __future__ import annotations

from llvmlite import ir

from ...compiler.scanned import Scanned, words_of
from ...compiler.team import combine_states, finished
from ...compiler.tree import flat
from ...compiler.types import VARYING
from ...compiler.values import I64, PTR, Value
from ...policy import WITH_PREFIXES
from . import lower as cuda
from .lanes import barrier, block, scan_block, shared_words, thread

ITEMS = 8


class ScanEntry(Scanned, cuda.Entry):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive", "scan exclusive"
    or "scan total"."""

    @property
    def items(self):
        return 1 if self.kernel.portable_text.has_loops else max(1, ITEMS // self.reducers[0].n_words)

    @property
    def tile(self):  # known before the text is: a launch whose code was kept has no text
        return self.items * self.threads

    def emit(self):
        self.module.triple, self.module.data_layout = "nvptx64-nvidia-cuda", cuda.DATA_LAYOUT
        (self.reducer,) = self.reducers
        self.state = tuple(Value(v.dtype, VARYING, None) for v in self.states[0])
        prefixes = self.policy_kind in WITH_PREFIXES
        for name, body in (("entry", self._totals), ("finish", self._offsets), ("apply", self._prefixes))[
            : 2 + prefixes
        ]:
            self.open(ir.Function(self.module, ir.FunctionType(ir.VoidType(), [PTR]), name))
            self.outs = flat(self.args.pop()) if prefixes else ()
            body()
            self.lower.b.ret_void()

    def _combined(self, a, b):
        result = combine_states(self.lower, self.reducer, a, b)
        return tuple(Value(v.dtype, VARYING, self.lower.get(x, v.dtype)) for v, x in zip(self.state, result))

    def _start(self):
        b = self.lower.b
        return b.add(self.extra("begin"), b.mul(block(self.lower), ir.Constant(I64, self.tile)))

    def _coalesced(self, start):
        """(place in the tile, index, whether it lies before the end) of this thread's items when neighbours
        are neighbours."""
        b, end = self.lower.b, self.extra("end")
        for k in range(self.items):
            place = b.add(thread(self.lower), ir.Constant(I64, k * self.threads))
            index = b.add(start, place, flags=("nsw",))
            yield place, index, b.icmp_signed("<", index, end)

    def _shelf(self, shelves, place):
        """A place of the tile in shared memory; one word in nine is padding against bank conflicts."""
        b = self.lower.b
        word = b.add(place, b.ashr(place, ir.Constant(I64, 3)))
        return [b.gep(shelf, [word], source_etype=I64) for shelf in shelves]

    def _items(self, shelves):
        """The places of this thread's neighbouring items."""
        b = self.lower.b
        first = b.mul(thread(self.lower), ir.Constant(I64, self.items))
        return [self._shelf(shelves, b.add(first, ir.Constant(I64, k))) for k in range(self.items)]

    def _own(self, start, shelves):
        """The contributions of this thread's items, the neutral value beyond the end; read in step, then
        handed over."""
        lower, b = self.lower, self.lower.b
        whole = b.icmp_signed("<=", b.add(start, ir.Constant(I64, self.tile)), self.extra("end"))
        with b.if_else(whole) as (inner, last):
            with inner:  # no condition: all loads are in flight at once
                for place, index, _ in list(self._coalesced(start)):
                    self._write(self._contribution(index), self._shelf(shelves, place))
            with last:
                for place, index, inside in self._coalesced(start):
                    self._write(self._neutral(), self._shelf(shelves, place))
                    with b.if_then(inside):
                        self._write(self._contribution(index), self._shelf(shelves, place))
        lower.begin_pack(None)
        barrier(lower)
        return [self._read(places) for places in self._items(shelves)]

    def _contribution(self, index):
        """What the kernel returns at one index."""
        lower = self.lower
        lower.begin_pack(None)
        position = lower.lanes(index)
        result = lower.inline(self.kernel.portable_text, [position, *self.args])
        (value,) = self._contributions(result)
        return self._state(self.reducer, value, position, VARYING)

    def _scanned(self, own):
        """(what lies before this thread in its block, the block's total)."""
        total = None
        for v in own:
            total = v if total is None else self._combined(total, v)
        return scan_block(self.lower, total, self._neutral(), self._combined, self.threads)

    def _new_shelves(self):
        """Of each number of a state."""
        return [shared_words(self.lower, self.tile + self.tile // 8 + 1, "tile") for _ in self.state]

    def _partial(self, number):
        """The places of a tile's state."""
        return words_of(self.lower, self.extra("partials", PTR), number, len(self.state))

    def _totals(self):
        lower, b = self.lower, self.lower.b
        _, total = self._scanned(self._own(self._start(), self._new_shelves()))
        with b.if_then(b.icmp_signed("==", thread(lower), ir.Constant(I64, 0))):
            self._write(total, self._partial(block(lower)))

    def _prefixes(self):
        lower, b = self.lower, self.lower.b
        start, shelves = self._start(), self._new_shelves()
        own = self._own(start, shelves)
        before, _ = self._scanned(own)
        running = self._combined(self._read(self._partial(block(lower))), before)
        for state, places in zip(own, self._items(shelves)):
            after = self._combined(running, state)
            self._write(running if self.policy_kind == "scan exclusive" else after, places)
            running = after
        barrier(lower)
        for place, index, inside in self._coalesced(start):
            with b.if_then(inside):
                prefix = finished(lower, self.reducer, self._read(self._shelf(shelves, place)))
                for out, x in zip(self.outs, flat(prefix)):
                    lower.store(out, [lower.lanes(index)], x)

    def _offsets(self):
        """ITEMS neighbouring partials a thread; `end` is their number. Behind the last, where anything may
        lie, is the total."""
        lower, b, end = self.lower, self.lower.b, self.extra("end")
        carry = [lower.slot(lower.scalar(v.dtype)) for v in self.state]
        self._write(self._neutral(), carry)
        self.steps(
            ir.Constant(I64, 0),
            b.add(end, ir.Constant(I64, 1)),
            ir.Constant(I64, self.threads * ITEMS),
            lambda base: self._stretch(base, carry),
        )
        lower.begin_pack(None)
        barrier(lower)
        with b.if_then(b.icmp_signed("==", thread(lower), ir.Constant(I64, 0))):
            self.write_results([self._read(self._partial(end))])

    def _stretch(self, base, carry):
        """The block's partials from `base` on become what lies before each, behind what was carried here."""
        lower, b = self.lower, self.lower.b
        lower.begin_pack(None)
        first = b.add(base, b.mul(thread(lower), ir.Constant(I64, ITEMS)), flags=("nsw",))
        places = [self._partial(b.add(first, ir.Constant(I64, k), flags=("nsw",))) for k in range(ITEMS)]
        own = [self._read(place) for place in places]
        before, total = self._scanned(own)
        carried = self._read(carry)
        running = self._combined(carried, before)
        for state, place in zip(own, places):
            self._write(running, place)
            running = self._combined(running, state)
        self._write(self._combined(carried, total), carry)
