"""Compare the particle filter with the Kalman filter, and test its properties of seeds, rows, memory and
wrong calls.

Model: x_0 ~ N(0, s^2 / (1 - phi^2)), x_t = phi x_(t-1) + s e_t, y_t = x_t + tau d_t, with standard normal e
and d.
"""

import math
import pickle
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from portable.models.resampling import ParticleFilter, exact, ready, row_kernels
from portable.models.resampling.ancestor_kernels import LONG

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

PARAMS = np.array([0.9, 0.5, 0.7])  # phi, s, tau
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@pk.function
def initial(seed, stream, draw, params):
    return (params[1] / math.sqrt(pk.fma(-params[0], params[0], 1.0)) * pk.random.normal(seed, stream, draw),)


@pk.function
def propagate(t, state, seed, stream, draw, params):
    # the checked space rounds products
    return (pk.fma(params[0], state[0], params[1] * pk.random.normal(seed, stream, draw)),)


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


Y = observations(20, np.random.default_rng(1))


def model(space, **options):
    return ParticleFilter(initial, propagate, log_weight, space=space, **options)


@pytest.mark.parametrize(
    "options", [{}, {"in_place": True}, {"threshold": 1.0, "method": "residual"}], ids=str
)
def test_the_linear_gaussian_filter_is_kalmans(space, options):
    """Run 16 filters at once: means are within five standard errors of Kalman's, estimated between the
    filters.
    """
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    found = model(space, **options).run(Y, 4000, params=np.tile(PARAMS, (16, 1)), seed=5)
    means = exact.kalman(Y, PARAMS).means
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
    ratio = np.exp(found.log_likelihood - exact.kalman(Y, PARAMS).log_likelihood)
    assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / 20
    assert_allclose(found.evidence.sum(axis=0), found.log_likelihood, rtol=1e-14)


def test_filters_have_parameters_of_their_own(space):
    """The first filter of several has the same results as in a separate run, to the last bit of its
    states."""
    n = 30 if space == "checked" else 3000
    y = Y[:4]
    params = np.array([PARAMS, [0.2, 1.0, 0.5]])
    both, one = (model(space).run(y, n, params=p, seed=4) for p in (params, PARAMS))
    assert_array_equal(both.states.to_numpy()[:, 0], one.states.to_numpy()[:, 0])
    assert (
        one.log_likelihood == both.log_likelihood[0]
        and one.means.shape == (4, 1)
        and both.means.shape == (4, 1, 2)
    )
    if space != "checked":  # the error of 3,000 particles, measured to be below 0.1 for such parameters
        assert_allclose(both.log_likelihood, [exact.kalman(y, p).log_likelihood for p in params], atol=0.15)


def test_the_same_on_every_space(space):
    """The bits are those of the serial space for any number of threads; elsewhere logarithms may be those of
    plain Python."""
    n, y = (20, Y[:3]) if space == "checked" else (5000, Y)
    for dtype in (np.float64, np.float32):
        here, serial = (
            model(name, dtype=dtype).run(y, n, params=PARAMS, seed=9, means=False)
            for name in (space, "serial")
        )
        if space in ("serial", "threads"):
            assert_array_equal(here.states.to_numpy(), serial.states.to_numpy())
            assert here.log_likelihood == serial.log_likelihood
        else:  # 40 roundings a step, each of half a unit
            rtol = 1e3 * np.finfo(dtype).eps
            assert_allclose(here.states.to_numpy(), serial.states.to_numpy(), rtol=rtol, atol=rtol)
            assert_allclose(here.log_likelihood, serial.log_likelihood, rtol=rtol)


def test_in_place_has_the_same_law():
    """Averages over 64 filters agree within five standard errors of their difference."""
    params = np.tile(PARAMS, (64, 1))
    a, b = (
        model("threads", in_place=flag).run(Y, 500, params=params, seed=seed).means[-1, 0]
        for flag, seed in ((False, 1), (True, 2))
    )
    assert abs(a.mean() - b.mean()) <= 5 * math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 64)


