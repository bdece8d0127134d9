"""A call of a compiled function with six arrays, in plain numba."""

import functools

import numpy as np
from numba import njit, prange

from portable.roofline.contract import Contender
from portable.roofline.peers.numba_threads import set_threads


def contenders(n, length, *, threads):
    """The dispatch of numba; parallel where there are several threads.

    Parameters
    ----------
    n : int
        Indices that the loop visits.
    length : int
        Of each array.
    threads : int
        CPU threads; 1 is compiled without parallel=True.

    Returns
    -------
    list of Contender
    """
    set_threads(threads)
    loop = njit(parallel=threads > 1)(_add_five)
    arrays = [np.zeros(length) for _ in range(6)]
    return [
        Contender(
            f"numba, njit{'(parallel=True)' if threads > 1 else ''}", functools.partial(loop, n, *arrays)
        )
    ]


def _add_five(n, a, b, c, d, e, f):
    for i in prange(n):
        a[i] = b[i] + c[i] + d[i] + e[i] + f[i]
