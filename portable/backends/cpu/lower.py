"""Entry functions on the CPU: a stretch of the policy's indices, pack by pack.

    void entry(block, begin, end, worker)      for: indices or teams begin..end
                                               reduce: blocks begin..end of the policy, a partial state each
    void finish(block, n_blocks, result)       reduce: partial states combined in order

Behind the arguments the block holds what a launch adds (see `Extra`). Blocks of a reduction depend on the policy alone, so
that its bits do not depend on the number of threads.
"""

from __future__ import annotations

from llvmlite import ir

from ...compiler.lowering import Facts, Lowering
from ...compiler.signature import Signature
from ...compiler.team import combine_states, widened
from ...compiler.types import UNIFORM, VARYING
from ...compiler.values import I8, I64, PTR, Value
from .lanes import CpuTarget, CpuTeam, combine_lanes

_VOID = ir.VoidType()
_ENTRY = ir.FunctionType(_VOID, [PTR, I64, I64, I64])
_FINISH = ir.FunctionType(_VOID, [PTR, I64, PTR])
EXTRA = ("begin", "end", "block_size", "partials", "league_size", "scratch_bytes")  # words behind the arguments
_MAX_RUNS = 40


class Entry:
    """One kernel lowered for one policy kind and signature.

    Attributes
    ----------
    text : str, the LLVM IR
    dtypes : dtypes of a reduction's state, in order
    scratch_static : bytes of scratch with compile-time shape
    """

    def __init__(self, kernel, policy_kind, signature: Signature, reducers=()):
        self.kernel, self.policy_kind, self.signature, self.reducers = kernel, policy_kind, signature, reducers
        self.width = signature.width if kernel.packed else 1
        facts = Facts()
        for _ in range(_MAX_RUNS):
            facts.changed = False
            self._emit(facts)
            if not facts.changed:
                break
        self.text = str(self.module)

    def _emit(self, facts):
        self.facts = facts
        self.module = ir.Module(self.kernel.name)
        self.lower = Lowering(CpuTarget, self.width, self.signature.float_dtype, self.kernel.fastmath, facts, self.kernel.name)
        self.scratch_static = 0
        self.dtypes = ()
        function = ir.Function(self.module, _ENTRY, "entry")
        function.args[0].attributes.add("noalias")
        builder = ir.IRBuilder(function.append_basic_block("begin"))
        self.lower.begin(builder)
        self.block, first, last, _ = function.args
        text = self.kernel.portable_text
        self.args = self.signature.values(self.lower, text.params[1:], self.block)
        start = builder.append_basic_block("start")
        builder.branch(start)
        builder.position_at_end(start)
        stretch = self._range if self.policy_kind == "range" else self._league
        if self.reducers:
            self._blocks(first, last, stretch)
        else:
            stretch(first, last, lambda v, mask, index, slot: None, 1)
        builder.ret_void()
        if self.reducers:
            self._emit_finish()

    def extra(self, name, llvm_type=I64):
        word = self.signature.n_words + EXTRA.index(name)
        place = self.lower.b.gep(self.block, [ir.Constant(I64, 8 * word)], inbounds=True, source_etype=I8)
        return self.lower.b.load(place, align=8, typ=llvm_type)

    # ---- the indices of a stretch
    def _loop(self, begin, end, step, body):
        """for index in begin, begin + step, ... while index + step <= end; returns the first index left over."""
        b = self.lower.b
        counter = self.lower.slot(I64)
        b.store(begin, counter)
        head, inside, done = (b.append_basic_block(n) for n in ("packs", "pack", "rest"))
        b.branch(head)
        b.position_at_end(head)
        index = b.load(counter, typ=I64)
        b.cbranch(b.icmp_signed("<=", b.add(index, ir.Constant(I64, step), flags=("nsw",)), end), inside, done)
        b.position_at_end(inside)
        body(index)
        b.store(b.add(index, ir.Constant(I64, step), flags=("nsw",)), counter)
        b.branch(head)
        b.position_at_end(done)
        return b.load(counter, typ=I64)

    def _visit(self, index, mask, use, slot, variant):
        """The kernel at one pack of indices; `use` takes what it returns."""
        lower = self.lower
        lower.begin_pack(mask)
        result = lower.inline(self.kernel.portable_text, [index, *self.args], variant)
        use(result, mask, index, slot)

    def _range(self, begin, end, use, copies):
        lower, b, W = self.lower, self.lower.b, self.width

        def pack(base, slot, variant):
            self._visit(lower.lanes(base), None, use, slot, variant)

        if copies > 1:
            def several(base):
                for k in range(copies):
                    pack(b.add(base, ir.Constant(I64, k * W), flags=("nsw",)), k, "whole")
            begin = self._loop(begin, end, W * copies, several)
        rest = self._loop(begin, end, W, lambda base: pack(base, 0, "whole"))
        if W == 1:
            return
        with b.if_then(b.icmp_signed("<", rest, end)):
            index = lower.lanes(rest)
            mask = lower.compare("<", index, Value("int", UNIFORM, end)).ir
            self._visit(index, mask, use, 0, "tail")

    def _league(self, begin, end, use, copies):
        lower, b = self.lower, self.lower.b
        league_size = self.extra("league_size")
        with b.goto_entry_block():
            scratch = b.alloca(I8, self.extra("scratch_bytes"))
            scratch.align = 64

        def team(rank):
            lower.scratch_used = lower.scratch_static = 0
            self._visit(CpuTeam(rank, league_size, scratch), None, use, 0, "team")
            self.scratch_static = lower.scratch_static

        self._loop(begin, end, 1, team)

    # ---- reductions
    def _blocks(self, first, last, stretch):
        lower, b = self.lower, self.lower.b
        begin, end, size = (self.extra(n) for n in ("begin", "end", "block_size"))
        partials = self.extra("partials", PTR)
        copies = 4 if self.policy_kind == "range" and self.width > 1 and not self.kernel.portable_text.has_loops else 1

        def block(number):
            low = b.add(begin, b.mul(number, size, flags=("nsw",)), flags=("nsw",))
            high = b.add(low, size, flags=("nsw",))
            high = b.select(b.icmp_signed("<", high, end), high, end)
            resets = b.append_basic_block("reset")
            b.branch(resets)
            b.position_at_end(resets)
            start = b.append_basic_block("block")
            b.branch(start)
            b.position_at_end(start)
            self.accumulators, self.resets = {}, resets
            stretch(low, high, self._accumulate, copies)
            states = [self._collapse(r, k, copies) for k, r in enumerate(self.reducers)]
            self._write([v for state in states for v in state], b.gep(partials, [b.mul(number, ir.Constant(I64, sum(map(len, states))))],
                                                                      source_etype=I64))

        self._loop(first, last, 1, block)

    def _state(self, reducer, value, index):
        """The state of one contribution."""
        lower = self.lower
        kind = UNIFORM if self.policy_kind == "team" or self.width == 1 else VARYING
        dtype = lower.strong(widened(value.dtype))
        state = (Value(dtype, kind, lower.get(value, dtype, kind)),)
        if reducer.with_index:
            state += (Value("int64", kind, lower.get(index, "int64", kind)),)
        return state

    def _accumulate(self, result, mask, index, slot):
        """Fold what one pack returned into accumulator `slot`."""
        lower = self.lower
        values = self._contributions(result)
        where = index if isinstance(index, Value) else Value("int", UNIFORM, index.league_rank)
        for k, (reducer, value) in enumerate(zip(self.reducers, values)):
            if self.policy_kind == "team" and value.kind != UNIFORM and self.width > 1:
                value = Value(value.dtype, UNIFORM, lower.lane(lower.get(value, None, VARYING), 0))
            state = self._state(reducer, value, where)
            places = self._accumulator(k, slot, reducer, state)
            old = tuple(Value(v.dtype, v.kind, lower.b.load(p, typ=lower.type_of(v.dtype, v.kind))) for v, p in zip(state, places))
            new = combine_states(lower, reducer, old, state)
            for v, o, p in zip(new, old, places):
                x = lower.get(v, o.dtype, o.kind)
                lower.b.store(x if mask is None else lower.b.select(mask, x, o.ir), p)

    def _contributions(self, result):
        values = result if isinstance(result, tuple) else (result,)
        wanted = len(self.reducers)
        text = self.kernel.portable_text
        if result is None or len(values) != wanted or not all(isinstance(v, Value) for v in values):
            from ...errors import LanguageError

            got = "nothing" if result is None else f"{len(values)} value(s)"
            raise LanguageError(f"kernel '{text.name}' ({text.where()}): a reduction's kernel returns its contribution; "
                                f"{wanted} number(s) wanted, it returns {got}")
        return values

    def _accumulator(self, k, slot, reducer, state):
        if (k, slot) not in self.accumulators:
            lower = self.lower
            places = [lower.slot(lower.type_of(v.dtype, v.kind)) for v in state]
            identity = self._identity(reducer, state)
            with lower.b.goto_block(self.resets):
                for v, number, p in zip(state, identity, places):
                    lower.b.store(lower.get(lower.strong_const(number, v.dtype), None, v.kind), p)
            self.accumulators[k, slot] = places
            self.facts[("state", k)] = [(v.dtype, v.kind) for v in state]
        return self.accumulators[k, slot]

    @staticmethod
    def _identity(reducer, state):
        numbers = reducer.identity(state[0].dtype)
        return numbers if isinstance(numbers, tuple) else (numbers,)

    def _collapse(self, reducer, k, copies):
        """One uniform state from the accumulators of all copies and lanes."""
        lower = self.lower
        total = None
        for slot in range(copies):
            places = self.accumulators.get((k, slot))
            if places is None:
                continue
            state = tuple(Value(d, kind, lower.b.load(p, typ=lower.type_of(d, kind)))
                          for (d, kind), p in zip(self.facts[("state", k)], places))
            total = state if total is None else combine_states(lower, reducer, total, state)
        if self.width == 1 or self.policy_kind == "team":
            return total
        packs = tuple(Value(v.dtype, VARYING, lower.get(v, None, VARYING)) for v in total)
        return combine_lanes(lower, packs, reducer, combine_states)

    def _write(self, values, place):
        """States as 8-byte words."""
        b = self.lower.b
        self.dtypes = tuple(self.lower.strong(v.dtype) for v in values)
        for k, v in enumerate(values):
            b.store(self.lower.get(v, None, UNIFORM), b.gep(place, [ir.Constant(I64, k)], source_etype=I64))

    def _emit_finish(self):
        """Combine the partial states one after the other."""
        lower = self.lower
        shapes = [[d for d, _ in self.facts[("state", k)]] for k in range(len(self.reducers))]
        function = ir.Function(self.module, _FINISH, "finish")
        b = ir.IRBuilder(function.append_basic_block("begin"))
        lower.begin(b)
        self.block, n_blocks, result = function.args
        partials = self.extra("partials", PTR)
        start = b.append_basic_block("start")
        b.branch(start)
        b.position_at_end(start)
        n_words = sum(map(len, shapes))
        places = [[lower.slot(lower.scalar(d)) for d in shape] for shape in shapes]
        for reducer, shape, row in zip(self.reducers, shapes, places):
            numbers = reducer.identity(shape[0])
            for d, number, p in zip(shape, numbers if isinstance(numbers, tuple) else (numbers,), row):
                b.store(lower.get(lower.strong_const(number, d)), p)

        def step(number):
            place = b.gep(partials, [b.mul(number, ir.Constant(I64, n_words))], source_etype=I64)
            word = 0
            for reducer, shape, row in zip(self.reducers, shapes, places):
                old = tuple(Value(d, UNIFORM, b.load(p, typ=lower.scalar(d))) for d, p in zip(shape, row))
                new = []
                for d in shape:
                    new.append(Value(d, UNIFORM, b.load(b.gep(place, [ir.Constant(I64, word)], source_etype=I64), typ=lower.scalar(d))))
                    word += 1
                lower.begin_pack(None)
                for v, d, p in zip(combine_states(lower, reducer, old, tuple(new)), shape, row):
                    b.store(lower.get(v, d), p)

        self._loop(ir.Constant(I64, 0), n_blocks, 1, step)
        self._write([Value(d, UNIFORM, b.load(p, typ=lower.scalar(d))) for shape, row in zip(shapes, places) for d, p in zip(shape, row)], result)
        b.ret_void()
