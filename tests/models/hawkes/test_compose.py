"""Test composed triggering functions: compared with the formula in NumPy, in every method; parameters
recovered from simulations."""

import dataclasses

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import portable as pk
from portable.models import hawkes
from portable.models.hawkes import compose, fit, simulate, Likelihood, exponentials, omori
from portable.errors import InputError, ShapeError

from ...refusals import refusals
from . import reference
from .events import FEW, NINE, PARAMS, prepared, random_events, squares

VALUES = {
    "mu0": 0.7,
    "tau_x": 1.6,
    "tau_t": 20.0,
    "theta": 0.3,
    "omega": 0.5,
    "h": 0.4,
    "c": 2.0,
    "p": 1.3,
    "q": 1.7,
    "alpha": 0.8,
    "gamma": 0.3,
    "omega_1": 2.0,
    "omega_2": 0.3,
    "weight_2": 0.6,
}
KINDS = {
    "exponential": compose(),
    "omori": compose("omori"),
    "three decays, marks": compose(2, marks=True),
    "etas": compose("omori", distance="power_law", marks=True, growth=True),
    "omori, growth": compose("omori", marks=True, growth=True, within_h=5000.0),
}


def params_of(kind):
    return kind(**{name: VALUES[name] for name in kind.names()})


def decay_of(kind, v, dt):
    """Return the density of delays."""
    names = kind.names()
    if "c" in names:
        most = kind.triggering.most_h
        mass = (v["p"] - 1.0) / v["c"]
        if np.isfinite(most):
            mass /= 1.0 - (1.0 + most / v["c"]) ** (1.0 - v["p"])
        return mass * (1.0 + dt / v["c"]) ** -v["p"]
    if "omega" in names:
        return v["omega"] * np.exp(-v["omega"] * dt)
    return sum(w * r * np.exp(-r * dt) for w, r in ((1.0, v["omega_1"]), (v["weight_2"], v["omega_2"]))) / (
        1.0 + v["weight_2"]
    )


def wanted(kind, locations, times, marks, horizon):
    """Return the log-likelihood (4), pair by pair from the formula of `portable.models.hawkes.compose`; the
    background omits the event itself."""
    v = {name: VALUES[name] for name in kind.names()}
    mu, _ = reference.rates(locations, times, PARAMS_OF_BACKGROUND, background_self=False)
    expected = reference.expected_counts(
        times, dataclasses.replace(PARAMS_OF_BACKGROUND, theta=1e-15), horizon
    ).sum()
    r2 = squares(locations)
    dt = times[:, None] - times[None]
    m = (marks - marks.min())[None]
    width = v["h"] * np.exp(v.get("gamma", 0.0) * m)
    if "q" in v:
        near = (v["q"] - 1.0) / (np.pi * width**2) * (1.0 + r2 / width**2) ** -v["q"]
    else:
        near = np.exp(-0.5 * r2 / width**2) / (2.0 * np.pi * width**2)
    kappa = np.exp(v.get("alpha", 0.0) * m)
    xi = np.where(
        dt > 0.0, v["theta"] * kappa * near * decay_of(kind, v, np.where(dt > 0.0, dt, 1.0)), 0.0
    ).sum(axis=1)
    for t, factor in zip(times, np.broadcast_to(kappa, (1, len(times)))[0]):
        grid = np.concatenate([[0.0], np.geomspace(1e-7, horizon - t, 4001)]) if horizon > t else np.zeros(2)
        middle = 0.5 * (grid[1:] + grid[:-1])  # Simpson's rule on each piece
        pieces = decay_of(kind, v, grid[:-1]) + 4.0 * decay_of(kind, v, middle) + decay_of(kind, v, grid[1:])
        expected += v["theta"] * factor * float(np.diff(grid) @ pieces) / 6.0
    return float(np.log(mu + xi).sum() - expected)


PARAMS_OF_BACKGROUND = hawkes.Parameters(0.7, 1.6, 20.0, 0.3, 0.5, 0.4)


def events(space):
    """Return events, few for plain Python."""
    n = 7 if space == "checked" else 23
    return *random_events(n, seed=4), 2.5 + default_rng(4).exponential(0.5, n)


