"""Labels of single cells by population: count them, and write them for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...shared import Array, InputError, Names, PathLike, Result, ShapeError, need, replacing, write_csv
from .fcs import write
from .samples import Sample

if TYPE_CHECKING:
    from .panel import Panel

FORMATS = {
    "fcs": None,
    "csv": None,
    "parquet": ("pyarrow.parquet", "files"),
    "h5ad": ("anndata", "anndata"),
}  # with the module that each format requires, and the extra that installs it


class Tally(Result, eq=False):
    """Counts of a sample's cells by population and component.

    Parameters
    ----------
    sample : str
    n_cells, n_left_out : int
    counts : ndarray of int, shape (n_populations,)
    components : ndarray of int, shape (n_components,)
    names : tuple of str
        Names of the populations.
    """

    sample: str
    n_cells: int
    n_left_out: int
    counts: Array
    components: Array
    names: Names


class Labels(Result, eq=False):
    """The population of each cell of a sample.

    Parameters
    ----------
    sample : str
        The sample's name.
    population : ndarray of int, shape (n_cells,)
        -1 for cells that were left out: saturated, or with a value that is not a number.
    probability : ndarray, shape (n_cells,)
        Probability of that population; 0 for cells that were left out.
    component : ndarray of int, shape (n_cells,)
        The most probable component of that population.
    names : tuple of str
        Names of the populations.
    probabilities : ndarray of float32, shape (n_cells, n_populations), optional
        Probability of every population.
    """

    sample: str
    population: Array
    probability: Array
    component: Array
    names: Names
    probabilities: Array | None = None

    @property
    def counts(self) -> Array:
        """The number of cells of each population, shape (n_populations,)."""
        return np.bincount(self.population[self.population >= 0], minlength=len(self.names))

    @property
    def n_cells(self) -> int:
        return len(self.population)

    @property
    def n_left_out(self) -> int:
        return int((self.population < 0).sum())

    def tally(self, n_components: int) -> Tally:
        """Return the numbers of cells of the sample, its populations and its components."""
        components = np.bincount(self.component[self.component >= 0], minlength=n_components)
        return Tally(self.sample, self.n_cells, self.n_left_out, self.counts, components, self.names)

    def columns(self) -> dict[str, Array]:
        """Return the columns that are written for each cell, by name."""
        found = {"population": self.population, "probability": self.probability, "component": self.component}
        each = () if self.probabilities is None else self.probabilities.T
        return found | {f"probability {number}": own for number, own in enumerate(each)}

    def write(self, path: PathLike, sample: Sample | None = None, panel: Panel | None = None) -> None:
        """Write the labels to a file whose ending determines its format. The file is written completely or
        not at all.

        Parameters
        ----------
        path : path
            .fcs: the sample's channels and keywords, the labels as additional channels, and the populations'
            names as keywords POPULATION_0, ...; .csv and .parquet: a row for each cell, with its population's
            name; .h5ad: an AnnData object of the transformed intensities.
        sample : Sample, optional
            The labelled sample, required for .fcs and .h5ad.
        panel : Panel, optional
            The panel of the populations, required for .h5ad.

        Raises
        ------
        InputError, ShapeError
            The ending is none of these; a library is not installed; the sample is missing, or another one.
        StorageError
            The file cannot be written.
        """
        kind = Path(path).suffix.lower().lstrip(".")
        if kind not in FORMATS:
            raise InputError(f"path is '{path}'; expected an ending of {', '.join(FORMATS)}")
        columns = self.columns()
        named = columns | {"name": np.array([*self.names, ""], object)[self.population]}
        if kind == "fcs":
            self._check_sample(sample, kind)
            write(sample, path, columns, {f"population_{n}": name for n, name in enumerate(self.names)})
        elif kind == "csv":
            write_csv(path, "path", {"cell": np.arange(self.n_cells), **named})
        elif kind == "parquet":
            library = need(*FORMATS[kind], "Parquet files")
            table = need("pyarrow", "files", "Parquet files").table(named)
            with replacing(path, "path") as beside:
                library.write_table(table, beside)
        else:
            found = self.to_anndata(sample, panel)
            with replacing(path, "path") as beside:
                found.write_h5ad(beside)

    def to_anndata(self, sample: Sample, panel: Panel):
        """Return an anndata.AnnData: X the transformed intensities, obs the labels, layers["raw"] the
        compensated intensities.

        Cells that were left out have NaN in X.
        """
        anndata, pandas = (need(name, "anndata", "AnnData objects") for name in ("anndata", "pandas"))
        self._check_sample(sample, "h5ad")
        if panel is None:
            raise InputError("panel is None; expected the panel of the populations for an AnnData object")
        points, good = panel.points(sample)
        points[~good] = np.nan
        obs = pandas.DataFrame(replace(self, probabilities=None).columns())
        obs["name"] = pandas.Categorical.from_codes(self.population, list(self.names))
        obs["sample"] = pandas.Categorical([self.sample] * len(obs))
        obs.index = obs.index.astype(str)
        var = pandas.DataFrame({"channel": list(panel.channels)}, index=list(panel.names))
        found = anndata.AnnData(X=points * panel.spreads + panel.centres, obs=obs, var=var)
        found.layers["raw"] = panel.values(sample)[0]
        if self.probabilities is not None:
            found.obsm["probabilities"] = self.probabilities
        return found

    def _check_sample(self, sample, kind):
        if sample is None:
            raise InputError(f"sample is None; expected the sample that was labelled for .{kind}")
        if sample.n_cells != len(self.population):
            raise ShapeError(
                f"sample '{sample.name}' has {sample.n_cells} cells, but {self.n_cells} of '{self.sample}' "
                "were labelled"
            )


def shares(labels: Sequence[Labels | Tally]) -> Array:
    """Return the share of each population among the cells that were not left out, shape (n_samples,
    n_populations)."""
    if not len(labels):
        raise InputError("labels is empty; expected those of at least one sample")
    counts = np.array([own.counts for own in labels], np.float64)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
