"""Loops: unrolled ones, those that all lanes go through together, and those that lanes leave one by one."""

from __future__ import annotations

import ast

from llvmlite import ir

from .. import words
from ..errors import LanguageError
from . import types as t
from .frames import Frames
from .known import Known
from .types import UNIFORM, VARYING
from .values import I1, Value

_UNROLL_TRIPS, _UNROLL_TOTAL, _UNROLL_STATIC = 16, 256, 4096


class Loop:
    """One loop being emitted. `live`: lanes that still loop; `current`: those still in this trip (slots, packs only).

    Of a masked loop also `free`: places of variables as the loop alone sees them (key -> slot), where lanes that have left
    hold anything, so that what decides about the next trip does not wait for masks; `deciding`: the names of such
    variables; `entry`: the block before the first trip; `first`, `trip`: the masks of the first trip and of this one;
    `before`: the blocks that were there when it began.
    """

    def __init__(self, key, next_block, exit_block, live=None, current=None):
        self.key, self.next_block, self.exit_block, self.live, self.current = key, next_block, exit_block, live, current
        self.region = self.entry = self.first = self.trip = None
        self.free, self.deciding, self.before = {}, (), ()


class Loops(Frames):
    """Needs from the class on top: `block`, `assign_to`."""

    def stmt_While(self, s):
        self._no_else(s)
        with self.meeting_behind(returns(s)):
            self.run_loop(s, lambda: self.condition(s.test), lambda: None, lambda: None)

    def stmt_For(self, s):
        self._no_else(s)
        with self.meeting_behind(returns(s)):
            self._for(s)

    def _for(self, s):
        call = s.iter
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "thread_range":
            team = self.expr(call.func.value)
            if hasattr(team, "thread_range"):
                lo, hi = self.bounds(call)
                team.thread_range(self, s, lo, hi)
                return
        if isinstance(call, ast.Call):
            callee = self.expr(call.func)
            if isinstance(callee, Known) and callee.value is range:
                self.range_loop(s, call)
                return
        items = self.expr(call)
        if not isinstance(items, tuple):
            self.fail(s, f"a for loop runs over range(...), team.thread_range(...) or a tuple, not over `{ast.unparse(call)}`",
                      LanguageError)
        self.unroll(s, items)

    def _no_else(self, s):
        if s.orelse:
            self.fail(s, "else after a loop is not for kernels", LanguageError)

    def bounds(self, call):
        values = self.arguments(call, 1, 2)
        self.integers(call, values)
        return (self.const(0), values[0]) if len(values) == 1 else tuple(values)

    def integers(self, call, values):
        for v, node in zip(values, call.args):
            if t.is_float(v.dtype):
                self.fail(call, f"`{ast.unparse(call)}`: the bounds are integers, but `{ast.unparse(node)}` is a float")

    def range_loop(self, s, call):
        values = self.arguments(call, 1, 3)
        self.integers(call, values)
        start, stop = (self.const(0), values[0]) if len(values) == 1 else values[:2]
        step = values[2].const if len(values) == 3 else 1
        if not step:
            self.fail(call, "range's step must be a constant other than zero")
        static = any(isinstance(n, ast.Name) and self.frame.text.scope.get(n.id) is words.static or
                     isinstance(n, ast.Attribute) and n.attr == "static" for n in ast.walk(call))
        if start.const is not None and stop.const is not None:
            trips = len(range(start.const, stop.const, step))
            static = static or trips <= _UNROLL_TRIPS and trips * self.unrolled <= _UNROLL_TOTAL
            if static and trips * self.unrolled <= _UNROLL_STATIC and not leaves(s) and not _own_exit(s):
                self.unroll(s, [self.const(k) for k in range(start.const, stop.const, step)])
                return
        if self.W > 1 and start.kind != UNIFORM and not _computes(s):
            self.facts.setdefault("scalar", f"the loop of line {self.frame.text.where(s).rpartition(':')[2]} reads other elements in "
                                            "each lane and computes little, which one lane at a time does faster")
        self.counted_loop(s, start, stop, step)

    def unroll(self, s, items):
        if _own_exit(s) or returns(s):
            self.unroll_with_exits(s, items)
            return
        self.unrolled *= max(1, len(items))
        for item in items:
            path = self.frame.text.blocks.get(id(s.body))
            self.frame.homes[path] = self.region
            self.assign_to(s.target, item)
            self.block(s.body)
            if self.dead:
                break
        self.unrolled //= max(1, len(items))

    def unroll_with_exits(self, s, items):
        """A loop over a tuple whose trips lanes may leave."""
        key = (self.frame.path, id(s))
        masked = self.W > 1 and bool(self.facts.get((key, "varying exit")))
        vector, live, current = ir.VectorType(I1, self.W), None, None
        if masked:
            live, current = self.slot(vector), self.slot(vector)
            self.b.store(self.mask_value(self.mask), live)
        exit_block = self.b.append_basic_block("done")
        for item in items:
            after_trip = self.b.append_basic_block("next")
            loop = Loop(key, after_trip, exit_block, live, current)
            if masked:
                trip = self.b.load(live, typ=vector)
                self.b.store(trip, current)
                body = self.b.append_basic_block("trip")
                self.b.cbranch(self.any_lane(trip), body, exit_block)
                self.b.position_at_end(body)
            if self.facts.get((key, "varying exit")):
                with self.inner_region(trip if masked else self.mask, alive=masked or self.alive):
                    self._trip(s, loop, lambda item=item: self.assign_to(s.target, item))
            else:
                self._trip(s, loop, lambda item=item: self.assign_to(s.target, item))
            self.b.position_at_end(after_trip)
        self.b.branch(exit_block)
        self.b.position_at_end(exit_block)
        if returns(s):
            self.refresh_mask()

    def counted_loop(self, s, start, stop, step):
        """for target in range(start, stop, step), step a Python integer."""
        uniform = start.kind == UNIFORM
        kind = UNIFORM if uniform else VARYING
        counter = self.slot(self.type_of("int", kind))
        self.b.store(self.get(start, "int", kind), counter)
        stop = self.cast(stop, "int") if stop.kind != UNIFORM or stop.const is None else stop

        def value():
            return Value("int", kind, self.b.load(counter, typ=self.type_of("int", kind)))

        def advance():
            self.b.store(self.get(self.binary("+", value(), self.const(step)), "int", kind), counter)

        self.run_loop(s, lambda: self.compare("<" if step > 0 else ">", value(), stop),
                      lambda: self.assign_to(s.target, value()), advance)

    def run_loop(self, s, test, prepare, advance):
        """A loop: `test` at its head, `prepare` at the top of the body, `advance` before the next trip."""
        self.diverges()
        key = (self.frame.path, id(s))
        varying = bool(self.facts.get((key, "varying")) or self.facts.get((key, "varying exit")))
        if varying and self.W > 1:
            self._masked_loop(s, key, test, prepare, advance)
        else:
            self._plain_loop(s, key, varying, test, prepare, advance)
        self.dead = False
        if returns(s):
            self.refresh_mask()

    def _plain_loop(self, s, key, varying, test, prepare, advance):
        head, body, after_body, exit_block = (self.b.append_basic_block(n) for n in ("head", "body", "next", "done"))
        self.b.branch(head)
        self.b.position_at_end(head)
        c = self._tested(key, test)
        go = self.any_lane(self.get(c, "bool", VARYING)) if self.W > 1 and c.kind != UNIFORM else self.get(c, "bool", UNIFORM)
        self.b.cbranch(go, body, exit_block)
        self.b.position_at_end(body)
        loop = Loop(key, after_body, exit_block)
        if varying:
            with self.inner_region(self.mask, self.alive):
                self._trip(s, loop, prepare)
        else:
            self._trip(s, loop, prepare)
        self.b.position_at_end(after_body)
        advance()
        self.b.branch(head)
        self.b.position_at_end(exit_block)

    def _masked_loop(self, s, key, test, prepare, advance):
        """A loop that lanes leave one by one: tested before the first trip and at the end of each."""
        vector = ir.VectorType(I1, self.W)
        loop = Loop(key, None, None, self.slot(vector), self.slot(vector))
        loop.deciding = _deciding(s)
        self.b.store(self.mask_value(self.mask), loop.live)
        self.free_copies(loop)
        loop.first = self._next_trip(loop, test)
        loop.before = set(self.b.function.blocks)
        entered, body, loop.next_block, loop.exit_block = (self.b.append_basic_block(n) for n in ("enter", "body", "next", "done"))
        self.b.cbranch(self.any_lane(loop.first), entered, loop.exit_block)
        self.b.position_at_end(entered)
        loop.entry = entered
        self.b.branch(body)
        self.b.position_at_end(body)
        loop.trip = self.b.load(loop.live, typ=vector)
        self.b.store(loop.trip, loop.current)
        with self.inner_region(loop.trip, alive=True):
            self._trip(s, loop, prepare)
        self.b.position_at_end(loop.next_block)
        advance()
        self.b.cbranch(self.any_lane(self._next_trip(loop, test)), body, loop.exit_block)
        self.b.position_at_end(loop.exit_block)

    def _next_trip(self, loop, test):
        """The mask of the lanes that go on, which are the ones that live from now on."""
        mask, alive = self.mask, self.alive
        self.mask, self.alive = self.b.load(loop.live, typ=ir.VectorType(I1, self.W)), False
        self.frame.loops.append(loop)
        c = self._tested(loop.key, test)
        self.frame.loops.pop()
        trip = self.mask if c.const else self.mask_and(self.mask, c)
        self.b.store(trip, loop.live)
        self.mask, self.alive = mask, alive
        return trip

    def _tested(self, key, test):
        c = test()
        if c.kind != UNIFORM:
            self.facts.learn((key, "varying"), True)
        return c

    def _trip(self, s, loop, prepare):
        loop.region = self.region
        self.frame.loops.append(loop)
        self.frame.homes[self.frame.text.blocks.get(id(s.body))] = self.region
        unrolled, self.unrolled = self.unrolled, 1
        prepare()
        self.block(s.body)
        self.unrolled = unrolled
        self.frame.loops.pop()
        if not self.dead:
            self.b.branch(loop.next_block)
        self.dead = False

    def stmt_Break(self, s):
        loop = self.frame.loops[-1]
        # After a varying continue the lanes that are left here are not all that still loop.
        if self._leave(loop, loop.exit_block, not self.facts.get((loop.key, "varying continue"))):
            self._drop(loop.live)
            self._drop(loop.current)

    def stmt_Continue(self, s):
        loop = self.frame.loops[-1]
        if self.region is not loop.region:
            self.facts.learn((loop.key, "varying continue"), True)
        if self._leave(loop, loop.next_block):
            self._drop(loop.current)

    def _leave(self, loop, block, together=True):
        """Jump if all lanes here go together, or if lanes are threads; else True: the caller drops them from masks."""
        together = together and self.region is loop.region
        if not together:
            self.facts.learn((loop.key, "varying exit"), True)
        if together or self.W == 1:
            self.b.branch(block)
            self.dead = True
            return False
        return True

    def _drop(self, place):
        if place is not None and self.mask is not None:
            vector = ir.VectorType(I1, self.W)
            self.b.store(self.b.and_(self.b.load(place, typ=vector), self.b.not_(self.mask)), place)


