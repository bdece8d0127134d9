"""The debug build: an emitter that looks at indices, divisors, shifts, scratch arrays and, if asked, NaN.

What it looks at is a SITE, a number that `Sites` knows the meaning of. The first fault of a launch is written
to eight words: whether there is one, its site, the number, its limit, the lane, and the indices of the launch
at lane 0. On a machine that can leave a kernel in the middle it then ends. On others the kernel goes on to
the barriers where others wait: an access that is outside reads zero or writes to a place that nobody reads,
and what a basic block has found is told of at its end, so that its loads need not wait for one another.
"""

from __future__ import annotations

import contextlib
import functools
import itertools

from llvmlite import ir

from ...core.places.policy import n_indices
from ...core.language import types as t
from ...core.compiler.reading.tree import Operation, inside
from ...core.compiler.writing.block import EXTRA, FAULT, N_BYTES, SPARE, ZERO
from ...core.compiler.writing.emit import OWN, Emitter
from ...core.compiler.writing.lines import Builder
from .sites import Sites, end_taken, spare_word, teller
from ...core.language.types import LINEAR, UNIFORM, VARYING
from ...core.compiler.writing.values import I1, I8, I32, I64, PTR, Value

_RARELY, _MOST = [1, 1 << 20], 32  # looks that are told of together
_STATE = "where", "team", "W", "memory"  # of the emitter, which telling of a look asks for
_LOOK = 64  # trips of a `while` between two looks whether there is a fault


