"""Test the ready models: their filters compared with exact likelihoods, with missing data; simulation;
densities and draws that agree.

Likelihood ratios to the exact value have expectation 1; each mean over filters is within five standard
errors, estimated between them (a false alarm in two million), and so are filtered means.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from portable.models.resampling import StateSpaceModel, exact, ready
from scipy import integrate, stats

import portable as pk

from . import grids

E = pk.errors
NAN = math.nan
LG = ready.linear_gaussian.params(phi=0.9, sigma=0.5, tau=0.7)
SV = ready.stochastic_volatility.params(mu=-0.5, phi=0.95, sigma=0.3, rho=-0.6)
SIR, SEIR = ready.sir(12, n_substeps=2, duration=2.0), ready.seir(6, n_substeps=2, duration=2.0)
TURNOVER = dict(n_substeps=2, duration=2.0, turnover=0.2)
BIRTHS = ready.sir(5, reports="negative binomial", **TURNOVER)
LV = ready.lotka_volterra(8, 5, duration=0.5)
CASES = {
    "linear Gaussian": (ready.linear_gaussian, LG, [0.3, NAN, -1.0, 0.4, 1.1, 0.2], exact.kalman, ()),
    "volatility": (
        ready.stochastic_volatility,
        SV,
        [0.6, -1.5, NAN, 0.2, 1.8, -0.3, 0.1],
        grids.volatility_on_a_grid,
        (),
    ),
    "SIR": (
        SIR,
        SIR.params(beta=0.9, gamma=0.3, rho=0.5, i0=2.0),
        [1, 2, NAN, 1, 0],
        grids.sir_by_sums,
        (12, 2, 2.0),
    ),
    "SIR with turnover": (
        BIRTHS,
        BIRTHS.params(beta=0.9, gamma=0.3, rho=0.5, i0=2.0, size=1.5),
        [1, 2, NAN, 1, 0],
        grids.turnover_by_sums,
        (5, 2, 2.0, 0.2),
    ),
    "SEIR": (
        SEIR,
        SEIR.params(beta=1.5, sigma=0.8, gamma=0.3, rho=0.7, i0=1.0),
        [1, 0, NAN, 2],
        grids.seir_by_sums,
        (6, 2, 2.0),
    ),
    "Lotka and Volterra": (
        LV,
        LV.params(birth=0.6, predation=0.05, death=0.5, noise=2.0),
        [[8, 5], [10, NAN], [NAN, NAN], [9, 7]],
        grids.prey_on_a_grid,
        (8, 5, 0.5, 50),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_filter_is_the_exact_one(space, name):
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    model, params, y, reference, options = CASES[name]
    runs, n = 400, 200
    many = {key: np.full(runs, value) for key, value in params._asdict().items()}
    found = model.filter(space=space).run(y, n, params=many, seed=3)
    wanted = reference(np.array(y, float), params, *options)
    ratio = np.exp(found.log_likelihood - wanted.log_likelihood)
    assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / math.sqrt(runs)
    place = {"SIR": 1, "SIR with turnover": 1, "SEIR": 2}.get(name, 0)
    means = found.means[:, place]
    assert (
        np.abs(means.mean(axis=1) - wanted.means)
        <= 5 * means.std(axis=1, ddof=1) / math.sqrt(runs) + 3e-2 * wanted.variances
    ).all()


@pytest.mark.parametrize("name", CASES)
def test_what_is_simulated(space, name):
    """There is a series for each row; later steps continue from given states as from simulated ones;
    densities are those of the draws."""
    model, params, y, _, _ = CASES[name]
    rows = 3 if space == "checked" else 50
    many = {key: np.full(rows, value) for key, value in params._asdict().items()}
    x, seen = model.simulate(many, 4, seed=1, space=space)
    assert (
        x.shape == (4, len(model.states), rows) and seen.shape[::2] == (4, rows) and np.isfinite(seen).all()
    )
    one, _ = model.simulate(params, 4, seed=1, space=space)
    assert_allclose(one, x[..., 0], rtol=1e-12)
    again = (
        model.replicate(x, np.tile(params, (rows, 1)), seed=2, space=space) if not model.lagged else seen + 1
    )
    assert again.shape == seen.shape and (again != seen).any()
    if not model.lagged:
        onward, _ = model.simulate(many, 3, seed=1, start=x[0], first=1, space=space)
        assert_allclose(onward, x[1:], rtol=1e-12)


@pytest.mark.parametrize(
    "model, params",
    [
        (ready.linear_gaussian, [*LG]),
        (ready.stochastic_volatility, [*SV, 0.7]),
        (ready.stochastic_volatility, [*SV, NAN]),
    ],
)
def test_densities_are_those_of_draws(model, params):
    """Each integrates to 1, and its mean and variance are those of 20,000 draws, within five standard
    errors."""
    state, k = np.array([0.4]), np.arange(20_000)
    for draw, density in (
        (lambda s: model.initial(1, s, 0, params)[0], lambda v: model.log_initial([v], params)),
        (
            lambda s: model.propagate(1, state, 1, s, 9, params)[0],
            lambda v: model.log_transition(1, state, [v], params),
        ),
    ):
        drawn = np.array([draw(int(s)) for s in k[:2000]])
        mass, first, second = (
            integrate.quad(lambda v, p=p: v**p * math.exp(density(v)), -12, 12, limit=200)[0]
            for p in range(3)
        )
        variance = second - first**2
        assert abs(mass - 1) < 1e-6
        assert abs(drawn.mean() - first) < 5 * math.sqrt(variance / len(drawn))
        assert abs(drawn.var() - variance) < 5 * variance * math.sqrt(2 / len(drawn))


def test_densities_of_observations():
    """Compare with SciPy's; test a mean of 0, and observations that are no counts."""
    for x, df in ((0.3, 3.5), (-40.0, 1.0), (2.0, 200.0)):
        assert ready.log_student(x, 0.1, 2.0, df) == pytest.approx(stats.t.logpdf(x, df, 0.1, 2.0), rel=1e-12)
    for count, mean, size in ((0.0, 3.0, 0.5), (7.0, 6.5, 1.7), (300.0, 250.0, 40.0)):
        wanted = stats.nbinom.logpmf(count, size, size / (size + mean))
        assert ready.log_negative_binomial(count, mean, size) == pytest.approx(wanted, rel=1e-12)
    assert ready.log_negative_binomial(0.0, 0.0, 1.0) == 0.0
    assert {ready.log_negative_binomial(c, m, 1.0) for c, m in ((1.0, 0.0), (0.5, 1.0), (-1.0, 1.0))} == {
        -math.inf
    }


