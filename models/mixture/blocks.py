"""Points in blocks, which are distributed as shards. Blocks stay in the memory of their space, or, if the
points are memory-mapped, are read from the file in every sweep."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

import portable as pk

from ..shared.mapped import rows_of
from ..shared import FiniteError, Shards, launch, local_space, nodes
from ..shared.sharding import even_number
from . import covariance, kernels
from .checks import check_points
from .rows import Rows, Stretch, on_host
from .sums import CANCELS, blocks_of, group_of, n_features, record_length, references, slices_of, triangle
from .sweeps import OfPoints, Piece, Sweeps, padded, results

# Bytes of the logarithms l_ij of a block: enough to occupy all cores of a large GPU; on 132 multiprocessors
# with two teams each, the last teams of a block end together.
_BYTES = 33 * 2**24
_FEATURES = 128  # with more features than these, blocks shrink in proportion, since the sums also need memory
# Up to _LEAST points form one block, or fewer (at least _FEWEST) if they have more than _SMALL logarithms:
# smaller blocks would not occupy a GPU. More points form at least _BLOCKS blocks, so that the logarithms of
# all points are never stored at once.
_LEAST, _FEWEST, _SMALL, _BLOCKS = 2**16, 4096, 2**23, 8
_BLOCKS_ONCE = 2  # blocks of points that are used once: launches and waits take as long as their kernels
_MOST = 2**26  # bytes of a block's points, at most: a small part of a worker's memory, and enough for a GPU


@dataclass(frozen=True)
class Components:
    """Parameters of k Gaussians in p dimensions, for a sweep.

    Parameters
    ----------
    log_weights : ndarray, shape (k,)
    means : ndarray, shape (k, p)
    factors : ndarray, shape (k, p, p) or (k, p)
        Upper triangular P with Sigma^-1 = P P', or the diagonal of a diagonal P.
    """

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, kind, weights, means, factors):
        """Return Components with these weights, means and factors, as in `covariance`."""
        with np.errstate(divide="ignore"):
            return cls(np.log(weights), means, covariance.for_each(kind, factors, *means.shape))

    def records(self, centre, dtype):
        """Return the components' records for the kernels, for points less `centre`."""
        k, p = self.means.shape
        diagonal = self.factors.ndim == 2
        scales, shift = covariance.diagonals(self.factors), self.means - centre
        if diagonal:
            rows = np.stack([-scales * shift, scales], axis=2).reshape(k, 2 * p)
        else:
            rows = np.empty((k, p * (p + 3) // 2))
            a, b = triangle(p)
            rows[:, a * (a + 3) // 2 + 1 + b] = self.factors[:, b, a]
            a = np.arange(p)
            rows[:, a * (a + 3) // 2] = -np.einsum("jba,jb->ja", self.factors, shift)
        records = np.zeros((k, record_length(p, diagonal)), dtype)
        records[:, : rows.shape[1]] = rows
        records[:, rows.shape[1]] = self.constants()
        return records.ravel()

    def constants(self):
        """Return the logarithms of the weighted densities at the means, at least LOG_ZERO."""
        scales = np.log(covariance.diagonals(self.factors)).sum(axis=1)
        found = self.log_weights - 0.5 * self.means.shape[1] * np.log(2.0 * np.pi) + scales
        return np.maximum(found, kernels.LOG_ZERO)

    def references(self, centre, limit):
        return references(self, centre, limit)


class Points(OfPoints):
    """Points, distributed over spaces or workers, and sums over them.

    Parameters
    ----------
    X : ndarray or View, shape (n, p)
        float32 or float64.
    n_components : int
    space : str, Space, None or a list of them
    centre : ndarray, shape (p,)
        Subtracted from the points, so that points far from the origin lose no digits.
    diagonal : bool
        Whether covariances are diagonal.
    streamed : bool
        Whether X is read again in every sweep.
    weights : ndarray or View, shape (n,), optional
        Multiplicity of each point. Values written to a View take effect in the next sweep.
    client : distributed.Client, optional
    rows : Rows, optional
        The rows of X in the space, if they have been copied there already.
    once : bool
        Whether the points are used only once, for results of each point: no sum depends on the blocks'
        boundaries.

    Attributes
    ----------
    space : Space
        Where computations with the sums run.
    where : dict
        `client` and `space`, for other computations in the same places.
    make : callable (space) -> Sweeps
        Constructor of the object that processes the blocks in each place.
    as_view : bool
        Whether X was a View.
    added : ndarray or View, shape (k, n_features)
        The sums of the last sweep; see `sums.Sums`. A View if they were added up in a space.
    about : (ndarray of shape (n_references, p), ndarray of shape (k,))
        References of the sums, less the centre, and the number of each component's reference.
    """

    def __init__(
        self,
        X,
        n_components,
        space,
        centre,
        diagonal,
        streamed=False,
        weights=None,
        client=None,
        rows=None,
        once=False,
    ):
        self.as_view = isinstance(X, pk.View)
        if client is not None:
            X = on_host(X)
        self.X, self.centre, self.diagonal, self.k = X, centre, diagonal, n_components
        (self.n, self.p), self.streamed, self.weights = X.shape, streamed, weights
        self.where = {"client": client, "space": space}
        self.total = float(self.n if weights is None else on_host(weights).sum())
        self.dtype = np.float32 if X.dtype == np.float32 else np.float64
        with pk.use(local_space(client, space)) as self.space:
            pass
        is_one = client is None and not isinstance(space, (list, tuple))
        block, *room = self._blocks(_BLOCKS_ONCE if once and is_one else _BLOCKS)
        self.starts = range(0, self.n, block)
        if rows is not None and not (is_one and rows.is_whole):
            rows.forget()
            rows = None
        if rows is None and is_one:
            rows = Rows(X, self.space, block, once)
        pieces = []
        for start in self.starts:
            end = min(start + block, self.n)
            own = rows_of(X, start, end) if rows is None else Stretch(rows, start, end)
            pieces.append(Piece(start, own, None if weights is None else weights[start:end]))
        self.make = functools.partial(Sweeps, self.k, self.p, self.dtype, diagonal, centre, block, *room)
        apart = streamed and (client is None or isinstance(pieces[0].rows, np.ndarray))
        room = 0.0 if apart else None
        self._shards = Shards(self.make, pieces, **self.where, room=room, label="mixture")

    def with_components(self, n_components, **how):
        """Return the same points for another number of components, in the same places unless `how` names
        others."""
        return Points(self.X, n_components, **self.where | how, centre=self.centre, diagonal=self.diagonal)

    def _blocks(self, n_blocks):
        """Return the number of points of a block, if there should be `n_blocks`; the number of rows for its
        components; and the number of slices."""
        k, size = self.k, np.dtype(self.dtype).itemsize
        pairs = _BYTES // size // max(n_features(self.p, self.diagonal) // _FEATURES, 1)
        group, _ = group_of(k, self.dtype, blocks_of(self.p, self.diagonal))
        height = -(-k // group) * group  # teams are whole: rows beyond k belong to no component
        most = min(pairs // height, max(_MOST // (size * self.p), _FEWEST))
        least = min(max(_SMALL // k, _FEWEST), _LEAST)
        full = padded(min(self.n, max(-(-self.n // n_blocks), least), max(most, 1)), self.dtype)
        n_slices = slices_of(full)
        unit = n_slices * kernels.PAD  # a block that is not full has as many slices, of whole tiles
        even = -(-self.n // even_number(-(-self.n // full)))
        return min(padded(-(-even // unit) * unit, self.dtype), full), height, n_slices

    def _records(self, components):
        records = components.records(self.centre, self.dtype)
        return records if self.where["client"] is None else on_host(records)

    def check(self):
        """Raise FiniteError if a point is not finite. Points that stay in a space are prepared there for
        sweeps."""
        (flaw,) = self._shards.reduce("flaws")
        if np.isnan(flaw[0]):
            check_points(on_host(self.X))

    def _check(self, total, components):
        """Return the total sum_i lse_i; raise FiniteError if a point is not finite, or too far from all
        components for its density to be represented."""
        if not math.isfinite(total):
            check_points(on_host(self.X))
            totals = np.array(self._shards.map("totals", self._records(components)))
            start = self.starts[int((~np.isfinite(totals)).argmax())]
            rows = np.asarray(on_host(self.X[start : start + self.starts.step]), np.float64)
            row, column = np.unravel_index(np.abs(rows - self.centre).argmax(), rows.shape)
            raise FiniteError(
                f"X[{row + start}, {column}] is {rows[row, column]}: so far from every component that its"
                f" log-density is beyond {np.dtype(self.dtype)}. Leave such points out, or divide that column"
                " by its own scale"
            )
        return total

    def log_likelihood(self, components):
        """Return sum_i lse_i."""
        ((total,),) = self._shards.reduce("log_likelihood", self._records(components))
        return self._check(float(total), components)

    def gather(self, components, change=None):
        """Run one sweep of E-step and sums, which are stored in `added`; return sum_i lse_i, and the totals
        of the results of `change`.

        change : callable, optional
            Called with (sweeps, block, joint, lse) for each block before its sums: it may replace l_ij, and
            returns a tuple of arrays, which are added up over blocks. With a client it must be picklable.
        """
        self.about = self._about(components)
        name, args = "gather", ()
        if change is not None:
            name, args = "changed", (*self.about, change)
        elif len(self.about[0]) > 1:
            name, args = "gather_about", self.about
        total, self.added, *more = self._shards.reduce(name, self._records(components), *args, stay=True)
        return self._check(float(on_host(total)[0]), components), *map(on_host, more)

    def _about(self, components):
        numbers, chosen = components.references(self.centre, CANCELS[self.dtype])
        return numbers.astype(self.dtype, copy=False), chosen

    def graph(self, records, launches):
        """Return one graph of some launches followed by a sweep with sums about the centre. A sweep must have
        been made before.

        Parameters
        ----------
        records : View
            Records of the components, which the graph reads from this array at each replay.
        launches : sequence of tuple
            The arguments of `launch` for each launch before the sweep.

        Returns
        -------
        (Graph, View of sum_i lse_i, View of the sums), or ()
            () unless all points stay in one space of this process.
        """
        own = self._shards.prepared_shards()
        if own is None:
            return ()
        sweeps, blocks = own
        with pk.capture(self.space) as graph:
            for arguments in launches:
                launch(*arguments)
            ((_, _, (total, added)),) = nodes(sweeps.gather_of(iter(blocks), records), 0, len(blocks))
        return graph, total.view, added.view

    def take(self, components, total, added):
        """Store the result of such a graph as `gather` does; return sum_i lse_i."""
        self.about, self.added = self._about(components), added
        return self._check(float(total.to_numpy()[0]), components)

    def sweep(self, components, change=None):
        """Run one sweep of E-step and sums.

        Parameters
        ----------
        components : Components
        change : callable, optional
            As in `gather`.

        Returns
        -------
        log_likelihood : float
        moments : tuple of ndarrays
            As of `moments`.
        """
        return self.gather(components, change)[0], self.moments(components.means)

    @property
    def reference(self):
        """The reference of each component's sums in the last sweep, shape (k, p)."""
        numbers, chosen = self.about
        return numbers.astype(np.float64)[chosen] + self.centre

    def gathered(self):
        """Return the sums of r (1, d) (1, d)' of the last sweep, with d = x - reference, shape (k, 1 + p,
        1 + p); if diagonal, those of r, r d and r d^2, shape (k, 1 + 2 p)."""
        sums = np.array(on_host(self.added))  # the next sweep overwrites them
        if self.diagonal:
            return sums
        a, b = triangle(self.p + 1)
        square = np.empty((self.k, self.p + 1, self.p + 1))
        square[:, a, b] = square[:, b, a] = sums
        return square

    def moments(self, means):
        """Return n_j, xbar_j and S_j of (3), of the last sweep; a component without points keeps its
        mean."""
        sums, end, kind = self.gathered(), self.p + 1, "diag" if self.diagonal else "full"
        if self.diagonal:
            n, first, second = sums[:, 0], sums[:, 1:end], sums[:, end:]
        else:
            n, first, second = sums[:, 0, 0], sums[:, 1:, 0], sums[:, 1:, 1:]
        away = first / np.maximum(n, covariance.TINY)[:, None]
        xbar = np.where(n[:, None] > 0.0, self.reference + away, means)
        return n, xbar, second - covariance.squared(kind, np.sqrt(n)[:, None] * away)

    def pair_entropies(self, components, pairs):
        """Return the loss of the likelihood's bound if the components of a pair are not distinguished, shape
        (n_pairs,); `pairs`: ints, shape (n_pairs, 2)."""
        return self._entropies(components, "pair_entropies", pairs)

    def group_entropies(self, components, groups, pairs):
        """Return the separation of groups of components: for each pair the sum over points of the entropy
        of being in one of the two rather than the other, and the sums of their probabilities, shape
        (n_pairs, 3).

        Parameters
        ----------
        components : Components
        groups : list of lists of ints
            Numbers of components.
        pairs : ints, shape (n_pairs, 2)
            Numbers of two groups.
        """
        begins, members = np.cumsum([0, *map(len, groups)]), np.concatenate(groups)
        return self._entropies(components, "group_entropies", begins, members, pairs)

    def _entropies(self, components, kernel, *numbers):
        given = kernel, *(np.asarray(own, np.int64) for own in numbers)
        return self._shards.reduce("entropies", self._records(components), *given)[0]

    def by_point(self, what, components, as_view):
        """Return one kind of results for each point; used by `OfPoints`."""
        shape, dtype = results(what, self.k, self.dtype)
        records = self._records(components)
        if self.where["client"] is not None:
            parts, totals = zip(*self._shards.map("by_point", records, what))
            self._check(sum(totals), components)
            found = np.concatenate(parts)
            return pk.copy_of(found, self.space) if as_view else found
        found = pk.empty((self.n, *shape), dtype, self.space if as_view else "serial")
        found = found if as_view else found.to_numpy()
        ((total,),) = self._shards.reduce("by_point", records, what, found)
        self._check(float(total), components)
        return found
