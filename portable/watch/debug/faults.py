"""The debug build: a watch that checks indices, divisors, shifts, scratch arrays and, if requested, NaN.

Each check is a SITE, a number that `Sites` maps to its description. The first fault of a launch is written to
eight words: 1 if there is one, its site, the number, its limit, the lane, and the indices of the launch at
lane 0. On a machine that can leave a kernel in the middle it then ends. On others the kernel continues to the
barriers where other members wait: an access outside reads zero or writes to a place that is never read, and
the faults of a basic block are reported at its end, so that its loads need not wait for one another.
"""

import operator
from functools import partial, reduce

from llvmlite import ir

from ...core.language import types as t
from ...core.compiler.reading.tree import Operation, inside
from ...core.compiler.writing.block import FAULT, N_BYTES, SPARE, ZERO
from ...core.compiler.writing.lines import Integer, builder
from ...core.compiler.writing.members import Members
from .sites import Sites, end_taken, spare_word, emit_reporter
from ...core.language.types import LINEAR, UNIFORM, VARYING
from ...core.compiler.writing.values import I1, I8, I32, I64, PTR, Unpacked, Value, word
from ...core.compiler.writing.watch import Watch

_RARELY, _MOST = [1, 1 << 20], 32  # checks that are reported together
_LOOK = 64  # iterations of a `while` between two tests for a fault
# operations at which members wait for one another, or hand values on
_MEETING = {"barrier", "broadcast", "append", "tally", "combine", "before"}
_OF_NUMBERS = {"binary", "math", "intrinsic"}  # operations that may make NaN


