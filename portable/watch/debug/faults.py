"""The debug build: a watch that checks indices, divisors, shifts, scratch arrays and, if requested, NaN.

Each check is a SITE, a number that `Sites` maps to its description. The first fault of a launch is written to
eight words: 1 if there is one, its site, the number, its limit, the lane, and the indices of the launch at
lane 0. On a machine that can leave a kernel in the middle it then ends. On others the kernel continues to the
barriers where other members wait: an access outside reads zero or writes to a place that is never read, and
the faults of a basic block are reported at its end, so that its loads need not wait for one another.
"""

import functools
import itertools

from llvmlite import ir

from ...core.language import types as t
from ...core.compiler.reading.tree import Operation, inside
from ...core.compiler.writing.block import FAULT, N_BYTES, SPARE, ZERO
from ...core.compiler.writing.lines import Builder
from ...core.compiler.writing.members import Members
from .sites import Sites, end_taken, spare_word, teller
from ...core.language.types import LINEAR, UNIFORM, VARYING
from ...core.compiler.writing.values import I1, I8, I32, I64, PTR, Value, word
from ...core.compiler.writing.watch import Watch

_RARELY, _MOST = [1, 1 << 20], 32  # checks that are reported together
_LOOK = 64  # iterations of a `while` between two tests for a fault
# operations at which members wait for one another, or hand values on
_MEETING = {"barrier", "broadcast", "append", "tally", "combine", "before"}
_OF_NUMBERS = {"binary", "math", "intrinsic"}  # operations that may make NaN


