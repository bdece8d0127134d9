"""Test that a checkpoint's key identifies its run: each argument of each long job is in the key, or has a
reason not to be.
"""

import inspect
import json
import linecache
import textwrap

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.models import edm, hawkes, mixture, resampling, tmap
from portable.models.shared import store
from portable.models.hawkes import priors as hawkes_priors
from portable.models.resampling import iterated, priors, study
from portable.models.resampling.sampling import Filtering, Sampling
from portable.models.shared.store import Store
from portable.errors import InputError

from . import jobs

PLACES = {"self", "checkpoint", "progress", "space", "client", "options"}  # where, or the form of output


class Reached(Exception):
    """Exception of a job that has reached its checkpoint."""


@pytest.fixture
def key_of(monkeypatch, tmp_path):
    """Return a function of a job and its arguments that gives the key of its checkpoint and stops the job
    there.
    """

    def make(store):
        raise Reached(store.key)

    monkeypatch.setattr(Store, "_make", make)

    def key(job, arguments):
        with pytest.raises(Reached) as found:
            job(checkpoint=tmp_path / "kept", **arguments)
        return found.value.args[0]

    return key


def functions(**one):
    """Return the functions of a model; those named in `one` have another number in place of 1."""
    found, one = {}, dict.fromkeys(resampling.state_space.FUNCTIONS, 1.0) | one
    draw, by_transition = "pk.random.normal(seed, stream, draw)", "params[0] * state[0] + params[1]"
    texts = {
        "initial": f"(seed, stream, draw, params): return ({draw} * one,)",
        "propagate": f"(t, state, seed, stream, draw, params): return (one * {by_transition} * {draw},)",
        "log_weight": "(t, state, y, params): return -0.5 * ((y[0] - one * state[0]) / params[2]) ** 2",
        "observe": f"(t, state, seed, stream, draw, params): return (state[0] + one * params[2] * {draw},)",
        "log_initial": "(state, params): return -0.5 * one * state[0] ** 2",
        "log_transition": "(t, state, moved, params): return -0.5 * one * (moved[0] - state[0]) ** 2",
        "guide": f"(t, state, y, seed, stream, draw, params): return (one * {by_transition} * {draw},)",
        "log_guide": "(t, state, moved, y, params): return 0.0 * one * state[0]",
    }
    for name, text in texts.items():
        found[name] = written(f"def {name}{text}", name, one=one[name])
    return found


def written(text, name, **scope):
    """Return a pk.function of that source."""
    file = f"<text of {name} {len(linecache.cache)}>"
    linecache.cache[file] = len(text), None, textwrap.dedent(text).splitlines(True), file
    scope["pk"] = pk
    exec(compile(textwrap.dedent(text), file, "exec"), scope)
    return pk.function(scope[name])


def model(**changes):
    """Return a model; numbers in `changes` replace the 1 of the function of that name, other values replace
    arguments.
    """
    one = {name: changes.pop(name) for name in resampling.state_space.FUNCTIONS if name in changes}
    whole = {"parameters": ["phi", "sigma", "tau"], "states": ["x"]} | functions(**one)
    return resampling.StateSpaceModel(**whole | changes)


MODELS = {name: lambda name=name: model(**{name: 2.0}) for name in resampling.state_space.FUNCTIONS} | {
    "parameters": lambda: model(parameters=["phi", "sigma", "rho"]),
    "states": lambda: model(states=["z"]),
    "lagged": lambda: model(lagged=True),
}
SAMPLING = dict(
    model=lambda: model(),
    observations=default_rng(5).normal(size=12),
    n_particles=8,
    priors={"phi": priors.uniform(-1.0, 1.0), "sigma": priors.normal(0.5, 0.0100000001)},
    fixed={"tau": 0.7},
    inputs=None,
    n_chains=2,
    n_warmup=2,
    seed=5,
    start={"phi": 0.5, "sigma": 0.5},
    space="serial",
)
OTHER_SAMPLING = dict(
    observations=default_rng(6).normal(size=12),
    n_particles=9,
    priors=SAMPLING["priors"] | {"sigma": priors.normal(0.5, 0.0100000049)},
    fixed={"tau": np.nextafter(0.7, 1.0)},
    inputs=np.ones(12),
    n_chains=3,
    n_warmup=3,
    seed=6,
    start={"phi": 0.5, "sigma": np.nextafter(0.5, 1.0)},
)


