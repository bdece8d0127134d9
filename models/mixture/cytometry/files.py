"""Samples and matrices from files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from portable.errors import InputError, printable

from ...shared.checks import check_count
from ...shared.files import check_file, numbers, read_csv, read_npz
from ...shared.warned import warn
from ...shared.annotations import PathLike
from .fcs import read_fcs
from .samples import Sample, check_spillover, numbered

KINDS = (".fcs", ".lmd", ".npz", ".csv", ".csv.gz")


def read(path: PathLike, *, data_set: int | None = None) -> Sample:
    """Read a sample.

    Parameters
    ----------
    path : path
        FCS 2.0 to 3.2, a .csv or .csv.gz file whose first line names the channels, or an
        .npz file with X, shape (n_cells, n_channels), `channels`, and `markers` if known. Integer channels
        of FCS, and those on a logarithmic amplifier, are put on their linear scale.
    data_set : int, optional
        Which of several data sets of an FCS file, from 1.

    Returns
    -------
    Sample
        Called as the file is, without its ending.

    Raises
    ------
    InputError
        No such file, not one of these kinds, damaged, ambiguous, or of several data sets where none is
        chosen; the message names it.

    Warns
    -----
    UserWarning
        Something in an FCS file is doubtful; the message says how it was read.
    """
    kind, path, name = check_file(path, KINDS), Path(path), stem_of(path)
    if data_set is not None:
        check_count(data_set, "data_set", 1)
        if kind not in (".fcs", ".lmd"):
            raise InputError(f"data_set is {data_set}, but '{path}' is no FCS file, which alone has several")
    with _naming(path):
        if kind in (".fcs", ".lmd"):
            return read_fcs(path, name, data_set)
        return Sample(*(_of_arrays(path) if kind == ".npz" else _of_table(path)), name)


def stem_of(path):
    """Return the name of a sample in a file: the file's without its ending."""
    name = Path(path).name
    kind = next((kind for kind in KINDS[::-1] if name.lower().endswith(kind)), "")
    return printable(name.removesuffix(name[len(name) - len(kind) :]))


def _of_arrays(path):
    """X, channels and markers of an .npz file."""
    data = read_npz(path, lambda names: {"X", "channels", "markers"}.intersection(names))
    if "X" not in data or "channels" not in data:
        raise InputError(
            f"'{path}' holds {', '.join(sorted(data)) or 'nothing'}; 'X' and 'channels' are wanted"
        )
    if data["X"].dtype.kind not in "fiu":
        raise InputError(f"'{path}': X has dtype {data['X'].dtype}; numbers are wanted")
    named = (np.ravel(data.get(name, [])) for name in ("channels", "markers"))
    return data["X"], *(tuple(printable(word).strip() for word in words) for words in named)


def _of_table(path):
    """X, channels and no markers of a .csv file."""

    def rename(names):
        found, notes = numbered(names)
        for note in notes:
            warn(f"'{path}': {printable(note)}", UserWarning)
        return found

    columns = read_csv(path, rename=rename)
    channels = tuple(map(printable, columns))
    if not all(channels):
        raise InputError(
            f"'{path}', cell {channels.index('') + 1} of the header is empty; names of channels are wanted"
        )
    return _stacked(columns, path), channels, ()


def _stacked(columns, path):
    return np.column_stack([numbers(column, name, path) for name, column in columns.items()] or [[]])


def read_spillover(path: PathLike) -> tuple[tuple[str, ...], np.ndarray]:
    """Return channels and spillover matrix of a .csv file: a line of names, and a line for each of them,
    perhaps with its name in front.

    Raises
    ------
    InputError
        No such file, or no square table of numbers with an inverse.
    """
    check_file(path, (".csv",))
    columns = read_csv(path)
    rows = next(iter(columns.values()), [])
    names = list(columns)
    if len(names) == len(rows) + 1 and [row.strip() for row in rows] == names[1:]:
        del columns[names[0]]
    with _naming(path):
        return check_spillover("spillover", tuple(columns), _stacked(columns, path))


@contextlib.contextmanager
def _naming(path):
    """Messages that do not name the file yet begin with it."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"'{path}': {error}") from error
