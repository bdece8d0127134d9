"""A mixture of cells with its populations: fitted, kept in a file, and used on other samples."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from portable.errors import InputError

from ...checks import check_count
from .. import saving
from ..checks import check_random_state
from ..estimator import DirichletMixture
from .labels import Labels
from .merging import Join, check_merging, merge
from .panel import Panel, Scale
from .samples import Sample
from .signatures import signatures

_WORST = 0.02  # share of the cells, those of least density, among which rare populations are looked for
_RARE_COMPONENTS = 30  # offered to these
_GENEROUS = 5.0  # how much wider than components are the prior then expects them: they cost less, and more are kept
_TOL = 1e-5  # growth of the objective a cell at which EM ends: populations are settled by then
_LEAST_CELLS = 5  # for each coordinate
_AT_ONCE = 1 << 17  # cells whose probabilities are held together
VERSION = 1


@dataclass(frozen=True, eq=False)
class Populations:
    """Populations of cells: groups of the components of a mixture.

    Parameters
    ----------
    panel : Panel
    model : DirichletMixture, fitted
    members : ndarray of int, shape (n_components,)
        The population of each component.
    names, signatures : tuples of str
        Of the populations: the markers that cells carry, and all markers with + or -.
    medians : ndarray, shape (n_populations, n_channels)
        Of the intensities, compensated, of the cells that were fitted.
    cells : ndarray of int, shape (n_populations,)
        How many they were.
    joins : tuple of Join
    """

    panel: Panel
    model: DirichletMixture
    members: np.ndarray
    names: tuple[str, ...]
    signatures: tuple[str, ...]
    medians: np.ndarray
    cells: np.ndarray
    joins: tuple[Join, ...] = ()

    @property
    def n_populations(self) -> int:
        return len(self.names)

    def predict(self, sample: Sample, *, probabilities: bool = False) -> Labels:
        """The population of each cell of a sample.

        Parameters
        ----------
        sample : Sample
            Of the panel's channels, in any order and with others beside them.
        probabilities : bool, default False
            Whether to keep those of every population.

        Returns
        -------
        Labels
            -1 for cells that are saturated in some detector, or hold no number.

        Raises
        ------
        InputError
            The sample lacks a channel.
        """
        points, good = self.panel.points(sample)
        n, use = sample.n_cells, np.flatnonzero(good)
        population, component = np.full(n, -1), np.full(n, -1)
        highest = np.zeros(n)
        every = np.zeros((n, self.n_populations), np.float32) if probabilities else None
        into = np.eye(self.n_populations)[self.members]
        for start in range(0, len(use), _AT_ONCE):
            at = use[start:start + _AT_ONCE]
            of_components = self.model.predict_proba(points[at])
            own = of_components @ into
            population[at] = own.argmax(axis=1)
            highest[at] = np.minimum(own.max(axis=1), 1.0)
            component[at] = np.where(self.members == population[at, None], of_components, -1.0).argmax(axis=1)
            if probabilities:
                every[at] = own
        return Labels(sample.name, population, highest, component, self.names, every)

    def merged(self, samples: Sequence[Sample], method: str = "entropy", n_populations: int | None = None) -> Populations:
        """The same mixture with other populations; see `merge`."""
        return _merged(self.panel, self.model, _pooled(self.panel, samples, None, 0), method, n_populations)

    def save(self, path: str | os.PathLike) -> None:
        """Write all to a file of arrays and text; `DirichletMixture.load` reads its mixture, too.

        Raises
        ------
        InputError, StorageError
            There is no folder for it; it cannot be written.
        """
        panel = self.panel
        given = not isinstance(panel.compensation, str)
        header = {"version": VERSION, "channels": panel.channels, "names": panel.names, "populations": self.names,
                  "scales": [[scale.kind, *scale.numbers] for scale in panel.scales], "saturation": panel.saturation,
                  "compensation": panel.compensation[0] if given else panel.compensation, "signatures": self.signatures,
                  "joins": [[join.components, join.uncertainty, join.n_groups] for join in self.joins]}
        arrays = {"centres": panel.centres, "spreads": panel.spreads, "members": self.members, "medians": self.medians,
                  "cells": self.cells} | ({"spillover": panel.compensation[1]} if given else {})
        saving.save(self.model, path, {f"cytometry.{name}": value for name, value in arrays.items()}
                    | {"cytometry": np.array(json.dumps(header))})


def load(path: str | os.PathLike, space: str | None = None) -> Populations:
    """What `Populations.save` wrote.

    Parameters
    ----------
    path : path
    space : str or Space, optional
        Where to compute; the default space if not given.

    Raises
    ------
    InputError
        No such file, not one of `save`, or of a later version.
    """
    model, more = saving.load_with(DirichletMixture, path)
    model.space = space
    try:
        header, arrays = json.loads(str(more["cytometry"])), {name: more[f"cytometry.{name}"] for name in (
            "centres", "spreads", "members", "medians", "cells")}
        if header["version"] > VERSION:
            raise InputError(f"{path} has version {header['version']} of the format; this release reads up to {VERSION}")
        compensation = header["compensation"]
        if not isinstance(compensation, str):
            compensation = tuple(compensation), more["cytometry.spillover"]
        scales = tuple(Scale(kind, tuple(numbers)) for kind, *numbers in header["scales"])
        panel = Panel(tuple(header["channels"]), tuple(header["names"]), scales, arrays["centres"], arrays["spreads"], compensation,
                      header["saturation"])
        k, p = model.means_.shape
        names = tuple(header["populations"])
        if arrays["members"].shape != (k,) or not {len(scales), len(panel.channels), *arrays["centres"].shape} == {p} or (
                arrays["medians"].shape != (len(names), p) or set(arrays["members"].tolist()) != set(range(len(names)))):
            raise ValueError(f"{k} components, {len(names)} populations, {p} channels")
        joins = tuple(Join(tuple(map(tuple, both)), uncertainty, left) for both, uncertainty, left in header["joins"])
    except (KeyError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} holds a mixture, but no populations that cytometry wrote: {type(error).__name__}: {error}") from error
    return Populations(panel, model, arrays["members"], names, tuple(header["signatures"]), arrays["medians"], arrays["cells"], joins)


def fit(samples: Sequence[Sample], n_components: int = 60, *, channels: Sequence[str] | None = None, transform: str = "arcsinh",
        cofactor: float | None = None, compensation: str | tuple = "file", saturation: float | None = None,
        covariance: str = "full", method: str = "entropy", n_populations: int | None = None, cells_per_sample: int | None = None,
        rare: bool = True, n_init: int = 1, init_params: str = "k-means++", max_iter: int = 1000, random_state: int = 0,
        dtype: type = np.float64, space: str | None = None, checkpoint: str | os.PathLike | None = None) -> Populations:
    """Populations of the cells of one or several samples, of which nothing is known.

    Parameters
    ----------
    samples : sequence of Sample
        Stained and measured alike; their cells are fitted together.
    n_components : int
        At most so many, offered to a mixture under a prior; see `DirichletMixture`.
    channels, transform, cofactor, compensation, saturation
        As in `Panel.of`.
    covariance : {"full", "tied", "diag", "spherical"}
    method, n_populations
        How components become populations; see `merge`.
    cells_per_sample : int, optional
        Fit at most so many cells of each sample, drawn at random, so that large samples do not outweigh small ones.
    rare : bool, default True
        Whether to look for rare populations: the two per cent of the cells that the mixture describes worst are fitted by
        one of their own, and with its components EM goes on from both, under a prior by which they cost less. Not with
        tied covariances.
    n_init, init_params, max_iter, random_state
        As in `DirichletMixture`.
    dtype : np.float64 or np.float32
    space : str or Space, optional
    checkpoint : path, optional
        A folder from which the same call goes on.

    Returns
    -------
    Populations

    Raises
    ------
    InputError
        From `Panel.of`, `DirichletMixture.fit` or `merge`, before anything is computed where possible.

    Warns
    -----
    ConvergenceWarning
    """
    check_merging(method, n_populations)
    panel = Panel.of(samples, channels=channels, transform=transform, cofactor=cofactor, compensation=compensation,
                     saturation=saturation)
    points = _pooled(panel, samples, cells_per_sample, random_state).astype(dtype)
    options = {"covariance": covariance, "max_iter": max_iter, "tol": _TOL, "random_state": random_state, "space": space}
    folders = [None if checkpoint is None else os.path.join(checkpoint, stage) for stage in ("first", "rare")]
    model = DirichletMixture(n_components, n_init=n_init, init_params=init_params, **options).fit(points, checkpoint=folders[0])
    n_worst = round(_WORST * len(points))
    if rare and covariance != "tied" and n_worst >= _LEAST_CELLS * (points.shape[1] + 1):
        model = _with_rare(model, points, n_worst, options, folders[1])
    return _merged(panel, model, points, method, n_populations)


def _with_rare(model, points, n_worst, options, checkpoint):
    """EM that goes on from the mixture's components and those of a mixture of the cells that it describes worst."""
    prior = replace(model.prior_, scale=_GENEROUS * model.prior_.scale)
    worst = points[np.argpartition(model.score_samples(points), n_worst)[:n_worst]]
    theirs = DirichletMixture(min(_RARE_COMPONENTS, n_worst), prior=prior, **options).fit(worst)
    share = n_worst / len(points)
    parts = [(own, np.flatnonzero(own.weights_ * n > points.shape[1] + 1.0), share_of)
             for own, n, share_of in ((model, len(points), 1.0 - share), (theirs, n_worst, share))]
    weights = np.concatenate([of * own.weights_[active] for own, active, of in parts])
    both = DirichletMixture(len(weights), prior=prior, weights_init=weights / weights.sum(),
                            means_init=np.concatenate([own.means_[active] for own, active, _ in parts]),
                            covariances_init=np.concatenate([own.covariances_[active] for own, active, _ in parts]), **options)
    return both.fit(points, checkpoint=checkpoint)


