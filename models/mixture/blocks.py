"""Points in blocks: in a space for good, or, where they are memory-mapped, read from the file at every sweep."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import FiniteError

from ..arrays import reached
from . import kernels, search_kernels
from .sums import Sums, group_of, n_features, references

# Of logarithms l_ij that are held at once: enough for a large GPU to have work for all its cores, and for 132
# multiprocessors with two teams each the last of a block's teams end together.
_BYTES = 33 * 2**24
_FEATURES = 128  # of more features than these so much the fewer, for their sums take room too
_LEAST, _BLOCKS = 4096, 8  # small data are one block, others at least so many: the logarithms of all are never held

_ROWS = 4  # points that a member of `log_joint` keeps in registers: what is read of a component serves all of them
_RECORDS, _MOST_RECORDS = 3072, 16  # numbers and components in scratch for `log_joint`


@dataclass(frozen=True)
class Components:
    """What a sweep needs of k Gaussians in p dimensions.

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

    def records_in(self, space, centre, dtype):
        """As the kernels read them, for points less `centre`."""
        k, p = self.means.shape
        diagonal = self.factors.ndim == 2
        scales = self.factors if diagonal else np.diagonal(self.factors, axis1=1, axis2=2)
        constant = self.log_weights - 0.5 * p * np.log(2.0 * np.pi) + np.log(scales).sum(axis=1)
        shift = self.means - centre
        if diagonal:
            rows = np.stack([-scales * shift, scales], axis=2).reshape(k, 2 * p)
        else:
            rows = np.empty((k, p * (p + 3) // 2))
            a, b = np.tril_indices(p)
            rows[:, a * (a + 3) // 2 + 1 + b] = self.factors[:, b, a]
            a = np.arange(p)
            rows[:, a * (a + 3) // 2] = -np.einsum("jba,jb->ja", self.factors, shift)
        return pk.copy_of(np.hstack([rows, np.maximum(constant, kernels.LOG_ZERO)[:, None]]).astype(dtype).ravel(), space)

    def references(self, centre, limit):
        return references(self, centre, limit)


class Points:
    """Points in a space, and room for a block's work.

    Parameters
    ----------
    X : ndarray, shape (n, p)
    n_components : int
    space : str, Space or None
    centre : ndarray, shape (p,)
        Taken off, so that points far from the origin lose no digits.
    diagonal : bool
        Whether covariances are diagonal.
    streamed : bool
        Read X anew at every sweep.
    weights : ndarray, shape (n,), optional
        How often each point counts.
    """

    def __init__(self, X, n_components, space, centre, diagonal, streamed=False, weights=None):
        self.X, self.centre, self.diagonal, self.k, self.streamed = X, centre, diagonal, n_components, streamed
        self.n, self.p = X.shape
        self.weights = weights
        self.total = float(self.n) if weights is None else float(weights.sum())
        self.dtype = np.float32 if X.dtype == np.float32 else np.float64
        pairs = _BYTES // np.dtype(self.dtype).itemsize // max(n_features(self.p, diagonal) // _FEATURES, 1)
        group = group_of(n_components, self.dtype)
        height = -(-n_components // group) * group  # the rows of no components are there for whole teams
        block = min(max(-(-self.n // _BLOCKS), _LEAST), max(pairs // height, 1))
        self._block = _padded(min(block, self.n))
        length = 2 * self.p + 1 if diagonal else self.p * (self.p + 3) // 2 + 1
        self._record = max(min(_RECORDS // length, _MOST_RECORDS), 1), length
        with pk.use(pk.default_space() if space is None else space) as self.space:
            self._joint = pk.empty((self._block // kernels.PAD, height, kernels.PAD), self.dtype)
            pk.deep_copy(self._joint, kernels.LOG_ZERO)
            self._lse = pk.empty((-(-n_components // self._record[0]), self._block), self.dtype)
            self._totals = pk.empty((len(self.starts),), np.float64)
            self._centre = reached(self.centre)
            self._kept = None if streamed else [self._read(start) for start in self.starts]
            self._weights = None if weights is None else reached(weights)
        self._sums = None

    @property
    def starts(self):
        """Where blocks begin."""
        return range(0, self.n, self._block)

    def width(self, start):
        """Columns of the block that begins there."""
        return _padded(min(self._block, self.n - start))

    def _read(self, start):
        rows = reached(self.X[start:start + self._block], self.space)
        with pk.use(self.space):
            x = pk.empty((self.p, _padded(rows.shape[0])), self.dtype)
        pk.parallel_for(pk.RangePolicy(0, x.shape[1], space=self.space), kernels.lay_out, rows, self._centre, x,
                        label="mixture.lay_out")
        return x

    def _blocks(self, components):
        """(number, points in it, x, joint, lse) of each block, with its l_ij and lse_i computed."""
        records = components.records_in(self.space, self.centre, self.dtype)
        for b, start in enumerate(self.starts):
            n = min(self._block, self.n - start)
            x = self._read(start) if self._kept is None else self._kept[b]
            width = x.shape[1]
            n_tiles = width // kernels.PAD
            joint, lse = self._joint[:n_tiles], self._lse[:, :width]
            teams = -(-n_tiles // kernels.TILES) * lse.shape[0]
            pk.parallel_for(pk.TeamPolicy(teams, 128, space=self.space), kernels.log_joint, pk.static(self.p),
                            pk.static(int(self.diagonal)), pk.static(_rows(width)), *map(pk.static, self._record), x, records, joint, lse, label="mixture.log_joint")
            policy, total = pk.RangePolicy(0, width, space=self.space), self._totals[b:b + 1]
            if self._weights is None:
                pk.parallel_reduce(policy, kernels.normalise, n, lse, out=total, label="mixture.normalise")
            else:
                pk.parallel_reduce(policy, kernels.normalise_weighted, n, self._weights[start:start + n], lse, out=total,
                                   label="mixture.normalise_weighted")
            yield b, n, x, joint, lse

    def _total(self):
        """sum_i lse_i of the sweep that ended; FiniteError where a point is too far from all components for its density."""
        totals = self._totals.to_numpy()
        if not np.isfinite(totals).all():
            b = int(np.flatnonzero(~np.isfinite(totals))[0])
            rows = np.abs(np.asarray(self.X[b * self._block:(b + 1) * self._block], np.float64) - self.centre)
            row, column = np.unravel_index(rows.argmax(), rows.shape)
            row += b * self._block
            raise FiniteError(f"X[{row}, {column}] is {self.X[row, column]}: so far from every component that its log-density is beyond "
                              f"{np.dtype(self.dtype)}. Leave such points out, or divide that column by its own scale")
        return float(totals.sum())

    def log_likelihood(self, components):
        """sum_i lse_i."""
        for _ in self._blocks(components):
            pass
        return self._total()

    def gather(self, components, assign=None):
        """One sweep of E-step and sums, which stay in `room`; sum_i lse_i."""
        room = self.room()
        room.begin(components, self.centre)
        for b, n, x, joint, lse in self._blocks(components):
            if assign is not None:
                assign(b * self._block, n, joint, lse)
            room.add(x, joint, lse)
        room.end()
        return self._total()

    def sweep(self, components, assign=None):
        """One sweep of E-step and sums.

        Parameters
        ----------
        components : Components
        assign : callable, optional
            Called with (start, n, joint, lse) of each block before its sums, to put draws in the place of l_ij.

        Returns
        -------
        log_likelihood : float
        sums : ndarray, shape (k, 1 + p, 1 + p), or (k, 1 + 2 p) if diagonal
            Of r (1, d) (1, d)', or of r, r d, r d^2, with d = x - reference.
        reference : ndarray, shape (k, p)
        """
        log_likelihood = self.gather(components, assign)
        return log_likelihood, *self.gathered()

    def gathered(self):
        """sums and reference of the last sweep, as `sweep` has them."""
        sums = self.room().added.to_numpy()
        if not self.diagonal:
            a, b = np.tril_indices(self.p + 1)
            square = np.empty((self.k, self.p + 1, self.p + 1))
            square[:, a, b] = square[:, b, a] = sums
            sums = square
        return sums, self.room().reference

    def pair_entropies(self, components, pairs):
        """What the likelihood's bound loses where two components are not told apart, shape (n_pairs,); `pairs`: ints, shape (n_pairs, 2)."""
        total, there = pk.copy_of(np.zeros(len(pairs)), self.space), pk.copy_of(np.asarray(pairs, np.int64), self.space)
        for _, n, _, joint, lse in self._blocks(components):
            self.add_pair_entropies(n, there, joint, lse, total)
        return total.to_numpy()

    def add_pair_entropies(self, n, pairs, joint, lse, total):
        """Those of a block, added to `total`; views."""
        pk.parallel_for(pk.TeamPolicy(pairs.shape[0], 128, space=self.space), search_kernels.pair_entropies, n, pairs, joint, lse, total,
                        label="mixture.pair_entropies")

    def group_entropies(self, components, groups, pairs):
        """How far groups of components are told apart: of each pair the sum over points of the entropy of being in one
        of the two rather than the other, and the sums of their probabilities, shape (n_pairs, 3).

        Parameters
        ----------
        components : Components
        groups : list of lists of ints
            Numbers of components.
        pairs : ints, shape (n_pairs, 2)
            Of groups.
        """
        begins = pk.copy_of(np.cumsum([0, *map(len, groups)]), self.space)
        members = pk.copy_of(np.concatenate(groups).astype(np.int64), self.space)
        there, total = pk.copy_of(np.asarray(pairs, np.int64), self.space), pk.copy_of(np.zeros((len(pairs), 3)), self.space)
        for _, n, _, joint, lse in self._blocks(components):
            pk.parallel_for(pk.TeamPolicy(len(pairs), 128, space=self.space), search_kernels.group_entropies, n, begins, members,
                            there, joint, lse, total, label="mixture.group_entropies")
        return total.to_numpy()

    @property
    def counted(self):
        """`weights` where the kernels read them; may be written to."""
        return self._weights

    def room(self):
        """Room for sums, made when they are first asked for."""
        if self._sums is None:
            self._sums = Sums(self._block, self.k, self.p, self.dtype, self.diagonal, self.space)
        return self._sums

    def log_densities(self, components):
        """lse_i, shape (n,)."""
        found = np.concatenate([lse[0, :n].to_numpy().copy() for _, n, _, _, lse in self._blocks(components)])
        self._total()
        return found

    def labels(self, components):
        """The most probable component of each point, shape (n,)."""
        found = []
        for _, n, x, joint, _ in self._blocks(components):
            with pk.use(self.space):
                labels = pk.empty((x.shape[1],), np.int64)
            pk.parallel_for(by_tile(joint, self.space), kernels.most_probable, self.k, joint, labels, label="mixture.most_probable")
            found.append(labels.to_numpy()[:n])
        self._total()
        return np.concatenate(found)

    def responsibilities(self, components):
        """r_ij, shape (n, k): stored, since asked for."""
        out = np.empty((self.n, self.k), self.dtype)
        for b, n, _, joint, lse in self._blocks(components):
            shape = joint.shape[0], self.k, kernels.PAD
            pk.parallel_for(pk.MDRangePolicy((0, 0, 0), shape, space=self.space), kernels.responsibilities, joint, lse,
                            label="mixture.responsibilities")
            by_point = joint.to_numpy()[:, :self.k].transpose(0, 2, 1).reshape(-1, self.k)
            out[b * self._block:b * self._block + n] = by_point[:n]
        self._total()
        return out


def by_tile(joint, space):
    """The policy of kernels for each point of a block."""
    return pk.MDRangePolicy((0, 0), (joint.shape[0], kernels.PAD), space=space)


def _rows(width):
    """Points of a member of `log_joint`: few points are not made many."""
    return _ROWS if width >= _ROWS * kernels.PAD else 1


def _padded(n):
    """Columns for n points: whole tiles, as many as members take."""
    unit = kernels.PAD * _rows(n)
    return -(-n // unit) * unit
