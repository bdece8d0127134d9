"""Code from a typed tree, at the builder's position: for packs of lanes (masks) or for one lane (branches), by the same tree.

What stands under which mask is the emitter's state (`mask`, `alive`), which `under` changes for a while. A mask is a vector of
bools, or None for all lanes.
"""

from __future__ import annotations

import math
from contextlib import contextmanager

from llvmlite import ir

from .. import elementary
from . import types as t
from .known import text_of
from .memory import Memory, itemsize
from .team import Team, combine_states
from .tree import Call, If, Leave, Loop, Operation, Rejoin, Set, View, flat, mapped
from .types import UNIFORM, VARYING
from .typing import refuse, typed
from .values import I1, I64, PTR, Value, ViewValue


class Unpacked(Exception):
    """Packs do not pay for this text: emit it for one lane at a time. The reason is the message."""


class OpenCall:
    """A call being emitted: where it ends, the lanes that have not returned (a slot), and the loops around the place."""

    def __init__(self, exit_block=None, active=None):
        self.exit_block, self.active, self.loops = exit_block, active, []


class OpenLoop:
    """A loop being emitted. `live`: lanes that still loop; `current`: those still in this trip (slots, packs only).

    Of a masked loop also `free`: places of variables as the loop alone sees them, where lanes that have left hold anything, so
    that what decides about the next trip does not wait for masks; `entry`: the block before the first trip; `first`, `trip`: the
    masks of the first trip and of this one; `before`: the blocks that were there when it began.
    """

    def __init__(self, node, next_block=None, exit_block=None, live=None, current=None):
        self.node, self.next_block, self.exit_block, self.live, self.current = node, next_block, exit_block, live, current
        self.entry = self.first = self.trip = None
        self.free, self.before = {}, ()


def described(value, team):
    """What `typed` has to know of an argument; `team` makes the handle of one."""
    if isinstance(value, tuple):
        return "tuple", *(described(v, team) for v in value)
    if isinstance(value, Team):
        return team
    if isinstance(value, ViewValue):
        shape = tuple(n if isinstance(n, int) else None for n in value.shape)
        return "view", value.dtype, shape, value.readonly, value.scatter, value.lanes_last, value.store
    if value.const is not None:
        return "constant", value.dtype, repr(value.const), value.const
    return "number", value.dtype, value.kind, value.step, value.aligned


