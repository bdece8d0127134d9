"""Draw programs three times: with numbers as arguments, as pk.static, and as constants of the source.

The results must be equal. In a float32 kernel a literal that is combined with a float64 keeps its digits,
which an argument does not: there float64 is made of expressions that are no longer weak floats.
"""

import dataclasses
import math

import numpy as np
from hypothesis import strategies as st

from .grammar import Grammar, indented, templates
from .program import HEADER, Program

N = 11
REAL = [0.1, 1 / 3, 2.5, -1.5, 3.0, 16777217.0, 1e40, 1e-46, -0.0, 0.0, 4294967295.5, -(2.0**31) - 1, 1e308]
REAL += [2.0**53 + 2, 2.0**63, 1e-310, 0.7, -1e-17, math.inf, -math.inf]
WHOLE = [1, 0, 3, 7, 31, 40, 2**24 + 1, 2**31 - 1, 46341]
LARGE = [5, -1, 2**32 - 1, 2**53 + 1, -(2**62) - 1, 2**63 - 1, -(2**31) - 1, 2**60 + 2**36 + 1]

SHAPES = {
    "v": templates(
        """n; m; n; m; 0.1; 3.0; {v} * {v}; {v} + {v}; {v} - {v}; {v} / {v}; {v} // {v}; {v} % {v};
        {v} * {v} + {v}; {v} - {v} * {v}; -{v}; abs({v}); pk.float32({v}); abs(pk.float32({v}));
        min({v}, {v}); max({v}, {v}); pk.minimum({v}, {v}); pk.maximum({v}, {v}); pk.clip({v}, -1.5, 2.0);
        same({v} * {v}); {v} if {c} else {v}; pk.where({c}, {v}, {v}); {v} and {v}; {v} or {v};
        pk.sqrt(abs({v})); np.floor({v}); np.rint({v}); w * {v}; w / 3; 1 / (w + 1); {v} + w; pk.float32(w);
        pk.float32(big); float(big); float(pk.float32({v})); pk.fma({v}, {v}, {v}); float({i})"""
    ),
    "f": templates(
        """{v}; {v} * {v} + a[i]; a[i] - {v} * {v}; {v} * a[i] + {v}; {v} * a[i] - {v} * {v};
        min({v}, a[i]); pk.where(a[i] < {v}, {v}, a[i]); {v} if a[i] < {v} else a[i]; a[i] % {v};
        a[i] // {v}; pk.float64(pk.float32({v})); pk.float64(pk.float32({v}) + pk.float32({v}));
        pk.float64({i}); pk.float64(pk.float32({v})) * 3.0; pk.float64({u}); pk.float64(pk.float32(big))"""
    ),
    "i": templates(
        """pk.int32({v}); pk.int64({v}); int({v}); math.floor({v}); math.ceil({v}); round({v});
        math.trunc({v}); pk.int32(big); pk.int64(big); w // 7; w % 7; -w; ~w; w << 3; w >> 2; w & 5;
        abs(-w); pk.int32(w) * pk.int32(w); -pk.int32(big); abs(pk.int32(big)); pk.int32(w) + pk.int32(w);
        True + w; w * (w % 9) - 3; min(w, 7); int({c}); pk.int32(w) // pk.int32(-2);
        pk.int32(w) % pk.int32(w); w if {c} else 5; -8 >> (w % 9); pk.int32(pk.uint32(big));
        k[i] if w else k[i]; w % 99 * k[i]; pk.bits(pk.float32({v})) if {v} == {v} else 0"""
    ),
    "u": templates(
        """pk.uint32({v}); pk.uint64({v}); pk.uint32(big); pk.uint64(big); pk.uint32(w) * pk.uint32(big);
        -pk.uint32(w); ~pk.uint32(w); min(pk.uint32(w), u[i]); pk.uint32(w) // 3; pk.uint32(big) >> 3;
        pk.uint32(w) - pk.uint32(big); u[i] + w; u[i] // (w + 1)"""
    ),
    "c": templates(
        """{v} < {v}; pk.float32({v}) == {v}; {v} == pk.float32({v}); not {v}; bool({v}); {v} != {v};
        w == {v}; w < {v}; big == {v}; big < {v}; pk.int32(w) == w; 0.0 < {v} <= {v};
        pk.int32(big) < pk.int32(w); {c} and {c}; pk.uint32(big) < w; pk.isnan({v}); pk.isinf({v}); w != 3;
        pk.int64(big) == big"""
    ),
}


class Constants(Grammar):
    """Draw expressions of numbers that may be constants."""

    def expr(self, kind, depth=2):
        shapes = self.shapes[kind]
        return f"({self.fill(self.pick(shapes if depth > 0 else SIMPLE[kind]), depth - 1)})"


SIMPLE = {"v": ["n", "m", "0.1"], "i": ["w"], "u": ["pk.uint32(w)"], "c": ["n < m"]}


def written(value):
    """Return a number as the source of a module's constant."""
    return repr(value) if math.isfinite(value) else "-math.inf" if value < 0 else "math.inf"


@st.composite
def programs(draw):
    kinds = draw(st.sampled_from([("float32",) * 2, ("float64",) * 2, ("float64", "float32")]))
    dtypes = {"f": kinds[0], "i": draw(st.sampled_from(["int64", "int32"])), "u": "uint32"}
    g = Constants(draw, dtypes, N)
    g.shapes = SHAPES
    names = {"f": "fo", "i": "io", "u": "uo", "c": "co"}
    body = ["unused = wide(i)"]
    for row in range(draw(st.integers(2, 5))):
        kind = g.pick("fffiiucf")
        text, target = g.expr(kind, g.number(1, 3)), names[kind]
        if g.chance(2):  # a product may be assigned to a name
            body.append(f"t{row} = {text}")
            text = f"t{row} + a[i]" if kind == "f" else f"t{row}"
        if kind == "f" and g.chance(3):
            target = g.pick(["go", "io"])
        body.append(f"{target}[{row}, i] = {text}")
    head = HEADER + "@pk.function\ndef same(t):\n    return t\n\n\n"
    arrays = "i, a, k, u, fo, go, io, uo, co"
    lines = "\n".join(indented(body)) + "\n"
    numbers = [draw(st.sampled_from(values)) for values in (REAL, REAL, WHOLE, LARGE)]
    rng = np.random.default_rng(1)
    args = [
        rng.choice(np.array([0.5, -1.75, 0.1, 1e30, -0.0, 3.0]), N).astype(dtypes["f"]),
        rng.integers(-40, 60, N).astype(dtypes["i"]),
        rng.integers(0, 2**32, N).astype(dtypes["u"]),
        np.zeros((5, N), dtypes["f"]),
        np.zeros((5, N), kinds[1]),
        np.zeros((5, N), dtypes["i"]),
        np.zeros((5, N), dtypes["u"]),
        np.zeros((5, N), bool),
    ]
    pad = np.zeros(1, np.int32)
    text = f"{head}@pk.kernel\ndef kernel({arrays}, n, m, w, big, pad):\n{lines}"
    given = Program("constant", text, ("range", 0, N), [*args, *numbers, pad])
    known = dataclasses.replace(given, args=[*args, *(("static", v) for v in numbers), pad])
    values = "".join(f"{name} = {written(v)}\n" for name, v in zip(("n", "m", "w", "big"), numbers))
    text = f"{head}{values}\n\n@pk.kernel\ndef kernel({arrays}, pad):\n{lines}"
    inside = dataclasses.replace(given, text=text, args=[*args, pad])
    return dataclasses.replace(given, again=(given, known, inside))
