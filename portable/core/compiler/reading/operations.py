"""Add operations on numbers to the tree under construction; operations on constants are evaluated at once."""

import math
from contextlib import contextmanager

import numpy as np

from ...language import words
from ...locks import compiling
from .tree import Operation, arranged, flat
from ...language.types import (
    HOLDS,
    UNIFORM,
    check_fits,
    common_float,
    converted,
    exact,
    folded,
    is_float,
    is_weak,
    converted_constant,
    promote,
    strong,
    weak_dtype,
)


_ROUNDED = {"ceil", "copysign", "floor", "rint", "sqrt", "trunc"}  # correctly rounded, also by NumPy


class Operations:
    """Base class of builders, which provide `block` (the place of new operations), `order` (all nodes),
    `line`, `at`, and the kernel's own `float_dtype`."""

    def put(self, node):
        """Add a node at this place and return it."""
        node.line = self.line
        self.block.body.append(node)
        self.order.append(node)
        return node

    def operation(self, op, *args, **more):
        return self.put(Operation(op, self.operands(*args), at=self.at, **more))

    def counted(self, name, number):
        """Return `number` after marking it as the result of one counted operation of the source."""
        if number.const is None:
            number.counts = name
        return number

    @staticmethod
    def const(number):
        """Return a Python number as a weak constant."""
        return Operation("const", dtype=weak_dtype(number), kind=UNIFORM, const=number)

    @staticmethod
    def strong_const(number, dtype):
        """Return a Python number as a constant of `dtype`; it wraps unless the dtype is weak."""
        return Operation(
            "const", dtype=dtype, kind=UNIFORM, const=number if is_weak(dtype) else converted(number, dtype)
        )

    def operands(self, *numbers):
        """Return numbers as nodes; those of Python as weak constants."""
        return [v if isinstance(v, Operation) else self.const(v) for v in numbers]

    def cast(self, v, dtype):
        """Return `v` converted to `dtype`."""
        if v.dtype == dtype:
            return v
        if v.const is not None:
            number = converted_constant(v, dtype, self.float_dtype)
            return self.strong_const(converted(number, strong(dtype, self.float_dtype)), dtype)
        return self.operation("cast", v, attr=dtype, dtype=dtype)

    def binary(self, op, a, b):
        a, b = self.operands(a, b)
        if a.const is not None and b.const is not None and is_weak(a.dtype) and is_weak(b.dtype):
            number = folded(op, a.const, b.const, self.float_dtype)
            if number is not None and not (
                op in "+-" and (a.args or b.args)
            ):  # a sum with a product is rounded once
                made = self.const(number)
                if (
                    op == "*"
                    and made.dtype == "float"
                    and not exact(number, a.const, b.const, self.float_dtype)
                ):
                    made.attr, made.args = op, [a, b]
                return made
        return self.operation("binary", a, b, attr=op)

    def parts_of(self, n, size):
        """Return n / size, rounded up, of integers."""
        return self.binary("//", self.binary("+", n, self.binary("-", size, 1)), size)

    def known_as(self, v, dtype):
        """Return the Python number of a constant converted to `dtype`; raise TypeClash for a literal out of
        range."""
        number = converted_constant(v, dtype, self.float_dtype)
        if dtype == "int":
            return int(number)
        dtype = strong(dtype, self.float_dtype)
        if v.dtype == "int":
            check_fits(number, dtype)
        return converted(number, dtype)

    def compare(self, op, a, b):
        a, b = self.operands(a, b)
        if a.const is not None and b.const is not None:
            dtype = promote(a.dtype, b.dtype)
            return self.const(HOLDS[op](self.known_as(a, dtype), self.known_as(b, dtype)))
        return self.operation("compare", a, b, attr=op, dtype="bool")

    def compared(self, op, a, b):
        """Return a comparison that counts as an operation of the source."""
        return self.counted("compare", self.compare(op, a, b))

    def negate(self, v):
        if v.const is not None:
            return self.strong_const(-v.const, "int" if v.dtype == "bool" else v.dtype)
        return self.operation("negate", v)

    def invert(self, v):
        return self.logical_not(v) if v.dtype == "bool" else self.operation("invert", v)

    def truth(self, v):
        """Return `v` as a bool."""
        return self.cast(v, "bool")

    def logical_not(self, v):
        v = self.truth(v)
        return self.const(not v.const) if v.const is not None else self.operation("not", v, dtype="bool")

    def select(self, condition, a, b):
        """Return `a` where the condition holds, else `b`, without a branch."""
        a, b = self.operands(a, b)
        chosen = a if condition.const else b
        if condition.const is not None and chosen.const is not None and a.dtype and b.dtype:
            return self.rounded(self.cast(chosen, promote(a.dtype, b.dtype)))
        return self.operation("select", condition, a, b)

    def chosen(self, items, k):
        """Return the k-th of items with the same arrangement, without a branch."""
        if k.const is not None:
            return items[k.const]
        *firsts, result = items
        if self.asserts:
            inside = (self.compare(*ends) for ends in (("<=", 0, k), ("<", k, len(items))))
            self.operation(
                "assert", self.binary("&", *inside), attr=f"the index of {len(items)} numbers is outside"
            )
        for n, item in reversed([*enumerate(firsts)]):
            here = self.compare("==", k, n)
            result = arranged(
                item, iter([self.select(here, *pair) for pair in zip(flat(item), flat(result))])
            )
        return result

    def extreme(self, op, a, b, nan_wins=False):
        a, b = self.operands(a, b)
        if a.const is not None and b.const is not None:
            dtype = promote(a.dtype, b.dtype)
            choose = words.EXTREMES[op, nan_wins]
            numbers = [self.known_as(v, dtype) for v in (a, b)]
            first = repr(numbers[0]) == repr(type(numbers[0])(choose(*numbers)))  # repr shows signed zeros
            return self.rounded(self.cast(a if first else b, dtype))
        return self.operation("extreme", a, b, attr=(op, nan_wins))

    def intrinsic(self, name, *values):
        """Return an LLVM intrinsic on floats. For constants it is NumPy's result, which has the same bits: a
        zero that only LLVM finds would miss the special treatment of comparisons with zero."""
        if name in _ROUNDED and all(v.const is not None and is_float(v.dtype) for v in values):
            dtype = common_float(values)
            own = np.dtype(strong(dtype, self.float_dtype)).type
            with np.errstate(all="ignore"):
                number = float(getattr(np, name)(*(own(self.known_as(v, dtype)) for v in values)))
            if math.isfinite(number):
                return self.strong_const(number, dtype)
        return self.counted(name, self.operation("intrinsic", *values, attr=name))

    def round_to_integer(self, v, name):
        """Return a float truncated, rounded down or rounded up, as an integer."""
        if v.const is None:
            return self.counted("convert", self.operation("whole", v, attr=name))
        if not is_float(v.dtype):
            return self.cast(v, "int") if v.dtype == "bool" else v
        round_ = round if name == "rint" else getattr(math, name)
        number = converted_constant(v, "int", self.float_dtype)
        if abs(number) < 2.0**31 - 1.0:
            return self.const(round_(number))
        return self.operation("whole", v, attr=name)  # which wraps at run time

    def rounded(self, v):
        """Return a function's result as a rounded value, so that a product in it is not fused with the
        caller's sum."""
        if isinstance(v, Operation) and v.const is not None:
            return self.strong_const(v.const, v.dtype) if v.args else v
        product = isinstance(v, Operation) and (v.attr == "*" or v.op in ("cast", "select", "settle"))
        return self.operation("rounded", v) if product else v


build = Operations()  # the builder of the tree under construction, by its attributes: see `building`


@contextmanager
def building(current):
    """Make a builder the one that readers of a source use, in a context: one thread at a time."""
    with compiling:
        before = build.__class__, build.__dict__
        try:
            build.__class__, build.__dict__ = current.__class__, current.__dict__
            yield
        finally:
            build.__class__, build.__dict__ = before
