"""Emit arithmetic on LLVM values, with Python's meaning of division, modulo and shifts."""

from llvmlite import ir

from ...language.types import BITS, UNSIGNED, is_float
from .lines import like

I32, I64 = ir.IntType(32), ir.IntType(64)
# Moves that hide a number's range from LLVM, which would divide a short number by mul.hi.u32 without a
# shift: ptxas (13.0 to 13.5) fuses that with the subtraction of a number of 64 bits, and loses the carry if
# this is 0.
_MOVES = {
    n: ir.InlineAsm(ir.FunctionType(ir.IntType(n), [ir.IntType(n)]), f"mov.b{n} $0, $1;", f"={of},{of}")
    for n, of in ((32, "r"), (64, "l"))
}


def emit_arithmetic(ops, op, x, y, dtype, const_b):
    """Emit `x op y` on two LLVM values; `const_b`: the Python number of y if it is known, or None."""
    b = ops.b
    if is_float(dtype):
        return {"+": b.fadd, "-": b.fsub, "*": b.fmul, "/": b.fdiv}[op](x, y, flags=ops.flags)
    if op in ("+", "-", "*"):
        wrap = ("nsw",) if dtype == "int64" else ()
        if op == "*":
            return ops.target.product(b, x, y, flags=wrap)
        return (b.add if op == "+" else b.sub)(x, y, flags=wrap)
    if op in ("//", "%"):
        return _divide(ops, op, x, y, dtype, const_b)
    if op in ("<<", ">>"):
        return _shift(ops, op, x, y, dtype, const_b)
    return {"&": b.and_, "|": b.or_, "^": b.xor}[op](x, y)


def _shift(ops, op, x, y, dtype, count):
    """Return x shifted by any count y; a count that is negative, or not below the number of bits, shifts all
    bits out (for a negative x, >> gives -1)."""
    b, bits = ops.b, BITS[dtype]
    if count is not None and 0 <= count < bits:
        return {"<<": b.shl, ">>": b.lshr if dtype in UNSIGNED else b.ashr}[op](x, y)
    y = ops.intrinsic("umin", [y, like(y, bits)])  # for PTX, LLVM uses the lower half of a count
    inside = b.icmp_unsigned("<", y, bits)
    if op == ">>" and dtype not in UNSIGNED:
        return b.ashr(x, b.select(inside, y, bits - 1))
    return b.select(inside, (b.shl if op == "<<" else b.lshr)(x, y), 0)


def _divide(ops, op, x, y, dtype, const_b):
    """Return x // y or x % y as in Python; a zero divisor gives 0 instead of a trap."""
    if _packed(ops, dtype) and const_b and const_b > 0 and not const_b & (const_b - 1):
        if op == "%":
            return ops.b.and_(x, const_b - 1)
        return ops.b.ashr(x, const_b.bit_length() - 1)
    if ops.target.straight and const_b and const_b & (const_b - 1) and BITS[dtype] in _MOVES:
        x = _hidden(ops, x, _MOVES[BITS[dtype]])
    if const_b is not None or dtype in UNSIGNED:
        return _any_divided(ops, op, x, y, dtype, const_b)
    wrapped = _index_remainder(ops, x, y) if ops.ends and op == "%" else None
    if wrapped:
        return wrapped
    if not ops.target.straight and op == "%" and getattr(x, "opname", "") in ("add", "sub"):
        return _wrapped_remainder(ops, x, y, dtype)
    if not ops.target.straight or ops.target.crowded:
        return _any_divided(ops, op, x, y, dtype, None)
    ops.diverges()
    return _called(ops, op, x, y, dtype)


def _index_remainder(ops, x, n):
    """Return the remainder x % n of an index of a launch plus constants and multiples of an extent n, for
    launches that end within the extents in `ops.within`; None for another x or n."""
    b, index, c = ops.b, x, 0
    while index not in ops.ends:
        how = getattr(index, "opname", "")
        if how not in ("add", "sub"):
            return None
        index, by = index.operands
        if by is not n:
            if not isinstance(by, ir.Constant):
                return None
            c += by.constant if how == "add" else -by.constant
    if " !range" not in getattr(n, "text", ""):
        return None
    ops.within += (ops.ends[index], n), (I64(abs(c)), n)
    x, n = (b.trunc(v, I32) for v in (b.add(index, c), n))
    return b.zext(ops.intrinsic("umin", [x, (b.sub if c > 0 else b.add)(x, n)]), I64)


