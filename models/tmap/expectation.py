"""A place's work on runs: the sums (6) of shards, for several models of the same orders at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared.launches import launch
from ..shared.places import Held, additions
from . import kernels
from .kernels import PACK
from .packed import FADED, Part, fill_table, new_table, part_of, tiny
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
    columns, groups, n_rows : ndarray, list and int
        As of `packed.Shares`.
    half, distinct : float and View, or None
        Half the resolution, in units, and what is tabulated; None where gaps are not rounded.
    """

    censoring: bool
    views: tuple
    columns: np.ndarray
    groups: list
    n_rows: int
    half: float | None
    distinct: pk.View | None

    @property
    def nbytes(self) -> int:
        return sum(view.size * view.dtype.itemsize for view in self.views)

    def on_host(self) -> Laid:
        return self._replace(views=tuple(view.to_numpy().copy() for view in self.views))


class Piece(NamedTuple):
    """Laid runs of one or more shards in a space.

    Attributes
    ----------
    laid : Laid
    columns : View of int64, shape (n_shards + 1,)
        First team of each shard.
    pairs : View of int64, shape (n_shards - 1, 2)
        Additions of shards, see `places.additions`.
    sums : View, shape (n_models, n_sums, n_teams)
    total : View, shape (n_shards, n_models, n_sums)
        Sums of each shard; of all of them, in the first place, in the end.
    table : View
    """

    laid: Laid
    columns: pk.View
    pairs: pk.View
    sums: pk.View
    total: pk.View
    table: pk.View


class Expectation:
    """A method for `sharding.Shards`.

    Parameters
    ----------
    n_models, n_branches, n_shards : int
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

    def __init__(
        self, n_models: int, n_branches: int, n_shards: int, dtype: type, unit: float, space: object
    ) -> None:
        self._n_models, self._n, self._dtype, self._unit = n_models, n_branches, dtype, unit
        self._n_shards = n_shards
        self._filtered, self.views = pk.empty((1, 1), dtype, space), None
        self.space = self._filtered.space
        self._shape = n_models, kernels.row_of(kernels.MOVE, n_branches, n_branches**2)

    def lay_out(self, piece: Runs | Part | Stretch) -> Laid:
        """Return runs packed in the space."""
        part = part_of(piece, self._n_shards)
        packed = part.packed(self.space, self._dtype, self._unit)
        dealt, *rest = packed.shares(part.cuts, part.n_shards)
        return Laid(packed.censoring, (dealt, *packed.views), *rest, packed.half, packed.distinct)

    def prepare(self, piece: Runs | Part | Stretch | Laid) -> Piece:
        """Return runs in the space, where `lay_out` has not yet been at work also laid out."""
        laid = piece if isinstance(piece, Laid) else self.lay_out(piece)
        laid = laid._replace(
            views=tuple(
                view if isinstance(view, pk.View) else pk.copy_of(view, self.space) for view in laid.views
            )
        )
        wanted = laid.n_rows * self._n * PACK
        if self._filtered.shape[1] < wanted:
            self._filtered = pk.empty((self._n_models, wanted), self._dtype, self.space)
        n_shards = len(laid.columns) - 1
        pairs = np.array(additions(n_shards), np.int64).reshape(-1, 2)
        return Piece(
            laid,
            pk.copy_of(laid.columns, self.space),
            pk.copy_of(pairs, self.space),
            pk.zeros((*self._shape, int(laid.columns[-1])), np.float64, self.space),
            pk.zeros((n_shards, *self._shape), np.float64, self.space),
            new_table(laid.distinct, self._n_models, self._n, self._dtype, self.space),
        )

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

    def sums(self, pieces: Iterator[Piece]) -> Iterator[tuple]:
        """Yield the sums of each of the models in `views`, shape (n_models, n_sums), for each piece. Nothing
        waits for the space."""
        exact, models, state = self.views
        for laid, columns, pairs, sums, total, table in pieces:
            rounded = laid.distinct is not None
            if rounded:
                fill_table(laid.half, exact, laid.distinct, table)
            dealt, *packs = laid.views
            for teams in laid.groups:
                launch(
                    pk.TeamPolicy(self._n_models * len(teams), PACK, space=self.space),
                    kernels.expectation,
                    *kernels.branches(self._n),
                    pk.static(laid.censoring),
                    pk.static(rounded),
                    FADED[self._dtype],
                    tiny(self._dtype),
                    state,
                    models,
                    table,
                    dealt[:, teams.start : teams.stop],
                    *packs,
                    self._filtered,
                    sums[:, :, teams.start : teams.stop],
                )
            policy = pk.TeamPolicy(total.size, 512, space=self.space)
            launch(policy, kernels.add_sums, columns, sums, total)
            if pairs.size:
                policy = pk.MDRangePolicy((0, 0), total.shape[1:], space=self.space)
                launch(policy, kernels.add_shards, pairs, total)
            yield (Held(total[0]),)
