"""Define lanes and teams on the CPU: the lanes of one thread's pack are the members of its team."""

from llvmlite import ir

from ...compiler.writing.lines import Integer, builder, full
from ...compiler.writing.loops import run_loop, trips
from ...compiler.writing.members import Members
from ...language.types import LINEAR, UNIFORM, VARYING, loaded_dtype
from ...compiler.writing.values import F32, F64, I16, I32, I64, I8, Value
from . import engine, interrupt_polls
from .guard import guard

_HIDE = ir.InlineAsm(ir.FunctionType(I64, [I64]), "", "=r,0")


class CpuTarget:
    """The CPU's part of lowering."""

    step, straight, crowded, strip = 1, False, False, interrupt_polls.STRIP
    product, poll_flag, leave = map(
        staticmethod, (builder.mul, interrupt_polls.poll_flag, interrupt_polls.leave)
    )
    guard, unrolled = staticmethod(guard), staticmethod(lambda blocks: "")

    @staticmethod
    def branches(what, element):
        """Return True if LLVM makes one branch for each lane of a masked access: AVX2 has loads and stores
        of 32 and 64 bits, AVX-512 all loads and stores, and gathers and scatters of 32 and 64."""
        narrow, scattered = element in (I8, I16), what in ("gather", "scatter")
        return narrow + scattered > (engine.pack_registers() == 32)

    @staticmethod
    def whole_mask(ops):
        """Return the mask of all lanes for a gather or scatter. AVX-512's is hidden from LLVM, which would
        make known ones of mask register 0 and so wait for what the iteration before wrote to that.
        """
        if engine.pack_registers() < 32:
            return ops.mask_value(None)
        bits = builder.call(_HIDE, [I64(-1)], attrs=("readnone",))
        return builder.bitcast(builder.trunc(bits, ir.IntType(ops.W)), ops.mask_type)

    @staticmethod
    def native(ops, name, v, fast):
        """Return 1 / sqrt(x) of a pack of float32 by AVX-512's instruction (to 2^-14) and a Newton step: to
        2^-23.3.
        """
        packs = fast and v.kind == VARYING and ops.strong(v.dtype) == "float32" and ops.W == 16
        if name not in ("rsqrt", "near_rsqrt") or not packs or engine.pack_registers() != 32:
            return None
        zero, one, half = (full(F32, 16, number) for number in (0.0, 1.0, 0.5))
        y = builder.call_named("llvm.x86.avx512.rsqrt14.ps.512", [v.ir, zero, I16(-1)], v.ir.type)
        error = ops.intrinsic("fma", [builder.fneg(builder.fmul(v.ir, y)), y, one])
        finite = builder.fcmp_ordered("<", error, one)  # no number at zero and infinity
        error = builder.select(finite, error, one)
        return ops.intrinsic("fma", [builder.fmul(half, y), error, y])


class Unwatched(CpuTarget):
    """The CPU's part of lowering for code that counts: it ignores Ctrl-C, and keeps the caller's state of
    arithmetic."""

    poll_flag = guard = staticmethod(lambda *args: None)
    strip = 0


