"""The particle filter against the Kalman filter, and what it promises about seeds, rows, memory and wrong calls.

Model: x_0 ~ N(0, s^2 / (1 - phi^2)), x_t = phi x_(t-1) + s e_t, y_t = x_t + tau d_t, with standard normal e and d.
"""

import math

import numpy as np
import pytest

import portable as pk
from models.resampling import ParticleFilter

E = pk.errors
PARAMS = np.array([0.9, 0.5, 0.7])  # phi, s, tau
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@pk.function
def initial(seed, stream, draw, params):
    return (params[1] / math.sqrt(pk.fma(-params[0], params[0], 1.0)) * pk.random.normal(seed, stream, draw),)


@pk.function
def propagate(t, state, seed, stream, draw, params):
    return (pk.fma(params[0], state[0], params[1] * pk.random.normal(seed, stream, draw)),)  # the checked space rounds products


@pk.function
def log_weight(t, state, y, params):
    z = (y[0] - state[0]) / params[2]
    return pk.fma(-0.5 * z, z, -math.log(params[2]) - HALF_LOG_TWO_PI)


def observations(n_steps, rng):
    phi, s, tau = PARAMS
    x = rng.normal() * s / math.sqrt(1 - phi * phi)
    y = []
    for t in range(n_steps):
        x = x if t == 0 else phi * x + s * rng.normal()
        y.append(x + tau * rng.normal())
    return np.array(y)


def kalman(y, params=PARAMS):
    """Log-likelihood, filtered means and variances."""
    phi, s, tau = params
    mean, var, total, means, variances = 0.0, s * s / (1 - phi * phi), 0.0, [], []
    for t, value in enumerate(y):
        if t:
            mean, var = phi * mean, phi * phi * var + s * s
        spread = var + tau * tau
        total -= 0.5 * (math.log(2 * math.pi * spread) + (value - mean) ** 2 / spread)
        mean, var = mean + var / spread * (value - mean), var * tau * tau / spread
        means.append(mean)
        variances.append(var)
    return total, np.array(means), np.array(variances)


Y = observations(20, np.random.default_rng(1))


def model(space, **options):
    return ParticleFilter(initial, propagate, log_weight, space=space, **options)


@pytest.mark.parametrize("options", [{}, {"in_place": True}, {"threshold": 1.0, "scheme": "residual"}], ids=str)
def test_the_linear_gaussian_filter_is_kalmans(space, options):
    """Over 16 filters at once: means within five standard errors of Kalman's, seen between the filters."""
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    found = model(space, **options).run(Y, 4000, params=np.tile(PARAMS, (16, 1)), seed=5)
    _, means, _ = kalman(Y)
    error = found.means[:, 0].std(axis=1, ddof=1) / 4
    assert (np.abs(found.means[:, 0].mean(axis=1) - means) <= 5 * error).all()
    assert found.resampled.any() and not found.resampled.all()
    assert found.resampled[:-1].all() == (options.get("threshold") == 1.0)
    assert (found.sizes >= 1).all() and (found.sizes <= 4000).all()


def test_the_likelihood_is_unbiased(space):
    """The mean of p(y) / p_Kalman(y) over 400 filters in one launch is 1 within five standard errors."""
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    found = model(space).run(Y, 200, params=np.tile(PARAMS, (400, 1)), seed=2, means=False)
    ratio = np.exp(found.log_likelihood - kalman(Y)[0])
    assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / 20
    np.testing.assert_allclose(found.evidence.sum(axis=0), found.log_likelihood, rtol=1e-14)


def test_filters_have_parameters_of_their_own(space):
    """Several filters at once: the first is the filter that runs alone, to the last bit of its states."""
    n = 30 if space == "checked" else 3000
    y = Y[:4]
    params = np.array([PARAMS, [0.2, 1.0, 0.5]])
    both, one = (model(space).run(y, n, params=p, seed=4) for p in (params, PARAMS))
    np.testing.assert_array_equal(both.states.to_numpy()[:, 0], one.states.to_numpy()[:, 0])
    assert one.log_likelihood == both.log_likelihood[0] and one.means.shape == (4, 1) and both.means.shape == (4, 1, 2)
    if space != "checked":  # within what 3,000 particles leave, seen to be below 0.1 for such parameters
        np.testing.assert_allclose(both.log_likelihood, [kalman(y, p)[0] for p in params], atol=0.15)


def test_the_same_on_every_space(space):
    """The bits of the serial space for any number of threads; elsewhere logarithms may be those of plain Python."""
    n, y = (20, Y[:3]) if space == "checked" else (5000, Y)
    for dtype in (np.float64, np.float32):
        here, serial = (model(name, dtype=dtype).run(y, n, params=PARAMS, seed=9, means=False) for name in (space, "serial"))
        if space in ("serial", "threads"):
            np.testing.assert_array_equal(here.states.to_numpy(), serial.states.to_numpy())
            assert here.log_likelihood == serial.log_likelihood
        else:  # 40 roundings a step, each of half a unit
            rtol = 1e3 * np.finfo(dtype).eps
            np.testing.assert_allclose(here.states.to_numpy(), serial.states.to_numpy(), rtol=rtol, atol=rtol)
            np.testing.assert_allclose(here.log_likelihood, serial.log_likelihood, rtol=rtol)


