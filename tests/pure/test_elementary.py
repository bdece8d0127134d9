"""Compare the source of exp, log and their family, run as plain Python on NumPy scalars, with mpmath, and at
the edges with NumPy and Python's math. One case for each word.

`portable.core.language.words` rounds fma exactly, so that the errors measured here are those of the compiled
source; the conformance suite tests on every space that the bits are equal.
"""

import ast
import inspect
import itertools
import math
import types
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.texts import elementary
from portable.library.texts import gamma, special
from portable.core.language import words
from portable.core.compiler.reading.callables import texts
from tests.processes import python

ACCURACY = {row.name: row.ulps for row in words.ROWS if row.ulps}
FLOAT = {"float32": np.float32, "float64": np.float64}
# not elementary: within 2 ulp, the others within 1
SPECIAL_FUNCTIONS = ("gamma", "lgamma", "erf", "erfc", "ndtr")
INF, NAN = float("inf"), float("nan")
N_RANDOM = 30


def strong(a, b):
    """Return the dtype of a choice between two numbers: that of the NumPy scalar among them."""
    return next((type(v) for v in (a, b) if isinstance(v, np.generic)), lambda v: v)


def plain(names):
    """Return the functions with words whose literals take the dtype of the other operand, as in compiled
    source.
    """
    names["where"] = lambda c, a, b: strong(a, b)(a if c else b)
    for name, value in names.items():
        if value in (words.minimum, words.maximum):
            names[name] = lambda a, b, better=value: strong(a, b)(better(a, b))
    for name, value in list(names.items()):
        if isinstance(value, types.FunctionType) and value.__module__.startswith(elementary.OWN):
            names[name] = types.FunctionType(value.__code__, names, name)
    return names


PLAIN = plain({**special.TEXTS})
PLAIN = {"float32": elementary.narrowed(PLAIN, special.T32), "float64": PLAIN}


def run(name, dtype, *args):
    """Return a function's value and check its dtype: a float64 operation in a float32 function would change
    it."""
    kind = FLOAT[dtype]
    with np.errstate(all="ignore"):
        y = PLAIN[dtype][texts(name)[1].__name__](*(kind(a) for a in args))
    assert type(y) is kind
    return y


def lgamma(x):
    return mpmath.log(abs(mpmath.gamma(x)))


class Case(NamedTuple):
    """Case of a word. exact : function of mpmath; plain : function of another library that is correct also at
    the edges, None where the word is undefined; ranges : ranges of arguments, one list for each; powers :
    range of the arguments' exponents; more : difficult arguments."""

    exact: object
    plain: object
    ranges: tuple
    powers: tuple = ()
    more: tuple = ()


def of_math(function, pole=NAN):
    """Return a function of Python's math that does not raise."""

    def plain(*args):
        try:
            return function(*args)
        except ValueError:
            return pole
        except OverflowError:
            return INF

    return plain


