"""Step 33, functions as arguments: each function gives separate code, as if the kernel's source named it."""

import dataclasses
import math


import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cuda.space import lower_to_ptx
from portable.errors import DTypeError, LanguageError

from ..refusals import refusals
from ..launching import launch_for, launch_reduce, move

X = np.linspace(0.5, 3.0, 21)


@pk.function
def square(x):
    return x * x


@pk.function
def cubic(x, n=3):
    total = 1.0
    for _ in range(n):
        total *= x
    return total


@pk.function
def twice(f, x):
    return f(f(x))


@pk.kernel
def applied(i, f, x, y):
    y[i] = f(x[i])


@pk.kernel
def combined(i, f, g, x, y):
    if g is None:
        y[i] = twice(f, x[i])
    else:
        y[i] = twice(f, x[i]) + pk.static(g)(x[i])


@pk.kernel
def value(i, f, x):
    return f(x[i])


@pk.kernel
def rows(team, f, reducer, x, y):
    found = 0.0
    for j in team.thread_range(x.shape[0]):
        found = found + f(x[j])
    found = team.reduce(found, reducer)
    if team.single():
        y[team.league_rank] = found


@dataclasses.dataclass
class Model:
    rate: float
    link: object


@pk.kernel
def modelled(i, model, x, y):
    y[i] = model.link(model.rate * x[i])


def made(power):
    @pk.function
    def f(x):
        return x**power

    return f


FUNCTIONS = square, cubic, pk.static(square), np.exp, pk.sqrt, math.sin, made(2), made(4)


@pytest.fixture(autouse=True)
def close():
    """The layer's elementary functions are within two units of NumPy's."""
    return lambda got, wanted: assert_allclose(got, wanted, rtol=1e-15)


def test_each_function_has_its_own_code(space, close):
    for f in FUNCTIONS:
        close(launch_for(len(X), applied, f, X, np.zeros_like(X))[1], [f(v) for v in X])
        close(launch_for(len(X), modelled, Model(0.5, f), X, np.zeros_like(X))[1], [f(v / 2) for v in X])
    for f, g in ((square, square), (square, cubic), (cubic, square), (square, None)):
        wanted = [twice(f, v) + (g(v) if g else 0.0) for v in X]
        close(launch_for(len(X), combined, f, g, X, np.zeros_like(X))[1], wanted)


@pk.kernel
def counted(i, draw, out):
    out[i] = draw(1, i, 0, 3.0)


def test_random_functions_with_parameters(space):
    for draw in (pk.random.poisson, pk.random.gamma):
        found = launch_for(4, counted, draw, np.zeros(4))
        assert_allclose(found, draw(1, np.arange(4), 0, 3.0), rtol=1e-14)


def test_reductions_scans_and_teams_take_functions(space, close):
    x = move(X)
    for f in (square, cubic, np.exp):
        wanted = np.array([f(v) for v in X])
        close(launch_reduce(len(X), value, f, X), wanted.sum())
        out = move(np.zeros_like(X))
        close(pk.parallel_scan(len(X), value, f, x, out=out), wanted.sum())
        close(out.to_numpy() if isinstance(out, pk.View) else out, np.cumsum(wanted))
    for reducer, numbers in ((pk.Sum, X), (pk.Max, X[-1:])):  # for one number the other members have 0
        got = launch_for(pk.TeamPolicy(1, 32), rows, square, reducer, numbers, np.zeros(1))[1]
        close(got, [np.sum(numbers * numbers)])


def test_plans_captures_and_debug_builds_take_functions(space, close):
    policy, x, y = pk.RangePolicy(0, len(X), space=space), move(X, space), move(np.zeros_like(X), space)
    host = lambda: y.to_numpy() if isinstance(y, pk.View) else y  # noqa: E731
    for f in (square, cubic):
        plan = pk.plan(policy, applied, f, x, y)
        with pk.capture(space=space) as graph:
            pk.parallel_for(policy, applied, f, x, y)
        for run in (plan, graph.replay, graph.replay):
            run()
            close(host(), [f(v) for v in X])
    with pk.use(debug=True):
        pk.parallel_for(policy, applied, square, x, y)
    close(host(), X * X)
    if space in ("serial", "threads"):  # the source does not depend on the space
        assert pk.count(policy, applied, cubic, x, y) != pk.count(policy, applied, square, x, y)


def test_functions_lower_for_a_gpu():
    policy = pk.RangePolicy(0, len(X), space="serial")
    found = set()
    for f in (square, cubic, np.exp, made(2), made(5)):
        *_, kind, specs, reducers, _ = dispatch.describe_launch(policy, applied, (f, X, X.copy()))
        found.add(lower_to_ptx(applied, kind, specs, reducers))
    assert len(found) == 4  # one build for `square` and `made(2)`


test_what_is_no_function_of_kernels_is_refused = refusals(
    [
        (lambda v: v, DTypeError, "argument 'f': '<lambda>' is a plain function; mark it with @pk.function"),
        (sorted, DTypeError, "argument 'f': .*sorted.* is not a kernel argument"),
        (2.0, LanguageError, "`f` is a number and cannot be called"),
    ],
    lambda given: pk.parallel_for(
        pk.RangePolicy(0, len(X), space="serial"), applied, given, X, np.zeros_like(X)
    ),
)


def test_a_repeated_launch_with_a_function_finds_its_code():
    x, y = pk.asview(X.copy()), pk.asview(np.zeros_like(X))
    policy = pk.RangePolicy(0, len(X), space="serial")
    for f in (square, square, square, cubic, cubic, cubic, square):
        pk.parallel_for(policy, applied, f, x, y)
        assert_array_equal(y.to_numpy(), [f(v) for v in X])
