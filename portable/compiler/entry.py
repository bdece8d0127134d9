"""What the entry functions of all machines share: the runs until types settle, the argument block, reduction states.

Behind the arguments the block holds the words that a launch adds, in the order of EXTRA.
"""

from __future__ import annotations

from llvmlite import ir

from ..errors import LanguageError, LoweringError
from ..policy import n_indices
from .frames import Facts
from .lowering import Lowering
from .signature import Signature
from .team import combine_states, widened
from .types import UNIFORM, VARYING
from .values import I8, I64, Value

EXTRA = ("begin", "end", "block_size", "partials", "league_size", "scratch_bytes", "result", "counter",
         "begin0", "end0", "begin1", "end1", "begin2", "end2")  # the last six: the dimensions of a box
_MAX_RUNS = 40


class Entry:
    """One kernel lowered for one machine, policy kind and signature.

    A machine's subclass gives `target`, `lanes(signature)` and `emit`, which fills `self.module`.

    Attributes
    ----------
    text : str, the LLVM IR
    dtypes : dtypes of a reduction's words, in order
    scratch_static : bytes of scratch with compile-time shape
    """

    def __init__(self, kernel, policy_kind, specs, reducers=()):
        self.kernel, self.policy_kind, self.reducers = kernel, policy_kind, reducers
        self.signature = Signature(specs)
        self.width = self.lanes(self.signature) if kernel.packed else 1
        self.facts = Facts()
        for _ in range(_MAX_RUNS):
            self.facts.changed = False
            self.module = ir.Module(kernel.name)
            self.lower = Lowering(self.target, self.width, self.signature.float_dtype, kernel.fastmath, self.facts, kernel.name)
            self.scratch_static, self.dtypes = 0, ()
            self.emit()
            if not self.facts.changed:
                break
        else:
            raise LoweringError(f"kernel '{kernel.name}' ({kernel.place}): the dtypes of its variables do not settle")
        self.text = str(self.module)

    def open(self, function):
        """Begin the entry function: arguments are loaded before its first branch, so that slots stand at its top."""
        builder = ir.IRBuilder(function.append_basic_block("begin"))
        self.lower.begin(builder)
        self.block = function.args[0]
        self.args = self.signature.values(self.lower, self.kernel.portable_text.params[n_indices(self.policy_kind):], self.block)
        self.jump("start")

    def jump(self, name):
        """Branch to a new block and go on there; returns the block left behind."""
        b = self.lower.b
        left, block = b.block, b.append_basic_block(name)
        b.branch(block)
        b.position_at_end(block)
        return left

    def extra(self, name, llvm_type=I64):
        word = self.signature.n_words + EXTRA.index(name)
        place = self.lower.b.gep(self.block, [ir.Constant(I64, 8 * word)], inbounds=True, source_etype=I8)
        return self.lower.b.load(place, align=8, typ=llvm_type)

    def loop(self, begin, end, step, body):
        """for index in begin, begin + step, ... while index + step <= end; returns the first index left over."""
        b = self.lower.b
        by = step if isinstance(step, ir.Value) else ir.Constant(I64, step)
        counter = self.lower.slot(I64)
        b.store(begin, counter)
        head, inside, done = (b.append_basic_block(n) for n in ("packs", "pack", "rest"))
        b.branch(head)
        b.position_at_end(head)
        index = b.load(counter, typ=I64)
        b.cbranch(b.icmp_signed("<=", b.add(index, by, flags=("nsw",)), end), inside, done)
        b.position_at_end(inside)
        body(index)
        b.store(b.add(index, by, flags=("nsw",)), counter)
        b.branch(head)
        b.position_at_end(done)
        return b.load(counter, typ=I64)

    def visit(self, index, mask, slot, variant, outer=()):
        """The kernel at one index (or pack, or team); what it returns goes into accumulator `slot`.

        `outer`: a box's leading indices, uniform Values.
        """
        self.lower.begin_pack(mask)
        result = self.lower.inline(self.kernel.portable_text, [*outer, index, *self.args], variant)
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
            place = lower.binary("+", lower.binary("*", place, lower.binary("-", end, begin)), lower.binary("-", v, begin))
        return place

    # ---- reductions
    def open_accumulators(self):
        """Accumulators made from here on start as identities at this point."""
        self.accumulators, self.resets = {}, self.jump("accumulate")

    def _contributions(self, result):
        values = result if isinstance(result, tuple) else (result,)
        wanted = len(self.reducers)
        if result is None or len(values) != wanted or not all(isinstance(v, Value) for v in values):
            got = "nothing" if result is None else f"{len(values)} value(s)"
            raise LanguageError(f"kernel '{self.kernel.name}' ({self.kernel.place}): a reduction's kernel returns its "
                                f"contribution; {wanted} number(s) wanted, it returns {got}")
        return values

    def _state(self, reducer, value, where, kind):
        lower = self.lower
        dtype = lower.strong(widened(value.dtype))
        state = (Value(dtype, kind, lower.get(value, dtype, kind)),)
        if reducer.with_index:
            state += (Value("int64", kind, lower.get(where, "int64", kind)),)
        return state

    def _accumulate(self, result, mask, index, slot):
        """Fold what the kernel returned at one place into accumulator `slot`."""
        lower, team = self.lower, self.policy_kind == "team"
        kind = UNIFORM if team or self.width == 1 else VARYING
        where = Value("int", UNIFORM, index.league_rank) if team else index
        for k, (reducer, value) in enumerate(zip(self.reducers, self._contributions(result))):
            if team and value.kind != UNIFORM and self.width > 1:  # member 0 speaks for its team
                value = Value(value.dtype, UNIFORM, lower.lane(lower.get(value, None, VARYING), 0))
            state = self._state(reducer, value, where, kind)
            places = self._accumulator(k, slot, reducer, state)
            old = self._loaded(state, places)
            for v, o, p in zip(combine_states(lower, reducer, old, state), old, places):
                x = lower.get(v, o.dtype, o.kind)
                lower.b.store(x if mask is None else lower.b.select(mask, x, o.ir), p)

    def _loaded(self, like, places):
        lower = self.lower
        return tuple(Value(v.dtype, v.kind, lower.b.load(p, typ=lower.type_of(v.dtype, v.kind))) for v, p in zip(like, places))

    def _accumulator(self, k, slot, reducer, state):
        if (k, slot) not in self.accumulators:
            lower = self.lower
            places = [lower.slot(lower.type_of(v.dtype, v.kind)) for v in state]
            with lower.b.goto_block(self.resets):
                for v, identity, p in zip(state, self.identity(reducer, state), places):
                    lower.b.store(lower.get(identity, None, v.kind), p)
            self.accumulators[k, slot] = state, places
        return self.accumulators[k, slot][1]

    def identity(self, reducer, state):
        """The neutral state, shaped like `state`."""
        numbers = reducer.identity(state[0].dtype)
        numbers = numbers if isinstance(numbers, tuple) else (numbers,)
        return tuple(self.lower.strong_const(n, v.dtype) for n, v in zip(numbers, state))

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
        self.dtypes = tuple(self.lower.strong(v.dtype) for state in totals for v in state)
        self.identities = tuple(v.const for r, state in zip(self.reducers, totals) for v in self.identity(r, state))
        return totals

    def write_words(self, states, place):
        """States as 8-byte words from `place` on."""
        for k, v in enumerate(v for state in states for v in state):
            self.lower.b.store(self.lower.get(v, None, UNIFORM), self.word(place, k))

    def read_words(self, states, place):
        """States shaped like `states`, read from 8-byte words."""
        words = iter(range(len(self.dtypes)))
        return [tuple(Value(v.dtype, UNIFORM, self.lower.b.load(self.word(place, next(words)), typ=self.lower.scalar(v.dtype)))
                      for v in state) for state in states]

    def word(self, place, k):
        k = ir.Constant(I64, k) if isinstance(k, int) else k
        return self.lower.b.gep(place, [k], source_etype=I64)

    def n_words(self):
        return sum(2 if r.with_index else 1 for r in self.reducers)
