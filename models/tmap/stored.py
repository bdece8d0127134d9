"""Runs with more gaps than memory holds: in a file, sorted for a fit.

A fit uses shards of runs of similar length, wherever these are in the data. So the gaps are read once, a
chunk at a time, and written to the file in the order of the shards: each shard is then contiguous in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    Floats,
    Ints,
    LargeLike,
    PathLike,
    ShapeError,
    Streamed,
    as_numbers,
    check_positive,
    opened,
    replacing,
)
from ..shared.files import allocate_npy, check_no_input
from ..shared.mapped import Mapped, Part, read, rows_of
from .checks import check_censored, check_gaps, check_lengths, check_rounded, given_lengths
from .gaps import read_only, where_given
from .kernels import PACK
from .packed import cuts_of
from .runs import Runs

_LEAF = 2**20  # largest number of gaps that are read at a time


class Stretch:
    """Runs whose gaps are contiguous in a file; a piece for `sharding.Shards`.

    Parameters
    ----------
    rows : Mapped, Part or ndarray
        The gaps.
    lengths, censored, resolution : as of `Runs`
    """

    def __init__(
        self,
        rows: Mapped | Part | Floats,
        lengths: Ints,
        censored: Array,
        resolution: float | None,
    ) -> None:
        self.rows, self._of = rows, (lengths, censored, resolution)
        self.nbytes = rows.nbytes + lengths.nbytes + censored.nbytes

    def read(self) -> Runs:
        """Read the runs.

        Returns
        -------
        Runs

        Raises
        ------
        InputError
            The file does not exist, or has been replaced.
        """
        lengths, censored, resolution = self._of
        return Runs(read(self.rows), lengths, censored, resolution=resolution)


class StoredRuns(Runs):
    """Runs whose gaps are in a file, not in memory; otherwise as `Runs`.

    `fit`, `TransientMAP.log_likelihood` and `standard_errors` read the file shard by shard, with bitwise the
    results of `Runs` in memory. Methods that need all gaps at once read all of them.

    Parameters
    ----------
    values : array-like, shape (n_gaps,)
        All gaps, run after run: a memory map, a Zarr or dask array, a Parquet file of one column, or another
        array that `portable.models.shared.mapped` reads; it is read once by this call.
    lengths, censored : as of `Runs`
        In memory.
    path : str or Path
        The file, .npy, of 8 bytes a gap; an existing one is replaced. Workers must be able to read it by this
        name.
    resolution : as of `Runs`

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        As `Runs`; the file is also the input.
    StorageError
        The file cannot be written.
    """

    def __init__(
        self,
        values: LargeLike,
        lengths: ArrayLike,
        censored: ArrayLike | None = None,
        *,
        path: PathLike,
        resolution: float | None = None,
    ) -> None:
        source = opened(values, "values")
        source = source if isinstance(source, Streamed) else as_numbers(source, "values")
        if source.ndim == 2 and source.shape[1] == 1 and isinstance(source, Streamed):
            source = source.column(0)
        if source.ndim != 1:
            raise ShapeError(f"values has shape {source.shape}; expected 1 dimension")
        self.lengths = read_only(check_lengths(given_lengths(lengths), len(source))[0].to_numpy())
        self.censored = read_only(check_censored(censored, len(self.lengths)))
        self.n_runs, self.n_gaps, self._source, self.prepared = len(self.lengths), len(source), source, {}
        self.resolution = None if resolution is None else check_positive(resolution, "resolution")
        check_no_input(path, source, "path", "values")
        self._order, self._at = np.argsort(-self.lengths, kind="stable"), 0
        self._known, self.n_zero = (0.0, np.inf, 0, 0), 0
        with replacing(path, "path") as beside:
            self._write(allocate_npy(beside, (self.n_gaps,), np.float64))
        self._file = np.load(path, mmap_mode="r")

    def _write(self, file: np.memmap) -> None:
        """Write all gaps to their places, and record their mean, range and counts."""
        places = np.empty(self.n_runs, np.int64)  # where each run begins in the file
        ordered = self.lengths[self._order]
        places[self._order] = np.cumsum(ordered) - ordered
        ends = np.cumsum(self.lengths)
        shift = places - (ends - self.lengths)
        total = _added_up(self.n_gaps, functools.partial(self._write_some, file, ends, shift))
        file.flush()
        self.mean = total / self.n_gaps

    def _write_some(self, file: np.memmap, ends: Array, shift: Array, n: int) -> float:
        """Write the next n gaps; return their sum."""
        begin, self._at = self._at, self._at + n
        given = where_given(self._source[begin : self._at], "values")
        view, (longest, shortest, *counts) = check_gaps(given, pk.asview(self.lengths), begin)
        gaps = view.to_numpy()
        at = np.arange(begin, self._at)
        runs = np.searchsorted(ends, at, side="right")
        file[at + shift[runs]] = gaps
        complete = ~(self.censored[runs] & (at == ends[runs] - 1))
        if self.resolution is not None:
            check_rounded(view, self.resolution, complete)
        before = self._known
        counts = (int(some) + more for some, more in zip(counts, before[2:]))
        self._known = max(before[0], longest), min(before[1], shortest), *counts
        self.n_zero += int((gaps[complete] == 0.0).sum())
        return float(np.add.reduce(gaps))

    @property
    def values(self) -> Any:
        """The gaps as they were given, read at each access."""
        return self._source if self._source.dtype == np.float64 else self._source.astype(np.float64)

    @property
    def nbytes(self) -> int:
        """Bytes of gaps, lengths and flags."""
        return 8 * self.n_gaps + self.lengths.nbytes + self.censored.nbytes

    @property
    def views(self) -> tuple[pk.View, pk.View]:
        """The views of `Runs`; the values are read now."""
        return where_given(self.values, "values"), pk.asview(self.lengths)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"prepared": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def sample(self, places: Ints) -> Floats:
        """Return the values at some places.

        Parameters
        ----------
        places : ndarray of int64, shape (n,)

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        return np.asarray(self.values[places], np.float64)

    def parts(self, dtype: type, memory_bytes: int | None) -> list[Stretch]:
        """Make the shards, as `packed.parts_of` cuts them.

        Parameters
        ----------
        dtype : type
        memory_bytes : int or None

        Returns
        -------
        list of Stretch

        Raises
        ------
        InputError
            The memory cannot hold the longest runs.
        """
        lengths, censored = self.lengths[self._order], self.censored[self._order]
        begins = np.append(0, np.cumsum(lengths))
        cuts, _ = cuts_of(np.append(0, np.cumsum(lengths[::PACK])), dtype, memory_bytes)
        return [
            Stretch(
                rows_of(self._file, int(begins[a]), int(begins[b])),
                lengths[a:b].copy(),
                censored[a:b].copy(),
                self.resolution,
            )
            for a, b in ((PACK * a, min(PACK * b, self.n_runs)) for a, b in cuts)
        ]


def _added_up(n: int, sum_next: Callable[[int], float]) -> float:
    """Add up n numbers in NumPy's order, by halves; sum_next(n) adds up the next n, in order."""
    if n <= _LEAF:
        return sum_next(n)
    half = n // 2 - n // 2 % 8
    return _added_up(half, sum_next) + _added_up(n - half, sum_next)