def _hidden(ops, x, move):
    """Return a number, or each number of a pack, passed through a move."""
    b, hide = ops.b, lambda v: ops.b.call(move, [v], attrs=("readnone",))  # noqa: E731
    if not isinstance(x.type, ir.VectorType):
        return hide(x)
    for k in range(x.type.count):
        x = b.insert_element(x, hide(ops.lane(x, k)), I32(k))
    return x


def _wrapped_remainder(ops, x, y, dtype):
    """Return x % y, with a fast path by one subtraction for indices that wrap around, as in `(i + 1) % n`."""
    b = ops.b
    once = ops.intrinsic("umin", [x, b.sub(x, y)])
    # y is positive, and so small that no x below 2 y is negative
    short = b.icmp_unsigned("<", b.sub(y, 1), 1 << BITS[dtype] - 2)
    inside = ops.all_lanes(b.and_(b.icmp_unsigned("<", once, y), short))
    return ops.chosen(inside, lambda: once, lambda: _any_divided(ops, "%", x, y, dtype, None))


def _called(ops, op, x, y, dtype):
    """Return x // y or x % y by a call of an internal function, of which LLVM can eliminate repeated calls;
    numbers of 31 bits are divided in 32 bits, since wide divisions are slow."""
    name = f"portable_{'quotient' if op == '//' else 'remainder'}_{dtype}"
    function, outside = ops.b.module.globals.get(name), ops.b
    if function is None:
        function = ir.Function(outside.module, ir.FunctionType(x.type, [x.type] * 2), name)
        function.linkage = "internal"
        for word in ("alwaysinline", "nounwind", "readnone"):
            function.attributes.add(word)
        b = ops.b = outside.__class__(function.append_basic_block("begin"))
        v, w = function.args
        halves = [b.trunc(number, I32) for number in (v, w)]
        quick = lambda: b.zext(_any_divided(ops, op, *halves, "uint32", None), v.type)  # noqa: E731
        small = b.icmp_unsigned("<", b.or_(v, w), 1 << 31)
        b.ret(ops.chosen(small, quick, lambda: _any_divided(ops, op, v, w, dtype, None)))
        ops.b = outside
    return outside.call(function, [x, y])


def _any_divided(ops, op, x, y, dtype, const_b):
    """Return x // y or x % y for any two numbers."""
    b, by_zero = ops.b, None
    if const_b is None or const_b in (0, -1):
        by_zero, y = _divisor(ops, x, y, dtype, _packed(ops, dtype) and op == "%")
    if dtype in UNSIGNED:
        q, r = b.udiv(x, y), b.urem(x, y)
    else:
        q, r = b.sdiv(x, y), b.srem(x, y)
        below = b.and_(b.icmp_signed("!=", r, 0), b.icmp_signed("<", b.xor(r, y), 0))
        q = b.sub(q, b.zext(below, x.type))
        r = b.add(r, b.select(below, y, 0))
    result = q if op == "//" else r
    return result if by_zero is None else b.select(by_zero, 0, result)


def _packed(ops, dtype):
    """Return True for signed integers in packs of a CPU."""
    return ops.W > 1 and dtype not in UNSIGNED and not ops.target.straight


def _divisor(ops, x, y, dtype, modulo):
    """Return the mask of zeros of y, and y with 1 where the division x by y would trap. For a `modulo`, 1
    also replaces -1, and the mask is None: both divisors leave 0."""
    b = ops.b
    by_zero = traps = b.icmp_signed("==", y, 0)
    if modulo:
        return None, b.select(b.or_(by_zero, b.icmp_signed("==", y, -1)), 1, y)
    if dtype not in UNSIGNED:  # the least integer by -1 wraps to itself
        traps = b.or_(
            traps, b.and_(b.icmp_signed("==", x, -(2 ** (BITS[dtype] - 1))), b.icmp_signed("==", y, -1))
        )
    return by_zero, b.select(traps, 1, y)