def test_student_returns():
    """Draws over exp(x / 2) have Student's distribution (p > 0.001), and the filter's likelihood is highest
    at the true nu.
    """
    model, n = ready.student_volatility, 4000
    params = model.params(mu=-0.5, phi=0.9, sigma=0.3, nu=4.0)
    x, y = model.simulate(np.tile(params, (n, 1)), 2, seed=1, space="serial")
    assert stats.kstest((y / np.exp(0.5 * x)).ravel(), stats.t(4.0).cdf).pvalue > 0.001
    state = np.array([0.4])
    drawn = [model.propagate(1, state, 1, k, 9, params)[0] for k in range(500)]
    assert stats.kstest(drawn, stats.norm(-0.5 + 0.9 * 0.9, 0.3).cdf).pvalue > 0.001
    assert math.exp(model.log_transition(1, state, [0.4], params)) == pytest.approx(
        stats.norm.pdf(0.4, -0.5 + 0.9 * 0.9, 0.3)
    )


@pk.function
def turn(time, x, params):
    return x[1] + math.cos(time), -params[0] * x[0]


@pk.function
def back(time, x, params):
    return -params[0] * x[0], params[1] * (x[0] - x[1])


@pk.function
def noise(time, x, params):
    return params[2], 0.0


@pk.kernel
def solve(r, n_steps, params, x):
    own = pk.local(2, pk.float64)
    own[:] = x[r]
    ready.runge_kutta(turn, 2, n_steps, 0.5, 2.0, own, params)
    x[r] = own


@pk.kernel
def diffuse(r, n_steps, params, x):
    own = pk.local(2, pk.float64)
    own[:] = x[r]
    ready.euler_maruyama(back, noise, 2, n_steps, 0.0, 2.0, own, 1, r, 0, params)
    x[r] = own


def test_runge_kutta(space):
    """Compare with SciPy's solution; twice the steps have about a sixteenth of the error."""
    wanted = integrate.solve_ivp(
        lambda t, x: turn(t, x, [2.0]), (0.5, 2.5), [1.0, 0.2], rtol=1e-11, atol=1e-12
    )
    errors = []
    for n_steps in (10, 20):
        x = pk.copy_of(np.array([[1.0, 0.2]]), space)
        pk.parallel_for(
            pk.RangePolicy(0, 1, space=space), solve, n_steps, pk.copy_of(np.array([2.0]), space), x
        )
        errors.append(np.abs(x.to_numpy()[0] - wanted.y[:, -1]).max())
    assert errors[1] < 1e-4 and 12.0 < errors[0] / errors[1] < 20.0


