"""Entry functions as LLVM IR: what the code of all machines shares."""

from __future__ import annotations

import itertools

from llvmlite import ir

from ...locks import kept
from ...language import types as t
from .emit import Emitter, Unpacked
from .block import EXTRA
from .entry import Entry
from .lines import Builder
from ..reading.team import combine_states, finished, lifted, widened
from ..reading.tree import flat
from ...language.types import UNIFORM, VARYING, in_parts, itemsize
from .values import I8, I64, PTR, SCALAR, Value, ViewValue


def arguments(signature, lower, names, block):
    """The arguments of a signature as the compiler's values, loaded from the block at `block`."""
    places = itertools.count()

    def take(llvm_type):
        """The next word."""
        place = lower.b.gep(block, [I64(8 * next(places))], inbounds=True, source_etype=I8)
        return lower.b.load(place, align=8, typ=llvm_type)

    return [_value(lower, take, name, spec) for name, spec in zip(names, signature.specs)]


def _value(lower, take, name, spec):
    """The value of one argument, made of the words that `take` gives."""
    if spec[0] == "tuple":
        parts = zip(t.named(name, len(spec[1]), spec[2]), spec[1])
        return t.Record((_value(lower, take, *part) for part in parts), spec[2])
    if spec[0] == "static":
        return lower.const(spec[1])
    if spec[0] == "known":
        return spec[1]
    if spec[0] == "number":
        if spec[1] == "bool":
            return Value("bool", UNIFORM, lower.b.icmp_signed("!=", take(I64), I64(0)))
        return Value(spec[1], UNIFORM, take(SCALAR[lower.strong(spec[1])]))
    return _view(take, name, *spec)


def _view(take, name, what, dtype, ndim, contiguous_last, readonly):
    pointer = take(PTR)
    shape = [take(I64) for _ in range(ndim)]
    strides = [take(I64) for _ in range(ndim)]
    if contiguous_last and ndim:
        strides[-1] = itemsize(dtype)
    parts, shape, strides = in_parts(dtype, shape, strides)
    view = ViewValue(name, parts, pointer, shape, strides, readonly, scatter=what == "scatter")
    view.element = dtype
    return view


