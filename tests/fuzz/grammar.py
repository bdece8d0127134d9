"""Draw typed expressions and statements of the kernel language by Hypothesis; failures shrink towards the
first element of each list.

Kinds of expressions, one letter each: `f` floats, `i` signed and `u` unsigned integers, `c` conditions
(bools). A capital letter excludes literals, so that no constant is folded in another precision than the
computation's. Each kind has one dtype in a program; a value assigned to a variable is cast to it where its
type may be weaker, since a name used twice may be two variables.
"""

import contextlib
import re

from hypothesis import strategies as st


def templates(text):
    """Return the expressions that semicolons separate."""
    return [part.strip() for part in text.split(";")]


SHAPES = {
    "f": templates(
        """{F} + {f}; {F} - {f}; {F} * {f}; {F} / {f}; -{F}; {F} * {f} + {f}; {f} - {F} * {f};
        {F} * {f} - {F} * {f}; {f} if {c} else {f}; {F} * {f} if {c} else {f}; min({F}, {f});
        max({f}, {F}, {f}); abs({F}); q({F}); q({F} * {f}); bend({F}, {f}); bend({F} * {f}, {f}) + {f};
        once({F}, {f}) + {f}; plus({F} * {f}, {f}); pk.where({c}, {f}, {F}); {F} + {i}; {F} * {i}; {I} / {F};
        pk.sqrt(abs({F}));
        np.floor({F}); pk.minimum({F}, {f}); pk.maximum({f}, {F}); pk.clip({F}, -2.0, 2.0);
        pk.fma({F}, {f}, {f}); {F} and {f}; {F} or {f}; {F} % {f}; {F} // {f}; {F} + {c}; {F} + {u}"""
    ),
    "i": templates(
        """{I} + {i}; {I} - {i}; {I} * {i}; {I} // {i}; {I} % {i}; {I} & {i}; {I} | {i}; {I} ^ {i};
        {I} << ({i} & 7); {I} >> ({i} & 15); -{I}; ~{I}; abs({I}); min({I}, {i}); max({i}, {I});
        {i} if {c} else {i}; whole({F}); {C} + {c}; -{C}; pk.where({c}, {i}, {I}); {I} and {i}; {I} or {i};
        INT({U} & 63); ({I} % 9) ** 3; {I} * {c}"""
    ),
    "u": templates(
        """{U} + {u}; {U} - {u}; {U} * {u}; {U} // {u}; {U} % {u}; {U} & {u}; {U} | {u}; {U} ^ {u};
        {U} << {u} % 40; {U} >> {u} % 70; ~{U}; UINT({I}); {u} if {c} else {u}; min({U}, {u});
        max({U}, {u}); pk.where({c}, {U}, {u}); {U} ** 3; {U} or {u}; -{U}"""
    ),
    "c": templates(
        """{F} < {f}; {I} == {i}; {F} >= {f}; {I} % 2 == 0; {U} > {u}; {C} and {c}; {C} or {c}; not {C};
        {f} < {F} <= {f}; {I} != {i}; {i} <= {I} < {i}; {F} != {f}; {C} & {c}; {C} ^ {C}; {C} == {c};
        pk.isnan({F}); bool({I}); bool({F}); -1 < {F} <= 1.5; ~{C}; {C} < {C}"""
    ),
}
LITERALS = {
    "f": "1.5 -0.25 2.0 3 0.1".split(),
    "i": "3 7 1 -2 0".split(),
    "u": ["5", "1", "3"],
    "c": ["True", "False"],
}

FLOAT_STEPS, UNSIGNED_STEPS = (
    "+= -= *= /=".split(),
    "+= -= *= ^= <<= >>= //= %= **=".split(),
)


