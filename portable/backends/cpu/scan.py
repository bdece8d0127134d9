"""Scans on the CPU, in two passes over blocks that depend on the range alone: totals, then prefixes.

    void entry(block, begin, end, worker)      the total of each of the blocks begin..end, into `partials`
    void finish(block, 0, n_blocks, worker)    partials become what lies before each block; the total of all is the result
    void apply(block, begin, end, worker)      the prefixes of the blocks begin..end, into `out`, the last argument
"""

from __future__ import annotations

from llvmlite import ir

from ...compiler.team import combine_states
from ...compiler.types import UNIFORM, VARYING
from ...compiler.values import I64, PTR, Value
from . import lower as cpu
from .lanes import lane_prefixes


class ScanEntry(cpu.Entry):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive" or "scan exclusive"."""

    def emit(self):
        self.reducer, = self.reducers
        self.dtype = self.states[0][0].dtype
        self._pass("entry", store=False)
        self._offsets()
        self._pass("apply", store=True)

    def _number(self, x, kind=UNIFORM):
        return Value(self.dtype, kind, x)

    def _slot(self):
        return self.lower.slot(self.lower.scalar(self.dtype))

    def _neutral(self):
        return self.identity(self.reducer, (self._number(None),))[0]

    def _combined(self, a, b):
        return combine_states(self.lower, self.reducer, (a,), (b,))[0]

    def _pass(self, name, store):
        function = ir.Function(self.module, cpu.ENTRY, name)
        self.open(function)
        lower, b = self.lower, self.lower.b
        self.out = out = self.args.pop()
        _, first, last, _ = function.args
        begin, end, size = (self.extra(n) for n in ("begin", "end", "block_size"))
        partials = self.extra("partials", PTR)
        carry = self._slot()

        def block(number):
            place = self.word(partials, number)
            start = b.load(place, typ=lower.scalar(self.dtype)) if store else lower.get(self._neutral())
            b.store(start, carry)
            low = b.add(begin, b.mul(number, size, flags=("nsw",)), flags=("nsw",))
            high = self._smaller(b.add(low, size, flags=("nsw",)), end)
            rest = self.packs(low, high, self.width, lambda base: self._pack(base, None, carry, store and out))
            if self.width > 1:
                with b.if_then(b.icmp_signed("<", rest, high)):
                    mask = lower.compare("<", lower.lanes(rest), Value("int", UNIFORM, high)).ir
                    self._pack(rest, mask, carry, store and out)
            b.store(b.load(carry, typ=lower.scalar(self.dtype)), place)
            self.target.look(lower)

        self.loop(first, last, 1, block)
        b.ret_void()

    def _pack(self, base, mask, carry, out):
        """W values: their prefixes by doubling steps over the lanes, behind what was carried here."""
        lower, b = self.lower, self.lower.b
        index = lower.lanes(base)
        lower.begin_pack(mask)
        result = lower.inline(self.kernel.portable_text, [index, *self.args])
        value, = self._contributions(result)
        value, = self._state(self.reducer, value, index, VARYING)
        neutral = self._neutral()
        if mask is not None:
            value = lower.select(Value("bool", VARYING, mask), value, neutral)
        lower.begin_pack(None)
        inclusive, exclusive = lane_prefixes(lower, value, neutral, self._combined)
        before = self._number(b.load(carry, typ=lower.scalar(self.dtype)))
        running = self._combined(before, inclusive)
        x = lower.get(running, self.dtype, VARYING)
        b.store(x if self.width == 1 else lower.lane(x, self.width - 1), carry)
        if out:
            if self.policy_kind == "scan exclusive":
                running = before if self.width == 1 else self._combined(before, exclusive)
            lower.mask = mask
            lower.store(out, [index], running)
            lower.mask = None

    def _offsets(self):
        function = ir.Function(self.module, cpu.ENTRY, "finish")
        self.open(function)
        lower, b = self.lower, self.lower.b
        _, _, n_blocks, _ = function.args
        partials, running = self.extra("partials", PTR), self._slot()
        b.store(lower.get(self._neutral()), running)

        def step(number):
            lower.begin_pack(None)
            place, scalar = self.word(partials, number), lower.scalar(self.dtype)
            before, total = self._number(b.load(running, typ=scalar)), self._number(b.load(place, typ=scalar))
            b.store(before.ir, place)
            b.store(lower.get(self._combined(before, total), self.dtype), running)

        self.loop(ir.Constant(I64, 0), n_blocks, 1, step)
        self.write_results([(self._number(b.load(running, typ=lower.scalar(self.dtype))),)])
        b.ret_void()
