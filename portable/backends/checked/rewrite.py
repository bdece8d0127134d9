"""A kernel's text as Python that notes what it does: each access, each operator and each return becomes a call.

    x[i] += a        becomes        _store(x, i, _Add(_load(x, i, 7), a), 8)

Lines stay where they are, so that tracebacks and findings name the user's own. Functions that a kernel calls are
rewritten with it; the layer's words that see no views (random numbers, reducers) run as they stand.
"""

from __future__ import annotations

import ast
import functools
import math
import textwrap
import types
from typing import NamedTuple

import numpy as np

from ... import words
from ...frontend import lines_of, scope_of
from ...kernel import Function
from ...reducer import Reducer
from . import access, arithmetic
from .plain import MEANING, Module, meaning_of, rebind

# The words that want to know where they stand, and what they are called in rewritten text.
CONVERSIONS = {np.int32: ("int32", None), np.int64: ("int64", None), np.uint32: ("uint32", None), np.uint64: ("uint64", None),
               int: ("int", None), math.floor: ("int", np.floor), math.ceil: ("int", np.ceil), math.trunc: ("int", None)}
WORDS = {word: f"_{word.__name__}" for word in (*CONVERSIONS, range)} | {
    getattr(words, name): f"_{name}" for name in dir(words) if name.startswith("atomic_") or name == "local"}
_AS_THEY_STAND = {f"portable.{name}" for name in ("elementary", "math", "random", "reducer", "words")}  # no views, no overflow
_WITNESSES = {"Subscript": "_element", "IfExp": "_first", "And": "_first", "Or": "_first"}
WATCHED = "__watched__"  # a global of rewritten functions only


class Site(NamedTuple):
    """A place in a kernel's text."""

    function: str
    file: str
    line: int


SITES = []  # by number, for the life of the process


def _site(function, node):
    SITES.append(Site(function.__name__, function.__code__.co_filename, node.lineno))
    return ast.Constant(len(SITES) - 1)


