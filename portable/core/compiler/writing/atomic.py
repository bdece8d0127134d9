"""Emit atomic operations of one lane."""

from ...language.types import UNSIGNED, is_float, itemsize
from .lines import builder
from .values import I32, I64


def atomic_step(ops, op, pointer, x, expected, view, want_old):
    """Emit an atomic operation; return the old value, or None if `want_old` is False and the operation gives
    none."""
    dtype = view.dtype
    if op == "cas":
        return _compare_and_swap(pointer, expected, x, dtype)
    if op == "sub" and is_float(dtype):
        op, x = "add", builder.fneg(x)
    if view.unshared and op in ("add", "sub"):
        old = builder.load(pointer, x.type)
        builder.store(plain_sum(op, old, x), pointer)
        return old
    name = {"exchange": "xchg"}.get(op, op)
    if is_float(dtype):
        name = {"add": "fadd", "min": "fminimum", "max": "fmaximum"}.get(name, name)
    elif dtype in UNSIGNED and name in ("min", "max"):
        name = "u" + name
    if want_old or op not in ("min", "max") or ops.target.straight:
        return builder.atomic_rmw(name, pointer, x, "monotonic")
    with builder.if_then(_would_change(op, pointer, x, dtype)):
        builder.atomic_rmw(name, pointer, x, "monotonic")


def _would_change(op, pointer, x, dtype):
    """Return an LLVM bool that is true if x may change the stored minimum or maximum. Usually it does not;
    then the cores of a CPU keep sharing the cache line, which each atomic operation would claim
    exclusively."""
    floats = is_float(dtype)
    integers = builder.icmp_unsigned if dtype in UNSIGNED else builder.icmp_signed
    compare = builder.fcmp_unordered if floats else integers
    so_far = builder.load_atomic(pointer, "monotonic", itemsize(dtype), typ=x.type)
    # including equality, since zeros of both signs compare equal
    return compare({"max": "<", "min": ">"}[op] + "=" * floats, so_far, x)


def plain_sum(op, old, x):
    """Return old + x or old - x, for floats or integers."""
    if str(x.type) in ("float", "double"):
        return builder.fadd(old, x)
    return old + x if op == "add" else old - x


def _compare_and_swap(pointer, expected, x, dtype):
    if is_float(dtype):  # the instruction compares bits
        bits = I32 if dtype == "float32" else I64
        words = builder.bitcast(expected, bits), builder.bitcast(x, bits)
        return builder.bitcast(_compare_and_swap(pointer, *words, ""), x.type)
    return builder.extract_value(builder.cmpxchg(pointer, expected, x, "monotonic", "monotonic"), 0)
