"""Tables from files: CSV, .npy and HDF5, as named columns."""

from __future__ import annotations

import warnings

import numpy as np

from portable.errors import DTypeError, InputError, ShapeError, printable

from ..files import check_file, check_growth, numbers, read_csv, read_npy, reading

KINDS = (".csv", ".csv.gz", ".npy", ".h5", ".hdf5")
READERS = ", ".join(KINDS[:-1]) + " or " + KINDS[-1]


def read(path, dataset=None):
    """A table as a dict of columns, name -> ndarray of float64, shape (n_times,).

    Parameters
    ----------
    path : str or Path
        .csv or .csv.gz with a header (empty cells, NA and the like are missing, see `models.files.MISSING`), .npy of shape
        (n_times,) or (n_times, n_columns), or .h5/.hdf5 with such a dataset; columns without names are numbered from 0.
    dataset : str, optional
        Name of the HDF5 dataset; needed where the file holds several.

    Raises
    ------
    InputError, DTypeError, ShapeError
        The file is missing, of an unknown kind, damaged, holds no numbers, or two columns of one name; some cells of a
        column are numbers, and one is not.

    Warns
    -----
    UserWarning
        Columns without any number, such as dates, are left out.
    """
    kind = check_file(path, KINDS)
    if kind.startswith(".csv"):
        return _read_csv(path)
    array = read_npy(path) if kind == ".npy" else _read_hdf5(path, dataset)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"'{path}' must hold real numbers, got dtype {array.dtype}")
    if array.ndim not in (1, 2):
        raise ShapeError(f"'{path}' has shape {array.shape}; (n_times,) or (n_times, n_columns) is wanted")
    with reading(path):
        columns = np.asarray(array, np.float64).reshape(len(array), -1)
    return {str(c): column for c, column in enumerate(columns.T)}


def _read_csv(path):
    cells = read_csv(path)
    n_rows = len(next(iter(cells.values()), ()))
    if not n_rows:
        raise ShapeError(f"'{path}' has {int(bool(cells))} line(s); a header and at least one row are wanted")
    words = [name for name, column in cells.items() if not any(map(_is_number, column))]
    table = {name: numbers(column, name, path) for name, column in cells.items() if name not in words}
    if not table:
        raise DTypeError(f"'{path}' has no column of numbers")
    if words:
        warnings.warn(f"'{path}': {printable(', '.join(words))} hold no numbers, and are left out", UserWarning, stacklevel=3)
    return table


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_hdf5(path, dataset):
    try:
        import h5py
    except ImportError as error:
        raise InputError(f"reading '{path}' needs h5py: pip install 'portable-kernels[files]'") from error
    with reading(path), h5py.File(path, "r") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        if dataset is None and len(names) != 1:
            raise InputError(f"'{path}' holds {len(names)} datasets ({', '.join(names[:5])}); name one with dataset")
        if dataset is not None and dataset not in names:
            raise InputError(f"'{path}' has no dataset {dataset!r}; it has {', '.join(names[:5])}")
        found = file[dataset or names[0]]
        if found.shape is None:
            raise ShapeError(f"'{path}': the dataset {found.name!r} is empty")
        check_growth(path, found.size * found.dtype.itemsize)
        return found[()]
