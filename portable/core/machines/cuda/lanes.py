"""What a lane and a team are on CUDA: a lane is a thread, a team is a block."""

from __future__ import annotations

from llvmlite import ir

from ...language import types as t
from ...compiler.writing.scanned import words_of
from ...compiler.writing.members import Members
from ...compiler.reading.team import combine_states
from ...language.types import UNIFORM, VARYING
from ...compiler.writing.values import F32, I8, I32, I64, PTR, Value

WARP, RANGE_THREADS = 32, 256
_VOID = ir.VoidType()
_ALL = I32(-1)


def thread(lower):
    return lower.b.sext(lower.call("llvm.nvvm.read.ptx.sreg.tid.x", [], I32), I64)


def block(lower, axis="x"):
    return lower.b.sext(lower.call(f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}", [], I32), I64)


def grid(lower, axis="x"):
    return lower.b.sext(lower.call(f"llvm.nvvm.read.ptx.sreg.nctaid.{axis}", [], I32), I64)


def barrier(lower):
    lower.call("llvm.nvvm.barrier.cta.sync.aligned.all", [I32(0)], _VOID)


def barrier_of_warp(lower):
    lower.call("llvm.nvvm.bar.warp.sync", [_ALL], _VOID)


def shared_words(lower, n_words, name):
    """A fresh array of 8-byte words in the block's shared memory, as a generic pointer."""
    array = ir.GlobalVariable(
        lower.b.module, ir.ArrayType(I64, n_words), lower.b.module.get_unique_name(name), addrspace=3
    )
    array.initializer = ir.Constant(array.value_type, ir.Undefined)
    array.linkage, array.align = "internal", 8
    return lower.b.addrspacecast(array, PTR)


def dynamic_shared(module):
    """The block's shared memory whose size a launch gives."""
    array = ir.GlobalVariable(module, ir.ArrayType(I8, 0), "scratch", addrspace=3)
    array.linkage, array.align = "external", 64
    return array


class CudaTarget:
    """CUDA's part of lowering. A pack's indices lie a block apart, so that threads at neighbouring places
    read neighbours."""

    step, straight = RANGE_THREADS, True
    look, strip = staticmethod(lambda lower: None), 0  # Ctrl-C waits for the launches in flight
    leave = None  # others of the block would wait at a barrier

    @staticmethod
    def product(b, x, y, flags):
        """A product whose factors are seen to have 32 bits is one instruction, which LLVM does not find
        behind masks of 64."""
        halves, wide = (
            [_half(b, v) for v in (x, y)],
            ir.InlineAsm(ir.FunctionType(I64, [I32, I32]), "mul.wide.u32 $0, $1, $2;", "=l,r,r"),
        )
        return b.mul(x, y, flags=flags) if None in halves else b.call(wide, halves, attrs=("readnone",))

    @staticmethod
    def foreign(lower, callee, values):
        """A call of a function that numba compiles."""
        return callee.emit_on_device(lower, values)

    @staticmethod
    def linked(text, links):
        """An IR text with functions as PTX, which LLVM hands on as it is and puts in front."""
        lines = [line for own in links.values() for line in own.splitlines() if line.strip()]
        escaped = [line.replace("\\", "\\5C").replace('"', "\\22") for line in lines]
        return text + "".join(f'\nmodule asm "{line}"' for line in escaped)

    @staticmethod
    def fast_math(lower, name, values):
        """The device's own float32 forms, two units in the last place; None where there is none."""
        v = values[0]
        if lower.strong(v.dtype) != "float32" or name not in ("exp", "exp2", "log", "log2"):
            return None
        lower.diverges()  # these are instructions on one number
        if lower.W > 1:
            return None
        x = lower.get(v, None, v.kind)
        scale = F32(1.4426950408889634 if name == "exp" else 0.6931471805599453)
        device = "llvm.nvvm.ex2.approx.ftz.f" if name.startswith("exp") else "llvm.nvvm.lg2.approx.ftz.f"
        x = lower.call(device, [lower.b.fmul(x, scale) if name == "exp" else x], F32)
        return Value(v.dtype, v.kind, lower.b.fmul(x, scale) if name == "log" else x)


def _half(b, x):
    """The lower half of a number of 64 bits whose upper half is masked away, or None."""
    if isinstance(x, ir.Constant):
        return I32(x.constant) if x.type == I64 and 0 <= x.constant < 1 << 32 else None
    mask = x.operands[1] if getattr(x, "opname", "") == "and" else None
    return (
        b.trunc(x, I32)
        if isinstance(mask, ir.Constant) and mask.type == I64 and mask.constant == (1 << 32) - 1
        else None
    )


class CudaTeam(Members):
    """A block of `n` threads, n a multiple of a warp and known at compile time."""

    registers = 128  # 255 of 32 bits

    def __init__(self, league_rank, league_size, n, scratch):
        super().__init__(league_rank, league_size)
        self.n, self.buffer = n, scratch

    def rank(self, lower):
        # the mask says which bits a rank may have, by which LLVM finds what neighbouring indices have in
        # common
        return Value(
            "int",
            VARYING,
            lower.b.and_(thread(lower), I64((1 << (self.n - 1).bit_length()) - 1)),
        )

    def barrier(self, lower):
        barrier(lower) if self.n > WARP else barrier_of_warp(lower)

    def scratch_base(self, lower):
        return self.buffer

    def thread_range(self, lower, loop, lo, hi):
        start = lower.binary("+", lo, self.rank(lower))
        lower.counted_loop(loop, Value("int", VARYING, lower.get(start, "int")), hi, self.n)

    def combine(self, lower, state, reducer, again):
        """`again`: whether it may run again, and so must not touch its words before all have read them."""
        state = tuple(Value(v.dtype, VARYING, lower.get(v)) for v in state)
        return combine_block(lower, state, reducer, combine_states, self.n, again)

    def pick(self, lower, value, rank):
        if value.kind == UNIFORM:
            return value
        if self.n == WARP and rank.const is not None:
            return Value(value.dtype, UNIFORM, _shuffled(lower, value, "idx", rank.const, WARP - 1).ir)
        place = shared_words(lower, 1, "picked")
        here = lower.b.icmp_signed("==", thread(lower), lower.get(rank, "int"))
        with lower.b.if_then(here):
            lower.b.store(lower.get(value), place)
        barrier(lower)
        x = lower.b.load(place, typ=lower.scalar(value.dtype))
        barrier(lower)
        return Value(value.dtype, UNIFORM, x)

    def append(self, lower, view, at, value, keep):
        """Each member that keeps stores behind those before it; returns how many keep."""
        kept = lower.get(keep, "bool")
        if self.n == WARP:
            votes = lower.call("llvm.nvvm.vote.ballot.sync", [_ALL, kept], I32)
            lower_ranks = lower.b.sub(lower.b.shl(I32(1), lower.b.trunc(thread(lower), I32)), I32(1))
            before, total = (
                Value("int", VARYING, lower.b.zext(lower.intrinsic("ctpop", [v]), I64))
                for v in (lower.b.and_(votes, lower_ranks), votes)
            )
        else:
            own = Value("int64", VARYING, lower.b.zext(kept, I64))
            (before,), (total,) = scan_block(
                lower,
                (own,),
                (lower.cast(lower.const(0), "int64"),),
                lambda a, b: (lower.binary("+", *a, *b),),
                self.n,
            )
        with lower.b.if_then(kept):
            lower.store(view, [lower.binary("+", at, before)], value)
        return Value("int", UNIFORM, total.ir)

    def tally(self, lower, view, index, n):
        """The first of a warp's members with the same index adds them all; each counts those before it.

        The first member's addition has returned before the shuffle that hands its result on, and so before
        the warp's next tally.
        """
        b, peers = lower.b, _peers(lower, lower.get(index, "int"), n)
        lower_ranks = lower.call("llvm.nvvm.read.ptx.sreg.lanemask.lt", [], I32)
        before, total = (
            lower.cast(Value("uint32", VARYING, lower.intrinsic("ctpop", [v])), view.dtype)
            for v in (b.and_(peers, lower_ranks), peers)
        )
        result = lower.slot(lower.scalar(view.dtype))
        with b.if_then(lower.get(lower.compare("==", before, lower.const(0)))):
            b.store(lower.get(lower.atomic("add", view, [index], total)), result)
        old = Value(view.dtype, VARYING, b.load(result, typ=lower.scalar(view.dtype)))
        first = lower.intrinsic("cttz", [peers, ir.Constant(ir.IntType(1), 1)])
        return lower.binary("+", _shuffled(lower, old, "idx", first, WARP - 1), before)

    def before(self, lower, own, neutral, combine):
        return scan_block(lower, own, neutral, combine, self.n)[0]


def _peers(lower, number, n):
    """A bit for each member of the warp that has the same number, below n: votes of its bits say who."""
    b, number, peers = lower.b, lower.b.trunc(number, I32), _ALL
    for k in range((n - 1).bit_length()):
        bit = b.icmp_signed("!=", b.and_(number, I32(1 << k)), I32(0))
        votes = lower.call("llvm.nvvm.vote.ballot.sync", [_ALL, bit], I32)
        peers = b.and_(peers, b.select(bit, votes, b.not_(votes)))
    return peers


def scan_block(lower, own, neutral, combine, n):
    """Exclusive prefixes of one state a thread in rank order, and the total: by shuffles in each warp, then
    over the warps."""
    rank = Value("int32", VARYING, lower.b.trunc(thread(lower), I32))  # half the instructions of 64 bits
    end = lower.const(WARP - 1)
    lane = lower.binary("&", rank, end)
    inclusive, exclusive = _scan_warp(lower, lane, own, neutral, combine)
    n_warps = n // WARP
    if n_warps == 1:
        return exclusive, _moved(lower, inclusive, "idx", WARP - 1, WARP - 1)
    place = shared_words(lower, n_warps * len(own), "scanned")
    warp = lower.b.ashr(rank.ir, I32(5))
    with lower.b.if_then(lower.get(lower.compare("==", lane, end))):
        _keep(lower, place, warp, inclusive)
    barrier(lower)
    before = total = neutral
    for k in range(n_warps):
        part = _kept(lower, place, k, own, UNIFORM)
        here = Value("bool", VARYING, lower.b.icmp_signed("==", warp, I32(k)))
        before = _chosen(lower, here, total, before)
        total = combine(total, part)
    barrier(lower)
    return combine(before, exclusive), total


def _scan_warp(lower, lane, own, neutral, combine):
    """Prefixes of one state a lane, with its own and without: by shuffles of doubling length."""
    running = own
    for by in (1, 2, 4, 8, 16):
        behind = _moved(lower, running, "up", by, 0)
        there = lower.compare(">=", lane, lower.const(by))
        running = _chosen(lower, there, combine(behind, running), running)
    first = lower.compare("==", lane, lower.const(0))
    return running, _chosen(lower, first, neutral, _moved(lower, running, "up", 1, 0))


def fold_warp(lower, own, combine):
    """The states of a warp's lanes combined in their order; what the first lane gets."""
    for by in (1, 2, 4, 8, 16):
        own = combine(own, _moved(lower, own, "down", by, WARP - 1))
    return own


def fold_block(lower, own, combine, n):
    """The states of a block's warps, each its threads' combined in their order; a function that reads them,
    for one thread to combine."""
    folded, place = fold_warp(lower, own, combine), shared_words(lower, n // WARP * len(own), "folded")
    rank = thread(lower)
    first = lower.b.icmp_signed("==", lower.b.and_(rank, I64(WARP - 1)), I64(0))
    with lower.b.if_then(first):
        _keep(lower, place, lower.b.ashr(rank, I64(5)), folded)
    barrier(lower)
    return lambda: [_kept(lower, place, k, own, VARYING) for k in range(n // WARP)]


def _chosen(lower, condition, state, other):
    return tuple(lower.select(condition, v, w) for v, w in zip(state, other))


def _moved(lower, state, how, by, clamp):
    """The state of another lane of the warp."""
    return tuple(_shuffled(lower, v, how, by, clamp) for v in state)


def _keep(lower, place, warp, state):
    """Leave a warp's state in shared memory."""
    for v, word in zip(state, words_of(lower, place, warp, len(state))):
        lower.b.store(lower.get(v), word)


def _kept(lower, place, number, state, kind):
    """What a warp has left, shaped like `state`."""
    words = words_of(lower, place, I64(number), len(state))
    return tuple(
        Value(v.dtype, kind, lower.b.load(word, typ=lower.scalar(v.dtype))) for v, word in zip(state, words)
    )


def combine_block(lower, state, reducer, combine, n, again=True):
    """Every thread's state combined over a block of n threads, the same bits in all of them; uniform Values.

    A butterfly of shuffles in each warp, then the warps' states through shared memory, read by all in one
    order.
    """
    for by in (16, 8, 4, 2, 1):
        other = _moved(lower, state, "bfly", by, WARP - 1)
        state = tuple(
            Value(v.dtype, VARYING, lower.get(r, v.dtype))
            for v, r in zip(state, combine(lower, reducer, state, other))
        )
    if n > WARP:
        state = _over_warps(lower, state, reducer, combine, n // WARP, again)
    return tuple(Value(v.dtype, UNIFORM, v.ir) for v in state)


def _over_warps(lower, state, reducer, combine, n_warps, again):
    place = shared_words(lower, n_warps * len(state), "combined")
    here = thread(lower)
    first = lower.b.icmp_signed("==", lower.b.and_(here, I64(WARP - 1)), I64(0))
    with lower.b.if_then(first):
        _keep(lower, place, lower.b.ashr(here, I64(5)), state)
    barrier(lower)
    total = None
    for w in range(n_warps):
        part = _kept(lower, place, w, state, VARYING)
        total = part if total is None else combine(lower, reducer, total, part)
    if again:
        barrier(lower)
    return tuple(Value(v.dtype, VARYING, lower.get(r, v.dtype)) for v, r in zip(state, total))


def _shuffled(lower, v, how, by, clamp):
    """The value of another lane of the warp."""
    b, x = lower.b, lower.get(v)
    bits = t.BITS[lower.strong(v.dtype)]
    by = I32(by) if isinstance(by, int) else by

    def move(word):
        return lower.call(f"llvm.nvvm.shfl.sync.{how}.i32", [_ALL, word, by, I32(clamp)], I32)

    if bits == 1:
        return Value(v.dtype, VARYING, b.icmp_signed("!=", move(b.zext(x, I32)), I32(0)))
    if bits == 32:
        return Value(v.dtype, VARYING, b.bitcast(move(b.bitcast(x, I32)), x.type))
    pair = b.bitcast(x, ir.VectorType(I32, 2))
    for k in range(2):
        pair = b.insert_element(
            pair,
            move(b.extract_element(b.bitcast(x, ir.VectorType(I32, 2)), I32(k))),
            I32(k),
        )
    return Value(v.dtype, VARYING, b.bitcast(pair, x.type))
