"""Step 32, constants: a number in the source, from the enclosing scope, as pk.static and as an argument has
the same meaning.

The reference is NumPy's scalars. NumPy has no sum with a product that is rounded once; there the four forms
are compared with each other.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk

from ..fuzz.program import load
from ..launching import launch_for
from .test_step20_meaning import run

VALUES = [0.1, 16777217.0, 1e40, 1e-46, -0.0, 4294967295.5, -1.5, 2.0**33, 1 / 3, -3e9, math.inf, math.nan]
f32, f64 = np.float32, np.float64


def held(v, dtype):
    """Truncate a float, limited to the ends of an integer type."""
    ends = np.iinfo(dtype)
    if v != v:
        return 0
    return (
        int(min(max(float(v), ends.min), ends.max)) if math.isinf(v) else min(max(int(v), ends.min), ends.max)
    )


# source with V, and its result for the kernel's float v; None: NumPy has no such rounding
CASES = {
    "pk.float32(V)": f32,
    "np.float32(V)": f32,
    "pk.float64(pk.float32(V))": lambda v: f64(f32(v)),
    "float(pk.float32(V))": f32,
    "pk.float32(V) * 1.0": f32,
    "pk.float32(V) - V": lambda v: f32(v) - f32(v),
    "abs(pk.float32(V))": lambda v: abs(f32(v)),
    "-pk.float32(V)": lambda v: -f32(v),
    "pk.float64(pk.float32(V)) * 3.0": lambda v: f64(f32(v)) * 3.0,
    "pk.float64(pk.float32(V) + pk.float32(0.2))": lambda v: f64(f32(v) + f32(0.2)),
    "pk.where(x[i] > 0.0, pk.float32(V), pk.float32(V))": f32,
    "min(pk.float32(V), 5.0)": lambda v: f32(v) if not 5.0 < f32(v) else f32(5.0),
    "pk.minimum(pk.float32(V), V)": f32,
    "1.0 if pk.float32(V) == V else 0.0": lambda v: f64(f32(v) == f32(v)),
    "pk.float64(pk.int32(V))": lambda v: f64(held(v, np.int32)),
    "pk.float64(pk.int64(V))": lambda v: f64(held(v, np.int64)),
    "pk.float64(pk.uint32(V))": lambda v: f64(held(v, np.uint32)),
    "pk.float64(int(V))": lambda v: f64(held(v, np.int64)),
    "math.floor(V) * 1.0": lambda v: type(v)(held(np.floor(v), np.int64)),
    "(pk.float32(V), 2.0)[0]": f32,
    "V * 3.0": lambda v: v * type(v)(3),
    "V * V * V": lambda v: v * v * v,
    "V / 7 + 0.1": lambda v: v / type(v)(7) + type(v)(0.1),
    "V // 0.3": lambda v: np.floor_divide(v, type(v)(0.3)),
    "V % 0.3": lambda v: np.remainder(v, type(v)(0.3)),
    "V ** 2": lambda v: v * v,
    "V ** 5": lambda v: v * ((v * v) * (v * v)),
    "V ** 0.5": np.sqrt,
    "V ** -1": None,
    "V ** 2.5": None,
    "V * 3.0 + 0.1": None,
    "V * 0.7 + x[i]": None,
    "x[i] - V * V": None,
    "same(V * 0.7) + x[i]": lambda v: v * type(v)(0.7) + type(v)(1),
    "(V * 0.7 if TRUE else V) + x[i]": lambda v: v * type(v)(0.7) + type(v)(1),
    "(TRUE and V * 0.7) + x[i]": lambda v: v * type(v)(0.7) + type(v)(1),
    "pk.where(TRUE, V * 0.7, V) + x[i]": lambda v: v * type(v)(0.7) + type(v)(1),
}
HEAD = """import math

import numpy as np
import portable as pk

TRUE = True
{constant}

@pk.function
def same(t):
    return t


