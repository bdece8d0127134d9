"""Values and the instructions on them: one scalar, W consecutive integers, or a pack of W lanes.

A value's `kind` says how it differs between lanes. With W > 1 a varying value is an LLVM vector; with W == 1
(CUDA, where the hardware's threads are the lanes, and scalar CPU code) it is a scalar that is only marked as
varying.
"""

from __future__ import annotations

from llvmlite import ir

from ...language import types as t
from .lines import Integer, Written, full, pack_of, pack_of_numbers
from ...language.types import LINEAR, UNIFORM, VARYING

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
_OF_FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
FAST = ("contract", "reassoc", "nsz", "arcp", "afn")  # never nnan or ninf: kernels may test for them


class Value(t.Number):
    """A number in a kernel: dtype, kind, the LLVM value, and the Python number where it is known.

    Of a linear one `ir` is lane 0's number, of an int32 not wrapped, and `step` what lanes differ by;
    `aligned`: it (lane 0's) is a known multiple of W. Of a product of floats `factors` are the two, without
    fastmath: a sum that it meets rounds once.
    """

    __slots__ = ("dtype", "kind", "ir", "const", "step", "aligned", "factors")

    def __init__(self, dtype, kind, ir_value, const=None, step=0, aligned=False, factors=()):
        self.dtype, self.kind, self.ir, self.const, self.step = dtype, kind, ir_value, const, step
        self.aligned, self.factors = aligned, factors


class ViewValue:
    """A view in a kernel: where it starts, its shape and its strides in bytes, as LLVM or Python integers.

    `store`: "" for an argument, "(scratch)" or "(local)" for arrays made in the kernel.
    """

    __slots__ = (
        "label",
        "dtype",
        "pointer",
        "shape",
        "strides",
        "readonly",
        "lanes_last",
        "prefix",
        "scatter",
        "unshared",
        "store",
        "element",
    )

    def __init__(
        self,
        label,
        dtype,
        pointer,
        shape,
        strides,
        readonly=False,
        lanes_last=False,
        prefix=(),
        scatter=False,
        store="",
    ):
        self.label, self.dtype, self.pointer, self.shape, self.strides = label, dtype, pointer, shape, strides
        self.store = store
        self.element = dtype  # of an argument; of complex numbers `dtype` is that of their parts
        # lanes_last: private to each lane, the lane the last index
        self.readonly, self.lanes_last = readonly, lanes_last
        # (index, stride) pairs of leading dimensions already indexed, differently in each lane
        self.prefix = prefix
        self.scatter, self.unshared = scatter, False  # only added to; a copy that nobody else touches


