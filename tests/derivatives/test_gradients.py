"""Compare gradients and second derivatives of reductions with central differences: boxes, teams, records."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cuda.space import lower_to_ptx
from portable.errors import DTypeError, InputError, LanguageError, LoweringError

from ..refusals import refusals
from ..launching import move
from .tables import made

TIMES = np.sort(default_rng(4).random(37) * 9.0)


class Parameters(NamedTuple):
    mu: float
    theta: float
    omega: float


TEXT = """
hawkes(i, p, times)
    rate = p.mu
    for j in range(i):
        gap = times[i] - times[j]
        if gap > 6.0:
            continue
        rate += p.theta * p.omega * pk.exp(-p.omega * gap)
    if rate <= 0.0:
        return -1e300 * p.mu
    return pk.log(rate) - p.mu * 0.25 - p.theta * (1.0 - pk.exp(-p.omega * (9.0 - times[i])))

paired(i, j, a, x)
    return pk.sin(a * x[i] * x[j]) if i < j else 0.0

by_teams(team, a, b, x)
    row = team.scratch(x.shape[1], pk.float64)
    total = team.scratch(1, pk.float64)
    for j in team.thread_range(x.shape[1]):
        row[j] = a * x[team.league_rank, j]
    if team.single():
        total[0] = 0.0
    team.barrier()
    s = 0.0
    for j in team.thread_range(x.shape[1]):
        s += row[j] * row[(j + 1) % x.shape[1]] * b
    whole = team.reduce(s)
    pk.atomic_add(total, 0, pk.where(team.rank < 3, team.scan(whole * b), 0.0))
    team.barrier()
    for j in team.thread_range(x.shape[1]):
        row[j] = row[j] * whole
    team.barrier()
    return team.broadcast(row[0] * a, 0) + total[0]
"""
hawkes, paired, by_teams = made(pk.kernel, TEXT, globals(), "<gradients_kernel>")
FUNCTIONS = """
line(x, p)
    return p[0] * x if x > 0.0 else None

power(x, n)
    return x**n * n

nothing(x)
    pk.fma(x, x, x)
