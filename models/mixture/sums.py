"""The sums (3) over points, block by block: room for them, and what they are taken about."""

from __future__ import annotations

import numpy as np

import portable as pk

from . import kernels

SLICE = 512  # points whose sums are kept apart: enough to pay for writing them, few enough for float32 to add them up
_OWN = 8  # features of a member of `moments`, at most
_GROUP = 64  # components of a team, at most
_TILE = 32  # points that a team has in scratch, a divisor of kernels.PAD
_MEMBERS = 256  # of such a team

# |L^-1 (mu - c)|^2 up to which sums may be taken about c: so many units in the last place is what a covariance loses.
_CANCELS = {np.float64: 1e8, np.float32: 1e4}


def n_features(p, diagonal):
    """Products of (1, d) (1, d)' that are summed: the lower triangle, or 1, d and d^2."""
    return 1 + 2 * p if diagonal else (p + 1) * (p + 2) // 2


class Sums:
    """Sums of r (1, d) (1, d)' for blocks of at most `block` points, d being points less a component's reference.

    Parameters
    ----------
    block, k, p : int
    dtype : np.float32 or np.float64
    diagonal : bool
    space : Space
    """

    def __init__(self, block, k, p, dtype, diagonal, space):
        self.k, self._dtype, self._space = k, dtype, space
        m, widest = n_features(p, diagonal), _OWN * kernels.COLUMNS
        self._n_blocks, self._n_slices = -(-m // widest), -(-block // SLICE)
        n_own = -(-m // (self._n_blocks * kernels.COLUMNS))
        self._group = min(_GROUP, 1 << (k - 1).bit_length())
        self._team = max(_MEMBERS * self._group // _GROUP, 32)
        self._static = [pk.static(v) for v in (p, int(diagonal), self._n_blocks, n_own, self._group, _TILE)]
        with pk.use(space):
            self._slices = pk.empty((self._n_slices, k, m), np.float64)
            self._added = pk.empty((k, m), np.float64)

    def begin(self, components, centre):
        """Sums of nothing, for points less `centre`."""
        numbers, chosen = references(components, centre, _CANCELS[self._dtype])
        numbers = numbers.astype(self._dtype)
        self.reference = numbers.astype(np.float64)[chosen] + centre
        self._passes = [(0, 0, self.k)]
        for number in range(1, len(numbers)):
            own = np.flatnonzero(chosen == number)
            self._passes.append((number, int(own[0]), int(own[-1]) + 1))
        self._references, self._chosen = pk.copy_of(numbers, self._space), pk.copy_of(chosen, self._space)
        pk.deep_copy(self._slices, 0.0)

    def add(self, x, joint, lse):
        """What a block adds; arguments as in `kernels`."""
        for number, begin, end in self._passes:
            teams = -(-(end - begin) // self._group) * self._n_blocks * self._n_slices
            pk.parallel_for(pk.TeamPolicy(teams, self._team, space=self._space), kernels.moments, *self._static, self._n_slices, x,
                            joint, lse, begin, end, number, self._references, self._chosen, self._slices, label="mixture.moments")

    def total(self):
        """The sums, shape (k, n_features)."""
        pk.parallel_for(pk.MDRangePolicy((0, 0), self._added.shape, space=self._space), kernels.add_slices, self._slices,
                        self._added, label="mixture.add_slices")
        return self._added.to_numpy()


def references(components, centre, limit):
    """What sums are taken about, less `centre`, shape (n, p), and which of them each component takes, shape (k,).

    The centre of all, number 0; a component that is too far from it for its width takes its own mean, which others near it share.
    """
    shift, factors = components.means - centre, components.factors

    def away(j, vectors):
        """|L^-1 v|^2 of components j."""
        own = factors[j] * vectors if factors.ndim == 2 else np.einsum("jab,ja->jb", factors[j], vectors)
        return (own * own).sum(axis=1)

    chosen, found = np.zeros(len(shift), np.int64), [np.zeros(shift.shape[1])]
    left = np.flatnonzero(away(slice(None), shift) > limit)
    while len(left):
        found.append(shift[left[0]])
        near = away(left, shift[left] - found[-1]) <= limit
        chosen[left[near]] = len(found) - 1
        left = left[~near]
    return np.array(found), chosen
