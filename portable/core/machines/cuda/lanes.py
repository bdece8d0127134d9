"""Define lanes and teams on CUDA: a lane is a thread, a team is a block."""

import functools
import math

from llvmlite import ir

from ...compiler.writing.metadata import add_metadata
from ...compiler.writing.scan_states import words_of
from ...compiler.writing.loops import counted_loop
from ...compiler.writing.members import Members
from ...language.types import BITS, UNIFORM, VARYING
from ...compiler.writing.lines import builder
from ...compiler.writing.values import F32, F64, I8, I32, I64, PTR, Value

WARP, RANGE_THREADS = 32, 256
_VOID = ir.VoidType()
_ALL = I32(-1)
_SHORT_LOOP = 80  # instructions of a loop that is unrolled four times


def _register(name):
    return builder.call_named(f"llvm.nvvm.read.ptx.sreg.{name}", [], I32)


def thread():
    return builder.sext(_register("tid.x"), I64)


def block(axis="x"):
    return builder.sext(_register(f"ctaid.{axis}"), I64)


def grid(axis="x"):
    return builder.sext(_register(f"nctaid.{axis}"), I64)


def warp():
    """Return the number of a thread's warp in its block, broadcast by the warp's first thread: NVIDIA's
    assembler then treats it as uniform, and keeps values derived from it in uniform registers.
    """
    number = builder.lshr(_register("tid.x"), WARP.bit_length() - 1)
    said = builder.call_named("llvm.nvvm.shfl.sync.idx.i32", [_ALL, number, I32(0), I32(WARP - 1)], I32)
    return builder.zext(said, I64)


def barrier():
    builder.call_named("llvm.nvvm.barrier.cta.sync.aligned.all", [I32(0)], _VOID)


def barrier_of_warp():
    builder.call_named("llvm.nvvm.bar.warp.sync", [_ALL], _VOID)


def shared_words(n_words, name):
    """Return a fresh array of 8-byte words in the block's shared memory, as a generic pointer."""
    array = ir.GlobalVariable(
        builder.module, ir.ArrayType(I64, n_words), builder.module.get_unique_name(name), addrspace=3
    )
    array.initializer = ir.Constant(array.value_type, ir.Undefined)
    array.linkage, array.align = "internal", 8
    return builder.addrspacecast(array, PTR)


def dynamic_shared(module):
    """Return the block's shared memory whose size is given at launch: not as a generic pointer, through which
    LLVM would lose the alignment.
    """
    array = ir.GlobalVariable(module, ir.ArrayType(I8, 0), "scratch", addrspace=3)
    array.linkage, array.align, array.type = "external", 64, ir.PointerType(addrspace=3)
    return array


def unrolling(times):
    """Return the metadata of a loop's last branch that says how many of its iterations LLVM and the driver
    put into one: 1 for a loop that both leave as it is.
    """
    loop = add_metadata(builder.module, f'distinct !{{!self, !{{!"llvm.loop.unroll.count", i32 {times}}}}}')
    return f", !llvm.loop {loop}"


def _together(line):
    """Return True for a loop's last instruction, or one that threads execute together."""
    text = getattr(line, "text", "")
    return " !llvm.loop " in text or ".sync" in text or "convergent" in getattr(line, "attributes", ())


