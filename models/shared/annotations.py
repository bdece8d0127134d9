"""Types for annotations of the methods' arguments, shared by the families."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, Union

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
Label: TypeAlias = Union[str, Whole]  # the name or the number of a column
PathLike: TypeAlias = Union[str, "os.PathLike[str]"]
SpaceLike: TypeAlias = pk.SpaceLike
Spaces: TypeAlias = Union[pk.SpaceLike, Sequence[pk.SpaceLike]]  # several are used in parallel
# a distributed.Client, or "local"; dask is imported only if one is given
ClientLike: TypeAlias = Any
TableLike: TypeAlias = Union[npt.ArrayLike, Mapping[str, Any]]  # also a table of pandas or xarray
# also arrays larger than memory: Zarr and dask arrays, names of Parquet files, readers
LargeLike: TypeAlias = Union[npt.ArrayLike, Shaped, PathLike]
Windows: TypeAlias = Union[Sequence[int], Sequence[Sequence[int]], "npt.NDArray[np.integer[Any]]"]
Names: TypeAlias = tuple[str, ...]
DType: TypeAlias = Literal["float32", "float64"]
Array: TypeAlias = "np.ndarray[Any, Any]"
Floats: TypeAlias = "npt.NDArray[np.float64]"
Ints: TypeAlias = "npt.NDArray[np.int64]"
ArrayLike: TypeAlias = npt.ArrayLike
ArrayOrView: TypeAlias = Any  # a View if the argument is one
Function: TypeAlias = Callable[..., Any]  # a user's function, or a kernel function
NumberOrArray: TypeAlias = Any  # an array for several series, targets or filters
TableOrArray: TypeAlias = Any  # a table of pandas or xarray if the argument is one