def test_trajectories_follow_their_ancestors(space):
    """Ends are particles of the last step, and each path goes through stored states; the end has Kalman's
    smoothed mean."""
    n, y = (30, Y[:4]) if space == "checked" else (4000, Y)
    found = model(space, threshold=1.0).run(y, n, params=PARAMS, seed=8, keep=True)
    paths = found.trajectories(50, seed=1)
    assert paths.shape == (len(y), 1, 50)
    kept, ancestors = found.history.x.to_numpy()[:, 0, 0], found.history.ancestors.to_numpy()[:, 0]
    place = {value: k for k, value in enumerate(kept[-1])}
    for path in paths[:, 0].T:
        k = place[path[-1]]
        for t in range(len(y) - 1, 0, -1):
            k = ancestors[t - 1, k]
            assert kept[t - 1, k] == path[t - 1]
    with pytest.raises(InputError, match=r"kept no ancestors; expected run\(..., keep=True\)"):
        model("serial").run(y, 10, params=PARAMS, seed=8).trajectories(5, seed=1)


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
    """Compute -inf in a kernel; plain Python raises ValueError."""
    return math.log(abs(state[0]) * (0.0 if t == 0 and params[0] > 0.0 else 1.0))


@pk.function
def dies_where_told(t, state, y, params):
    """Return -inf for every particle of a filter at the step given by its fourth parameter."""
    weight = log_weight(t, state, y, params)
    return -math.inf if t == params[3] else weight


@pytest.mark.parametrize("n", [40, 5000], ids=["rows", "steps"])
def test_a_filter_that_dies_is_told_alone(space, n):
    """Its log-likelihood is -inf and it reports the step at which it died; other filters are not affected."""
    if space == "checked" and n > 1000:
        pytest.skip("plain Python is for small sizes")
    y, params = Y[:5], np.array([[*PARAMS, -1.0], [*PARAMS, 2.0], [*PARAMS, -1.0]])
    found = ParticleFilter(initial, propagate, dies_where_told, space=space).run(y, n, params=params, seed=4)
    alone = ParticleFilter(initial, propagate, dies_where_told, space=space).run(
        y, n, params=params[::2], seed=4
    )
    assert found.log_likelihood[1] == -np.inf and np.isfinite(found.log_likelihood[[0, 2]]).all()
    assert found.died.tolist() == [-1, 2, -1]
    assert np.isfinite(found.means[:2, 0, 1]).all() and np.isnan(found.means[2:, 0, 1]).all()
    assert found.log_likelihood[0] == alone.log_likelihood[0]
    one = ParticleFilter(initial, propagate, dies_where_told, space=space).run(y, n, params=params[1], seed=4)
    assert one.log_likelihood == -np.inf and one.died == 2
    zero = ParticleFilter(initial, propagate, logarithm_of_zero, space=space).run(y, n, params=PARAMS, seed=4)
    assert zero.log_likelihood == -np.inf and zero.died == 0


def with_gaps(y, missing):
    return np.where(np.isin(np.arange(len(y)), missing), np.nan, y)


@pytest.mark.parametrize("n", [200, 5000], ids=["rows", "steps"])
@pytest.mark.parametrize("missing", [[3, 4, 11], [0, 19]], ids=str)
def test_missing_observations_are_left_out(space, n, missing):
    """The likelihood is unbiased compared with Kalman's, which omits them too, within five standard
    errors."""
    y = with_gaps(Y, missing)
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    found = model(space).run(y, n, params=np.tile(PARAMS, (64, 1)), seed=6)
    total, means, _ = exact.kalman(y, PARAMS)
    ratio = np.exp(found.log_likelihood - total)
    assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / 8
    assert (found.evidence[missing] == 0.0).all()
    error = found.means[:, 0].std(axis=1, ddof=1) / 8
    assert (np.abs(found.means[:, 0].mean(axis=1) - means) <= 5 * error).all()


@pk.function
def two_values(t, state, y, params):
    """Observe the same state twice; either value may be missing."""
    weight = 0.0
    for d in range(2):
        if not pk.isnan(y[d]):
            weight += log_weight(t, state, y[d : d + 1], params)
    return weight