ALL = (-1074, 1023.9)  # clipped to the range of float32 if necessary
NEAR_ONE = [(0.5, 2), (0.99, 1.01), (1.38, 1.45), (0.69, 0.73)]
MULTIPLES = np.rint(default_rng(20).uniform(-4000, 4000, N_RANDOM)) * np.pi / 2
ANGLES = (
    [[(-7, 7), (-6300, 6300)]],
    ALL,
    # next to multiples of pi/2; where tan is least accurate; the numbers of both types that are nearest to
    # multiples
    (*MULTIPLES, *(MULTIPLES + 0.98 * np.pi / 4), 1e22, 16367173.0 * 2.0**72, 6381956970095103.0 * 2.0**797),
)
CASES = {
    "exp": Case(mpmath.exp, np.exp, [[(-1, 1), (-105, 105), (-746, 746), (-746, -701)]], (-1074, 3)),
    "exp2": Case(lambda x: mpmath.mpf(2) ** x, np.exp2, [[(-1, 1), (-151, 151), (-1076, 1076)]], (-1074, 3)),
    "expm1": Case(mpmath.expm1, np.expm1, [[(-1, 1), (-40, 105), (-40, 746)]], (-1074, 3)),
    "log": Case(mpmath.log, np.log, [NEAR_ONE], ALL),
    "log1p": Case(mpmath.log1p, np.log1p, [[(-1, 1), (0.25, 0.45), (-0.33, -0.25)]], ALL),
    "log2": Case(lambda x: mpmath.log(x, 2), np.log2, [NEAR_ONE], ALL),
    "log10": Case(mpmath.log10, np.log10, [NEAR_ONE], ALL),
    "rsqrt": Case(lambda x: 1 / mpmath.sqrt(x), lambda x: 1 / np.sqrt(x), [NEAR_ONE], ALL),
    "pow": Case(
        mpmath.power, lambda x, y: np.power([x], [y])[0], [[(0.6, 1.5), (0, 9)], [(-4, 4), (-30, 30)]]
    ),
    "sin": Case(mpmath.sin, np.sin, *ANGLES),
    "cos": Case(mpmath.cos, np.cos, *ANGLES),
    "tan": Case(mpmath.tan, np.tan, *ANGLES),
    # the last two are where 1 is next
    "tanh": Case(
        mpmath.tanh, np.tanh, [[(-1, 1), (-20, 20), (0.1, 0.2), (17.5, 19.2), (7.8, 9.2)]], (-1074, 2)
    ),
    "atan": Case(mpmath.atan, np.arctan, [[(-1, 1), (-5, 5), (0.4, 0.43)]], ALL),
    "atan2": Case(mpmath.atan2, np.arctan2, [[(-5, 5), (-1, 1)]] * 2, ALL),
    "asin": Case(mpmath.asin, np.arcsin, [[(-1, 1), (0.45, 0.55), (0.99, 1)]], (-149, 0)),
    "acos": Case(mpmath.acos, np.arccos, [[(-1, 1), (0.45, 0.55), (0.99, 1), (-1, -0.99)]], (-149, 0)),
    "hypot": Case(lambda x, y: mpmath.sqrt(x * x + y * y), np.hypot, [[(-5, 5)]] * 2, ALL),
    "cbrt": Case(lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), np.cbrt, [[(-30, 30), (0.9, 1.1)]], ALL),
    "sinh": Case(mpmath.sinh, np.sinh, [[(-1, 1), (-3, 3), (-88, 88)]], (-1074, 6)),
    "cosh": Case(mpmath.cosh, np.cosh, [[(-1, 1), (-3, 3), (-88, 88)]], (-1074, 6)),
    "asinh": Case(mpmath.asinh, np.arcsinh, [[(-1, 1), (-9, 9)]], ALL),
    "acosh": Case(mpmath.acosh, np.arccosh, [[(1, 1.1), (1, 3), (3, 1e9)]]),
    "atanh": Case(mpmath.atanh, np.arctanh, [[(-1, 1), (0.1, 0.2)]], (-149, 0)),
    "fmod": Case(
        lambda x, y: mpmath.sign(x) * mpmath.fmod(abs(x), abs(y)),
        np.fmod,
        [[(-50, 50)], [(-5, 5)]],
        (-40, 40),
    ),
    "degrees": Case(mpmath.degrees, np.degrees, [[(-7, 7)]], (-100, 100)),
    "radians": Case(mpmath.radians, np.radians, [[(-360, 360)]], (-100, 100)),
    "remainder": Case(
        lambda x, y: x - y * mpmath.nint(x / y), of_math(math.remainder), [[(-50, 50)], [(-5, 5)]], (-40, 40)
    ),
    "logb": Case(
        lambda x: mpmath.frexp(x)[1] - 1,
        lambda x: np.frexp(x)[1] - 1.0 if np.isfinite(x) and x else -INF if x == 0 else abs(x),
        [[(-9, 9)]],
        ALL,
    ),
    "gamma": Case(
        mpmath.gamma, lambda x: of_math(math.gamma)(x) if x else 1 / x, [[(0, 8), (8, 33), (0, 1)]]
    ),
    "ldexp": Case(
        lambda x, n: mpmath.ldexp(x, int(n)),
        lambda x, n: np.ldexp(x, int(n)) if n % 1 == 0 and abs(n) < 1e9 else None,
        [[(-2, 2)], []],
    ),
    "erf": Case(mpmath.erf, math.erf, [[(-1, 1), (-6, 6), (0.45, 0.55)]], (-1074, 0)),
    "erfc": Case(mpmath.erfc, math.erfc, [[(-1, 1), (-6, 10.2), (-6, 27.3)]], (-60, 2)),
    "ndtr": Case(
        mpmath.ncdf, lambda x: math.erfc(-x / math.sqrt(2)) / 2, [[(-1, 1), (-14.2, 8), (-38.5, 8)]], (-60, 2)
    ),
    # away from its zeros at 1 and 2, and those between the negative integers
    "lgamma": Case(
        lgamma,
        of_math(math.lgamma, INF),
        [[(0.01, 0.9), (1.1, 1.9), (2.1, 8), (8, 40)]],
        (),
        np.exp2([*np.linspace(-149, -1, N_RANDOM), *np.linspace(5, 63, N_RANDOM)]),
    ),
}