POPULATIONS = {name: value for name, value in SAMPLING.items() if name not in ("start", "n_warmup")}
POPULATIONS |= dict(n_draws=8, length=4)
OTHER_POPULATIONS = {name: value for name, value in OTHER_SAMPLING.items() if name in POPULATIONS}
OTHER_POPULATIONS |= dict(n_draws=16, length=2)


def tempered(spread=1.0, **arguments):
    text = (
        "def density(params, data): return -0.5 * one * (data[0, 0] - params[0]) ** 2 / params[1] - params[2]"
    )
    return resampling.sample_smc(written(text, "density", one=spread), **arguments)


def without(given, *names):
    return {name: value for name, value in given.items() if name not in names}


OF_DENSITIES = "model", "observations", "n_particles", "inputs"
SEARCHES = without(SAMPLING, "n_warmup") | dict(n_iterations=2, sd=0.02, cooling=0.5, initial=(), n_repeats=2)
OTHER_SEARCHES = without(OTHER_SAMPLING, "n_warmup") | dict(sd=0.03, cooling=0.6, initial=("phi",))


def of_model(sample):
    def job(model, **arguments):
        model = model()
        names = model.parameters
        return sample(model, **arguments | {"fixed": {names[2]: arguments["fixed"]["tau"]}})

    return job


RANDOM = default_rng(2)
EVENTS = dict(locations=RANDOM.normal(size=(30, 2)), times=np.sort(RANDOM.random(30)) * 100.0)
START = hawkes.Parameters(0.5, 1.6, 336.0, 0.3, 1.0, 1.0)
CHAINS = dict(
    **EVENTS,
    method="auto",
    background_self=True,
    error_bound=1e-9,
    dtype="float64",
    horizon_h=200.0,
    marks=None,
    background=None,
    n_chains=2,
    n_thin=1,
    start=[START] * 2,
    fixed=("tau_x", "tau_t"),
    priors=None,
    least=None,
    seed=3,
)
OTHER_CHAINS = dict(
    locations=EVENTS["locations"] + np.eye(30, 2),
    times=np.sqrt(EVENTS["times"]),
    method="all_pairs",
    background_self=False,
    error_bound=2e-9,
    dtype="mixed",
    horizon_h=201.0,
    marks=np.linspace(0.0, 1.0, 30),
    background=hawkes.Background(np.full(30, 0.01), 0.5),
    n_chains=3,
    n_thin=2,
    start=[START, hawkes.Parameters(np.nextafter(0.5, 1.0), 1.6, 336.0, 0.3, 1.0, 1.0)],
    fixed=("tau_x", "tau_t", "omega"),
    priors={"theta": hawkes_priors.half_normal(1.0000000001)},
    least={"h": 0.01},
    seed=4,
)


def chains(**arguments):
    own = inspect.signature(hawkes.sample_posterior).parameters
    given = {name: value for name, value in arguments.items() if name not in own}
    if arguments["n_chains"] == 3:
        arguments["start"] = [START] * 3
    likelihood = hawkes.Likelihood(**given, space="serial")
    return hawkes.sample_posterior(
        likelihood, **{name: value for name, value in arguments.items() if name in own}
    )


