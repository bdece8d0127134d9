"""A place's work on points: log-densities of a block of points and all components at a time, and sums of
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import portable as pk

from ..arrays import reached
from ..mapped import Mapped, Part, read
from ..sharding import Held
from . import kernels, search_kernels
from .sums import Sums

# Points that a member of `log_joint` keeps in registers: what is read of a component serves all of them.
_ROWS = 4
_RECORDS, _MOST_RECORDS = 3072, 16  # numbers and components in scratch for `log_joint`


class Piece(NamedTuple):
    """Points from `start` on, as they travel; `weights` say how often each counts."""

    start: int
    rows: np.ndarray | Mapped | Part
    weights: np.ndarray | pk.View | None

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


class Block(NamedTuple):
    """n points from `start` on in a space: x of shape (p, columns), and their weights, a View or None."""

    start: int
    n: int
    x: pk.View
    weights: pk.View | None


class Sweeps:
    """A method for `sharding.Shards`, whose shards are blocks of points.

    Parameters
    ----------
    k, p : int
    dtype : np.float32 or np.float64
    diagonal : bool
        Whether covariances are diagonal.
    centre : ndarray, shape (p,)
    block : int
        Columns of the widest block.
    height : int
        Rows for components: teams are whole.
    space : str or Space
    """

    def __init__(
        self,
        k: int,
        p: int,
        dtype: type,
        diagonal: bool,
        centre: np.ndarray,
        block: int,
        height: int,
        space: object,
    ) -> None:
        self.k, self.p, self.dtype, self.diagonal, self._block = k, p, dtype, diagonal, block
        length = 2 * p + 1 if diagonal else p * (p + 3) // 2 + 1
        self._record = max(min(_RECORDS // length, _MOST_RECORDS), 1), length
        with pk.use(space) as self.space:
            self._joint = pk.empty((block // kernels.PAD, height, kernels.PAD), dtype)
            pk.deep_copy(self._joint, kernels.LOG_ZERO)
            self._lse = pk.empty((-(-k // self._record[0]), block), dtype)
            self._centre = reached(centre)
        self._sums = None

    def room(self) -> Sums:
        """Room for sums, made when they are first asked for."""
        if self._sums is None:
            self._sums = Sums(self._block, self.k, self.p, self.dtype, self.diagonal, self.space)
        return self._sums

    def prepare(self, piece: Piece) -> Block:
        """The points of a piece, less the centre, a column each."""
        rows, weights = reached(read(piece.rows), self.space), piece.weights
        with pk.use(self.space):
            x = pk.empty((self.p, padded(rows.shape[0])), self.dtype)
        pk.parallel_for(
            pk.RangePolicy(0, x.shape[1], space=self.space),
            kernels.lay_out,
            rows,
            self._centre,
            x,
            label="mixture.lay_out",
        )
        if weights is not None and not isinstance(weights, pk.View):
            weights = reached(weights, self.space)
        return Block(piece.start, rows.shape[0], x, weights)

    def _computed(self, blocks: Iterator[Block], records: np.ndarray) -> Iterator[tuple]:
        """(block, joint, lse, total): each with its l_ij and lse_i computed, and a View of the sum of its
        lse_i."""
        there = pk.copy_of(records, self.space)
        for block in blocks:
            width = block.x.shape[1]
            n_tiles = width // kernels.PAD
            joint, lse = self._joint[:n_tiles], self._lse[:, :width]
            teams = -(-n_tiles // kernels.TILES) * lse.shape[0]
            pk.parallel_for(
                pk.TeamPolicy(teams, 128, space=self.space),
                kernels.log_joint,
                pk.static(self.p),
                pk.static(int(self.diagonal)),
                pk.static(_rows(width)),
                *map(pk.static, self._record),
                block.x,
                there,
                joint,
                lse,
                label="mixture.log_joint",
            )
            yield block, joint, lse, self._normalised(block, lse)

    def _normalised(self, block: Block, lse: pk.View) -> pk.View:
        """The sum of a block's lse_i, which are put into the first row."""
        policy = pk.RangePolicy(0, lse.shape[1], space=self.space)
        total = pk.empty((1,), np.float64, self.space)
        if block.weights is None:
            kernel, args = kernels.normalise, (block.n, lse)
        else:
            kernel, args = kernels.normalise_weighted, (block.n, block.weights, lse)
        pk.parallel_reduce(policy, kernel, *args, out=total, label=f"mixture.{kernel.name}")
        return total

    def log_likelihood(self, blocks: Iterator[Block], records: np.ndarray) -> Iterator[tuple]:
        """sum_i lse_i."""
        return ((Held(total),) for *_, total in self._computed(blocks, records))

    def totals(self, blocks: Iterator[Block], records: np.ndarray) -> Iterator[float]:
        """sum_i lse_i of each block."""
        return (float(total.to_numpy()[0]) for *_, total in self._computed(blocks, records))

    def gather(
        self,
        blocks: Iterator[Block],
        records: np.ndarray,
        reference: np.ndarray,
        chosen: np.ndarray,
        change: Callable | None = None,
    ) -> Iterator[tuple]:
        """sum_i lse_i, the sums of `sums.Sums`, and what `change` gives to be summed."""
        room = self.room()
        for block, joint, lse, total in self._computed(blocks, records):
            room.begin(reference, chosen)
            more = () if change is None else change(self, block, joint, lse)
            room.add(block.x, joint, lse)
            yield Held(total), Held(room.end()), *more

    def pair_entropies(
        self, blocks: Iterator[Block], records: np.ndarray, pairs: np.ndarray
    ) -> Iterator[tuple]:
        """As `blocks.Points` has them."""
        for block, joint, lse, _ in self._computed(blocks, records):
            yield (self.pair_entropies_of(block.n, pairs, joint, lse),)

    def pair_entropies_of(self, n: int, pairs: np.ndarray, joint: pk.View, lse: pk.View) -> Held:
        """Those of a block."""
        there, total = pk.copy_of(pairs, self.space), pk.copy_of(np.zeros(len(pairs)), self.space)
        pk.parallel_for(
            pk.TeamPolicy(len(pairs), 128, space=self.space),
            search_kernels.pair_entropies,
            n,
            there,
            joint,
            lse,
            total,
            label="mixture.pair_entropies",
        )
        return Held(total)

    def group_entropies(
        self,
        blocks: Iterator[Block],
        records: np.ndarray,
        begins: np.ndarray,
        members: np.ndarray,
        pairs: np.ndarray,
    ) -> Iterator[tuple]:
        """As `blocks.Points` has them."""
        begins, members, there = (pk.copy_of(array, self.space) for array in (begins, members, pairs))
        for block, joint, lse, _ in self._computed(blocks, records):
            total = pk.copy_of(np.zeros((len(pairs), 3)), self.space)
            pk.parallel_for(
                pk.TeamPolicy(len(pairs), 128, space=self.space),
                search_kernels.group_entropies,
                block.n,
                begins,
                members,
                there,
                joint,
                lse,
                total,
                label="mixture.group_entropies",
            )
            yield (Held(total),)

    def log_densities(self, blocks: Iterator[Block], records: np.ndarray) -> Iterator[np.ndarray]:
        """lse_i of each point."""
        return (lse[0, : block.n].to_numpy().copy() for block, _, lse, _ in self._computed(blocks, records))

    def labels(self, blocks: Iterator[Block], records: np.ndarray) -> Iterator[tuple]:
        """The most probable component of each point, and sum_i lse_i."""
        for block, joint, _, total in self._computed(blocks, records):
            labels = pk.empty((block.x.shape[1],), np.int64, self.space)
            pk.parallel_for(
                by_tile(joint, self.space),
                kernels.most_probable,
                self.k,
                joint,
                labels,
                label="mixture.most_probable",
            )
            yield labels.to_numpy()[: block.n].copy(), float(total.to_numpy()[0])

    def responsibilities(self, blocks: Iterator[Block], records: np.ndarray) -> Iterator[tuple]:
        """r_ij of each point, and sum_i lse_i."""
        for block, joint, lse, total in self._computed(blocks, records):
            shape = joint.shape[0], self.k, kernels.PAD
            pk.parallel_for(
                pk.MDRangePolicy((0, 0, 0), shape, space=self.space),
                kernels.responsibilities,
                joint,
                lse,
                label="mixture.responsibilities",
            )
            by_point = joint.to_numpy()[:, : self.k].transpose(0, 2, 1).reshape(-1, self.k)
            yield by_point[: block.n].copy(), float(total.to_numpy()[0])


def by_tile(joint: pk.View, space: object) -> pk.MDRangePolicy:
    """The policy of kernels for each point of a block."""
    return pk.MDRangePolicy((0, 0), (joint.shape[0], kernels.PAD), space=space)


def padded(n: int) -> int:
    """Columns for n points: whole tiles, as many as members take."""
    unit = kernels.PAD * _rows(n)
    return -(-n // unit) * unit


def _rows(width: int) -> int:
    """Points of a member of `log_joint`: few points are not made many."""
    return _ROWS if width >= _ROWS * kernels.PAD else 1