class Emitter(Memory):
    """Emits typed trees at the builder's position.

    Parameters
    ----------
    target : the machine: `fast_math`, its own forms of elementary functions; `step`, how far apart a pack's indices lie;
        `straight`, whether it has packs for straight text alone
    width : lanes of a pack; 1 for code whose lanes are threads, or scalar code
    team : what `described` says of a team
    """

    def __init__(self, target, width, float_dtype, fastmath, kernel_name, team=None):
        super().__init__(width, float_dtype, fastmath, target.step)
        self.target, self.fastmath, self.kernel_name, self.described_team = target, fastmath, kernel_name, team
        self.mask = self.frame = self.team = self._dummy = None
        self.accesses, self.line, self.values, self.slots = set(), "", {}, {}
        self.alive, self.dead, self.n_calls = True, False, 0

    def begin(self, builder, mask=None):
        """Emit what follows with this builder; slots belong to its function."""
        self.b, self._dummy = builder, None
        self.begin_pack(mask)

    def begin_pack(self, mask):
        """Emit the next pack of lanes, live under `mask`."""
        self.mask, self.alive, self.dead = mask, True, False

    @contextmanager
    def under(self, **state):
        """Emit with other values of the emitter's attributes."""
        outer = {name: getattr(self, name) for name in state}
        self.__dict__.update(state)
        yield
        self.__dict__.update(outer)

    def diverges(self):
        """Note that lanes may part here, or meet again: not for packs that are only more loads in flight."""
        if self.W > 1 and self.target.straight:
            raise Unpacked("the text has conditions or loops")

    # ---- texts
    def inline(self, text, args):
        """The value of a text at this place: a Value, a tuple of Values, or None."""
        args = [mapped(rounded, a) for a in args]
        known = tuple(described(a, self.described_team) for a in args)
        tree = typed(text, known, self.W, self.target.step, self.float_dtype, self.kernel_name)
        with self.under(values={}, slots={}, frame=None, mask=self.mask, alive=self.alive, dead=False, line=self.line):
            for node, value in zip(tree.inputs, args):
                self.bind(node, value)
            self.block(tree.root)
            return mapped(self.value, tree.result)

    def bind(self, node, value):
        """Let an argument of a tree, or a tuple of them, stand for a value."""
        if isinstance(node, tuple):
            for n, v in zip(node, value):
                self.bind(n, v)
        elif isinstance(node, (Operation, View)):
            self.values[node] = value
        else:
            self.team = value

    def value(self, node):
        """What an operation or a view gave."""
        if node is None or node in self.values:
            return self.values.get(node)
        if node.op == "extent":
            view, d = node.attr
            n = self.values[view].shape[d]
            return self.const(n) if isinstance(n, int) else Value("int", UNIFORM, n)
        return Value(node.dtype, UNIFORM, None, node.const)

    def block(self, block):
        for node in block.body:
            if self.dead:
                break
            self.line = node.line
            try:
                getattr(self, _METHODS[node.__class__])(node)
            except t.TypeClash as clash:  # a constant that does not fit
                refuse(self.kernel_name, node, clash)

    def emit_operation(self, o):
        result = getattr(self, "emit_" + o.op)(o, *map(self.value, o.args))
        self.values[o] = self._counted(o, result) if o.counts else result

    def _counted(self, o, result):
        """The result, counted if it is an operation of its own (a float's // and % count where their text is emitted)."""
        first, dtype = o.args[0] if o.args else None, None
        if o.op in ("cast", "whole") and self.strong(first.dtype) == self.strong(o.dtype) or o.op == "abs" and o.dtype in t.UNSIGNED \
                or o.op == "binary" and o.attr in ("//", "%") and t.is_float(o.dtype) or o.op == "select" and first.const is not None:
            return result
        if o.op in ("compare", "isfinite"):
            dtype = t.promote(first.dtype, o.args[-1].dtype)
        return self.counted(o.counts, result, "" if o.op == "together" else o.view.dtype if o.view is not None else dtype)

    # ---- storage
    def slot(self, llvm_type):
        with self.b.goto_entry_block():
            place = self.b.alloca(llvm_type)
            self.b.store(ir.Constant(llvm_type, None), place)
        return place

    def dummy(self):
        """A place of 64 bytes that nobody reads."""
        if self._dummy is None:
            with self.b.goto_entry_block():
                self._dummy = self.b.alloca(ir.ArrayType(I64, 8))
        return self._dummy

    def emit_view(self, view):
        if view.base is not None:
            items = [tuple(i and self.value(i) for i in item) if isinstance(item, tuple) else self.value(item) for item in view.items]
            result = self.part(self.values[view.base], items)
        elif view.store == "(local)":
            result = self._private(view)
        else:
            shape = [n if isinstance(n, int) else self.index_number(self.value(n)) for n in view.shape]
            result = self.team.scratch(self, view.label, view.dtype, shape)
        self.values[view] = result

    def _private(self, view):
        element = self.memory_type(view.dtype)
        with self.b.goto_entry_block():
            place = self.b.alloca(ir.ArrayType(element, math.prod(view.shape) * self.W))
            place.align, place.type = 64, PTR
        strides, step = [], itemsize(view.dtype)
        for extent in reversed(view.shape):
            strides.insert(0, step)
            step *= extent
        return ViewValue(view.label, view.dtype, place, list(view.shape), strides, lanes_last=True, store="(local)")

    # ---- operations
    def emit_get(self, o):
        return self.read(o.attr)

    def read(self, variable):
        loops = self.frame.loops if self.frame else ()
        place = next((loop.free[variable] for loop in reversed(loops) if variable in loop.free), None) or self.slot_of(variable)
        return Value(variable.dtype, variable.kind, self.b.load(place, typ=self.type_of(variable.dtype, variable.kind)))

    def slot_of(self, variable):
        if variable not in self.slots:
            self.slots[variable] = self.slot(self.type_of(variable.dtype, variable.kind))
        return self.slots[variable]

    def emit_binary(self, o, a, b):
        return self.binary(o.attr, a, b)

    def emit_compare(self, o, a, b):
        return self.compare(o.attr, a, b)

    def emit_cast(self, o, a):
        return self.cast(a, o.dtype)

    emit_settle = emit_cast

    def emit_one(self, o, a):
        return self.cast(self.const(1), a.dtype)

    def emit_rounded(self, o, a):
        return rounded(a)

    def emit_not(self, o, a):
        return self.logical_not(a)

    def emit_negate(self, o, a):
        return self.negate(a)

    def emit_invert(self, o, a):
        return self.invert(a)

    def emit_select(self, o, condition, a, b):
        return self.select(condition, a, b)

    def emit_extreme(self, o, a, b):
        (op, nan_wins), dtype = o.attr, o.dtype
        if nan_wins and t.is_float(dtype):
            kind = self.kind_of(a, b)
            return Value(dtype, kind, self.intrinsic("minimum" if op == "<" else "maximum", [self.get(v, dtype, kind) for v in (a, b)]))
        if nan_wins:
            return self.select(self.compare(op, a, b), a, b)
        return self.select(self.compare(op, b, a), b, a)  # Python's min and max: the first unless a later one is better

    def emit_abs(self, o, a):
        if t.is_float(a.dtype):
            return Value(a.dtype, a.kind, self.intrinsic("fabs", [a.ir]))
        return a if a.dtype in t.UNSIGNED else self.select(self.compare("<", a, self.const(0)), self.negate(a), a)

    def emit_intrinsic(self, o, *values):
        return self.float_intrinsic(o.attr, values)

    def float_intrinsic(self, name, values):
        dtype, kind = t.common_float(values), self.kind_of(*values)
        return Value(dtype, kind, self.intrinsic(name, [self.get(v, dtype, kind) for v in values]))

    def emit_whole(self, o, a):
        if not t.is_float(a.dtype):
            return self.cast(a, "int") if a.dtype == "bool" else a
        return self.cast(a if o.attr == "trunc" else self.counted(o.attr, self.float_intrinsic(o.attr, [a])), "int")

    def emit_isfinite(self, o, a):
        if not t.is_float(a.dtype):
            return self.const(True)
        return self.compare("<", Value(a.dtype, a.kind, self.intrinsic("fabs", [self.get(a)])), self.const(math.inf))

    def emit_bits(self, o, a):
        return self._reinterpret(a, self.strong(a.dtype), o.dtype)

    def emit_from_bits(self, o, a):
        integer = "int32" if o.attr == "float32" else "int64"
        return self._reinterpret(self.cast(a, integer), integer, o.attr)

    def _reinterpret(self, v, dtype, to):
        kind = VARYING if v.kind != UNIFORM else UNIFORM
        x = self.get(v, dtype, kind)
        return Value(to, kind, self.b.bitcast(x, self.type_of(to, kind)))

    def emit_lanes(self, o, c):
        if self.W == 1 or c.kind == UNIFORM:
            return c
        c = self.get(c, "bool", VARYING)
        c = c if o.attr == "any" else self.b.not_(c)
        some = self.any_lane(c if self.mask is None else self.b.and_(c, self.mask))
        return Value("bool", UNIFORM, some if o.attr == "any" else self.b.not_(some))

    def emit_math(self, o, *values):
        name, fast = o.attr
        dtype = t.common_float(values)
        values = [self.cast(v, self.strong(dtype)) for v in values]
        native = self.target.fast_math(self, name, values) if fast or self.fastmath else None
        if native is not None:
            return native
        pair = (fast or self.fastmath) and elementary.FAST.get(name) or elementary.FUNCTIONS[name]
        return self.layers_text(("fast_" if fast else "") + name, pair, values, dtype)

    def float_division(self, op, a, b, dtype):
        """Python's // and % of floats, by the layer's own text."""
        values = [self.cast(v, self.strong(dtype)) for v in (a, b)]
        return self.layers_text(op, (elementary.divmod_f32, elementary.divmod_f64), values, dtype, op == "%")

    def layers_text(self, name, pair, values, dtype, part=None):
        """A text of the layer's own, of two for float32 and float64, as one operation; or a part of what it gives."""
        strong = self.strong(dtype)
        with self.under(float_dtype=strong):  # constants among themselves are of the function's dtype
            result = self.inline(text_of(pair[strong == "float64"]), values)
        result = result if part is None else result[part]
        return Value(dtype, result.kind, result.ir, result.const) if t.is_weak(dtype) else result

    def emit_load(self, o, *indices):
        return self.load(self.values[o.view], indices)

    def emit_store(self, o, *args):
        view, value = self.values[o.view], args[-1]
        if t.is_float(value.dtype) and not t.is_float(view.dtype) and value.const is None:
            value = self.cast(value, view.dtype)
        self.store(view, args[:-1], value)

    def emit_atomic(self, o, *args):
        (op, wanted), n = o.attr, len(o.view.shape)
        return self.atomic(op, self.values[o.view], args[:n], args[-1], args[n] if op == "cas" else None, wanted)

    # ---- operands that are evaluated only where others let them
    def emit_junction(self, o, c, left):
        conjunction, branches = o.attr
        if self.W > 1 and c.kind != UNIFORM:
            right = self._lazily(o.parts[0], c, conjunction)
        elif branches or self.always_branches:
            return self.branch_value(c if conjunction else self.logical_not(c), lambda: self._part(o.parts[0]), lambda: left)
        else:
            right = self._part(o.parts[0])
        if left.dtype != "bool" or right.dtype != "bool":
            return self.select(c, right, left) if conjunction else self.select(c, left, right)
        kind = self.kind_of(left, right)
        x, y = self.get(left, "bool", kind), self.get(right, "bool", kind)
        return Value("bool", kind, self.b.and_(x, y) if conjunction else self.b.or_(x, y))

    def emit_choice(self, o, c):
        if self.W > 1 and c.kind != UNIFORM:
            a, b = self._lazily(o.parts[0], c, True), self._lazily(o.parts[1], c, False)
        elif o.attr or self.always_branches:
            return self.branch_value(c, *(lambda part=part: self._part(part) for part in o.parts))
        else:
            a, b = map(self._part, o.parts)
        return self.select(c, a, b)

    always_branches = False  # also where a select would do

    def _part(self, part):
        block, result = part
        self.block(block)
        return self.value(result)

    def _lazily(self, part, condition, holds):
        """An operand for the lanes in which the condition holds, or does not."""
        mask = (self.mask_and if holds else self.mask_without)(self.mask, condition)
        with self.under(mask=mask, alive=False):
            return self._part(part)

    def branch_value(self, condition, then, otherwise):
        """The value of one of two expressions, chosen by a branch."""
        with self.b.if_else(self.get(condition, "bool", UNIFORM)) as (yes, no):
            with yes:
                a = then()
                end_a = self.b.block
            with no:
                b = otherwise()
                end_b = self.b.block
        dtype = t.promote(a.dtype, b.dtype)
        kind = VARYING if condition.kind != UNIFORM else self.kind_of(a, b)
        after = self.b.block
        spread = VARYING if self.W > 1 and self.kind_of(a, b) == VARYING else UNIFORM
        incoming = []
        for v, end in ((a, end_a), (b, end_b)):  # convert where the value was made
            self.b.position_before(end.terminator)
            incoming.append((self.get(v, dtype, spread), end))
        self.b.position_at_end(after)
        phi = self.b.phi(incoming[0][0].type)
        for value, end in incoming:
            phi.add_incoming(value, end)
        return Value(dtype, kind, phi)

    # ---- teams
    def emit_league_rank(self, o):
        return Value("int", UNIFORM, self.team.league_rank)

    def emit_league_size(self, o):
        return Value("int", UNIFORM, self.team.league_size)

    def emit_rank(self, o):
        return self.team.rank(self)

    def emit_together(self, o):
        return None

    def emit_barrier(self, o):
        self.team.barrier(self)

    def emit_broadcast(self, o, value, rank):
        return self.team.pick(self, value, rank)

    def emit_append(self, o, at, value, keep):
        return self.team.append(self, self.values[o.view], at, value, keep)

    def emit_combine(self, o, *state):
        return self.team.combine(self, state, o.attr, again=self.n_calls > 1 or bool(self.frame.loops))

    def emit_item(self, o, states):
        return states[o.attr]

    def emit_before(self, o, own):
        reducer, own = o.attr, Value(own.dtype, VARYING, self.get(own, None, VARYING))
        neutral = self.strong_const(reducer.identity(own.dtype), own.dtype)
        x = self.team.before(self, own, neutral, lambda a, b: combine_states(self, reducer, (a,), (b,))[0])
        return Value(x.dtype, VARYING, self.get(x, None, VARYING))

    # ---- statements
    def emit_set(self, s):
        variable, value = s.variable, self.value(s.value)
        place, x = self.slot_of(variable), self.get(value, variable.dtype, variable.kind)
        loops = self.frame.loops if self.frame else ()
        blended = s.inner and variable.kind == VARYING and self.W > 1 and self.mask is not None
        own = loops[-1].free.get(variable) if loops and s.loop is loops[-1].node and s.loop.body and not s.block.parted_from(s.loop.body) else None
        for target in (place, *(loop.free[variable] for loop in loops if variable in loop.free)):
            keeps = blended and target is not own
            self.b.store(self.b.select(self.mask, x, self.b.load(target, typ=x.type)) if keeps else x, target)

    def emit_if(self, s):
        c = self.value(s.condition)
        with self.under(mask=self.mask, alive=self.alive):
            (self._masked_if if self.W > 1 and c.kind != UNIFORM else self._branching_if)(s, c)

    def _branching_if(self, s, c):
        yes = self.b.append_basic_block("then")
        no = self.b.append_basic_block("else") if s.otherwise else None
        after = self.b.append_basic_block("after")
        self.b.cbranch(self.get(c, "bool", UNIFORM), yes, no or after)
        mask, alive, reached = self.mask, self.alive, not s.otherwise
        for start, body in ((yes, s.then), (no, s.otherwise)):
            if start is None:
                continue
            self.b.position_at_end(start)
            self.mask, self.alive, self.dead = mask, alive, False
            self.block(body)
            if not self.dead:
                reached = True
                self.b.branch(after)
        self.b.position_at_end(after)
        self.dead = not reached
        if self.dead:
            self.b.unreachable()

    def _masked_if(self, s, c):
        outer = self.mask
        for body, skip, mask in ((s.then, s.heavy[0], self.mask_and(outer, c)), (s.otherwise, s.heavy[1], None)):
            if body is None:
                continue
            if mask is None:
                mask = self.mask_without(outer, c)
            if skip:  # worth a branch around it when no lane goes there
                inside, after = self.b.append_basic_block("lanes"), self.b.append_basic_block("after")
                self.b.cbranch(self.any_lane(mask), inside, after)
                self.b.position_at_end(inside)
            with self.under(mask=mask, alive=skip):
                self.block(body)
            if skip:
                if not self.dead:
                    self.b.branch(after)
                self.b.position_at_end(after)
            self.dead = False

    def emit_call(self, node):
        with self.under(frame=OpenCall(), n_calls=self.n_calls + 1, mask=self.mask, alive=self.alive, dead=False):
            for assignment in node.setup:
                self.emit_set(assignment)
            if not node.text.single_return:
                self.frame.exit_block = self.b.append_basic_block("exit")
                if self.W > 1 and node.varying_return:
                    self.frame.active = self.slot(ir.VectorType(I1, self.W))
                    self.b.store(self.mask_value(self.mask), self.frame.active)
            self.block(node.body)
            if self.frame.exit_block:
                if not self.dead:
                    self.b.branch(self.frame.exit_block)
                self.b.position_at_end(self.frame.exit_block)

    def emit_leave(self, s):
        call = self.frame
        for assignment in s.results:
            self.emit_set(assignment)
        loop = call.loops[-1] if s.how != "return" else None
        if s.together or self.W == 1:
            self.b.branch(call.exit_block if loop is None else loop.exit_block if s.how == "break" else loop.next_block)
            self.dead = True
            return
        if loop is None:
            self._drop(call.active)
        for loop in call.loops if loop is None else (loop,):
            if s.how != "continue":
                self._drop(loop.live)
            self._drop(loop.current)

    def _drop(self, place):
        if place is not None and self.mask is not None:
            vector = ir.VectorType(I1, self.W)
            self.b.store(self.b.and_(self.b.load(place, typ=vector), self.b.not_(self.mask)), place)

    def emit_rejoin(self, s):
        self.rejoin(s.call, s.block)

    def rejoin(self, node, block):
        """Go on, in a block of a call, with the lanes that are still here."""
        call = self.frame
        place = call.loops[-1].current if call.loops else call.active
        if place is None or self.W == 1:
            return
        live = self.b.load(place, typ=ir.VectorType(I1, self.W))
        self.mask = live if self.mask is None else self.b.and_(self.mask, live)
        self.alive = False
        if not block.parted_from(node.body):  # nothing left to do for a pack whose lanes have all returned
            more = self.b.append_basic_block("more")
            self.b.cbranch(self.any_lane(self.mask), more, call.exit_block)
            self.b.position_at_end(more)
            self.alive = True

    # ---- loops
    def emit_loop(self, loop):
        if loop.form == "trips":
            self.trips(loop, [(block, None) for block in loop.trips])
        elif loop.form == "members":
            self.team.thread_range(self, loop, self.value(loop.start), self.value(loop.stop))
        elif loop.form == "range":
            self.counted_loop(loop, self.value(loop.start), self.value(loop.stop), loop.step)
        else:
            self.run_loop(loop, lambda: self._part((loop.test, loop.condition)), lambda: None, lambda: None)

    def trips(self, loop, trips):
        """(block, member) pairs one after the other; lanes may leave."""
        masked = self.W > 1 and loop.varying_exit
        vector, live, current = ir.VectorType(I1, self.W), None, None
        if masked:
            live, current = self.slot(vector), self.slot(vector)
            self.b.store(self.mask_value(self.mask), live)
        exit_block = self.b.append_basic_block("done")
        for block, member in trips:
            after_trip = self.b.append_basic_block("next")
            trip, alive = self.mask, self.alive
            if masked:
                trip, alive = self.b.load(live, typ=vector), True
                self.b.store(trip, current)
                body = self.b.append_basic_block("trip")
                self.b.cbranch(self.any_lane(trip), body, exit_block)
                self.b.position_at_end(body)
            with self.under(mask=trip, alive=alive):
                self._trip(OpenLoop(loop, after_trip, exit_block, live, current), block, lambda member=member: member)
            self.b.position_at_end(after_trip)
        self.b.branch(exit_block)
        self.b.position_at_end(exit_block)

    def counted_loop(self, loop, start, stop, step):
        """for counter in range(start, stop, step), step a Python integer."""
        kind = UNIFORM if start.kind == UNIFORM else VARYING
        counter = self.slot(self.type_of("int", kind))
        self.b.store(self.get(start, "int", kind), counter)
        stop = self.cast(stop, "int") if stop.kind != UNIFORM or stop.const is None else stop

        def value():
            return Value("int", kind, self.b.load(counter, typ=self.type_of("int", kind)))

        def advance():
            self.b.store(self.get(self.binary("+", value(), self.const(step)), "int", kind), counter)

        self.run_loop(loop, lambda: self.compare("<" if step > 0 else ">", value(), stop), value, advance)

    def run_loop(self, loop, test, item, advance):
        """A loop: `test` at its head, `item` (its counter's value) at the top of the body, `advance` before the next trip."""
        self.diverges()
        (self._masked_loop if loop.masked and self.W > 1 else self._plain_loop)(loop, test, item, advance)
        self.dead = False

    def _plain_loop(self, loop, test, item, advance):
        head, body, after_body, exit_block = (self.b.append_basic_block(n) for n in ("head", "body", "next", "done"))
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(self.get(test(), "bool", UNIFORM), body, exit_block)
        self.b.position_at_end(body)
        with self.under(mask=self.mask, alive=self.alive):
            self._trip(OpenLoop(loop, after_body, exit_block), loop.body, item)
        self.b.position_at_end(after_body)
        advance()
        self.b.branch(head)
        self.b.position_at_end(exit_block)

    def _masked_loop(self, node, test, item, advance):
        """A loop that lanes leave one by one: tested before the first trip and at the end of each."""
        vector = ir.VectorType(I1, self.W)
        loop = OpenLoop(node, live=self.slot(vector), current=self.slot(vector))
        self.b.store(self.mask_value(self.mask), loop.live)
        for variable in node.free:
            if variable in self.slots:
                copy = self.slot(self.type_of(variable.dtype, variable.kind))
                self.b.store(self.read(variable).ir, copy)
                loop.free[variable] = copy
        loop.first = self._next_trip(loop, test)
        loop.before = set(self.b.function.blocks)
        loop.entry, body, loop.next_block, loop.exit_block = (self.b.append_basic_block(n) for n in ("enter", "body", "next", "done"))
        self.b.cbranch(self.any_lane(loop.first), loop.entry, loop.exit_block)
        self.b.position_at_end(loop.entry)
        self.b.branch(body)
        self.b.position_at_end(body)
        loop.trip = self.b.load(loop.live, typ=vector)
        self.b.store(loop.trip, loop.current)
        with self.under(mask=loop.trip, alive=True):
            self._trip(loop, node.body, item)
        self.b.position_at_end(loop.next_block)
        advance()
        self.b.cbranch(self.any_lane(self._next_trip(loop, test)), body, loop.exit_block)
        self.b.position_at_end(loop.exit_block)

    def _next_trip(self, loop, test):
        """The mask of the lanes that go on, which are the ones that live from now on."""
        live = self.b.load(loop.live, typ=ir.VectorType(I1, self.W))
        self.frame.loops.append(loop)
        with self.under(mask=live, alive=False):
            c = test()
            trip = live if c.const else self.mask_and(live, c)
        self.frame.loops.pop()
        self.b.store(trip, loop.live)
        return trip

    def _trip(self, loop, block, item):
        self.frame.loops.append(loop)
        if loop.node.counter is not None:
            self.values[loop.node.counter] = item()
        self.block(block)
        self.frame.loops.pop()
        if not self.dead:
            self.b.branch(loop.next_block)
        self.dead = False

    # ---- memory in loops
    @contextmanager
    def before_the_loop(self, view, indices):
        """Emit a load before the loop whose lanes all do it in each trip, if the loop neither changes nor moves its place."""
        loop = self.frame.loops[-1] if self.frame and self.frame.loops else None
        numbers = [view.pointer, *view.strides, *(n for v, stride in view.prefix for n in (v.ir, stride)), *(v.ir for v in indices)]
        if (loop is None or loop.trip is None or self.mask is not loop.trip or loop.node.writes
                or any(isinstance(n, ir.Instruction) and n.parent not in loop.before for n in numbers)):
            yield
            return
        with self.under(mask=loop.first), self.b.goto_block(loop.entry):
            yield


_METHODS = {node: "emit_" + node.__name__.lower() for node in (Operation, View, Set, If, Loop, Leave, Rejoin, Call)}


def rounded(v):
    """What crosses the end of a function: a product is a number like any other, which no sum takes apart."""
    return Value(v.dtype, v.kind, v.ir) if isinstance(v, Value) and v.factors else v
