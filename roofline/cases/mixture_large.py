"""A whole fit of a million points of 20 dimensions, start and moves included, against one iteration of
scikit-learn.

The points are from 100 clusters of deviation 1, whose means are normal with deviation 2.2: near pairs are
some seven apart. Ours is offered 100 components and ends when EM has converged (tol = 1e-6) and no move
raises the objective; scikit-learn's GaussianMixture does one EM iteration from the clusters' means.
"""

import numpy as np

from portable.models.mixture import DirichletMixture
from portable.models.mixture.fitting import agreement
from portable.roofline.cases import common

P, K, APART = 20, 100, 2.2
PART = 20_000  # points of the warm-up call


def duels(space, n, quick):
    """Return the duel with one iteration; see `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    p, k = (2, 3) if small else (P, K)
    n = n or common.size(space, quick, 100, 1_000, 1_000_000, 1_000_000)
    random = np.random.default_rng(0)
    means = random.normal(0.0, 4.0 * APART if small else APART, (k, p))
    labels = random.integers(0, k, n)
    X = means[labels] + random.normal(size=(n, p))
    found = {}

    def fit():
        """Fit the points; the first call fits a part with a large tolerance, to compile all kernels without
        an untimed whole fit.
        """
        part, tol = (X, 1e-6) if found else (X[:PART], 1.0)
        found["model"] = DirichletMixture(k, tol=tol, random_state=0, space=space).fit(part)

    def describe(rows):
        model = found["model"]
        return (
            f"{model.n_active_} components found, {'converged' if model.converged_ else 'stopped'} after "
            f"{model.n_iter_} iterations and {len(model.moves_)} moves on all points, "
            f"adjusted Rand index {agreement(model.predict(X), labels):.4f}"
        )

    title = (
        f"a fit of {n:,} points, {p} dimensions, {k} clusters and components, to convergence, "
        "against one iteration"
    )
    about = {"tools": ["sklearn"], "rounds": 1, "told": describe}
    return [common.duel(title, space, fit, "mixture_em", X, means, **about)]
