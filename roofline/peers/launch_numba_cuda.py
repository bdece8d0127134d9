"""A launch with six arrays, in plain numba-cuda."""

import functools

import numpy as np
from numba import cuda

from portable.roofline.contract import Contender
from portable.roofline.peers.numba_grids import configured

BLOCK = 128


def contenders(n, length):
    """A launch whose grid was chosen before, as in a loop of many.

    Parameters
    ----------
    n : int
        Indices that the kernel visits.
    length : int
        Of each array.

    Returns
    -------
    list of Contender
    """
    arrays = [cuda.to_device(np.zeros(length)) for _ in range(6)]
    launch = functools.partial(configured(_add_five, -(-n // BLOCK), BLOCK), n, *arrays)
    return [Contender("numba-cuda", launch, sync=cuda.synchronize)]


@cuda.jit
def _add_five(n, a, b, c, d, e, f):
    i = cuda.grid(1)
    if i < n:
        a[i] = b[i] + c[i] + d[i] + e[i] + f[i]
