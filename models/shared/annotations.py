"""Names for annotations of what the methods take, shared by the families."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, Union

import numpy as np
import numpy.typing as npt

import portable as pk


class Shaped(Protocol):
    """An array of any library, or a reader: `portable.models.shared.mapped`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


Whole: TypeAlias = Union[int, "np.integer[Any]"]
Real: TypeAlias = Union[float, "np.floating[Any]", "np.integer[Any]"]
Label: TypeAlias = Union[str, Whole]  # of a column: its name, or its number
PathLike: TypeAlias = Union[str, "os.PathLike[str]"]
Spaces: TypeAlias = Union[pk.SpaceLike, Sequence[pk.SpaceLike]]  # several work side by side
# a distributed.Client, or "local"; dask is imported only where one is given
ClientLike: TypeAlias = Any
TableLike: TypeAlias = Union[npt.ArrayLike, Mapping[str, Any]]  # also a table of pandas or xarray
# also what is larger than memory: Zarr and dask arrays, Parquet files by their name, readers
LargeLike: TypeAlias = Union[npt.ArrayLike, Shaped, PathLike]
Windows: TypeAlias = Union[Sequence[int], Sequence[Sequence[int]], "npt.NDArray[np.integer[Any]]"]
Array: TypeAlias = "np.ndarray[Any, Any]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.int64]"
ArrayLike: TypeAlias = npt.ArrayLike
ArrayOrView: TypeAlias = Any  # a View where the argument is one
Function: TypeAlias = Callable[..., Any]  # of the user, or a kernel function
NumberOrArray: TypeAlias = Any  # an array where several series, targets or filters are asked for
TableOrArray: TypeAlias = Any  # a table of pandas or xarray where the argument is one