def test_in_place_has_the_same_law():
    """Averages over 64 filters agree within five standard errors of their difference."""
    params = np.tile(PARAMS, (64, 1))
    a, b = (model("threads", in_place=flag).run(Y, 500, params=params, seed=seed).means[-1, 0] for flag, seed in
            ((False, 1), (True, 2)))
    assert abs(a.mean() - b.mean()) <= 5 * math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 64)


def test_trajectories_follow_their_ancestors(space):
    """Ends are particles of the last step, and each path is one through kept states; Kalman's smoother at the end."""
    n, y = (30, Y[:4]) if space == "checked" else (4000, Y)
    found = model(space, threshold=1.0).run(y, n, params=PARAMS, seed=8, keep=True)
    paths = found.trajectories(50, seed=1)
    assert paths.shape == (len(y), 1, 50)
    kept, ancestors = found._run.x.to_numpy()[:, 0, 0], found._run.ancestors.to_numpy()[:, 0]
    place = {value: k for k, value in enumerate(kept[-1])}
    for path in paths[:, 0].T:
        k = place[path[-1]]
        for t in range(len(y) - 1, 0, -1):
            k = ancestors[t - 1, k]
            assert kept[t - 1, k] == path[t - 1]
    with pytest.raises(E.InputError, match=r"kept no ancestors; run\(..., keep=True\)"):
        model("serial").run(y, 10, params=PARAMS, seed=8).trajectories(5, seed=1)


@pk.function
def impossible(t, state, y, params):
    return -math.inf if t == 2 else 0.0


@pk.function
def not_a_number(t, state, y, params):
    return 0.0 * math.inf if t == 1 else 0.0


@pk.function
def no_tuple(t, state, seed, stream, draw, params):
    return state[0]


@pk.function
def two_numbers(t, state, seed, stream, draw, params):
    return state[0], state[0]


def plain(t, state, y, params):
    return 0.0


@pk.function
def reads_beyond(t, state, y, params):
    return y[3]


@pk.function
def takes_less(seed, stream, draw):
    return (0.0,)


@pk.function
def gives_nothing(t, state, y, params):
    pass


@pk.function
def logarithm_of_zero(t, state, y, params):
    """-inf in a kernel, a ValueError in plain Python."""
    return math.log(abs(state[0]) * (0.0 if t == 0 and params[0] > 0.0 else 1.0))


RUNS = [
    ((initial, propagate, impossible), {}, E.InputError, "log_weight is -inf for every particle at step 2"),
    ((initial, propagate, not_a_number), {}, E.FiniteError, "log_weight gave nan for a particle at step 1"),
    ((initial, no_tuple, log_weight), {}, E.DTypeError, "propagate must return a tuple"),
    ((initial, two_numbers, log_weight), {}, E.DTypeError, "propagate returns 2 numbers, initial 1"),
    ((initial, propagate, log_weight), {"params": None}, E.InputError, r"^(initial|propagate|log_weight) reads .* none: run\(..., params=\)"),
    ((initial, propagate, reads_beyond), {}, E.InputError, "log_weight reads a state, an observation or params beyond its end"),
    ((takes_less, propagate, log_weight), {}, E.DTypeError, "initial: .* takes 3 positional arguments but 4"),
    ((initial, propagate, gives_nothing), {}, E.DTypeError, "log_weight must return a number, got None"),
    ((initial, propagate, logarithm_of_zero), {}, E.InputError, "log_weight is -inf for every particle at step 0"),
    ((initial, propagate, log_weight), {"n_particles": 0}, E.InputError, "n_particles is 0"),
    ((initial, propagate, log_weight), {"observations": []}, E.ShapeError, r"observations has shape \(0,\)"),
    ((initial, propagate, log_weight), {"observations": [0.0, np.nan]}, E.FiniteError, r"observations\[1\] is nan"),
    ((initial, propagate, log_weight), {"params": [[[1.0]]]}, E.ShapeError, r"params has shape \(1, 1, 1\)"),
    ((initial, propagate, log_weight), {"seed": -1}, E.InputError, "seed is -1"),
]


@pytest.mark.parametrize("functions, given, error, message", RUNS)
def test_wrong_runs(functions, given, error, message):
    arguments = {"observations": Y[:3], "n_particles": 10, "params": PARAMS, "seed": 0, **given}
    with pytest.raises(error, match=message):
        ParticleFilter(*functions, space="serial").run(arguments.pop("observations"), arguments.pop("n_particles"), **arguments)


@pytest.mark.parametrize("given, error, message", [
    ({"scheme": "best"}, E.InputError, "scheme is 'best'; wanted one of 'systematic'"),
    ({"scheme": "metropolis"}, E.DTypeError, "n_steps must be an integer, got None"),
    ({"n_steps": 3}, E.InputError, "n_steps is 3; scheme 'systematic' takes none"),
    ({"threshold": 1.5}, E.InputError, "threshold is 1.5; 0 to 1 is wanted"),
    ({"dtype": np.int64}, E.DTypeError, "float32 or float64 is wanted"),
    ({"in_place": 1}, E.DTypeError, "in_place must be True or False"),
])
def test_wrong_filters(given, error, message):
    with pytest.raises(error, match=message):
        ParticleFilter(initial, propagate, log_weight, **given)
    with pytest.raises(E.DTypeError, match="log_weight must be marked with @pk.function"):
        ParticleFilter(initial, propagate, plain)
