"""Entry functions on the CPU: a stretch of the policy's indices, pack by pack.

    void entry(block, begin, end, worker)      for: indices or teams begin..end; of the kind "packs" they
                                               fill packs
                                               reduce: blocks begin..end of the policy, a partial state each
    void finish(block, 0, n_blocks, worker)    reduce: partial states combined in order

The blocks of a reduction depend only on the policy, so that its bits do not depend on the number of threads.
"""

import functools

from llvmlite import ir

from ...compiler.writing.atomic import plain_sum
from ...compiler.writing.emitted import text_of
from ...compiler.writing.block import EXTRA
from ...compiler.writing.metadata import add_metadata
from ...language.types import UNIFORM
from ...compiler.writing.lines import builder
from ...compiler.writing.values import I64, I8, PTR, Value
from .engine import APART, STREAMS
from .lanes import CpuTarget, CpuTeam, combine_lanes
from .interrupt_polls import STRIP

_VOID = ir.VoidType()
ENTRY = ir.FunctionType(_VOID, [PTR, I64, I64, I64])
PAGE = 4096  # bytes: masked stores across two of them are slow, and a short list in scratch has many


def text(entry, launcher, target=CpuTarget, team=CpuTeam):
    """Return the LLVM IR of an entry for the cores of this machine, by a launcher."""

    def emit(code):
        launcher(code, team)
        code.watch.done(code)
        code.target.guard(code.module, ENTRY)

    return text_of(entry, target, emit)


def launcher(code, team):
    """Emit the launcher of a range, a box or a league; of a reduction block by block, and its end."""
    function = ir.Function(code.module, ENTRY, "entry")
    code.open(function)
    _, begin, end, worker = function.args
    _own_copies(code, worker)
    stretch = functools.partial(_league, team) if code.policy_kind == "team" else _range
    if code.policy_kind.startswith("box"):
        stretch = _rows
    if not code.reducers:
        stretch(code, begin, end, 1)
        builder.ret_void()
    else:
        totals = _blocks(code, begin, end, stretch)
        builder.ret_void()
        _finish(code, totals)
    for k in range(len(code.scatters)):
        _merge(code, k)


# ---- copies of views that are only added to: worker 0 has the view itself, each other one a copy
def _copies(code, k):
    """Return (the number of copies, their address) for one of these views: the last words of the block."""
    first = code.signature.n_words + len(EXTRA) + code.entry.fault_bytes // 8
    return builder.load(code.word(code.block, first), I64), builder.load(
        code.word(code.block, first + 1 + k), PTR
    )


def _copy_stride(code, view):
    """Return bytes between copies: whole blocks of APART, so that no two threads write to one cache
    line."""
    return (code.n_bytes(view) + (APART - 1)) & -APART


def _own_copies(code, worker):
    for k, view in enumerate(code.scatters):
        at = (worker - 1) * _copy_stride(code, view)
        own = builder.gep(_copies(code, k)[1], [at], I8)
        view.pointer = builder.select(worker.equals(0), view.pointer, own)
        view.unshared = True


def _merge(code, k):
    """Emit void merge(block, begin, end, worker): add elements begin..end of all copies to the view, and zero
    them.
    """
    function = ir.Function(code.module, ENTRY, f"merge{k}")
    code.open(function)
    ops, (_, begin, end, _) = code.ops, function.args
    view, (n_copies, copies) = code.scatters[k], _copies(code, k)
    element, apart = ops.scalar(view.dtype), _copy_stride(code, view)

    def copy(number):
        own = builder.gep(copies, [number * apart], I8)

        def add(j):
            total, more = (builder.gep(p, [j], element) for p in (view.pointer, own))
            added = plain_sum("add", builder.load(total, element), builder.load(more, element))
            builder.store(added, total)
            builder.store(ir.Constant(element, 0), more)

        code.loop(begin, end, 1, add)

    code.loop(0, n_copies, 1, copy)
    builder.ret_void()


def _range(code, begin, end, copies, outer=((),)):
    ops, W = code.ops, code.width

    def pack(base, n=copies):
        for k in range(n):
            code.visit(ops.lanes(ops.plus(base, k * W)), None, outer, k)

    def masked(base):
        index = ops.lanes(base)
        code.visit(index, ops.compare("<", index, Value("int", UNIFORM, end)).ir, outer)

    # additions to one accumulator wait for each other; short code is emitted once for each
    turns = copies > 1 and not code.entry.light
    rest = (_in_turn if turns else packs)(code, begin, end, W * copies, pack)
    if W == 1 or code.policy_kind == "packs":
        return
    if copies > 1:
        code.steps(rest, end, W, masked)
    else:
        with builder.if_then(rest < end):
            masked(rest)