class Debug(Watch):
    """Looks at the code of an entry; `nan`: for NaN too."""

    branches, fault_bytes = True, N_BYTES  # an operand that is not evaluated is not checked

    def __init__(self, nan, entry):
        self.nan, self.identity = nan, f" debug {nan}"
        self.sites = Sites(entry.kernel.name, entry.policy_kind, entry.machine.step)
        self.memory = self.scratch_limit = None  # the address of a fault's words; bytes that a team has

    def opened(self, code, function):
        entry = code.entry
        self.leaves = code.target.leave is not None
        if function.name == "entry":
            self.waiting, self.spares = {}, {}  # block -> the checks to be reported at its end
        self.facts = None, {}, {}  # a block: values of its variables, and checks of indices from one base
        self.memory = self.fault_place(code)
        if entry.policy_kind == "team":
            self.scratch_limit = code.extra("scratch_bytes")

    def fault_place(self, code):
        """Return the address of a fault's words: in the block, of a reduction before its partial states;
        where a kernel continues after a fault, the address stored in the block.
        """
        place = code.word(code.block, code.entry.fault_word())
        if not self.leaves:
            return code.b.load(place, PTR)
        n_words = code.entry.fault_bytes // 8
        return code.word(code.extra("partials", PTR), -n_words) if code.reducers else place

    def done(self, code):
        for block, looks in self.waiting.items():
            self._tell_at_end(code.ops, block, looks)

    def loop(self, here, loop, test):
        """End a `while` at the first fault: beyond it, the values that a kernel reads may never end the
        loop."""
        if loop.form == "while" and not self.leaves and not _meets(loop.body):
            return functools.partial(self._unless_faulty, test)
        return test

    def _unless_faulty(self, test, here):
        ops, b = here.ops, here.b
        trips, faulty = ops.slot(I32), ops.slot(I1)
        going_on = ops.get(test(here), "bool")
        n = b.add(b.load(trips, I32), I32(1))
        b.store(n, trips)
        with b.if_then(b.icmp_signed("==", b.and_(n, I32(_LOOK - 1)), I32(0)), likely=False):
            found = b.load_atomic(self.memory, "monotonic", 8, typ=I64)
            b.store(b.icmp_signed("!=", found, I64(0)), faulty)
        return Value("bool", VARYING, b.and_(going_on, b.not_(b.load(faulty, I1))))

    # ---- checks
    def access(self, here, view, indices, ways, locate):
        ops = here.ops
        if ways == 3 and not self.leaves:
            ops.diverges()
        ok, use = self._inside(here, view, indices), ways != 1
        how, pointer = locate()
        if ok is None:
            return how, pointer
        if isinstance(pointer, list):
            own = isinstance(ok.type, ir.VectorType)
            return how, [
                ops.b.select(ops.lane(ok, k) if own else ok, p, self._spare(ops, view, p, use))
                for k, p in enumerate(pointer)
            ]
        spare = self._spare(ops, view, pointer, use)
        if isinstance(pointer.type, ir.VectorType):
            spare = here.memory.pointers(spare, ops.full(I64, 0))
        elif isinstance(ok.type, ir.VectorType):
            ok = _of_all(ops.b, ok)
        return how, ops.b.select(ok, pointer, spare)

    def index(self, here, view, k, v):
        """Return the index of a part of a view; the first one instead of one outside, if the kernel
        continues.
        """
        ok = self._index(here, view, k, v)
        if self.leaves or ok is None:
            return v
        here.ops.diverges()
        return Value("int", v.kind, here.b.select(ok, here.ops.get(v, "int"), I64(0)))

    def _inside(self, here, view, indices):
        """Check the indices of an access; return the condition that all are inside, None if they must be."""
        found = [self._index(here, view, k, v) for k, v in enumerate(indices)]
        found = [ok for ok in found if ok is not None]
        if self.leaves or not found:
            return None
        if any(isinstance(ok.type, ir.VectorType) for ok in found):
            found = [ok if isinstance(ok.type, ir.VectorType) else here.ops.splat(ok) for ok in found]
        return functools.reduce(here.b.and_, found)

    def _spare(self, ops, view, pointer, use):
        """Return the place that replaces an access outside: one that holds 0 (`use` 0), or one that is
        never read (1). In memory of the same kind, so that the instruction stays the same."""
        b = ops.b
        if getattr(pointer.type, "addrspace", 0):
            return spare_word(b, int(use), pointer.type)
        if view.store != "(local)":
            return b.gep(self.memory, [I64((ZERO, SPARE)[use])], I8)
        if b.function not in self.spares:
            self.spares[b.function] = ops.slot(ir.ArrayType(I64, 2 * ops.W))
        return b.gep(self.spares[b.function], [I64(8 * ops.W * use)], I8)

    def _index(self, here, view, k, v):
        """Check one index; return the condition that it is inside (an i1, or one a lane), None if
        it must be.
        """
        ops, b, extent = here.ops, here.b, view.shape[k]
        if here.own or v.const is not None and isinstance(extent, int) and 0 <= v.const < extent:
            return None
        own = isinstance(extent, Value)  # in each lane
        n = ops.get(extent, "int") if own else word(extent)
        site = "index", view.label or view.store, len(view.prefix) + k
        if own or v.kind != LINEAR or ops.W == 1 or v.step < 1 or not self.leaves:
            return self._among(here, v, n, site)
        end = ops.larger(b.sub(n, I64(v.step * (ops.W - 1))), 0)  # the first lane decides for all
        with b.if_then(b.icmp_unsigned(">=", v.ir, end), likely=False):
            self._among(here, v, n, site)
            # a lane is outside: lets LLVM discard this path when it optimises the loops around it
            if here.mask is None:
                b.unreachable()
        return None

    def _among(self, here, v, n, site):
        """Return the condition that an index, or each lane's, is below n; report a fault otherwise."""
        ops, b, own = here.ops, here.b, isinstance(n.type, ir.VectorType)
        x = ops.get(v, "int", VARYING if own or v.kind != UNIFORM and ops.W > 1 else UNIFORM)
        if not self.leaves and ops.W == 1:
            ok = self._with_others(b, x, n)
        elif isinstance(x.type, ir.VectorType):  # both signs in one: few machines compare packs without sign
            last = b.sub(n if own else ops.splat(n), ops.full(I64, 1))
            ok = b.icmp_signed(">=", b.or_(x, b.sub(last, x)), ops.full(I64, 0))
        else:
            ok = b.icmp_unsigned("<", x, n)
        self._require(here, ok, x, n, *site)
        return ok

    def _with_others(self, b, x, n):
        """Return the condition that an index is inside, together with those of this block at constant
        distances from it: only their ends are checked.
        """
        base, k = _parted(x)
        known = self._facts(b)[1]
        key = base, n.constant if isinstance(n, ir.Constant) else n
        if key not in known:
            ends = [ir.IRBuilder.add(b, base, I64(k)) for _ in range(2)]  # their operands may change
            known[key] = b.and_(*(b.icmp_unsigned("<", end, n) for end in ends)), ends
        ok, ends = known[key]
        for end, choose in zip(ends, (min, max)):
            end.operands = base, I64(choose(end.operands[1].constant, k))
        return ok

    def _facts(self, b):
        """Return the facts of this block: values of variables, by their places, and checks by base and
        extent."""
        if self.facts[0] is not b.block:
            self.facts = b.block, {}, {}
        return self.facts[1:]

    def read(self, here, place, load):
        if self.leaves or here.ops.W > 1:
            return load()
        known = self._facts(here.b)[0]
        if place not in known:
            known[place] = load()
        return known[place]

    def stored(self, here, place, x):
        if not self.leaves and here.ops.W == 1:
            self._facts(here.b)[0][place] = x

    def divide(self, here, op, x, y, dtype, known):
        ops = here.ops
        if here.own or t.is_float(dtype):
            return
        if op in ("//", "%") and not known:
            ok = here.b.icmp_signed("!=", y, ops.constant_like(y, 0))
            self._require(here, ok, x, I64(0), "division by zero", op)
        elif op in ("<<", ">>") and dtype not in t.UNSIGNED and (known is None or known < 0):
            ok = here.b.icmp_signed(">=", y, ops.constant_like(y, 0))
            self._require(here, ok, y, I64(t.BITS[ops.strong(dtype)]), "shift", op)

    def operation(self, here, o, args, emit):
        if o.op in _MEETING and here.b.block in self.waiting:
            self._go_on(here.b, {})  # other members may proceed past an access that was skipped
        result = emit(here, o, *args)
        if self.nan and o.op in _OF_NUMBERS and not here.own:
            self._look_for_nan(here, o, result, args)
        return result

    def _look_for_nan(self, here, o, result, operands):
        """Check that a result is not NaN, unless an operand is."""
        if result.const is not None or not t.is_float(result.dtype):
            return
        ops, b, x = here.ops, here.b, here.ops.get(result)
        found = some = b.fcmp_unordered("uno", x, x)
        if isinstance(x.type, ir.VectorType):
            some = ops.any_lane(found if here.mask is None else ops.masked(here.mask, found))
        with b.if_then(some, likely=False):  # operands are tested for NaN only here
            fine = b.not_(found)
            for v in operands:
                if v.const is None and t.is_float(v.dtype):
                    y = ops.get(v, result.dtype, result.kind)
                    fine = b.or_(fine, b.fcmp_unordered("uno", y, y))
            name = o.attr[0] if o.op == "math" else o.attr
            self._require(here, fine, I64(0), I64(0), "NaN", name)

    def scratch(self, here, view, made, before):
        if self.scratch_limit is not None:
            end = word(here.ops.plus(before, here.ops.bytes_times(made.shape[0], made.strides[0])))
            ok = here.b.icmp_unsigned("<=", end, self.scratch_limit)
            self._require(here, ok, end, self.scratch_limit, "scratch", view.name or view.label)
            if not self.leaves:  # an empty array: each of its accesses is skipped
                made.shape[0] = here.b.select(ok, word(made.shape[0]), word(0))

    # ---- reports
    def _require(self, here, ok, number, limit, kind, name, dimension=0):
        """Continue if `ok`, an i1 or one a lane, holds for all live lanes; else report the first lane that
        fails.
        """
        ops, b = here.ops, here.b
        site = self.sites.add(ops.line, kind, name, dimension, here.where is not None)
        if not self.leaves:
            # reported at the end of this block, which ends early after many checks
            if len(self.waiting.get(b.block, ())) == _MOST:
                self._go_on(b, self.facts[2])
            visit = here.where, ops.W, self.memory
            self.waiting.setdefault(b.block, []).append((ok, number, limit, site, kind, visit))
            return
        bad, bits = _bad(here, ok)
        faulty, good = b.append_basic_block("faulty"), b.append_basic_block("good")
        b.cbranch(bad, faulty, good).set_weights(_RARELY)
        b.position_at_end(faulty)
        visit = here.where, ops.W, self.memory
        self._tell(ops, visit, _words(ops, visit, bits, number, limit, site))
        ops.target.leave(ops)
        b.position_at_end(good)

    def _go_on(self, b, looks):
        """End a block with pending checks. The values of its variables remain known, and the given checks."""
        more, known = b.append_basic_block("more"), self._facts(b)[0]
        b.branch(more)
        b.position_at_end(more)
        self.facts = more, known, looks

    def _tell_at_end(self, ops, block, looks):
        """Append the report of a block's failed checks to its end."""
        good, faulty = end_taken(block), block.function.append_basic_block("faulty")
        b = ops.b = Builder(block)
        fine = {ok: _of_all(b, ok) for ok, *_ in looks}
        b.cbranch(functools.reduce(b.and_, fine.values()), good, faulty).set_weights(_RARELY[::-1])
        b.position_at_end(faulty)
        # checks of one visit of the kernel's code
        groups = [list(group) for _, group in itertools.groupby(looks, lambda look: look[-1])]
        for group in groups:
            bad = [_alone(b, look, fine) for look in group]
            any_bad = functools.reduce(b.or_, bad) if len(groups) > 1 else I1(1)
            width, ops.W = ops.W, group[0][-1][1]
            with b.if_then(any_bad):
                self._tell_first(ops, group, bad)
            ops.W = width
        b.branch(good)

    def _tell_first(self, ops, looks, bad):
        """Report the first check that fails: by selects and one call, since code that is hardly ever run
        occupies the instruction cache."""
        b, chosen, visit = ops.b, None, looks[0][-1]
        for (ok, number, limit, site, *_), wrong in zip(looks[::-1], bad[::-1]):
            own = isinstance(ok.type, ir.VectorType)
            bits = b.bitcast(b.not_(ok), ir.IntType(ops.W)) if own else None
            words = _words(ops, visit, bits, number, limit, site)
            chosen = [b.select(wrong, w, c) for w, c in zip(words, chosen)] if chosen else words
        self._tell(ops, visit, chosen)

    def _tell(self, ops, visit, words):
        """Emit the call that keeps a fault, if it is the first."""
        places, _, memory = visit
        where = [_first(ops, v) for v in places or ()]
        where += [word(0)] * (3 - len(where))
        module = ops.b.module
        tells = module.globals.get("portable_fault") or teller(module, None if self.leaves else FAULT)
        ops.b.call(tells, [memory, *words, *where])


