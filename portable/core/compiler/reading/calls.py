"""Calls in kernels, read into the typed tree: casts, math, atomics and the other words, and functions that
are inlined.

A row of `words.ROWS` names the method here that reads a call of it.
"""

from __future__ import annotations

import ast
import math
import types as python_types

import numpy as np

from ...texts import elementary_complex
from ...language import words
from ....errors import LanguageError, ReadOnlyError
from . import foreign
from ...language import types as t
from ...language.types import Known
from .expressions import Expressions
from .known import DTYPES, layers_own, text_of
from .tree import Operation, Seen, View

_TO_NUMBA = (
    "a number (numba's functions take no views from kernels; pk.function({}) reads the text by the layer's"
    " rules, and takes them)"
)
_DTYPES = *t.DTYPES, *t.HELD, *t.PARTS
# bytes of one index's own arrays: those of some packs lie on a thread's stack at once
_MOST_PRIVATE = 1 << 15


class Calls(Expressions):
    """Needs from the class on top: `inline`, `unused`, `chains` (see build.py)."""

    def expr_Call(self, node):
        if isinstance(node.func, ast.Attribute):
            base = self.expr(node.func.value)
            if hasattr(base, "method"):
                return base.method(self, node)
            if isinstance(base, t.Complex) and node.func.attr == "conjugate" and not node.args:
                return self.conjugate(base)
            if not isinstance(base, (Known, t.Record)):
                self.fail(node, f"`{ast.unparse(node.func)}` cannot be called in a kernel", LanguageError)
            callee = self.attribute_of(base, node.func)
        else:
            callee = self.expr(node.func)
        if not isinstance(callee, Known):
            self.fail(
                node,
                f"`{ast.unparse(node.func)}` is {self.describe(callee)} and cannot be called",
                LanguageError,
            )
        return self.call_known(callee.value, node)

    def call_known(self, fn, node):
        word = words.meant(fn)
        fn = word.plain if word else fn
        inlined = getattr(fn, "portable_text", None)
        if inlined is None and (word and word.reads[0] == "inline" or layers_own(fn)):
            inlined = text_of(fn)
        if node.keywords and inlined is None:
            self.fail(
                node,
                f"`{ast.unparse(node)}`: keyword arguments are for functions marked with @pk.function",
                LanguageError,
            )
        if word and inlined is None:
            return getattr(self, "word_" + word.reads[0])(node, *word.reads[1:])
        if inlined is not None:
            args = self.arguments_of(inlined, node)
            if getattr(fn, "chain", False):
                self.chains += [a for a in args if isinstance(a, Operation)]
            return self.inline(inlined, args, node)
        if foreign.compiled(fn):
            return self.foreign(
                foreign.call_of(fn), [self.number(a, _TO_NUMBA.format(fn.__name__)) for a in node.args]
            )
        self.refuse_call(fn, node)

    def refuse_call(self, fn, node):
        """A call of what kernels do not know, with what could stand in its place."""
        name = ast.unparse(node.func)
        hint = f"; there are {', '.join(row.name for row in words.ROWS if row.line)}"
        if (getattr(fn, "__module__", None) or "").startswith(
            ("portable.core.", "portable.library.", "portable.random")
        ):
            hint = ", where one index or team is at work; it is for the host, before or after a launch"
        elif isinstance(fn, python_types.FunctionType):
            hint = "; mark it with @pk.function"
        elif name.startswith(("np.random.", "numpy.random.", "random.")):
            hint = "; numbered random numbers are in pk.random, as in pk.random.normal(seed, stream, draw)"
        self.fail(node, f"`{name}` cannot be called in a kernel{hint}", LanguageError)

    def foreign(self, callee, args):
        """A call of a function that numba compiles (numba/calls.py), whose results' dtypes numba finds."""
        call = self.operation("foreign", *args, attr=callee)
        n = callee.n_results
        if n is None:
            return call
        return tuple(self.operation("part", call, attr=k) for k in range(n)) or Known(None)

    def arguments_of(self, text, node):
        """The arguments of a call, in the order of the parameters, with defaults of those that are not
        given."""
        given, params = [(k.arg, k.value) for k in node.keywords], text.params
        for k, (name, _) in enumerate(given):
            if name not in params[len(node.args) :] or name in dict(given[:k]):
                self.fail(
                    node, f"'{text.name}' has no parameter '{name}' that is not given yet", LanguageError
                )
        values = {name: self.expr(value) for name, value in [*zip(params, node.args), *given]}
        values = self._defaults(text, node) | values
        if len(values) != len(params) or len(node.args) > len(params):
            optional = len(text.defaults)
            wanted = f"{len(params) - optional} to " * bool(optional) + str(len(params))
            self.fail(
                node,
                f"'{text.name}' takes {wanted} argument(s), but {len(node.args) + len(given)} were given",
            )
        return [values[name] for name in params]

    def _defaults(self, text, node):
        """Values of the last parameters, by their names."""
        names = text.params[len(text.params) - len(text.defaults) :]
        return {name: self.known(value, node) for name, value in zip(names, text.defaults)}

    def arguments(self, node, least, most=None, read=None):
        most = least if most is None else most
        if not least <= len(node.args) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            self.fail(
                node,
                f"`{ast.unparse(node.func)}` takes {wanted} argument(s), but {len(node.args)} were given",
            )
        return [(read or self.number)(a) for a in node.args]

    def word_range(self, node):
        self.fail(node, f"{ast.unparse(node.func)}(...) belongs in a for loop")

    def only_checked(self, node):
        if not self.asserts:
            self.fail(
                node,
                f'`{ast.unparse(node)}` is for the checked space alone, `with pk.use("checked")`',
                LanguageError,
            )

    def word_breakpoint(self, node):
        """A debugger's prompt, which knows the text's variables."""
        self.only_checked(node)
        seen = dict(self.frame.direct) | {name: self.read(name, node) for name in self.frame.variables}
        return self.operation(
            "breakpoint", attr=Seen({name.partition("@")[0]: v for name, v in seen.items()})
        )

    def word_print(self, node):
        self.only_checked(node)
        texts = [
            a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else None for a in node.args
        ]
        return self.operation(
            "print", *(self.number(a) for a, text in zip(node.args, texts) if text is None), attr=tuple(texts)
        )

    def word_static(self, node):
        (v,) = self.arguments(node, 1, read=self.expr)
        if not isinstance(v, Known) and getattr(v, "const", None) is None:
            self.fail(
                node,
                f"`{ast.unparse(node.args[0])}` is not known at compile time; pk.static wants a constant, "
                "or a kernel argument that was passed as pk.static(value)",
            )
        return v

    def word_cast(self, node, dtype):
        (v,) = self.arguments(node, 1)
        return v if v.dtype == dtype else self.counted("convert", self.cast(v, dtype))

    def word_where(self, node):
        c, a, b = self.arguments(node, 3, read=self.numeric)
        c = self.truth(self.number_of(c, node.args[0]))
        if isinstance(a, t.Complex) or isinstance(b, t.Complex):
            parts = zip(self.parts(a), self.parts(b))
            return t.Record((self.counted("select", self.select(c, x, y)) for x, y in parts), t.COMPLEX)
        return self.counted("select", self.select(c, a, b))

    def word_extreme(self, node, op, nan_wins):
        values = self.arguments(node, 2, 64)
        result = values[0]
        for v in values[1:]:
            result = self.counted("min" if op == "<" else "max", self.extreme(op, result, v, nan_wins))
        return result

    def word_abs(self, node):
        (v,) = self.arguments(node, 1, read=self.numeric)
        if isinstance(v, t.Complex):
            return self.operation("math", *v, attr=("hypot", False))
        if v.const is not None:
            return self.strong_const(abs(v.const), "int" if v.dtype == "bool" else v.dtype)
        return self.counted("abs", self.operation("abs", v))

    def word_len(self, node):
        v = self.expr(node.args[0]) if len(node.args) == 1 else None
        if isinstance(v, tuple) and not isinstance(v, t.Complex):
            return self.const(len(v))
        if isinstance(v, View):
            return self.extent(v.shape[0])
        self.fail(node, "len wants one view or tuple")

    def word_lanes(self, node, which):
        """any, all: over the lanes that move together."""
        (c,) = self.arguments(node, 1)
        c = self.truth(c)
        return c if c.const is not None else self.operation("lanes", c, attr=which, dtype="bool")

    def word_intrinsic(self, node, name, n):
        return self.counted(name, self.operation("intrinsic", *self.arguments(node, n), attr=name))

    def word_whole(self, node, name):
        """math.floor, math.ceil, math.trunc and int: whole numbers as integers."""
        (v,) = self.arguments(node, 1)
        return self.whole(v, name)

    def word_pow(self, node):
        base, exponent = self.arguments(node, 2)
        return self.power(base, exponent, node)

    def word_bits(self, node):
        (v,) = self.arguments(node, 1)
        self.wanted(lambda: t.is_float(v.dtype), node, "bits wants a float")
        return self.operation("bits", v)

    def word_from_bits(self, node, dtype):
        (v,) = self.arguments(node, 1)
        return self.operation("from_bits", v, attr=dtype, dtype=dtype)

    def word_math(self, node, name, n, fast=False):
        values = self.arguments(node, n, read=self.numeric if name == "exp" else None)
        if isinstance(values[0], t.Complex):
            return self.inline(text_of(elementary_complex.exponential), values, node)
        return self.operation("math", *values, attr=(name, fast))

    def word_atomic(self, node, op):
        n = 4 if op == "cas" else 3
        if len(node.args) != n:
            self.fail(
                node,
                f"`{ast.unparse(node.func)}` takes {n} arguments (view, index, ...), but {len(node.args)}"
                " were given",
            )
        view, indices = self._atomic_element(node)
        if view.dtype in ("bool", *t.HELD, *t.PARTS) or (
            op in ("and", "or", "xor") and t.is_float(view.dtype)
        ):
            self.fail(node, f"atomic_{op} is not defined for {view.dtype}")
        unused = self.unused is node  # the statement's own call, not one inside its arguments
        if view.scatter and (op not in ("add", "sub") or not unused):
            self.fail(
                node,
                f"'{view.label}' is a ScatterView here: it takes pk.atomic_add and pk.atomic_sub, whose"
                " result nobody sees",
            )
        values = [self.number(a) for a in node.args[2:]]
        self.writes()
        return self.operation(
            "atomic",
            *indices,
            *values,
            attr=(op, not unused),
            view=view,
            dtype=view.dtype,
            counts=f"atomic {op} {view.store or view.label}",
        )

    def _atomic_element(self, node):
        """(view, indices) of the element that an atomic changes."""
        view = self.expr(node.args[0])
        if not isinstance(view, View):
            self.fail(node, f"`{ast.unparse(node.args[0])}` is {self.describe(view)}; atomics work on views")
        self.check_writable(view, node)
        index = self.expr(node.args[1])
        indices = list(index) if isinstance(index, tuple) else [index]
        message = f"'{view.label}' has {len(view.shape)} dimension(s); its index must be as many integers"
        if len(indices) != len(view.shape) or not all(isinstance(i, Operation) for i in indices):
            self.fail(node, message)
        self.wanted(lambda: not any(t.is_float(i.dtype) for i in indices), node, message)
        return view, indices

    def check_writable(self, view, node):
        if view.readonly:
            self.fail(node, f"'{view.label}' is read-only here; pass a writable view", ReadOnlyError)

    def word_local(self, node):
        if len(node.args) != 2:
            self.fail(node, "local takes a shape and a dtype")
        shape = self.static_shape(node.args[0], "local")
        return self.private_array(shape, self.dtype_of(node.args[1]), node)

    def private_array(self, shape, dtype, node):
        """An array private to each lane: the lane is the last, contiguous index."""
        self.private_bytes += math.prod(shape) * (t.BITS[dtype] // 8 or 1)
        if self.private_bytes > _MOST_PRIVATE:
            self.fail(
                node,
                f"`{ast.unparse(node)}`: arrays of {self.private_bytes} bytes for each index; at most"
                f" {_MOST_PRIVATE} are possible",
            )
        return self.put(View(ast.unparse(node), dtype, list(shape), lanes_last=True, store="(local)"))

    def static_shape(self, node, what):
        v = self.expr(node)
        parts = v if isinstance(v, tuple) else (v,)
        if not all(isinstance(p, Operation) and isinstance(p.const, int) and p.const > 0 for p in parts):
            self.fail(
                node,
                f"the shape of {what} must be positive integers known at compile time, got"
                f" `{ast.unparse(node)}`",
            )
        return [p.const for p in parts]

    def dtype_of(self, node):
        v = self.expr(node)
        if isinstance(v, Known):
            name = DTYPES.get(v.value)
            if name is None and isinstance(v.value, (np.dtype, type)):
                name = np.dtype(v.value).name
            name = {"float": "float64"}.get(name, name)
            if name in _DTYPES:
                return name
        self.fail(
            node,
            f"`{ast.unparse(node)}` is not a dtype that kernels have ({', '.join(_DTYPES)})",
        )
