"""Define type annotations for kernels and for the programs that launch them.

Annotations help readers, editors and type checkers (mypy, pyright). They have no effect on compilation: a
kernel is compiled for the types of a launch's arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, TypeVarTuple, Union

import numpy as np

from ..places.place import SpaceLike as SpaceLike
from ..places.policy import MDRangePolicy, RangePolicy, TeamPolicy

Number: TypeAlias = Union[bool, int, float, "np.number[Any]", np.bool_]
Shape: TypeAlias = Union[int, Sequence[int]]
DTypeLike: TypeAlias = Union[str, type, "np.dtype[Any]"]
Policy: TypeAlias = Union[int, RangePolicy, TeamPolicy]
AnyPolicy: TypeAlias = Union[Policy, MDRangePolicy]
Scan: TypeAlias = Literal["inclusive", "exclusive"]

Arguments = TypeVarTuple("Arguments")  # of a kernel, after its index
Result = TypeVar("Result")


class ArrayLike(Protocol):
    """Array argument of a kernel: a View, a NumPy array, or another library's array on the launch's space."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions."""

    @property
    def dtype(self) -> Any:
        """Type of the elements."""

    def __getitem__(self, index: Any, /) -> Any: ...

    def __setitem__(self, index: Any, value: Any, /) -> None: ...

    def __len__(self) -> int: ...


Whole: TypeAlias = Union[int, "np.integer[Any]", ArrayLike]
Real: TypeAlias = Union[Number, ArrayLike]
Out: TypeAlias = Union[ArrayLike, tuple[ArrayLike, ...]]
