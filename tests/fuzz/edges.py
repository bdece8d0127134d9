"""Draw programs of edge values: single operations on the ends of each type, zeros of both signs, infinities,
NaN and denormals.

int64 sums, differences and products are left out, since their overflow is undefined; all other operations
have one value.
"""

import dataclasses
import math

import numpy as np
from numpy.random import default_rng
from hypothesis import strategies as st

from .grammar import Grammar, indented, templates
from .program import HEADER, Program

N = 24
# fmt: off
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-17, -1e-17, 3.0, 7.0, math.inf, -math.inf, math.nan, 5e-324,
    -5e-324, 1e-310, 1e-45, 1e-40, 1e300, -1e300, 1e38, 1e-10, 2.0**31, -(2.0**31), 2.0**31 - 1, 2.0**32,
    2.0**53, 2.0**63, -(2.0**63), 2.0**64, 1e20, 4294967295.5, -0.75, 0.1, 1.7976931348623157e308,
    3.4028234663852886e38,
]
# fmt: on
# fmt: off
INTEGERS = [
    0, 1, -1, 2, 3, -3, 7, 31, 32, 33, 40, 63, 64, 65, 100, -2, -31, -64, 2**31 - 1, -(2**31), 2**31,
    2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, -(2**63), 2**24 + 1, 2**63, 2**64 - 1, -5, 10,
]
# fmt: on

