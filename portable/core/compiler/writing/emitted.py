"""Emit entry functions as LLVM IR, by the code that all machines share."""

import itertools

from llvmlite import ir

from ... import registry
from ...locks import compile_alone
from .metadata import Disjoint, range_below
from .emit import Emitter
from .block import EXTRA
from .lines import builder
from ..reading.team import combine_states, finished, lifted, widened
from ..reading.tree import flat
from ...language.types import SHORT, UNIFORM, VARYING, Record, in_parts, itemsize, named
from .values import I64, I8, PTR, SCALAR, Unpacked, Value, ViewValue


def arguments(signature, ops, names, block):
    """Return the arguments of a signature as Values, loaded from the block at `block`."""
    places = itertools.count()

    def take(llvm_type):
        """Return the next word of the block."""
        place = builder.gep(block, [8 * next(places)], I8, inbounds=True)
        return builder.load(place, llvm_type, align=8)

    return [_value(ops, take, name, spec) for name, spec in zip(names, signature.specs)]


def _value(ops, take, name, spec):
    """Return the value of one argument, built from the words that `take` returns."""
    if spec[0] == "tuple":
        parts = zip(named(name, len(spec[1]), spec[2]), spec[1])
        return Record((_value(ops, take, *part) for part in parts), spec[2])
    if spec[0] == "static":
        return ops.const(spec[1])
    if spec[0] == "known":
        return spec[1]
    if spec[0] == "number":
        if spec[1] == "bool":
            return Value("bool", UNIFORM, take(I64).differs(0))
        return Value(spec[1], UNIFORM, take(SCALAR[ops.strong(spec[1])]))
    return _view(ops, take, name, *spec)


def _view(ops, take, name, what, dtype, ndim, contiguous_last, readonly, apart=False):
    pointer = take(PTR)
    shape = [take(I64) for _ in range(ndim)]
    if apart and ops.target.straight and not ops.target.crowded:
        for extent in shape:
            extent.text += range_below(builder.module, SHORT)
    strides = [take(I64) for _ in range(ndim)]
    if contiguous_last and ndim:
        strides[-1] = itemsize(dtype)
    parts, shape, strides = in_parts(dtype, shape, strides)
    view = ViewValue(name, parts, pointer, shape, strides, readonly, scatter=what == "scatter")
    view.element = dtype
    if apart:
        view.apart = Disjoint(name, pointer)
    return view


@compile_alone
def text_of(entry, target, emit):
    """Return the LLVM IR of an entry that `emit(code)` writes, for one lane at a time if packs do not pay."""
    with builder.elsewhere():
        try:
            code = Code(entry, target)
            emit(code)
        except Unpacked as why:
            entry.one_lane(str(why))
            code = Code(entry, target)
            emit(code)
    if not target.crowded:
        code.lower.memory.facts.write_to(code.module)
    text, links = str(code.module), code.lower.links
    return registry.part("functions of numba's").linked(target, text, links) if links else text


