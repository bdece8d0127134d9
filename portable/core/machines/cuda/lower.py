"""Entry kernels on CUDA: one thread per index, or per pack of indices; one block per team. A reduction
finishes in the same launch.

The argument block travels by value, as the kernel's one parameter.
"""

from __future__ import annotations

import functools
import re

from llvmlite import ir

from ...compiler.writing.emitted import Emitted
from ...language.types import itemsize
from ...compiler.reading.signature import flatten
from ...compiler.reading.team import TeamHandle
from ...compiler.writing.values import I64, I8, NSW, PTR, Unpacked
from ...locks import kept
from .lanes import (
    RANGE_THREADS,
    WARP,
    BoxTarget,
    CudaTarget,
    CudaTeam,
    barrier,
    block,
    combine_block,
    dynamic_shared,
    grid,
    shared_words,
    thread,
)

REDUCE_THREADS = 256
# indices that a thread of a reduction has on their way, for states of one number, and of several
_COPIES = 6, 4
_SHORT = 200  # instructions of a text that a thread runs at several indices
_VOID = ir.VoidType()
DATA_LAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"


def _shared_base(module):
    """The block's shared memory, as no generic pointer: of that LLVM would not see the alignment."""
    base = dynamic_shared(module)
    base.type = ir.PointerType(addrspace=3)
    return base


