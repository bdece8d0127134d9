"""Emit loads, stores and atomics. Under a mask a dead lane accesses no memory, even if all lanes are dead."""

from functools import partial
import hashlib
import math

import numpy as np
from llvmlite import ir

from .metadata import Facts
from .atomic import atomic_step
from .lines import Number, Written, builder, pack_of_numbers
from ...language.types import LINEAR, UNIFORM, VARYING, loaded_dtype, in_parts, itemsize
from .values import F16, F32, I1, I8, I16, I32, I64, PTR, SCALAR, Value, ViewValue, suffix

_VOID = ir.VoidType()


def row_major(dtype, shape):
    """Return dtype, shape and strides in memory of a new array with known extents."""
    strides = [itemsize(dtype) * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return in_parts(dtype, list(shape), strides)


def memory_type(dtype):
    """Return the LLVM type of a number in memory."""
    return {"bool": I8, "float16": I16, "bfloat16": I16}.get(dtype) or SCALAR[dtype]


class Memory:
    """Emitter of memory accesses and their addresses, at the builder of `ops`. Methods take their place,
    `here`."""

    def __init__(self, ops, watch):
        self.ops, self.watch, self.facts, self._dummies = ops, watch, Facts(), {}
        self.hints = None  # replaces `builder` for loads and stores of single elements, to add cache hints

    def port(self, view):
        """Return the builder for loads and stores of a view's elements; a private array's stay in
        registers."""
        return builder if view.lanes_last or self.hints is None else self.hints

    def dummy(self):
        """Return the address of 64 bytes that are never read."""
        if builder.function not in self._dummies:
            with builder.goto_entry_block():
                self._dummies[builder.function] = builder.alloca(ir.ArrayType(I64, 8))
        return self._dummies[builder.function]

    # ---- new arrays
    def table(self, view):
        """Return the view of a constant table."""
        module = builder.module
        dtype, shape, strides = row_major(self.ops.strong(view.dtype), view.shape)
        data = np.array(view.data, dtype).tobytes()
        name = f"table_{hashlib.sha256(data).hexdigest()[:16]}"
        place = module.globals.get(name)
        if place is None:
            place = ir.GlobalVariable(module, ir.ArrayType(I8, len(data)), name)
            place.initializer = ir.Constant(place.value_type, bytearray(data))
            place.global_constant, place.linkage, place.align = True, "internal", 64
        return ViewValue(view.label, dtype, place, shape, strides, readonly=True, store="(table)")

    def private(self, view):
        """Return an array private to each lane."""
        dtype, shape, strides = row_major(view.dtype, view.shape)
        with builder.goto_entry_block():
            place = builder.alloca(ir.ArrayType(memory_type(dtype), math.prod(shape) * self.ops.W))
            place.align, place.type = 64, PTR
        return ViewValue(view.label, dtype, place, shape, strides, lanes_last=True, store="(local)")

    # ---- addresses
    def place(self, here, view, indices, ways):
        """Return the access pattern of lanes and the address of an element, as `_locate` does, after a call
        of the watch."""
        if ways & 2:
            self.facts.writes(view)
        locate = partial(self._locate, here, view, indices, ways < 3 and self.watch.pairs)
        return self.watch.access(here, view, indices, ways, locate)

    def _locate(self, here, view, indices, pairs):
        """Return the access pattern of lanes to an element, and the pointer: 'uniform' or 'contiguous' (the
        pointer of lane 0), 'apart' (a list with the pointer of each lane) or 'scattered' (a vector of
        pointers, for gathers and scatters); with `pairs` also 'pairs', of which each lane accesses the same
        item (the pointer of lane 0)."""
        terms, size = [*view.prefix, *zip(indices, view.strides)], itemsize(view.dtype)
        base, lane_bytes, offsets = self._offsets(view, terms)
        pointer = self.ops.advance(view.pointer, base)
        if self.ops.W == 1 or not view.lanes_last and all(v.kind == UNIFORM for v, _ in terms):
            return "uniform", pointer
        if offsets is None and lane_bytes == size:
            return "contiguous", pointer
        pairs = pairs and offsets is None and lane_bytes == 2 * size  # perhaps parts of complex numbers
        if pairs and view.shape[-1] == 2 and indices[-1].const is not None:
            return "pairs", pointer
        return self._each_lanes(here, pointer, lane_bytes, offsets)

    def _each_lanes(self, here, pointer, lane_bytes, offsets):
        """Return the access pattern and pointers of lanes that are not neighbours, as `place` does."""
        ops = self.ops
        if offsets is None and here.mask is None:
            return "apart", [ops.advance(pointer, ops.bytes_times(lane_bytes, k)) for k in range(ops.W)]
        steps = ops.bytes_times(pack_of_numbers(I64, tuple(range(ops.W))), lane_bytes)
        return "scattered", self.pointers(pointer, steps if offsets is None else ops.plus(offsets, steps))

    def _offsets(self, view, terms):
        """Return the offset of (index, stride) pairs in a view as three parts: bytes common to all lanes,
        bytes from one lane to the next, and a vector of the remainder, or None."""
        ops, base, lane_bytes, offsets = self.ops, 0, 0, None
        for v, stride in terms:
            if v.kind == UNIFORM:
                base = ops.plus(base, ops.bytes_times(ops.index_number(v), stride))
            elif v.kind == LINEAR:
                base = ops.plus(base, ops.bytes_times(v.ir, stride))
                lane_bytes = ops.plus(lane_bytes, ops.bytes_times(v.step, stride))
            elif ops.W == 1:
                base = ops.plus(base, ops.bytes_times(ops.get(v, "int"), stride))
            else:
                more = ops.bytes_times(ops.get(v, "int", VARYING), stride)
                offsets = more if offsets is None else ops.plus(offsets, more)
        if view.lanes_last and ops.W > 1:
            base, lane_bytes = ops.bytes_times(base, ops.W), lane_bytes * ops.W + itemsize(view.dtype)
            offsets = None if offsets is None else ops.bytes_times(offsets, ops.W)
        return base, lane_bytes, offsets

    def pointers(self, pointer, offsets):
        """Return a vector of pointers at offsets from a pointer."""
        ops = self.ops
        start = ops.splat(builder.ptrtoint(pointer, I64))
        if offsets.type != ir.VectorType(I64, ops.W):
            return start
        return builder.inttoptr(start + offsets, ir.VectorType(PTR, ops.W))

    def _guarded(self, here, pointer):
        """Return the pointer, or that of a dummy if no lane is live."""
        if here.mask is None or here.alive or self.ops.W == 1:
            return pointer
        return builder.select(self.ops.any_lane(here.mask), pointer, self.dummy())

    def _row_pointer(self, here, pointer, view, indices):
        """Return the pointer of a pack's row. A private array may be accessed under any mask if its indices
        are known.

        An unmasked load, a select and an unmasked store can stay in registers; a masked store can neither do
        so nor be read back soon.
        """
        known = all(v.const is not None for v, _ in [*view.prefix, *zip(indices, view.strides)])
        return pointer if known else self._guarded(here, pointer)

    # ---- loads
    def load(self, here, view, indices):
        """Return the number at an element, for each lane if any index varies."""
        dtype, x = view.dtype, self._fetched(here, view, indices)
        if dtype == "bool":
            x = x.differs(0)
        mixed = any(v.kind != UNIFORM for v in indices) or view.prefix or view.lanes_last
        return Value(loaded_dtype(dtype), VARYING if mixed else UNIFORM, self._loaded(x, dtype))

    def _fetched(self, here, view, indices):
        """Return an element loaded from memory: one for all lanes, or a vector."""
        how, pointer = self.place(here, view, indices, 1)
        element, align = memory_type(view.dtype), itemsize(view.dtype)
        vector, note = ir.VectorType(element, self.ops.W), partial(self.facts.note, view)
        if how == "uniform":
            return note(self.port(view).load(self._guarded(here, pointer), element, align=align))
        if how == "apart":
            return self._load_each(view, pointer, vector, align)
        if how == "pairs":
            return self._load_of_pairs(here, pointer, element, align, int(indices[-1].const))
        if how == "contiguous" and (here.mask is None or view.lanes_last):
            return note(builder.load(self._row_pointer(here, pointer, view, indices), vector, align=align))
        if here.mask is None:
            return self._gathered(here, indices, pointer, vector, align)
        what = "load" if how == "contiguous" else "gather"
        return self._masked_load(here, what, pointer, vector, align, here.mask)

    def _gathered(self, here, indices, pointers, vector, size):
        """Return a vector by a gather, or by one load if the elements turn out to be consecutive."""
        ops, gathered = self.ops, partial(self._masked_load, here, "gather", pointers, vector, size, None)
        if all(v.likely != 1 for v in indices):
            return gathered()
        first, steps = ops.lane(pointers, 0), pack_of_numbers(I64, tuple(range(0, size * ops.W, size)))
        consecutive = ops.all_lanes(pointers.equals(self.pointers(first, steps)))
        return ops.chosen(consecutive, partial(builder.load, first, vector, align=size), gathered)

    def _load_each(self, view, places, vector, align):
        """Return a vector loaded by one load for each lane."""
        x = ir.Constant(vector, ir.Undefined)
        for k, place in enumerate(places):
            one = self.facts.note(view, builder.load(place, vector.element, align=align))
            x = builder.insert_element(x, one, I32(k))
        return x

    def _masked_load(self, here, what, pointer, vector, align, mask):
        """Return a vector by a masked load or gather, 0 where the mask is not set."""
        ops, zero = self.ops, ir.Constant(vector, None)
        if self._one_by_one(here, what, vector):
            if not here.tail:
                tail = partial(
                    self._masked_load, here._replace(tail=True), what, pointer, vector, align, mask
                )
                return ops.chosen(ops.any_lane(mask), tail, lambda: zero)
            places = self._all_places(here, pointer, align)
            x = self._masked_load(here._replace(mask=None), "gather", places, vector, align, None)
            return builder.select(mask, x, zero)
        mask = mask or ops.target.whole_mask(ops)
        return builder.call_named(self._masked_name(what, vector), [pointer, I32(align), mask, zero], vector)

    def _one_by_one(self, here, what, vector):
        """Return True if a masked access is emitted lane by lane without branches, where LLVM would emit a
        branch for each lane: in a range's last pack, and elsewhere for small numbers, if a lane is live. (For
        other accesses, with possibly few live lanes, branches take no longer, and less time in loops.)"""
        small = not here.alive and vector.element in (I8, I16)
        which = here.mask is not None and vector.count == self.ops.W and (here.tail or small)
        return which and self.ops.target.branches(what, vector.element)

    def _all_places(self, here, pointer, size):
        """Return each lane's address, or a dummy's where the mask is not set."""
        if pointer.type == PTR:
            _, pointer = self._each_lanes(here, pointer, size, None)
        return builder.select(here.mask, pointer, self.ops.splat(self.dummy()))

    def _load_of_pairs(self, here, pointer, element, align, k):
        """Return the k-th number of each lane's pair, by one load of all pairs."""
        ops = self.ops
        vector, first = ir.VectorType(element, 2 * ops.W), ops.advance(pointer, -k * align)
        if here.mask is None:
            both = builder.load(first, vector, align=align)
        else:
            both = self._masked_load(here, "load", first, vector, align, self._doubled(here.mask))
        return self._shuffled(both, range(k, vector.count, 2))

    def _loaded(self, x, dtype):
        """Return a loaded value as a number."""
        ops = self.ops
        if dtype == "bfloat16":  # the upper half of a float32
            return builder.bitcast(builder.zext(x, ops.shaped(I32, x)) << 16, ops.shaped(F32, x))
        x = builder.bitcast(x, ops.shaped(F16, x)) if dtype == "float16" else x
        return ops.convert(x, dtype, loaded_dtype(dtype))

    def _stored(self, value, dtype, kind=None):
        """Return a value in the form for memory: a float16 or bfloat16 is converted by way of float32, to the
        nearest, half to even."""
        ops = self.ops
        if dtype not in ("float16", "bfloat16"):
            x = ops.get(value, dtype, kind)
            return builder.zext(x, ops.shaped(I8, x)) if dtype == "bool" else x
        x = ops.get(value, "float32", kind)
        if dtype == "float16":
            return builder.bitcast(ops.convert(x, "float32", dtype), ops.shaped(I16, x))
        bits = builder.bitcast(x, ops.shaped(I32, x))
        upper = builder.lshr(bits, 16)
        rounded = builder.lshr(bits + 0x7FFF + (upper & 1), 16)
        nan = (upper & 0x8000) | 0x7FC0
        bits = builder.select(builder.fcmp_unordered("uno", x, x), nan, rounded)
        return builder.trunc(bits, ops.shaped(I16, x))

    def _masked_name(self, what, vector):
        places = "p0" if what in ("load", "store") else f"v{self.ops.W}p0"
        return f"llvm.masked.{what}.{suffix(vector)}.{places}"

    def _shuffled(self, x, order):
        """Return the elements of a vector in this order."""
        return builder.shuffle_vector(x, Written(x.type, "undef"), pack_of_numbers(I32, tuple(order)))

    def _doubled(self, x):
        """Return a vector with each element twice."""
        return self._shuffled(x, [k // 2 for k in range(2 * self.ops.W)])

    # ---- stores
    def store(self, here, view, indices, value):
        """Emit the store of a number to an element, for the live lanes."""
        how, pointer = self.place(here, view, indices, 2)
        dtype, align = view.dtype, itemsize(view.dtype)
        if how == "uniform" and (self.ops.W == 1 or value.kind == UNIFORM):
            x = self._stored(value, dtype)
            self.facts.note(view, self.port(view).store(x, self._guarded(here, pointer), align=align))
            return
        x = self._stored(value, dtype, VARYING)
        if how == "contiguous" and (here.mask is None or view.lanes_last):
            pointer = self._row_pointer(here, pointer, view, indices)
            if here.mask is not None:  # dead lanes keep their old values
                x = builder.select(here.mask, x, builder.load(pointer, x.type, align=align))
            self.facts.note(view, builder.store(x, pointer, align=align))
        elif how == "pairs":
            self._store_of_pairs(here, x, pointer, align, int(indices[-1].const))
        else:
            self._store_each(here, view, x, how, pointer, align)

    def _store_each(self, here, view, x, how, pointer, align):
        """Emit a store for each live lane."""
        if how == "apart":
            for k, place in enumerate(pointer):
                self.facts.note(view, builder.store(self.ops.lane(x, k), place, align=align))
            return
        if how == "uniform":  # the last live lane's value remains, as in a loop over the lanes
            pointer = self.pointers(pointer, self.ops.full(I64, 0))
        what = "store" if how == "contiguous" else "scatter"
        self._masked_store(here, what, x, pointer, align, here.mask)

    def _masked_store(self, here, what, x, pointer, align, mask):
        """Emit a masked store or scatter of a vector."""
        if self._one_by_one(here, what, x.type):
            if not here.tail:
                with builder.if_then(self.ops.any_lane(mask)):
                    self._masked_store(here._replace(tail=True), what, x, pointer, align, mask)
                return
            what, pointer, mask = "scatter", self._all_places(here, pointer, align), None
        args = [x, pointer, I32(align), mask or self.ops.target.whole_mask(self.ops)]
        builder.call_named(self._masked_name(what, x.type), args, _VOID)

    def _store_of_pairs(self, here, x, pointer, align, k):
        """Emit a store of each lane's number as the k-th of its pair."""
        ops, x = self.ops, self._doubled(x)
        mask = Number(ir.VectorType(I1, 2 * ops.W), [j % 2 == k for j in range(2 * ops.W)])
        if here.mask is not None:
            mask = mask & self._doubled(here.mask)
        self._masked_store(here, "store", x, ops.advance(pointer, -k * align), align, mask)

    # ---- atomics
    def atomic(self, here, op, view, indices, value, expected=None, want_old=True):
        """Emit one atomic operation for each live lane, in the order of lanes; return the old values, or None
        if `want_old` is False."""
        ops, dtype = self.ops, view.dtype
        how, pointer = self.place(here, view, indices, 3)
        if ops.W == 1:
            numbers = (v and ops.get(v, dtype) for v in (value, expected))
            return Value(dtype, VARYING, atomic_step(ops, op, pointer, *numbers, view, want_old))
        values = [v and ops.get(v, dtype, VARYING) for v in (value, expected)]
        kind = values[0].type
        slot = ops.slot(kind) if want_old else None
        for k in range(ops.W):
            with builder.if_then(I1(1) if here.mask is None else ops.lane(here.mask, k)):
                place = self._lane_pointer(how, pointer, k, view, indices)
                old = atomic_step(ops, op, place, *(v and ops.lane(v, k) for v in values), view, want_old)
                if want_old:
                    self._put(slot, kind, k, old)
        return Value(dtype, VARYING, builder.load(slot, kind)) if want_old else None

    def _put(self, slot, kind, k, x):
        """Emit a store of lane k's number into the pack in a slot."""
        builder.store(builder.insert_element(builder.load(slot, kind), x, I32(k)), slot)

    def _lane_pointer(self, how, pointer, k, view, indices):
        ops = self.ops
        if how == "uniform":
            return pointer
        if how == "contiguous":
            return ops.advance(pointer, k * itemsize(view.dtype))
        if how == "apart" or view.lanes_last:
            return pointer[k] if how == "apart" else ops.lane(pointer, k)
        # Computed for one lane: LLVM then loads an index instead of unpacking a pack of addresses.
        place = view.pointer
        for v, stride in [*view.prefix, *zip(indices, view.strides)]:
            place = ops.advance(place, ops.bytes_times(self._index_of_lane(v, k), stride))
        return place

    def _index_of_lane(self, v, k):
        """Return lane k's index as a Python integer or an i64."""
        ops = self.ops
        if v.kind == VARYING:
            v = Value(v.dtype, UNIFORM, ops.lane(v.ir, k))
        index = ops.index_number(v) if v.kind == UNIFORM else v.ir
        return ops.plus(index, k * v.step)
