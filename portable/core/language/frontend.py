"""Parse a kernel's source into a syntax tree in which every name denotes one variable.

This module is pure Python and contains no compiler. It adds to the result of Python's own parser:

    webs        a name that is reused for unrelated values (`j` in two loops) becomes several variables, one
                for each connected set of definitions and uses, so that each has one type
    homes       for each variable the block in which its lifetime begins: an assignment there need not be
                blended with an older value
    scope       the values of globals and closure cells when the kernel was parsed
"""

import ast
import builtins
import inspect
import linecache
import os
import re
import sys
import textwrap
import time
import types
import weakref
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .. import locks, registry
from ..depth import deep_sources
from ...errors import LanguageError, SourceError

BEGAN = time.time()  # later changes of the layer's files do not reach this process


@dataclass(slots=True)
class Web:
    """One variable of a kernel."""

    name: str
    n_defs: int = 0
    # path of block numbers from the function's body to the block that holds every occurrence
    block: tuple = ()
    begins_here: bool = False  # the first occurrence is an unconditional definition at the top of that block

    @property
    def direct(self):
        """True if the variable is defined once, before and around all its uses: its value can then replace
        it."""
        return self.n_defs == 1 and self.begins_here


@dataclass(slots=True, eq=False)
class Text:
    """Parsed source of a kernel or function."""

    name: str
    file: str
    line: int
    tree: ast.FunctionDef
    params: list
    scope: dict
    defaults: tuple = ()  # of the last parameters
    webs: dict = field(default_factory=dict)
    blocks: dict = field(default_factory=dict)  # id of a statement list -> its path
    trees: dict = field(default_factory=dict)  # typed trees, by the known facts of the arguments
    nodes: list = field(init=False)  # of the tree
    single_return: bool = False
    always_returns: bool = False
    inlined: object = None  # (build, arguments, node) -> result, in place of `Build.inline`

    def __post_init__(self):
        self.nodes = walk(self.tree)

    @property
    def returns_something(self):
        """The first return statement with a value; None if there is none."""
        returns = (n for n in self.nodes if isinstance(n, ast.Return) and n.value)
        return next((n for n in returns if getattr(n.value, "value", n) is not None), None)

    @property
    def is_own(self):
        """Return True for a source of the layer's own functions."""
        return self.file.startswith(_FOLDERS)

    def place_of(self, node=None):
        """Return 'file:line' of a node; without one, of the kernel's def line."""
        offset = getattr(node, "lineno", self.tree.lineno) - self.tree.lineno
        return f"{self.file}:{self.line + offset}"


def walk(node):
    """Return a node and all its descendants, in the order of ast.walk, in half of its time."""
    found = [node]
    for n in found:
        for name in n._fields:
            part = getattr(n, name, None)
            if part.__class__ is list:
                found += [p for p in part if isinstance(p, ast.AST)]
            elif isinstance(part, ast.AST):
                found.append(part)
    return found


def check_function(fn, kind):
    """Raise LanguageError unless `fn` is a plain function written with def; return its place in the source as
    a phrase for messages."""
    if not inspect.isfunction(fn):
        raise LanguageError(
            f"@{kind}: expected a plain Python function made by def, got {fn!r} of type {type(fn).__name__}"
        )
    place = f"{kind} '{fn.__name__}' ({fn.__code__.co_filename}:{fn.__code__.co_firstlineno})"
    if fn.__name__ == "<lambda>":
        raise LanguageError(f"{place}: a lambda cannot be a {kind}; write it with def")
    if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise LanguageError(f"{place}: generators and coroutines cannot be a {kind}")
    return place


# by references to functions, which C code drops as in locks.py: lines of their files
_files = {}


def keep(fn, lines=None):
    """Store the current lines of a function's file, since an editor may change the file before they are
    parsed."""
    if lines is None:
        linecache.checkcache(fn.__code__.co_filename)
        lines = linecache.getlines(fn.__code__.co_filename, fn.__globals__)
        given, command = sys.orig_argv, (fn.__module__, fn.__code__.co_filename) == ("__main__", "<string>")
        if not lines and command and "-c" in given:  # python -c
            lines = given[given.index("-c") + 1].splitlines(keepends=True)
    _files[weakref.ref(fn, _files.pop)] = lines


