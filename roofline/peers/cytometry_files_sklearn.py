"""k-means whose clusters are joined, on cells without labels: how far fits agree."""

import os

import numpy as np
from threadpoolctl import threadpool_limits

from roofline.contract import Contender

from .cytometry_sklearn import merged

NAME = "k-means with merging, told our number"


def contenders(X, number, between, keep, *, threads=None):
    """k-means with merging.

    Parameters
    ----------
    X : ndarray, shape (n, p)
    number : callable
        Gives the clusters that are wanted.
    between : callable of a function of cells and seed, and all cells
        See `roofline.cases.cytometry.between`.
    keep : callable of a name and what `between` gave
    threads : int, optional
        All cores if not given.

    Returns
    -------
    list of Contender
    """
    def fit():
        with threadpool_limits(min(threads or os.cpu_count(), os.cpu_count())):
            keep(NAME, between(lambda use, seed: merged(X[use], number(), seed, 1)(X), np.arange(len(X))))

    return [Contender(NAME, fit)]
