"""Every kernel of every model lowers to PTX without a GPU, for the argument types that the model uses."""
import inspect
from types import SimpleNamespace

import numpy as np
import pytest

import portable as pk
from models import hawkes, mixture, resampling, tmap
from models.hawkes import kernels as hawkes_kernels
from models.mixture import kernels as mixture_kernels
from models.resampling import (
    chains,
    filter_kernels,
    pairing,
    spreading,
    strata,
    weighing,
)
from models.resampling import kernels as resampling_kernels
from models.tmap import kernels as tmap_kernels
from portable import algorithms
from portable.backends.cuda.space import lower_to_ptx
from portable.kernel import Kernel


def run_hawkes():
    rng = np.random.default_rng(1)
    params = hawkes.Parameters(mu0=1.0, tau_x=1.0, tau_t=1.0, theta=0.3, omega=1.0, h=0.1)
    for n_dims in (1, 2, 3):
        for precision in ("float64", "mixed"):
            for method in ("all_pairs", "windowed"):
                hawkes.log_likelihood(rng.random((9, n_dims)), np.sort(rng.random(9)) * 100, params, method=method,
                                      precision=precision, tolerance=1e-3, space="serial")


def run_tmap():
    model = tmap.TransientMAP([0.5, 0.5], [1, 2], [1.0, 3.0], [[0.5, 0.2], [0.3, 0.3]])
    runs = model.simulate(50, seed=1, space="serial")
    model.log_likelihood(runs, space="serial")
    tmap.fit(runs, orders=[1, 2], max_iter=2, tol=0.0, space="serial")


@pk.function
def normal_state(seed, stream, draw, params):
    return (pk.random.normal(seed, stream, draw),)


@pk.function
def random_step(t, state, seed, stream, draw, params):
    return (state[0] + pk.random.normal(seed, stream, draw),)


@pk.function
def normal_weight(t, state, y, params):
    return -0.5 * (y[0] - state[0]) ** 2


RESAMPLING = SimpleNamespace(**{f"{module.__name__}.{name}": kernel for module in (
    chains, filter_kernels, pairing, resampling_kernels, spreading, strata, weighing)
    for name, kernel in inspect.getmembers(module, lambda member: isinstance(member, Kernel))})


def run_resampling():
    weights = np.arange(1.0, 20.0)
    for scheme in ("systematic", "stratified", "multinomial", "residual", "ssp", "rejection", "killing"):
        ancestors = getattr(resampling, scheme)(weights, seed=1, n_draws=19, space="serial")
    for scheme in ("metropolis", "megopolis"):
        getattr(resampling, scheme)(weights, seed=1, n_steps=4, space="serial")
    resampling.partial_rejection(weights, seed=1, max_weight=9.0, space="serial")
    resampling.systematic(log_weights=np.log(weights), seed=1, space="serial")
    offspring = resampling.ancestors_to_offspring(ancestors, len(weights), space="serial")
    resampling.cumulative_to_ancestors(resampling.offspring_to_cumulative(offspring, space="serial"), space="serial")
    resampling.permute(ancestors, space="serial")
    resampling.effective_sample_size(weights, space="serial")
    resampling.log_sum_exp(np.log(weights), space="serial")
    for in_place in (False, True):
        model = resampling.ParticleFilter(normal_state, random_step, normal_weight, in_place=in_place, space="serial")
        model.run(np.zeros(3), 20, seed=1)
        RESAMPLING.start, RESAMPLING.advance = model.kernels(1)
    model = resampling.ParticleFilter(normal_state, random_step, normal_weight, space="serial")
    model.run(np.zeros(3), 20, seed=1, keep=True).trajectories(4, seed=1)


def run_mixture():
    for p in (2, 30):
        x = np.random.default_rng(1).normal(size=(100, p))
        found = mixture.DirichletMixture(2, max_iter=2, random_state=1, space="serial").fit(x)
        found.predict(x), found.predict_proba(x), found.score_samples(x)


def run_algorithms():
    """Not a model; what they share."""
    for dtype in ("int32", "int64", "uint32", "uint64", "float32", "float64"):
        x = np.arange(20).astype(dtype)
        pk.sort_by_key(x, x, "serial")
        pk.top_k(x.reshape(2, 10), 3, True, "serial"), pk.top_k(x.reshape(2, 10), 3, False, "serial")
        pk.compact(x > 3, x, "serial"), pk.compact(x > 3, space="serial")


def lowered(module):
    """(kernel, what it was compiled for on the CPU) for every kernel of a module."""
    for _, kernel in inspect.getmembers(module, lambda member: isinstance(member, Kernel)):
        types = [key[1:] for key in kernel.compiled if key[0] == "cpu"]
        for policy_kind, specs, reducers in types:
            yield kernel, policy_kind, specs, reducers


MODELS = {"hawkes": (run_hawkes, hawkes_kernels), "tmap": (run_tmap, tmap_kernels),
          "resampling": (run_resampling, RESAMPLING), "mixture": (run_mixture, mixture_kernels),
          "algorithms": (run_algorithms, algorithms)}


@pytest.mark.parametrize("capability", [(7, 0), (8, 0), (9, 0)], ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_every_kernel_of(model, capability):
    run, module = MODELS[model]
    run()
    seen = set()
    for kernel, policy_kind, specs, reducers in lowered(module):
        seen.add(kernel.name)
        ptx = lower_to_ptx(kernel, policy_kind, specs, reducers, team_size=32, capability=capability)
        assert ".visible .entry entry" in ptx, kernel.name
    assert len(seen) >= 3
