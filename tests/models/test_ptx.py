"""Lower every kernel of every model to PTX without a GPU, for the argument types that the model uses."""

import collections
import importlib
import itertools
import math
import os
from unittest import mock

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.models import edm, hawkes, mixture, resampling, tmap
from portable.models.edm import mapping, search, tree
from portable.models.resampling import schemes
from portable.models.tmap import packed
from portable.library import algorithms
from portable.core.machines.cuda.space import lower_to_ptx
from portable.core.language.kernel import Kernel

from .hawkes import algorithm_2
from .resampling import prefix_sums

from ..launching import builds, hardly_optimised


VALUES = {
    "mu0": 1.0,
    "tau_x": 1.0,
    "tau_t": 1.0,
    "theta": 0.3,
    "h": 0.1,
    "c": 1.0,
    "p": 1.2,
    "q": 1.5,
    "gamma": 0.2,
    "alpha": 0.5,
}
PAPERS = hawkes.Parameters(1.0, 1.0, 1.0, 0.3, 1.0, 0.1)
COMPOSED = hawkes.compose("omori", distance="power_law", marks=True, growth=True, within_h=1e3)


@pk.use("serial")
def run_hawkes(some):
    rng = default_rng(1)
    params = PAPERS
    for n_dims, precision in some(itertools.product((1, 2, 3), ("float64", "mixed"))):
        events = rng.random((9, n_dims)), np.sort(rng.random(9)) * 100
        for method in ("all_pairs", "windowed"):
            hawkes.Likelihood(*events, method=method, dtype=precision, error_bound=1e-3).log_likelihood(
                params
            )
    for method in ("all_pairs", "windowed", "cells"):
        likelihood = hawkes.Likelihood(*events, method=method, error_bound=1e-3)
        likelihood.gradient(params), likelihood.log_gradients([params] * 2)
    options = {"n_chains": 2, "n_draws": 1, "n_warmup": 0, "start": [params] * 2}
    posterior = hawkes.sample_posterior(likelihood, **options)
    free = hawkes.Likelihood(*events, background_self=False)
    hawkes.sample_posterior(free, fixed=(), **options)
    hawkes.posterior_probabilities(likelihood, posterior, n_draws=1)
    hawkes.parent_probabilities(likelihood, params)
    hawkes.intensity(likelihood, params, *events)
    hawkes.residuals(likelihood, params)
    for kernel in (algorithm_2.packed, algorithm_2.scalar):
        algorithm_2.log_rates(kernel, events[0][:, :2], events[1], params)()
    marks = np.arange(9.0)
    params = COMPOSED(**{name: VALUES[name] for name in COMPOSED.names()})
    for method, precision in some((("all_pairs", "mixed"), ("windowed", "float64"), ("cells", "float64"))):
        likelihood = hawkes.Likelihood(
            events[0][:, :2], events[1], marks=marks, method=method, error_bound=1e-3, dtype=precision
        )
        likelihood.gradient(params), likelihood.log_gradients([params] * 2)
    hawkes.sample_posterior(likelihood, **options | {"start": [params] * 2})
    with mock.patch("portable.models.hawkes.cells.MOST_PAIRS", 0):  # windows in place of a list
        hawkes.sample_posterior(likelihood, **options | {"start": [params] * 2})
    hawkes.parent_probabilities(likelihood, params)
    hawkes.intensity(likelihood, params, events[0][:, :2], events[1])
    hawkes.residuals(likelihood, params)
    wide = {"dtype": "mixed", "error_bound": 1e-3}
    for method in ("all_pairs", "windowed"):
        hawkes.Likelihood(1e4 * events[0], events[1], method=method, **wide).gradient(PAPERS)
    hawkes.fit_background(events[0], events[1], "declustered", max_iter=1, n_simulations=1)
    hawkes.TemporalLikelihood(events[1]).fit(n_simulations=1)
    hawkes.fit_histogram(events[1], [0.0, 9.0])
    for locations in (events[0], None):
        mutual = hawkes.MutualLikelihood(events[1], np.arange(len(events[1])) % 2, locations=locations)
        hawkes.fit_mutual(mutual, [0.1, 1.0], background="constant", max_iter=1)
    mutual.gradient(hawkes.Mutual([1.0, 1.0], np.zeros((2, 2, 2)), [1.0, 2.0]), rates=False)
    likelihood = hawkes.Likelihood(*events, method="cells", error_bound=1e-3)
    likelihood.gradient(hawkes.compose(2)(1.0, 1.0, 1.0, 0.3, 1.0, 0.1, 1.0, 0.1))


