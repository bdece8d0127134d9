"""Build a typed tree from a source and the known facts of its arguments: statements, variables, loops,
inlined calls."""

import ast
from contextlib import contextmanager

import numpy as np

from ... import registry
from ...language import words
from ....errors import LanguageError, LoweringError
from ...language.frontend import by_users_names
from ...locks import check_interrupt
from .arrays import load_element
from .calls import EXPRESSIONS
from .expressions import array_table
from .callables import constant_tuple
from .operations import Operations, building
from .statements import STATEMENTS
from .tree import (
    Block,
    Call,
    Loop,
    Operation,
    Set,
    Tree,
    Variable,
    View,
    equal_arrangements,
    arranged,
    arrangement,
    describe,
    flat,
    mapped,
    one_of,
)
from ...language.types import DTYPES, UNIFORM, Complex, Known, Record, TypeClash, complex_of, loaded_dtype

MOST_OPERATIONS = 100_000  # and other nodes of a tree; as many compile within some minutes


class Frame:
    """State of one source while it is built: the kernel, or a function inlined at one call.

    `direct` : values of the names that are assigned once; `variables` : the other names; `homes` : blocks by
    their paths in the source; `views` : for a name that holds different views, the list of these; `word` :
    whether the source is that of a word, whose operations are attributed to the place of its call
    """

    def __init__(self, text, call, caller):
        self.text, self.call, self.caller, self.word = text, call, caller, text.file in words.FILES
        self.direct, self.variables, self.homes, self.loops = {}, {}, {(): call.body}, []
        self.results, self.result, self.views = [], None, {}


