"""Expressions of the kernel language, read into the typed tree."""

from __future__ import annotations

import ast
import functools
import math

import numpy as np

from ...language import words
from ....errors import LanguageError, LoweringError
from ...language.frontend import MOST_TABLE, by_users_names, walk
from ...language import types as t
from .complexes import BINARY, Complexes
from .known import constant_tuple
from .tree import Block, Operation, View, mapped
from ...language.types import UNIFORM, Known

_NO_INDEX = "`{}` is not an integer; indices are integers"
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_PLAIN = {
    "Dict": "a dict",
    "List": "a list",
    "Set": "a set",
    "Lambda": "a lambda",
    "ListComp": "a comprehension",
    "DictComp": "a comprehension",
    "SetComp": "a comprehension",
    "GeneratorExp": "a comprehension",
    "JoinedStr": "a string",
    "Await": "await",
    "Yield": "yield",
    "NamedExpr": "':='",
    "Starred": "'*'",
}


class Expressions(Complexes):
    """Needs from the class on top: `frame`, `checks`, `read` and `inline` (see build.py)."""

    def fail(self, node, message, kind=LoweringError, text=None):
        text, node = (text, node) if text else self.at if self.frame.word else (self.frame.text, node)
        message = by_users_names(message)
        raise kind(f"kernel '{self.kernel_name}' ({text.where(node)}): {message}")

    def wanted(self, holds, node, message, *parts):
        """Refuse the text unless this holds, which is asked when dtypes and kinds are known; `parts` of it
        stand in the message."""
        self.checks.append((holds, node, message, parts, self.frame.text))

    def expr(self, node):
        outer = self.at
        if not self.frame.word:
            self.at = self.frame.text, node
        result = self._expr(node)
        self.at = outer
        return result

    def _expr(self, node):
        method = getattr(self, "expr_" + type(node).__name__, None)
        if method is None:
            self.fail(
                node,
                f"{_PLAIN.get(type(node).__name__, type(node).__name__)} is not supported in kernels:"
                f" `{ast.unparse(node)}`",
                LanguageError,
            )
        try:
            return method(node)
        except t.TypeClash as clash:
            self.fail(node, f"`{ast.unparse(node)}`: {clash}")

    def number(self, node, what="a number"):
        """The value of an expression that must be a number."""
        v = self.expr(node)
        if not isinstance(v, Operation):
            self.fail(node, f"`{ast.unparse(node)}` is {self.describe(v)}; {what} is wanted here")
        return v

    @staticmethod
    def describe(v):
        if isinstance(v, View):
            return f"a view of {len(v.shape)} dimension(s) ('{v.label}')"
        if isinstance(v, t.Complex):
            return "a complex number"
        if isinstance(v, tuple):
            return f"a record of {', '.join(v.names)}" if getattr(v, "names", ()) else "a tuple"
        if isinstance(v, Operation):
            return "a number"
        if isinstance(v, Known):
            return f"{v.value!r}"
        return f"the {type(v).__name__.lower()}"

    # ---- names and constants
    def expr_Constant(self, node):
        if node.value is None:
            return Known(None)
        if isinstance(node.value, (bool, int, float, complex)):
            return self.known(node.value, node)
        self.fail(
            node,
            f"{'a string' if isinstance(node.value, str) else repr(node.value)} is not supported in kernels",
            LanguageError,
        )

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
        if isinstance(value, (complex, np.complexfloating)):
            return t.Record((self.known(v, node) for v in (value.real, value.imag)), t.COMPLEX)
        if isinstance(value, np.bool_):
            return self.const(bool(value))
        if isinstance(value, np.generic) and t.held(value.dtype.name) in t.DTYPES:
            return self.strong_const(value.item(), t.held(value.dtype.name))
        if isinstance(value, tuple) and constant_tuple(value):
            return t.Record((self.known(v, node) for v in value), getattr(value, "_fields", ()))
        return self.array_table(value, node) if isinstance(value, np.ndarray) else Known(value)

    def array_table(self, array, node):
        """A view of an array from outside the kernel, whose numbers become part of the code."""
        if t.held(array.dtype.name) not in t.DTYPES or not 0 < array.nbytes <= MOST_TABLE:
            self.fail(
                node,
                f"`{ast.unparse(node)}` is an array from outside of {array.dtype} and {array.nbytes}"
                f" bytes; up to {MOST_TABLE} of numbers are a table of the kernel's; pass others as"
                " arguments",
                LanguageError,
            )
        numbers = array.ravel().view(t.PARTS.get(array.dtype.name, array.dtype))
        return self.table(node, array.dtype.name, array.shape, numbers.tolist())

    def expr_Attribute(self, node):
        return self.attribute_of(self.expr(node.value), node)

    def attribute_of(self, base, node):
        if isinstance(base, Known):
            if not hasattr(base.value, node.attr):
                self.fail(node, f"`{ast.unparse(node)}` does not exist", LanguageError)
            return self.known(getattr(base.value, node.attr), node)
        if isinstance(base, View):
            return self.view_attribute(base, node)
        if hasattr(base, "attribute"):
            return base.attribute(self, node)
        if node.attr in getattr(base, "names", ()):
            return base[base.names.index(node.attr)]
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
        self.fail(
            node,
            f"views have no attribute '{node.attr}' in kernels (shape, size, ndim, dtype)",
            LanguageError,
        )

    def expr_Tuple(self, node):
        return tuple(self.expr(e) for e in node.elts)

    # ---- operators
    def expr_BinOp(self, node):
        return self.operated(node.op, self.numeric(node.left), self.numeric(node.right), node)

    def operated(self, op, left, right, node):
        """`left op right`, of an expression or of an augmented assignment."""
        if isinstance(left, t.Complex) or isinstance(right, t.Complex):
            return self.complex_operated(op, left, right, node)
        if isinstance(op, ast.Pow):
            return self.power(left, right, node)
        if type(op) not in BINARY:
            self.fail(
                node, f"the operator of `{ast.unparse(node)}` is not supported in kernels", LanguageError
            )
        return self.counted(BINARY[type(op)], self.binary(BINARY[type(op)], left, right))

    def power(self, base, exponent, node):
        n = exponent.const
        if base.const is not None and n is not None:
            base = (
                base
                if t.is_float(base.dtype) or self._whole_power(base, exponent)
                else self.cast(base, "float")
            )
            known = self._constant_power(base, exponent, node)
            if known is not None:
                return known
        if isinstance(n, int) and 0 <= n <= 64:
            result = None
            while n:
                if n & 1:
                    result = base if result is None else self.counted("*", self.binary("*", result, base))
                n >>= 1
                base = self.counted("*", self.binary("*", base, base)) if n else base
            return result if result is not None else self.operation("one", base)
        if n == 0.5:
            return self.counted("sqrt", self.operation("intrinsic", base, attr="sqrt"))
        self.wanted(
            lambda: t.is_float(t.promote(base.dtype, exponent.dtype)),
            node,
            "an integer power needs a constant exponent between 0 and 64; cast to float for others",
        )
        return self.operation("math", base, exponent, attr=("pow", False))

    @staticmethod
    def _whole_power(base, exponent):
        """Whether a power of constants is of whole numbers, and whole."""
        return exponent.const >= 0 and not t.is_float(t.promote(base.dtype, exponent.dtype))

    def _constant_power(self, base, exponent, node):
        """A power of constants that is exact; None of others, which run time rounds."""
        a, n = base.const, exponent.const
        if not self._whole_power(base, exponent):
            mantissa, places = math.frexp(abs(a))  # of a power of two
            some = mantissa == 0.5 and float(n).is_integer() and -1075 < (places - 1) * n < 1024
            return self.strong_const(float(a) ** n, base.dtype) if some or n == 0 else None
        dtype = t.promote(base.dtype, exponent.dtype)
        if int(a).bit_length() * n > 128:
            self.fail(node, f"`{ast.unparse(node)}` is beyond every integer type")
        return self.strong_const(
            t.converted(a**n, dtype) if not t.is_weak(dtype) else int(a**n),
            "int" if dtype == "bool" else dtype,
        )

    def expr_UnaryOp(self, node):
        v = (
            self.numeric(node.operand)
            if isinstance(node.op, (ast.USub, ast.UAdd))
            else self.number(node.operand)
        )
        if isinstance(v, t.Complex):
            return mapped(self.negate, v) if isinstance(node.op, ast.USub) else v
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
        """The chain of comparisons from its k-th on, whose left side is `a`: each operand once, and only if
        those before hold."""
        left, right, op = [node.left, *node.comparators][k], node.comparators[k], node.ops[k]
        b = self.expr(right)
        if isinstance(a, Known) or isinstance(b, Known):  # for example x.dtype == pk.float32
            holds = self.const(_equal(a, b) == isinstance(op, ast.Eq))
        elif isinstance(a, t.Complex) or isinstance(b, t.Complex):
            holds = self.complex_compared(_COMPARE[type(op)], a, b, node)
        else:
            holds = self.compared(_COMPARE[type(op)], self.number_of(a, left), self.number_of(b, right))
        rest = node.comparators[k + 1 :]
        return self.junction(True, holds, lambda: self._links(node, b, k + 1), rest) if rest else holds

    def identity_test(self, node):
        a, b = self.expr(node.left), self.expr(node.comparators[0])
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and isinstance(b, Known):
            return self.const(
                (isinstance(a, Known) and a.value is b.value) == isinstance(node.ops[0], ast.Is)
            )
        self.fail(node, f"the comparison `{ast.unparse(node)}` is not supported in kernels", LanguageError)

    def number_of(self, v, node):
        if not isinstance(v, Operation):
            self.fail(node, f"`{ast.unparse(node)}` is {self.describe(v)}; a number is wanted here")
        return v

    def condition(self, node):
        return self.truth(self.number(node, "a condition"))

    def expr_BoolOp(self, node):
        """and/or give one of their operands, as in Python; the right one's memory accesses happen only where
        the left lets them."""
        conjunction = isinstance(node.op, ast.And)
        result = self.number(node.values[0])
        for part in node.values[1:]:
            result = self.junction(conjunction, result, lambda part=part: self.number(part), [part])
        return result

    def junction(self, conjunction, left, evaluate, nodes):
        """`left and right` or `left or right`; `evaluate` gives the right side, of these nodes, where the
        left lets it."""
        c = self.truth(left)
        if c.const is not None:
            return self.rounded(evaluate() if c.const == conjunction else left)
        part = self._part(evaluate)
        return self.operation(
            "junction", c, left, attr=(conjunction, any(map(_needs_branch, nodes))), parts=[part]
        )

    def expr_IfExp(self, node):
        c = self.condition(node.test)
        if c.const is not None:
            return mapped(self.rounded, self.expr(node.body if c.const else node.orelse))
        parts = [self._part(lambda side=side: self.numeric(side)) for side in (node.body, node.orelse)]
        if any(isinstance(value, t.Complex) for _, value in parts):
            return self.chosen(c, parts)
        return self.operation(
            "choice", c, attr=_needs_branch(node.body) or _needs_branch(node.orelse), parts=parts
        )

    def _part(self, evaluate):
        """An operand that is evaluated only where what stands before it lets it: its block, and its
        result."""
        outer, self.block = self.block, Block(self.block)
        part = self.block, evaluate()
        self.block = outer
        return part

    # ---- subscripts
    def expr_Subscript(self, node):
        base = self.expr(node.value)
        if isinstance(base, tuple) and not isinstance(base, t.Complex):
            return self.tuple_item(base, node)
        view = self.view_of(base, node)
        items = self.items(view, node)
        if len(items) == len(view.shape) and not any(isinstance(i, tuple) for i in items):
            return self.load(view, items)
        return self.part(view, items)

    def load(self, view, items):
        if view.n_indices > len(items):
            return t.Record((self.load(view, [*items, self.const(k)]) for k in (0, 1)), t.COMPLEX)
        return self.operation(
            "load", *items, view=view, dtype=t.held(view.dtype), counts=f"load {view.store or view.label}"
        )

    def part(self, view, items):
        """The view that remains after indices and slices of the leading dimensions."""
        part = View(
            view.label, view.dtype, [], view.readonly, False, view.lanes_last, view.store, view, items
        )
        sliced = [(k, item) for k, item in enumerate(items) if isinstance(item, tuple)]
        for d, (k, item) in enumerate(sliced):
            n = _static_extent(item, view.shape[k])
            if n is None:
                known = [v for v in (*item, view.shape[k]) if isinstance(v, Operation)]
                n = Operation("extent", known, attr=(part, d), dtype="int", kind=UNIFORM)
                self.order.append(n)  # it differs between lanes where a bound does
            part.shape.append(n)
        part.shape += view.shape[len(items) :]
        return self.put(part)

    def table(self, node, dtype, shape, numbers):
        """A view of numbers that are known at compile time."""
        return self.put(
            View(ast.unparse(node), dtype, list(shape), readonly=True, store="(table)", data=tuple(numbers))
        )

    def table_item(self, items, index, node):
        """The item of a tuple whose number an index has of its own: of numbers known at compile time, or of
        tuples of them."""
        if all(isinstance(v, tuple) and len(v) == len(items[0]) for v in items):
            return t.Record(
                (self.table_item(column, index, node) for column in zip(*items)),
                getattr(items[0], "names", ()),
            )
        if not items or not all(isinstance(v, Operation) and v.const is not None for v in items):
            self.fail(
                node,
                f"`{ast.unparse(node)}`: a tuple that is indexed by a variable holds numbers known at compile"
                " time",
            )
        self.wanted(
            lambda: not t.is_float(index.dtype),
            node,
            _NO_INDEX,
            node.slice,
        )
        dtype = functools.reduce(t.promote, (v.dtype for v in items))
        return self.load(
            self.table(node.value, dtype, [len(items)], [self.known_as(v, dtype) for v in items]), [index]
        )

    def tuple_item(self, base, node):
        """One item of a tuple, or a part of it."""

        def constant(part):
            v = None if part is None else self.expr(part)
            if v is None or isinstance(v, Operation) and isinstance(v.const, int):
                return v and v.const
            self.fail(node, f"`{ast.unparse(node)}`: what part of a tuple is meant is known at compile time")

        if isinstance(node.slice, ast.Slice):
            return base[constant(node.slice.lower) : constant(node.slice.upper) : constant(node.slice.step)]
        number = self.number(node.slice)
        if number.const is None:
            return self.table_item(base, number, node)
        index = constant(node.slice)
        if not -len(base) <= index < len(base):
            self.fail(node, f"index {index} is outside a tuple of {len(base)}")
        return base[index]

    def view_of(self, base, node):
        if not isinstance(base, View):
            self.fail(
                node,
                f"`{ast.unparse(node.value)}` is {self.describe(base)}; only views and tuples are indexed",
            )
        if base.scatter:
            self.fail(
                node, f"'{base.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub only"
            )
        return base

    def items(self, view, node):
        """The subscript's parts: numbers, or (lower, upper) of a slice, where None is an end."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if len(parts) > len(view.shape):
            self.fail(
                node,
                f"'{view.label}' has {len(view.shape)} dimension(s), but {len(parts)} indices were given",
            )
        items = []
        for k, part in enumerate(parts):
            if isinstance(part, ast.Slice):
                if part.step is not None:
                    self.fail(node, "a slice with a step is not supported in kernels", LanguageError)
                items.append(tuple(p and self.bound(p) for p in (part.lower, part.upper)))
                continue
            v = self.expr(part)
            if isinstance(v, tuple) and not isinstance(v, t.Complex):
                items += v
            else:
                items.append(self.index(v, view, view.shape[k], part, node))
        return items

    def index(self, v, view, extent, part, node):
        """A value as an index of a dimension of this extent, `part` of the subscript `node`."""
        if not isinstance(v, Operation):
            self.fail(node, _NO_INDEX.format(ast.unparse(part)))
        self.wanted(lambda: not t.is_float(v.dtype), node, _NO_INDEX, part)
        if v.const is not None and (v.const < 0 or isinstance(extent, int) and v.const >= extent):
            self.fail(
                node,
                f"index {v.const} is outside '{view.label}'; kernels count from 0 to the extent less one",
            )
        return v

    def bound(self, node):
        """A bound of a slice."""
        v = self.number(node)
        self.wanted(
            lambda: not t.is_float(v.dtype),
            node,
            "`{}` is not an integer; the bounds of a slice are integers",
            node,
        )
        return v


def _needs_branch(node):
    """Whether one lane may evaluate an expression only where the text says so."""
    return any(isinstance(n, (ast.Subscript, ast.Call)) for n in walk(node))


def _static_extent(bounds, extent):
    """The extent of a slice if all of it is known here, or None."""
    if not isinstance(extent, int) or not all(b is None or isinstance(b.const, int) for b in bounds):
        return None
    return len(range(extent)[slice(*(b and int(b.const) for b in bounds))])


def _equal(a, b):
    if not (isinstance(a, Known) and isinstance(b, Known)):
        return False
    try:
        return np.dtype(a.value) == np.dtype(b.value)
    except TypeError:
        return a.value is b.value
