"""A launch with six arrays, in plain numba-cuda."""

import functools
import warnings

import numpy as np
from numba import cuda

from portable.roofline.contract import Contender

if not cuda.is_available():
    raise ImportError("numba-cuda finds no CUDA device")

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
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*Grid size"
        )  # few blocks leave a GPU idle: here that is the point
        kernel = _add_five[-(-n // BLOCK), BLOCK]
    launch = functools.partial(kernel, n, *arrays)
    return [Contender("numba-cuda", launch, sync=cuda.synchronize)]


@cuda.jit
def _add_five(n, a, b, c, d, e, f):
    i = cuda.grid(1)
    if i < n:
        a[i] = b[i] + c[i] + d[i] + e[i] + f[i]
