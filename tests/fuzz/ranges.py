"""Draw programs of a range: nested control flow of every kind over floats, integers, bools and small arrays
private to an index."""

import numpy as np
from hypothesis import strategies as st

from .grammar import Grammar, helpers, indented
from .program import HEADER, Program

LENGTH = 21


def draw_dtypes(draw):
    """Draw the dtype of each kind of expression."""
    narrow = draw(st.booleans())
    pick = (lambda a, b: b) if draw(st.booleans()) else (lambda a, b: draw(st.sampled_from([a, b])))
    if narrow:
        return {"f": "float32", "i": "int32", "u": "uint32"}
    return {"f": pick("float32", "float64"), "i": pick("int32", "int64"), "u": pick("uint32", "uint64")}


def arrays(draw, dtypes, shape):
    """Make the arrays x, k, u, b with small values, and fo, io, uo, bo for results."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    real = rng.normal(size=shape) if draw(st.booleans()) else rng.integers(-16, 17, shape) / 8
    return [
        real.astype(dtypes["f"]),
        rng.integers(-30, 60, shape).astype(dtypes["i"]),
        rng.integers(0, 2**32, shape).astype(dtypes["u"]),
        rng.random(shape) < 0.5,
        *(np.zeros(shape, dtypes.get(kind, bool)) for kind in "fiuc"),
    ]


@st.composite
def programs(draw):
    dtypes = draw_dtypes(draw)
    g = Grammar(draw, dtypes, LENGTH)
    functions = helpers(draw, dtypes, LENGTH)
    g.leaves |= {
        "f": ["a", "b", "x[i]", "x[{I} % {n}]", "own[{I} % 4]"],
        "i": ["m", "n", "i", "(i + 16)", "k[i]", "s", "k[{I} % {n}]", "x.shape[0]"],
        "u": ["z", "u[i]"],
        "c": ["flag", "b0[i]", "(i + 8 > 15)"],
    }
    g.leaves = {
        kind: [leaf.replace("{n}", str(LENGTH)).replace("{I}", "m") for leaf in leaves]
        for kind, leaves in g.leaves.items()
    }
    g.variables |= {"f": ["a", "b"], "i": ["m", "n"], "u": ["z"], "c": ["flag"]}
    g.targets = [
        ("f", ["fo[i]", "own[{I} % 4]"]),
        ("i", ["io[i]", "io[i]", "fo[i]"]),
        ("u", ["uo[i]"]),
        ("c", ["bo[i]"]),
    ]
    g.result = "return"
    real, whole = dtypes["f"], dtypes["i"]
    body = [
        "unused = wide(i)",
        "a, b = x[i], x[(i + 5) % 21]",
        "m, n = k[i], k[(i + 1) % 21]",
        "z, flag = u[i], b0[i]",
        f"own = pk.local(4, pk.{real})",
        "for w in range(4):",
        "    own[w] = x[(i + w) % 21]",
        *g.block(3, 5),
        f"fo[i] += a + b * own[{g.expr('I', 0)} % 4]",
        f"io[i] += pk.{whole}(m - n)",
        "uo[i] ^= z",
        "bo[i] |= flag",
    ]
    text = (
        HEADER
        + functions
        + "@pk.kernel\ndef kernel(i, x, k, u, b0, fo, io, uo, bo, s, pad):\n"
        + "\n".join(indented(body))
        + "\n"
    )
    args = [*arrays(draw, dtypes, LENGTH), draw(st.integers(0, 9)), np.zeros(1, np.int32)]
    return Program("range", text, ("range", 0, LENGTH), args)
