"""Expressions of the kernel language."""

from __future__ import annotations

import ast
import re

import numpy as np
from llvmlite import ir

from .. import words
from ..errors import LanguageError, LoweringError
from . import types as t
from .known import Known, constant_tuple
from .memory import Memory
from .types import UNIFORM, VARYING
from .values import I64, Value, ViewValue

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
           ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_PLAIN = {"Dict": "a dict", "List": "a list", "Set": "a set", "Lambda": "a lambda", "ListComp": "a comprehension",
          "DictComp": "a comprehension", "SetComp": "a comprehension", "GeneratorExp": "a comprehension",
          "JoinedStr": "a string", "Await": "await", "Yield": "yield", "NamedExpr": "':='", "Starred": "'*'"}


class Expressions(Memory):
    """Needs from the class on top: frames, `inline`, slots, regions (see lowering.py)."""

    def fail(self, node, message, kind=LoweringError):
        text = self.frame.text
        message = re.sub(r"(?<=\w)@\d+", "", message)  # variables by the user's names
        raise kind(f"kernel '{self.kernel_name}' ({text.where(node)}): {message}")

    def expr(self, node):
        method = getattr(self, "expr_" + type(node).__name__, None)
        if method is None:
            self.fail(node, f"{_PLAIN.get(type(node).__name__, type(node).__name__)} is not for kernels: `{ast.unparse(node)}`",
                      LanguageError)
        try:
            return method(node)
        except t.TypeClash as clash:
            self.fail(node, f"`{ast.unparse(node)}`: {clash}")

    def number(self, node, what="a number"):
        """The value of an expression that must be a number."""
        v = self.expr(node)
        if not isinstance(v, Value):
            self.fail(node, f"`{ast.unparse(node)}` is {self.describe(v)}; {what} is wanted here")
        return v

    @staticmethod
    def describe(v):
        if isinstance(v, ViewValue):
            return f"a view of {len(v.shape)} dimension(s) ('{v.label}')"
        if isinstance(v, tuple):
            return "a tuple"
        if isinstance(v, Value):
            return "a number"
        if isinstance(v, Known):
            return f"{v.value!r}"
        return f"the {type(v).__name__.lower()}"

    # ---- names and constants
    def expr_Constant(self, node):
        if isinstance(node.value, (bool, int, float)):
            return self.const(node.value)
        if node.value is None:
            return Known(None)
        self.fail(node, f"{'a string' if isinstance(node.value, str) else repr(node.value)} is not for kernels", LanguageError)

    def expr_Name(self, node):
        if node.id in self.frame.text.webs:
            return self.read(node.id, node)
        scope = self.frame.text.scope
        if node.id not in scope:
            self.fail(node, f"'{node.id}' is not defined", LanguageError)
        return self.known(scope[node.id], node)

    def known(self, value, node):
        """A Python object met at compile time: numbers become constants, the rest is carried as it is."""
        if isinstance(value, words.static):
            value = value.value
        if isinstance(value, (bool, int, float)):
            return self.const(value)
        if isinstance(value, np.bool_):
            return self.const(bool(value))
        if isinstance(value, np.generic) and value.dtype.name in t.DTYPES:
            return self.strong_const(value.item(), value.dtype.name)
        if isinstance(value, tuple) and constant_tuple(value):
            return tuple(self.known(v, node) for v in value)
        if isinstance(value, np.ndarray):
            self.fail(node, f"`{ast.unparse(node)}` is an array from outside; pass it to the kernel as an argument", LanguageError)
        return Known(value)

    def expr_Attribute(self, node):
        base = self.expr(node.value)
        if isinstance(base, Known):
            if not hasattr(base.value, node.attr):
                self.fail(node, f"`{ast.unparse(node)}` does not exist", LanguageError)
            return self.known(getattr(base.value, node.attr), node)
        if isinstance(base, ViewValue):
            return self.view_attribute(base, node)
        if hasattr(base, "attribute"):
            return base.attribute(self, node)
        self.fail(node, f"{self.describe(base)} has no attribute '{node.attr}' in kernels", LanguageError)

    def view_attribute(self, view, node):
        if node.attr == "shape":
            return tuple(self.extent(n) for n in view.shape)
        if node.attr == "size":
            size = self.const(1)
            for n in view.shape:
                size = self.binary("*", size, self.extent(n))
            return size
        if node.attr == "ndim":
            return self.const(len(view.shape))
        if node.attr == "dtype":
            return Known(np.dtype(view.dtype))
        self.fail(node, f"views have no attribute '{node.attr}' in kernels (shape, size, ndim, dtype)", LanguageError)

    def extent(self, n):
        return self.const(n) if isinstance(n, int) else Value("int", UNIFORM, n)

    def expr_Tuple(self, node):
        return tuple(self.expr(e) for e in node.elts)

    # ---- operators
    def expr_BinOp(self, node):
        if isinstance(node.op, ast.Pow):
            return self.power(node)
        op = _BINARY.get(type(node.op))
        if op is None:
            self.fail(node, f"the operator of `{ast.unparse(node)}` is not for kernels", LanguageError)
        result = self.binary(op, self.number(node.left), self.number(node.right))
        own_text = op in ("//", "%") and t.is_float(result.dtype)  # which counts as one operation by itself
        return result if own_text else self.counted(op, result)

    def power(self, node):
        base, exponent = self.number(node.left), self.number(node.right)
        n = exponent.const
        if base.const is not None and n is not None:
            return self._constant_power(base, exponent, node)
        if isinstance(n, int) and 0 <= n <= 64:
            result = None
            while n:
                if n & 1:
                    result = base if result is None else self.counted("*", self.binary("*", result, base))
                n >>= 1
                base = self.counted("*", self.binary("*", base, base)) if n else base
            return result if result is not None else self.cast(self.const(1), base.dtype)
        if n == 0.5:
            return self.math("sqrt", [base], node)
        if not t.is_float(t.promote(base.dtype, exponent.dtype)):
            self.fail(node, "an integer power needs a constant exponent between 0 and 64; cast to float for others")
        return self.math("pow", [base, exponent], node)

    def _constant_power(self, base, exponent, node):
        a, n = base.const, exponent.const
        dtype = t.promote(base.dtype, exponent.dtype)
        if t.is_float(dtype) or n < 0:
            with np.errstate(all="ignore"):
                return self.strong_const(float(np.float64(a) ** np.float64(n)), dtype if t.is_float(dtype) else "float")
        if int(a).bit_length() * n > 128:
            self.fail(node, f"`{ast.unparse(node)}` is beyond every integer type")
        return self.strong_const(t.converted(a**n, dtype) if not t.is_weak(dtype) else int(a**n), "int" if dtype == "bool" else dtype)

    def expr_UnaryOp(self, node):
        v = self.number(node.operand)
        if isinstance(node.op, ast.Not):
            return self.logical_not(v)
        if isinstance(node.op, ast.USub):
            return self.counted("neg", self.negate(v))
        return self.counted("~", self.invert(v)) if isinstance(node.op, ast.Invert) else v

    def expr_Compare(self, node):
        if any(type(op) not in _COMPARE for op in node.ops):
            return self.identity_test(node)
        return self._links(node, self.expr(node.left), 0)

    def _links(self, node, a, k):
        """The chain of comparisons from its k-th on, whose left side is `a`: each operand once, and only if those before hold."""
        left, right, op = [node.left, *node.comparators][k], node.comparators[k], node.ops[k]
        b = self.expr(right)
        if isinstance(a, Known) or isinstance(b, Known):  # for example x.dtype == pk.float32
            holds = self.const(_equal(a, b) == isinstance(op, ast.Eq))
        else:
            holds = self.compared(_COMPARE[type(op)], self.number_of(a, left), self.number_of(b, right))
        rest = node.comparators[k + 1:]
        return self.junction(True, holds, lambda: self._links(node, b, k + 1), rest) if rest else holds

    def compared(self, op, a, b):
        """A comparison of the text."""
        return self.counted("compare", self.compare(op, a, b), t.promote(a.dtype, b.dtype))

    def identity_test(self, node):
        a, b = self.expr(node.left), self.expr(node.comparators[0])
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(b, Known):
            return self.const((isinstance(a, Known) and a.value is b.value) == isinstance(node.ops[0], ast.Is))
        self.fail(node, f"the comparison `{ast.unparse(node)}` is not for kernels", LanguageError)

    def number_of(self, v, node):
        if not isinstance(v, Value):
            self.fail(node, f"`{ast.unparse(node)}` is {self.describe(v)}; a number is wanted here")
        return v

    def condition(self, node):
        return self.truth(self.number(node, "a condition"))

    def expr_BoolOp(self, node):
        """and/or give one of their operands, as in Python; the right one's memory accesses happen only where the left lets them."""
        conjunction = isinstance(node.op, ast.And)
        result = self.number(node.values[0])
        for part in node.values[1:]:
            result = self.junction(conjunction, result, lambda part=part: self.number(part), [part])
        return result

    def junction(self, conjunction, left, evaluate, nodes):
        """`left and right` or `left or right`; `evaluate` emits the right side, of these nodes, where the left lets it."""
        c = self.truth(left)
        if c.const is not None:
            return evaluate() if c.const == conjunction else left
        if self.W > 1 and c.kind != UNIFORM:
            outer, alive = self.mask, self.alive
            self.mask = self.mask_and(outer, c) if conjunction else self.mask_without(outer, c)
            self.alive = False
            right = evaluate()
            self.mask, self.alive = outer, alive
        elif any(map(self.needs_branch, nodes)):
            return self.branch_value(c if conjunction else self.logical_not(c), evaluate, lambda: left)
        else:
            right = evaluate()
        return self.and_or(conjunction, c, left, right)

    def and_or(self, conjunction, c, left, right):
        if left.dtype != "bool" or right.dtype != "bool":
            return self.select(c, right, left) if conjunction else self.select(c, left, right)
        kind = self.kind_of(left, right)
        x, y = self.get(left, "bool", kind), self.get(right, "bool", kind)
        return Value("bool", kind, self.b.and_(x, y) if conjunction else self.b.or_(x, y))

    def expr_IfExp(self, node):
        c = self.condition(node.test)
        if c.const is not None:
            return self.expr(node.body if c.const else node.orelse)
        if self.W > 1 and c.kind != UNIFORM:
            outer, alive = self.mask, self.alive
            self.alive = False
            self.mask = self.mask_and(outer, c)
            a = self.number(node.body)
            self.mask = self.mask_without(outer, c)
            b = self.number(node.orelse)
            self.mask, self.alive = outer, alive
            return self.select(c, a, b)
        if self.needs_branch(node.body) or self.needs_branch(node.orelse):
            return self.branch_value(c, lambda: self.number(node.body), lambda: self.number(node.orelse))
        return self.select(c, self.number(node.body), self.number(node.orelse))

    @staticmethod
    def needs_branch(node):
        """Whether one lane may evaluate an expression only where the text says so."""
        return any(isinstance(n, (ast.Subscript, ast.Call)) for n in ast.walk(node))

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

    # ---- subscripts
    def expr_Subscript(self, node):
        base = self.expr(node.value)
        if isinstance(base, tuple):
            return self.tuple_item(base, node)
        view = self.view_of(base, node)
        items = self.items(view, node)
        if len(items) == len(view.shape) and not any(isinstance(i, tuple) for i in items):
            return self.counted(f"load {view.store or view.label}", self.load(view, items), view.dtype)
        return self.part(view, items)

    def tuple_item(self, base, node):
        """One item of a tuple, or a part of it; which is known at compile time."""
        def constant(part):
            v = None if part is None else self.expr(part)
            if v is None or isinstance(v, Value) and isinstance(v.const, int):
                return v and v.const
            self.fail(node, "a tuple is indexed by a constant in kernels")

        if isinstance(node.slice, ast.Slice):
            return base[constant(node.slice.lower):constant(node.slice.upper):constant(node.slice.step)]
        index = constant(node.slice)
        if not -len(base) <= index < len(base):
            self.fail(node, f"index {index} is outside a tuple of {len(base)}")
        return base[index]

    def view_of(self, base, node):
        if not isinstance(base, ViewValue):
            self.fail(node, f"`{ast.unparse(node.value)}` is {self.describe(base)}; only views and tuples are indexed")
        if base.scatter:
            self.fail(node, f"'{base.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub only")
        return base

    def items(self, view, node):
        """The subscript's parts: Values, or (start, stop) of a slice."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > len(view.shape):
            self.fail(node, f"'{view.label}' has {len(view.shape)} dimension(s), but {len(parts)} indices were given")
        items = []
        for k, part in enumerate(parts):
            if isinstance(part, ast.Slice):
                items.append(self.slice_of(part, view.shape[k], node))
                continue
            v = self.expr(part)
            if isinstance(v, tuple):
                items += v
                continue
            if not isinstance(v, Value) or t.is_float(v.dtype):
                self.fail(node, f"`{ast.unparse(part)}` is not an integer; indices are integers")
            if v.const is not None and (v.const < 0 or isinstance(view.shape[k], int) and v.const >= view.shape[k]):
                self.fail(node, f"index {v.const} is outside '{view.label}'; kernels count from 0 to the extent less one")
            items.append(v)
        return items

    def slice_of(self, part, extent, node):
        if part.step is not None:
            self.fail(node, "a slice with a step is not for kernels", LanguageError)
        start = 0 if part.lower is None else self.bound(part.lower, extent)
        stop = extent if part.upper is None else self.bound(part.upper, extent)
        return start, stop if part.lower is None or part.upper is None else self.larger(start, stop)

    def bound(self, node, extent):
        """A bound of a slice, as in Python: a negative one counts from the end, one beyond an end is that end."""
        bound = self.index_number(self.uniform(node))
        if isinstance(bound, int):
            return self.larger(self.plus(extent, bound), 0) if bound < 0 else self.smaller(bound, extent)
        below = self.b.icmp_signed("<", bound, ir.Constant(I64, 0))
        length = extent if not isinstance(extent, int) else ir.Constant(I64, extent)
        return self.smaller(self.larger(self.b.select(below, self.b.add(bound, length), bound), 0), extent)

    def uniform(self, node):
        v = self.number(node)
        if t.is_float(v.dtype):
            self.fail(node, f"`{ast.unparse(node)}` is not an integer; the bounds of a slice are integers")
        if v.kind != UNIFORM and self.W > 1:
            self.fail(node, f"`{ast.unparse(node)}` differs between lanes; a part of a view is the same for all of them")
        return v


def _equal(a, b):
    if not (isinstance(a, Known) and isinstance(b, Known)):
        return False
    try:
        return np.dtype(a.value) == np.dtype(b.value)
    except TypeError:
        return a.value is b.value
