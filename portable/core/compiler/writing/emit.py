"""Code from a typed tree, at the builder's position: for packs of lanes (masks) or for one lane (branches),
by the same tree.

What stands under which mask is the emitter's state (`mask`, `alive`), which `under` changes for a while. A
mask is a vector of bools, or None for all lanes.
"""

from __future__ import annotations

from contextlib import contextmanager

from llvmlite import ir

from ...texts import draws, elementary, elementary_c99, elementary_gamma
from ...locks import look
from ...language import types as t
from .instructions import Instructions, rounded
from .members import Members
from ..reading.tree import Call, If, Leave, Loop, Operation, Rejoin, Set, View, described_number, mapped
from ...language.types import UNIFORM, VARYING
from ..reading.typing import refuse, typed
from .values import I1, I64, Value, ViewValue


class Unpacked(Exception):
    """Packs do not pay for this text: emit it for one lane at a time. The reason is the message."""


class OpenCall:
    """A call being emitted: where it ends, the lanes that have not returned (a slot), and the loops around
    the place."""

    def __init__(self, exit_block=None, active=None):
        self.exit_block, self.active, self.loops = exit_block, active, []


class OpenLoop:
    """A loop being emitted. `live`: lanes that still loop; `current`: those still in this trip (slots, packs
    only).

    Of a masked loop also `free`: places of variables as the loop alone sees them, where lanes that have left
    hold anything, so that what decides about the next trip does not wait for masks; `entry`: the block before
    the first trip; `first`, `trip`: the masks of the first trip and of this one; `before`: the blocks that
    were there when it began.
    """

    def __init__(self, node, next_block=None, exit_block=None, live=None, current=None):
        self.node, self.next_block, self.exit_block, self.live, self.current = (
            node,
            next_block,
            exit_block,
            live,
            current,
        )
        self.entry = self.first = self.trip = None
        self.free, self.before = {}, ()


def described(value, team):
    """What `typed` has to know of an argument; `team` makes the handle of one."""
    if isinstance(value, tuple):
        return "tuple", getattr(value, "names", ()), *(described(v, team) for v in value)
    if isinstance(value, Members):
        return team
    if isinstance(value, ViewValue):
        shape = value.shape[: len(value.shape) - (value.element in t.PARTS)]
        shape = tuple(n if isinstance(n, int) else None for n in shape)
        return "view", value.element, shape, value.readonly, value.scatter, value.lanes_last, value.store
    return described_number(value)