class CudaTarget:
    """CUDA's part of lowering. A pack's indices lie a block apart, so that threads at neighbouring places
    read neighbours."""

    step, straight, crowded = RANGE_THREADS, True, False
    shortest = 21  # instructions of a loop that is left to LLVM and the driver: at 22 to 25, four are faster
    poll_flag, strip = staticmethod(lambda ops: None), 0  # Ctrl-C waits for the launches in flight
    leave = None  # others of the block would wait at a barrier
    whole_mask = staticmethod(lambda ops: ops.mask_value(None))

    @classmethod
    def unrolled(cls, blocks):
        """Return the metadata of a loop's last branch: LLVM unrolls a short loop, so that several iterations'
        loads are in flight together. Iterations of a longer one have enough loads, and unrolling it four
        times would take registers from other warps. The shortest are left to the rules of LLVM and of the
        driver, which unroll them up to sixteen times. Where arithmetic decides, with more than three float
        results for each load, eight iterations share the loop's own instructions.
        """
        lines = [line for block in blocks for line in block.instructions]
        if not cls.shortest < len(lines) <= _SHORT_LOOP or any(map(_together, lines)):
            return ""
        n_loads = sum(getattr(line, "opname", "") == "load" for line in lines)
        n_floats = sum(getattr(line, "type", None) in (F32, F64) for line in lines)
        return unrolling(8 if n_floats > 3 * n_loads else 4)

    @staticmethod
    def product(x, y, flags):
        """Return a product: one instruction if both factors have at most 32 bits, which LLVM does not
        recognise behind masks of 64.
        """
        halves, wide = (
            [_half(v) for v in (x, y)],
            ir.InlineAsm(ir.FunctionType(I64, [I32, I32]), "mul.wide.u32 $0, $1, $2;", "=l,r,r"),
        )
        if None in halves:
            return builder.mul(x, y, flags=flags)
        return builder.call(wide, halves, attrs=("readnone",))

    @staticmethod
    def native(ops, name, v, fast):
        """Return the device's float32 form of a function, if `fast`: accurate to two units in the last place.
        None if there is none. Of a float64 that is not below the normal numbers: the name of a root's source
        with the same bits, and its approximation.
        """
        x = ops.get(v, None, v.kind)
        if x.type == F64 and _least(x) >= 2.0**-1022:
            match name:
                case "rsqrt":
                    return "normal_rsqrt"
                case "near_rsqrt":
                    return builder.call_named("llvm.nvvm.rsqrt.approx.ftz.d", [x], F64)
        if not fast or ops.strong(v.dtype) != "float32":
            return None
        if name in ("rsqrt", "near_rsqrt"):
            return _roots(ops, x)
        if name not in ("exp", "exp2", "log", "log2"):
            return None
        ops.diverges()  # these are instructions on one number
        if ops.W > 1:
            return None
        scale = F32(1.4426950408889634 if name == "exp" else 0.6931471805599453)
        device = "llvm.nvvm.ex2.approx.ftz.f" if name.startswith("exp") else "llvm.nvvm.lg2.approx.ftz.f"
        x = builder.call_named(device, [builder.fmul(x, scale) if name == "exp" else x], F32)
        return builder.fmul(x, scale) if name == "log" else x


def _roots(ops, x):
    """Return 1 / sqrt(x) of a number or of each of a pack, to 2^-22.9."""
    if x.type == F32:  # .ftz takes subnormal numbers for zero; the other form scales them
        return builder.call_named(f"llvm.nvvm.rsqrt.approx{'.ftz' * (_least(x) >= 2.0**-126)}.f", [x], F32)
    roots = x
    for k in range(ops.W):
        roots = builder.insert_element(roots, _roots(ops, ops.lane(x, k)), I32(k))
    return roots


def _least(x):
    """Return a number that constants, squares and sums of these are not below; for others minus infinity."""
    match getattr(x, "opname", ""), *getattr(x, "operands", ()):
        case "fadd", a, b:
            return _least(a) + _least(b)
        case "fmul", a, b if a is b:
            return 0.0
        case "call", function, a, b, c if a is b and function.name.startswith("llvm.fma"):
            return _least(c)
    return getattr(x, "constant", -math.inf)


class TeamTarget(CudaTarget):
    """CUDA's part of lowering for teams, without assumptions about a launch: these need registers, which
    decide how many teams share a multiprocessor."""

    crowded, shortest = True, 40


class CrowdedTarget(CudaTarget):
    """CUDA's part of lowering for kernels that request several teams per multiprocessor: no loop is
    unrolled on purpose."""

    crowded, shortest = True, _SHORT_LOOP


class BoxTarget(CudaTarget):
    """A pack's indices lie a warp apart along a box's last dimension, where a block's rows are short."""

    step = WARP


def _half(x):
    """Return the lower half of a 64-bit number whose upper half is masked to zero; None for other numbers."""
    if isinstance(x, ir.Constant):
        return I32(x.constant) if x.type == I64 and 0 <= x.constant < 1 << 32 else None
    mask = x.operands[1] if getattr(x, "opname", "") == "and" else None
    return (
        builder.trunc(x, I32)
        if isinstance(mask, ir.Constant) and mask.type == I64 and mask.constant == (1 << 32) - 1
        else None
    )


