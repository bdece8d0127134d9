"""Draw programs of vectors, slices of rows, and records that kernels make, in control flow of every kind.

A line that ends in `  #@ TEXT` is TEXT to the oracle, which supports only numbers: it has a name for each
number of a vector and each field of a record.
"""

import re

import numpy as np
from hypothesis import strategies as st

from .grammar import Grammar, helpers, indented
from .program import HEADER, Program
from .ranges import LENGTH, draw_dtypes

WIDTH = 4  # of the rows
VECTORS = {"vec1": 2, "vec2": 2, "vec3": 3, "vec4": 3}
FORMS = ["A * s + B", "s - A * B", "A * B - B * s", "-A", "A / (abs(B) + s * s + 1.0)", "abs(A) - s"]
FORMS += ["pk.minimum(A, s) * B", "pk.where(c, A, B)", "np.floor(A) + pk.clip(B, -2.0, s)", "(A + B) * 0.5"]
CLASSES = """class Pair(NamedTuple):
    a: float
    m: int = 3


@pk.function
def turn(v, t):
    return pk.vector(v[1] * t, -v[0])


"""


def plain_of(text):
    """Return a program's source in terms of single numbers."""
    text = re.sub(r"^( *)\S.*?  #@ (.*)$", r"\1\2", text, flags=re.M)
    text = re.sub(r"\b(vec\d)\[(\d)\]", r"\1_\2", text)
    text = re.sub(r"class Pair.*?\n\n\n@pk.function\ndef turn.*?\n\n\n", "", text, flags=re.S)
    return re.sub(r"\b(rec\d)\.(\w)", r"\1_\2", text)


def both(line, plain):
    return f"{line}  #@ {plain}"


class Small(Grammar):
    """Draw statements of small values, in addition to the others."""

    def kinds(self, depth):
        small = "form form vector product_of index slice record".split()
        return [*super().kinds(depth), *small * 2]

    def numbers(self, name):
        return [f"{name}_{k}" for k in range(VECTORS[name])]

    def alike(self, n):
        return self.pick([name for name, length in VECTORS.items() if length == n])

    def make_vector(self, depth):
        """Draw a vector of numbers, of a row, of a choice, or of a function."""
        name = self.pick(list(VECTORS))
        n, to = VECTORS[name], ", ".join(self.numbers(name))
        how = self.pick(["numbers", "row", "choice", *(["turn"] if n == 2 else [])])
        if how == "numbers":
            values = ", ".join(self.settled("f", 1) for _ in range(n))
            return [both(f"{name} = pk.vector({values})", f"{to} = {values}")]
        if how == "row":
            low = self.number(0, WIDTH - n)
            values = ", ".join(f"rows[i, {low + k}]" for k in range(n))
            return [both(f"{name} = pk.vector(rows[i, {low}:{low + n}])", f"{to} = {values}")]
        if how == "turn":
            of, s = self.alike(2), self.settled("f", 1)
            return [both(f"{name} = turn({of}, {s})", f"{to} = once({of}_1, {s}), -{of}_0")]
        a, b, c = self.alike(n), self.alike(n), self.expr("c", 1)
        values = ", ".join(f"({a}_{k} if {c} else {b}_{k})" for k in range(n))
        return [both(f"{name} = {a} if {c} else {b}", f"{to} = {values}")]

    def make_form(self, depth):
        """Draw arithmetic by element."""
        name = self.pick(list(VECTORS))
        a, b = self.alike(VECTORS[name]), self.alike(VECTORS[name])
        form = self.pick(FORMS)
        form = re.sub(r"\bs\b", lambda m: self.settled("f", 1), form)
        form = re.sub(r"\bc\b", lambda m: self.expr("c", 1), form)

        def of(k):
            return re.sub(r"\b([AB])\b", lambda m: f"{a if m[1] == 'A' else b}{k}", form)

        if self.chance(4):
            step = self.pick(["+=", "-=", "*="])
            changes = "; ".join(f"{to} {step} {a}_{k}" for k, to in enumerate(self.numbers(name)))
            return [both(f"{name} {step} {a}", changes)] if a != name else ["pass"]
        values = ", ".join(of(f"_{k}") for k in range(VECTORS[name]))
        return [both(f"{name} = {of('')}", f"{', '.join(self.numbers(name))} = {values}")]

    def make_product_of(self, depth):
        """Draw a number of a vector: a product, a sum, an extreme."""
        real, to = f"pk.{self.dtypes['f']}", self.pick(self.variables["f"])
        a = self.pick(list(VECTORS))
        b, n = self.alike(VECTORS[a]), VECTORS[a]
        how = self.pick("@ sum min max".split())
        if how == "@":
            plain = sum_of([f"{a}_{k} * {b}_{k}" for k in range(n)])
            return [both(f"{to} = {real}({a} @ {b})", f"{to} = {real}({plain})")]
        if how == "sum":
            plain = sum_of([f"{a}_{k} * {b}_{k}" for k in range(n)])
            return [both(f"{to} = {real}(({a} * {b}).sum())", f"{to} = {real}({plain})")]
        plain = f"{a}_0"
        for k in range(1, n):
            plain = f"pk.{how}imum({plain}, {a}_{k})"
        return [both(f"{to} = {real}({a}.{how}())", f"{to} = {real}({plain})")]

    def make_index(self, depth):
        """Draw an index that is known only at the launch."""
        name, to = self.pick(list(VECTORS)), self.pick(self.variables["f"])
        n, k = VECTORS[name], f"({self.expr('I', 1)}) % {VECTORS[name]}"
        plain = "".join(f"{name}_{j} if {k} == {j} else " for j in range(n - 1)) + f"{name}_{n - 1}"
        return [both(f"{to} = pk.{self.dtypes['f']}({name}[{k}])", f"{to} = pk.{self.dtypes['f']}({plain})")]

    def make_slice(self, depth):
        """Draw a store to a part of a row, or the part's sum."""
        name = self.pick(list(VECTORS))
        n, s = VECTORS[name], self.name("h")
        before = [f"{s} = {self.settled('f', 1)}"]  # a store may change it
        low = self.number(0, WIDTH - n)
        part, places = (f"rows[i, {low}:{low + n}]", [f"rows[i, {low + k}]" for k in range(n)])
        how = self.pick("vector number own row step sum".split())
        if how == "vector":
            op = self.pick(["=", "+=", "*="])
            return [
                *before,
                both(
                    f"{part} {op} {name} * {s}",
                    join(f"{p} {op} {name}_{k} * {s}" for k, p in enumerate(places)),
                ),
            ]
        if how == "number":
            return [*before, both("rows[i, :] = " + s, join(f"rows[i, {k}] = {s}" for k in range(WIDTH)))]
        if how == "own":
            return [*before, both(f"{part} -= {part} * {s}", join(f"{p} -= {p} * {s}" for p in places))]
        if how == "row":
            return [
                *before,
                both(
                    f"rows[i] += {s} - rows[i]",
                    join(f"rows[i, {k}] += {s} - rows[i, {k}]" for k in range(WIDTH)),
                ),
            ]
        if how == "step":
            return [
                *before,
                both(f"rows[i, ::2] = {s}", join(f"rows[i, {k}] = {s}" for k in range(0, WIDTH, 2))),
            ]
        to, real = self.pick(self.variables["f"]), f"pk.{self.dtypes['f']}"
        return [*before, both(f"{to} = {real}({part}.sum())", f"{to} = {real}({sum_of(places)})")]

    def make_record(self, depth):
        if self.chance(2):
            a = self.settled("f", 1)
            return [both(f"rec1 = rec1._replace(a={a})", f"rec1_a = {a}")]
        a, m = self.settled("f", 1), self.settled("i", 1)
        return [both(f"rec1 = Pair({a}, m={m})", f"rec1_a, rec1_m = {a}, {m}")]