class Debugging(Emitter):
    """Needs from the entry: `sites`, `memory` (the address of the words), `watched` (the kernel's text),
    `n_outer` (how many of its arguments are indices) and `scratch_limit`.
    """

    always_branches = True  # an operand that is not wanted is not looked at
    nan, silent, leaves = False, False, True
    where, sites, memory, watched, n_outer, scratch_limit = None, None, None, None, 1, None
    place = None  # of an access: whether it is inside, and what it reads or writes otherwise

    def __init__(self, *args):
        super().__init__(*args)
        self.waiting, self.spares = {}, {}  # block -> what is to be told of at its end
        self.facts = None, {}, {}  # a block: what its variables hold, and looks at indices from one base

    def inline(self, text, args):
        where = args[: self.n_outer] if text is self.watched else self.where
        with self.under(where=where):
            return super().inline(text, args)

    def layers_text(self, *args):
        with self.under(silent=True):
            return super().layers_text(*args)

    def emit_call(self, call):
        with self.under(silent=call.text.file in OWN or self.silent):
            super().emit_call(call)

    def run_loop(self, loop, test, *more):
        """Where a kernel goes on after a fault, what it reads may never end a `while`: the fault does."""
        if loop.form == "while" and not self.leaves and not _meets(loop.body):
            test = functools.partial(self._unless_faulty, test)
        super().run_loop(loop, test, *more)

    def _unless_faulty(self, test):
        b, trips, faulty = self.b, self.slot(I32), self.slot(I1)
        going_on = self.get(test(), "bool")
        n = b.add(b.load(trips, typ=I32), I32(1))
        b.store(n, trips)
        with b.if_then(b.icmp_signed("==", b.and_(n, I32(_LOOK - 1)), I32(0)), likely=False):
            found = b.load_atomic(self.memory, "monotonic", 8, typ=I64)
            b.store(b.icmp_signed("!=", found, I64(0)), faulty)
        return Value("bool", VARYING, b.and_(going_on, b.not_(b.load(faulty, typ=I1))))

    # ---- what is looked at
    def load(self, view, indices):
        with self.before_the_loop(view, indices):
            with self.under(place=(self.inside(view, indices), 0)):
                return self._load(view, indices)

    def store(self, view, indices, value):
        with self.under(place=(self.inside(view, indices), 1)):
            super().store(view, indices, value)

    def atomic(self, *args):
        if not self.leaves:
            self.diverges()
        with self.under(place=(self.inside(args[1], args[2]), 1)):
            return super().atomic(*args)

    def part(self, view, items):
        items = [
            item if isinstance(item, tuple) else self._row(view, k, item) for k, item in enumerate(items)
        ]
        return super().part(view, items)

    def _row(self, view, k, item):
        """The index of a part of a view; the first one instead of one outside, where the kernel goes on."""
        ok = self._index(view, k, item)
        if self.leaves or ok is None:
            return item
        self.diverges()
        return Value("int", item.kind, self.b.select(ok, self.get(item, "int"), I64(0)))

    def inside(self, view, indices):
        """Look at the indices of an access; whether all are inside, None if it must be."""
        found = [self._index(view, k, v) for k, v in enumerate(indices)]
        found = [ok for ok in found if ok is not None]
        if self.leaves or not found:
            return None
        if any(isinstance(ok.type, ir.VectorType) for ok in found):
            found = [ok if isinstance(ok.type, ir.VectorType) else self.splat(ok) for ok in found]
        return functools.reduce(self.b.and_, found)

    def locate(self, view, indices, pairs=False):
        how, pointer = super().locate(view, indices, pairs)
        ok, use = self.place or (None, 0)
        if ok is None:
            return how, pointer
        if isinstance(pointer, list):
            own = isinstance(ok.type, ir.VectorType)
            return how, [
                self.b.select(self.lane(ok, k) if own else ok, p, self._spare(view, p, use))
                for k, p in enumerate(pointer)
            ]
        spare = self._spare(view, pointer, use)
        if isinstance(pointer.type, ir.VectorType):
            spare = self._pointers(spare, self.full(I64, 0))
        elif isinstance(ok.type, ir.VectorType):
            ok = self._of_all(ok)
        return how, self.b.select(ok, pointer, spare)

    def _spare(self, view, pointer, use):
        """Where an access goes instead of outside: a place that holds 0 (`use` 0), or one that nobody reads
        (1). In memory of the same kind, so that the instruction stays the same."""
        if getattr(pointer.type, "addrspace", 0):
            return spare_word(self.b, use, pointer.type)
        if view.store != "(local)":
            return self.b.gep(self.memory, [I64((ZERO, SPARE)[use])], source_etype=I8)
        if self.b.function not in self.spares:
            self.spares[self.b.function] = self.slot(ir.ArrayType(I64, 2 * self.W))
        return self.b.gep(self.spares[self.b.function], [I64(8 * self.W * use)], source_etype=I8)

    def _index(self, view, k, v):
        """Look at one index; whether it is inside (an i1, or one a lane), None if it must be."""
        extent = view.shape[k]
        if self.silent or v.const is not None and isinstance(extent, int) and 0 <= v.const < extent:
            return None
        own = isinstance(extent, Value)  # in each lane
        n = self.get(extent, "int") if own else self._word(extent)
        site = "index", view.label or view.store, len(view.prefix) + k
        if own or v.kind != LINEAR or self.W == 1 or v.step < 1 or not self.leaves:
            return self._among(v, n, site)
        end = self.larger(self.b.sub(n, I64(v.step * (self.W - 1))), 0)  # the first tells of all
        with self.b.if_then(self.b.icmp_unsigned(">=", v.ir, end), likely=False):
            self._among(v, n, site)
            if self.mask is None:  # a lane is outside: nothing of this is for the loops that stand around it
                self.b.unreachable()
        return None

    def _among(self, v, n, site):
        """Whether an index, or each lane's, is one of n; else it is told."""
        own = isinstance(n.type, ir.VectorType)
        x = self.get(v, "int", VARYING if own or v.kind != UNIFORM and self.W > 1 else UNIFORM)
        if not self.leaves and self.W == 1:
            return self._with_others(x, n, site)
        if isinstance(x.type, ir.VectorType):  # both signs in one: few machines compare packs without sign
            last = self.b.sub(n if own else self.splat(n), self.full(I64, 1))
            ok = self.b.icmp_signed(">=", self.b.or_(x, self.b.sub(last, x)), self.full(I64, 0))
        else:
            ok = self.b.icmp_unsigned("<", x, n)
        self.require(ok, x, n, *site)
        return ok

    def _with_others(self, x, n, site):
        """Whether an index is inside, and with it others of this block that are as far from it as numbers of
        the text say: their ends alone are looked at."""
        base, k = _parted(x)
        known, b = self._facts()[1], self.b
        key = base, n.constant if isinstance(n, ir.Constant) else n
        if key not in known:
            ends = [ir.IRBuilder.add(b, base, I64(k)) for _ in range(2)]  # whose operands may change
            known[key] = b.and_(*(b.icmp_unsigned("<", end, n) for end in ends)), ends
        ok, ends = known[key]
        for end, choose in zip(ends, (min, max)):
            end.operands = base, I64(choose(end.operands[1].constant, k))
        self.require(ok, x, n, *site)
        return ok

    def _facts(self):
        """What is known in this block: what variables hold, by their places, and looks by base and extent."""
        if self.facts[0] is not self.b.block:
            self.facts = self.b.block, {}, {}
        return self.facts[1:]

    def read(self, variable):
        if self.leaves or self.W > 1:
            return super().read(variable)
        known, place = self._facts()[0], self.slot_of(variable)
        if place not in known:
            known[place] = super().read(variable).ir
        return Value(variable.dtype, variable.kind, known[place])

    def emit_set(self, s):
        super().emit_set(s)
        if not self.leaves and self.W == 1:
            x, place = self.b.block.instructions[-1].operands
            self._facts()[0][place] = x

    @staticmethod
    def _word(n):
        """A number, LLVM's or Python's, as LLVM's."""
        return I64(n) if isinstance(n, int) else n

    def _arithmetic(self, op, x, y, dtype, const_b):
        if not self.silent and not t.is_float(dtype):
            if op in ("//", "%") and not const_b:
                self.require(
                    self.b.icmp_signed("!=", y, self._alike(y, 0)),
                    x,
                    I64(0),
                    "division by zero",
                    op,
                )
            elif op in ("<<", ">>") and dtype not in t.UNSIGNED and (const_b is None or const_b < 0):
                self.require(
                    self.b.icmp_signed(">=", y, self._alike(y, 0)),
                    y,
                    I64(t.BITS[dtype]),
                    "shift",
                    op,
                )
        return super()._arithmetic(op, x, y, dtype, const_b)

    def binary(self, op, a, b):
        return self._number(op, super().binary(op, a, b), (a, b))

    def emit_math(self, o, *values):
        return self._number(o.attr[0], super().emit_math(o, *values), values)

    def emit_intrinsic(self, o, *values):
        return self._number(o.attr, super().emit_intrinsic(o, *values), values)

    def _number(self, op, result, operands):
        """A result; looked at if it is NaN, and no operand is."""
        if not self.nan or self.silent or result.const is not None or not t.is_float(result.dtype):
            return result
        b, zero = self.b, I64(0)
        x = self.get(result)
        found = b.fcmp_unordered("uno", x, x)
        some = (
            found
            if not isinstance(x.type, ir.VectorType)
            else self.any_lane(found if self.mask is None else self.masked(self.mask, found))
        )
        with b.if_then(some, likely=False):  # whether operands are NaN is looked at only here
            fine = b.not_(found)
            for v in operands:
                if v.const is None and t.is_float(v.dtype):
                    y = self.get(v, result.dtype, result.kind)
                    fine = b.or_(fine, b.fcmp_unordered("uno", y, y))
            self.require(fine, zero, zero, "NaN", op)
        return result

    def emit_view(self, view):
        new = view.store == "(scratch)" and view.base is None and not view.options
        before = self.scratch_used if new else None
        super().emit_view(view)
        if new and self.scratch_limit is not None:
            made = self.values[view]
            end = self._word(self.plus(before, self.bytes_times(made.shape[0], made.strides[0])))
            ok = self.b.icmp_unsigned("<=", end, self.scratch_limit)
            self.require(ok, end, self.scratch_limit, "scratch", view.name or view.label)
            if not self.leaves:  # an array of nothing: each of its accesses is left out
                made.shape[0] = self.b.select(ok, self._word(made.shape[0]), self._word(0))

    # ---- what becomes of it
    def require(self, ok, number, limit, kind, name, dimension=0):
        """Code goes on if `ok`, an i1 or one a lane, holds for all live lanes; else the first is told of."""
        b, site = self.b, self.sites.add(self.line, kind, name, dimension, self.where is not None)
        if not self.leaves:
            self._wait(ok, number, limit, site, kind)
            return
        bad, bits = self._bad(ok)
        faulty, good = b.append_basic_block("faulty"), b.append_basic_block("good")
        b.cbranch(bad, faulty, good).set_weights(_RARELY)
        b.position_at_end(faulty)
        self._tell(bits, number, limit, site)
        self.target.leave(self)
        b.position_at_end(good)

    def _bad(self, ok):
        """Whether it does not hold for a live lane; and the lanes in bits, or None."""
        b, bits = self.b, None
        if isinstance(ok.type, ir.VectorType):
            bad = b.not_(ok) if self.mask is None else b.select(self.mask, b.not_(ok), self.full(I1, 0))
            bits = b.bitcast(bad, ir.IntType(self.W))
            bad = b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0))
        else:
            bad = b.not_(ok)
            if self.W > 1 and self.mask is not None:
                bits = b.bitcast(self.mask, ir.IntType(self.W))
                if not self.alive:
                    bad = b.and_(bad, b.icmp_unsigned("!=", bits, ir.Constant(bits.type, 0)))
        return bad, bits

    def _wait(self, ok, number, limit, site, kind):
        """Let a look be told of at the end of this block, which ends soon where many wait."""
        if len(self.waiting.get(self.b.block, ())) == _MOST:
            self._go_on(self.facts[2])
        state = tuple(getattr(self, name) for name in _STATE)
        self.waiting.setdefault(self.b.block, []).append((ok, number, limit, site, kind, state))

    def _go_on(self, looks):
        """End a block whose looks wait. What its variables hold stays, and these looks."""
        more, known = self.b.append_basic_block("more"), self._facts()[0]
        self.b.branch(more)
        self.b.position_at_end(more)
        self.facts = more, known, looks

    def emit_operation(self, o):
        if o.op in _MEETING and self.b.block in self.waiting:
            self._go_on({})  # others may go on with what was not read or written
        super().emit_operation(o)

    def tell_all(self):
        """Put behind each block, at its end, what its looks have found."""
        for block, looks in self.waiting.items():
            self._tell_at_end(block, looks)

    def _tell_at_end(self, block, looks):
        good, faulty = end_taken(block), block.function.append_basic_block("faulty")
        b = self.b = Builder(block)
        fine = {ok: self._of_all(ok) for ok, *_ in looks}
        b.cbranch(functools.reduce(b.and_, fine.values()), good, faulty).set_weights(_RARELY[::-1])
        b.position_at_end(faulty)
        # those of one visit of the kernel's text
        groups = [list(group) for _, group in itertools.groupby(looks, lambda look: look[-1])]
        for group in groups:
            bad = [self._alone(look, fine) for look in group]
            any_bad = functools.reduce(b.or_, bad) if len(groups) > 1 else I1(1)
            with self.under(**dict(zip(_STATE, group[0][-1]))), b.if_then(any_bad):
                self._tell_first(group, bad)
        b.branch(good)

    def _alone(self, look, fine):
        """Whether a look does not hold: an index by itself, which others may have been looked at with."""
        ok, number, limit, _, kind, _ = look
        if kind == "index" and not isinstance(ok.type, ir.VectorType):
            return self.b.icmp_unsigned(">=", number, limit)
        return self.b.not_(fine[ok])

    def _tell_first(self, looks, bad):
        """Tell of the first that does not hold: by selects and one call, since code that is hardly ever run
        takes room where instructions are kept."""
        chosen = None
        for (ok, number, limit, site, *_), wrong in zip(looks[::-1], bad[::-1]):
            own = isinstance(ok.type, ir.VectorType)
            bits = self.b.bitcast(self.b.not_(ok), ir.IntType(self.W)) if own else None
            words = self._words(bits, number, limit, site)
            chosen = [self.b.select(wrong, w, c) for w, c in zip(words, chosen)] if chosen else words
        self._call_teller(chosen)

    def _of_all(self, ok):
        """Whether something holds in all lanes."""
        if not isinstance(ok.type, ir.VectorType):
            return ok
        bits = self.b.bitcast(ok, ir.IntType(ok.type.count))
        return self.b.icmp_unsigned("==", bits, ir.Constant(bits.type, (1 << ok.type.count) - 1))

    def _tell(self, bits, number, limit, site):
        self._call_teller(self._words(bits, number, limit, site))

    def _words(self, bits, number, limit, site):
        """Site, number, limit, and the lane or member, of what does not hold in the lanes of `bits`."""
        b, lane = self.b, self._word(0) if bits is None else self._first_of(bits)

        def word(v):
            x = b.extract_element(v, lane) if isinstance(v.type, ir.VectorType) else v
            return x if x.type == I64 else b.sext(x, I64)

        member = self.get(self.team.rank(self), "int") if self.W == 1 and self.team is not None else lane
        return [self._word(site), word(number), word(limit), member]

    def _call_teller(self, words):
        where = [self._first(v) for v in self.where or ()]
        where += [self._word(0)] * (3 - len(where))
        module = self.b.module
        tells = module.globals.get("portable_fault") or teller(module, None if self.leaves else FAULT)
        self.b.call(tells, [self.memory, *words, *where])

    def _first_of(self, bits):
        """The number of the first lane of a mask in bits."""
        lane = self.call(f"llvm.cttz.i{self.W}", [bits, I1(1)], bits.type)
        return lane if bits.type == I64 else self.b.zext(lane, I64)

    def _first(self, v):
        """The index of lane 0, or the league rank."""
        if not isinstance(v, Value):
            return v.league_rank
        return (
            v.ir
            if v.kind == LINEAR
            else self.get(v, "int", UNIFORM)
            if v.kind == UNIFORM or self.W == 1
            else self.lane(v.ir, 0)
        )

    # ---- memory in loops
    @contextlib.contextmanager
    def before_the_loop(self, view, indices):
        """As elsewhere; what is emitted before the loop may branch."""
        here, loop = self.b.block, self.frame.loops[-1] if self.frame and self.frame.loops else None
        with super().before_the_loop(view, indices):
            entry = self.b.block
            if entry is here:
                yield
                return
            jump = entry.instructions.pop()
            entry.terminator = None
            n_before = len(self.b.function.blocks)
            self.b.position_at_end(entry)
            yield
            loop.before |= set(self.b.function.blocks[n_before:])
            loop.entry = self.b.block
            self.b.branch(jump.operands[0])