def _bad(here, ok):
    """Return the condition that a check fails for a live lane; and the lanes in bits, or None."""
    ops, b, bits = here.ops, here.b, None
    if isinstance(ok.type, ir.VectorType):
        bad = b.not_(ok) if here.mask is None else b.select(here.mask, b.not_(ok), ops.full(I1, 0))
        bits = b.bitcast(bad, ir.IntType(ops.W))
        return b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)), bits
    bad = b.not_(ok)
    if ops.W > 1 and here.mask is not None:
        bits = b.bitcast(here.mask, ir.IntType(ops.W))
        if not here.alive:
            bad = b.and_(bad, b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)))
    return bad, bits


def _alone(b, look, fine):
    """Return the condition that a check fails for this index, which was checked together with others."""
    ok, number, limit, _, kind, _ = look
    if kind == "index" and not isinstance(ok.type, ir.VectorType):
        return b.icmp_unsigned(">=", number, limit)
    return b.not_(fine[ok])


def _of_all(b, ok):
    """Return the condition that `ok` holds in all lanes."""
    if not isinstance(ok.type, ir.VectorType):
        return ok
    bits = b.bitcast(ok, ir.IntType(ok.type.count))
    return b.icmp_unsigned("==", bits, ir.Constant(bits.type, (1 << ok.type.count) - 1))


