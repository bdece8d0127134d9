"""A place's work on runs: the sums (6) of shards, for several models of the same orders at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import portable as pk

from ..sharding import Held
from . import kernels, rounding
from .kernels import PACK
from .packed import FADED, Part, part_of, tiny
from .runs import Runs
from .stored import Stretch


class Laid(NamedTuple):
    """Runs as the E-step takes them.

    Attributes
    ----------
    censoring : bool
        Whether any is open.
    views : tuple
        What the kernel `expectation` takes of them, in its order: Views, or arrays that wait on the host.
    n_rows : int
        Rows of `filtered` that are wanted.
    half, distinct : float and View, or None
        Half the resolution, in units, and what is tabulated; None where gaps are not rounded.
    """

    censoring: bool
    views: tuple
    n_rows: int
    half: float | None
    distinct: pk.View | None

    @property
    def nbytes(self) -> int:
        return sum(view.size * view.dtype.itemsize for view in self.views)

    def on_host(self) -> Laid:
        return self._replace(views=tuple(view.to_numpy().copy() for view in self.views))


class Shard(NamedTuple):
    """Laid runs in a space, and room for their sums, for the sum of these and for tables."""

    laid: Laid
    sums: pk.View
    total: pk.View
    table: pk.View


class Expectation:
    """A method for `sharding.Shards`.

    Parameters
    ----------
    n_models, n_branches : int
    dtype : type
        Of the recursions.
    unit : float
    space : str or Space

    Attributes
    ----------
    views : sequence of View
        Models of which sums are asked for: their rows, the same in the recursions' dtype, their state. Copies
        of what is given to `load`, or the views of an EM in the same space.
    """

    repeated = queued = ("sums",)

    def __init__(self, n_models: int, n_branches: int, dtype: type, unit: float, space: object) -> None:
        self._n_models, self._n, self._dtype, self._unit = n_models, n_branches, dtype, unit
        self._blank = pk.empty((1, 1, 1, 1), dtype, space)  # a table that nobody reads
        self.space, self._filtered = self._blank.space, self._blank.reshape(1, 1)
        self.views = None
        self._shape = n_models, kernels.row_of(kernels.MOVE, n_branches, n_branches**2)

    def lay_out(self, piece: Runs | Part | Stretch) -> Laid:
        """Runs packed in the space."""
        packed = part_of(piece).packed(self.space, self._dtype, self._unit)
        *shared, n_rows = packed.shared
        half = 0.5 * packed.resolution / self._unit if packed.rounded else None
        distinct = packed.distinct if packed.rounded else None
        return Laid(packed.censoring, (*shared, *packed.views), n_rows, half, distinct)

    def prepare(self, piece: Runs | Part | Stretch | Laid) -> Shard:
        """Runs in the space, where `lay_out` has not yet been at work also laid out."""
        laid = piece if isinstance(piece, Laid) else self.lay_out(piece)
        laid = laid._replace(
            views=tuple(
                view if isinstance(view, pk.View) else pk.copy_of(view, self.space) for view in laid.views
            )
        )
        wanted = laid.n_rows * self._n * PACK
        if self._filtered.shape[1] < wanted:
            self._filtered = pk.empty((self._n_models, wanted), self._dtype, self.space)
        sums = pk.zeros((*self._shape, laid.views[1].size), np.float64, self.space)
        total, table = pk.zeros(self._shape, np.float64, self.space), self._blank
        if laid.distinct is not None:
            table = pk.empty((self._n_models, 3, self._n, laid.distinct.size), self._dtype, self.space)
        return Shard(laid, sums, total, table)

    def load(self, *arrays: np.ndarray | pk.View) -> None:
        """For the sums that follow: rows of models, their state, and the rows in the recursions' dtype where
        that is another one; arrays, or views of any space."""
        if self.views is None:
            there = self._filtered.memory
            self._loaded = [
                array if getattr(array, "memory", None) == there else pk.copy_of(array, self.space)
                for array in arrays
            ]
            exact, state, *narrow = self._loaded
            self.views = exact, narrow[0] if narrow else exact, state
        for view, array in zip(self._loaded, arrays):
            if view is not array:
                pk.deep_copy(view, array, wait=False)

    def sums(self, shards: Iterator[Shard]) -> Iterator[tuple]:
        """The sums of each of the models in `views`, shape (n_models, n_sums). Nothing waits for the
        space."""
        exact, models, state = self.views
        for laid, sums, total, table in shards:
            rounded = laid.distinct is not None
            if rounded:
                n_models, _, n_branches, n_values = table.shape
                pk.parallel_for(
                    pk.MDRangePolicy((0, 0, 0), (n_models, n_branches, n_values), space=self.space),
                    rounding.tabulate,
                    laid.half,
                    exact,
                    laid.distinct,
                    table,
                    label="tmap.tabulate",
                )
            pk.parallel_for(
                pk.TeamPolicy(self._n_models * sums.shape[2], PACK, space=self.space),
                kernels.expectation,
                *kernels.branches(self._n),
                pk.static(laid.censoring),
                pk.static(rounded),
                FADED[self._dtype],
                tiny(self._dtype),
                state,
                models,
                table,
                *laid.views,
                self._filtered,
                sums,
                label="tmap.expectation",
            )
            policy = pk.TeamPolicy(total.size, 512, space=self.space)
            pk.parallel_for(policy, kernels.add_sums, sums, total, label="tmap.add_sums")
            yield (Held(total),)