def test_observations_missing_in_part(space):
    """The model decides: if one of two values is missing, the other counts as by itself."""
    n, y = 30, Y[:6]
    both = np.stack([with_gaps(y, [1, 3]), with_gaps(y, [0, 2, 3, 4, 5])], axis=1)
    found = ParticleFilter(initial, propagate, two_values, space=space).run(both, n, params=PARAMS, seed=3)
    wanted = model(space).run(with_gaps(y, [3]), n, params=PARAMS, seed=3)
    assert_allclose(found.log_likelihood, wanted.log_likelihood, rtol=1e-13)


@pk.function
def over_gaps(t, state, seed, stream, draw, params):
    """Propagate an AR(1) process over params[3] steps of time at once."""
    a = params[0] ** params[3]
    return (
        a * state[0]
        + params[1]
        * math.sqrt((1.0 - a * a) / (1.0 - params[0] * params[0]))
        * pk.random.normal(seed, stream, draw),
    )


def test_irregular_observations(space):
    """With times as inputs the likelihood is that of a regular series in which the steps between are
    missing."""
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    seen = np.array([0, 1, 5, 6, 9, 15, 19])
    found = ParticleFilter(initial, over_gaps, log_weight, space=space).run(
        Y[seen], 500, params=np.tile(PARAMS, (100, 1)), inputs=np.diff(seen, prepend=0.0), seed=1
    )
    total, means, _ = exact.kalman(with_gaps(Y, np.setdiff1d(np.arange(20), seen)), PARAMS)
    ratio = np.exp(found.log_likelihood - total)
    assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / 10
    assert (
        np.abs(found.means[:, 0].mean(axis=1) - means[seen]) <= 5 * found.means[:, 0].std(axis=1, ddof=1) / 10
    ).all()


@pk.function
def toward_y(t, state, y, seed, stream, draw, params):
    """Draw from the best guide of the model: p(x_t | x_(t-1), y_t)."""
    s2, tau2 = params[1] * params[1], params[2] * params[2]
    mean = (params[0] * state[0] * tau2 + y[0] * s2) / (s2 + tau2)
    return (mean + math.sqrt(s2 * tau2 / (s2 + tau2)) * pk.random.normal(seed, stream, draw),)


@pk.function
def over_guide(t, state, moved, y, params):
    s2, tau2 = params[1] * params[1], params[2] * params[2]
    mean = (params[0] * state[0] * tau2 + y[0] * s2) / (s2 + tau2)
    a, b = moved[0] - params[0] * state[0], moved[0] - mean
    return -0.5 * a * a / s2 + 0.5 * b * b * (s2 + tau2) / (s2 * tau2) - 0.5 * math.log((s2 + tau2) / tau2)


@pytest.mark.parametrize("n", [200, 5000], ids=["rows", "steps"])
def test_a_guided_filter_is_unbiased_and_better(space, n):
    """Compared with Kalman's, with a gap; the log-likelihood varies less than that of the bootstrap
    filter."""
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    y, params = with_gaps(Y, [7]), np.tile([*PARAMS[:2], 0.2], (200, 1))
    guided = model(space, guide=toward_y, log_guide=over_guide)
    found = guided.run(y, n, params=params, seed=3, means=False)
    plain_one = model(space).run(y, n, params=params, seed=3, means=False)
    ratio = np.exp(found.log_likelihood - exact.kalman(y, params[0]).log_likelihood)
    assert abs(ratio.mean() - 1) <= 5 * ratio.std(ddof=1) / math.sqrt(200)
    assert found.log_likelihood.std() < 0.7 * plain_one.log_likelihood.std()
    assert found.sizes.mean() > 1.5 * plain_one.sizes.mean()


