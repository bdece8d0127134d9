"""Time the methods' parts other than their main computation, for `report --all`, so that every kernel of the
models is in a report.

Inputs are simulated and small: many of these kernels only prepare or finish.
"""

import functools

import numpy as np

import portable as pk
from portable.models import edm, hawkes, resampling
from portable.roofline.cases import common, methods
from portable.roofline.cases.hawkes import PARAMS, simulated

SCHEMES = "stratified residual ssp killing megopolis".split()
FREE = 10_000  # the most events for chains whose every step sums over all pairs
# chains of a sampler and their steps, draws that are evaluated, steps of a filter
CHAINS, SAMPLED, DRAWS, TIMES = 4, 50, 20, 16


def prepare(space, data, quick):
    """Return runs of all remaining parts; see `portable.roofline.cases.Case`. Real data are not used."""
    whole = (50_000, 1_000_000, 4_000_000), (2_000, 50_000, 400_000)
    few, n, particles = common.size(space, quick, (40, 40, 40), (50, 1_000, 1_000), *whole)
    return [
        *_hawkes(space, few),
        *_mixture(space, n),
        *_tmap(space, n),
        *_resampling(space, particles),
        *_edm(space, few),
    ]


def _run(method, size, unit, space, call):
    return methods.simulated_run(method, size, unit, space, functools.partial(methods.silent, call))


def sampled(likelihood, **fixed):
    """Return draws of a posterior by SAMPLED steps of CHAINS chains."""
    half = {"n_draws": SAMPLED // 2, "n_warmup": SAMPLED // 2}
    return hawkes.sample_posterior(likelihood, n_chains=CHAINS, start=PARAMS, **half, **fixed)


def _hawkes(space, n):
    locations, times = simulated(n, PARAMS, 2.0 * n)
    few = {"method": "windowed", "background_self": False, "space": space}

    @functools.cache
    def made(method, keep=False):
        return hawkes.Likelihood(locations, times, space=space, method=method, keep_background=keep)

    def chains():
        return sampled(made("windowed", True))

    drawn = functools.cache(chains)

    def free():
        sampled(hawkes.Likelihood(locations[:FREE], times[:FREE], **few), fixed=())

    calls = {
        "gradient, all pairs": lambda: made("all_pairs").gradient(PARAMS),
        "by cells, background recomputed": lambda: made("cells").log_likelihood(PARAMS),
        f"{SAMPLED} steps of {CHAINS} chains": chains,
        f"{SAMPLED} steps of {CHAINS} chains, tau_x and tau_t free": free,
        f"probabilities over {DRAWS} draws": lambda: hawkes.posterior_probabilities(
            made("windowed"), drawn(), n_draws=DRAWS
        ),
    }
    for name, call in calls.items():
        yield _run(f"Hawkes, {name}", min(n, FREE) if call is free else n, "events", space, call)


def _mixture(space, n):
    points, k = methods.two_clouds(n), 2 if space == "checked" else 16

    @functools.cache
    def fitted():
        return methods.mixture_of(k, space).fit(points)

    calls = {
        "predict": lambda: fitted().predict(points),
        "predict_proba": lambda: fitted().predict_proba(points),
        "3 Gibbs sweeps": lambda: fitted().sample_posterior(points, 2, n_warmup=1),
    }
    for name, call in calls.items():
        yield _run(f"mixture, {name}, {k} components", n, "points", space, call)


def _tmap(space, n):
    model = methods.three_branches()
    runs = model.simulate(n, seed=1, space=space)
    for name in ("branch_probabilities", "rescaled"):
        call = functools.partial(getattr(model, name), runs, space=space)
        yield _run(f"TMAP, {name}, 3 branches", runs.n_gaps, "gaps", space, call)
    yield _run(
        "TMAP, simulation, 3 branches", n, "runs", space, lambda: model.simulate(n, seed=1, space=space)
    )


@pk.function
def begin(seed, stream, draw, params):
    """Return a standard normal state."""
    return (pk.random.normal(seed, stream, draw),)


@pk.function
def walk(t, state, seed, stream, draw, params):
    """Return the next state of a mean-reverting random walk."""
    return (0.9 * state[0] + pk.random.normal(seed, stream, draw),)


@pk.function
def observation_log_density(t, state, observation, params):
    """Return the log-density of an observation about the state, up to a constant."""
    return -0.5 * (observation[0] - state[0]) * (observation[0] - state[0])


def _resampling(space, n):
    weights = pk.copy_of(np.random.default_rng(0).random(n), space)
    ancestors = resampling.systematic(weights, seed=1, space=space)
    values, partial = np.zeros(TIMES), functools.partial
    model = functools.partial(resampling.ParticleFilter, begin, walk, observation_log_density, space=space)
    whole, in_place = model(in_place=False), model(in_place=True)

    def smooth():
        whole.run(values, n, seed=1, keep=True).trajectories(n, seed=2)

    steps = {"megopolis": {"n_steps": methods.STEPS}}
    calls = {
        name: partial(getattr(resampling, name), weights, seed=1, space=space, **steps.get(name, {}))
        for name in SCHEMES
    }
    calls["partial rejection"] = partial(
        resampling.partial_rejection, weights, seed=1, max_weight=0.5, space=space
    )
    for name, function, *args in (
        ("permutation", resampling.permute, ancestors),
        ("effective sample size", resampling.effective_sample_size, weights),
        ("logarithm of a sum", resampling.log_sum_exp, weights),
    ):
        calls[name] = partial(function, *args, space=space)
    calls[f"filter of {TIMES} steps, and paths"] = smooth
    calls[f"filter of {TIMES} steps, in place"] = partial(in_place.run, values, n, seed=1)
    for name, call in calls.items():
        yield _run(f"resampling, {name}", n, "particles", space, call)


def _edm(space, n):
    x = np.random.default_rng(1931).random(n)
    for E in (1, 3):
        call = functools.partial(edm.simplex, x, E, dtype="float32", space=space)
        yield _run(f"EDM, simplex projection, E = {E}", n, "points", space, call)