@pk.kernel
def kernel(i, x, out, flag, V):
"""


def forms(texts):
    """Return (a kernel, a function that makes its last argument from a number) for each form; `V` may be any
    of them.
    """
    body = "".join(f"    out[{k}, i] = {text}\n" for k, text in enumerate(texts))
    given = HEAD.format(constant="") + body.replace("TRUE", "flag")
    inside = (HEAD.format(constant="V = {value}") + body).replace(", flag, V)", ", flag, unused)")
    literal = (HEAD.format(constant="") + body.replace("V", "({value})")).replace("flag, V)", "flag, unused)")
    return [(given, float), (given, pk.static), (inside, lambda v: 0), (literal, lambda v: 0)]


def shown(value):
    return repr(value) if math.isfinite(value) else f"math.{value!r}"


@pytest.mark.parametrize("dtype", [f32, f64])
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_numbers_in_all_places_mean_the_same(space, value, dtype):
    texts, results = list(CASES), []
    for k, (text, argument) in enumerate(forms(texts)):
        kernel = load(text.replace("{value}", shown(value)), f"<constants {value} {k}>")["kernel"]
        args = np.ones(3, dtype), np.zeros((len(texts), 3), dtype), True, argument(value)
        results.append(run(space, 3, kernel, *args)[1][:, 0])
    for other in results[1:]:
        wrong = [
            t
            for t, a, b in zip(texts, results[0], other)
            if a.tobytes() != b.tobytes() and (a == a or b == b)
        ]
        assert not wrong
    with np.errstate(all="ignore"):
        for text, got in zip(texts, results[-1]):
            if CASES[text] is not None:
                wanted = dtype(CASES[text](dtype(value)))
                assert_array_equal(got, wanted, err_msg=text)
                assert got != got or np.signbit(got) == np.signbit(wanted), text


INTEGERS = {
    "pk.int32(V)": lambda v: v.astype(np.int32),
    "pk.uint32(V) * pk.uint32(3)": lambda v: v.astype(np.uint32) * np.uint32(3),
    "-pk.uint32(V)": lambda v: -v.astype(np.uint32),
    "pk.int32(V) + pk.int32(V)": lambda v: v.astype(np.int32) + v.astype(np.int32),
    "1 if pk.int32(V) == V else 0": lambda v: np.int64(v.astype(np.int32) == v) if abs(v) < 2**31 else None,
    "1 if V == 9007199254740992.0 else 0": lambda v: np.int64(float(v) == 2.0**53),
    "V // -7": lambda v: v // -7,
    "V % -7": lambda v: v % -7,
    "pk.int64(pk.float32(V))": lambda v: (
        np.int64(held(float(np.float32(int(v))), np.int64)) if abs(v) < 2**53 else None
    ),
}


@pytest.mark.parametrize("value", [5, -1, 2**24 + 1, 2**31, -(2**31) - 1, 2**53 + 1, 2**60 + 2**36 + 1])
def test_whole_numbers_too(space, value):
    texts, results = list(INTEGERS), []
    texts = [
        t for t in texts if "== V" not in t or abs(value) < 2**31
    ]  # literals that do not fit are refused
    for k, (text, argument) in enumerate(forms(texts)):
        kernel = load(text.replace("{value}", repr(value)), f"<whole constants {value} {k}>")["kernel"]
        given = value if k == 0 else argument(value)
        out = run(space, 3, kernel, np.ones(3), np.zeros((len(texts), 3), np.int64), True, given)[1]
        results.append(out[:, 0])
    for other in results[1:]:
        assert_array_equal(results[0], other)
    with np.errstate(all="ignore"):
        for text, got in zip(texts, results[-1]):
            wanted = INTEGERS[text](np.int64(value))
            assert wanted is None or got == np.int64(wanted), text


@pk.kernel
def large(i, out):
    out[0] = 10**30
    out[1] = 2**60 + 2**36 + 1  # next to the midpoint of two float32 numbers
    out[2] = pk.float32(-(2**60) - 2**36 - 1)
    out[3] = (0.1, 10**30)[i]


def test_a_whole_number_is_rounded_once(space):
    """By way of a float64 it would be rounded to the midpoint of two float32 numbers, and then down."""
    out = launch_for(1, large, np.zeros(4, f32))
    up = 2.0**60 + 2.0**37
    assert_array_equal(out, np.array([1e30, up, -up, 0.1], f32))


TABLE, MIXED, SINGLE = (0.1, f32(0.1), 3), np.array([0.1, 1e40]), np.complex64(0.1 + 0.7j)


@pk.kernel
def tables(i, k, out):
    out[0] = TABLE[k]
    out[1] = pk.float32(MIXED[k])
    out[2] = pk.float32(MIXED[k + 1])
    out[3] = SINGLE.real
    out[4] = (SINGLE * 1.0).imag


def test_tables_and_complex_constants(space):
    with np.errstate(over="ignore"):
        wanted = f64([f32(0.1), f32(0.1), f32(1e40), f32(0.1), f32(0.7)])
    assert_array_equal(launch_for(1, tables, 0, np.zeros(5)), wanted)


@pk.kernel
def double_in_single(i, x, v, strong, out):
    out[0] = (pk.float64(x[0]) * 0.1 - strong) * 1e9
    out[1] = (pk.float64(x[0]) * v - strong) * 1e9


def test_a_literal_that_meets_a_float64_keeps_its_digits(space):
    """In a kernel of float32 a Python float among the arguments is a float32."""
    out = launch_for(1, double_in_single, np.ones(1, f32), 0.1, f64(0.1), np.zeros(2, f32))[1]
    assert out[0] == 0.0 and out[1] == f32((f64(f32(0.1)) - 0.1) * 1e9)


def cuts_off(i, n, narrow, wide):
    narrow[i] = int(n)
    wide[i] = math.floor(n)


@pytest.mark.parametrize("value", [1e10, -(2.0**31), 2.0**62, math.inf, -math.inf])
def test_a_float_cut_off_wraps_where_it_is_stored(space, value):
    """A constant and an argument give the same result: beyond 32 bits, into an int32."""
    if space.startswith("checked"):
        pytest.skip("an overflow is reported there")
    found = []
    for n in (value, pk.static(value)):
        arrays = np.zeros(3, np.int32), np.zeros(3, np.int64)
        found.append(launch_for(3, pk.kernel(cuts_off), n, *arrays))
    assert_array_equal(found[0], found[1])
