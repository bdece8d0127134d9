"""Loops of the debug build that need no looks: indices whose first and last trip tell of all others."""

from __future__ import annotations

from llvmlite import ir

from ...core.compiler.reading.tree import Block, Call, Leave, Loop, Operation, Set, inside
from ...core.language.types import UNIFORM
from ...core.compiler.writing.values import I64, Value

INDICES = Loop("members", None, Block(None, []))  # a launch's, pack by pack


class Version:
    """A loop being emitted without the looks at indices that its first and last trip tell of.

    An index is known if it is a * counter + k + what does not change in the loop, a and k Python integers.
    """

    def __init__(self, lower, loop, before):
        self.lower, self.loop, self.before, self.looks = lower, loop, before, {}
        self.written, self.counter = set(_assigned(loop.body)), None  # its Value, if it is no node's

    def knows(self, x, n, step=0):
        """Whether the loop's ends tell whether an index is one of n; noted if so. `step`: what lanes differ
        by."""
        form = None if isinstance(x.type, ir.VectorType) else self._form(x)
        if form is None or not self._stays(n):
            return False
        a, k, rest = form
        key = a, n.constant if isinstance(n, ir.Constant) else n, frozenset(rest.items())
        # a counter that is the members' differs between lanes by itself
        far = 0 if step == a and self.loop.form == "members" else step * (self.lower.W - 1)
        if abs(far) >> 40:
            return False
        low, high, *same = self.looks.get(key, (k, k, n, rest))
        self.looks[key] = min(low, k, k + far), max(high, k, k + far), *same
        return True

    def fine(self, first, last, upwards):
        """An i1, whether all is inside from a first to before a last counter; None if nothing was asked."""
        if not self.looks:
            return None
        b = self.lower.b
        first, last = (first, b.sub(last, I64(1))) if upwards else (b.add(first, I64(1)), last)
        # so that no product wraps
        fine = b.icmp_unsigned("<", b.sub(last, first), I64(1 << 40))
        for (a, *_), (low, high, n, rest) in self.looks.items():
            n, base = self._again(n), I64(0)
            for x, times in rest.items():
                base = b.add(base, b.mul(self._again(x), I64(times)))
            for counter, k in ((first, low), (last, high)) if a >= 0 else ((last, low), (first, high)):
                index = b.add(b.add(base, b.mul(counter, I64(a))), I64(k))
                fine = b.and_(fine, b.icmp_unsigned("<", index, n))
        return fine

    def _form(self, x):
        """(a, k, {value: times}) of an index, or None."""
        if isinstance(x, ir.Constant):
            return 0, x.constant, {}
        counter = self.counter or self.lower.values.get(self.loop.counter)
        if counter is not None and x is counter.ir:
            return 1, 0, {}
        op = getattr(x, "opname", None)
        if op not in ("add", "sub", "mul") or x.parent in self.before:
            return (0, 0, {x: 1}) if self._stays(x) else None
        parts = [self._form(y) for y in x.operands]
        if None in parts:
            return None
        (a, k, rest), (c, m, more) = parts
        if op != "mul":
            sign = 1 if op == "add" else -1
            sums = {y: rest.get(y, 0) + sign * more.get(y, 0) for y in {**rest, **more}}
            return _bounded(a + sign * c, k + sign * m, sums)
        return _product(x, *parts)

    def _stays(self, x):
        """Whether a value is the same in all trips, and can be had before them."""
        if not isinstance(x, ir.Instruction) or x.parent in self.before:
            return True
        if x.opname == "load":
            slots = self.lower.slots if self.loop is not INDICES else ()  # all are assigned in it
            return any(slots[v] is x.operands[0] for v in slots if v not in self.written)
        return x.opname in ("add", "sub", "mul") and all(map(self._stays, x.operands))

    def _again(self, x):
        """The value before the loop."""
        if not isinstance(x, ir.Instruction) or x.parent in self.before:
            return x
        b = self.lower.b
        if x.opname == "load":
            return b.load(x.operands[0], typ=x.type)
        return {"add": b.add, "sub": b.sub, "mul": b.mul}[x.opname](*map(self._again, x.operands))


def in_versions(lower, emit, loop, start, stop, step):
    """Emit a loop twice, if its trips only read, write and compute: without the looks that its ends tell of,
    and with all."""
    if not _splits(lower, loop, start, stop, step):
        emit()
        return
    b = lower.b
    choose, ends = b.block, [lower.get(v, "int") for v in (start, stop)]
    quick, after = b.append_basic_block("quick"), b.append_basic_block("after")
    version = Version(lower, loop, set(b.function.blocks) - {quick, after})
    b.position_at_end(quick)
    with lower.under(version=version):
        emit()
    b.branch(after)
    b.position_at_end(choose)
    fine = version.fine(*(ends if step > 0 else ends[::-1]), step > 0)
    if fine is None:
        b.branch(quick)
    else:
        slow = b.append_basic_block("slow")
        b.cbranch(fine, quick, slow)
        b.position_at_end(slow)
        emit()
        b.branch(after)
    b.position_at_end(after)


def _splits(lower, loop, start, stop, step):
    """Whether a loop is emitted in versions: not in a stretch that may run again for a NaN, nor where masks
    that a loop of packs changes go on behind it."""
    if lower.version or lower.silent or lower.run or not isinstance(step, int):
        return False
    if lower.W > 1 and (loop.exits or loop.returns or not start.kind == stop.kind == UNIFORM):
        return False
    return loop.innermost() and (lower.leaves or not meets(loop.body))


def packs_in_versions(entry, usual, begin, end):
    """The packs of a text without loops, in versions where a kernel can be left; where their rest begins."""
    lower = entry.lower
    if entry.has_loops or not lower.leaves:
        return usual()
    rest, ends = lower.slot(I64), [Value("int", UNIFORM, n) for n in (begin, end)]
    in_versions(lower, lambda: lower.b.store(usual(), rest), INDICES, *ends, 1)
    return lower.b.load(rest, typ=I64)


def _product(x, one, other):
    """The form of a product x of two forms."""
    (a, k, rest), (c, m, more) = (one, other) if one[0] or one[2] else (other, one)
    if c or more:
        return None if a or c else (0, 0, {x: 1})
    return _bounded(a * m, k * m, {y: times * m for y, times in rest.items()})


def _bounded(a, k, rest):
    """The form of an index, if its numbers are small enough for sums in 64 bits."""
    return (a, k, rest) if max(abs(a), abs(k) >> 20, *map(abs, rest.values()), 0) < 1 << 20 else None


def _assigned(block):
    """The variables that are assigned in what a block runs."""
    for node in block.body:
        sets = {Set: [node], Leave: getattr(node, "results", ()), Call: getattr(node, "setup", ())}
        yield from (s.variable for s in sets.get(node.__class__, ()))
        for part in inside(node):
            yield from _assigned(part)


def meets(block):
    """Whether members meet in what a block runs: those that have left would be waited for."""
    return any(
        node.__class__ is Operation and node.op in ("together", "barrier") or any(map(meets, inside(node)))
        for node in block.body
    )


def parted(x):
    """A number as another one and a Python integer, their sum."""
    base, k = x, 0
    while getattr(base, "opname", None) in ("add", "sub") and isinstance(base.operands[1], ir.Constant):
        k += base.operands[1].constant * (1 if base.opname == "add" else -1)
        base = base.operands[0]
    return (x, 0) if isinstance(base, ir.Constant) or abs(k) >= 1 << 31 else (base, k)
