"""The sums (3) over points, block by block: room for them, and what they are taken about."""

from __future__ import annotations

import functools

import numpy as np

import portable as pk

from ..shared.launches import launch
from . import moment_kernels

# points whose sums are kept apart: enough to pay for writing them, few enough for float32 to add them up; of
# few points less, down to the second, for as many teams as 16 cores share out evenly
SLICE, LEAST_SLICE, FEW_SLICES = 1024, 256, 96
_OWN = 8  # features of a member of `moments`, at most
_GROUP = {np.float64: 64, np.float32: 128}  # components of a team, at most: 64 KiB of sums
_FEW_BLOCKS = 3  # of features, for whose teams scratch holds more components
_SHARE = {np.float64: 64, np.float32: 128}  # sums of a member of a team on a GPU

# |L^-1 (mu - c)|^2 up to which sums may be taken about c: so many units in the last place is what a
# covariance loses.
CANCELS = {np.float64: 1e8, np.float32: 1e4}
# Of a mean square: some units in the last place, which is what a sum of squares is right to.
ROUNDING = {kind: 8.0 * float(np.finfo(kind).eps) for kind in (np.float64, np.float32)}


def n_features(p, diagonal):
    """Return products of (1, d) (1, d)' that are summed: the lower triangle, or 1, d and d^2."""
    return 1 + 2 * p if diagonal else (p + 1) * (p + 2) // 2


def record_length(p, diagonal):
    """Return numbers of a component as `kernels.log_joint` reads them; with some that are not read, so
    that records begin where loads of 16 bytes do, and neighbours in other banks."""
    return ((2 * p + 1 if diagonal else p * (p + 3) // 2 + 1) + 3) // 8 * 8 + 4


@functools.cache
def triangle(p):
    """Return rows and columns of a lower triangle, in the order in which it is kept."""
    return np.tril_indices(p)


def slices_of(n):
    """Slices of so many points."""
    return max(round(n / SLICE), min(round(n / LEAST_SLICE), FEW_SLICES), 1)


def blocks_of(p, diagonal):
    """Blocks of features, each of which has teams of its own."""
    return -(-n_features(p, diagonal) // (_OWN * moment_kernels.COLUMNS))


def group_of(k, dtype, n_blocks):
    """Return components of a team of `moments`, and its members: k in even groups, of which each member
    has as many."""
    # to make several blocks of features costs more; of many blocks, scratch does not hold as much
    most = max(_GROUP.values()) if 1 < n_blocks <= _FEW_BLOCKS else _GROUP[dtype]
    even = -(-k // -(-k // most))
    team = max((1 << (even - 1).bit_length()) * _OWN * moment_kernels.COLUMNS // _SHARE[dtype], 32)
    unit = team // moment_kernels.COLUMNS
    return -(-even // unit) * unit, team


class Copy:
    """An array on a space, copied there when it changes."""

    def __init__(self, space):
        self._space, self._array, self._view = space, None, None

    def of(self, array):
        if self._array is not array and (self._array is None or not np.array_equal(self._array, array)):
            self._array, self._view = array, pk.copy_of(array, self._space)
        return self._view


class Sums:
    """Sums of r (1, d) (1, d)' for blocks of points, d being points less a component's reference.

    Parameters
    ----------
    n_slices, k, p : int
        A block's sums are kept apart for so many slices of it, at most.
    dtype : np.float32 or np.float64
    diagonal : bool
    space : Space
    """

    def __init__(self, n_slices, k, p, dtype, diagonal, space):
        self.k, self._space, self._numbers, self._chosen = k, space, Copy(space), Copy(space)
        m, self._n_blocks, self._n_slices = n_features(p, diagonal), blocks_of(p, diagonal), n_slices
        wide = -(-m // (self._n_blocks * moment_kernels.COLUMNS)) * moment_kernels.COLUMNS
        self.group, self._team = group_of(k, dtype, self._n_blocks)
        is_alone = self.group > _GROUP[dtype]
        self._kernel = moment_kernels.moments_alone if is_alone else moment_kernels.moments
        self._static = [*map(pk.static, (p, int(diagonal), self._n_blocks, wide, self.group))]
        with pk.use(space):
            self._centred = pk.zeros((1, p), dtype), pk.zeros((k,), np.int64)
            self._slices = pk.empty((n_slices, k, m), dtype)

    def of(self, block, numbers=None, chosen=None):
        """Return the sums of a `sweeps.Block`, a View of shape (k, n_features) of its own, which its next
        sums overwrite.

        numbers, chosen : of references, as `references` gives them, in the points' dtype; by default the
            centre of all
        """
        about, n_tiles, ranges = self._centred, block.joint.shape[0], [(0, 0, self.k)]
        if numbers is not None:
            about = self._numbers.of(numbers), self._chosen.of(chosen)
            if len(numbers) > 1:
                each = ((number, np.flatnonzero(chosen == number)) for number in range(len(numbers)))
                ranges = [(number, int(own[0]), int(own[-1]) + 1) for number, own in each if len(own)]
        # whole tiles may be too few for all: none is left empty
        n_slices = -(-n_tiles // -(-n_tiles // self._n_slices))
        for number, begin, end in ranges:
            teams = (-(-end // self.group) - begin // self.group) * self._n_blocks * n_slices
            policy = pk.TeamPolicy(teams, self._team, space=self._space)
            given = n_slices, block.x, block.joint, block.lse, begin, end, number
            launch(policy, self._kernel, *self._static, *given, *about, self._slices)
        if not block.added:
            block.added.append(pk.empty(self._slices.shape[1:], np.float64, self._space))
        added = block.added[0]
        launch(added.shape, moment_kernels.add_slices, self._slices[:n_slices], added, space=self._space)
        return added


def references(components, centre, limit):
    """Return the references of sums, less `centre`, shape (n, p), and the one of each component, shape
    (k,).

    The centre of all, number 0; a component that is too far from it for its width takes its own mean, which
    others near it share.
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