class Build(Operations):
    """Builder of the tree of a source, for packs of `width` lanes.

    Attributes
    ----------
    order : all nodes, in the order of evaluation
    checks : conditions to check once dtypes and kinds are known
    chains : arguments of functions that are one long chain; one that differs between lanes makes the tree
        a chain
    asserts : whether assertions are part of the tree, for the checked space
    scalar : (number, reason) pairs: if the number differs between lanes, packs do not pay
    """

    def __init__(self, width, float_dtype, kernel_name, asserts=False):
        self.W, self.float_dtype, self.kernel_name, self.asserts = width, float_dtype, kernel_name, asserts
        self.order, self.checks, self.chains, self.scalar = [], [], [], []
        self.block, self.line, self.gone = Block(), "", False
        self.frame = self.at = self.unused = None
        self.unrolled, self.depth, self.private_bytes, self.exchanged = 1, 0, 0, {}
        self.given = {}  # syntax node -> value of an expression that is already built

    def tree(self, text, inputs):
        tree = Tree(text, inputs, self.block)
        tree.result = self.inline(text, inputs)
        return tree

    def inline(self, text, args, node=None):
        """Inline a source at this place and return its result: a number, a tuple of numbers, a view, or
        None."""
        if text.inlined is not None:
            return text.inlined(self, args, node)
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
        with building(self):
            self.statements(text.tree.body)
        self.frame, self.block, self.depth, self.gone, self.line, self.at = outer
        return self._returned(frame)

    def _refuse_recursion(self, text, node):
        frame = self.frame
        while frame is not None:
            if frame.text is text:
                self.refuse(
                    node,
                    f"'{text.name}' calls itself; recursion is not supported in kernels: write a loop, which"
                    " may keep a stack in a pk.local",
                )
            frame = frame.caller

    def _returned(self, frame):
        """Return the result of a source that was built into a frame, at the place of its call."""
        text = frame.text
        if frame.caller and frame.results and not text.always_returns:
            self.fail(text.tree, f"'{text.name}' returns nothing on some paths", LanguageError, text)
        if text.single_return:
            result = mapped(self.rounded, frame.result)
        elif not frame.results:
            return None
        else:
            result = arranged(frame.result, iter([self.operation("get", attr=v) for v in frame.results]))
        frame.call.outputs, frame.call.n_results = flat(result), len(frame.results)
        return result

    def statements(self, body):
        """Build statements at this place."""
        path = self.frame.text.blocks.get(id(body))
        if path is not None:
            self.frame.homes[path] = self.block
        self.depth += 1
        for s in body:
            if self.gone:
                break
            check_interrupt(self.kernel_name)
            if len(self.order) > MOST_OPERATIONS:
                self.fail(
                    s,
                    f"with its functions and unrolled loops the text has more than {MOST_OPERATIONS:,}"
                    " operations; launch several kernels",
                )
            if not self.frame.word:
                self.line, self.at = self.frame.text.place_of(s), (self.frame.text, s)
            put = STATEMENTS.get(s.__class__) or self._unsupported(s)
            try:
                put(s)
            except TypeClash as clash:
                self.fail(s, f"`{ast.unparse(s).splitlines()[0]}`: {clash}")
        self.depth -= 1

    @contextmanager
    def inside(self, block, loop=None):
        """Build into a block, of a loop if one is given."""
        outer, self.block = self.block, block
        if loop:
            self.frame.loops.append(loop)
        yield block
        if loop:
            self.frame.loops.pop()
        self.block = outer

    def build_block(self, block, body):
        """Build statements into a block; return True if all paths through them leave."""
        line = self.line
        with self.inside(block):
            self.statements(body)
        self.line, gone, self.gone = line, self.gone, False
        return gone

    @contextmanager
    def repeated(self, loop):
        """Build the body of a loop whose bounds or test are known."""
        loop.deciding, loop.body = frozenset, Block(self.block)
        self.put(loop)
        with self.inside(loop.body, loop):
            yield

    @contextmanager
    def counted_loop(self, start, stop, step=1):
        """Build the body of a loop over numbers; the context is the counter."""
        loop = Loop("range", self.frame.call, start=start, stop=stop, step=step)
        loop.counter = Operation("counter", [start], attr=loop, dtype="int")
        self.order.append(loop.counter)
        with self.repeated(loop):
            yield loop.counter

    def loop_here(self):
        return self.frame.loops[-1] if self.frame.loops else None

    def writes(self):
        """Record, for all loops around this place, that memory changes in them."""
        frame = self.frame
        while frame is not None:
            for loop in frame.loops:
                loop.writes = True
            frame = frame.caller

    def fail(self, node, message, kind=LoweringError, text=None):
        text, node = (text, node) if text else self.at if self.frame.word else (self.frame.text, node)
        message = by_users_names(message)
        raise kind(f"kernel '{self.kernel_name}' ({text.place_of(node)}): {message}")

    def refuse(self, node, message):
        """Raise LanguageError at a node with syntax outside the kernel language."""
        self.fail(node, message, LanguageError)

    def _unsupported(self, node, text=""):
        what, remedy = registry.part("remedies").of_syntax(type(node).__name__)
        self.refuse(node, f"{what} is not supported in kernels{text}{remedy}")

    def check_when_typed(self, holds, node, message, *parts):
        """Record a condition that must hold once dtypes and kinds are known; `parts` are syntax nodes that
        appear in the message of the error."""
        self.checks.append((holds, node, message, parts, self.frame.text))

    def expr(self, node):
        if node in self.given:
            return self.given[node]
        outer = self.at
        if not self.frame.word:
            self.at = self.frame.text, node
        reader = EXPRESSIONS.get(node.__class__) or self._unsupported(node, f": `{ast.unparse(node)}`")
        try:
            result = reader(node)
        except TypeClash as clash:
            self.fail(node, f"`{ast.unparse(node)}`: {clash}")
        self.at = outer
        return result

    def number(self, node, what="a number"):
        """Return the value of an expression; raise LoweringError unless it is a real number."""
        return self.number_of(self.expr(node), node, what)

    def numeric(self, node):
        """Return the value of an expression; raise LoweringError unless it is a real or complex number."""
        return self.checked_number(self.expr(node), node)

    def checked_number(self, v, node):
        return v if isinstance(v, Complex) else self.number_of(v, node)

    def number_of(self, v, node, what="a number"):
        if isinstance(v, View) and not v.shape:
            return load_element(v, [])
        if not isinstance(v, Operation):
            hint = ", such as an element" * isinstance(v, View)
            self.fail(node, f"`{ast.unparse(node)}` is {describe(v)}; expected {what} here{hint}")
        return v

    def condition(self, node):
        return self.truth(self.number(node, "a condition"))

    def parts(self, v):
        """Return the real and imaginary part of a real or complex number."""
        return v if isinstance(v, Complex) else (v, self.const(0.0))

    def arguments(self, node, least, most=None, read=None):
        most = least if most is None else most
        if not least <= len(node.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.fail(
                node,
                f"`{ast.unparse(node.func)}` takes {wanted} argument(s), but {len(node.args)} were given",
            )
        return [(read or self.number)(a) for a in node.args]

    def python_value(self, value, node):
        """Return the value of a Python object at compile time: a constant for a number, else the object
        itself."""
        if isinstance(value, words.static):
            value = value.value
        if isinstance(value, (bool, int, float)):
            return self.const(value)
        if isinstance(value, (complex, np.complexfloating)):
            return complex_of(self.python_value(v, node) for v in (value.real, value.imag))
        if isinstance(value, np.generic) and loaded_dtype(value.dtype.name) in DTYPES:
            return self.strong_const(value.item(), loaded_dtype(value.dtype.name))
        if hasattr(value, "numbered") or isinstance(value, tuple) and constant_tuple(value):
            own = hasattr(value, "numbered")
            names, parts = value.numbered() if own else (getattr(value, "_fields", ()), value)
            return Record((self.python_value(v, node) for v in parts), names)
        return array_table(value, node) if isinstance(value, np.ndarray) else Known(value)

    def read(self, name, node):
        if name in self.frame.direct:
            return self.frame.direct[name]
        if name not in self.frame.variables:  # a later iteration of a loop may assign it
            made = self.frame.variables[name] = Variable(name)
            message = f"'{name.partition('@')[0]}' is used before it is assigned"
            self.check_when_typed(lambda: made.dtype is not None, node, message)
        value = mapped(lambda variable: self.operation("get", attr=variable), self.frame.variables[name])
        options = self.frame.views.get(name)
        if options is None:
            return value
        plain = name.partition("@")[0]
        self.check_when_typed(
            lambda: value.kind == UNIFORM,
            node,
            f"'{plain}' is one of several views here, which must be the same for all indices",
        )
        return self.put(one_of(plain, [value], options))

    def assign(self, name, value, node):
        frame = self.frame
        web = frame.text.webs[name]
        if web.direct:
            frame.direct[name] = value
            if value.__class__ is View:
                value.name = value.name or name.partition("@")[0]
            return
        if value.__class__ is View:
            value = self.place_of(name, value, node)
        elif not all(isinstance(v, Operation) for v in flat(value)) or name in frame.views:
            self.fail(
                node,
                f"'{name.partition('@')[0]}' holds {describe(value)} here and is assigned elsewhere too;"
                " give it a name of its own",
            )
        home = frame.homes.get(web.block, Block())
        variables = frame.variables.setdefault(name, mapped(lambda _: Variable(name), value))
        if not equal_arrangements(arrangement(variables), arrangement(value)):
            self.fail(
                node,
                f"'{name.partition('@')[0]}' holds {describe(value)} here and something else elsewhere;"
                " a name that is assigned again holds as many numbers (a complex sum begins with 0j)",
            )
        self.set(variables, value, home, (frame.text, node))

    def set(self, variables, values, home, at=None):
        """Assign numbers to the variables of a home, in the same arrangement."""
        for variable, v in zip(flat(variables), flat(values)):
            self.put(Set(variable, v, home, self.block, self.loop_here(), at=at or self.at))

    def place_of(self, name, view, node):
        """Return the number of a view in the list of views that a name may denote."""
        options = view.options or self.exchanged.setdefault((view.dtype, view.ndim, view.readonly), [])
        if (
            not view.options
            and (view.base or view.scatter or view.lanes_last)
            or self.frame.views.setdefault(name, options) is not options
        ):
            self.fail(
                node,
                f"'{name.partition('@')[0]}' holds {describe(view)} here and something else elsewhere; a"
                " name may hold one of several arguments or scratch arrays of one dtype and rank; change"
                " elements by `name[:] += ...`",
            )
        if view.options:
            return view.items[0]
        if view not in options:
            options.append(view)
        return self.const(options.index(view))
