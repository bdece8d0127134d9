"""Models that are ready: their filters against exact likelihoods, with missing data; simulation; densities
and draws that agree.

Likelihood ratios to the exact value have expectation 1; each mean over filters is within five standard
errors, seen between them (a false alarm in two million), and so are filtered means.
"""

import math

import numpy as np
import pytest
from scipy import integrate

import portable as pk
from portable.models.resampling import exact, ready, StateSpaceModel

from . import grids

E = pk.errors
NAN = math.nan
LG = ready.linear_gaussian.params(phi=0.9, sigma=0.5, tau=0.7)
SV = ready.stochastic_volatility.params(mu=-0.5, phi=0.95, sigma=0.3, rho=-0.6)
SIR, SEIR = ready.sir(12, n_substeps=2, duration=2.0), ready.seir(6, n_substeps=2, duration=2.0)
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
    place = {"SIR": 1, "SEIR": 2}.get(name, 0)
    means = found.means[:, place]
    assert (
        np.abs(means.mean(axis=1) - wanted.means)
        <= 5 * means.std(axis=1, ddof=1) / math.sqrt(runs) + 3e-2 * wanted.variances
    ).all()


@pytest.mark.parametrize("name", CASES)
def test_what_is_simulated(space, name):
    """A series a row; steps after the first go on from given states as from their own; densities are those of
    the draws."""
    model, params, y, _, _ = CASES[name]
    rows = 3 if space == "checked" else 50
    many = {key: np.full(rows, value) for key, value in params._asdict().items()}
    x, seen = model.simulate(many, 4, seed=1, space=space)
    assert (
        x.shape == (4, len(model.states), rows) and seen.shape[::2] == (4, rows) and np.isfinite(seen).all()
    )
    one, _ = model.simulate(params, 4, seed=1, space=space)
    np.testing.assert_allclose(one, x[..., 0], rtol=1e-12)
    again = (
        model.replicate(x, np.tile(params, (rows, 1)), seed=2, space=space) if not model.lagged else seen + 1
    )
    assert again.shape == seen.shape and (again != seen).any()
    if not model.lagged:
        onward, _ = model.simulate(many, 3, seed=1, start=x[0], first=1, space=space)
        np.testing.assert_allclose(onward, x[1:], rtol=1e-12)


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
    with pytest.raises(E.InputError, match="params has 'phi'; wanted exactly 'phi', 'sigma', 'tau'"):
        run([0.1], 50, params={"phi": 0.9}, seed=1)
    with pytest.raises(E.InputError, match="params has 'phi'; wanted exactly 'phi', 'sigma', 'tau'"):
        ready.linear_gaussian.params(phi=0.9)
    with pytest.raises(E.ShapeError, match="params has 2 numbers a filter; 3 are wanted: phi, sigma, tau"):
        run([0.1], 50, params=[0.9, 0.5], seed=1)


def test_wrong_models():
    f = ready.linear_gaussian
    with pytest.raises(E.InputError, match="parameters is .*different names"):
        StateSpaceModel(("a", "a"), ("x",), f.initial, f.propagate, f.log_weight)
    with pytest.raises(E.DTypeError, match="observe must be marked with @pk.function"):
        StateSpaceModel(("a",), ("x",), f.initial, f.propagate, f.log_weight, observe=lambda t: 0.0)
    bare = StateSpaceModel(("phi", "sigma", "tau"), ("x",), f.initial, f.propagate, f.log_weight)
    with pytest.raises(E.InputError, match="simulation wants the model's observe, which it has not"):
        bare.simulate(LG, 3, seed=1)
    with pytest.raises(E.InputError, match="a guided filter wants the model's guide"):
        bare.filter(guided=True)
