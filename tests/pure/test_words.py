"""Words whose row names an error: their text as plain Python against mpmath, and what they give at the edges.
One case a word."""

import subprocess
import sys
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk

from test_elementary import ACCURACY, FLOAT, INF, NAN, error_ulp, run


class Case(NamedTuple):
    """exact : of mpmath; ranges : where arguments are drawn, one list for each; powers : exponents between
    which their sizes are; special : arguments and value. Values of float64 beyond float32 become infinities
    and zeros there, which is right as well."""

    exact: object
    ranges: tuple
    special: tuple
    powers: tuple = ()


N_RANDOM = 30
ALL = (-1074, 1023.9)
PI = float(np.pi)
CASES = {
    "atan": Case(
        mpmath.atan,
        [[(-1, 1), (-5, 5), (0.4, 0.43)]],
        [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (1e-45, 1e-45)],
        ALL,
    ),
    "atan2": Case(
        mpmath.atan2,
        [[(-5, 5), (-1, 1)], [(-5, 5), (-1, 1)]],
        [
            (0.0, 1.0, 0.0),
            (-0.0, 1.0, -0.0),
            (0.0, -1.0, PI),
            (-0.0, -1.0, -PI),
            (0.0, 0.0, 0.0),
            (0.0, -0.0, PI),
            (-0.0, -0.0, -PI),
            (-0.0, 0.0, -0.0),
            (1.0, 0.0, PI / 2),
            (-1.0, -0.0, -PI / 2),
            (INF, INF, PI / 4),
            (INF, -INF, 3 * PI / 4),
            (-INF, -INF, -3 * PI / 4),
            (1.0, INF, 0.0),
            (-1.0, INF, -0.0),
            (1.0, -INF, PI),
            (INF, 1.0, PI / 2),
            (1e-45, 1e-45, PI / 4),
            (3e38, -3e38, 3 * PI / 4),
            (NAN, 1.0, NAN),
        ],
        ALL,
    ),
    "asin": Case(
        mpmath.asin,
        [[(-1, 1), (0.45, 0.55), (0.99, 1)]],
        [(0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2), (-1.0, -PI / 2), (1.5, NAN), (INF, NAN)],
        (-149, 0),
    ),
    "acos": Case(
        mpmath.acos,
        [[(-1, 1), (0.45, 0.55), (0.99, 1), (-1, -0.99)]],
        [(1.0, 0.0), (0.0, PI / 2), (-1.0, PI), (-1.5, NAN), (-INF, NAN)],
        (-149, 0),
    ),
    "hypot": Case(
        lambda x, y: mpmath.sqrt(x * x + y * y),
        [[(-5, 5)], [(-5, 5)]],
        [
            (3.0, -4.0, 5.0),
            (0.0, -0.0, 0.0),
            (-0.0, 0.0, 0.0),
            (INF, NAN, INF),
            (NAN, -INF, INF),
            (NAN, 1.0, NAN),
            (1.0, NAN, NAN),
            (3e38, 3e38, 4.242640687119285e38),
            (1e-45, 0.0, 1e-45),
            (0.0, -2.0, 2.0),
        ],
        ALL,
    ),
    "cbrt": Case(
        lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
        [[(-30, 30), (0.9, 1.1)]],
        [(0.0, 0.0), (-0.0, -0.0), (27.0, 3.0), (-8.0, -2.0), (INF, INF), (-INF, -INF), (1.0, 1.0)],
        ALL,
    ),
    "sinh": Case(
        mpmath.sinh,
        [[(-1, 1), (-3, 3), (-88, 88)]],
        [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e4, INF), (-1e4, -INF), (1e-45, 1e-45)],
        (-1074, 6),
    ),
    "cosh": Case(
        mpmath.cosh,
        [[(-1, 1), (-3, 3), (-88, 88)]],
        [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (-1e4, INF)],
        (-1074, 6),
    ),
    "asinh": Case(
        mpmath.asinh,
        [[(-1, 1), (-9, 9)]],
        [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (-1e-45, -1e-45)],
        ALL,
    ),
    "acosh": Case(
        mpmath.acosh,
        [[(1, 1.1), (1, 3), (3, 1e9)]],
        [(1.0, 0.0), (0.5, NAN), (-INF, NAN), (INF, INF), (3e38, 89.2899930030018)],
    ),
    "atanh": Case(
        mpmath.atanh,
        [[(-1, 1), (0.1, 0.2)]],
        [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN), (1e-45, 1e-45)],
        (-149, 0),
    ),
    "fmod": Case(
        lambda x, y: mpmath.sign(x) * mpmath.fmod(abs(x), abs(y)),
        [[(-50, 50)], [(-5, 5)]],
        [
            (5.0, 3.0, 2.0),
            (-5.0, 3.0, -2.0),
            (5.0, -3.0, 2.0),
            (-6.0, 3.0, -0.0),
            (1.0, INF, 1.0),
            (1.0, 0.0, NAN),
            (INF, 1.0, NAN),
            (NAN, 1.0, NAN),
        ],
        (-40, 40),
    ),
    "degrees": Case(mpmath.degrees, [[(-7, 7)]], [(0.0, 0.0), (-0.0, -0.0), (INF, INF)], (-100, 100)),
    "radians": Case(mpmath.radians, [[(-360, 360)]], [(0.0, 0.0), (-0.0, -0.0), (-INF, -INF)], (-100, 100)),
    "remainder": Case(
        lambda x, y: x - y * mpmath.nint(x / y),
        [[(-50, 50)], [(-5, 5)]],
        [
            (5.0, 3.0, -1.0),
            (-5.0, 3.0, 1.0),
            (4.5, 3.0, -1.5),
            (7.5, -3.0, 1.5),
            (-6.0, 3.0, -0.0),
            (1.0, INF, 1.0),
            (1.0, 0.0, NAN),
            (INF, 1.0, NAN),
            (1.0, NAN, NAN),
        ],
        (-40, 40),
    ),
    "logb": Case(
        lambda x: mpmath.frexp(x)[1] - 1,
        [[(-9, 9)]],
        [(0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, INF), (1.0, 0.0), (2.0**-149, -149.0)],
        ALL,
    ),
    "gamma": Case(
        mpmath.gamma,
        [[(0, 8), (8, 33), (0, 1)]],
        [
            (0.0, INF),
            (-0.0, -INF),
            (-1.0, NAN),
            (-INF, NAN),
            (INF, INF),
            (5.0, 24.0),
            (1e-30, 1e30),
            (200.0, INF),
            (1.0, 1.0),
            (7.0, 720.0),
        ],
    ),
    "ldexp": Case(
        lambda x, n: mpmath.ldexp(x, int(n)),
        [[(-2, 2)], []],
        [
            (1.0, 10.0, 1024.0),
            (0.75, -1.0, 0.375),
            (-0.0, 5.0, -0.0),
            (INF, -9999.0, INF),
            (1.0, 9999.0, INF),
            (-1.0, -9999.0, -0.0),
            (2.0**-149, 149.0, 1.0),
        ],
    ),
}


