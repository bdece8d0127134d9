"""Emit arithmetic on LLVM values, with Python's meaning of division, modulo and shifts."""

from llvmlite import ir

from ...language.types import BITS, UNSIGNED, is_float
from .lines import Integer, builder, like

I32, I64 = Integer(32), Integer(64)
# Moves that hide a number's range from LLVM, which would divide a short number by mul.hi.u32 without a
# shift: ptxas (13.0 to 13.5) fuses that with the subtraction of a number of 64 bits, and loses the carry if
# this is 0.
_MOVES = {
    n: ir.InlineAsm(ir.FunctionType(ir.IntType(n), [ir.IntType(n)]), f"mov.b{n} $0, $1;", f"={of},{of}")
    for n, of in ((32, "r"), (64, "l"))
}


def emit_arithmetic(ops, op, x, y, dtype, const_b):
    """Emit `x op y` on two LLVM values; `const_b`: the Python number of y if it is known, or None."""
    if is_float(dtype):
        return {"+": builder.fadd, "-": builder.fsub, "*": builder.fmul, "/": builder.fdiv}[op](
            x, y, flags=ops.flags
        )
    if op in ("+", "-", "*"):
        wrap = ("nsw",) if dtype == "int64" else ()
        if op == "*":
            return ops.target.product(x, y, flags=wrap)
        return (builder.add if op == "+" else builder.sub)(x, y, flags=wrap)
    if op in ("//", "%"):
        return _divide(ops, op, x, y, dtype, const_b)
    if op in ("<<", ">>"):
        return _shift(ops, op, x, y, dtype, const_b)
    return {"&": builder.and_, "|": builder.or_, "^": builder.xor}[op](x, y)


def _shift(ops, op, x, y, dtype, count):
    """Return x shifted by any count y; a count that is negative, or not below the number of bits, shifts all
    bits out (for a negative x, >> gives -1)."""
    bits = BITS[dtype]
    if count is not None and 0 <= count < bits:
        return {"<<": builder.shl, ">>": builder.lshr if dtype in UNSIGNED else builder.ashr}[op](x, y)
    y = ops.intrinsic("umin", [y, like(y, bits)])  # for PTX, LLVM uses the lower half of a count
    inside = builder.icmp_unsigned("<", y, bits)
    if op == ">>" and dtype not in UNSIGNED:
        return x >> builder.select(inside, y, bits - 1)
    return builder.select(inside, (builder.shl if op == "<<" else builder.lshr)(x, y), 0)


def _divide(ops, op, x, y, dtype, const_b):
    """Return x // y or x % y as in Python; a zero divisor gives 0 instead of a trap."""
    if _packed(ops, dtype) and const_b and const_b > 0 and not const_b & (const_b - 1):
        if op == "%":
            return x & (const_b - 1)
        return x >> (const_b.bit_length() - 1)
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
    index, c = x, 0
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
    x, n = (builder.trunc(v, I32) for v in (index + c, n))
    return builder.zext(ops.intrinsic("umin", [x, (builder.sub if c > 0 else builder.add)(x, n)]), I64)


def _hidden(ops, x, move):
    """Return a number, or each number of a pack, passed through a move."""
    hide = lambda v: builder.call(move, [v], attrs=("readnone",))  # noqa: E731
    if not isinstance(x.type, ir.VectorType):
        return hide(x)
    for k in range(x.type.count):
        x = builder.insert_element(x, hide(ops.lane(x, k)), I32(k))
    return x


def _wrapped_remainder(ops, x, y, dtype):
    """Return x % y, with a fast path by one subtraction for indices that wrap around, as in `(i + 1) % n`."""
    once = ops.intrinsic("umin", [x, x - y])
    # y is positive, and so small that no x below 2 y is negative
    short = builder.icmp_unsigned("<", y - 1, 1 << BITS[dtype] - 2)
    inside = ops.all_lanes(builder.icmp_unsigned("<", once, y) & short)
    return ops.chosen(inside, lambda: once, lambda: _any_divided(ops, "%", x, y, dtype, None))


def _called(ops, op, x, y, dtype):
    """Return x // y or x % y by a call of an internal function, of which LLVM can eliminate repeated calls;
    numbers of 31 bits are divided in 32 bits, since wide divisions are slow."""
    name = f"portable_{'quotient' if op == '//' else 'remainder'}_{dtype}"
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(x.type, [x.type] * 2), name)
        function.linkage = "internal"
        for word in ("alwaysinline", "nounwind", "readnone"):
            function.attributes.add(word)
        with builder.elsewhere():
            builder.begin(function, "begin")
            v, w = function.args
            halves = [builder.trunc(number, I32) for number in (v, w)]
            quick = lambda: builder.zext(_any_divided(ops, op, *halves, "uint32", None), v.type)  # noqa: E731
            small = builder.icmp_unsigned("<", v | w, 1 << 31)
            builder.ret(ops.chosen(small, quick, lambda: _any_divided(ops, op, v, w, dtype, None)))
    return builder.call(function, [x, y])


def _any_divided(ops, op, x, y, dtype, const_b):
    """Return x // y or x % y for any two numbers."""
    by_zero = None
    if const_b is None or const_b in (0, -1):
        by_zero, y = _divisor(ops, x, y, dtype, _packed(ops, dtype) and op == "%")
    if dtype in UNSIGNED:
        q, r = builder.udiv(x, y), builder.urem(x, y)
    else:
        q, r = builder.sdiv(x, y), builder.srem(x, y)
        below = r.differs(0) & ((r ^ y) < 0)
        q = q - builder.zext(below, x.type)
        r = r + builder.select(below, y, 0)
    result = q if op == "//" else r
    return result if by_zero is None else builder.select(by_zero, 0, result)


def _packed(ops, dtype):
    """Return True for signed integers in packs of a CPU."""
    return ops.W > 1 and dtype not in UNSIGNED and not ops.target.straight


def _divisor(ops, x, y, dtype, modulo):
    """Return the mask of zeros of y, and y with 1 where the division x by y would trap. For a `modulo`, 1
    also replaces -1, and the mask is None: both divisors leave 0."""
    by_zero = traps = y.equals(0)
    if modulo:
        return None, builder.select(by_zero | y.equals(-1), 1, y)
    if dtype not in UNSIGNED:  # the least integer by -1 wraps to itself
        traps = traps | (x.equals(-(2 ** (BITS[dtype] - 1))) & y.equals(-1))
    return by_zero, builder.select(traps, 1, y)