def _own_exit(loop, kinds=(ast.Break, ast.Continue)):
    """True if the loop's body breaks or continues this very loop."""
    def look(body):
        return any(isinstance(s, kinds) or isinstance(s, ast.If) and (look(s.body) or look(s.orelse)) for s in body)
    return look(loop.body)


def breaks(loop):
    """True if the loop's body breaks this very loop."""
    return _own_exit(loop, ast.Break)


def _deciding(loop):
    """Names of variables on which a loop's next trip may depend: those in its conditions, and what these are made from."""
    tests = [n.test for n in ast.walk(loop) if isinstance(n, (ast.While, ast.If))]
    names, more = set(), {n.id for test in tests for n in ast.walk(test) if isinstance(n, ast.Name)}
    assigned = [n for n in ast.walk(loop) if isinstance(n, (ast.Assign, ast.AugAssign))]
    while more - names:
        names |= more
        more = {n.id for a in assigned if names & {n.id for n in ast.walk(a) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                for n in ast.walk(a.value) if isinstance(n, ast.Name)}
    return names


def returns(s):
    return any(isinstance(n, ast.Return) for n in ast.walk(s))


def leaves(s):
    """True if lanes may leave the enclosing loop trip or function inside this statement."""
    if returns(s):
        return True
    if isinstance(s, ast.If):
        return any(isinstance(q, (ast.Break, ast.Continue)) or (isinstance(q, ast.If) and leaves(q)) for q in s.body + s.orelse)
    return False


def _computes(loop):
    """True for a loop whose body does more than read and add: a call of a function, a division or a power."""
    return any(isinstance(n, (ast.Call, ast.Div, ast.Pow)) for s in loop.body for n in ast.walk(s))