def points(name, dtype):
    """Tuples of arguments."""
    case, rng, info = CASES[name], np.random.default_rng(20), np.finfo(dtype)
    lowest, highest = (
        (max(case.powers[0], info.minexp - info.nmant), min(case.powers[1], info.maxexp - 0.1))
        if case.powers
        else (0, 0)
    )
    columns = []
    for ranges in case.ranges:
        parts = [rng.uniform(a, b, N_RANDOM) for a, b in ranges]
        if case.powers:
            parts.append(np.exp2(rng.uniform(lowest, highest, N_RANDOM)) * rng.choice([-1.0, 1.0], N_RANDOM))
        columns.append(
            np.concatenate(parts)
            if parts
            else np.rint(rng.uniform(2 * info.minexp, info.maxexp, N_RANDOM) / 2)
        )
    with np.errstate(all="ignore"):
        columns = [np.resize(c.astype(FLOAT[dtype]), max(map(len, columns))) for c in columns]
    return list(zip(columns[0], *(rng.permutation(c) for c in columns[1:])))


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", CASES)
def test_error_is_within_what_its_row_says(name, dtype):
    bound = ACCURACY[name][dtype == "float64"]
    with mpmath.workdps(40):
        for args in points(name, dtype):
            exact = CASES[name].exact(*(mpmath.mpf(float(a)) for a in args))
            if exact:
                error = error_ulp(run(name, dtype, *args), exact, dtype)
                assert error <= bound + 0.005, f"{name}{args}: {error} ulp"


@pytest.mark.parametrize("dtype", FLOAT)
@pytest.mark.parametrize("name", CASES)
def test_special_values(name, dtype):
    for *args, wanted in [*CASES[name].special, *([(NAN, NAN)] if len(CASES[name].ranges) == 1 else [])]:
        got = run(name, dtype, *args)
        with np.errstate(all="ignore"):
            wanted = FLOAT[dtype](wanted)
        assert_allclose(got, wanted, rtol=float(np.finfo(dtype).eps), err_msg=f"{name}{args}")
        assert np.isnan(got) or np.signbit(got) == np.signbit(wanted), (
            f"{name}{args} is {got}, wanted {wanted}"
        )


@pytest.mark.parametrize("name", CASES)
def test_plain_python_means_the_same(name):
    """pk's form on Python's numbers and on NumPy's scalars, which keep their dtype."""
    for args in points(name, "float64")[:20]:
        assert_allclose(
            getattr(pk, name)(*map(float, args)), run(name, "float64", *args), rtol=1e-15, atol=1e-300
        )
    assert type(getattr(pk, name)(*(np.float32(1.0) for _ in CASES[name].ranges))) is np.float32


def test_fma_rounds_once_where_a_sum_of_its_arguments_overflows():
    a, b, c = 2.0**1023 * (1 + 2.0**-52), 2.0**-53 * (1 - 2.0**-53), 2.0**1023
    assert pk.fma(a, b, c) == c + 2.0**971


def test_python_without_docstrings():
    """`python -OO` keeps none: words' lines in the documentation are theirs."""
    done = subprocess.run(
        [sys.executable, "-OO", "-c", "import portable"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
