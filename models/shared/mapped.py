"""Arrays that are read a few rows at a time: memory maps, Zarr and dask arrays, Parquet files. Their rows are
pieces of shards, which are sent to workers as references to files.

A *reader* is an object with `shape`, `dtype` and

    rows(begin, end)      an ndarray of these rows

and optionally

    cuts                  the row numbers at which its chunks begin and end
    columns               the names of the columns
    travels(begin, end)   a reader of these rows, with the same row numbers, whose pickle is small

Zarr and dask arrays and Parquet files have readers below. Methods use a reader as an array (`Streamed`), by
slices.
"""

from __future__ import annotations

import math
import mmap
import os
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from .annotations import Array, PathLike
from .extras import need
from .files import reading


class Mapped:
    """Rows of a memory-mapped file, read in the process that uses them; its pickle has the name of the file.

    Parameters
    ----------
    array : numpy.memmap, C-contiguous

    Raises
    ------
    InputError
        Its file does not exist.
    """

    def __init__(self, array: np.memmap) -> None:
        begin = np.frombuffer(array._mmap, np.uint8).ctypes.data
        of_map = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # views have the map's offset
        self.path, self.dtype, self.shape = str(Path(array.filename).resolve()), array.dtype, array.shape
        self.offset = of_map + array.ctypes.data - begin
        self.nbytes = array.nbytes
        try:
            self.of = os.stat(self.path).st_size
        except OSError as error:
            raise elsewhere(self.path, f"cannot be read here: {error.strerror}") from error

    def read(self) -> Array:
        """Return the rows.

        Raises
        ------
        InputError
            The file does not exist, or has changed.
        """
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, 2)
                file.seek(self.offset)
                found = np.fromfile(file, self.dtype, math.prod(self.shape))
        except OSError as error:
            raise elsewhere(self.path, f"cannot be read here: {error.strerror}") from error
        if size != self.of or found.size != math.prod(self.shape):
            raise elsewhere(self.path, f"has {size} bytes here and had {self.of} when the work began")
        return found.reshape(self.shape)