class Ops:
    """Emits instructions on values into `self.b`. Needs from the class on top: `float_division`, `diverges`
    (see calls.py, frames.py)."""

    def __init__(self, width, float_dtype, fastmath, step=1):
        self.W, self.float_dtype, self.flags = width, float_dtype, FAST if fastmath else ()
        self.b, self.step = None, step  # of the indices of neighbouring lanes

    def counted(self, operation, value=None, dtype=None):
        """`value`, the result of one operation of the text; a counting build (counting.py) takes note of it
        here."""
        return value

    # ---- types and constants
    def strong(self, dtype):
        return t.strong(dtype, self.float_dtype)

    def scalar(self, dtype):
        return SCALAR[self.strong(dtype)]

    def type_of(self, dtype, kind):
        scalar = self.scalar(dtype)
        return pack_of(scalar, self.W) if kind == VARYING and self.W > 1 else scalar

    def const(self, number):
        """A Python number as a weak, uniform value."""
        dtype = "bool" if isinstance(number, bool) else "int" if isinstance(number, int) else "float"
        return Value(dtype, UNIFORM, None, number)

    def strong_const(self, number, dtype):
        return Value(dtype, UNIFORM, None, number)

    def lanes(self, base):
        """base, base + step, ...: the indices of a pack, which are neighbours on a CPU."""
        aligned = isinstance(base, ir.Constant) and base.constant % self.W == 0
        # without packs the step is a remark for `explain`
        return Value("int", LINEAR if self.W > 1 else VARYING, base, step=self.step, aligned=aligned)

    def full(self, scalar_type, number):
        return full(scalar_type, self.W, number)

    def splat(self, value):
        if isinstance(value, ir.Constant):
            return self.full(value.type, value.constant)
        open_lanes = Written(pack_of(value.type, self.W), "undef")
        one = self.b.insert_element(open_lanes, value, I32(0))
        return self.b.shuffle_vector(one, open_lanes, pack_of_numbers(I32, (0,) * self.W))

    def intrinsic(self, name, args, result=None):
        """Call an overloaded LLVM intrinsic; its name is completed from the first argument's type."""
        first = args[0].type
        element = first.element if isinstance(first, ir.VectorType) else first
        suffix = {F32: "f32", F64: "f64"}.get(element) or f"i{element.width}"
        if isinstance(first, ir.VectorType):
            suffix = f"v{first.count}{suffix}"
        return self.call(f"llvm.{name}.{suffix}", args, result or first)

    def call(self, name, args, result):
        module = self.b.module
        fn = module.globals.get(name)
        if fn is None:
            fn = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), name)
        return self.b.call(fn, args)

    # ---- from Value to LLVM
    def get(self, v, dtype=None, kind=None):
        """The LLVM value of `v` as `dtype` (its own if None), spread over the lanes if `kind` is varying."""
        dtype = self.strong(dtype or v.dtype)
        vector = (kind or v.kind) == VARYING and self.W > 1
        if v.const is not None and v.kind == UNIFORM:
            number = self.constant(t.meant(v.const, v.dtype, dtype, self.float_dtype), dtype)
            return self.full(SCALAR[dtype], number) if vector else SCALAR[dtype](number)
        own = self.strong(v.dtype)
        if v.kind == LINEAR and (vector or dtype != "int64"):
            steps = pack_of_numbers(I64, tuple(v.step * k for k in range(self.W)))
            # an int32 wraps here
            x = self._convert(self.b.add(self.splat(v.ir), steps, flags=("nsw",)), "int64", own)
            return self._convert(x, own, dtype)
        x = self._convert(v.ir, "int64" if v.kind == LINEAR else own, dtype)
        return self.splat(x) if vector and v.kind == UNIFORM else x

    @staticmethod
    def constant(number, dtype):
        if dtype == "bool":
            return int(bool(number))
        if t.is_float(dtype):
            return t.rounded(number, dtype)
        number = t.whole(number, dtype) if isinstance(number, float) else int(number)
        t.check_fits(number, dtype)
        return t.wrapped(number, t.BITS[dtype])

    def _convert(self, x, a, b):
        if a == b or SCALAR[a] == SCALAR[b]:
            return x
        build, to, fa, fb = self.b, self._shaped(SCALAR[b], x), t.is_float(a), t.is_float(b)
        if b == "bool":
            differs = build.fcmp_unordered if fa else build.icmp_signed
            return differs("!=", x, self._alike(x, 0))
        if fa and fb:
            return build.fpext(x, to) if t.BITS[b] > t.BITS[a] else build.fptrunc(x, to)
        if fa:
            return self._whole(x, to, b)
        unsigned = a in t.UNSIGNED or a == "bool"
        if fb:
            return build.uitofp(x, to) if unsigned else build.sitofp(x, to)
        if t.BITS[b] < t.BITS[a]:
            return build.trunc(x, to)
        return build.zext(x, to) if unsigned else build.sext(x, to)

    def _shaped(self, scalar, x):
        """A type, of vectors where an LLVM value is one."""
        return pack_of(scalar, self.W) if isinstance(x.type, ir.VectorType) else scalar

    def _whole(self, x, to, dtype):
        """Floats as integers: cut off, held between the type's ends, NaN as 0. What the conversion itself
        makes of others is open."""
        b, (low, high) = self.b, t.bounds(dtype)
        whole = (b.fptoui if dtype in t.UNSIGNED else b.fptosi)(x, to)
        beyond = b.fcmp_ordered(">=", x, self._alike(x, float(high + 1)))
        whole = b.select(beyond, self._alike(whole, t.wrapped(high, t.BITS[dtype])), whole)
        if dtype in t.UNSIGNED:
            return b.select(b.fcmp_ordered(">", x, self._alike(x, 0.0)), whole, self._alike(whole, 0))
        whole = b.select(b.fcmp_ordered("<", x, self._alike(x, float(low))), self._alike(whole, low), whole)
        return b.select(b.fcmp_unordered("uno", x, x), self._alike(whole, 0), whole)

    def _alike(self, x, number):
        """A constant of the type of an LLVM value."""
        if isinstance(x.type, ir.VectorType):
            return self.full(x.type.element, number)
        return x.type(number)

    def cast(self, v, dtype):
        """`v` as a value of `dtype`."""
        if v.dtype == dtype:
            return v
        if v.const is not None:
            number = t.meant(v.const, v.dtype, dtype, self.float_dtype)
            return Value(dtype, UNIFORM, None, t.converted(number, self.strong(dtype)))
        if v.kind == LINEAR and dtype in t.CONSECUTIVE and v.dtype != "int32":
            return Value(dtype, LINEAR, v.ir, step=v.step)
        kind = VARYING if v.kind == LINEAR else v.kind
        return Value(dtype, kind, self.get(v, dtype, kind))

    kind_of = staticmethod(t.kind_of)

    def known(self, node):
        """The value of a constant of a typed tree; one that is a rounded product has its factors."""
        factors = () if self.flags else tuple(map(self.known, node.args))
        return Value(node.dtype, UNIFORM, None, node.const, factors=factors)

    def folded(self, op, a, b):
        """Arithmetic on two weak constants, but for a sum that is rounded with a product; None of others."""
        if a.const is None or b.const is None or op in "+-" and (a.factors or b.factors):
            return None
        weak = t.is_weak(a.dtype) and t.is_weak(b.dtype)
        number = t.folded(op, a.const, b.const, self.float_dtype) if weak else None
        return None if number is None else self.const(number)

    # ---- arithmetic
    def binary(self, op, a, b):
        folded = self.folded(op, a, b)
        if folded is not None:
            return folded
        dtype = t.arithmetic(a.dtype, b.dtype, op)
        if op in ("//", "%") and t.is_float(dtype):
            return self.float_division(op, a, b, dtype)
        linear = self._linear(op, a, b, dtype)
        if linear is not None:
            return linear
        kind = self.kind_of(a, b)
        x, y = self.get(a, dtype, kind), self.get(b, dtype, kind)
        result = self._fused(op, a, b, dtype, kind) or self._arithmetic(op, x, y, self.strong(dtype), b.const)
        return Value(
            dtype,
            kind,
            result,
            aligned=t.stays_aligned(op, a, b, dtype, kind, self.W),
            factors=(a, b) if op == "*" and t.is_float(dtype) and not self.flags else (),
        )

    def _fused(self, op, a, b, dtype, kind):
        """A sum with a product, the left one if there are two, rounded once: the text says so, for LLVM's
        choice differs between machines."""
        product, other = (a, b) if a.factors else (b, a)
        if op not in "+-" or not product.factors or self.strong(product.dtype) != self.strong(dtype):
            return None
        x, y, z = (self.get(v, dtype, kind) for v in (*product.factors, other))
        if op == "-":
            x, z = (x, self.b.fneg(z)) if product is a else (self.b.fneg(x), z)
        return self.intrinsic("fma", [x, y, z])

    def _linear(self, op, a, b, dtype):
        """Consecutive indices stay consecutive when a uniform integer is added, or in rows of whole packs;
        None of others."""
        if t.in_rows(op, a, b, self.W):
            x = self._divide(op, a.ir, I64(b.const), "int64", b.const)
            return Value(dtype, UNIFORM, x) if op == "//" else Value(dtype, LINEAR, x, step=1, aligned=True)
        kind, step = t.consecutive(op, a, b, dtype)
        if kind == UNIFORM:
            x = self.b.sub(a.ir, b.ir, flags=("nsw",))
            return Value(dtype, UNIFORM, self._convert(x, "int64", self.strong(dtype)))
        if kind is None:
            return None
        x, y = (v.ir if v.kind == LINEAR else self.get(self.cast(v, dtype), "int64") for v in (a, b))
        x = (self.b.add if op == "+" else self.b.sub)(x, y, flags=("nsw",))
        aligned = t.stays_aligned(op, a, b, dtype, LINEAR, self.W)
        return Value(dtype, LINEAR, x, step=step, aligned=aligned)

    def _arithmetic(self, op, x, y, dtype, const_b):
        b = self.b
        if t.is_float(dtype):
            return getattr(b, _OF_FLOATS[op])(x, y, flags=self.flags)
        if op in ("+", "-", "*"):
            wrap = ("nsw",) if dtype == "int64" else ()
            if op == "*":
                return self.target.product(b, x, y, flags=wrap)
            return (b.add if op == "+" else b.sub)(x, y, flags=wrap)
        if op in ("//", "%"):
            return self._divide(op, x, y, dtype, const_b)
        if op in ("<<", ">>"):
            return self._shift(op, x, y, dtype, const_b)
        return {"&": b.and_, "|": b.or_, "^": b.xor}[op](x, y)

    def _shift(self, op, x, y, dtype, count):
        """A shift by any count: one that is negative, or as large as the type, leaves nothing (of a negative
        number -1)."""
        b, bits = self.b, t.BITS[dtype]
        if count is not None and 0 <= count < bits:
            return {"<<": b.shl, ">>": b.lshr if dtype in t.UNSIGNED else b.ashr}[op](x, y)
        y = self.intrinsic("umin", [y, self._alike(y, bits)])  # LLVM takes the lower half of a count for PTX
        inside = b.icmp_unsigned("<", y, self._alike(y, bits))
        if op == ">>" and dtype not in t.UNSIGNED:
            return b.ashr(x, b.select(inside, y, self._alike(y, bits - 1)))
        return b.select(inside, (b.shl if op == "<<" else b.lshr)(x, y), self._alike(x, 0))

    def _divide(self, op, x, y, dtype, const_b):
        """Floor division and modulo as Python defines them; a zero divisor gives 0 instead of a trap."""
        b, zero, by_zero = self.b, self._alike(x, 0), None
        if self._packed(dtype) and const_b and const_b > 0 and not const_b & (const_b - 1):
            return self._by_power(op, x, const_b)
        if const_b is None or const_b in (0, -1):
            by_zero, y = self._divisor(x, y, dtype, self._packed(dtype) and op == "%")
        if dtype in t.UNSIGNED:
            q, r = b.udiv(x, y), b.urem(x, y)
        else:
            q, r = b.sdiv(x, y), b.srem(x, y)
            below = b.and_(b.icmp_signed("!=", r, zero), b.icmp_signed("<", b.xor(r, y), zero))
            q = b.sub(q, b.zext(below, x.type))
            r = b.add(r, b.select(below, y, zero))
        result = q if op == "//" else r
        return result if by_zero is None else b.select(by_zero, zero, result)

    def _packed(self, dtype):
        """Whether integers of a dtype are signed, in packs of a CPU."""
        return self.W > 1 and dtype not in t.UNSIGNED and not self.target.straight

    def _by_power(self, op, x, power):
        """The same by a power of two."""
        if op == "%":
            return self.b.and_(x, self._alike(x, power - 1))
        return self.b.ashr(x, self._alike(x, power.bit_length() - 1))

    def _divisor(self, x, y, dtype, modulo):
        """Where y is zero, and y with 1 in the places where x by y would trap. For a `modulo` 1 stands for -1
        as well, and nobody need know where: both leave 0."""
        b = self.b
        one, least, minus = (self._alike(x, n) for n in (1, -(2 ** (t.BITS[dtype] - 1)), -1))
        by_zero = traps = b.icmp_signed("==", y, self._alike(x, 0))
        if modulo:
            return None, b.select(b.or_(by_zero, b.icmp_signed("==", y, minus)), one, y)
        if dtype not in t.UNSIGNED:  # the least integer by -1, which wraps to itself
            traps = b.or_(traps, b.and_(b.icmp_signed("==", x, least), b.icmp_signed("==", y, minus)))
        return by_zero, b.select(traps, one, y)

    def compare(self, op, a, b):
        if a.const is not None and b.const is not None:
            return Value("bool", UNIFORM, None, t.HOLDS[op](a.const, b.const))
        dtype = t.promote(a.dtype, b.dtype)
        kind = self.kind_of(a, b)
        x, y = self.get(a, dtype, kind), self.get(b, dtype, kind)
        if t.is_float(dtype):
            result = self.b.fcmp_unordered(op, x, y) if op == "!=" else self.b.fcmp_ordered(op, x, y)
        elif dtype in t.UNSIGNED or dtype == "bool":
            result = self.b.icmp_unsigned(op, x, y)
        else:
            result = self.b.icmp_signed(op, x, y)
        return Value("bool", kind, result)

    def negate(self, v):
        if v.const is not None and v.dtype not in t.SIGNED + t.UNSIGNED:  # those wrap
            return Value("int" if v.dtype == "bool" else v.dtype, UNIFORM, None, -v.const)
        if t.is_float(v.dtype):
            return Value(v.dtype, v.kind, self.b.fneg(v.ir))
        return self.binary("-", self.const(0), v)

    def invert(self, v):
        if v.dtype == "bool":
            return self.logical_not(v)
        kind = VARYING if v.kind == LINEAR else v.kind
        return Value(v.dtype, kind, self.b.not_(self.get(v, None, kind)))

    def truth(self, v):
        """`v` as a bool."""
        return self.cast(v, "bool")

    def logical_not(self, v):
        v = self.truth(v)
        if v.const is not None:
            return Value("bool", UNIFORM, None, not v.const)
        return Value("bool", v.kind, self.b.not_(v.ir))

    def select(self, condition, a, b):
        """`a` where the condition holds, else `b`, without a branch."""
        if condition.const is not None:
            chosen = self.cast(a if condition.const else b, t.promote(a.dtype, b.dtype))
            # no product, as of one that is chosen later
            return Value(chosen.dtype, chosen.kind, chosen.ir, chosen.const, chosen.step, chosen.aligned)
        dtype = t.promote(a.dtype, b.dtype)
        kind = self.kind_of(condition, a, b)
        c = self.get(condition, "bool", kind if condition.kind != UNIFORM else UNIFORM)
        return Value(dtype, kind, self.b.select(c, self.get(a, dtype, kind), self.get(b, dtype, kind)))

    # ---- masks: an LLVM vector of bools, or None for all lanes
    def mask_and(self, mask, condition):
        self.diverges()
        c = self.get(condition, "bool", VARYING)
        return c if mask is None else self.masked(mask, c)

    def masked(self, mask, bits):
        """Bits where the mask is set. (A select, unlike an `and`, does not look at what dead lanes hold.)"""
        return self.b.select(mask, bits, self.full(I1, 0))

    def mask_without(self, mask, condition):
        self.diverges()
        c = self.b.not_(self.get(condition, "bool", VARYING))
        return c if mask is None else self.masked(mask, c)

    def mask_value(self, mask):
        return self.full(I1, 1) if mask is None else mask

    def any_lane(self, mask):
        self.diverges()
        bits = ir.IntType(self.W)
        return self.b.icmp_unsigned("!=", self.b.bitcast(mask, bits), ir.Constant(bits, 0))

    # ---- across lanes
    def lane(self, vector, k):
        return self.b.extract_element(vector, I32(k))

    def rotated(self, v, by):
        order = pack_of_numbers(I32, tuple((k + by) % self.W for k in range(self.W)))
        return Value(v.dtype, v.kind, self.b.shuffle_vector(v.ir, Written(v.ir.type, "undef"), order))
