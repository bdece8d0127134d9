"""Whole fits without a given number of clusters: the number that they find, their quality, and their time.

Thirty sets are simulated, none of which was used for tuning: 2 to 20 dimensions, 3 to 12 clusters with
separate covariances (variances 0.4 to 2.5 along axes in random directions), sizes of at least 1 %. The
separation of two clusters is sqrt(d' S^-1 d) with d the difference of their means and S the mean of their
covariances; for each set the separation of its nearest pair is printed. Ours is offered twice the true number
of components and has no other information. Both estimators of scikit-learn take the best of 10 starts:
BayesianGaussianMixture is offered as many components as ours, and GaussianMixture, which cannot choose, is
given the true number. A number is correct if as many components have more than p + 1 points; quality is the
adjusted Rand index of labels with the true clusters of the points.

`--n` divides all sizes by 20,000 / n. With --quick there are two small sets, and two starts.
"""

from dataclasses import dataclass

import numpy as np

from portable.models.mixture import DirichletMixture
from portable.models.mixture.fitting import agreement
from portable.roofline.cases import common

SETS = range(60, 90)  # the method was tuned on sets below 60
DIMENSIONS = sorted([*range(2, 7)] * 3 + [*range(7, 11), 20] * 2 + [11, 12, 14, 16, 18])
SEPARATIONS = (4.0, 5.0, 6.0, 8.0)
SMALLEST = 0.01  # share of a cluster
OURS = "portable"
LARGEST = 20_000  # points


@dataclass(frozen=True)
class Problem:
    """Store points with their clusters.

    Parameters
    ----------
    X : ndarray, shape (n, p)
    labels : ndarray, shape (n,)
    k : int
    separation : float
    """

    X: np.ndarray
    labels: np.ndarray
    k: int
    separation: float


def problem(number, share=1.0):
    """Return the set of a number, with a share of its points."""
    random, p = np.random.default_rng(number), DIMENSIONS[number % len(DIMENSIONS)]
    k = 3 + 7 * number % 10
    separation = SEPARATIONS[number % 4] + (p >= 8) + (p >= 14)
    n = max(round(share * (5_000 if p < 5 else 10_000 if p < 14 else LARGEST)), 40 * k)
    weights = random.dirichlet(np.full(k, 3.0))
    weights = np.maximum(weights, SMALLEST)
    weights[0] = SMALLEST
    weights[1:] *= (1.0 - SMALLEST) / weights[1:].sum()
    axes = np.linalg.qr(random.normal(size=(k, p, p)))[0]
    variances = np.exp(random.uniform(np.log(0.4), np.log(2.5), (k, p)))
    covariances = np.einsum("jab,jb,jcb->jac", axes, variances, axes)
    means = random.normal(size=(k, p))
    away = min(
        _separation(means[a] - means[b], covariances[a], covariances[b]) for a in range(k) for b in range(a)
    )
    labels = random.choice(k, n, p=weights)
    noise = np.einsum("iab,ib->ia", np.linalg.cholesky(covariances)[labels], random.normal(size=(n, p)))
    return Problem(means[labels] * (separation / away) + noise, labels, k, separation)


def _separation(d, one, other):
    return np.sqrt(d @ np.linalg.solve(0.5 * (one + other), d))


def duels(space, n, quick):
    """Return the duels of ours with each peer; see `portable.roofline.cases.Case`."""
    small = space == "checked"
    share = 0.02 if small else (n or (2_000 if quick else LARGEST)) / LARGEST
    numbers = SETS[:1] if small else SETS[:7:6] if quick else SETS
    tally = common.Tally("the right number in")
    return [_duel(space, number, share, quick or small, tally) for number in numbers]


def _duel(space, number, share, quick, tally):
    data = problem(number, share)
    most, found = 2 * data.k, {}

    def fit():
        found["model"] = DirichletMixture(
            most,
            random_state=0,
            max_iter=3 if space == "checked" else 1000,
            tol=-1.0 if space == "checked" else 1e-6,
            space=space,
        ).fit(data.X)

    def judge(labels, name, n=None):
        """Return the index; the found number is `n`, by default of components with more than p + 1 points."""
        n = n or int((np.bincount(labels) > data.X.shape[1] + 1).sum())
        return tally.keep(number, name, agreement(labels, data.labels), f"{n} found", n == data.k)

    def result():
        model = found["model"]
        return judge(model.predict(data.X), OURS, model.n_active_)

    n, p = data.X.shape
    title = (
        f"fit, set {number}: {n:,} points, {p} dimensions, {data.k} clusters at least "
        f"{data.separation:g} apart, {most} components offered"
    )
    about = {"tools": ["sklearn"], "tolerance": 10.0, "rounds": 1, "result": result}
    about["told"] = lambda rows: f"{data.k} clusters; {tally.lines_told(number)}"
    about["options"] = {"starts": 2 if quick else 10}
    return common.duel(title, space, fit, "mixture_fit", data, most, judge, **about)
