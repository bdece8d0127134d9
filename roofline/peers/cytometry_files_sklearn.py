"""k-means whose clusters are joined, on cells without labels: how far fits agree."""

from portable.roofline.contract import Contender

from .cytometry_sklearn import limited, merged

NAME = "k-means with merging, told our number"


def contenders(file, *, threads=None):
    """k-means with merging.

    Parameters
    ----------
    file : portable.roofline.cases.cytometry_files.File
    threads : int, optional
        All cores if not given.

    Returns
    -------
    list of Contender
    """

    def labels(use, seed):
        with limited(threads):
            return merged(file.X[use], file.number(), seed, 1)(file.X)

    file.ways[NAME] = labels
    return [Contender(NAME, lambda: labels(file.all, 0))]
