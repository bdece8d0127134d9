"""Choose the starts of EM: kernels choose points as first means; covariances follow from the widths of
components."""

from typing import Literal, TypeAlias

import numpy as np

import portable as pk

from ..shared import launch, new_array, reached, reduce
from . import covariance, search_kernels

Init: TypeAlias = Literal["k-means++", "random"]

# Points among which a start is sought: enough for all components to appear, and few enough for many trials. A
# component needs enough points that separating it from another raises the objective by more than its
# parameters cost: some points for each number of its mean and covariance.
_FEW, _FEW_A_COMPONENT, _FEW_A_NUMBER = 20_000, 200, 5


class Few:
    """The points among which a start is sought: all, or a random subset of many.

    Parameters
    ----------
    rows : Rows
    weights : ndarray, shape (n,), or None
    k : int
    random : Generator
    """

    def __init__(self, rows, weights, k, random):
        X, p = rows.X, rows.X.shape[1]
        few = max(_FEW, _FEW_A_COMPONENT * k, _FEW_A_NUMBER * (p + 1) * (p + 2) // 2 * k)
        self.all = len(X) <= few
        if not self.all:
            ends = np.arange(few + 1) * len(X) // few  # one point from each stretch, in order
            at = ends[:-1] + (random.random(few) * np.diff(ends)).astype(np.int64)
            X, weights = some_of(X, at), None if weights is None else weights[at]
        self.X, self.weights, self._space, self._rows = X, weights, rows.space, None

    def means(self, k, scales, how, random):
        """Choose k points, shape (k, p): at random, or with probabilities that grow with the squared distance
        from those chosen before (Arthur and Vassilvitskii 2007).

        The random number of a point is a function of the seed, the draw and the point's own coordinates. The
        choice is therefore the same in every space, for every order of the points, and if points are
        repeated.
        """
        n, space = len(self.X), self._space
        if self._rows is None:
            self._rows, self._names = reached(self.X, space), pk.empty(n, np.uint64, space)
            launch(n, search_kernels.name_rows, self._rows, self._names, space=space)
        seed, scales = int(random.integers(2**63)), pk.copy_of(scales, space)
        with pk.use(space):
            nearest, free, chosen = pk.empty(n), pk.empty(n), pk.empty(k + 1, np.int64)
            found, places = pk.empty((2, 2)), pk.empty((2, 2), np.int64)
        draws = pk.copy_of(np.zeros(2, np.int64), space)
        for view in (nearest, free):
            pk.deep_copy(view, 1.0 if self.weights is None else (self.weights > 0.0).astype(float))
        far = pk.static(int(how == "k-means++"))
        with pk.capture(space) as graph:
            for old, new in ((0, 1), (1, 0)):
                reduce(
                    n,
                    search_kernels.draw,
                    far,
                    seed,
                    draws[old : old + 1],
                    draws[new : new + 1],
                    self._names,
                    self._rows,
                    scales,
                    free,
                    found[old],
                    places[old],
                    chosen,
                    nearest,
                    reducer=(pk.MinLoc, pk.MinLoc),
                    out=tuple(view[new, j : j + 1] for j in range(2) for view in (found, places)),
                    space=space,
                )
        for _ in range(k // 2 + 1):  # each draw reads the choice of the one before; a graph holds two draws
            graph.replay()
        return some_of(self.X, chosen.to_numpy()[:k]).astype(np.float64)


def some_of(X, numbers):
    """Return the rows of X with these numbers as an ndarray; rows of a View are gathered in its space and
    then copied."""
    if isinstance(X, np.ndarray):  # twice as fast as X[numbers]; "clip" avoids a buffer
        found = new_array((len(numbers), *X.shape[1:]), X.dtype)
        return np.take(X, numbers, axis=0, out=found, mode="clip")
    if not isinstance(X, pk.View):
        return np.asarray(X[numbers])
    some = pk.empty((len(numbers), X.shape[1]), X.dtype, X.space)
    at = pk.copy_of(np.asarray(numbers, np.int64), X.space)
    launch(some.shape, search_kernels.gather_rows, at, X, some, space=X.space)
    return some.to_numpy()


def typical(kind, counts, covariances, variances):
    """Return a matrix, shape (p, p), as wide as the components are: the harmonic mean of their covariances,
    weighted by counts.

    In the inverse of a mean of inverses narrow components dominate. This is intended: the loss under a prior
    that is too wide for a component is proportional to the excess, but only logarithmic under one that is too
    narrow.
    """
    share = counts / counts.sum()
    each = covariance.for_each(kind, covariances, len(counts), len(variances))
    if covariance.is_diagonal(kind):
        return np.diag(1.0 / (share @ (1.0 / each)))
    middle = np.linalg.inv(np.einsum("j,jab->ab", share, np.linalg.inv(covariance.solid(each, variances))))
    return 0.5 * (middle + middle.T)
