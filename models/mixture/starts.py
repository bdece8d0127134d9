"""Where EM starts: points as first means, chosen by kernels, and how wide components are."""

from __future__ import annotations

import numpy as np

import portable as pk

from ..arrays import reached
from . import covariance, search_kernels

STARTS = ("k-means++", "random")

# Points among which a start is sought: enough for the components to show, and few enough for many trials. Of
# a component as many that telling it from another is worth more than what it costs: some for each number of
# its mean and covariance.
_FEW, _FEW_A_COMPONENT, _FEW_A_NUMBER = 20_000, 200, 5


class Few:
    """The points among which a start is sought: all, or some at random where they are many.

    Parameters
    ----------
    X : ndarray, shape (n, p)
    weights : ndarray, shape (n,), or None
    k : int
    random : Generator
    space : Space
    """

    def __init__(self, X, weights, k, random, space):
        p = X.shape[1]
        few = max(_FEW, max(_FEW_A_COMPONENT, _FEW_A_NUMBER * (p + 1) * (p + 2) // 2) * k)
        self.all = len(X) <= few
        if not self.all:
            at = np.sort(random.choice(len(X), few, replace=False))
            X, weights = X[at], None if weights is None else weights[at]
        self.X, self.weights, self._space = np.asarray(X), weights, space
        self._rows = None

    def means(self, k, scales, how, random):
        """k points, shape (k, p): at random, or (Arthur and Vassilvitskii 2007) with probabilities that grow
        with the squared distance
        from those chosen before.

        A point's luck is a function of seed, draw and its own coordinates, so that the choice is the same on
        every space, in every order of the points, and however often they are repeated.
        """
        n, space = len(self.X), self._space
        policy = pk.RangePolicy(0, n, space=space)
        if self._rows is None:
            self._rows, self._names = reached(self.X, space), pk.empty((n,), np.uint64, space)
            pk.parallel_for(
                policy, search_kernels.name_rows, self._rows, self._names, label="mixture.name_rows"
            )
        seed, scales = int(random.integers(2**63)), pk.copy_of(scales, space)
        ones = np.ones(n) if self.weights is None else (self.weights > 0.0).astype(float)
        nearest, free = pk.copy_of(ones, space), pk.copy_of(ones, space)
        chosen = []
        for draw in range(k):
            when, at = pk.parallel_reduce(
                policy,
                search_kernels.arrival,
                seed,
                draw,
                self._names,
                nearest,
                reducer=pk.MinLoc,
                label="mixture.arrival",
            )
            if when == np.inf:  # fewer distinct points than components
                _, at = pk.parallel_reduce(
                    policy,
                    search_kernels.arrival,
                    seed,
                    draw,
                    self._names,
                    free,
                    reducer=pk.MinLoc,
                    label="mixture.arrival",
                )
            chosen.append(int(at))
            if draw == 0 and how == "k-means++":
                pk.deep_copy(nearest, np.where(ones > 0.0, np.inf, 0.0))
            pk.parallel_for(
                policy,
                search_kernels.approach,
                pk.static(int(how == "k-means++")),
                self._rows,
                scales,
                chosen[-1],
                nearest,
                label="mixture.approach",
            )
        return np.asarray(self.X[chosen], np.float64)


def typical(kind, counts, covariances, p):
    """A matrix, shape (p, p), as wide as the components are: the harmonic mean of their covariances, weighted
    by counts.

    The inverse of a mean of inverses lets the narrow ones decide: a prior that is too wide for a component
    costs in proportion, one that
    is too narrow by a logarithm.
    """
    share = counts / counts.sum()
    each = covariance.for_each(kind, covariances, len(counts), p)
    if covariance.is_diagonal(kind):
        return np.diag(1.0 / (share @ (1.0 / each)))
    middle = np.linalg.inv(np.einsum("j,jab->ab", share, np.linalg.inv(each)))
    return 0.5 * (middle + middle.T)