MAP = dict(
    dataset=jobs.series(),
    dims=2,
    tau=1,
    Tp=0,
    exclusion_radius=0,
    libraries=[[0, 1], [2, 3]],
    lib=None,
    segments=None,
    pred=None,
    valid=None,
    k=None,
    dtype="float32",
    space="serial",
)
OTHER_MAP = dict(
    dataset=jobs.series() * 0.999,
    dims=3,
    tau=2,
    Tp=1,
    exclusion_radius=1,
    libraries=[[0, 2], [2, 3]],
    lib=(0, 30),
    segments=np.arange(len(jobs.series())) // 20,
    pred=(0, 30),
    valid=np.arange(len(jobs.series())) > 0,
    k=5,
    dtype="float64",
)
TEST = MAP | dict(n_surrogates=20, surrogate="block", block=5, stop_after=10, seed=1, memory_mb=64)
OTHER_TEST = OTHER_MAP | dict(
    n_surrogates=21, surrogate="phase", block=6, stop_after=11, seed=2, memory_mb=65
)


def surrogates(**arguments):
    if arguments["surrogate"] == "phase":
        arguments["block"] = None
    return edm.cross_map_test(**arguments)


FIT = dict(
    X=jobs.points(),
    sample_weight=None,
    n_components=2,
    prior="default",
    covariance="full",
    tol=1e-2,
    reg_covar=1e-6,
    init_params="k-means++",
    means_init=None,
    covariances_init=None,
    weights_init=None,
    moves=None,
    warm_start=False,
    random_state=0,
)
OTHER_FIT = dict(
    X=jobs.points() + 1e-9,
    sample_weight=np.full(60, 1.0 + 1e-9),
    n_components=3,
    prior=mixture.Prior(dof=9.0000000001),
    covariance="diag",
    tol=1.0000000001e-2,
    reg_covar=1.0000000001e-6,
    init_params="random",
    means_init=np.eye(2),
    covariances_init=np.tile(np.eye(2), (2, 1, 1)),
    weights_init=[0.4, 0.6],
    moves=False,
    random_state=1,
)


def mixed(X, sample_weight=None, checkpoint=None, **arguments):
    estimator = mixture.DirichletMixture(**arguments, space="serial")
    return estimator.fit(X, sample_weight=sample_weight, checkpoint=checkpoint)


SWEEPS = dict(X=jobs.points(), n_warmup=2, n_thin=1, seed=4, n_moves=1)
OTHER_SWEEPS = dict(X=jobs.points() + 1e-9, n_warmup=3, n_thin=2, seed=5, n_moves=2)


def sweeps(X, checkpoint, **arguments):
    fitted = mixture.DirichletMixture(3, max_iter=2, tol=-1.0, random_state=0, space="serial")
    return fitted.fit(jobs.points()).sample_posterior(X, 5, checkpoint=checkpoint, **arguments)


def transient(rate=2.0):
    return tmap.TransientMAP([0.6, 0.4], [1, 2], [rate, 0.5], [[0.5, 0.3], [0.2, 0.6]])


GAPS = dict(
    runs=transient().simulate(40, seed=1, space="serial"),
    orders=[1, 2],
    tol=0.0,
    seed=3,
    start=transient(),
    dtype="float64",
    memory_mb=0.02,
    space="serial",
)
OTHER_GAPS = dict(
    runs=transient().simulate(40, seed=2, space="serial"),
    orders=[2, 2],
    tol=1e-12,
    seed=4,
    start=transient(np.nextafter(2.0, 3.0)),
    dtype="float32",
    memory_mb=0.03,
)


def fitted(**arguments):
    if arguments["orders"] == [2, 2]:
        arguments["start"] = None
    return tmap.fit(**arguments)


STUDY = dict(n_runs=4, n_sets=1, most=1 << 24, dtype="float64")
OTHER_STUDY = dict(n_runs=5, n_sets=2, most=1 << 23, dtype="float32")


def studied(checkpoint, **arguments):
    return list(study.study(["serial"], [4], [0.5], study.Design(**arguments), checkpoint=checkpoint))


