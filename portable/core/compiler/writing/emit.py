"""Emit code from a typed tree at the builder's position: for packs of lanes (with masks) or for one lane
(with branches), from the same tree.

The argument `here` (flow.py) describes the place of a statement, including its mask. A function for a
statement returns the place after it, or None if no lane gets there.
"""

from typing import NamedTuple

from llvmlite import ir

from ...locks import check_interrupt
from ...texts.elementary import ELEMENTARY_FILES
from .flow import OpenCall, Scope
from .instructions import EMITTED, rounded
from .lines import builder
from .loops import emit_loop
from .members import Members
from .memory import Memory
from .parts import part, turned
from ..reading.tree import (
    Call,
    If,
    Leave,
    Loop,
    Operation,
    Rejoin,
    Set,
    View,
    described_number,
    inside,
    mapped,
)
from ...language.types import PARTS, UNIFORM, VARYING, Known, TypeClash
from ..reading.typing import refuse, typed
from .values import Ops, Value, ViewValue, word
from .watch import Watch


def described(value, team):
    """Return the description of an argument for `typed`; `team` is the description of a team."""
    if isinstance(value, tuple):
        return "tuple", getattr(value, "names", ()), *(described(v, team) for v in value)
    if isinstance(value, Members):
        return team
    if isinstance(value, ViewValue):
        element = value.element or value.dtype
        shape = value.shape[: len(value.shape) - (element in PARTS)]
        shape = tuple(n if isinstance(n, int) else None for n in shape)
        return "view", element, shape, value.readonly, value.scatter, value.lanes_last, value.store
    return described_number(value)


class Emitter:
    """State that all places of emission share.

    Parameters
    ----------
    target, width : see Ops
    team : description of a team, for `described`
    watch : Watch that observes the emission
    """

    def __init__(self, target, width, float_dtype, fastmath, kernel_name, team=None, watch=None):
        self.watch, self.ops = watch or Watch(), Ops(target, width, float_dtype, fastmath)
        self.memory = Memory(self.ops, self.watch)
        self.kernel_name, self.described_team = kernel_name, team
        self.links = {}  # name -> code of a foreign function that this code calls

    def begin(self, function, name=""):
        """Emit the code that follows into a new function."""
        builder.begin(function, name)
        self.watch.begin(self.ops)

    def make_place(self, mask=None, tail=False):
        """Return the place at the beginning of a function, or for a pack of lanes under a mask."""
        return Here(self, mask, True, tail)