def test_rows_and_steps_are_the_same_filter(space, monkeypatch):
    """A team that processes a row through all steps computes the same as the kernels of each step, to the
    last bit; means agree to rounding."""
    n, y = (30, Y[:4]) if space == "checked" else (1500, with_gaps(Y, [5, 6]))
    options = {"params": np.array([PARAMS, [0.2, 1.0, 0.5]]), "seed": 9, "keep": True}
    for dtype, threshold in ((np.float64, 0.5), (np.float32, 1.0)):
        by_rows = model(space, dtype=dtype, threshold=threshold).run(y, n, **options)
        with monkeypatch.context() as patch:
            patch.setattr(row_kernels, "MOST", 0)
            by_steps = model(space, dtype=dtype, threshold=threshold).run(y, n, **options)
        assert_array_equal(by_rows.history.x.to_numpy(), by_steps.history.x.to_numpy())
        assert_array_equal(by_rows.log_weights.to_numpy(), by_steps.log_weights.to_numpy())
        assert_array_equal(by_rows.evidence, by_steps.evidence)
        assert_array_equal(by_rows.sizes, by_steps.sizes)
        assert_array_equal(by_rows.resampled, by_steps.resampled)
        assert_allclose(by_rows.means, by_steps.means, rtol=1e-12)
        assert by_rows.resampled.any()


