"""Run each method on data of several shards, as a function of a client or spaces; results are lists of
arrays.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import zarr
from dask import array as da
from numpy.random import default_rng
from pyarrow import parquet

import portable as pk
from portable.models import edm, hawkes, mixture, resampling, tmap
from portable.models.hawkes import sharded_sums
from portable.models.mixture import blocks
from portable.models.tmap import packed

JOBS = {}


def job(function):
    JOBS[function.__name__] = function
    return function


def small_shards(monkeypatch):
    """Make shards small enough for tests."""
    monkeypatch.setattr(blocks, "_LEAST", 256)
    monkeypatch.setattr(packed, "SHARD", 512)
    monkeypatch.setattr(sharded_sums, "BLOCK", 64)


def points(n=2500):
    random = default_rng(1)
    return random.normal(size=(n, 2)) + 5.0 * random.integers(0, 3, (n, 1))


def runs():
    truth = tmap.TransientMAP([0.7, 0.3], [1, 2], [10.0, 1.0], [[0.5, 0.3], [0.1, 0.7]])
    return truth.simulate(800, seed=1, space="serial")


@job
def mixture_fit(**where):
    space = where.pop("space", "serial")
    model = mixture.DirichletMixture(4, prior=None, max_iter=6, tol=-1.0, random_state=0, space=space).fit(
        points(), **where
    )
    return [model.means_, model.covariances_, model.weights_, model.objective_history_]


@functools.cache
def streams():
    """Return the points in each form that is streamed: a Zarr array, a dask array over it, a Parquet file."""
    folder = tempfile.TemporaryDirectory()
    array = zarr.create_array(Path(folder.name, "a"), shape=(2500, 2), chunks=(300, 1), dtype=np.float64)
    array[:] = points()
    path = Path(folder.name, "a.parquet")
    parquet.write_table(pyarrow.table(dict(zip("ab", points().T))), path, row_group_size=700)
    return folder, (array, da.from_array(array, chunks=(300, 2)) + 1.0, path)


@job
def mixture_streamed(**where):
    """The first two are arrays in memory; the third is read from its file by each worker."""
    space, found = where.pop("space", "serial"), []
    for X in streams()[1]:
        model = mixture.DirichletMixture(
            2, prior=None, max_iter=2, tol=-1.0, random_state=0, space=space
        ).fit(X, **where)
        found += [model.means_, model.objective_history_, model.predict(X, **where)]
    return found


@job
def mixture_moves(**where):
    space = where.pop("space", "serial")
    model = mixture.DirichletMixture(5, max_iter=12, tol=-1.0, random_state=0, space=space).fit(
        points(), **where
    )
    return [model.means_, model.covariances_, model.weights_, model.objective_history_]


@job
def mixture_gibbs(**where):
    X = points(1500)
    model = mixture.DirichletMixture(4, max_iter=6, tol=-1.0, random_state=0, moves=False, space="serial")
    model.fit(X)
    model.space, found = where.pop("space", "serial"), []
    for n_moves in (0, 2):
        drawn = model.sample_posterior(X, 4, n_warmup=2, n_moves=n_moves, seed=3, **where)
        found += [drawn.means, drawn.weights, drawn.covariances, drawn.log_likelihood, drawn.counts]
    return found


@job
def mixture_predict(**where):
    model = mixture.DirichletMixture(3, prior=None, max_iter=3, tol=-1.0, random_state=0, space="serial").fit(
        points()
    )
    model.space = where.pop("space", "serial")
    return [
        model.predict(points(), **where),
        model.predict_proba(points(), **where),
        model.score_samples(points(), **where),
    ]


@job
def tmap_fit(**where):
    model, info = tmap.fit(
        runs(), orders=[1, 2], max_iter=8, tol=0.0, n_starts=2, **{"space": "serial"} | where
    )
    return [model.alpha, model.rates, model.switching, info.history, info.starts]


@functools.cache
def stored_runs():
    """Store runs in a file, as a Zarr array."""
    given, folder = runs(), tempfile.TemporaryDirectory()
    path = Path(folder.name, "gaps.npy")
    return folder, tmap.StoredRuns(zarr.array(given.values, chunks=(333,)), given.lengths, path=path)


@job
def tmap_stored(**where):
    how = {"orders": [1, 2], "max_iter": 3, "tol": 0.0, "n_starts": 1, "space": "serial"} | where
    model, info = tmap.fit(stored_runs()[1], **how)
    return [model.rates, info.history, model.log_likelihood(stored_runs()[1], **{"space": "serial"} | where)]


@job
def tmap_standard_errors(**where):
    model, _ = tmap.fit(runs(), orders=[1, 2], n_starts=1, space="serial")
    return [tmap.standard_errors(model, runs(), **{"space": "serial"} | where).covariance]


def series(n_times=150, n_series=9):
    return default_rng(2).random((n_times, n_series)).cumsum(axis=0) % 1.0


@job
def edm_cross_map(**where):
    return [edm.cross_map(series(), [1, 2, 3, 1, 2, 3, 1, 2, 3], **{"space": "serial"} | where)]


@job
def edm_ccm(**where):
    x = series()
    found = edm.ccm(
        x[:, 0],
        x[:, 1:3],
        2,
        library_sizes=[20, 60, 100],
        n_samples=20,
        n_surrogates=3,
        surrogate="phase",
        **{"space": "serial"} | where,
    )
    return [found.rho, found.p_values]


PARAMS = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.3, omega=1.0, h=0.1)


def shared_likelihood(n_events, where, **options):
    random = default_rng(3)
    places, times = random.normal(size=(n_events, 2)), np.sort(random.uniform(0.0, 1000.0, n_events))
    space = "serial" if where.get("client") else ["serial"]
    return hawkes.Likelihood(places, times, **options | {"space": space} | where)


@job
def hawkes_likelihood(**where):
    """Return the log-likelihood, its gradient, and parents."""
    found = []
    for method in ("all_pairs", "windowed"):
        likelihood = shared_likelihood(300, where, method=method)
        parents = hawkes.parent_probabilities(likelihood, PARAMS)
        found += [likelihood.log_likelihood(PARAMS), *likelihood.gradient(PARAMS), parents.probabilities]
    return found


@job
def hawkes_chains(**where):
    """Sample long enough for pairs to be listed again."""
    likelihood, other = (
        shared_likelihood(120, where, background_self=own, error_bound=1e-7) for own in (True, False)
    )
    found = hawkes.sample_posterior(
        likelihood, n_chains=5, n_draws=450, n_warmup=50, n_thin=2, start=PARAMS, seed=4
    )
    moved = hawkes.sample_posterior(  # the background is sampled, too
        other, n_chains=3, n_draws=120, n_warmup=0, start=PARAMS, fixed=("tau_x",), seed=4
    )
    return [value for one in (found, moved) for value in (one.draws, one.log_likelihood, one.acceptance)]


def observed(n_steps=30):
    truth = resampling.ready.linear_gaussian
    return truth.simulate([0.9, 0.5, 0.7], n_steps, seed=1, space="serial")[1][:, 0]


@pk.function
def square(t, state, params):
    return (state[0] * state[0],)


def filtered(filters, params, **where):
    """Return all results of a filter."""
    found = filters.run(
        observed(),
        40,
        params=params,
        seed=3,
        keep=True,
        variances=True,
        quantiles=[0.25, 0.5],
        moments=square,
        **where,
    )
    names = "log_likelihood", "evidence", "sizes", "resampled", "died", "means", "variances", "quantiles"
    return [
        *(getattr(found, name) for name in (*names, "moments")),
        np.array(found.states.to_numpy()),
        np.array(found.log_weights.to_numpy()),
        found.trajectories(3, seed=2),
    ]


@job
def filter_banks(**where):
    params = np.stack([np.linspace(0.5, 0.95, 9), np.full(9, 0.5), np.full(9, 0.7)], axis=1)
    space, model = where.pop("space", "serial"), resampling.ready.linear_gaussian
    filters = model.filter(space=space)
    found = [filters.log_likelihood(observed(), 50, params=params, seed=5, **where)]
    found += filtered(filters, params, **where) + filtered(filters, params[0], **where)
    return found + filtered(model.filter(guided=True, ordered=True, space=space), params[:2], **where)


@pk.function
def sum_of_squares(params, data):
    total = 0.0
    for i in range(data.shape[0]):
        if not pk.isnan(data[i, 0]):
            total -= (data[i, 0] - params[0]) ** 2 / params[1]
    return total


SAMPLED = {
    "priors": {"phi": resampling.priors.uniform(0.0, 1.0), "sigma": resampling.priors.half_normal(1.0)},
    "fixed": {"tau": 0.7},
    "n_chains": 5,
    "n_warmup": 4,
    "seed": 2,
}


def drawn(sample, n_draws, where, **options):
    found = sample(
        resampling.ready.linear_gaussian,
        observed(),
        20,
        n_draws=n_draws,
        **SAMPLED | options | {"space": "serial"} | where,
    )
    return [found.draws, found.log_likelihood, found.acceptance]


@job
def pmmh(**where):
    return drawn(resampling.sample_pmmh, 6, where) + drawn(resampling.sample_pmmh, 3, where, n_blocks=4)


@job
def particle_gibbs(**where):
    return drawn(resampling.sample_gibbs, 5, where, n_moves=2)


@job
def smc_squared(**where):
    chosen = {name: value for name, value in SAMPLED.items() if name != "n_warmup"}
    model, y = resampling.ready.linear_gaussian, observed()
    found = resampling.sample_smc2(model, y, 20, n_draws=8, length=4, **chosen | {"space": "serial"} | where)
    return [found.draws, found.log_likelihood, np.array(found.log_evidence)]


@job
def searches(**where):
    chosen = {name: SAMPLED[name] for name in "priors fixed n_chains seed".split()}
    chosen |= {"start": {"phi": 0.7, "sigma": 0.5}, "n_iterations": 3, "space": "serial"}
    with pytest.warns(RuntimeWarning, match="take more n_iterations"):
        found = resampling.maximise(resampling.ready.linear_gaussian, observed(), 20, **chosen | where)
    return [found.ends, found.logs]


@job
def tempered(**where):
    chosen = {name: value for name, value in SAMPLED.items() if name != "n_warmup"}
    found = resampling.sample_smc(
        sum_of_squares, data=observed(), n_draws=8, length=4, **chosen | {"space": "serial"} | where
    )
    return [found.draws, found.log_likelihood, np.array(found.log_evidence)]