class Debug(Watch):
    """Looks at the code of an entry; `nan`: for NaN too."""

    fault_bytes = N_BYTES

    def __init__(self, nan, entry):
        self.nan = nan
        self.sites = Sites(entry.kernel.name, entry.policy_kind, entry.machine.step)
        self.memory = self.scratch_limit = None  # the address of a fault's words; bytes that a team has

    def opened(self, code, function):
        entry = code.entry
        self.leaves = code.target.leave is not None
        if not self.leaves and code.width > 1:
            raise Unpacked("a debug build goes on index by index")
        if function.name == "entry":
            self.waiting, self.spares = {}, {}  # block -> the checks to be reported at its end
        self.memory = self.fault_place(code)
        if entry.policy_kind == "team":
            self.scratch_limit = code.extra("scratch_bytes")

    def fault_place(self, code):
        """Return the address of a fault's words: in the block, of a reduction before its partial states;
        where a kernel continues after a fault, the address stored in the block.
        """
        place = code.word(code.block, code.entry.fault_word())
        if not self.leaves:
            return builder.load(place, PTR)
        n_words = code.entry.fault_bytes // 8
        return code.word(code.extra("partials", PTR), -n_words) if code.reducers else place

    def done(self, code):
        for block, looks in self.waiting.items():
            self._tell_at_end(block, looks)

    def loop(self, here, loop, test):
        """End a `while` at the first fault: beyond it, the values that a kernel reads may never end the
        loop."""
        if loop.form == "while" and not self.leaves and not _has_collective(loop.body):
            return partial(self._unless_faulty, test)
        return test

    def _unless_faulty(self, test, here):
        ops = here.ops
        trips, faulty = ops.slot(I32), ops.slot(I1)
        going_on = ops.get(test(here), "bool")
        n = builder.load(trips) + 1
        builder.store(n, trips)
        with builder.if_then((n & (_LOOK - 1)).equals(0), likely=False):
            builder.store(builder.load_atomic(self.memory, "monotonic", 8, typ=I64).differs(0), faulty)
        return Value("bool", VARYING, going_on & ~builder.load(faulty))

    # ---- checks
    def access(self, here, view, indices, ways, locate):
        ops = here.ops
        if ways == 3 and not self.leaves:
            ops.diverges()
        found = [ok for k, v in enumerate(indices) if (ok := self._index(here, view, k, v)) is not None]
        inside = reduce(operator.and_, found) if found and not self.leaves else None
        how, pointer = locate()
        if inside is not None:
            pointer = builder.select(inside, pointer, self._spare_place(ops, view, pointer, ways != 1))
        return how, pointer

    def index(self, here, view, k, v):
        """Return the index of a part of a view; the first one instead of one outside, if the kernel
        continues.
        """
        ok = self._index(here, view, k, v)
        if self.leaves or ok is None:
            return v
        here.ops.diverges()
        return Value("int", v.kind, builder.select(ok, here.ops.get(v, "int"), 0))

    def _spare_place(self, ops, view, pointer, use):
        """Return the place that replaces an access outside: one that holds 0 (`use` 0), or one that is
        never read (1). In memory of the same kind, so that the instruction stays the same."""
        if getattr(pointer.type, "addrspace", 0):
            return spare_word(int(use), pointer.type)
        if view.store != "(local)":
            return builder.gep(self.memory, [(ZERO, SPARE)[use]], I8)
        if builder.function not in self.spares:
            self.spares[builder.function] = ops.slot(ir.ArrayType(I64, 2))
        return builder.gep(self.spares[builder.function], [8 * use], I8)

    def _index(self, here, view, k, v):
        """Check one index; return the condition that it is inside (an i1, or one a lane), None if
        it must be.
        """
        ops, extent = here.ops, view.shape[k]
        if here.own or v.const is not None and isinstance(extent, int) and 0 <= v.const < extent:
            return None
        own = isinstance(extent, Value)  # in each lane
        n = ops.get(extent, "int") if own else word(extent)
        site = "index", view.label or view.store, len(view.prefix) + k
        if own or v.kind != LINEAR or ops.W == 1 or v.step < 1 or not self.leaves:
            return self._index_fits(here, v, n, site)
        end = ops.larger(n - v.step * (ops.W - 1), 0)  # the first lane decides for all
        with builder.if_then(builder.icmp_unsigned(">=", v.ir, end), likely=False):
            self._index_fits(here, v, n, site)
            # a lane is outside: lets LLVM discard this path when it optimises the loops around it
            if here.mask is None:
                builder.unreachable()
        return None

    def _index_fits(self, here, v, n, site):
        """Return the condition that an index, or each lane's, is below n; report a fault otherwise."""
        ops, own = here.ops, isinstance(n.type, ir.VectorType)
        x = ops.get(v, "int", VARYING if own or v.kind != UNIFORM and ops.W > 1 else UNIFORM)
        if isinstance(x.type, ir.VectorType):  # both signs in one: few machines compare packs without sign
            ok = (x | ((n if own else ops.splat(n)) - 1 - x)) >= 0
        else:
            ok = builder.icmp_unsigned("<", x, n)
        self._require(here, ok, x, n, *site)
        return ok

    def divide(self, here, op, x, y, dtype, known):
        ops = here.ops
        if here.own or t.is_float(dtype):
            return
        if op in ("//", "%") and not known:
            ok = y.differs(0)
            self._require(here, ok, x, I64(0), "division by zero", op)
        elif op in ("<<", ">>") and dtype not in t.UNSIGNED and (known is None or known < 0):
            ok = y >= 0
            self._require(here, ok, y, I64(t.BITS[ops.strong(dtype)]), "shift", op)

    def operation(self, here, o, args, emit):
        if o.op in _MEETING and builder.block in self.waiting:
            builder.go(
                builder.append_basic_block("more")
            )  # other members may proceed past an access that was skipped
        result = emit(here, o, *args)
        if self.nan and o.op in _OF_NUMBERS and not here.own:
            self._look_for_nan(here, o, result, args)
        return result

    def _look_for_nan(self, here, o, result, operands):
        """Check that a result is not NaN, unless an operand is."""
        if result.const is not None or not t.is_float(result.dtype):
            return
        ops, x = here.ops, here.ops.get(result)
        found = some = builder.fcmp_unordered("uno", x, x)
        if isinstance(x.type, ir.VectorType):
            some = ops.any_lane(found if here.mask is None else ops.masked(here.mask, found))
        with builder.if_then(some, likely=False):  # operands are tested for NaN only here
            fine = ~found
            for v in operands:
                if v.const is None and t.is_float(v.dtype):
                    y = ops.get(v, result.dtype, result.kind)
                    fine = fine | builder.fcmp_unordered("uno", y, y)
            name = o.attr[0] if o.op == "math" else o.attr
            self._require(here, fine, I64(0), I64(0), "NaN", name)

    def scratch(self, here, view, made, before):
        if self.scratch_limit is not None:
            end = word(here.ops.plus(before, here.ops.bytes_times(made.shape[0], made.strides[0])))
            ok = builder.icmp_unsigned("<=", end, self.scratch_limit)
            self._require(here, ok, end, self.scratch_limit, "scratch", view.name or view.label)
            if not self.leaves:  # an empty array: each of its accesses is skipped
                made.shape[0] = builder.select(ok, word(made.shape[0]), word(0))

    # ---- reports
    def _require(self, here, ok, number, limit, kind, name, dimension=0):
        """Continue if `ok`, an i1 or one a lane, holds for all live lanes; else report the first lane that
        fails.
        """
        ops = here.ops
        site = self.sites.add(ops.line, kind, name, dimension, here.where is not None)
        words = partial(_words, ops, here.where, number, limit, site)
        if not self.leaves:
            # reported at the end of this block, which ends early after many checks
            if len(self.waiting.get(builder.block, ())) == _MOST:
                builder.go(builder.append_basic_block("more"))
            self.waiting.setdefault(builder.block, []).append((ok, self.memory, words))
            return
        bad, bits = _failing_lanes(here, ok)
        faulty, good = builder.append_basic_block("faulty"), builder.append_basic_block("good")
        builder.go(faulty, bad, good).set_weights(_RARELY)
        self._keep_fault(self.memory, words(bits))
        ops.target.leave(ops)
        builder.position_at_end(good)

    def _tell_at_end(self, block, looks):
        """Append to a block's end the report of its first check that fails: by selects and one call, since
        code that is hardly ever run occupies the instruction cache."""
        good, faulty = end_taken(block), block.function.append_basic_block("faulty")
        builder.position_at_end(block)
        fine = reduce(operator.and_, [ok for ok, *_ in looks])
        builder.cbranch(fine, good, faulty).set_weights(_RARELY[::-1])
        builder.position_at_end(faulty)
        chosen = None
        for ok, memory, words in looks[::-1]:
            found = words(None)
            chosen = [builder.select(ok, c, w) for w, c in zip(found, chosen)] if chosen else found
        self._keep_fault(memory, chosen)
        builder.branch(good)

    def _keep_fault(self, memory, words):
        """Emit the call that keeps a fault, if it is the first."""
        tells = builder.module.globals.get("portable_fault") or emit_reporter(None if self.leaves else FAULT)
        builder.call(tells, [memory, *words])


