"""Rows of memory-mapped files as pieces of shards, which travel as the name of their file."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from portable.errors import InputError


class Mapped:
    """Rows of a memory-mapped file, which are read where they are wanted; it pickles as the name of the file.

    Parameters
    ----------
    array : numpy.memmap, C-contiguous
    """

    def __init__(self, array: np.memmap) -> None:
        whole = array._mmap
        begin = np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
        root = array
        while isinstance(root.base, np.memmap):
            root = root.base
        of_map = root.offset - root.offset % mmap.ALLOCATIONGRANULARITY
        self.path, self.dtype, self.shape = str(Path(array.filename).resolve()), array.dtype, array.shape
        self.offset = of_map + array.__array_interface__["data"][0] - begin
        self.nbytes, self.of = array.nbytes, Path(self.path).stat().st_size

    def read(self) -> np.ndarray:
        """The rows.

        Raises
        ------
        InputError
            The file is not there, or not the one that it was.
        """
        try:
            with open(self.path, "rb") as file:
                size = file.seek(0, 2)
                file.seek(self.offset)
                found = np.fromfile(file, self.dtype, int(np.prod(self.shape)))
        except OSError as error:
            raise InputError(
                f"the data are in '{self.path}', which cannot be read here: {error.strerror}. Every worker "
                "must see the file under this name"
            ) from error
        if size != self.of or found.size != np.prod(self.shape):
            raise InputError(
                f"the data are in '{self.path}', which has {size} bytes here and had {self.of} when the "
                "work began; every worker must see the same file"
            )
        return found.reshape(self.shape)


def rows_of(array: np.ndarray, begin: int, end: int) -> np.ndarray | Mapped:
    """Some rows of an array, as a piece holds them.

    Parameters
    ----------
    array : ndarray
    begin, end : int

    Returns
    -------
    ndarray, or Mapped of a memory map
        A view of the array, or where they are in its file.
    """
    rows = array[begin:end]
    if isinstance(rows, np.memmap) and rows.filename and rows.flags.c_contiguous:
        return Mapped(rows)
    return rows


def read(rows: np.ndarray | Mapped) -> np.ndarray:
    """The rows themselves.

    Parameters
    ----------
    rows : ndarray or Mapped

    Returns
    -------
    ndarray

    Raises
    ------
    InputError
        Their file is not there, or not the one that it was.
    """
    return rows.read() if isinstance(rows, Mapped) else rows