@pytest.mark.parametrize("name", ["omori", "three decays, marks", "etas", "omori, growth"])
def test_likelihood_and_gradient(space, name):
    if space == "threads" or (space == "checked" and name != "etas"):
        pytest.skip("the same code as on serial; in plain Python the largest of them is enough")
    kind = KINDS[name]
    locations, times, marks = events(space)
    horizon = float(times[-1]) + 5.0
    value = wanted(kind, locations, times, marks, horizon)
    params = params_of(kind)
    all_methods = space != "checked" and name in ("etas", "three decays, marks")
    for method in ("all_pairs", "windowed", "cells") if all_methods else ("windowed",):
        likelihood = Likelihood(
            locations,
            times,
            marks=marks,
            horizon_h=horizon,
            background_self=False,
            method=method,
            space=space,
        )
        assert likelihood.log_likelihood(params) == pytest.approx(value, rel=1e-8), method
        got, slopes = likelihood.gradient(params)
        assert got == pytest.approx(value, rel=1e-8)
        if space == "serial":
            for k, parameter in enumerate(kind.names()):
                x = getattr(params, parameter)
                up, down = (
                    likelihood.log_likelihood(dataclasses.replace(params, **{parameter: x * (1.0 + s)}))
                    for s in (1e-5, -1e-5)
                )
                assert slopes[k] == pytest.approx((up - down) / (2e-5 * x), rel=1e-5, abs=1e-5), (
                    method,
                    parameter,
                )
    if not all_methods:
        return
    mixed = Likelihood(
        locations, times, marks=marks, horizon_h=horizon, background_self=False, dtype="mixed", space=space
    )
    assert mixed.log_likelihood(params) == pytest.approx(value, rel=1e-6)


def test_what_else_is_asked(space):
    """Parents add up to the excitation, residuals to the expectation; intensities at events equal the rates;
    chains accept proposals."""
    locations, times, marks = events(space)
    if space == "threads":
        pytest.skip("the same code as on serial")
    params = params_of(KINDS["etas"])
    likelihood = Likelihood(locations, times, marks=marks, space=space)
    parents = hawkes.parent_probabilities(likelihood, params, least=1e-12)
    pi = likelihood.excitation_probabilities(params)
    assert_allclose(np.bincount(parents.children, parents.probabilities, minlength=len(times)), pi, atol=1e-9)
    background, excitation = hawkes.intensity(likelihood, params, locations, times)
    assert_allclose(excitation / (background + excitation), pi, atol=1e-12)
    if space == "serial":
        whole = hawkes.residuals(likelihood, params).rescaled[-1]
        value = likelihood.log_likelihood(params)
        assert whole == pytest.approx(float(np.log(background + excitation).sum()) - value, rel=1e-9)
        posterior = hawkes.sample_posterior(
            likelihood, n_chains=2, n_draws=20, n_warmup=0, start=[params] * 2, seed=1
        )
        for chain, draw in ((0, 3), (1, 19)):
            exact = likelihood.log_likelihood(posterior.params(chain, draw))
            assert posterior.log_likelihood[chain, draw] == pytest.approx(exact, rel=1e-8)


def test_an_exponential_is_the_papers():
    locations, times, likelihood = prepared(41, space="serial")
    own = KINDS["exponential"](*PARAMS.values())
    assert likelihood.log_likelihood(own) == pytest.approx(likelihood.log_likelihood(PARAMS), rel=1e-14)


@pytest.mark.parametrize("name", ["omori, cut off", "etas"])
def test_simulated_and_found_again(name):
    """Recover parameters within four standard errors, with a known background; marks follow Gutenberg and
    Richter.
    """
    kind = compose("omori", within_h=20_000.0) if name == "omori, cut off" else KINDS[name]
    truth = kind(
        **VALUES_OF_SIMULATION
        | {k: v for k, v in {"q": 2.5, "gamma": 0.4, "alpha": 1.0}.items() if k in kind.names()}
    )
    n = 600.0  # immigrants, uniform over a hundred square kilometres
    made = simulate(truth, n_immigrants=n, horizon_h=20_000.0, seed=7)
    locations, times, marks = made[0], made[1], made.marks if name == "etas" else None
    inside = ((locations >= 0.0) & (locations <= 10.0)).all(axis=1)
    background = hawkes.Background(np.where(inside, n / (100.0 * 20_000.0), 0.0), n)
    likelihood = Likelihood(
        locations,
        times,
        background=background,
        marks=marks,
        horizon_h=20_000.0,
        reference_mark=None if marks is None else 0.0,
        space="threads",
    )
    found = fit(likelihood, start=dataclasses.replace(truth, theta=0.2, c=1.0, h=0.1))
    assert found.converged and np.isfinite([*found.standard_errors.values()]).all()
    for k, parameter in enumerate(found.free):
        off = np.log(getattr(found.params, parameter) / getattr(truth, parameter))
        assert abs(off) < 4.0 * found.log_covariance[k, k] ** 0.5, parameter
    if marks is not None:
        assert likelihood.branching_ratio(truth) == pytest.approx(0.3 * np.exp(marks).mean())