class Streamed:
    """An array whose rows are read on access, in whole chunks.

    It supports the operations on an ndarray that the methods use: slices, single rows and numbers, and rows
    by a list of numbers. All of them read the rows immediately.

    Parameters
    ----------
    reader : a reader
    name : str
        Name of the argument, for messages.
    dtype : dtype, optional
        Type to which rows are converted.

    Attributes
    ----------
    shape, dtype, ndim, nbytes
        As of an ndarray.
    columns : list of str or None
        Names of columns, if the reader has them.

    Raises
    ------
    DTypeError
        The reader's dtype is not one of real numbers.
    """

    def __init__(self, reader: Any, name: str, dtype: npt.DTypeLike | None = None) -> None:
        self._reader, self._name, self._key = reader, name, uuid.uuid4().hex
        own = np.dtype(reader.dtype)
        if own.kind not in "fiu":
            raise DTypeError(f"{name} must hold real numbers, got dtype {own}")
        self.shape, self.dtype = tuple(reader.shape), np.dtype(own if dtype is None else dtype)
        self.columns: list[str] | None = getattr(reader, "columns", None)
        cuts = getattr(reader, "cuts", None)
        self._cuts = None if cuts is None else np.asarray(cuts, np.int64)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, in memory."""
        return math.prod(self.shape) * self.dtype.itemsize

    def astype(self, dtype: npt.DTypeLike) -> Streamed:
        """Return the same rows in another dtype, converted as they are read.

        Parameters
        ----------
        dtype : dtype

        Returns
        -------
        Streamed
        """
        return Streamed(self._reader, self._name, dtype)

    def rows(self, begin: int, end: int) -> Array:
        """Return rows begin .. end - 1, C-contiguous.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        ndarray

        Raises
        ------
        DTypeError, ShapeError
            The dtype or shape of the rows differs from that of the reader.
        InputError, FiniteError
            Rows cannot be read; values are missing.
        """
        parts, at = [], begin
        key, first, last, kept = getattr(_AHEAD, "last", ("", 0, 0, None))
        if key == self._key and kept is not None and first <= at < last:
            parts.append(kept[at - first : end - first])
            at = min(last, end)
        if at < end or not parts:
            first, last = self._chunk_range(at, end)
            kept = self._read(first, last)
            parts.append(kept[at - first : end - first])
        _AHEAD.last = (self._key, first, last, kept) if end < last else ("", 0, 0, None)
        found = np.empty((end - begin, *self.shape[1:]), self.dtype)
        return np.concatenate(parts, out=found, casting="unsafe")

    def column(self, number: int) -> Streamed:
        """Return one of the columns, as a vector.

        Parameters
        ----------
        number : int

        Returns
        -------
        Streamed
        """
        return Streamed(Column(self, number), self._name)

    def part(self, begin: int, end: int) -> Streamed:
        """Return the array for a user of rows begin .. end - 1 only, whose pickle contains just the data to
        read these.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        Streamed
        """
        first, last = self._chunk_range(begin, end)
        travels = getattr(self._reader, "travels", None)
        reader = self._reader if travels is None else travels(first, last)
        found = Streamed(reader, self._name, self.dtype)
        found.shape, found._key, found._cuts = self.shape, self._key, self._cuts
        return found

    def _chunk_range(self, begin: int, end: int) -> tuple[int, int]:
        """Return the first row and the end of the chunks that contain rows begin .. end - 1."""
        if self._cuts is None or begin >= end:
            return begin, end
        first = int(np.searchsorted(self._cuts, begin, side="right")) - 1
        return int(self._cuts[first]), int(self._cuts[np.searchsorted(self._cuts, end)])

    def _read(self, begin: int, end: int) -> Array:
        found, wanted = self._reader.rows(begin, end), (end - begin, *self.shape[1:])
        if not isinstance(found, np.ndarray) or isinstance(found, np.ma.MaskedArray):
            raise DTypeError(
                f"{self._name}: rows {begin} to {end} are of type {type(found).__name__}; expected an ndarray"
            )
        if found.dtype != self._reader.dtype:
            raise DTypeError(
                f"{self._name}: rows {begin} to {end} hold {found.dtype}, but the whole array is declared as"
                f" {self._reader.dtype}; expected one dtype for all chunks"
            )
        if found.shape != wanted:
            raise ShapeError(
                f"{self._name}: rows {begin} to {end} have shape {found.shape}; expected {wanted}"
            )
        return found

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            rest = (
                key[1:] if np.ndim(key[0]) == 0 and not isinstance(key[0], slice) else (slice(None), *key[1:])
            )
            return self[key[0]][rest]
        if isinstance(key, slice):
            begin, end, step = key.indices(len(self))
            return self.rows(begin, max(begin, end)) if step == 1 else self[np.arange(begin, end, step)]
        if np.ndim(key) == 0:
            at = range(len(self))[key]
            return self.rows(at, at + 1)[0]
        return self._take(np.asarray(key))

    def _take(self, at: Array) -> Array:
        """Return the rows with the numbers `at`; each chunk is read once."""
        at = np.arange(len(self))[at] if at.dtype == bool else at
        order, found = np.argsort(at, kind="stable"), np.empty((len(at), *self.shape[1:]), self.dtype)
        done = 0
        while done < len(at):
            first, last = self._chunk_range(int(at[order[done]]), int(at[order[done]]) + 1)
            some = order[done : int(np.searchsorted(at, last, sorter=order))]
            found[some] = self.rows(first, last)[at[some] - first]
            done += len(some)
        return found

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return self.rows(0, len(self)).astype(self.dtype if dtype is None else dtype, copy=False)


_AHEAD = threading.local()  # `last`: rows of the array read last by this thread that are not yet used


def opened(value: Any, name: str) -> Any:
    """Return data larger than memory as an array that is read on demand; any other value unchanged.

    Parameters
    ----------
    value : zarr.Array, dask.array.Array, pyarrow.dataset.Dataset, the name of a .parquet file or folder, a
    reader, or anything else
    name : str
        Name of the argument, for messages.

    Returns
    -------
    Streamed, or `value`

    Raises
    ------
    DTypeError, ShapeError, InputError
        The values are not real numbers; the sizes of chunks are unknown; files cannot be read.
    """
    if isinstance(value, (str, os.PathLike)) and os.fspath(value).endswith(".parquet"):
        datasets = need("pyarrow.dataset", "files", f"reading '{value}'")
        with reading(value):
            value = datasets.dataset(os.fspath(value), format="parquet")
    if _is(value, "zarr", "Array"):
        return Streamed(Zarr(value), name)
    if _is(value, "dask.array", "Array"):
        return Streamed(Dask(value, name), name)
    if _is(value, "pyarrow.dataset", "Dataset"):
        return Streamed(Parquet(value, name), name)
    if isinstance(value, Streamed) or not callable(getattr(value, "rows", None)):
        return value
    return Streamed(value, name) if hasattr(value, "shape") and hasattr(value, "dtype") else value


def _is(value: Any, module: str, name: str) -> bool:
    """Return True if a value is of a class of a module, without an import of the module."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


