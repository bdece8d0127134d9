"""Define values and the instructions on them: one scalar, W consecutive integers, or a pack of W lanes.

A value's `kind` describes how it differs between lanes. With W > 1 a varying value is an LLVM vector; with W
== 1 (CUDA, where the hardware's threads are the lanes, and scalar CPU code) it is a scalar that is only
marked as varying.
"""

from functools import partialmethod

from llvmlite import ir

from .arithmetic import emit_arithmetic
from .lines import Integer, builder, Written, full, pack_of, pack_of_numbers
from ...language.types import (
    BITS,
    CONSECUTIVE,
    HOLDS,
    LINEAR,
    UNIFORM,
    UNSIGNED,
    VARYING,
    Number,
    arithmetic,
    bounds,
    check_fits,
    consecutive,
    converted,
    in_rows,
    is_float,
    kind_of,
    converted_constant,
    promote,
    rounded,
    stays_aligned,
    strong,
    weak_dtype,
    to_integer,
    wrapped,
)
from ..reading.tree import node

I1, I8, I16, I32, I64 = (Integer(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
SCALAR = {
    "bool": I1,
    "int8": I8,
    "uint8": I8,
    "int16": I16,
    "uint16": I16,
    "float16": F16,
    "int32": I32,
    "uint32": I32,
    "int64": I64,
    "uint64": I64,
    "int": I64,
    "float32": F32,
    "float64": F64,
}
FAST = ("contract", "reassoc", "nsz", "arcp", "afn")  # never nnan or ninf: kernels may test for them


def suffix(llvm_type):
    """Return the suffix of an intrinsic's name for a type."""
    if isinstance(llvm_type, ir.VectorType):
        return f"v{llvm_type.count}{suffix(llvm_type.element)}"
    return {F32: "f32", F64: "f64"}.get(llvm_type) or f"i{llvm_type.width}"


class Unpacked(Exception):
    """Raised if packs do not pay for a source, which is then emitted for one lane at a time. The message is
    the reason."""


def word(n):
    """Return a number of 64 bits, a Python integer or an LLVM value, as an LLVM value."""
    return I64(n) if isinstance(n, int) else n


@node
class Value(Number):
    """Number in a kernel: dtype, kind, the LLVM value, and the Python number if it is known.

    For a linear number, `ir` is lane 0's number (for int32, before wrapping), and `step` the difference
    between lanes; `likely` is that which lanes of a varying number probably have, or 0. `aligned`: the number
    (of lane 0) is a known multiple of W. For a product of floats without fastmath, `factors` are the two
    factors: a sum with it is rounded once.
    """

    dtype: str
    kind: str
    ir: object
    const: object = None
    step: int = 0
    aligned: bool = False
    factors: tuple = ()
    likely: int = 0

    @property
    def difference(self):
        """The difference between lanes, certain or likely."""
        return self.step or self.likely


@node
class ViewValue:
    """View in a kernel: its first element's address, its shape and its strides in bytes, as LLVM or Python
    integers.

    `store`: "" for an argument, "(scratch)" or "(local)" for arrays made in the kernel.
    """

    label: str
    dtype: str  # for a complex view, of its parts; `element` is the argument's dtype
    pointer: object
    shape: list
    strides: list
    readonly: bool = False
    lanes_last: bool = False  # private to each lane; the lane is the last index
    prefix: tuple = ()  # (index, stride) of leading dimensions, indexed differently in each lane
    scatter: bool = False  # the kernel only adds to it
    store: str = ""
    element: str | None = None
    unshared: bool = False  # a copy without other accesses
    apart: object = None  # a Disjoint, if it overlaps no other view of the launch


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
# comparison with zero -> comparison with its neighbour, and the sign of this
_BESIDE = {"<": ("<=", -1), ">": (">=", 1), "<=": ("<", 1), ">=": (">", -1)}


class Ops:
    """Emitter of instructions on values, independent of masks and sources.

    Parameters
    ----------
    target : the machine: `native`, its own forms of elementary functions, or the names of others; `step`, the
        difference between a pack's indices; `straight`, whether it has special packs for straight-line code;
        `crowded`, whether registers are more important than fewer instructions; `poll_flag`, which lets a
        launch end here; `strip`, iterations of a light loop between two calls of `poll_flag`, 0 for none
    width : lanes of a pack; 1 for code whose lanes are threads, or scalar code
    """

    def __init__(self, target, width, float_dtype, fastmath):
        self.target, self.W, self.step = target, width, target.step
        self.float_dtype, self.flags = float_dtype, FAST if fastmath else ()
        # in code for launches within extents: {LLVM value of an index: end of the policy}; (least, extent)
        self.ends, self.within = {}, []
        self.line = ""  # "file:line" of the statement being emitted

    def diverges(self):
        """Mark a place where control flow may diverge or reconverge; raise Unpacked for packs that only keep
        more loads in flight, which require straight-line code."""
        if self.W > 1 and self.target.straight:
            raise Unpacked("the text has conditions or loops")

    @property
    def mask_type(self):
        """Type of a mask."""
        return pack_of(I1, self.W)

    def slot(self, llvm_type):
        """Return a stack slot, initialised to zero."""
        with builder.goto_entry_block():
            place = builder.slot(llvm_type)
        if builder.block.is_terminated:  # code emitted before a loop precedes its branch
            builder.position_before(builder.block.terminator)
        return place

    # ---- types and constants
    def strong(self, dtype):
        return strong(dtype, self.float_dtype)

    def scalar(self, dtype):
        return SCALAR[self.strong(dtype)]

    def type_of(self, dtype, kind):
        scalar = self.scalar(dtype)
        return pack_of(scalar, self.W) if kind == VARYING and self.W > 1 else scalar

    def const(self, number):
        """Return a Python number as a weak, uniform value."""
        return Value(weak_dtype(number), UNIFORM, None, number)

    def lanes(self, base):
        """Return the indices of a pack: base, base + step, ..., which are neighbours on a CPU."""
        aligned = isinstance(base, ir.Constant) and base.constant % self.W == 0
        # without packs the step only informs `explain`
        return Value("int", LINEAR if self.W > 1 else VARYING, base, step=self.step, aligned=aligned)

    def full(self, scalar_type, number):
        return full(scalar_type, self.W, number)

    def splat(self, value):
        if isinstance(value, ir.Constant):
            return self.full(value.type, value.constant)
        open_lanes = Written(pack_of(value.type, self.W), "undef")
        one = builder.insert_element(open_lanes, value, I32(0))
        return builder.shuffle_vector(one, open_lanes, pack_of_numbers(I32, (0,) * self.W))

    def intrinsic(self, name, args, result=None):
        """Call an overloaded LLVM intrinsic; its name is completed from the first argument's type."""
        first = args[0].type
        return builder.call_named(f"llvm.{name}.{suffix(first)}", args, result or first)

    # ---- from Value to LLVM
    def get(self, v, dtype=None, kind=None):
        """Return the LLVM value of `v` as `dtype` (its own if None), broadcast to the lanes if `kind` is
        varying."""
        dtype = self.strong(dtype or v.dtype)
        vector = (kind or v.kind) == VARYING and self.W > 1
        if v.const is not None and v.kind == UNIFORM:
            number = self.constant(converted_constant(v, dtype, self.float_dtype), dtype)
            return self.full(SCALAR[dtype], number) if vector else SCALAR[dtype](number)
        own = self.strong(v.dtype)
        if v.kind == LINEAR and (vector or dtype != "int64"):
            steps = pack_of_numbers(I64, tuple(v.step * k for k in range(self.W)))
            # an int32 wraps here
            x = self.convert(builder.add_nsw(self.splat(v.ir), steps), "int64", own)
            return self.convert(x, own, dtype)
        x = self.convert(v.ir, "int64" if v.kind == LINEAR else own, dtype)
        return self.splat(x) if vector and v.kind == UNIFORM else x

    def spread(self, state):
        """Return the numbers of a state, broadcast to all lanes."""
        return tuple(Value(v.dtype, VARYING, self.get(v, None, VARYING)) for v in state)

    @staticmethod
    def constant(number, dtype):
        if dtype == "bool":
            return int(bool(number))
        if is_float(dtype):
            return rounded(number, dtype)
        number = to_integer(number, dtype) if isinstance(number, float) else int(number)
        check_fits(number, dtype)
        return wrapped(number, BITS[dtype])

    def convert(self, x, a, b):
        if a == b or SCALAR[a] == SCALAR[b]:
            return x
        to, fa, fb = self.shaped(SCALAR[b], x), is_float(a), is_float(b)
        if b == "bool":
            differs = builder.fcmp_unordered if fa else builder.icmp_signed
            return differs("!=", x, 0)
        if fa and fb:
            return builder.fpext(x, to) if BITS[b] > BITS[a] else builder.fptrunc(x, to)
        if fa:
            return self._to_integer(x, to, b)
        unsigned = a in UNSIGNED or a == "bool"
        if fb:
            return builder.uitofp(x, to) if unsigned else builder.sitofp(x, to)
        if BITS[b] < BITS[a]:
            return builder.trunc(x, to)
        return builder.zext(x, to) if unsigned else builder.sext(x, to)

    def shaped(self, scalar, x):
        """Return a scalar type, or its vector type if an LLVM value is a vector."""
        return pack_of(scalar, self.W) if isinstance(x.type, ir.VectorType) else scalar

    def _to_integer(self, x, to, dtype):
        """Return floats as integers: truncated, clamped to the type's range, NaN as 0. LLVM's conversion is
        undefined out of range."""
        low, high = bounds(dtype)
        whole = (builder.fptoui if dtype in UNSIGNED else builder.fptosi)(x, to)
        beyond = builder.fcmp_ordered(">=", x, float(high + 1))
        whole = builder.select(beyond, wrapped(high, BITS[dtype]), whole)
        if dtype in UNSIGNED:
            return builder.select(builder.fcmp_ordered(">", x, 0.0), whole, 0)
        whole = builder.select(builder.fcmp_ordered("<", x, float(low)), low, whole)
        return builder.select(builder.fcmp_unordered("uno", x, x), 0, whole)

    def cast(self, v, dtype):
        """Return `v` converted to `dtype`."""
        if v.dtype == dtype:
            return v
        if v.const is not None:
            number = converted_constant(v, dtype, self.float_dtype)
            return Value(dtype, UNIFORM, None, converted(number, self.strong(dtype)))
        if v.kind == LINEAR and dtype in CONSECUTIVE and v.dtype != "int32":
            return Value(dtype, LINEAR, v.ir, step=v.step)
        kind = VARYING if v.kind == LINEAR else v.kind
        return Value(dtype, kind, self.get(v, dtype, kind))

    kind_of = staticmethod(kind_of)

    def constant_value(self, node):
        """Return the value of a constant of a typed tree; the value of a rounded product has its factors."""
        factors = () if self.flags else tuple(map(self.constant_value, node.args))
        return Value(node.dtype, UNIFORM, None, node.const, factors=factors)

    # ---- arithmetic
    def binary(self, op, a, b, check=None):
        """Return `a op b`, except // and % of floats. `check` is called with both numbers, their dtype and
        the Python number of the second one, if known, before the instructions on two integers."""
        dtype = arithmetic(a.dtype, b.dtype, op)
        linear = self._linear(op, a, b, dtype)
        if linear is not None:
            return linear
        kind = self.kind_of(a, b)
        x, y = self.get(a, dtype, kind), self.get(b, dtype, kind)
        if check is not None:
            check(x, y, dtype, b.const)
        result = self._fused(op, a, b, dtype, kind) or emit_arithmetic(
            self, op, x, y, self.strong(dtype), b.const
        )
        moved = op in "+-%" and UNIFORM in (a.kind, b.kind)
        return Value(
            dtype,
            kind,
            result,
            aligned=stays_aligned(op, a, b, dtype, kind, self.W),
            factors=(a, b) if op == "*" and is_float(dtype) and not self.flags else (),
            likely=moved and (a.difference or b.difference),
        )

    def _fused(self, op, a, b, dtype, kind):
        """Return a sum with a product (the left one if there are two), rounded once by an explicit fma, since
        LLVM's choice to fuse differs between machines."""
        product, other = (a, b) if a.factors else (b, a)
        if op not in "+-" or not product.factors or self.strong(product.dtype) != self.strong(dtype):
            return None
        x, y, z = (self.get(v, dtype, kind) for v in (*product.factors, other))
        if op == "-":
            x, z = (x, builder.fneg(z)) if product is a else (builder.fneg(x), z)
        return self.intrinsic("fma", [x, y, z])

    def float_intrinsic(self, name, values, dtype):
        """Return an LLVM intrinsic of floats as `dtype`."""
        kind = self.kind_of(*values)
        return Value(dtype, kind, self.intrinsic(name, [self.get(v, dtype, kind) for v in values]))

    def _linear(self, op, a, b, dtype):
        """Return a result on consecutive indices that is consecutive or uniform: after adding a uniform
        integer, or in rows of whole packs; None for others."""
        if in_rows(op, a, b, self.W):
            x = emit_arithmetic(self, op, a.ir, I64(b.const), "int64", b.const)
            return Value(dtype, UNIFORM, x) if op == "//" else Value(dtype, LINEAR, x, step=1, aligned=True)
        kind, step = consecutive(op, a, b, dtype)
        if kind == UNIFORM:
            return Value(
                dtype, UNIFORM, self.convert(builder.sub_nsw(a.ir, b.ir), "int64", self.strong(dtype))
            )
        if kind is None:
            return None
        x, y = (v.ir if v.kind == LINEAR else self.get(self.cast(v, dtype), "int64") for v in (a, b))
        x = (builder.add_nsw if op == "+" else builder.sub_nsw)(x, y)
        aligned = stays_aligned(op, a, b, dtype, LINEAR, self.W)
        return Value(dtype, LINEAR, x, step=step, aligned=aligned)

    def compare(self, op, a, b):
        if a.const is not None and b.const is not None:
            return Value("bool", UNIFORM, None, HOLDS[op](a.const, b.const))
        dtype = promote(a.dtype, b.dtype)
        kind = self.kind_of(a, b)
        if is_float(dtype) and self.target.straight and not self.flags:
            op, a, b = self._beside_zero(op, a, b, self.strong(dtype))
        x, y = self.get(a, dtype, kind), self.get(b, dtype, kind)
        if is_float(dtype):
            result = builder.fcmp_unordered(op, x, y) if op == "!=" else builder.fcmp_ordered(op, x, y)
        elif dtype in UNSIGNED or dtype == "bool":
            result = builder.icmp_unsigned(op, x, y)
        else:
            result = builder.icmp_signed(op, x, y)
        return Value("bool", kind, result)

    def _beside_zero(self, op, a, b, dtype):
        """Return a comparison with the smallest number of either sign in place of one with zero: LLVM would
        convert `x if x < 0.0 else 0.0` to PTX's min, for which -0.0 is smaller than 0.0."""
        if a.const is not None:
            op, a, b = _MIRRORED.get(op, op), b, a
        if b.const is None or rounded(b.const, dtype) or op not in _BESIDE:
            return op, a, b
        op, sign = _BESIDE[op]
        return op, a, Value(dtype, UNIFORM, None, sign * (1e-45 if dtype == "float32" else 5e-324))

    def negate(self, v):
        if is_float(v.dtype):
            return Value(v.dtype, v.kind, builder.fneg(self.get(v)))
        return self.binary("-", self.const(0), v)

    def invert(self, v):
        if v.dtype == "bool":
            return self.logical_not(v)
        kind = VARYING if v.kind == LINEAR else v.kind
        return Value(v.dtype, kind, ~self.get(v, None, kind))

    def logical_not(self, v):
        v = self.cast(v, "bool")
        return Value("bool", v.kind, ~self.get(v))

    def select(self, condition, a, b):
        """Return `a` where the condition holds, else `b`, without a branch."""
        if condition.const is not None:
            chosen = self.cast(a if condition.const else b, promote(a.dtype, b.dtype))
            # without factors, as at run time
            return Value(chosen.dtype, chosen.kind, chosen.ir, chosen.const, chosen.step, chosen.aligned)
        dtype = promote(a.dtype, b.dtype)
        kind = self.kind_of(condition, a, b)
        c = self.get(condition, "bool", kind if condition.kind != UNIFORM else UNIFORM)
        x = builder.select(c, self.get(a, dtype, kind), self.get(b, dtype, kind))
        return Value(dtype, kind, x, likely=a.difference or b.difference)

    # ---- addresses and extents: LLVM values or Python integers
    def bytes_times(self, index, stride):
        """Return index * stride as an i64 (or a vector of them); both are LLVM or Python integers."""
        if index.__class__ is stride.__class__ is int:
            return index * stride
        if isinstance(index, int):
            index, stride = stride, index
        packed = isinstance(index.type, ir.VectorType)
        if packed and not isinstance(stride, int) and not isinstance(stride.type, ir.VectorType):
            stride = self.splat(stride)
        return index if stride == 1 else builder.mul_nsw(index, stride)

    def plus(self, a, b):
        if a.__class__ is b.__class__ is int:
            return a + b
        if isinstance(a, int):
            a, b = b, a
        return a if b == 0 else builder.add_nsw(a, b)

    def _extreme(self, choose, intrinsic, a, b):
        """Return the smaller or the larger of two signed integers, LLVM values or Python integers."""
        if a.__class__ is b.__class__ is int:
            return choose(a, b)
        return builder.call_named(intrinsic, [word(a), word(b)], I64)

    smaller = partialmethod(_extreme, min, "llvm.smin.i64")
    larger = partialmethod(_extreme, max, "llvm.smax.i64")

    def index_number(self, v):
        """Return a uniform index as a Python int or an i64."""
        return int(v.const) if v.const is not None else self.get(v, "int", UNIFORM)

    def advance(self, pointer, offset):
        return pointer if offset == 0 else builder.gep(pointer, [offset], I8, inbounds=True)

    def length(self, n):
        """Return an extent (an LLVM value, a Python integer, or a Value) as a Value."""
        if isinstance(n, Value):
            return n
        return self.const(n) if isinstance(n, int) else Value("int", UNIFORM, n)

    def chosen(self, condition, then, otherwise):
        """Return one of two LLVM values of the same type, by a branch on an LLVM bool."""
        ends = []
        with builder.if_else(condition) as branches:
            for branch, make in zip(branches, (then, otherwise)):
                with branch:
                    ends.append((make(), builder.block))
        phi = builder.phi(ends[0][0].type)
        for value, end in ends:
            phi.add_incoming(value, end)
        return phi

    # ---- masks: an LLVM vector of bools, or None for all lanes
    def narrowed(self, mask, condition, holds=True):
        """Return the mask of the lanes in which a condition equals `holds`."""
        self.diverges()
        c = self.get(condition, "bool", VARYING)
        c = c if holds else ~c
        return c if mask is None else self.masked(mask, c)

    def masked(self, mask, bits):
        """Return bits where the mask is set. (A select, unlike an `and`, ignores undefined bits of dead
        lanes.)"""
        return builder.select(mask, bits, 0)

    def mask_value(self, mask):
        return self.full(I1, 1) if mask is None else mask

    def any_lane(self, mask):
        self.diverges()
        return builder.bitcast(mask, Integer(self.W)).differs(0)

    def all_lanes(self, bits):
        """Return an LLVM bool that is true if the bits are set in all lanes."""
        if not isinstance(bits.type, ir.VectorType):
            return bits
        return builder.bitcast(bits, Integer(self.W)).equals(-1)

    # ---- across lanes
    def lane(self, vector, k):
        """Return lane k of an LLVM vector, or the number itself if there is only one lane."""
        return vector if self.W == 1 else builder.extract_element(vector, I32(k))

    def rotated(self, v, by):
        order = pack_of_numbers(I32, tuple((k + by) % self.W for k in range(self.W)))
        return Value(v.dtype, v.kind, builder.shuffle_vector(v.ir, Written(v.ir.type, "undef"), order))