class CpuTeam(Members):
    """A team of W members that move together; barriers cost nothing."""

    def rank(self, ops):
        return ops.lanes(I64(0)) if ops.W > 1 else Value("int", VARYING, I64(0))

    def barrier(self, ops):
        pass

    def scratch(self, *args):
        view = super().scratch(*args)
        view.unshared = True  # a team is one thread: atomic operations among its lanes cost nothing
        return view

    def combine(self, ops, state, combine, again):
        return combine_lanes(ops, state, combine)

    def pick(self, ops, value, rank):
        if ops.W == 1 or value.kind == UNIFORM:
            return Value(value.dtype, UNIFORM, ops.get(value))
        x = builder.extract_element(ops.get(value, None, VARYING), ops.get(rank, "int"))
        return Value(value.dtype, UNIFORM, x)

    def append(self, here, view, at, value, keep):
        """Move the selected members to the front of the pack, which is stored under a mask; return their
        number.
        """
        ops = here.ops
        if ops.W == 1:
            with builder.if_then(ops.get(keep, "bool")):
                here.memory.store(here, view, [at], value)
            return Value("int", UNIFORM, ops.get(keep, "int"))  # a team of one lane
        mask = ops.get(keep, "bool", VARYING)
        bits, wide = Integer(ops.W), Integer(2 * ops.W)
        count = builder.zext(ops.intrinsic("ctpop", [builder.bitcast(mask, bits)]), wide)
        front = builder.trunc((wide(1) << count) - 1, bits)
        packed = self._compressed(ops, view.dtype, value, mask)
        there = here._replace(mask=builder.bitcast(front, mask.type))
        here.memory.store(there, view, [ops.binary("+", at, self.rank(ops))], packed)
        return Value("int", UNIFORM, builder.zext(count, I64))

    @staticmethod
    def _compressed(ops, dtype, value, mask):
        """Return the lanes of a number that the mask selects, moved to the front, for memory of some dtype:
        in 32 bits at least, since LLVM cannot generate code for packs of bytes. Packs wider than 512 bits are
        processed in two halves: LLVM's code for them is wrong.
        """
        W = ops.W
        wide = "int32" if dtype == "bool" else loaded_dtype(dtype)
        x = ops.get(Value(dtype, VARYING, ops.get(value, dtype, VARYING)), wide, VARYING)

        def moved(v):
            return ops.intrinsic("experimental.vector.compress", [v, mask, ir.Constant(v.type, ir.Undefined)])

        if W <= 8 or x.type.element not in (I64, F64):
            return Value(wide, VARYING, moved(x))
        narrow, whole = ir.VectorType(I32, W), ir.VectorType(I64, W)
        bits = builder.bitcast(x, whole)
        low, high = (
            builder.zext(moved(builder.trunc(v, narrow)), whole) for v in (bits, builder.lshr(bits, 32))
        )
        return Value(wide, VARYING, builder.bitcast(low | (high << 32), x.type))

    def scan_members(self, ops, own, neutral, combine):
        return lane_prefixes(ops, own, neutral, combine)[1]

    def thread_range(self, here, loop, lo, hi):
        """Emit whole packs of the range first, then the rest under a mask; member r takes lo + r, lo + r
        + W, ..."""
        ops = here.ops
        lo, hi = ops.get(lo, "int"), ops.get(hi, "int")
        aligned = isinstance(lo, ir.Constant) and lo.constant % ops.W == 0
        # one loop for all packs: members that have left it stay masked in the last one too
        if ops.W == 1 or loop.breaks:
            return self._loop(here, loop, lo, hi, aligned)
        full_end = _whole_packs(ops, lo, hi)
        if _may_lie_between(lo, full_end):
            here = self._loop(here, loop, lo, full_end, aligned)
            if loop.returns:
                here = here.rejoin(loop.call, loop.body.parent)
        if _may_lie_between(full_end, hi):
            self._rest(here, loop, full_end, hi, aligned)
        return here

    def _rest(self, here, loop, lo, hi, aligned):
        """Emit the members lo..hi of the last pack."""
        rest, after = builder.blocks("rest", "after")
        builder.go(rest, lo < hi, after)
        member = Value("int", LINEAR, lo, step=1, aligned=aligned)
        mask = here.ops.narrowed(here.mask, here.ops.compare("<", member, Value("int", UNIFORM, hi)))
        there = here._replace(mask=mask, alive=here.mask is None, tail=True)
        if loop.exits or loop.returns:
            trips(there, loop, [(loop.body, member)])
        else:
            there.scope.values[loop.counter] = member
            there.block(loop.body)
        builder.go(after)

    def _loop(self, here, loop, lo, hi, aligned):
        ops, hi = here.ops, Value("int", UNIFORM, hi)
        counter = ops.slot(I64)
        builder.store(lo, counter)

        def first():
            return builder.load(counter)

        def member():
            if ops.W == 1:
                return Value("int", VARYING, first())
            return Value("int", LINEAR, first(), step=1, aligned=aligned)

        def more(here):
            """Return the condition that a member is left; members of whole packs never leave early, so the
            first member represents all.
            """
            return ops.compare("<", member() if loop.breaks else Value("int", UNIFORM, first()), hi)

        def advance():
            builder.store(builder.add_nsw(first(), ops.W), counter)

        strips = None if loop.breaks else (counter, hi, ops.W)
        return run_loop(here, loop, more, member, advance, strips)


def _whole_packs(ops, lo, hi):
    """Return the end of the whole packs of the members lo..hi."""
    W = ops.W
    if isinstance(lo, ir.Constant) and isinstance(hi, ir.Constant):
        return I64(lo.constant + max(0, hi.constant - lo.constant) // W * W)
    return builder.add_nsw(lo, ops.larger(builder.sub_nsw(hi, lo), 0) & -W)


def _may_lie_between(first, last):
    known = isinstance(first, ir.Constant) and isinstance(last, ir.Constant)
    return not known or first.constant < last.constant


def lane_prefixes(ops, state, neutral, combine):
    """Return the prefixes of the lanes' states, inclusive and exclusive: doubling steps over the lanes."""
    lane = ops.lanes(I64(0))

    def from_lane(by, back, front):
        there = ops.compare(">=", lane, ops.const(by))
        return tuple(ops.select(there, b, f) for b, f in zip(back, front))

    inclusive = state
    for by in _doubling(ops):
        inclusive = from_lane(by, combine(_state_behind(ops, inclusive, by), inclusive), inclusive)
    if ops.W == 1:
        return inclusive, neutral
    return inclusive, from_lane(1, _state_behind(ops, inclusive, 1), neutral)


def last_prefix(ops, state, combine):
    """Compute only the last lane's prefix, in a logarithmic number of steps; the values of the other lanes
    are undefined, which saves a select in each step.
    """
    for by in _doubling(ops):
        state = combine(_state_behind(ops, state, by), state)
    return state


def _doubling(ops):
    return [1 << k for k in range(ops.W.bit_length() - 1)]


def _state_behind(ops, state, by):
    """Return the state of the lane `by` lanes before; the first lanes receive the last ones' states."""
    return tuple(ops.rotated(v, ops.W - by) for v in ops.spread(state))


def combine_lanes(ops, packs, combine):
    """Return states of all lanes combined by a fixed tree; uniform Values."""
    by = ops.W
    while True:
        packs = ops.spread(packs)
        by //= 2
        if not by:
            return tuple(Value(v.dtype, UNIFORM, ops.lane(v.ir, 0)) for v in packs)
        packs = combine(packs, tuple(ops.rotated(v, by) for v in packs))