FILTERS = dict(guided=False, threshold=0.5, dtype="float64")
OTHER_FILTERS = dict(
    guided=True,
    threshold=np.nextafter(0.5, 1.0),
    dtype="float32",
    look_ahead=written("def ahead(t, state, y, params): return state[0]", "ahead"),
)
# A job, its arguments, other values of these, the functions whose signatures they come from, and the
# arguments that are not in the key: a longer job continues from a shorter one, whose parts it finds, or the
# argument selects the parts.
JOBS = {
    "pmmh": (
        of_model(resampling.sample_pmmh),
        SAMPLING | FILTERS | dict(n_blocks=1),
        OTHER_SAMPLING | OTHER_FILTERS | dict(n_blocks=2),
        (resampling.sample_pmmh, Filtering),
        {"n_draws", "on_nan"},  # the last decides only whether the run continues
    ),
    "gibbs": (
        of_model(resampling.sample_gibbs),
        SAMPLING | dict(n_moves=2),
        OTHER_SAMPLING | dict(n_moves=3),
        (resampling.sample_gibbs, Sampling),
        {"n_draws", "on_nan"},
    ),
    "smc2": (
        of_model(resampling.sample_smc2),
        POPULATIONS | FILTERS | dict(renew_below=0.5),
        OTHER_POPULATIONS | OTHER_FILTERS | dict(renew_below=0.6),
        (resampling.sample_smc2, Filtering),
        {"on_nan", "n_warmup", "start"},
    ),
    "smc": (
        tempered,
        without(POPULATIONS, *OF_DENSITIES) | dict(data=[1.0, 2.0], threshold=0.5, spread=1.0),
        without(OTHER_POPULATIONS, *OF_DENSITIES)
        | dict(data=[1.0, np.nextafter(2.0, 3.0)], threshold=0.6, spread=2.0),
        (resampling.sample_smc, Sampling),
        {"on_nan", "n_warmup", "start", "inputs", "log_likelihood"},  # it uses the test's `spread`
    ),
    "maximum": (
        of_model(resampling.maximise),
        SEARCHES | FILTERS,
        OTHER_SEARCHES | OTHER_FILTERS,
        (resampling.maximise, iterated.search, Filtering),
        # Searches continue; they are inspected after their end; some belong to profile, or to draws in
        # Sampling.
        {"n_iterations", "n_repeats", "columns", "n", "n_draws", "n_warmup", "on_nan"},
    ),
    "posterior": (
        chains,
        CHAINS,
        OTHER_CHAINS,
        (hawkes.sample_posterior, hawkes.Likelihood),
        # Cached sums, a check of the events, the origin of the marks.
        {"likelihood", "n_draws", "n_warmup", "keep_background", "repeats", "reference_mark"},
    ),
    "cross_map": (edm.cross_map, MAP, OTHER_MAP, (edm.cross_map,), {"out", "memory_mb", "E_max"}),
    "cross_map_test": (
        surrogates,
        TEST,
        OTHER_TEST,
        (edm.cross_map_test,),
        {
            "max_surrogates",
            "fdr",
            "method",
            "period",
            "E_max",
        },  # these decide which pairs continue; the last have tests below
    ),
    "chosen dimensions": (edm.cross_map, MAP | {"dims": "target", "E_max": 3}, {"E_max": 4}, (), set()),
    "seasonal": (edm.cross_map_test, MAP | {"surrogate": "seasonal", "period": 5}, {"period": 6}, (), set()),
    "em": (
        mixed,
        FIT,
        OTHER_FIT,
        (mixture.DirichletMixture, mixture.DirichletMixture.fit),
        # warm_start decides where a second fit begins; missing=True refuses checkpoints.
        {"y", "max_iter", "n_init", "warm_start", "missing"},
    ),
    "gibbs of mixtures": (
        sweeps,
        SWEEPS,
        OTHER_SWEEPS,
        (mixture.DirichletMixture.sample_posterior,),
        {"n_draws"},
    ),
    "tmap": (fitted, GAPS, OTHER_GAPS, (tmap.fit,), {"max_iter", "n_starts"}),
    "study": (studied, STUDY, OTHER_STUDY, (study.Design,), {"limit", "long_enough"}),
}


