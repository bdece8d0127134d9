"""Tables from CSV, Parquet, .npy and HDF5 files, as named columns with dates."""

from __future__ import annotations

import collections
import re

import numpy as np

from ..shared import (
    DTypeError,
    InputError,
    ShapeError,
    check_file,
    need,
    numbers,
    printable,
    read_csv,
    read_npy,
    reading,
    warn,
)
from .frames import counts_times
from .segments import Segments
from ..shared.files import check_growth

KINDS = (".csv", ".csv.gz", ".parquet", ".npy", ".h5", ".hdf5")
READERS = ", ".join(KINDS[:-1]) + " or " + KINDS[-1]
_DATE = re.compile(r"\s*\d{4}-\d{2}(-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?)?\s*")


class Table(dict):
    """Named columns of numbers, a dict.

    Attributes
    ----------
    times : ndarray, shape (n_times,), or None
        The dates of the rows, datetime64[us], or the numbers of the column `clock`. Results computed from a
        table have them if pandas is installed.
    clock : str or None
        Name of the first column if it contains the times of the rows: numbers with equal steps, or
        monotonic numbers with a name such as "year".
    """

    def __init__(
        self, columns: dict, times: np.ndarray | None = None, segments: Segments | None = None
    ) -> None:
        super().__init__(columns)
        self.times, self.clock = times, None
        first = next(iter(columns))
        if times is None and len(columns) > 1 and counts_times(first, columns[first], segments):
            self.times, self.clock = columns[first], first

    def of(self, columns: dict, segments: Segments) -> Table:
        """Return a table of other columns and segments with the times of this one."""
        return Table(columns, self.times if self.clock is None else None, segments)

    @property
    def series(self) -> list[str]:
        """Names of the numeric columns, without the column of times."""
        return [name for name, own in self.items() if name != self.clock and own.dtype.kind != "U"]


def read(path, dataset=None, segments=None):
    """Read a table: a dict of columns, name -> ndarray of float64, shape (n_times,), with its dates.

    Parameters
    ----------
    path : str or Path
        .csv or .csv.gz with a header (empty cells, NA and the like are missing:
        `portable.models.shared.files.MISSING`), .parquet (by pandas and pyarrow), .npy of shape (n_times,)
        or (n_times, n_columns), or .h5/.hdf5 with such a dataset; columns without names are numbered from 0.
        The first column that contains only dates (in text: 1985-01, 1985-01-31 or 1985-01-31 12:00:00)
        provides the times of the rows.
    dataset : str, optional
        Name of the HDF5 dataset; required if the file contains several.
    segments : str, optional
        Name of the column with the names of the replicates, which may be strings.

    Returns
    -------
    Table

    Raises
    ------
    InputError, DTypeError, ShapeError
        The package that reads this kind is not installed. The file is missing, of an unknown kind, damaged,
        without numbers, or has two columns of one name; or a column of numbers has a cell that is not a
        number.

    Warns
    -----
    UserWarning
        Columns without any number are left out.
    """
    kind = check_file(path, KINDS)
    if kind.startswith(".csv"):
        return _read_csv(path, segments)
    if kind == ".parquet":
        return _read_parquet(path, segments)
    array = read_npy(path) if kind == ".npy" else _read_hdf5(path, dataset)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"'{path}' must hold real numbers, got dtype {array.dtype}")
    if array.ndim not in (1, 2):
        raise ShapeError(f"'{path}' has shape {array.shape}; expected (n_times,) or (n_times, n_columns)")
    with reading(path):
        columns = np.asarray(array, np.float64).reshape(len(array), -1)
    return Table({str(c): column for c, column in enumerate(columns.T)})


def _read_csv(path, segments):
    cells = read_csv(path)
    n_rows = len(next(iter(cells.values()), ()))
    if not n_rows:
        raise ShapeError(f"'{path}' has {int(bool(cells))} line(s); expected a header and at least one row")
    words = [name for name, own in cells.items() if name != segments and not any(map(_is_number, own))]
    table = {
        name: np.array(column) if name == segments else numbers(column, name, path)
        for name, column in cells.items()
        if name not in words
    }
    dates = {name: found for name in words if (found := _dates(cells[name])) is not None}
    return _table(path, table, dates, words)


def _table(path, columns, dates, others):
    """Return the Table of columns with the first column of dates as its times; a warning names the columns
    that are left out."""
    if not columns:
        raise DTypeError(f"'{path}' has no column of numbers")
    first = next(iter(dates), None)
    others = [name for name in others if name != first]
    if others:
        warn(f"'{path}': {printable(', '.join(others))} hold no numbers, and are left out", UserWarning)
    return Table(columns, dates.get(first))


def _dates(cells):
    """Return cells as datetime64; None if any cell is not a date."""
    if not all(map(_DATE.fullmatch, cells)):
        return None
    try:
        return np.array([cell.strip() for cell in cells], "datetime64[us]")
    except ValueError:
        return None


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path, segments):
    pandas = need("pandas", "files", f"reading '{path}'")
    parquet = need("pyarrow.parquet", "files", f"reading '{path}'")
    with reading(path), parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        twice = [name for name, count in collections.Counter(names).items() if count > 1]
        if twice:
            raise InputError(f"'{path}' has two columns {printable(twice[0])!r}; expected different names")
        sizes = [file.metadata.row_group(g).total_byte_size for g in range(file.num_row_groups)]
        check_growth(path, max(sum(sizes), 8 * file.metadata.num_rows * file.metadata.num_columns))
        # the plain columns: the file's metadata of a pandas index is not needed
        frame = file.read().to_pandas(ignore_metadata=True, date_as_object=False)
    if not len(frame):
        raise ShapeError(f"'{path}' has no rows; expected at least one")
    types = pandas.api.types
    columns, dates, others = {}, {}, []
    for name, column in frame.items():
        if name.startswith("__index_level_") and types.is_integer_dtype(column):
            continue  # row numbers, which pandas writes after rows were selected
        if types.is_numeric_dtype(column) and not types.is_complex_dtype(column):
            columns[name] = column.to_numpy(np.float64, na_value=np.nan)
        elif name == segments:
            columns[name] = np.array(list(map(str, column)))
        else:
            others.append(name)
            if types.is_datetime64_any_dtype(column) and not column.isna().any():
                column = column.dt.tz_convert(None) if column.dt.tz is not None else column
                dates[name] = column.to_numpy("datetime64[us]")
    return _table(path, columns, dates, others)


def _read_hdf5(path, dataset):
    h5py = need("h5py", "files", f"reading '{path}'")
    with reading(path), h5py.File(path, "r") as file:
        names = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        some = ", ".join(names[:5])
        if dataset is None and len(names) != 1:
            raise InputError(f"'{path}' holds {len(names)} datasets ({some}); name one with dataset")
        if dataset is not None and dataset not in names:
            raise InputError(f"'{path}' has no dataset {dataset!r}; it has {some}")
        found = file[dataset or names[0]]
        if found.shape is None:
            raise ShapeError(f"'{path}': the dataset {found.name!r} is empty")
        if found.external or found.is_virtual:
            raise InputError(
                f"'{path}': the numbers of {found.name!r} are in other files, which are not read; write"
                " them into one by h5repack, or by h5py's file.create_dataset(name, data=...)"
            )
        check_growth(path, found.size * found.dtype.itemsize)
        return found[()]
