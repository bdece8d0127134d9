"""Test that a NaN log-weight ends only its filter, is counted, and that the function that returned it is
named.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from portable.models import resampling
from portable.models.resampling import priors, ready
from portable.models.resampling.filter import SCHEMES, ParticleFilter

import portable as pk
from portable.errors import FiniteError, InputError

pytestmark = pytest.mark.usefixtures("serial")

LG = ready.linear_gaussian
Y = np.random.default_rng(1).normal(size=6)
Y[2] = np.nan
GOOD = [[1.0], [2.0]]


@pk.function
def initial(seed, stream, draw, params):
    return (math.sqrt(params[0]) * pk.random.normal(seed, stream, draw),)


@pk.function
def propagate(t, state, seed, stream, draw, params):
    return (0.5 * state[0] + math.sqrt(3.0 - params[0]) * pk.random.normal(seed, stream, draw),)


@pk.function
def log_weight(t, state, y, params):
    return -0.5 * (y[0] - state[0]) ** 2 + (math.log(params[0] - 0.3) if t > 2 else 0.0)


@pk.function
def log_density(state, params):
    return -0.5 * state[0] * state[0]


@pk.function
def log_transition(t, state, moved, params):
    return -0.5 * (moved[0] - 0.5 * state[0]) ** 2


@pk.function
def guide(t, state, y, seed, stream, draw, params):
    return (0.5 * state[0] + pk.random.normal(seed, stream, draw),)


@pk.function
def wild_guide(t, state, y, seed, stream, draw, params):
    return (0.5 * state[0] + math.log(params[0] - 0.3) + pk.random.normal(seed, stream, draw),)


@pk.function
def log_guide(t, state, moved, y, params):
    return math.log(params[0] - 0.3)


@pk.function
def log_one(t, state, y, params):
    return -0.5 * (y[0] - state[0]) ** 2


@pk.function
def infinite(t, state, y, params):
    return 1.0 / (params[0] - 0.2) if t > 0 else 0.0


# functions, guides, the parameter of the row that dies, and the name in the message
CASES = [
    ((initial, propagate, log_weight), {}, -1.0, "initial gave nan for a particle's state at step 0"),
    ((initial, propagate, log_weight), {}, 4.0, "propagate gave nan for a particle's state at step 1"),
    ((initial, propagate, log_weight), {}, 0.2, "log_weight gave nan for a particle at step 3"),
    ((initial, propagate, infinite), {}, 0.2, "log_weight gave inf for a particle at step 1"),
    (
        (initial, propagate, log_one),
        {"guide": guide, "log_guide": log_guide},
        0.2,
        "log_guide gave nan for a particle at step 1",
    ),
    (
        (initial, propagate, log_one),
        {"guide": wild_guide, "log_guide": log_guide},
        0.2,
        "guide gave nan for a particle's state at step 1",
    ),
]


@pytest.mark.parametrize("functions, guides, bad, words", CASES, ids=[case[-1][:30] for case in CASES])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_dies_alone_and_its_function_is_named(functions, guides, bad, words, dtype, space):
    """Other rows keep their bits, whether one team processes a row or all process all rows."""
    model = ParticleFilter(*functions, **guides, names=("a",), dtype=dtype, space=space)
    sizes = (9,) if space == "checked" else (40, 5000)
    for n in sizes:
        with np.errstate(all="ignore"):
            good = model.run(Y, n, params=[GOOD[0], GOOD[0], GOOD[1]], seed=3)
            with pytest.warns(
                RuntimeWarning, match=f"1 of 3 filters died of NaN.*{words} of filter 1, with a"
            ):
                found = model.run(Y, n, params=[GOOD[0], [bad], GOOD[1]], seed=3)
            with pytest.warns(RuntimeWarning, match=words):
                alone = model.log_likelihood(Y, n, params=[GOOD[0], [bad], GOOD[1]], seed=3)
            assert_array_equal(found.log_likelihood[[0, 2]], good.log_likelihood[[0, 2]])
            assert found.log_likelihood[1] == alone[1] == -np.inf
            assert found.died.tolist() == found.nan_steps.tolist() == [-1, found.died[1], -1]
            assert words in found.nan_from and good.nan_from == "" and (good.nan_steps == -1).all()
            assert np.isfinite(found.means[:, :, [0, 2]]).all() and np.isnan(found.means[-1, :, 1]).all()
            with pytest.raises(FiniteError, match=f"^{words} of filter 1"):
                model.run(Y, n, params=[GOOD[0], [bad]], on_nan="raise")
            with pytest.raises(FiniteError, match=f"^{words} of filter 1"):
                model.log_likelihood(Y, n, params=[GOOD[0], [bad]], on_nan="raise")


@pytest.mark.parametrize("method", SCHEMES)
def test_every_scheme(method):
    """With a threshold of 1 every row is resampled at every step, the dead one too."""
    options = {"n_steps": 5} if method in ("metropolis", "megopolis") else {}
    for in_place in (False, True):
        model = ParticleFilter(
            initial,
            propagate,
            log_weight,
            method=method,
            threshold=1.0,
            in_place=in_place,
            space="serial",
            **options,
        )
        with pytest.warns(RuntimeWarning, match="log_weight gave nan"):
            found = model.run(Y, 50, params=[[0.2], [1.0]], variances=True, quantiles=[0.5])
        assert found.log_likelihood[0] == -np.inf and np.isfinite(found.log_likelihood[1])
        assert found.nan_steps.tolist() == [3, -1] and np.isfinite(found.quantiles[..., 1]).all()


def test_a_look_ahead_is_named():
    model = ParticleFilter(initial, propagate, log_one, look_ahead=log_weight, threshold=1.0)
    with pytest.warns(RuntimeWarning, match="look_ahead gave nan for a particle at step 4"):
        assert model.log_likelihood(Y, 40, params=[0.2]) == -np.inf


def test_one_observation_at_a_time():
    model = ParticleFilter(initial, propagate, log_weight)
    whole = model.run(Y, 50, params=GOOD, seed=1)
    online, died = model.online(50, params=[GOOD[0], [0.2]], seed=1), []
    for t, y in enumerate(Y):
        if t == 3:
            with pytest.warns(RuntimeWarning, match="1 of 2 filters died of NaN.*log_weight .* at step 3 of"):
                step = online.step(y)
        else:
            step = online.step(y)
        died.append(step.died.tolist())
    assert died == [[False, t >= 3] for t in range(6)]
    assert step.log_likelihood[0] == whole.log_likelihood[0] and step.log_likelihood[1] == -np.inf
    online = model.online(50, params=[0.2], seed=1, on_nan="raise")
    for y in Y[:3]:
        online.step(y)
    with pytest.raises(FiniteError, match="log_weight or log_guide gave NaN or .inf at step 3"):
        online.step(Y[3])


MODEL = resampling.StateSpaceModel(
    parameters=("a",),
    states=("x",),
    initial=initial,
    propagate=propagate,
    log_weight=log_weight,
    log_initial=log_density,
    log_transition=log_transition,
)
OPTIONS = {
    "priors": {"a": priors.uniform(-1.0, 2.9)},
    "n_chains": 4,
    "n_draws": 60,
    "n_warmup": 20,
    "seed": 2,
}


@pytest.mark.parametrize("sample", [resampling.sample_pmmh, resampling.sample_gibbs])
def test_a_sampler_rejects_counts_and_names(sample, space, tmp_path):
    few = {"n_draws": 9, "n_warmup": 2} if space == "checked" else {}
    n = 5 if space == "checked" else 30
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="log-likelihoods were NaN.*with a = "):
        found = sample(MODEL, Y, n, **OPTIONS | few, space=space)
    assert found.n_nan.sum() > 0 and (found["a"] > 0.3).all() and np.isfinite(found.log_likelihood).all()
    assert f"{found.n_nan.sum()} log-likelihoods were NaN" in found.notes[-1]
    with np.errstate(all="ignore"), pytest.raises(FiniteError, match=r"gave nan .*, with a = "):
        sample(MODEL, Y, n, **OPTIONS | few, space=space, on_nan="raise")


def test_counts_survive_a_checkpoint(tmp_path):
    with pytest.warns(RuntimeWarning, match="log-likelihoods were NaN") as told:
        whole = resampling.sample_pmmh(MODEL, Y, 30, **OPTIONS, checkpoint=tmp_path / "a")
        again = resampling.sample_pmmh(MODEL, Y, 30, **OPTIONS, checkpoint=tmp_path / "a")
    assert len(told) >= 2 and again.n_nan.tolist() == whole.n_nan.tolist() and again.notes == whole.notes


def test_a_model_of_which_one_row_has_no_initial_state():
    """Functions are tried on a row for which they are valid; if there is none, the message gives the
    reason."""
    with pytest.warns(RuntimeWarning, match="initial gave nan .* of filter 0, with phi = 2"):
        found = LG.filter().run(Y, 50, params={"phi": [2.0, 0.5], "sigma": 0.5, "tau": 0.5})
    assert found.log_likelihood[0] == -np.inf < found.log_likelihood[1]
    with pytest.raises(InputError, match="initial: math domain error"):
        LG.filter().run(Y, 50, params={"phi": [2.0, 3.0], "sigma": 0.5, "tau": 0.5})


@pytest.mark.filterwarnings("ignore:1 of 3 filters died of NaN")
@pytest.mark.parametrize("bad", [-1.0, 4.0, 0.2])
def test_paths_of_the_others_are_the_same(bad):
    model, paths = MODEL.filter(), []
    for row in (bad, 1.0):
        found = model.run(Y, 60, params=[[1.0], [row], [2.0]], keep=True, seed=1)
        drawn = found.trajectories(5, seed=2), resampling.backward_paths(MODEL, found, 5, seed=2)
        paths.append([*drawn, resampling.lagged_moments(found, 2)[0]])
    for dead, alive in zip(*paths):
        assert np.isnan(dead[:, :, 1]).all()
        assert_array_equal(dead[:, :, [0, 2]], alive[:, :, [0, 2]])
