"""Describe kernel arguments: their types as hashable specs, and their layout in the argument block.

The block is an array of 8-byte words, the same on every machine: a view takes its pointer, shape and strides
(in bytes), a number one word. A kernel's own float (the dtype of weak floats that are combined with no other
dtype) is float32 if its views hold float32 and no float64, else float64; its packs have 16 lanes if no view's
element is wider than 32 bits, else 8.
"""

import math
import struct

from ...language.types import BITS, UNIFORM, loaded_dtype, weak_dtype

# A spec is ("view", dtype, ndim, contiguous_last, readonly), the same with "scatter" first, ("number",
# dtype), ("static", value, its string), ("known", Known) or ("tuple", specs, names of the fields, if any)


def flatten(specs):
    for s in specs:
        if s[0] == "tuple":
            yield from flatten(s[1])
        else:
            yield s


def known_objects(specs):
    """Return the functions and other objects without a run-time value among the arguments."""
    return tuple(s[1].value for s in flatten(specs) if s[0] == "known")


def without_scatter(specs):
    """Return the specs with ScatterViews, which kernels only add to, as ordinary views."""
    return tuple(
        ("tuple", without_scatter(s[1]), s[2])
        if s[0] == "tuple"
        else ("view", *s[1:])
        if s[0] == "scatter"
        else s
        for s in specs
    )


def without_facts(specs):
    """Return the specs without the facts of views: `launch.two_codes` appends True for facts that hold."""
    return tuple(("view", *s[1:5]) if s[0] in ("view", "scatter") and s[5:] else s for s in specs)


class Signature:
    """Types of a launch's arguments, for the compiler."""

    def __init__(self, specs):
        self.specs = specs
        views = [s for s in flatten(specs) if s[0] in ("view", "scatter")]
        dtypes = {loaded_dtype(s[1]) for s in views}
        self.float_dtype = "float32" if "float32" in dtypes and "float64" not in dtypes else "float64"
        self.width = 16 if dtypes and all(BITS[d] <= 32 for d in dtypes) else 8
        self.n_words = sum(self._words(s) for s in flatten(specs))

    def scattered(self, words):
        """Return (elements, bytes) of every ScatterView, read from the words of a launch."""
        found, place = [], 0
        for spec in flatten(self.specs):
            if spec[0] == "scatter":
                n = math.prod(struct.unpack_from(f"={spec[2]}q", words, 8 * (place + 1)))
                found.append((n, n * BITS[spec[1]] // 8))
            place += self._words(spec)
        return found

    @staticmethod
    def _words(spec):
        return 1 + 2 * spec[2] if spec[0] in ("view", "scatter") else 1 if spec[0] == "number" else 0

    def described(self):
        """Return the description of the arguments that `typing.typed` takes."""

        def describe_spec(spec):
            if spec[0] == "tuple":
                return "tuple", spec[2], *map(describe_spec, spec[1])
            if spec[0] == "static":
                return "constant", weak_dtype(spec[1]), repr(spec[1]), spec[1]
            if spec[0] == "known":
                return spec
            if spec[0] == "number":
                return "number", spec[1], UNIFORM, 0, False
            return "view", spec[1], (None,) * spec[2], spec[4], spec[0] == "scatter", False, ""

        return [describe_spec(s) for s in self.specs]