class Here(NamedTuple):
    """Place of emission. It is passed down and never changed: `_replace` returns another one.

    Attributes
    ----------
    mask : LLVM vector of bools, or None for all lanes
    alive : some lane is known to be live
    tail : the pack is a range's last one
    scopes : values of the source being emitted so far, for each of the rows emitted together
    call, loops : the open call, and its open loops around this place, the innermost one last
    looping : in a loop in which the launch may end
    own : in one of the layer's own functions, whose loops are short
    where : indices of the launch, or the team; None outside of the kernel's source
    """

    lower: Emitter
    mask: object = None
    alive: bool = True
    tail: bool = False
    scopes: list = [Scope()]  # noqa: RUF012
    call: OpenCall = None
    loops: tuple = ()
    looping: bool = False
    own: bool = False
    where: tuple = None

    @property
    def ops(self):
        return self.lower.ops

    @property
    def memory(self):
        return self.lower.memory

    @property
    def scope(self):
        return self.scopes[0]

    @property
    def team(self):
        return self.scope.team

    def restricted_to(self, mask, alive=False):
        """Return this place restricted to the lanes of a mask."""
        return self._replace(mask=mask, alive=alive)

    def cast(self, v, dtype):
        """Return a number converted to a dtype."""
        return self.ops.cast(v, dtype)

    # ---- sources
    def inline(self, text, *rows):
        """Inline a source at this place and return its result: a Value, a tuple of Values, or None.

        `rows`: its arguments; if there are several lists of them, each statement is emitted for all of these
        before the next one, and the result is that of the first.
        """
        ops, line = self.ops, self.ops.line
        rows = [[mapped(rounded, a) for a in row] for row in rows]
        known = tuple(described(a, self.lower.described_team) for a in rows[0])
        tree = typed(text, known, ops.W, ops.step, ops.float_dtype, self.lower.kernel_name)
        here = self._replace(scopes=[Scope(self.team) for _ in rows], call=None, loops=())
        for scope, row in zip(here.scopes, rows):
            _bind(scope, tuple(tree.inputs), row)
        here.block(tree.root)
        result = mapped(here.value, tree.result)
        ops.line = line
        return result

    def own_text(self, text, args, float_dtype):
        """Inline one of the layer's own functions and return its result; `float_dtype` is the dtype of
        operations between its constants."""
        outer, self.ops.float_dtype = self.ops.float_dtype, float_dtype
        result = self._replace(own=True).inline(text, args)
        self.ops.float_dtype = outer
        return result

    def value(self, node):
        """Return the value of an operation or a view of the tree."""
        values = self.scope.values
        if node is None or node in values:
            return values.get(node)
        if node.op == "const":
            return self.ops.constant_value(node)
        view, d = node.attr  # an extent: all other nodes are emitted before their use
        return self.ops.length(values[view].shape[d])

    def block(self, block):
        """Emit the statements of a block, up to one after which no lane continues; return the place after
        them."""
        here, lower = self, self.lower
        for node in block.body:
            self.ops.line = node.line
            lower.watch.begin_statement(self.ops, node.line)
            check_interrupt(lower.kernel_name)
            try:
                for scope in here.scopes[1:] * (node.__class__ not in _SHARED):
                    _STATEMENTS[node.__class__](here._replace(scopes=[scope]), node)
                here = _STATEMENTS[node.__class__](here, node)
            except TypeClash as clash:  # a constant out of range
                refuse(lower.kernel_name, node, clash)
            if here is None:
                break
        return here

    # ---- variables
    def read(self, variable):
        """Return the current value of a variable."""
        llvm_type = self.ops.type_of(variable.dtype, variable.kind)
        free = (loop.free[variable] for loop in reversed(self.loops) if variable in loop.free)
        place = next(free, None) or self.place_of(variable)
        x, likely = builder.load(place, llvm_type), self.scope.likely.get(variable, 0)
        return Value(variable.dtype, variable.kind, x, likely=likely)

    def place_of(self, variable):
        """Return the stack slot of a variable."""
        slots = self.scope.slots
        if variable not in slots:
            slots[variable] = self.ops.slot(self.ops.type_of(variable.dtype, variable.kind))
        return slots[variable]

    # ---- memory in loops
    def load(self, view, indices):
        """Return the number at an element. The load is placed before the innermost loop if all its lanes load
        the element in each iteration."""
        if not self._stays(view, indices):
            return self.memory.load(self, view, indices)
        loop = self.loops[-1]
        back, jump, n_before = builder.block, loop.entry.instructions.pop(), len(builder.function.blocks)
        loop.entry.terminator = None
        builder.position_at_end(loop.entry)
        result = self.memory.load(self.restricted_to(loop.first, self.alive), view, indices)
        loop.before |= set(builder.function.blocks[n_before:])
        loop.entry = builder.block
        builder.branch(jump.operands[0])
        builder.position_at_end(back)
        return result

    def _stays(self, view, indices):
        """Return True if the innermost loop neither changes an element's value nor its address, and all lanes
        of the loop reach it."""
        loop = self.loops[-1] if self.loops else None
        if loop is None or loop.trip is None or self.mask is not loop.trip or loop.node.writes:
            return False
        prefix = (n for v, stride in view.prefix for n in (v.ir, stride))
        numbers = view.pointer, *view.strides, *prefix, *(v.ir for v in indices)
        return not any(isinstance(n, ir.Instruction) and n.parent not in loop.before for n in numbers)

    # ---- masks
    def drop(self, place):
        """Remove the live lanes from the mask stored at a place, if any."""
        if place is not None and self.mask is not None:
            builder.store(builder.load(place, self.ops.mask_type) & ~self.mask, place)

    def rejoin(self, node, block):
        """Return the place at which the remaining lanes continue, in a block of a call."""
        place = self.loops[-1].current if self.loops else self.call.active
        if place is None or self.ops.W == 1:
            return self
        live = builder.load(place, self.ops.mask_type)
        here = self.restricted_to(live if self.mask is None else self.mask & live)
        if block.parted_from(node.body):
            return here
        # skipped by a pack if all its lanes have returned
        builder.go(builder.append_basic_block("more"), self.ops.any_lane(here.mask), here.call.exit_block)
        return here._replace(alive=True)


