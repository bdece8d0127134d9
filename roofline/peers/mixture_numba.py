"""A kernel text over many points, in plain numba."""

import numpy as np
from numba import njit, prange

from portable.roofline.contract import Contender
from portable.roofline.peers.numba_threads import set_threads


def contenders(text, x, rec, *, threads):
    """The text as it stands, and with fastmath=True.

    Parameters
    ----------
    text : function (i, x, rec, out)
        What one point does.
    x : ndarray, shape (n_dims, n_points)
    rec : ndarray, shape (n_components, n_numbers)
    threads : int
        CPU threads; 1 is compiled without parallel=True.

    Returns
    -------
    list of Contender
    """
    set_threads(threads)
    found = []
    for fastmath in (False, True):
        out = np.empty(x.shape[1])
        point = njit(fastmath=fastmath)(text)
        loop = _over_points(point, threads > 1, fastmath)
        found.append(
            Contender(
                f"numba{', fastmath=True' if fastmath else ''}",
                lambda loop=loop, out=out: loop(x, rec, out),
                result=lambda out=out: float(np.log(out).sum()),
            )
        )
    return found


def _over_points(point, parallel, fastmath):
    @njit(parallel=parallel, fastmath=fastmath)
    def loop(x, rec, out):
        for i in prange(x.shape[1]):
            point(i, x, rec, out)

    return loop
