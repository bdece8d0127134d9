"""Scans on CUDA in one launch: blocks take tiles by number, each two of them.

    tile t           its total, stored for other blocks
    tile t - LAG     the prefix before it, and its prefixes, into `out`, the last argument

The second read of a tile hits the second-level cache, where the first has left it, and the prefix before the
tile is complete by then: no block waits while memory is idle. Between the two, the last tile of a group
combines the totals of the group's tiles, and the last group of a section computes the prefix before the next
section.

A thread scans neighbouring states, ITEMS of them or WORDS words (one state if the kernel loops); a tile is
the range of one block. The kernel runs, and prefixes are written, with neighbouring threads at neighbouring
indices: shared memory converts one order into the other, separately for each warp.

Since blocks take numbers in order, all earlier tiles are finished or in progress: a block may wait for them,
whatever LAG is. The bits depend neither on LAG nor on the order of arrival: the prefix before a tile is
always the combination of

    the prefix of its section    of GROUP groups of GROUP tiles each; one section's after the other's
    the groups before its own    in its section
    the tiles before its own     in its group

A number stored for other blocks carries the launch's mark: a word of 64 bits holds 32 bits of the number and
the mark. A word with the mark is therefore complete, relaxed loads are enough, and the words need not be
cleared.
"""

import operator
from functools import reduce

from llvmlite import ir

from ...compiler.writing.scan_states import Scanned, words_of
from ...compiler.reading.tree import flat
from ...language.types import BITS, VARYING
from ...compiler.writing.lines import builder
from ...compiler.writing.values import I32, I64, PTR, Value
from ...places.policy import WITH_PREFIXES
from .engine import KEEPING, KEEPS, REGISTERS
from .lanes import (
    WARP,
    barrier,
    barrier_of_warp,
    fold_block,
    fold_warp,
    grid,
    scan_block,
    shared_words,
    thread,
)

ITEMS, WORDS = 8, 16  # at most, of a thread
GROUP = WARP  # a lane requests one of the preceding entries
_LEVELS = 3  # tiles, groups, sections
_LOAD = ir.InlineAsm(ir.FunctionType(I64, [PTR]), "ld.relaxed.gpu.u64 $0, [$1];", "=l,l,~{memory}", True)
_STORE = ir.InlineAsm(
    ir.FunctionType(ir.VoidType(), [PTR, I64]), "st.relaxed.gpu.u64 [$0], $1;", "l,l,~{memory}", True
)


_LOW, _HIGH, _HALF = 2**32 - 1, -(2**32), 32
_ROW = 4  # bits of the words that shared memory reads or writes at once