def _bind(scope, node, value):
    """Bind an argument of a tree, or a tuple of them, to a value."""
    if isinstance(node, tuple):
        for n, v in zip(node, value):
            _bind(scope, n, v)
    elif isinstance(node, (Operation, View)):
        scope.values[node] = value
    elif node.__class__ is not Known:
        scope.team = value


# ---- statements
def _operation(here, o):
    values = here.scope.values
    args = [here.value(a) for a in o.args]
    values[o] = here.lower.watch.operation(here, o, args, EMITTED[o.op])
    return here


def _view(here, view):
    ops, values = here.ops, here.scope.values
    if view.options:
        result = _chosen(ops, view, [values[v] for v in view.options], here.value(view.items[0]))
    elif view.base is not None and not view.items:
        result = turned(values[view.base], len(view.shape))
    elif view.base is not None:
        result = part(ops, values[view.base], [_item(here, view, *row) for row in enumerate(view.items)])
    elif view.store == "(local)":
        result = here.memory.private(view)
    elif view.store == "(table)":
        result = here.memory.table(view)
    else:
        shape = [n if isinstance(n, int) else ops.index_number(here.value(n)) for n in view.shape]
        team, before = here.team, here.team.used
        result = team.scratch(ops, view.label, view.dtype, shape)
        here.lower.watch.scratch(here, view, result, before)
    values[view] = result
    return here


def _item(here, view, k, item):
    """Return an index or the bounds of a slice of a part."""
    if isinstance(item, tuple):
        return tuple(i and here.value(i) for i in item)
    return here.lower.watch.index(here, here.scope.values[view.base], k, here.value(item))


def _chosen(ops, view, views, number):
    """Return the view with a given number among several."""
    first, *others = views
    parts = [first.pointer, *first.shape, *first.strides]
    for k, other in enumerate(others, 1):
        here = ops.get(ops.compare("==", number, ops.const(k)), "bool", UNIFORM)
        for n, (a, b) in enumerate(zip(parts, (other.pointer, *other.shape, *other.strides))):
            if a is not b and a != b:
                parts[n] = builder.select(here, word(b), word(a))
    d = len(first.shape) + 1
    return ViewValue(view.label, view.dtype, parts[0], parts[1:d], parts[d:], view.readonly)


def _set(here, s):
    variable, loops = s.variable, here.loops
    place, value, likely = here.place_of(variable), here.value(s.value), here.scope.likely
    likely[variable] = value.difference or likely.get(variable, 0)
    x = here.ops.get(value, variable.dtype, variable.kind)
    blended = s.inner and variable.kind == VARYING and here.ops.W > 1 and here.mask is not None
    own, last = None, loops[-1] if loops else None
    if last and s.loop is last.node and s.loop.body and variable in last.free:
        own = None if s.block.parted_from(s.loop.body) else last.free[variable]
    for target in (place, *(loop.free[variable] for loop in loops if variable in loop.free)):
        keeps = blended and target is not own
        builder.store(builder.select(here.mask, x, builder.load(target, x.type)) if keeps else x, target)
    return here


