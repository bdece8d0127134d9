"""Loads, stores and atomics. Under a mask a dead lane touches no memory, also where all lanes are dead."""

from __future__ import annotations

from llvmlite import ir

from . import types as t
from .types import LINEAR, UNIFORM, VARYING
from .values import I1, I8, I16, I32, I64, PTR, SCALAR, Ops, Value, ViewValue

_VOID = ir.VoidType()


def itemsize(dtype):
    """Bytes of one element in memory."""
    return t.BITS[dtype] // 8 or 1


class Memory(Ops):
    """Needs from the class on top: `mask` (None or a vector of bools), `alive` (some lane is known to be live), `slot`, `dummy`,
    `before_the_loop`."""

    # ---- addresses
    def noted(self, view, how, pointer):
        """(how, pointer), and a note for `pk.explain` of how this line reaches the view."""
        self.accesses.add((self.line, view.label, how))
        return how, pointer

    def bytes_times(self, index, stride):
        """index * stride as an i64 (or a vector of them); both LLVM or Python integers."""
        if isinstance(index, int) and isinstance(stride, int):
            return index * stride
        if isinstance(index, int):
            index, stride = stride, index
        if isinstance(stride, int):
            if stride == 1:
                return index
            stride = ir.Constant(
                index.type, [stride] * self.W if isinstance(index.type, ir.VectorType) else stride
            )
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
            b = ir.Constant(a.type, [b] * self.W if isinstance(a.type, ir.VectorType) else b)
        return self.b.add(a, b, flags=("nsw",))

    def smaller(self, a, b):
        return self._extreme(min, "llvm.smin.i64", a, b)

    def larger(self, a, b):
        return self._extreme(max, "llvm.smax.i64", a, b)

    def _extreme(self, choose, intrinsic, a, b):
        """One of two signed integers, LLVM's or Python's."""
        if isinstance(a, int) and isinstance(b, int):
            return choose(a, b)
        return self.call(intrinsic, [ir.Constant(I64, v) if isinstance(v, int) else v for v in (a, b)], I64)

    def index_number(self, v):
        """A uniform index as a Python int or an i64."""
        return int(v.const) if v.const is not None else self.get(v, "int", UNIFORM)

    def advance(self, pointer, offset):
        if isinstance(offset, int):
            if offset == 0:
                return pointer
            offset = ir.Constant(I64, offset)
        return self.b.gep(pointer, [offset], inbounds=True, source_etype=I8)

    def locate(self, view, indices):
        """How lanes reach an element, and where: 'uniform' or 'contiguous' (the pointer, of lane 0), 'apart' (all lanes' in
        a list) or 'scattered' (a vector of pointers, for gathers and scatters)."""
        base, lane_bytes, offsets = 0, 0, None
        pairs = [*view.prefix, *zip(indices, view.strides)]
        for v, stride in pairs:
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
        varying = any(v.kind != UNIFORM for v, _ in pairs)
        if view.lanes_last and self.W > 1:
            base, lane_bytes = self.bytes_times(base, self.W), lane_bytes * self.W + itemsize(view.dtype)
            offsets = None if offsets is None else self.bytes_times(offsets, self.W)
        elif not varying or self.W == 1:
            how = (
                "uniform"
                if not varying
                else "contiguous"
                if self._lane_stride(pairs) == itemsize(view.dtype)
                else "strided or gathered"
            )
            return "uniform", self.noted(view, how, self.advance(view.pointer, base))[1]
        pointer = self.advance(view.pointer, base)
        if offsets is None and lane_bytes == itemsize(view.dtype):
            return self.noted(view, "contiguous", pointer)
        self.noted(
            view,
            "contiguous" if self._lane_stride(pairs) == itemsize(view.dtype) else "strided or gathered",
            pointer,
        )
        if offsets is None and self.mask is None:
            return "apart", [self.advance(pointer, lane_bytes * k) for k in range(self.W)]
        steps = ir.Constant(ir.VectorType(I64, self.W), [lane_bytes * k for k in range(self.W)])
        offsets = steps if offsets is None else self.plus(offsets, steps) if lane_bytes else offsets
        return "scattered", self._pointers(pointer, offsets)

    def _lane_stride(self, pairs):
        """Bytes between the elements of neighbouring lanes, or None: known where the last index alone differs and counts by one."""
        *others, (last, stride) = pairs
        consecutive = last.step == self.step and all(v.kind == UNIFORM for v, _ in others)
        return stride if consecutive and isinstance(stride, int) else None

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
        """The pointer of a pack's row. That of a private array may be touched whatever the mask, if its place is known.

        A whole load, a select and a whole store can stay in registers, where a masked store cannot, nor be read back soon.
        """
        known = all(v.const is not None for v, _ in [*view.prefix, *zip(indices, view.strides)])
        return pointer if known else self.guarded(pointer)

    # ---- loads
    def memory_type(self, dtype):
        return {"bool": I8, "float16": I16}.get(dtype) or SCALAR[dtype]

    def load(self, view, indices):
        with self.before_the_loop(view, indices):
            return self._load(view, indices)

    def _load(self, view, indices):
        how, pointer = self.locate(view, indices)
        dtype, element = view.dtype, self.memory_type(view.dtype)
        mixed = any(v.kind != UNIFORM for v in indices) or view.prefix or view.lanes_last
        kind = VARYING if mixed else UNIFORM
        align = itemsize(dtype)
        if how == "uniform":
            pointer = pointer if self.W == 1 else self.guarded(pointer)
            x = self.b.load(pointer, align=align, typ=element)
        elif how == "apart":
            x = ir.Constant(ir.VectorType(element, self.W), ir.Undefined)
            for k, place in enumerate(pointer):
                x = self.b.insert_element(
                    x, self.b.load(place, align=align, typ=element), ir.Constant(I32, k)
                )
        else:
            vector = ir.VectorType(element, self.W)
            if how == "contiguous" and (self.mask is None or view.lanes_last):
                x = self.b.load(self.own(pointer, view, indices), align=align, typ=vector)
            else:
                mask, zero = self.mask_value(self.mask), ir.Constant(vector, [0] * self.W)
                name = self._masked_name("load" if how == "contiguous" else "gather", vector)
                x = self.call(name, [pointer, ir.Constant(I32, align), mask, zero], vector)
        if dtype == "bool":
            x = self.b.icmp_unsigned(
                "!=", x, ir.Constant(x.type, [0] * self.W if isinstance(x.type, ir.VectorType) else 0)
            )
        return Value(
            t.held(dtype), kind, self._convert(self._half(x, dtype, "float16"), dtype, t.held(dtype))
        )

    def _half(self, x, dtype, to):
        """Bits of memory as a float16, or a float16 as bits; others as they are."""
        kind = SCALAR[to] if to in SCALAR else I16
        return (
            self.b.bitcast(x, ir.VectorType(kind, self.W) if isinstance(x.type, ir.VectorType) else kind)
            if dtype == "float16"
            else x
        )

    def stored(self, value, dtype, kind=None):
        """What an element of memory becomes: a float16 by way of a float32."""
        if dtype != "float16":
            return self.get(value, dtype, kind)
        return self._half(self._convert(self.get(value, "float32", kind), "float32", dtype), dtype, "bits")

    def _masked_name(self, what, vector):
        element = vector.element
        suffix = f"v{self.W}" + {"float": "f32", "double": "f64"}.get(str(element), str(element))
        return f"llvm.masked.{what}.{suffix}." + ("p0" if what in ("load", "store") else f"v{self.W}p0")

    # ---- stores
    def store(self, view, indices, value):
        how, pointer = self.locate(view, indices)
        dtype, align = view.dtype, itemsize(view.dtype)
        if how == "uniform" and (self.W == 1 or value.kind == UNIFORM):
            x = self.stored(value, dtype)
            pointer = pointer if self.W == 1 else self.guarded(pointer)
            self.b.store(self.b.zext(x, I8) if dtype == "bool" else x, pointer, align=align)
            return
        x = self.stored(value, dtype, VARYING)
        if dtype == "bool":
            x = self.b.zext(x, ir.VectorType(I8, self.W))
        if (
            how == "uniform"
        ):  # several lanes, one place: the last live lane's value stays, as in a loop over the lanes
            how, pointer = (
                "scattered",
                self._pointers(pointer, ir.Constant(ir.VectorType(I64, self.W), [0] * self.W)),
            )
        if how == "contiguous" and (self.mask is None or view.lanes_last):
            pointer = self.own(pointer, view, indices)
            if self.mask is not None:
                x = self.b.select(self.mask, x, self.b.load(pointer, align=align, typ=x.type))
            self.b.store(x, pointer, align=align)
        elif how == "apart":
            for k, place in enumerate(pointer):
                self.b.store(self.lane(x, k), place, align=align)
        else:
            name = self._masked_name("store" if how == "contiguous" else "scatter", x.type)
            self.call(name, [x, pointer, ir.Constant(I32, align), self.mask_value(self.mask)], _VOID)

    # ---- atomics
    def atomic(self, op, view, indices, value, expected=None, want_old=True):
        """One atomic step a live lane, lanes in order. Returns the old values, or None if they are not wanted."""
        how, pointer = self.locate(view, indices)
        dtype = view.dtype
        if self.W == 1:
            old = self._atomic_step(
                op, pointer, self.get(value, dtype), expected and self.get(expected, dtype), view
            )
            return Value(dtype, VARYING, old)
        values = self.get(value, dtype, VARYING)
        wanted = self.get(expected, dtype, VARYING) if expected is not None else None
        slot = self.slot(values.type) if want_old else None
        for k in range(self.W):
            with self.lane_is_live(k):
                place = self._lane_pointer(how, pointer, k, view, indices)
                old = self._atomic_step(
                    op, place, self.lane(values, k), wanted and self.lane(wanted, k), view
                )
                if want_old:
                    self.b.store(
                        self.b.insert_element(self.b.load(slot, typ=values.type), old, ir.Constant(I32, k)),
                        slot,
                    )
        return Value(dtype, VARYING, self.b.load(slot, typ=values.type)) if want_old else None

    def lane_is_live(self, k):
        """A block that runs if lane k is live."""
        return self.b.if_then(ir.Constant(I1, 1) if self.mask is None else self.lane(self.mask, k))

    def _lane_pointer(self, how, pointer, k, view, indices):
        if how == "uniform":
            return pointer
        if how == "contiguous":
            return self.advance(pointer, k * itemsize(view.dtype))
        if how == "apart" or view.lanes_last:
            return pointer[k] if how == "apart" else self.lane(pointer, k)
        place = (
            view.pointer
        )  # lane by lane: LLVM then loads an index, where it would take packs of addresses apart
        for v, stride in [*view.prefix, *zip(indices, view.strides)]:
            place = self.advance(place, self.bytes_times(self._index_of_lane(v, k), stride))
        return place

    def _index_of_lane(self, v, k):
        """Lane k's index as a Python integer or an i64."""
        if v.kind == VARYING:
            v = Value(v.dtype, UNIFORM, self.lane(v.ir, k))
        index = self.index_number(v) if v.kind == UNIFORM else v.ir
        return self.plus(index, k * v.step)

    def _atomic_step(self, op, pointer, x, expected, view):
        dtype = view.dtype
        if op == "cas":
            return self._compare_and_swap(pointer, expected, x, dtype)
        if op == "sub" and t.is_float(dtype):
            op, x = "add", self.b.fneg(x)
        if view.unshared and op in ("add", "sub"):
            old = self.b.load(pointer, typ=x.type)
            self.b.store(self.plain_sum(op, old, x), pointer)
            return old
        name = {"exchange": "xchg"}.get(op, op)
        if t.is_float(dtype):
            name = {"add": "fadd", "min": "fminimum", "max": "fmaximum"}.get(name, name)
        elif dtype in t.UNSIGNED and name in ("min", "max"):
            name = "u" + name
        return self.b.atomic_rmw(name, pointer, x, "monotonic")

    def plain_sum(self, op, old, x):
        """old + x or old - x, of floats or integers."""
        if str(x.type) in ("float", "double"):
            return self.b.fadd(old, x)
        return (self.b.add if op == "add" else self.b.sub)(old, x)

    def _compare_and_swap(self, pointer, expected, x, dtype):
        if t.is_float(dtype):  # the instruction compares bits
            bits = I32 if dtype == "float32" else I64
            pair = self.b.cmpxchg(
                pointer, self.b.bitcast(expected, bits), self.b.bitcast(x, bits), "monotonic", "monotonic"
            )
            return self.b.bitcast(self.b.extract_value(pair, 0), x.type)
        return self.b.extract_value(self.b.cmpxchg(pointer, expected, x, "monotonic", "monotonic"), 0)

    # ---- parts of views
    def part(self, view, items):
        """The view that remains after indices and slices, (lower, upper) pairs of a Value or None, of the leading dimensions."""
        offset, shape, strides, prefix = 0, [], [], list(view.prefix)
        for k, item in enumerate(items):
            stride = view.strides[k]
            if isinstance(item, tuple):
                start, stop = self.stretch(*item, view.shape[k])
                offset = self.plus(offset, self.bytes_times(start, stride))
                shape.append(self.plus(stop, self.bytes_times(start, -1)))
                strides.append(stride)
            elif item.kind != UNIFORM:
                prefix.append((item, stride))
            else:
                offset = self.plus(offset, self.bytes_times(self.index_number(item), stride))
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

    def stretch(self, lower, upper, extent):
        """Where a slice of a dimension begins and ends."""
        start = 0 if lower is None else self.bound(lower, extent)
        stop = extent if upper is None else self.bound(upper, extent)
        return start, stop if lower is None or upper is None else self.larger(start, stop)

    def bound(self, v, extent):
        """A bound of a slice, as in Python: a negative one counts from the end, one beyond an end is that end."""
        bound = self.index_number(v)
        if isinstance(bound, int):
            return self.larger(self.plus(extent, bound), 0) if bound < 0 else self.smaller(bound, extent)
        below = self.b.icmp_signed("<", bound, ir.Constant(I64, 0))
        length = extent if not isinstance(extent, int) else ir.Constant(I64, extent)
        return self.smaller(self.larger(self.b.select(below, self.b.add(bound, length), bound), 0), extent)
