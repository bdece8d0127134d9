"""Scans on CUDA in one pass: a block takes the next tile, scans it, and learns from the tiles before it what
lies before its own. The input is read and the prefixes are written once.

A thread scans neighbouring states, ITEMS words of them (one state if the kernel loops); a tile is what one
block takes. The kernel runs, and prefixes are written, with neighbouring threads at neighbouring indices:
shared memory turns one order into the other.

Tiles are taken by number, so that all tiles before a block's own are done or at work: it may wait for them.
The bits do not depend on who comes first, since what lies before a tile is always the same combination:

    the prefix of its section    of GROUP groups of GROUP tiles each; one section's after the other's
    the groups before its own    each left by its last tile, which combines what the others left
    the tiles before its own     in its group, each tile's total

A number that is left for others goes with the launch's mark: a word of 64 bits holds 32 bits of the number
and the mark. So a word that has the mark is there, relaxed loads are enough, and nobody clears the words.
"""

from __future__ import annotations

import functools

from llvmlite import ir

from ...compiler import types as t
from ...compiler.scanned import Scanned, words_of
from ...compiler.team import combine_states, finished
from ...compiler.tree import flat
from ...compiler.types import VARYING
from ...compiler.values import I32, I64, PTR, Value
from ...policy import WITH_PREFIXES
from . import lower as cuda
from .lanes import WARP, barrier, fold_warp, grid, scan_block, shared_words, thread

ITEMS = 8
RESIDENT = 1
GROUP = WARP  # a lane asks for one of those before
_LEVELS = 3  # tiles, groups, sections
_LOAD = ir.InlineAsm(ir.FunctionType(I64, [PTR]), "ld.relaxed.gpu.u64 $0, [$1];", "=l,l,~{memory}", True)
_STORE = ir.InlineAsm(
    ir.FunctionType(ir.VoidType(), [PTR, I64]), "st.relaxed.gpu.u64 [$0], $1;", "l,l,~{memory}", True
)


_LOW, _HIGH, _HALF = ir.Constant(I64, 2**32 - 1), ir.Constant(I64, -(2**32)), ir.Constant(I64, 32)
_EIGHT = ir.Constant(I64, 3)  # bits of the items between two words of padding


def words_of_tiles(n_tiles, state_words):
    """Words of 64 bits that a scan leaves for itself: the ticket, then for each level and half of a number a
    word an entry."""
    return 1 + 2 * state_words * _LEVELS * (n_tiles + 1)


