"""A text and what is known of its arguments, read into a typed tree: statements, variables, loops, inlined
calls."""

from __future__ import annotations

import ast
import functools

from ...texts import elementary_complex
from ...language import words
from ....errors import LanguageError
from ...language.frontend import walk
from ...locks import look
from ...language import types as t
from .names import Names
from .team import TeamHandle
from .tree import (
    Block,
    Call,
    If,
    Leave,
    Loop,
    Operation,
    Rejoin,
    Set,
    Tree,
    Variable,
    View,
    alike,
    arranged,
    arrangement,
    flat,
    mapped,
)
from ...language.types import UNIFORM, Known

MOST_OPERATIONS = 100_000  # and other nodes of a tree, which compile within some minutes
# costs more than a jump
_HEAVY = (
    ast.For,
    ast.While,
    ast.Call,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.Return,
    ast.Break,
    ast.Continue,
)
_NOT_STATEMENTS = {
    "With": "with",
    "Try": "try",
    "Raise": "raise",
    "Delete": "del",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "FunctionDef": "a nested function",
    "ClassDef": "a class",
    "Import": "import",
    "ImportFrom": "import",
    "Match": "match",
}
_WORDS = words.__file__, elementary_complex.__file__
_UNROLL_TRIPS, _UNROLL_TOTAL, _UNROLL_STATIC = 16, 256, 4096


class Frame:
    """One text being read: the kernel, or a function inlined at one call.

    `direct` : what names stand for that are assigned once; `variables` : the others; `homes` : blocks by
    their paths in the text `views` : for names that hold now one view, now another, a list of these `word` :
    whether it is that of a word, whose operations happen where it is called
    """

    def __init__(self, text, call, caller):
        self.text, self.call, self.caller, self.word = text, call, caller, text.file in _WORDS
        self.direct, self.variables, self.homes, self.loops = {}, {}, {(): call.body}, []
        self.results, self.result, self.views = [], None, {}


