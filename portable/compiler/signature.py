"""Kernel arguments: their types as hashable specs, and how they lie in the argument block.

The block is an array of 8-byte words, the same on every machine: a view is its pointer, shape and strides (in
bytes), a number one word. A kernel's own float (the dtype of weak floats that meet nothing) is float32 if its
views hold float32 and no float64, else float64; its packs have 16 lanes if no view's element is wider than 32
bits, else 8.
"""

from __future__ import annotations

import itertools
import math
import struct


from . import types as t
from .memory import in_parts, itemsize
from .types import UNIFORM
from .values import I8, I64, PTR, SCALAR, Value, ViewValue

# A spec is ("view", dtype, ndim, contiguous_last, readonly), the same with "scatter" in front, ("number",
# dtype), ("static", value, its text) or ("tuple", specs, names of the fields, if any)


def flatten(specs):
    for s in specs:
        if s[0] == "tuple":
            yield from flatten(s[1])
        else:
            yield s


def without_scatter(specs):
    """The same arguments, views that are only added to as common ones."""
    return tuple(
        ("tuple", without_scatter(s[1]), s[2])
        if s[0] == "tuple"
        else ("view", *s[1:])
        if s[0] == "scatter"
        else s
        for s in specs
    )


class Signature:
    """What the compiler knows of a launch's arguments."""

    def __init__(self, specs):
        self.specs = specs
        views = [s for s in flatten(specs) if s[0] in ("view", "scatter")]
        dtypes = {t.held(s[1]) for s in views}
        self.float_dtype = "float32" if "float32" in dtypes and "float64" not in dtypes else "float64"
        self.width = 16 if dtypes and all(t.BITS[d] <= 32 for d in dtypes) else 8
        self.n_words = sum(self._words(s) for s in flatten(specs))

    def scattered(self, words):
        """(elements, bytes) of every ScatterView, read from the words of a launch."""
        found, place = [], 0
        for spec in flatten(self.specs):
            if spec[0] == "scatter":
                n = math.prod(struct.unpack_from(f"={spec[2]}q", words, 8 * (place + 1)))
                found.append((n, n * t.BITS[spec[1]] // 8))
            place += self._words(spec)
        return found

    @staticmethod
    def _words(spec):
        return 1 + 2 * spec[2] if spec[0] in ("view", "scatter") else 1 if spec[0] == "number" else 0

    def described(self):
        """What `typing.typed` has to know of the arguments."""

        def one(spec):
            if spec[0] == "tuple":
                return "tuple", spec[2], *map(one, spec[1])
            if spec[0] == "static":
                dtype = (
                    "bool" if isinstance(spec[1], bool) else "int" if isinstance(spec[1], int) else "float"
                )
                return "constant", dtype, repr(spec[1]), spec[1]
            if spec[0] == "number":
                return "number", spec[1], UNIFORM, 0, False
            return "view", spec[1], (None,) * spec[2], spec[4], spec[0] == "scatter", False, ""

        return [one(s) for s in self.specs]

    def values(self, lower, names, block):
        """The arguments as the compiler's values, loaded from the block at `block`."""
        places = itertools.count()

        def take(llvm_type):
            """The next word."""
            place = lower.b.gep(block, [I64(8 * next(places))], inbounds=True, source_etype=I8)
            return lower.b.load(place, align=8, typ=llvm_type)

        return [_value(lower, take, name, spec) for name, spec in zip(names, self.specs)]


def _value(lower, take, name, spec):
    """The value of one argument, made of the words that `take` gives."""
    if spec[0] == "tuple":
        parts = zip(t.named(name, len(spec[1]), spec[2]), spec[1])
        return t.Record((_value(lower, take, *part) for part in parts), spec[2])
    if spec[0] == "static":
        return lower.const(spec[1])
    if spec[0] == "number":
        if spec[1] == "bool":
            return Value("bool", UNIFORM, lower.b.icmp_signed("!=", take(I64), I64(0)))
        return Value(spec[1], UNIFORM, take(SCALAR[lower.strong(spec[1])]))
    what, dtype, ndim, contiguous_last, readonly = spec
    pointer = take(PTR)
    shape = [take(I64) for _ in range(ndim)]
    strides = [take(I64) for _ in range(ndim)]
    if contiguous_last and ndim:
        strides[-1] = itemsize(dtype)
    parts, shape, strides = in_parts(dtype, shape, strides)
    view = ViewValue(name, parts, pointer, shape, strides, readonly, scatter=what == "scatter")
    view.element = dtype
    return view