def error_ulp(y, exact, dtype):
    """Return |y - exact| in units of the last place of the exact value; infinity is correct if rounding
    overflows."""
    info = np.finfo(dtype)
    largest, digits = mpmath.mpf(float(info.max)), info.nmant
    exponent = max(int(mpmath.frexp(exact)[1]) - 1, int(info.minexp)) if exact else int(info.minexp)
    ulp = mpmath.ldexp(1, exponent - digits)
    if np.isinf(y):
        return (
            0.0
            if abs(exact) >= largest + mpmath.ldexp(1, int(info.maxexp) - 2 - digits)
            and (y > 0) == (exact > 0)
            else INF
        )
    return INF if np.isnan(y) else float(abs(mpmath.mpf(float(y)) - exact) / ulp)


def points(name, dtype):
    """Return tuples of arguments: random ones over the relevant ranges, and the difficult ones."""
    case, rng, info = CASES[name], default_rng(20), np.finfo(dtype)
    columns = []
    for ranges in case.ranges:
        parts = [rng.uniform(a, b, N_RANDOM) for a, b in ranges]
        if case.powers:
            lowest = max(case.powers[0], info.minexp - info.nmant)
            sizes = np.exp2(rng.uniform(lowest, min(case.powers[1], info.maxexp - 0.1), N_RANDOM))
            parts.append(sizes * rng.choice([-1.0, 1.0], N_RANDOM))
        whole = np.rint(rng.uniform(2 * info.minexp, info.maxexp, N_RANDOM) / 2)
        columns.append(np.concatenate([*parts, case.more]) if parts else whole)
    with np.errstate(all="ignore"):
        columns = [np.resize(c.astype(FLOAT[dtype]), max(map(len, columns))) for c in columns]
        drawn = zip(columns[0], *(rng.permutation(c) for c in columns[1:]))
        return [
            args
            for args in drawn
            if all(map(np.isfinite, args)) and all(args) and not np.isnan(case.plain(*map(np.float64, args)))
        ]


def test_every_function_has_its_accuracy_written_down():
    assert set(ACCURACY) == set(CASES)
    for name, bounds in ACCURACY.items():
        assert max(bounds) <= (2.0 if name in SPECIAL_FUNCTIONS else 1.0)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", CASES)
def test_error_is_within_what_is_written_down(name, dtype):
    """Errors are at most ACCURACY, the largest error of millions of points (float64) or of all numbers
    (float32).
    """
    bound = ACCURACY[name][dtype == "float64"]
    with mpmath.workdps(400 if name in ("sin", "cos", "tan") else 40):
        for args in points(name, dtype):
            exact = CASES[name].exact(*(mpmath.mpf(float(a)) for a in args))
            if exact:
                error = error_ulp(run(name, dtype, *args), exact, dtype)
                assert error <= bound + 0.005, f"{name}{args}: {error} ulp"


