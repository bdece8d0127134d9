"""Compare smoothing with that of Rauch, Tung and Striebel, with missing data, and online filtering with a run
of all observations at once."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from portable.models.resampling import ParticleFilter, backward_paths, exact, lagged_moments, ready

import portable as pk
from portable.errors import InputError, ShapeError

LG, SV = ready.linear_gaussian, ready.stochastic_volatility
P = LG.params(phi=0.8, sigma=0.5, tau=0.7)
Y = LG.simulate(P, 30, seed=3, space="serial")[1][:, 0]
Y[[4, 5, 20]] = np.nan
RUNS = 40


@pytest.fixture(scope="module")
def kept():
    """Run RUNS filters that store particles."""
    return LG.filter(space="threads").run(Y, 600, params=np.tile(P, (RUNS, 1)), seed=1, keep=True)


def assert_is_smoothed(means, error):
    """Compare within five standard errors estimated between runs, plus 1 / n for the bias of a ratio."""
    assert (np.abs(means - exact.smoothed(Y, P).means) <= 5 * error + 1 / 600).all()


BOUND = -math.log(P.sigma * math.sqrt(2 * math.pi))


@pytest.mark.parametrize("options", [{}, {"bound": BOUND}, {"bound": BOUND + 3.0, "most": 2}])
def test_backward_paths(kept, options):
    """Test also rejection sampling, with a limit that it nearly always exceeds."""
    paths = backward_paths(LG, kept, 40, seed=2, **options)
    assert paths.shape == (30, 1, RUNS, 40)
    means = paths[:, 0].mean(axis=-1)
    assert_is_smoothed(means.mean(axis=1), means.std(axis=1, ddof=1) / math.sqrt(RUNS))
    variances = paths[:, 0].reshape(30, -1).var(axis=1)
    assert_allclose(variances, exact.smoothed(Y, P).variances, rtol=0.2)
    a, b = (
        paths[14, 0].ravel(),
        paths[15, 0].ravel(),
    )  # neighbours belong to one path: their correlation is that of the smoother
    assert np.corrcoef(a, b)[0, 1] > 0.3


def test_fixed_lag(kept):
    means, variances = lagged_moments(kept, 12)
    assert_is_smoothed(means[:, 0].mean(axis=1), means[:, 0].std(axis=1, ddof=1) / math.sqrt(RUNS))
    assert_allclose(variances[:, 0].mean(axis=1), exact.smoothed(Y, P).variances, rtol=0.2)
    filtered, _ = lagged_moments(kept, 0)
    assert_allclose(filtered, kept.means, rtol=1e-8)


def test_genealogy(kept):
    paths = kept.trajectories(100, seed=3)
    means = paths[:, 0].mean(axis=-1)
    assert_is_smoothed(means.mean(axis=1), means.std(axis=1, ddof=1) / math.sqrt(RUNS))


def test_smoothing_on_every_space(space):
    """Paths have the bits of the serial space; a filter that died has none; a single filter has no axis of
    filters."""
    n, y = (6, Y[:3]) if space == "checked" else (300, Y)
    here, serial = (
        LG.filter(space=name).run(y, n, params=np.array([P, [0.5, 1.0, 1e-200]]), seed=4, keep=True)
        for name in (space, "serial")
    )
    assert here.died[1] >= 0
    for options in ({"bound": BOUND}, {"bound": BOUND, "most": 0}):
        rejected, wanted = (backward_paths(LG, found, 3, seed=1, **options) for found in (here, serial))
        assert_array_equal(rejected, wanted)
    paths, wanted = (backward_paths(LG, found, 3, seed=1) for found in (here, serial))
    assert_allclose(paths, wanted, rtol=1e-9 if space == "checked" else 0)
    assert np.isnan(paths[:, :, 1]).all() and np.isfinite(paths[:, :, 0]).all()
    means, _ = lagged_moments(here, 2)
    assert_allclose(means, lagged_moments(serial, 2)[0], rtol=1e-9)
    assert np.isnan(here.trajectories(2, seed=1)[:, :, 1]).all()
    one = LG.filter(space=space).run(y, n, params=P, seed=4, keep=True)
    assert backward_paths(LG, one, 3, seed=1).shape == (len(y), 1, 3) and lagged_moments(one, 1)[1].shape == (
        len(y),
        1,
    )


def test_wrong_smoothing():
    found = LG.filter(space="serial").run(Y[:4], 10, params=P, seed=1)
    with pytest.raises(InputError, match="kept no ancestors; expected .* for backward simulation"):
        backward_paths(LG, found, 3, seed=1)
    with pytest.raises(InputError, match="backward simulation needs the model's log_transition"):
        backward_paths(ready.sir(10), found, 3, seed=1)
    with pytest.raises(InputError, match="lag is -1"):
        lagged_moments(found, -1)


@pytest.mark.parametrize(
    "model, params, n, options",
    [
        (LG, P, 40, {}),
        (LG, P, 5000, {}),
        (LG, P, 40, {"in_place": True}),
        (LG, P, 40, {"method": "residual", "threshold": 1.0}),
        (SV, [-0.5, 0.95, 0.3, -0.6], 40, {"ordered": True}),
    ],
    ids=["rows", "steps", "in place", "residual", "lagged"],
)
def test_online_is_the_run(space, model, params, n, options, tmp_path):
    """Process step by step, store in the middle and resume: the same numbers."""
    if space == "checked" and n > 1000:
        pytest.skip("plain Python is for small sizes")
    n, y = (6, Y[:3]) if space == "checked" else (n, Y[:6])
    many = np.array([params, params])
    made = model.filter(space=space, **options)
    whole = made.run(y, n, params=many, seed=5, variances=True, quantiles=[0.5])
    online = made.online(n, params=many, seed=5, variances=True, quantiles=[0.5])
    for t, value in enumerate(y):
        step = online.step(value)
        assert step.t == t
        assert_array_equal(step.evidence, whole.evidence[t])
        assert_array_equal(step.size, whole.sizes[t])
        assert_array_equal(step.quantiles, whole.quantiles[t])
        assert_allclose(step.means, whole.means[t], rtol=1e-12)
        assert_allclose(step.variances, whole.variances[t], rtol=1e-9)
        if t == 1:
            online.save(tmp_path / "state.npz")
            online = made.online(n, params=many, seed=5, variances=True, quantiles=[0.5]).load(
                tmp_path / "state.npz"
            )
    assert_array_equal(step.log_likelihood, whole.log_likelihood)


@pk.function
def drift(t, state, seed, stream, draw, params):
    return (state[0] + params[3] * pk.random.normal(seed, stream, draw),)


def test_wrong_online(tmp_path):
    made = LG.filter(space="serial")
    online = made.online(10, params=P, seed=5)
    assert isinstance(online.step(0.5).log_likelihood, float)
    online.save(tmp_path / "state.npz")
    with pytest.raises(
        InputError, match="was saved by another filter, of portable .*: seed is 5 there, 6 here"
    ):
        made.online(10, params=P, seed=6).load(tmp_path / "state.npz")
    with pytest.raises(InputError, match="was saved by another filter, of portable .*: params differ"):
        made.online(10, params=[0.1, 0.5, 0.7], seed=5).load(tmp_path / "state.npz")
    (tmp_path / "other").write_bytes(b"no state")
    with pytest.raises(InputError, match="is no state that Online.save wrote"):
        online.load(tmp_path / "other")
    with pytest.raises(ShapeError, match=r"observation has 2 numbers; expected 1: online\(..., n_values=\)"):
        online.step([1.0, 2.0])
    with pytest.raises(ShapeError, match=r"inputs has 1 numbers; expected 0: online\(..., n_inputs=\)"):
        online.step(1.0, 2.0)
    moving = ParticleFilter(LG.initial, drift, LG.log_weight, space="serial").online(
        10, params=P, n_inputs=1, seed=1
    )
    assert math.isfinite(moving.step(0.1, 2.0).evidence)
