"""Draw launches of small kernels: ranges and boxes with offsets, empty ones, sizes around packs of 8 and 16
and blocks of 128 and 256."""

import math

import numpy as np
from hypothesis import strategies as st

from .grammar import Grammar, helpers, indented
from .program import HEADER, Program
from .ranges import draw_dtypes

SIZES = [5, 0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 127, 128, 129, 130, 255, 256, 257, 300]
LENGTH = 21
INDICES = "i j l p".split()


def policies(draw):
    """Draw (policy, its number of indices in each dimension)."""
    dimensions = draw(st.sampled_from([1, 1, 2, 3, 4]))
    if dimensions == 1:
        begin = draw(st.sampled_from([0, 0, 1, 3, 8, 100, -5, 2**40]))
        n = draw(st.sampled_from(SIZES))
        return ("range", begin, begin + n), (n,)
    last = draw(st.sampled_from([s for s in SIZES if s < 70]))
    extents = (*(draw(st.integers(0, 4 if dimensions < 4 else 3)) for _ in range(dimensions - 1)), last)
    begins = tuple(draw(st.sampled_from([0, 0, 2, -3])) for _ in range(dimensions))
    return ("box", begins, tuple(b + n for b, n in zip(begins, extents))), extents


@st.composite
def programs(draw):
    dtypes = draw_dtypes(draw)
    policy, extents = policies(draw)
    names = INDICES[: len(extents)]
    begins = (policy[1],) if policy[0] == "range" else policy[1]
    at = ", ".join(f"{n} - {b}" for n, b in zip(names, begins))
    g = Grammar(draw, dtypes, LENGTH, room=4)
    functions = helpers(draw, dtypes, LENGTH)
    g.leaves |= {
        "f": ["a", "x[m % 21]", f"x[({names[-1]}) % 21]"],
        "i": ["m", f"{names[0]} % 50", f"{names[-1]} % 9", f"({names[-1]} + 16) % 50", "s"],
        "u": ["z"],
        "c": ["flag", f"({names[-1]} + 16 > 24)"],
    }
    g.variables |= {"f": ["a"], "i": ["m"], "u": ["z"], "c": ["flag"]}
    g.targets, g.result = [("f", [f"fo[{at}]"]), ("i", [f"io[{at}]"])], "return"
    whole = dtypes["i"]
    body = [
        f"unused = wide({names[-1]})",
        f"a, m = x[({' + '.join(names)}) % 21], pk.{whole}({names[-1]} % 30)",
        f"z, flag = u[{names[-1]} % 21], {names[0]} % 2 == 0",
        *g.block(1, 3),
        f"fo[{at}] += a",
        f"io[{at}] += m + pk.{whole}({names[0]} % 7)",
    ]
    text = (
        HEADER
        + functions
        + f"@pk.kernel\ndef kernel({', '.join(names)}, x, u, fo, io, s, pad):\n"
        + "\n".join(indented(body))
        + "\n"
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = tuple(max(n, 1) for n in extents)
    assert math.prod(shape) < 2000
    args = [
        (rng.integers(-16, 17, LENGTH) / 8).astype(dtypes["f"]),
        rng.integers(0, 99, LENGTH).astype(dtypes["u"]),
        *(np.zeros(shape, dtypes[kind]) for kind in "fi"),
        draw(st.integers(0, 5)),
        np.zeros(1, np.int32),
    ]
    return Program("launch", text, policy, args)
