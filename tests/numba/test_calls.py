"""Call numba's functions in kernels: its code and its bits, in lanes, teams and reductions."""

import math

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numba import njit

import portable as pk

pytestmark = pytest.mark.usefixtures("serial")

N = 203
X = np.random.default_rng(3).normal(size=N)


@njit
def polynomial(x):
    return ((x * 0.1 + 0.3) * x - 1.7) * x + 2.0


@njit
def series(x, n):
    if x < -2.0:
        raise ValueError("too small")
    total, term = 0.0, 1.0
    for k in range(1, n):
        term *= x / k
        total += term
        if abs(term) < 1e-12:
            break
    return total


@njit
def polar(x, y):
    return math.sqrt(x * x + y * y), x > 0.0, int(4 * x)


@njit
def drawn(x):
    return x + np.random.random()


@njit
def nested(x):
    return polynomial(series(x, 9)) + pk.exp(x)


@pk.kernel
def polynomials(i, x, y):
    y[i] = polynomial(x[i])


@pk.kernel
def some_series(i, x, y):
    if x[i] > 0.0:
        y[i] = series(x[i], 30)
    else:
        y[i] = -1.0


@pk.kernel
def tuples(i, x, y):
    r, right, whole = polar(x[i], 0.5)
    y[i] = r if right else r + whole


@pk.kernel
def nests(i, x, y):
    if x[i] >= -2.0:
        y[i] = nested(x[i])


@pk.kernel
def looped(i, x, y):
    k, v = 0, abs(x[i])
    while polynomial(v) < 1.9 and k < 20:
        v *= 0.5
        k += 1
    y[i] = v + k


def plain_polar(v):
    r, right, whole = polar(v, 0.5)
    return r if right else r + whole


def plain_loop(v):
    k, v = 0, abs(v)
    while polynomial(v) < 1.9 and k < 20:
        v, k = v * 0.5, k + 1
    return v + k


KERNELS = {
    polynomials: polynomial,
    some_series: lambda v: series(v, 30) if v > 0 else -1.0,
    tuples: plain_polar,
    nests: lambda v: nested(v) if v >= -2.0 else 0.0,
    looped: plain_loop,
}


def launched(space, kernel, x=X, dtype=np.float64):
    y = np.zeros(len(x), dtype)
    pk.parallel_for(pk.RangePolicy(0, len(x), space=space), kernel, x, y)
    return y


@pytest.mark.parametrize("space", ["serial", "threads", "numba"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_the_bits_are_those_of_a_call_from_python(kernel, space):
    assert_array_equal(launched(space, kernel), [KERNELS[kernel](v) for v in X])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_checked_runs_the_text(kernel):
    few = X[:20]
    assert_allclose(launched("checked", kernel, few), launched("serial", kernel, few), rtol=1e-14)


def test_float32_stays_float32_in_numba_s_types():
    @njit
    def square(x):
        return x * x

    @pk.kernel
    def squares(i, x, y):
        y[i] = square(x[i])

    x = X.astype(np.float32)
    assert_array_equal(launched("serial", squares, x, np.float32), x * x)
    assert square.nopython_signatures[0].return_type == numba.float32


def test_plain_arithmetic_becomes_vector_code():
    listing = pk.listing(N, polynomials, X, np.zeros(N))
    assert "mm" in next(line for line in listing.splitlines() if "mul" in line and "pd" in line)


def test_teams_and_reductions_call_them():
    @pk.kernel
    def rows(team, x, y):
        total = 0.0
        for j in team.thread_range(x.shape[1]):
            total += polynomial(x[team.league_rank, j])
        total = team.reduce(total)
        if team.single():
            y[team.league_rank] = total

    @pk.kernel
    def one(i, x):
        return polynomial(x[i])

    x, y = X[:200].reshape(4, 50), np.zeros(4)
    pk.parallel_for(pk.TeamPolicy(4), rows, x, y)
    wanted = [[polynomial(v) for v in row] for row in x]
    assert_allclose(y, np.sum(wanted, 1), rtol=1e-13)
    for space in ("serial", "threads", "numba"):
        assert_allclose(
            pk.parallel_reduce(pk.RangePolicy(0, N, space=space), one, X), sum(map(polynomial, X)), rtol=1e-12
        )


def test_every_index_draws_a_number_of_its_own():
    @pk.kernel
    def draws(i, y):
        y[i] = drawn(0.0)

    y = np.zeros(64)
    pk.parallel_for(64, draws, y)
    assert len(set(y)) == 64


@pk.kernel
def raising(i, x, y, z):
    y[i] = series(x[i], 5)
    z[i] = whole(x[i])


@njit
def whole(x):
    if x < -2.0:
        raise ValueError("too small")
    return int(x)


def test_a_lane_that_raises_gets_nothing_and_checked_names_it():
    x, y, z = np.array([1.0, -3.0, 2.0]), np.ones(3), np.ones(3, np.int64)
    pk.parallel_for(3, raising, x, y, z)
    assert np.isnan(y[1]) and z[1] == 0 and y[2] == series(2.0, 5) and z[2] == 2
    with pytest.raises(pk.CheckError, match="index 1: ValueError: too small"):
        pk.parallel_for(pk.RangePolicy(0, 3, space="checked"), raising, x, y, z)


def test_the_text_of_a_function_under_our_rules():
    @njit
    def horner(x, n):
        total = 0.0
        for k in range(n):
            total = total * x + math.exp(-k)
        return total

    ours = pk.function(horner)

    @pk.kernel
    def by_text(i, x, y):
        y[i] = ours(x[i], 5)

    assert_allclose(launched("serial", by_text), [horner(v, 5) for v in X], rtol=1e-13)
    assert_array_equal(launched("threads", by_text), launched("serial", by_text))


def test_a_changed_function_is_not_taken_from_the_cache(program):
    text = """
        import sys
        import numba
        import numpy as np
        import portable as pk

        @numba.njit(cache={cached})
        def f(x):
            return {body}

        @pk.kernel
        def use(i, y):
            y[i] = f(y[i])

        y = np.ones(3)
        pk.parallel_for(3, use, y)
        print(y[0])
    """
    for cached, more in ((False, 1.0), (True, 2.0), (True, 2.0)):
        assert program(text.format(cached=cached, body=f"x + {more}")).split()[0] == str(1.0 + more)


@njit
def printing(x):
    print(x)
    return x


@njit
def unknown(x):
    return nowhere + x  # noqa: F821


@njit
def by_name(x):
    both = x, x
    return both


@njit
def text(x):
    return "a"


def _kernel(function):
    @pk.kernel
    def calls(i, x):
        x[i] = function(x[i])

    return calls


@njit
def total(x):
    return x.sum()


@pk.kernel
def with_a_view(i, x):
    x[i] = total(x)


WRONG = [
    (_kernel(printing), "needs Python's interpreter"),
    (_kernel(unknown), r"numba cannot compile 'unknown' for \(float64\).*nowhere"),
    (_kernel(by_name), "write each of its returns as `return a, b`"),
    (_kernel(text), "returns numba's"),
    (with_a_view, r"`x` is a view of 1 dimension.*pk.function\(total\)"),
]


@pytest.mark.parametrize("kernel, message", WRONG)
def test_what_cannot_be_called_is_refused_with_the_place(kernel, message):
    with pytest.raises(pk.LoweringError, match=rf"test_calls.py:\d+.*{message}"):
        pk.parallel_for(3, kernel, np.zeros(3))