def _words(ops, visit, bits, number, limit, site):
    """Return site, number, limit, and the lane or member, of the first failure among the lanes of `bits`."""
    b, lane = ops.b, word(0)
    if bits is not None:  # the first of them
        lane = ops.call(f"llvm.cttz.i{ops.W}", [bits, I1(1)], bits.type)
        lane = lane if bits.type == I64 else b.zext(lane, I64)

    def wide(v):
        x = b.extract_element(v, lane) if isinstance(v.type, ir.VectorType) else v
        return x if x.type == I64 else b.sext(x, I64)

    (team, *_), width, _ = visit[0] or (None,), *visit[1:]
    member = ops.get(team.rank(ops), "int") if width == 1 and isinstance(team, Members) else lane
    return [word(site), wide(number), wide(limit), member]


def _first(ops, v):
    """Return the index of lane 0, or the league rank."""
    if not isinstance(v, Value):
        return v.league_rank
    if v.kind == LINEAR:
        return v.ir
    return ops.get(v, "int", UNIFORM) if v.kind == UNIFORM or ops.W == 1 else ops.lane(v.ir, 0)


def _meets(block):
    """Return True if a block has a collective: it would wait for members that have left."""
    return any(
        node.__class__ is Operation and node.op in ("together", "barrier") or any(map(_meets, inside(node)))
        for node in block.body
    )


def _parted(x):
    """Return a number as another one and a Python integer, their sum."""
    base, k = x, 0
    while getattr(base, "opname", None) in ("add", "sub") and isinstance(base.operands[1], ir.Constant):
        k += base.operands[1].constant * (1 if base.opname == "add" else -1)
        base = base.operands[0]
    return (x, 0) if isinstance(base, ir.Constant) or abs(k) >= 1 << 31 else (base, k)


def watching(debug):
    """Return the watch of an entry's debug build; `debug`: True, or "nan" to find NaN too."""
    return functools.partial(Debug, debug == "nan")
