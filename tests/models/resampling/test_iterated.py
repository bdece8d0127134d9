"""Compare iterated filtering with the maximum of an exact likelihood, on three models with known parameters,
and test its properties: the same results everywhere, checkpoints, messages."""

import functools
import math

import numpy as np
import portable as pk
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from portable.models.resampling import (
    Maximum,
    Profile,
    StateSpaceModel,
    exact,
    maximise,
    priors,
    profile,
    ready,
)
from portable.models.resampling.iterated import Searches
from scipy import optimize, stats

from portable.errors import DTypeError, FiniteError, InputError

from ...refusals import refusals
from .grids import volatility_on_a_grid
from .test_filter import expected

LG, SV = ready.linear_gaussian, ready.stochastic_volatility
AHEAD = {"phi": priors.uniform(-1.0, 1.0), "sigma": priors.half_normal(1.0), "tau": priors.half_normal(1.0)}
Y = LG.simulate(LG.params(phi=0.8, sigma=0.5, tau=0.7), 100, seed=3, space="serial")[1][:, 0]
Y[20:24] = np.nan
REGIMES = {"stay": priors.uniform(0.0, 1.0), "level": priors.normal(0.0, 3.0)}
LEVERAGE = {"mu": priors.normal(0.0, 1.0), "sigma": AHEAD["sigma"]}
pytestmark = [
    pytest.mark.usefixtures("serial"),
    pytest.mark.filterwarnings("ignore:(only .+ )?searches (came near|rose)"),
]  # few iterations
RETURNS = SV.simulate(SV.params(mu=-0.5, phi=0.9, sigma=0.4, rho=-0.5), 80, seed=5, space="serial")[1][:, 0]
SHORT = {"priors": AHEAD, "n_chains": 4, "n_iterations": 4, "n_repeats": 2, "seed": 5, "look_ahead": expected}
short = functools.partial(maximise, LG, Y[:20], 30, **SHORT)


LEVELS = np.repeat([0.0, 2.0] * 5, 10) + np.random.default_rng(5).normal(size=100)


@pk.function
def at_zero(seed, stream, draw, params):
    return (0.0,)


@pk.function
def stay_or_go(t, state, seed, stream, draw, params):
    return (pk.where(pk.random.uniform(seed, stream, draw) < params[0], state[0], 1.0 - state[0]),)


@pk.function
def log_level(t, state, y, params):
    return ready.log_normal_density(y[0], params[1] * state[0], 1.0)


HIDDEN = StateSpaceModel(("stay", "level"), ("state",), at_zero, stay_or_go, log_level)


def forward(stay, level):
    """Return the log-likelihood of LEVELS, by sums over both states."""
    p = np.array([1.0, 0.0])
    for y in LEVELS:
        p = p * stats.norm.pdf(y, [0.0, level])
        p = stay * p + (1.0 - stay) * p[::-1]
    return math.log(p.sum())


def kalman(phi, sigma, tau):
    return exact.kalman(Y, (phi, sigma, tau)).log_likelihood


def volatility(mu, sigma):
    return volatility_on_a_grid(RETURNS, (mu, 0.9, sigma, -0.5), n=120).log_likelihood


@pytest.mark.parametrize(
    "model, y, likelihood, known, fixed, name, grid",
    [
        (LG, Y, kalman, AHEAD, {}, "sigma", np.linspace(0.3, 0.8, 7)),
        (HIDDEN, LEVELS, forward, REGIMES, {}, "level", np.linspace(1.4, 2.6, 7)),
        (SV, RETURNS, volatility, LEVERAGE, {"phi": 0.9, "rho": -0.5}, "mu", np.linspace(-1.3, 0.5, 7)),
    ],
)
def test_the_maximum_and_its_error(model, y, likelihood, known, fixed, name, grid):
    """The exact likelihood of the best search is within 1.5 of the largest one; the profile's maximum is
    within two standard errors of the truth, and these errors are within a third of the exact profile's."""
    start = {"phi": 0.8, "sigma": 0.5, "tau": 0.7, "mu": -0.5, "stay": 0.85, "level": 2.0}
    how = {"method": "Nelder-Mead", "options": {"fatol": 0.01, "xatol": 0.01}}
    truth = optimize.minimize(lambda p: -likelihood(*p), [start[n] for n in known], **how)
    options = {"fixed": fixed, "seed": 1, "space": "threads"}
    options["look_ahead"] = expected if model is LG else None
    found = maximise(model, y, 150, priors=known, n_chains=8, n_iterations=60, **options)
    assert likelihood(*(found.params[n] for n in known)) > -truth.fun - 1.5
    assert abs(found.log_likelihood + truth.fun) < 1.5
    others, place = {n: prior for n, prior in known.items() if n != name}, list(known).index(name)
    options["start"] = {n: found.params[n] for n in others}
    along = profile(model, y, 150, name, grid, priors=others, n_chains=3, n_iterations=25, **options)
    assert abs(along.estimate - truth.x[place]) < 2.0 * along.standard_error
    few, rest = grid[1::2], np.delete(truth.x, place)
    exact_logs = [
        optimize.minimize(lambda p, v=v: likelihood(*p[:place], v, *p[place:]) * -1.0, rest, **how).fun
        for v in few
    ]
    assert 0.6 < along.standard_error * math.sqrt(2.0 * np.polyfit(few, exact_logs, 2)[0]) < 1.6