class Emitted(Entry):
    """An entry with its code.

    A machine's subclass gives `emit`, which fills `self.module`.

    Attributes
    ----------
    text : str, the LLVM IR, emitted when it is first asked for
    """

    emitter = Emitter

    @kept
    def text(self):
        with self.room():
            try:
                self._emit()
            except Unpacked as why:
                self._one_lane(str(why))
                self._emit()
        links = self.lower.links
        return self.target.linked(str(self.module), links) if links else str(self.module)

    @property
    def accesses(self):
        """How lines reach views, (line, view, how), as `pk.explain` shows it."""
        return self.text and sorted(self.lower.accesses)

    def _emit(self):
        self.module = ir.Module(self.kernel.name)
        self.lower = self.emitter(
            self.target,
            self.width,
            self.signature.float_dtype,
            self.kernel.fastmath,
            self.kernel.name,
            self.team_facts(self.width),
        )
        self.emit()

    def open(self, function):
        """Begin the entry function: arguments are loaded before its first branch, so that slots stand at its
        top."""
        builder = Builder(function.append_basic_block("begin"))
        self.lower.begin(builder)
        self.block = function.args[0]
        self.args = arguments(self.signature, self.lower, self.params, self.block)
        self.scatters = [v for v in flat(tuple(self.args)) if getattr(v, "scatter", False)]
        self.jump("start")

    def n_bytes(self, view):
        """Bytes of a contiguous view."""
        size = I64(itemsize(view.dtype))
        for extent in view.shape:
            size = self.lower.b.mul(size, extent)
        return size

    def jump(self, name):
        """Branch to a new block and go on there; returns the block left behind."""
        b = self.lower.b
        left, block = b.block, b.append_basic_block(name)
        b.branch(block)
        b.position_at_end(block)
        return left

    def extra(self, name, llvm_type=I64):
        word = self.signature.n_words + EXTRA.index(name)
        place = self.lower.b.gep(self.block, [I64(8 * word)], inbounds=True, source_etype=I8)
        return self.lower.b.load(place, align=8, typ=llvm_type)

    def loop(self, begin, end, step, body):
        """for index in begin, begin + step, ... while index + step <= end; returns the first index left
        over."""
        b = self.lower.b
        by = step if isinstance(step, ir.Value) else I64(step)
        limit = b.sub(end, b.sub(by, I64(1)))  # known before the loop: one addition fewer a trip
        counter = self.lower.slot(I64)
        b.store(begin, counter)
        head, inside, done = (b.append_basic_block(n) for n in ("packs", "pack", "rest"))
        b.branch(head)
        b.position_at_end(head)
        index = b.load(counter, typ=I64)
        b.cbranch(b.icmp_signed("<", index, limit), inside, done)
        b.position_at_end(inside)
        body(index)
        b.store(b.add(index, by, flags=("nsw",)), counter)
        b.branch(head)
        b.position_at_end(done)
        return b.load(counter, typ=I64)

    def steps(self, begin, end, step, body):
        """for index in range(begin, end, step)."""
        b = self.lower.b
        self.loop(begin, b.add(b.sub(end, I64(1)), step, flags=("nsw",)), step, body)

    def visit(self, index, mask, slot, outer=()):
        """The kernel at one index (or pack, or team); what it returns goes into accumulator `slot`.

        `outer`: a box's leading indices, uniform Values.
        """
        self.lower.begin_pack(mask)
        result = self.lower.inline(self.kernel.portable_text, [*outer, index, *self.args])
        if self.reducers:
            self._accumulate(result, mask, self._linear(outer, index), slot)

    def _linear(self, outer, index):
        """The place of an index in its box, counted row by row; a range's index itself."""
        lower = self.lower
        if not outer:
            return index
        place = lower.const(0)
        for d, v in enumerate([*outer, index]):
            begin, end = (Value("int", UNIFORM, self.extra(f"{w}{d}")) for w in ("begin", "end"))
            place = lower.binary(
                "+", lower.binary("*", place, lower.binary("-", end, begin)), lower.binary("-", v, begin)
            )
        return place

    # ---- reductions
    def open_accumulators(self):
        """Accumulators made from here on start as identities at this point."""
        self.accumulators, self.resets = {}, self.jump("accumulate")

    def _state(self, reducer, value, where, kind):
        lower = self.lower

        def spread(v):
            dtype = lower.strong(widened(v.dtype))
            return Value(dtype, kind, lower.get(v, dtype, kind))

        return tuple(spread(v) for v in lifted(lower, reducer, value, where))

    def _accumulate(self, result, mask, index, slot):
        """Fold what the kernel returned at one place into accumulator `slot`."""
        lower, team = self.lower, self.policy_kind == "team"
        kind = UNIFORM if team or self.width == 1 else VARYING
        where = Value("int", UNIFORM, index.league_rank) if team else index
        for k, (reducer, value) in enumerate(zip(self.reducers, self._contributions(result))):
            state = self._state(reducer, self._of_member_0(value) if team else value, where, kind)
            places = self._accumulator(k, slot, reducer, state)
            old = self._loaded(self.accumulators[k, slot][0], places)
            for v, o, p in zip(combine_states(lower, reducer, old, state), old, places):
                x = lower.get(v, o.dtype, o.kind)
                lower.b.store(x if mask is None else lower.b.select(mask, x, o.ir), p)

    def _of_member_0(self, value):
        """Member 0 speaks for its team."""
        if isinstance(value, tuple):
            return tuple(self._of_member_0(v) for v in value)
        if value.kind == UNIFORM or self.width == 1:
            return value
        return Value(value.dtype, UNIFORM, self.lower.lane(self.lower.get(value, None, VARYING), 0))

    def _loaded(self, like, places):
        lower = self.lower
        return tuple(
            Value(v.dtype, v.kind, lower.b.load(p, typ=lower.type_of(v.dtype, v.kind)))
            for v, p in zip(like, places)
        )

    def _accumulator(self, k, slot, reducer, state):
        if (k, slot) not in self.accumulators:
            lower = self.lower
            places = [lower.slot(lower.type_of(v.dtype, v.kind)) for v in state]
            with lower.b.goto_block(self.resets):
                for v, identity, p in zip(state, self.identity(reducer, state), places):
                    lower.b.store(lower.get(identity, None, v.kind), p)
            self.accumulators[k, slot] = state, places
        return self.accumulators[k, slot][1]

    def collected(self):
        """The states of all reducers, those of several accumulators combined."""
        totals = []
        for k, reducer in enumerate(self.reducers):
            total = None
            for (j, _), (state, places) in sorted(self.accumulators.items(), key=lambda item: item[0]):
                if j == k:
                    loaded = self._loaded(state, places)
                    total = loaded if total is None else combine_states(self.lower, reducer, total, loaded)
            totals.append(total)
        return totals

    def write_results(self, totals):
        """What the reducers make of the last states, each number to its own address."""
        finals = [finished(self.lower, r, state) for r, state in zip(self.reducers, totals)]
        first = self.signature.n_words + len(EXTRA)
        for k, v in enumerate(v for f in finals for v in flat(f)):
            place = self.lower.b.load(self.word(self.block, first + k), typ=PTR)
            self.lower.b.store(self.lower.get(v, None, UNIFORM), place)

    def write_words(self, states, place):
        """States as 8-byte words from `place` on."""
        for k, v in enumerate(v for state in states for v in state):
            self.lower.b.store(self.lower.get(v, None, UNIFORM), self.word(place, k))

    def read_words(self, states, place):
        """States shaped like `states`, read from 8-byte words."""
        words = iter(range(self.state_words))
        return [
            tuple(
                Value(
                    v.dtype,
                    UNIFORM,
                    self.lower.b.load(self.word(place, next(words)), typ=self.lower.scalar(v.dtype)),
                )
                for v in state
            )
            for state in states
        ]

    def word(self, place, k):
        k = I64(k) if isinstance(k, int) else k
        return self.lower.b.gep(place, [k], source_etype=I64)
