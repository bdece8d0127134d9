"""Loads, stores and atomics. Under a mask a dead lane touches no memory, also where all lanes are dead."""

from __future__ import annotations

import functools
import math

from llvmlite import ir

from ...language import types as t
from .atomic import AtomicSteps
from .lines import pack_of_numbers
from ...language.types import LINEAR, UNIFORM, VARYING, in_parts, itemsize
from .values import F16, F32, I1, I8, I16, I32, I64, PTR, SCALAR, Value, ViewValue

_VOID = ir.VoidType()


def row_major(dtype, shape):
    """dtype, shape and strides in memory of a new array whose extents are known."""
    strides = [itemsize(dtype) * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return in_parts(dtype, list(shape), strides)


def _one_of_two(view, index):
    """Whether the last index of a view is the known one of two, as that of a complex number's part is."""
    return isinstance(view.shape[-1], int) and view.shape[-1] == 2 and index.const is not None


class Memory(AtomicSteps):
    """Needs from the class on top: `mask` (None or a vector of bools), `alive` (some lane is known to be
    live), `tail` (the pack is a range's last one), `slot`, `dummy`, `before_the_loop`."""

    hints = None  # what loads and stores single elements of views as `b` does, and tells caches more

    def port(self, view):
        """What loads and stores an element of a view: a private array's stays in registers."""
        return self.b if view.lanes_last or self.hints is None else self.hints

    # ---- addresses
    def bytes_times(self, index, stride):
        """index * stride as an i64 (or a vector of them); both LLVM or Python integers."""
        if isinstance(index, int) and isinstance(stride, int):
            return index * stride
        if isinstance(index, int):
            index, stride = stride, index
        if isinstance(stride, int):
            if stride == 1:
                return index
            stride = self._alike(index, stride)
        elif isinstance(index.type, ir.VectorType) and not isinstance(stride.type, ir.VectorType):
            stride = self.splat(stride)
        return self.b.mul(index, stride, flags=("nsw",))

    def plus(self, a, b):
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int):
            a, b = b, a
        if isinstance(b, int):
            if b == 0:
                return a
            b = self._alike(a, b)
        return self.b.add(a, b, flags=("nsw",))

    def smaller(self, a, b):
        return self._extreme(min, "llvm.smin.i64", a, b)

    def larger(self, a, b):
        return self._extreme(max, "llvm.smax.i64", a, b)

    def _extreme(self, choose, intrinsic, a, b):
        """One of two signed integers, LLVM's or Python's."""
        if isinstance(a, int) and isinstance(b, int):
            return choose(a, b)
        return self.call(intrinsic, [I64(v) if isinstance(v, int) else v for v in (a, b)], I64)

    def index_number(self, v):
        """A uniform index as a Python int or an i64."""
        return int(v.const) if v.const is not None else self.get(v, "int", UNIFORM)

    def advance(self, pointer, offset):
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            offset = I64(offset)
        return self.b.gep(pointer, [offset], inbounds=True, source_etype=I8)

    def locate(self, view, indices, pairs=False):
        """How lanes reach an element, and where: 'uniform' or 'contiguous' (the pointer, of lane 0), 'apart'
        (all lanes' in a list) or 'scattered' (a vector of pointers, for gathers and scatters); if it is asked
        for, 'pairs' of which each lane wants the same one (the pointer of lane 0's)."""
        terms, size = [*view.prefix, *zip(indices, view.strides)], itemsize(view.dtype)
        base, lane_bytes, offsets = self._place(view, terms)
        pointer = self.advance(view.pointer, base)
        if self.W == 1 or not view.lanes_last and all(v.kind == UNIFORM for v, _ in terms):
            how, remark = "uniform", self._reach(terms, size)
        elif offsets is None and lane_bytes == size:
            how = remark = "contiguous"
        elif pairs and offsets is None and lane_bytes == 2 * size and _one_of_two(view, indices[-1]):
            how, remark = "pairs", "contiguous"
        else:
            remark = self._reach(terms, size)
            how, pointer = self._each_lanes(pointer, lane_bytes, offsets)
        self.accesses.add((self.line, view.label, remark))  # for `pk.explain`
        return how, pointer

    def _each_lanes(self, pointer, lane_bytes, offsets):
        """The places of lanes that are no neighbours, as `locate` gives them."""
        if offsets is None and self.mask is None:
            return "apart", [self.advance(pointer, lane_bytes * k) for k in range(self.W)]
        steps = pack_of_numbers(I64, tuple(lane_bytes * k for k in range(self.W)))
        offsets = steps if offsets is None else self.plus(offsets, steps) if lane_bytes else offsets
        return "scattered", self._pointers(pointer, offsets)

    def _place(self, view, terms):
        """Where (index, stride) pairs lead in a view: bytes that all lanes share, bytes from one lane to the
        next, and a vector of what else differs, or None."""
        base, lane_bytes, offsets = 0, 0, None
        for v, stride in terms:
            if v.kind == UNIFORM:
                base = self.plus(base, self.bytes_times(self.index_number(v), stride))
            elif v.kind == LINEAR and isinstance(stride, int):
                base = self.plus(base, self.bytes_times(v.ir, stride))
                lane_bytes += v.step * stride
            elif self.W == 1:
                base = self.plus(base, self.bytes_times(self.get(v, "int"), stride))
            else:
                more = self.bytes_times(self.get(v, "int", VARYING), stride)
                offsets = more if offsets is None else self.plus(offsets, more)
        if view.lanes_last and self.W > 1:
            base, lane_bytes = self.bytes_times(base, self.W), lane_bytes * self.W + itemsize(view.dtype)
            offsets = None if offsets is None else self.bytes_times(offsets, self.W)
        return base, lane_bytes, offsets

    def _reach(self, terms, size):
        """How neighbouring lanes reach elements: side by side where one index alone differs and counts by
        one."""
        apart = [(v.step, stride) for v, stride in terms if v.kind != UNIFORM]
        if not apart:
            return "uniform"
        return "contiguous" if apart == [(self.step, size)] else "strided or gathered"

    def _pointers(self, pointer, offsets):
        vector = ir.VectorType(I64, self.W)
        start = self.splat(self.b.ptrtoint(pointer, I64))
        return (
            self.b.inttoptr(self.b.add(start, offsets), ir.VectorType(PTR, self.W))
            if offsets.type == vector
            else start
        )

    def guarded(self, pointer):
        """The pointer, or that of a dummy where no lane is live."""
        if self.mask is None or self.alive:
            return pointer
        return self.b.select(self.any_lane(self.mask), pointer, self.dummy())

    def own(self, pointer, view, indices):
        """The pointer of a pack's row. That of a private array may be touched whatever the mask, if its place
        is known.

        A whole load, a select and a whole store can stay in registers, where a masked store cannot, nor be
        read back soon.
        """
        known = all(v.const is not None for v, _ in [*view.prefix, *zip(indices, view.strides)])
        return pointer if known else self.guarded(pointer)

    # ---- loads
    def memory_type(self, dtype):
        return {"bool": I8, "float16": I16, "bfloat16": I16}.get(dtype) or SCALAR[dtype]

    def load(self, view, indices):
        with self.before_the_loop(view, indices):
            return self._load(view, indices)

    def _load(self, view, indices):
        dtype, x = view.dtype, self._fetched(view, indices)
        if dtype == "bool":
            x = self.b.icmp_unsigned("!=", x, self._alike(x, 0))
        mixed = any(v.kind != UNIFORM for v in indices) or view.prefix or view.lanes_last
        return Value(t.held(dtype), VARYING if mixed else UNIFORM, self._held(x, dtype))

    def _fetched(self, view, indices):
        """What lies in memory at an element: one for all lanes, or a vector."""
        how, pointer = self.locate(view, indices, pairs=True)
        element, align = self.memory_type(view.dtype), itemsize(view.dtype)
        vector = ir.VectorType(element, self.W)
        if how == "uniform":
            pointer = pointer if self.W == 1 else self.guarded(pointer)
            return self.port(view).load(pointer, align=align, typ=element)
        if how == "apart":
            x = ir.Constant(vector, ir.Undefined)
            for k, place in enumerate(pointer):
                one = self.b.load(place, align=align, typ=element)
                x = self.b.insert_element(x, one, I32(k))
            return x
        if how == "pairs":
            return self._load_of_pairs(pointer, element, align, int(indices[-1].const))
        if how == "contiguous" and (self.mask is None or view.lanes_last):
            return self.b.load(self.own(pointer, view, indices), align=align, typ=vector)
        what = "load" if how == "contiguous" else "gather"
        return self._masked_load(what, pointer, vector, align, self.mask_value(self.mask))

    def _masked_load(self, what, pointer, vector, align, mask):
        """A load or gather of a vector, 0 where the mask is not set."""
        zero = ir.Constant(vector, None)
        if self._one_by_one(what, vector):
            if not self.tail:
                numbers = functools.partial(Value, f"int{8 * align}", VARYING)
                with self.under(tail=True):
                    return self.branch_value(
                        Value("bool", UNIFORM, self.any_lane(mask)),
                        lambda: numbers(self._masked_load(what, pointer, vector, align, mask)),
                        lambda: numbers(zero),
                    ).ir
            what, pointer, mask = "gather", *self._all_places(pointer, align, self._zero())
        return self.call(self._masked_name(what, vector), [pointer, I32(align), mask, zero], vector)

    def _one_by_one(self, what, vector):
        """Whether a masked access goes lane by lane, without branches, where LLVM would make one of each
        lane: in a range's last pack, and elsewhere of small numbers, if a lane is live. (Others, of which few
        lanes may be left, are as quick with branches, and quicker in loops.)"""
        small = not self.alive and vector.element in (I8, I16)
        which = self.mask is not None and vector.count == self.W and (self.tail or small)
        return which and self.target.branches(what, vector.element)

    def _all_places(self, pointer, size, other):
        """Each lane's address, or another one where the mask is not set; and the mask of all lanes."""
        if pointer.type == PTR:
            _, pointer = self._each_lanes(pointer, size, None)
        return self.b.select(self.mask, pointer, self.splat(other)), self.mask_value(None)

    def _zero(self):
        """The address of a 0 of 64 bits."""
        module, name = self.b.module, "portable_zero"
        zero = module.globals.get(name) or ir.GlobalVariable(module, I64, name)
        zero.linkage, zero.initializer = "internal", I64(0)
        return zero

    def _load_of_pairs(self, pointer, element, align, k):
        """The k-th of each lane's two neighbours, by one load of them all."""
        vector, first = ir.VectorType(element, 2 * self.W), self.advance(pointer, -k * align)
        if self.mask is None:
            both = self.b.load(first, align=align, typ=vector)
        else:
            both = self._masked_load("load", first, vector, align, self._doubled(self.mask))
        return self._shuffled(both, range(k, vector.count, 2))

    def _held(self, x, dtype):
        """What was loaded as a number."""
        b = self.b
        if dtype == "bfloat16":  # the upper half of a float32
            bits = b.shl(b.zext(x, self._shaped(I32, x)), self._alike_bits(x, 16))
            return b.bitcast(bits, self._shaped(F32, x))
        x = b.bitcast(x, self._shaped(F16, x)) if dtype == "float16" else x
        return self._convert(x, dtype, t.held(dtype))

    def stored(self, value, dtype, kind=None):
        """What an element of memory becomes: a float16 or bfloat16 by way of a float32, to the nearest,
        half to even."""
        if dtype not in ("float16", "bfloat16"):
            return self.get(value, dtype, kind)
        b, x = self.b, self.get(value, "float32", kind)
        if dtype == "float16":
            return b.bitcast(self._convert(x, "float32", dtype), self._shaped(I16, x))
        number = functools.partial(self._alike_bits, x)
        bits = b.bitcast(x, self._shaped(I32, x))
        upper = b.lshr(bits, number(16))
        rounded = b.lshr(b.add(b.add(bits, number(0x7FFF)), b.and_(upper, number(1))), number(16))
        nan = b.or_(b.and_(upper, number(0x8000)), number(0x7FC0))
        bits = b.select(b.fcmp_unordered("uno", x, x), nan, rounded)
        return b.trunc(bits, self._shaped(I16, x))

    def _alike_bits(self, x, number):
        """An i32 in the shape of an LLVM value."""
        return self.full(I32, number) if isinstance(x.type, ir.VectorType) else I32(number)

    def _masked_name(self, what, vector):
        element = vector.element
        suffix = f"v{vector.count}" + {"float": "f32", "double": "f64"}.get(str(element), str(element))
        return f"llvm.masked.{what}.{suffix}." + ("p0" if what in ("load", "store") else f"v{self.W}p0")

    def _shuffled(self, x, order):
        """The elements of a vector in this order."""
        return self.b.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), pack_of_numbers(I32, tuple(order)))

    def _doubled(self, x):
        """A vector with each element twice."""
        return self._shuffled(x, [k // 2 for k in range(2 * self.W)])

    # ---- stores
    def store(self, view, indices, value):
        how, pointer = self.locate(view, indices, pairs=True)
        dtype, align = view.dtype, itemsize(view.dtype)
        if how == "uniform" and (self.W == 1 or value.kind == UNIFORM):
            x = self.stored(value, dtype)
            pointer = pointer if self.W == 1 else self.guarded(pointer)
            self.port(view).store(self.b.zext(x, I8) if dtype == "bool" else x, pointer, align=align)
            return
        x = self.stored(value, dtype, VARYING)
        if dtype == "bool":
            x = self.b.zext(x, ir.VectorType(I8, self.W))
        if how == "contiguous" and (self.mask is None or view.lanes_last):
            self._store_row(x, self.own(pointer, view, indices), align)
        elif how == "pairs":
            self._store_of_pairs(x, pointer, align, int(indices[-1].const))
        else:
            self._store_each(x, how, pointer, align)

    def _store_row(self, x, pointer, align):
        """A whole store of a pack, where dead lanes keep what they had."""
        if self.mask is not None:
            x = self.b.select(self.mask, x, self.b.load(pointer, align=align, typ=x.type))
        self.b.store(x, pointer, align=align)

    def _store_each(self, x, how, pointer, align):
        """A store of each live lane."""
        if how == "apart":
            for k, place in enumerate(pointer):
                self.b.store(self.lane(x, k), place, align=align)
            return
        if how == "uniform":  # the last live lane's value stays, as in a loop over the lanes
            pointer = self._pointers(pointer, self.full(I64, 0))
        what = "store" if how == "contiguous" else "scatter"
        self._masked_store(what, x, pointer, align, self.mask_value(self.mask))

    def _masked_store(self, what, x, pointer, align, mask):
        """A store or scatter of a vector where the mask is set."""
        if self._one_by_one(what, x.type):
            if not self.tail:
                with self.b.if_then(self.any_lane(mask)), self.under(tail=True):
                    self._masked_store(what, x, pointer, align, mask)
                return
            what, pointer, mask = "scatter", *self._all_places(pointer, align, self.dummy())
        args = [x, pointer, I32(align), mask]
        self.call(self._masked_name(what, x.type), args, _VOID)

    def _store_of_pairs(self, x, pointer, align, k):
        """Each lane's number as the k-th of its two neighbours."""
        x = self._doubled(x)
        mine = ir.Constant(ir.VectorType(I1, 2 * self.W), [j % 2 == k for j in range(2 * self.W)])
        mask = mine if self.mask is None else self.b.and_(mine, self._doubled(self.mask))
        self._masked_store("store", x, self.advance(pointer, -k * align), align, mask)

    # ---- atomics
    def atomic(self, op, view, indices, value, expected=None, want_old=True):
        """One atomic step a live lane, lanes in order. Returns the old values, or None if they are not
        wanted."""
        how, pointer = self.locate(view, indices)
        dtype = view.dtype
        if self.W == 1:
            old = self.atomic_step(
                op, pointer, self.get(value, dtype), expected and self.get(expected, dtype), view, want_old
            )
            return Value(dtype, VARYING, old)
        values = self.get(value, dtype, VARYING)
        wanted = self.get(expected, dtype, VARYING) if expected is not None else None
        slot = self.slot(values.type) if want_old else None
        for k in range(self.W):
            with self.lane_is_live(k):
                place = self._lane_pointer(how, pointer, k, view, indices)
                old = self.atomic_step(
                    op, place, self.lane(values, k), wanted and self.lane(wanted, k), view, want_old
                )
                if want_old:
                    self.b.store(
                        self.b.insert_element(self.b.load(slot, typ=values.type), old, I32(k)),
                        slot,
                    )
        return Value(dtype, VARYING, self.b.load(slot, typ=values.type)) if want_old else None

    def lane_is_live(self, k):
        """A block that runs if lane k is live."""
        return self.b.if_then(I1(1) if self.mask is None else self.lane(self.mask, k))

    def _lane_pointer(self, how, pointer, k, view, indices):
        if how == "uniform":
            return pointer
        if how == "contiguous":
            return self.advance(pointer, k * itemsize(view.dtype))
        if how == "apart" or view.lanes_last:
            return pointer[k] if how == "apart" else self.lane(pointer, k)
        # lane by lane: LLVM then loads an index, where it would take packs of addresses apart
        place = view.pointer
        for v, stride in [*view.prefix, *zip(indices, view.strides)]:
            place = self.advance(place, self.bytes_times(self._index_of_lane(v, k), stride))
        return place

    def _index_of_lane(self, v, k):
        """Lane k's index as a Python integer or an i64."""
        if v.kind == VARYING:
            v = Value(v.dtype, UNIFORM, self.lane(v.ir, k))
        index = self.index_number(v) if v.kind == UNIFORM else v.ir
        return self.plus(index, k * v.step)

    # ---- parts of views
    def part(self, view, items):
        """The view that remains after indices and slices, (lower, upper) pairs of a Value or None, of the
        leading dimensions."""
        offset, shape, strides, prefix = 0, [], [], list(view.prefix)
        for item, extent, stride in zip(items, view.shape, view.strides):
            start = item
            if isinstance(item, tuple):
                start, extent = self._slice(*item, extent)
                shape.append(extent)
                strides.append(stride)
            if start.kind == UNIFORM:
                offset = self.plus(offset, self.bytes_times(self.index_number(start), stride))
            else:
                prefix.append((start, stride))
        shape += view.shape[len(items) :]
        strides += view.strides[len(items) :]
        scale = self.W if view.lanes_last else 1
        pointer = self.advance(view.pointer, self.bytes_times(offset, scale))
        return ViewValue(
            view.label,
            view.dtype,
            pointer,
            shape,
            strides,
            view.readonly,
            view.lanes_last,
            tuple(prefix),
            store=view.store,
        )

    def _slice(self, lower, upper, extent):
        """Where a slice of a dimension begins, a Value, and its extent."""
        length = self.length(extent)
        if self.kind_of(length, *(v for v in (lower, upper) if v is not None)) != UNIFORM:
            return self.own_stretch(lower, upper, length)
        start, stop = self.stretch(lower, upper, extent)
        return self.length(start), self.plus(stop, self.bytes_times(start, -1))

    def length(self, n):
        """An extent, LLVM's or Python's or that of each lane, as a Value."""
        if isinstance(n, Value):
            return n
        return self.const(n) if isinstance(n, int) else Value("int", UNIFORM, n)

    def own_stretch(self, lower, upper, extent):
        """Where a slice begins in each lane, and its extent.

        A bound that differs between lanes is not negative, so that consecutive ones stay so; where nothing is
        left the beginning may be anywhere.
        """
        zero = self.const(0)

        def larger(a, b):
            return self.select(self.compare("<", a, b), b, a)

        def bound(v):
            v = self.cast(v, "int")
            if v.kind != UNIFORM:
                return v
            behind = larger(self.binary("+", v, extent), zero)
            return self.select(self.compare("<", v, zero), behind, v)

        def within(v):
            return self.select(self.compare("<", v, extent), v, extent)

        start = zero if lower is None else bound(lower)
        stop = extent if upper is None else within(bound(upper))
        inside = self.select(self.compare("<", start, zero), extent, within(start))
        return start, larger(self.binary("-", stop, inside), zero)

    def stretch(self, lower, upper, extent):
        """Where a slice of a dimension begins and ends."""
        start = 0 if lower is None else self.bound(lower, extent)
        stop = extent if upper is None else self.bound(upper, extent)
        return start, stop if lower is None or upper is None else self.larger(start, stop)

    def bound(self, v, extent):
        """A bound of a slice, as in Python: a negative one counts from the end, one beyond an end is that
        end."""
        bound = self.index_number(v)
        if isinstance(bound, int):
            return self.larger(self.plus(extent, bound), 0) if bound < 0 else self.smaller(bound, extent)
        below = self.b.icmp_signed("<", bound, I64(0))
        length = extent if not isinstance(extent, int) else I64(extent)
        return self.smaller(self.larger(self.b.select(below, self.b.add(bound, length), bound), 0), extent)