@pytest.mark.parametrize("name", JOBS)
def test_each_argument_is_in_the_key(name, key_of):
    job, arguments, other, signatures, not_in = JOBS[name]
    first = key_of(job, arguments)
    assert key_of(job, arguments) == first
    keys = {argument: key_of(job, arguments | {argument: value}) for argument, value in other.items()}
    if "model" in arguments:
        keys |= {part: key_of(job, arguments | {"model": of}) for part, of in MODELS.items()}
    assert [argument for argument, key in keys.items() if key == first] == []
    asked = {argument for signature in signatures for argument in inspect.signature(signature).parameters}
    assert asked - PLACES - not_in - keys.keys() - {"model"} == set()


# ---- as users meet it
@pytest.mark.parametrize("name", ["pmmh", "gibbs"])
def test_draws_of_another_model_are_not_taken(name, tmp_path):
    job, arguments, *_ = JOBS[name]
    first = job(checkpoint=tmp_path / "run", n_draws=4, **arguments)
    again = job(checkpoint=tmp_path / "run", n_draws=4, **arguments)
    np.testing.assert_array_equal(again.draws, first.draws)
    with pytest.raises(InputError, match="belongs to another run: log_weight differs"):
        job(checkpoint=tmp_path / "run", n_draws=4, **arguments | {"model": MODELS["log_weight"]})


def test_an_online_filter_takes_its_own_state_alone(tmp_path):
    def online(space="serial", **changes):
        options = {name: changes.pop(name) for name in ("method", "n_steps") if name in changes}
        filters = model(**changes).filter(space=space, **options)
        return filters.online(64, params={"phi": 0.5, "sigma": 0.5, "tau": 0.7}, seed=1)

    first = online()
    first.step(0.3)
    first.save(tmp_path / "state.npz")
    assert online("threads:2").load(tmp_path / "state.npz").step(0.1) is not None
    for name in ("initial", "propagate", "log_weight"):
        with pytest.raises(InputError, match=f"by another filter, of portable .*: {name} differs"):
            online(**{name: 2.0}).load(tmp_path / "state.npz")
    first = online(method="metropolis", n_steps=8)
    first.save(tmp_path / "state.npz")
    with pytest.raises(InputError, match="n_steps is 8 there, 9 here"):
        online(method="metropolis", n_steps=9).load(tmp_path / "state.npz")


# ---- another release
def test_another_release_is_named(tmp_path, monkeypatch):
    with Store(tmp_path / "run", "a job", {"tau": 1}) as kept:
        kept.put("a", rows=np.zeros(3))
    monkeypatch.setattr(pk, "__version__", "99.0")
    with pytest.warns(RuntimeWarning, match=r"run' was begun by portable 0.*; portable 99\.0 continues"):
        with Store(tmp_path / "run", "a job", {"tau": 1}) as kept:
            assert kept.get("a") is not None
    with pytest.raises(InputError, match=r"another run, begun by portable 0.*: tau is 1 there, 2 here"):
        Store(tmp_path / "run", "a job", {"tau": 2})
    monkeypatch.setattr(store, "FORMAT", store.FORMAT + 1)
    with pytest.raises(
        InputError,
        match=r"was written by portable 0.*, in form 2 of .*; portable 99\.0 reads form 3\. Finish",
    ):
        Store(tmp_path / "run", "a job", {"tau": 1})


def test_a_checkpoint_of_the_first_form_names_its_release(tmp_path):
    """The first form of checkpoints has its release in the key itself."""
    import hashlib

    run = {"format": 1, "job": "a job", "portable": "0.0.9", "numpy": "2.4", "tau": 1}
    key = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps({"key": key, "run": run}))
    with pytest.raises(InputError, match=r"written by portable 0\.0\.9, in form 1"):
        Store(tmp_path / "run", "a job", {"tau": 1})