class Column:
    """A reader of a column of an array.

    Parameters
    ----------
    array : Streamed
    number : int
    """

    def __init__(self, array: Streamed, number: int) -> None:
        self._array, self._number = array, number
        self.shape, self.dtype = array.shape[:1], array.dtype

    def rows(self, begin: int, end: int) -> Array:
        """Read rows, as a reader's `rows`.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        ndarray
        """
        return np.ascontiguousarray(self._array.rows(begin, end)[:, self._number])


class Part:
    """Rows of a Streamed array, read in the process that uses them.

    Parameters
    ----------
    array : Streamed
    begin, end : int
    """

    def __init__(self, array: Streamed, begin: int, end: int) -> None:
        self._array, self._begin, self._end = array, begin, end
        self.dtype, self.shape = array.dtype, (end - begin, *array.shape[1:])
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> Array:
        """Return the rows.

        Returns
        -------
        ndarray

        Raises
        ------
        InputError, DTypeError, ShapeError, FiniteError
            As `Streamed.rows`.
        """
        return self._array.rows(self._begin, self._end)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_array": self._array.part(self._begin, self._end)}


def rows_of(array: Array | Streamed, begin: int, end: int) -> Array | Mapped | Part:
    """Return rows of an array in the form of a piece of shards.

    Parameters
    ----------
    array : ndarray or Streamed
    begin, end : int

    Returns
    -------
    ndarray; Mapped for a memory map; Part for a Streamed array
        A view of the array, or a reference to the rows in its file.
    """
    if isinstance(array, Streamed):
        return Part(array, begin, min(end, len(array)))
    rows = array[begin:end]
    if isinstance(rows, np.memmap) and rows.filename and rows.flags.c_contiguous:
        return Mapped(rows)
    return rows


def read(rows: Array | Mapped | Part) -> Array:
    """Return the rows as an array.

    Parameters
    ----------
    rows : ndarray, Mapped or Part

    Returns
    -------
    ndarray

    Raises
    ------
    InputError
        Their file does not exist, or has changed.
    """
    return rows.read() if hasattr(rows, "read") else rows


def elsewhere(path: PathLike, why: str) -> InputError:
    """Return the error for data that are not the same on a worker.

    Parameters
    ----------
    path : path
    why : str
        A clause that follows "which".

    Returns
    -------
    InputError
    """
    return InputError(f"the data are in '{path}', which {why}; every worker must see the same file there")


class Held:
    """Rows of a reader in memory, with the same row numbers.

    Parameters
    ----------
    reader : a reader
    begin, end : int
        Rows, which are read immediately.
    """

    def __init__(self, reader: Any, begin: int, end: int) -> None:
        self.shape, self.dtype = reader.shape, reader.dtype
        self._begin, self._rows = begin, reader.rows(begin, end)

    def rows(self, begin: int, end: int) -> Array:
        """Return some of these rows, like `rows` of a reader.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        ndarray
        """
        return self._rows[begin - self._begin : end - self._begin]