@pk.use("serial")
def run_tmap(some):
    model = tmap.TransientMAP([0.5, 0.5], [1, 2], [1.0, 3.0], [[0.5, 0.2], [0.3, 0.3]])
    runs = model.simulate(50, seed=1)
    censored = tmap.Runs(runs.values, runs.lengths, np.arange(50) % 2 == 0)
    for dtype in some(("float64", "float32")):
        for data in (runs, censored):
            model.log_likelihood(data, dtype=dtype)
            tmap.fit(data, orders=[1, 2], max_iter=2, tol=0.0, n_starts=1, dtype=dtype)
    tmap.fit(runs, orders=some(range(1, 9)), max_iter=1, tol=0.0, n_starts=1)
    rounded = tmap.Runs(
        np.where(censored.complete, np.rint(runs.values), runs.values),
        runs.lengths,
        censored.censored,
        resolution=1.0,
    )
    for dtype in some(("float64", "float32")):
        model.log_likelihood(rounded, dtype=dtype)
        tmap.fit(rounded, orders=[1, 2], max_iter=2, tol=0.0, n_starts=1, dtype=dtype)
    sizes = packed.SHARD, packed.FEW
    packed.SHARD, packed.FEW = 64, 0  # several shards, whose sums are added, sorted in the space
    runs.prepared.clear()
    tmap.fit(runs, orders=[1, 2], max_iter=1, tol=0.0, n_starts=1)
    packed.SHARD, packed.FEW = sizes
    for kind in (np.float32, np.int32):
        tmap.Runs(runs.values.astype(kind), runs.lengths.astype(kind))
    censored.subset(slice(1, None)).n_zero
    model.branch_probabilities(rounded)
    model.rescaled(rounded)
    model.branch_probabilities(censored)
    model.rescaled(runs)


@pk.function
def normal_state(seed, stream, draw, params):
    return (pk.random.normal(seed, stream, draw),)


@pk.function
def random_step(t, state, seed, stream, draw, params):
    return (state[0] + pk.random.normal(seed, stream, draw),)


@pk.function
def normal_weight(t, state, y, params):
    return -0.5 * (y[0] - state[0]) ** 2


@pk.function
def square(t, state, params):
    return (state[0] * state[0],)


@pk.use("serial")
def run_resampling(some):
    weights = np.arange(1.0, 20.0)
    for short in (schemes.SHORT, 0):  # rows that one launch can process, and rows divided into tiles
        with mock.patch.object(schemes, "SHORT", short):
            for name in "systematic stratified multinomial residual ssp rejection killing".split():
                ancestors = getattr(resampling, name)(weights, seed=1, n_ancestors=19)
    for scheme in ("metropolis", "megopolis"):
        getattr(resampling, scheme)(weights, seed=1, n_steps=4)
    resampling.partial_rejection(weights, seed=1, max_weight=9.0)
    resampling.systematic(log_weights=np.log(weights), seed=1)
    resampling.systematic(weights, seed=1, output="cumulative")
    resampling.permute(ancestors)
    resampling.effective_sample_size(weights)
    resampling.log_sum_exp(np.log(weights))
    for peer in prefix_sums.PEERS.values():
        peer(weights[None], 1)
    for in_place in (False, True):
        model = resampling.ParticleFilter(normal_state, random_step, normal_weight, in_place=in_place)
        model.run(np.zeros(3), 20, seed=1)
        resampling.ParticleFilter(normal_state, random_step, normal_weight, method="stratified").run(
            np.zeros(3), 20, seed=1
        )
    model = resampling.ParticleFilter(normal_state, random_step, normal_weight)
    model.run(
        np.zeros(3), 20, seed=1, keep=True, variances=True, quantiles=[0.5], moments=square
    ).trajectories(4, seed=1)


@pk.function
def first_squared(params, data):
    return -0.5 * (data[0, 0] - params[0]) ** 2


