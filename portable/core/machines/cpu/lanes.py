"""What a lane and a team are on the CPU: the lanes of one thread's pack are the members of its team."""

from __future__ import annotations

import llvmlite.binding as llvm
from llvmlite import ir

from ...compiler.writing.lines import Builder
from ...compiler.writing.members import Members
from ...compiler.reading.team import combine_states
from ...language.types import LINEAR, UNIFORM, VARYING
from ...compiler.writing.values import F64, I8, I16, I32, I64, Value
from . import engine, entry, looks
from .guard import guard


class CpuTarget(entry.Target):
    """The CPU's part of lowering."""

    straight, strip = False, looks.STRIP
    product, look, leave = staticmethod(Builder.mul), staticmethod(looks.look), staticmethod(looks.leave)
    guard = staticmethod(guard)

    @staticmethod
    def branches(what, element):
        """Whether LLVM makes a branch a lane of a masked access: AVX2 has loads and stores of 32 and 64 bits,
        AVX-512 all loads and stores, and gathers and scatters of 32 and 64."""
        narrow, scattered = element in (I8, I16), what in ("gather", "scatter")
        return narrow + scattered > (engine.pack_registers() == 32)

    @staticmethod
    def fast_math(lower, name, values):
        return None

    @staticmethod
    def foreign(lower, callee, values):
        """A call of a function that numba compiles."""
        return callee.emit(lower, values)

    @staticmethod
    def linked(text, links):
        """An IR text with the texts of the functions that it calls, kept to itself."""
        module = llvm.parse_assembly(text)
        for name, own in links.items():
            module.link_in(llvm.parse_assembly(own))
            module.get_function(name).linkage = "internal"
        return str(module)


def rolled(branch):
    """Keep LLVM from unrolling the loop that a branch ends, where its trips are not known."""
    node = branch.parent.module.add_metadata
    loop = node([node(["llvm.loop.unroll.runtime.disable"])])
    loop.operands = (loop, loop.operands[-1])  # LLVM wants a node that names itself
    branch.set_metadata("llvm.loop", loop)


class Unwatched(CpuTarget):
    """For code that counts: it cannot be ended, and runs in the caller's state."""

    look = guard = staticmethod(lambda *args: None)
    strip = 0


class CpuTeam(Members):
    """A team of W members that move together; barriers cost nothing."""

    def __init__(self, league_rank, league_size, scratch):
        super().__init__(league_rank, league_size)
        self.buffer = scratch

    def rank(self, lower):
        return lower.lanes(I64(0)) if lower.W > 1 else Value("int", VARYING, I64(0))

    def barrier(self, lower):
        pass

    def scratch_base(self, lower):
        return self.buffer

    def scratch(self, *args):
        view = super().scratch(*args)
        view.unshared = True  # a team is one thread: what is atomic among its lanes costs nothing
        return view

    def combine(self, lower, state, reducer, again):
        return combine_lanes(lower, state, reducer, combine_states)

    def pick(self, lower, value, rank):
        if lower.W == 1 or value.kind == UNIFORM:
            return Value(value.dtype, UNIFORM, lower.get(value))
        return Value(
            value.dtype,
            UNIFORM,
            lower.b.extract_element(lower.get(value, None, VARYING), lower.get(rank, "int")),
        )

    def append(self, lower, view, at, value, keep):
        """Members that keep move to the front of the pack, which is stored under a mask; returns their
        number."""
        W, b = lower.W, lower.b
        if W == 1:
            with b.if_then(lower.get(keep, "bool")):
                lower.store(view, [at], value)
            return Value("int", UNIFORM, lower.get(keep, "int"))  # a team of one lane
        x, mask = lower.get(value, view.dtype, VARYING), lower.get(keep, "bool", VARYING)
        bits, wide = ir.IntType(W), ir.IntType(2 * W)
        count = b.zext(lower.intrinsic("ctpop", [b.bitcast(mask, bits)]), wide)
        front = b.trunc(b.sub(b.shl(ir.Constant(wide, 1), count), ir.Constant(wide, 1)), bits)
        packed = self._compressed(lower, x, mask)
        outer, lower.mask = lower.mask, b.bitcast(front, mask.type)
        lower.store(view, [lower.binary("+", at, self.rank(lower))], Value(view.dtype, VARYING, packed))
        lower.mask = outer
        return Value("int", UNIFORM, b.zext(count, I64))

    @staticmethod
    def _compressed(lower, x, mask):
        """The lanes of the mask, moved to the front. Packs wider than 512 bits go in two halves of each
        number: LLVM's code for them is wrong."""
        b, W = lower.b, lower.W

        def moved(v):
            return lower.intrinsic(
                "experimental.vector.compress", [v, mask, ir.Constant(v.type, ir.Undefined)]
            )

        if W <= 8 or x.type.element not in (I64, F64):
            return moved(x)
        narrow, wide = ir.VectorType(I32, W), ir.VectorType(I64, W)
        half = lower.full(I64, 32)
        bits = b.bitcast(x, wide)
        low, high = (b.zext(moved(b.trunc(v, narrow)), wide) for v in (bits, b.lshr(bits, half)))
        return b.bitcast(b.or_(low, b.shl(high, half)), x.type)

    def before(self, lower, own, neutral, combine):
        return lane_prefixes(lower, own, neutral, combine)[1]

    def thread_range(self, lower, loop, lo, hi):
        """Whole packs of the range first, then the rest under a mask; member r takes lo + r, lo + r + W,
        ..."""
        W = lower.W
        lo, hi = lower.get(lo, "int"), lower.get(hi, "int")
        aligned = isinstance(lo, ir.Constant) and lo.constant % W == 0
        # one loop for all packs: members that have left it stay out of the last one too
        if W == 1 or loop.breaks:
            self._loop(lower, loop, lo, Value("int", UNIFORM, hi), aligned)
            return
        full_end = _whole_packs(lower, lo, hi)
        if _may_lie_between(lo, full_end):
            self._loop(lower, loop, lo, Value("int", UNIFORM, full_end), aligned)
            if loop.returns:
                lower.rejoin(loop.call, loop.body.parent)
        if _may_lie_between(full_end, hi):
            self._rest(lower, loop, full_end, hi, aligned)

    def _rest(self, lower, loop, lo, hi, aligned):
        """The members lo..hi of a last pack."""
        b = lower.b
        rest, after = b.append_basic_block("rest"), b.append_basic_block("after")
        b.cbranch(b.icmp_signed("<", lo, hi), rest, after)
        b.position_at_end(rest)
        member = Value("int", LINEAR, lo, step=1, aligned=aligned)
        mask = lower.mask_and(lower.mask, lower.compare("<", member, Value("int", UNIFORM, hi)))
        with lower.under(mask=mask, alive=lower.mask is None, tail=True):
            if loop.exits or loop.returns:
                lower.trips(loop, [(loop.body, member)])
            else:
                lower.values[loop.counter] = member
                lower.block(loop.body)
        b.branch(after)
        b.position_at_end(after)

    def _loop(self, lower, loop, lo, hi, aligned=False):
        counter = lower.slot(I64)
        lower.b.store(lo, counter)

        def here():
            return lower.b.load(counter, typ=I64)

        def member():
            return (
                Value("int", LINEAR, here(), step=1, aligned=aligned)
                if lower.W > 1
                else Value("int", VARYING, here())
            )

        def more():
            """Whether a member is left; of whole packs, which nobody leaves early, the first member speaks
            for all."""
            return lower.compare("<", member() if loop.breaks else Value("int", UNIFORM, here()), hi)

        lower.run_loop(
            loop,
            more,
            member,
            lambda: lower.b.store(lower.b.add(here(), I64(lower.W), flags=("nsw",)), counter),
            None if loop.breaks else (counter, hi, lower.W),
        )