class Zarr:
    """A reader of a Zarr array, whose pickle has the array's name; for an array in memory, the required rows.

    Parameters
    ----------
    array : zarr.Array
    """

    def __init__(self, array: Any) -> None:
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.cuts = [*range(0, self.shape[0], array.chunks[0]), self.shape[0]] if self.shape else None
        self._away = False  # True if this object was sent to a worker

    def rows(self, begin: int, end: int) -> Array:
        """Return rows as a reader's `rows`.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        ndarray

        Raises
        ------
        InputError
            A chunk cannot be read; on a worker, an array of that name does not exist, or differs.
        """
        with reading(str(self._array.store_path)):
            if self._away:
                self._check_same()
            return self._array[begin:end]

    def _check_same(self) -> None:
        """Raise unless the array is the original one, since missing chunks are read as fill values."""
        import zarr

        try:
            there = zarr.open_array(self._array.store_path, mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise elsewhere(self._array.store_path, f"cannot be read here: {error}") from error
        if there.metadata != self._array.metadata:
            raise elsewhere(self._array.store_path, "is another array here")
        self._away = False

    def travels(self, begin: int, end: int) -> Any:
        """Return the arguments with which some rows can be read elsewhere.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        a reader
        """
        import zarr

        return Held(self, begin, end) if isinstance(self._array.store, zarr.storage.MemoryStore) else self

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_away": True}


class Dask:
    """A reader of a dask array, whose chunks are computed in the thread that reads them; its pickle has their
    tasks.

    Parameters
    ----------
    array : dask.array.Array
    name : str
        Name of the argument, for messages.
    first : int
        The number of its first row.

    Raises
    ------
    ShapeError, InputError
        The sizes of chunks are unknown; chunks are in the memory of a cluster (`persist`).
    """

    def __init__(self, array: Any, name: str, first: int = 0) -> None:
        if np.isnan(array.shape).any():
            raise ShapeError(
                f"{name} is a dask array of shape {array.shape}, whose chunks have unknown sizes; call"
                f" {name}.compute_chunk_sizes() first"
            )
        futures = getattr(sys.modules.get("distributed"), "Future", ())
        if any(isinstance(task, futures) for task in dict(array.__dask_graph__()).values()):
            raise InputError(
                f"{name} is a dask array that is persisted on a cluster, whose memory the method's workers"
                f" do not share; pass {name} as it was before persist(), or {name}.compute()"
            )
        self._array, self._name, self._first = array, name, first
        self.shape, self.dtype = array.shape, array.dtype
        self.cuts = np.append(0, np.cumsum(array.chunks[0])) if array.ndim else None

    def rows(self, begin: int, end: int) -> Array:
        """Return rows as a reader's `rows`.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        ndarray

        Raises
        ------
        DTypeError
            The dtype of a chunk differs from the array's, which a concatenation would hide.
        """
        import dask
        from dask.array.core import slices_from_chunks

        some = self._array[begin - self._first : end - self._first]
        chunks = dask.compute(*(some.blocks[at] for at in np.ndindex(some.numblocks)), scheduler="sync")
        found = np.empty(some.shape, self.dtype)
        for place, chunk in zip(slices_from_chunks(some.chunks), chunks):
            if type(chunk) is not np.ndarray:  # on a device, sparse, or masked
                raise DTypeError(
                    f"{self._name}: a chunk from row {begin + place[0].start} on is a"
                    f" {type(chunk).__name__}; expected arrays of NumPy"
                )
            if chunk.dtype != self.dtype:
                raise DTypeError(
                    f"{self._name}: a chunk from row {begin + place[0].start} on holds {chunk.dtype}, but the"
                    f" whole array is declared as {self.dtype}; expected one dtype for all chunks"
                )
            found[place] = chunk
        return found

    def travels(self, begin: int, end: int) -> Any:
        """Return the arguments with which some rows can be read elsewhere.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        a reader
        """
        import dask

        (some,) = dask.optimize(self._array[begin - self._first : end - self._first])
        return Dask(some, self._name, begin)


class Parquet:
    """A reader of Parquet files with columns of numbers, whose pickle has the files' names.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        One or several files, their rows one after the other.
    name : str
        Name of the argument, for messages.

    Attributes
    ----------
    columns : list of str
        Names of the columns, without those of an index of pandas.
    dtype : dtype
        The common NumPy dtype of the columns.

    Raises
    ------
    InputError, DTypeError, ShapeError
        The dataset is not of files; a column is not numeric, or its types in the files differ; no rows.
    """

    def __init__(self, dataset: Any, name: str) -> None:
        if not hasattr(dataset, "files"):
            raise InputError(f"{name} is a {type(dataset).__name__}; expected a dataset of files")
        fragments = list(dataset.get_fragments())
        if not fragments:
            raise ShapeError(f"{name} has no files; expected at least one row")
        self._name, self._files = name, dataset.filesystem
        first = fragments[0]
        schema = first.physical_schema
        index = [one for one in (schema.pandas_metadata or {}).get("index_columns", []) if type(one) is str]
        self.columns = [one for one in schema.names if one not in index]
        self._groups = []  # path, bytes of the file, number, rows
        for fragment in fragments:
            self._check_columns(fragment, first, {*schema.names, *dataset.schema.names})
            self._add_groups(fragment)
        self.cuts = np.append(0, np.cumsum([n_rows for *_, n_rows in self._groups], dtype=np.int64))
        self.shape = int(self.cuts[-1]), len(self.columns)
        self.dtype = np.result_type(*(schema.field(one).type.to_pandas_dtype() for one in self.columns))

    def _add_groups(self, fragment: Any) -> None:
        (about,) = self._files.get_file_info([fragment.path])
        path, size = fragment.path, about.size
        self._groups += [(path, size, group.id, group.num_rows) for group in fragment.row_groups]

    def _check_columns(self, fragment: Any, first: Any, names: set[str]) -> None:
        """Raise unless a file has all columns, numeric ones, with the same types as in the first file."""
        pa, schema = need("pyarrow", "files", "Parquet files"), fragment.physical_schema
        if odd := names ^ {*schema.names}:
            raise InputError(
                f"{self._name}: column '{min(odd)}' is not in all files, as in '{fragment.path}'"
            )
        for column in self.columns:
            own, kind = schema.field(column).type, first.physical_schema.field(column).type
            if not (pa.types.is_integer(own) or pa.types.is_floating(own)):
                raise DTypeError(
                    f"{self._name} must hold real numbers: column '{column}' of '{fragment.path}' holds {own}"
                )
            if own != kind:
                raise DTypeError(
                    f"{self._name}: column '{column}' holds {own} in '{fragment.path}', {kind} in"
                    f" '{first.path}';"
                    " expected one dtype for all files"
                )

    def rows(self, begin: int, end: int) -> Array:
        """Return rows of whole row groups, as a reader's `rows`.

        Parameters
        ----------
        begin, end : int

        Returns
        -------
        ndarray

        Raises
        ------
        InputError
            A file cannot be read, or has changed.
        FiniteError
            A value is missing.
        """
        found = np.empty((end - begin, len(self.columns)), self.dtype)
        first = int(np.searchsorted(self.cuts, begin, side="right")) - 1
        for number in range(first, int(np.searchsorted(self.cuts, end))):
            at = int(self.cuts[number])
            table = self._table(number)
            for place, column in enumerate(table.columns):
                if column.null_count:
                    row = at + int(np.asarray(column.is_null()).argmax())
                    raise FiniteError(
                        f"{self._name}[{row}, {place}] (column '{self.columns[place]}' of"
                        f" '{self._groups[number][0]}') is missing; expected finite numbers"
                    )
                values = column.to_numpy()[max(begin - at, 0) : end - at]
                found[max(at - begin, 0) :, place][: len(values)] = values
        return found

    def _table(self, number: int) -> Any:
        path, n_bytes, group, _ = self._groups[number]
        parquet = need("pyarrow.parquet", "files", "Parquet files")
        (about,) = self._files.get_file_info([path])
        if about.size != n_bytes:
            there = "cannot be read" if about.size is None else f"has {about.size} bytes"
            raise elsewhere(path, f"{there} here and had {n_bytes} when the work began")
        with reading(path), self._files.open_input_file(path) as file:
            return parquet.ParquetFile(file).read_row_group(group, columns=self.columns)