@pytest.mark.parametrize("method", ["systematic", "stratified", "multinomial"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_resampling_from_log_weights_is_that_from_weights(space, method, dtype, monkeypatch):
    """Weights are stored only for variances. At one observation one particle has all of the weight, so that
    whole stretches of ancestors are equal; the second row dies there, and resamples from equal weights."""
    monkeypatch.setattr(row_kernels, "MOST", 0)
    n = 30 if space == "checked" else 3 * LONG + 5
    y = np.array([Y[0], Y[1], 40.0, Y[3], Y[4]])
    params = np.array([[*PARAMS, -1.0], [*PARAMS, 2.0]])
    options = {"threshold": 1.0, "method": method, "dtype": dtype, "space": space}
    of_logs, of_weights = (
        ParticleFilter(initial, propagate, dies_where_told, **options).run(
            y, n, params=params, seed=3, keep=True, variances=more
        )
        for more in (False, True)
    )
    for name in ("x", "log_w", "ancestors"):
        last = len(y) - (name == "ancestors")  # those of the last step's particles were not drawn
        one, other = (getattr(found.history, name).to_numpy()[:last] for found in (of_logs, of_weights))
        assert_array_equal(one, other)
    assert_array_equal(of_logs.evidence, of_weights.evidence)
    ancestors, weights = of_logs.history.ancestors.to_numpy(), of_logs.history.log_w.to_numpy()
    if space != "checked":
        values, counts = np.unique(ancestors[2, 0], return_counts=True)
        assert counts.max() > 2 * LONG and values[counts.argmax()] == weights[2, 0].argmax()
    assert of_logs.died.tolist() == [-1, 2]


def test_log_likelihood_alone_is_that_of_a_run(space):
    for n in (30,) if space == "checked" else (30, 5000):
        given = {"params": np.array([PARAMS, [0.2, 1.0, 0.5]]), "seed": 2}
        assert_array_equal(
            model(space).log_likelihood(Y[:6], n, **given), model(space).run(Y[:6], n, **given).log_likelihood
        )


@pk.function
def powers(t, state, params):
    return state[0], state[0] * state[0], params[0]


@pytest.mark.parametrize("n", [50, 5000], ids=["rows", "steps"])
def test_variances_quantiles_and_moments(space, n):
    """Compare with NumPy, from the states and weights of every step; quantiles are states, and therefore
    equal.
    """
    if space == "checked" and n > 1000:
        pytest.skip("plain Python is for small sizes")
    y, levels = Y[:3], (0.05, 0.5, 0.975)
    found = model(space).run(
        y,
        n,
        params=np.array([PARAMS, [0.2, 1.0, 0.5]]),
        seed=1,
        keep=True,
        variances=True,
        quantiles=levels,
        moments=powers,
    )
    x, log_w = found.history.x.to_numpy(), found.history.log_w.to_numpy().astype(np.float64)
    w = np.exp(log_w - log_w.max(axis=-1, keepdims=True))
    w /= w.sum(axis=-1, keepdims=True)
    assert found.quantiles.shape == (3, 3, 1, 2) and found.moments.shape == (3, 3, 2)
    for t in range(3):
        for r in range(2):
            own, share = x[t, 0, r], w[t, r]
            mean = own @ share
            assert_allclose(found.means[t, 0, r], mean, rtol=1e-9)
            assert_allclose(found.variances[t, 0, r], (own - mean) ** 2 @ share, rtol=1e-9)
            assert_allclose(found.moments[t, :, r], [mean, own**2 @ share, [0.9, 0.2][r]], rtol=1e-9)
            order = np.argsort(own)
            below = np.cumsum(share[order])
            wanted = [own[order[np.searchsorted(below, p)]] for p in levels]
            assert_array_equal(found.quantiles[t, :, 0, r], wanted)


def test_what_was_found_can_be_pickled(space):
    """The loaded object has the same numbers and the same paths."""
    found = model(space).run(Y[:4], 30, params=PARAMS, seed=1, keep=True)
    again = pickle.loads(pickle.dumps(found))
    assert again.log_likelihood == found.log_likelihood
    assert_array_equal(again.means, found.means)
    assert_array_equal(again.states.to_numpy(), found.states.to_numpy())
    with pk.use(space):
        assert_array_equal(again.trajectories(7, seed=3), found.trajectories(7, seed=3))
    assert pickle.loads(pickle.dumps(model(space).run(Y[:4], 30, params=PARAMS, seed=1))).history is None


RUNS = [
    (
        (initial, propagate, not_a_number),
        {"on_nan": "raise"},
        FiniteError,
        "log_weight gave nan for a particle at step 1, with params.0. = ",
    ),
    ((initial, propagate, log_weight), {"on_nan": "go on"}, InputError, "on_nan is 'go on'"),
    ((initial, no_tuple, log_weight), {}, DTypeError, "propagate must return a tuple"),
    ((initial, two_numbers, log_weight), {}, DTypeError, "propagate returns 2 numbers, initial 1"),
    (
        (initial, propagate, log_weight),
        {"params": None},
        InputError,
        r"^(initial|propagate|log_weight) reads .* none: pass run\(..., params=\)",
    ),
    (
        (initial, propagate, reads_beyond),
        {},
        InputError,
        "log_weight reads a state, an observation or params beyond its end",
    ),
    ((takes_less, propagate, log_weight), {}, DTypeError, "initial: .* takes 3 positional arguments but 4"),
    ((initial, propagate, gives_nothing), {}, DTypeError, "log_weight must return a number, got None"),
    ((initial, propagate, log_weight), {"n_particles": 0}, InputError, "n_particles is 0"),
    ((initial, propagate, log_weight), {"observations": []}, ShapeError, r"observations has shape \(0,\)"),
    (
        (initial, propagate, log_weight),
        {"observations": [0.0, np.inf]},
        FiniteError,
        r"observations\[1\] is inf; .* or NaN where one is missing",
    ),
    ((initial, propagate, log_weight), {"params": [[[1.0]]]}, ShapeError, r"params has shape \(1, 1, 1\)"),
    ((initial, propagate, log_weight), {"seed": -1}, InputError, "seed is -1"),
]


def test_a_column_that_is_not_read_is_told():
    """Such as that of times in a table of times and values."""
    filters = ParticleFilter(initial, propagate, log_weight, space="serial")
    with pytest.warns(UserWarning, match=r"log_weight does not read observations\[:, 1\]"):
        filters.run(np.column_stack([np.arange(3.0), Y[:3]]), 10, params=PARAMS)


@pytest.mark.parametrize("functions, given, error, message", RUNS)
def test_wrong_runs(functions, given, error, message):
    arguments = {"observations": Y[:3], "n_particles": 10, "params": PARAMS, "seed": 0, **given}
    first = arguments.pop("observations"), arguments.pop("n_particles")
    for name in ("run", "log_likelihood"):
        with pytest.raises(error, match=message):
            getattr(ParticleFilter(*functions, space="serial"), name)(*first, **arguments)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ({"method": "best"}, InputError, "method is 'best'; expected one of 'systematic'"),
        ({"method": "metropolis"}, DTypeError, "n_steps must be an integer, got None"),
        ({"n_steps": 3}, InputError, "n_steps is 3; method 'systematic' takes none"),
        ({"threshold": 1.5}, InputError, "threshold is 1.5; expected 0 to 1"),
        ({"dtype": np.int64}, DTypeError, "expected float32 or float64"),
        ({"in_place": 1}, DTypeError, "in_place must be True or False"),
    ],
)
def test_wrong_filters(given, error, message):
    with pytest.raises(error, match=message):
        ParticleFilter(initial, propagate, log_weight, **given)
    with pytest.raises(DTypeError, match="log_weight must be marked with @pk.function"):
        ParticleFilter(initial, propagate, plain)


