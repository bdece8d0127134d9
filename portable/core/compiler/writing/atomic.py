"""One atomic step of one lane."""

from __future__ import annotations

from ...language import types as t
from ...language.types import itemsize
from .values import I32, I64, Ops


class AtomicSteps(Ops):
    """Needs from the class on top: `target`."""

    def atomic_step(self, op, pointer, x, expected, view, want_old):
        """The old value, or None if it is not wanted."""
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
        if want_old or op not in ("min", "max") or self.target.straight:
            return self.b.atomic_rmw(name, pointer, x, "monotonic")
        with self.b.if_then(self._would_change(op, pointer, x, dtype)):
            self.b.atomic_rmw(name, pointer, x, "monotonic")

    def _would_change(self, op, pointer, x, dtype):
        """Whether the least or largest so far may change by x. Most often it does not, and then the cores of
        a CPU go on sharing its line, which each atomic operation takes for one of them."""
        b, is_float = self.b, t.is_float(dtype)
        compare = b.fcmp_unordered if is_float else b.icmp_unsigned if dtype in t.UNSIGNED else b.icmp_signed
        so_far = b.load_atomic(pointer, "monotonic", itemsize(dtype), typ=x.type)
        # zeros of both signs are equal
        return compare({"max": "<", "min": ">"}[op] + "=" * is_float, so_far, x)

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
