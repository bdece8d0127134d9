"""Statements: from a kernel's text to LLVM IR, for packs of lanes (masks) or for one lane (branches), by the same rules."""

from __future__ import annotations

import ast

from llvmlite import ir

from .. import words
from ..errors import LanguageError
from . import types as t
from .frames import Frames, arrangement, flat
from .known import Known
from .types import UNIFORM, VARYING
from .values import I1, Value

_UNROLL_TRIPS, _UNROLL_TOTAL, _UNROLL_STATIC = 16, 256, 4096
_NOT_STATEMENTS = {"With": "with", "Try": "try", "Raise": "raise", "Delete": "del", "Global": "global", "Nonlocal": "nonlocal",
                   "FunctionDef": "a nested function", "ClassDef": "a class", "Import": "import", "ImportFrom": "import",
                   "Match": "match"}


class Loop:
    """One loop being emitted. `live`: lanes that still loop; `current`: those still in this trip (slots, packs only)."""

    def __init__(self, key, region, next_block, exit_block, live, current):
        self.key, self.region, self.next_block, self.exit_block = key, region, next_block, exit_block
        self.live, self.current = live, current


class Lowering(Frames):
    """Emits the statements of kernel texts at the builder's position."""

    def block(self, body):
        path = self.frame.text.blocks.get(id(body))
        if path is not None:
            self.frame.homes[path] = self.region
        self.depth += 1
        for s in body:
            if self.dead:
                break
            self.line = self.frame.text.where(s)
            method = getattr(self, "stmt_" + type(s).__name__, None)
            if method is None:
                what = _NOT_STATEMENTS.get(type(s).__name__, type(s).__name__)
                self.fail(s, f"{what} is not for kernels", LanguageError)
            try:
                method(s)
            except t.TypeClash as clash:
                self.fail(s, f"`{ast.unparse(s).splitlines()[0]}`: {clash}")
        self.depth -= 1

    def stmt_Pass(self, s):
        pass

    def stmt_Assert(self, s):
        """Only the checked space looks at assertions."""

    def stmt_Expr(self, s):
        if isinstance(s.value, ast.Constant):
            return
        if not isinstance(s.value, ast.Call):
            self.fail(s, f"`{ast.unparse(s)}` does nothing", LanguageError)
        self.result_unused = True
        try:
            self.expr(s.value)
        finally:
            self.result_unused = False

    def stmt_Assign(self, s):
        value = self.expr(s.value)
        for target in s.targets:
            self.assign_to(target, value)

    def stmt_AnnAssign(self, s):
        if s.value is not None:
            self.assign_to(s.target, self.expr(s.value))

    def stmt_AugAssign(self, s):
        if isinstance(s.target, ast.Name):
            old = ast.copy_location(ast.Name(s.target.id, ast.Load()), s)
            value = self.expr(ast.copy_location(ast.BinOp(old, s.op, s.value), s))
            self.assign(s.target.id, value, s)
        else:
            view, items = self.element(s.target)
            new = _Ready(self.counted(f"load {view.store or view.label}", self.load(view, items), view.dtype))
            value = self.expr(ast.copy_location(ast.BinOp(new, s.op, s.value), s))
            self._put(view, items, value, s)

    def expr__Ready(self, node):
        return node.value

    def assign_to(self, target, value):
        if isinstance(target, ast.Name):
            self.assign(target.id, value, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                self.fail(target, f"{len(target.elts)} values are wanted for `{ast.unparse(target)}`, got {self.describe(value)}")
            for part, v in zip(target.elts, value):
                self.assign_to(part, v)
        elif isinstance(target, ast.Subscript):
            self._put(*self.element(target), value, target)
        else:
            self.fail(target, f"`{ast.unparse(target)}` cannot be assigned in a kernel", LanguageError)

    def _put(self, view, items, value, node):
        self.check_writable(view, node)
        self.store(view, items, self._storable(view, value, node))
        self.counted(f"store {view.store or view.label}", None, view.dtype)

    def element(self, target):
        view = self.view_of(self.expr(target.value), target)
        items = self.items(view, target)
        if len(items) != len(view.shape) or any(isinstance(i, tuple) for i in items):
            self.fail(target, f"'{view.label}' has {len(view.shape)} dimension(s); one element is assigned at a time")
        return view, items

    def _storable(self, view, value, node):
        if not isinstance(value, Value):
            self.fail(node, f"a number is wanted for an element of '{view.label}', got {self.describe(value)}")
        if t.is_float(value.dtype) and not t.is_float(view.dtype) and value.const is None:
            return self.cast(value, view.dtype)
        return value

    # ---- if
    def stmt_If(self, s):
        c = self.condition(s.test)
        if c.const is not None:
            self.block(s.body if c.const else s.orelse)
            if not self.dead and _leaves(s):
                self.refresh_mask()
            return
        mask, alive, divergent = self.mask, self.alive, self.divergent
        if self.W > 1 and c.kind != UNIFORM:
            self._masked_if(s, c)
        else:
            self._branching_if(s, c)
        self.mask, self.alive, self.divergent = mask, alive, divergent
        if not self.dead and _leaves(s):
            self.refresh_mask()

    def _branching_if(self, s, c):
        varying = c.kind != UNIFORM
        yes = self.b.append_basic_block("then")
        no = self.b.append_basic_block("else") if s.orelse else None
        after = self.b.append_basic_block("after")
        self.b.cbranch(self.get(c, "bool", UNIFORM), yes, no or after)
        mask, alive, reached = self.mask, self.alive, not s.orelse
        for start, body in ((yes, s.body), (no, s.orelse)):
            if start is None:
                continue
            self.b.position_at_end(start)
            self.mask, self.alive, self.dead = mask, alive, False
            if varying:
                with self.inner_region(mask, alive):
                    self.block(body)
            else:
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
        for body, mask in ((s.body, self.mask_and(outer, c)), (s.orelse, None)):
            if not body:
                continue
            if mask is None:
                mask = self.mask_without(outer, c)
            skip = _heavy(body)
            if skip:  # worth a branch around it when no lane goes there
                inside, after = self.b.append_basic_block("lanes"), self.b.append_basic_block("after")
                self.b.cbranch(self.any_lane(mask), inside, after)
                self.b.position_at_end(inside)
            with self.inner_region(mask, alive=skip):
                self.block(body)
            if skip:
                if not self.dead:
                    self.b.branch(after)
                self.b.position_at_end(after)
            self.dead = False

    # ---- loops
    def stmt_While(self, s):
        self._no_else(s)
        self.run_loop(s, lambda: self.condition(s.test), lambda: None, lambda: None)

    def stmt_For(self, s):
        self._no_else(s)
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
            static = static or self._small(trips)
            if static and trips * self.unrolled <= _UNROLL_STATIC and not _leaves(s) and not _own_exit(s):
                self.unroll(s, [self.const(k) for k in range(start.const, stop.const, step)])
                return
        if self.W > 1 and start.kind != UNIFORM and not _computes(s):
            self.facts.setdefault("scalar", f"the loop of line {self.frame.text.where(s).rpartition(':')[2]} reads other elements in "
                                            "each lane and computes little, which one lane at a time does faster")
        self.counted_loop(s, start, stop, step)

    def _small(self, trips):
        return trips <= _UNROLL_TRIPS and trips * self.unrolled <= _UNROLL_TOTAL

    def unroll(self, s, items):
        if _own_exit(s) or _returns(s):
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
            if masked:
                trip = self.b.load(live, typ=vector)
                self.b.store(trip, current)
                body = self.b.append_basic_block("trip")
                self.b.cbranch(self.any_lane(trip), body, exit_block)
                self.b.position_at_end(body)
            if self.facts.get((key, "varying exit")):
                with self.inner_region(trip if masked else self.mask, alive=masked or self.alive):
                    self._trip(s, key, lambda item=item: self.assign_to(s.target, item), after_trip, exit_block, live, current)
            else:
                self._trip(s, key, lambda item=item: self.assign_to(s.target, item), after_trip, exit_block, live, current)
            self.b.position_at_end(after_trip)
        self.b.branch(exit_block)
        self.b.position_at_end(exit_block)
        if _returns(s):
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
        key = (self.frame.path, id(s))
        varying = bool(self.facts.get((key, "varying")) or self.facts.get((key, "varying exit")))
        masked = varying and self.W > 1
        vector = ir.VectorType(I1, self.W)
        live = current = None
        if masked:
            live, current = self.slot(vector), self.slot(vector)
            self.b.store(self.mask_value(self.mask), live)
        head, body, after_body, exit_block = (self.b.append_basic_block(n) for n in ("head", "body", "next", "done"))
        self.b.branch(head)
        self.b.position_at_end(head)
        mask, alive = self.mask, self.alive
        if masked:
            self.mask, self.alive = self.b.load(live, typ=vector), False
        trip_mask = self._loop_head(test, key, masked, body, exit_block, live)
        self.b.position_at_end(body)
        self.mask, self.alive = mask, alive
        if varying:
            with self.inner_region(trip_mask if masked else mask, alive=True if masked else alive):
                if masked:
                    self.b.store(trip_mask, current)
                self._trip(s, key, prepare, after_body, exit_block, live, current)
        else:
            self._trip(s, key, prepare, after_body, exit_block, live, current)
        self.b.position_at_end(after_body)
        advance()
        self.b.branch(head)
        self.b.position_at_end(exit_block)
        self.dead = False
        if _returns(s):
            self.refresh_mask()

    def _loop_head(self, test, key, masked, body, exit_block, live):
        c = test()
        if c.kind != UNIFORM:
            self.facts.learn((key, "varying"), True)
        if masked:
            trip = self.mask if c.const else self.mask_and(self.mask, c)
            self.b.store(trip, live)
            self.b.cbranch(self.any_lane(trip), body, exit_block)
            return trip
        go = self.any_lane(self.get(c, "bool", VARYING)) if self.W > 1 and c.kind != UNIFORM else self.get(c, "bool", UNIFORM)
        self.b.cbranch(go, body, exit_block)
        return None

    def _trip(self, s, key, prepare, after_body, exit_block, live, current):
        self.frame.loops.append(Loop(key, self.region, after_body, exit_block, live, current))
        self.frame.homes[self.frame.text.blocks.get(id(s.body))] = self.region
        unrolled, self.unrolled = self.unrolled, 1
        prepare()
        self.block(s.body)
        self.unrolled = unrolled
        self.frame.loops.pop()
        if not self.dead:
            self.b.branch(after_body)
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

    def stmt_Return(self, s):
        frame = self.frame
        value = None if s.value is None else self.expr(s.value)
        if isinstance(value, Known) and value.value is None:
            value = None
        if frame.text.single_return:
            frame.result, self.dead = value, True
            return
        together = self.region is frame.region
        if value is not None:
            # Once some lanes have returned, the others must not overwrite what those left.
            self._write_result(value, s, inner=not together or bool(self.facts.get((frame.path, "varying return"))))
        if not together:
            self.facts.learn((frame.path, "varying return"), True)
            for loop in frame.loops:
                self.facts.learn((loop.key, "varying exit"), True)
        if together or self.W == 1:
            self.b.branch(frame.exit_block)
            self.dead = True
            return
        self._drop(frame.active)
        for loop in frame.loops:
            self._drop(loop.live)
            self._drop(loop.current)

    def _write_result(self, value, s, inner):
        frame = self.frame
        values, result = flat(value), arrangement(value)
        if frame.returns and frame.result != result or not all(isinstance(v, Value) for v in values):
            self.fail(s, "every return must give the same number of numbers")
        frame.returns, frame.result = len(values), result
        for k, v in enumerate(values):
            self._write_slot((frame.path, "result", k), v, inner, s)

    def run_once(self, s, item, name):
        """The body of loop `s` once, for one value of its target, where lanes may leave early."""
        key = (self.frame.path, id(s), name)
        exit_block = self.b.append_basic_block("done")
        live = current = None
        if self.W > 1:
            live, current = self.slot(ir.VectorType(I1, self.W)), self.slot(ir.VectorType(I1, self.W))
            self.b.store(self.mask, live)
            self.b.store(self.mask, current)
        self._trip(s, key, lambda: self.assign_to(s.target, item), exit_block, exit_block, live, current)
        self.b.position_at_end(exit_block)


class _Ready(ast.expr):
    """An expression whose value is already there."""

    _fields = ()

    def __init__(self, value):
        super().__init__()
        self.value = value


def _own_exit(loop):
    """True if the loop's body breaks or continues this very loop."""
    def look(body):
        for s in body:
            if isinstance(s, (ast.Break, ast.Continue)):
                return True
            if isinstance(s, ast.If) and (look(s.body) or look(s.orelse)):
                return True
        return False
    return look(loop.body)


def _returns(s):
    return any(isinstance(n, ast.Return) for n in ast.walk(s))


def _leaves(s):
    """True if lanes may leave the enclosing loop trip or function inside this statement."""
    if _returns(s):
        return True
    if isinstance(s, ast.If):
        return any(isinstance(q, (ast.Break, ast.Continue)) or (isinstance(q, ast.If) and _leaves(q)) for q in s.body + s.orelse)
    return False


def _computes(loop):
    """True for a loop whose body does more than read and add: a call of a function, a division or a power."""
    return any(isinstance(n, (ast.Call, ast.Div, ast.Pow)) for s in loop.body for n in ast.walk(s))


def _heavy(body):
    """True for a branch that costs more than the jump around it: a loop, a call, a division or a power."""
    heavy = (ast.For, ast.While, ast.Call, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.Return, ast.Break, ast.Continue)
    return any(isinstance(n, heavy) for s in body for n in ast.walk(s))