def test_what_a_call_does_once(monkeypatch):
    """A model's functions are called in plain Python only for the first run of its kind, and without a
    progress bar no thread is started."""
    calls, started, tried = [], [], ParticleFilter._tried
    monkeypatch.setattr(
        ParticleFilter, "_tried", lambda self, *args: calls.append(args) or tried(self, *args)
    )
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread))
    filters = model("serial")
    runs = [filters.run(Y, 50, params=PARAMS * scale, seed=2).log_likelihood for scale in (1.0, 1.0, 0.9)]
    assert len(calls) == 1 and not started
    assert runs[0] == runs[1] != runs[2]
    with pytest.raises(InputError, match="params has 2 numbers"):
        filters.run(Y, 50, params=PARAMS[:2])
    assert len(calls) == 2


@pk.function
def expected(t, state, y, params):
    return ready.log_normal_density(
        y[0], params[0] * state[0], math.sqrt(params[1] * params[1] + params[2] * params[2])
    )


@pk.function
def misled(t, state, y, params):
    return 0.3 * state[0]


@pytest.mark.parametrize("ahead", [expected, misled], ids=["expected", "misled"])
@pytest.mark.parametrize("threshold", [0.5, 1.0])
def test_auxiliary_filters_are_unbiased(space, ahead, threshold):
    """The mean of p(y) over Kalman's is within five standard errors of 1, whatever the expectation function;
    with a guide the right expectation halves the deviation of the log-likelihood; online filters are the
    same."""
    model = ready.linear_gaussian
    params = model.params(phi=0.9, sigma=0.5, tau=0.2)
    y = model.simulate(params, 8, seed=11, space="serial")[1][:, 0]
    y[3] = np.nan
    rows, n = (3, 16) if space == "checked" else (600, 64)
    many, options = np.tile(params, (rows, 1)), {"space": space, "threshold": threshold}
    filters = model.filter(look_ahead=ahead, **options)
    found = filters.log_likelihood(y, n, params=many, seed=1)
    online = filters.online(n, params=many, seed=1)
    for value in y:
        step = online.step(value)
    assert_array_equal(step.log_likelihood, found)
    if space != "checked":
        ratios = np.exp(found - exact.kalman(y, params).log_likelihood)
        assert abs(ratios.mean() - 1) < 5 * ratios.std(ddof=1) / math.sqrt(rows)
        if ahead is expected and threshold == 1.0:
            guided = model.filter(look_ahead=ahead, guided=True, **options)
            assert guided.log_likelihood(y, n, params=many, seed=1).std() < 0.6 * found.std()


def test_auxiliary_filters_have_a_team_a_row():
    filters = ready.linear_gaussian.filter(look_ahead=expected, space="serial")
    with pytest.raises(
        InputError, match="n_particles is 5000.*look_ahead= expected method 'systematic' and at most 4096"
    ):
        filters.log_likelihood([0.1], 5000, params=[0.9, 0.5, 0.2])
    with pytest.raises(DTypeError, match="look_ahead must be marked with @pk.function"):
        ready.linear_gaussian.filter(look_ahead=lambda t, state, y, params: 0.0)