# operations at which members wait for one another, or hand values on
_MEETING = {"barrier", "broadcast", "append", "tally", "combine", "before"}


def _meets(block):
    """Whether members meet in what a block runs: those that have left would be waited for."""
    return any(
        node.__class__ is Operation and node.op in ("together", "barrier") or any(map(_meets, inside(node)))
        for node in block.body
    )


def _parted(x):
    """A number as another one and a Python integer, their sum."""
    base, k = x, 0
    while getattr(base, "opname", None) in ("add", "sub") and isinstance(base.operands[1], ir.Constant):
        k += base.operands[1].constant * (1 if base.opname == "add" else -1)
        base = base.operands[0]
    return (x, 0) if isinstance(base, ir.Constant) or abs(k) >= 1 << 31 else (base, k)


class Debugged:
    """Mixed into an entry: its debug build."""

    emitter, nan, fault_bytes = Debugging, False, N_BYTES

    def __init__(self, kernel, policy_kind, *args):
        super().__init__(kernel, policy_kind, *args)
        self.sites = Sites(kernel.name, policy_kind, self.target.step)

    def fault_word(self):
        """Its place in the argument block, in words."""
        return self.signature.n_words + len(EXTRA) + (len(self.results.dtypes) if self.results else 0)

    def fault_place(self):
        """The address of a fault's words: in the block, of a reduction before its partial states; where a
        kernel goes on, what the block says."""
        place = self.word(self.block, self.fault_word())
        if not self.lower.leaves:
            return self.lower.b.load(place, typ=PTR)
        return self.word(self.extra("partials", PTR), -self.fault_bytes // 8) if self.reducers else place

    @property
    def identity_of_code(self):
        return f"{super().identity_of_code} debug {self.nan}"

    def emit(self):
        super().emit()
        self.lower.tell_all()

    def open(self, function):
        super().open(function)
        lower = self.lower
        lower.watched, lower.n_outer, lower.nan, lower.sites = (
            self.kernel.portable_text,
            n_indices(self.policy_kind),
            self.nan,
            self.sites,
        )
        lower.leaves = self.target.leave is not None
        lower.memory = self.fault_place()
        if self.policy_kind == "team":
            lower.scratch_limit = self.extra("scratch_bytes")


def debug_entry(entry, debug):
    """The class of an entry's debug build; `debug`: True, or "nan" to look for NaN too."""
    return type(f"Debugged{entry.__name__}", (Debugged, entry), {"nan": debug == "nan"})