class Build(Names):
    """Reads a text into `root`, for packs of `width` lanes.

    Attributes
    ----------
    order : all nodes, as they are evaluated
    checks : what must hold when dtypes and kinds are known
    chains : numbers given to functions that are one long chain; one that differs between lanes makes the tree
        a chain
    asserts : whether assertions are part of the tree, for the checked space
    scalar : (number, reason) pairs: if the number differs between lanes, packs do not pay
    """

    def __init__(self, width, float_dtype, kernel_name, asserts=False):
        self.W, self.float_dtype, self.kernel_name, self.asserts = width, float_dtype, kernel_name, asserts
        self.order, self.checks, self.chains, self.scalar = [], [], [], []
        self.block, self.frame, self.line, self.at, self.gone, self.unused = (
            Block(),
            None,
            "",
            None,
            False,
            None,
        )
        self.unrolled, self.depth, self.private_bytes, self.exchanged = 1, 0, 0, {}

    def tree(self, text, inputs):
        tree = Tree(text, inputs, self.block)
        tree.result = self.inline(text, inputs)
        return tree

    # ---- inlining
    def inline(self, text, args, node=None):
        """What a text gives at this place: a number, a tuple of numbers, a view, or None."""
        self._refuse_recursion(text, node)
        args = [mapped(self.rounded, a) for a in args]
        call = self.put(Call(text, Block(self.block), args))
        outer = self.frame, self.block, self.depth, self.gone, self.line, self.at
        frame = self.frame = Frame(text, call, self.frame)
        self.block, self.depth, self.gone = call.body, 0, False
        for name, value in zip(text.params, args):
            if text.webs[name].direct:
                frame.direct[name] = value
            else:
                self.assign(name, value, text.tree)
        call.setup, call.body.body = call.body.body, []
        self.statements(text.tree.body)
        self.frame, self.block, self.depth, self.gone, self.line, self.at = outer
        return self._returned(frame)

    def _refuse_recursion(self, text, node):
        frame = self.frame
        while frame is not None:
            if frame.text is text:
                self.fail(
                    node, f"'{text.name}' calls itself; recursion is not supported in kernels", LanguageError
                )
            frame = frame.caller

    def _returned(self, frame):
        """What a text that was read into a frame gives to the place of its call."""
        if frame.text.single_return:
            result = mapped(self.rounded, frame.result)
        elif not frame.results:
            return None
        else:
            result = arranged(frame.result, iter([self.operation("get", attr=v) for v in frame.results]))
        frame.call.outputs, frame.call.n_results = flat(result), len(frame.results)
        return result

    def statements(self, body):
        """Statements, put at this place."""
        path = self.frame.text.blocks.get(id(body))
        if path is not None:
            self.frame.homes[path] = self.block
        self.depth += 1
        for s in body:
            if self.gone:
                break
            look(self.kernel_name)
            if len(self.order) > MOST_OPERATIONS:
                self.fail(
                    s,
                    f"with its functions and unrolled loops the text has more than {MOST_OPERATIONS:,}"
                    " operations; leave loops to run time, or launch several kernels",
                )
            if not self.frame.word:
                self.line, self.at = self.frame.text.where(s), (self.frame.text, s)
            method = getattr(self, "stmt_" + type(s).__name__, None)
            if method is None:
                self.fail(
                    s,
                    f"{_NOT_STATEMENTS.get(type(s).__name__, type(s).__name__)} is not supported in kernels",
                    LanguageError,
                )
            try:
                method(s)
            except t.TypeClash as clash:
                self.fail(s, f"`{ast.unparse(s).splitlines()[0]}`: {clash}")
        self.depth -= 1

    def within(self, block, body):
        """Read statements into a block; whether all ways through them leave."""
        outer, self.block, line = self.block, block, self.line
        self.statements(body)
        self.block, self.line, gone, self.gone = outer, line, self.gone, False
        return gone

    def _loop(self):
        return self.frame.loops[-1] if self.frame.loops else None

    def writes(self):
        """Note for all loops around this place that memory changes in them."""
        frame = self.frame
        while frame is not None:
            for loop in frame.loops:
                loop.writes = True
            frame = frame.caller

    def assign_to(self, target, value):
        if isinstance(target, ast.Name):
            self.assign(target.id, value, target)
        elif isinstance(target, (ast.Tuple, ast.List)):
            plain = isinstance(value, tuple) and not isinstance(value, t.Complex)
            if not plain or len(value) != len(target.elts):
                self.fail(
                    target,
                    f"{len(target.elts)} values are wanted for `{ast.unparse(target)}`, got"
                    f" {self.describe(value)}",
                )
            for part, v in zip(target.elts, value):
                self.assign_to(part, v)
        elif isinstance(target, ast.Subscript):
            self.store(*self.element(target), value, target)
        else:
            self.fail(target, f"`{ast.unparse(target)}` cannot be assigned in a kernel", LanguageError)

    def store(self, view, items, value, node):
        self.check_writable(view, node)
        if view.n_indices > len(items) and (isinstance(value, (t.Complex, Operation))):
            for k, part in enumerate(self.parts(value)):
                self.store(view, [*items, self.const(k)], part, node)
            return
        if not isinstance(value, Operation):
            self.fail(
                node, f"a number is wanted for an element of '{view.label}', got {self.describe(value)}"
            )
        self.writes()
        self.operation("store", *items, value, view=view, counts=f"store {view.store or view.label}")

    def element(self, target):
        view = self.view_of(self.expr(target.value), target)
        items = self.items(view, target)
        if len(items) != len(view.shape) or any(isinstance(i, tuple) for i in items):
            self.fail(
                target,
                f"'{view.label}' has {len(view.shape)} dimension(s); one element is assigned at a time",
            )
        return view, items

    # ---- statements
    def stmt_Pass(self, s):
        pass

    def stmt_Assert(self, s):
        """Only the checked space looks at assertions."""
        if self.asserts:
            message = s.msg.value if isinstance(s.msg, ast.Constant) else s.msg and ast.unparse(s.msg)
            self.operation("assert", self.condition(s.test), attr=str(message or ""))

    def stmt_Expr(self, s):
        if isinstance(s.value, ast.Constant):
            return
        if not isinstance(s.value, ast.Call):
            self.fail(s, f"`{ast.unparse(s)}` does nothing", LanguageError)
        self.unused = s.value
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
            old = self.read(s.target.id, s)
            self.assign(s.target.id, self.operated(s.op, old, self.numeric(s.value), s), s)
        else:
            view, items = self.element(s.target)
            old = self.load(view, items)
            self.store(view, items, self.operated(s.op, old, self.numeric(s.value), s), s)

    def stmt_If(self, s):
        c = self.condition(s.test)
        if c.const is not None:
            self.statements(s.body if c.const else s.orelse)
        else:
            node = self.put(If(c, Block(self.block), Block(self.block) if s.orelse else None, _heavy(s)))
            gone = self.within(node.then, s.body)
            self.gone = bool(s.orelse) and self.within(node.otherwise, s.orelse) and gone
        if not self.gone and _leaves(s):
            self.rejoin()

    def rejoin(self):
        self.put(Rejoin(self.frame.call, self._loop(), self.block))

    def stmt_Return(self, s):
        frame = self.frame
        value = None if s.value is None else self.expr(s.value)
        if isinstance(value, Known) and value.value is None:
            value = None
        self.gone = True
        if frame.text.single_return:
            frame.result = value
            return
        leave = Leave("return", frame.call, self.block, [], list(frame.loops))
        if value is not None:
            values = flat(value)
            if (
                frame.results
                and not alike(frame.result, arrangement(value))
                or not all(isinstance(v, Operation) for v in values)
            ):
                self.fail(s, "every return must give the same number of numbers")
            if not frame.results:
                frame.result = arrangement(value)
                frame.results = [Variable("the result") for _ in values]
            leave.results = [
                Set(var, v, frame.call.body, self.block, line=self.line, at=self.at)
                for var, v in zip(frame.results, values)
            ]
        self.put(leave)

    def stmt_Break(self, s):
        self._leave("break")

    def stmt_Continue(self, s):
        self._leave("continue")

    def _leave(self, how):
        self.put(Leave(how, self._loop(), self.block))
        self.gone = True

    # ---- loops
    def stmt_While(self, s):
        self._no_else(s)
        self.loop(s, Loop("while", self.frame.call))

    def stmt_For(self, s):
        self._no_else(s)
        call = s.iter
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "thread_range"
        ):
            if isinstance(self.expr(call.func.value), TeamHandle):
                self.members_loop(s, call)
                return
        if isinstance(call, ast.Call):
            callee = self.expr(call.func)
            if isinstance(callee, Known) and callee.value is range:
                self.range_loop(s, call)
                return
        n, item, static = self.sequence(call)
        if n.const is not None and (static or n.const <= _UNROLL_TRIPS):
            self.unroll(s, [lambda k=k: item(self.const(k)) for k in range(n.const)])
            return
        loop = Loop("range", self.frame.call, start=self.const(0), stop=n)
        loop.counter = Operation("counter", [loop.start], attr=loop, dtype="int")
        self.loop(s, loop, lambda: item(loop.counter))

    def sequence(self, node):
        """What a for loop runs over: its length, a function that gives the item of a number, and whether that
        must be a constant."""
        callee = self.expr(node.func) if isinstance(node, ast.Call) and not node.keywords else None
        kind = callee.value if isinstance(callee, Known) else None
        if kind is range:
            return self._range_items(node)
        if kind is enumerate and 1 <= len(node.args) <= 2:
            return self._numbered_items(node)
        if kind is zip and node.args:
            return self._zip_items(node)
        value = self.expr(node)
        if isinstance(value, View) and value.shape:
            take = self.load if len(value.shape) == 1 else self.part
            return self.extent(value.shape[0]), lambda k: take(value, [k]), False
        if isinstance(value, tuple) and not isinstance(value, t.Complex):
            return self._tuple_items(value, node)
        self.fail(
            node,
            "a for loop runs over range(...), enumerate(...), zip(...), team.thread_range(...), a view"
            f" or a tuple, not over `{ast.unparse(node)}`",
            LanguageError,
        )

    def _numbered_items(self, node):
        """What `sequence` gives for enumerate(...)."""
        first = self.number(node.args[1]) if node.args[1:] else self.const(0)
        n, item, static = self.sequence(node.args[0])
        return n, lambda k: (self.binary("+", first, k), item(k)), static

    def _zip_items(self, node):
        """What `sequence` gives for zip(...), which ends with the shortest."""
        lengths, items, static = zip(*map(self.sequence, node.args))
        n = functools.reduce(lambda n, m: self.extreme("<", n, m, False), lengths)
        return n, lambda k: tuple(item(k) for item in items), any(static)

    def _range_items(self, node):
        """What `sequence` gives for a range."""
        start, stop, step = self.bounds(node, 3)
        if not step or not isinstance(step, int):
            self.fail(node, f"`{ast.unparse(node)}`: beside others the step is a constant other than zero")
        ends = (stop, start) if step > 0 else (start, stop)
        n = self.binary(
            "//",
            self.binary("+", self.binary("-", *ends), self.const(abs(step) - 1)),
            self.const(abs(step)),
        )
        return (
            self.extreme(">", n, self.const(0), False),
            lambda k: self.binary("+", start, self.binary("*", k, self.const(step))),
            False,
        )

    def _tuple_items(self, values, node):
        """What `sequence` gives for a tuple, whose items constants alone tell."""

        def item(k):
            if k.const is None:
                self.fail(
                    node,
                    f"`{ast.unparse(node)}` is a tuple, beside which all lengths must be known at compile"
                    " time",
                )
            return values[k.const]

        return self.const(len(values)), item, True

    def _no_else(self, s):
        if s.orelse:
            self.fail(s, "else after a loop is not supported in kernels", LanguageError)

    def bounds(self, call, most):
        """start, stop and step of a range; the last as a Python number where it is known."""
        values = self.arguments(call, 1, most)
        for v, node in zip(values, call.args):
            self.wanted(
                lambda v=v: not t.is_float(v.dtype),
                call,
                "`{}`: the bounds are integers, but `{}` is a float",
                call,
                node,
            )
        if len(values) == 1:
            return self.const(0), values[0], 1
        step = values[2] if len(values) == 3 else self.const(1)
        return values[0], values[1], step if step.const is None else step.const

    def members_loop(self, s, call):
        start, stop, _ = self.bounds(call, 2)
        self.wanted(
            lambda: start.kind == stop.kind == UNIFORM,
            s,
            "the bounds of team.thread_range must be the same for all members",
        )
        loop = Loop(
            "members",
            self.frame.call,
            start=start,
            stop=stop,
            breaks=_own_exit(s, ast.Break),
            at=(self.frame.text, call),
        )
        loop.varying = self.W == 1 or loop.breaks
        loop.counter = Operation("member", attr=loop, dtype="int")
        self.loop(s, loop)

    def range_loop(self, s, call):
        start, stop, step = self.bounds(call, 3)
        if not step:
            self.fail(call, "range's step is zero")
        numbers = self._unrolled_range(s, call, start.const, stop.const, step)
        if numbers is not None:
            self.unroll(s, [self.const(k) for k in numbers])
            return
        if not _computes(s):
            self.scalar.append(
                (
                    start,
                    (
                        f"the loop of line {self.line.rpartition(':')[2]} reads other elements in "
                        "each lane and computes little, which one lane at a time does faster"
                    ),
                )
            )
        loop = Loop("range", self.frame.call, start=start, stop=stop, step=step)
        loop.counter = Operation(
            "counter", [start] if isinstance(step, int) else [start, step], attr=loop, dtype="int"
        )
        self.loop(s, loop)

    def _unrolled_range(self, s, call, *ends):
        """The numbers of a loop that is unrolled, as it has few trips or names pk.static; else None."""
        if not all(isinstance(end, int) for end in ends) or _leaves(s) or _own_exit(s):
            return None
        numbers = range(*ends)
        total = len(numbers) * self.unrolled
        few = len(numbers) <= _UNROLL_TRIPS and total <= _UNROLL_TOTAL
        return numbers if few or total <= _UNROLL_STATIC and self._names_static(call) else None

    def _names_static(self, call):
        return any(
            isinstance(n, ast.Name)
            and self.frame.text.scope.get(n.id) is words.static
            or isinstance(n, ast.Attribute)
            and n.attr == "static"
            for n in walk(call)
        )

    def loop(self, s, loop, item=None):
        """A loop that is not unrolled; `item` gives what a trip's target is, if that is not the counter."""
        loop.body = Block(self.block, split=loop.form == "members")
        loop.deciding = functools.partial(_deciding, s)
        loop.exits, loop.returns = _own_exit(s), _returns(s)
        self.put(loop)
        if loop.form == "while":
            self.frame.loops.append(loop)
            loop.test, loop.condition = self._part(lambda: self.condition(s.test))
            self.frame.loops.pop()
        else:
            self.order.append(loop.counter)
        self.order.append(loop)  # when what it depends on is known
        self._trip(s, loop, loop.body, item or loop.counter)
        if loop.returns:
            self.rejoin()

    def _trip(self, s, loop, block, item):
        frame, outer, unrolled = self.frame, self.block, self.unrolled
        frame.loops.append(loop)
        frame.homes[frame.text.blocks.get(id(s.body))] = self.block = block
        self.unrolled = 1
        if item is not None:
            self.assign_to(s.target, item() if callable(item) else item)
        self.block = outer
        self.within(block, s.body)
        self.unrolled = unrolled
        frame.loops.pop()

    def unroll(self, s, items):
        if _own_exit(s) or _returns(s):
            loop = self.put(Loop("trips", self.frame.call, trips=[], exits=True))
            for item in items:
                loop.trips.append(Block(self.block))
                self._trip(s, loop, loop.trips[-1], item)
            if _returns(s):
                self.rejoin()
            return
        self.unrolled *= max(1, len(items))
        for item in items:
            self.frame.homes[self.frame.text.blocks.get(id(s.body))] = self.block
            self.assign_to(s.target, item() if callable(item) else item)
            self.statements(s.body)
        self.unrolled //= max(1, len(items))


