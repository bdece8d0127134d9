"""Filters and smoothers against closed forms, in standard errors: what `python -m portable.models.resampling
calibrate` begins with."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from . import exact, ready, smoothing

MODEL = ready.linear_gaussian
PARAMS = MODEL.params(phi=0.9, sigma=0.5, tau=0.7)
N_PARTICLES, LONG = 64, 4160  # of a row that one team takes, and of one that launches of each step take
AT_ONCE = 2**22  # particles of a batch
# Name, options of the filter, particles.
FILTERS = [
    ("bootstrap, systematic", {}, N_PARTICLES),
    ("guided", {"guided": True}, N_PARTICLES),
    ("always resampled", {"threshold": 1.0}, N_PARTICLES),
    ("in the order of states", {"ordered": True}, N_PARTICLES),
    ("float32", {"dtype": np.float32}, N_PARTICLES),
    ("in place", {"in_place": True}, N_PARTICLES),
    *(
        (name, {"method": name}, N_PARTICLES)
        for name in ("stratified", "multinomial", "residual", "ssp", "killing")
    ),
    ("many particles", {}, LONG),
]


def series(n_steps: int = 20, missing: bool = False) -> np.ndarray:
    """Observations of the model, a quarter of them missing if asked."""
    y = MODEL.simulate(PARAMS, n_steps, seed=11, space="serial")[1][:, 0]
    if missing:
        y[[1, 7, 8, 13, n_steps - 1]] = np.nan
    return y


def likelihoods(n_runs: int = 32_000, seed: int = 0, space=None) -> Iterator[tuple[str, bool, int, float]]:
    """The mean of p(y) / p_Kalman(y) over independent filters, less its expectation 1, in standard errors.

    Parameters
    ----------
    n_runs : int
    seed : int
    space : str or Space, optional

    Yields
    ------
    (name of the filter, whether observations were missing, runs, z)
    """
    for name, options, n_particles in FILTERS:
        filters = MODEL.filter(space=space, **options)
        for missing in (False, True):
            y = series(missing=missing)
            total, ratios = exact.kalman(y, PARAMS).log_likelihood, []
            rows = min(n_runs, 2000, AT_ONCE // n_particles)
            for batch in range(n_runs // rows):
                values = filters.log_likelihood(
                    y, n_particles, params=np.tile(PARAMS, (rows, 1)), seed=seed + batch
                )
                ratios.append(np.exp(values - total))
            ratios = np.concatenate(ratios)
            yield (
                name,
                missing,
                len(ratios),
                float((ratios.mean() - 1) / (ratios.std(ddof=1) / math.sqrt(len(ratios)))),
            )


def smoothers(
    n_runs: int = 100, n_particles: int = 2000, seed: int = 0, space=None
) -> Iterator[tuple[str, float]]:
    """The largest distance of a smoothed mean from Rauch, Tung and Striebel's, in standard errors seen
    between runs.

    A mean of weighted particles is biased by about 1 / n_particles, which so few runs do not show.

    Yields
    ------
    (name of the smoother, largest of 20 sizes of z)
    """
    y = series(missing=True)
    kept = MODEL.filter(space=space).run(
        y, n_particles, params=np.tile(PARAMS, (n_runs, 1)), seed=seed, keep=True
    )
    wanted = exact.smoothed(y, PARAMS).means
    found = {
        "backward simulation": smoothing.backward_paths(MODEL, kept, 50, seed=seed)[:, 0].mean(axis=-1),
        "genealogy": kept.trajectories(500, seed=seed)[:, 0].mean(axis=-1),
        "fixed lag of 15": smoothing.lagged_moments(kept, 15)[0][:, 0],
    }
    for name, means in found.items():
        z = (means.mean(axis=1) - wanted) / (means.std(axis=1, ddof=1) / math.sqrt(n_runs))
        yield name, float(np.abs(z).max())
