"""Emit atomic operations of one lane."""

from ...language.types import UNSIGNED, is_float, itemsize
from .values import I32, I64


def atomic_step(ops, op, pointer, x, expected, view, want_old):
    """Emit an atomic operation; return the old value, or None if `want_old` is False and the operation gives
    none."""
    b, dtype = ops.b, view.dtype
    if op == "cas":
        return _compare_and_swap(b, pointer, expected, x, dtype)
    if op == "sub" and is_float(dtype):
        op, x = "add", b.fneg(x)
    if view.unshared and op in ("add", "sub"):
        old = b.load(pointer, x.type)
        b.store(plain_sum(b, op, old, x), pointer)
        return old
    name = {"exchange": "xchg"}.get(op, op)
    if is_float(dtype):
        name = {"add": "fadd", "min": "fminimum", "max": "fmaximum"}.get(name, name)
    elif dtype in UNSIGNED and name in ("min", "max"):
        name = "u" + name
    if want_old or op not in ("min", "max") or ops.target.straight:
        return b.atomic_rmw(name, pointer, x, "monotonic")
    with b.if_then(_would_change(b, op, pointer, x, dtype)):
        b.atomic_rmw(name, pointer, x, "monotonic")


def _would_change(b, op, pointer, x, dtype):
    """Return an LLVM bool that is true if x may change the stored minimum or maximum. Usually it does not;
    then the cores of a CPU keep sharing the cache line, which each atomic operation would claim
    exclusively."""
    floats = is_float(dtype)
    compare = b.fcmp_unordered if floats else b.icmp_unsigned if dtype in UNSIGNED else b.icmp_signed
    so_far = b.load_atomic(pointer, "monotonic", itemsize(dtype), typ=x.type)
    # including equality, since zeros of both signs compare equal
    return compare({"max": "<", "min": ">"}[op] + "=" * floats, so_far, x)


def plain_sum(b, op, old, x):
    """Return old + x or old - x, for floats or integers."""
    if str(x.type) in ("float", "double"):
        return b.fadd(old, x)
    return (b.add if op == "add" else b.sub)(old, x)


def _compare_and_swap(b, pointer, expected, x, dtype):
    if is_float(dtype):  # the instruction compares bits
        bits = I32 if dtype == "float32" else I64
        words = b.bitcast(expected, bits), b.bitcast(x, bits)
        pair = b.cmpxchg(pointer, *words, "monotonic", "monotonic")
        return b.bitcast(b.extract_value(pair, 0), x.type)
    return b.extract_value(b.cmpxchg(pointer, expected, x, "monotonic", "monotonic"), 0)