class Grammar:
    """Draw a kernel's body.

    Attributes
    ----------
    leaves : dict of kind -> expressions available as values at this place
    variables : dict of kind -> names that may be assigned at this place
    targets : list of (kind, elements that may be stored to)
    length : the number of elements of the arrays that may be read at any index below it
    room : number of further statements allowed
    """

    def __init__(self, draw, dtypes, length, room=9):
        self.draw, self.dtypes, self.length, self.room = draw, dtypes, length, room
        self.leaves = {kind: [] for kind in "fiuc"}
        self.variables = {kind: [] for kind in "fiuc"}
        self.targets, self.result, self.fresh, self.shapes = [], None, 0, SHAPES
        self.in_loop, self.row = False, "x"  # row: a view of `length` floats

    # ---- draws
    def pick(self, options):
        return self.draw(st.sampled_from(options))

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def chance(self, of):
        """Return True once in `of` times; False is simpler."""
        return self.draw(st.integers(0, of - 1)) == of - 1

    def name(self, letter):
        self.fresh += 1
        return f"{letter}{self.fresh}"

    # ---- expressions
    def expr(self, kind, depth=2):
        """Draw an expression of `kind`; a capital kind excludes literals."""
        lower = kind.lower()
        if depth <= 0 or not self.chance(3 if depth == 1 else 2) and depth < 3:
            if depth > 0 and self.chance(2):
                return f"({self.fill(self.pick(self.shapes[lower]), depth - 1)})"
            literals = LITERALS[lower] if kind == lower and lower != "c" else []
            return self.pick(self.leaves[lower] + literals)
        return f"({self.fill(self.pick(self.shapes[lower]), depth - 1)})"

    def fill(self, template, depth=2):
        """Fill a template: expressions for {kind}, casts for INT and UINT, the arrays' length for {n}."""
        text = re.sub(
            r"\{(\w)\}", lambda m: str(self.length) if m[1] == "n" else self.expr(m[1], depth), template
        )
        return text.replace("UINT(", f"pk.{self.dtypes['u']}(").replace("INT(", f"pk.{self.dtypes['i']}(")

    def settled(self, kind, depth=2):
        """Draw an expression for a variable: of the variable's dtype, not itself a product, int64 far from
        its ends.
        """
        text = self.expr(kind, depth)
        if kind == "f":
            text = f"q({text})" if self.chance(2) else f"{text} + {self.pick(LITERALS['f'])}"
            return f"pk.{self.dtypes['f']}({text})"
        if kind == "i":
            return f"pk.{self.dtypes['i']}({text} % 97 - 40)"
        return f"pk.{self.dtypes['u']}({text})" if kind == "u" else f"bool({text})"

    # ---- statements
    @contextlib.contextmanager
    def scope(self, loop=None):
        """Open a scope: names defined in it are unknown after it."""
        kept = (
            {k: list(v) for k, v in self.leaves.items()},
            {k: list(v) for k, v in self.variables.items()},
            self.in_loop,
        )
        self.in_loop = self.in_loop if loop is None else loop
        yield
        self.leaves, self.variables, self.in_loop = kept

    def block(self, depth, most=3):
        lines = []
        for _ in range(self.number(1, most)):
            lines += self.statement(depth)
        return lines

    def inner(self, depth, loop=None):
        with self.scope(loop):
            return indented(self.block(depth))

    def kinds(self, depth):
        """Return the names of the methods that make a statement, the simplest first."""
        kinds = [
            "assign",
            "assign",
            *(["store"] if self.targets else []),
            "augment",
            "product",
            "both",
            "helper",
        ]
        kinds += "branch branch counted condition unrolled".split() if depth > 0 and self.room > 0 else []
        kinds += ["leave", "leave"] if self.in_loop else []
        return kinds + (["back"] if self.result is not None else [])

    def statement(self, depth):
        self.room -= 1
        return getattr(self, "make_" + self.pick(self.kinds(depth)))(depth)

    def variable(self):
        kind = self.pick([k for k in "ffiiuc" if self.variables[k]])
        return kind, self.pick(self.variables[kind])

    def make_assign(self, depth):
        kind, name = self.variable()
        return [f"{name} = {self.settled(kind)}"]

    def make_store(self, depth):
        kind, places = self.pick(self.targets)
        return [f"{self.fill(self.pick(places), 1)} = {self.expr(kind)}"]

    def make_augment(self, depth):
        kind, name = self.variable()
        if kind == "f":
            return [f"{name} {self.pick(FLOAT_STEPS)} {self.fill(self.pick(['{f}', '{F} * {f}']), 1)}"]
        if kind == "i":
            return [f"{name} {self.pick('+= -= ^= |= &='.split())} {self.expr('i', 1)} % 50"]
        if kind == "u":
            return [f"{name} {self.pick(UNSIGNED_STEPS)} {self.pick(['3', '5', '7'])}"]
        return [f"{name} {self.pick(['&=', '|=', '^='])} {self.expr('c', 1)}"]

    def make_product(self, depth):
        """Assign a product to a name: a sum with it is rounded once."""
        name = self.name("p")
        line = f"{name} = {self.fill('{F} * {f}', 1)}"
        self.leaves["f"].append(name)
        return [line, f"{self.pick(self.variables['f'])} = {name} {self.pick('+-')} {self.expr('f', 1)}"]

    def make_both(self, depth):
        """Assign two names at once: a swap, or a function of two results."""
        a, b = (self.pick(self.variables["f"]) for _ in range(2))
        if self.chance(2):
            m = self.pick(self.variables["i"])
            return [self.fill(f"{a}, {m} = search({self.row}, INT({{I}} % 5), {{F}})", 1)]
        return [f"{a}, {b} = {self.settled('f', 1)}, {a}"] if a != b else [f"{a} = {self.settled('f', 1)}"]

    def make_helper(self, depth):
        return (
            [self.fill(f"{self.pick(self.variables['f'])} = helper({self.row}, {{F}}, {{I}} % 17)", 1)]
            if self.result != "helper"
            else ["pass"]
        )

    def make_branch(self, depth):
        test = self.expr("c")
        lines = [f"if {test}:", *self.inner(depth - 1)]
        if self.chance(2):
            if self.chance(3):
                lines += [f"elif {self.expr('c')}:", *self.inner(depth - 1)]
            lines += ["else:", *self.inner(depth - 1)]
        return lines

    def make_counted(self, depth):
        """Make a loop over a range, whose bounds are constants, uniform, or different for each lane."""
        bounds = self.pick(
            [
                "3",
                "{I} % 4",
                "0, {I} % 5, 2",
                "4, 0, -1",
                "{I} % 3, 5",
                "{I} % 7, -2, -3",
                "-1, 3",
                "pk.static(2)",
                "{c}",
                *(["s % 3"] if "s" in self.leaves["i"] else []),
                *(["(team.rank + 16) % 5"] if "team.rank" in self.leaves["i"] else []),
            ]
        )
        name = self.name("j")
        head = f"for {name} in range({self.fill(bounds, 1)}):"
        with self.scope(loop=True):
            self.leaves["i"].append(name)
            first = self.make_assign(depth)
            return [head, *indented(first + self.block(depth - 1))]

    def make_condition(self, depth):
        name = self.name("t")
        head = [f"{name} = 0", f"while {name} < 4 and ({self.expr('c')}):"]
        with self.scope(loop=True):
            self.leaves["i"].append(name)
            return [*head, *indented([f"{name} += 1", *self.block(depth - 1)])]

    def make_unrolled(self, depth):
        name = self.name("w")
        items, kind = self.pick([("TAPS", "i"), ("(0.5, -1.0, 2.0)", "f"), ("(1, 5)", "i")])
        with self.scope(loop=True):
            self.leaves[kind].append(name)
            return [f"for {name} in {items}:", *indented(self.make_assign(depth) + self.block(depth - 1))]

    def make_leave(self, depth):
        return [f"if {self.expr('c')}:", f"    {self.pick(['break', 'continue'])}"]

    def make_back(self, depth):
        return [
            f"if {self.expr('c')}:",
            *indented(
                [*self.make_store(depth), self.fill(self.result)]
                if self.targets
                else [self.fill(self.result)]
            ),
        ]


