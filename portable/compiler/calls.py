"""Calls in kernels: casts, math, atomics and the other words, and functions that are inlined.

`known.WORDS` names for each callable the method here that emits it.
"""

from __future__ import annotations

import ast
import math
import types as python_types

import numpy as np

from .. import elementary, words
from ..errors import LanguageError, ReadOnlyError
from . import types as t
from .expressions import Expressions
from .known import CASTS, WORDS, Known, layers_own, text_of
from .types import UNIFORM, VARYING
from .values import Value, ViewValue


class Calls(Expressions):
    """Needs from the class on top: `inline`, `target`, `private_array` (see frames.py)."""

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
        word = WORDS.get(fn) if fn.__hash__ is not None else None
        if word is not None:
            return getattr(self, "word_" + word[0])(node, *word[1:])
        inlined = getattr(fn, "portable_text", None)
        if inlined is None and layers_own(fn):
            inlined = text_of(fn)
        if inlined is not None:
            args = [self.expr(a) for a in node.args]
            if len(args) != len(inlined.params):
                self.fail(node, f"'{inlined.name}' takes {len(inlined.params)} argument(s), but {len(args)} were given")
            if getattr(fn, "chain", False) and any(getattr(a, "kind", t.UNIFORM) != t.UNIFORM for a in args):
                self.facts.learn("chain", True)
            return self.inline(inlined, args, node)
        name = ast.unparse(node.func)
        hint = "; mark it with @pk.function" if isinstance(fn, python_types.FunctionType) else ""
        self.fail(node, f"`{name}` cannot be called in a kernel{hint}", LanguageError)

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
        result = self.cast(v, dtype)
        return result if self.strong(v.dtype) == self.strong(dtype) else self.counted("convert", result)

    def word_where(self, node):
        c, a, b = self.arguments(node, 3)
        return self.counted("select", self.select(self.truth(c), a, b))

    def word_extreme(self, node, op, nan_wins):
        values = self.arguments(node, 2, 64)
        result = values[0]
        for v in values[1:]:
            result = self.counted("min" if op == "<" else "max", self.extreme(op, result, v, nan_wins))
        return result

    def extreme(self, op, a, b, nan_wins):
        dtype = t.promote(a.dtype, b.dtype)
        if a.const is not None and b.const is not None:
            choose = ((words.minimum if op == "<" else words.maximum) if nan_wins else (min if op == "<" else max))
            return self.strong_const(t.converted(choose(a.const, b.const), dtype), dtype)
        if nan_wins and t.is_float(dtype):
            kind = self.kind_of(a, b)
            name = "minimum" if op == "<" else "maximum"
            return Value(dtype, kind, self.intrinsic(name, [self.get(a, dtype, kind), self.get(b, dtype, kind)]))
        if nan_wins:
            return self.select(self.compare(op, a, b), a, b)
        return self.select(self.compare(op, b, a), b, a)  # Python's min and max: the first unless a later one is better

    def word_clip(self, node):
        x, low, high = self.arguments(node, 3)
        return self.counted("min", self.extreme("<", self.counted("max", self.extreme(">", x, low, True)), high, True))

    def word_abs(self, node):
        v, = self.arguments(node, 1)
        if v.const is not None:
            dtype = "int" if v.dtype == "bool" else v.dtype
            return self.strong_const(t.converted(abs(v.const), dtype), dtype)
        if t.is_float(v.dtype):
            return self.counted("abs", Value(v.dtype, v.kind, self.intrinsic("fabs", [v.ir])))
        if v.dtype in t.UNSIGNED:
            return v
        return self.counted("abs", self.select(self.compare("<", v, self.const(0)), self.negate(v), v))

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
        c = c if which == "any" else self.b.not_(c)
        some = self.any_lane(c if self.mask is None else self.b.and_(c, self.mask))
        return Value("bool", UNIFORM, some if which == "any" else self.b.not_(some))

    def word_intrinsic(self, node, name, n):
        return self.float_intrinsic(name, self.arguments(node, n))

    def word_whole(self, node, name):
        """math.floor, math.ceil, math.trunc and int: whole numbers as integers."""
        v, = self.arguments(node, 1)
        if not t.is_float(v.dtype):
            return self.cast(v, "int") if v.dtype == "bool" else v
        if v.const is not None:
            round_ = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}[name]
            return self.const(round_(v.const) if abs(v.const) < 2.0**62 else t.whole(v.const, "int"))
        return self.counted("convert", self.cast(v if name == "trunc" else self.float_intrinsic(name, [v]), "int"))

    def float_intrinsic(self, name, values):
        dtype, kind = t.common_float(values), self.kind_of(*values)
        return self.counted(name, Value(dtype, kind, self.intrinsic(name, [self.get(v, dtype, kind) for v in values])))

    def word_isnan(self, node):
        v, = self.arguments(node, 1)
        return self.compared("!=", v, v)

    def word_isfinite(self, node):
        v, = self.arguments(node, 1)
        if not t.is_float(v.dtype):
            return self.const(True)
        size = Value(v.dtype, v.kind, self.intrinsic("fabs", [self.get(v)]))
        return self.compared("<", size, self.const(math.inf))

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

    def float_division(self, op, a, b, dtype):
        """Python's // and % of floats, by the layer's own text."""
        double = self.strong(dtype) == "float64"
        values = [self.cast(v, self.strong(dtype)) for v in (a, b)]
        text = text_of(elementary.divmod_f64 if double else elementary.divmod_f32)
        result = self.inline(text, values, f"{op} {double} {[v.kind for v in values]}")[op == "%"]
        return Value(dtype, result.kind, result.ir)

    def word_math(self, node, name, fast=False):
        return self.math(name, self.arguments(node, 2 if name == "pow" else 1), node, fast)

    def math(self, name, values, node, fast=False):
        """An elementary function: LLVM's square root, or the layer's own text inlined."""
        if name == "sqrt":
            return self.float_intrinsic("sqrt", values)
        dtype = t.common_float(values)
        values = [self.cast(v, self.strong(dtype)) for v in values]
        fast = fast or self.fastmath
        if fast:
            native = self.target.fast_math(self, name, values)
            if native is not None:
                return native
        pair = fast and elementary.FAST.get(name) or elementary.FUNCTIONS.get(name)
        if pair is None:
            self.fail(node, f"'{name}' is not available in kernels yet", LanguageError)
        text = text_of(pair[self.strong(dtype) == "float64"])
        outer, self.float_dtype = self.float_dtype, self.strong(dtype)  # constants among themselves are of the function's dtype
        result = self.inline(text, values, node)
        self.float_dtype = outer
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
        unused = self.result_unused is node  # the statement's own call, not one inside its arguments
        if view.scatter and (op not in ("add", "sub") or not unused):
            self.fail(node, f"'{view.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub, whose result nobody sees")
        values = [self.number(a) for a in node.args[2:]]
        expected = values[0] if op == "cas" else None
        old = self.atomic(op, view, indices, values[-1], expected, want_old=not unused)
        return self.counted(f"atomic {op} {view.store or view.label}", old, view.dtype)

    def check_writable(self, view, node):
        if view.readonly:
            self.fail(node, f"'{view.label}' is read-only here; pass a writable view", ReadOnlyError)

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