VALUES_OF_SIMULATION = {"mu0": 1.0, "tau_x": 1.0, "tau_t": 1.0, "theta": 0.3, "c": 0.5, "p": 1.4, "h": 0.05}


def test_a_users_own_decay(space):
    """Define an exponential again in ten lines, without derivatives, and compare it with slopes, reach and
    draws of the library's."""
    if space == "threads":
        pytest.skip("the same code as on serial")

    @pk.function
    def exponent(dt, p):
        return p[0] * dt

    @pk.function
    def scale(p):
        return p[0]

    @pk.function
    def share(left, p):
        return 1.0 - pk.exp(-p[0] * left)

    Own = compose(hawkes.Decay(("omega",), ("1/h",), exponent, scale, share))
    locations, times, likelihood = prepared(9 if space == "checked" else 41, method="cells", space=space)
    value, slopes = likelihood.gradient(Own(*PARAMS.values()))
    exact, wanted_slopes = likelihood.gradient(PARAMS)
    assert value == pytest.approx(exact, rel=1e-12)
    assert_allclose(slopes, wanted_slopes, rtol=1e-11, atol=1e-11)
    random = default_rng(1)
    assert Own.triggering.draw(random, np.zeros(4000), 2, (0.5, 0.4))[0].mean() == pytest.approx(2.0, rel=0.1)
    assert Own.triggering.reach_h((0.5, 0.4), 3.0, 0.0) == pytest.approx(6.0)


def test_wide_maps_in_mixed_precision(space):
    """Places 2,000 km apart and lengths of 10 m: the error would be 3e-4 with one float32 for each
    coordinate.
    """
    random = default_rng(1)
    n = 9 if space == "checked" else 200
    locations = np.repeat(random.uniform(-1000.0, 1000.0, (n // 4 + 1, 2)), 4, axis=0)[:n] + random.normal(
        0.0, 0.01, (n, 2)
    )
    times = np.sort(random.uniform(0.0, 100.0, n))
    params = dataclasses.replace(PARAMS, h=0.01)
    for method in ("windowed",) if space == "checked" else ("all_pairs", "windowed"):
        exact, mixed = (
            Likelihood(locations, times, method=method, dtype=precision, space=space)
            for precision in ("float64", "mixed")
        )
        assert mixed.log_likelihood(params) == pytest.approx(exact.log_likelihood(params), rel=1e-6), method


WRONG = [
    (lambda: compose("power"), InputError, "decay is 'power'; expected 'exponential', 'omori'"),
    (
        lambda: compose(2.5),
        InputError,
        "decay is 2.5; expected .*, a number of exponentials, or a hawkes.Decay",
    ),
    (lambda: compose(growth=True), InputError, "growth is True without marks"),
    (
        lambda: compose(distance="power_law", n_dims=3),
        InputError,
        "'power_law' in 3 dimensions; its density is for 2",
    ),
    (lambda: compose(within_h=3.0), InputError, "within_h is for the Omori law"),
    (lambda: omori(0.0), InputError, "within_h is 0.0"),
    (lambda: exponentials(9), InputError, "n_scales is 9"),
    (
        lambda: dataclasses.replace(params_of(KINDS["omori"]), p=1.0),
        InputError,
        "p is 1.0; expected more than 1",
    ),
    (
        lambda: FEW.log_likelihood(params_of(KINDS["etas"])),
        InputError,
        "params use marks, but the Likelihood has none",
    ),
    (
        lambda: FEW.log_likelihood(params_of(compose("omori", within_h=1.0))),
        InputError,
        "offspring come within 1 hours, but",
    ),
    (
        lambda: Likelihood(*NINE, marks=np.ones(3)),
        ShapeError,
        "marks has 3 entries for 9 events",
    ),
    (
        lambda: Likelihood(*NINE, reference_mark=3.0),
        InputError,
        "reference_mark needs marks",
    ),
    (
        lambda: Likelihood(*NINE, marks=np.arange(9.0), reference_mark=2.0),
        InputError,
        r"marks\[0\] is 0.0, below reference_mark = 2 \(2 such events\)",
    ),
    (
        lambda: simulate(PARAMS, n_immigrants=9, horizon_h=9.0, marks=[1.0]),
        InputError,
        "marks is not None, but the triggering function",
    ),
]


test_wrong_calls = refusals(WRONG)