def test_euler_maruyama(space):
    """Compare with the moments of an Ornstein-Uhlenbeck process by the same steps, within five standard
    errors.
    """
    rows, n_steps, (rate, pull, sd) = 50 if space == "checked" else 20_000, 50, (0.7, 2.0, 0.4)
    x = pk.copy_of(np.tile([1.0, 0.0], (rows, 1)), space)
    params = pk.copy_of(np.array([rate, pull, sd]), space)
    pk.parallel_for(pk.RangePolicy(0, rows, space=space), diffuse, n_steps, params, x)
    h = 2.0 / n_steps
    a, b = np.array([[1 - rate * h, 0.0], [pull * h, 1 - pull * h]]), np.diag([sd * sd * h, 0.0])
    mean, covariance = np.array([1.0, 0.0]), np.zeros((2, 2))
    for _ in range(n_steps):
        mean, covariance = a @ mean, a @ covariance @ a.T + b
    found = x.to_numpy()
    sds = np.sqrt(np.diag(covariance))
    assert (np.abs(found.mean(axis=0) - mean) < 5 * sds / math.sqrt(rows)).all()
    assert (np.abs(found.var(axis=0) / sds**2 - 1) < 5 * math.sqrt(2 / rows)).all()


def test_leverage_turns_the_volatility():
    """With rho < 0 volatility rises after a negative return: corr(d_(t-1), x_t - phi x_(t-1)) is rho."""
    x, y = ready.stochastic_volatility.simulate(
        {k: np.full(200, v) for k, v in SV._asdict().items()}, 60, seed=5
    )
    d = y[:-1, 0] * np.exp(-0.5 * x[:-1, 0])
    e = x[1:, 0] - SV.mu - SV.phi * (x[:-1, 0] - SV.mu)
    assert abs(np.corrcoef(d.ravel(), e.ravel())[0, 1] - SV.rho) < 5 / math.sqrt(d.size)


def test_parameters_have_names():
    run = ready.linear_gaussian.filter(space="serial").run
    by_name = run([0.1, 0.2], 50, params=LG, seed=1).log_likelihood
    assert by_name == run([0.1, 0.2], 50, params=[0.9, 0.5, 0.7], seed=1).log_likelihood
    assert run(
        [0.1, 0.2], 50, params={"tau": 0.7, "phi": np.array([0.9, 0.8]), "sigma": 0.5}, seed=1
    ).log_likelihood.shape == (2,)
    with pytest.raises(E.InputError, match="params has 'phi'; expected exactly 'phi', 'sigma', 'tau'"):
        run([0.1], 50, params={"phi": 0.9}, seed=1)
    with pytest.raises(E.InputError, match="params has 'phi'; expected exactly 'phi', 'sigma', 'tau'"):
        ready.linear_gaussian.params(phi=0.9)
    with pytest.raises(E.ShapeError, match="params has 2 numbers per filter; expected 3: phi, sigma, tau"):
        run([0.1], 50, params=[0.9, 0.5], seed=1)


def test_wrong_models():
    f = ready.linear_gaussian
    with pytest.raises(E.InputError, match="parameters is .*distinct identifiers"):
        StateSpaceModel(("a", "a"), ("x",), f.initial, f.propagate, f.log_weight)
    with pytest.raises(E.DTypeError, match="observe must be marked with @pk.function"):
        StateSpaceModel(("a",), ("x",), f.initial, f.propagate, f.log_weight, observe=lambda t: 0.0)
    bare = StateSpaceModel(("phi", "sigma", "tau"), ("x",), f.initial, f.propagate, f.log_weight)
    with pytest.raises(E.InputError, match="simulation needs the model's observe"):
        bare.simulate(LG, 3, seed=1)
    with pytest.raises(E.InputError, match="a guided filter needs the model's guide"):
        bare.filter(guided=True)
    with pytest.raises(
        E.InputError, match="reports is 'binomial'; expected one of 'poisson', 'negative binomial'"
    ):
        ready.sir(10, reports="binomial")
    with pytest.raises(E.InputError, match="turnover is -1.0; expected at least 0.0"):
        ready.seir(10, turnover=-1.0)