def _whole_packs(lower, lo, hi):
    """Where the whole packs of the members lo..hi end."""
    W, b = lower.W, lower.b
    if isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant):
        return I64(lo.constant + max(0, hi.constant - lo.constant) // W * W)
    trips = b.sub(hi, lo, flags=("nsw",))
    whole = b.add(lo, b.and_(trips, I64(-W)), flags=("nsw",))
    return b.select(b.icmp_signed(">", trips, I64(0)), whole, lo)


def _may_lie_between(first, last):
    known = isinstance(first, ir.Constant) and isinstance(last, ir.Constant)
    return not known or first.constant < last.constant


def lane_prefixes(lower, state, neutral, combine):
    """What the states of the lanes up to each one combine to, and up to the one before it: doubling steps
    over the lanes."""
    lane = lower.lanes(I64(0))

    def from_lane(by, back, front):
        there = lower.compare(">=", lane, lower.const(by))
        return tuple(lower.select(there, b, f) for b, f in zip(back, front))

    inclusive = state
    for by in _doubling(lower):
        inclusive = from_lane(by, combine(_behind(lower, inclusive, by), inclusive), inclusive)
    if lower.W == 1:
        return inclusive, neutral
    return inclusive, from_lane(1, _behind(lower, inclusive, 1), neutral)


def last_prefix(lower, state, combine):
    """The last lane's prefix, bit by bit; what the others get is of no use, which saves a choice a step."""
    for by in _doubling(lower):
        state = combine(_behind(lower, state, by), state)
    return state


def _doubling(lower):
    return [1 << k for k in range(lower.W.bit_length() - 1)]


def _behind(lower, state, by):
    """The state of the lane so many before; the first lanes get the last ones'."""
    return tuple(
        lower.rotated(Value(v.dtype, VARYING, lower.get(v, None, VARYING)), lower.W - by) for v in state
    )


def combine_lanes(lower, packs, reducer, combine):
    """States of all lanes combined by a fixed tree; uniform Values."""
    by = lower.W
    while True:
        packs = tuple(Value(v.dtype, VARYING, lower.get(v, None, VARYING)) for v in packs)
        by //= 2
        if not by:
            return tuple(Value(v.dtype, UNIFORM, lower.lane(v.ir, 0) if lower.W > 1 else v.ir) for v in packs)
        packs = combine(lower, reducer, packs, tuple(lower.rotated(v, by) for v in packs))