@pk.use("serial")
def run_inference(some):
    """Run state-space models: simulation, a sorted and a guided filter, smoothing, PMMH, particle Gibbs,
    SMC^2, a tempered sampler; an epidemic for its counts."""
    model, params = resampling.ready.linear_gaussian, [0.9, 0.5, 0.7]
    x, y = model.simulate(np.tile(params, (2, 1)), 4, seed=1)
    model.replicate(x, np.tile(params, (2, 1)), seed=1)
    kept = model.filter(guided=True, ordered=True).run(y[:, 0, 0], 20, params=params, seed=1, keep=True)
    resampling.backward_paths(model, kept, 2, seed=1), resampling.lagged_moments(kept, 1)
    resampling.backward_paths(model, kept, 2, bound=0.0)
    chosen = {
        "priors": {"phi": resampling.priors.uniform(0.0, 1.0)},
        "fixed": {"sigma": 0.5, "tau": 0.7},
        "n_chains": 2,
        "n_draws": 1,
    }
    resampling.sample_pmmh(model, y[:, 0, 0], 8, n_warmup=0, **chosen)
    resampling.sample_gibbs(model, y[:, 0, 0], 8, n_warmup=0, n_moves=1, **chosen)
    populations = chosen | {"n_draws": 4, "length": 2}
    resampling.sample_smc2(model, y[:, 0, 0], 8, **populations)
    searched = {name: chosen[name] for name in ("priors", "fixed")} | {"n_chains": 2, "n_iterations": 1}
    resampling.maximise(model, y[:, 0, 0], 8, n_repeats=1, **searched)
    resampling.sample_smc(first_squared, data=[1.0, 2.0], **populations)
    epidemic = resampling.ready.sir(20, n_substeps=1)
    outbreak = epidemic.filter()
    outbreak.run([3.0, 2.0], 8, params=[0.5, 0.3, 0.5, 2.0], seed=1)


@pk.use("serial")
def run_mixture(some):
    for p, dtype in some(((2, np.float64), (3, np.float32), (8, np.float64))):
        x = default_rng(1).normal(size=(40, p)).astype(dtype)
        for kind in ("diag", "full"):
            model = mixture.DirichletMixture(
                2, covariance=kind, max_iter=9, tol=1e9, moves=p != 3, random_state=1
            ).fit(x)
            model.predict(x), model.predict_proba(x), model.score_samples(x)
    many = default_rng(2).normal(size=(80, 15))  # components and features, for teams only
    mixture.DirichletMixture(70, max_iter=1, tol=-1.0, moves=False, random_state=1).fit(many)
    model.sample_posterior(pk.asview(x), 4, n_warmup=0)
    model.fit(x, sample_weight=np.arange(40) + 1.0)
    mixture.cytometry.merge(model, x, n_populations=1)
    mixture.TMixture(2, noise=True, n_init=1, max_iter=1, tol=-1.0).fit(x).predict(x)


@pk.use("serial")
def run_edm(some):
    x = default_rng(1).random((60, 3))
    for dtype in some(("float32", "float64")):
        # as if many more teams ran at a time than there are tiles of points
        with (
            mock.patch.object(search, "LEAST_CHUNKS", 1),
            mock.patch.object(search, "TEAMS_AT_A_TIME", 99),
        ):
            edm.simplex(x[:, :1], 3, dtype=dtype)
        edm.simplex(x[:, 0], 2, dtype=dtype)
        edm.knn(np.tile(x[:, 0], 20), 1, dtype=dtype)  # enough to be sorted
        edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[20], n_samples=2, dtype=dtype)
        edm.cross_map(x, [1, 2, 3], dtype=dtype)
        with mock.patch.object(mapping, "form_of", lambda n_teams: (mapping.WIDE, 4)):
            edm.cross_map(x, [1, 2, 3], dtype=dtype)
        edm.cross_map(np.tile(x, 64), 1, libraries=[0], dtype=dtype)
        edm.cross_map_test(x, 1, n_surrogates=2, surrogate="phase", lib=[(0, 20), (20, len(x))], dtype=dtype)
        for method in ("phase", "twin", "block"):
            edm.cross_map_test(x, 2, n_surrogates=2, surrogate=method, dtype=dtype)
    slow = mock.Mock(return_value=[math.inf])
    with mock.patch.object(tree, "FEWEST", 10), mock.patch.object(tree.timeit, "repeat", slow):
        edm.knn(x[:, 0], 2)
    edm.smap(x[:, 0], 2, theta=1.0), edm.smap(x[:, 0], 6, theta=1.0)
    with pytest.warns(RuntimeWarning, match="'random'"):
        edm.surrogates(x, 2, "random")


DTYPES = ("int32", "uint64"), ("uint32", "float32"), ("int64", "float64")


