"""The debug build: an emitter that looks at indices, divisors, shifts, scratch arrays and, if asked, NaN.

What it looks at is a SITE, a number that `Sites` knows the meaning of. The first fault of a launch is written
to eight words: whether there is one, its site, the number, its limit, the lane, and the indices of the launch
at lane 0. On a machine that can leave a kernel in the middle it then ends; on others the access is left out,
and the kernel goes on to the barriers where others wait.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from dataclasses import dataclass

from llvmlite import ir

from ..errors import CheckError
from ..policy import n_indices
from . import types as t
from .emit import OWN, Emitter
from .tree import Operation, inside
from .types import LINEAR, UNIFORM, VARYING
from .values import I1, I64, PTR, Value

N_BYTES = 64
_VOID, _RARELY = ir.VoidType(), [1, 1 << 20]


@dataclass(frozen=True, slots=True)
class Fault:
    """What the debug build found.

    Attributes
    ----------
    kind : "index", "division by zero", "shift", "NaN" or "scratch"
    kernel, file, line : where it is in the text
    view : the argument's or variable's name, or the operator
    number, limit : the index and its extent; the dividend and 0; the shift's count and its type's bits; the
        bytes of scratch wanted and given
    index : of the launch: a tuple of integers; for teams the league rank
    member : the team's member, else None
    """

    kind: str
    kernel: str
    file: str
    line: int
    view: str
    dimension: int
    number: int
    limit: int
    index: tuple
    member: int | None

    def __str__(self):
        says = {
            "index": f"'{self.view}', dimension {self.dimension}: "
            f"index {self.number} is outside extent {self.limit}",
            "division by zero": f"{self.number} {self.view} 0",
            "shift": f"`{self.view}` by {self.number}, of {self.limit} bits",
            "NaN": f"`{self.view}` made NaN from numbers",
            "scratch": f"{self.view} ends at byte {self.number} of the {self.limit} that the team has",
        }[self.kind]
        place = ", ".join(map(str, self.index)) or "the end of a reduction"
        at = (
            f"team {place}, member {self.member}"
            if self.member is not None
            else f"index {place if len(self.index) < 2 else f'({place})'}"
        )
        return f"kernel '{self.kernel}' ({self.file}:{self.line}): {says}, at {at}"


class Sites:
    """What the sites of one kernel's debug build mean; `raise_if` reads the words that a launch has left."""

    def __init__(self, kernel, policy_kind, step):
        self.kernel, self.policy_kind, self.step, self.known = kernel, policy_kind, step, []

    def add(self, *site):
        self.known.append(site)
        return len(self.known) - 1

    def raise_if(self, words):
        """CheckError with the Fault that is in eight words, if one is."""
        taken, site, number, limit, lane, *index = struct.unpack("=8q", words)
        if not taken:
            return
        line, kind, view, dimension, launched = self.known[site]
        team, member = self.policy_kind == "team", None
        if team:
            index, member = index[:1], lane
        elif launched:
            index = index[: n_indices(self.policy_kind)]
            index[-1] += lane * self.step
        file, _, line = line.rpartition(":")
        index = tuple(index) if launched else ()
        raise CheckError(
            [
                Fault(
                    kind,
                    self.kernel,
                    file,
                    int(line),
                    view,
                    dimension,
                    number,
                    limit,
                    index,
                    member if launched else None,
                )
            ]
        )


