"""Texts being emitted: the kernel and what it inlines, their variables, and the regions in which lanes live together.

Types and emission are one pass. A variable's dtype and kind are the join of all that is assigned to it; since an
assignment may come after a use (in a loop), the whole text is emitted again with the joins learned so far until nothing
changes. `Facts` carries what was learned between these runs.

A REGION is a stretch of text whose lanes are live together: the kernel's body, one branch of a varying `if`, the body of a
varying loop. A variable assigned in the region where its life began needs no care for other lanes; assigned in an inner
region it is blended with its old value and varies between lanes.
"""

from __future__ import annotations

import ast
import math
from contextlib import contextmanager

from llvmlite import ir

from ..errors import LanguageError
from . import types as t
from .calls import Calls
from .memory import itemsize
from .types import UNIFORM, VARYING
from .values import I1, I64, PTR, Value, ViewValue


_MOST_PRIVATE = 1 << 15  # bytes of one index's own arrays: those of some packs lie on a thread's stack at once


class Facts(dict):
    """What the emission learned about variables, loops and returns; `changed` asks for another run."""

    changed = False

    def learn(self, key, value):
        if self.get(key) != value:
            self[key] = value
            self.changed = True


class Frame:
    """One text being emitted: the kernel, or a function inlined at one call."""

    def __init__(self, text, path, region, caller):
        self.text, self.path, self.region, self.caller = text, path, region, caller
        self.direct, self.slots, self.homes, self.loops = {}, {}, {(): region}, []
        self.exit_block = self.active = self.result = None
        self.returns = 0


