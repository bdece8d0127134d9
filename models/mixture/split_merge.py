"""Proposals that split a component or merge two, so that a chain can leave states that it would not leave by
single assignments.

Two points are drawn. If they share a component, the proposal divides its points: a few EM iterations from the
two points find two components, by whose responsibilities each point is assigned independently, and one half
moves to a component without points. If the two points are in different components, the proposal merges these.
The result of the EM iterations depends only on the points of both components, not on their division, so that
the probability of the reverse proposal can be computed. Metropolis and Hastings's rule then applies, with
means and covariances integrated out (Jain and Neal 2004, whose launch state comes from Gibbs scans that
assign one point after the other; here all points are assigned in parallel).
"""

import numpy as np

import portable as pk

from ..shared import launch, reduce
from . import conjugate, covariance, gibbs_kernels
from .blocks import Components
from .prior import WithPrior, pooled
from .starts import some_of
from .sweeps import by_tile

_LAUNCH = 4  # EM iterations from the two points


class SplitMerge:
    """Proposals that change the assignments `labels` of points in place."""

    def __init__(self, points, kind, prior, labels, seed):
        self._kind, self._prior, self._labels = kind, prior, labels
        self._seed, self._space, self._n = np.uint64(seed), points.space, points.n
        self._counted = pk.copy_of(np.ones(points.n), points.space)
        where = {"space": points.space, "client": None}
        self._two = points.with_components(2, streamed=points.streamed, weights=self._counted, **where)
        with pk.use(points.space):
            self._sides, self._log_q = pk.zeros(points.n, np.int64), pk.zeros(points.n)

    def propose(self, components, sums, number, random):
        """Make proposal number `number`: return n_j, xbar_j and S_j after it, from those before, and whether
        it was accepted."""
        n = self._n
        first, second = (int(i) for i in random.choice(n, 2, replace=False))
        a, b = (int(self._labels[i : i + 1].to_numpy()[0]) for i in (first, second))
        empty = np.flatnonzero(sums[0] == 0.0)
        chosen, luck = random.random(2)
        split = a == b
        if split and not len(empty):
            return sums, False
        sided = self._counted, self._sides
        launch(n, gibbs_kernels.choose_members, a, b, self._labels, *sided, space=self._space)
        two = self._launch(first, second)
        halves = self._divide(two, split, number, first, second)
        log_q = reduce(n, gibbs_kernels.entry, self._log_q, space=self._space)
        after = tuple(part.copy() for part in sums)
        if split:
            b = int(empty[int(chosen * len(empty))])
            for part, own in zip(after, halves):
                part[a], part[b] = own
        else:
            for part, own in zip(after, pooled(self._kind, *halves)):
                part[a] = own
            after[0][b], after[2][b] = 0.0, 0.0
        sign = 1.0 if split else -1.0  # a merge is the reverse of a split
        gain = halves[0][1] * (components.log_weights[b] - components.log_weights[a])
        gain = sign * (gain - log_q + np.log(len(empty) + (not split)))
        # the sums before and after are computed from the same two halves, so that their rounding errors agree
        new, old = (conjugate.log_marginal(self._kind, self._prior, *own) for own in (after, sums))
        gain += new - old
        if not np.log(max(luck, covariance.TINY)) < gain:
            return sums, False
        launch(n, gibbs_kernels.relabel, a, b if split else a, *sided, self._labels, space=self._space)
        return after, True

    def _launch(self, first, second):
        """Return two components after EM iterations that start at the two points, with the covariance of the
        members."""
        kind, p = self._kind, self._two.p
        means, shares = some_of(self._two.X, [first, second]).astype(np.float64), np.array([0.5, 0.5])
        unit = covariance.for_each(kind, covariance.equal_covariances(kind, 2, np.ones(p)), 2, p)
        same = Components(np.log(shares), np.tile(self._two.centre, (2, 1)), unit)
        one = pooled(kind, *self._two.sweep(same)[1])
        model = WithPrior(self._prior, kind, shares)
        covariances = model.maximum(*(np.stack([own, own]) for own in one))[1]
        for number in range(_LAUNCH + 1):
            factors = covariance.for_each(kind, covariance.factors_of(kind, covariances), 2, p)
            found = Components(np.log(np.maximum(shares, 1e-300)), means, factors)
            if number == _LAUNCH:
                return found
            _, moments = self._two.sweep(found)
            shares = (moments[0] + 0.5) / (moments[0].sum() + 1.0)  # so that neither share is 0
            means, covariances = model.maximum(*moments)

    def _divide(self, two, drawn, number, first, second):
        """Return the moments of the two sides, which are drawn if `drawn` is True and kept otherwise."""

        def draw(sweeps, block, joint, lse):
            given = block.n, block.start, pk.static(int(drawn)), self._seed, 2**62 + number, first, second
            kept = joint, lse, self._counted, self._sides, self._log_q
            launch(by_tile(joint), gibbs_kernels.draw_sides, *given, *kept, space=sweeps.space)
            return ()

        return self._two.sweep(two, draw)[1]
