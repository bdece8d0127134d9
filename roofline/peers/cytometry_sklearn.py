"""Populations by scikit-learn, told their number: the best of some mixtures, and k-means whose clusters are
joined."""

import os
import warnings

from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from portable.roofline.contract import Contender

ITERATIONS = 300
CLUSTERS = 100  # as the map of ten by ten nodes that FlowSOM begins with


def contenders(problem, judge, *, starts, threads=None):
    """GaussianMixture, and k-means with merging.

    Parameters
    ----------
    problem : portable.roofline.cases.cytometry.Problem
    judge : callable of labels and a name
        Keeps what was found and returns its adjusted Rand index.
    starts : int
    threads : int, optional
        All cores if not given.

    Returns
    -------
    list of Contender
    """

    mixture = GaussianMixture(problem.k, n_init=starts, max_iter=ITERATIONS, random_state=0)
    ways = {
        "GaussianMixture, told the number": lambda: mixture.fit_predict(problem.X),
        "k-means with merging, told the number": lambda: merged(problem.X, problem.k, 0, starts)(problem.X),
    }

    return [judged(name, way, judge, threads) for name, way in ways.items()]


def limited(threads):
    """Return a context with so many threads, at most all cores."""
    return threadpool_limits(min(threads or os.cpu_count(), os.cpu_count()))


def judged(name, way, judge, threads):
    """Return a Contender that finds labels by `way`, on so many threads or all cores."""
    found = {}

    def fit():
        with limited(threads), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found["labels"] = way()

    return Contender(name, fit, result=lambda: judge(found["labels"], name))


def merged(X, k, seed, starts):
    """Many clusters by k-means, whose means are joined by average linkage until k are left; labels of
    points, as a function."""
    means = KMeans(min(CLUSTERS, len(X) // 5), n_init=starts, random_state=seed).fit(X)
    joined = AgglomerativeClustering(k, linkage="average").fit_predict(means.cluster_centers_)
    return lambda points: joined[means.predict(points)]
