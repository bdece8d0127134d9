"""Where a debug build looks for NaN on a machine that can leave a kernel: once in a STRETCH of a text.

A NaN goes through sums, products and roots. So of a stretch, which changes nothing but variables and private
arrays, only the values that nothing else is made of are looked at, and those that a loop adds up behind it,
all by one branch at its end. Where one is NaN the stretch runs again, from what it began with, and each
operation is looked at.
"""

from __future__ import annotations

import copy
import itertools

from llvmlite import ir

from ...core.language import types as t
from ...core.compiler.writing.emit import Emitter
from ...core.compiler.reading.tree import Block, Call, Leave, Loop, Operation, Rejoin, Set, View, inside
from ...core.compiler.writing.values import I1, I8, I64, Value

_PURE = frozenset(
    "get binary compare cast settle one rounded not negate invert select extreme abs intrinsic whole bits "
    "from_bits lanes math load junction choice item part rank league_rank league_size together".split()
)
_SAME = "negate", "abs", "cast", "settle", "rounded"  # a NaN where their argument is one
BUT_NAN = "but NaN"  # of `silent`: nothing else is looked at


class Stretch:
    """A stretch being emitted for the first time.

    start, flags : its first block; {type: the place of what was found}
    pending : {value: mask} of this basic block that are to be looked at
    held : {variable or element of a private array: what it holds}
    same : {value: one that is NaN where it is}
    kept : what stays NaN in the loop around this place, and is looked at behind it
    """

    def __init__(self, start):
        self.start, self.flags = start, {}
        self.pending, self.held, self.same, self.kept = {}, {}, {}, ()

    def alias(self, x):
        return self.same.get(x, x)


