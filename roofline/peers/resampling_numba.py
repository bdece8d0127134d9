"""Resampling by particles 0.4 (Chopin), whose loops are numba's, on one thread: it has no other."""

from particles import resampling

from roofline.contract import Contender


def contenders(scheme, x, w, *, threads):
    """The library's own call, from normalised weights, as its filter makes it.

    Parameters
    ----------
    scheme : str
    x : ndarray, shape (n,)
        States, of which the result is the mean.
    w : ndarray, shape (n,)
    threads : int
        What ours may use.

    Returns
    -------
    list of Contender
    """
    draw, normalised = getattr(resampling, scheme), w / w.sum()
    return [Contender("particles, numba", lambda: draw(normalised), result=lambda: float(x[draw(normalised)].mean()))]
