"""Proposals that split a component or merge two, so that a chain leaves a start that single assignments do
not lead out of.

Two points are drawn. If they share a component, its points are to be divided, each point on its own by the
responsibilities of two components that a few EM iterations from the two points find among them; one half goes
to a component without points. If not, their two components are to be one. What the iterations find depends on
the points of both alone, not on how they are divided, so that the way back has a probability that can be
told, and Metropolis and Hastings's rule holds with means and covariances summed out (Jain and Neal 2004,
whose launch state is one of Gibbs scans of one point after the other; here no point waits for another).
"""

from __future__ import annotations

import numpy as np

import portable as pk

from ..shared.launches import launch
from . import conjugate, covariance, gibbs_kernels
from .blocks import Components
from .prior import WithPrior, centred, pooled
from .starts import some_of
from .sweeps import by_tile

_LAUNCH = 4  # EM iterations from the two points


class SplitMerge:
    """Proposals on the assignments `labels` of some points, changed in place."""

    def __init__(self, points, kind, prior, labels, seed):
        self._kind, self._prior, self._labels = kind, prior, labels
        self._seed, self._space, self._n = np.uint64(seed), points.space, points.n
        self._counted = pk.copy_of(np.ones(points.n), points.space)
        where = {"space": points.space, "client": None}
        self._two = points.again(2, streamed=points.streamed, weights=self._counted, **where)
        with pk.use(points.space):
            self._sides, self._log_q = pk.zeros((points.n,), np.int64), pk.zeros((points.n,), np.float64)

    def propose(self, components, sums, number, random):
        """n_j, xbar_j and S_j after the proposal of that number, from those before; whether it was
        accepted."""
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
        policy = pk.RangePolicy(0, n, space=self._space)
        log_q = pk.parallel_reduce(policy, gibbs_kernels.entry, self._log_q, label="mixture.log_q")
        after = tuple(part.copy() for part in sums)
        if split:
            b = int(empty[int(chosen * len(empty))])
            for part, own in zip(after, halves):
                part[a], part[b] = own
        else:
            for part, own in zip(after, pooled(self._kind, *halves)):
                part[a] = own
            after[0][b], after[2][b] = 0.0, 0.0
        sign = 1.0 if split else -1.0  # a merge is a split from the other end
        gain = halves[0][1] * (components.log_weights[b] - components.log_weights[a])
        gain = sign * (gain - log_q + np.log(len(empty) + (not split)))
        # both sides' sums are of the two halves: what rounding there is, is the same before and after
        new, old = (conjugate.log_marginal(self._kind, self._prior, *own) for own in (after, sums))
        gain += new - old
        if not np.log(max(luck, np.finfo(float).tiny)) < gain:
            return sums, False
        launch(n, gibbs_kernels.relabel, a, b if split else a, *sided, self._labels, space=self._space)
        return after, True

    def _launch(self, first, second):
        """Return two components, from two points and the members' covariance on."""
        kind, p = self._kind, self._two.p
        means, shares = some_of(self._two.X, [first, second]).astype(np.float64), np.array([0.5, 0.5])
        unit = covariance.for_each(kind, covariance.alike(kind, 2, np.ones(p)), 2, p)
        same = Components(np.log(shares), np.tile(self._two.centre, (2, 1)), unit)
        _, *sums = self._two.sweep(same)
        one = pooled(kind, *centred(kind, *sums, same.means))
        model = WithPrior(self._prior, kind, shares)
        covariances = model.maximum(*(np.stack([own, own]) for own in one))[1]
        for number in range(_LAUNCH + 1):
            factors = covariance.for_each(kind, covariance.factors_of(kind, covariances), 2, p)
            found = Components(np.log(np.maximum(shares, 1e-300)), means, factors)
            if number == _LAUNCH:
                return found
            _, *sums = self._two.sweep(found)
            moments = centred(kind, *sums, means)
            shares = (moments[0] + 0.5) / (moments[0].sum() + 1.0)  # neither side is impossible
            means, covariances = model.maximum(*moments)

    def _divide(self, two, drawn, number, first, second):
        """Return moments of the two sides, drawn or as they are."""

        def draw(sweeps, block, joint, lse):
            given = block.n, block.start, pk.static(int(drawn)), self._seed, 2**62 + number, first, second
            kept = joint, lse, self._counted, self._sides, self._log_q
            launch(by_tile(joint), gibbs_kernels.draw_sides, *given, *kept, space=sweeps.space)
            return ()

        _, *sums = self._two.sweep(two, draw)
        return centred(self._kind, *sums, two.means)
