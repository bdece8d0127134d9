"""Sums that many indices contribute to: private copies, added up when the launch ends (Kokkos's
ScatterView)."""

from __future__ import annotations

import numpy as np

from ..language.annotations import ArrayLike
from ...errors import DTypeError, InputError
from .view import View, asview


class ScatterView:
    """A view for a launch that only adds to it, with pk.atomic_add and pk.atomic_sub.

        pk.parallel_for(n, histogram, x, pk.ScatterView(counts))

    Each CPU thread and each block of GPU threads adds to a private copy, without contention; the copies are
    added to the view before the launch ends. The kernel's source does not change. Where copies would be too
    large for this to pay, and in reductions and scans, the sums are atomic as they would be without it.

    Parameters
    ----------
    view : View or NumPy array, writable, contiguous (row-major), not of bool

    Raises
    ------
    InputError, DTypeError

    Examples
    --------
    >>> @pk.kernel
    ... def count(i, x, counts):
    ...     pk.atomic_add(counts, x[i], 1)
    >>> counts = np.zeros(3, np.int64)
    >>> pk.parallel_for(4, count, np.array([0, 2, 2, 2]), pk.ScatterView(counts))
    >>> counts.tolist()
    [1, 0, 3]
    """

    __slots__ = ("view",)

    def __init__(self, view: ArrayLike):
        self.view = asview(view)
        if self.view.readonly:
            raise InputError("ScatterView: view is read-only; expected a writable one")
        if self.view.dtype.kind in "bc":
            raise DTypeError(
                f"ScatterView: view is of {self.view.dtype}; expected real numbers; without it, "
                "pk.atomic_add takes complex ones"
            )
        step = self.view.dtype.itemsize
        for extent, stride in zip(self.view.shape[::-1], self.view.strides[::-1]):
            if stride != step and extent > 1:
                raise InputError(
                    f"ScatterView: view has strides {self.view.strides} for shape {self.view.shape}; expected"
                    " a contiguous one"
                )
            step *= extent

    def __repr__(self):
        return f"ScatterView({self.view!r})"


def viewed(argument):
    """Return the View of an argument with elements, an array of any library; other arguments as they are, and
    those that launches refuse."""
    if isinstance(argument, ScatterView):
        return argument.view
    try:
        return argument if isinstance(argument, (View, np.generic)) else asview(argument)
    except InputError:
        return argument