class Numbers(Emitter):
    """Needs from the class on top: `require`.

    run : the Stretch; straight : whether within a call that nothing leaves early
    nothing : where a stretch runs again, a zero that LLVM does not know
    """

    nan, silent, leaves = False, False, True
    run, straight, nothing = None, False, None

    def block(self, block):
        if self.run:
            straight, self.straight = self.straight, False
            super().block(block)
            if not straight:
                self._look()
        elif not self.nan or self.silent or not self.leaves:
            super().block(block)
        else:
            for pure, nodes in itertools.groupby(block.body, _pure):
                if not self.dead:
                    (self._in_stretch if pure else super().block)(Block(None, list(nodes)))

    def _in_stretch(self, block):
        b, before, changed = self.b, dict(self.values), list(self._changed(block.body))
        old = [(place, b.load(place, typ=typ)) for place, typ, read in changed if read]
        with self.under(run=Stretch(b.block)):
            super().block(block)
            self._look()
            flags = self.run.flags
        if not flags:
            return
        new = [(place, b.load(place, typ=typ)) for place, typ, _ in changed]
        with b.if_then(self._any(flags), likely=False):
            nothing = b.asm(ir.FunctionType(I64, [I64]), "", "=r,0", [I64(0)], True)
            for place, x in old:
                b.store(self._apart(x), place)
            with self.under(silent=BUT_NAN, nothing=nothing, values=before):
                self._part_arguments(block.body)
                super().block(block)
            for place, x in new:
                b.store(x, place)

    def _part_arguments(self, nodes):
        for node in _arguments(nodes):
            v = self.values.get(node)
            if isinstance(v, Value) and v.ir is not None:
                self.values[node] = v = copy.copy(v)
                v.ir = self._apart(v.ir)

    def _apart(self, x):
        """A value of which LLVM does not know that it is this one: it would keep all that is made of it."""
        element = getattr(x.type, "element", x.type)
        floats = isinstance(element, (ir.FloatType, ir.DoubleType))
        return self.intrinsic("arithmetic.fence", [x]) if floats else x

    def locate(self, view, indices, pairs=False):
        if self.nothing and view.store != "(local)":  # elsewhere than LLVM knows, for the same reason
            view = copy.copy(view)
            view.pointer = self.b.gep(view.pointer, [self.nothing], source_etype=I8)
        return super().locate(view, indices, pairs)

    def _changed(self, nodes):
        """(place, type, whether it is read before) of what a stretch changes."""
        seen, changed, arrays = set(), {}, set()
        for node, sure in _walk(nodes):
            what, assigned = _what(node), [what for what, _ in _assigned(node)]
            if what and not assigned:
                (arrays if what[0].__class__ is View and len(what) == 1 else seen).add(what)
            for what in assigned:
                changed.setdefault(what, not sure or what in seen or what[:1] in arrays)
        for what, read in changed.items():
            for place, typ in self._places(what):
                yield place, typ, read

    def _places(self, what):
        """(place, type) of a variable, one for each loop that has its own, or of an element of a private
        array."""
        variable, *indices = what
        if variable.__class__ is View:
            if variable in self.values:
                view = self.values[variable]
                one = self.memory_type(view.dtype)
                place = self.locate(view, [self.const(k) for k in indices])[1]
                yield place, one if self.W == 1 else ir.VectorType(one, self.W)
            return
        own = [loop.free for loop in (self.frame.loops if self.frame else ()) if variable in loop.free]
        for place in (self.slot_of(variable), *(free[variable] for free in own)):
            yield place, self.type_of(variable.dtype, variable.kind)

    # ---- what is looked at
    def made(self, op, result, operands):
        """An operation's result in a stretch, which may be a NaN made from numbers."""
        if op in ("+", "-", "*", "/", "fma") or len(operands) == 1:
            for v in operands:
                self.run.pending.pop(self.run.alias(v.ir), None)
        self._waits(self.get(result))

    def _waits(self, x):
        self.run.pending[x] = self.mask if isinstance(x.type, ir.VectorType) else None

    def _look(self):
        """Note whether a pending value is NaN."""
        s, alike = self.run, {}
        kept = {s.alias(s.held[what]) for what in s.kept if what in s.held}
        for x, mask in s.pending.items():
            if x not in kept:
                alike.setdefault((x.type, mask), []).append(x)
        for (typ, mask), values in alike.items():
            for x, y in itertools.zip_longest(values[::2], values[1::2], fillvalue=values[0]):
                self._note(self.b.fcmp_unordered("uno", x, y), typ, mask)
        s.pending, s.held, s.same = {}, {}, {}

    def _note(self, found, typ, mask):
        flags, b = self.run.flags, self.b
        if isinstance(typ, ir.VectorType):
            typ = ir.VectorType(ir.IntType(64 if isinstance(typ.element, ir.DoubleType) else 32), self.W)
            found = b.sext(found if mask is None else self.masked(mask, found), typ)
        else:
            typ = I1
        if typ not in flags:
            flags[typ] = self.slot(typ)
            with b.goto_block(self.run.start):
                b.store(ir.Constant(typ, None), flags[typ])
        b.store(b.or_(b.load(flags[typ], typ=typ), found), flags[typ])

    def _any(self, flags):
        """Whether something was found."""
        b, some = self.b, I1(0)
        for typ, place in flags.items():
            x = b.load(place, typ=typ)
            if typ is not I1:
                x = b.icmp_unsigned(
                    "!=", self.intrinsic("vector.reduce.or", [x], typ.element), typ.element(0)
                )
            some = b.or_(some, x)
        return some

    # ---- what values go on in
    def emit_node(self, node):
        if self.run:
            straight = node.__class__ is Call and node.text.single_return
            if inside(node) and not straight or node.__class__ in (Leave, Rejoin):
                self._look()
            self.straight = straight
        super().emit_node(node)
        self.straight = False

    def emit_loop(self, loop):
        s = self.run
        if not s:
            super().emit_loop(loop)
            return
        kept = () if loop.returns else _kept(loop)
        outer, s.kept = s.kept, kept
        super().emit_loop(loop)
        s.kept = outer
        for what in kept:
            place, typ = next(self._places(what))
            s.held[what] = x = self.b.load(place, typ=typ)
            self._waits(x)

    def emit_operation(self, o):
        super().emit_operation(o)
        if not self.run or not o.dtype or not t.is_float(o.dtype):
            return
        if o.op in _SAME:
            first = self.value(o.args[0]).ir
        else:
            first = self.run.held.get(_what(o))
        if None not in (first, self.values[o].ir):
            self.run.same[self.values[o].ir] = self.run.alias(first)

    def emit_store(self, o, *args):
        super().emit_store(o, *args)
        if self.run:
            self._holds(_what(o), args[-1], self.b.block.instructions[-1].operands[0])

    def emit_set(self, s):
        super().emit_set(s)
        if self.run and t.is_float(s.variable.dtype):
            place = self.slot_of(s.variable)
            stores = [i for i in self.b.block.instructions if i.opname == "store" and i.operands[1] is place]
            self._holds((s.variable,), self.value(s.value), stores[-1].operands[0])

    def _holds(self, what, value, x):
        """A variable or element holds x, which has the lanes of a value."""
        s = self.run
        s.held[what] = x
        if x is not value.ir:  # converted, or chosen by a mask
            if s.pending.pop(s.alias(value.ir), self) is not self:
                self._waits(x)
            else:
                del s.held[what]