class Debugging(Emitter):
    """Needs from the entry: `sites`, `memory` (the address of the words), `watched` (the kernel's text),
    `n_outer` (how many of its arguments are indices) and `scratch_limit`.
    """

    nan = False
    always_branches = True  # an operand that is not wanted is not looked at
    silent, where, sites, memory, watched, n_outer, scratch_limit, leaves = (
        False,
        None,
        None,
        None,
        None,
        1,
        None,
        True,
    )

    def inline(self, text, args):
        where = args[: self.n_outer] if text is self.watched else self.where
        with self.under(where=where):
            return super().inline(text, args)

    def layers_text(self, *args):
        with self.under(silent=True):
            return super().layers_text(*args)

    def emit_call(self, call):
        with self.under(silent=self.silent or call.text.file in OWN):
            super().emit_call(call)

    def run_loop(self, loop, test, *more):
        """Where a kernel goes on after a fault, what it reads may never end a `while`: the fault does."""
        if loop.form == "while" and not self.leaves and not _meets(loop.body):
            test = functools.partial(self._unless_faulty, test)
        super().run_loop(loop, test, *more)

    def _unless_faulty(self, test):
        going_on = self.get(test(), "bool")
        found = self.b.load_atomic(self.memory, "monotonic", 8, typ=I64)
        fine = self.b.icmp_signed("==", found, I64(0))
        return Value("bool", VARYING, self.b.and_(going_on, fine))

    # ---- what is looked at
    def load(self, view, indices):
        with self.before_the_loop(view, indices):
            return self._touched(self.inside(view, indices), lambda: self._load(view, indices))

    def store(self, view, indices, value):
        self._touched(self.inside(view, indices), lambda: super(Debugging, self).store(view, indices, value))

    def atomic(self, op, view, indices, value, expected=None, want_old=True):
        return self._touched(
            self.inside(view, indices),
            lambda: super(Debugging, self).atomic(op, view, indices, value, expected, want_old),
        )

    def part(self, view, items):
        for k, item in enumerate(items):
            if not isinstance(item, tuple):
                self._index(view, k, item)
        return super().part(view, items)

    def inside(self, view, indices):
        """Look at the indices of an access; whether all are inside, where the kernel goes on with others."""
        found = [self._index(view, k, v) for k, v in enumerate(indices)]
        if self.leaves or None in found and not any(found):
            return None
        ok = I1(1)
        for x in found:
            ok = ok if x is None else self.b.and_(ok, x)
        return ok

    def _touched(self, ok, access):
        """An access; left out where an index is outside."""
        if ok is None:
            return access()
        slot = None
        with self.b.if_then(ok):
            value = access()
            if value is not None:
                x = self.get(value)
                slot = self.slot(x.type)
                self.b.store(x, slot)
        return value and Value(value.dtype, value.kind, self.b.load(slot, typ=x.type))

    def _index(self, view, k, v):
        """Look at one index; whether it is inside (an i1), None if it must be."""
        extent = view.shape[k]
        if self.silent or v.const is not None and isinstance(extent, int) and 0 <= v.const < extent:
            return None
        own = isinstance(extent, Value)  # in each lane
        n = self.get(extent, "int") if own else self._word(extent)
        site = "index", view.label or view.store, len(view.prefix) + k
        if own or v.kind != LINEAR or self.W == 1 or v.step < 1:
            return self._among(v, n, site)
        last = self.b.add(v.ir, self._word(v.step * (self.W - 1)))  # the ends tell of all
        ends = self.b.and_(self.b.icmp_signed(">=", v.ir, self._word(0)), self.b.icmp_signed("<", last, n))
        with self.b.if_then(self.b.not_(ends), likely=False):
            self._among(v, n, site)
        return None

    def _among(self, v, n, site):
        """Whether an index, or each lane's, is one of n; else it is told."""
        own = isinstance(n.type, ir.VectorType)
        x = self.get(v, "int", VARYING if own or v.kind != UNIFORM and self.W > 1 else UNIFORM)
        ok = self.b.icmp_unsigned(
            "<", x, self.splat(n) if isinstance(x.type, ir.VectorType) and not own else n
        )
        self.require(ok, x, n, *site)
        return ok

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
        before = self.scratch_used if view.store == "(scratch)" else None
        super().emit_view(view)
        if before is not None and self.scratch_limit is not None:
            made = self.values[view]
            end = self._word(self.plus(before, self.bytes_times(made.shape[0], made.strides[0])))
            ok = self.b.icmp_unsigned("<=", end, self.scratch_limit)
            self.require(ok, end, self.scratch_limit, "scratch", view.name or view.label)
            if not self.leaves:  # an array of nothing: each of its accesses is left out
                made.shape[0] = self.b.select(ok, self._word(made.shape[0]), self._word(0))

    # ---- what becomes of it
    def require(self, ok, number, limit, kind, name, dimension=0):
        """Code goes on if `ok`, an i1 or one a lane, holds for all live lanes; else the first is told of."""
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
        faulty, good = b.append_basic_block("faulty"), b.append_basic_block("good")
        b.cbranch(bad, faulty, good).set_weights(_RARELY)
        b.position_at_end(faulty)
        self._tell(bits, number, limit, kind, name, dimension)
        if self.leaves:
            self.target.leave(self)
        else:
            b.branch(good)
        b.position_at_end(good)

    def _tell(self, bits, number, limit, kind, name, dimension):
        b, lane = self.b, self._word(0) if bits is None else self._first_of(bits)

        def word(v):
            x = b.extract_element(v, lane) if isinstance(v.type, ir.VectorType) else v
            return x if x.type == I64 else b.sext(x, I64)

        where = [self._first(v) for v in self.where or ()]
        member = self.get(self.team.rank(self), "int") if self.W == 1 and self.team is not None else lane
        site = self.sites.add(self.line, kind, name, dimension, self.where is not None)
        words = [
            self._word(site),
            word(number),
            word(limit),
            member,
            *where,
            *[self._word(0)] * (3 - len(where)),
        ]
        b.call(b.module.globals.get("portable_fault") or _teller(b.module), [self.memory, *words])

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


