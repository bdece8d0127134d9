"""The long jobs, made short: each is a function of a folder and of a bool, True for the longer version.

A result is a dict of arrays; the contents of files that a job leaves in the folder in addition to its
checkpoint are part of it, byte by byte.
"""

import os
import warnings
from pathlib import Path

import numpy as np
from numpy.random import default_rng

from portable.models import edm, hawkes, mixture, resampling, tmap
from portable.models.shared import store
from portable.models.resampling import study

SPACE = "serial"


# Every job stores a part after each of its steps; there are fewer schemes; and nothing is synced, since a
# kill loses nothing that was written (test_store checks that files are synced before they are renamed, and
# folders after).
SHORT = (
    (os, "fsync", lambda file: None),
    (store, "EVERY_S", 0.0),
    (store, "_SHARE", 0.0),
    (hawkes.sampler, "_REPLAYS", 1),
    (resampling.sampling.Chained, "piece", 1),
)


def series():
    x = default_rng(1).random((40, 6))
    for t in range(39):
        x[t + 1] = 3.7 * x[t] * (1.0 - x[t])
    return x


def cross_map(folder, longer):
    edm.cross_map(series(), 2, libraries=np.arange(6 if longer else 3), out=folder / "rho.npy", space=SPACE)
    return {}  # the file holds the whole result


def cross_map_test(folder, longer):
    found = edm.cross_map_test(
        series(),
        2,
        libraries=np.arange(6 if longer else 3),
        n_surrogates=20,
        surrogate="random",
        seed=1,
        checkpoint=folder / "checkpoint",
        space=SPACE,
    )
    return {"rho": found.rho, "p": found.p_values, "n_tried": found.n_tried}


def pmmh(folder, longer):
    """Run PMMH and particle Gibbs, which use the same store."""
    model = resampling.ready.linear_gaussian
    y = default_rng(5).normal(size=12)
    found = resampling.sample_pmmh(
        model,
        y,
        8,
        priors={"phi": resampling.priors.uniform(-1.0, 1.0)},
        fixed={"sigma": 0.5, "tau": 0.7},
        n_chains=2,
        n_draws=8 if longer else 5,
        n_warmup=2,
        seed=5,
        space=SPACE,
        checkpoint=folder / "checkpoint",
    )
    return {"draws": found.draws, "log_likelihood": found.log_likelihood, "acceptance": found.acceptance}


def resampling_study(folder, longer):
    sizes = [4, 8] if longer else [4]
    names, place = ("multinomial", "systematic", "killing"), folder / "checkpoint"
    cells = list(
        study.study([SPACE], sizes, [0.5], study.Design(4, long_enough=0.0), checkpoint=place, names=names)
    )
    return {"cells": np.array([[cell["n"], cell["mse"], cell["bias_share"]] for cell in cells])}


def posterior(folder, longer):
    random = default_rng(2)
    likelihood = hawkes.Likelihood(
        random.normal(size=(30, 2)), np.sort(random.random(30)) * 100.0, space=SPACE
    )
    start = hawkes.Parameters(0.5, 1.6, 336.0, 0.3, 1.0, 1.0)
    found = hawkes.sample_posterior(
        likelihood,
        n_chains=2,
        n_draws=160 if longer else 90,
        n_warmup=10,
        start=[start] * 2,
        seed=3,
        checkpoint=folder / "checkpoint",
    )
    return {"draws": found.draws, "log_likelihood": found.log_likelihood, "acceptance": found.acceptance}


def points():
    return default_rng(1).normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [6.0, 1.0], [0.0, 7.0]], 20, axis=0)


def gibbs(folder, longer):
    model = mixture.DirichletMixture(3, max_iter=2, tol=-1.0, random_state=0, space=SPACE).fit(points())
    found = model.sample_posterior(
        points(), 9 if longer else 5, n_warmup=2, seed=4, checkpoint=folder / "checkpoint"
    )
    return vars(found)


def em(folder, longer):
    """Run EM with moves from several starts; the longer job has more starts."""
    options = {
        "tol": 1e-2,
        "max_iter": 6 if longer else 3,
        "n_init": 2 if longer else 1,
        "random_state": 0,
        "space": SPACE,
    }
    found = mixture.DirichletMixture(2, **options).fit(points(), checkpoint=folder / "checkpoint")
    return {
        "history": found.objective_history_,
        "means": found.means_,
        "factors": found.precisions_cholesky_,
        "starts": np.array([start.objective for start in found.starts_]),
    }


def transient(folder, longer):
    """Fit a TransientMAP to runs that are streamed in parts."""
    process = tmap.TransientMAP([0.6, 0.4], [1, 2], [2.0, 0.5], [[0.5, 0.3], [0.2, 0.6]])
    runs = process.simulate(40, seed=1, space=SPACE)
    model, info = tmap.fit(
        runs,
        orders=[1, 2],
        n_starts=3 if longer else 2,
        max_iter=8 if longer else 4,
        tol=0.0,
        seed=3,
        space=SPACE,
        memory_mb=0.02,
        checkpoint=folder / "checkpoint",
    )
    return {
        "rates": model.rates,
        "switching": model.switching,
        "history": info.history,
        "starts": info.starts,
    }


def model_file(folder, longer):
    """Write a model file repeatedly, with more in it each time."""
    for n in range(3 if longer else 2):
        tmap.TransientMAP([1.0], [n + 1], [2.0], [[0.5]]).save(folder / "model.json")
    return {}


JOBS = {
    job.__name__: job
    for job in (
        cross_map,
        cross_map_test,
        pmmh,
        resampling_study,
        posterior,
        gibbs,
        em,
        transient,
        model_file,
    )
}


def result(job, folder, longer=False):
    """Run a job; return its result with its files, as a dict of arrays, and the warnings that it raised."""
    folder.mkdir(exist_ok=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = JOBS[job](folder, longer)
    files = {
        file.name: np.frombuffer(file.read_bytes(), np.uint8)
        for file in sorted(folder.iterdir())
        if file.is_file() and not file.name.startswith(".")
    }
    return found | files, [str(warning.message) for warning in caught if "damaged" in str(warning.message)]


def same(one, other):
    """Return True if two results are equal, bit by bit."""
    return one.keys() == other.keys() and all(
        np.asarray(one[name]).tobytes() == np.asarray(other[name]).tobytes()
        and np.shape(one[name]) == np.shape(other[name])
        for name in one
    )


def parts(folder):
    """Return the parts of a job's checkpoint: path and content."""
    found = (file for file in Path(folder).rglob("*.npz") if not file.name.startswith("."))
    return {file: file.read_bytes() for file in sorted(found)}