def test_the_same_ends_on_every_space(space):
    """The bits are those of the serial space, and of several spaces at once; plain Python may round a
    logarithm differently.
    """
    few = {"n_chains": 2, "n_iterations": 1} if space == "checked" else {}
    sample = functools.partial(maximise, LG, Y[:3], 4, **SHORT | few) if space == "checked" else short
    here, serial = sample(space=space), sample()
    if space == "checked":
        assert_allclose(here.ends, serial.ends, rtol=1e-12)
        return
    for found in (here, sample(space=[space, "serial"])):
        assert_array_equal(found.ends, serial.ends)
        assert_array_equal(found.logs, serial.logs)


def test_a_checkpoint_and_a_file(tmp_path, monkeypatch):
    whole, before = short(), Searches.step

    def stops(self, number, warm):
        if number == 2:
            raise KeyboardInterrupt
        before(self, number, warm)

    with monkeypatch.context() as patch:
        patch.setattr(Searches, "step", stops)
        with pytest.raises(KeyboardInterrupt):
            short(checkpoint=tmp_path / "searches")
    again = short(checkpoint=tmp_path / "searches")
    assert_array_equal(again.ends, whole.ends)
    again.save(tmp_path / "maximum.npz")
    loaded = Maximum.load(tmp_path / "maximum.npz")
    assert loaded.params == whole.params and loaded.notes == whole.notes
    with pytest.raises(InputError, match="belongs to another run"):
        short(sd=0.03, checkpoint=tmp_path / "searches")
    others = {n: prior for n, prior in AHEAD.items() if n != "tau"}
    along = profile(LG, Y[:20], 30, "tau", [0.5, 0.6, 0.7, 0.8], **SHORT | {"priors": others})
    along.save(tmp_path / "profile.npz")
    assert_array_equal(Profile.load(tmp_path / "profile.npz").logs, along.logs)


def test_parameters_of_the_initial_state_stay_after_step_0():
    """With one particle there is no selection: z moves once by sd e, not at every step."""
    moved = []
    for initial in ((), ("phi",)):
        one = {"priors": {"phi": AHEAD["phi"]}, "fixed": {"sigma": 0.5, "tau": 0.7}, "n_iterations": 1}
        found = maximise(LG, Y, 2, n_chains=200, n_repeats=1, start={"phi": 0.0}, initial=initial, **one)
        moved.append(np.log((1 + found.ends) / (1 - found.ends)).std())
    assert moved[0] > 5 * moved[1] > 0.0 and 0.017 < moved[1] < 0.023


def test_filters_that_die_of_nan_are_told():
    with pytest.warns(RuntimeWarning, match="filters died of NaN: .*nan.*, with phi = "):
        found = short(priors=AHEAD | {"phi": priors.uniform(0, 9)})
    assert "filters died of NaN" in found.notes[0]


def test_searches_that_differ_are_told():
    with pytest.warns(RuntimeWarning, match="only . of 6 searches came near the best one"):
        found = maximise(LG, Y, 30, priors=AHEAD, n_chains=6, n_iterations=1, seed=2)
    assert "came near" in found.notes[-1] and (np.diff(found.logs) <= 0.0).all()


def test_searches_that_still_rise_are_told():
    """All begin at one point far from the maximum, and all end near the best one."""
    few = {"priors": {name: AHEAD[name] for name in ("sigma", "tau")}, "start": {"sigma": 0.1, "tau": 3.0}}
    for search, rest in (
        (maximise, {"fixed": {"phi": 0.8}}),
        (profile, {"name": "phi", "values": [0.6, 0.7, 0.8, 0.9]}),
    ):
        with pytest.warns(RuntimeWarning, match="searches rose by .* in the second half of the iterations"):
            search(LG, Y, 30, n_chains=4, n_iterations=10, **few, **rest)


test_wrong_calls = refusals(
    [
        ({"sd": 0.0}, InputError, "sd is 0"),
        ({"cooling": 1.5}, InputError, "cooling is 1.5; expected a share"),
        ({"initial": ["rho"]}, InputError, "initial has rho, which has no prior"),
        ({"n_chains": 0}, InputError, "n_chains is 0"),
        ({"look_ahead": 0.5}, DTypeError, "look_ahead must be marked"),
        ({"priors": AHEAD | {"phi": priors.uniform(0, 9)}, "on_nan": "raise"}, FiniteError, "nan.*phi = "),
        ({"fixed": {"phi": 0.5}}, InputError, "phi in priors and in fixed"),
        ({"start": {"phi": 0.5}}, InputError, "start has phi; expected a dict of exactly phi, sigma, tau"),
    ],
    lambda given: short(**given),
)


def test_wrong_profiles():
    with pytest.raises(InputError, match="expected at least 4 different numbers"):
        profile(LG, Y, 30, "tau", [0.5, 0.6, 0.7], priors=AHEAD)
    with pytest.raises(InputError, match="n_particles is 5000; expected 2 to 4096"):
        maximise(LG, Y, 5000, priors=AHEAD)