COMMON = {
    "f": templates(
        """{f} % {f}; {f} // {f}; {f} / {f}; {f} + {f}; {f} - {f}; {f} * {f}; {f} * {f} + {f}; -{f}; abs({f});
        min({f}, {f}); max({f}, {f}); pk.minimum({f}, {f}); pk.maximum({f}, {f}); pk.clip({f}, {f}, {f});
        pk.fma({f}, {f}, {f}); np.floor({f}); np.ceil({f}); np.trunc({f}); np.rint({f}); pk.sqrt({f});
        pk.copysign({f}, a[i]); {f} if {c} else {f}; {f} and {f}; {f} or {f}; pk.where({c}, {f}, {f});
        math.fmod({f}, {f}); math.remainder({f}, {f}); pk.ldexp({f}, {i} % 9); pk.logb({f});
        math.frexp({f})[0];
        {i} * {f}; pk.float32({i}); pk.float64({u}); float({i}); {f} % {i}; {f} // {i}; pk.float32({f});
        pk.float64(pk.float32({f})); {c} * {f}; {c} / {c}; {f} % 1.0; {i} / {i};
        a[s0:s1][0] if len(a[s0:s1]) > 0 else 7.0; a[i:i + 3][0]; a[i // 2:][i // 3];
        a[i % 5:i][i % 3] if len(a[i % 5:i]) > 2 else 7.0"""
    ),
    "i": templates(
        """{i} // {i}; {i} % {i}; {i} << {i}; {i} >> {i}; {i} & {i}; {i} | {i}; {i} ^ {i}; ~{i};
        min({i}, {i}); max({i}, {i}); SIGNED({f}); int({f}); pk.int32({i}); SIGNED({u}); math.floor({f});
        math.ceil({f}); math.trunc({f}); {i} if {c} else {i}; {i} and {i}; {i} or {i}; {i} // 0; {i} % 0;
        {i} % -1; -({i} >> 1); abs({i} >> 1); ({i} >> 1) - ({i} >> 2); ({i} >> 1) + ({i} >> 2);
        ({i} % 46341) * ({i} % 46341); {i} << 40; {i} >> 64; {i} << -1; {i} << 2; -8 >> {i}; 1 << {i};
        round({f}); math.gcd({i} >> 1, {i} >> 2); math.frexp({f})[1]; len(a[-3:]); len(a[:-1]);
        len(a[2:100]); len(a[s0:s1]); len(a[i:i + 3]); len(a[s0:i]); len(a[i // 3:][i % 7:-2]);
        total(a[i:], 2); len(a[s0:]); len(a[:s1]);
        a[-4:-1].shape[0]; total(a[-5:-2], 3); pk.where({c}, {i}, {i}); {c} + {c}; {c} - {c}; -{c};
        {c} << {c}; {c} // {c}; {c} % {c}; {c} * {c}; {c} >> 1; abs({c}); trips({i} % 5, 9, {s});
        steps({i}); ends_up({i} % 4); ends_down({i} % 4); pairs[{c}]; pk.bits(a[i]) if a[i] == a[i] else 0;
        {c} | {i}; k[{c}]"""
    ),
    "u": templates(
        """{u} // {u}; {u} % {u}; {u} << {u}; {u} >> {u}; {u} + {u}; {u} - {u}; {u} * {u}; -{u}; ~{u};
        {u} & {u}; {u} ^ {u}; UNSIGNED({f}); UNSIGNED({i}); pk.uint32({f}); pk.uint64({f}); min({u}, {u});
        max({u}, {u}); {u} << 40; {u} >> 33; {u} // 0; rotated({u}, r & 31); rotated({u}, {u}); abs({u});
        {u} if {c} else {u}; {u} ** 2"""
    ),
    "c": templates(
        """{f} < {f}; {f} == {f}; {f} != {f}; {f} >= {f}; {i} < {i}; {u} <= {u}; {f} < {f} < {f}; not {f};
        bool({f}); bool({i}); pk.isnan({f}); pk.isfinite({f}); pk.isinf({f}); {c} and {c}; {c} or {c}; ~{c};
        {c} & {c};
        {c} | {c}; {c} ^ {c}; {c} < {c}; {c} == {c}; {i} == {i}; {f} < {i}; -0.0 < {f}; {c} >= {i}"""
    ),
}
CONSTANTS = templates(
    """(-2.0) ** 0.5; 0.0 ** -1; 2.0 ** 5000; (-8.0) // 0.0; 5.0 % math.inf; -1e-17 % 1.0; 1.0 // 0.0;
    0.0 / 0.0; -0.0; -0.0 * 3.0; M ** 0.5; BIG * 10.0; 0.0 - 0.0; 7 / 0; -7 / 0; n / 3; 1 / n; n % 3;
    n // -2; -n; n * 0.5; n + 1"""
)
WHOLE_CONSTANTS = templates(
    """math.floor(math.inf); int(math.nan); pk.int32(math.inf); pk.int32(-1e300); 7 // 0; 7 % 0; -8 >> 70;
    1 << 64; 3 << -1; -7 // 2; -7 % 3; 7 % -3; int(-1e300); pk.uint32(-1.5) + 0; math.ceil(-math.inf);
    pk.int32(2 ** 40 + 5); True + True; -True; True << 3; n // 2 if n > 0 else 5; ~0; min(3, 2, 5); int(n)"""
)
OF_THE_CONSTANT = templates(
    "1 / n; -n; n // b[i]; n * 0.5; n + 1"
)  # equal constants of other types give other results
FUNCTIONS = """M = -2.0
BIG = 1e308


@pk.function
def rotated(x, r):
    return (x << r) | (x >> (32 - r))


@pk.function
def total(view, most):
    n = 0
    for j in range(len(view)):
        n += 1 if view[j] == view[j] else 10
    return n * most


@pk.function
def trips(low, high, most):
    n = 0
    for j in range(low, high, 3):
        n += j
    for j in range(high, low, -2):
        n += 100
    for j in range(low, high, -1):
        n += 10000
    return n + most % 3


@pk.function
def steps(n):
    count = 0
    for j in range(0, n % 13, 5):
        count += j + 1
    return count


@pk.function
def ends_up(n):
    count, last = 0, 0
    for j in range(9223372036854775800 + pk.int64(n), 9223372036854775807):
        count += 1
        last = j
        if count > 20:
            break
    return count * 10 + last % 7


@pk.function
def ends_down(n):
    count = 0
    for j in range(-9223372036854775800 - pk.int64(n), -9223372036854775807 - 1, -1):
        count += 1
        if count > 20:
            break
    return count


"""


class Edges(Grammar):
    """Draw expressions of depth one and two in which no int64 overflows."""

    def expr(self, kind, depth=1):
        kind = kind.lower()
        if depth <= 0:
            return self.pick(self.leaves[kind])
        return f"({self.fill(self.pick(self.shapes[kind]), depth - 1)})"

    def fill(self, template, depth=1):
        text = super().fill(template.replace("{s}", "s0"), depth)
        return text.replace("UNSIGNED(", f"pk.{self.dtypes['u']}(").replace(
            "SIGNED(", f"pk.{self.dtypes['i']}("
        )