# ---- what a statement's own text says
def _kept(look):
    """`look`, whose answer stays with the statement: an unrolled loop asks again at each trip."""

    def known(s):
        if look.__name__ not in s.__dict__:
            s.__dict__[look.__name__] = look(s)
        return s.__dict__[look.__name__]

    return known


@_kept
def _heavy(s):
    """Whether the branches of an `if` cost more than a jump."""
    return tuple(
        any(isinstance(n, _HEAVY) for part in body for n in walk(part)) for body in (s.body, s.orelse)
    )


def _own_exit(loop, kinds=(ast.Break, ast.Continue)):
    """True if the loop's body breaks or continues this very loop."""

    def look(body):
        return any(
            isinstance(s, kinds) or isinstance(s, ast.If) and (look(s.body) or look(s.orelse)) for s in body
        )

    return look(loop.body)


@_kept
def _deciding(loop):
    """Names of variables on which a loop's next trip may depend: those in its conditions, and what these are
    made from."""
    tests = [n.test for n in walk(loop) if isinstance(n, (ast.While, ast.If))]
    names, more = set(), {n.id for test in tests for n in walk(test) if isinstance(n, ast.Name)}
    assigned = [n for n in walk(loop) if isinstance(n, (ast.Assign, ast.AugAssign))]
    while more - names:
        names |= more
        more = {
            n.id
            for a in assigned
            if names & {n.id for n in walk(a) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for n in walk(a.value)
            if isinstance(n, ast.Name)
        }
    return frozenset(names)


@_kept
def _returns(s):
    return any(isinstance(n, ast.Return) for n in walk(s))


@_kept
def _leaves(s):
    """True if lanes may leave the enclosing loop trip or function inside this statement."""
    if _returns(s):
        return True
    if isinstance(s, ast.If):
        return any(
            isinstance(q, (ast.Break, ast.Continue)) or (isinstance(q, ast.If) and _leaves(q))
            for q in s.body + s.orelse
        )
    return False


def _computes(loop):
    """True for a loop whose body does more than read and add: a call of a function, a division or a power."""
    return any(isinstance(n, (ast.Call, ast.Div, ast.Pow)) for s in loop.body for n in walk(s))
