"""States of several numbers in memory, which scans of every machine read and write."""

from __future__ import annotations

from llvmlite import ir

from .values import I64


def words_of(lower, place, index, n):
    """The places of the n words of a state, which lie side by side."""
    b, first = lower.b, index if n == 1 else lower.b.mul(index, ir.Constant(index.type, n))
    return [
        b.gep(place, [b.add(first, ir.Constant(index.type, k)) if k else first], source_etype=I64)
        for k in range(n)
    ]


class Scanned:
    """Mixed into an entry that scans. It gives `state`: a Value without a number for each number of a
    state."""

    def _neutral(self):
        return self.identity(self.reducer, self.state)

    def _read(self, places):
        return self._loaded(self.state, places)

    def _write(self, state, places):
        for x, v, p in zip(state, self.state, places):
            self.lower.b.store(self.lower.get(x, v.dtype), p)