class Emitter(Instructions):
    """Emits typed trees at the builder's position.

    Parameters
    ----------
    target : the machine: `fast_math`, its own forms of elementary functions; `step`, how far apart a pack's
        indices lie;
        `straight`, whether it has packs of its own for straight-line code; `look`, which lets a launch end at
        this place; `strip`, trips of a light loop between two looks, 0 for none
    width : lanes of a pack; 1 for code whose lanes are threads, or scalar code
    team : what `described` says of a team
    """

    def __init__(self, target, width, float_dtype, fastmath, kernel_name, team=None):
        super().__init__(width, float_dtype, fastmath, target.step)
        self.target, self.fastmath, self.kernel_name, self.described_team = (
            target,
            fastmath,
            kernel_name,
            team,
        )
        self.mask = self.frame = self.team = self._dummy = None
        self.accesses, self.line, self.values, self.slots = set(), "", {}, {}
        self.alive, self.dead, self.n_calls, self.looping = True, False, 0, False
        self.mask_type = ir.VectorType(I1, width)
        self.links = {}  # texts of foreign functions that this code calls, by their names

    def begin(self, builder, mask=None):
        """Emit what follows with this builder; slots belong to its function."""
        self.b, self._dummy = builder, None
        self.begin_pack(mask)

    def begin_pack(self, mask):
        """Emit the next pack of lanes, live under `mask`, which the last one of a range has."""
        self.mask, self.alive, self.dead, self.tail = mask, True, False, mask is not None

    @contextmanager
    def under(self, **state):
        """Emit with other values of the emitter's attributes."""
        outer = {name: getattr(self, name) for name in state}
        self.__dict__.update(state)
        yield
        self.__dict__.update(outer)

    def diverges(self):
        """Note that control flow may diverge or reconverge here: packs that only keep more loads in flight
        want straight-line code."""
        if self.W > 1 and self.target.straight:
            raise Unpacked("the text has conditions or loops")

    # ---- texts
    def inline(self, text, args):
        """The value of a text at this place: a Value, a tuple of Values, or None."""
        args = [mapped(rounded, a) for a in args]
        known = tuple(described(a, self.described_team) for a in args)
        tree = typed(text, known, self.W, self.target.step, self.float_dtype, self.kernel_name)
        with self.under(
            values={}, slots={}, frame=None, mask=self.mask, alive=self.alive, dead=False, line=self.line
        ):
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
        elif node.__class__ is not t.Known:
            self.team = value

    def value(self, node):
        """What an operation or a view gave."""
        if node is None or node in self.values:
            return self.values.get(node)
        if node.op == "const":
            return self.known(node)
        view, d = node.attr  # an extent: nothing else is asked for before it was emitted
        return self.length(self.values[view].shape[d])

    def block(self, block):
        for node in block.body:
            if self.dead:
                break
            self.line = node.line
            look(self.kernel_name)
            try:
                getattr(self, _METHODS[node.__class__])(node)
            except t.TypeClash as clash:  # a constant that does not fit
                refuse(self.kernel_name, node, clash)

    def emit_operation(self, o):
        result = getattr(self, "emit_" + o.op)(o, *map(self.value, o.args))
        self.values[o] = self._counted(o, result) if o.counts else result

    def _counted(self, o, result):
        """The result, counted if it is an operation of its own (a float's // and % count where their text is
        emitted)."""
        first, dtype = o.args[0] if o.args else None, None
        if (
            o.op in ("cast", "whole")
            and self.strong(first.dtype) == self.strong(o.dtype)
            or o.op == "abs"
            and o.dtype in t.UNSIGNED
            or o.op == "binary"
            and o.attr in ("//", "%")
            and t.is_float(o.dtype)
            or o.op == "select"
            and first.const is not None
        ):
            return result
        if o.op == "compare":
            dtype = t.promote(first.dtype, o.args[-1].dtype)
        return self.counted(
            o.counts,
            result,
            "" if o.op == "together" else t.part(o.view.dtype) if o.view is not None else dtype,
        )

    # ---- statements
    def emit_set(self, s):
        variable, value = s.variable, self.value(s.value)
        place, x = self.slot_of(variable), self.get(value, variable.dtype, variable.kind)
        loops = self.frame.loops if self.frame else ()
        blended = s.inner and variable.kind == VARYING and self.W > 1 and self.mask is not None
        own = (
            loops[-1].free.get(variable)
            if loops and s.loop is loops[-1].node and s.loop.body and not s.block.parted_from(s.loop.body)
            else None
        )
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
        for body, skip, mask in (
            (s.then, s.heavy[0], self.mask_and(outer, c)),
            (s.otherwise, s.heavy[1], None),
        ):
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
        with self.under(
            frame=OpenCall(), n_calls=self.n_calls + 1, mask=self.mask, alive=self.alive, dead=False
        ):
            for assignment in node.setup:
                self.emit_set(assignment)
            if not node.text.single_return:
                self.frame.exit_block = self.b.append_basic_block("exit")
                if self.W > 1 and node.varying_return:
                    self.frame.active = self.slot(self.mask_type)
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
            self.b.branch(
                call.exit_block if loop is None else loop.exit_block if s.how == "break" else loop.next_block
            )
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
            self.b.store(self.b.and_(self.b.load(place, typ=self.mask_type), self.b.not_(self.mask)), place)

    def emit_rejoin(self, s):
        self.rejoin(s.call, s.block)

    def rejoin(self, node, block):
        """Go on, in a block of a call, with the lanes that are still here."""
        call = self.frame
        place = call.loops[-1].current if call.loops else call.active
        if place is None or self.W == 1:
            return
        live = self.b.load(place, typ=self.mask_type)
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
            self.counted_loop(
                loop,
                self.value(loop.start),
                self.value(loop.stop),
                loop.step if isinstance(loop.step, int) else self.value(loop.step),
            )
        else:
            self.run_loop(loop, lambda: self._part((loop.test, loop.condition)), lambda: None, lambda: None)

    def trips(self, loop, trips):
        """(block, member) pairs one after the other; lanes may leave."""
        masked = self.W > 1 and loop.varying_exit
        live = current = None
        if masked:
            live, current = self.slot(self.mask_type), self.slot(self.mask_type)
            self.b.store(self.mask_value(self.mask), live)
        exit_block = self.b.append_basic_block("done")
        for block, member in trips:
            after_trip = self.b.append_basic_block("next")
            trip, alive = self.mask, self.alive
            if masked:
                trip, alive = self.b.load(live, typ=self.mask_type), True
                self.b.store(trip, current)
                body = self.b.append_basic_block("trip")
                self.b.cbranch(self.any_lane(trip), body, exit_block)
                self.b.position_at_end(body)
            with self.under(mask=trip, alive=alive):
                self._trip(
                    OpenLoop(loop, after_trip, exit_block, live, current), block, lambda member=member: member
                )
            self.b.position_at_end(after_trip)
        self.b.branch(exit_block)
        self.b.position_at_end(exit_block)

    def counted_loop(self, loop, start, stop, step):
        """for counter in range(start, stop, step), step a Python integer, or a Value whose sign is not
        known."""
        known = isinstance(step, int)
        by = self.const(step) if known else step
        kind = self.kind_of(start, by)
        if known and abs(step) > 1 and loop.form == "range":
            self._striding_loop(loop, start, stop, step, kind)
            return
        counter = self.slot(self.type_of("int", kind))
        self.b.store(self.get(start, "int", kind), counter)
        stop = self.cast(stop, "int") if stop.kind != UNIFORM or stop.const is None else stop

        def value():
            return Value("int", kind, self.b.load(counter, typ=self.type_of("int", kind)))

        def advance():
            self.b.store(self.get(self.binary("+", value(), by), "int", kind), counter)

        one_by_one = known and step == 1 and (self.W == 1 or kind == stop.kind == UNIFORM)
        self.run_loop(
            loop,
            lambda: self._goes_on(value, stop, step),
            value,
            advance,
            (counter, stop, 1) if one_by_one else None,
        )

    def _goes_on(self, value, stop, step):
        """Whether what `value` gives has not come to the stop."""
        if isinstance(step, int):
            return self.compare("<" if step > 0 else ">", value(), stop)
        up, down = (
            self.select(
                self.compare(op, step, self.const(0)), self.compare(other, value(), stop), self.const(False)
            )
            for op, other in ("><", "<>")
        )
        return self.select(up, up, down)

    def _striding_loop(self, loop, start, stop, step, kind):
        """The same by the number of trips: behind the last one the counter may lie beyond the integers."""
        b, n, one = self.b, self._trips_of(start, stop, step), I64(1)
        first, trip = self.get(start, "int", kind), self.slot(I64)
        b.store(I64(0), trip)

        def value():
            way = b.mul(b.load(trip, typ=I64), I64(step))
            way = self.splat(way) if isinstance(first.type, ir.VectorType) else way
            return Value("int", kind, b.add(first, way))

        def more():
            return self.compare("<", Value("int", UNIFORM, b.load(trip, typ=I64)), n)

        def advance():
            b.store(b.add(b.load(trip, typ=I64), one, flags=("nsw",)), trip)

        self.run_loop(loop, more, value, advance, (trip, n, 1) if self.W == 1 or n.kind == UNIFORM else None)

    def _trips_of(self, start, stop, step):
        """How many numbers are in range(start, stop, step)."""
        b, kind = self.b, self.kind_of(start, stop)
        first, last = (self.get(v, "int", kind) for v in (start, stop))
        gap = b.sub(last, first) if step > 0 else b.sub(first, last)
        one = self._alike(first, 1)
        n = b.add(b.udiv(b.sub(gap, one), self._alike(first, abs(step))), one)
        some = b.icmp_signed("<" if step > 0 else ">", first, last)
        return Value("int", kind, b.select(some, n, self._alike(first, 0)))

    def run_loop(self, loop, test, item, advance, counted=None):
        """A loop: `test` at its head, `item` (its counter's value) at the top of the body, `advance` before
        the next trip.

        counted : (place, stop, step) of a counter upwards that is the same in all lanes; steps are powers of
            two that meet the stop
        """
        self.diverges()
        emit = self._masked_loop if loop.masked and self.W > 1 else self._plain_loop
        if loop.call.text.file in OWN or loop.few():
            emit(loop, test, item, advance)
        else:
            looks = not self.looping or loop.form == "while"
            if looks and counted and self.target.strip and emit == self._plain_loop and loop.innermost():
                self._in_strips(loop, item, advance, *counted)
                self.dead = False
                return
            with self.under(looping=True):
                emit(loop, test, item, lambda: (advance(), looks and self.target.look(self)))
        self.dead = False

    def _in_strips(self, loop, item, advance, place, stop, step):
        """A plain loop of a counter at `place`, in strips between which the launch may end: a look at each
        trip costs what a light one does."""
        b, stop, trip = self.b, self.get(stop, "int"), self.slot(I64)
        strip, more = b.append_basic_block("strip"), b.append_basic_block("more")

        def in_strip():
            return Value("bool", UNIFORM, b.icmp_unsigned("<", b.load(trip, typ=I64), n_trips))

        def next_trip():
            advance()
            b.store(b.add(b.load(trip, typ=I64), I64(1), flags=("nsw", "nuw")), trip)

        def between(exit_block):
            b.cbranch(b.icmp_signed("<", b.load(place, typ=I64), stop), more, exit_block)
            b.position_at_end(more)
            self.target.look(self)
            b.branch(strip)

        b.branch(strip)
        b.position_at_end(strip)
        n_trips = self._trips_of_strip(place, stop, step)
        b.store(I64(0), trip)
        self._plain_loop(loop, in_strip, item, next_trip, between)

    def _trips_of_strip(self, place, stop, step):
        """How many trips the counter at `place` has left, or as many as a strip has."""
        b, most = self.b, I64(self.target.strip)
        n_left = b.lshr(b.sub(stop, b.load(place, typ=I64)), I64(step.bit_length() - 1))
        some = b.icmp_signed("<", b.load(place, typ=I64), stop)
        return b.select(some, b.select(b.icmp_unsigned("<", n_left, most), n_left, most), I64(0))

    def _plain_loop(self, loop, test, item, advance, between=None):
        """`between` : what is emitted where the test fails, if the loop is not over then."""
        head, body, after_body, exit_block = (
            self.b.append_basic_block(n) for n in ("head", "body", "next", "done")
        )
        ended = self.b.append_basic_block("ended") if between else exit_block
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(self.get(test(), "bool", UNIFORM), body, ended)
        self.b.position_at_end(body)
        with self.under(mask=self.mask, alive=self.alive):
            self._trip(OpenLoop(loop, after_body, exit_block), loop.body, item)
        self.b.position_at_end(after_body)
        advance()
        self.b.branch(head)
        if between:
            self.b.position_at_end(ended)
            between(exit_block)
        self.b.position_at_end(exit_block)

    def _masked_loop(self, node, test, item, advance):
        """A loop that lanes leave one by one: tested before the first trip and at the end of each."""
        loop = self._opened(node, test)
        loop.entry, body, loop.next_block, loop.exit_block = (
            self.b.append_basic_block(n) for n in ("enter", "body", "next", "done")
        )
        self.b.cbranch(self.any_lane(loop.first), loop.entry, loop.exit_block)
        self.b.position_at_end(loop.entry)
        self.b.branch(body)
        self.b.position_at_end(body)
        loop.trip = self.b.load(loop.live, typ=self.mask_type)
        self.b.store(loop.trip, loop.current)
        with self.under(mask=loop.trip, alive=True):
            self._trip(loop, node.body, item)
        self.b.position_at_end(loop.next_block)
        advance()
        self.b.cbranch(self.any_lane(self._next_trip(loop, test)), body, loop.exit_block)
        self.b.position_at_end(loop.exit_block)

    def _opened(self, node, test):
        """A masked loop with its slots, and the mask of its first trip."""
        loop = OpenLoop(node, live=self.slot(self.mask_type), current=self.slot(self.mask_type))
        self.b.store(self.mask_value(self.mask), loop.live)
        for variable in node.free:
            if variable in self.slots:
                copy = self.slot(self.type_of(variable.dtype, variable.kind))
                self.b.store(self.read(variable).ir, copy)
                loop.free[variable] = copy
        loop.first = self._next_trip(loop, test)
        loop.before = set(self.b.function.blocks)
        return loop

    def _next_trip(self, loop, test):
        """The mask of the lanes that go on, which are the ones that live from now on."""
        live = self.b.load(loop.live, typ=self.mask_type)
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
        """Emit a load before the loop whose lanes all do it in each trip, if the loop neither changes nor
        moves its place."""
        loop = self.frame.loops[-1] if self.frame and self.frame.loops else None
        numbers = [
            view.pointer,
            *view.strides,
            *(n for v, stride in view.prefix for n in (v.ir, stride)),
            *(v.ir for v in indices),
        ]
        if (
            loop is None
            or loop.trip is None
            or self.mask is not loop.trip
            or loop.node.writes
            or any(isinstance(n, ir.Instruction) and n.parent not in loop.before for n in numbers)
        ):
            yield
            return
        with self.under(mask=loop.first), self.b.goto_block(loop.entry):
            yield


# the layer's own texts, whose loops are short
OWN = {module.__file__ for module in (elementary, elementary_c99, elementary_gamma, draws)}
_METHODS = {
    node: "emit_" + node.__name__.lower() for node in (Operation, View, Set, If, Loop, Leave, Rejoin, Call)
}