class CudaTeam(Members):
    """A block of `n` threads, n a multiple of a warp and known at compile time."""

    registers = 128  # 255 of 32 bits

    def __init__(self, league_rank, league_size, n, scratch):
        super().__init__(league_rank, league_size, scratch)
        self.n = n

    def rank(self, ops):
        # the mask states the possible bits of a rank, from which LLVM derives the common part of neighbouring
        # indices
        return Value("int", VARYING, thread() & ((1 << (self.n - 1).bit_length()) - 1))

    def barrier(self, ops):
        barrier() if self.n > WARP else barrier_of_warp()

    def thread_range(self, here, loop, lo, hi):
        ops = here.ops
        start = ops.binary("+", lo, self.rank(ops))
        return counted_loop(here, loop, Value("int", VARYING, ops.get(start, "int")), hi, self.n)

    @staticmethod
    def mma(ops, *values):
        """Return a step of the tensor cores, 16 x 8 x 4: c (4 numbers of a thread), a (2) and b (1)."""
        four = ir.LiteralStructType([F64] * 4)
        asm = "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {$0,$1,$2,$3}, {$8,$9}, {$10}, {$4,$5,$6,$7};"
        step = ir.InlineAsm(ir.FunctionType(four, [F64] * 7), asm, "=d,=d,=d,=d,d,d,d,d,d,d,d")
        result = builder.call(step, [ops.get(v, "float64") for v in values], attrs=("convergent", "readnone"))
        return [Value("float64", VARYING, builder.extract_value(result, k)) for k in range(4)]

    def combine(self, ops, state, combine, again):
        """Combine the states of a block; `again`: True if this may run again, in which case its shared words
        must not be overwritten before all threads have read them.
        """
        state = ops.spread(state)
        return combine_block(ops, state, combine, self.n, again)

    def pick(self, ops, value, rank):
        if value.kind == UNIFORM:
            return value
        if self.n == WARP:
            return Value(
                value.dtype, UNIFORM, _shuffled(ops, value, "idx", ops.get(rank, "int32"), WARP - 1).ir
            )
        place = shared_words(1, "picked")
        here = thread().equals(ops.get(rank, "int"))
        with builder.if_then(here):
            builder.store(ops.get(value), place)
        barrier()
        x = builder.load(place, ops.scalar(value.dtype))
        barrier()
        return Value(value.dtype, UNIFORM, x)

    def append(self, here, view, at, value, keep):
        """Store the values of the selected members, after those of lower ranks; return the number of these
        members.
        """
        ops = here.ops
        kept = ops.get(keep, "bool")
        if self.n == WARP:
            votes = builder.call_named("llvm.nvvm.vote.ballot.sync", [_ALL, kept], I32)
            lower_ranks = _register("lanemask.lt")
            before, total = (
                Value("int", VARYING, builder.zext(ops.intrinsic("ctpop", [v]), I64))
                for v in (votes & lower_ranks, votes)
            )
        else:
            own = Value("int64", VARYING, builder.zext(kept, I64))
            (before,), (total,) = scan_block(
                ops,
                (own,),
                (ops.cast(ops.const(0), "int64"),),
                lambda a, b: (ops.binary("+", *a, *b),),
                self.n,
            )
        with builder.if_then(kept):
            here.memory.store(here, view, [ops.binary("+", at, before)], value)
        return Value("int", UNIFORM, total.ir)

    def tally(self, here, view, index, n):
        """Count members of a warp by index: the first of those with the same index adds them all, each
        counts those before it.

        The first member's addition has returned before the shuffle that passes its result on, and so before
        the warp's next tally.
        """
        ops = here.ops
        peers = _peers(ops.get(index, "int"), n)
        lower_ranks = _register("lanemask.lt")
        before, total = (
            ops.cast(Value("uint32", VARYING, ops.intrinsic("ctpop", [v])), view.dtype)
            for v in (peers & lower_ranks, peers)
        )
        result = ops.slot(ops.scalar(view.dtype))
        with builder.if_then(ops.get(ops.compare("==", before, ops.const(0)))):
            builder.store(ops.get(here.memory.atomic(here, "add", view, [index], total)), result)
        old = Value(view.dtype, VARYING, builder.load(result, ops.scalar(view.dtype)))
        first = ops.intrinsic("cttz", [peers, ir.Constant(ir.IntType(1), 1)])
        return ops.binary("+", _shuffled(ops, old, "idx", first, WARP - 1), before)

    def scan_members(self, ops, own, neutral, combine):
        return scan_block(ops, own, neutral, combine, self.n)[0]


def _peers(number, n):
    """Return a mask of the members of the warp that have the same number, below n, by a vote on each of its
    bits."""
    number, peers = builder.trunc(number, I32), _ALL
    for k in range((n - 1).bit_length()):
        bit = (number & (1 << k)).differs(0)
        votes = builder.call_named("llvm.nvvm.vote.ballot.sync", [_ALL, bit], I32)
        peers = peers & builder.select(bit, votes, ~votes)
    return peers


def scan_block(ops, own, neutral, combine, n):
    """Exclusive prefixes of one state a thread in rank order, and the total: by shuffles in each warp, then
    over the warps."""
    rank = Value("int32", VARYING, builder.trunc(thread(), I32))  # half the instructions of 64 bits
    end = ops.const(WARP - 1)
    lane = ops.binary("&", rank, end)
    inclusive, exclusive = _scan_warp(ops, lane, own, neutral, combine)
    n_warps = n // WARP
    if n_warps == 1:
        return exclusive, _moved(ops, inclusive, "idx", WARP - 1, WARP - 1)
    place = shared_words(n_warps * len(own), "scanned")
    warp = rank.ir >> 5
    with builder.if_then(ops.get(ops.compare("==", lane, end))):
        _keep(ops, place, warp, inclusive)
    barrier()
    before = total = neutral
    for k in range(n_warps):
        part = _stored_state(ops, place, k, own, UNIFORM)
        here = Value("bool", VARYING, warp.equals(k))
        before = _chosen(ops, here, total, before)
        total = combine(total, part)
    barrier()
    return combine(before, exclusive), total