def _what(o):
    """The variable or element of a private array that an operation reads or writes: a tuple, of the array
    alone if the place is not known; else None."""
    if o.__class__ is not Operation or o.op not in ("get", "load", "store"):
        return None
    if o.op == "get":
        return (o.attr,)
    view, indices = o.view, o.args[: len(o.args) - (o.op == "store")]
    if view.store != "(local)":
        return None
    if view.base is not None or view.options or any(i.const is None for i in indices):
        while view.base is not None:
            view = view.base
        return (view,)
    return view, *(int(i.const) for i in indices)


def _pure(node, within=()):
    """Whether a node changes nothing but variables and elements of private arrays, and is left at its end."""
    kind = node.__class__
    if kind is Operation and node.op not in _PURE:
        return node.op == "store" and len(_what(node) or ()) > 1
    if kind is View and node.store == "(scratch)" or kind is Loop and node.form == "while":
        return False
    if kind is Leave:
        return node.target in within
    if kind is Rejoin:
        return (node.loop or node.call) in within
    within = (*within, node)
    return all(_pure(each, within) for block in inside(node) for each in block.body)


def _walk(nodes, sure=True):
    """(node, whether it is sure to be reached) of nodes and what they run, in order."""
    for node in nodes:
        yield node, sure
        for block in inside(node):
            yield from _walk(block.body, sure and node.__class__ is Call and node.text.single_return)


def _assigned(node):
    """(what, value) of each assignment of a node."""
    if node.__class__ is Operation:
        return [(_what(node), node.args[-1])] if node.op == "store" else []
    sets = [node] if node.__class__ is Set else getattr(node, "results", getattr(node, "setup", ()))
    return [((s.variable,), s.value) for s in sets]


def _arguments(nodes):
    """The numbers from before them that nodes are made from."""
    found, own = {}, set()
    for node, _ in _walk(nodes):
        own |= {node, getattr(node, "counter", None)}
        found |= dict.fromkeys(node.args if node.__class__ is Operation else ())
        found |= {value: None for _, value in _assigned(node)}
    return [node for node in found if node not in own]


def _kept(loop):
    """What stays NaN in a loop: variables and elements whose every assignment is made of what they were."""
    n_sets, lost, carried = {}, set(), {}
    for node, _ in _walk([loop]):
        what, assigned = _what(node), _assigned(node)
        if what and not assigned:
            carried[node] = {(what, n_sets.get(what, 0))}
        elif node.__class__ is Operation and _goes_on(node):
            carried[node] = set().union(*(carried.get(a, ()) for a in node.args))
        for what, value in assigned:
            if (what, n_sets.setdefault(what, 0)) not in carried.get(value, ()):
                lost.add(what)
            n_sets[what] += 1
    return [what for what in n_sets if what not in lost and t.is_float(what[0].dtype)]


def _goes_on(o):
    """Whether an operation gives NaN where one of its arguments is."""
    if not t.is_float(o.dtype):
        return False
    if o.op == "binary":
        return o.attr in ("+", "-", "*", "/")
    return o.op in _SAME or o.op in ("math", "intrinsic") and (len(o.args) == 1 or o.attr == "fma")
