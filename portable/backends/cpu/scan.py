"""Scans on the CPU, in two passes over blocks that depend on the range alone: totals, then prefixes.

void entry(block, begin, end, worker)      the total of each of the blocks begin..end, into `partials`
void finish(block, 0, n_blocks, worker)    partials become what lies before each block; the total of all
                                           is the result
void apply(block, begin, end, worker)      the prefixes of the blocks begin..end, into `out`, the last
                                           argument
"""

from __future__ import annotations

from llvmlite import ir

from ...compiler.scanned import Scanned, words_of
from ...compiler.team import combine_states, finished
from ...compiler.tree import flat
from ...compiler.types import UNIFORM, VARYING
from ...compiler.values import I64, PTR, Value
from ...policy import WITH_PREFIXES
from . import lower as cpu
from .lanes import lane_prefixes, last_prefix


class ScanEntry(Scanned, cpu.Entry):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive", "scan exclusive"
    or "scan total"."""

    def emit(self):
        (self.reducer,) = self.reducers
        self.state = tuple(Value(v.dtype, UNIFORM, None) for v in self.states[0])
        self._pass("entry", store=False)
        self._offsets()
        if self.policy_kind in WITH_PREFIXES:
            self._pass("apply", store=True)

    def _slots(self):
        return [self.lower.slot(self.lower.scalar(v.dtype)) for v in self.state]

    def _combined(self, a, b):
        return combine_states(self.lower, self.reducer, a, b)

    def _pass(self, name, store):
        function = ir.Function(self.module, cpu.ENTRY, name)
        self.open(function)
        lower, b = self.lower, self.lower.b
        outs = flat(self.args.pop()) if self.policy_kind in WITH_PREFIXES else ()
        _, first, last, _ = function.args
        begin, end, size = (self.extra(n) for n in ("begin", "end", "block_size"))
        partials = self.extra("partials", PTR)
        carry = self._slots()

        def block(number):
            places = words_of(self.lower, partials, number, len(self.state))
            self._write(self._read(places) if store else self._neutral(), carry)
            low = b.add(begin, b.mul(number, size, flags=("nsw",)), flags=("nsw",))
            high = self._smaller(b.add(low, size, flags=("nsw",)), end)
            self._packs(low, high, carry, outs if store else ())
            self._write(self._read(carry), places)
            self.target.look(lower)

        self.loop(first, last, 1, block)
        b.ret_void()

    def _packs(self, low, high, carry, outs):
        """The indices low..high: whole packs, then the rest under a mask."""
        lower, b = self.lower, self.lower.b
        rest = self.packs(low, high, self.width, lambda base: self._pack(base, None, carry, outs))
        if self.width > 1:
            with b.if_then(b.icmp_signed("<", rest, high)):
                mask = lower.compare("<", lower.lanes(rest), Value("int", UNIFORM, high)).ir
                self._pack(rest, mask, carry, outs)

    def _pack(self, base, mask, carry, outs):
        """W states: their prefixes by doubling steps over the lanes, behind what was carried here."""
        lower = self.lower
        index = lower.lanes(base)
        lower.begin_pack(mask)
        result = lower.inline(self.kernel.portable_text, [index, *self.args])
        (value,) = self._contributions(result)
        state, neutral = self._state(self.reducer, value, index, VARYING), self._neutral()
        if mask is not None:
            state = tuple(lower.select(Value("bool", VARYING, mask), v, n) for v, n in zip(state, neutral))
        lower.begin_pack(None)
        before = self._read(carry)
        if outs:
            self._prefixes(index, mask, before, state, carry, outs)
        else:
            self._carry(before, last_prefix(lower, state, self._combined), carry)

    def _prefixes(self, index, mask, before, state, carry, outs):
        """A pack's prefixes, stored."""
        lower = self.lower
        inclusive, exclusive = lane_prefixes(lower, state, self._neutral(), self._combined)
        self._carry(before, inclusive, carry)
        if self.policy_kind == "scan exclusive":
            running = before if self.width == 1 else self._combined(before, exclusive)
        else:
            running = self._combined(before, inclusive)
        lower.mask = mask
        for out, x in zip(outs, flat(finished(lower, self.reducer, running))):
            lower.store(out, [index], x)
        lower.mask = None

    def _carry(self, before, state, places):
        """Keep what lies before the pack behind: of one lane, so that packs wait for a few operations of each
        other and not for the way from lane to lane."""
        lower = self.lower
        last = tuple(
            Value(v.dtype, UNIFORM, self._last_lane(lower.get(x, v.dtype, VARYING)))
            for v, x in zip(self.state, state)
        )
        self._write(self._combined(before, last), places)

    def _last_lane(self, x):
        return x if self.width == 1 else self.lower.lane(x, self.width - 1)

    def _offsets(self):
        function = ir.Function(self.module, cpu.ENTRY, "finish")
        self.open(function)
        lower, b = self.lower, self.lower.b
        _, _, n_blocks, _ = function.args
        partials, running = self.extra("partials", PTR), self._slots()
        self._write(self._neutral(), running)

        def step(number):
            lower.begin_pack(None)
            places = words_of(self.lower, partials, number, len(self.state))
            before, total = self._read(running), self._read(places)
            self._write(before, places)
            self._write(self._combined(before, total), running)

        self.loop(ir.Constant(I64, 0), n_blocks, 1, step)
        self.write_results([self._read(running)])
        b.ret_void()
