"""Draw reductions and scans: built-in and written reducers, several at once over different dtypes, inclusive
and exclusive prefixes.

Contributions to sums are multiples of 1/8, so that every order of addition gives the same bits; the others
are arbitrary.
"""

import numpy as np
from numpy.random import default_rng
from hypothesis import strategies as st

from .grammar import Grammar, helpers, indented
from .launches import INDICES, LENGTH, SIZES, policies
from .program import HEADER, Program
from .ranges import draw_dtypes
from .teams import REDUCERS

WRITTEN = (
    REDUCERS
    + """def _later(a, b):
    return max(a, b)


def _placed(value, index):
    return index if value > 0 else -1


Latest = pk.Reducer("Latest", _later, -1, _placed)


def _bounds(a, b):
    low = a[0]
    if b[0] < low:
        low = b[0]
    return low, max(a[1], b[1]), a[2] + b[2]


def _bent(value):
    t = value * 0.1
    if value < 0:
        t = t * 3.0 + 0.7
    return t, t, 1


def _middle(state):
    n = state[2]
    return (state[0] + state[1]) * 0.3, n


Bounds = pk.Reducer("Bounds", _bounds, (1e30, -1e30, 0), _bent, _middle)


def _times(a, b):
    return a * b % 10007


def _odd(value):
    return value % 5000 * 2 + 1


Pair = pk.Reducer("Pair", _more, (0, -4.0))
Times = pk.Reducer("Times", _times, 1, _odd)


def _after(a, b):
    return a[0] * b[0] % 10007, (b[0] * a[1] + b[1]) % 10007


def _line(value):
    return value % 50 + 1, value % 31


def _at_two(state):
    return (state[0] * 2 + state[1]) % 10007


Lines = pk.Reducer("Lines", _after, (1, 0), _line, _at_two, commutes=False)
Hash = pk.Reducer("Hash", _times, 1)


"""
)
ANY = {
    "f": "Min Max MinLoc MaxLoc Bounds Latest".split(),
    "i": "Sum Min Max MinLoc MaxLoc Either Latest".split(),
    "u": "Sum Min Max Prod Either Times".split(),
    "c": ["Sum", "Max"],
}


def contribution(g, kind, pairs=True):
    """Draw (reducer, an expression for it); `pairs`: it may be a tuple."""
    if kind == "f" and not g.chance(2):
        name = g.pick(["Sum", "Spread", *["Pair"][:pairs]])
        value = f"q({g.expr('f')})"
        return name, f"_counted({value})" if name == "Pair" else value
    name = g.pick(ANY[kind])
    text = (
        g.settled(kind)
        if kind == "i"
        else f"pk.{g.dtypes[kind]}({g.expr(kind)})"
        if kind in "fu"
        else g.expr("c")
    )
    return (
        name,
        f"{text} + 0.0" if kind == "f" else text,
    )  # no -0.0: which of two zeros is the smaller is not specified


@st.composite
def programs(draw):
    what = draw(st.sampled_from("reduce reduce scan team twice".split()))
    dtypes = draw_dtypes(draw)
    if what in ("team", "twice"):
        return in_teams(draw, dtypes, what)
    policy, extents = policies(draw) if what == "reduce" else ranged(draw)
    names = INDICES[: len(extents)]
    g = Grammar(draw, dtypes, LENGTH, room=3)
    functions = helpers(draw, dtypes, LENGTH)
    g.leaves |= {
        "f": ["a", "x[m % 21]", f"x[({names[-1]}) % 21]"],
        "i": ["m", f"{names[0]} % 50", f"{names[-1]} % 9", "s"],
        "u": ["z"],
        "c": ["flag"],
    }
    g.variables |= {"f": ["a"], "i": ["m"], "u": ["z"], "c": ["flag"]}
    body = [
        f"unused = wide({names[-1]})",
        f"a, m = x[({' + '.join(names)}) % 21], pk.{dtypes['i']}({names[-1]} % 30)",
        f"z, flag = u[{names[-1]} % 21], {names[0]} % 2 == 0",
        *g.block(1, 2),
    ]
    rng = default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(-16, 17, LENGTH) / 8
    x = np.where(
        rng.random(LENGTH) < draw(st.sampled_from([0.0, 0.2])),
        rng.choice([np.nan, 0.0, -0.0, np.inf], LENGTH),
        x,
    )
    args = [
        x.astype(dtypes["f"]),
        rng.integers(0, 2**32, LENGTH).astype(dtypes["u"]),
        draw(st.integers(0, 5)),
        np.zeros(1, np.int32),
    ]
    if what == "scan":
        kind = g.pick("fiu")
        name, value = {
            "f": ("Sum", f"q({g.expr('f')})"),
            "i": ("Sum", g.settled("i")),
            "u": ("Sum", f"pk.{dtypes['u']}({g.expr('u')})"),
        }[kind]
        if g.chance(3):
            name = g.pick(
                {
                    "f": ["Max", "Min", "Spread"],
                    "i": "Max Min Either Lines".split(),
                    "u": ["Max", "Hash", "Either"],
                }[kind]
            )
            value += " + 0.0" if kind == "f" and name != "Spread" else ""
            value = f"({value}) % 5000" if name == "Hash" else value  # products that wrap are not associative
        out = np.zeros(
            max(policy[2], 1), dtypes["f"] if kind == "f" else "uint64" if kind == "u" else "int64"
        )
        reducers, values, args = (name,), [value], [*args, out]
    elif policy[0] == "range" and g.chance(4):
        reducers, values = ("Lines",), [g.settled("i")]
    else:
        found = [contribution(g, g.pick("fiuc")) for _ in range(draw(st.integers(1, 3)))]
        reducers, values = tuple(n for n, _ in found), [v for _, v in found]
    body.append(f"return {', '.join(values)}")
    text = (
        HEADER
        + functions
        + WRITTEN
        + f"@pk.kernel\ndef kernel({', '.join(names)}, x, u, s, pad):\n"
        + "\n".join(indented(body))
        + "\n"
    )
    return Program(
        "scan" if what == "scan" else "reduction", text, policy, args, what, reducers, draw(st.booleans())
    )