def kept_lines(fn):
    """Return the lines of a function's file that `keep` stored; an empty list if the file had none, None if
    `keep` was not called."""
    return _files.get(weakref.ref(fn))


def lines_of(fn):
    """Return the source lines of a function and the number of the first one; raise OSError if there are
    none."""
    first = fn.__code__.co_firstlineno
    lines = kept_lines(fn)
    return (inspect.getblock(lines[first - 1 :]), first) if lines else inspect.getsourcelines(fn)


def read(fn, kind="kernel"):
    """Return the Text of a plain Python function; raise SourceError without a source, LanguageError for
    syntax that kernels lack."""
    place = _check_length(fn, kind)
    with deep_sources(place):
        return _read(fn, kind, place)


def _no_source(fn, kind, place, error):
    """Return the error for a function without a source."""
    remedy = registry.part("remedies").of_source(fn.__code__.co_filename).format(kind)
    return SourceError(
        f"{place}: its source cannot be read ({error}). Kernels are compiled from their source: {remedy}"
    )


def _read(fn, kind, place):
    try:
        lines, first = lines_of(fn)
    except (OSError, TypeError) as error:
        raise _no_source(fn, kind, place, error) from error
    source = textwrap.dedent("".join(lines))
    try:
        tree, *_ = ast.parse(source).body or [None]
    except SyntaxError as error:
        raise SourceError(f"{place}: its source cannot be parsed on its own ({error.msg})") from error
    if not isinstance(tree, ast.FunctionDef) or tree.name != fn.__code__.co_name:
        raise SourceError(
            f"{place}: the function is no longer at this line; the file was edited after its import"
        )
    first += tree.lineno - 1  # the def line, below its decorators
    text = Text(fn.__name__, fn.__code__.co_filename, first, tree, [], scope_of(fn), fn.__defaults__ or ())
    _check_signature(text, kind)
    text.params = [a.arg for a in tree.args.args]
    _Webs(text, kind == "kernel" or text.returns_something is None).run()
    text.always_returns = _always_returns(tree.body)
    returns = [n for n in text.nodes if isinstance(n, ast.Return)]
    text.single_return = returns in ([], tree.body[-1:])  # none, or one at the end
    return text


def _check_length(fn, kind):
    """Return a function's place; raise SourceError if its source is far too long."""
    place = check_function(fn, kind)
    last = max(line or 0 for *_, line in fn.__code__.co_lines())
    if (n_lines := last + 1 - fn.__code__.co_firstlineno) > MOST_LINES:
        raise SourceError(f"{place}: its source has {n_lines:,} lines; at most {MOST_LINES:,} are compiled")
    return place


def _always_returns(body):
    """Return True if no path runs past the end of these statements."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _always_returns(last.body) and _always_returns(last.orelse)
    if isinstance(last, ast.While) and isinstance(last.test, ast.Constant) and last.test.value:
        return not any(isinstance(n, ast.Break) for n in walk(last))
    return isinstance(last, ast.Return)


OWN = "portable.core.", "portable.library.", "portable.random"  # modules of the layer's own kernels


def is_own(fn):
    """Return True for an object that is defined in a module of the layer's own kernels."""
    return (getattr(fn, "__module__", None) or "").startswith(OWN)


# folders of these modules
_FOLDERS = tuple(f"{__file__.rpartition('core')[0]}{room}" for room in ("core", "library"))
_ADDING = {"atomic_add", "atomic_sub"}
MOST_LINES = 20_000  # of one source; as many compile within about a minute
MOST_TABLE = 1 << 16  # bytes of an array from outside that a kernel may hold
_scopes = {}  # as _files


def scope_of(fn):
    """Return the values, at the first call, of the outside names that a function uses, on any space."""
    key = weakref.ref(fn, _scopes.pop)
    if key not in _scopes:
        _scopes[key] = _scope(fn)
    return _scopes[key]


def has_loops(text, given):
    """Return True if a source, or a user's function that it mentions or is `given`, has a loop."""
    loops = ast.For, ast.While, ast.Slice, ast.MatMult
    return any(text is None or any(isinstance(n, loops) for n in text.nodes) for text in reached(text, given))


def writes(text):
    """Return True if a source, or a user's function that it mentions, may change memory."""
    return any(
        found is None or any(_changes(node, text.params) for node in found.nodes) for found in reached(text)
    )


