"""Compute log-densities of a block of points under all components at a time, and sums of them, in one space
or worker."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import Array, launch, reached, reduce
from ..shared.mapped import Mapped, Part, read
from ..shared.sharding import Held
from . import kernels, search_kernels
from .rows import Landing, Stretch
from .sums import Sums, record_length

# Points that a member of `log_joint` keeps in registers: each number of a component's record is read once for
# all of them.
_ROWS = {np.float64: 4, np.float32: 8}
_RECORDS, _MOST_RECORDS = 24 << 10, 32  # bytes and components of records in scratch for `log_joint`, at most


class Piece(NamedTuple):
    """Points from number `start` on, in the form that is sent to a worker; `weights` are their
    multiplicities."""

    start: int
    rows: Array | pk.View | Mapped | Part | Stretch
    weights: Array | pk.View | None

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


class Block(NamedTuple):
    """n points from number `start` on in a space: x of shape (p, columns); their weights, a View or None;
    flaw[0] is 0, or NaN if a point is not finite.

    joint and lse, of the width of the block, are shared with other blocks; total is the sum of the last
    sweep's lse_i; added is a list of one View with the block's sums, empty before the first sums.
    """

    start: int
    n: int
    x: pk.View
    weights: pk.View | None
    flaw: pk.View
    joint: pk.View
    lse: pk.View
    total: pk.View
    added: list[pk.View]


class Sweeps:
    """Methods for `sharding.Shards`, whose shards are blocks of points.

    `records` are the components' records of `blocks.Components`, an array or a View of any space; `gather`,
    whose launches are the same at each call, uses the loaded records.

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
        Rows of `joint`: k, rounded up to whole teams.
    n_slices : int
        Slices of a block that have separate sums.
    space : str or Space
    """

    queued = "gather", "gather_about", "log_likelihood"
    repeated = ("gather",)

    def __init__(self, k, p, dtype, diagonal, centre, block, height, n_slices, space):
        self.k, self.p, self.dtype, self.diagonal, self._n_slices = k, p, dtype, diagonal, n_slices
        length = record_length(p, diagonal)
        most = max(min(_RECORDS // (np.dtype(dtype).itemsize * length), _MOST_RECORDS), 1)
        # equal slices of the components, in multiples of the number that `log_joint` stages together
        share = -(-k // -(-k // most))
        self._record = -(-share // kernels.STAGED) * kernels.STAGED, length
        with pk.use(space) as self.space:
            self._joint = pk.empty((block // kernels.PAD, height, kernels.PAD), dtype)
            self._lse = pk.empty((-(-k // self._record[0]), block), dtype)
            self._centre = reached(centre)
            self._records = pk.empty(k * length, dtype)
        self._sums = None

    def room(self):
        """Return the arrays for sums, which the first call allocates."""
        if self._sums is None:
            if self._joint.shape[1] > self.k:  # rows beyond the components
                pk.deep_copy(self._joint, kernels.LOG_ZERO)
            self._sums = Sums(self._n_slices, self.k, self.p, self.dtype, self.diagonal, self.space)
        return self._sums

    def prepare(self, piece):
        """Return a Block of the points of a piece less the centre, one a column."""
        rows, weights = reached(read(piece.rows), self.space), piece.weights
        width = padded(rows.shape[0], self.dtype)
        with pk.use(self.space):
            x, flaw, total = pk.empty((self.p, width), self.dtype), pk.empty(1), pk.empty(1)
        reduce(width, kernels.lay_out, rows, self._centre, x, out=flaw, space=self.space)
        if weights is not None:
            weights = reached(weights, self.space)
        joint, lse = self._joint[: width // kernels.PAD], self._lse[:, :width]
        return Block(piece.start, rows.shape[0], x, weights, flaw, joint, lse, total, [])

    def load(self, records):
        """Load the records of the components that `gather` uses."""
        pk.deep_copy(self._records, records, wait=False)

    def _computed(self, blocks, records=None):
        """Yield the blocks after l_ij, lse_i and the sum of lse_i are computed, from the given records or
        those loaded before."""
        if records is not None:
            self.load(records)
        for block in blocks:
            self._log_joint(block)
            kernel, weights = kernels.normalise, ()
            if block.weights is not None:
                kernel, weights = kernels.normalise_weighted, (block.weights,)
            given = block.lse.shape[1], kernel, block.n, block.flaw, *weights, block.lse
            reduce(*given, out=block.total, space=self.space)
            yield block

    def _log_joint(self, block):
        """Launch `log_joint` for a block."""
        width, n_parts = block.x.shape[1], block.lse.shape[0]
        n_rows = rows_of(width, self.dtype)
        n_teams = -(-block.joint.shape[0] // (kernels.STACKS * n_rows)) * n_parts
        fixed = self.p, int(self.diagonal), n_rows, *self._record
        policy, own = pk.TeamPolicy(n_teams, 128, space=self.space), (block.joint, block.lse)
        kernel = kernels.log_joint if self.dtype == np.float64 else kernels.log_joint_alone
        launch(policy, kernel, *map(pk.static, fixed), block.x, self._records, *own)

    def log_likelihood(self, blocks, records):
        """Return sum_i lse_i of each block, to be added up."""
        return ((Held(block.total),) for block in self._computed(blocks, records))

    def totals(self, blocks, records):
        """Return sum_i lse_i of each block, as numbers."""
        return (float(block.total.to_numpy()[0]) for block in self._computed(blocks, records))

    def gather(self, blocks):
        """Return sum_i lse_i and the sums of `sums.Sums` about the centre for each block, by the loaded
        records."""
        room = self.room()  # allocated before anything is computed
        return ((Held(block.total), Held(room.of(block))) for block in self._computed(blocks))

    def gather_of(self, blocks, records):
        """Yield the results of `gather` by records that are read from their own array."""
        loaded, self._records = self._records, records
        yield from self.gather(blocks)
        self._records = loaded

    def gather_about(self, blocks, records, reference, chosen, change=lambda *of_block: ()):
        """Yield the results of `gather` with sums about several references, and the results of `change`, to
        be added up: it may replace l_ij."""
        room = self.room()
        for block in self._computed(blocks, records):
            more = change(self, block, block.joint, block.lse)
            yield Held(block.total), Held(room.of(block, reference, chosen)), *more

    changed = gather_about  # for a `change` that may wait for results: its launches are not queued

    def entropies(self, blocks, records, kernel, *numbers):
        """Yield the entropies of `blocks.Points.pair_entropies` or `group_entropies` for each block."""
        for block in self._computed(blocks, records):
            yield (self.entropies_of(block, kernel, *numbers),)

    def entropies_of(self, block, kernel, *numbers):
        """Return the entropies of pairs in a block, by a kernel of that name; the last of `numbers` are the
        pairs, those before it the groups, if any."""
        *groups, pairs = (pk.copy_of(own, self.space) for own in numbers)
        total = pk.copy_of(np.zeros((len(pairs), 3) if groups else len(pairs)), self.space)
        policy = pk.TeamPolicy(len(pairs), 128, space=self.space)
        own = *groups, pairs, block.joint, block.lse, total
        launch(policy, getattr(search_kernels, kernel), block.n, *own)
        return Held(total)

    def flaws(self, blocks):
        """Return 0 for each block, or NaN if a point is not finite."""
        return ((Held(block.flaw),) for block in blocks)

    def by_point(self, blocks, records, what, out=None):
        """Compute one kind of results of each point, with shape and dtype as in `results`.

        With `out`, an array for all points, results are written to it and (sum_i lse_i,) of each block is
        yielded, to be added up without a wait between blocks. Without `out`, (results, sum_i lse_i) of each
        block is yielded.
        """
        shape, dtype = results(what, self.k, self.dtype)
        landing = None if out is None else Landing(out, self.space)
        for block in self._computed(blocks, records):
            n, joint, lse = block.n, block.joint, block.lse
            over, given = {
                "densities": (n, (lse,)),
                "most_probable": (by_tile(joint), (self.k, joint)),
                "responsibilities": (by_tile(joint), (joint, lse)),
            }[what]
            if landing is None:
                values = pk.empty((n, *shape), dtype, self.space)
            else:
                values = landing.rows(block.start, block.start + n)
            launch(over, getattr(kernels, what), *given, values, space=self.space)
            if landing is None:
                yield values.to_numpy(), float(block.total.to_numpy()[0])
            else:
                yield (Held(block.total),)
        if landing is not None:
            landing.flush()


def results(what, k, dtype):
    """Return the shape and dtype of each point's results by the kernel that computes them: lse_i, the most
    probable component, or r_ij."""
    own = {"most_probable": ((), np.int64), "responsibilities": ((k,), dtype)}
    return own.get(what, ((), dtype))


class OfPoints:
    """Methods that return results of each point; a subclass has `by_point(what, components, as_view)`."""

    as_view = False

    def log_densities(self, components, as_view=False):
        """Return lse_i, shape (n,), in the points' dtype; a View on the space if `as_view`, otherwise an
        array on the host."""
        return self.by_point("densities", components, as_view)

    def labels(self, components):
        """Return the most probable component of each point, int64, shape (n,), on the host."""
        return self.by_point("most_probable", components, False)

    def responsibilities(self, components):
        """Return r_ij, shape (n, k), on the host."""
        return self.by_point("responsibilities", components, False)

    def log_likelihood(self, components):
        """Return sum_i lse_i."""
        return float(self.log_densities(components).sum(dtype=np.float64))


def by_tile(joint):
    """Return the index range of a kernel with one index pair for each point of a block."""
    return joint.shape[0], kernels.PAD


def padded(n, dtype):
    """Return the number of columns for n points: whole tiles, in multiples of the points of a member."""
    unit = kernels.PAD * rows_of(n, dtype)
    return -(-n // unit) * unit


def rows_of(width, dtype):
    """Return the number of points of a member of `log_joint`: 1 if there are few points, so that these are
    not padded to many."""
    return _ROWS[dtype] if width >= _ROWS[dtype] * kernels.PAD else 1
