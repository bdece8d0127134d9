"""Compare derivatives of random functions of two numbers with differences in 60 digits: first and second ones
in forward mode, first ones in reverse mode, with the same bits on all spaces.

The bound is 1e-12 of the sum of the absolute terms of a derivative, and what rounding of numbers before it
may add. A point is left out where rounding may change a test or a step, or at a division by zero.
"""

import warnings
from collections import Counter

import mpmath
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import portable as pk
from portable.errors import LanguageError

from ..derivatives.exact import DIGITS, plain
from ..derivatives.terms import SCOPE, Terms, Undecided
from ..launching import move
from .grammar import Grammar, indented, templates
from .program import load

BOUND, ROUNDING, NOISE = 1e-12, 2.0**-48, 1e-22  # NOISE: of the differences, in units of the value
STEP = mpmath.mpf(10) ** -15
SHAPES = {
    "f": templates(
        """{F} + {f}; {F} - {f}; {F} * {f}; {F} / (2.0 + abs({f})); -{F}; {F} * {f} + {f}; {f} - {F} * {f};
        {f} if {c} else {f}; {F} * {f} if {c} else {f}; min({F}, {f}); max({f}, {F}, {f}); abs({F}); q({F});
        bend({F}, {f}); pair({F}, {f})[1] + {f}; pk.where({c}, {f}, {F}); {F} + {i}; {F} * {i};
        pk.sqrt(abs({F}) + 0.5); pk.minimum({F}, {f}); pk.maximum({f}, {F}); pk.clip({F}, -2.0, 2.0);
        pk.fma({F}, {f}, {f}); pk.exp(-abs({F})); pk.log(1.0 + abs({F})); pk.cos({F}); pk.tanh({F});
        {F} % 1.7; own[{I} % 4 :].sum(); own[-3:] @ own[:3]; filled({F}, {f}); pk.where({C}, {F}, {f} / 0.5);
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
def filled(t, s):
    v, k = pk.local(3, pk.float64), 0
    v[:] = t
    while t * k < 2.5 and k < 3:
        k += 1
        if s > k:
            continue
        v[k - 1] = t * s
        pk.atomic_add(v, 2, s)
    return v[0] + v[k - 1] * v[2]


@pk.kernel
def derived(i, d, points, out):
    out[0, i], out[1, i], out[2, i], out[3, i], out[4, i], out[5, i] = d(
        points[0, i], points[1, i], i)


@pk.kernel
def applied(i, f, x, y, out):
    out[i] = f(x[i], y[i], i)


@pk.function
def f(x, y, n):
"""
POINTS = np.array([[0.37, -0.81, 1.43, -1.9, 0.11, 2.07], [0.9, 1.31, -0.57, 0.23, -1.13, 0.61]])


class Derived(Grammar):
    """Draws functions of floats; `own` is a local array."""

    def kinds(self, depth):
        return [k for k in super().kinds(depth) if k != "helper"]

    def make_both(self, depth):
        lines = "a, b = b, a", "own[1:] *= 0.75", "own[:] += a", "pk.atomic_add(own, {I} % 4, {f})"
        return [self.fill(self.pick([*lines, "a, own[2] = own[1], a"]))]


@st.composite
def functions(draw):
    g = Derived(draw, {"f": "float64", "i": "int64", "u": "uint64"}, 4, 5)
    g.shapes, g.row = SHAPES, "own"
    g.leaves |= {"f": ["x", "y", "a", "b", "own[m % 4]"], "i": ["m", "n"], "c": ["flag"]}
    g.variables |= {"f": ["a", "b", "x"], "i": ["m"], "c": ["flag"]}
    g.targets, g.result = [("f", ["own[{I} % 4]"])], "return {f} + a * b"
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
    """Return the value and derivatives of a function at a point, by differences, and their bounds."""
    with mpmath.workdps(DIGITS):
        run, (x, y), sides = plain(function), map(mpmath.mpf, (x, y)), (-1, 0, 1)
        at = {(i, j): run(x + i * STEP, y + j * STEP, n) for i in sides for j in sides}
        here = at[0, 0]
        found = [
            here,
            (at[1, 0] - at[-1, 0]) / (2 * STEP),
            (at[0, 1] - at[0, -1]) / (2 * STEP),
            (at[1, 0] - 2 * here + at[-1, 0]) / STEP**2,
            (at[1, 1] - at[1, -1] - at[-1, 1] + at[-1, -1]) / (2 * STEP) ** 2,
            (at[0, 1] - 2 * here + at[0, -1]) / STEP**2,
        ]
        given = Terms(x), Terms(y)
        for k, v in enumerate(given, 1):
            v.terms[0, k] = 1.0
        terms, errors = plain(function, SCOPE)(*given, n).terms * [1, 1, 1, 2, 1, 2]
        return found, BOUND * terms + ROUNDING * errors + NOISE * errors[0]


def on_spaces(program, spaces):
    """Return the derivatives of a program's function in forward and reverse mode, or the name of a space with
    other bits."""
    function = program["f"]
    d = pk.derivative(function, ("x", "y"), value=True, order=2)
    first, n = None, POINTS.shape[1]
    for space in spaces:
        policy = pk.RangePolicy(0, n, space=space)
        points, forward, x, y, out, ones = (
            move(v, space) for v in (POINTS, np.zeros((6, n)), *POINTS.copy(), np.empty(n), np.ones(n))
        )
        pk.parallel_for(policy, program["derived"], d, points, forward)
        reverse = pk.adjoint(
            policy, program["applied"], function, x, y, out, wrt=("x", "y"), of={"out": ones}
        )
        found = [v if isinstance(v, np.ndarray) else v.to_numpy() for v in (forward, *reverse)]
        first = first or found
        if any(v.tobytes() != w.tobytes() for v, w in zip(found, first)):
            return space
    return first


def wrong(text, spaces):
    """Return the error in the derivatives of a source, or None, and the number of derivatives compared."""
    program, compared = load(text, "<derived>"), 0
    found = on_spaces(program, spaces)
    if isinstance(found, str):
        return f"bits of {found} are others\n{text}", compared
    for i, (x, y) in enumerate(POINTS.T.tolist()):
        try:
            wanted, bounds = exact(program["f"], x, y, i)
        except (Undecided, ZeroDivisionError):
            continue
        for mode, got, places in (
            ("forward", found[0][:, i], slice(6)),
            ("reverse", [v[i] for v in found[1:]], slice(1, 3)),
        ):
            for v, right, bound in zip(got, wanted[places], bounds[places]):
                compared += 1
                if not abs(v - right) <= bound:
                    return f"at ({x}, {y}, {i}), {mode}: got {got}, wanted {wanted[places]}\n{text}", compared
    return None, compared


def campaign(programs, seed_, spaces=("serial", "threads:2")):
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
            found, compared = wrong(text, spaces)
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