def _changes(node, params):
    """Return True if a node stores to an element, names an atomic, is a call whose result is unused, or calls
    a parameter."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    effect = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) or "atomic_" in name
    return stored or effect or isinstance(node, ast.Call) and getattr(node.func, "id", None) in params


def only_added(kernel):
    """Return the parameters that a kernel only adds to: it changes their elements by atomics, ignores the old
    values, and uses the parameters nowhere else."""
    if not _ADDING & {*kernel.fn.__code__.co_names}:
        return frozenset()
    text, added, named = kernel.portable_text, [], []
    for node in text.nodes:
        if isinstance(node, ast.Name):
            named.append(node.id)
        call = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and len(call.args) == 3 and isinstance(call.args[0], ast.Name):
            word = denoted_object(call.func, text.scope)
            if getattr(word, "__name__", "") in _ADDING and is_own(word):
                added.append(call.args[0].id)
    return frozenset(name for name in added if added.count(name) == named.count(name))


def reached(text, given=()):
    """Yield a source and the sources of the user's functions that it mentions or is `given`; None for a
    function that numba compiles, which may do anything."""
    found = [text]
    for text in found:
        yield text
        for fn in (*given, *(denoted_object(node, text.scope) for node in text.nodes)):
            if hasattr(fn, "py_func"):
                yield None
            elif hasattr(fn, "portable_text") and not is_own(fn):
                if fn.portable_text not in found:
                    found.append(fn.portable_text)


def denoted_object(node, scope):
    """Return the object that a name, or an attribute of one, denotes in a scope; None if it is not defined
    there."""
    if isinstance(node, ast.Attribute):
        return getattr(denoted_object(node.value, scope), node.attr, None)
    return scope.get(node.id) if isinstance(node, ast.Name) else None


def _scope(fn):
    cells = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # the enclosing function has not assigned this name yet
            continue
    outside = {**vars(builtins), **fn.__globals__, **cells}
    found = {
        name: outside[name]
        for code in codes(fn.__code__)
        for name in (*code.co_names, *code.co_freevars)
        if name in outside
    }
    return {
        name: v.copy() if isinstance(v, np.ndarray) and v.nbytes <= MOST_TABLE else v
        for name, v in found.items()
    }


def codes(code):
    """Yield a code object and the code objects nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def _check_signature(text, kind):
    a = text.tree.args
    if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs:
        raise LanguageError(
            f"{kind} '{text.name}' ({text.place_of()}): expected plain positional parameters, "
            "without *args or **kwargs"
        )
    if kind == "kernel" and a.args and a.args[0].arg in ("self", "cls"):
        raise LanguageError(
            f"kernel '{text.name}' ({text.place_of()}): its first parameter is the index, so a kernel cannot"
            " be a method; write @staticmethod above @pk.kernel and pass attributes"
        )
    if kind == "kernel" and not a.args:
        raise LanguageError(
            f"kernel '{text.name}' ({text.place_of()}): its first parameter is the index or the team, "
            "but it has no parameters"
        )


class _Occurrence(NamedTuple):
    """Occurrence of a name in a source: its node, the number of its definition, whether it is a definition,
    and its block's path."""

    node: ast.AST
    number: int
    defines: bool
    path: tuple
    name: str