def indented(lines):
    return ["    " + line for line in lines]


def helpers(draw, dtypes, length):
    """Return the functions of every program: fixed ones, and one that is drawn."""
    g = Grammar(draw, dtypes, length, room=5)
    real, whole = dtypes["f"], dtypes["i"]
    g.leaves |= {
        "f": ["a", "t", "x[m % {n}]".replace("{n}", str(length))],
        "i": ["m", "n"],
        "c": ["flag"],
        "u": ["z"],
    }
    g.variables |= {"f": ["a", "t"], "i": ["n"], "u": ["z"], "c": ["flag"]}
    g.result = "return {f} + a"
    g.shapes = {
        k: [s for s in v if not re.search(r"bend|once|plus|whole|search", s)] for k, v in SHAPES.items()
    }
    kinds = g.kinds
    g.kinds = lambda depth: [k for k in kinds(depth) if k not in ("store", "helper", "both")]
    body = [
        f"n = pk.{whole}(m % 5)",
        f"z = pk.{dtypes['u']}(m)",
        "flag = t > 1.0",
        f"a = pk.{real}(t)",
        *g.block(2, 4),
        g.fill("return {f} + a"),
    ]
    return (
        FUNCTIONS.replace("INT", f"pk.{whole}")
        + "\n\n@pk.function\ndef helper(x, t, m):\n"
        + "\n".join(indented(body))
        + "\n\n\n"
    )


FUNCTIONS = """TAPS = (1, 2)


@pk.function
def q(t):
    return np.floor(pk.clip(t, -4.0, 4.0) * 8.0) / 8.0


@pk.function
def once(t, s):
    return t * s


@pk.function
def plus(t, s):
    return t + s


@pk.function
def whole(t):
    if -1000.0 < t < 1000.0:
        return int(t)
    return 7


@pk.function
def bend(t, s):
    if t < s:
        return s
    for r in range(3):
        if t > 2.0:
            return t - 2.0
        t = q(t + 0.75)
    return t


@pk.function
def search(x, start, limit):
    found = x[start]
    for j in range(start, start + 6):
        if x[j] < 0.0:
            continue
        if x[j] > limit:
            return x[j], INT(j)
        found = x[j]
    return found, INT(-1)

"""
