"""Entry kernels on CUDA: one thread per index, or per pack of indices; one block per team. A reduction
finishes in the same launch.

The argument block travels by value, as the kernel's one parameter.
"""

import operator
from functools import partial, reduce
import re

from llvmlite import ir

from ...compiler.writing.emitted import text_of
from ...compiler.writing.entry import Entry
from ...compiler.reading.tree import flat
from ...language.types import SHORT, itemsize
from ...compiler.reading.team import TeamHandle
from ...compiler.writing.lines import builder
from ...compiler.writing.values import I1, I32, I64, I8, PTR, Unpacked
from .lanes import (
    RANGE_THREADS,
    WARP,
    BoxTarget,
    CrowdedTarget,
    CudaTarget,
    CudaTeam,
    TeamTarget,
    barrier,
    block,
    combine_block,
    dynamic_shared,
    grid,
    shared_words,
    thread,
    unrolling,
    warp,
)

REDUCE_THREADS = 256
# indices that a thread of a reduction has on their way, for states of one number, and of several
_COPIES = 6, 4
_TOGETHER = 8  # teams of a warp in a block: a multiprocessor holds 64 warps, but 32 blocks
_SHORT = 200  # largest number of instructions of a kernel that a thread runs at several indices
_STRAIGHT = 300  # lines of LLVM's text of a short kernel
_VOID = ir.VoidType()
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"


class Blocks:
    """The blocks of one GPU architecture, of `team_size` threads a team, a multiple of a warp."""

    chained = together = 1  # teams of a block

    def __init__(self, policy_kind, reducers, team_size, teams, tensor=None):
        self.tensor = tensor
        self.team_size = team_size
        self.threads = team_size if policy_kind == "team" else REDUCE_THREADS if reducers else RANGE_THREADS
        usual = CrowdedTarget if teams > 1 else TeamTarget if policy_kind == "team" else CudaTarget
        self.target = BoxTarget if policy_kind.startswith("box") else usual
        self.step = self.target.step

    @staticmethod
    def lanes(entry):
        """Return the width of packs: one load a thread does not always keep memory busy; four of 32 bits, or
        two of 64, do."""
        plain = entry.policy_kind.startswith(("range", "box")) and entry.kernel.packed and not entry.reducers
        return entry.signature.width // 4 if plain and not entry.n_scatters else 1

    def team_facts(self, width):
        return TeamHandle, self.team_size, CudaTeam.registers, WARP, self.tensor

    def text(self, entry):
        return _as_kernel(entry, text_of(entry, self.target, _emit))


def entry_of(kernel, policy_kind, specs, reducers, team_size, watch=None, tensor=None):
    """Return the entry of a kernel for one GPU architecture; `tensor`: see TeamHandle."""
    machine = Blocks(policy_kind, reducers, team_size, kernel.teams, tensor)
    entry = Entry(machine, kernel, policy_kind, specs, reducers, watch)
    alone = reducers or watch or kernel.teams > 1 or entry.scratch_static or entry.scratch_open
    if policy_kind == "team" and team_size == WARP and not alone:
        machine.together, machine.threads = _TOGETHER, _TOGETHER * WARP
    entry.together, entry.threads = machine.together, machine.threads
    return entry


def _emit(code):
    code.module.triple, code.module.data_layout = "nvptx64-nvidia-cuda", DATA_LAYOUT
    code.open(ir.Function(code.module, ir.FunctionType(_VOID, [PTR]), "entry"))
    kind = code.policy_kind.rstrip("0123456789")
    if kind.startswith("scan"):
        from .scan import Scan

        Scan(code).emit()
    elif code.reducers:
        code.open_accumulators()
        {"team": _team, "range": _reduced_range}.get(kind, _reduced_box)(code)
        _finish(code)
    else:
        plain = _scattered_range if code.scatters else _range
        {"team": _team, "range": plain}.get(kind, _box)(code)
    builder.ret_void()
    code.watch.done(code)


def _as_kernel(entry, text):
    """Return the block as a parameter by value, and the launch bound, which this IR builder has no words
    for. A thread of short text without loops waits for a few loads at a time, and others hide that: four
    blocks have 64 registers a thread.
    """
    bound, teams = f'"nvvm.maxntid"="{entry.machine.threads}"', entry.kernel.teams
    alone = entry.width == 1 and not (entry.machine.target.crowded or entry.reducers)
    if alone and text.count("\n") < _STRAIGHT and not re.search(r"\n(head|packs)", text):
        teams = 4
    bound += f' "nvvm.minctasm"="{teams}"' if teams > 1 else ""
    n_words = entry.fault_word() + (entry.sites is not None)
    return re.sub(
        r'define void @"(\w+)"\(ptr (%"[^"]+")\)',
        rf'define ptx_kernel void @"\1"(ptr byval([{n_words} x i64]) align 8 \2) {bound}',
        text,
    )


def _first(code, indices):
    """Return this thread's first index, counted from the policy's, for blocks of `indices` indices."""
    return _sum(builder.mul_nsw(block(), indices), thread())


