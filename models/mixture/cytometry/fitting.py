"""Populations of samples of which nothing is known: a mixture of their cells, and one of those that it
misses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..estimator import DirichletMixture
from .merging import check_merging
from .panel import Panel
from .populations import Populations, pooled, populations_of
from .samples import Sample

_WORST = 0.02  # share of the cells, those of least density, among which rare populations are looked for
_RARE_COMPONENTS = 30  # offered to these
_GENEROUS = (
    5.0  # how much wider than components are the prior then expects them: they cost less, so more are kept
)
_TOL = 1e-5  # growth of the objective a cell at which EM ends: populations are settled by then
_LEAST_CELLS = 5  # for each coordinate


def fit(
    samples: Sequence[Sample],
    n_components: int = 60,
    *,
    panel: Panel | None = None,
    method: str = "entropy",
    n_populations: int | None = None,
    cells_per_sample: int | None = None,
    rare: bool = True,
    covariance: str = "full",
    n_init: int = 1,
    init_params: str = "k-means++",
    max_iter: int = 1000,
    random_state: int = 0,
    dtype: type = np.float64,
    space: str | None = None,
    checkpoint: str | os.PathLike | None = None,
    client: object = None,
) -> Populations:
    """Populations of the cells of one or several samples.

    Parameters
    ----------
    samples : sequence of Sample
        Stained and measured alike; their cells are fitted together.
    n_components : int
        At most so many, offered to a mixture under a prior; see `DirichletMixture`.
    panel : Panel, optional
        Channels, compensation, scales; `Panel.of(samples)` if not given.
    method, n_populations
        How components become populations; see `merge`.
    cells_per_sample : int, optional
        Fit at most so many cells of each sample, drawn at random, so that large samples do not outweigh small
        ones.
    rare : bool, default True
        Whether to look for rare populations: the two per cent of the cells that the mixture describes worst
        are fitted by one of their own, and with its components EM goes on from both, under a prior by which
        they cost less. Not with tied covariances.
    covariance, n_init, init_params, max_iter, random_state
        As in `DirichletMixture`.
    dtype : np.float64 or np.float32
    space : str or Space, optional
    checkpoint : path, optional
        A folder from which the same call goes on.
    client : distributed.Client or "local", optional
        As in `DirichletMixture.fit`.

    Returns
    -------
    Populations

    Raises
    ------
    InputError
        From `Panel.of`, `DirichletMixture.fit` or `merge`, before anything is computed.

    Warns
    -----
    ConvergenceWarning
    """
    check_merging(method, n_populations)
    panel = Panel.of(samples) if panel is None else panel
    points = pooled(panel, samples, cells_per_sample, random_state).astype(dtype)
    options = {"covariance": covariance, "max_iter": max_iter, "tol": _TOL, "random_state": random_state}
    options["space"] = space
    first, second = _folders(checkpoint)
    model = DirichletMixture(n_components, n_init=n_init, init_params=init_params, **options)
    model.fit(points, checkpoint=first, client=client)
    n_worst = round(_WORST * len(points))
    if rare and covariance != "tied" and n_worst >= _LEAST_CELLS * (points.shape[1] + 1):
        model = _with_rare(model, points, n_worst, options, second, client)
    return populations_of(panel, model, points, method, n_populations)


def _folders(checkpoint):
    """Of both stages, in a folder that is made where there is none."""
    if checkpoint is None:
        return None, None
    folder = Path(checkpoint)
    if not folder.exists() and folder.absolute().parent.is_dir():
        folder.mkdir()
    return folder / "first", folder / "rare"


def _with_rare(model, points, n_worst, options, checkpoint, client):
    """EM that goes on from the mixture's components and those of a mixture of the cells that it describes
    worst."""
    prior = replace(model.prior_, scale=_GENEROUS * model.prior_.scale)
    worst = points[np.argpartition(model.score_samples(points), n_worst)[:n_worst]]
    theirs = DirichletMixture(min(_RARE_COMPONENTS, n_worst), prior=prior, **options).fit(worst)
    weights, means, covariances = [], [], []
    for own, n in ((model, len(points)), (theirs, n_worst)):
        active = own.weights_ * n > points.shape[1] + 1.0
        weights.append(own.weights_[active] * (n_worst if own is theirs else len(points) - n_worst))
        means.append(own.means_[active])
        covariances.append(own.covariances_[active])
    weights = np.concatenate(weights)
    both = DirichletMixture(
        len(weights),
        prior=prior,
        weights_init=weights / weights.sum(),
        means_init=np.concatenate(means),
        covariances_init=np.concatenate(covariances),
        **options,
    )
    return both.fit(points, checkpoint=checkpoint, client=client)
