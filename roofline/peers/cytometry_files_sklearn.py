"""k-means whose clusters are joined, on cells without labels: how far fits agree."""

import os

from threadpoolctl import threadpool_limits

from portable.roofline.contract import Contender

from .cytometry_sklearn import merged

NAME = "k-means with merging, told our number"


def contenders(file, *, threads=None):
    """k-means with merging.

    Parameters
    ----------
    file : portable.roofline.cases.cytometry._File
    threads : int, optional
        All cores if not given.

    Returns
    -------
    list of Contender
    """

    def fit():
        with threadpool_limits(min(threads or os.cpu_count(), os.cpu_count())):
            file.judge(lambda use, seed: merged(file.X[use], file.number(), seed, 1)(file.X), NAME)

    return [Contender(NAME, fit)]
