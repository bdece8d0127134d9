"""Write tables of components, populations and samples as CSV."""

import numpy as np

from ...shared import write_csv
from .. import covariance
from .labels import shares


def _titled(names, what, values):
    """Return the columns of a table, named by `names` followed by `what`."""
    return {f"{name}{what}": own for name, own in zip(names, values.T)}


def write_components(path, populations, tallies):
    """Write weights, means and deviations of all components on the channels' scales, the largest first.

    Parameters
    ----------
    path : path
    populations : Populations
    tallies : sequence of Tally
        Counts of the samples' cells.
    """
    model, panel = populations.model, populations.panel
    k, p = model.means_.shape
    cells = sum(own.components for own in tallies)
    variances = covariance.variances(model.covariance, model.covariances_, k, p)
    columns = {"component": np.arange(k), "population": populations.members, "weight": model.weights_}
    columns |= {"cells": cells} | _titled(panel.names, " mean", panel.centres + panel.spreads * model.means_)
    columns |= _titled(panel.names, " deviation", panel.spreads * np.sqrt(variances))
    order = np.argsort(-model.weights_)
    write_csv(path, "--out", {name: own[order] for name, own in columns.items()})


def write_populations(path, populations):
    """Write the names, components and numbers of fitted cells of populations, and medians of compensated
    intensities."""
    names, cells = populations.names, populations.cells
    numbers = np.arange(len(names))
    members = [" ".join(map(str, np.flatnonzero(populations.members == number))) for number in numbers]
    columns = {"population": numbers, "name": np.array(names), "signature": np.array(populations.signatures)}
    columns |= {"components": np.array(members), "cells": cells, "share": cells / max(cells.sum(), 1)}
    if populations.stability is not None:
        columns["stability"] = populations.stability
    write_csv(path, "--out", columns | _titled(populations.panel.names, " median", populations.medians))


def write_shares(path, labels):
    """Write, for each sample, the number of cells, the number of cells left out, and each population's cells
    and share of the cells used."""
    names, counts = labels[0].names, np.array([own.counts for own in labels])
    columns = {"sample": np.array([own.sample for own in labels])}
    columns["cells"] = np.array([own.n_cells for own in labels])
    columns["left out"] = np.array([own.n_left_out for own in labels])
    write_csv(
        path, "--out", columns | _titled(names, ": cells", counts) | _titled(names, ": share", shares(labels))
    )
