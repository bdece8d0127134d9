"""States of several numbers in memory, which scans of every machine read and write."""

from __future__ import annotations

from llvmlite import ir

from ...language.types import VARYING
from .values import I64


def words_of(ops, place, index, n):
    """The places of the n words of a state, which lie side by side."""
    b, first = ops.b, index if n == 1 else ops.b.mul(index, ir.Constant(index.type, n))
    return [b.gep(place, [b.add(first, ir.Constant(index.type, k)) if k else first], I64) for k in range(n)]


class Scanned:
    """Mixed into an entry that scans. It gives `state`: a Value without a number for each number of a
    state."""

    def _contributed(self, index, mask=None):
        """The state that the kernel returns at an index, or pack of them."""
        here = self.lower.here(mask, mask is not None)
        inside, text = here._replace(where=(index,)), self.kernel.portable_text
        (value,) = self._contributions(inside.inline(text, [index, *self.args]))
        return self._state(here, self.reducer, value, index, VARYING)

    def _neutral(self):
        return self.identity(self.reducer, self.state)

    def _read(self, places):
        return self._loaded(self.state, places)

    def _write(self, state, places):
        for x, v, p in zip(state, self.state, places):
            self.b.store(self.ops.get(x, v.dtype), p)