@pytest.mark.parametrize("dtype", FLOAT)
def test_pow(dtype):
    rng = default_rng(21)
    end = 1070 if dtype == "float64" else 148
    x = np.concatenate(
        [
            np.exp2(rng.uniform(-0.9 * end, 0.85 * end, 150)),
            rng.uniform(0.6, 1.5, 150),
            1 + rng.uniform(-1, 1, 150) * 1e-3,
        ]
    )
    y = rng.uniform(-end, 0.95 * end, 450) / np.log2(x)
    y[::3] = rng.uniform(-4, 4, 150)
    y = np.clip(y, -1e30, 1e30)
    with mpmath.workdps(40):
        for a, b in zip(x.astype(FLOAT[dtype]), y.astype(FLOAT[dtype])):
            exact = mpmath.power(mpmath.mpf(float(a)), mpmath.mpf(float(b)))
            error = error_ulp(run("pow", dtype, a, b), exact, dtype)
            assert error <= ACCURACY["pow"][dtype == "float64"] + 0.005, f"pow({a!r}, {b!r}): {error} ulp"


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 8.0, 10.0, 27.0, 1000.0, 1e-45, -1e-45]
EDGES = [*EDGES, 2.0**-149, -40.0, -149.0, 3e38, -3e38, 1e30, INF, -INF, NAN]


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", CASES)
def test_special_values(name, dtype):
    """The value equals that of another library, bit by bit if it is a short number."""
    for args in itertools.product(map(FLOAT[dtype], EDGES), repeat=len(CASES[name].ranges)):
        with np.errstate(all="ignore"):
            wanted = CASES[name].plain(*map(np.float64, args))
            if wanted is None:
                continue
            wanted = FLOAT[dtype](wanted)
            got, info = run(name, dtype, *args), np.finfo(dtype)
            words = f"{name}{args} is {got}, wanted {wanted}"
            if np.isfinite(wanted) and (wanted * 8 % 1 or abs(wanted) > 2000):
                assert_allclose(
                    got, wanted, 4 * float(info.eps), float(info.smallest_subnormal), err_msg=words
                )
            else:
                assert_array_equal(got, wanted, err_msg=words)
        assert np.isnan(got) or np.signbit(got) == np.signbit(wanted), words


@pytest.mark.parametrize("name", [name for name in CASES if name != "ndtr"])
def test_plain_python_means_the_same(name):
    """Compare pk's functions on Python's numbers, edges among them, and on NumPy's scalars, which keep their
    dtype. Plain Python's ndtr rounds its argument first."""
    edges = itertools.product([*EDGES[:-1], 1.79e308, -1e-309], repeat=len(CASES[name].ranges))
    for args in [*points(name, "float64")[::9], *edges]:
        got, wanted = getattr(pk, name)(*map(float, args)), run(name, "float64", *args)
        assert_allclose(got, wanted, rtol=6e-15, atol=1e-300)
        assert np.isnan(got) or np.signbit(got) == np.signbit(wanted)
    assert type(getattr(pk, name)(*(np.float32(1.0) for _ in CASES[name].ranges))) is np.float32


@pytest.mark.parametrize("dtype, last", [("float64", 170), ("float32", 34)])
def test_lgamma_of_whole_and_negative_numbers(dtype, last):
    """Compare with factorials; the absolute error of the reflection is that of two terms which cancel near
    the zeros."""
    eps = float(np.finfo(dtype).eps)
    with mpmath.workdps(40):
        for n in range(3, last):
            assert error_ulp(run("lgamma", dtype, float(n)), lgamma(mpmath.mpf(n)), dtype) <= 2.0
        for x in (-0.25, -0.5, -1.5, -2.75, -7.3125, -33.5):
            exact = lgamma(mpmath.mpf(x))
            scale = max(1.0, abs(float(exact)), float(abs(lgamma(mpmath.mpf(-x)))))
            assert abs(run("lgamma", dtype, x) - float(exact)) <= 2 * eps * scale


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", ["exp", "exp2", "log"])
def test_fast_forms(name, dtype):
    """Errors are at most 3 ulp on normal numbers; results that would be subnormal are 0."""
    tiny = float(np.finfo(dtype).tiny)
    with mpmath.workdps(40):
        for (x,) in points(name, dtype):
            exact = CASES[name].exact(mpmath.mpf(float(x)))
            if float(x) < tiny if name == "log" else exact < 4 * tiny:
                continue
            assert error_ulp(run(f"fast_{name}", dtype, x), exact, dtype) <= 3.0
    assert run("fast_exp", dtype, -1e30) == 0.0
    assert np.isinf(run("fast_exp", dtype, 1e30))