class _Webs:
    """Analysis of reaching definitions over a syntax tree; definitions that reach a common use are one
    variable."""

    def __init__(self, text, gives_nothing):
        self.text, self.parent, self.reads, self.loads = text, [], {}, {}
        self.gives_nothing = gives_nothing  # the source returns no value
        self.params = {a.arg for a in text.tree.args.args}
        self.local = set(self.params)
        for node in text.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.local.add(node.id)
        self.path, self.n_blocks, self.loops = (), 0, []
        self.unset = {}  # id -> name that no definition reaches so far: a loop's body is analysed twice
        self.known = {}  # id of a loop -> (state before it, state after it) pairs
        self.assigned = {}  # id of a parameter's name as a target -> (statement, ids of the names it reads)

    def run(self):
        self.nodes = {}  # id of a Name node -> _Occurrence, in source order
        state = {}
        for arg in self.text.tree.args.args:
            state[arg.arg] = frozenset([self.define(arg, arg.arg)])
        self.block(self.text.tree.body, state)
        for node in self.unset.values():
            raise LanguageError(
                f"kernel '{self.text.name}' ({self.text.place_of(node)}): '{node.id}' is used before it is"
                " assigned"
            )
        self.finish()

    # union-find over definitions
    def new(self):
        self.parent.append(len(self.parent))
        return len(self.parent) - 1

    def find(self, d):
        while self.parent[d] != d:
            d = self.parent[d]
        return d

    def define(self, node, name):
        found = self.nodes.get(id(node))
        if found is None:
            found = self.nodes[id(node)] = _Occurrence(node, self.new(), True, self.path, name)
        return found.number

    def use(self, node, state):
        reaching = state.get(node.id)
        if not reaching:
            if node.id in self.local:
                self.unset[id(node)] = node
            return
        self.unset.pop(id(node), None)
        first, *rest = (self.find(d) for d in reaching)
        for other in rest:
            self.parent[other] = first
        if id(node) not in self.nodes:
            self.nodes[id(node)] = _Occurrence(node, first, False, self.path, node.id)

    def assigns(self, s, target, *read):
        """Record a statement that assigns to a parameter; `read`: names that it reads besides those of its
        value."""
        if isinstance(target, ast.Name) and target.id in self.params:
            self.assigned[id(target)] = s, {*map(id, read), *map(id, self.reads.get(id(s.value), ()))}

    def _look_for_lost(self, found):
        """Raise LanguageError if a parameter is assigned and only those assignments read its new value."""
        stores = [self.assigned[id(o.node)] for o in found if id(o.node) in self.assigned]
        own = set().union(*(read for _, read in stores))
        if self.gives_nothing and stores and all(o.defines or id(o.node) in own for o in found):
            s, name = stores[0][0], found[0].name
            said = by_users_names(ast.unparse(s))
            raise LanguageError(
                f"kernel '{self.text.name}' ({self.text.place_of(s)}): `{said}` assigns '{name}' for this"
                " index only, and nothing reads it. For a sum over indices return the value and"
                f" launch with pk.parallel_reduce; else write to an element, {name}[...]"
            )

    # Statements: `state` maps a name to the definitions that reach this place; it is None after an exit.
    def block(self, body, state):
        if id(body) not in self.text.blocks:
            self.text.blocks[id(body)] = self.path
        for s in body:
            if state is None:
                break
            locks.check_interrupt(self.text.name)
            state = self.statement(s, state)
        return state

    def nested(self, body, state):
        """Return the state after a nested block: a loop's body or a branch."""
        if id(body) in self.text.blocks:
            path = self.text.blocks[id(body)]
        else:
            path = self.path + (self.n_blocks,)
            self.n_blocks += 1
        outer, self.path = self.path, path
        state = self.block(body, state)
        self.path = outer
        return state

    def expression(self, node, state):
        if node is None:
            return
        if id(node) not in self.reads:  # a loop's body is analysed twice
            self.reads[id(node)] = self.read(node)
        for name in self.reads[id(node)]:
            self.use(name, state)

    def read(self, node):
        """Return the Name nodes that an expression reads; raise LanguageError for syntax that kernels
        lack."""
        found = walk(node)
        for child in found:
            if type(child).__name__ in _WITH_NAMES:
                what, remedy = registry.part("remedies").of_syntax(type(child).__name__)
                raise LanguageError(
                    f"kernel '{self.text.name}' ({self.text.place_of(child)}): {what} is not supported in"
                    f" kernels: `{ast.unparse(child)}`{remedy}"
                )
        return [n for n in found if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]

    def targets(self, target, state):
        if isinstance(target, ast.Name):
            state[target.id] = frozenset([self.define(target, target.id)])
        elif isinstance(target, (ast.Tuple, ast.List)):
            for t in target.elts:
                self.targets(t, state)
        elif isinstance(target, ast.Starred):
            raise LanguageError(
                f"kernel '{self.text.name}' ({self.text.place_of(target)}): `{ast.unparse(target)}` is not"
                " supported in kernels; take a part of the tuple, t[1:]"
            )
        elif isinstance(target, ast.Subscript):
            self.expression(target, state)

    def statement(self, s, state):
        return _STATEMENTS.get(s.__class__, _Webs.plain_statement)(self, s, state)

    def plain_statement(self, s, state):
        """Return the state after a statement that neither assigns nor exits."""
        for child in ast.iter_child_nodes(s):
            if isinstance(child, ast.expr):
                self.expression(child, state)
        return state

    def assign(self, s, state):
        self.expression(s.value, state)
        for t in s.targets:
            self.targets(t, state)
            self.assigns(s, t)
        return state

    def annotate(self, s, state):
        self.expression(s.value, state)
        if s.value is not None:
            self.targets(s.target, state)
            self.assigns(s, s.target)
        return state

    def augment(self, s, state):
        self.expression(s.value, state)
        if not isinstance(s.target, ast.Name):
            self.expression(s.target, state)
            return state
        # An augmented assignment reads and writes the same variable.
        load = self.loads.setdefault(id(s), ast.copy_location(ast.Name(s.target.id, ast.Load()), s))
        self.use(load, state)
        d = self.define(s.target, s.target.id)
        self.parent[self.find(d)] = self.find(self.nodes[id(load)].number)
        state[s.target.id] = frozenset([d])
        self.assigns(s, s.target, load)
        return state

    def branch(self, s, state):
        self.expression(s.test, state)
        return _merge(self.nested(s.body, dict(state)), self.nested(s.orelse, dict(state)))

    def loop(self, s, state):
        """Return the state after a loop. Results are cached by the state before the loop, since each
        enclosing loop would otherwise double the number of passes over its source."""
        known = self.known.setdefault(id(s), [])
        for reached, behind in known:
            if reached == state:
                return dict(behind)
        known.append((dict(state), self._loop(s, state)))
        return dict(known[-1][1])

    def _loop(self, s, state):
        if isinstance(s, ast.For):
            self.expression(s.iter, state)
        entry = state
        for _ in range(2):  # definitions at the end of the first iteration reach the second
            self.loops.append(([], []))
            if isinstance(s, ast.While):
                self.expression(s.test, entry)
            inside = dict(entry)
            if isinstance(s, ast.For):
                self.body_target(s, inside)
            end = self.nested(s.body, inside)
            breaks, continues = self.loops.pop()
            for c in continues:
                end = _merge(end, c)
            entry = _merge(entry, end)
        after = dict(entry)
        for b in breaks:
            after = _merge(after, b)
        return after

    def body_target(self, s, state):
        """Define the target of a for loop at the top of its body."""
        path = self.text.blocks.get(id(s.body)) or self.path + (self.n_blocks,)
        outer, self.path = self.path, path
        self.targets(s.target, state)
        self.path = outer

    # Definitions become variables, with names and homes.
    def finish(self):
        groups = {}
        for occurrence in self.nodes.values():
            groups.setdefault(self.find(occurrence.number), []).append(occurrence)
        taken = {}
        for found in groups.values():
            self._look_for_lost(found)
            first = found[0]
            unique = base = first.name
            taken[base] = count = taken.get(base, 0) + 1
            if count > 1:
                unique = f"{base}@{count}"
            web = Web(unique, sum(o.defines for o in found))
            web.block = os.path.commonprefix([o.path for o in found])
            web.begins_here = first.defines and first.path == web.block
            if not web.begins_here:
                web.block = ()
            self.text.webs[unique] = web
            for o in found:
                setattr(o.node, "id" if isinstance(o.node, ast.Name) else "arg", unique)


# expressions with variables of their own
_WITH_NAMES = "ListComp SetComp DictComp GeneratorExp Lambda NamedExpr".split()
_STATEMENTS = {
    ast.Assign: _Webs.assign,
    ast.AnnAssign: _Webs.annotate,
    ast.AugAssign: _Webs.augment,
    ast.If: _Webs.branch,
    ast.Break: lambda webs, s, state: webs.loops[-1][0].append(state),
    ast.Continue: lambda webs, s, state: webs.loops[-1][1].append(state),
    ast.Return: lambda webs, s, state: webs.expression(s.value, state),
    ast.While: _Webs.loop,
    ast.For: _Webs.loop,
}


def _merge(a, b):
    if a is None or b is None:
        return b if a is None else a
    return {name: a.get(name, frozenset()) | b.get(name, frozenset()) for name in a.keys() | b.keys()}


def by_users_names(message):
    """Return a message without the marks that distinguish the variables of one name."""
    return re.sub(r"(?<=\w)@\d+", "", message)
