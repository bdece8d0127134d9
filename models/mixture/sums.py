"""The sums (3) over points, block by block: their arrays, and the references about which they are taken."""

import functools

import numpy as np

import portable as pk

from ..shared import launch
from . import moment_kernels

# points of a slice, which has separate sums: enough to outweigh the cost of writing these, few enough for
# float32 to add up. Few points have smaller slices, down to LEAST_SLICE, so that there are FEW_SLICES teams,
# which 16 cores divide evenly
SLICE, LEAST_SLICE, FEW_SLICES = 1024, 256, 96
_OWN = 8  # features that a member of `moments` sums, at most
_GROUP = {np.float64: 64, np.float32: 128}  # components of a team, at most: 64 KiB of sums
_FEW_BLOCKS = 3  # up to this number of blocks of features, scratch holds more components of a team
_SHARE = {np.float64: 64, np.float32: 128}  # sums that a member of a team holds on a GPU

# The largest |L^-1 (mu - c)|^2 for which sums may be taken about c: the error of a covariance is this many
# units in the last place.
CANCELS = {np.float64: 1e8, np.float32: 1e4}
# Relative error of a mean square: a few units in the last place, the accuracy of a sum of squares.
ROUNDING = {kind: 8.0 * float(np.finfo(kind).eps) for kind in (np.float64, np.float32)}


def n_features(p, diagonal):
    """Return the number of products of (1, d) (1, d)' that are summed: the lower triangle, or 1, d and
    d^2."""
    return 1 + 2 * p if diagonal else (p + 1) * (p + 2) // 2


def record_length(p, diagonal):
    """Return the length of a component's record for `kernels.log_joint`, with padding: records then begin at
    multiples of 16 bytes, and neighbours in different banks."""
    return ((2 * p + 1 if diagonal else p * (p + 3) // 2 + 1) + 3) // 8 * 8 + 4


@functools.cache
def triangle(p):
    """Return the row and column numbers of a lower triangle, in the order in which it is stored."""
    return np.tril_indices(p)


def slices_of(n):
    """Return the number of slices of n points."""
    return max(round(n / SLICE), min(round(n / LEAST_SLICE), FEW_SLICES), 1)


def blocks_of(p, diagonal):
    """Return the number of blocks of features; each block has separate teams."""
    return -(-n_features(p, diagonal) // (_OWN * moment_kernels.COLUMNS))


def group_of(k, dtype, n_blocks):
    """Return the number of components of a team of `moments`, and its number of members. The k components are
    divided into equal groups, of which each member handles equally many."""
    # Each group of components computes all features again, so that larger groups pay off for several blocks
    # of features; for many blocks scratch is too small for these.
    most = max(_GROUP.values()) if 1 < n_blocks <= _FEW_BLOCKS else _GROUP[dtype]
    even = -(-k // -(-k // most))
    team = max((1 << (even - 1).bit_length()) * _OWN * moment_kernels.COLUMNS // _SHARE[dtype], 32)
    unit = team // moment_kernels.COLUMNS
    return -(-even // unit) * unit, team


class Copy:
    """A copy of an array in a space, which is updated when the array changes."""

    def __init__(self, space):
        self._space, self._array, self._view = space, None, None

    def of(self, array):
        if self._array is not array and (self._array is None or not np.array_equal(self._array, array)):
            self._array, self._view = array, pk.copy_of(array, self._space)
        return self._view


class Sums:
    """Sums of r (1, d) (1, d)' for blocks of points, where d is a point less its component's reference.

    Parameters
    ----------
    n_slices, k, p : int
        Slices of a block that have separate sums, at most; components; coordinates.
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
            self._centred = pk.zeros((1, p), dtype), pk.zeros(k, np.int64)
            self._slices = pk.empty((n_slices, k, m), dtype)

    def of(self, block, numbers=None, chosen=None):
        """Return the sums of a `sweeps.Block`, a View of shape (k, n_features) that belongs to the block and
        is overwritten by its next sums.

        numbers, chosen : references as `references` returns them, in the points' dtype; the common centre if
        not given
        """
        about, n_tiles, ranges = self._centred, block.joint.shape[0], [(0, 0, self.k)]
        if numbers is not None:
            about = self._numbers.of(numbers), self._chosen.of(chosen)
            if len(numbers) > 1:
                each = ((number, np.flatnonzero(chosen == number)) for number in range(len(numbers)))
                ranges = [(number, int(own[0]), int(own[-1]) + 1) for number, own in each if len(own)]
        # there may be fewer tiles than slices: no slice may be empty
        n_slices = -(-n_tiles // -(-n_tiles // self._n_slices))
        for number, begin, end in ranges:
            teams = (-(-end // self.group) - begin // self.group) * self._n_blocks * n_slices
            policy = pk.TeamPolicy(teams, self._team, space=self._space)
            given = n_slices, block.x, block.joint.reshape(-1), block.lse, begin, end, number
            launch(policy, self._kernel, *self._static, *given, *about, self._slices)
        if not block.added:
            block.added.append(pk.empty(self._slices.shape[1:], space=self._space))
        added = block.added[0]
        launch(added.shape, moment_kernels.add_slices, self._slices[:n_slices], added, space=self._space)
        return added


def references(components, centre, limit):
    """Return the references of sums less `centre`, shape (n, p), and the number of each component's
    reference, shape (k,).

    Reference 0 is the common centre. A component that is too far from the centre for its width uses its own
    mean as a reference, together with other components near it.
    """
    shift, factors = components.means - centre, components.factors

    def away(j, vectors):
        """Return |L^-1 v|^2 for components j and vectors v."""
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
