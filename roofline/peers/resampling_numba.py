"""Resampling by particles 0.4 (Chopin), whose loops are numba's, on one thread: it has no other."""

from portable.roofline.contract import Contender

try:
    from particles import resampling
except ImportError as error:
    raise ImportError(
        f"{error}; `pip install --no-deps particles==0.4` brings it, which asks for NumPy "
        "below 2, though its "
        "resampling runs with NumPy 2"
    ) from error


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
    return [
        Contender(
            "particles, numba", lambda: draw(normalised), result=lambda: float(x[draw(normalised)].mean())
        )
    ]
