"""Readers of data larger than memory: Zarr and dask arrays, and Parquet files; see
`portable.models.shared.mapped`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from .annotations import Array, PathLike
from .extras import need
from .files import reading


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
    reader : a reader of `portable.models.shared.mapped`
    begin, end : int
        Rows, which are read immediately.
    """

    def __init__(self, reader: Any, begin: int, end: int) -> None:
        self.shape, self.dtype = reader.shape, reader.dtype
        self._begin, self._rows = begin, reader.rows(begin, end)

    def rows(self, begin: int, end: int) -> Array:
        """Return some of these rows, like `rows` of a reader in `portable.models.shared.mapped`.

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
        """Return rows as a reader's `rows` in `portable.models.shared.mapped`.

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
        """Return rows as a reader's `rows` in `portable.models.shared.mapped`.

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
        """Return rows of whole row groups, as a reader's `rows` in `portable.models.shared.mapped`.

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