def chosen(draw, values, dtype):
    """Return n of the values of `dtype`."""
    rng = default_rng(draw(st.integers(0, 2**32 - 1)))
    with np.errstate(over="ignore", under="ignore"):
        if np.dtype(dtype).kind == "f":
            fit = np.array(values).astype(dtype)
        else:
            info = np.iinfo(dtype)
            fit = np.array([v for v in values if info.min <= v <= info.max], dtype)
    return rng.choice(fit, N)


@st.composite
def programs(draw):
    wide = draw(st.booleans())
    dtypes = {
        "f": "float64" if wide else "float32",
        "i": draw(st.sampled_from(["int64", "int32"])) if wide else "int32",
        "u": draw(st.sampled_from(["uint64", "uint32"])) if wide else "uint32",
    }
    g = Edges(draw, dtypes, N)
    g.shapes = COMMON
    g.leaves = {
        "f": "a[i] b[i] a[i] b[i] v".split(),
        "i": "k[i] m[i] k[i] s1".split(),
        "u": ["u[i]", "w[i]"],
        "c": ["p[i]", "q[i]"],
    }
    body, lines = ["unused = wide(i)", "v = b[i]"], draw(st.integers(1, 5))
    for row in range(lines):
        kind = g.pick("ffiiuc")
        if g.chance(5):
            whole = "io" if dtypes["i"] == "int64" else "fo"  # a literal must fit into the element's type
            body.append(
                f"{g.pick(['fo', 'fo', whole])}[{row}, i] = {g.pick(CONSTANTS)}"
                if g.chance(2)
                else f"{whole}[{row}, i] = {g.pick(WHOLE_CONSTANTS)}"
            )
            continue
        text = g.expr(kind, g.number(1, 2))
        where = {
            "f": "fo fo fo io uo".split(),
            "i": "io io fo uo".split(),
            "u": ["uo", "uo", "io"],
            "c": ["co", "io"],
        }[kind]
        if g.chance(2):  # the value may be assigned to a name
            body.append(f"t{row} = {text}")
            text = f"t{row}"
        if g.chance(6) and kind == "f":
            body += [
                f"e{row} = abs(e[i])",
                f"e{row} {g.pick(['**= 2.5', '**= 0.5', '**= 3', '**= 2', '**= -1.0', '**= 1.5'])}",
            ]
            text = f"e{row}"
        body.append(f"{g.pick(where)}[{row}, i] = {text}")
    body.append(f"fo[{lines}, i] = {g.pick(OF_THE_CONSTANT)}")
    text = (
        HEADER
        + FUNCTIONS
        + "@pk.kernel\ndef kernel(i, a, b, e, k, m, u, w, p, q, fo, io, uo, co, s0, s1, r, n, pairs, pad):\n"
    )
    text += "\n".join(indented(body)) + "\n"
    rng = default_rng(1)
    bools = [rng.random(N) < 0.5, rng.random(N) < 0.5]
    shape = (lines + 1, N)
    ends = st.sampled_from([0, 1, 2, -1, -3, 5, N, N + 4, -N - 2, 2**62])
    static = draw(st.sampled_from([4, 4.0, True, 0.0, -0.0, 1, 0, False]))
    others = [v for v in (4, 4.0, True, 1, 1.0, 0.0, -0.0, 0) if v == static]
    args = [
        chosen(draw, FLOATS, dtypes["f"]),
        chosen(draw, FLOATS, dtypes["f"]),
        np.array([0, 1, 4, 16, 0.25, 9] * (N // 6), dtypes["f"]),
        chosen(draw, INTEGERS, dtypes["i"]),
        chosen(draw, INTEGERS, dtypes["i"]),
        chosen(draw, INTEGERS, dtypes["u"]),
        chosen(draw, INTEGERS, dtypes["u"]),
        *bools,
        *(np.zeros(shape, dtypes.get(kind, bool)) for kind in "fiuc"),
        draw(ends),
        draw(ends),
        ("static", draw(st.sampled_from([0, 1, 7, 31, 32, 40]))),
        ("static", static),
        np.array([10, 20], np.int32),
        np.zeros(1, np.int32),
    ]
    program, place = Program("edge", text, ("range", 0, N), args), len(args) - 3
    again = [[*args[:place], ("static", v), *args[place + 1 :]] for v in others]
    return dataclasses.replace(program, again=tuple(dataclasses.replace(program, args=a) for a in again))