@pk.use("serial")
def run_algorithms(some):
    """Run the algorithms shared by the models, and the sort of a GPU's teams."""
    by_teams = {"_by_teams": lambda space: True, "_tiling": lambda space: (1, 8, 512)}
    with mock.patch.multiple(algorithms, **by_teams):
        for dtype in itertools.chain(*some(DTYPES)):
            for n in (20, 70_000):  # one digit, and several
                pk.argsort(np.arange(n).astype(dtype), descending=n < 50)
    for dtype in itertools.chain(*some(DTYPES)):
        x = np.arange(20).astype(dtype)
        pk.sort_by_key(x, x)
        for largest in (True, False):
            pk.top_k(x.reshape(2, 10), 3, largest)
        pk.compact(x > 3, x), pk.compact(x > 3)
        offsets = np.array([0, 3, 20])
        for reducer in (pk.Sum, pk.Max):
            pk.segmented_reduce(x, offsets, reducer)
            pk.segmented_scan(x, offsets, reducer)
        pk.segmented_scan(x, offsets, inclusive=False)
        pk.segmented_sort(x, offsets, True)
        pk.searchsorted(x, x, "right"), pk.unique(x, True)
        if dtype[0] != "f":
            pk.bincount(x), pk.bincount(x, np.ones(20))


def kernels_of(modules):
    """Return every kernel of some modules."""
    for name in modules.split():
        for kernel in vars(importlib.import_module(name, "portable.models")).values():
            if isinstance(kernel, Kernel):
                yield kernel


def lowered(modules):
    """Return (kernel, its builds on the CPU) for every kernel of some modules."""
    for kernel in kernels_of(modules):
        for policy_kind, specs, reducers in builds(kernel):
            yield kernel, policy_kind, specs, reducers


# by family, what runs it, and its modules of kernels
MODELS = {
    "edm": (
        run_edm,
        ".edm.kernels .edm.list_kernels .edm.point_kernels .edm.local_kernels .edm.surrogate_kernels",
    ),
    "hawkes": (
        run_hawkes,
        """.hawkes.kernels .hawkes.excitation .hawkes.histogram .hawkes.cell_kernels .hawkes.chain_kernels
        .hawkes.summary_kernels .hawkes.backgrounds .hawkes.mutual_kernels .hawkes.significance
        .hawkes.temporal tests.models.hawkes.algorithm_2""",
    ),
    "tmap": (run_tmap, ".tmap.kernels .shared.shared_kernels"),
    "tmap, runs": (run_tmap, ".tmap.gap_kernels .tmap.run_kernels .tmap.rounding"),
    "resampling": (
        run_resampling,
        """.resampling.chains .resampling.filter_kernels .resampling.pairing
        tests.models.resampling.prefix_sums .resampling.kernels .resampling.row_kernels
        .resampling.small_kernels .resampling.ancestor_kernels .resampling.strata
        .resampling.summary_kernels .resampling.weight_kernels""",
    ),
    "mixture": (
        run_mixture,
        """.mixture.gibbs_kernels .mixture.kernels .mixture.moment_kernels .mixture.search_kernels
        .mixture.step_kernels .mixture.tail_kernels""",
    ),
    "resampling, inference": (
        run_inference,
        ".resampling.row_kernels .resampling.smoothing_kernels .resampling.simulation_kernels",
    ),
    "algorithms": (run_algorithms, "..library.algorithms"),
}


@pytest.mark.parametrize("capability", [(7, 0)] * bool(os.environ.get("PORTABLE_WHOLE")) + [(9, 0)], ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_every_kernel_of(model, capability, named):
    """Only a few types are tested, unless this file is named."""
    # builds of one kernel, evenly distributed over types and constants
    most, some = (5, list) if named else (1, lambda cases: [*cases][-1:])
    run, modules = MODELS[model]
    for kernel in kernels_of(modules):  # kernels that other tests of this process launched are omitted
        kernel.compiled.clear()
    with hardly_optimised():
        run(some)
        seen = collections.Counter(kernel.name for kernel, *_ in lowered(modules))
        counts = collections.Counter()
        for kernel, policy_kind, specs, reducers in lowered(modules):
            counts[kernel.name] += 1
            if counts[kernel.name] % -(-seen[kernel.name] // most):
                continue
            for debug in {False, model == "algorithms"}:  # which have scratch, tallies and private arrays
                ptx = lower_to_ptx(
                    kernel, policy_kind, specs, reducers, team_size=32, capability=capability, debug=debug
                )
                assert ".visible .entry entry" in ptx, kernel.name
    assert len(seen) >= 3
