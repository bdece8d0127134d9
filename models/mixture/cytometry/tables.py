"""Tables of components, populations and samples, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

import numpy as np

from ...shared.files import replacing
from ...shared.annotations import PathLike
from .. import covariance
from .labels import Labels, shares
from .populations import Populations


def write_components(path: PathLike, populations: Populations, labels: Sequence[Labels]) -> None:
    """Weights, means and deviations of all components on the channels' scales, the largest first.

    Parameters
    ----------
    path : path
    populations : Populations
    labels : sequence of Labels
        Of the samples, whose cells are counted.
    """
    model, panel = populations.model, populations.panel
    k, p = model.means_.shape
    cells = sum(np.bincount(own.component[own.component >= 0], minlength=k) for own in labels)
    means = panel.centres + panel.spreads * model.means_
    deviations = panel.spreads * np.sqrt(covariance.variances(model.covariance, model.covariances_, k, p))
    header = [
        "component",
        "population",
        "weight",
        "cells",
        *(f"{name} mean" for name in panel.names),
        *(f"{name} deviation" for name in panel.names),
    ]
    _write(
        path,
        header,
        (
            [j, populations.members[j], model.weights_[j], cells[j], *means[j], *deviations[j]]
            for j in np.argsort(-model.weights_)
        ),
    )


def write_populations(path: PathLike, populations: Populations) -> None:
    """Names, components, cells that were fitted, and medians of compensated intensities."""
    names = populations.panel.names
    total = max(populations.cells.sum(), 1)
    _write(
        path,
        [
            "population",
            "name",
            "signature",
            "components",
            "cells",
            "share",
            *(f"{name} median" for name in names),
        ],
        (
            [
                number,
                name,
                populations.signatures[number],
                " ".join(map(str, np.flatnonzero(populations.members == number))),
                populations.cells[number],
                populations.cells[number] / total,
                *populations.medians[number],
            ]
            for number, name in enumerate(populations.names)
        ),
    )


def write_shares(path: PathLike, labels: Sequence[Labels]) -> None:
    """Of each sample the cells, those that were left out, and each population's cells and share of the
    others."""
    header = [
        "sample",
        "cells",
        "left out",
        *(f"{name}: {what}" for what in ("cells", "share") for name in labels[0].names),
    ]
    _write(
        path,
        header,
        (
            [own.sample, len(own.population), own.n_left_out, *own.counts, *share]
            for own, share in zip(labels, shares(labels))
        ),
    )


def _write(path, header: list[str], rows: Iterable[list]) -> None:
    with replacing(path, "--out") as beside, beside.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(header)
        lines.writerows(rows)
