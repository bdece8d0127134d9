"""The text of exp, log and their family, run as plain Python on NumPy scalars, against mpmath.

`portable.core.language.words` rounds fma exactly, so what is measured here is what the compiled text gives;
that it gives the same bits is tested on every space by the conformance suite.
"""

import ast
import inspect
import types

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.texts import elementary, elementary_tables
from portable.library.texts import c99, erf, gamma, special
from portable.core.language import words
from portable.core.compiler.reading.known import texts

ACCURACY = {row.name: row.ulps for row in words.ROWS if row.ulps}
FLOAT = {"float32": np.float32, "float64": np.float64}
# not elementary: within 2 ulp, the others within 1
SPECIAL_FUNCTIONS = ("gamma", "lgamma", "erf", "erfc", "ndtr")
INF, NAN = float("inf"), float("nan")
N_RANDOM = 40


def strong(a, b):
    """The dtype that a choice between two numbers has: that of the NumPy scalar among them."""
    return next((type(v) for v in (a, b) if isinstance(v, np.generic)), lambda v: v)


def plain(names):
    """The functions over words whose literals take the dtype of the value they meet, as in compiled text."""
    names["where"] = lambda c, a, b: strong(a, b)(a if c else b)
    for name, value in names.items():
        if value in (words.minimum, words.maximum):
            names[name] = lambda a, b, better=value: strong(a, b)(better(a, b))
    for name, value in list(names.items()):
        if isinstance(value, types.FunctionType) and value.__module__.startswith(elementary.OWN):
            names[name] = types.FunctionType(value.__code__, names, name)
    return names


PLAIN = plain({**special.TEXTS})
PLAIN = {"float32": elementary.narrowed(PLAIN), "float64": PLAIN}


def run(name, dtype, *args):
    """One function's value, with its dtype checked: a float64 operation in a float32 function would show
    here."""
    kind = FLOAT[dtype]
    with np.errstate(all="ignore"):
        y = PLAIN[dtype][texts(name)[1].__name__](*(kind(a) for a in args))
    assert type(y) is kind
    return y


def lgamma(x):
    return mpmath.log(abs(mpmath.gamma(x)))


EXACT = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "pow": mpmath.power,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "ndtr": mpmath.ncdf,
    "lgamma": lgamma,
}


def error_ulp(y, exact, dtype):
    """|y - exact| in units of the last place of the exact value; infinity is right where rounding gives
    it."""
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
    """Random arguments over the ranges that matter, and the hard places."""
    rng = default_rng(20)
    double = dtype == "float64"
    lowest, highest = (-1074, 1023.9) if double else (-149, 127.9)

    def uniform(*ranges):
        return np.concatenate([rng.uniform(a, b, N_RANDOM) for a, b in ranges])

    def powers(a, b, signed=False):
        x = np.exp2(rng.uniform(a, b, N_RANDOM))
        return x * rng.choice([-1.0, 1.0], N_RANDOM) if signed else x

    if name in ("exp", "exp2", "expm1"):
        end = (1076 if double else 151) * (1.0 if name == "exp2" else np.log(2))
        x = np.concatenate([uniform((-1, 1), (-end, end), (-end, -0.94 * end)), powers(lowest, 3, True)])
        x = x[x > -40] if name == "expm1" else x
    elif name in ("log", "log2", "log10", "rsqrt"):
        x = np.concatenate(
            [uniform((0.5, 2), (0.99, 1.01), (1.38, 1.45), (0.69, 0.73)), powers(lowest, highest)]
        )
    elif name == "log1p":
        x = np.concatenate(
            [uniform((-1, 1), (0.25, 0.45), (-0.33, -0.25)), powers(lowest, highest), -powers(lowest, 0)]
        )
    elif name in ("sin", "cos", "tan"):
        multiples = np.rint(rng.uniform(-4000, 4000, N_RANDOM)) * np.pi / 2
        hard = (
            [1e22, 6381956970095103.0 * 2.0**797] if double else [1e22, 16367173.0 * 2.0**72]
        )  # next to multiples of pi/2
        eighths = multiples + rng.uniform(0.95, 1, N_RANDOM) * np.pi / 4  # where tan is worst
        x = np.concatenate(
            [uniform((-7, 7), (-6300, 6300)), multiples, eighths, powers(lowest, highest, True), hard]
        )
    elif name == "tanh":
        last = (17.5, 19.2) if double else (7.8, 9.2)  # where 1 is next
        x = np.concatenate([uniform((-1, 1), (-20, 20), (0.1, 0.2), last), powers(lowest, 2, True)])
    elif name == "erf":
        x = np.concatenate([uniform((-1, 1), (-6, 6), (0.45, 0.55)), powers(lowest, 0, True)])
    elif name == "erfc":
        x = np.concatenate([uniform((-1, 1), (-6, 27.3 if double else 10.2)), powers(-60, 2, True)])
    elif name == "ndtr":
        x = np.concatenate([uniform((-1, 1), (-38.5 if double else -14.2, 8)), powers(-60, 2, True)])
    else:  # lgamma, away from its zeros at 1 and 2 and those between the negative integers
        x = np.concatenate(
            [uniform((0.01, 0.9), (1.1, 1.9), (2.1, 8), (8, 40)), powers(lowest, -1), powers(5, highest / 2)]
        )
    x = x.astype(FLOAT[dtype])
    return x[np.isfinite(x) & (x != 0)]


