"""Where EM starts: points as first means."""

from __future__ import annotations

import numpy as np

STARTS = ("k-means++", "random")

# Points among which a start is sought: enough for the centres, and few enough to look at on the host.
_SEED_POINTS, _SEEDS_A_COMPONENT = 20_000, 20


def first_means(X, k, scales, how, random):
    """k points of X, shape (k, p), chosen at random or (Arthur and Vassilvitskii 2007) far from those chosen before."""
    few = min(len(X), max(_SEED_POINTS, _SEEDS_A_COMPONENT * k))
    X = np.asarray(X[np.sort(random.choice(len(X), few, replace=False))], np.float64)
    if how == "random":
        return X[random.choice(few, k, replace=few < k)]
    chosen = [random.integers(few)]
    nearest = np.full(few, np.inf)
    while len(chosen) < k:
        nearest = np.minimum(nearest, (((X - X[chosen[-1]]) / scales) ** 2).sum(axis=1))
        total = nearest.sum()  # 0 where fewer distinct points than components
        chosen.append(random.choice(few, p=nearest / total if total > 0.0 else None))
    return X[chosen]
