"""Label the cells of many files one after the other, and store the counts of each so that an interrupted run
continues."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...shared import PathLike, Store, bar
from .files import read
from .labels import Labels, Tally
from .populations import Populations
from .samples import Sample


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
