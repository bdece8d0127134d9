"""Time the methods' parts beside their main computation, for `report --all`: with it every kernel of the
models has its place.

Inputs are simulated and small: many of these kernels only prepare or finish.
"""

import functools

import numpy as np

import portable as pk
from portable.models import edm, hawkes, resampling
from portable.roofline.cases import common, methods
from portable.roofline.cases.hawkes import PARAMS, simulated

SCHEMES = ("stratified", "residual", "ssp", "killing", "megopolis")
FREE = 10_000  # events at most where each step of a chain sums over all pairs
CHAINS, SAMPLED, DRAWS, TIMES = (
    4,
    50,
    20,
    16,
)  # chains of a sampler and their steps, draws looked at, steps of a filter


def prepare(space, data, quick):
    """Return runs of all that is left; see `portable.roofline.cases.Case`. Real data have no part in
    it."""
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


def _hawkes(space, n):
    locations, times = simulated(n, PARAMS, 2.0 * n)

    @functools.cache
    def made(method, keep=False):
        return hawkes.Likelihood(locations, times, space=space, method=method, keep_background=keep)

    def sampled():
        return hawkes.sample_posterior(
            made("windowed", True), n_chains=CHAINS, n_draws=SAMPLED // 2, n_warmup=SAMPLED // 2, start=PARAMS
        )

    drawn = functools.cache(sampled)

    def free():
        likelihood = hawkes.Likelihood(
            locations[:FREE], times[:FREE], space=space, method="windowed", background_self=False
        )
        hawkes.sample_posterior(
            likelihood, n_chains=CHAINS, n_draws=SAMPLED // 2, n_warmup=SAMPLED // 2, start=PARAMS, fixed=()
        )

    calls = {
        "gradient, all pairs": lambda: made("all_pairs").gradient(PARAMS),
        "by cells, background recomputed": lambda: made("cells").log_likelihood(PARAMS),
        f"{SAMPLED} steps of {CHAINS} chains": sampled,
        f"{SAMPLED} steps of {CHAINS} chains, tau_x and tau_t free": free,
        f"probabilities over {DRAWS} draws": lambda: hawkes.posterior_probabilities(
            made("windowed"), drawn(), n_draws=DRAWS
        ),
    }
    for name, call in calls.items():
        yield _run(f"Hawkes, {name}", min(n, FREE) if call is free else n, "events", space, call)


def _mixture(space, n):
    points = methods.two_clouds(n)
    k = 2 if space == "checked" else 16

    @functools.cache
    def fitted():
        return methods.mixture_of(k, space).fit(points)

    for name in ("predict", "predict_proba"):
        yield _run(
            f"mixture, {name}, {k} components",
            n,
            "points",
            space,
            lambda name=name: getattr(fitted(), name)(points),
        )
    yield _run(
        f"mixture, 3 Gibbs sweeps, {k} components",
        n,
        "points",
        space,
        lambda: fitted().sample_posterior(points, 2, n_warmup=1),
    )


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
    """Return a random walk that returns."""
    return (0.9 * state[0] + pk.random.normal(seed, stream, draw),)


@pk.function
def seen(t, state, observation, params):
    """Return the log-density of an observation about the state, but for a constant."""
    return -0.5 * (observation[0] - state[0]) * (observation[0] - state[0])


def _resampling(space, n):
    weights = pk.copy_of(np.random.default_rng(0).random(n), space)
    ancestors = resampling.systematic(weights, seed=1, space=space)
    offspring = resampling.ancestors_to_offspring(ancestors, n, space=space)
    cumulative = resampling.offspring_to_cumulative(offspring, space=space)
    seen_values, filters = (
        np.zeros(TIMES),
        {
            in_place: resampling.ParticleFilter(begin, walk, seen, in_place=in_place, space=space)
            for in_place in (False, True)
        },
    )

    def smooth():
        filters[False].run(seen_values, n, seed=1, keep=True).trajectories(n, seed=2)

    def steps(name):
        return {"n_steps": methods.STEPS} if name == "megopolis" else {}

    partial = functools.partial
    calls = {
        **{
            name: partial(getattr(resampling, name), weights, seed=1, space=space, **steps(name))
            for name in SCHEMES
        },
        "partial rejection": partial(
            resampling.partial_rejection, weights, seed=1, max_weight=0.5, space=space
        ),
        **{
            name: partial(getattr(resampling, function or name.replace(" ", "_")), *args, space=space)
            for name, function, *args in (
                ("ancestors to offspring", "", ancestors, n),
                ("offspring to cumulative", "", offspring),
                ("cumulative to offspring", "", cumulative),
                ("offspring to ancestors", "", offspring),
                ("cumulative to ancestors", "", cumulative),
                ("permutation", "permute", ancestors),
                ("effective sample size", "", weights),
                ("logarithm of a sum", "log_sum_exp", weights),
            )
        },
        f"filter of {TIMES} steps, and paths": smooth,
        f"filter of {TIMES} steps, in place": functools.partial(filters[True].run, seen_values, n, seed=1),
    }
    for name, call in calls.items():
        yield _run(f"resampling, {name}", n, "particles", space, call)


def _edm(space, n):
    x = np.random.default_rng(1931).random(n)
    for E in (1, 3):
        call = functools.partial(edm.simplex, x, E, dtype="float32", space=space)
        yield _run(f"EDM, simplex projection, E = {E}", n, "points", space, call)