def _range(code):
    """Emit one index a thread, or a pack of them; the last block processes the remaining indices
    one by one.
    """
    index = _sum(code.extra("begin"), _first(code, code.machine.threads * code.width))
    _places(code, [index], [code.extra("end")], code.machine.threads)


def _places(code, indices, ends, step):
    """Emit the kernel at a thread's place below the ends of the last two dimensions, or at places `step`
    apart: together if their number is that of lanes, else one by one. Places are in 32 bits, with ranges that
    LLVM can use, if the launch has no larger ones.
    """
    ops, W = code.ops, code.width
    typ = I32 if any(getattr(v, "apart", None) for v in flat(tuple(code.args))) else I64

    def visit(index):
        code.visit(ops.lanes(_ranged(index)), outer=[outer])

    *outer, last = (builder.trunc(index, typ) for index in indices)
    ends = [builder.trunc(end, typ) for end in ends]
    there = [place < end for place, end in zip(outer[-1:], ends[-2:])]
    whole = _sum(last, step * (W - 1)) < ends[-1]
    outer = [_ranged(index) for index in outer]
    with builder.if_then(reduce(operator.and_, there, whole if W == 1 else I1(1))):
        if W == 1:
            return _visit(code, dict(zip((*outer, _ranged(last)), ends)))
        _pack(code, whole, last, ends, step, visit)


def _ranged(place):
    return builder.zext(place, I64) & (SHORT - 1) if place.type == I32 else place


def _pack(code, whole, index, ends, step, visit):
    """Process a thread's indices up to the last end together if `whole`, else one by one."""
    ops, W = code.ops, code.width
    with builder.if_else(whole) as (pack, rest):
        with pack:
            visit(index)
            if sum(len(block.instructions) for block in builder.function.blocks) > _SHORT:
                raise Unpacked("the text is long")
        with rest:
            ops.W = 1
            once = unrolling(1)  # of W - 1 places at most: registers for more would cost warps
            code.steps(builder.zext(index, I64), builder.zext(ends[-1], I64), step, visit, once)
            ops.W = W


def _visit(code, ends):
    """Emit the kernel at one place, {index: the policy's end} in order. Remainders by extents, as in `(i + 1)
    % n`, take no division where the policy ends within these extents; other launches run a second copy.
    """
    ops, (*outer, last) = code.ops, ends
    start, (inside, otherwise, after) = builder.block, builder.blocks("inside", "otherwise", "after")
    builder.position_at_end(inside)
    ops.ends = ends
    code.visit(ops.lanes(last), outer=[outer])
    ops.ends = {}
    builder.branch(after)
    builder.position_at_end(start)
    least = [word <= builder.trunc(n, word.type) for word, n in ops.within]
    builder.cbranch(reduce(operator.and_, least, I1(1)), inside, otherwise)
    builder.position_at_end(otherwise)
    if least:
        code.visit(ops.lanes(last), outer=[outer])
    builder.go(after)


def _sum(*terms):
    """Return a sum of indices, no step of which wraps."""
    return reduce(builder.add_nsw, terms)


def _reduced_range(code):
    """The grid processes the range in rounds; in each a thread folds several indices a block apart, in the
    last a grid apart.
    """
    ops = code.ops
    copies = 1 if code.has_loops else _COPIES[code.entry.state_words > 1]
    width = builder.mul_nsw(grid(), code.machine.threads)
    near, even = _first(code, code.machine.threads * copies), _first(code, code.machine.threads)

    def visit(copy, index):
        code.visit(ops.lanes(index), slot=copy)

    def whole_step(base):
        for k in range(copies):
            visit(k, _sum(base, near, code.machine.threads * k))

    if copies == 1:
        first = _sum(code.extra("begin"), even)
        code.steps(first, code.extra("end"), width, lambda index: visit(0, index))
        return
    last = code.loop(code.extra("begin"), code.extra("end"), builder.mul_nsw(width, copies), whole_step)
    for k in range(copies):
        index = _sum(last, even, builder.mul_nsw(width, k))
        with builder.if_then(index < code.extra("end")):
            visit(k, index)


def _scattered_range(code):
    """Process a range with the grid's stride; views that are only added to have a copy in each block's shared
    memory.
    """
    own, copies = dynamic_shared(code.module), []

    def clear(element, mine, total):
        builder.store(ir.Constant(element, 0), mine)

    for view in code.scatters:
        copies.append((view, own, view.pointer))
        size = (code.n_bytes(view) + 7) & -8
        own = builder.gep(own, [size], I8)
        _each_element(code, *copies[-1], clear)
    barrier()
    for view, copy, _ in copies:
        view.pointer = copy
    _reduced_range(code)
    barrier()

    def hand_over(element, mine, total):
        add = "add" if isinstance(element, ir.IntType) else "fadd"
        builder.atomic_rmw(add, total, builder.load(mine, element), "monotonic")

    for copy in copies:
        _each_element(code, *copy, hand_over)