def _meets(block):
    """Whether members meet in what a block runs: those that have left would be waited for."""
    return any(
        node.__class__ is Operation and node.op in ("together", "barrier") or any(map(_meets, inside(node)))
        for node in block.body
    )


def _teller(module):
    """void portable_fault(memory, 7 words): keep them, if they are the first."""
    function = ir.Function(module, ir.FunctionType(_VOID, [PTR, *[I64] * 7]), "portable_fault")
    function.linkage = "internal"
    for name in ("noinline", "cold"):
        function.attributes.add(name)
    memory, *words = function.args
    b = ir.IRBuilder(function.append_basic_block("begin"))
    won = b.extract_value(b.cmpxchg(memory, I64(0), I64(1), "monotonic", "monotonic"), 1)
    with b.if_then(won):
        for k, word in enumerate(words, 1):
            b.store(word, b.gep(memory, [I64(k)], source_etype=I64))
    b.ret_void()
    return function


class Debugged:
    """Mixed into an entry: its debug build. The block's last word is the address of the words of a fault."""

    emitter, nan = Debugging, False

    def __init__(self, kernel, policy_kind, *args):
        super().__init__(kernel, policy_kind, *args)
        self.sites = Sites(kernel.name, policy_kind, self.target.step)

    def fault_word(self):
        """Its place in the argument block, in words."""
        from .entry import EXTRA

        return self.signature.n_words + len(EXTRA) + (len(self.results.dtypes) if self.results else 0)

    @property
    def identity_of_code(self):
        return f"{super().identity_of_code} debug {self.nan}"

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
        lower.memory = lower.b.load(self.word(self.block, self.fault_word()), typ=PTR)
        if self.policy_kind == "team":
            lower.scratch_limit = self.extra("scratch_bytes")


def debug_entry(entry, debug):
    """The class of an entry's debug build; `debug`: True, or "nan" to look for NaN too."""
    one = (
        {} if entry.target.leave else {"lanes": lambda self, signature: 1}
    )  # an access is left out for one lane
    return type(f"Debugged{entry.__name__}", (Debugged, entry), {"nan": debug == "nan", **one})