def _in_turn(code, begin, end, step, pack):
    """Process packs with a single copy of the code: after each, the accumulators rotate by one; the number of
    packs is such that they end in their original order.
    """
    copies = step // code.width

    def run_block(base):
        pack(base, 1)
        for k, reducer in enumerate(code.reducers):
            first = code.accumulators[k, 0][0]
            for places in zip(*(code.accumulator(k, n, reducer, first) for n in range(copies))):
                for p, value in zip(places, [builder.load(p) for p in (*places[1:], places[0])]):
                    builder.store(value, p)

    return packs(
        code, begin, builder.add_nsw(begin, builder.sub_nsw(end, begin) & -step), code.width, run_block
    )


def packs(code, begin, end, step, body):
    """Emit `loop` over packs; the launch may end after each pack of a kernel with loops, and else after STRIP
    of them, unless the launcher processes strips.
    """
    if code.entry.in_strips:
        return code.loop(begin, end, step, body)
    if code.has_loops:
        return code.loop(begin, end, step, lambda base: (body(base), code.target.poll_flag(code.ops)))
    place = code.ops.slot(I64)
    builder.store(begin, place)
    strip, more, done = builder.blocks("strip", "more", "packs.done")
    builder.go(strip)
    begin = builder.load(place)
    rest = code.loop(begin, code.ops.smaller(builder.add_nsw(begin, STRIP * step), end), step, body)
    builder.store(rest, place)
    builder.go(more, rest < end - (step - 1), done)
    code.target.poll_flag(code.ops)
    builder.branch(strip)
    builder.position_at_end(done)
    return rest


def short_loop(code, begin, end, step, body):
    """Emit `loop` for a small number of iterations, without unrolling."""
    metadata = add_metadata(code.module, 'distinct !{!self, !{!"llvm.loop.unroll.runtime.disable"}}')
    code.loop(begin, end, step, body, f", !llvm.loop {metadata}")


def _rows(code, first, last, copies):
    """The indices first..last of a box, counted row by row: a stretch may begin and end within a row. From
    the beginning of a row on, several whole ones are processed together if that pays."""
    bounds = code.bounds()
    begin, end = bounds[-1]
    length = builder.sub_nsw(end, begin)

    def rows(number, n=1):
        low, high = _row_part(code.ops, builder.mul_nsw(number, length), first, last, length)
        outer = [_outer(code, builder.add_nsw(number, k), bounds) for k in range(n)]
        _range(code, builder.add_nsw(begin, low), builder.add_nsw(begin, high), copies, outer)
        if not code.entry.in_strips:
            code.target.poll_flag(code.ops)

    some = code.ops.larger(length, 1)  # or it has no rows
    number, n = builder.sdiv(first, some), code.entry.rows
    if n > 1:
        whole = builder.select((number * some).equals(first), builder.sdiv(last, some), number)
        number = code.loop(number, whole, n, lambda first_row: rows(first_row, n))
    code.loop(number, builder.sdiv(last + (some - 1), some), 1, rows)


def _row_part(ops, before, first, last, length):
    """Return the part between the indices first and last of a row, counted from its beginning, and how many
    are before that."""
    return ops.larger(first - before, 0), ops.smaller(last - before, length)


def _outer(code, number, bounds):
    """Return the leading indices of a row, from its number."""
    outer = [number]
    for low, high in bounds[-2:0:-1]:
        extent = builder.sub_nsw(high, low)
        outer[:1] = builder.sdiv(outer[0], extent), builder.srem(outer[0], extent)
    return [builder.add_nsw(v, low) for v, (low, _) in zip(outer, bounds)]


def _league(team, code, begin, end, copies):
    league_size = code.extra("league_size")
    with builder.goto_entry_block():
        scratch = builder.alloca(I8, code.extra("scratch_bytes"))
        scratch.align, scratch.type = PAGE, PTR

    def run_team(rank):
        code.visit(team(rank, league_size, scratch))
        code.target.poll_flag(code.ops)

    code.loop(begin, end, 1, run_team)


def _blocks(code, first, last, stretch):
    totals = []
    begin, end, size = (code.extra(n) for n in ("begin", "end", "block_size"))
    partials = code.extra("partials", PTR)
    copies = STREAMS if code.policy_kind != "team" and code.width > 1 and not code.has_loops else 1

    def block(number):
        low = builder.add_nsw(begin, builder.mul_nsw(number, size))
        high = builder.add_nsw(low, size)
        code.open_accumulators()
        stretch(code, low, code.ops.smaller(high, end), copies)
        totals[:] = code.collected()
        if code.policy_kind != "team":
            combines = (functools.partial(code.combined, reducer) for reducer in code.reducers)
            totals[:] = [combine_lanes(code.ops, *each) for each in zip(totals, combines)]
        code.write_words(totals, code.partial(partials, number))
        code.target.poll_flag(code.ops)

    code.loop(first, last, 1, block)
    return totals


def _finish(code, totals):
    """Combine the partial states one after the other."""
    function = ir.Function(code.module, ENTRY, "finish")
    code.open(function)
    _, _, n_blocks, _ = function.args
    short_loop(code, 0, n_blocks, 1, code.folding(totals, code.extra("partials", PTR)))
    code.write_results(code.collected())
    builder.ret_void()
