"""Evaluate expressions for the oracle by closures of the variables; dtypes are determined before they run."""

import ast
import functools
import math

import numpy as np

from . import meaning
from .meaning import Refused, promote
from .types import Expr, View, inside, load
from .words import Words

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


class Expressions(Words):
    """Requires of the derived class: `function`, the source's `functions`, `constants` and `reducers`."""

    def expr(self, node, frame):
        return getattr(self, "expr_" + type(node).__name__)(node, frame)

    def truth(self, e):
        return lambda variables: bool(e.run(variables) != 0)

    def as_int(self, e):
        if meaning.is_float(e.type):
            raise Refused("a float as an index or bound")
        return lambda variables: int(e.run(variables))

    def to(self, e, dtype):
        if self.strong(e.type) == self.strong(dtype):
            return e.run
        return lambda variables: self.convert(e.run(variables), e.type, dtype)

    def constant(self, value):
        """Return a Python number of the source; a weak float has the kernel's float type."""
        if isinstance(value, tuple):
            parts = [self.constant(v) for v in value]
            values = tuple(p.run(None) for p in parts)
            return Expr(tuple(p.type for p in parts), lambda variables: values)
        type_ = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        value = meaning.FLOATS[self.own](value) if type_ == "float" else value
        return Expr(type_, lambda variables: value)

    def expr_Constant(self, node, frame):
        return self.constant(node.value)

    def expr_Name(self, node, frame):
        name = node.id
        if name in frame.types:
            factors = None
            if name in frame.products:
                factors = (
                    lambda variables: variables[name + ":factors"][0],
                    lambda variables: variables[name + ":factors"][1],
                )
            return Expr(frame.types[name], lambda variables: variables[name], factors)
        if name in self.constants:
            return self.expr(self.constants[name], frame)
        if name in self.reducers:
            return Expr(name, None)
        raise Refused(f"name {name}")

    def expr_Attribute(self, node, frame):
        text = ast.unparse(node)
        if text in ("math.inf", "math.nan", "math.pi"):
            return self.constant(getattr(math, node.attr))
        if text.startswith("pk."):
            return Expr(text[3:], None)  # a reducer
        base = self.expr(node.value, frame)
        if base.type == "team":
            return Expr("int", lambda variables: getattr(base.run(variables), node.attr))
        if node.attr == "shape":
            return Expr(("int",) * base.type.ndim, lambda variables: base.run(variables).shape)
        if node.attr == "size":
            return Expr("int", lambda variables: base.run(variables).size)
        raise Refused(text)

    def expr_Tuple(self, node, frame):
        parts = [self.expr(e, frame) for e in node.elts]
        return Expr(tuple(p.type for p in parts), lambda variables: tuple(p.run(variables) for p in parts))

    def expr_Subscript(self, node, frame):
        base = self.expr(node.value, frame)
        if isinstance(base.type, tuple):
            k = ast.literal_eval(node.slice)
            return Expr(base.type[k], lambda variables: base.run(variables)[k])
        index, n_kept = self.index(node.slice, base.type, frame)
        if n_kept:
            return Expr(
                View(base.type.dtype, n_kept), lambda variables: base.run(variables)[index(variables)]
            )
        dtype = base.type.dtype
        return Expr(dtype, lambda variables: load(base.run(variables), index(variables), dtype))

    def place(self, node, frame):
        """Return a function of the variables that gives (array, index, dtype) of an element."""
        base = self.expr(node.value, frame)
        index, n_kept = self.index(node.slice, base.type, frame)
        if n_kept:
            raise Refused("one element is assigned at a time")

        def place(variables):
            array, where = base.run(variables), index(variables)
            inside(array, where)
            return array, where, base.type.dtype

        return place

    def index(self, node, view, frame):
        """Return (function of the variables that gives NumPy's index, number of dimensions that remain)."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        items, slices = [], 0
        for part in parts:
            if isinstance(part, ast.Slice):
                slices += 1
                ends = [
                    None if p is None else self.as_int(self.expr(p, frame)) for p in (part.lower, part.upper)
                ]
                items.append(lambda variables, ends=ends: slice(*(e and e(variables) for e in ends)))
            else:
                items.append(self.as_int(self.expr(part, frame)))
        return lambda variables: tuple(item(variables) for item in items), view.ndim - len(parts) + slices

    # ---- operators
    def expr_BinOp(self, node, frame):
        left, right = self.expr(node.left, frame), self.expr(node.right, frame)
        if isinstance(node.op, ast.Pow):
            return self.power(left, right)
        return self.binary(node.op, left, right)

    def binary(self, operator, left, right):
        if isinstance(operator, ast.Pow):
            return self.power(left, right)
        op = _BINARY[type(operator)]
        dtype = promote(left.type, right.type)
        if dtype == "bool" and op not in "&|^":
            dtype = "int"
        if op == "/" and not meaning.is_float(dtype):
            dtype = "float"
        strong = self.strong(dtype)
        x, y = self.to(left, dtype), self.to(right, dtype)
        if meaning.is_float(dtype):
            if op in "+-" and self.fused:
                for e, sign in ((left, 1), (right, -1)):
                    if e.product and self.strong(e.type) == strong:
                        self.fuses = True
                        return Expr(dtype, self.fused_sum(op, e.product, x if sign < 0 else y, strong, sign))
            run = functools.partial(apply, meaning.floating, op, x, y)
            return Expr(dtype, run, (x, y) if op == "*" else None)
        if dtype == "bool":
            return Expr(dtype, lambda variables: bool(meaning.integer(op, x(variables), y(variables), "int")))
        return Expr(
            dtype, lambda variables: meaning.integer(op, int(x(variables)), int(y(variables)), strong)
        )

    def fused_sum(self, op, factors, other, dtype, sign):
        """Evaluate product + other (sign 1) or other + product (sign -1), in the order of the source."""
        first, second = factors

        def product_first(variables):
            a, b = first(variables), second(variables)
            c = other(variables)
            return meaning.fma(a, b, -c if op == "-" else c, dtype)

        def product_last(variables):
            c = other(variables)
            a, b = first(variables), second(variables)
            return meaning.fma(-a if op == "-" else a, b, c, dtype)

        return product_first if sign > 0 else product_last

    def power(self, left, right):
        """Evaluate integers to small constant powers, and floats to any: exact cases only, since the layer
        implements pow itself."""
        if not meaning.is_float(promote(left.type, right.type)):
            strong = self.strong("int" if left.type == "bool" else left.type)

            def run(variables):
                x, n, result = int(left.run(variables)), int(right.run(variables)), 1
                for _ in range(n):
                    result = meaning.integer("*", result, x, strong)
                return result

            return Expr("int" if left.type == "bool" else left.type, run)
        dtype = promote(left.type, right.type)
        x, y = self.to(left, dtype), self.to(right, dtype)
        return Expr(dtype, lambda variables: np.power(x(variables), y(variables)))

    def expr_UnaryOp(self, node, frame):
        e = self.expr(node.operand, frame)
        if isinstance(node.op, ast.Not):
            test = self.truth(e)
            return Expr("bool", lambda variables: not test(variables))
        if isinstance(node.op, ast.USub):
            if meaning.is_float(e.type):
                return Expr(e.type, lambda variables: -e.run(variables))
            dtype = "int" if e.type == "bool" else e.type
            return Expr(
                dtype, lambda variables: meaning.integer("-", 0, int(e.run(variables)), self.strong(dtype))
            )
        if e.type == "bool":
            return Expr("bool", lambda variables: not e.run(variables))
        return Expr(
            e.type,
            lambda variables: (
                meaning.wrapped(~e.run(variables), self.strong(e.type))
                if e.type not in ("uint32", "uint64")
                else meaning.most(e.type) - e.run(variables)
            ),
        )

    def expr_Compare(self, node, frame):
        parts = [self.expr(n, frame) for n in (node.left, *node.comparators)]
        ops = [_COMPARE[type(op)] for op in node.ops]
        kinds = [self.strong(promote(a.type, b.type)) for a, b in zip(parts, parts[1:])]

        def run(variables):
            left = parts[0].run(variables)
            for k, op in enumerate(ops):
                right = parts[k + 1].run(variables)
                a = self.convert(left, parts[k].type, kinds[k])
                if not meaning.compare(op, a, self.convert(right, parts[k + 1].type, kinds[k])):
                    return False
                left = right
            return True

        return Expr("bool", run)

    def expr_BoolOp(self, node, frame):
        """Convert each operand to the common type of the operands up to it."""
        result = self.expr(node.values[0], frame)
        for part in node.values[1:]:
            result = self.and_or(isinstance(node.op, ast.And), result, self.expr(part, frame))
        return result

    def and_or(self, conjunction, left, right):
        dtype = promote(left.type, right.type)

        def run(variables):
            value = left.run(variables)
            if bool(value != 0) == conjunction:
                return self.convert(right.run(variables), right.type, dtype)
            return self.convert(value, left.type, dtype)

        return Expr(dtype, run)

    def expr_IfExp(self, node, frame):
        test = self.truth(self.expr(node.test, frame))
        return self.choice(test, self.expr(node.body, frame), self.expr(node.orelse, frame))

    def choice(self, test, yes, no):
        dtype = promote(yes.type, no.type)
        a, b = self.to(yes, dtype), self.to(no, dtype)
        return Expr(dtype, lambda variables: a(variables) if test(variables) else b(variables))


def apply(meant, op, x, y, variables):
    return meant(op, x(variables), y(variables))