@functools.cache
def site_of(code, line):
    """The number of a site for what the layer itself does for a kernel in a line."""
    SITES.append(Site(code.co_name, code.co_filename, line))
    return len(SITES) - 1


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function, single):
        self.function, self.single, self.n_names = function, single, 0
        self.names = scope_of(function) | dict.fromkeys(function.__code__.co_varnames)

    def visit(self, node):
        """Whatever a visit makes stands where the old node stood."""
        return _placed(super().visit(node), node)

    def fresh(self):
        self.n_names += 1
        return f"_value{self.n_names}"

    def call(self, name, *args):
        return ast.Call(ast.Name(name, ast.Load()), list(args), [])

    def index(self, node):
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
            return self.call("_slice", *parts)
        if isinstance(node, ast.Tuple):
            return ast.Tuple([self.index(e) for e in node.elts], ast.Load())
        return self.visit(node)

    def visit_Subscript(self, node):
        site = _site(self.function, node)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return self.generic_visit(node)
        return self.call("_load", self.visit(node.value), self.index(node.slice), site)

    def visit_BinOp(self, node):
        left, right = self.visit(node.left), self.visit(node.right)
        name = type(node.op).__name__
        literal = any(isinstance(s, ast.Constant) and isinstance(s.value, float) for s in (left, right))
        if literal and not self.single and name in ("Add", "Sub", "Mult") or name not in arithmetic.NAMES:
            return ast.BinOp(left, node.op, right)
        return self.call(f"_{name}", left, right)

    def visit_Call(self, node):
        word = WORDS.get(self.outside(node.func)) if isinstance(node.func, (ast.Name, ast.Attribute)) else None
        site = word and _site(self.function, node)
        node = self.generic_visit(node)
        return ast.Call(ast.Name(word, ast.Load()), [site, *node.args], node.keywords) if word else node

    def outside(self, node):
        """The function of this name, or attribute of a module or namespace, outside the kernel; None for anything else."""
        if isinstance(node, ast.Attribute):
            module = self.outside(node.value)
            value = getattr(module, node.attr, None) if _holds_functions(module) else None
        else:
            value = self.names.get(node.id) if isinstance(node, ast.Name) else None
        known = isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)) or _holds_functions(value)
        return value if known else None

    def visit_UnaryOp(self, node):
        name = type(node.op).__name__
        if name not in arithmetic.UNARY or isinstance(node.operand, ast.Constant):
            return self.generic_visit(node)
        return self.call(f"_{name}", self.visit(node.operand))

    def visit_Compare(self, node):
        """A comparison of two, of which none is a literal: that would not compile if the other's type did not hold it."""
        name, parts = type(node.ops[0]).__name__, (node.left, *node.comparators)
        literal = any(isinstance(part, ast.Constant) for part in parts)
        if literal or len(parts) > 2 or name not in arithmetic.COMPARED:
            return self.generic_visit(node)
        return self.call(f"_{name}", *map(self.visit, parts))

    def visit_IfExp(self, node):
        a, b = self.witness(node.body), self.witness(node.orelse)
        return ast.IfExp(self.visit(node.test), self.chosen(self.visit(node.body), a, b), self.chosen(self.visit(node.orelse), b, a))

    def visit_BoolOp(self, node):
        *before, last = node.values
        first = ast.BoolOp(node.op, before) if len(before) > 1 else before[0]
        a, b, name = self.witness(first), self.witness(last), self.fresh()
        test = ast.NamedExpr(ast.Name(name, ast.Store()), self.visit(first))
        sides = self.chosen(self.visit(last), b, a), self.chosen(ast.Name(name, ast.Load()), a, b)
        return ast.IfExp(test, *(sides if isinstance(node.op, ast.And) else sides[::-1]))

    def chosen(self, value, own, other):
        """A value in the type that it has in common with the side that is not evaluated; both are known by their witnesses."""
        return value if own == other or "?" in other else self.call("_chosen", value, ast.parse(f"lambda: {other}", "", "eval").body)

    def witness(self, node):
        """The text of an expression of the type that `node` has, without its effects; with ? where a function's result decides."""
        kind = type(getattr(node, "op", node)).__name__
        if kind in ("Compare", "Not"):
            return "True"
        if kind in ("Constant", "Name", "Attribute"):
            return f"_one({ast.unparse(node)})"
        parts = [self.witness(part) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        name = _WITNESSES.get(kind, f"_{kind}")
        if kind == "Call":
            word = self.outside(node.func)
            if word in CONVERSIONS:
                return f"{WORDS[word]}(0, 1)"
            name = "_element" if word in access.ATOMICS else ast.unparse(node.func) if word in MEANING else "?"
        return f"{name}({', '.join(parts[kind in ('Call', 'IfExp'):])})"

    def visit_Return(self, node):
        node = self.generic_visit(node)
        return [ast.Expr(self.call("_leave", ast.Constant(node.lineno))), node]

    def visit_AnnAssign(self, node):
        if node.value is None:
            return node
        return self.visit_Assign(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Assign(self, node):
        value = self.named(node.targets, node.value)
        stores = []
        targets = [self.target(t, stores) for t in node.targets]
        if not stores:
            return ast.Assign(targets, value)
        if len(stores) == 1 and len(targets) == 1 and isinstance(targets[0], ast.Name):  # x[i] = v
            stores[0].value.args[2] = value
            return stores
        return [ast.Assign(targets, value), *stores]

    def named(self, targets, value):
        """The value, which learns its name if it is scratch or a private array."""
        target = targets[0]
        if isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
            return ast.Tuple([self.named([t], v) for t, v in zip(target.elts, value.elts)], ast.Load())
        is_array = isinstance(value, ast.Call) and getattr(value.func, "attr", getattr(value.func, "id", "")) in ("scratch", "local")
        visited = self.visit(value)
        if is_array and isinstance(target, ast.Name):
            return self.call("_named", visited, ast.Constant(target.id))
        return visited

    def target(self, node, stores):
        """An assignment's target; elements of views are assigned afterwards, by `stores`."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return ast.Tuple([self.target(e, stores) for e in node.elts], ast.Store())
        if not isinstance(node, ast.Subscript):
            return node
        name = self.fresh()
        site = _site(self.function, node)
        stores.append(ast.Expr(self.call("_store", self.visit(node.value), self.index(node.slice), ast.Name(name, ast.Load()), site)))
        return ast.Name(name, ast.Store())

    def visit_AugAssign(self, node):
        operation = f"_{type(node.op).__name__}"
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            return ast.Assign([node.target], self.call(operation, ast.Name(node.target.id, ast.Load()), value))
        site, text = _site(self.function, node.target), self.fresh()
        view, index = self.fresh(), text
        place = [ast.Assign([ast.Name(view, ast.Store())], self.visit(node.target.value)),
                 ast.Assign([ast.Name(index, ast.Store())], self.index(node.target.slice))]

        def name(n):
            return ast.Name(n, ast.Load())
        old = self.call("_load", name(view), name(index), site)
        return [*place, ast.Expr(self.call("_store", name(view), name(index), self.call(operation, old, value), site))]


def _holds_functions(value):
    """Whether a kernel may find functions in its attributes: a module, or any object that keeps some."""
    if isinstance(value, (types.ModuleType, types.SimpleNamespace)):
        return True
    if isinstance(value, (type, types.FunctionType, Function, Reducer)):
        return False
    names = getattr(value, "_fields", None) or getattr(value, "__dict__", None) or getattr(type(value), "__slots__", ())
    return any(isinstance(getattr(value, name, None), Function) for name in names if isinstance(name, str))


@functools.lru_cache(maxsize=4096)
def _code(function, single):
    """The code of a function rewritten."""
    lines, first = lines_of(function)
    tree = ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))).body[0], first - 1)
    rewriter = _Rewriter(function, single)
    body = [rewriter.visit(statement) for statement in tree.body]
    tree.body = [s for part in body for s in (part if isinstance(part, list) else [part])]
    tree.decorator_list, tree.returns = [], None
    for argument in tree.args.args:
        argument.annotation = None
    module = ast.fix_missing_locations(ast.Module([tree], []))
    return next(c for c in compile(module, function.__code__.co_filename, "exec").co_consts if isinstance(c, types.CodeType))


def _placed(new, old):
    for node in new if isinstance(new, list) else [new]:
        for part in ast.walk(node):
            if not hasattr(part, "lineno") and isinstance(part, (ast.expr, ast.stmt)):
                ast.copy_location(part, old)
    return new


def watched(function, single, run):
    """`function` as the checked space runs it, bound to what its outside names hold now; whether it says float64 anywhere.

    Parameters
    ----------
    function : function
        The user's own.
    single : bool
        Whether the kernel's own float is float32.
    run : Run
        Where its accesses are noted.
    """
    tools = {"_load": access.load, "_store": access.store, "_slice": slice, "_leave": run.leave, "_named": _named,
             **{name: access.ATOMICS.get(word, run.local) for word, name in WORDS.items()}, "_range": run.range,
             **{WORDS[word]: run.conversion(*how) for word, how in CONVERSIONS.items()},
             **(arithmetic.SINGLE if single else arithmetic.DOUBLE), **arithmetic.OTHERS}
    seen = {}
    bound = _bind(function, single, tools, seen)
    return bound, any("float64" in f.__code__.co_names for f in seen.values() if WATCHED in f.__globals__)


def _bind(function, single, tools, seen):
    if function in seen:
        return seen[function]
    if function.__module__ in _AS_THEY_STAND:
        return rebind(function, seen)
    scope = {"__builtins__": __builtins__, WATCHED: True}
    code = _code(function, single)
    copy = seen[function] = types.FunctionType(code, scope, function.__name__)

    def meaning(value):
        if _holds_functions(value):
            return Module(value, meaning)
        inner = getattr(value, "fn", None)  # a @pk.function or @pk.kernel called by the kernel
        if isinstance(inner, types.FunctionType):
            return _bind(inner, single, tools, seen)
        return meaning_of(value)

    outside = scope_of(function)
    scope.update((name, meaning(outside[name])) for name in code.co_names if name in outside)
    scope.update(tools)
    return copy


def _named(array, name):
    if array.root.label is None:
        array.root.label = name
    return array
