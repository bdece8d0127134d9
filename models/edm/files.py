"""Tables from files: CSV, .npy and HDF5, as named columns."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from portable.errors import DTypeError, InputError, ShapeError

READERS = ".csv, .npy, .h5 or .hdf5"


def read(path, dataset=None):
    """A table as a dict of columns, name -> ndarray of float64, shape (n_times,).

    Parameters
    ----------
    path : str or Path
        .csv with a header (empty cells and NA are missing; columns that hold no numbers, such as dates, are left out),
        .npy of shape (n_times,) or (n_times, n_columns), or .h5/.hdf5 with such a dataset; columns without names are
        numbered from 0.
    dataset : str, optional
        Name of the HDF5 dataset; needed where the file holds several.

    Raises
    ------
    InputError, DTypeError, ShapeError
        The file is missing, of an unknown kind, or holds no numbers.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}")
    kind = path.suffix.lower()
    if kind == ".csv":
        return _read_csv(path)
    if kind == ".npy":
        array = np.load(path, mmap_mode="r")
    elif kind in (".h5", ".hdf5"):
        array = _read_hdf5(path, dataset)
    else:
        raise InputError(f"{str(path)!r} ends in {kind!r}; {READERS} is wanted")
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"{str(path)!r} must hold real numbers, got dtype {array.dtype}")
    if array.ndim not in (1, 2):
        raise ShapeError(f"{str(path)!r} has shape {array.shape}; (n_times,) or (n_times, n_columns) is wanted")
    columns = np.asarray(array, np.float64).reshape(len(array), -1)
    return {str(c): column for c, column in enumerate(columns.T)}


def _read_csv(path):
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    if len(rows) < 2:
        raise ShapeError(f"{str(path)!r} has {len(rows)} line(s); a header and at least one row are wanted")
    header = [name.strip() for name in rows[0]]
    for n, row in enumerate(rows[1:], 2):
        if len(row) != len(header):
            raise ShapeError(f"{str(path)!r}, line {n}, has {len(row)} cells; {len(header)} are wanted, as in the header")
    table = {}
    for name, cells in zip(header, zip(*rows[1:])):
        try:
            table[name] = np.array([np.nan if c.strip().upper() in ("", "NA", "NAN") else float(c) for c in cells])
        except ValueError:
            continue  # dates and other words
    if not table:
        raise DTypeError(f"{str(path)!r} has no column of numbers")
    return table


def _read_hdf5(path, dataset):
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"reading {str(path)!r} needs h5py: pip install 'portable-kernels[files]'") from error
    with h5py.File(path, "r") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        if dataset is None and len(names) != 1:
            raise InputError(f"{str(path)!r} holds {len(names)} datasets ({', '.join(names[:5])}); name one with dataset")
        if dataset is not None and dataset not in names:
            raise InputError(f"{str(path)!r} has no dataset {dataset!r}; it has {', '.join(names[:5])}")
        return file[dataset or names[0]][()]
