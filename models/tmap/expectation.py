"""The E-step of a place: sums (6) of shards, for several models of the same orders at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import Array, launch
from ..shared.places import Held, additions
from . import kernels
from .kernels import PACK
from .packed import FADED, Laid, Part, fill_table, new_table, part_of, tiny
from .runs import Runs
from .stored import Stretch


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
        Sums of each shard; in the end those of all shards, in the first place.
    table : View
    """

    laid: Laid
    columns: pk.View
    pairs: pk.View
    sums: pk.View
    total: pk.View
    table: pk.View


class Expectation:
    """A method for `sharding.Shards`: the E-step.

    Parameters
    ----------
    n_models, n_branches, n_shards : int
    dtype : type
        Dtype of the recursions.
    unit : float
    space : str or Space

    Attributes
    ----------
    views : sequence of View
        Models whose sums are computed: rows in float64, rows in the recursions' dtype, and state. Copies of
        the arguments of `load`, or the views of an EM in the same space.
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
        """Pack runs in the space."""
        part = part_of(piece, self._n_shards)
        return part.packed(self.space, self._dtype, self._unit).shares(part.cuts, part.n_shards)

    def prepare(self, piece: Runs | Part | Stretch | Laid) -> Piece:
        """Copy runs to the space; first lay them out if this has not been done."""
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
            pk.zeros((*self._shape, int(laid.columns[-1])), space=self.space),
            pk.zeros((n_shards, *self._shape), space=self.space),
            new_table(laid.distinct, self._n_models, self._n, self._dtype, self.space),
        )

    def load(self, *arrays: Array | pk.View) -> None:
        """Set the models of the following sums: rows, state, and the rows in the recursions' dtype if that is
        not float64; arrays, or views of any space."""
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
        """Yield the sums of each model in `views`, shape (n_models, n_sums), for each piece, without waiting
        for the space."""
        exact, models, state = self.views
        for laid, columns, pairs, sums, total, table in pieces:
            rounded = laid.distinct is not None
            if rounded:
                fill_table(exact, laid.distinct, table)
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
                launch(total.shape[1:], kernels.add_shards, pairs, total, space=self.space)
            yield (Held(total[0]),)
