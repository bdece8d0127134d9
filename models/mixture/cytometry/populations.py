"""A mixture of cells and its populations, which label samples of its panel and count the cells of files."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...shared import Array, Names, PathLike, Result, Store, bar, check_count
from ..checks import check_random_state
from ..estimator import DirichletMixture
from .files import read
from .labels import Labels, Tally
from .merging import LEAST_CELLS, Join, Merging, merge
from .panel import Panel, Scale
from .samples import Sample
from .signatures import signatures

_AT_ONCE = 1 << 17  # cells whose probabilities are in memory at a time


class Populations(Result, eq=False):
    """Populations of cells: groups of the components of a mixture.

    Parameters
    ----------
    panel : Panel
    model : DirichletMixture, fitted
    members : ndarray of int, shape (n_components,)
        The population of each component.
    names, signatures : tuples of str
        Names of the populations: the markers that cells carry, and all markers with + or -.
    medians : ndarray, shape (n_populations, n_channels)
        Medians of the compensated intensities of the cells that were fitted.
    cells : ndarray of int, shape (n_populations,)
        Number of fitted cells in each population.
    joins : tuple of Join
    stability : ndarray, shape (n_populations,), optional
        Similarity of each population to one of the fits to halves of the cells, 0 to 1; see `fit`.
    """

    panel: Panel
    model: DirichletMixture
    members: Array
    names: Names
    signatures: Names
    medians: Array
    cells: Array
    joins: tuple[Join, ...] = ()
    stability: Array | None = None

    @property
    def n_populations(self) -> int:
        return len(self.names)

    def predict(self, sample: Sample, *, probabilities: bool = False) -> Labels:
        """Return the population of each cell of a sample.

        Parameters
        ----------
        sample : Sample
            A sample with the panel's channels, in any order, and possibly others.
        probabilities : bool, default False
            Whether to store the probabilities of every population.

        Returns
        -------
        Labels
            The label is -1 for cells that are saturated in a detector, or have a value that is not a number.

        Raises
        ------
        InputError
            The sample lacks a channel.
        """
        points, good = self.panel.points(sample)
        n, used = sample.n_cells, np.flatnonzero(good)
        population, component, highest = np.full(n, -1), np.full(n, -1), np.zeros(n)
        every = np.zeros((n, self.n_populations), np.float32) if probabilities else None
        for begin in range(0, len(used), _AT_ONCE):
            at = used[begin : begin + _AT_ONCE]
            of_components = self.model.predict_proba(points[at])
            own = of_components @ np.eye(self.n_populations)[self.members]
            population[at], highest[at] = own.argmax(axis=1), np.minimum(own.max(axis=1), 1.0)
            component[at] = np.where(self.members == population[at, None], of_components, -1.0).argmax(axis=1)
            if probabilities:
                every[at] = own
        return Labels(sample.name, population, highest, component, self.names, every)

    def merged(
        self,
        samples: Sequence[Sample],
        method: Merging = "entropy",
        n_populations: int | None = None,
        least_cells: int = LEAST_CELLS,
        least_share: float = 0.0,
    ) -> Populations:
        """Return the same mixture with other populations.

        Parameters
        ----------
        samples : sequence of Sample
            Samples whose cells determine which components are distinguished.
        method, n_populations, least_cells, least_share
            As in `merge`.

        Returns
        -------
        Populations

        Raises
        ------
        InputError
            An option is out of its range, or a sample is of another panel.
        """
        how = method, n_populations, least_cells, least_share
        return populations_of(self.panel, self.model, pooled(self.panel, samples), how)

    @classmethod
    def load(cls, path: PathLike, *, space: str | None = None) -> Populations:
        """Load the populations that `save` wrote.

        Parameters
        ----------
        path : path
        space : str or Space, optional
            Where to compute; the default space if not given.

        Returns
        -------
        Populations

        Raises
        ------
        InputError
            The file does not exist, was not written by `save`, or is of a later version.
        """
        found = super().load(path)
        found.model.space = space
        return found

    @classmethod
    def _of(cls, fields):
        found, (k, p) = cls(**fields), fields["model"].means_.shape
        n, panel, members = found.n_populations, found.panel, found.members
        fits = members.shape == (k,) and set(members.tolist()) == set(range(n))
        if not fits or found.medians.shape != (n, p) or len(panel.channels) != p:
            raise ValueError(f"{k} components, {n} populations, {p} channels")
        return found

    @classmethod
    def _earlier(cls, header, arrays):
        """Read a file of an earlier format: that of the mixture, with text and arrays of the panel and the
        populations in addition."""
        if "cytometry" not in arrays:
            return None
        about = json.loads(str(arrays["cytometry"]))
        centres, spreads, members, medians, cells = (
            arrays[f"cytometry.{name}"] for name in ("centres", "spreads", "members", "medians", "cells")
        )
        used = about["compensation"]
        if not isinstance(used, str):
            used = tuple(used), arrays["cytometry.spillover"]
        scales = tuple(Scale(kind, tuple(numbers)) for kind, *numbers in about["scales"])
        names = tuple(about["channels"]), tuple(about["names"])
        panel = Panel(*names, scales, centres, spreads, used, about["saturation"])
        own = {key: tuple(about[old]) for key, old in (("names", "populations"), ("signatures",) * 2)}
        joins = tuple(Join(tuple(map(tuple, both)), left, n) for both, left, n in about["joins"])
        own |= {"members": members, "medians": medians, "cells": cells, "joins": joins}
        model = DirichletMixture._earlier(header, arrays)
        return cls._of({"panel": panel, "model": model, **own})


def populations_of(panel, model, points, how):
    """Return the populations of a mixture that was fitted to points of a panel; `how` holds arguments of
    `merge`."""
    members, joins = merge(model, points, *how)
    own, n = members[model.predict(points)], members.max() + 1
    cells = np.bincount(own, minlength=n)
    # A population to which no cell is assigned gets the mean of its components instead of a median, and the
    # deviations of other populations.
    of = model.weights_ * (members == np.arange(n)[:, None])
    medians = of @ model.means_ / of.sum(axis=1, keepdims=True)
    deviations = np.full(medians.shape, np.nan)
    for number in np.flatnonzero(cells):
        its = points[own == number]
        medians[number], deviations[number] = np.median(its, axis=0), its.std(axis=0)
    deviations = np.where(np.isnan(deviations), np.nanmedian(deviations, axis=0), deviations)
    names, whole = signatures(medians, deviations, panel.names)
    found = panel.intensities(medians)
    return Populations(panel, model, members, tuple(names), tuple(whole), found, cells, tuple(joins))


def pooled(panel, samples, cells_per_sample=None, random_state=0):
    """Return the points of all samples, shape (n, n_channels), at most `cells_per_sample` of each."""
    most = np.inf if cells_per_sample is None else check_count(cells_per_sample, "cells_per_sample")
    random, parts = check_random_state(random_state), []
    for sample in samples:
        points, good = panel.points(sample)
        use = np.flatnonzero(good)
        if len(use) > most:
            use = np.sort(random.choice(use, most, replace=False))
        parts.append(points[use])
    return np.concatenate(parts)


def tally(
    populations: Populations,
    paths: Sequence[PathLike],
    *,
    prepare: Callable[[Sample], Sample] | None = None,
    write: Callable[[Sample, Labels], None] | None = None,
    probabilities: bool = False,
    checkpoint: PathLike | None = None,
    progress: bool = False,
) -> list[Tally]:
    """Count the cells of each population in many files, of which one is in memory at a time.

    Parameters
    ----------
    populations : Populations
    paths : sequence of paths
    prepare : callable, optional
        Called with each sample, returns the sample to label instead, such as `clean`.
    write : callable, optional
        Called with each sample and its labels.
    probabilities : bool, default False
        Whether these labels have the probabilities of every population.
    checkpoint : path, optional
        A folder of the results of each file, from which the same call continues. A file that has
        changed is read again; more files may be added.
    progress : bool, default False
        Show a bar of files on standard error.

    Returns
    -------
    list of Tally, one of each file

    Raises
    ------
    InputError
        A file cannot be read, or lacks a channel; the checkpoint belongs to another mixture, or is in use.
    StorageError
        The checkpoint cannot be written.
    """
    model = populations.model
    settings = {name: getattr(model, name) for name in ("weights_", "means_", "covariances_")}
    settings |= {"members": populations.members, "channels": populations.panel.channels}
    settings |= {"prepare": prepare, "probabilities": probabilities, "write": write is not None}

    def label(path):
        sample = read(path)
        used = sample if prepare is None else prepare(sample)
        labels = populations.predict(used, probabilities=probabilities)
        if write is not None:
            write(sample, labels)
        return labels.tally(len(model.weights_))

    found = []
    with bar(progress) as shown, Store(checkpoint, "cytometry.tally", settings) as store:
        task = shown.add_task("files", total=len(paths))
        for path in paths:
            found.append(_counted(store, path, label, populations.names))
            shown.advance(task)
    return found


def _counted(store, path, label, names):
    """Return the tally of a file: the stored one, unless the file's size or modification time has changed."""
    whole, about = Path(path).absolute(), []
    part = f"file-{hashlib.sha256(str(whole).encode()).hexdigest()[:24]}"
    with contextlib.suppress(OSError):  # `read` raises the error
        found = whole.stat()
        about = [found.st_size, found.st_mtime_ns]
    kept = store.get(part)
    if kept is not None and kept["about"].tolist() == about:
        sample, n_cells, n_left_out = str(kept["name"]), *kept["cells"].tolist()
        return Tally(sample, n_cells, n_left_out, kept["counts"], kept["components"], names)
    own = label(path)
    arrays = {"about": about, "name": own.sample, "cells": [own.n_cells, own.n_left_out]}
    arrays |= {"counts": own.counts, "components": own.components}
    store.put(part, **{name: np.array(value) for name, value in arrays.items()})
    return own
