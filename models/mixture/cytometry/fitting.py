"""Find populations of samples without prior knowledge, by a mixture of their cells and a second one of the
cells that it describes badly."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...shared import DType, PathLike, check_choice, check_flag
from ..covariance import Covariance, log_dets
from ..estimator import DirichletMixture
from ..starts import Init
from .merging import LEAST_CELLS, Merging, check_merging
from .panel import Panel
from .populations import Populations, pooled, populations_of
from .samples import Sample

_WORST = 0.02  # share of the cells, those of least density, to which a second mixture is fitted
_RARE_COMPONENTS = 30  # components of the second mixture, at most
_GENEROUS = 5.0  # the prior of EM from both mixtures is wider by this factor, so that components cost less
_WORST_WIDER = 2.0  # the prior of the mixture of the worst cells is wider than that by this factor
# components of the worst cells are left out if their log variances exceed those of the prior of the first
# mixture by more on average: they hold cells at the edges of several populations
_WIDE = 1.0
_TOL = 1e-5  # growth of the objective per cell at which EM ends; populations no longer change then
_FEWEST_HALVED = 200  # cells; fewer are not divided into halves
_CELLS_A_COORDINATE = 5  # cells for the second mixture, at least


def fit(
    samples: Sequence[Sample],
    n_components: int = 60,
    *,
    panel: Panel | None = None,
    method: Merging = "entropy",
    n_populations: int | None = None,
    least_cells: int = LEAST_CELLS,
    least_share: float = 0.0,
    cells_per_sample: int | None = None,
    rare: bool = True,
    halves: bool = False,
    covariance: Covariance = "full",
    n_starts: int = 1,
    start: Init = "k-means++",
    max_iter: int = 1000,
    seed: int = 0,
    dtype: DType = "float64",
    space: str | None = None,
    checkpoint: PathLike | None = None,
    client: object = None,
) -> Populations:
    """Find populations of the cells of one or several samples.

    Parameters
    ----------
    samples : sequence of Sample
        Stained and measured alike; their cells are fitted together.
    n_components : int, default 60
        Components of the mixture, at most. Under the prior of `DirichletMixture`, superfluous ones lose their
        cells.
    panel : Panel, optional
        Channels, compensation, scales; `Panel.of(samples)` if not given.
    method : {"entropy", "modes", "none"}, default "entropy"
        How components become populations: see `merge`.
    n_populations : int, optional
        Merge by entropy until so many are left.
    least_cells : int, default 20
        Fewest cells of a population; smaller ones are merged into others. See `merge`.
    least_share : float, default 0
        Smallest share of the cells of a population; smaller ones are merged into others.
    cells_per_sample : int, optional
        Fit at most so many cells of each sample, drawn at random, so that large samples do not outweigh small
        ones.
    rare : bool, default True
        Look for rare populations by a second mixture. It is fitted to the two per cent of the cells of least
        density under the first mixture. EM then continues from the components of both mixtures, under a prior
        by which components cost less. Not with tied covariances.
    halves : bool, default False
        Say how stable each population is: fit both halves of the cells too. This doubles the time. A
        population's `stability` is its similarity to the most similar population of a half's fit: the number
        of cells in both populations over the number of cells in either; the smaller value of both halves
        (Hennig 2007). NaN with fewer than 200 cells.
    covariance : {"full", "tied", "diag", "spherical"}
        Kind of the components' covariance matrices.
    n_starts : int, default 1
        Starts of EM, of which the best is kept; `n_init` of `DirichletMixture`.
    start : {"k-means++", "random"}
        How EM starts; `init_params` of `DirichletMixture`.
    max_iter : int, default 1000
        Iterations of EM, at most.
    seed : int, default 0
        Of the random numbers; `random_state` of `DirichletMixture`.
    dtype : {"float64", "float32"}
    space : str or Space, optional
    checkpoint : path, optional
        A folder from which the same call continues.
    client : distributed.Client or "local", optional
        As in `DirichletMixture.fit`.

    Returns
    -------
    Populations

    References
    ----------
    C. Hennig: Cluster-wise assessment of cluster stability. Computational Statistics and Data Analysis 52
    (2007), 258.

    Raises
    ------
    InputError
        From `Panel.of`, `DirichletMixture.fit` or `merge`, before anything is computed.

    Warns
    -----
    ConvergenceWarning
    """
    check_merging(method, n_populations)
    rare, halves = check_flag(rare, "rare"), check_flag(halves, "halves")
    panel = panel or Panel.of(samples)
    points = pooled(panel, samples, cells_per_sample, seed).astype(check_choice(dtype, "dtype", DType))
    options = {"covariance": covariance, "max_iter": max_iter, "tol": _TOL, "random_state": seed}
    options["space"] = space
    first = {"n_components": n_components, "n_init": n_starts, "init_params": start}
    where = rare and covariance != "tied", checkpoint, client
    merging = method, n_populations, least_cells, least_share
    made = functools.partial(_fit_populations, panel, merging, first, options, where)
    found = made(points)
    return replace(found, stability=_stability(found, points, made, seed)) if halves else found


def _fit_populations(panel, merging, first, options, where, points, stage=""):
    """Return the populations of points; the names of checkpoint folders begin with `stage`."""
    rare, checkpoint, client = where
    model = DirichletMixture(**first, **options)
    model.fit(points, checkpoint=folder_of(checkpoint, f"{stage}first"), client=client)
    n_worst = round(_WORST * len(points))
    if rare and n_worst >= _CELLS_A_COORDINATE * (points.shape[1] + 1):
        second = folder_of(checkpoint, f"{stage}rare")
        model = _with_rare(model, points, n_worst, options, second, client)
    return populations_of(panel, model, points, merging)


def folder_of(checkpoint, stage):
    """Return the folder of a stage within the checkpoint folder, which is created if it does not exist."""
    if checkpoint is None:
        return None
    folder = Path(checkpoint)
    if not folder.exists() and folder.absolute().parent.is_dir():
        folder.mkdir()
    return folder / stage


def _stability(found, points, made, seed):
    """Return, for each population, the smaller of its largest Jaccard similarities to populations of fits to
    two halves of the cells."""
    if len(points) < _FEWEST_HALVED:
        return np.full(found.n_populations, np.nan)
    own, similar = found.members[found.model.predict(points)], []
    side = np.random.default_rng(seed).permutation(len(points)) % 2
    for half in range(2):
        other = made(points[side == half], f"half-{half + 1}-")
        both = np.zeros((found.n_populations, other.n_populations))
        np.add.at(both, (own, other.members[other.model.predict(points)]), 1.0)
        either = both.sum(axis=1, keepdims=True) + both.sum(axis=0) - both
        similar.append((both / np.maximum(either, 1.0)).max(axis=1))
    return np.min(similar, axis=0)


def _with_rare(model, points, n_worst, options, checkpoint, client):
    """Return a mixture after EM from the components of `model` together with the narrow ones of a mixture of
    the cells that `model` describes worst."""
    n, p = points.shape
    prior = replace(model.prior_, scale=_GENEROUS * model.prior_.scale)
    worst = points[np.argpartition(model.score_samples(points), n_worst)[:n_worst]]
    wider = replace(prior, scale=_WORST_WIDER * prior.scale)
    theirs = DirichletMixture(min(_RARE_COMPONENTS, n_worst), prior=wider, **options).fit(worst)
    widest = np.linalg.slogdet(model.prior_.scale)[1] + _WIDE * p
    narrow = log_dets(theirs.covariance, theirs.precisions_cholesky_, p) < widest
    parts = [_active(model, n, n - n_worst, True), _active(theirs, n_worst, n_worst, narrow)]
    weights, means, covariances = map(np.concatenate, zip(*parts))
    first = {"weights_init": weights / weights.sum(), "means_init": means, "covariances_init": covariances}
    both = DirichletMixture(len(weights), prior=prior, **first, **options)
    return both.fit(points, checkpoint=checkpoint, client=client)


def _active(model, n_fitted, n_cells, some):
    """Return the numbers of cells, means and covariances of some components of a mixture, those that have
    enough of the fitted cells for a covariance, if the mixture has n_cells."""
    some = some & (model.weights_ * n_fitted > model.means_.shape[1] + 1.0)
    return model.weights_[some] * n_cells, model.means_[some], model.covariances_[some]