@pytest.mark.parametrize("dtype", FLOAT)
def test_exp_nonpositive_has_the_bits_of_exp(dtype):
    """Zeros, negative numbers, -infinity and NaN give the same bits; results near the subnormal numbers,
    and below, are 0."""
    least = 2 * float(np.finfo(dtype).tiny)
    x = np.concatenate(
        [-abs(np.ravel(points("exp", dtype))), np.linspace(-800.0, 0.0, 1001), [0.0, -0.0, NAN]]
    ).astype(dtype)
    for v in x:
        wanted = run("exp", dtype, v)
        got = run("exp_nonpositive", dtype, v)
        assert got == wanted or np.isnan(v) and np.isnan(got) or got == 0.0 and wanted < least, v
    assert run("exp_nonpositive", dtype, -INF) == 0.0 == run("exp_nonpositive", dtype, -1e30)


def test_rsqrt_of_float32_is_rounded_correctly(monkeypatch):
    """Test the code for packs for each number from 1 to 4; and for the numbers whose roots are nearest to a
    midpoint any initial value with an error up to 2^-22.9."""
    x = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    y = np.empty_like(x)
    pk.parallel_for(pk.RangePolicy(0, len(x), space="serial"), roots, x, y)
    exact = 1.0 / np.sqrt(x.astype(np.float64))
    assert_array_equal(y, exact.astype(np.float32))
    middle = np.abs(np.abs(exact - y) - np.spacing(y) / 2)
    for k in np.argpartition(middle, 300)[:300]:
        for off in range(-2, 3):
            start = (y[k : k + 1].view(np.int32) + off).view(np.float32)[0]
            if abs(start - exact[k]) <= 2**-22.9 * exact[k]:
                monkeypatch.setitem(PLAIN["float32"], "near_rsqrt", lambda _, start=start: start)
                assert run("rsqrt", "float32", x[k]) == y[k], (x[k], off)


@pk.kernel
def roots(i, x, y):
    y[i] = pk.rsqrt(x[i])


def test_constants_of_float32_text_are_float32_numbers():
    """A constant must have the same value in plain Python and in compiled source."""
    for name, value in vars(special.T32).items():
        for c in () if name.endswith(("_END", "_ENDS", "_LEAST", "_SMALL")) else np.ravel(value):
            assert isinstance(c, (int, np.integer)) or float(np.float32(c)) == c, f"{name} holds {c!r}"


TEXT = [
    node
    for module in (elementary, *special.MODULES)
    for node in ast.parse(inspect.getsource(module)).body
    if isinstance(node, ast.FunctionDef) and (module is not gamma or "lgamma" in node.name)
]


def test_no_product_meets_a_sum():
    """`a * b + c` may be contracted on one machine and not on another; integers cannot."""
    for function in TEXT:
        no_product_meets_a_sum(function)


def no_product_meets_a_sum(function):
    if function.name in ("far_quadrant", "bits_of_two_over_pi"):
        return
    products = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.BinOp)
        and isinstance(node.value.op, ast.Mult)
        for target in node.targets
    }
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            for side in (node.left, node.right):
                side = side.operand if isinstance(side, ast.UnaryOp) else side
                product = isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mult)
                product = product or (isinstance(side, ast.Name) and side.id in products)
                assert not product, f"{function.name}, line {node.lineno}: {ast.unparse(node)}"


def test_text_is_free_of_branches():
    """Only selects are allowed, and an `if` on `any` of all lanes, which skips code that no lane needs.

    Only division has a loop, for quotients with more digits than the type.
    """
    for function in TEXT:
        free_of_branches(function)


def free_of_branches(function):
    if function.name in ("divmod_of", "_remainder", "narrowed"):
        return
    for node in ast.walk(function):
        assert not isinstance(node, (ast.While, ast.IfExp, ast.BoolOp)), (
            f"{function.name}, line {node.lineno}"
        )
        if isinstance(node, ast.If):
            assert ast.unparse(node.test).startswith("any("), f"{function.name}, line {node.lineno}"


def test_python_without_docstrings():
    """`python -OO` has no docstrings: the documentation of words uses their lines."""
    done = python("-OO", "-c", "import portable", check=False)
    assert done.returncode == 0, done.stderr
