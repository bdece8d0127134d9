"""Complex numbers, read into the typed tree: records of two numbers, on which operations act part by part."""

from __future__ import annotations

import ast

from ...texts import elementary_complex
from ....errors import LanguageError
from ...language import types as t
from .known import text_of
from .operations import Operations
from .tree import If, Set, Variable

BINARY = {
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
_TEXTS = {"*": elementary_complex.product, "/": elementary_complex.quotient}  # of two complex numbers


class Complexes(Operations):
    """Needs from the class on top: `expr`, `number_of`, `known`, `arguments`, `inline`, `_loop` (see
    build.py)."""

    def numeric(self, node):
        """The value of an expression that must be a number, which may be complex."""
        v = self.expr(node)
        return v if isinstance(v, t.Complex) else self.number_of(v, node)

    def parts(self, v):
        """The parts of a number, which may be real."""
        return v if isinstance(v, t.Complex) else (v, self.const(0.0))

    def complex_operated(self, op, a, b, node):
        """`a op b` of which one is complex: a real one acts on each part of the other."""
        op = BINARY.get(type(op)) or type(op)
        real = [not isinstance(v, t.Complex) for v in (a, b)]
        if op == ast.Pow and real[1] and isinstance(b.const, int) and 0 <= b.const <= 64:
            return self.complex_power(a, b.const)
        if op == "+" or op == "-":
            return self.complex_sum(op, a, b)
        if op == "*" and True in real or op == "/" and real[1]:
            pairs = zip(*((v, v) if alone else v for v, alone in zip((a, b), real)))
            return t.Record((self._each(op, x, y) for x, y in pairs), t.COMPLEX)
        if op not in _TEXTS:
            self.fail(node, f"`{ast.unparse(node)}`: complex numbers know + - * / and ** 0 to 64 alone")
        factors = [t.Record(self.parts(v), t.COMPLEX) for v in (a, b)]
        return self.inline(text_of(_TEXTS[op]), factors, node)

    def _each(self, op, x, y):
        """An operation of the text on a part of each side."""
        return self.rounded(self.counted(op, self.binary(op, x, y)))

    def complex_sum(self, op, a, b):
        """`a + b` or `a - b`; the imaginary part of a complex one that meets a real one is only negated."""
        (x, u), (y, v) = self.parts(a), self.parts(b)
        if not isinstance(a, t.Complex):
            u = v if op == "+" else self.counted("neg", self.negate(v))
        elif isinstance(b, t.Complex):
            u = self._each(op, u, v)
        return t.Record((self._each(op, x, y), u), t.COMPLEX)

    def complex_power(self, base, n):
        """A product of n factors."""
        result = None
        while n:
            if n & 1:
                result = base if result is None else self.complex_operated(ast.Mult(), result, base, None)
            n >>= 1
            base = self.complex_operated(ast.Mult(), base, base, None) if n else base
        return result or self.known(1 + 0j, None)

    def complex_compared(self, op, a, b, node):
        if op not in ("==", "!="):
            self.fail(
                node,
                f"`{ast.unparse(node)}`: complex numbers have no order; compare their parts, or abs(...)",
                LanguageError,
            )
        same = (self.compared(op, x, y) for x, y in zip(self.parts(a), self.parts(b)))
        return self.binary("&" if op == "==" else "|", *same)

    def chosen(self, condition, parts):
        """One of two complex numbers, each evaluated in a block of its own where the condition lets it."""
        (then, a), (otherwise, b) = parts
        home, variables = self.block, [Variable("the choice") for _ in t.COMPLEX]
        self.put(If(condition, then, otherwise, (True, True)))
        for self.block, value in ((then, a), (otherwise, b)):
            for variable, v in zip(variables, self.parts(value)):
                self.put(Set(variable, v, home, self.block, self._loop(), at=self.at))
        self.block = home
        return t.Record((self.operation("get", attr=variable) for variable in variables), t.COMPLEX)

    # ---- words
    def word_complex(self, node, dtype=None):
        """complex(...) of a number or of two parts, and pk.complex64, pk.complex128."""
        values = self.arguments(node, 1, 1 if dtype else 2, self.numeric if len(node.args) == 1 else None)
        parts = self.parts(values[0]) if len(values) == 1 else values
        return t.Record((self.cast(v, dtype) if dtype else self.as_float(v) for v in parts), t.COMPLEX)

    def as_float(self, v):
        """A number as a float of its own dtype, or as a weak one."""
        return v if t.is_float(v.dtype) else self.rounded(self.binary("*", v, self.const(1.0)))

    def word_conjugate(self, node):
        (z,) = self.arguments(node, 1, read=self.numeric)
        return self.conjugate(z)

    def conjugate(self, z):
        return t.Record((z[0], self.negate(z[1])), t.COMPLEX) if isinstance(z, t.Complex) else z