class Code:
    """Code of an entry under construction, shared by its launchers (range, box, team, scan)."""

    def __init__(self, entry, target):
        self.entry, self.machine, self.target, self.watch = entry, entry.machine, target, entry.watch
        self.kernel, self.policy_kind, self.reducers = entry.kernel, entry.policy_kind, entry.reducers
        self.signature, self.width, self.has_loops = entry.signature, entry.width, entry.has_loops
        self.module = ir.Module(self.kernel.name)
        self.lower = Emitter(
            target,
            self.width,
            self.signature.float_dtype,
            self.kernel.fastmath,
            self.kernel.name,
            self.machine.team_facts(self.width),
            self.watch,
        )
        self.ops = self.lower.ops

    def open(self, function):
        """Begin the entry function: its arguments are loaded before the first branch, so that slots come
        first."""
        self.lower.begin(function, "begin")
        self.block = function.args[0]
        self.args = arguments(self.signature, self.ops, self.entry.params, self.block)
        self.scatters = [v for v in flat(tuple(self.args)) if getattr(v, "scatter", False)]
        self.jump("start")
        self.watch.opened(self, function)

    def n_bytes(self, view):
        """Return the bytes of a contiguous view."""
        size = I64(itemsize(view.dtype))
        for extent in view.shape:
            size = size * extent
        return size

    def jump(self, name):
        """Branch to a new block and continue there; return the previous block."""
        left, block = builder.block, builder.append_basic_block(name)
        builder.go(block)
        return left

    def extra(self, name, llvm_type=I64):
        word = self.signature.n_words + EXTRA.index(name)
        place = builder.gep(self.block, [8 * word], I8, inbounds=True)
        return builder.load(place, llvm_type, align=8)

    def bounds(self):
        """Return begin and end of each dimension of a box."""
        return [(self.extra(f"begin{k}"), self.extra(f"end{k}")) for k in range(int(self.policy_kind[-1]))]

    def loop(self, begin, end, step, body, metadata=""):
        """Emit a loop over index = begin, begin + step, ... while index + step <= end; return the first
        remaining index."""
        by = step if isinstance(step, ir.Value) else I64(step)
        limit = end - (by - 1)  # computed before the loop: saves an addition per iteration
        counter = self.ops.slot(I64)
        builder.store(begin, counter)
        head, inside, done = builder.blocks("packs", "pack", "rest")
        builder.go(head)
        index = builder.load(counter)
        builder.go(inside, index < limit, done)
        body(index)
        builder.store(builder.add_nsw(index, by), counter)
        builder.branch(head).text += metadata
        builder.position_at_end(done)
        return builder.load(counter)

    def steps(self, begin, end, step, *more):
        """Emit a loop over range(begin, end, step); `more`: its body, and metadata of its branch."""
        self.loop(begin, builder.add_nsw(end - 1, step), step, *more)

    def visit(self, index, mask=None, outer=((),), slot=0):
        """Emit the kernel at one index (or pack, or team), and accumulate its result in accumulator `slot`.

        `outer`: a box's leading indices, LLVM values, for each of the rows that are emitted together.
        """
        rows = [[*(Value("int", UNIFORM, v) for v in row), index] for row in outer]
        here = self.lower.make_place(mask, mask is not None)
        self.watch.visiting = True
        inside, text = here._replace(where=tuple(rows[0])), self.kernel.portable_text
        result = inside.inline(text, *(row + self.args for row in rows))
        if self.reducers:
            self._accumulate(here, result, self._linear(rows[0]), slot)
        self.watch.visiting = False

    def identity(self, reducer, state):
        """Return the neutral state, shaped like `state`, as Values."""
        return tuple(
            Value(v.dtype, UNIFORM, None, n) for n, v in zip(self.entry.neutral(reducer, state), state)
        )

    def combined(self, reducer, a, b):
        """Return the combination of two states of a reducer."""
        return combine_states(self.lower.make_place(), reducer, a, b)

    def _linear(self, where):
        """Return the row-major position of indices in their box; for a range, the index itself."""
        ops, place = self.ops, self.ops.const(0)
        if len(where) == 1:
            return where[0]
        for d, v in enumerate(where):
            begin, end = (Value("int", UNIFORM, self.extra(f"{w}{d}")) for w in ("begin", "end"))
            wide = ops.binary("*", place, ops.binary("-", end, begin))
            place = ops.binary("+", wide, ops.binary("-", v, begin))
        return place

    # ---- reductions
    def open_accumulators(self):
        """Begin a block at which later accumulators are initialised with identities."""
        self.accumulators, self.resets = {}, self.jump("accumulate")

    def state(self, here, reducer, value, where, kind):
        def spread(v):
            dtype = self.ops.strong(widened(v.dtype))
            return Value(dtype, kind, self.ops.get(v, dtype, kind))

        return tuple(spread(v) for v in lifted(here, reducer, value, where))

    def _accumulate(self, here, result, index, slot):
        """Combine the kernel's result at one place into accumulator `slot`."""
        ops, team = self.ops, self.policy_kind == "team"
        kind = UNIFORM if team or self.width == 1 else VARYING
        where = Value("int", UNIFORM, index.league_rank) if team else index
        for k, (reducer, value) in enumerate(zip(self.reducers, self.entry.contributions(result))):
            state = self.state(here, reducer, self._of_member_0(value) if team else value, where, kind)
            places = self.accumulator(k, slot, reducer, state)
            old = self.loaded(self.accumulators[k, slot][0], places)
            for v, o, p in zip(combine_states(here, reducer, old, state), old, places):
                x = ops.get(v, o.dtype, o.kind)
                builder.store(x if here.mask is None else builder.select(here.mask, x, o.ir), p)

    def _of_member_0(self, value):
        """Return a value of member 0, which represents its team."""
        if isinstance(value, tuple):
            return tuple(self._of_member_0(v) for v in value)
        if value.kind == UNIFORM or self.width == 1:
            return value
        return Value(value.dtype, UNIFORM, self.ops.lane(self.ops.get(value, None, VARYING), 0))

    def loaded(self, like, places):
        return tuple(
            Value(v.dtype, v.kind, builder.load(p, self.ops.type_of(v.dtype, v.kind)))
            for v, p in zip(like, places)
        )

    def accumulator(self, k, slot, reducer, state):
        if (k, slot) not in self.accumulators:
            ops = self.ops
            places = [ops.slot(ops.type_of(v.dtype, v.kind)) for v in state]
            with builder.goto_block(self.resets):
                for v, identity, p in zip(state, self.identity(reducer, state), places):
                    builder.store(ops.get(identity, None, v.kind), p)
            self.accumulators[k, slot] = state, places
        return self.accumulators[k, slot][1]

    def collected(self):
        """Return the states of all reducers, each combined from its accumulators."""
        totals = []
        for k, reducer in enumerate(self.reducers):
            total = None
            for (j, _), (state, places) in sorted(self.accumulators.items(), key=lambda item: item[0]):
                if j == k:
                    loaded = self.loaded(state, places)
                    total = loaded if total is None else self.combined(reducer, total, loaded)
            totals.append(total)
        return totals

    def write_results(self, totals):
        """Emit stores of the reducers' results for the last states, each number at its own address."""
        finals = [finished(self.lower.make_place(), r, state) for r, state in zip(self.reducers, totals)]
        first = self.signature.n_words + len(EXTRA)
        for k, v in enumerate(v for f in finals for v in flat(f)):
            place = builder.load(self.word(self.block, first + k), PTR)
            builder.store(self.ops.get(v, None, UNIFORM), place)

    def write_words(self, states, place):
        """Emit stores of states as 8-byte words from `place`."""
        for k, v in enumerate(v for state in states for v in state):
            builder.store(self.ops.get(v, None, UNIFORM), self.word(place, k))

    def read_words(self, states, place):
        """Return states shaped like `states`, read from 8-byte words."""
        words = itertools.count()
        return [self.loaded(state, (self.word(place, next(words)) for _ in state)) for state in states]

    def word(self, place, k):
        return builder.gep(place, [k], I64)

    def partial(self, partials, number):
        """Return the address of the partial states with this number."""
        return self.word(partials, number * self.entry.state_words)

    def folding(self, states, partials):
        """Return a function that combines the partial states with a given number into accumulators, shaped
        like `states`, which begin here."""
        self.open_accumulators()
        rows = [self.accumulator(k, 0, r, s) for k, (r, s) in enumerate(zip(self.reducers, states))]

        def fold(number):
            parts = self.read_words(states, self.partial(partials, number))
            for reducer, part, row in zip(self.reducers, parts, rows):
                for v, p in zip(self.combined(reducer, self.loaded(part, row), part), row):
                    builder.store(self.ops.get(v), p)

        return fold
