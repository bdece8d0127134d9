"""Count the clusters found in ten shapes: `python -m tests.models.mixture.shapes`.

A family is chosen for each shape by held-out likelihood (`mixture.select`): normal components under a
prior, t components, either with uniform noise, and normal components of logarithms where all coordinates
are positive. Numbers of clusters come from the prior's moves, or, without a prior, from the candidates.
Columns: the true number, the number found, the adjusted Rand index of the labels, the family, seconds.
"""

import argparse
import sys
import time
import warnings
from dataclasses import dataclass

import numpy as np

from portable.models import mixture
from portable.models.mixture.fitting import agreement

OFFERED, MOST = 12, 6  # components under a prior; those of t mixtures


@dataclass(frozen=True)
class Shape:
    """Points, shape (n, p), with the cluster of each, -1 for noise."""

    name: str
    X: np.ndarray
    labels: np.ndarray

    @property
    def k(self):
        return len(set(self.labels.tolist()) - {-1})


def _of(random, sizes, means, factors, noise=None):
    """Return normal clusters, or clusters of the distribution `noise`."""
    parts = []
    for n, mean, factor in zip(sizes, means, factors):
        own = random.normal(size=(n, len(mean))) if noise is None else noise(random, n, len(mean))
        parts.append(np.asarray(mean) + own @ np.atleast_2d(factor).T)
    return np.concatenate(parts), np.repeat(np.arange(len(sizes)), sizes)


def shapes(n=3000, seed=0):
    """Return the ten shapes, of about n points each."""
    random, eye = np.random.default_rng(seed), np.eye(2)
    three = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    equal = [n // 3] * 3
    yield Shape("separate", *_of(random, [n // 4] * 4, [[0, 0], [9, 0], [0, 9], [9, 9]], [eye] * 4))
    yield Shape("overlap", *_of(random, equal, three / 3.2, [eye] * 3))
    sizes = [n * 10 // 11, n // 14, n // 100, n // 150]
    yield Shape("unequal", *_of(random, sizes, [[0, 0], [8, 0], [0, 8], [-8, -8]], [eye, *[eye * 0.6] * 3]))
    turned = [np.array([[3.0, 0.0], [a, 0.4]]) for a in (2.0, -2.0, 0.0)]
    yield Shape("anisotropic", *_of(random, equal, [[0, 0], [8, 6], [0, 8]], turned))
    yield Shape("widths", *_of(random, equal, [[0, 0], [1, 1], [12, 0]], [eye * 4, eye * 0.3, eye]))
    yield Shape("t", *_of(random, equal, three, [eye] * 3, lambda r, n, p: _t(r, 4.0, n, p)))
    X, labels = _of(random, equal, three, [eye * 0.7] * 3)
    far = random.uniform(-6.0, 15.0, (n // 10, 2))
    yield Shape("noise", np.concatenate([X, far]), np.append(labels, np.full(len(far), -1)))
    means = random.normal(size=(6, 8)) * 4.0
    yield Shape("eight", *_of(random, [n // 2] * 6, means, [np.eye(8)] * 6))
    X, labels = _of(random, [n // 2] * 2, [[0, 0], [2.2, 2.2]], [eye * 0.5] * 2)
    yield Shape("log-normal", np.exp(X), labels)
    yield Shape("one", *_of(random, [n], [[0, 0]], [np.array([[1.0, 0.0], [0.5, 1.0]])]))


def _t(random, dof, n, p):
    return random.normal(size=(n, p)) / np.sqrt(random.chisquare(dof, (n, 1)) / dof)


def candidates(seed=0, space=None, most=MOST):
    """Return mixtures of each family, by name."""
    keys = {"random_state": seed, "space": space}
    found = {"normal": mixture.DirichletMixture(OFFERED, **keys)}
    for k in range(1, most + 1):
        found[f"t {k}"] = mixture.TMixture(k, n_init=4, **keys)
    for k in range(1, most + 1):
        found[f"normal and noise {k}"] = mixture.TMixture(k, dof=np.inf, noise=True, n_init=4, **keys)
    return found


def found_in(shape, seed=0, space="serial", n_folds=3, most=MOST):
    """Return labels by the best family, and its name."""
    tried = {"": shape.X}
    if (shape.X > 0.0).all():
        tried["log "] = np.log(shape.X)
    best = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # some candidates are too many for the points
        for prefix, X in tried.items():
            models = candidates(seed, space, most)
            chosen = mixture.select(models, X, n_folds=n_folds, seed=seed)
            score = chosen.scores[chosen.names.index(chosen.best)]
            # convert a density of logarithms to one of the points
            score -= 0.0 if not prefix else X.sum(axis=1).mean()
            if best is None or score > best[0]:
                best = score, prefix + chosen.best, models[chosen.best], X
    _, name, model, X = best
    return model.fit(X).predict(X), name


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.models.mixture.shapes", description=__doc__)
    parser.add_argument("--n", type=int, default=3000, help="points of a shape (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--only", nargs="+", help="names of shapes")
    options = parser.parse_args(argv)
    right = 0
    for shape in shapes(options.n, options.seed):
        if options.only and shape.name not in options.only:
            continue
        start = time.perf_counter()
        labels, name = found_in(shape, options.seed)
        n, rand = len(set(labels.tolist()) - {-1}), agreement(labels, shape.labels)
        right += n == shape.k
        took = time.perf_counter() - start
        print(f"{shape.name:12s} {shape.k:2d} {n:2d} {rand:6.3f}  {name:20s} {took:6.1f}", flush=True)
    print(f"{right} right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