def _scan_warp(ops, lane, own, neutral, combine):
    """Return prefixes of one state a lane, with its own and without: by shuffles of doubling length."""
    running = own
    for by in (1, 2, 4, 8, 16):
        behind = _moved(ops, running, "up", by, 0)
        there = ops.compare(">=", lane, ops.const(by))
        running = _chosen(ops, there, combine(behind, running), running)
    first = ops.compare("==", lane, ops.const(0))
    return running, _chosen(ops, first, neutral, _moved(ops, running, "up", 1, 0))


def fold_warp(ops, own, combine):
    """Combine the states of a warp's lanes in their order; the first lane's result is the warp's."""
    for by in (1, 2, 4, 8, 16):
        own = combine(own, _moved(ops, own, "down", by, WARP - 1))
    return own


def fold_block(ops, own, combine, n):
    """Return the states of a block's warps, each its threads' combined in their order: read when they are
    taken, for one thread to combine."""
    return _each_warps(ops, fold_warp(ops, own, combine), n // WARP, "folded")


def _each_warps(ops, state, n_warps, name):
    """Leave the state of each warp's first thread in shared memory; they are read when they are taken."""
    place, rank = shared_words(n_warps * len(state), name), thread()
    first = (rank & (WARP - 1)).equals(0)
    with builder.if_then(first):
        _keep(ops, place, rank >> 5, state)
    barrier()
    return (_stored_state(ops, place, k, state, VARYING) for k in range(n_warps))


def _chosen(ops, condition, state, other):
    return tuple(ops.select(condition, v, w) for v, w in zip(state, other))


def _moved(ops, state, how, by, clamp):
    """Return the state of another lane of the warp."""
    return tuple(_shuffled(ops, v, how, by, clamp) for v in state)


def _keep(ops, place, warp, state):
    """Leave a warp's state in shared memory."""
    for v, word in zip(state, words_of(place, warp, len(state))):
        builder.store(ops.get(v), word)


def _stored_state(ops, place, number, state, kind):
    """Return a warp's stored state, shaped like `state`."""
    words = words_of(place, I64(number), len(state))
    return tuple(
        Value(v.dtype, kind, builder.load(word, ops.scalar(v.dtype))) for v, word in zip(state, words)
    )


def combine_block(ops, state, combine, n, again=True):
    """Return every thread's state combined over a block of n threads, the same bits in all of them;
    uniform Values.

    A butterfly of shuffles in each warp, then the warps' states through shared memory, read by all in one
    order.
    """
    for by in (16, 8, 4, 2, 1):
        other = _moved(ops, state, "bfly", by, WARP - 1)
        state = tuple(
            Value(v.dtype, VARYING, ops.get(r, v.dtype)) for v, r in zip(state, combine(state, other))
        )
    if n > WARP:
        state = _over_warps(ops, state, combine, n // WARP, again)
    return tuple(Value(v.dtype, UNIFORM, v.ir) for v in state)


def _over_warps(ops, state, combine, n_warps, again):
    total = functools.reduce(combine, _each_warps(ops, state, n_warps, "combined"))
    if again:
        barrier()
    return tuple(Value(v.dtype, VARYING, ops.get(r, v.dtype)) for v, r in zip(state, total))


def _shuffled(ops, v, how, by, clamp):
    """Return the value of another lane of the warp."""
    x = ops.get(v)
    bits = BITS[ops.strong(v.dtype)]
    by = I32(by) if isinstance(by, int) else by

    def move(word):
        return builder.call_named(f"llvm.nvvm.shfl.sync.{how}.i32", [_ALL, word, by, I32(clamp)], I32)

    if bits == 1:
        return Value(v.dtype, VARYING, move(builder.zext(x, I32)).differs(0))
    if bits == 32:
        return Value(v.dtype, VARYING, builder.bitcast(move(builder.bitcast(x, I32)), x.type))
    pair = words = builder.bitcast(x, ir.VectorType(I32, 2))
    for k in range(2):
        pair = builder.insert_element(pair, move(builder.extract_element(words, I32(k))), I32(k))
    return Value(v.dtype, VARYING, builder.bitcast(pair, x.type))
