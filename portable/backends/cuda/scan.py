"""Scans on CUDA, reduce-then-scan: three kernels, so that the bits of a sum do not depend on which block comes first.

    entry     a block a tile: the tile's total, into `partials`
    finish    one block: partials become what lies before each tile; the total of all is the result
    apply     a block a tile: the prefixes, into `out`, the last argument

A thread scans ITEMS neighbouring values (one if the kernel loops); a tile is what one block takes. The kernel runs, and
prefixes are written, with neighbouring threads at neighbouring indices: shared memory turns one order into the other.
"""

from __future__ import annotations

from llvmlite import ir

from ...compiler.team import combine_states
from ...compiler.types import UNIFORM, VARYING
from ...compiler.values import I64, PTR, Value
from . import lower as cuda
from .lanes import barrier, block, scan_block, shared_words, thread

ITEMS = 8


class ScanEntry(cuda.Entry):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive" or "scan exclusive"."""

    @property
    def items(self):
        return 1 if self.kernel.portable_text.has_loops else ITEMS

    @property
    def tile(self):  # known before the text is: a launch whose code was kept has no text
        return self.items * self.threads

    def emit(self):
        self.module.triple, self.module.data_layout = "nvptx64-nvidia-cuda", cuda.DATA_LAYOUT
        self.reducer, = self.reducers
        self.dtype = self.states[0][0].dtype
        for name, body in (("entry", self._totals), ("finish", self._offsets), ("apply", self._prefixes)):
            self.open(ir.Function(self.module, ir.FunctionType(ir.VoidType(), [PTR]), name))
            self.out = self.args.pop()
            body()
            self.lower.b.ret_void()

    def _neutral(self):
        return self.identity(self.reducer, (Value(self.dtype, UNIFORM, None),))[0]

    def _combined(self, a, b):
        result, = combine_states(self.lower, self.reducer, (a,), (b,))
        return Value(self.dtype, VARYING, self.lower.get(result, self.dtype))

    def _start(self):
        b = self.lower.b
        return b.add(self.extra("begin"), b.mul(block(self.lower), ir.Constant(I64, self.tile)))

    def _coalesced(self, start):
        """(place in the tile, index, whether it lies before the end) of this thread's items when neighbours are neighbours."""
        b, end = self.lower.b, self.extra("end")
        for k in range(self.items):
            place = b.add(thread(self.lower), ir.Constant(I64, k * self.threads))
            index = b.add(start, place, flags=("nsw",))
            yield place, index, b.icmp_signed("<", index, end)

    def _shelf(self, shelf, place):
        """A place of the tile in shared memory; one word in nine stays free, so that no two threads meet in a bank."""
        b = self.lower.b
        return b.gep(shelf, [b.add(place, b.ashr(place, ir.Constant(I64, 3)))], source_etype=I64)

    def _items(self, shelf):
        """The places of this thread's neighbouring items."""
        b = self.lower.b
        first = b.mul(thread(self.lower), ir.Constant(I64, self.items))
        return [self._shelf(shelf, b.add(first, ir.Constant(I64, k))) for k in range(self.items)]

    def _own(self, start, shelf):
        """The contributions of this thread's items, the neutral value beyond the end; read in step, then handed over."""
        lower, b = self.lower, self.lower.b
        whole = b.icmp_signed("<=", b.add(start, ir.Constant(I64, self.tile)), self.extra("end"))
        with b.if_else(whole) as (inner, last):
            with inner:  # no condition: all loads are in flight at once
                for place, index, _ in list(self._coalesced(start)):
                    b.store(self._contribution(index), self._shelf(shelf, place))
            with last:
                for place, index, inside in self._coalesced(start):
                    b.store(lower.get(self._neutral()), self._shelf(shelf, place))
                    with b.if_then(inside):
                        b.store(self._contribution(index), self._shelf(shelf, place))
        lower.begin_pack(None)
        barrier(lower)
        return [Value(self.dtype, VARYING, b.load(p, typ=lower.scalar(self.dtype))) for p in self._items(shelf)]

    def _contribution(self, index):
        """What the kernel returns at one index."""
        lower = self.lower
        lower.begin_pack(None)
        position = lower.lanes(index)
        result = lower.inline(self.kernel.portable_text, [position, *self.args])
        value, = self._contributions(result)
        value, = self._state(self.reducer, value, position, VARYING)
        return lower.get(value, self.dtype)

    def _scanned(self, own):
        """(what lies before this thread in its block, the block's total)."""
        total = None
        for v in own:
            total = v if total is None else self._combined(total, v)
        return scan_block(self.lower, total, self._neutral(), self._combined, self.threads)

    def _new_shelf(self):
        return shared_words(self.lower, self.tile + self.tile // 8 + 1, "tile")

    def _totals(self):
        lower, b = self.lower, self.lower.b
        _, total = self._scanned(self._own(self._start(), self._new_shelf()))
        with b.if_then(b.icmp_signed("==", thread(lower), ir.Constant(I64, 0))):
            b.store(lower.get(total), self.word(self.extra("partials", PTR), block(lower)))

    def _prefixes(self):
        lower, b = self.lower, self.lower.b
        start, shelf, scalar = self._start(), self._new_shelf(), lower.scalar(self.dtype)
        own = self._own(start, shelf)
        before, _ = self._scanned(own)
        offset = b.load(self.word(self.extra("partials", PTR), block(lower)), typ=scalar)
        running = self._combined(Value(self.dtype, UNIFORM, offset), before)
        for v, place in zip(own, self._items(shelf)):
            after = self._combined(running, v)
            b.store(lower.get(running if self.policy_kind == "scan exclusive" else after), place)
            running = after
        barrier(lower)
        for place, index, inside in self._coalesced(start):
            with b.if_then(inside):
                x = Value(self.dtype, VARYING, b.load(self._shelf(shelf, place), typ=scalar))
                lower.store(self.out, [lower.lanes(index)], x)

    def _offsets(self):
        """ITEMS neighbouring partials a thread; `end` is their number. Behind the last, where anything may lie, is the total."""
        lower, b = self.lower, self.lower.b
        scalar, partials, end = lower.scalar(self.dtype), self.extra("partials", PTR), self.extra("end")
        carry = lower.slot(scalar)
        b.store(lower.get(self._neutral()), carry)

        def stretch(base):
            lower.begin_pack(None)
            first = b.add(base, b.mul(thread(lower), ir.Constant(I64, ITEMS)), flags=("nsw",))
            places = [self.word(partials, b.add(first, ir.Constant(I64, k), flags=("nsw",))) for k in range(ITEMS)]
            own = [Value(self.dtype, VARYING, b.load(place, typ=scalar)) for place in places]
            before, total = self._scanned(own)
            carried = Value(self.dtype, UNIFORM, b.load(carry, typ=scalar))
            running = self._combined(carried, before)
            for v, place in zip(own, places):
                b.store(lower.get(running), place)
                running = self._combined(running, v)
            b.store(lower.get(self._combined(carried, total)), carry)

        self.steps(ir.Constant(I64, 0), b.add(end, ir.Constant(I64, 1)), ir.Constant(I64, self.threads * ITEMS), stretch)
        lower.begin_pack(None)
        barrier(lower)
        with b.if_then(b.icmp_signed("==", thread(lower), ir.Constant(I64, 0))):
            self.write_results([(Value(self.dtype, UNIFORM, b.load(self.word(partials, end), typ=scalar)),)])