def _if(here, s):
    c = here.value(s.condition)
    if here.ops.W > 1 and c.kind != UNIFORM:
        return _masked_if(here, s, c)
    nodes = [node for body in inside(s) for node in body.body]
    plain = s.choice and here.ops.W == 1 and here.lower.watch.__class__ is Watch
    cheap = plain and all(node.__class__ is Set or getattr(node, "op", "") in _CHEAP for node in nodes)
    return _selected(here, c, nodes) if cheap else _branching_if(here, s, c)


def _selected(here, c, nodes):
    """Emit both sides of a choice, and select what each assigns to the same variables."""
    sets = [node for node in nodes if node.__class__ is Set]
    for node in nodes:
        if node.__class__ is Operation:
            _operation(here, node)
    for a, b in zip(sets, sets[len(sets) // 2 :]):
        x = here.ops.select(c, here.value(a.value), here.value(b.value))
        builder.store(here.ops.get(x, a.variable.dtype, a.variable.kind), here.place_of(a.variable))
    return here


def _branching_if(here, s, c):
    bodies = inside(s)
    *begins, after = builder.blocks(*("then", "else")[: len(bodies)], "after")
    builder.cbranch(here.ops.get(c, "bool", UNIFORM), *(*begins, after)[:2])
    reached = len(bodies) == 1
    for begin, body in zip(begins, bodies):
        builder.position_at_end(begin)
        if here.block(body):
            reached = True
            builder.branch(after)
    builder.position_at_end(after)
    if reached:
        return here
    builder.unreachable()


def _masked_if(here, s, c):
    ops = here.ops
    for body, skip, holds in zip(inside(s), s.heavy, (True, False)):
        mask = ops.narrowed(here.mask, c, holds)
        if skip:  # a branch around it, for the case that no lane enters, pays
            lanes, after = builder.blocks("lanes", "after")
            builder.go(lanes, ops.any_lane(mask), after)
        there = here.restricted_to(mask, skip).block(body)
        if skip:
            if there:
                builder.branch(after)
            builder.position_at_end(after)
    return here


def _call(here, node):
    ops = here.ops
    if here.lower.watch.call(here, node):
        return here
    call = OpenCall(here.call.depth + 1 if here.call else 1)
    inner = here._replace(call=call, loops=(), own=here.own or node.text.file in ELEMENTARY_FILES)
    if not node.text.single_return:
        call.exit_block = builder.append_basic_block("exit")
        if ops.W > 1 and node.varying_return:
            call.active = ops.slot(here.ops.mask_type)
            builder.store(ops.mask_value(here.mask), call.active)
    there = inner.block(node.body)
    if call.exit_block:
        if there:
            builder.branch(call.exit_block)
        builder.position_at_end(call.exit_block)
    return here


def _leave(here, s):
    call = here.call
    loop = here.loops[-1] if s.how != "return" else None
    if s.together or here.ops.W == 1:
        ends = call.exit_block if loop is None else loop.exit_block if s.how == "break" else loop.next_block
        builder.branch(ends)
        return None
    if loop is None:
        here.drop(call.active)
    for loop in here.loops if loop is None else (loop,):
        if s.how != "continue":
            here.drop(loop.live)
        here.drop(loop.current)
    return here


# operations that cost less than a branch around them
_CHEAP = {*"abs binary cast compare extreme get invert negate not one rounded select settle".split()}
_SHARED = Loop, Call  # statements that are emitted once for all rows
_STATEMENTS = {
    Operation: _operation,
    View: _view,
    Set: _set,
    If: _if,
    Loop: emit_loop,
    Leave: _leave,
    Rejoin: lambda here, s: here.rejoin(s.call, s.block),
    Call: _call,
}