def _each_element(code, view, mine, total, body):
    """Call body(type, place in this block's copy, place in the view) for this thread's share of a view's
    elements.
    """
    element = code.ops.scalar(view.dtype)
    size = builder.sdiv(code.n_bytes(view), itemsize(view.dtype))

    def at(j):
        body(element, *(builder.gep(place, [j], element) for place in (mine, total)))

    code.steps(thread(), size, code.machine.threads, at)


def _tile(code):
    """Take a block as a tile of a box's last two dimensions, 2^block_size threads wide.

    Returns the bounds of all dimensions, this thread's first last index, its row in the tile, and the tile's
    height.
    """
    bounds = code.bounds()
    bits, here = code.extra("block_size"), thread()
    height = I64(code.machine.threads) >> bits
    before, column = block() << bits, here & ((I64(1) << bits) - 1)
    if code.width > 1:  # a warp's indices lie one after the other, a thread's a warp apart
        before = builder.mul_nsw(before, code.width)
        warp = column & -WARP
        column = _sum(column, builder.mul_nsw(warp, code.width - 1))
    place = _sum(bounds[-1][0], _sum(before, column))
    return bounds, place, here >> bits, height


def _leading(code, bounds):
    """Return the bounds of the dimensions before a tile's, counted row by row, and a function that splits
    such a number into an index of each.
    """
    if len(bounds) < 4:
        return bounds[0], lambda number: [number]
    (first, end), (low, high) = bounds[:2]
    width = builder.sub_nsw(high, low)

    def split(number):
        places = builder.sdiv(number, width), builder.srem(number, width)
        return [_sum(*both) for both in zip(places, (first, low))]

    return (I64(0), builder.mul_nsw(end - first, width)), split


def _box(code):
    """One index a thread, or a pack of them along the last dimension; the second grid axis counts tiles, the
    third the dimensions before a tile's."""
    bounds, last, row, height = _tile(code)
    near = _sum(bounds[-2][0], block("y") * height + row)
    (begin, _), split = _leading(code, bounds)
    outer = [near]
    if len(bounds) > 2:
        outer[:0] = split(_sum(begin, block("z")))
    _places(code, [*outer, last], [end for _, end in bounds], WARP)


def _reduced_box(code):
    """Process tiles, `depth` of them along the preceding dimensions, so that a block stores one state for
    many indices.
    """
    ops, depth = code.ops, code.extra("depth")
    bounds, index, row, height = _tile(code)
    leading, split = _leading(code, bounds)

    def visit(*outer):
        with builder.if_then(index < bounds[-1][1]):
            code.visit(ops.lanes(index), outer=[outer])

    if len(bounds) == 2:
        _deep(code, leading, depth, height, row, "y", visit)
        return

    def tile(j):
        _deep(code, leading, depth, I64(1), I64(0), "z", lambda i: visit(*split(i), j))

    begin, end = bounds[-2]
    first = _sum(begin, block("y") * height + row)
    code.steps(first, end, grid("y") * height, tile)


def _deep(code, bounds, depth, step, offset, axis, body):
    """Emit the part before a tile: `depth` steps from this block's own on."""
    begin, end = bounds
    start = _sum(begin, block(axis) * depth * step)
    last = _sum(start, depth * step)
    last = builder.select(last < end, last, end)
    code.steps(_sum(start, offset), last, step, body)


def _team(code):
    base = dynamic_shared(code.module)
    rank, league_size, together = block(), code.extra("league_size"), code.machine.together
    if together > 1:
        rank = _sum(builder.mul_nsw(rank, together), warp())
    # an empty league's reduction has one block
    with builder.if_then(rank < league_size):
        code.visit(CudaTeam(rank, league_size, code.machine.team_size, base))


# ---- the end of a reduction: the last block to arrive combines the partial states of all blocks
def _finish(code):
    states = code.collected()
    if code.policy_kind != "team":
        states = _block_states(code, states)
    partials, counter = code.extra("partials", PTR), code.extra("counter", PTR)
    number, n_blocks = _block_number(code)
    last = shared_words(1, "last")
    leader = thread().equals(0)
    with builder.if_then(leader):
        code.write_words(states, code.partial(partials, number))
        # release of this block's partial state, and then acquire of all other blocks'
        builder.fence("acq_rel", "device")
        arrived = builder.atomic_rmw("add", counter, I64(1), "monotonic")
        builder.fence("acq_rel", "device")
        builder.store(arrived - n_blocks, last)
    barrier()
    with builder.if_then(builder.load(last, I64).equals(-1)):
        code.steps(thread(), n_blocks, code.machine.threads, code.folding(states, partials))
        totals = _block_states(code, code.collected())
        with builder.if_then(leader):
            code.write_results(totals)
            builder.store(0, counter)


def _block_number(code):
    """Return this block's number in the grid, and the number of blocks."""
    number, n_blocks = block(), grid()
    if code.policy_kind.startswith("box"):
        for axis in "yz":
            number = number + n_blocks * block(axis)
            n_blocks = n_blocks * grid(axis)
    return number, n_blocks


def _block_states(code, states):
    ops, n = code.ops, code.machine.threads
    return [
        combine_block(ops, ops.spread(s), partial(code.combined, r), n) for r, s in zip(code.reducers, states)
    ]
