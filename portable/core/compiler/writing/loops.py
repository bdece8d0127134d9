"""Emit the loops of a typed tree."""

from llvmlite import ir

from .flow import OpenLoop
from .lines import builder
from ...language.types import UNIFORM
from .values import I64, Value


def emit_loop(here, loop):
    """Emit a Loop of a tree; return the place after it."""
    if loop.form == "trips":
        return trips(here, loop, [(block, None) for block in loop.trips])
    if loop.form == "while":
        test = lambda here: here.block(loop.test) and here.value(loop.condition)  # noqa: E731
        return run_loop(here, loop, test, _no_counter, _no_counter)
    start, stop = here.value(loop.start), here.value(loop.stop)
    if loop.form == "members":
        return here.team.thread_range(here, loop, start, stop)
    step = loop.step if isinstance(loop.step, int) else here.value(loop.step)
    return counted_loop(here, loop, start, stop, step)


def _no_counter():
    """Do nothing, for a loop without a counter."""


def trips(here, loop, trips):
    """Emit the iterations of an unrolled loop, (block, member) pairs, in sequence; lanes may leave. Return
    the place after them."""
    ops, masked = here.ops, here.ops.W > 1 and loop.varying_exit
    live = current = None
    if masked:
        live, current = ops.slot(here.ops.mask_type), ops.slot(here.ops.mask_type)
        builder.store(ops.mask_value(here.mask), live)
    exit_block = builder.append_basic_block("done")
    for block, member in trips:
        after_trip, there = builder.append_basic_block("next"), here
        if masked:
            there = here.restricted_to(builder.load(live, here.ops.mask_type), True)
            builder.store(there.mask, current)
            body = builder.append_basic_block("trip")
            builder.go(body, ops.any_lane(there.mask), exit_block)
        _trip(there, OpenLoop(loop, after_trip, exit_block, live, current), block, member)
        builder.position_at_end(after_trip)
    builder.go(exit_block)
    return here


def counted_loop(here, loop, start, stop, step):
    """Emit a loop over range(start, stop, step); step is a Python integer, or a Value of unknown sign. Return
    the place after it."""
    ops, known = here.ops, isinstance(step, int)
    by = ops.const(step) if known else step
    kind = ops.kind_of(start, by)
    if known and abs(step) > 1 and loop.form == "range":
        return _striding_loop(here, loop, start, stop, step, kind)
    counter = ops.slot(ops.type_of("int", kind))
    builder.store(ops.get(start, "int", kind), counter)
    stop = ops.cast(stop, "int") if stop.kind != UNIFORM or stop.const is None else stop

    def value():
        return Value("int", kind, builder.load(counter, ops.type_of("int", kind)))

    def advance():
        builder.store(ops.get(ops.binary("+", value(), by), "int", kind), counter)

    one_by_one = known and step == 1 and (ops.W == 1 or kind == stop.kind == UNIFORM)
    strips = (counter, stop, 1) if one_by_one else None
    return run_loop(here, loop, lambda here: _goes_on(ops, value, stop, step), value, advance, strips)


def _goes_on(ops, value, stop, step):
    """Return a condition that is true while the result of `value` has not reached the stop."""
    if isinstance(step, int):
        return ops.compare("<" if step > 0 else ">", value(), stop)
    up, down = (
        ops.select(ops.compare(op, step, ops.const(0)), ops.compare(other, value(), stop), ops.const(False))
        for op, other in ("><", "<>")
    )
    return ops.select(up, up, down)


def _striding_loop(here, loop, start, stop, step, kind):
    """Emit a counted loop by its number of iterations, since the counter may overflow after the last one;
    return the place after it."""
    ops, n = here.ops, _trips_of(here.ops, start, stop, step)
    first, trip = ops.get(start, "int", kind), ops.slot(I64)
    builder.store(0, trip)

    def value():
        way = builder.load(trip) * step
        way = ops.splat(way) if isinstance(first.type, ir.VectorType) else way
        return Value("int", kind, first + way)

    def more(here):
        return ops.compare("<", Value("int", UNIFORM, builder.load(trip)), n)

    def advance():
        builder.store(builder.add_nsw(builder.load(trip), 1), trip)

    strips = (trip, n, 1) if ops.W == 1 or n.kind == UNIFORM else None
    return run_loop(here, loop, more, value, advance, strips)


def _trips_of(ops, start, stop, step):
    """Return the number of items of range(start, stop, step)."""
    kind = ops.kind_of(start, stop)
    first, last = (ops.get(v, "int", kind) for v in (start, stop))
    gap = last - first if step > 0 else first - last
    n = builder.udiv(gap - 1, abs(step)) + 1
    some = builder.icmp_signed("<" if step > 0 else ">", first, last)
    return Value("int", kind, builder.select(some, n, 0))


