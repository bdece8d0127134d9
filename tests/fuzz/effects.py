"""Draw programs with effects in conditions: an atomic update records whether, and how often, an operand was
evaluated.

Each index has separate counters, whose old values decide; shared counters are only added to, or raised and
lowered.
"""

import numpy as np
from hypothesis import strategies as st

from .grammar import SHAPES, Grammar, helpers, indented, templates
from .program import HEADER, Program
from .ranges import LENGTH, arrays, draw_dtypes

EFFECTS = {
    "f": templates(
        """pk.atomic_max(g, i, {f}); pk.atomic_min(g, i, {F}); pk.atomic_add(g, i, {f});
        pk.atomic_sub(g, i, 0.5); pk.atomic_exchange(g, i, {F}); {F} * {F} + pk.atomic_add(g, i, 1.0);
        pk.atomic_add(g, i, 0.5) * {f} + {F}; pk.atomic_max(g, i, math.nan) if {c} else {f};
        pk.atomic_min(g, i, math.nan) if {c} else {f}; touched(g, i, {f}) + {F}; pk.atomic_max(g, i, -0.0);
        pk.atomic_min(g, i, 0.0)"""
    ),
    "i": templates(
        """pk.atomic_add(c, i, 1); pk.atomic_sub(c, i, 2); pk.atomic_xor(c, i, 5); pk.atomic_and(c, i, 29);
        pk.atomic_or(c, i, 2); pk.atomic_max(c, i, {i} % 40); pk.atomic_min(c, i, {i} % 40);
        pk.atomic_exchange(c, i, {i} % 30); pk.atomic_cas(c, i, 3, 9); counted(c, i);
        pk.atomic_add(c, i, 1) and {i}; pk.atomic_add(c, i, 1) or {i};
        pk.atomic_sub(c, i, 1) if {c} else {i}"""
    ),
    "c": templates(
        """0 <= pk.atomic_add(c, i, 1) < {i}; {i} < pk.atomic_add(c, i, 1) <= {i} < pk.atomic_sub(c, i, 2);
        {c} and pk.atomic_add(c, i, 1) > 2; {c} or pk.atomic_add(c, i, 1) > 2;
        pk.atomic_add(total, 0, 1) >= -9 and {c}; 0 <= pk.atomic_add(total, 1, 1) + 9 and {c};
        {f} < pk.atomic_add(g, i, 0.25) < {F}; pk.atomic_cas(c, i, 2, 7) == 2; not pk.atomic_and(c, i, 15);
        -1 < counted(c, i) < 30 < {i}; {c} and {c} and counted(c, i) < 9;
        (counted(c, i) if {c} else counted(total, i % 2)) > -900"""
    ),
    "u": [],
}
FUNCTIONS = """@pk.function
def counted(cells, at):
    n = pk.atomic_add(cells, at, 1)
    if n > 20:
        return n - 20
    return n


@pk.function
def touched(cells, at, value):
    return pk.atomic_max(cells, at, value)


"""


class Effects(Grammar):
    def kinds(self, depth):
        return super().kinds(depth) + ["shared", "element"]

    def make_shared(self, depth):
        word, value = self.pick(
            [("add", "1"), ("max", "{i} % 99"), ("min", "{i} % 99"), ("or", "{i} % 64"), ("xor", "i")]
        )
        if self.chance(3):
            # The largest value goes to the first three elements, the smallest to the others: both in one
            # element would depend on the order of the indices.
            word, first = self.pick([("max", ""), ("min", "3 + ")])
            return [f"pk.atomic_{word}(top, {first}{self.fill('{I} % 3', 1)}, {self.expr('f', 1)})"]
        cells = "total" if word == "add" else f"shared_{word}"
        return [f"pk.atomic_{word}({cells}, {self.fill('{I} % 2', 1)}, {self.fill(value, 1)})"]

    def make_element(self, depth):
        """The index expression of an augmented assignment is evaluated once."""
        place, operator = (
            self.pick(["counted(c, i)", "pk.atomic_add(c, i, 1)"]),
            self.pick(["+=", "-=", "*="]),
        )
        return [f"own[{place} % 4] {operator} {self.expr('f', 1)}"]


@st.composite
def programs(draw):
    dtypes = draw_dtypes(draw)
    g = Effects(draw, dtypes, LENGTH, room=8)
    functions = helpers(draw, dtypes, LENGTH) + FUNCTIONS
    g.shapes = {kind: 2 * EFFECTS[kind] + SHAPES[kind][::2] for kind in "fiuc"}
    g.leaves |= {
        "f": ["a", "b", "x[i]", "own[m % 4]"],
        "i": "m n i k[i] s".split(),
        "u": ["z", "u[i]"],
        "c": ["flag", "b0[i]"],
    }
    g.variables |= {"f": ["a", "b"], "i": ["m", "n"], "u": ["z"], "c": ["flag"]}
    g.targets = [("f", ["fo[i]", "own[{I} % 4]"]), ("i", ["io[i]"]), ("u", ["uo[i]"]), ("c", ["bo[i]"])]
    g.result = "return"
    body = [
        "unused = wide(i)",
        "a, b, m, n, z, flag = x[i], 0.5 * x[i] + 1.0, k[i], k[(i + 1) % 21], u[i], b0[i]",
        f"own = pk.local(4, pk.{dtypes['f']})",
        "for w in range(4):",
        "    own[w] = x[(i + w) % 21]",
        *g.block(2, 4),
        "fo[i] += a + b",
        f"io[i] += pk.{dtypes['i']}(m - n)",
        "bo[i] |= flag",
    ]
    text = (
        HEADER
        + functions
        + "@pk.kernel\ndef kernel(i, x, k, u, b0, fo, io, uo, bo, c, g, "
        + "total, shared_max, shared_min, shared_or, shared_xor, top, s, pad):\n"
    )
    text += "\n".join(indented(body)) + "\n"
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    own = rng.integers(-4, 9, LENGTH)
    top = rng.choice(np.array([0.0, -0.0, 1.0, np.nan, -2.0]), LENGTH)
    two = [np.zeros(2, dtypes["i"]) for _ in range(5)]
    args = [
        *arrays(draw, dtypes, LENGTH),
        own.astype(dtypes["i"]),
        top.astype(dtypes["f"]),
        *two,
        np.zeros(6, dtypes["f"]),
        draw(st.integers(0, 9)),
        np.zeros(1, np.int32),
    ]
    return Program("effect", text, ("range", 0, LENGTH), args)