class Entry(Emitted):
    """A kernel for one GPU architecture. `team_size` threads a team, a multiple of a warp."""

    target = CudaTarget

    def __init__(self, kernel, policy_kind, specs, reducers, team_size, watch=None):
        self.team_size = team_size
        self.threads = team_size if policy_kind == "team" else REDUCE_THREADS if reducers else RANGE_THREADS
        if policy_kind.startswith("box"):
            self.target = BoxTarget
        super().__init__(kernel, policy_kind, specs, reducers, watch=watch)

    @kept
    def text(self):
        return self._as_kernel(Emitted.text.make(self))

    @property
    def identity_of_code(self):
        return f"{super().identity_of_code} {self.team_size} {self.kernel.teams}"

    def lanes(self, signature):
        """One load a thread does not always fill the memory's pipe: four of 32 bits, or two of 64, do."""
        plain = (
            self.policy_kind.startswith(("range", "box"))
            and self.kernel.packed
            and not self.reducers
            and not any(s[0] == "scatter" for s in flatten(signature.specs))
        )
        return signature.width // 4 if plain else 1

    def team_facts(self, width):
        return TeamHandle, self.team_size, CudaTeam.registers, WARP

    def emit(self):
        self.module.triple, self.module.data_layout = "nvptx64-nvidia-cuda", DATA_LAYOUT
        function = ir.Function(self.module, ir.FunctionType(_VOID, [PTR]), "entry")
        self.open(function)
        if self.reducers:
            self.open_accumulators()
        plain = (
            self._reduced_range if self.reducers else self._scattered_range if self.scatters else self._range
        )
        {"team": self._team, "range": plain}.get(
            self.policy_kind, self._reduced_box if self.reducers else self._box
        )()
        if self.reducers:
            self._finish()
        self.b.ret_void()

    def _as_kernel(self, text):
        """The block as a parameter by value, and the launch bound, which this IR builder has no words for."""
        bound = f'"nvvm.maxntid"="{self.threads}"' + (
            f' "nvvm.minctasm"="{self.kernel.teams}"' if self.kernel.teams > 1 else ""
        )
        n_words = self.fault_word() + (self.sites is not None)
        return re.sub(
            r'define void @"(\w+)"\(ptr (%"[^"]+")\)',
            rf'define ptx_kernel void @"\1"(ptr byval([{n_words} x i64]) align 8 \2) {bound}',
            text,
        )

    def _first(self, indices):
        """This thread's first index, counted from the policy's, where a block takes so many."""
        return self._sum(self._times(block(self.ops), indices), thread(self.ops))

    def _range(self):
        """One index a thread, or a pack of them; the last block goes through what is left one by one."""
        ops, b, W = self.ops, self.b, self.width
        index = b.add(self.extra("begin"), self._first(self.threads * W), flags=NSW)
        end = self.extra("end")
        if W == 1:
            with b.if_then(b.icmp_signed("<", index, end)):
                self.visit(ops.lanes(index))
            return
        self._pack(index, end, self.threads, lambda k: self.visit(ops.lanes(k)))

    def _pack(self, index, end, step, visit):
        """Visit a thread's indices up to `end`, so many steps apart: together if there are as many as lanes,
        else one by one."""
        ops, b, W = self.ops, self.b, self.width
        whole = b.icmp_signed("<", b.add(index, I64(step * (W - 1)), flags=NSW), end)
        with b.if_else(whole) as (pack, rest):
            with pack:
                visit(index)
                if sum(len(block.instructions) for block in b.function.blocks) > _SHORT:
                    raise Unpacked("the text is long")
            with rest:
                ops.W = 1
                self.steps(index, end, I64(step), visit)
                ops.W = W

    def _sum(self, *terms):
        """A sum of indices, no step of which wraps."""
        return functools.reduce(lambda x, y: self.b.add(x, y, flags=NSW), terms)

    def _times(self, x, n):
        """An index times a Python number, which does not wrap."""
        return self.b.mul(x, I64(n), flags=NSW)

    def _reduced_range(self):
        """The grid goes through the range in rounds; in each a thread folds several indices a block apart, in
        the last a grid apart."""
        ops = self.ops
        copies = 1 if self.has_loops else _COPIES[self.state_words > 1]
        width = self._times(grid(ops), self.threads)
        near, even = self._first(self.threads * copies), self._first(self.threads)

        def visit(copy, index):
            self.visit(ops.lanes(index), slot=copy)

        def whole(base):
            for k in range(copies):
                visit(k, self._sum(base, near, I64(self.threads * k)))

        if copies == 1:
            first = self._sum(self.extra("begin"), even)
            self.steps(first, self.extra("end"), width, lambda index: visit(0, index))
            return
        last = self.loop(self.extra("begin"), self.extra("end"), self._times(width, copies), whole)
        for k in range(copies):
            index = self._sum(self._sum(last, even), self._times(width, k))
            with ops.b.if_then(ops.b.icmp_signed("<", index, self.extra("end"))):
                visit(k, index)

    def _scattered_range(self):
        """A grid's stride again; views that are only added to have a copy in each block's shared memory."""
        ops, b = self.ops, self.b
        own, copies = _shared_base(self.module), []

        def clear(element, mine, total):
            b.store(ir.Constant(element, 0), mine)

        for view in self.scatters:
            copies.append((view, own, view.pointer))
            size = b.and_(b.add(self.n_bytes(view), I64(7)), I64(-8))
            own = b.gep(own, [size], I8)
            self._each_element(*copies[-1], clear)
        barrier(ops)
        for view, copy, _ in copies:
            view.pointer = copy
        self._reduced_range()
        barrier(ops)

        def hand_over(element, mine, total):
            add = "add" if isinstance(element, ir.IntType) else "fadd"
            b.atomic_rmw(add, total, b.load(mine, element), "monotonic")

        for copy in copies:
            self._each_element(*copy, hand_over)

    def _each_element(self, view, mine, total, body):
        """body(type, place in this block's copy, place in the view) for this thread's share of a view's
        elements."""
        ops, b, element = self.ops, self.b, self.ops.scalar(view.dtype)
        size = b.sdiv(self.n_bytes(view), I64(itemsize(view.dtype)))

        def at(j):
            body(element, *(b.gep(place, [j], element) for place in (mine, total)))

        self.steps(thread(ops), size, I64(self.threads), at)

    def _tile(self):
        """A block is a tile of a box's last two dimensions, 2^block_size threads wide.

        Returns the bounds of all dimensions, this thread's first last index, its row in the tile, and the
        tile's height.
        """
        ops, b, d = self.ops, self.b, int(self.policy_kind[-1])
        bounds = [(self.extra(f"begin{k}"), self.extra(f"end{k}")) for k in range(d)]
        bits, here, one = self.extra("block_size"), thread(ops), I64(1)
        height = b.ashr(I64(self.threads), bits)
        before, column = b.shl(block(ops), bits), b.and_(here, b.sub(b.shl(one, bits), one))
        if self.width > 1:  # a warp's indices lie one after the other, a thread's a warp apart
            before = self._times(before, self.width)
            warp = b.and_(column, I64(-WARP))
            column = self._sum(column, self._times(warp, self.width - 1))
        place = b.add(before, column, flags=NSW)
        return bounds, b.add(bounds[-1][0], place, flags=NSW), b.ashr(here, bits), height

    def _leading(self, bounds):
        """The bounds of the dimensions before a tile's, counted row by row, and what splits such a number
        into an index of each."""
        if len(bounds) < 4:
            return bounds[0], lambda number: [number]
        b, (first, end), (low, high) = self.b, *bounds[:2]
        width = b.sub(high, low, flags=NSW)

        def split(number):
            places = b.sdiv(number, width), b.srem(number, width)
            return [b.add(v, begin, flags=NSW) for v, begin in zip(places, (first, low))]

        return (I64(0), b.mul(b.sub(end, first), width, flags=NSW)), split

    def _box(self):
        """One index a thread, or a pack of them along the last dimension; the second grid axis counts tiles,
        the third the dimensions before a tile's."""
        ops, b = self.ops, self.b
        bounds, last, row, height = self._tile()
        near = b.add(bounds[-2][0], b.add(b.mul(block(ops, "y"), height), row), flags=NSW)
        (begin, _), split = self._leading(bounds)
        outer = [near]
        if len(bounds) > 2:
            outer[:0] = split(b.add(begin, block(ops, "z"), flags=NSW))
        end, there = bounds[-1][1], b.icmp_signed("<", near, bounds[-2][1])
        if self.width > 1:
            with b.if_then(there):
                self._pack(last, end, WARP, lambda k: self.visit(ops.lanes(k), outer=outer))
            return
        with b.if_then(b.and_(b.icmp_signed("<", last, end), there)):
            self.visit(ops.lanes(last), outer=outer)

    def _reduced_box(self):
        """Tiles again, `depth` of them deep along the dimensions before, so that a block leaves one state for
        many indices."""
        ops, b, depth = self.ops, self.b, self.extra("depth")
        bounds, index, row, height = self._tile()
        leading, split = self._leading(bounds)

        def visit(*outer):
            with b.if_then(b.icmp_signed("<", index, bounds[-1][1])):
                self.visit(ops.lanes(index), outer=outer)

        if len(bounds) == 2:
            self._deep(leading, depth, height, row, "y", visit)
            return

        def tile(j):
            one, zero = I64(1), I64(0)
            self._deep(leading, depth, one, zero, "z", lambda i: visit(*split(i), j))

        begin, end = bounds[-2]
        first = self._sum(begin, b.add(b.mul(block(ops, "y"), height), row))
        self.steps(first, end, b.mul(grid(ops, "y"), height), tile)

    def _deep(self, bounds, depth, step, offset, axis, body):
        """What is before a tile: `depth` steps from this block's own on."""
        b, (begin, end) = self.b, bounds
        start = self._sum(begin, b.mul(b.mul(block(self.ops, axis), depth), step))
        last = self._sum(start, b.mul(depth, step))
        last = b.select(b.icmp_signed("<", last, end), last, end)
        self.steps(self._sum(start, offset), last, step, body)

    def _team(self):
        ops = self.ops
        base = _shared_base(self.module)
        rank, league_size = block(ops), self.extra("league_size")
        # an empty league's reduction has one block
        with ops.b.if_then(ops.b.icmp_signed("<", rank, league_size)):
            self.visit(CudaTeam(rank, league_size, self.team_size, base))

    # ---- the end of a reduction: the last block to arrive combines what all have left
    def _finish(self):
        ops, b = self.ops, self.b
        states = self.collected()
        if self.policy_kind != "team":
            states = self._block_states(states)
        partials, counter = self.extra("partials", PTR), self.extra("counter", PTR)
        number, n_blocks = self._block_number()
        last = shared_words(ops, 1, "last")
        leader = b.icmp_signed("==", thread(ops), I64(0))
        with b.if_then(leader):
            self.write_words(states, self.word(partials, b.mul(number, I64(self.state_words))))
            b.fence("acq_rel", "device")  # of what this block has left, and then of what all others have
            arrived = b.atomic_rmw("add", counter, I64(1), "monotonic")
            b.fence("acq_rel", "device")
            b.store(b.zext(b.icmp_signed("==", arrived, b.sub(n_blocks, I64(1))), I64), last)
        barrier(ops)
        with b.if_then(b.icmp_signed("!=", b.load(last, I64), I64(0))):
            self._combine_partials(states, partials, n_blocks, counter, leader)

    def _block_number(self):
        """This block's number in the grid, and the number of blocks."""
        ops, b = self.ops, self.b
        number, n_blocks = block(ops), grid(ops)
        if self.policy_kind.startswith("box"):
            for axis in "yz":
                number = b.add(number, b.mul(n_blocks, block(ops, axis)))
                n_blocks = b.mul(n_blocks, grid(ops, axis))
        return number, n_blocks

    def _block_states(self, states):
        ops, result = self.ops, []
        for reducer, state in zip(self.reducers, states):
            state = ops.spread(state)
            result.append(combine_block(ops, state, functools.partial(self.combined, reducer), self.threads))
        return result

    def _combine_partials(self, states, partials, n_blocks, counter, leader):
        ops, b = self.ops, self.b
        self.open_accumulators()
        rows = [self._accumulator(k, 0, r, s) for k, (r, s) in enumerate(zip(self.reducers, states))]

        def fold(number):
            parts = self.read_words(states, self.word(partials, b.mul(number, I64(self.state_words))))
            for reducer, part, row in zip(self.reducers, parts, rows):
                for v, p in zip(self.combined(reducer, self._loaded(part, row), part), row):
                    b.store(ops.get(v), p)

        self.steps(thread(ops), n_blocks, I64(self.threads), fold)
        totals = self._block_states(self.collected())
        with b.if_then(leader):
            self.write_results(totals)
            b.store(I64(0), counter)
