"""Build complex numbers into the typed tree: records of two numbers, on which operations act part by part."""

import ast
import functools

from ...texts import elementary_complex
from ...language.types import Complex, complex_of, is_float
from .operations import build
from .callables import text_of

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
_TEXTS = {"*": elementary_complex.product, "/": elementary_complex.quotient}  # for two complex numbers


def complex_operated(op, a, b, node):
    """Return `a op b` where at least one is complex; a real operand acts on each part of the other."""
    op = BINARY.get(type(op)) or type(op)
    real = [not isinstance(v, Complex) for v in (a, b)]
    if op == ast.Pow and real[1] and isinstance(b.const, int) and 0 <= b.const <= 64:
        return complex_power(a, b.const)
    if op == "+" or op == "-":
        return complex_sum(op, a, b)
    if op == "*" and True in real or op == "/" and real[1]:
        pairs = zip(*((v, v) if alone else v for v, alone in zip((a, b), real)))
        return complex_of(each_part(op, x, y) for x, y in pairs)
    if op not in _TEXTS:
        build.fail(node, f"`{ast.unparse(node)}`: complex numbers know + - * / and ** 0 to 64 alone")
    return build.inline(text_of(_TEXTS[op]), [complex_of(build.parts(v)) for v in (a, b)], node)


def each_part(op, x, y):
    """Return `x op y` for one part of each operand, rounded and counted as an operation of the source."""
    return build.rounded(build.counted(op, build.binary(op, x, y)))


def complex_sum(op, a, b):
    """Return `a + b` or `a - b`; with a real operand, the imaginary part of the other is kept or negated."""
    (x, u), (y, v) = build.parts(a), build.parts(b)
    if not isinstance(a, Complex):
        u = v if op == "+" else build.counted("neg", build.negate(v))
    elif isinstance(b, Complex):
        u = each_part(op, u, v)
    return complex_of((each_part(op, x, y), u))


def complex_power(base, n):
    """Return the n-th power of a complex number by repeated products."""
    times = functools.partial(complex_operated, ast.Mult(), node=None)
    return repeated_product(base, n, times) or build.python_value(1 + 0j, None)


def repeated_product(base, n, times):
    """Return the product of n equal factors by repeated squaring; None if n is 0."""
    result = None
    while n:
        if n & 1:
            result = base if result is None else times(result, base)
        n >>= 1
        base = times(base, base) if n else base
    return result


def complex_compared(op, a, b, node):
    if op not in ("==", "!="):
        build.refuse(
            node, f"`{ast.unparse(node)}`: complex numbers have no order; compare their parts, or abs(...)"
        )
    same = (build.compared(op, x, y) for x, y in zip(build.parts(a), build.parts(b)))
    return build.binary("&" if op == "==" else "|", *same)


def read_complex(node, dtype=None):
    """Build a call of complex with one number or two parts, or of pk.complex64 or pk.complex128."""
    values = build.arguments(node, 1, 1 if dtype else 2, build.numeric if len(node.args) == 1 else None)
    parts = build.parts(values[0]) if len(values) == 1 else values

    def part(v):
        if dtype:
            return build.cast(v, dtype)
        return v if is_float(v.dtype) else build.rounded(build.binary("*", v, 1.0))

    return complex_of(map(part, parts))


def conjugated(z):
    return complex_of((z[0], build.negate(z[1]))) if isinstance(z, Complex) else z
