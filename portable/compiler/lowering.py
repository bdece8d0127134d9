"""Statements: from a kernel's text to LLVM IR, for packs of lanes (masks) or for one lane (branches), by the same rules."""

from __future__ import annotations

import ast


from ..errors import LanguageError
from . import types as t
from .frames import arrangement, flat
from .known import Known
from .loops import Loops, leaves
from .types import UNIFORM
from .values import Value

_HEAVY = (ast.For, ast.While, ast.Call, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.Return, ast.Break, ast.Continue)  # costs more than a jump
_NOT_STATEMENTS = {"With": "with", "Try": "try", "Raise": "raise", "Delete": "del", "Global": "global", "Nonlocal": "nonlocal",
                   "FunctionDef": "a nested function", "ClassDef": "a class", "Import": "import", "ImportFrom": "import",
                   "Match": "match"}


class Lowering(Loops):
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
        self.result_unused = s.value
        self.expr(s.value)

    def stmt_Assign(self, s):
        value = self.expr(s.value)
        for target in s.targets:
            self.assign_to(target, value)

    def stmt_AnnAssign(self, s):
        if s.value is not None:
            self.assign_to(s.target, self.expr(s.value))

    def stmt_AugAssign(self, s):
        if isinstance(s.target, ast.Name):
            self.assign(s.target.id, self._operated(s, self.read(s.target.id, s)), s)
        else:
            view, items = self.element(s.target)
            old = self.counted(f"load {view.store or view.label}", self.load(view, items), view.dtype)
            self._put(view, items, self._operated(s, old), s)

    def _operated(self, s, old):
        """The value of an augmented assignment: one node for all emissions, since facts hang on nodes."""
        operations = self.frame.text.operations
        node = operations.setdefault(id(s), ast.copy_location(ast.BinOp(_Ready(), s.op, s.value), s))
        node.left.value = old
        return self.expr(node)

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
            if not self.dead and leaves(s):
                self.refresh_mask()
            return
        mask, alive, divergent = self.mask, self.alive, self.divergent
        if self.W > 1 and c.kind != UNIFORM:
            self._masked_if(s, c)
        else:
            self._branching_if(s, c)
        self.mask, self.alive, self.divergent = mask, alive, divergent
        if not self.dead and leaves(s):
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
            skip = any(isinstance(n, _HEAVY) for s in body for n in ast.walk(s))
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


class _Ready(ast.expr):
    """An expression whose `value` is already there."""

    _fields = ()