def sum_of(terms):
    """Return the source of a sum in the order of its terms, from zero."""
    text = "0"
    for term in terms:
        text = f"({text} + {term})"
    return text


def join(lines):
    return "; ".join(lines)


@st.composite
def programs(draw):
    dtypes = draw_dtypes(draw)
    g, functions = Small(draw, dtypes, LENGTH), helpers(draw, dtypes, LENGTH)
    elements = [f"{name}[{k}]" for name, n in VECTORS.items() for k in range(n)]
    g.leaves |= {
        "f": ["a", "b", "x[i]", *elements, "rec1.a", "rows[i, 1]"],
        "i": "m i rec1.m s".split(),
        "u": ["z"],
        "c": ["flag"],
    }
    g.variables |= {"f": ["a", "b"], "i": ["m"], "u": ["z"], "c": ["flag"]}
    g.targets, g.result = [("f", ["fo[i]", "rows[i, 2]"]), ("i", ["io[i]"])], "return"
    real, whole = dtypes["f"], dtypes["i"]
    begin = []
    for name, n in VECTORS.items():
        values = ", ".join(f"x[(i + {n + k}) % 21]" for k in range(n))
        begin.append(both(f"{name} = pk.vector({values})", f"{', '.join(g.numbers(name))} = {values}"))
    body = [
        "unused = wide(i)",
        f"a, b, m = x[i], x[(i + 5) % 21], pk.{whole}(i % 7)",
        "z, flag = u[i], i % 2 == 0",
        *begin,
        both(
            f"rec1 = Pair(x[(i + 9) % 21], pk.{whole}(2))", f"rec1_a, rec1_m = x[(i + 9) % 21], pk.{whole}(2)"
        ),
        *g.block(3, 5),
        "fo[i] += vec1[0] + vec3[1] * vec3[2] + a",
        "rows[i, 0] += vec2[0] + vec4[2] + rec1.a - b",
        f"io[i] += m + rec1.m + pk.{whole}(z % 7)",
    ]
    text = (
        HEADER.replace("import math\n", "import math\nfrom typing import NamedTuple\n")
        + CLASSES
        + functions
        + "@pk.kernel\ndef kernel(i, x, u, rows, fo, io, s, pad):\n"
        + "\n".join(indented(body))
        + "\n"
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    args = [
        (rng.integers(-16, 17, LENGTH) / 8).astype(real),
        rng.integers(0, 99, LENGTH).astype(dtypes["u"]),
        rng.normal(size=(LENGTH, WIDTH)).astype(real),
        np.zeros(LENGTH, real),
        np.zeros(LENGTH, whole),
        draw(st.integers(0, 5)),
        np.zeros(1, np.int32),
    ]
    return Program("small", text, ("range", 0, LENGTH), args, plain=plain_of(text))
