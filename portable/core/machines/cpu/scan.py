"""Scans on the CPU, in two passes over blocks that depend only on the range: totals, then prefixes.

void entry(block, begin, end, worker)      the total of each of the blocks begin..end, into `partials`
void finish(block, begin, end, worker)     partials become the prefix before each of these blocks, continuing
                                           from the previous call; the total so far is the result
void apply(block, begin, end, worker)      the prefixes of the blocks begin..end, into `out`, the last
                                           argument

A launch may therefore process the range in windows that stay in a cache between the passes. `partials` begins
with the total that `finish` leaves for its next call.
"""

from llvmlite import ir

from ...compiler.writing.scan_states import Scanned, words_of
from ...compiler.reading.tree import flat
from ...language.types import UNIFORM, VARYING
from ...compiler.writing.lines import builder
from ...compiler.writing.values import I32, I64, PTR, Value
from ...places.policy import WITH_PREFIXES
from . import lower as cpu
from .engine import STREAMS
from .lanes import lane_prefixes, last_prefix


def launcher(code, team):
    """Emit the launcher of a scan."""
    Scan(code).emit()


class Scan(Scanned):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive", "scan exclusive"
    or "scan total"."""

    def __init__(self, code):
        super().__init__(code, UNIFORM)
        self.in_turn = code.entry.in_turn

    def emit(self):
        self._pass("entry", store=False)
        self._offsets()
        if self.kind in WITH_PREFIXES:
            self._pass("apply", store=True)

    def _slots(self):
        return [self.ops.slot(self.ops.scalar(v.dtype)) for v in self.state]

    def _combined(self, a, b):
        return self.code.combined(self.reducer, a, b)

    def _pass(self, name, store):
        function = ir.Function(self.code.module, cpu.ENTRY, name)
        self.code.open(function)
        outs = flat(self.code.args.pop()) if self.kind in WITH_PREFIXES else ()
        _, first, last, _ = function.args
        bounds = begin, end, size = [self.extra(n) for n in ("begin", "end", "block_size")]
        carries, outs = [self._slots() for _ in range(STREAMS if self.in_turn else 1)], outs if store else ()
        if self.in_turn:
            whole = self.ops.smaller(builder.sdiv(builder.sub_nsw(end, begin), size), last)
            first = self.code.loop(first, whole, STREAMS, lambda k: self._blocks(k, bounds, carries, outs))
        self.code.loop(first, last, 1, lambda k: self._blocks(k, bounds, carries[:1], outs))
        builder.ret_void()

    def _blocks(self, number, bounds, carries, outs):
        """Process neighbouring blocks, interleaved; if there are several, they are whole ones."""
        begin, end, size = bounds
        numbers = [number + k for k in range(len(carries))]
        for k, carry in zip(numbers, carries):
            self._write(self._read(self._places(k)) if outs else self._neutral(), carry)
        lows = [builder.add_nsw(begin, builder.mul_nsw(k, size)) for k in numbers]
        self._packs(lows, self.ops.smaller(builder.add_nsw(lows[0], size), end), carries, outs)
        for k, carry in zip(numbers, () if outs else carries):
            self._write(self._read(carry), self._places(k))
        self.code.target.poll_flag(self.ops)

    def _places(self, number):
        """Return the words of a block in `partials`."""
        number = number + 1
        return words_of(self.extra("partials", PTR), number, len(self.state))

    def _packs(self, lows, high, carries, outs):
        """Process the indices lows[0]..high, and the same number from each of the others on: whole packs,
        then the rest under a mask.
        """
        ops, step = self.ops, self._in_turn if self.in_turn else self._pack
        others = [builder.sub_nsw(low, lows[0]) for low in lows]

        def several(base, mask=None):
            bases = [builder.add_nsw(base, other) for other in others]
            step([ops.lanes(base) for base in bases], mask, carries, outs)

        rest = cpu.packs(self.code, lows[0], high, self.ops.W, several)
        if self.ops.W > 1 and len(lows) == 1:
            with builder.if_then(rest < high):
                several(rest, ops.compare("<", ops.lanes(rest), Value("int", UNIFORM, high)).ir)

    def _contribution(self, index, mask):
        """Return the states of a pack, with the neutral element in masked lanes."""
        state, neutral = self._contributed(index, mask), self._neutral()
        if mask is None:
            return state
        known = Value("bool", VARYING, mask)
        return tuple(self.ops.select(known, v, n) for v, n in zip(state, neutral))

    def _in_turn(self, indices, mask, carries, outs):
        """Process packs of several blocks side by side, each from lane to lane: while one waits for its
        previous lane, another proceeds.
        """
        states = [self._contribution(index, mask) for index in indices]
        running, results = [self._read(carry) for carry in carries], [[] for _ in carries]
        for lane in range(self.ops.W):
            for k, state in enumerate(states):
                before, running[k] = running[k], self._combined(running[k], self._lanes_own(state, lane))
                results[k].append(before if self.kind == "scan exclusive" else running[k])
        for index, carry, state, prefixes in zip(indices, carries, running, results):
            self._write(state, carry)
            if outs:
                self._store_in_turn(index, mask, prefixes, outs)

    def _store_in_turn(self, index, mask, prefixes, outs):
        """Store a pack's prefixes, a state a lane."""
        numbers = zip(*(self._finished(prefix) for prefix in prefixes))
        for out, lanes in zip(outs, numbers):
            self.code.lower.memory.store(self.code.lower.make_place(mask), out, [index], self._joined(lanes))

    def _lanes_own(self, state, k):
        """Return the state of one lane."""
        return tuple(
            Value(v.dtype, UNIFORM, self.ops.lane(self.ops.get(x, v.dtype, VARYING), k))
            for v, x in zip(self.state, state)
        )

    def _joined(self, numbers):
        """Return the pack of a number a lane."""
        ops, dtype = self.ops, numbers[0].dtype
        if ops.W == 1:
            return Value(dtype, VARYING, ops.get(numbers[0], dtype))
        pack = ir.Constant(ir.VectorType(ops.scalar(dtype), ops.W), ir.Undefined)
        for k, v in enumerate(numbers):
            pack = builder.insert_element(pack, ops.get(v, dtype), I32(k))
        return Value(dtype, VARYING, pack)

    def _pack(self, indices, mask, carries, outs):
        """Process a pack of W states: their prefixes by doubling steps over the lanes, combined with the
        carried state.
        """
        (index,), (carry,), ops = indices, carries, self.ops
        state, before = self._contribution(index, mask), self._read(carry)
        if outs:
            self._prefixes(index, mask, before, state, carry, outs)
        else:
            self._carry(before, last_prefix(ops, state, self._combined), carry)

    def _prefixes(self, index, mask, before, state, carry, outs):
        """Compute and store a pack's prefixes."""
        inclusive, exclusive = lane_prefixes(self.ops, state, self._neutral(), self._combined)
        self._carry(before, inclusive, carry)
        if self.kind == "scan exclusive":
            running = before if self.ops.W == 1 else self._combined(before, exclusive)
        else:
            running = self._combined(before, inclusive)
        for out, x in zip(outs, self._finished(running)):
            self.code.lower.memory.store(self.code.lower.make_place(mask), out, [index], x)

    def _carry(self, before, state, places):
        """Store the prefix of the next pack: computed from one lane, so that the dependency from pack to pack
        is a few operations rather than a chain through all lanes.
        """
        self._write(self._combined(before, self._lanes_own(state, self.ops.W - 1)), places)

    def _offsets(self):
        function = ir.Function(self.code.module, cpu.ENTRY, "finish")
        self.code.open(function)
        _, first, last, _ = function.args
        running, kept = self._slots(), self._places(I64(-1))
        self._write(self._neutral(), running)
        with builder.if_then(first > 0):
            self._write(self._read(kept), running)

        def step(number):
            places = self._places(number)
            before, total = self._read(running), self._read(places)
            self._write(before, places)
            self._write(self._combined(before, total), running)

        cpu.short_loop(self.code, first, last, 1, step)
        self._write(self._read(running), kept)
        self.code.write_results([self._read(running)])
        builder.ret_void()