def ranged(draw):
    begin, n = draw(st.sampled_from([0, 0, 3])), draw(st.sampled_from([*SIZES, 1100]))
    return ("range", begin, begin + n), (n,)


def in_teams(draw, dtypes, what):
    """Draw reductions over a league ("team"), or one reducer over two dtypes in one kernel ("twice")."""
    g = Grammar(draw, dtypes, LENGTH, room=2)
    functions = helpers(draw, dtypes, LENGTH)
    g.leaves |= {
        "f": ["a", "x[team.rank % 21]", "x[m % 21]"],
        "i": ["m", "team.rank", "(team.rank + 16)", "team.league_rank"],
        "u": ["z"],
        "c": ["flag"],
    }
    g.variables |= {"f": ["a"], "i": ["m"], "u": ["z"], "c": ["flag"]}
    rng, league = default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.sampled_from([3, 0, 1, 9]))
    x = np.round(rng.normal(size=LENGTH), 3)
    body = [
        "unused = wide(team.rank)",
        f"a, m = x[(team.league_rank + team.rank) % 21], pk.{dtypes['i']}(team.rank)",
        "z, flag = u[team.league_rank], team.rank == 1",
        *g.block(0, 2),
    ]
    args = [
        x.astype(dtypes["f"]),
        np.round(rng.normal(size=LENGTH), 3).astype("float32" if dtypes["f"] == "float64" else "float64"),
        rng.integers(0, 99, LENGTH).astype(dtypes["u"]),
        np.zeros((max(league, 1), 8)),
        np.zeros((max(league, 1), 8), np.float32),
        np.zeros(1, np.int32),
    ]
    if what == "team":
        del args[1], args[2:4]
        found = [contribution(g, g.pick("fiu"), pairs=False) for _ in range(draw(st.integers(1, 2)))]
        body += [f"s{k} = team.broadcast({value})" for k, (_, value) in enumerate(found)]
        body.append(f"return {', '.join(f's{k}' for k in range(len(found)))}")
        names, launch, reducers = "team, x, u, pad", "reduce", tuple(n for n, _ in found)
    else:
        names, launch, reducers = "team, x, y, u, o, o32, pad", "for", ("Sum",)
        values = [
            "x[team.rank % 21]",
            "y[team.rank % 21]",
            f"pk.{dtypes['i']}(team.rank * 7)",
            "z + pk.uint32(team.rank)",
            "a",
        ]
        choices = "Bounds Bounds pk.Max pk.Min Spread Latest".split()
        pair, same = g.pick([values[:2], values[1::-1]]), g.pick(choices)
        for k in range(draw(st.integers(2, 4))):
            value, name = (pair[k], same) if k < 2 else (g.pick(values), g.pick(choices))
            if name == "Latest":
                body.append(f"r{k} = team.reduce(({value}, team.rank), Latest)")
            elif name == "Bounds":
                body.append(f"r{k}, n{k} = team.reduce({value}, Bounds)")
            else:
                zeros = " + 0.0" if name in ("pk.Max", "pk.Min") else ""
                body.append(
                    f"r{k} = team.reduce({'q(' + value + ')' if name == 'Spread' else value}, {name}){zeros}"
                )
            body += [
                "if team.single():",
                f"    o[team.league_rank, {k}] = r{k}",
                f"    o32[team.league_rank, {k}] = r{k}",
            ]
    text = (
        HEADER
        + functions
        + WRITTEN
        + f"@pk.kernel\ndef kernel({names}):\n"
        + "\n".join(indented(body))
        + "\n"
    )
    return Program("reduction", text, ("team", league), args, launch, reducers)