def words_of_tiles(n_tiles, state_words):
    """Return the words of 64 bits in a scan's workspace: the ticket, then for each level and half of a number
    a word an entry, of whole groups.
    """
    return 1 + 2 * state_words * _LEVELS * GROUP * (n_tiles // GROUP + 1)


class Hints:
    """Loads and stores of a view's elements that control caching in the second-level cache: with a policy,
    loaded elements are kept; without one, none are. Numbers of other sizes than 32 or 64 bits have no such
    control.
    """

    def __init__(self, policy):
        self.policy = policy

    def load(self, pointer, typ, align):
        if str(typ) not in REGISTERS:
            return builder.load(pointer, typ, align=align)
        (letter, bits), operands = REGISTERS[str(typ)], [pointer, self.policy][: 1 + bool(self.policy)]
        text = "ld.global" + (KEEPS if self.policy else ".cs.b{} $0, [$1];")
        return self._call(text.format(bits), f"={letter}", typ, operands, ",l" * len(operands))

    def store(self, x, pointer, align):
        if str(x.type) not in REGISTERS:
            return builder.store(x, pointer, align=align)
        letter, bits = REGISTERS[str(x.type)]
        return self._call(f"st.global.cs.b{bits} [$0], $1;", "l", ir.VoidType(), [pointer, x], f",{letter}")

    def _call(self, text, first, kind, operands, others):
        function = ir.FunctionType(kind, [v.type for v in operands])
        stores = isinstance(kind, ir.VoidType)
        return builder.call(ir.InlineAsm(function, text, first + others, stores), operands)


def items_of(entry):
    """Return the number of states that a thread scans, a power of two for `_shelf`: computed without the
    kernel's code, since a launch whose code was cached generates none.
    """
    words = max(1, min(ITEMS, WORDS // entry.reducers[0].n_words))
    return 1 if entry.has_loops else 1 << (words.bit_length() - 1)


class Scan(Scanned):
    """A range kernel whose returned values are scanned; `policy_kind` is "scan inclusive", "scan exclusive"
    or "scan total"."""

    def __init__(self, code):
        super().__init__(code, VARYING)
        self.items, self.threads = items_of(code.entry), code.machine.threads
        self.tile = self.items * self.threads

    def emit(self):
        self.outs = flat(self.code.args.pop()) if self.kind in WITH_PREFIXES else ()
        n_words, n_shelves = self.tile + self.tile // 16 + 1, max(len(self.state), len(self.outs))
        self.shelves = [shared_words(n_words, "tile") for _ in range(n_shelves)]
        self.keeping = builder.call(ir.InlineAsm(ir.FunctionType(I64, []), KEEPING, "=l"), [])
        self._take_tiles(self.extra("depth"))

    def _take_tiles(self, lag):
        """Take the next tile number; compute the total of its tile, and the prefixes of earlier tiles that
        are due.
        """
        self.last = grid() - lag - 1
        number = self._take_number()
        with builder.if_then(number <= self.last):
            self._total(number)
        half = number - (lag >> 1)
        group, place = self._split(half)
        wanted = self._is_tile(half), self._equal(place, GROUP - 1), self._is_warp(0)
        with builder.if_then(reduce(operator.and_, wanted)):
            self._total_of_group(group)
        behind = number - lag
        with builder.if_then(self._is_tile(behind) if self.outs else behind.equals(self.last)):
            self._prefixes(behind)

    def _is_warp(self, number):
        """Return the condition that this thread belongs to the warp of that number."""
        return self._equal(thread() - self.lane, number * WARP)

    def _hint(self, policy):
        """Set the cache policy of the kernel's reads from here on; the elements of loops are read more
        often than twice."""
        self.code.lower.memory.hints = None if self.code.has_loops else Hints(policy)

    def _equal(self, number, n):
        return number.equals(n)

    def _is_tile(self, number):
        return (number >= 0) & (number <= self.last)

    def _combined(self, a, b):
        return tuple(
            Value(v.dtype, VARYING, self.ops.get(x, v.dtype))
            for v, x in zip(self.state, self.code.combined(self.reducer, a, b))
        )

    def _take_number(self):
        """Return the next number, and the launch's mark, an odd one of 32 bits.

        Both are in the first word. The block that takes the last number sets another mark for the next
        launch.
        """
        self.words, taken = self.extra("partials", PTR), shared_words(1, "taken")
        rank = thread()
        self.first, self.lane = self._equal(rank, 0), rank & (WARP - 1)
        with builder.if_then(self.first):
            ticket = builder.atomic_rmw("add", self.words, I64(1), "monotonic")
            builder.store(ticket, taken)
            last = grid() - 1
            with builder.if_then((ticket & _LOW).equals(last)):
                builder.store(ticket - last + (2 << 32), self.words)
        barrier()
        ticket = builder.load(taken, I64)
        self.mark = builder.lshr(ticket, _HALF) | 1
        return ticket & _LOW

    # ---- a tile
    def _start(self, tile):
        return builder.add_nsw(self.extra("begin"), tile * self.tile)

    def _coalesced(self, start):
        """Return the indices of this thread's items when neighbours are neighbours."""
        first = builder.add_nsw(start, self._place())
        return [builder.add_nsw(first, k * WARP) for k in range(self.items)]

    def _place(self):
        """Return the place in the tile of the first of these: a warp's items are its threads' neighbouring
        ones."""
        warp = thread() - self.lane
        return warp * self.items + self.lane

    def _shelf(self, first, further):
        """Return a place of the tile in shared memory, one word in 17 of which is padding against bank
        conflicts.

        Both parts are counted with padding: no carry of the one reaches the other's sixteens, so that a
        thread has one address and constants.
        """
        word = first + (first >> _ROW) + (further + further // 16)
        return [builder.gep(shelf, [word], I64) for shelf in self.shelves]

    def _across(self, k):
        """Return the place of this thread's item k when neighbours are neighbours."""
        return self._shelf(self._place(), k * WARP)

    def _items(self):
        """Return the places of this thread's neighbouring items."""
        first = thread() * self.items
        return [self._shelf(first, k) for k in range(self.items)]

    def _run_kernel(self, start):
        """The contributions of a tile to shared memory, the neutral value beyond the end."""
        rest = builder.sub_nsw(self.extra("end"), start)
        with builder.if_else(rest >= self.tile) as (whole, part):
            with whole:  # no condition, and no store before the last load: all are in flight at once
                states = [self._contribution(index) for index in self._coalesced(start)]
                for k, state in enumerate(states):
                    self._write(state, self._across(k))
                barrier_of_warp()
            with part:
                for k in range(self.items):
                    self._write(self._neutral(), self._across(k))
                barrier()
                self.code.steps(thread(), rest, self.threads, lambda k: self._one(start, k))
                barrier()

    def _one(self, start, place):
        """The contribution at a place of a tile."""
        state = self._contribution(builder.add_nsw(start, place))
        self._write(state, self._shelf(place, 0))

    def _contribution(self, index):
        """Return the kernel's result at one index."""
        return self._contributed(self.ops.lanes(index))

    def _own(self):
        """Return this thread's neighbouring items, combined."""
        return reduce(self._combined, [self._read(places) for places in self._items()])

    def _total(self, tile):
        """Compute a tile's total, and store it for other blocks."""
        self._hint(self.keeping)
        self._run_kernel(self._start(tile))
        parts = fold_block(self.ops, self._own(), self._combined, self.threads)
        with builder.if_then(self.first):
            self._leave(0, tile, reduce(self._combined, [*parts]))

    def _total_of_group(self, group):
        """Compute a group's total, by one warp, and after the section's last group the prefix before the next
        one.
        """
        section, place = self._split(group)
        (own,) = self._await(self._member(0, group))
        own = fold_warp(self.ops, own, self._combined)
        with builder.if_then(self.first):
            self._leave(1, group, own)
        with builder.if_then(self._equal(place, GROUP - 1)):
            groups, origin = self._await(self._member(1, section), self._origin(section))
            own = self._combined(origin, fold_warp(self.ops, groups, self._combined))
            with builder.if_then(self.first):
                self._leave(2, section + 1, own)

    def _prefixes(self, tile):
        """Compute a tile's prefixes, combined with the prefix before it; after the last tile that is the
        total of all.
        """
        ops = self.ops
        found = shared_words(len(self.state), "before")
        places = words_of(found, I64(0), len(self.state))
        # the first warp has stored the total meanwhile
        with builder.if_then(self._is_warp(self.threads // WARP - 1)):
            state = self._prefix_before(tile)
            with builder.if_then(self._equal(self.lane, 0)):
                self._write(state, places)
        self._hint(None)
        start = self._start(tile)
        self._run_kernel(start)
        before, total = scan_block(ops, self._own(), self._neutral(), self._combined, self.threads)
        prefix = self._read(places)
        with builder.if_then(self.first & tile.equals(self.last)):
            self.code.write_results([self._combined(prefix, total)])
        if self.outs:
            like = self._keep_prefixes(self._combined(prefix, before))
            barrier_of_warp()
            self._store(start, like)

    def _keep_prefixes(self, running):
        """Replace this thread's items by their finished prefixes, which usually have fewer words than states;
        return the last one."""
        exclusive, prefix = self.kind == "scan exclusive", ()
        for places in self._items():
            after = self._combined(running, self._read(places))
            prefix = self._finished(running if exclusive else after)
            for x, place in zip(prefix, places):
                builder.store(self.ops.get(x), place)
            running = after
        return prefix

    def _store(self, start, like):
        for k, index in enumerate(self._coalesced(start)):
            with builder.if_then(index < self.extra("end")):
                for out, x in zip(self.outs, self.code.loaded(like, self._across(k))):
                    self.code.lower.memory.store(
                        self.code.lower.make_place(), out, [self.ops.lanes(index)], x
                    )

    # ---- the prefix before a tile
    def _prefix_before(self, tile):
        """Run by one warp; its first thread receives the result. Waits for the tile's own total too: the
        block that computed it has read the tile, which may now be overwritten by its prefixes.
        """
        (group, place), lane = self._split(tile), self.lane
        section, place_of_group = self._split(group)
        tiles, groups, origin = self._await(
            self._member(0, group, place + 1),
            self._member(1, section, place_of_group),
            self._origin(section),
        )
        tiles = self._where(lane < place, tiles)
        states = [fold_warp(self.ops, state, self._combined) for state in (groups, tiles)]
        return reduce(self._combined, states, origin)

    def _split(self, number):
        """Split a number into (its group, its place in the group)."""
        return number >> (GROUP.bit_length() - 1), number & (GROUP - 1)

    def _member(self, level, group, n=GROUP):
        """Return this lane's member of a group, as `_await` takes it, if it is one of the first n."""
        lane = self.lane
        return level, group * GROUP + lane, lane < n

    def _origin(self, section):
        """Return the prefix before a section."""
        return 2, section, section > 0

    # ---- totals that tiles store for later ones
    def _halves(self):
        """Return for each number of a state how many halves of 64 bits it has."""
        return [BITS[v.dtype] // 32 for v in self.state]

    def _places(self, level, number):
        """Return the places of a state's halves: the same half of a group's members side by side, and then
        the next half, so that a thread has one address and constants."""
        n_halves = sum(self._halves())
        entries = (grid() + GROUP) & -GROUP
        entry = entries * level + number
        place = entry & (GROUP - 1)
        group = (entry - place) * n_halves
        first = builder.gep(self.words, [group + place], I64)
        return [builder.gep(first, [1 + k * GROUP], I64) for k in range(n_halves)]

    def _leave(self, level, number, state):
        """Store a state for the following tiles."""
        words = []
        for v, n_halves in zip(state, self._halves()):
            bits = builder.bitcast(self.ops.get(v), ir.IntType(32 * n_halves))
            bits = builder.zext(bits, I64) if n_halves == 1 else bits
            words += [bits << _HALF, bits & _HIGH][:n_halves]
        for place, half in zip(self._places(level, number), words):
            builder.call(_STORE, [place, half | self.mark])

    def _await(self, *wanted):
        """Return the states of (level, number, condition) each, once they are available; the neutral one
        where the condition is false.
        """
        places = [self._places(level, builder.select(there, number, 0)) for level, number, there in wanted]
        self.code.jump("ask")
        asking, answered = builder.block, builder.append_basic_block("answered")
        rows = [[builder.call(_LOAD, [place]) for place in row] for row in places]
        missing = [
            there & (word & _LOW).differs(self.mark)
            for row, (_, _, there) in zip(rows, wanted)
            for word in row
        ]
        builder.cbranch(reduce(operator.or_, missing), asking, answered)
        builder.position_at_end(answered)
        return [self._where(there, self._joined(row)) for row, (_, _, there) in zip(rows, wanted)]

    def _joined(self, words):
        """Return the state whose halves are in these words."""
        words, state = iter(words), []
        for v, n_halves in zip(self.state, self._halves()):
            bits = builder.lshr(next(words), _HALF)
            bits = builder.trunc(bits, I32) if n_halves == 1 else bits | (next(words) & _HIGH)
            state.append(Value(v.dtype, VARYING, builder.bitcast(bits, self.ops.scalar(v.dtype))))
        return state

    def _where(self, there, state):
        """Return the state, or the neutral one where the condition does not hold."""
        known = Value("bool", VARYING, there)
        return tuple(self.ops.select(known, v, n) for v, n in zip(state, self._neutral()))