def _failing_lanes(here, ok):
    """Return the condition that a check fails for a live lane; and the lanes in bits, or None."""
    ops, bits = here.ops, None
    if isinstance(ok.type, ir.VectorType):
        bad = ~ok if here.mask is None else builder.select(here.mask, ~ok, 0)
        bits = builder.bitcast(bad, Integer(ops.W))
        return bits.differs(0), bits
    bad = ~ok
    if ops.W > 1 and here.mask is not None:
        bits = builder.bitcast(here.mask, Integer(ops.W))
        if not here.alive:
            bad = bad & bits.differs(0)
    return bad, bits


def _words(ops, where, number, limit, site, bits):
    """Return site, number, limit, the lane or member of the first failure among the lanes of `bits`, and the
    launch's indices."""
    lane = word(0)
    if bits is not None:  # the first of them
        lane = builder.call_named(f"llvm.cttz.i{ops.W}", [bits, I1(1)], bits.type)
        lane = lane if bits.type == I64 else builder.zext(lane, I64)

    def wide(v):
        x = builder.extract_element(v, lane) if isinstance(v.type, ir.VectorType) else v
        return x if x.type == I64 else builder.sext(x, I64)

    places = [*map(partial(_first, ops), where or ()), *[word(0)] * 3]
    is_member = where and isinstance(where[0], Members) and ops.W == 1
    member = ops.get(where[0].rank(ops), "int") if is_member else lane
    return [word(site), wide(number), wide(limit), member, *places[:3]]


def _first(ops, v):
    """Return the index of lane 0, or the league rank."""
    if not isinstance(v, Value):
        return v.league_rank
    if v.kind == LINEAR:
        return v.ir
    return ops.get(v, "int", UNIFORM) if v.kind == UNIFORM or ops.W == 1 else ops.lane(v.ir, 0)


def _has_collective(block):
    """Return True if a block has a collective: it would wait for members that have left."""
    return any(
        node.__class__ is Operation
        and node.op in ("together", "barrier")
        or any(map(_has_collective, inside(node)))
        for node in block.body
    )


def watching(debug):
    """Return the watch of an entry's debug build; `debug`: True, or "nan" to find NaN too."""
    return partial(Debug, debug == "nan")
