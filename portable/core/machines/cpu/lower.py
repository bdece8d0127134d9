"""Entry functions on the CPU: a stretch of the policy's indices, pack by pack.

    void entry(block, begin, end, worker)      for: indices or teams begin..end; of the kind "packs" they
                                               fill packs
                                               reduce: blocks begin..end of the policy, a partial state each
    void finish(block, 0, n_blocks, worker)    reduce: partial states combined in order

Blocks of a reduction depend on the policy alone, so that its bits do not depend on the number of threads.
"""

from __future__ import annotations

import functools

from llvmlite import ir

from ...compiler.writing.atomic import plain_sum
from ...compiler.writing.emitted import Emitted
from ...compiler.writing.block import EXTRA
from ...language.types import UNIFORM
from ...compiler.writing.values import I64, I8, NSW, PTR, Value
from . import entry
from .engine import APART, STREAMS
from .lanes import CpuTarget, CpuTeam, combine_lanes, rolled
from .looks import STRIP

_VOID = ir.VoidType()
ENTRY = ir.FunctionType(_VOID, [PTR, I64, I64, I64])
PAGE = 4096  # bytes: masked stores across two of them are slow, and a short list in scratch has many


class Entry(entry.Entry, Emitted):
    """A kernel for the cores of this machine, with its code."""

    target, team = CpuTarget, CpuTeam

    def _emit(self):
        super()._emit()
        self.target.guard(self.module, ENTRY)

    def emit(self):
        function = ir.Function(self.module, ENTRY, "entry")
        self.open(function)
        _, begin, end, worker = function.args
        self._own_copies(worker)
        stretch = {"team": self._league}.get(self.policy_kind, self._range)
        if self.policy_kind.startswith("box"):
            stretch = self._rows
        if not self.reducers:
            stretch(begin, end, 1)
        else:
            self._blocks(begin, end, stretch)
        self.b.ret_void()
        if self.reducers:
            self._finish()
        for k in range(len(self.scatters)):
            self._merge(k)

    # ---- copies of views that are only added to: worker 0 has the view itself, each other one a copy
    def _copies(self, k):
        """(the number of copies, where they begin) of one of these views: the last words of the block."""
        b, first = self.b, self.signature.n_words + len(EXTRA) + self.fault_bytes // 8
        return b.load(self.word(self.block, first), I64), b.load(self.word(self.block, first + 1 + k), PTR)

    def _apart(self, view):
        """Bytes between copies: whole blocks of APART, so that no two threads write to one cache line."""
        return self.b.and_(self.b.add(self.n_bytes(view), I64(APART - 1)), I64(-APART))

    def _own_copies(self, worker):
        b = self.b
        for k, view in enumerate(self.scatters):
            at = b.mul(b.sub(worker, I64(1)), self._apart(view))
            own = b.gep(self._copies(k)[1], [at], I8)
            view.pointer = b.select(b.icmp_signed("==", worker, I64(0)), view.pointer, own)
            view.unshared = True

    def _merge(self, k):
        """void merge(block, begin, end, worker): add elements begin..end of all copies to the view, and zero
        them."""
        function = ir.Function(self.module, ENTRY, f"merge{k}")
        self.open(function)
        ops, b, (_, begin, end, _) = self.ops, self.b, function.args
        view, (n_copies, copies) = self.scatters[k], self._copies(k)
        element, apart = ops.scalar(view.dtype), self._apart(view)

        def copy(number):
            own = b.gep(copies, [b.mul(number, apart)], I8)

            def add(j):
                total, more = (b.gep(p, [j], element) for p in (view.pointer, own))
                b.store(plain_sum(b, "add", b.load(total, element), b.load(more, element)), total)
                b.store(ir.Constant(element, 0), more)

            self.loop(begin, end, 1, add)

        self.loop(I64(0), n_copies, 1, copy)
        b.ret_void()

    def _range(self, begin, end, copies, outer=()):
        ops, b, W = self.ops, self.b, self.width

        def pack(base, slot=0):
            self.visit(ops.lanes(base), None, slot, outer)

        def several(base):
            for k in range(copies):
                pack(b.add(base, I64(k * W), flags=NSW), k)

        def masked(base):
            index = ops.lanes(base)
            self.visit(index, ops.compare("<", index, Value("int", UNIFORM, end)).ir, 0, outer)

        if copies == 1:
            rest = self.packs(begin, end, W, pack)
        elif self.light:
            rest = self.packs(begin, end, W * copies, several)
        else:
            rest = self._in_turn(begin, end, copies, pack)
        if W == 1 or self.policy_kind == "packs":
            return
        if copies > 1:
            self.steps(rest, end, I64(W), masked)
        else:
            with b.if_then(b.icmp_signed("<", rest, end)):
                masked(rest)

    def _in_turn(self, begin, end, copies, pack):
        """Packs of a text that is there once: after each, every accumulator becomes the one before it, and
        the first the last; as many packs as leave them where they were."""
        b, W = self.b, self.width

        def one(base):
            pack(base)
            for k, reducer in enumerate(self.reducers):
                state = self.accumulators[k, 0][0]
                rows = [self._accumulator(k, slot, reducer, state) for slot in range(copies)]
                for places in zip(*rows):
                    values = [b.load(p) for p in places]
                    for p, value in zip(places, values[1:] + values[:1]):
                        b.store(value, p)

        rounds = b.and_(b.sub(end, begin, flags=NSW), I64(-W * copies))
        return self.packs(begin, b.add(begin, rounds, flags=NSW), W, one)

    def packs(self, begin, end, step, body):
        """`loop` over packs; after each of a text with loops, and after STRIP others where nobody else takes
        strips, the launch may end."""
        ops, b = self.ops, self.b
        if self.in_strips:
            return self.loop(begin, end, step, body)
        if self.has_loops:
            return self.loop(begin, end, step, lambda base: (body(base), self.target.look(self.ops)))
        place = ops.slot(I64)
        b.store(begin, place)
        whole = b.sub(end, I64(step - 1))
        strip, more, done = b.blocks("strip", "more", "packs.done")
        b.go(strip)
        far = b.add(b.load(place, I64), I64(STRIP * step), flags=NSW)
        rest = self.loop(b.load(place, I64), self._smaller(far, end), step, body)
        b.store(rest, place)
        b.cbranch(b.icmp_signed("<", rest, whole), more, done)
        b.position_at_end(more)
        self.target.look(self.ops)
        b.branch(strip)
        b.position_at_end(done)
        return rest

    def few(self, begin, end, step, body):
        """`loop` of few trips, which is not unrolled."""
        ends = []
        self.loop(begin, end, step, lambda index: (body(index), ends.append(self.b.block)))
        rolled(ends[0].terminator)

    def _rows(self, first, last, copies):
        """The indices first..last of a box, counted row by row: a stretch may begin and end within a row."""
        b, d = self.b, int(self.policy_kind[-1])
        bounds = [(self.extra(f"begin{k}"), self.extra(f"end{k}")) for k in range(d)]
        begin, one = bounds[-1][0], I64(1)
        *inner, length = (b.sub(high, low, flags=NSW) for low, high in bounds[1:])

        def row(number):
            low, high = self._within(number, first, last, length)
            outer = self._outer(number, inner, [low for low, _ in bounds])
            self._range(b.add(begin, low, flags=NSW), b.add(begin, high, flags=NSW), copies, outer)
            if not self.in_strips:
                self.target.look(self.ops)

        some = b.select(b.icmp_signed(">", length, I64(0)), length, one)  # or it has no rows
        self.loop(b.sdiv(first, some), b.sdiv(b.add(last, b.sub(some, one)), some), 1, row)

    def _within(self, number, first, last, length):
        """What lies between the indices first and last of a row, counted from where it begins."""
        b, zero = self.b, I64(0)
        before = b.mul(number, length, flags=NSW)
        low, high = b.sub(first, before), self._smaller(b.sub(last, before), length)
        return b.select(b.icmp_signed(">", low, zero), low, zero), high

    def _outer(self, number, inner, begins):
        """The leading indices of a row, from its number; `inner`: the extents of those behind the first."""
        b, outer = self.b, [number]
        for extent in reversed(inner):
            outer[:1] = b.sdiv(outer[0], extent), b.srem(outer[0], extent)
        return [b.add(v, low, flags=NSW) for v, low in zip(outer, begins)]

    def _smaller(self, x, y):
        return self.b.select(self.b.icmp_signed("<", x, y), x, y)

    def _league(self, begin, end, copies):
        ops = self.ops
        league_size = self.extra("league_size")
        with ops.b.goto_entry_block():
            scratch = ops.b.alloca(I8, self.extra("scratch_bytes"))
            scratch.align, scratch.type = PAGE, PTR

        def one(rank):
            self.visit(self.team(rank, league_size, scratch))
            self.target.look(self.ops)

        self.loop(begin, end, 1, one)

    def _blocks(self, first, last, stretch):
        b = self.b
        begin, end, size = (self.extra(n) for n in ("begin", "end", "block_size"))
        partials = self.extra("partials", PTR)
        copies = STREAMS if self.policy_kind != "team" and self.width > 1 and not self.has_loops else 1

        def block(number):
            low = b.add(begin, b.mul(number, size, flags=NSW), flags=NSW)
            high = b.add(low, size, flags=NSW)
            self.open_accumulators()
            stretch(low, self._smaller(high, end), copies)
            self.totals = [self._one_state(r, s) for r, s in zip(self.reducers, self.collected())]
            self.write_words(self.totals, self.word(partials, b.mul(number, I64(self.state_words))))
            self.target.look(self.ops)

        self.loop(first, last, 1, block)

    def _one_state(self, reducer, state):
        return (
            state
            if self.policy_kind == "team"
            else combine_lanes(self.ops, state, functools.partial(self.combined, reducer))
        )

    def _finish(self):
        """Combine the partial states one after the other."""
        ops = self.ops
        function = ir.Function(self.module, ENTRY, "finish")
        self.open(function)
        _, _, n_blocks, _ = function.args
        partials = self.extra("partials", PTR)
        self.open_accumulators()
        places = [self._accumulator(k, 0, r, s) for k, (r, s) in enumerate(zip(self.reducers, self.totals))]

        def step(number):
            states = self.read_words(
                self.totals, self.word(partials, ops.b.mul(number, I64(self.state_words)))
            )
            for reducer, state, row in zip(self.reducers, states, places):
                for v, p in zip(self.combined(reducer, self._loaded(state, row), state), row):
                    ops.b.store(ops.get(v), p)

        self.few(I64(0), n_blocks, 1, step)
        self.write_results(self.collected())
        ops.b.ret_void()
