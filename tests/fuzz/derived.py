"""Compare derivatives of random functions of two numbers, in both modes, with differences in 60 digits.

A point is left out where the text has a kink or a jump (the differences to both sides disagree), or divides
by zero.
"""

import warnings
from collections import Counter

import mpmath
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import portable as pk
from portable.errors import LanguageError

from ..derivatives.exact import DIGITS, STEP, plain
from .grammar import Grammar, indented, templates
from .program import load

TOLERANCE = 1e-9  # a wrong rule is off by far more; the programs lose some digits to rounding
SHAPES = {
    "f": templates(
        """{F} + {f}; {F} - {f}; {F} * {f}; {F} / (2.0 + abs({f})); -{F}; {F} * {f} + {f}; {f} - {F} * {f};
        {f} if {c} else {f}; {F} * {f} if {c} else {f}; min({F}, {f}); max({f}, {F}, {f}); abs({F}); q({F});
        bend({F}, {f}); pair({F}, {f})[1] + {f}; pk.where({c}, {f}, {F}); {F} + {i}; {F} * {i};
        pk.sqrt(abs({F}) + 0.5); pk.minimum({F}, {f}); pk.maximum({f}, {F}); pk.clip({F}, -2.0, 2.0);
        pk.fma({F}, {f}, {f}); pk.exp(-abs({F})); pk.log(1.0 + abs({F})); pk.cos({F}); pk.tanh({F});
        {F} % 1.7;
        {F} - np.floor({F}); {F} ** 3; pk.atan2({F}, 2.0 + abs({f})); {F} + {c}"""
    ),
    "i": templates("{I} + {i}; {I} - {i}; {I} * {i}; {I} % 5; -{I}; {i} if {c} else {i}; int(q({F}) * 3.0)"),
    "c": templates("{F} < {f}; {I} == {i}; {F} >= {f}; {I} % 2 == 0; {C} and {c}; {C} or {c}; not {C}"),
}
HEADER = """import numpy as np
import portable as pk

TAPS = (1, 2)


@pk.function
def q(t):
    return pk.sin(t) * 1.5


@pk.function
def pair(t, s):
    if t > s:
        return t * s, t
    return t + s, s * 0.5


@pk.function
def bend(t, s):
    if t < s:
        return s * t
    for r in range(3):
        if t > 1.2:
            return t - s
        t = q(t + 0.75 * s)
    return t


@pk.function
def f(x, y, n):
"""
POINTS = np.array([[0.37, -0.81, 1.43, -1.9, 0.11, 2.07], [0.9, 1.31, -0.57, 0.23, -1.13, 0.61]])


@pk.kernel
def derived(i, d, points, out):
    v, dx, dy = d(points[0, i], points[1, i], i)
    out[0, i] = v
    out[1, i] = dx
    out[2, i] = dy


@pk.kernel
def applied(i, f, x, y, out):
    out[i] = f(x[i], y[i], i)


@st.composite
def functions(draw):
    g = Grammar(draw, {"f": "float64", "i": "int64", "u": "uint64"}, 4)
    g.shapes, g.row = SHAPES, "own"
    g.leaves |= {"f": ["x", "y", "a", "b", "own[m % 4]"], "i": ["m", "n"], "c": ["flag"]}
    g.variables |= {"f": ["a", "b", "x"], "i": ["m"], "c": ["flag"]}
    g.targets, g.result = [("f", ["own[{I} % 4]"])], "return {f} + a * b"
    kinds = g.kinds
    g.kinds = lambda depth: [k for k in kinds(depth) if k not in ("helper", "both")]
    body = [
        "a, b = x * y, y - x",
        "m, flag = n + 1, x > y",
        "own = pk.local(4, pk.float64)",
        "for w in range(4):",
        "    own[w] = x * w - y",
        *g.block(3, 5),
        "return a + b * own[m % 4] + own[0]",
    ]
    return HEADER + "\n".join(indented(body)) + "\n"


def exact(function, x, y, n):
    """Return [value, derivatives] at a point by differences; None in place of a derivative that does not
    exist.
    """
    with mpmath.workdps(DIGITS):
        run, at = plain(function), (mpmath.mpf(x), mpmath.mpf(y))
        found = [run(*at, n)]
        for e in ((STEP, 0), (0, STEP)):
            up, down = (run(at[0] + s * e[0], at[1] + s * e[1], n) - found[0] for s in (1, -1))
            smooth = abs(up + down) <= 1e-15 * STEP * (1 + abs(up / STEP))
            found.append((up - down) / (2 * STEP) if smooth else None)
        return found


def wrong(text):
    """Return the error in the derivatives of a source, or None, and the number of derivatives compared."""
    function = load(text, "<derived>")["f"]
    out = np.zeros((3, POINTS.shape[1]))
    d = pk.derivative(function, ("x", "y"), value=True)
    pk.parallel_for(pk.RangePolicy(0, POINTS.shape[1], space="serial"), derived, d, POINTS, out)
    compared, (x, y), ones = 0, POINTS.copy(), np.ones(POINTS.shape[1])
    policy = pk.RangePolicy(0, len(x), space="serial")
    found = pk.adjoint(policy, applied, function, x, y, np.empty(len(x)), wrt=("x", "y"), of={"out": ones})
    for back, forth in zip(found, out[1:]):
        same = np.abs(back - forth) <= TOLERANCE * np.maximum(1, np.abs(forth))
        if not (same | ~np.isfinite(forth)).all():
            return f"in reverse {back}, forward {forth}\n{text}", compared
    for i, (x, y) in enumerate(POINTS.T.tolist()):
        try:
            wanted = exact(function, x, y, i)
        except ZeroDivisionError:
            continue
        for got, right in zip(out[:, i], wanted):
            compared += right is not None
            if right is not None and not abs(got - right) <= TOLERANCE * max(1, abs(right)):
                return f"at ({x}, {y}, {i}): got {out[:, i]}, wanted {float(right)}\n{text}", compared
    return None, compared


def campaign(programs, seed_):
    """Compare the derivatives of `programs` random functions; return counts of outcomes, and the errors."""
    said, differences = Counter(), []

    @seed(seed_)
    @settings(
        max_examples=programs,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(functions())
    def examine(text):
        said["programs"] += 1
        try:
            found, compared = wrong(text)
        except LanguageError as error:
            said["refused"] += 1
            said[str(error).partition(": ")[2][:80]] += 1
            return
        said["compared"] += compared
        if found:
            differences.append(found)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "kernel .* is a step", RuntimeWarning)
        examine()
    return said, differences