def run_loop(here, loop, test, item, advance, counted=None):
    """Emit a loop: `test`, a function of the place, at its head, `item` (returns the counter's value) at the
    top of the body, `advance` before the next iteration. Return the place after it.

    counted : (slot, stop, step) of a uniform counter that increases; steps are powers of two that reach the
        stop exactly
    """
    ops = here.ops
    ops.diverges()
    test = here.lower.watch.loop(here, loop, test)
    emit = _masked_loop if loop.masked and ops.W > 1 else _plain_loop
    if here.own or loop.has_few_iterations():
        emit(here, loop, test, item, advance)
        return here
    looks, strip = not here.looping or loop.form == "while", ops.target.strip
    if looks and counted and strip and emit is _plain_loop and loop.innermost():
        _in_strips(here, loop, item, advance, *counted)
        return here

    def next_trip():
        advance()
        if looks:
            ops.target.poll_flag(ops)

    emit(here._replace(looping=True), loop, test, item, next_trip)
    return here


def _in_strips(here, loop, item, advance, place, stop, step):
    """Emit a plain loop with a counter at `place` in strips, between which the launch may end: a test in each
    iteration would double the time of a light loop."""
    ops = here.ops
    stop, trip = ops.get(stop, "int"), ops.slot(I64)
    strip, more = builder.blocks("strip", "more")

    def in_strip(here):
        return Value("bool", UNIFORM, builder.icmp_unsigned("<", builder.load(trip), n_trips))

    def next_trip():
        advance()
        builder.store(builder.add(builder.load(trip), 1, flags=("nsw", "nuw")), trip)

    def poll_between(exit_block):
        builder.go(more, builder.load(place) < stop, exit_block)
        ops.target.poll_flag(ops)
        builder.branch(strip)

    builder.go(strip)
    n_trips = _trips_of_strip(ops, place, stop, step)
    builder.store(0, trip)
    _plain_loop(here, loop, in_strip, item, next_trip, poll_between)


def _trips_of_strip(ops, place, stop, step):
    """Return the number of iterations left for the counter at `place`, at most that of a strip."""
    n_left = builder.lshr(stop - builder.load(place), step.bit_length() - 1)
    n_left = ops.intrinsic("umin", [n_left, I64(ops.target.strip)])
    return builder.select(builder.load(place) < stop, n_left, 0)


def _plain_loop(here, loop, test, item, advance, between=None):
    """Emit a loop with a branch. `between` : function that emits the code after a failed test, if the loop
    may continue then."""
    first = len(builder.function.blocks)
    head, body, after_body, exit_block = builder.blocks("head", "body", "next", "done")
    ended = builder.append_basic_block("ended") if between else exit_block
    builder.go(head)
    builder.go(body, here.ops.get(test(here), "bool", UNIFORM), ended)
    _trip(here, OpenLoop(loop, after_body, exit_block), loop.body, item)
    builder.position_at_end(after_body)
    advance()
    again = builder.branch(head)
    if loop.counter is not None and not (loop.breaks or loop.returns) and loop.innermost():
        again.text += here.ops.target.unrolled(builder.function.blocks[first:])
    if between:
        builder.position_at_end(ended)
        between(exit_block)
    builder.position_at_end(exit_block)


def _masked_loop(here, node, test, item, advance):
    """Emit a loop that lanes leave one by one: tested before the first iteration and at the end of each."""
    loop = _opened(here, node, test)
    loop.entry, body, loop.next_block, loop.exit_block = builder.blocks("enter", "body", "next", "done")
    builder.go(loop.entry, here.ops.any_lane(loop.first), loop.exit_block)
    builder.go(body)
    loop.trip = builder.load(loop.live, here.ops.mask_type)
    builder.store(loop.trip, loop.current)
    _trip(here.restricted_to(loop.trip, True), loop, node.body, item)
    builder.position_at_end(loop.next_block)
    advance()
    builder.cbranch(here.ops.any_lane(_next_trip(here, loop, test)), body, loop.exit_block)
    builder.position_at_end(loop.exit_block)


def _opened(here, node, test):
    """Return a masked loop with its slots and the mask of its first iteration."""
    ops = here.ops
    loop = OpenLoop(node, free={}, live=ops.slot(here.ops.mask_type), current=ops.slot(here.ops.mask_type))
    builder.store(ops.mask_value(here.mask), loop.live)
    for variable in node.free:
        if variable in here.scope.slots:
            copy = ops.slot(ops.type_of(variable.dtype, variable.kind))
            builder.store(here.read(variable).ir, copy)
            loop.free[variable] = copy
    loop.first = _next_trip(here, loop, test)
    loop.before = set(builder.function.blocks)
    return loop


def _next_trip(here, loop, test):
    """Return the mask of the lanes that continue, and store it as the mask of live lanes."""
    live = builder.load(loop.live, here.ops.mask_type)
    c = test(here._replace(mask=live, alive=False, loops=(*here.loops, loop)))
    trip = live if c.const else here.ops.narrowed(live, c)
    builder.store(trip, loop.live)
    return trip


def _trip(here, loop, block, item):
    """Emit one iteration; `item`: the counter's value, or a function that returns it."""
    here = here._replace(loops=(*here.loops, loop))
    if loop.node.counter is not None:
        value = item() if callable(item) else item
        for scope in here.scopes:
            scope.values[loop.node.counter] = value
    if here.block(block):
        builder.branch(loop.next_block)