class ScanEntry(Scanned, cuda.Entry):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive", "scan exclusive"
    or "scan total"."""

    @property
    def resident(self):
        return RESIDENT

    @property
    def items(self):
        return 1 if self.kernel.portable_text.has_loops else max(1, ITEMS // self.reducers[0].n_words)

    @property
    def tile(self):  # known before the text is: a launch whose code was kept has no text
        return self.items * self.threads

    def emit(self):
        self.module.triple, self.module.data_layout = "nvptx64-nvidia-cuda", cuda.DATA_LAYOUT
        (self.reducer,) = self.reducers
        self.state = tuple(Value(v.dtype, VARYING, None) for v in self.states[0])
        self.open(ir.Function(self.module, ir.FunctionType(ir.VoidType(), [PTR]), "entry"))
        lower, b = self.lower, self.lower.b
        outs = flat(self.args.pop()) if self.policy_kind in WITH_PREFIXES else ()
        self._take_tile()
        start = b.add(self.extra("begin"), b.mul(self.number, ir.Constant(I64, self.tile)))
        shelves = [shared_words(lower, self.tile + self.tile // 8 + 1, "tile") for _ in self.state]
        self._run_kernel(start, shelves)
        before, total = self._scanned(shelves)
        prefix = self._look_back(total)
        with b.if_then(b.and_(self.first, b.icmp_signed("==", self.number, self._last()))):
            self.write_results([self._combined(prefix, total)])
        if outs:
            self._keep_prefixes(self._combined(prefix, before), shelves)
            barrier(lower)
            self._store(start, shelves, outs)
        b.ret_void()

    def _combined(self, a, b):
        result = combine_states(self.lower, self.reducer, a, b)
        return tuple(Value(v.dtype, VARYING, self.lower.get(x, v.dtype)) for v, x in zip(self.state, result))

    def _last(self):
        return self.lower.b.sub(grid(self.lower), ir.Constant(I64, 1))

    def _take_tile(self):
        """The next tile's number, and the launch's mark, an odd number of 32 bits.

        Both are in the first word. Who takes the last tile gives the next launch another mark.
        """
        lower, b = self.lower, self.lower.b
        self.words, taken = self.extra("partials", PTR), shared_words(lower, 1, "taken")
        self.first = b.icmp_signed("==", thread(lower), ir.Constant(I64, 0))
        with b.if_then(self.first):
            ticket = b.atomic_rmw("add", self.words, ir.Constant(I64, 1), "monotonic")
            b.store(ticket, taken)
            with b.if_then(b.icmp_signed("==", b.and_(ticket, _LOW), self._last())):
                b.store(b.add(b.sub(ticket, self._last()), ir.Constant(I64, 2 << 32)), self.words)
        barrier(lower)
        ticket = b.load(taken, typ=I64)
        self.number, self.mark = b.and_(ticket, _LOW), b.or_(b.lshr(ticket, _HALF), ir.Constant(I64, 1))

    # ---- a tile
    def _coalesced(self, start):
        """(number, index, whether it lies before the end) of this thread's items when neighbours are
        neighbours."""
        b, end = self.lower.b, self.extra("end")
        first = b.add(start, thread(self.lower), flags=("nsw",))
        for k in range(self.items):
            index = b.add(first, ir.Constant(I64, k * self.threads), flags=("nsw",))
            yield k, index, b.icmp_signed("<", index, end)

    def _shelf(self, shelves, first, further):
        """A place of the tile in shared memory, one word in nine of which is padding against bank conflicts.

        Both parts are counted with padding: no carry of the one reaches the other's eights, so that a thread
        has one address and constants.
        """
        b = self.lower.b
        word = b.add(b.add(first, b.ashr(first, _EIGHT)), ir.Constant(I64, further + further // 8))
        return [b.gep(shelf, [word], source_etype=I64) for shelf in shelves]

    def _across(self, shelves, k):
        """The place of this thread's item k when neighbours are neighbours."""
        return self._shelf(shelves, thread(self.lower), k * self.threads)

    def _items(self, shelves):
        """The places of this thread's neighbouring items."""
        first = self.lower.b.mul(thread(self.lower), ir.Constant(I64, self.items))
        return [self._shelf(shelves, first, k) for k in range(self.items)]

    def _run_kernel(self, start, shelves):
        """The contributions of a tile to shared memory, the neutral value beyond the end."""
        lower, b = self.lower, self.lower.b
        whole = b.icmp_signed("<=", b.add(start, ir.Constant(I64, self.tile)), self.extra("end"))
        with b.if_else(whole) as (inner, last):
            with inner:  # no condition, and no store before the last load: all are in flight at once
                items = [(self._contribution(index), k) for k, index, _ in self._coalesced(start)]
                for state, k in items:
                    self._write(state, self._across(shelves, k))
            with last:
                for k, index, inside in self._coalesced(start):
                    self._write(self._neutral(), self._across(shelves, k))
                    with b.if_then(inside):
                        self._write(self._contribution(index), self._across(shelves, k))
        lower.begin_pack(None)
        barrier(lower)

    def _contribution(self, index):
        """What the kernel returns at one index."""
        lower = self.lower
        lower.begin_pack(None)
        position = lower.lanes(index)
        result = lower.inline(self.kernel.portable_text, [position, *self.args])
        (value,) = self._contributions(result)
        return self._state(self.reducer, value, position, VARYING)

    def _scanned(self, shelves):
        """(what lies before this thread in its block, the block's total)."""
        own = [self._read(places) for places in self._items(shelves)]
        total = functools.reduce(self._combined, own)
        return scan_block(self.lower, total, self._neutral(), self._combined, self.threads)

    def _keep_prefixes(self, running, shelves):
        """This thread's items become prefixes; read again, so that no register holds them while it waits."""
        for places in self._items(shelves):
            after = self._combined(running, self._read(places))
            self._write(running if self.policy_kind == "scan exclusive" else after, places)
            running = after

    def _store(self, start, shelves, outs):
        lower, b = self.lower, self.lower.b
        for k, index, inside in self._coalesced(start):
            with b.if_then(inside):
                prefix = finished(lower, self.reducer, self._read(self._across(shelves, k)))
                for out, x in zip(outs, flat(prefix)):
                    lower.store(out, [lower.lanes(index)], x)

    # ---- the tiles before
    def _look_back(self, total):
        """What lies before this tile, which the first warp finds out."""
        lower, b, tile = self.lower, self.lower.b, self.number
        found = shared_words(lower, len(self.state), "prefix")
        places = words_of(lower, found, ir.Constant(I64, 0), len(self.state))
        (group, member), (section, place) = self._split(tile), self._split(self._split(tile)[0])
        with b.if_then(b.icmp_signed("<", thread(lower), ir.Constant(I64, WARP))):
            self._leave(0, tile, total, self.first)
            (near,) = self._await((0, *self._before(group, member)))
            near = fold_warp(lower, near, self._combined)
            ends_group = b.and_(self.first, b.icmp_signed("==", member, ir.Constant(I64, GROUP - 1)))
            group_total = self._combined(near, total)
            self._leave(1, group, group_total, ends_group)
            later = b.icmp_signed(">", section, ir.Constant(I64, 0))
            far, origin = self._await((1, *self._before(section, place)), (2, section, later))
            far = self._combined(origin, fold_warp(lower, far, self._combined))
            ends_section = b.and_(ends_group, b.icmp_signed("==", place, ir.Constant(I64, GROUP - 1)))
            self._leave(
                2, b.add(section, ir.Constant(I64, 1)), self._combined(far, group_total), ends_section
            )
            with b.if_then(self.first):
                self._write(self._combined(far, near), places)
        lower.begin_pack(None)
        barrier(lower)
        return self._read(places)

    def _split(self, number):
        """(the group, the place in it) of what is numbered."""
        b = self.lower.b
        return b.udiv(number, ir.Constant(I64, GROUP)), b.urem(number, ir.Constant(I64, GROUP))

    def _before(self, group, n):
        """(this lane's entry of a group, whether it is one of the first n)."""
        b, lane = self.lower.b, thread(self.lower)
        return b.add(b.mul(group, ir.Constant(I64, GROUP)), lane), b.icmp_signed("<", lane, n)

    # ---- what tiles leave for those behind
    def _halves(self):
        """Of each number of a state how many halves of 64 bits it has."""
        return [t.BITS[v.dtype] // 32 for v in self.state]

    def _places(self, level, number):
        """Where the halves of a state are left; the same half of neighbours lies side by side."""
        b, one = self.lower.b, ir.Constant(I64, 1)
        stride = b.add(grid(self.lower), one)
        for half in range(sum(self._halves())):
            row = b.mul(stride, ir.Constant(I64, level * sum(self._halves()) + half))
            word = b.add(b.add(row, number), one)
            yield b.gep(self.words, [word], source_etype=I64)

    def _leave(self, level, number, state, condition):
        """Leave a state for the tiles behind, by the thread for which the condition holds."""
        b, words = self.lower.b, []
        for v, n_halves in zip(state, self._halves()):
            bits = b.bitcast(self.lower.get(v), ir.IntType(32 * n_halves))
            bits = b.zext(bits, I64) if n_halves == 1 else bits
            words += [b.shl(bits, _HALF), b.and_(bits, _HIGH)][:n_halves]
        with b.if_then(condition):
            for place, word in zip(self._places(level, number), words):
                b.call(_STORE, [place, b.or_(word, self.mark)])

    def _await(self, *wanted):
        """The states of (level, number, condition) each, once they are there; the neutral one where the
        condition does not hold."""
        b = self.lower.b
        places = [
            list(self._places(level, b.select(there, number, ir.Constant(I64, 0))))
            for level, number, there in wanted
        ]
        self.jump("ask")
        asking, answered = b.block, b.append_basic_block("answered")
        rows = [[b.call(_LOAD, [place]) for place in row] for row in places]
        missing = [
            b.and_(there, b.icmp_signed("!=", b.and_(word, _LOW), self.mark))
            for row, (_, _, there) in zip(rows, wanted)
            for word in row
        ]
        b.cbranch(functools.reduce(b.or_, missing), asking, answered)
        b.position_at_end(answered)
        return [self._chosen(there, row) for row, (_, _, there) in zip(rows, wanted)]

    def _chosen(self, there, words):
        """The state whose halves these words hold, or the neutral one."""
        lower, b, words, state = self.lower, self.lower.b, iter(words), []
        for v, n_halves in zip(self.state, self._halves()):
            bits = b.lshr(next(words), _HALF)
            bits = b.trunc(bits, I32) if n_halves == 1 else b.or_(bits, b.and_(next(words), _HIGH))
            state.append(Value(v.dtype, VARYING, b.bitcast(bits, lower.scalar(v.dtype))))
        known = Value("bool", VARYING, there)
        return tuple(lower.select(known, v, n) for v, n in zip(state, self._neutral()))
