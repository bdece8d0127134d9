"""A launch with six arrays, in CUDA C++ through CuPy's RawKernel."""

import functools

import cupy
import numpy as np

from portable.roofline.contract import Contender

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

BLOCK = 128

SOURCE = r"""
extern "C" __global__ void
add_five(int n, double* a, const double* b, const double* c, const double* d, const double* e,
    const double* f) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = b[i] + c[i] + d[i] + e[i] + f[i];
}
"""


def contenders(n, length):
    """A launch whose arguments are ready, as in a loop of many.

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
    kernel = cupy.RawKernel(SOURCE, "add_five", options=("-std=c++17",))
    arrays = [cupy.zeros(length) for _ in range(6)]
    launch = functools.partial(kernel, (-(-n // BLOCK),), (BLOCK,), (np.int32(n), *arrays))
    return [Contender("CUDA C++, RawKernel", launch, sync=cupy.cuda.Device().synchronize)]