def _merged(panel, model, points, method, n_populations):
    members, joins = merge(model, points, method, n_populations)
    own = members[model.predict(points)]
    n = members.max() + 1
    cells = np.bincount(own, minlength=n)
    weights = np.bincount(members, model.weights_, n)[:, None]
    # A population that is no cell's most probable one has the mean of its components.
    middles = np.stack([np.bincount(members, model.weights_ * column, n) for column in model.means_.T], axis=1) / weights
    deviations = np.full(middles.shape, np.nan)
    for number in np.flatnonzero(cells):
        its = points[own == number]
        middles[number], deviations[number] = np.median(its, axis=0), its.std(axis=0)
    deviations = np.where(np.isnan(deviations), np.nanmedian(deviations, axis=0), deviations)
    names, whole = signatures(middles, deviations, panel.names)
    return Populations(panel, model, members, tuple(names), tuple(whole), panel.intensities(middles), cells, tuple(joins))


def _pooled(panel, samples, most, seed):
    """The points of all samples, shape (n, n_channels), at most so many of each."""
    if most is not None:
        check_count(most, "cells_per_sample", 1)
    random, parts = check_random_state(seed), []
    for sample in samples:
        points, good = panel.points(sample)
        use = np.flatnonzero(good)
        if most is not None and len(use) > most:
            use = np.sort(random.choice(use, most, replace=False))
        parts.append(points[use])
    return np.concatenate(parts)