"""
line, power, nothing = made(pk.function, FUNCTIONS, globals(), "<gradients_function>")


def differences(value, at, step=1e-5):
    """Return central differences, of the second order if `value` gives a gradient."""
    at, found = np.array(at), []
    for k in range(len(at)):
        e = np.eye(len(at))[k] * step
        found.append((value(*(at + e)) - value(*(at - e))) / (2 * step))
    return np.array(found)


def test_a_record(space):
    times, n = move(TIMES, space), len(TIMES)
    policy = pk.RangePolicy(0, n, space=space)
    at = 0.7, 0.4, 1.3

    def run(*numbers, **options):
        return pk.parallel_reduce(policy, hawkes, Parameters(*numbers), times, **options)

    value, gradient = run(*at, gradient="p")
    assert value == run(*at)
    assert_allclose(gradient, differences(run, at), rtol=1e-7)
    again, same, hessian = run(*at, hessian=("p.omega", "p.mu"))
    assert (again, *same) == (value, gradient[2], gradient[0])
    slopes = differences(lambda *at: run(*at, gradient=("p.omega", "p.mu"))[1], at)
    assert_allclose(hessian, slopes[[2, 0]], rtol=1e-6)
    outs = tuple(pk.empty(1, space=space) for _ in range(2))
    assert run(*at, gradient="p.mu", out=outs) is None
    assert [float(out.to_numpy()[0]) for out in outs] == [value, gradient[0]]


@pk.kernel
def norms(i, v, x):
    return pk.norm(v) * x[i]


@pk.function
def powers(x):
    return pk.vector(x, x * x)


def test_vectors(space):
    policy, x = pk.RangePolicy(0, 2, space=space), move(np.array([1.0, 2.0]), space)
    value, slopes = pk.parallel_reduce(policy, norms, pk.vector(3.0, 4.0), x, gradient="v")
    assert_allclose([value, *slopes], [15.0, 1.8, 2.4])
    assert pk.derivative(powers, "x")(3.0) == (1.0, 6.0)


def test_a_box(space):
    x, policy = move(TIMES[:12], space), pk.MDRangePolicy((0, 0), (12, 12), space=space)
    value, gradient = pk.parallel_reduce(policy, paired, 0.3, x, gradient="a")
    assert value == pk.parallel_reduce(policy, paired, 0.3, x)
    products = np.multiply.outer(TIMES[:12], TIMES[:12])[np.triu_indices(12, 1)]
    assert_allclose(gradient, [np.sum(products * np.cos(0.3 * products))], rtol=1e-12)


def test_teams(space):
    rows = default_rng(5).random((5, 7)) + 0.1
    x, policy = move(rows, space), pk.TeamPolicy(5, 8, scratch_bytes=4096, space=space)

    def run(a, b, **options):
        return pk.parallel_reduce(policy, by_teams, a, b, x, **options)

    value, gradient = run(1.2, 0.8, gradient=("a", "b"))
    assert_allclose(value, run(1.2, 0.8), rtol=1e-14)
    assert_allclose(gradient, differences(run, (1.2, 0.8)), rtol=1e-7)


def test_float32(space):
    """The derivatives of a float32 kernel are computed without float64 instructions."""
    times = move(TIMES.astype(np.float32), space)
    policy = pk.RangePolicy(0, len(TIMES), space=space)
    value, gradient = pk.parallel_reduce(policy, hawkes, Parameters(0.7, 0.4, 1.3), times, gradient="p")
    exact = pk.parallel_reduce(
        pk.RangePolicy(0, len(TIMES), space="serial"), hawkes, Parameters(0.7, 0.4, 1.3), TIMES, gradient="p"
    )
    assert_allclose(gradient, exact[1], rtol=1e-4)


def test_float32_has_no_double_arithmetic():
    kernel = pk.derivative(hawkes, ("p.mu", "p.omega"), value=True)
    args = Parameters(1.0, 1.0, 1.0), TIMES.astype(np.float32)
    policy, sums = pk.RangePolicy(0, 9, space="serial"), (pk.Sum,) * 3
    *_, kind, specs, reducers, _ = dispatch.describe_launch(policy, kernel, args, sums)
    ptx = lower_to_ptx(kernel, kind, specs, reducers)
    assert "fma.rn.f32" in ptx
    assert ".f64" not in ptx


test_wrong_calls = refusals(
    [
        ({"gradient": "q"}, InputError, "no parameter 'q'; there are p, times"),
        ({"gradient": "p.nu"}, InputError, "'p.nu' of kernel 'hawkes' is no field"),
        ({"hessian": "times"}, InputError, "arrays need gradient=, without out="),
        ({"gradient": "p", "reducer": pk.Prod}, InputError, "expected reducer pk.Sum, pk.Max"),
        ({"gradient": ("p.mu", "p.mu")}, InputError, "repeats a name"),
        ({"gradient": ()}, InputError, "the name of a parameter"),
        ({"gradient": "p", "hessian": "p"}, InputError, "not both"),
    ],
    lambda options: pk.parallel_reduce(3, hawkes, Parameters(1.0, 1.0, 1.0), TIMES, **options),
)


def test_an_integer_is_refused():
    with pytest.raises(DTypeError, match="argument 'p.mu' .* type int; .*; pass a float"):
        pk.parallel_reduce(3, hawkes, Parameters(1, 1.0, 1.0), TIMES, gradient="p")


test_wrong_derivatives = refusals(
    [
        (lambda: pk.derivative(abs, "x"), DTypeError, "marked with @pk.function"),
        (lambda: pk.derivative(power, "y"), InputError, "'power' has no parameter 'y'; there are x, n"),
        (lambda: pk.derivative(power, "x", order=3), InputError, "order is 3"),
        (
            lambda: pk.derivative(power, "n")(2.0, 3),
            LoweringError,
            "'n': it is an integer here; pass a float",
        ),
        (lambda: pk.derivative(power, "x")(2.0), InputError, r"takes 2 argument\(s\), but 1 were given"),
        (lambda: pk.derivative(nothing, "x")(2.0), LanguageError, "it returns no number"),
        (lambda: pk.derivative(line, "p")(2.0, TIMES), LanguageError, "'p': it is not a number"),
        (lambda: pk.derivative(line, "x.a")(2.0, TIMES), LanguageError, "no field 'a'"),
        (lambda: pk.derivative(hawkes, "p")(0, Parameters(1.0, 1.0, 1.0), TIMES), LanguageError, "launch it"),
    ]
)
