"""Expressions of the kernel language."""

from __future__ import annotations

import ast
import math
import types as python_types

import numpy as np

from .. import words
from ..errors import LanguageError, LoweringError
from . import types as t
from .known import CASTS, WORDS, Known, constant_tuple, elementary, text_of
from .memory import Memory
from .types import UNIFORM, VARYING
from .values import Value, ViewValue

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
        return self.binary(op, self.number(node.left), self.number(node.right))

    def power(self, node):
        base, exponent = self.number(node.left), self.number(node.right)
        n = exponent.const
        if base.const is not None and n is not None:
            return self.const(base.const ** n)
        if isinstance(n, int) and 0 <= n <= 64:
            result = None
            while n:
                if n & 1:
                    result = base if result is None else self.binary("*", result, base)
                n >>= 1
                base = self.binary("*", base, base) if n else base
            return result if result is not None else self.cast(self.const(1), base.dtype)
        if n == 0.5:
            return self.math("sqrt", [base], node)
        if not t.is_float(t.promote(base.dtype, exponent.dtype)):
            self.fail(node, "an integer power needs a constant exponent between 0 and 64; cast to float for others")
        return self.math("pow", [base, exponent], node)

    def expr_UnaryOp(self, node):
        v = self.number(node.operand)
        if isinstance(node.op, ast.Not):
            return self.logical_not(v)
        if isinstance(node.op, ast.USub):
            return self.negate(v)
        return self.invert(v) if isinstance(node.op, ast.Invert) else v

    def expr_Compare(self, node):
        if any(type(op) not in _COMPARE for op in node.ops):
            return self.identity_test(node)
        values = [node.left, *node.comparators]
        if len(node.ops) > 1:
            parts = [ast.copy_location(ast.Compare(a, [op], [b]), node) for a, op, b in zip(values, node.ops, values[1:])]
            return self.expr(ast.copy_location(ast.BoolOp(ast.And(), parts), node))
        a, b = self.expr(node.left), self.expr(node.comparators[0])
        if isinstance(a, Known) or isinstance(b, Known):  # for example x.dtype == pk.float32
            return self.const(_equal(a, b) == isinstance(node.ops[0], ast.Eq))
        a, b = self.number_of(a, node.left), self.number_of(b, node.comparators[0])
        return self.compare(_COMPARE[type(node.ops[0])], a, b)

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
        """and/or as conditions; the right side's memory accesses happen only where the left side lets them."""
        conjunction = isinstance(node.op, ast.And)
        result = self.condition(node.values[0])
        for part in node.values[1:]:
            if result.const is not None:
                result = self.condition(part) if result.const == conjunction else result
            elif self.W > 1 and result.kind != UNIFORM:
                result = self.masked_and_or(conjunction, result, part)
            elif _touches_memory(part):
                result = self.branching_and_or(conjunction, result, part)
            else:
                right = self.condition(part)
                kind = self.kind_of(result, right)
                x, y = self.get(result, "bool", kind), self.get(right, "bool", kind)
                result = Value("bool", kind, self.b.and_(x, y) if conjunction else self.b.or_(x, y))
        return result

    def masked_and_or(self, conjunction, left, part):
        outer, alive = self.mask, self.alive
        self.mask = self.mask_and(outer, left) if conjunction else self.mask_without(outer, left)
        self.alive = False
        right = self.get(self.condition(part), "bool", VARYING)
        self.mask, self.alive = outer, alive
        x = self.get(left, "bool", VARYING)
        return Value("bool", VARYING, self.b.and_(x, right) if conjunction else self.b.or_(x, right))

    def branching_and_or(self, conjunction, left, part):
        return self.branch_value(left if conjunction else self.logical_not(left), lambda: self.condition(part),
                                 lambda: Value("bool", UNIFORM, None, not conjunction))

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
        if _touches_memory(node.body) or _touches_memory(node.orelse):
            return self.branch_value(c, lambda: self.number(node.body), lambda: self.number(node.orelse))
        return self.select(c, self.number(node.body), self.number(node.orelse))

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
            return self.load(view, items)
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
            items.append(v)
        return items

    def slice_of(self, part, extent, node):
        if part.step is not None:
            self.fail(node, "a slice with a step is not for kernels", LanguageError)
        start = 0 if part.lower is None else self.index_number(self.uniform(part.lower))
        stop = extent if part.upper is None else self.index_number(self.uniform(part.upper))
        return start, stop

    def uniform(self, node):
        v = self.number(node)
        if v.kind != UNIFORM and self.W > 1:
            self.fail(node, f"`{ast.unparse(node)}` differs between lanes; a part of a view is the same for all of them")
        return v

    # ---- calls
    def expr_Call(self, node):
        if isinstance(node.func, ast.Attribute):
            base = self.expr(node.func.value)
            if hasattr(base, "method"):
                return base.method(self, node)
            if not isinstance(base, Known):
                self.fail(node, f"`{ast.unparse(node.func)}` cannot be called in a kernel", LanguageError)
        callee = self.expr(node.func)
        if not isinstance(callee, Known):
            self.fail(node, f"`{ast.unparse(node.func)}` is {self.describe(callee)} and cannot be called", LanguageError)
        return self.call_known(callee.value, node)

    def call_known(self, fn, node):
        if node.keywords:
            self.fail(node, f"`{ast.unparse(node)}`: keyword arguments are not for kernels", LanguageError)
        word = WORDS.get(fn) if isinstance(fn, (python_types.FunctionType, python_types.BuiltinFunctionType, np.ufunc, type)) else None
        if word is not None:
            return getattr(self, "word_" + word[0])(node, *word[1:])
        inlined = getattr(fn, "portable_text", None)
        if inlined is None and elementary(fn):
            inlined = text_of(fn)
        if inlined is not None:
            return self.inline_call(inlined, node)
        name = ast.unparse(node.func)
        hint = "; mark it with @pk.function" if isinstance(fn, python_types.FunctionType) else ""
        self.fail(node, f"`{name}` cannot be called in a kernel{hint}", LanguageError)

    def inline_call(self, text, node):
        args = [self.expr(a) for a in node.args]
        if len(args) != len(text.params):
            self.fail(node, f"'{text.name}' takes {len(text.params)} argument(s), but {len(args)} were given")
        return self.inline(text, args, node)

    def arguments(self, node, least, most=None):
        most = least if most is None else most
        if not least <= len(node.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.fail(node, f"`{ast.unparse(node.func)}` takes {wanted} argument(s), but {len(node.args)} were given")
        return [self.number(a) for a in node.args]

    # each word's method is named in known.WORDS
    def word_range(self, node):
        self.fail(node, "range(...) belongs in a for loop")

    def word_static(self, node):
        v, = self.arguments(node, 1)
        if v.const is None:
            self.fail(node, f"`{ast.unparse(node.args[0])}` is not known at compile time; pk.static wants a constant, "
                            "or a kernel argument that was passed as pk.static(value)")
        return v

    def word_cast(self, node, dtype):
        v, = self.arguments(node, 1)
        return self.cast(v, dtype)

    def word_where(self, node):
        c, a, b = self.arguments(node, 3)
        return self.select(self.truth(c), a, b)

    def word_extreme(self, node, op, nan_wins):
        values = self.arguments(node, 2, 64)
        result = values[0]
        for v in values[1:]:
            result = self.extreme(op, result, v, nan_wins)
        return result

    def extreme(self, op, a, b, nan_wins):
        if a.const is not None and b.const is not None:
            return self.const((min if op == "<" else max)(a.const, b.const))
        dtype = t.promote(a.dtype, b.dtype)
        if nan_wins and t.is_float(dtype):
            kind = self.kind_of(a, b)
            name = "minimum" if op == "<" else "maximum"
            return Value(dtype, kind, self.intrinsic(name, [self.get(a, dtype, kind), self.get(b, dtype, kind)]))
        if nan_wins:
            return self.select(self.compare(op, a, b), a, b)
        return self.select(self.compare(op, b, a), b, a)  # Python's min and max: the first unless a later one is better

    def word_clip(self, node):
        x, low, high = self.arguments(node, 3)
        return self.extreme("<", self.extreme(">", x, low, True), high, True)

    def word_abs(self, node):
        v, = self.arguments(node, 1)
        if v.const is not None:
            return self.const(abs(v.const))
        if t.is_float(v.dtype):
            return Value(v.dtype, v.kind, self.intrinsic("fabs", [v.ir]))
        if v.dtype in t.UNSIGNED:
            return v
        return self.select(self.compare("<", v, self.const(0)), self.negate(v), v)

    def word_len(self, node):
        v = self.expr(node.args[0]) if len(node.args) == 1 else None
        if isinstance(v, tuple):
            return self.const(len(v))
        if isinstance(v, ViewValue):
            return self.extent(v.shape[0])
        self.fail(node, "len wants one view or tuple")

    def word_lanes(self, node, which):
        """any, all: over the lanes that move together."""
        c, = self.arguments(node, 1)
        c = self.truth(c)
        if self.W == 1 or c.kind == UNIFORM:
            return c
        c = self.get(c, "bool", VARYING)
        if which == "any":
            return Value("bool", UNIFORM, self.any_lane(c if self.mask is None else self.b.and_(c, self.mask)))
        off = self.b.not_(c)
        return Value("bool", UNIFORM, self.b.not_(self.any_lane(off if self.mask is None else self.b.and_(off, self.mask))))

    def word_round(self, node, name):
        return self.float_intrinsic(name, self.arguments(node, 1))

    def word_whole(self, node, name):
        """math.floor, math.ceil, math.trunc and int: whole numbers as integers."""
        v, = self.arguments(node, 1)
        if not t.is_float(v.dtype):
            return self.cast(v, "int") if v.dtype == "bool" else v
        if v.const is not None:
            return self.const({"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}[name](v.const))
        return self.cast(v if name == "trunc" else self.float_intrinsic(name, [v]), "int")

    def word_fma(self, node):
        return self.float_intrinsic("fma", self.arguments(node, 3))

    def word_copysign(self, node):
        return self.float_intrinsic("copysign", self.arguments(node, 2))

    def float_intrinsic(self, name, values):
        dtype = "float"
        for v in values:
            dtype = t.promote(dtype, v.dtype)
        kind = self.kind_of(*values)
        return Value(dtype, kind, self.intrinsic(name, [self.get(v, dtype, kind) for v in values]))

    def word_isnan(self, node):
        v, = self.arguments(node, 1)
        return self.compare("!=", v, v)

    def word_isfinite(self, node):
        v, = self.arguments(node, 1)
        if not t.is_float(v.dtype):
            return self.const(True)
        size = Value(v.dtype, v.kind, self.intrinsic("fabs", [self.get(v)]))
        return self.compare("<", size, self.const(math.inf))

    def word_bits(self, node):
        v, = self.arguments(node, 1)
        dtype = self.strong(v.dtype)
        if not t.is_float(dtype):
            self.fail(node, f"bits wants a float, got {dtype}")
        return self._reinterpret(v, dtype, "int32" if dtype == "float32" else "int64")

    def word_from_bits(self, node, dtype):
        v, = self.arguments(node, 1)
        integer = "int32" if dtype == "float32" else "int64"
        return self._reinterpret(self.cast(v, integer), integer, dtype)

    def _reinterpret(self, v, dtype, to):
        kind = VARYING if v.kind != UNIFORM else UNIFORM
        x = self.get(v, dtype, kind)
        return Value(to, kind, self.b.bitcast(x, self.type_of(to, kind)))

    def word_math(self, node, name):
        return self.math(name, self.arguments(node, 2 if name in ("pow", "hypot") else 1), node)

    def math(self, name, values, node):
        """An elementary function: LLVM's square root, or the layer's own text inlined."""
        dtype = "float"
        for v in values:
            dtype = t.promote(dtype, v.dtype)
        if name == "sqrt":
            return self.float_intrinsic("sqrt", values)
        values = [self.cast(v, self.strong(dtype)) for v in values]
        if self.fastmath:
            native = self.target.fast_math(self, name, values)
            if native is not None:
                return native
        text = self.elementary_text(name, self.strong(dtype), node)
        result = self.inline(text, values, node)
        return Value(dtype, result.kind, result.ir, result.const) if t.is_weak(dtype) else result

    def word_atomic(self, node, op):
        n = 4 if op == "cas" else 3
        if len(node.args) != n:
            self.fail(node, f"`{ast.unparse(node.func)}` takes {n} arguments (view, index, ...), but {len(node.args)} were given")
        view = self.expr(node.args[0])
        if not isinstance(view, ViewValue):
            self.fail(node, f"`{ast.unparse(node.args[0])}` is {self.describe(view)}; atomics work on views")
        self.check_writable(view, node)
        index = self.expr(node.args[1])
        indices = list(index) if isinstance(index, tuple) else [index]
        if len(indices) != len(view.shape) or not all(isinstance(i, Value) and not t.is_float(i.dtype) for i in indices):
            self.fail(node, f"'{view.label}' has {len(view.shape)} dimension(s); its index must be as many integers")
        if view.dtype == "bool" or (op in ("and", "or", "xor") and t.is_float(view.dtype)):
            self.fail(node, f"atomic_{op} is not defined for {view.dtype}")
        values = [self.number(a) for a in node.args[2:]]
        expected = values[0] if op == "cas" else None
        return self.atomic(op, view, indices, values[-1], expected, want_old=not self.result_unused)

    def check_writable(self, view, node):
        if view.readonly:
            self.fail(node, f"'{view.label}' is read-only here; pass a writable view")

    def word_local(self, node):
        if len(node.args) != 2:
            self.fail(node, "local takes a shape and a dtype")
        shape = self.static_shape(node.args[0], "local")
        return self.private_array(shape, self.dtype_of(node.args[1]), node)

    def static_shape(self, node, what):
        v = self.expr(node)
        parts = v if isinstance(v, tuple) else (v,)
        if not all(isinstance(p, Value) and isinstance(p.const, int) and p.const > 0 for p in parts):
            self.fail(node, f"the shape of {what} must be positive integers known at compile time, got `{ast.unparse(node)}`")
        return [p.const for p in parts]

    def dtype_of(self, node):
        v = self.expr(node)
        if isinstance(v, Known):
            name = CASTS.get(v.value)
            if name is None and isinstance(v.value, (np.dtype, type)):
                name = np.dtype(v.value).name
            name = {"int": "int64", "float": "float64"}.get(name, name)
            if name in t.DTYPES:
                return name
        self.fail(node, f"`{ast.unparse(node)}` is not a dtype that kernels have ({', '.join(t.DTYPES)})")


def _equal(a, b):
    if not (isinstance(a, Known) and isinstance(b, Known)):
        return False
    try:
        return np.dtype(a.value) == np.dtype(b.value)
    except TypeError:
        return a.value is b.value


def _touches_memory(node):
    return any(isinstance(n, (ast.Subscript, ast.Call)) for n in ast.walk(node))