class Frames(Calls):
    """Emits kernel texts at the builder's position.

    Parameters
    ----------
    target : the machine: `fast_math`, its own forms of elementary functions; `step`, how far apart a pack's indices lie;
        `straight`, whether it has packs for straight text alone
    width : lanes of a pack; 1 for code whose lanes are threads, or scalar code
    """

    def __init__(self, target, width, float_dtype, fastmath, facts, kernel_name):
        super().__init__(width, float_dtype, fastmath, target.step)
        self.target, self.facts, self.fastmath, self.kernel_name = target, facts, fastmath, kernel_name
        self.frame = self.mask = None
        self.accesses, self.line = set(), ""
        self.alive, self.divergent, self.dead, self.result_unused = True, False, False, None
        self.region, self.unrolled, self.depth, self._dummy = object(), 1, 0, None

    def begin(self, builder, mask=None):
        """Emit what follows with this builder; slots belong to its function."""
        self.b, self.mask, self.alive, self.divergent = builder, mask, True, False
        self.region, self._dummy = object(), None

    def begin_pack(self, mask):
        """Emit the next pack of lanes: a region of its own, live under `mask`."""
        self.region, self.mask, self.alive, self.divergent, self.dead, self.depth = object(), mask, True, False, False, 0
        self.private_bytes = 0

    def diverges(self):
        """Note that lanes may part here, or meet again: not for packs that are only more loads in flight."""
        if self.W > 1 and self.target.straight:
            self.facts.setdefault("scalar", "the text has conditions or loops")

    # ---- storage
    def slot(self, llvm_type):
        with self.b.goto_entry_block():
            place = self.b.alloca(llvm_type)
            self.b.store(ir.Constant(llvm_type, None), place)
        return place

    def dummy(self):
        """A place of 64 bytes that nobody reads."""
        if self._dummy is None:
            with self.b.goto_entry_block():
                self._dummy = self.b.alloca(ir.ArrayType(I64, 8))
        return self._dummy

    def private_array(self, shape, dtype, node):
        """An array private to each lane: the lane is the last, contiguous index."""
        element = self.memory_type(dtype)
        self.private_bytes += math.prod(shape) * itemsize(dtype)
        if self.private_bytes > _MOST_PRIVATE:
            self.fail(node, f"`{ast.unparse(node)}`: arrays of {self.private_bytes} bytes for each index; at most {_MOST_PRIVATE} are possible")
        with self.b.goto_entry_block():
            place = self.b.alloca(ir.ArrayType(element, math.prod(shape) * self.W))
            place.align, place.type = 64, PTR
        strides, step = [], itemsize(dtype)
        for extent in reversed(shape):
            strides.insert(0, step)
            step *= extent
        return ViewValue(ast.unparse(node), dtype, place, list(shape), strides, lanes_last=True, store="(local)")

    # ---- inlining
    def inline(self, text, args, node=None):
        """The value of a text at this place: a Value, a tuple of Values, or None."""
        frame = self.frame
        while frame is not None:
            if frame.text is text:
                self.fail(node, f"'{text.name}' calls itself; recursion is not for kernels", LanguageError)
            frame = frame.caller
        outer, line = (self.frame, self.mask, self.alive, self.divergent, self.dead, self.depth), self.line
        path = (self.frame.path if self.frame else ()) + (node if isinstance(node, str) else id(node),)
        self.frame = Frame(text, path, self.region, self.frame)
        for name, value in zip(text.params, map(rounded, args)):
            if text.webs[name].direct:
                self.frame.direct[name] = value
            else:
                self.assign(name, value, text.tree)
        result = self._body()
        self.frame, self.mask, self.alive, self.divergent, self.dead, self.depth = outer
        self.line = line
        return rounded(result)

    def _body(self):
        frame = self.frame
        if frame.text.single_return:
            self.block(frame.text.tree.body)
            return frame.result
        frame.exit_block = self.b.append_basic_block("exit")
        if self.W > 1 and self.facts.get((frame.path, "varying return")):
            frame.active = self.slot(ir.VectorType(I1, self.W))
            self.b.store(self.mask_value(self.mask), frame.active)
        self.block(frame.text.tree.body)
        if not self.dead:
            self.b.branch(frame.exit_block)
        self.b.position_at_end(frame.exit_block)
        if not frame.returns:
            return None
        values = (self._read_slot((frame.path, "result", k)) for k in range(frame.returns))
        return _arranged(frame.result, values)

    # ---- variables
    def read(self, name, node):
        if name in self.frame.direct:
            return self.frame.direct[name]
        key = (self.frame.path, name)
        if key not in self.frame.slots:
            self.fail(node, f"'{name.partition('@')[0]}' is used before it is assigned", LanguageError)
        return self._read_slot(key)

    def _read_slot(self, key):
        dtype, kind, place = self.frame.slots[key]
        place = next((loop.free[key] for loop in reversed(self.frame.loops) if key in loop.free), place)
        return Value(dtype, kind, self.b.load(place, typ=self.type_of(dtype, kind)))

    def assign(self, name, value, node):
        web = self.frame.text.webs[name]
        if web.direct:
            self.frame.direct[name] = value
            return
        if not isinstance(value, Value):
            self.fail(node, f"'{name.partition('@')[0]}' holds {self.describe(value)} here and is assigned elsewhere too; "
                            "give it a name of its own")
        home = self.frame.homes.get(web.block)
        self._write_slot((self.frame.path, name), value, self.region is not home, node)

    def _write_slot(self, key, value, inner, node):
        """Write a variable; `inner`: only the live lanes of an inner region may change it."""
        kind = VARYING if inner else UNIFORM if value.kind == UNIFORM else VARYING
        dtype = value.dtype
        if key in self.facts:
            old_dtype, old_kind = self.facts[key]
            try:
                dtype = t.promote(old_dtype, dtype)
            except t.TypeClash as clash:
                self.fail(node, f"'{key[1].partition('@')[0]}' holds values of two dtypes: {clash}")
            kind = UNIFORM if old_kind == kind == UNIFORM else VARYING
            self.facts.learn(key, (dtype, kind))
        else:
            self.facts[key] = (dtype, kind)
        if key not in self.frame.slots:
            self.frame.slots[key] = (dtype, kind, self.slot(self.type_of(dtype, kind)))
        dtype, kind, place = self.frame.slots[key]
        if kind == UNIFORM and value.kind != UNIFORM and self.W > 1:  # an emission that will be repeated
            value = Value(dtype, UNIFORM, ir.Constant(self.scalar(dtype), None))
        x = self.get(value, dtype, kind)
        blended = inner and kind == VARYING and self.W > 1 and self.mask is not None
        loop = self.frame.loops[-1] if self.frame.loops else None
        own = loop is not None and self.region is loop.region
        if blended and own and len(key) == 2 and key[1] in loop.deciding and key not in self.facts.get((loop.key, "free"), ()):
            self.facts.learn((loop.key, "free"), (*self.facts.get((loop.key, "free"), ()), key))
        for target in (place, *(outer.free[key] for outer in self.frame.loops if key in outer.free)):
            keeps = blended and not (own and target is loop.free.get(key))
            self.b.store(self.b.select(self.mask, x, self.b.load(target, typ=x.type)) if keeps else x, target)

    def free_copies(self, loop):
        """Copies, for a loop about to begin, of the variables that it assigns for all of its lanes together.

        A lane that has continued early waits for the others with its values: there are no free copies then.
        """
        if self.facts.get((loop.key, "varying continue")):
            return
        for key in self.facts.get((loop.key, "free"), ()):
            dtype, kind, _ = self.frame.slots.get(key, (None, UNIFORM, None))
            if kind == VARYING:
                copy = self.slot(self.type_of(dtype, kind))
                self.b.store(self._read_slot(key).ir, copy)
                loop.free[key] = copy

    # ---- memory in loops
    @contextmanager
    def before_the_loop(self, view, indices):
        """Emit a load before the loop whose lanes all do it in each trip, if the loop neither changes nor moves its place."""
        loop = self.frame.loops[-1] if self.frame.loops else None
        numbers = [view.pointer, *view.strides, *(n for v, stride in view.prefix for n in (v.ir, stride)), *(v.ir for v in indices)]
        if (loop is None or loop.trip is None or self.mask is not loop.trip or self.region is not loop.region
                or self.facts.get((loop.key, "writes"))
                or any(isinstance(n, ir.Instruction) and n.parent not in loop.before for n in numbers)):
            yield
            return
        mask, self.mask = self.mask, loop.first
        with self.b.goto_block(loop.entry):
            yield
        self.mask = mask

    def writes(self):
        """Note for all loops around this place that memory changes in them."""
        frame = self.frame
        while frame is not None and self.W > 1:
            for loop in frame.loops:
                self.facts.learn((loop.key, "writes"), True)
            frame = frame.caller

    # ---- regions
    @contextmanager
    def inner_region(self, mask, alive):
        outer = self.region, self.mask, self.alive, self.divergent
        self.region, self.mask, self.alive, self.divergent = object(), mask, alive, True
        yield
        self.region, self.mask, self.alive, self.divergent = outer

    @contextmanager
    def parted(self):
        """Emit text that only some lanes may reach at a time: no collective stands here."""
        outer, self.divergent = self.divergent, True
        yield
        self.divergent = outer

    @contextmanager
    def meeting_behind(self, may_return):
        """Emit a loop. Lanes that leave it one by one meet again behind it, but for those that return from inside."""
        outer = self.divergent
        yield
        self.divergent = outer
        if may_return:
            self.note_exits()

    def note_exits(self):
        """Note whether some of the lanes that began this trip of a loop, or this text, may be gone."""
        place = self.frame.loops[-1].key if self.frame.loops else self.frame.path
        if self.facts.get((place, "varying exit" if self.frame.loops else "varying return")):
            self.divergent = True

    def refresh_mask(self):
        """After a statement in which lanes may have left: the mask of those that are still here."""
        frame = self.frame
        loop = frame.loops[-1] if frame.loops else None
        self.note_exits()
        place = loop.current if loop is not None else frame.active
        if place is None or self.W == 1:
            return
        live = self.b.load(place, typ=ir.VectorType(I1, self.W))
        self.mask = live if self.mask is None else self.b.and_(self.mask, live)
        self.alive = False
        if self.region is frame.region:  # nothing left to do for a pack whose lanes have all returned
            more = self.b.append_basic_block("more")
            self.b.cbranch(self.any_lane(self.mask), more, frame.exit_block)
            self.b.position_at_end(more)
            self.alive = True


def rounded(values):
    """What crosses the end of a function, which has one value whoever calls it: a product is a number like any other."""
    if isinstance(values, tuple):
        return tuple(map(rounded, values))
    return Value(values.dtype, values.kind, values.ir) if isinstance(values, Value) and values.factors else values


def flat(values):
    """The numbers in a number or a tuple of (tuples of) numbers."""
    return [n for v in values for n in flat(v)] if isinstance(values, tuple) else [values]


def arrangement(values):
    """How `flat` numbers were arranged: None for a number, a tuple for a tuple."""
    return tuple(arrangement(v) for v in values) if isinstance(values, tuple) else None


def _arranged(like, numbers):
    return next(numbers) if like is None else tuple(_arranged(part, numbers) for part in like)