def test_every_function_has_its_accuracy_written_down():
    from test_words import CASES

    assert set(ACCURACY) == set(EXACT) | set(CASES)
    for name, bounds in ACCURACY.items():
        assert max(bounds) <= (2.0 if name in SPECIAL_FUNCTIONS else 1.0)


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", [name for name in EXACT if name != "pow"])
def test_error_is_within_what_is_written_down(name, dtype):
    """ACCURACY is the largest error of millions of points (float64) or of every number (float32)."""
    bound = ACCURACY[name][dtype == "float64"]
    with mpmath.workdps(400 if name in ("sin", "cos", "tan") else 40):
        for x in points(name, dtype):
            error = error_ulp(run(name, dtype, x), EXACT[name](mpmath.mpf(float(x))), dtype)
            assert error <= bound + 0.005, f"{name}({x!r}): {error} ulp"


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


SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1e30, INF), (-1e30, 0.0)],
    "exp2": [
        (0.0, 1.0),
        (-3.0, 0.125),
        (INF, INF),
        (-INF, 0.0),
        (-149.0, 2.0**-149),
        (1e30, INF),
        (-1e30, 0.0),
    ],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (1e30, INF), (-1e30, -1.0), (1e-45, 1e-45)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN), (-1e-45, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN), (1e-45, 1e-45)],
    "log2": [(0.0, -INF), (1.0, 0.0), (8.0, 3.0), (2.0**-149, -149.0), (INF, INF), (-1.0, NAN)],
    "log10": [(0.0, -INF), (1.0, 0.0), (1000.0, 3.0), (1e10, 10.0), (INF, INF), (-1.0, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4.0, 0.5), (INF, 0.0), (-1.0, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (-1e-45, -1e-45)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (1e-45, 1e-45)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (1e-45, 1e-45)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (30.0, 0.0)],
    "ndtr": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (-40.0, 0.0)],
    "lgamma": [
        (1.0, 0.0),
        (2.0, 0.0),
        (0.0, INF),
        (-0.0, INF),
        (-1.0, INF),
        (-4.0, INF),
        (INF, INF),
        (-INF, INF),
    ],
}


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name, dtype):
    for x, wanted in [*SPECIAL[name], (NAN, NAN)]:
        got = run(name, dtype, x)
        assert_array_equal(got, FLOAT[dtype](wanted), err_msg=f"{name}({x})")
        assert np.isnan(got) or np.signbit(got) == np.signbit(wanted), (
            f"{name}({x}) is {got}, wanted {wanted}"
        )


@pytest.mark.parametrize("dtype", FLOAT)
def test_special_values_of_pow_are_those_of_numpy(dtype):
    values = np.array(
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, INF, -INF, NAN, 1e30, -1e30, 1e-30], dtype
    )
    for x in values:
        with np.errstate(all="ignore"):
            wanted = np.power(np.full_like(values, x), values)
        got = np.array([run("pow", dtype, x, y) for y in values])
        assert_allclose(got, wanted, rtol=float(np.finfo(dtype).eps), err_msg=f"pow({x}, ...)")
        numbers = ~np.isnan(wanted)
        assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]), err_msg=f"pow({x}, ...)")


@pytest.mark.parametrize("dtype, last", [("float64", 170), ("float32", 34)])
def test_lgamma_of_whole_and_negative_numbers(dtype, last):
    """Factorials, and the reflection's absolute error: it is that of the two terms which cancel near the
    zeros."""
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
    """Within 3 ulp on normal numbers; what would be subnormal is 0."""
    tiny = float(np.finfo(dtype).tiny)
    with mpmath.workdps(40):
        for x in points(name, dtype):
            exact = EXACT[name](mpmath.mpf(float(x)))
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
    x = np.concatenate([-abs(points("exp", dtype)), np.linspace(-800.0, 0.0, 1001), [0.0, -0.0, NAN]]).astype(
        dtype
    )
    for v in x:
        wanted = run("exp", dtype, v)
        got = run("exp_nonpositive", dtype, v)
        assert got == wanted or np.isnan(v) and np.isnan(got) or got == 0.0 and wanted < least, v
    assert run("exp_nonpositive", dtype, -INF) == 0.0 == run("exp_nonpositive", dtype, -1e30)


def test_rsqrt_of_float32_is_rounded_correctly(monkeypatch):
    """By the code for packs for each number from 1 to 4; and whatever it begins with, up to 2^-22.9 off, at
    those whose roots are nearest to the middle of two."""
    x = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    y = np.empty_like(x)
    pk.parallel_for(pk.RangePolicy(0, len(x), space="serial"), roots, x, y)
    exact = 1.0 / np.sqrt(x.astype(np.float64))
    assert_array_equal(y, exact.astype(np.float32))
    middle = np.abs(np.abs(exact - y) - np.spacing(y) / 2)
    for k in np.argpartition(middle, 12)[:12]:
        for off in range(-2, 3):
            start = (y[k : k + 1].view(np.int32) + off).view(np.float32)[0]
            if abs(start - exact[k]) <= 2**-22.9 * exact[k]:
                monkeypatch.setitem(PLAIN["float32"], "near_rsqrt", lambda _, start=start: start)
                assert run("rsqrt", "float32", x[k]) == y[k], (x[k], off)


@pk.kernel
def roots(i, x, y):
    y[i] = pk.rsqrt(x[i])


def test_constants_of_float32_text_are_float32_numbers():
    """Plain Python and compiled text must mean the same number by a constant that is calculated with."""
    for name, value in vars(elementary_tables.T32).items():
        for c in () if name.endswith(("_END", "_ENDS", "_LEAST", "_SMALL")) else np.ravel(value):
            assert isinstance(c, (int, np.integer)) or float(np.float32(c)) == c, f"{name} holds {c!r}"


TEXT = [
    node
    for module in (elementary, c99, erf, gamma)
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
    """Selects only; the one `if` that is allowed asks all lanes at once, to skip what none of them needs.

    Division alone has a loop, for quotients with more digits than the type.
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
