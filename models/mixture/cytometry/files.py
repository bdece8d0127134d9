"""Read samples and spillover matrices from files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from ...shared import (
    InputError,
    Names,
    PathLike,
    check_count,
    check_file,
    numbers,
    printable,
    read_csv,
    read_npz,
    warn,
)
from .fcs import read_fcs
from .samples import Sample, check_spillover, numbered

KINDS = (".fcs", ".lmd", ".npz", ".csv", ".csv.gz")


def read(path: PathLike, *, data_set: int | None = None) -> Sample:
    """Read a sample from a file.

    Parameters
    ----------
    path : path
        FCS 2.0 to 3.2, a .csv or .csv.gz file whose first line names the channels, or an .npz file with X,
        shape (n_cells, n_channels), `channels`, and `markers` if known. Integer channels of FCS, including
        those of a logarithmic amplifier, are converted to a linear scale.
    data_set : int, optional
        Number of the data set, from 1, if an FCS file has several.

    Returns
    -------
    Sample
        Its name is that of the file without its ending.

    Raises
    ------
    InputError
        The file does not exist, has another format, is damaged or ambiguous, or has several data sets of
        which none is chosen; the message names the file.

    Warns
    -----
    UserWarning
        Something in an FCS file is doubtful; the message describes how it was read.
    """
    kind, path, name = check_file(path, KINDS), Path(path), stem_of(path)
    if data_set is not None:
        check_count(data_set, "data_set")
        if kind not in (".fcs", ".lmd"):
            raise InputError(f"data_set is {data_set}, but '{path}' is not FCS, the only format with several")
    with _naming(path):
        if kind in (".fcs", ".lmd"):
            return read_fcs(path, name, data_set)
        return Sample(*(_of_arrays(path) if kind == ".npz" else _of_table(path)), name)


def stem_of(path):
    """Return the name of the sample in a file: the file's name without its ending."""
    name = Path(path).name
    kind = next((kind for kind in KINDS[::-1] if name.lower().endswith(kind)), "")
    return printable(name.removesuffix(name[len(name) - len(kind) :]))


def _of_arrays(path):
    """Return X, channels and markers of an .npz file."""
    data = read_npz(path, lambda names: {"X", "channels", "markers"}.intersection(names))
    if "X" not in data or "channels" not in data:
        raise InputError(
            f"'{path}' holds {', '.join(sorted(data)) or 'nothing'}; expected 'X' and 'channels'"
        )
    if data["X"].dtype.kind not in "fiu":
        raise InputError(f"'{path}': X has dtype {data['X'].dtype}; expected numbers")
    named = (np.ravel(data.get(name, [])) for name in ("channels", "markers"))
    return data["X"], *(tuple(printable(word).strip() for word in words) for words in named)


def _of_table(path):
    """Return X, channels and no markers of a .csv file."""

    def rename(names):
        found, notes = numbered(names)
        for note in notes:
            warn(f"'{path}': {printable(note)}", UserWarning)
        return found

    columns = read_csv(path, rename=rename)
    channels = tuple(map(printable, columns))
    if not all(channels):
        raise InputError(
            f"'{path}', cell {channels.index('') + 1} of the header is empty; expected names of channels"
        )
    return _stacked(columns, path), channels, ()


def _stacked(columns, path):
    return np.column_stack([numbers(column, name, path) for name, column in columns.items()] or [[]])


def read_spillover(path: PathLike) -> tuple[Names, np.ndarray]:
    """Read channels and spillover matrix from a .csv file: a line of names, then a line for each channel,
    which may begin with its name.

    Raises
    ------
    InputError
        The file does not exist, or is not a square table of numbers with an inverse.
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
    """Put the file's name in front of error messages that do not yet contain it."""
    try:
        yield
    except InputError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"'{path}': {error}") from error
